//! Taking a call back: exactly its paths, bytes and modes, as an act of the operator that the log shows.

use super::{bodies, call, check, content, invoke, member, read, spent, write};
use crate::support::{World, keys};
use std::os::unix::fs::PermissionsExt;
use worldlog::event::{Body, Front, Verdict};
use worldlog::ledger::{InspectOptions, inspect};
use worldlog::service::UndoError;
use worldlog::store::memory::Fault;
use worldlog::verify::Trust;

fn why(world: &World, entry: u64) -> String {
    world.service.undo(entry).expect_err("nothing is taken back").to_string()
}

#[test]
fn a_write_is_taken_back_with_its_bytes_and_mode() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let bytes = b"\xff\x00 not text\r\n";
    let path = world.worktree().join("a.bin");
    world.bytes("a.bin", bytes);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).expect("a mode");
    invoke(&world, &token, write("a.bin", "text")).expect("an answer");
    let undone = world.service.undo(0).expect("taken back");
    assert_eq!((undone.entry, undone.paths.as_slice()), (1, ["a.bin".to_owned()].as_slice()));
    assert_eq!(std::fs::read(&path).expect("a file"), bytes);
    assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o7777, 0o750);
    // It cost nothing, nobody's grant was used, and an audit lists it.
    assert_eq!(spent(&world), (1, 0));
    let plan = bodies(&world).into_iter().rev().find_map(|body| match body {
        Body::Plan(plan) => Some(plan),
        _ => None,
    });
    let plan = plan.expect("a plan");
    assert_eq!((plan.front, plan.session, plan.transition), (Front::Admin, None, None));
    let trust = Trust { keys: vec![keys().verifier_key().clone()], seen: None };
    let options = InspectOptions { trust, payloads: true, ..InspectOptions::default() };
    let report = inspect(world.store.as_ref(), &options).report;
    assert_eq!(report.operator_acts_count, 1);
    assert_eq!(report.operator_acts[0].1, "undo");
    // The session has not seen it: its next write there is refused until it reads.
    let refused = invoke(&world, &token, write("a.bin", "mine")).expect("an answer");
    assert!(
        member(&refused, "refused").as_str().is_some_and(|text| text.contains("changed since"))
    );
    // An undo is taken back like any other call.
    world.service.undo(1).expect("taken back");
    assert_eq!(content(&world, "a.bin").as_deref(), Some("text"));
}

#[test]
fn what_was_made_goes_and_what_was_removed_or_moved_comes_back() {
    let world = World::new();
    let token = world.agent("ep1", 20);
    invoke(&world, &token, write("new/deep/a.txt", "one")).expect("an answer");
    world.service.undo(0).expect("taken back");
    assert_eq!(content(&world, "new/deep/a.txt"), None);
    let steps = [
        ("workspace-move", r#"{"from":"hello.ail","to":"other.ail"}"#),
        ("workspace-remove", r#"{"path":"emoji.txt"}"#),
        ("workspace-mkdir", r#"{"path":"made"}"#),
    ];
    let (hello, emoji) = (content(&world, "hello.ail"), content(&world, "emoji.txt"));
    for (tool, args) in steps {
        let answer = invoke(&world, &token, call(tool, args)).expect("an answer");
        assert_eq!(answer.problem, None, "{tool}");
        world.service.undo(answer.receipt.entry).expect(tool);
        assert_eq!(content(&world, "hello.ail"), hello, "{tool}");
        assert_eq!(content(&world, "emoji.txt"), emoji, "{tool}");
        assert!(!world.worktree().join("made").exists());
    }
    check(&world.crash());
}

#[test]
fn nothing_is_taken_back_that_moved_on_or_changed_nothing() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    invoke(&world, &token, write("a.txt", "one")).expect("an answer");
    invoke(&world, &token, read("a.txt")).expect("an answer");
    invoke(&world, &token, call("ailang-read", "{}")).expect("an answer");
    invoke(&world, &token, write(".git/x", "no")).expect("an answer");
    world.file("a.txt", "theirs");
    let events = bodies(&world).len();
    assert!(why(&world, 0).contains("not what the call left"));
    assert!(why(&world, 1).contains("changed no file"));
    assert!(why(&world, 2).contains("had no effect"));
    assert!(why(&world, 3).contains("changed no file"));
    assert!(why(&world, 99).contains("no entry 99"));
    assert_eq!(bodies(&world).len(), events, "nothing is recorded for an undo that cannot be");
    assert_eq!(content(&world, "a.txt").as_deref(), Some("theirs"));
}

#[test]
fn an_undo_that_is_cut_off_is_settled_like_a_write() {
    for (sync, fault, entries) in [
        (1, Fault::NotCommitted, 1),
        (1, Fault::Persisted, 1),
        (2, Fault::Lost, 2),
        (2, Fault::Persisted, 2),
    ] {
        let world = World::new();
        let token = world.agent("ep1", 10);
        world.file("a.txt", "zero");
        invoke(&world, &token, write("a.txt", "one")).expect("an answer");
        world.store.fail_at(sync, fault);
        let error = world.service.undo(0).expect_err("cut off");
        let ran = content(&world, "a.txt").as_deref() == Some("zero");
        assert_eq!(matches!(error, UndoError::Unconfirmed { .. }), ran, "{error}");
        let after = world.crash();
        let state = check(&after);
        assert_eq!(state.entries(), entries, "sync {sync}, {fault:?}");
        let doubts = bodies(&after)
            .iter()
            .any(|body| matches!(body, Body::Closure(c) if c.verdict == Verdict::InDoubt));
        assert!(!doubts);
        if !ran {
            after.service.undo(0).expect("taken back");
        }
        assert_eq!(content(&after, "a.txt").as_deref(), Some("zero"));
        assert_eq!(spent(&after), (1, 0));
    }
}
