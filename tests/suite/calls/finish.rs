//! The second pure run of tools that want one.

use super::{bodies, call, caller, check, invoke, named, text};
use crate::support::World;
use worldlog::canon::{Value, object};
use worldlog::event::{Body, Denial, Front, Role, Verdict};
use worldlog::service::{CallError, GrantSpec, Past};
use worldlog::transitions::{Demand, Transition, find};

/// `ailang-read` whose output is reshaped: into what it was given, or for some paths into what no tool may say.
struct Reshaped;

impl Transition for Reshaped {
    fn tool(&self) -> &'static str {
        "test-reshaped"
    }
    fn title(&self) -> &'static str {
        "Reshaped"
    }
    fn description(&self) -> &'static str {
        "Reads, and tells what the finish phase saw."
    }
    fn source(&self) -> &'static str {
        "test-reshaped"
    }
    fn access(&self) -> Demand {
        find("ailang-read").expect("a tool").access()
    }
    fn declared(&self) -> &'static [Demand] {
        find("ailang-read").expect("a tool").declared()
    }
    fn finish(&self) -> bool {
        true
    }
    fn input_schema(&self) -> Value {
        find("ailang-read").expect("a tool").input_schema()
    }
    fn plan(&self, args: &Value) -> Value {
        let plan = find("ailang-read").expect("a tool").plan(args);
        let Value::Object(mut members) = plan else { return plan };
        let planned =
            members.get("effects").and_then(Value::as_array).is_some_and(|e| !e.is_empty());
        members.insert("finish".to_owned(), planned.into());
        Value::Object(members)
    }
    fn reshape(&self, args: &Value, results: &[Value]) -> Value {
        let [result] = results else { return Value::Null };
        match args.get("path").and_then(Value::as_str) {
            Some("world.txt") => object([("world", 1.into())]),
            Some("null.txt") => Value::Null,
            Some("panic.txt") => panic!("a transition that breaks"),
            _ => object([("args", args.clone()), ("saw", result.clone())]),
        }
    }
}

const TOOL: &str = "test-reshaped";

fn reshaped(path: &str) -> worldlog::service::Call {
    call(TOOL, &format!(r#"{{"path":"{path}"}}"#))
}

#[test]
fn it_sees_arguments_and_result_and_makes_the_output() {
    let world = World::with_tools(&[&Reshaped]);
    let token = world.agent("ep1", 10);
    let answer = invoke(&world, &token, reshaped("emoji.txt")).expect("an answer");
    let output = worldlog::canon::parse(&answer.output).expect("JSON");
    let saw = output.get("saw").expect("what it saw");
    assert_eq!(saw.get("status").and_then(Value::as_str), Some("ok"));
    assert_eq!(saw.get("id").and_then(Value::as_str), Some("e1"));
    let content = saw.get("output").and_then(|output| output.get("content"));
    assert!(content.and_then(Value::as_str).is_some_and(|text| text.contains('\u{1f980}')));
    let world_block = output.get("world").and_then(|world| world.get("effects")).expect("effects");
    let effects = world_block.as_array().expect("a list");
    assert_eq!(effects[0].get("record"), saw.get("record"));
    // A plan without an effect has no second run.
    let refused = invoke(&world, &token, call(TOOL, r#"{"file":1}"#)).expect("an answer");
    assert!(text(&refused).contains("unknown argument"));
    check(&world);
}

#[test]
fn it_sees_a_denial() {
    let world = World::with_tools(&[&Reshaped]);
    let grants = vec![GrantSpec::parse("Workspace.Read=worktree:0").expect("a grant")];
    let token = world.session(Role::Agent, Some("ep1"), grants, 3_600);
    let answer = invoke(&world, &token, reshaped("emoji.txt")).expect("an answer");
    assert_eq!(answer.receipt.denial, Some(Denial::Budget));
    assert!(
        text(&answer).contains(r#""output":null"#)
            && text(&answer).contains(r#""status":"denied""#)
    );
    assert!(answer.problem.expect("a sentence").starts_with("denied:budget"));
    check(&world);
}

#[test]
fn when_it_fails_the_effect_is_recorded_and_the_call_is_not_committed() {
    for path in ["world.txt", "null.txt", "panic.txt"] {
        let world = World::with_tools(&[&Reshaped]);
        let token = world.agent("ep1", 10);
        let error = invoke(&world, &token, named("x", reshaped(path))).expect_err("no output");
        let CallError::Unconfirmed { records, .. } = &error else { panic!("{error}") };
        assert_eq!(records.len(), 1, "the effect's record");
        let state = check(&world);
        assert_eq!(state.entries(), 0);
        let spent = state.spent(&super::ep(), "Workspace.Read", "worktree");
        assert_eq!((spent.charged, spent.reserved), (1, 0), "it ran");
        let closures: Vec<_> = bodies(&world)
            .into_iter()
            .filter_map(|body| match body {
                Body::Closure(closure) => Some(closure.verdict),
                _ => None,
            })
            .collect();
        assert_eq!(closures, [Verdict::Unrecorded]);
        // The same id never runs again, and names both records.
        let again = invoke(&world, &token, named("x", reshaped(path))).expect_err("no output");
        let CallError::Unconfirmed { records: both, .. } = &again else { panic!("{again}") };
        assert!(both.len() == 2 && both[0] == records[0], "{both:?}");
        let past = world.service.claimed(&caller(&world, &token), Front::A2a, "x");
        let closed =
            matches!(past.expect("readable"), Past::Closed { verdict: Verdict::Unrecorded, .. });
        assert!(closed);
        check(&world.crash());
    }
}
