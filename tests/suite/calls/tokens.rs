//! Previews and their tokens, and calls that a person has to approve.

use super::{
    bodies, call, caller, check, content, invoke, named, read, runtime, spent, with, write,
};
use crate::support::World;
use worldlog::event::{ApprovalVerdict, Body, Denial, Role};
use worldlog::service::{Call, CallError, GrantSpec, Preview};

fn preview(world: &World, token: &str, call: Call) -> Preview {
    let caller = caller(world, token);
    runtime().block_on(world.service.preview(&caller, call)).expect("a preview")
}

fn denial(world: &World, token: &str, call: Call) -> Option<Denial> {
    invoke(world, token, call).expect("an answer").receipt.denial
}

#[test]
fn a_preview_writes_nothing_and_spends_nothing() {
    let world = World::new();
    let token = world.agent("ep1", 1);
    let events = bodies(&world).len();
    let found = preview(&world, &token, write("hello.ail", "x"));
    let decision = found.decision.as_ref().expect("an effect");
    assert_eq!((decision.denial, decision.before, decision.cost), (None, 1, 1));
    let [(path, Some((_, size)))] = found.files.as_slice() else { panic!("{found:?}") };
    assert_eq!((path.as_str(), *size), ("hello.ail", 53));
    let told = String::from_utf8(found.to_value().to_bytes()).expect("UTF-8");
    assert!(!told.contains("module hello"), "content costs a read: {told}");
    assert!(told.contains(r#""preview":"worldlog/preview/v1""#), "{told}");
    let refused = preview(&world, &token, call("ailang-read", r#"{"file":"a"}"#));
    assert!(refused.token.is_none() && refused.refused.is_some_and(|text| text.contains("file")));
    let absent = preview(&world, &token, write("new.txt", "x"));
    assert_eq!(absent.files, [("new.txt".to_owned(), None)]);
    assert_eq!(bodies(&world).len(), events);
    // The plan is the one that a call has.
    let answer = invoke(&world, &token, write("hello.ail", "x")).expect("an answer");
    assert!(super::text(&answer).contains(&found.plan));
    // What a call would be denied, the preview tells.
    let found = preview(&world, &token, write("hello.ail", "y"));
    let decision = found.decision.expect("an effect");
    assert_eq!((decision.denial, decision.before), (Some(Denial::Budget), 0));
}

#[test]
fn an_edit_tells_no_more_of_a_file_whether_its_text_is_there_or_not() {
    let world = World::new();
    let grants = vec![GrantSpec::parse("Workspace.Write=worktree:5").expect("a grant")];
    let token = world.session(Role::Agent, Some("ep1"), grants, 3_600);
    let edit = |old: &str| {
        let args = format!(r#"{{"path":"hello.ail","old_text":"{old}","new_text":"x"}}"#);
        call("ailang-edit", &args)
    };
    let (there, not) =
        (preview(&world, &token, edit("module")), preview(&world, &token, edit("modula")));
    assert_eq!((there.files, there.decision), (not.files, not.decision));
}

#[test]
fn a_token_runs_exactly_its_call_once() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 10), world.agent("ep1", 10));
    let right = preview(&world, &token, write("a.txt", "one")).token.expect("a token");
    // Other arguments, another session, and no token at all: none of these burns it.
    assert_eq!(denial(&world, &token, with(&right, write("a.txt", "two"))), Some(Denial::Token));
    assert_eq!(denial(&world, &other, with(&right, write("a.txt", "one"))), Some(Denial::Token));
    assert_eq!(
        denial(&world, &token, with("nonsense", write("a.txt", "one"))),
        Some(Denial::Token)
    );
    assert_eq!(spent(&world), (0, 0));
    assert_eq!(content(&world, "a.txt"), None);
    let first = invoke(&world, &token, with(&right, write("a.txt", "one"))).expect("an answer");
    assert_eq!(first.problem, None);
    // Used up: its call gets its answer again, another call nothing.
    let again = invoke(&world, &token, with(&right, write("a.txt", "one"))).expect("an answer");
    assert_eq!(again, first);
    assert_eq!(denial(&world, &token, with(&right, write("a.txt", "two"))), Some(Denial::Token));
    assert_eq!(spent(&world), (1, 0));
    let after = world.crash();
    let again = invoke(&after, &token, with(&right, write("a.txt", "one"))).expect("an answer");
    assert_eq!(again, first);
}

#[test]
fn a_token_is_void_once_a_file_moved_on() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    world.file("a.txt", "zero");
    let right = preview(&world, &token, write("a.txt", "one")).token.expect("a token");
    world.file("a.txt", "else");
    assert_eq!(denial(&world, &token, with(&right, write("a.txt", "one"))), Some(Denial::Token));
    world.file("a.txt", "zero");
    assert_eq!(denial(&world, &token, with(&right, write("a.txt", "one"))), None);
    // An equal call has another token the next time.
    world.file("a.txt", "zero");
    let next = preview(&world, &token, write("a.txt", "one")).token.expect("a token");
    assert_ne!(next, right);
}

#[test]
fn twenty_copies_of_a_token_run_once() {
    let world = World::new();
    let token = world.agent("ep1", 100);
    world.file("a.txt", "0");
    let edit = || call("ailang-edit", r#"{"path":"a.txt","old_text":"0","new_text":"00"}"#);
    let right = preview(&world, &token, edit()).token.expect("a token");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let answers = runtime.expect("it").block_on(async {
        let caller = caller(&world, &token);
        let copies = (0..20).map(|_| {
            let (service, caller, call) =
                (world.service.clone(), caller.clone(), with(&right, edit()));
            tokio::spawn(async move { service.invoke(&caller, call, None).await })
        });
        let copies: Vec<_> = copies.collect();
        let mut answers = Vec::new();
        for copy in copies {
            answers.push(copy.await.expect("no panic").expect("an answer"));
        }
        answers
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(content(&world, "a.txt").as_deref(), Some("00"));
    assert_eq!(spent(&world), (1, 0));
}

/// A session whose writes a person has to approve.
fn confirmed(world: &World) -> String {
    let grants = ["Workspace.Write=worktree:5;confirm", "Workspace.Read=worktree:5"];
    let grants = grants.map(|text| GrantSpec::parse(text).expect("a grant")).to_vec();
    world.session(Role::Agent, Some("ep1"), grants, 3_600)
}

#[test]
fn a_confirmed_call_runs_after_approval_and_only_then() {
    let world = World::new();
    let token = confirmed(&world);
    let asked = invoke(&world, &token, named("1", write("a.txt", "one"))).expect("an answer");
    assert_eq!(asked.receipt.denial, Some(Denial::Approval));
    let right = asked.token.clone().expect("what to come back with");
    assert!(asked.problem.as_ref().is_some_and(|text| text.contains(&right)), "{asked:?}");
    assert_eq!(preview(&world, &token, write("a.txt", "one")).token.as_ref(), Some(&right));
    // Coming back too early, and the same id again.
    assert_eq!(denial(&world, &token, with(&right, write("a.txt", "one"))), Some(Denial::Approval));
    let again = invoke(&world, &token, named("1", write("a.txt", "one"))).expect("an answer");
    assert_eq!(again, asked);

    // It can be seen and approved after a crash, by its token alone.
    let world = world.crash();
    let waiting = world.service.waiting().expect("readable");
    let [call] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!((call.token.as_str(), call.tool.as_str()), (right.as_str(), "ailang-write"));
    assert!(call.args.get("content").is_some());
    world.service.approve(&right, None, ApprovalVerdict::Approve, 60).expect("approved");
    assert_eq!(world.service.waiting().expect("readable"), []);
    // For that call and no other.
    assert_eq!(denial(&world, &token, with(&right, write("a.txt", "two"))), Some(Denial::Token));
    assert_eq!(denial(&world, &token, write("a.txt", "one")), Some(Denial::Approval));
    let done = invoke(&world, &token, with(&right, write("a.txt", "one"))).expect("an answer");
    assert_eq!((done.problem.as_deref(), content(&world, "a.txt").as_deref()), (None, Some("one")));
    // Once: the same again is another call.
    let again = invoke(&world, &token, with(&right, write("a.txt", "one"))).expect("an answer");
    assert_eq!(again, done);
    assert_eq!(denial(&world, &token, write("a.txt", "one")), Some(Denial::Approval));
    assert_eq!(spent(&world), (1, 0));
    let approvals = bodies(&world).iter().filter(|body| matches!(body, Body::Approval(_))).count();
    assert_eq!(approvals, 1);
}

#[test]
fn an_approval_can_be_declined_and_ends() {
    let world = World::new();
    let token = confirmed(&world);
    let right = |text: &str| preview(&world, &token, write("a.txt", text)).token.expect("a token");
    let (no, late) = (right("no"), right("late"));
    world.service.approve(&no, None, ApprovalVerdict::Decline, 60).expect("declined");
    assert_eq!(denial(&world, &token, with(&no, write("a.txt", "no"))), Some(Denial::Approval));
    world.service.approve(&late, None, ApprovalVerdict::Approve, 60).expect("approved");
    world.clock.advance(60_000);
    assert_eq!(denial(&world, &token, with(&late, write("a.txt", "late"))), Some(Denial::Approval));
    // A yes after a no.
    world.service.approve(&no, None, ApprovalVerdict::Approve, 60).expect("approved");
    assert_eq!(denial(&world, &token, with(&no, write("a.txt", "no"))), None);
    let unknown = format!("sha256:{}", "0".repeat(64));
    let error = world.service.approve(&unknown, None, ApprovalVerdict::Approve, 60);
    assert!(error.expect_err("unknown").to_string().contains("--session"));
    assert!(world.service.approve("sha256:x", None, ApprovalVerdict::Approve, 60).is_err());
    check(&world);
}

#[test]
fn reads_of_a_confirmed_session_need_nobody() {
    let world = World::new();
    let token = confirmed(&world);
    assert_eq!(denial(&world, &token, read("hello.ail")), None);
    let error = invoke(&world, &token, call("no-such-tool", "{}")).expect_err("no such tool");
    assert_eq!(error, CallError::UnknownTool("no-such-tool".to_owned()));
}
