//! One file replaced in one step, and what a crash leaves of it.
//!
//! ```text
//! step                                              if we die after it
//! 1 look: still the recorded file?                  as before
//! 2 make missing folders, each synced               as before, with empty folders
//! 3 write .worldlog-<16 hex>.tmp, mode, fsync       as before, with a temporary file
//! 4 seal: may it still happen?                      as before, with a temporary file
//! 5 exchange the two names (or rename, if absent)   as intended; the temporary name holds the file before
//! 6 hash what was displaced; exchange back if it    as intended, or the stranger's file
//!   is not the recorded file
//! 7 fsync the folder                                as intended, also after a power cut
//! 8 remove the temporary name                       as intended
//! ```
//!
//! Temporary files are swept by recovery, after it has looked at what they hold. Owner and extended attributes are those
//! of a new file; the permission bits are kept, without set-user-id and set-group-id, which a write clears on Linux too.

use std::fs::File;
use std::io::Write;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, Stat, fchmod, fstat, fsync, linkat, mkdirat, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::fault::{Fault, reason};
use super::place::Place;
use super::{FOLDER, Target, Worktree, file, policy};
use crate::limits::{FILE_BYTES_MAX, PATH_TRIES_MAX};
use crate::merkle::hash::Hash;

/// Asked once, right before the point of no return. `false`: a deadline has closed the call, and nothing may happen.
pub type Sealing<'a> = &'a dyn Fn() -> bool;

/// A replacement, as recorded before it is made.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The path as given.
    pub path: &'a str,
    /// Where it led, without links.
    pub resolved: &'a str,
    /// SHA-256 and mode of the file that stands there; `None` when there is none.
    pub before: Option<(Hash, u32)>,
    /// The content to put there.
    pub bytes: &'a [u8],
    /// The permission bits to give it.
    pub mode: u32,
    /// Names the temporary file; never used twice.
    pub unique: u64,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effected {
    /// All is as it was to be, also after a power cut.
    Done,
    /// The seal was refused. The worktree is as it was.
    Stopped,
    /// What stands there is not what was recorded. It was left as it is.
    Stale {
        /// SHA-256 of what stands there, when it is a file that can be read.
        now: Option<Hash>,
    },
    /// The change was made, in part or for a time; what the system said makes it unsure what a power cut leaves.
    Unsure {
        /// What it said.
        reason: String,
    },
}

enum Put {
    /// In place; the temporary name holds what was displaced.
    Displaced,
    /// In place; the temporary name is gone.
    Gone,
    /// Not in place.
    Not(Effected),
}

impl Worktree {
    /// Makes the change, if what stands there is still what was recorded. An error means that nothing was changed.
    pub fn replace(&self, change: &Change<'_>, seal: Sealing<'_>) -> Result<Effected, Fault> {
        if change.bytes.len() > FILE_BYTES_MAX {
            return Err(Fault::TooLarge { bytes: change.bytes.len() as u64 });
        }
        let Target { path, before, place } = self.target(change.path)?;
        if path != change.resolved {
            return Err(Fault::Changing);
        }
        let now = before.map(|found| (found.sha256, found.stamp.mode));
        if now.map(|(sha256, _)| sha256) != change.before.map(|(sha256, _)| sha256) {
            return Ok(Effected::Stale { now: now.map(|(sha256, _)| sha256) });
        }
        if now != change.before {
            return Err(Fault::Changing);
        }
        let mut made = Made::default();
        let result = self.put_below(&place, change, seal, &mut made);
        made.keep_if(&result);
        result
    }

    fn put_below(
        &self,
        place: &Place,
        change: &Change<'_>,
        seal: Sealing<'_>,
        made: &mut Made,
    ) -> Result<Effected, Fault> {
        let dir = make_missing(place, change.path, made)?;
        self.put(&dir, &place.name, change, seal)
    }

    fn put(
        &self,
        dir: &OwnedFd,
        name: &str,
        change: &Change<'_>,
        seal: Sealing<'_>,
    ) -> Result<Effected, Fault> {
        let temporary = policy::temporary(change.unique);
        // Open until the end, so that no other file gets its inode.
        let ours = write_temporary(dir, &temporary, change)?;
        if !seal() {
            let _ = unlinkat(dir, &temporary, AtFlags::empty());
            return Ok(Effected::Stopped);
        }
        let put = match &change.before {
            Some((before, _)) => self.exchange(dir, &temporary, name, before, &ours),
            None => self.create(dir, &temporary, name),
        };
        let put = match put {
            Ok(Put::Not(Effected::Unsure { reason })) => return Ok(Effected::Unsure { reason }),
            Ok(Put::Not(other)) => Ok(Put::Not(other)),
            Ok(put) => match fsync(dir) {
                Ok(()) => Ok(put),
                Err(errno) => {
                    let reason = format!(
                        "the file is in place, but its folder could not be synced: {}",
                        reason(errno)
                    );
                    return Ok(Effected::Unsure { reason });
                }
            },
            Err(errno) => Err(Fault::os("renameat2", change.path, errno)),
        };
        if !matches!(put, Ok(Put::Gone)) {
            // A name that stays is swept later.
            let _ = unlinkat(dir, &temporary, AtFlags::empty());
        }
        match put? {
            Put::Not(other) => Ok(other),
            Put::Displaced | Put::Gone => Ok(Effected::Done),
        }
    }

