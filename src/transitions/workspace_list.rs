//! `workspace-list`: one effect `Workspace.List` with op `list`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, optional};
use crate::limits::{LIST_ENTRIES_MAX, PATH_DEPTH_MAX};

/// The tool `workspace-list`.
pub(super) const TOOL: Shape = Shape {
    tool: "workspace-list",
    title: "List files and folders",
    description: "Lists what is in a folder of the worktree and below it, by path: kind, size, and where a link leads. \
        What .gitignore files of the worktree exclude is left out, and so are names that begin with a dot unless \
        `hidden` is true; .git is never listed. Use it to find out what there is before you read. \
        `truncated` says that there is more: narrow `path`, `glob` or `depth`. Costs one unit of Workspace.List.",
    source: concat!(include_str!("plan.rs"), include_str!("workspace_list.rs")),
    op: "list",
    effect: &[Demand { effect: "Workspace.List", scope: WORKTREE, cost: 1 }],
    arguments: &[
        optional(
            "path",
            Takes::Path,
            "Folder to list, relative to the worktree; the worktree itself when left out",
        ),
        optional(
            "glob",
            Takes::Text,
            "Only paths that match, in the notation of .gitignore: *.rs, src/**/*.ail; a leading ! excludes",
        ),
        optional(
            "depth",
            Takes::Whole(1, PATH_DEPTH_MAX as u64),
            "Levels to list: 1 is what is in the folder itself; all when left out",
        ),
        optional(
            "hidden",
            Takes::Flag,
            "Whether to list names that begin with a dot; false when left out",
        ),
        optional(
            "limit",
            Takes::Whole(1, LIST_ENTRIES_MAX),
            "Entries to return at most; 1000 when left out",
        ),
    ],
};
