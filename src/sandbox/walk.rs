//! What is in a folder and below it, in the bytewise order of paths.
//!
//! The walk goes from handle to handle, one name at a time and never through a link, so that whatever is swapped meanwhile
//! nothing outside the worktree is opened: neither a folder, nor a `.gitignore`, nor a file that whoever is shown a name
//! reads. A folder's own name comes before what is in it, and what is in `a` comes after `a-b`, because `-` sorts before `/`.
//!
//! `.git` (in any case) and the names of unfinished changes are never shown.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::fault::Fault;
use super::file::{self, Found};
use super::place::{Last, kind};
use super::replace::{open_folder, reopen};
use super::rules::{Glob, Rules};
use super::{Worktree, policy};
use crate::limits::{PATH_DEPTH_MAX, PATH_TRIES_MAX};

/// What to walk over.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Where to begin; the worktree itself when `None`.
    pub path: Option<&'a str>,
    /// Levels to walk.
    pub depth: usize,
    /// Whether names that begin with a dot are shown.
    pub hidden: bool,
    /// Which paths are shown.
    pub glob: &'a Glob,
    /// Whether the path may be that of a file, which then is all that is shown.
    pub file: bool,
    /// Names that are looked at, shown or not.
    pub names: usize,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl Kind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            FileType::RegularFile | FileType::Unknown => Self::File,
        }
    }

    /// Its word in an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Link => "link",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Device => "device",
        }
    }
}

/// A name that is shown.
#[derive(Debug)]
pub struct Met<'a> {
    /// The path beneath the worktree, without links.
    pub path: &'a str,
    /// What it is.
    pub kind: Kind,
    dir: &'a OwnedFd,
    name: &'a str,
}

impl Met<'_> {
    /// Bytes of a file.
    pub fn size(&self) -> Option<u64> {
        let stat = statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        u64::try_from(stat.st_size).ok()
    }

    /// Where a link leads, as it says, when that is text.
    pub fn target(&self) -> Option<String> {
        readlinkat(self.dir, self.name, Vec::new()).ok()?.into_string().ok()
    }

    /// Reads a file.
    pub fn read(&self) -> Result<Found, Fault> {
        for _ in 0..PATH_TRIES_MAX {
            if let Some(found) = file::read(self.dir, self.name, self.path)? {
                return Ok(Found { path: self.path.to_owned(), ..found });
            }
        }
        Err(Fault::Changing)
    }
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// Folders that could not be read, or lie too deep.
    pub unreadable: u64,
    /// Names that are not UTF-8.
    pub unnamed: u64,
    /// It saw too many names, and not all.
    pub cut: bool,
    /// Nobody waits for it any more.
    pub closed: bool,
}

