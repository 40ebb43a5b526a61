//! `ailang-read`: one effect `Workspace.Read` with op `read`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, required};

/// The tool `ailang-read`.
pub(super) const TOOL: Shape = Shape {
    tool: "ailang-read",
    title: "Read (sandboxed)",
    description: "Returns the whole text of one file of the worktree as `content`, byte for byte. \
        Read a file before you edit or overwrite it. \
        Up to 8 MiB of UTF-8; for other files the refusal gives size and SHA-256. \
        Folders cannot be read. Costs one unit of Workspace.Read, also when the file is not there.",
    source: concat!(include_str!("plan.rs"), include_str!("read.rs")),
    op: "read",
    effect: &[Demand { effect: "Workspace.Read", scope: WORKTREE, cost: 1 }],
    arguments: &[required(
        "path",
        Takes::Path,
        "File to read, relative to the worktree, for example src/main.ail",
    )],
};
