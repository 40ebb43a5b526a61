//! What the tools never write.
//!
//! ```text
//! .git            in any folder: the file, the folder and all beneath
//! .github/**      at the top of the worktree: the name itself and all beneath
//! .gitmodules     at the top of the worktree
//! .worldlog-*.tmp in any folder: the names of unfinished writes, which recovery removes
//! ```
//!
//! Names are compared without regard to the case of ASCII letters. Unicode case and the names that other systems take
//! for `.git` (NTFS short names, ignorable code points of HFS+) are not folded: worktrees live on Linux, where these are
//! different files. The text of a path is not enough: the caller asks again for the resolved path and for each link on it.

use super::fault::Fault;

/// The name that is read-only in any folder.
pub const GIT: &str = ".git";
/// Patterns at the top of the worktree.
pub const DENY_WRITE: [&str; 6] =
    [".github/**", ".pi/**", ".claude/**", ".ailang/**", ".gitmodules", ".gitattributes"];
/// The names of unfinished writes, in any folder.
pub const TEMPORARY: &str = ".worldlog-*.tmp";

/// Whether `path` may be written, by its text.
pub(super) fn check(path: &str) -> Result<(), Fault> {
    let names = || path.split('/').filter(|name| !name.is_empty() && *name != ".");
    if names().any(|name| name.eq_ignore_ascii_case(GIT)) {
        return Err(Fault::Git);
    }
    let first = names().next().unwrap_or("");
    let denied = |pattern: &&str| pattern.trim_end_matches("/**").eq_ignore_ascii_case(first);
    if let Some(pattern) = DENY_WRITE.into_iter().find(denied) {
        return Err(Fault::DenyWrite { pattern });
    }
    if names().any(|name| is_temporary(&name.to_ascii_lowercase())) {
        return Err(Fault::DenyWrite { pattern: TEMPORARY });
    }
    Ok(())
}

/// Whether `path` is `.git` in some folder, or beneath one.
pub(super) fn passes_git(path: &str) -> bool {
    path.split('/').any(|name| name.eq_ignore_ascii_case(GIT))
}

/// Whether a listing leaves out the name whatever is asked for.
pub(super) fn is_never_shown(name: &str) -> bool {
    name.eq_ignore_ascii_case(GIT) || is_temporary(name)
}

/// The name of an unfinished write.
pub(super) fn temporary(unique: u64) -> String {
    format!(".worldlog-{unique:016x}.tmp")
}

/// Whether `name` is one that [`temporary`] makes.
pub(super) fn is_temporary(name: &str) -> bool {
    let hex = name.strip_prefix(".worldlog-").and_then(|rest| rest.strip_suffix(".tmp"));
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hex.is_some_and(|hex| hex.len() == 16 && hex.bytes().all(digit))
}
