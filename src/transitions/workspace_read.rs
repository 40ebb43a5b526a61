//! `workspace-read`: one effect `Workspace.Read` with op `view`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, optional, required};
use crate::limits::EVENT_UINT_MAX;

/// The tool `workspace-read`.
pub(super) const TOOL: Shape = Shape {
    tool: "workspace-read",
    title: "Read a file or a part of it",
    description: "Returns a file of the worktree, or some of its lines, and what the file is: size, lines, SHA-256, line ends, \
        byte-order mark, whether it is UTF-8, and whether more follows. Use it for long files (`offset`, `limit`) and, \
        with `encoding` base64, for files that are not text; there `offset` and `limit` count bytes. \
        Files up to 8 MiB. Costs one unit of Workspace.Read, also when the file is not there.",
    source: concat!(include_str!("plan.rs"), include_str!("workspace_read.rs")),
    op: "view",
    effect: &[Demand { effect: "Workspace.Read", scope: WORKTREE, cost: 1 }],
    arguments: &[
        required("path", Takes::Path, "File to read, relative to the worktree"),
        optional(
            "offset",
            Takes::Whole(1, EVENT_UINT_MAX),
            "First line to return (with base64: first byte), counted from 1; 1 when left out",
        ),
        optional(
            "limit",
            Takes::Whole(1, EVENT_UINT_MAX),
            "Lines (with base64: bytes) to return at most; all when left out",
        ),
        optional(
            "encoding",
            Takes::Choice(&["utf-8", "base64"]),
            "How `content` is given: utf-8 (when left out) or base64",
        ),
    ],
};
