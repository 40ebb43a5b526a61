//! A tool of the tests that plans whatever its arguments name.

use worldlog::canon::{Value, object};
use worldlog::transitions::{Demand, PLAN, Transition, find};

const fn demand(effect: &'static str, scope: &'static str) -> Demand {
    Demand { effect, scope, cost: 1 }
}

const DECLARED: [Demand; 4] = [
    demand("Workspace.List", "worktree"),
    demand("Workspace.Read", "worktree"),
    demand("Workspace.Search", "worktree"),
    demand("Workspace.Write", "worktree"),
];

/// `test-asking {"effect","op","path","scope"?}`: seen by whoever may read; it declares the four effects on the worktree, and
/// another scope breaks the law of plans.
pub(crate) struct Asking;

impl Transition for Asking {
    fn tool(&self) -> &'static str {
        "test-asking"
    }
    fn title(&self) -> &'static str {
        "Asking"
    }
    fn description(&self) -> &'static str {
        "Asks for the effect that it is told."
    }
    fn source(&self) -> &'static str {
        "test-asking"
    }
    fn access(&self) -> Demand {
        find("ailang-read").expect("a tool").access()
    }
    fn declared(&self) -> &'static [Demand] {
        &DECLARED
    }
    fn input_schema(&self) -> Value {
        object([("type", "object".into())])
    }
    fn plan(&self, args: &Value) -> Value {
        let text = |name: &str, other| args.get(name).and_then(Value::as_str).unwrap_or(other);
        let payload =
            [("op", text("op", "read").into()), ("path", text("path", "hello.ail").into())];
        let effect = object([
            ("cost", 1.into()),
            ("effect", text("effect", "Workspace.Read").into()),
            ("id", "e1".into()),
            ("payload", object(payload)),
            ("scope", text("scope", "worktree").into()),
        ]);
        object([
            ("effects", vec![effect].into()),
            ("finish", false.into()),
            ("plan", PLAN.into()),
            ("result", Value::Null),
        ])
    }
}
