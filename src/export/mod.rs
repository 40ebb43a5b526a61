//! A log outside its store: export trees, and copies of a whole store.
//!
//! ```text
//! checkpoint                     signed head of exactly the exported size
//! tile/<L>/<N>[.p/<W>]           hashes (C2SP tlog-tiles)
//! tile/entries/<N>[.p/<W>]       events
//! objects/<episode>/<sha256>     payloads; `objects/_/` holds those of no episode
//! openings/<episode>             CBOR sequence of [seq, opening]
//! keys/<episode>                 64 hexadecimal digits and LF: K_ep
//! export.json                    what this is, in canonical JSON
//! ```
//!
//! [`write()`] makes a tree, [`Folder`] reads one, [`inspect`] audits one, [`fill`] turns one, or another store, into a store.
//! Whatever is made appears under its name only when it is whole and synced. A private signing key is never part of it.
//! `spec/export.md` says what is in each file.

mod fill;
mod folder;
mod inspect;
mod prove;
mod walk;
mod write;

pub use fill::{Filled, fill, fill_from};
pub use folder::{Folder, FolderPayloads, Manifest};
pub use inspect::{Options, inspect};
pub use prove::prove;
pub use write::{Cosigner, Request, Written, write};

use crate::store::StoreError;
use std::io;
use std::path::{Path, PathBuf};

/// `export` member of `export.json`.
pub const FORMAT: &str = "worldlog/export/v1";
/// Folder of objects that belong to no episode. No episode has this name.
const NO_EPISODE: &str = "_";

/// Why nothing was exported, imported or copied.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or folder.
    #[error("{path}: {error}")]
    File {
        /// The path.
        path: PathBuf,
        /// What the file system said.
        error: io::Error,
    },
    /// The destination is there already.
    #[error("{path} exists already: name a folder that does not")]
    Exists {
        /// The destination.
        path: PathBuf,
    },
    /// A file is not what belongs there.
    #[error("{path}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is stored does not give the head that was signed.
    #[error("{place}: {reason}; `worldlog fsck` lists what is damaged")]
    Damaged {
        /// The leaf or object.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing to export.
    #[error("the log has no signed head yet: nothing to export")]
    Empty,
}

impl ExportError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| Self::File { path: path.to_owned(), error }
    }

    fn damaged(place: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Damaged { place: place.into(), reason: reason.to_string() }
    }
}

/// Makes a new data directory with `fill`: it stands under `dir` only when it is whole. The store that `fill` opens must
/// be closed when it returns.
///
/// # Errors
/// [`ExportError`], of `fill` too.
pub fn make_data<T>(
    dir: &Path,
    fill: impl FnOnce(&Path) -> Result<T, ExportError>,
) -> Result<T, ExportError> {
    let beside = Beside::new(dir, 0o700)?;
    let made = fill(&beside.path)?;
    beside.keep()?;
    Ok(made)
}

/// A folder in the making beside `dir`. It is renamed when it is whole, and removed when it never becomes so.
struct Beside {
    target: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl Beside {
    /// Makes the folder with this mode.
    fn new(target: &Path, mode: u32) -> Result<Self, ExportError> {
        use std::os::unix::fs::DirBuilderExt;
        if target.symlink_metadata().is_ok() {
            return Err(ExportError::Exists { path: target.to_owned() });
        }
        let Some(name) = target.file_name() else {
            return Err(ExportError::Exists { path: target.to_owned() });
        };
        if let Some(parent) = target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            crate::durable::create_folder(parent).map_err(ExportError::file(parent))?;
        }
        let mut beside = name.to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let path = target.with_file_name(beside);
        if path.exists() {
            // Left by a process of the same number that died.
            std::fs::remove_dir_all(&path).map_err(ExportError::file(&path))?;
        }
        std::fs::DirBuilder::new().mode(mode).create(&path).map_err(ExportError::file(&path))?;
        Ok(Self { target: target.to_owned(), path, kept: false })
    }

    /// Syncs all of it and gives it its name. Dying before leaves nothing under that name.
    fn keep(mut self) -> Result<(), ExportError> {
        let path = self.path.clone();
        let failed = || ExportError::file(&path);
        let folder = std::fs::File::open(&self.path).map_err(failed())?;
        // One call for thousands of small files, instead of a sync for each.
        rustix::fs::syncfs(&folder).map_err(|errno| failed()(errno.into()))?;
        // A rename onto an empty folder would succeed; what appeared meanwhile is somebody else's.
        if self.target.symlink_metadata().is_ok() {
            return Err(ExportError::Exists { path: self.target.clone() });
        }
        std::fs::rename(&self.path, &self.target).map_err(failed())?;
        self.kept = true;
        crate::durable::sync_parent(&self.target).map_err(failed())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.kept {
            // A failure here leaves a folder whose name says that it is unfinished.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
