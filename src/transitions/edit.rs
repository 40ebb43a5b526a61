//! `ailang-edit`: one effect `Workspace.Write` with op `edit`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, required};

/// The tool `ailang-edit`.
pub(super) const TOOL: Shape = Shape {
    tool: "ailang-edit",
    title: "Edit (sandboxed)",
    description: "Replaces one passage of a file of the worktree. `old_text` must occur exactly once, spaces and line ends included; \
        all other bytes stay as they are. When it is not found, or found more often, nothing is changed and the \
        refusal says so: read the file again, or give more context. Costs one unit of Workspace.Write.",
    source: concat!(include_str!("plan.rs"), include_str!("edit.rs")),
    op: "edit",
    effect: &[Demand { effect: "Workspace.Write", scope: WORKTREE, cost: 1 }],
    arguments: &[
        required("path", Takes::Path, "File to edit, relative to the worktree"),
        required(
            "old_text",
            Takes::Text,
            "The text to replace, exactly as it stands in the file, with enough context to occur once",
        ),
        required("new_text", Takes::Text, "The text to put in its place; empty to delete it"),
    ],
};
