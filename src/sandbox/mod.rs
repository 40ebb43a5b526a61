//! The worktree of an episode, and files in it: the only code that touches what agents work on.
//!
//! A [`Worktree`] is a handle on a folder. Every path is resolved beneath that handle (`place`), a file is read whole
//! with the facts that tell it apart from any other (`file`), replaced in one step (`replace`), files and folders are made,
//! moved and removed in one (`spot`, `shift`), what a crash left of that is swept (`leftover`), folders are walked without
//! leaving (`walk`, `rules`), and some names are never written (`policy`). Nothing here knows events, plans or grants; whoever calls what changes something has recorded what
//! is about to happen.
//!
//! ```text
//! "a/link/x.ail"  --place-->  folder handle + "x.ail" + "a/real/x.ail"  --file-->  bytes, sha256, size, mode, inode, ctime
//! ```
//!
//! A decision is never made by the text of a path alone, and no path of the host is in any text that leaves this module:
//! the worktree prints as `<worktree>`.

mod fault;
mod file;
mod leftover;
mod place;
mod policy;
mod replace;
mod rules;
mod shift;
mod spot;
mod walk;

pub use fault::{Fault, shown};
pub use file::{Found, Stamp};
pub use policy::{DENY_WRITE, GIT, TEMPORARY};
pub use replace::{Change, Effected, Sealing};
pub use rules::Glob;
pub use shift::{Carriage, Known, Raising, Removal, exists};
pub use spot::{Spot, Thing};
pub use walk::{Kind, Met, Scope, Walked};

use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::limits::PATH_TRIES_MAX;
use place::Place;

/// A folder of which nothing outside is ever reached.
#[derive(Debug)]
pub struct Worktree {
    root: OwnedFd,
    means: Means,
}

/// Which system calls are used. [`Worktree::open`] takes what the kernel has; tests choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// The kernel resolves paths (`openat2`, Linux 5.6). Without it they are walked name by name.
    pub openat2: bool,
    /// Files are exchanged (`renameat2`). Without it they are renamed after one more look.
    pub renameat2: bool,
}

/// What stands where a write is to go.
#[derive(Debug)]
pub struct Target {
    /// The path beneath the worktree, without links.
    pub path: String,
    /// The file that stands there; `None` when there is none.
    pub before: Option<Found>,
    place: Place,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

impl Worktree {
    /// Opens the folder `root` with what this kernel offers.
    pub fn open(root: &Path) -> io::Result<Self> {
        let mut tree = Self::open_with(root, Means { openat2: true, renameat2: true })?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // An old kernel says ENOSYS, an old container filter EPERM: both mean to walk.
        tree.means.openat2 = openat2(&tree.root, ".", FOLDER, Mode::empty(), beneath).is_ok();
        Ok(tree)
    }

    /// Opens the folder `root`, to be used with these means.
    pub fn open_with(root: &Path, means: Means) -> io::Result<Self> {
        let root = openat(CWD, root, OFlags::RDONLY | FOLDER, Mode::empty())?;
        Ok(Self { root, means })
    }

    /// The means in use.
    pub fn means(&self) -> Means {
        self.means
    }

    /// Reads the regular file at `path`.
    pub fn read(&self, path: &str) -> Result<Found, Fault> {
        for _ in 0..PATH_TRIES_MAX {
            let place = self.resolve(path)?;
            match look(&place, path)? {
                Look::Changed => {}
                Look::Absent => return Err(Fault::absent(path)),
                Look::Found(found) => return Ok(found),
            }
        }
        Err(Fault::Changing)
    }

    /// What a write to `path` would replace, unless policy or the nature of the file forbids that.
    pub fn target(&self, path: &str) -> Result<Target, Fault> {
        // By text first: `.git` of a worktree is a file, so `.git/config` resolves to nothing.
        place::check_text(path)?;
        policy::check(path)?;
        for _ in 0..PATH_TRIES_MAX {
            let place = self.resolve(path)?;
            place.links.iter().try_for_each(|link| policy::check(link))?;
            policy::check(&place.path)?;
            let before = match look(&place, path)? {
                Look::Changed => continue,
                Look::Absent => None,
                Look::Found(found) if found.stamp.links > 1 => {
                    return Err(Fault::HardLinks { links: found.stamp.links });
                }
                Look::Found(found) => Some(found),
            };
            return Ok(Target { path: place.path.clone(), before, place });
        }
        Err(Fault::Changing)
    }
}

enum Look {
    Absent,
    /// Another thing stands there now than when the path was resolved.
    Changed,
    Found(Found),
}

fn look(place: &Place, path: &str) -> Result<Look, Fault> {
    let Some(stat) = &place.stat else { return Ok(Look::Absent) };
    file::check_kind(stat, path)?;
    let found = file::read(&place.dir, &place.name, path)?;
    Ok(found
        .map_or(Look::Changed, |found| Look::Found(Found { path: place.path.clone(), ..found })))
}
