//! Files as they were at any leaf: by an index that may be lost, in a log of many calls, with what nobody knows told.

use super::{call, caller, check, ep, invoke, write};
use crate::support::World;
use base64ct::{Base64, Encoding};
use worldlog::canon::Value;
use worldlog::event::{B16, Redaction, RedactionReason};
use worldlog::ledger::{Draft, Submission};
use worldlog::merkle::hash::sha256;
use worldlog::service::{CallError, FileError, FileView, ObjectError};
use worldlog::store::memory::Fault;

fn look(world: &World, token: &str, path: &str, at: Option<u64>) -> FileView {
    world.service.file_at(&caller(world, token), &ep(), path, at).expect("a view")
}

fn word(view: &FileView, name: &str) -> String {
    let value = view.to_value(true);
    value.get(name).and_then(Value::as_str).unwrap_or("-").to_owned()
}

fn bytes(view: &FileView) -> String {
    let bytes = Base64::decode_vec(&word(view, "payload")).expect("base64");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn every_version_is_found_whatever_happens_to_the_index() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 1_000), world.agent("ep2", 1_000));
    let mut versions = Vec::new();
    for n in 0..12 {
        let text = format!("version {n}");
        let answer = invoke(&world, &token, write("a.txt", &text)).expect("it");
        versions.push((answer.receipt.leaf, text));
        // The same name elsewhere is another file, and other files come between.
        invoke(&world, &other, write("a.txt", "foreign")).expect("it");
        invoke(&world, &token, write(&format!("b{n}.txt"), "x")).expect("it");
        if n == 5 {
            world.service.ledger().tend().expect("tended");
        }
    }
    let holds = |world: &World| {
        for (leaf, text) in &versions {
            assert_eq!(&bytes(&look(world, &token, "a.txt", Some(*leaf))), text);
            assert_eq!(&bytes(&look(world, &token, "a.txt", Some(leaf + 1))), text);
        }
        let before = look(world, &token, "a.txt", Some(versions[0].0 - 1));
        assert_eq!(word(&before, "state"), "never-written");
        assert_eq!(bytes(&look(world, &token, "a.txt", None)), "version 11");
        assert_eq!(word(&look(world, &token, "b5.txt", None), "state"), "present");
        assert_eq!(word(&look(world, &token, "b12.txt", None), "state"), "never-written");
    };
    holds(&world);
    let after = world.crash();
    holds(&after);
    invoke(&after, &token, write("c.txt", "it goes on")).expect("it");
    holds(&after);
    after.service.ledger().tend().expect("tended");
    holds(&after);
    holds(&after.crash());
}

#[test]
fn an_undo_is_a_change_and_a_refusal_is_none() {
    let world = World::new();
    let token = world.agent("ep1", 100);
    invoke(&world, &token, write("a.txt", "one")).expect("it");
    let two = invoke(&world, &token, write("a.txt", "two")).expect("it");
    // It names the file in its intent, or in none, and changes nothing.
    let edit = r#"{"path":"a.txt","old_text":"nowhere","new_text":"x"}"#;
    let refused = invoke(&world, &token, call("ailang-edit", edit)).expect("it");
    assert!(refused.problem.is_some());
    let view = look(&world, &token, "a.txt", None);
    assert_eq!((bytes(&view), view.doubt.clone()), ("two".to_owned(), None));
    assert_eq!(view.change.expect("a change").leaf, two.receipt.leaf);
    world.service.undo(two.receipt.entry).expect("taken back");
    assert_eq!(bytes(&look(&world, &token, "a.txt", None)), "one");
    assert_eq!(bytes(&look(&world, &token, "a.txt", Some(two.receipt.leaf))), "two");
}