    /// An error: nothing was exchanged.
    fn exchange(
        &self,
        dir: &OwnedFd,
        temporary: &str,
        name: &str,
        before: &Hash,
        ours: &File,
    ) -> Result<Put, Errno> {
        let swap = || renameat_with(dir, temporary, dir, name, RenameFlags::EXCHANGE);
        if self.means.renameat2 {
            match swap() {
                Ok(()) => {
                    if hash_of(dir, temporary) == Some(*before) {
                        return Ok(Put::Displaced);
                    }
                    return Ok(Put::Not(match swap_back(dir, temporary, ours, swap) {
                        Ok(()) => Effected::Stale { now: hash_of(dir, name) },
                        Err(errno) => Effected::Unsure {
                            reason: format!(
                                "a file that changed meanwhile was displaced: {}",
                                reason(errno)
                            ),
                        },
                    }));
                }
                Err(Errno::NOENT) => return Ok(Put::Not(Effected::Stale { now: None })),
                // The file system or the kernel cannot: fall through to a plain rename.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                Err(errno) => return Err(errno),
            }
        }
        // Between this look and the rename a foreign write can still be lost: no call of such a system closes the gap.
        match hash_of(dir, name) {
            Some(now) if now == *before => renameat(dir, temporary, dir, name).map(|()| Put::Gone),
            now => Ok(Put::Not(Effected::Stale { now })),
        }
    }

    /// An error: nothing was created.
    fn create(&self, dir: &OwnedFd, temporary: &str, name: &str) -> Result<Put, Errno> {
        let appeared = || Ok(Put::Not(Effected::Stale { now: hash_of(dir, name) }));
        if self.means.renameat2 {
            match renameat_with(dir, temporary, dir, name, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(Put::Gone),
                Err(Errno::EXIST) => return appeared(),
                Err(Errno::INVAL | Errno::NOSYS) => {}
                Err(errno) => return Err(errno),
            }
        }
        // A second name for the temporary file: like NOREPLACE it fails when something has that name. Dying before the
        // temporary name is removed leaves a file with two names, until the sweep.
        match linkat(dir, temporary, dir, name, AtFlags::empty()) {
            Ok(()) => Ok(Put::Displaced),
            Err(Errno::EXIST) => appeared(),
            Err(errno) => Err(errno),
        }
    }
}

/// Folders that were made on the way, outermost first: each with the handle of the folder that holds it.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<(OwnedFd, String)>);

