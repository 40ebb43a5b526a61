//! From the text of a path to a folder handle, a name, and the path without links.
//!
//! With `openat2` the kernel opens the folder by a path that holds no link (`RESOLVE_BENEATH`, `RESOLVE_NO_MAGICLINKS`,
//! `RESOLVE_NO_SYMLINKS`), so the text that policy judges and evidence names is the path that was opened. When a link
//! stands in the way, the walk below finds out where it leads, and the kernel opens that. Without `openat2` the handles of
//! the walk itself are used.
//!
//! The walk takes one name at a time from a handle, never following a link: a link is read, and what it says is walked in
//! turn. `..` goes back to the handle it came from, not to what the file system calls the parent. So whatever is swapped
//! meanwhile, no handle outside the worktree is ever opened.
//!
//! What no resolver can prevent: a folder that is moved out of the worktree after it was opened. Only a process with
//! rights on both sides can do that, and a program that an agent runs has none outside.

use std::collections::VecDeque;
use std::ffi::CString;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;

use super::fault::Fault;
use super::{FOLDER, Worktree};
use crate::limits::{PATH_BYTES_MAX, PATH_DEPTH_MAX, PATH_LINKS_MAX, PATH_TRIES_MAX};

/// Where a file stands, or would stand.
#[derive(Debug)]
pub(super) struct Place {
    /// The deepest folder on the way that exists. A handle for reaching files, not for reading the folder.
    pub(super) dir: OwnedFd,
    /// Folders to be made beneath it, outermost first.
    pub(super) missing: Vec<String>,
    /// The file's own name.
    pub(super) name: String,
    /// The whole path beneath the worktree, without links.
    pub(super) path: String,
    /// Where the links stand that were followed, as paths without links.
    pub(super) links: Vec<String>,
    /// What stands there, if anything; a link only where [`Last::Kept`] was asked for.
    pub(super) stat: Option<Stat>,
    /// Whether the path ends with `/` or `/.`, so that only a folder can stand there.
    pub(super) slash: bool,
}

/// What is done with a link at the end of a path. Links before it are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// It is followed: the path means what it leads to.
    Followed,
    /// The path means the link itself.
    Kept,
}

/// What can be said of a path before the disk is asked.
pub(super) fn check_text(path: &str) -> Result<(), Fault> {
    if path.is_empty() {
        return Err(Fault::Empty);
    }
    if path.contains('\0') {
        return Err(Fault::Nul);
    }
    if path.starts_with('/') {
        return Err(Fault::Escapes { path: path.to_owned() });
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Fault::LongPath { bytes: path.len() });
    }
    Ok(())
}

impl Worktree {
    /// Resolves the `path` of a file, looking again when it changes under the look.
    pub(super) fn resolve(&self, path: &str) -> Result<Place, Fault> {
        match self.resolve_any(path, Last::Followed) {
            Ok(place) if place.slash && place.stat.is_none() => Err(Fault::absent(path)),
            Err(Fault::Root) => Err(Fault::os("openat", path, Errno::ISDIR)),
            other => other,
        }
    }

    /// Resolves the `path` of a file or a folder.
    pub(super) fn resolve_any(&self, path: &str, last: Last) -> Result<Place, Fault> {
        check_text(path)?;
        for _ in 0..PATH_TRIES_MAX {
            if let Some(place) = self.resolve_once(path, last)? {
                return Ok(place);
            }
        }
        Err(Fault::Changing)
    }

    fn resolve_once(&self, path: &str, last: Last) -> Result<Option<Place>, Fault> {
        if self.means.openat2
            && let Some(place) = self.direct(path, last)?
        {
            return Ok(Some(place));
        }
        let walk = Walk::new(self.root.as_fd(), path, last);
        let Some(place) = walk.run()? else { return Ok(None) };
        if !self.means.openat2 {
            return Ok(Some(place));
        }
        self.confirm(place, path)
    }

