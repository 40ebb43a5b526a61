//! Calls on a store that fails, over real files: an effect never runs without its intent, never runs twice, and what a
//! crash left open is closed by what the disk shows.

use crate::support::{World, keys};
use std::fs;
use worldlog::canon::{self, Value};
use worldlog::event::{Body, Event, Front};
use worldlog::ledger::{InspectOptions, inspect};
use worldlog::service::{Answer, Call, CallError, Receipt};
use worldlog::store::layout;
use worldlog::store::memory::Fault;
use worldlog::verify::Trust;

/// A tool, its arguments, and `a.txt` after it (`None`: as before; `Some(None)`: absent).
type Step = (&'static str, &'static str, Option<Option<&'static str>>);

const STEPS: &[Step] = &[
    ("ailang-write", r#"{"path":"a.txt","content":"one"}"#, Some(Some("one"))),
    ("ailang-write", r#"{"path":"a.txt","content":"two"}"#, Some(Some("two"))),
    ("ailang-edit", r#"{"path":"a.txt","old_text":"w","new_text":"ww"}"#, Some(Some("twwo"))),
    ("ailang-read", r#"{"path":"a.txt"}"#, None),
    ("ailang-read", r#"{"path":"a.txt","limit":3}"#, None),
    ("ailang-write", r#"{"path":".git/x","content":"no"}"#, None),
    ("workspace-mkdir", r#"{"path":"d/e"}"#, None),
    ("workspace-move", r#"{"from":"a.txt","to":"d/e/b.txt"}"#, Some(None)),
    ("workspace-move", r#"{"from":"d/e","to":"f"}"#, None),
    ("workspace-list", r#"{"path":"f"}"#, None),
    ("workspace-search", r#"{"pattern":"w"}"#, None),
    ("workspace-read", r#"{"path":"f/b.txt","limit":1}"#, None),
    ("workspace-move", r#"{"from":"f/b.txt","to":"a.txt"}"#, Some(Some("twwo"))),
    ("workspace-remove", r#"{"path":"a.txt"}"#, Some(None)),
    ("workspace-remove", r#"{"path":"f"}"#, None),
];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn call(world: &World, token: &str, step: &Step) -> Result<Answer, CallError> {
    let caller = world.service.authenticate(Some(token)).expect("a live token");
    let args = canon::parse(step.1.as_bytes()).expect("JSON");
    let call = Call::new(Front::Mcp, step.0, args);
    runtime().block_on(world.service.invoke(&caller, call, None))
}

fn content(world: &World) -> Option<String> {
    fs::read_to_string(world.worktree().join("a.txt")).ok()
}

/// Names in the worktree that no tool's user chose.
fn leftovers(world: &World) -> Vec<String> {
    let names = fs::read_dir(world.worktree())
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".worldlog-")).collect()
}

/// Everything holds: the log, its payloads, budgets, and nothing is open.
fn check(world: &World) -> worldlog::state::State {
    let trust = Trust { keys: vec![keys().verifier_key().clone()], seen: None };
    let options = InspectOptions { trust, payloads: true, ..InspectOptions::default() };
    let found = inspect(world.store.as_ref(), &options);
    assert_eq!(found.report.findings, vec![]);
    assert!(found.state.calls.is_empty() && found.state.intents.is_empty(), "nothing is open");
    found.state
}

fn receipt(world: &World, answer: &Answer) -> Receipt {
    let inv = worldlog::event::B16::from_hex(&answer.receipt.invocation).expect("hex");
    world.service.receipt(None, &inv).expect("readable")
}

#[test]
fn every_sync_of_every_call_may_fail() {
    let world = World::new();
    let token = world.agent("ep1", 50);
    let before = world.store.syncs();
    for step in STEPS {
        call(&world, &token, step).expect("an answer");
    }
    let syncs = world.store.syncs() - before;
    // Two for each call with an effect, one for the plan's refusal.
    assert_eq!(syncs, 29);
    check(&world);

    for sync in 1..=syncs {
        for fault in [Fault::NotCommitted, Fault::Lost, Fault::Persisted] {
            one_fault(sync, fault);
        }
    }
}

fn one_fault(sync: u64, fault: Fault) {
    let context = format!("sync {sync}, {fault:?}");
    let world = World::new();
    let token = world.agent("ep1", 50);
    world.store.fail_at(sync, fault);
    let mut answers = Vec::new();
    let (mut now, mut failed) = (None, None);
    for step in STEPS {
        let stood = content(&world);
        match call(&world, &token, step) {
            Ok(answer) => {
                answers.push(answer);
                now = step.2.unwrap_or(now);
                assert_eq!(content(&world).as_deref(), now, "{context}: an answer is true");
            }
            Err(error) => {
                failed = Some((step, stood, error));
                break;
            }
        }
    }
    let after = world.crash();
    let state = check(&after);
    for answer in &answers {
        let kept = receipt(&after, answer);
        assert!(
            matches!(&kept, Receipt::Committed(view) if view.leaf == answer.receipt.leaf),
            "{context}: {kept:?}"
        );
    }
    let disk = content(&after);
    let Some((step, stood, error)) = failed else {
        // A commit that did not happen was tried again, or the decision was.
        return assert_eq!(fault, Fault::NotCommitted, "{context}");
    };
    let landed = step.2.is_some_and(|after| disk.as_deref() == after);
    assert!(landed || disk == stood, "{context}: wholly old or wholly new: {disk:?}");
    if let CallError::NotCommitted(_) = error {
        assert_eq!(disk, stood, "{context}: it said that nothing ran");
    }
    assert_eq!(
        state.entries(),
        answers.len() as u64 + committed(&after, answers.len()),
        "{context}"
    );
    // The next call finds a log that goes on, and the budget as the events have it.
    call(&after, &token, &("ailang-read", r#"{"path":"hello.ail"}"#, None)).expect("an answer");
    let spent = check(&after).spent(&ep(), "Workspace.Write", "worktree");
    let charged = intents(&after, "Workspace.Write");
    assert_eq!((spent.charged, spent.reserved), (charged, 0), "{context}");
    if landed {
        assert!(charged > 0, "{context}: what landed is charged");
    }
}

fn ep() -> worldlog::event::EpisodeName {
    worldlog::event::EpisodeName::parse("ep1").expect("a name")
}

/// Commits beyond the first `answered`: at most the one whose answer was lost.
fn committed(world: &World, answered: usize) -> u64 {
    let more = bodies(world).filter(|body| matches!(body, Body::Commit(_))).count() - answered;
    assert!(more <= 1);
    more as u64
}

fn bodies(world: &World) -> impl Iterator<Item = Body> {
    let events = layout::events(world.store.as_ref(), 0)
        .map(|item| Event::decode(&item.expect("readable").1).expect("an event").body);
    events.collect::<Vec<_>>().into_iter()
}

/// Units charged for an effect, counted from the events: the last charge of each intent.
fn intents(world: &World, effect: &str) -> u64 {
    let mut charges = std::collections::BTreeMap::new();
    for (seq, body) in (0_u64..).zip(bodies(world)) {
        match body {
            Body::Intent(intent) if intent.effect == effect => drop(charges.insert(seq, 0)),
            Body::Outcome(outcome) => {
                if let Some(charge) = outcome.intent.and_then(|intent| charges.get_mut(&intent)) {
                    *charge = outcome.charge;
                }
            }
            Body::Closure(closure) => {
                charges.entry(closure.intent).and_modify(|charge| *charge = closure.charge);
            }
            _ => {}
        }
    }
    charges.values().sum()
}

/// Brings a write to the point where its effect ran and its outcome is lost.
fn lost_outcome(world: &World) -> String {
    let token = world.agent("ep1", 5);
    call(world, &token, &STEPS[0]).expect("an answer");
    world.store.fail_at(2, Fault::Lost);
    let error = call(world, &token, &STEPS[1]).expect_err("its outcome is lost");
    assert!(matches!(error, CallError::Unconfirmed { .. }), "{error}");
    assert_eq!(content(world).as_deref(), Some("two"), "the effect ran");
    token
}

fn last_closure(world: &World) -> worldlog::event::Closure {
    let closures = bodies(world).filter_map(|body| match body {
        Body::Closure(closure) => Some(closure),
        _ => None,
    });
    closures.last().expect("a closure")
}

#[test]
fn what_landed_is_committed_as_recovered() {
    let world = World::new();
    lost_outcome(&world);
    let after = world.crash();
    let state = check(&after);
    assert_eq!(last_closure(&after).verdict.as_str(), "landed");
    assert_eq!(state.entries(), 2, "it is in the log like any other call");
    let recovered = bodies(&after).any(|body| matches!(body, Body::Outcome(o) if o.recovered));
    assert!(recovered, "and marked");
    let entries = after.service.log(None, 1, 1).expect("readable");
    let inv = worldlog::event::B16::from_hex(&entries[0].invocation).expect("hex");
    let receipt = after.service.receipt(None, &inv).expect("readable");
    assert!(matches!(receipt, Receipt::Committed(view) if view.recovered));
}

#[test]
fn what_did_not_happen_is_free_again() {
    let world = World::new();
    let token = world.agent("ep1", 5);
    call(&world, &token, &STEPS[0]).expect("an answer");
    world.store.fail_at(1, Fault::Persisted);
    call(&world, &token, &STEPS[1]).expect_err("its intent is of unknown fate");
    assert_eq!(content(&world).as_deref(), Some("one"), "nothing runs without an intent");
    let after = world.crash();
    let state = check(&after);
    assert_eq!(last_closure(&after).verdict.as_str(), "not-happened");
    assert_eq!(state.spent(&ep(), "Workspace.Write", "worktree").charged, 1, "the first write");
    assert_eq!(state.entries(), 1);
}

#[test]
fn what_nobody_can_tell_is_in_doubt() {
    let world = World::new();
    lost_outcome(&world);
    world.file("a.txt", "somebody else was here");
    let after = world.crash();
    let state = check(&after);
    assert_eq!(last_closure(&after).verdict.as_str(), "in-doubt");
    assert_eq!(state.doubts.len(), 1);
    assert_eq!(state.spent(&ep(), "Workspace.Write", "worktree").charged, 2, "it is charged");
    assert_eq!(after.service.health().unresolved, 1);
    assert_eq!(content(&after).as_deref(), Some("somebody else was here"), "nothing ran again");
}

#[test]
fn what_a_dead_handler_left_raises_no_later_doubt() {
    let world = World::new();
    let token = world.agent("ep1", 5);
    call(&world, &token, &STEPS[0]).expect("an answer");
    // Died before the effect was done: half a file beside the one that was to be replaced.
    world.store.fail_at(1, Fault::Persisted);
    call(&world, &token, &STEPS[1]).expect_err("its intent is of unknown fate");
    world.file(".worldlog-0123456789abcdef.tmp", "hal");
    let after = world.crash();
    check(&after);
    assert_eq!(last_closure(&after).verdict.as_str(), "not-happened");
    assert_eq!(leftovers(&after), Vec::<String>::new());
    after.store.fail_at(2, Fault::Lost);
    call(&after, &token, &STEPS[1]).expect_err("its outcome is lost");
    let after = after.crash();
    check(&after);
    assert_eq!(last_closure(&after).verdict.as_str(), "landed");
}

#[test]
fn a_write_of_the_same_bytes_counts_as_landed() {
    let world = World::new();
    let token = world.agent("ep1", 5);
    call(&world, &token, &STEPS[0]).expect("an answer");
    world.store.fail_at(2, Fault::Lost);
    let same: Step = ("ailang-write", r#"{"path":"a.txt","content":"one"}"#, None);
    call(&world, &token, &same).expect_err("its outcome is lost");
    let after = world.crash();
    check(&after);
    assert_eq!(last_closure(&after).verdict.as_str(), "landed", "the disk shows what was to be");
}

#[test]
fn sixteen_callers_and_a_budget_of_five() {
    let world = World::new();
    let token = world.agent("ep1", 5);
    let caller = world.service.authenticate(Some(&token)).expect("a live token");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let answers: Vec<_> = runtime.expect("a runtime").block_on(async {
        let calls = (0..16).map(|number| {
            let (service, caller) = (world.service.clone(), caller.clone());
            let text = format!(r#"{{"path":"f{number}.txt","content":"x"}}"#);
            let args = canon::parse(text.as_bytes()).expect("JSON");
            let call = Call::new(Front::Mcp, "ailang-write", args);
            tokio::spawn(async move { service.invoke(&caller, call, None).await })
        });
        let tasks: Vec<_> = calls.collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.expect("no panic").expect("an answer"));
        }
        answers
    });
    let done = answers.iter().filter(|answer| answer.receipt.denial.is_none()).count();
    assert_eq!(done, 5);
    let files = (0..16).filter(|n| world.worktree().join(format!("f{n}.txt")).exists()).count();
    assert_eq!(files, 5, "what was denied did not run");
    let state = check(&world);
    assert_eq!(state.spent(&ep(), "Workspace.Write", "worktree").charged, 5);
    assert_eq!(state.entries(), 16);
    let denied = answers.iter().find(|answer| answer.receipt.denial.is_some()).expect("denied");
    let output = canon::parse(&denied.output).expect("JSON");
    assert_eq!(
        output.as_object().map(std::collections::BTreeMap::len),
        Some(1),
        "only the world block"
    );
    assert!(
        output.get("world").and_then(|world| world.get("plan")).and_then(Value::as_str).is_some()
    );
}
