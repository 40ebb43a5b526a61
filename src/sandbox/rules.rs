//! Which names a walk leaves out: `.gitignore` files, and the `glob` of whoever asked. Only the reading of patterns is
//! ripgrep's; the files are opened by the walk, beneath the worktree.
//!
//! Every folder's `.gitignore` counts from the worktree's root down, whether or not there is a repository; those above the
//! worktree, the user's own and `.git/info/exclude` do not. A line that is no pattern is passed over.

use std::fmt;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use rustix::fd::AsFd;
use rustix::fs::FileType;

use super::file;
use super::place::{kind, stat_name};
use crate::limits::{GLOB_BYTES_MAX, IGNORE_BYTES_MAX};

const NAME: &str = ".gitignore";

/// The rules of the folders from the root to the one that is walked.
#[derive(Default)]
pub(super) struct Rules(Vec<(usize, Option<Gitignore>)>);

impl Rules {
    /// Adds those of a folder. `prefix` is its path with a slash at the end, or nothing for the root.
    pub(super) fn enter(&mut self, dir: impl AsFd, prefix: &str) {
        self.0.push((prefix.len(), load(dir)));
    }

    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    /// Whether they leave `path` out. The innermost folder that has a say decides.
    pub(super) fn ignore(&self, path: &str, folder: bool) -> bool {
        for (prefix, rules) in self.0.iter().rev() {
            let (Some(rules), Some(below)) = (rules, path.get(*prefix..)) else { continue };
            let said = rules.matched(below, folder);
            if !said.is_none() {
                return said.is_ignore();
            }
        }
        false
    }
}

fn load(dir: impl AsFd) -> Option<Gitignore> {
    let stat = stat_name(&dir, NAME, NAME).ok().flatten()?;
    let small = u64::try_from(stat.st_size).is_ok_and(|size| size <= IGNORE_BYTES_MAX as u64);
    if kind(&stat) != FileType::RegularFile || !small {
        return None;
    }
    let found = file::read(&dir, NAME, NAME).ok().flatten()?;
    let text = String::from_utf8_lossy(&found.bytes);
    let mut builder = GitignoreBuilder::new("");
    for line in text.trim_start_matches('\u{feff}').lines() {
        // A line that is no pattern leaves nothing out.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Which paths are wanted, in the notation of `.gitignore`; with a leading `!` which are not.
pub struct Glob(Override);

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Glob(..)")
    }
}

impl Glob {
    /// Reads a pattern; without one every path is wanted.
    ///
    /// # Errors
    /// Why it is none.
    pub fn new(glob: Option<&str>) -> Result<Self, String> {
        let Some(glob) = glob else { return Ok(Self(Override::empty())) };
        if glob.len() > GLOB_BYTES_MAX {
            let bytes = glob.len();
            return Err(format!("the glob is {bytes} bytes; the limit is {GLOB_BYTES_MAX}"));
        }
        let mut builder = OverrideBuilder::new("");
        let read = builder.add(glob).and_then(|builder| builder.build());
        read.map(Self).map_err(|error| format!("the glob is not valid: {error}"))
    }

    pub(super) fn wants(&self, path: &str, folder: bool) -> bool {
        let said = self.0.matched(path, folder);
        said.is_whitelist() || said.is_none() && self.0.num_whitelists() == 0
    }

    /// Whether something below the folder `path` may be wanted.
    pub(super) fn enters(&self, path: &str) -> bool {
        !self.0.matched(path, true).is_ignore()
    }
}