    /// The common case: no link and no `..` on the way, so that one call opens the folder. `None`: ask the walk.
    fn direct(&self, path: &str, last: Last) -> Result<Option<Place>, Fault> {
        let plain = |name: &&str| !name.is_empty() && *name != "." && *name != "..";
        let names: Vec<&str> = path.split('/').collect();
        let Some((name, parents)) = names.split_last().filter(|_| names.iter().all(plain)) else {
            return Ok(None);
        };
        if parents.len() > PATH_DEPTH_MAX {
            return Err(Fault::DeepPath);
        }
        let dir = match self.open_folder(&parents.join("/")) {
            Ok(dir) => dir,
            // A link, an absent folder, a file in a folder's place, a race: the walk tells them apart.
            Err(Errno::LOOP | Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::AGAIN) => {
                return Ok(None);
            }
            Err(errno) => return Err(Fault::os("openat", path, errno)),
        };
        let stat = stat_name(&dir, name, path)?;
        let link = stat.as_ref().is_some_and(|stat| kind(stat) == FileType::Symlink);
        if link && last == Last::Followed {
            return Ok(None);
        }
        let (name, path) = ((*name).to_owned(), path.to_owned());
        let (missing, links) = (Vec::new(), Vec::new());
        Ok(Some(Place { dir, missing, name, path, links, stat, slash: false }))
    }

    /// Lets the kernel open the folder that the walk found, by the path that the walk found. `None`: it is another one.
    fn confirm(&self, place: Place, path: &str) -> Result<Option<Place>, Fault> {
        let depth = place.path.split('/').count() - 1 - place.missing.len();
        let parents: Vec<&str> = place.path.split('/').take(depth).collect();
        let Ok(dir) = self.open_folder(&parents.join("/")) else { return Ok(None) };
        let fault = |errno| Fault::os("fstat", path, errno);
        let (found, walked) = (fstat(&dir).map_err(fault)?, fstat(&place.dir).map_err(fault)?);
        let same = found.st_dev == walked.st_dev && found.st_ino == walked.st_ino;
        Ok(same.then_some(Place { dir, ..place }))
    }

    fn open_folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { "." } else { path };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        openat2(&self.root, path, OFlags::PATH | FOLDER, Mode::empty(), resolve)
    }
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    path: &'a str,
    last: Last,
    slash: bool,
    /// The folders entered so far, without links.
    entered: Vec<(OwnedFd, String)>,
    /// Names still to be taken. `.` and the empty name stay in: they demand that a folder comes before them.
    todo: VecDeque<String>,
    links: Vec<String>,
}

impl<'a> Walk<'a> {
    fn new(root: BorrowedFd<'a>, path: &'a str, last: Last) -> Self {
        let todo = path.split('/').map(str::to_owned).collect();
        let slash = path.ends_with('/') || path.ends_with("/.");
        Self { root, path, last, slash, entered: Vec::new(), todo, links: Vec::new() }
    }

    /// `None`: a name changed between two looks at it.
    fn run(mut self) -> Result<Option<Place>, Fault> {
        while let Some(name) = self.todo.pop_front() {
            match name.as_str() {
                "" | "." => continue,
                ".." if self.entered.pop().is_some() => continue,
                ".." => return Err(self.escapes()),
                _ => {}
            }
            let Some(stat) = stat_name(self.dir(), &name, self.path)? else {
                return self.absent(name).map(Some);
            };
            match kind(&stat) {
                FileType::Symlink if self.last == Last::Kept && self.is_last() => {
                    return self.place(Vec::new(), name, Some(stat)).map(Some);
                }
                FileType::Symlink => {
                    if !self.follow(&name)? {
                        return Ok(None);
                    }
                }
                FileType::Directory => {
                    if !self.enter(name)? {
                        return Ok(None);
                    }
                }
                _ if self.todo.is_empty() => {
                    return self.place(Vec::new(), name, Some(stat)).map(Some);
                }
                _ => return Err(Fault::os("openat", self.path, Errno::NOTDIR)),
            }
        }
        let Some((folder, name)) = self.entered.pop() else { return Err(Fault::Root) };
        let stat = fstat(&folder).map_err(|errno| Fault::os("fstat", self.path, errno))?;
        self.place(Vec::new(), name, Some(stat)).map(Some)
    }

