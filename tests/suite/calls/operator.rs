//! What a person may do to calls, and that a budget is kept whatever happens.

use super::{bodies, caller, check, content, ep, invoke, named, read, spent, write};
use crate::support::World;
use worldlog::canon::Value;
use worldlog::durable::Lock;
use worldlog::event::{B16, Body, Redaction, RedactionReason, Verdict};
use worldlog::ledger::{Draft, Submission};
use worldlog::service::{Answer, CallError, Receipt};
use worldlog::store::memory::Fault;

/// A write whose outcome is lost, over a file that somebody changed since: in doubt after the restart.
fn doubt() -> (World, String, B16) {
    let world = World::new();
    let token = world.agent("ep1", 10);
    world.store.fail_at(2, Fault::Lost);
    let error = invoke(&world, &token, named("w", write("a.txt", "one"))).expect_err("lost");
    let CallError::Unconfirmed { invocation, .. } = error else { panic!("{error}") };
    world.file("a.txt", "somebody else was here");
    let after = world.crash();
    assert_eq!(after.service.health().unresolved, 1);
    (after, token, B16::from_hex(&invocation).expect("hex"))
}

#[test]
fn a_doubt_is_settled_as_landed() {
    let (world, token, inv) = doubt();
    assert_eq!(spent(&world), (1, 0));
    world.service.resolve(&inv, true).expect("settled");
    let state = check(&world);
    assert_eq!((state.doubts.len(), state.entries(), spent(&world)), (0, 1, (1, 0)));
    let Receipt::Committed(receipt) = world.service.receipt(None, &inv).expect("readable") else {
        panic!("it is committed");
    };
    assert!(receipt.recovered);
    let answer = invoke(&world, &token, named("w", write("a.txt", "one"))).expect("its answer");
    assert_eq!(answer.receipt.leaf, receipt.leaf);
    assert_eq!(content(&world, "a.txt").as_deref(), Some("somebody else was here"));
    assert!(world.service.resolve(&inv, false).is_err(), "once");
}

#[test]
fn a_doubt_is_listed_with_what_each_may_see() {
    let (world, token, inv) = doubt();
    let other = world.agent("ep2", 1);
    let listed = |token: Option<&str>| {
        let caller = token.map(|token| caller(&world, token));
        let found = world.service.unresolved(caller.as_ref(), 0, 10).expect("readable");
        assert_eq!(found.len(), 1);
        found[0].clone()
    };
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let public = listed(None);
    assert_eq!(text(&public, "invocation"), Some(inv.to_string()));
    assert_eq!(text(&public, "effect").as_deref(), Some("Workspace.Write"));
    assert_eq!(public.get("charge").and_then(Value::as_u64), Some(1));
    assert!(public.get("paths").is_none() && public.get("record").is_none());
    assert_eq!(listed(Some(&other)), public);
    let own = listed(Some(&token));
    assert_eq!(own.get("paths").and_then(Value::as_array).map(<[Value]>::len), Some(1));
    assert!(text(&own, "record").is_some_and(|name| name.starts_with("sha256:")));
    let from = public.get("intent").and_then(Value::as_u64).expect("a leaf");
    assert_eq!(world.service.unresolved(None, from + 1, 10).expect("readable"), []);
    let episode = world.service.episode(None, &ep()).expect("an episode");
    assert_eq!((episode.unresolved, episode.open), (1, None));
    // Its payloads go, and with them the paths; the doubt stays.
    let body = Redaction { by: None, refs: None, reason: RedactionReason::Operator };
    let drafts = vec![Draft::plain(Some(&ep()), body)];
    let submission = Submission { drafts, ..Submission::default() };
    world.service.ledger().commit_blocking(submission).expect("redacted");
    assert_eq!(listed(Some(&token)), public);
}

#[test]
fn a_doubt_is_settled_as_not_happened() {
    let (world, token, inv) = doubt();
    world.service.resolve(&inv, false).expect("settled");
    assert_eq!((check(&world).doubts.len(), spent(&world)), (0, (0, 0)));
    // The id is free again.
    invoke(&world, &token, named("w", write("b.txt", "one"))).expect("an answer");
    let verdicts: Vec<_> = bodies(&world)
        .into_iter()
        .filter_map(|body| match body {
            Body::Closure(closure) => Some(closure.verdict),
            _ => None,
        })
        .collect();
    assert_eq!(verdicts, [Verdict::InDoubt, Verdict::NotHappened]);
    let nothing = B16::from_hex(&"0".repeat(32)).expect("hex");
    assert!(world.service.resolve(&nothing, true).is_err());
    check(&world.crash());
}

