//! What changes that were cut off left beside the files, and its removal.
//!
//! All of it has names that no tool may use (`.worldlog-<16 hex>.tmp`), in the folder of the file that was being changed:
//! files that were to be put in place or that were displaced, and folders that were to be put in place or removed. Recovery
//! looks at what they hold first, and sweeps then.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, fsync, unlinkat};
use rustix::io::Errno;

use super::fault::Fault;
use super::place::{Last, kind, stat_name};
use super::replace::{hash_of, open_folder, reopen};
use super::{Worktree, policy};
use crate::limits::PATH_DEPTH_MAX;
use crate::merkle::hash::Hash;

impl Worktree {
    /// SHA-256 of each file that an unfinished change left in the folder of `path`; `None` for one that cannot be read.
    pub fn leftovers(&self, path: &str) -> Result<Vec<Option<Hash>>, Fault> {
        let (dir, names) = self.temporaries(path)?;
        let files = names.iter().filter(|(_, kind)| *kind == FileType::RegularFile);
        Ok(files.map(|(name, _)| hash_of(&dir, name)).collect())
    }

    /// Whether an unfinished change left a folder in the folder of `path` that holds more than empty folders: somebody put
    /// something there before it was moved away.
    pub fn stranded(&self, path: &str) -> Result<bool, Fault> {
        let (dir, names) = self.temporaries(path)?;
        let mut folders = names.iter().filter(|(_, kind)| *kind == FileType::Directory);
        Ok(folders.any(|(name, _)| !is_bare(&dir, name, 0).unwrap_or(false)))
    }

    /// Removes what unfinished changes left in the folder of `path`, and says how many that were. Folders that hold more
    /// than empty folders stay. For recovery, when no call of the episode runs and the disk has been looked at.
    pub fn sweep(&self, path: &str) -> Result<usize, Fault> {
        self.sweep_if(path, |_| true)
    }

    /// The same where the disk left a doubt: files with other content than these stay, for they may be the only copy of
    /// what somebody wrote.
    pub fn sweep_known(&self, path: &str, known: &[Option<Hash>]) -> Result<usize, Fault> {
        self.sweep_if(path, |hash| hash.is_some() && known.contains(&hash))
    }

    fn sweep_if(&self, path: &str, may: impl Fn(Option<Hash>) -> bool) -> Result<usize, Fault> {
        let (dir, names) = self.temporaries(path)?;
        let mut swept = 0;
        for (name, kind) in &names {
            let gone = if *kind == FileType::Directory {
                is_bare(&dir, name, 0).unwrap_or(false) && remove_bare(&dir, name).is_ok()
            } else if may(hash_of(&dir, name)) {
                unlinkat(&dir, name, AtFlags::empty())
                    .map_err(|errno| Fault::os("unlinkat", path, errno))?;
                true
            } else {
                false
            };
            swept += usize::from(gone);
        }
        if swept > 0 {
            fsync(&dir).map_err(|errno| Fault::os("fsync", path, errno))?;
        }
        Ok(swept)
    }

    fn temporaries(&self, path: &str) -> Result<(OwnedFd, Vec<(String, FileType)>), Fault> {
        let fault = |errno| Fault::os("getdents", path, errno);
        let place = self.resolve_any(path, Last::Kept)?;
        let dir = reopen(&place.dir).map_err(fault)?;
        let mut names = Vec::new();
        if place.missing.is_empty() {
            for entry in Dir::read_from(&dir).map_err(fault)? {
                let entry = entry.map_err(fault)?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                if !policy::is_temporary(name) {
                    continue;
                }
                let kind = stat_name(&dir, name, path)?.map(|stat| kind(&stat));
                let ours =
                    |kind: &FileType| matches!(kind, FileType::RegularFile | FileType::Directory);
                names.extend(kind.filter(ours).map(|kind| (name.to_owned(), kind)));
            }
        }
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok((dir, names))
    }
}

/// The one name in a folder: `Ok(None)` for an empty folder, an error for more names than one.
pub(super) fn only_name(folder: &OwnedFd) -> Result<Option<String>, Errno> {
    let mut only = None;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let name = entry.file_name().to_str().map_err(|_| Errno::NOTEMPTY)?;
        if only.replace(name.to_owned()).is_some() {
            return Err(Errno::NOTEMPTY);
        }
    }
    Ok(only)
}

/// Whether the folder `name` holds nothing, or one folder that in turn holds nothing but such folders.
fn is_bare(dir: impl AsFd, name: &str, depth: usize) -> Result<bool, Errno> {
    let folder = open_folder(dir, name)?;
    match only_name(&folder) {
        Ok(None) => Ok(true),
        Ok(Some(below)) if depth <= PATH_DEPTH_MAX => match is_bare(&folder, &below, depth + 1) {
            Err(Errno::NOTDIR | Errno::LOOP) => Ok(false),
            other => other,
        },
        Ok(Some(_)) | Err(Errno::NOTEMPTY) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether the folder `name` holds the first of `below`, that the second one, and so on, and the last one nothing.
pub(super) fn holds_only(dir: impl AsFd, name: &str, below: &[&str]) -> Result<bool, Errno> {
    let folder = open_folder(dir, name)?;
    match (only_name(&folder), below.split_first()) {
        (Ok(None), None) => Ok(true),
        (Ok(Some(held)), Some((first, rest))) if held == *first => holds_only(&folder, first, rest),
        (Ok(_) | Err(Errno::NOTEMPTY), _) => Ok(false),
        (Err(errno), _) => Err(errno),
    }
}

/// Removes a folder that holds nothing but empty folders in one another, the innermost first. An error may leave the outer ones; nothing but empty folders is removed.
pub(super) fn remove_bare(dir: impl AsFd, name: &str) -> Result<(), Errno> {
    let folder = open_folder(&dir, name)?;
    if let Some(below) = only_name(&folder)? {
        remove_bare(&folder, &below)?;
    }
    drop(folder);
    unlinkat(dir, name, AtFlags::REMOVEDIR)
}
