//! Why the sandbox did not do what was asked, in words that an agent can act on.
//!
//! A text names the path as it was given, never a path of the host. The caller puts the verb before it:
//! `read nope.ail: openat nope.ail: no such file or directory`.

use rustix::io::Errno;

use crate::limits::{FILE_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX, PATH_SHOWN_BYTES_MAX};

/// Why the sandbox did not do what was asked. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The path leads out of the worktree: absolute, by `..`, or by a link.
    #[error("path {:?} escapes sandbox \"<worktree>\"", shown(path))]
    Escapes {
        /// As given.
        path: String,
    },
    /// The path names nothing.
    #[error("path is empty")]
    Empty,
    /// The path holds a NUL byte, which no file name can.
    #[error("path contains a NUL byte")]
    Nul,
    /// The path is longer than Linux takes.
    #[error("path is {bytes} bytes; the limit is {PATH_BYTES_MAX}")]
    LongPath {
        /// Its length.
        bytes: usize,
    },
    /// The path has more folders than the sandbox follows.
    #[error("path is nested deeper than {PATH_DEPTH_MAX} folders")]
    DeepPath,
    /// A link leads to a name that is not UTF-8 and that no event could carry.
    #[error("path leads to a name that is not UTF-8")]
    NameNotUtf8,
    /// The path is the worktree itself.
    #[error("the path is the worktree itself")]
    Root,
    /// A link at the end of a path, where the link and not what it leads to would be changed.
    #[error("it is a symbolic link; only files and folders are moved and removed")]
    Link,
    /// Something has the name already.
    #[error("{}: there is {what} already, and nothing is replaced", shown(path))]
    Exists {
        /// As given.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// A folder that holds something.
    #[error("the folder is not empty; remove what is in it first")]
    NotEmpty,
    /// A folder was to go into itself.
    #[error("{} lies inside the folder that is to be moved", shown(path))]
    Inside {
        /// As given.
        path: String,
    },
    /// `.git` is neither listed nor searched.
    #[error(".git/ is not listed and not searched")]
    GitHidden,
    /// The system said no.
    #[error("{call} {}: {}", shown(path), reason(*errno))]
    Os {
        /// The system call.
        call: &'static str,
        /// As given.
        path: String,
        /// What it said.
        errno: Errno,
    },
    /// Neither a file nor a folder.
    #[error("openat {}: is a {kind}, not a regular file", shown(path))]
    Special {
        /// As given.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// Replacing the file would part it from its other names, and writing into it would change them.
    #[error("the file has {links} hard links; only a file with one name can be written")]
    HardLinks {
        /// How many names it has.
        links: u64,
    },
    /// More than the sandbox reads or writes.
    #[error("the file is {bytes} bytes; the limit is {FILE_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        bytes: u64,
    },
    /// The path or the file changed each time it was looked at.
    #[error("the path or the file keeps changing; try again when nothing else writes there")]
    Changing,
    /// `.git`, in any folder and any case.
    #[error(".git/ is read-only to the lane's tools")]
    Git,
    /// A pattern that policy keeps from being written.
    #[error("matches fs_deny_write \"{pattern}\" \u{2014} read-only under this policy")]
    DenyWrite {
        /// The pattern.
        pattern: &'static str,
    },
}

impl Fault {
    pub(super) fn os(call: &'static str, path: &str, errno: Errno) -> Self {
        Self::Os { call, path: path.to_owned(), errno }
    }

    /// There is no such file.
    pub fn absent(path: &str) -> Self {
        Self::os("openat", path, Errno::NOENT)
    }

    /// Whether there is simply no such file.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Os { errno: Errno::NOENT, .. })
    }
}

/// A path for a text: whole, or its beginning and its length.
pub fn shown(path: &str) -> String {
    if path.len() <= PATH_SHOWN_BYTES_MAX {
        return path.to_owned();
    }
    let cut = (0..=PATH_SHOWN_BYTES_MAX).rev().find(|cut| path.is_char_boundary(*cut));
    let start = path.get(..cut.unwrap_or(0)).unwrap_or("");
    format!("{start}... ({} bytes)", path.len())
}

/// The system's word in the form of the seed: lower case, no number.
pub(super) fn reason(errno: Errno) -> String {
    let text = match errno {
        Errno::NOENT => "no such file or directory",
        Errno::NOTDIR => "not a directory",
        Errno::ISDIR => "is a directory",
        Errno::ACCESS => "permission denied",
        Errno::PERM => "operation not permitted",
        Errno::NAMETOOLONG => "file name too long",
        Errno::LOOP => "too many levels of symbolic links",
        Errno::NOSPC => "no space left on device",
        Errno::DQUOT => "disk quota exceeded",
        Errno::ROFS => "read-only file system",
        Errno::IO => "input/output error",
        Errno::MFILE | Errno::NFILE => "too many open files",
        Errno::EXIST => "file exists",
        Errno::NOTEMPTY => "directory not empty",
        Errno::XDEV => "it would cross file systems",
        Errno::INVAL => "invalid argument",
        Errno::AGAIN => "it keeps changing",
        Errno::FBIG => "file too large",
        Errno::NOMEM => "cannot allocate memory",
        _ => return format!("error {}", errno.raw_os_error()),
    };
    text.to_owned()
}
