//! Files that survive a power cut: written beside, synced, renamed, and the folder synced.
//!
//! For keys, guards and marks outside the store. Files of a worktree are the sandbox's work.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Makes a folder and its parents, readable by the owner alone, and syncs each one's parent.
///
/// # Errors
/// What the file system says.
pub fn create_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_folder(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_parent(path)
}

/// A lock on a file that the kernel lets go of with the last process that holds it.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Makes the file if need be and takes the lock for oneself, with no waiting: `None` when somebody else has it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn exclusive(path: &Path) -> io::Result<Option<Self>> {
        if let Some(parent) = path.parent() {
            create_folder(parent)?;
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Shares it with those whom this process starts: whoever wants it exclusively waits for them as well.
    ///
    /// # Errors
    /// What the file system says.
    pub fn share(&self) -> io::Result<()> {
        flock(&self.0, FlockOperation::NonBlockingLockShared).map_err(io::Error::from)
    }
}

/// Writes a file that must not exist yet. Dying in the middle leaves nothing under this name.
///
/// # Errors
/// What the file system says; `AlreadyExists` when there is one.
pub fn create(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = write_beside(path, bytes, mode)?;
    let linked = std::fs::hard_link(&beside, path);
    std::fs::remove_file(&beside)?;
    linked?;
    sync_parent(path)
}

/// Replaces a file, or makes it. Dying in the middle leaves the old one whole.
///
/// # Errors
/// What the file system says.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = write_beside(path, bytes, mode)?;
    std::fs::rename(&beside, path)?;
    sync_parent(path)
}

fn write_beside(path: &Path, bytes: &[u8], mode: u32) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(beside)
}

/// Syncs the folder that holds `path`, so that its name is there after a power cut.
///
/// # Errors
/// What the file system says.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
