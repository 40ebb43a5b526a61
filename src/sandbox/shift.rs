//! Files and folders moved, removed and made, each in one step.
//!
//! ```text
//! move                                  remove                                  make folders
//! 1 look: still what was recorded?      1 look: still what was recorded?        1 look: still nothing there?
//! 2 make missing folders of the goal                                            2 make them beneath a temporary name, sync
//! 3 seal                                2 seal                                  3 seal
//! 4 rename, replacing nothing           3 rename to a temporary name            4 rename, replacing nothing
//! 5 is it what was recorded? else back  4 is it what was recorded? else back    5 fsync the folder
//! 6 fsync both folders                  5 fsync the folder
//!                                       6 remove the temporary name
//! ```
//!
//! Dying up to the seal leaves the state before, with empty folders at worst; dying from the rename on leaves the state
//! after, or a stranger's file where step 5 (4) would have put it back from. A single folder is removed by `rmdir`, which
//! is one step by itself. Where the file system has no rename that replaces nothing, a file gets its new name by a hard
//! link and loses the old one (dying in between leaves both), and a folder is renamed (which can take the place of an
//! empty folder that appears in the last moment).

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Mode, RenameFlags, fchmod, fsync, linkat, mkdirat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::fault::{Fault, reason};
use super::leftover::{holds_only, remove_bare};
use super::replace::{Effected, Made, Sealing, hash_of, make_missing, open_folder, reopen};
use super::{Thing, Worktree, policy};
use crate::merkle::hash::Hash;

/// What was recorded of a file or a folder before it is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A file.
    File {
        /// SHA-256 of its content.
        sha256: Hash,
        /// Permission bits.
        mode: u32,
    },
    /// A folder.
    Folder {
        /// The inode.
        inode: u64,
        /// Permission bits.
        mode: u32,
    },
}

impl From<&Thing> for Known {
    fn from(thing: &Thing) -> Self {
        match thing {
            Thing::File(found) => Self::File { sha256: found.sha256, mode: found.stamp.mode },
            Thing::Folder(stamp) => Self::Folder { inode: stamp.inode, mode: stamp.mode },
        }
    }
}

/// A removal, as recorded before it is made.
#[derive(Debug, Clone, Copy)]
pub struct Removal<'a> {
    /// The path as given.
    pub path: &'a str,
    /// Where it led, without links.
    pub resolved: &'a str,
    /// What stands there.
    pub known: Known,
    /// What a folder holds: the first one, and that the second one, and so on; the last is empty.
    pub below: &'a [&'a str],
    /// Names what is temporary; never used twice.
    pub unique: u64,
}

/// A move, as recorded before it is made.
#[derive(Debug, Clone, Copy)]
pub struct Carriage<'a> {
    /// Both paths as given.
    pub given: (&'a str, &'a str),
    /// Where they led, without links.
    pub resolved: (&'a str, &'a str),
    /// What stands at the first one.
    pub known: Known,
}

/// Folders to be made, as recorded before they are.
#[derive(Debug, Clone, Copy)]
pub struct Raising<'a> {
    /// The path as given.
    pub path: &'a str,
    /// The folders, without links, each inside the one before it.
    pub folders: &'a [String],
    /// Their permission bits.
    pub modes: &'a [u32],
    /// Names what is temporary; never used twice.
    pub unique: u64,
}

/// `Ok(None)`: it is there as recorded. Otherwise what to answer.
fn compare(now: Option<&Thing>, known: Known) -> Result<Option<Effected>, Fault> {
    match (now, known) {
        (Some(Thing::File(found)), Known::File { sha256, mode }) if found.sha256 == sha256 => {
            if found.stamp.mode == mode {
                Ok(None)
            } else {
                Err(Fault::Changing)
            }
        }
        (Some(Thing::Folder(stamp)), Known::Folder { inode, mode }) if stamp.inode == inode => {
            if stamp.mode == mode {
                Ok(None)
            } else {
                Err(Fault::Changing)
            }
        }
        (Some(Thing::File(found)), _) => Ok(Some(Effected::Stale { now: Some(found.sha256) })),
        (_, _) => Ok(Some(Effected::Stale { now: None })),
    }
}

fn is_known(dir: impl AsFd, name: &str, known: Known) -> bool {
    match known {
        Known::File { sha256, .. } => hash_of(dir, name) == Some(sha256),
        Known::Folder { inode, .. } => {
            statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_ino == inode)
        }
    }
}

fn unsynced(errno: Errno) -> Effected {
    let reason = format!("it is done, but the folder could not be synced: {}", reason(errno));
    Effected::Unsure { reason }
}

