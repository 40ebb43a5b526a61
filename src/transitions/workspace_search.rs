//! `workspace-search`: one effect `Workspace.Search` with op `search`.

use super::Demand;
use super::plan::{Shape, Takes, WORKTREE, optional, required};
use crate::limits::{SEARCH_CONTEXT_LINES_MAX, SEARCH_MATCHES_MAX};

/// The tool `workspace-search`.
pub(super) const TOOL: Shape = Shape {
    tool: "workspace-search",
    title: "Search file contents",
    description: "Searches the files of a folder of the worktree, or one file, line by line, for a regular expression (the syntax of \
        Rust's regex crate: no backreferences, no look-around) or, with `literal`, for a text. Returns path, line number \
        and text of each line that matches. What .gitignore files exclude, names that begin with a dot (unless `hidden`), \
        binary files and files above 8 MiB are left out; the last two are counted. `truncated` says that there is more: \
        narrow the pattern, `path` or `glob`. Costs one unit of Workspace.Search.",
    source: concat!(include_str!("plan.rs"), include_str!("workspace_search.rs")),
    op: "search",
    effect: &[Demand { effect: "Workspace.Search", scope: WORKTREE, cost: 1 }],
    arguments: &[
        required(
            "pattern",
            Takes::Text,
            "What a line must contain: a regular expression, or a text when `literal` is true",
        ),
        optional(
            "literal",
            Takes::Flag,
            "Whether the pattern is a text and not an expression; false when left out",
        ),
        optional(
            "case",
            Takes::Choice(&["sensitive", "insensitive", "smart"]),
            "sensitive (when left out), insensitive, or smart: insensitive unless the pattern has a capital letter",
        ),
        optional(
            "path",
            Takes::Path,
            "Folder or file to search, relative to the worktree; the worktree itself when left out",
        ),
        optional(
            "glob",
            Takes::Text,
            "Only files whose paths match, in the notation of .gitignore: *.rs, src/**/*.ail; a leading ! excludes",
        ),
        optional(
            "hidden",
            Takes::Flag,
            "Whether to search names that begin with a dot; false when left out",
        ),
        optional(
            "context",
            Takes::Whole(0, SEARCH_CONTEXT_LINES_MAX),
            "Lines to show before and after each match; 0 when left out",
        ),
        optional(
            "limit",
            Takes::Whole(1, SEARCH_MATCHES_MAX),
            "Matches to return at most; 200 when left out",
        ),
    ],
};
