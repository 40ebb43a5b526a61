//! A client's own id for a call.

use super::{bodies, call, caller, check, content, ep, invoke, named, read, runtime, spent, write};
use crate::support::World;
use crate::support::slow::Slow;
use std::collections::BTreeSet;
use worldlog::event::{B16, Body, Front, Redaction, RedactionReason};
use worldlog::ledger::{Draft, Submission};
use worldlog::service::{Call, CallError, Past, Receipt, ReceiptError};
use worldlog::store::memory::Fault;

#[test]
fn the_same_call_again_gets_the_same_answer_and_no_second_run() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let first = invoke(&world, &token, named("w-1", write("a.txt", "one"))).expect("an answer");
    world.file("a.txt", "somebody else");
    world.clock.advance(5_000);
    let again = invoke(&world, &token, named("w-1", write("a.txt", "one"))).expect("an answer");
    assert_eq!(again, first);
    assert_eq!(content(&world, "a.txt").as_deref(), Some("somebody else"), "nothing ran");
    assert_eq!((check(&world).entries(), spent(&world)), (1, (1, 0)));

    // Refusals, denials and failures are answers too.
    let poor = world.agent("ep2", 0);
    for (id, token, call) in [
        ("plan", &token, call("ailang-read", r#"{"file":"a"}"#)),
        ("handler", &token, read("absent.txt")),
        ("denied", &poor, write("a.txt", "one")),
    ] {
        let first = invoke(&world, token, named(id, call.clone())).expect("an answer");
        assert!(first.problem.is_some());
        let entries = world.service.health().entries;
        assert_eq!(invoke(&world, token, named(id, call)).expect("an answer"), first, "{id}");
        assert_eq!(world.service.health().entries, entries, "{id}");
    }
    // And after a crash.
    let after = world.crash();
    let again = invoke(&after, &token, named("w-1", write("a.txt", "one"))).expect("an answer");
    assert_eq!(again, first);
}

#[test]
fn an_id_is_bound_to_tool_and_arguments_and_to_its_session_and_front() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 10), world.agent("ep1", 10));
    invoke(&world, &token, named("x", write("a.txt", "one"))).expect("an answer");
    for changed in [write("a.txt", "two"), write("b.txt", "one"), read("a.txt")] {
        let error = invoke(&world, &token, named("x", changed)).expect_err("another call");
        assert_eq!(error, CallError::ClaimTaken);
        assert!(error.fate().safe_to_repeat, "under another id");
    }
    assert_eq!(check(&world).entries(), 1);
    // Another session, and another front, have ids of their own.
    invoke(&world, &other, named("x", read("a.txt"))).expect("an answer");
    let mcp = Call { front: Front::Mcp, ..named("x", read("a.txt")) };
    invoke(&world, &token, mcp).expect("an answer");
    let past = world.service.claimed(&caller(&world, &token), Front::A2a, "x").expect("readable");
    let Past::Committed { front: Front::A2a, tool, answer } = past else { panic!("{past:?}") };
    assert_eq!((tool.as_str(), answer.receipt.entry), ("ailang-write", 0));
    let unknown = world.service.claimed(&caller(&world, &other), Front::Surface, "x");
    assert_eq!(unknown.expect("readable"), Past::None);
    // An invocation is its session's alone.
    let inv = B16::from_hex(&answer.receipt.invocation).expect("hex");
    let own = world.service.call_of(&caller(&world, &token), &inv).expect("readable");
    assert!(matches!(own, Past::Committed { answer: same, .. } if same == answer));
    let foreign = world.service.call_of(&caller(&world, &other), &inv).expect("readable");
    assert_eq!(foreign, Past::None);
}

#[test]
fn a_receipt_by_its_id_never_says_that_what_has_begun_did_not() {
    static SLOW: Slow = Slow::new();
    let world = World::with_tools(&[&SLOW]);
    let (token, other) = (world.agent("ep1", 10), world.agent("ep1", 10));
    let receipt = |token: &str| {
        world.service.receipt_by_id(&caller(&world, token), Front::A2a, "w").expect("readable").0
    };
    assert_eq!(receipt(&token), Receipt::NotStarted);
    std::thread::scope(|scope| {
        let held = SLOW.hold();
        let arguments = r#"{"path":"hello.ail"}"#;
        let call = || invoke(&world, &token, named("w", call("test-slow", arguments)));
        let calling = scope.spawn(call);
        SLOW.wait();
        // It has no plan yet: nothing of it is in the state.
        assert_eq!((receipt(&token), receipt(&other)), (Receipt::Open, Receipt::NotStarted));
        drop(held);
        calling.join().expect("no panic").expect("an answer");
    });
    assert!(matches!(receipt(&token), Receipt::Committed(view) if view.entry == 0));
    // The fate of a commit is unknown: so is that of every id.
    world.store.fail_at(1, Fault::Lost);
    invoke(&world, &token, named("v", read("hello.ail"))).expect_err("lost");
    let me = caller(&world, &token);
    for id in ["v", "never sent"] {
        let (receipt, _) = world.service.receipt_by_id(&me, Front::A2a, id).expect("readable");
        assert_eq!(receipt, Receipt::Open, "{id}");
    }
}

