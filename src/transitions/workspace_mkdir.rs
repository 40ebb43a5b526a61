//! `workspace-mkdir`: one effect `Workspace.Write` with op `mkdir`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, required};

/// The tool `workspace-mkdir`.
pub(super) const TOOL: Shape = Shape {
    tool: "workspace-mkdir",
    title: "Make a folder",
    description: "Makes a folder of the worktree, and the folders above it that are missing. A folder that is there already is fine. \
        Writing a file makes its folders by itself, so this is for folders that stay empty. \
        Costs one unit of Workspace.Write.",
    source: concat!(include_str!("plan.rs"), include_str!("workspace_mkdir.rs")),
    op: "mkdir",
    effect: &[Demand { effect: "Workspace.Write", scope: WORKTREE, cost: 1 }],
    arguments: &[required("path", Takes::Path, "Folder to make, relative to the worktree")],
};