impl Worktree {
    /// Removes a file or empty folders, if what stands there is still what was recorded. An error means that nothing was
    /// changed.
    pub fn remove(&self, removal: &Removal<'_>, seal: Sealing<'_>) -> Result<Effected, Fault> {
        let Removal { path, resolved, known, below, unique } = *removal;
        let spot = self.spot(path)?;
        if spot.path != resolved {
            return Err(Fault::Changing);
        }
        if let Some(ended) = compare(spot.thing.as_ref(), known)? {
            return Ok(ended);
        }
        let dir = reopen(&spot.place.dir).map_err(|errno| Fault::os("openat", path, errno))?;
        let name = spot.place.name.as_str();
        let folder = matches!(known, Known::Folder { .. });
        if !seal() {
            return Ok(Effected::Stopped);
        }
        if folder && below.is_empty() {
            return match unlinkat(&dir, name, AtFlags::REMOVEDIR) {
                Ok(()) => Ok(fsync(&dir).map_or_else(unsynced, |()| Effected::Done)),
                Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Fault::NotEmpty),
                Err(Errno::NOENT | Errno::NOTDIR) => Ok(Effected::Stale { now: None }),
                Err(errno) => Err(Fault::os("unlinkat", path, errno)),
            };
        }
        let temporary = policy::temporary(unique);
        // Nothing else has that name, so a rename that could replace does the same where there is no other.
        let aside = match renameat_with(&dir, name, &dir, &temporary, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => renameat(&dir, name, &dir, &temporary),
            other => other,
        };
        match aside {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Effected::Stale { now: None }),
            Err(errno) => return Err(Fault::os("renameat2", path, errno)),
        }
        let bare = !folder || holds_only(&dir, &temporary, below).unwrap_or(false);
        if !bare || !is_known(&dir, &temporary, known) {
            return Ok(self.put_back((&dir, &temporary), (&dir, name)));
        }
        if let Err(errno) = fsync(&dir) {
            return Ok(unsynced(errno));
        }
        if folder {
            if let Err(errno) = remove_bare(&dir, &temporary) {
                let reason =
                    format!("it was moved to {temporary} but not removed: {}", reason(errno));
                return Ok(Effected::Unsure { reason });
            }
        } else {
            // A name that stays is swept later.
            let _ = unlinkat(&dir, &temporary, AtFlags::empty());
        }
        Ok(Effected::Done)
    }

    /// Moves a file or a folder to a name that nothing has, if what stands there is still what was recorded. An error
    /// means that nothing was changed.
    pub fn carry(&self, carriage: &Carriage<'_>, seal: Sealing<'_>) -> Result<Effected, Fault> {
        let (from, to) = (self.spot(carriage.given.0)?, self.spot(carriage.given.1)?);
        if (from.path.as_str(), to.path.as_str()) != carriage.resolved {
            return Err(Fault::Changing);
        }
        if let Some(ended) = compare(from.thing.as_ref(), carriage.known)? {
            return Ok(ended);
        }
        if let Some(thing) = &to.thing {
            return Err(exists(carriage.given.1, thing));
        }
        let source = reopen(&from.place.dir)
            .map_err(|errno| Fault::os("openat", carriage.given.0, errno))?;
        let mut made = Made::default();
        let result = make_missing(&to.place, carriage.given.1, &mut made).and_then(|goal| {
            let names = (from.place.name.as_str(), to.place.name.as_str());
            self.carry_to((&source, names.0), (&goal, names.1), carriage, seal)
        });
        made.keep_if(&result);
        result
    }

    fn carry_to(
        &self,
        (source, from): (&OwnedFd, &str),
        (goal, to): (&OwnedFd, &str),
        carriage: &Carriage<'_>,
        seal: Sealing<'_>,
    ) -> Result<Effected, Fault> {
        if !seal() {
            return Ok(Effected::Stopped);
        }
        match self.rename_new(source, from, goal, to) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Effected::Stale { now: None }),
            Err(Errno::EXIST | Errno::NOTEMPTY) => {
                let path = carriage.given.1.to_owned();
                return Err(Fault::Exists { path, what: "something" });
            }
            Err(errno) => return Err(Fault::os("renameat2", carriage.given.0, errno)),
        }
        if !is_known(goal, to, carriage.known) {
            return Ok(self.put_back((goal, to), (source, from)));
        }
        match fsync(goal).and_then(|()| fsync(source)) {
            Ok(()) => Ok(Effected::Done),
            Err(errno) => Ok(unsynced(errno)),
        }
    }

    /// Makes folders, if nothing stands there. An error means that nothing was changed.
    pub fn raise(&self, raising: &Raising<'_>, seal: Sealing<'_>) -> Result<Effected, Fault> {
        let spot = self.spot_of_folder(raising.path)?;
        match &spot.thing {
            Some(Thing::File(found)) => {
                return Ok(Effected::Stale { now: Some(found.sha256) });
            }
            Some(Thing::Folder(_)) => return Err(Fault::Changing),
            None if spot.missing() != raising.folders => return Err(Fault::Changing),
            None => {}
        }
        let fault = |errno| Fault::os("mkdirat", raising.path, errno);
        let dir = reopen(&spot.place.dir).map_err(fault)?;
        let names: Vec<&str> = spot.place.missing.iter().map(String::as_str).collect();
        let names = [names.as_slice(), &[spot.place.name.as_str()]].concat();
        let Some((top, below)) = names.split_first() else { return Err(Fault::Root) };
        let temporary = policy::temporary(raising.unique);
        let made = make_chain(&dir, &temporary, below, raising.modes).map_err(fault);
        let result = made.and_then(|()| {
            if !seal() {
                return Ok(Effected::Stopped);
            }
            match self.rename_new(&dir, &temporary, &dir, top) {
                Ok(()) => Ok(fsync(&dir).map_or_else(unsynced, |()| Effected::Done)),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {
                    Ok(Effected::Stale { now: hash_of(&dir, top) })
                }
                Err(errno) => Err(Fault::os("renameat2", raising.path, errno)),
            }
        });
        if !matches!(result, Ok(Effected::Done | Effected::Unsure { .. })) {
            let _ = remove_bare(&dir, &temporary);
        }
        result
    }

    /// A rename that replaces nothing.
    fn rename_new(
        &self,
        source: &OwnedFd,
        from: &str,
        goal: &OwnedFd,
        to: &str,
    ) -> Result<(), Errno> {
        if self.means.renameat2 {
            match renameat_with(source, from, goal, to, RenameFlags::NOREPLACE) {
                // The file system or the kernel cannot: fall through.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                other => return other,
            }
        }
        // Of a folder the system makes no hard link; what a rename of it replaces is an empty folder at most.
        match linkat(source, from, goal, to, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::PERM) => return renameat(source, from, goal, to),
            Err(errno) => return Err(errno),
        }
        let inode = |dir: &OwnedFd, name: &str| {
            statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (stat.st_dev, stat.st_ino))
        };
        // A file that somebody put under the old name meanwhile is theirs. Between this look and the next call one can
        // still be lost: no call of such a system closes the gap.
        if inode(source, from) == inode(goal, to) {
            unlinkat(source, from, AtFlags::empty())?;
        }
        Ok(())
    }

    /// What was taken away is not what was recorded: it goes back under its name.
    fn put_back(&self, at: (&OwnedFd, &str), name: (&OwnedFd, &str)) -> Effected {
        let ((dir, held), (home, name)) = (at, name);
        let back = self.rename_new(dir, held, home, name);
        match back.and_then(|()| fsync(home)) {
            Ok(()) => Effected::Stale { now: hash_of(home, name) },
            // Somebody wrote under the name again. Both are kept; a person has to choose.
            Err(errno) => Effected::Unsure {
                reason: format!(
                    "what changed meanwhile was moved to {held} and could not go back: {}",
                    reason(errno)
                ),
            },
        }
    }
}

/// What a path that was to be free says.
pub fn exists(path: &str, thing: &Thing) -> Fault {
    let what = match thing {
        Thing::File(_) => "a file",
        Thing::Folder(_) => "a folder",
    };
    Fault::Exists { path: path.to_owned(), what }
}

/// Makes the folder `top`, and `below` inside one another in it, and syncs all but the folder that holds `top`.
fn make_chain(dir: &OwnedFd, top: &str, below: &[&str], modes: &[u32]) -> Result<(), Errno> {
    let mut opened: Vec<OwnedFd> = Vec::with_capacity(below.len() + 1);
    for name in std::iter::once(&top).chain(below) {
        let parent = opened.last().unwrap_or(dir);
        // Nobody else uses it before it has the mode it is to have.
        mkdirat(parent, *name, Mode::from_raw_mode(0o700))?;
        let folder = open_folder(parent, name)?;
        opened.push(folder);
    }
    for (folder, mode) in opened.iter().zip(modes).rev() {
        fchmod(folder, Mode::from_raw_mode(*mode))?;
        fsync(folder)?;
    }
    Ok(())
}
