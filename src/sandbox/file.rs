//! A regular file, read whole, with the facts that tell it apart.
//!
//! A file that changes while it is read is read again: bytes and facts always belong together. Folders, pipes, devices and
//! sockets are refused before they are opened, and an open never waits.

use std::fs::File;
use std::io::Read;

use rustix::fd::AsFd;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use super::fault::Fault;
use super::place::kind;
use crate::limits::FILE_BYTES_MAX;
use crate::merkle::hash::{Hash, sha256};

/// The facts of a file on disk, apart from its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes.
    pub size: u64,
    /// Permission bits, of which the four above the usual nine are kept too.
    pub mode: u32,
    /// The inode: a replaced file has another one.
    pub inode: u64,
    /// Nanoseconds since 1970 of the last change, which no program can set back.
    pub ctime_ns: i64,
    /// Names that the file has.
    pub links: u64,
}

/// A file as it stood when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The path beneath the worktree, without links.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// Its SHA-256.
    pub sha256: Hash,
    /// The other facts.
    pub stamp: Stamp,
}

pub(super) fn stamp(stat: &Stat) -> Stamp {
    #[expect(clippy::cast_possible_wrap, reason = "nanoseconds of a second")]
    let nanoseconds = stat.st_ctime_nsec as i64;
    Stamp {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        inode: stat.st_ino,
        ctime_ns: stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
        links: stat.st_nlink,
    }
}

/// Refuses all but regular files.
pub(super) fn check_kind(stat: &Stat, path: &str) -> Result<(), Fault> {
    let kind = match kind(stat) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(Fault::os("openat", path, Errno::ISDIR)),
        FileType::Symlink => return Err(Fault::Changing),
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Unknown => "file of an unknown kind",
    };
    Err(Fault::Special { path: path.to_owned(), kind })
}

/// Reads `name` in `dir`; the path of what is returned is empty. `None`: it changed meanwhile, look again.
pub(super) fn read(dir: impl AsFd, name: &str, path: &str) -> Result<Option<Found>, Fault> {
    let fault = |errno| Fault::os("openat", path, errno);
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::LOOP | Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(fault(errno)),
    };
    let stat = fstat(&file).map_err(fault)?;
    check_kind(&stat, path)?;
    let before = stamp(&stat);
    let limit = FILE_BYTES_MAX as u64;
    if before.size > limit {
        return Err(Fault::TooLarge { bytes: before.size });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.size).unwrap_or(0) + 1);
    (&file).take(limit + 1).read_to_end(&mut bytes).map_err(|error| {
        Fault::os("read", path, Errno::from_io_error(&error).unwrap_or(Errno::IO))
    })?;
    let after = stamp(&fstat(&file).map_err(fault)?);
    if before != after || bytes.len() as u64 != after.size {
        return Ok(None);
    }
    let sha256 = sha256(&bytes);
    Ok(Some(Found { path: String::new(), bytes, sha256, stamp: after }))
}