/// 64 calls of 8 clients, 2 sessions each way, in one episode with 5 units.
fn storm(world: &World, tokens: &[String]) -> Vec<Result<Answer, CallError>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("it").block_on(async {
        let calls = (0..64).map(|n| {
            let service = world.service.clone();
            let caller = caller(world, &tokens[n % tokens.len()]);
            let call = named(&format!("c{n}"), write(&format!("f{n}.txt"), "x"));
            tokio::spawn(async move { service.invoke(&caller, call, None).await })
        });
        let calls: Vec<_> = calls.collect();
        let mut said = Vec::new();
        for call in calls {
            said.push(call.await.expect("no panic"));
        }
        said
    })
}

fn files(world: &World) -> u64 {
    (0..64).filter(|n| content(world, &format!("f{n}.txt")).is_some()).count() as u64
}

#[test]
fn sixty_four_calls_of_eight_clients_spend_five_units() {
    let world = World::new();
    let tokens: Vec<String> = (0..8).map(|_| world.agent("ep1", 5)).collect();
    let said = storm(&world, &tokens);
    let done = said.iter().flatten().filter(|answer| answer.receipt.denial.is_none()).count();
    assert_eq!((done, said.len()), (5, 64));
    assert_eq!((files(&world), spent(&world), check(&world).entries()), (5, (5, 0), 64));
}

#[test]
fn the_budget_is_kept_over_every_fault_of_the_store() {
    // Group commits differ from run to run, so that a sweep over a storm meets other syncs each time; 40 cover all
    // of a quiet one.
    for fault in [Fault::NotCommitted, Fault::Lost, Fault::Persisted] {
        for sync in 1..=40 {
            let context = format!("sync {sync}, {fault:?}");
            let world = World::new();
            let tokens: Vec<String> = (0..8).map(|_| world.agent("ep1", 5)).collect();
            world.store.fail_at(sync, fault);
            let said = storm(&world, &tokens);
            let told = said.iter().flatten().filter(|a| a.receipt.denial.is_none()).count() as u64;
            let after = world.crash();
            let state = check(&after);
            let spent = state.spent(&ep(), "Workspace.Write", "worktree");
            assert!(spent.reserved == 0 && spent.charged <= 5, "{context}: {spent:?}");
            assert!(told <= files(&after), "{context}: an answer is true");
            assert!(files(&after) <= spent.charged, "{context}: what ran is charged");
            // Sending all again spends what is left, and no id runs twice.
            let again = storm(&after, &tokens);
            for (n, (first, second)) in said.iter().zip(&again).enumerate() {
                if let (Ok(first), Ok(second)) = (first, second) {
                    assert_eq!(first, second, "{context}: call {n}");
                }
            }
            let spent = check(&after).spent(&ep(), "Workspace.Write", "worktree");
            assert_eq!((spent.charged, spent.reserved), (5, 0), "{context}");
            assert_eq!(files(&after), 5, "{context}");
        }
    }
}

#[test]
fn what_an_earlier_server_left_running_is_waited_for() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let held = Lock::exclusive(&world.lock()).expect("a lock").expect("nobody else's");
    let call = || invoke(&world, &token, write("a.txt", "one"));
    std::thread::scope(|scope| {
        let calling = scope.spawn(call);
        // Long enough for a call that did not wait.
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!((content(&world, "a.txt"), calling.is_finished()), (None, false));
        drop(held);
        assert_eq!(calling.join().expect("no panic").expect("an answer").problem, None);
    });
    // From now on it is held here, shared with what runs for a call.
    assert!(Lock::exclusive(&world.lock()).expect("a lock").is_none());
    drop(world);
}

#[test]
fn a_read_after_everything() {
    let (world, token, _) = doubt();
    invoke(&world, &token, read("a.txt")).expect("a doubt stops nobody");
}
