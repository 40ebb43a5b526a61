//! `ailang-edit`: one effect `Workspace.Write` with op `edit`.

use super::plan::{Shape, WORKTREE};
use super::{Demand, Transition};
use crate::canon::Value;

/// The tool `ailang-edit`.
pub(super) struct Edit;

const DECLARED: Demand = Demand { effect: "Workspace.Write", scope: WORKTREE, cost: 1 };

const SHAPE: Shape = Shape {
    tool: "ailang-edit",
    op: "edit",
    effect: DECLARED,
    arguments: &[
        ("path", "File to edit, relative to the worktree"),
        (
            "old_text",
            "The text to replace, exactly as it stands in the file, with enough context to occur once",
        ),
        ("new_text", "The text to put in its place; empty to delete it"),
    ],
};

impl Transition for Edit {
    fn tool(&self) -> &'static str {
        SHAPE.tool
    }

    fn title(&self) -> &'static str {
        "Edit (sandboxed)"
    }

    fn description(&self) -> &'static str {
        "Replaces one passage of a file of the worktree. `old_text` must occur exactly once, spaces and line ends included; \
         all other bytes stay as they are. When it is not found, or found more often, nothing is changed and the \
         refusal says so: read the file again, or give more context. Costs one unit of Workspace.Write."
    }

    fn source(&self) -> &'static str {
        concat!(include_str!("plan.rs"), include_str!("edit.rs"))
    }

    fn access(&self) -> Demand {
        Demand { cost: 0, ..DECLARED }
    }

    fn declared(&self) -> &'static [Demand] {
        &[DECLARED]
    }

    fn input_schema(&self) -> Value {
        SHAPE.schema()
    }

    fn plan(&self, args: &Value) -> Value {
        SHAPE.plan(args)
    }
}
