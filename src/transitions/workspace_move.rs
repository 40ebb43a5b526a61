//! `workspace-move`: one effect `Workspace.Write` with op `move`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, required};

/// The tool `workspace-move`.
pub(super) const TOOL: Shape = Shape {
    tool: "workspace-move",
    title: "Move or rename",
    description: "Moves or renames a file or a folder of the worktree, with all that is in it. Missing folders above the new path are \
        made. Nothing is ever replaced: when something stands at `to`, nothing is done. Files have at most 8 MiB. \
        .git/ and the paths that policy names are read-only. Costs one unit of Workspace.Write.",
    source: concat!(include_str!("plan.rs"), include_str!("workspace_move.rs")),
    op: "move",
    effect: &[Demand { effect: "Workspace.Write", scope: WORKTREE, cost: 1 }],
    arguments: &[
        required("from", Takes::Path, "File or folder to move, relative to the worktree"),
        required(
            "to",
            Takes::Path,
            "Its new path, relative to the worktree; nothing may stand there",
        ),
    ],
};
