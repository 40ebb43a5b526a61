//! What stands at a path, be it a file or a folder: for what is moved, removed or made, and for looking after a crash.

use rustix::fs::FileType;
use rustix::io::Errno;

use super::fault::Fault;
use super::file::{Found, Stamp, check_kind, stamp};
use super::leftover::only_name;
use super::place::{Last, Place, check_text, kind};
use super::replace::open_folder;
use super::{Look, Worktree, look, policy};
use crate::limits::PATH_TRIES_MAX;

/// What stands somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    /// A regular file.
    File(Found),
    /// A folder.
    Folder(Stamp),
}

/// A path, and what stands there.
#[derive(Debug)]
pub struct Spot {
    /// The path beneath the worktree, without links.
    pub path: String,
    /// What stands there; `None` when nothing does.
    pub thing: Option<Thing>,
    pub(super) place: Place,
}

impl Spot {
    /// The folders that are missing above the path, and the path itself: what has to be made for it to be there.
    pub fn missing(&self) -> Vec<String> {
        let names: Vec<&str> = self.path.split('/').collect();
        let first = names.len() - self.place.missing.len().min(names.len());
        let ends = first..=names.len();
        ends.filter_map(|end| names.get(..end)).map(|names| names.join("/")).collect()
    }

    /// Whether the path ended with a slash, which only a folder's may.
    pub fn wants_folder(&self) -> bool {
        self.place.slash
    }
}

impl Worktree {
    /// What stands at a path that is to be moved or removed, or to become something: not through a link at its end.
    pub fn spot(&self, path: &str) -> Result<Spot, Fault> {
        self.writable(path, Last::Kept)
    }

    /// What stands where a folder is to be: through links.
    pub fn spot_of_folder(&self, path: &str) -> Result<Spot, Fault> {
        self.writable(path, Last::Followed)
    }

    /// What stands at a path without links, whatever policy says.
    pub fn standing(&self, path: &str) -> Result<Spot, Fault> {
        self.look_at(path, Last::Kept, |_| Ok(()))
    }

    fn writable(&self, path: &str, last: Last) -> Result<Spot, Fault> {
        // By text first: `.git` of a worktree is a file, so `.git/config` resolves to nothing.
        check_text(path)?;
        policy::check(path)?;
        let spot = self.look_at(path, last, |place| {
            place.links.iter().try_for_each(|link| policy::check(link))?;
            policy::check(&place.path)
        })?;
        match &spot.thing {
            Some(Thing::File(found)) if found.stamp.links > 1 => {
                Err(Fault::HardLinks { links: found.stamp.links })
            }
            _ => Ok(spot),
        }
    }

    fn look_at(
        &self,
        path: &str,
        last: Last,
        allow: impl Fn(&Place) -> Result<(), Fault>,
    ) -> Result<Spot, Fault> {
        for _ in 0..PATH_TRIES_MAX {
            let place = self.resolve_any(path, last)?;
            allow(&place)?;
            let thing = match &place.stat {
                Some(stat) if kind(stat) == FileType::Directory => Some(Thing::Folder(stamp(stat))),
                Some(stat) if kind(stat) == FileType::Symlink => return Err(Fault::Link),
                Some(stat) => {
                    check_kind(stat, path)?;
                    match look(&place, path)? {
                        Look::Found(found) => Some(Thing::File(found)),
                        Look::Absent | Look::Changed => continue,
                    }
                }
                None => None,
            };
            return Ok(Spot { path: place.path.clone(), thing, place });
        }
        Err(Fault::Changing)
    }

    /// Whether the folder at `spot` holds nothing.
    pub fn is_empty(&self, spot: &Spot, path: &str) -> Result<bool, Fault> {
        match self.sole_name(spot, path) {
            Ok(name) => Ok(name.is_none()),
            Err(Fault::NotEmpty) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// The one name in the folder at `spot`, or none; [`Fault::NotEmpty`] for more.
    pub fn sole_name(&self, spot: &Spot, path: &str) -> Result<Option<String>, Fault> {
        let folder = open_folder(&spot.place.dir, &spot.place.name);
        match folder.and_then(|folder| only_name(&folder)) {
            Ok(name) => Ok(name),
            Err(Errno::NOTEMPTY) => Err(Fault::NotEmpty),
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => Err(Fault::Changing),
            Err(errno) => Err(Fault::os("openat", path, errno)),
        }
    }
}