impl Worktree {
    /// Shows what is there. `open` says whether somebody waits for it, `visit` whether it shall go on.
    pub fn walk(
        &self,
        scope: &Scope<'_>,
        open: &dyn Fn() -> bool,
        visit: &mut dyn FnMut(&Met<'_>) -> bool,
    ) -> Result<Walked, Fault> {
        for _ in 0..PATH_TRIES_MAX {
            let Some((rules, start)) = self.start(scope)? else { continue };
            let mut walk = Walk { scope, open, visit, rules, names: 0, walked: Walked::default() };
            match start {
                Start::Folder { dir, path } => {
                    let prefix = if path.is_empty() { path } else { format!("{path}/") };
                    walk.folder(&dir, &prefix, 1);
                }
                Start::File { dir, name, path, kind } => {
                    (walk.visit)(&Met { path: &path, kind, dir: &dir, name: &name });
                }
            }
            return Ok(walk.walked);
        }
        Err(Fault::Changing)
    }

    /// `None`: it changed under the look.
    fn start(&self, scope: &Scope<'_>) -> Result<Option<(Rules, Start)>, Fault> {
        let path = self.beginning(scope.path)?;
        let shown = scope.path.unwrap_or(".");
        let fault = |errno| Fault::os("openat", shown, errno);
        let mut dir = reopen(&self.root).map_err(fault)?;
        let (mut rules, mut prefix) = (Rules::default(), String::new());
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        for (index, name) in names.iter().enumerate() {
            rules.enter(&dir, &prefix);
            let stat = match statat(&dir, *name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(fault(errno)),
            };
            if kind(&stat) != FileType::Directory {
                if index + 1 < names.len() || kind(&stat) == FileType::Symlink {
                    return Ok(None);
                }
                if !scope.file {
                    return Err(fault(Errno::NOTDIR));
                }
                file::check_kind(&stat, shown)?;
                let (name, kind) = ((*name).to_owned(), Kind::of(kind(&stat)));
                return Ok(Some((rules, Start::File { dir, name, path, kind })));
            }
            dir = match open_folder(&dir, name) {
                Ok(below) => below,
                Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(fault(errno)),
            };
            prefix.push_str(name);
            prefix.push('/');
        }
        Ok(Some((rules, Start::Folder { dir, path })))
    }

    /// The path without links to begin at; empty for the worktree itself.
    fn beginning(&self, path: Option<&str>) -> Result<String, Fault> {
        let Some(path) = path else { return Ok(String::new()) };
        let place = match self.resolve_any(path, Last::Followed) {
            Ok(place) => place,
            Err(Fault::Root) => return Ok(String::new()),
            Err(fault) => return Err(fault),
        };
        let links = || place.links.iter().map(String::as_str);
        if links().chain([path, &place.path]).any(policy::passes_git) {
            return Err(Fault::GitHidden);
        }
        if place.stat.is_none() {
            return Err(Fault::absent(path));
        }
        Ok(place.path)
    }
}

enum Start {
    Folder { dir: OwnedFd, path: String },
    File { dir: OwnedFd, name: String, path: String, kind: Kind },
}

struct Walk<'a> {
    scope: &'a Scope<'a>,
    open: &'a dyn Fn() -> bool,
    visit: &'a mut dyn FnMut(&Met<'_>) -> bool,
    rules: Rules,
    names: usize,
    walked: Walked,
}

/// A name in a folder, or what is below it: `key` is what it sorts by.
struct Item {
    key: String,
    kind: Kind,
    below: bool,
}

impl Walk<'_> {
    /// `false`: the walk has ended.
    fn folder(&mut self, dir: &OwnedFd, prefix: &str, depth: usize) -> bool {
        self.rules.enter(dir, prefix);
        let Ok(items) = self.items(dir, prefix) else {
            self.walked.unreadable += 1;
            self.rules.leave();
            return true;
        };
        for Item { key, kind, below } in items {
            if !(self.open)() {
                self.walked.closed = true;
                return false;
            }
            let name = key.trim_end_matches('/');
            let path = format!("{prefix}{name}");
            let goes_on = if below {
                self.below(dir, name, &path, depth)
            } else if self.scope.glob.wants(&path, kind == Kind::Folder) {
                (self.visit)(&Met { path: &path, kind, dir, name })
            } else {
                true
            };
            if !goes_on {
                return false;
            }
        }
        self.rules.leave();
        !self.walked.cut
    }

    fn below(&mut self, dir: &OwnedFd, name: &str, path: &str, depth: usize) -> bool {
        if depth >= self.scope.depth || !self.scope.glob.enters(path) {
            return true;
        }
        if depth > PATH_DEPTH_MAX {
            self.walked.unreadable += 1;
            return true;
        }
        match open_folder(dir, name) {
            Ok(folder) => self.folder(&folder, &format!("{path}/"), depth + 1),
            // It is something else now, or gone.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => true,
            Err(_) => {
                self.walked.unreadable += 1;
                true
            }
        }
    }

    fn items(&mut self, dir: &OwnedFd, prefix: &str) -> Result<Vec<Item>, Errno> {
        let mut items = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = match entry.file_name().to_str() {
                Ok("." | "..") => continue,
                Ok(name) => name,
                Err(_) => {
                    self.walked.unnamed += 1;
                    continue;
                }
            };
            self.names += 1;
            if self.names > self.scope.names {
                self.walked.cut = true;
                break;
            }
            if policy::is_never_shown(name) || !self.scope.hidden && name.starts_with('.') {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => Kind::of(kind(&stat)),
                    Err(_) => continue,
                },
                known => Kind::of(known),
            };
            let folder = kind == Kind::Folder;
            if self.rules.ignore(&format!("{prefix}{name}"), folder) {
                continue;
            }
            if folder {
                items.push(Item { key: format!("{name}/"), kind, below: true });
            }
            items.push(Item { key: name.to_owned(), kind, below: false });
        }
        items.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(items)
    }
}
