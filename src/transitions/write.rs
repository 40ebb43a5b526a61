//! `ailang-write`: one effect `Workspace.Write` with op `write`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, required};

/// The tool `ailang-write`.
pub(super) const TOOL: Shape = Shape {
    tool: "ailang-write",
    title: "Write (sandboxed)",
    description: "Sets the whole content of one file of the worktree, and makes it and its folders when they are not there. \
        The file is replaced in one step: readers see the old or the new content, never a part. \
        To change a part of a file use ailang-edit. \
        .git/ and the paths that policy names are read-only. Costs one unit of Workspace.Write.",
    source: concat!(include_str!("plan.rs"), include_str!("write.rs")),
    op: "write",
    effect: &[Demand { effect: "Workspace.Write", scope: WORKTREE, cost: 1 }],
    arguments: &[
        required(
            "path",
            Takes::Path,
            "File to write, relative to the worktree; missing folders are made",
        ),
        required("content", Takes::Text, "The whole new content of the file"),
    ],
};
