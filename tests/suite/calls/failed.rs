//! The seed: "A status of failed means the handler itself failed (for example, an operation outside the effect's op
//! allowlist); the record says so, and the result again holds only world."

use super::{bodies, call, caller, check, invoke, named, text};
use crate::support::World;
use worldlog::canon::{Value, object, parse};
use worldlog::event::{B32, Body, Status};
use worldlog::transitions::{Demand, PLAN, Transition, find};

/// A tool that plans what no handler does.
struct Misplanned;

impl Transition for Misplanned {
    fn tool(&self) -> &'static str {
        "test-misplanned"
    }
    fn title(&self) -> &'static str {
        "Misplanned"
    }
    fn description(&self) -> &'static str {
        "Plans an op that its effect does not have."
    }
    fn source(&self) -> &'static str {
        "test-misplanned"
    }
    fn access(&self) -> Demand {
        find("ailang-write").expect("a tool").access()
    }
    fn declared(&self) -> &'static [Demand] {
        find("ailang-write").expect("a tool").declared()
    }
    fn input_schema(&self) -> Value {
        object([("type", "object".into())])
    }
    fn plan(&self, _: &Value) -> Value {
        let effect = object([
            ("cost", 1.into()),
            ("effect", "Workspace.Write".into()),
            ("id", "e1".into()),
            ("payload", object([("op", "format".into())])),
            ("scope", "worktree".into()),
        ]);
        object([
            ("effects", vec![effect].into()),
            ("finish", false.into()),
            ("plan", PLAN.into()),
            ("result", Value::Null),
        ])
    }
}

#[test]
fn an_op_outside_the_allowlist_fails_and_is_charged() {
    let world = World::with_tools(&[&Misplanned]);
    let token = world.agent("ep1", 5);
    let answer = invoke(&world, &token, named("m", call("test-misplanned", "{}"))).expect("it");
    let output = parse(&answer.output).expect("JSON");
    assert_eq!(output.as_object().map(std::collections::BTreeMap::len), Some(1), "only world");
    let effects = output.get("world").and_then(|world| world.get("effects")).expect("effects");
    let effect = &effects.as_array().expect("a list")[0];
    assert_eq!(effect.get("status").and_then(Value::as_str), Some("failed"));
    assert!(
        answer
            .problem
            .as_ref()
            .is_some_and(|text| text.contains("not in this effect's op allowlist"))
    );

    let name = effect.get("record").and_then(Value::as_str).expect("a record");
    let hash = name.strip_prefix("sha256:").and_then(B32::from_hex).expect("a reference");
    let record = world.service.object(&caller(&world, &token), &hash.0).expect("the record");
    let record = parse(&record).expect("JSON");
    let said = record.get("failure").and_then(Value::as_str).expect("why");
    assert_eq!(
        said,
        "broker: Workspace.Write refuses op \"format\": not in this effect's op allowlist"
    );
    assert_eq!(record.get("failed").and_then(Value::as_bool), Some(true));

    let spent = check(&world).spent(&super::ep(), "Workspace.Write", "worktree");
    assert_eq!((spent.charged, spent.reserved), (1, 0), "a failed effect is charged");
    let failed = |body: &Body| matches!(body, Body::Outcome(o) if o.status == Status::Failed);
    assert_eq!(bodies(&world).iter().filter(|body| failed(body)).count(), 1);
    // Sent again, it gets the same and costs nothing more.
    let again = invoke(&world, &token, named("m", call("test-misplanned", "{}"))).expect("it");
    assert_eq!((text(&again), &again.problem), (text(&answer), &answer.problem));
    assert_eq!(check(&world).entries(), 1);
}