#[test]
fn a_folder_is_followed_through_moves_and_their_undoing() {
    let world = World::new();
    let token = world.agent("ep1", 100);
    let run = |tool: &str, args: &str| {
        let answer = invoke(&world, &token, call(tool, args)).expect("it");
        assert_eq!(answer.problem, None, "{tool} {args}");
        answer.receipt
    };
    run("ailang-write", r#"{"path":"a/b/f","content":"1"}"#);
    let moved = run("workspace-move", r#"{"from":"a/b","to":"c"}"#);
    run("ailang-write", r#"{"path":"c/f","content":"2"}"#);
    run("workspace-move", r#"{"from":"c","to":"d"}"#);
    let state = |path: &str, at| word(&look(&world, &token, path, at), "state");
    assert_eq!(bytes(&look(&world, &token, "d/f", None)), "2");
    assert_eq!(bytes(&look(&world, &token, "c/f", Some(moved.leaf))), "1");
    assert_eq!(state("c/f", None), "absent");
    assert_eq!(state("a/b/f", None), "absent");
    assert_eq!(state("c/f", Some(moved.leaf - 1)), "never-written");
    assert_eq!((state("d", None).as_str(), state("c", None).as_str()), ("folder", "absent"));
    // What no call wrote moves along unseen, and nothing is made up of it.
    world.file("hello.txt", "by nobody");
    assert_eq!(state("d/g", None), "never-written");
    let last = run("workspace-move", r#"{"from":"d","to":"e"}"#);
    world.service.undo(last.entry).expect("taken back");
    assert_eq!(bytes(&look(&world, &token, "d/f", None)), "2");
    assert_eq!(state("e/f", None), "absent");
    // Beneath what is a file now there is nothing.
    run("workspace-remove", r#"{"path":"d/f"}"#);
    run("workspace-remove", r#"{"path":"d"}"#);
    run("ailang-write", r#"{"path":"d","content":"a file"}"#);
    assert_eq!((state("d", None).as_str(), state("d/f", None).as_str()), ("present", "absent"));
}

#[test]
fn what_may_have_happened_is_told_beside_what_did() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let known = invoke(&world, &token, write("a.txt", "one")).expect("it");
    world.store.fail_at(2, Fault::Lost);
    let error = invoke(&world, &token, write("a.txt", "two")).expect_err("lost");
    let CallError::Unconfirmed { invocation, .. } = error else { panic!("{error}") };
    world.file("a.txt", "somebody else was here");
    let world = world.crash();
    let view = look(&world, &token, "a.txt", None);
    assert_eq!(bytes(&view), "one");
    let (leaf, doubtful) = view.doubt.clone().expect("a doubt");
    assert_eq!(doubtful, invocation);
    assert_eq!(
        view.to_value(false).get("in_doubt").and_then(|d| d.get("leaf")?.as_u64()),
        Some(leaf)
    );
    assert_eq!(look(&world, &token, "a.txt", Some(known.receipt.leaf)).doubt, None);
    // A person settles it.
    let inv = B16::from_hex(&invocation).expect("hex");
    world.service.resolve(&inv, true).expect("settled");
    let view = look(&world, &token, "a.txt", None);
    assert_eq!((bytes(&view), view.doubt), ("two".to_owned(), None));
    // Until then it was not known, and a look at that moment says so.
    let then = look(&world, &token, "a.txt", Some(leaf));
    assert_eq!((bytes(&then), then.doubt), ("one".to_owned(), Some((leaf, invocation))));
    check(&world);
}

#[test]
fn what_was_redacted_is_gone_and_says_since_when() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 10), world.agent("ep2", 10));
    let answer = invoke(&world, &token, write("a.txt", "one")).expect("it");
    let body = Redaction { by: None, refs: None, reason: RedactionReason::Operator };
    let drafts = vec![Draft::plain(Some(&ep()), body)];
    let submission = Submission { drafts, ..Submission::default() };
    let leaf = world.service.ledger().commit_blocking(submission).expect("redacted").first;
    let holds = |world: &World| {
        let me = caller(world, &token);
        let file = world.service.file_at(&me, &ep(), "a.txt", None);
        assert!(matches!(&file, Err(FileError::Redacted(Some(at))) if *at == leaf), "{file:?}");
        for hash in [sha256(&answer.output), [7; 32]] {
            let object = world.service.object(&me, &hash);
            assert!(matches!(&object, Err(ObjectError::Redacted(Some(at))) if *at == leaf));
            let foreign = world.service.object(&caller(world, &other), &hash);
            assert!(matches!(foreign, Err(ObjectError::NotFound)));
        }
    };
    holds(&world);
    world.service.ledger().tend().expect("tended");
    holds(&world);
}
