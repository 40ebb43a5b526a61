//! `ailang-read`: one effect `Workspace.Read` with op `read`.

use super::plan::{Shape, WORKTREE};
use super::{Demand, Transition};
use crate::canon::Value;

/// The tool `ailang-read`.
pub(super) struct Read;

const DECLARED: Demand = Demand { effect: "Workspace.Read", scope: WORKTREE, cost: 1 };

const SHAPE: Shape = Shape {
    tool: "ailang-read",
    op: "read",
    effect: DECLARED,
    arguments: &[("path", "File to read, relative to the worktree, for example src/main.ail")],
};

impl Transition for Read {
    fn tool(&self) -> &'static str {
        SHAPE.tool
    }

    fn title(&self) -> &'static str {
        "Read (sandboxed)"
    }

    fn description(&self) -> &'static str {
        "Returns the whole text of one file of the worktree as `content`, byte for byte. \
         Read a file before you edit or overwrite it. \
         Up to 8 MiB of UTF-8; for other files the refusal gives size and SHA-256. \
         Folders cannot be read. Costs one unit of Workspace.Read, also when the file is not there."
    }

    fn source(&self) -> &'static str {
        concat!(include_str!("plan.rs"), include_str!("read.rs"))
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