#[test]
fn the_ids_of_a_redacted_episode_say_that_they_are_gone() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 10), world.agent("ep2", 10));
    invoke(&world, &token, named("w", write("a.txt", "one"))).expect("an answer");
    let body = Redaction { by: None, refs: None, reason: RedactionReason::Operator };
    let drafts = vec![Draft::plain(Some(&ep()), body)];
    let submission = Submission { drafts, ..Submission::default() };
    let leaf = world.service.ledger().commit_blocking(submission).expect("redacted").first;
    for id in ["w", "never-sent"] {
        let found = world.service.receipt_by_id(&caller(&world, &token), Front::A2a, id);
        assert!(
            matches!(&found, Err(ReceiptError::Redacted(Some(at))) if *at == leaf),
            "{found:?}"
        );
    }
    let found = world.service.receipt_by_id(&caller(&world, &other), Front::A2a, "w");
    assert_eq!(found.expect("readable").0, Receipt::NotStarted);
}

#[test]
fn twenty_copies_at_once_run_once() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let answers = runtime.expect("it").block_on(async {
        let caller = caller(&world, &token);
        let copy = |_| {
            let (service, caller) = (world.service.clone(), caller.clone());
            tokio::spawn(async move {
                service.invoke(&caller, named("one", write("a.txt", "one")), None).await
            })
        };
        let copies: Vec<_> = (0..20).map(copy).collect();
        let mut answers = Vec::new();
        for copy in copies {
            answers.push(copy.await.expect("no panic"));
        }
        answers
    });
    let (answered, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let receipts: BTreeSet<_> =
        answered.into_iter().flatten().map(|answer| answer.receipt.invocation).collect();
    assert_eq!(receipts.len(), 1, "one invocation, whoever was told of it");
    assert!(refused.into_iter().all(|said| said == Err(CallError::ClaimInFlight)));
    assert_eq!((check(&world).entries(), spent(&world)), (1, (1, 0)));
}

#[test]
fn a_call_that_may_have_run_does_not_run_again() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    invoke(&world, &token, write("a.txt", "zero")).expect("an answer");
    world.store.fail_at(2, Fault::Lost);
    invoke(&world, &token, named("w", write("a.txt", "one"))).expect_err("its outcome is lost");
    world.file("a.txt", "somebody else was here");
    let after = world.crash();
    let error = invoke(&after, &token, named("w", write("a.txt", "one"))).expect_err("in doubt");
    let CallError::Unconfirmed { invocation, records } = &error else { panic!("{error}") };
    let closure = bodies(&after).into_iter().find(|body| matches!(body, Body::Closure(_)));
    assert!(closure.is_some() && records.len() == 1, "{records:?}");
    let said = format!(
        "effects were requested but the invocation was not confirmed committed; effect records: {}",
        records[0]
    );
    assert_eq!(error.to_string(), said);
    let hash = records[0].strip_prefix("sha256:").and_then(worldlog::event::B32::from_hex);
    let record = after.service.object(&caller(&after, &token), &hash.expect("a reference").0);
    assert!(String::from_utf8(record.expect("the record")).expect("text").contains(invocation));
    assert_eq!(content(&after, "a.txt").as_deref(), Some("somebody else was here"));
    let past = after.service.claimed(&caller(&after, &token), Front::A2a, "w").expect("readable");
    assert!(matches!(past, Past::Closed { .. }), "{past:?}");

    // What did not happen is free again: the same id runs.
    after.store.fail_at(1, Fault::Persisted);
    invoke(&after, &token, named("v", read("a.txt"))).expect_err("its intent is of unknown fate");
    let again = after.crash();
    let answer = invoke(&again, &token, named("v", read("a.txt"))).expect("an answer");
    assert_eq!(answer.problem, None);
}

#[test]
fn a_pinned_transition_has_to_be_the_one_that_runs() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let source = worldlog::transitions::find("ailang-read").expect("a tool").source();
    let pin = worldlog::merkle::hash::sha256(source.as_bytes());
    let pinned = |pin| Call { pin: Some(pin), ..read("hello.ail") };
    invoke(&world, &token, pinned(pin)).expect("an answer");
    let error = invoke(&world, &token, pinned([7; 32])).expect_err("another source");
    assert_eq!(error, CallError::OtherTransition);
    assert_eq!(check(&world).entries(), 1);
}

#[test]
fn what_waits_beyond_the_limit_is_refused_at_once() {
    let world = World::new();
    let token = world.agent("ep1", 1_000);
    let most = worldlog::limits::CALLS_WAITING_MAX;
    let answers = runtime().block_on(async {
        let caller = caller(&world, &token);
        let calls = (0..most + 9).map(|_| {
            let (service, caller) = (world.service.clone(), caller.clone());
            tokio::spawn(async move { service.invoke(&caller, read("hello.ail"), None).await })
        });
        let calls: Vec<_> = calls.collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.expect("no panic"));
        }
        answers
    });
    let crowded = answers.iter().filter(|said| **said == Err(CallError::Crowded)).count();
    let done = answers.iter().filter(|said| said.is_ok()).count();
    assert_eq!(crowded + done, most + 9);
    assert!(crowded > 0 && done >= most, "{crowded} refused, {done} done");
    assert_eq!(check(&world).entries(), done as u64);
}