    /// Whether no name follows.
    fn is_last(&self) -> bool {
        self.todo.iter().all(|name| name.is_empty() || name == ".")
    }

    fn dir(&self) -> BorrowedFd<'_> {
        self.entered.last().map_or(self.root, |(dir, _)| dir.as_fd())
    }

    fn enter(&mut self, name: String) -> Result<bool, Fault> {
        // The last one is no folder above something: it becomes the name.
        if self.entered.len() >= PATH_DEPTH_MAX + usize::from(self.is_last()) {
            return Err(Fault::DeepPath);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | FOLDER;
        match openat(self.dir(), &name, flags, Mode::empty()) {
            Ok(dir) => self.entered.push((dir, name)),
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(Fault::os("openat", self.path, errno)),
        }
        Ok(true)
    }

    fn follow(&mut self, name: &str) -> Result<bool, Fault> {
        self.links.push(self.joined(&[], name));
        if self.links.len() > PATH_LINKS_MAX {
            return Err(Fault::os("openat", self.path, Errno::LOOP));
        }
        let target: CString = match readlinkat(self.dir(), name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::INVAL | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(Fault::os("readlinkat", self.path, errno)),
        };
        let target = target.into_string().map_err(|_| Fault::NameNotUtf8)?;
        // An absolute link is refused even when it points back inside: what it means depends on where the worktree is.
        if target.starts_with('/') {
            return Err(self.escapes());
        }
        target.split('/').rev().for_each(|name| self.todo.push_front(name.to_owned()));
        Ok(true)
    }

    /// Nothing stands at `name`: it and what follows are to be made, if they can be.
    fn absent(mut self, name: String) -> Result<Place, Fault> {
        let rest: Vec<String> = std::mem::take(&mut self.todo).into();
        if rest.iter().any(|name| name == "..") {
            return Err(Fault::absent(self.path));
        }
        // The text of a link on the way may ask for a folder too.
        self.slash |= rest.last().is_some_and(|name| name.is_empty() || name == ".");
        let mut missing = vec![name];
        missing.extend(rest.into_iter().filter(|name| !name.is_empty() && name != "."));
        match missing.pop() {
            Some(name) => self.place(missing, name, None),
            None => Err(Fault::absent(self.path)),
        }
    }

    fn place(
        mut self,
        missing: Vec<String>,
        name: String,
        stat: Option<Stat>,
    ) -> Result<Place, Fault> {
        if self.entered.len() + missing.len() > PATH_DEPTH_MAX {
            return Err(Fault::DeepPath);
        }
        let path = self.joined(&missing, &name);
        let dir = match self.entered.pop() {
            Some((dir, _)) => dir,
            None => openat(self.root, ".", OFlags::PATH | FOLDER, Mode::empty())
                .map_err(|errno| Fault::os("openat", self.path, errno))?,
        };
        Ok(Place { dir, missing, name, path, links: self.links, stat, slash: self.slash })
    }

    fn joined(&self, missing: &[String], name: &str) -> String {
        let entered = self.entered.iter().map(|(_, name)| name.as_str());
        let names = entered.chain(missing.iter().map(String::as_str)).chain([name]);
        names.collect::<Vec<_>>().join("/")
    }

    fn escapes(&self) -> Fault {
        Fault::Escapes { path: self.path.to_owned() }
    }
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// What stands at `name`, without following it.
pub(super) fn stat_name(dir: impl AsFd, name: &str, path: &str) -> Result<Option<Stat>, Fault> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Fault::os("openat", path, errno)),
    }
}
