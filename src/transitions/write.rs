//! `ailang-write`: one effect `Workspace.Write` with op `write`.

use super::plan::{Shape, WORKTREE};
use super::{Demand, Transition};
use crate::canon::Value;

/// The tool `ailang-write`.
pub(super) struct Write;

const DECLARED: Demand = Demand { effect: "Workspace.Write", scope: WORKTREE, cost: 1 };

const SHAPE: Shape = Shape {
    tool: "ailang-write",
    op: "write",
    effect: DECLARED,
    arguments: &[
        ("path", "File to write, relative to the worktree; missing folders are made"),
        ("content", "The whole new content of the file"),
    ],
};

impl Transition for Write {
    fn tool(&self) -> &'static str {
        SHAPE.tool
    }

    fn title(&self) -> &'static str {
        "Write (sandboxed)"
    }

    fn description(&self) -> &'static str {
        "Sets the whole content of one file of the worktree, and makes it and its folders when they are not there. \
         The file is replaced in one step: readers see the old or the new content, never a part. \
         To change a part of a file use ailang-edit. \
         .git/ and the paths that policy names are read-only. Costs one unit of Workspace.Write."
    }

    fn source(&self) -> &'static str {
        concat!(include_str!("plan.rs"), include_str!("write.rs"))
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
