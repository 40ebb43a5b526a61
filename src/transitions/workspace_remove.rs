//! `workspace-remove`: one effect `Workspace.Write` with op `remove`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, required};

/// The tool `workspace-remove`.
pub(super) const TOOL: Shape = Shape {
    tool: "workspace-remove",
    title: "Remove a file or an empty folder",
    description: "Removes one file (of at most 8 MiB) or one empty folder of the worktree. What a file held stays in the log, so that an \
        operator can take the removal back. Links are not removed. \
        .git/ and the paths that policy names are read-only. Costs one unit of Workspace.Write.",
    source: concat!(include_str!("plan.rs"), include_str!("workspace_remove.rs")),
    op: "remove",
    effect: &[Demand { effect: "Workspace.Write", scope: WORKTREE, cost: 1 }],
    arguments: &[required(
        "path",
        Takes::Path,
        "File or empty folder to remove, relative to the worktree",
    )],
};