impl Made {
    /// Removes them again, unless the change was made. Folders that somebody has used meanwhile are not empty, and stay.
    pub(super) fn keep_if(&self, result: &Result<Effected, Fault>) {
        if !matches!(result, Ok(Effected::Done | Effected::Unsure { .. })) {
            for (dir, name) in self.0.iter().rev() {
                let _ = unlinkat(dir, name, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// Makes the missing folders of a place, each synced, and opens the last one.
pub(super) fn make_missing(place: &Place, path: &str, made: &mut Made) -> Result<OwnedFd, Fault> {
    let fault = |errno| Fault::os("openat", path, errno);
    let mut dir = reopen(&place.dir).map_err(fault)?;
    for name in &place.missing {
        match mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            // Somebody made it, or a link of that name: what was recorded is no longer so.
            Err(Errno::EXIST) => return Err(Fault::Changing),
            Err(errno) => return Err(Fault::os("mkdirat", path, errno)),
        }
        let below = open_folder(&dir, name).map_err(fault);
        let synced = fsync(&dir).map_err(|errno| Fault::os("fsync", path, errno));
        let above = match below {
            Ok(below) => std::mem::replace(&mut dir, below),
            Err(error) => {
                let _ = unlinkat(&dir, name, AtFlags::REMOVEDIR);
                return Err(error);
            }
        };
        made.0.push((above, name.clone()));
        synced?;
    }
    Ok(dir)
}

/// Puts a stranger's file back under its name. Each exchange must bring back what was put there last; if it brings
/// something else, that was written in between, is the newest, and goes back in turn.
fn swap_back(
    dir: &OwnedFd,
    temporary: &str,
    ours: &File,
    swap: impl Fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let identity = |stat: Stat| (stat.st_ino, stat.st_mtime, stat.st_mtime_nsec);
    let held = || statat(dir, temporary, AtFlags::SYMLINK_NOFOLLOW).map(identity);
    let mut put_last = identity(fstat(ours)?);
    for _ in 0..PATH_TRIES_MAX {
        let returned = held()?;
        match swap() {
            Ok(()) => {}
            // Removed by somebody who took our file for theirs: so nothing is to stand there.
            Err(Errno::NOENT) => return fsync(dir),
            Err(errno) => return Err(errno),
        }
        if held()? == put_last {
            return fsync(dir);
        }
        put_last = returned;
    }
    Err(Errno::AGAIN)
}

/// A handle of the folder that can be read and synced; the one of a place can only be searched.
pub(super) fn reopen(dir: impl AsFd) -> Result<OwnedFd, Errno> {
    openat(dir, ".", OFlags::RDONLY | FOLDER, Mode::empty())
}

/// A handle of the folder `name` that can be read and synced; a link is not followed.
pub(super) fn open_folder(dir: impl AsFd, name: &str) -> Result<OwnedFd, Errno> {
    openat(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | FOLDER, Mode::empty())
}

pub(super) fn hash_of(dir: impl AsFd, name: &str) -> Option<Hash> {
    file::read(dir, name, "").ok().flatten().map(|found| found.sha256)
}

/// Writes the temporary file and syncs it. After an error it is gone.
fn write_temporary(dir: &OwnedFd, name: &str, change: &Change<'_>) -> Result<File, Fault> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Nobody else reads it before it has the mode it is to have.
    let fd = openat(dir, name, flags, Mode::from_raw_mode(0o600))
        .map_err(|errno| Fault::os("openat", change.path, errno))?;
    let file = File::from(fd);
    let written = (|| {
        (&file)
            .write_all(change.bytes)
            .map_err(|error| ("write", Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        fchmod(&file, Mode::from_raw_mode(change.mode)).map_err(|errno| ("fchmod", errno))?;
        fsync(&file).map_err(|errno| ("fsync", errno))
    })();
    match written {
        Ok(()) => Ok(file),
        Err((call, errno)) => {
            let _ = unlinkat(dir, name, AtFlags::empty());
            Err(Fault::os(call, change.path, errno))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Here, because no test from outside can write between two exchanges.

    use super::*;
    use std::cell::Cell;
    use std::fs;

    /// Our file is in place and `one` was displaced. Before each of the first `writes` exchanges somebody renames a file
    /// over the name. What stands there in the end, and what is said?
    fn put_back(writes: usize) -> (Vec<u8>, Result<(), Errno>) {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let mut file = File::create_new(folder.path().join(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let (ours, _) = (put("f", "ours"), put("temporary", "one"));
        let dir = OwnedFd::from(File::open(folder.path()).unwrap());
        let exchanges = Cell::new(0);
        let swap = || {
            let n = exchanges.replace(exchanges.get() + 1);
            if n < writes {
                drop(put("new", &format!("theirs {n}")));
                renameat(&dir, "new", &dir, "f").unwrap();
            }
            renameat_with(&dir, "temporary", &dir, "f", RenameFlags::EXCHANGE)
        };
        let said = swap_back(&dir, "temporary", &ours, swap);
        (fs::read(folder.path().join("f")).unwrap(), said)
    }

    #[test]
    fn the_newest_of_a_strangers_files_stays() {
        assert_eq!(put_back(0), (b"one".to_vec(), Ok(())));
        for writes in 1..PATH_TRIES_MAX {
            assert_eq!(put_back(writes), (format!("theirs {}", writes - 1).into_bytes(), Ok(())));
        }
        assert_eq!(put_back(PATH_TRIES_MAX).1, Err(Errno::AGAIN));
    }

    #[test]
    fn what_a_stranger_removed_stays_removed() {
        let folder = tempfile::tempdir().unwrap();
        let ours = File::create_new(folder.path().join("gone")).unwrap();
        fs::remove_file(folder.path().join("gone")).unwrap();
        File::create_new(folder.path().join("temporary")).unwrap();
        let dir = OwnedFd::from(File::open(folder.path()).unwrap());
        let swap = || renameat_with(&dir, "temporary", &dir, "f", RenameFlags::EXCHANGE);
        assert_eq!(swap_back(&dir, "temporary", &ours, swap), Ok(()));
        assert!(!folder.path().join("f").exists());
    }
}
