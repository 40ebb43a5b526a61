//! The store in sled 0.34.7, with the eight guards of `spec/store.md` around it.
//!
//! sled's own `flush` is not an fsync on Linux: it leaves the disk's cache and the file's metadata behind. What is
//! durable here is so because of the `fdatasync` on our own handle, and because of what surrounds it. This is the only
//! file that names the crate. It gives no meaning to any key; `layout` does.
//!
//! ```text
//! DATA/store.lock           held while the store is open
//! DATA/store/db             sled's log: everything committed
//! DATA/store/conf, snap.*   sled's settings; its index as of the last open, which the next open completes
//! DATA/store/blobs/         always empty: sled never syncs what it would put there
//! DATA/store.new/           a store being made; renamed to `store` when it is whole
//!
//! default tree              the values of commits
//! tree side.N               side values; the greatest N counts
//! tree scratch              100 values without meaning, overwritten by each open
//! ```

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use ::sled::{Db, Error as SledError, IVec, Tree};
use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;

use super::{Batch, Pair, Receipt, Store, StoreError, check_sizes, refused};
use crate::limits::{STORE_GROWTH_BYTES_MAX, STORE_UNSYNCED_BYTES_MAX, STORE_VALUE_BYTES_MAX};

/// 100 x 6 KiB is more than a segment of 512 KiB.
const SCRATCH_VALUES: u32 = 100;
/// 4 x 6 KiB between two syncs.
const SCRATCH_STEP: u32 = 4;
/// What a read counts at least: a small value may make sled rewrite the leaf around it.
const READ_BYTES_MIN: usize = 16 * 1024;
/// sled's threads let go of its file a moment after the store was dropped: 50 x 20 ms.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An open store. One process at a time; any number of threads, of which one commits.
#[derive(Debug)]
pub struct SledStore {
    /// `None` when side values can no longer be kept. They are a cache.
    side: RwLock<Option<Tree>>,
    db: Db,
    /// Our own handle on sled's file: the one that is synced.
    file: File,
    /// `DATA/store`.
    dir: PathBuf,
    /// Why no commit can be believed any more.
    poisoned: OnceLock<String>,
    /// A commit has succeeded since the store was opened.
    settled: AtomicBool,
    /// Bytes read or written aside since the last sync.
    unsynced: AtomicUsize,
    /// Last, so that it is let go of last.
    _lock: File,
}

impl SledStore {
    /// Opens the store below the directory `data`, and makes both if they are missing.
    pub fn open(data: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        fs::create_dir_all(data).map_err(|e| cannot_open(data, &e))?;
        let lock = hold(data)?;
        let dir = data.join("store");
        if !dir.exists() {
            create(data, &dir, cache_bytes)?;
        }
        Self::open_held(data, dir, cache_bytes, lock)
    }

    /// Opens a store that is there, for commands that look at it while no server runs. Opening writes: recovery, and
    /// the guards.
    pub fn open_existing(data: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let dir = data.join("store");
        if !dir.join("db").is_file() {
            return Err(cannot_open(data, &"there is no store in it"));
        }
        let lock = hold(data)?;
        Self::open_held(data, dir, cache_bytes, lock)
    }

    fn open_held(
        data: &Path,
        dir: PathBuf,
        cache_bytes: u64,
        lock: File,
    ) -> Result<Self, StoreError> {
        remove_unfinished_snapshots(&dir).map_err(|e| cannot_open(data, &e))?;
        // A killed process leaves writes in the page cache which recovery would read, and describe in a snapshot that
        // it does sync. After a power cut that snapshot would speak of bytes that are not there.
        sync(&dir.join("db")).map_err(|e| cannot_open(data, &e))?;
        let db = open_db(&dir, cache_bytes)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.join("db"))
            .map_err(|e| cannot_open(data, &e))?;
        sync_all(&dir).map_err(|e| cannot_open(data, &e))?;
        if let Some(name) = first_blob(&dir).map_err(|e| cannot_open(data, &e))? {
            let place = dir.join("blobs").join(name).display().to_string();
            return Err(StoreError::Damaged { place, reason: "sled never synced it".to_owned() });
        }
        let store = Self {
            side: RwLock::new(None),
            db,
            file,
            dir,
            poisoned: OnceLock::new(),
            settled: AtomicBool::new(false),
            unsynced: AtomicUsize::new(0),
            _lock: lock,
        };
        store.pass_tail_segment()?;
        store.open_side()?;
        Ok(store)
    }

    /// G4. sled continues the segment where recovery ended, and even reads make it write. Should a later segment reach
    /// the disk and the rest of this one not, the next recovery would cut this one where it was cut before, with
    /// durable values behind the cut. So the log is moved into fresh segments first, a few KiB between two syncs. Dying
    /// in here leaves less than a segment's worth of values that mean nothing.
    fn pass_tail_segment(&self) -> Result<(), StoreError> {
        let scratch = self.guarded(|| self.db.open_tree("scratch"))?;
        // sled writes nothing for a value that is there already, so the fill differs from that of the last open.
        // The first value is the one to go by: it is ahead of the others when the last open died in here.
        let first = self.guarded(|| scratch.get(0_u32.to_be_bytes()))?;
        let fill = first.and_then(|value| value.first().copied()).unwrap_or(0).wrapping_add(1);
        for n in 0..SCRATCH_VALUES {
            let value = vec![fill; STORE_VALUE_BYTES_MAX];
            self.guarded(|| scratch.insert(n.to_be_bytes(), value))?;
            if n % SCRATCH_STEP == SCRATCH_STEP - 1 {
                self.flush_and_sync()?;
            }
        }
        Ok(())
    }

    /// `flush` hands sled's buffers to the kernel, `fdatasync` hands the kernel's to the disk. After a failure of
    /// either the kernel may report success for what it has thrown away, so there is no second try.
    fn flush_and_sync(&self) -> Result<(), StoreError> {
        self.unsynced.store(0, Ordering::Relaxed);
        let flushed = catch_unwind(AssertUnwindSafe(|| self.db.flush()));
        match flushed {
            Ok(Ok(_)) => {}
            Ok(Err(e)) => return Err(self.poison(format!("flush: {e}"))),
            Err(panic) => return Err(self.poison(format!("flush panicked: {}", text_of(&*panic)))),
        }
        self.file.sync_data().map_err(|e| self.poison(format!("fdatasync: {e}")))
    }

    /// G6. From here on every commit answers `Unknown` with the first reason.
    fn poison(&self, reason: String) -> StoreError {
        StoreError::Unknown { reason: self.poisoned.get_or_init(|| reason).clone() }
    }

    /// The second half of G4, and the same for side values: never half a segment without a sync.
    fn pace(&self, bytes: usize) -> Result<(), StoreError> {
        let before = self.unsynced.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) < STORE_UNSYNCED_BYTES_MAX || self.poisoned.get().is_some()
        {
            return Ok(());
        }
        self.flush_and_sync()
    }

    fn pace_read(&self, bytes: usize) -> Result<(), StoreError> {
        // A commit moves on by itself: what reads write afterwards is synced with the next one.
        if self.settled.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.pace(bytes.max(READ_BYTES_MIN))
    }

    /// G8. sled panics on some damage. It promises nothing about its state after that, so commits end with it.
    fn guarded<T>(&self, f: impl FnOnce() -> Result<T, SledError>) -> Result<T, StoreError> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => result.map_err(|e| damaged(&self.dir, &e)),
            Err(panic) => {
                let reason = format!("sled panicked: {}", text_of(&*panic));
                self.poison(reason.clone());
                let place = self.dir.join("db").display().to_string();
                Err(StoreError::Damaged { place, reason })
            }
        }
    }

    /// The greatest of the trees `side.N`, or the first one.
    fn open_side(&self) -> Result<(), StoreError> {
        let newest = self.db.tree_names().iter().filter_map(side_number).max().unwrap_or(0);
        let tree = self.guarded(|| self.db.open_tree(side_name(newest)))?;
        *self.side.write().unwrap_or_else(PoisonError::into_inner) = Some(tree);
        Ok(())
    }

    /// Side values cannot be read or written: all of them go, and an empty tree takes their place. Deleting reads the
    /// tree, and so may fail as well; then its pages stay behind unused.
    fn renew_side(&self) {
        let mut side = self.side.write().unwrap_or_else(PoisonError::into_inner);
        let Some(old) = side.take() else { return };
        let number = side_number(&old.name()).unwrap_or(0);
        drop(old);
        *side = catch_unwind(AssertUnwindSafe(|| {
            let fresh = self.db.open_tree(side_name(number.saturating_add(1)));
            // Whatever becomes of the old one, the fresh one counts from now on.
            let _ = self.db.drop_tree(side_name(number));
            fresh.ok()
        }))
        .ok()
        .flatten();
    }

    /// Runs `f` on the side tree. `None`: there is none, or it had to be renewed.
    fn on_side<T>(&self, f: impl FnOnce(&Tree) -> Result<T, SledError>) -> Option<T> {
        let done = {
            let side = self.side.read().unwrap_or_else(PoisonError::into_inner);
            let tree = side.as_ref()?;
            catch_unwind(AssertUnwindSafe(|| f(tree)))
        };
        if let Ok(Ok(value)) = done {
            return Some(value);
        }
        self.renew_side();
        None
    }

    fn check_blobs(&self) -> Result<(), StoreError> {
        match first_blob(&self.dir) {
            Ok(None) => Ok(()),
            Ok(Some(name)) => Err(self.poison(format!("sled wrote blobs/{name}, unsynced"))),
            Err(e) => Err(self.poison(format!("blobs/ could not be listed: {e}"))),
        }
    }
}

impl Store for SledStore {
    fn commit(&self, batch: &Batch) -> Result<Receipt, StoreError> {
        if let Some(reason) = self.poisoned.get() {
            return Err(StoreError::Unknown { reason: reason.clone() });
        }
        batch.check()?;
        check_room(self.free_bytes()?, batch.bytes())?;
        let mut changes = ::sled::Batch::default();
        for key in &batch.deletes {
            changes.remove(key.as_slice());
        }
        for (key, value) in &batch.puts {
            changes.insert(key.as_slice(), value.as_slice());
        }
        // From here on the batch can no longer be called absent: sled writes its buffers when they are full. Dying
        // before the sync leaves all of the batch or nothing, because recovery drops a batch whose end is missing.
        match catch_unwind(AssertUnwindSafe(|| self.db.apply_batch(changes))) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(self.poison(format!("apply_batch: {e}"))),
            Err(panic) => {
                return Err(self.poison(format!("apply_batch panicked: {}", text_of(&*panic))));
            }
        }
        self.flush_and_sync()?;
        self.check_blobs()?;
        self.settled.store(true, Ordering::Relaxed);
        Ok(Receipt { events: batch.events.clone() })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.guarded(|| self.db.get(key))?.map(|value| value.to_vec());
        self.pace_read(value.as_ref().map_or(0, Vec::len))?;
        Ok(value)
    }

    fn range(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let pairs: Vec<Pair> = self.guarded(|| {
            let found = self.db.range(from..to).take(limit);
            found.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
        })?;
        self.pace_read(pairs.iter().map(|(_, value)| value.len()).sum())?;
        Ok(pairs)
    }

    fn last(&self, from: &[u8], to: &[u8]) -> Result<Option<Pair>, StoreError> {
        if from >= to {
            return Ok(None);
        }
        let found = self.guarded(|| self.db.range(from..to).next_back().transpose())?;
        self.pace_read(found.as_ref().map_or(0, |(_, value)| value.len()))?;
        Ok(found.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn side_put(&self, pairs: &[Pair]) -> Result<(), StoreError> {
        pairs.iter().try_for_each(|(key, value)| check_sizes(key, value))?;
        for (key, value) in pairs {
            let written = self.on_side(|tree| tree.insert(key.as_slice(), value.as_slice()));
            if written.is_none() {
                return Ok(());
            }
            self.pace(key.len() + value.len())?;
        }
        Ok(())
    }

    fn side_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.on_side(|tree| tree.get(key)).flatten().map(|value| value.to_vec());
        self.pace_read(value.as_ref().map_or(0, Vec::len))?;
        Ok(value)
    }

    fn free_bytes(&self) -> Result<u64, StoreError> {
        let stat = statvfs(&self.dir).map_err(|e| refused(format!("free space: {e}")))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// G7. A full disk would end in `Unknown`, and then even opening fails; this says no while nothing has happened.
fn check_room(free: u64, bytes: usize) -> Result<(), StoreError> {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let needed = bytes.saturating_mul(2).saturating_add(STORE_GROWTH_BYTES_MAX);
    if free < needed {
        return Err(refused(format!("{free} bytes are free on the disk, {needed} may be needed")));
    }
    Ok(())
}

/// Takes the lock of the data directory. It goes with the handle, so a killed process leaves none.
fn hold(data: &Path) -> Result<File, StoreError> {
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(data.join("store.lock"))
        .map_err(|e| cannot_open(data, &e))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => Err(StoreError::Held { path: data.display().to_string() }),
        Err(e) => Err(cannot_open(data, &e)),
    }
}

/// G2. Makes an empty store aside and gives it its name when all of it is on the disk. Dying before the rename leaves
/// `store.new`, which the next open removes; after it, a whole store.
fn create(data: &Path, dir: &Path, cache_bytes: u64) -> Result<(), StoreError> {
    let fresh = data.join("store.new");
    let failed = |e: io::Error| cannot_open(data, &e);
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(failed)?;
    }
    drop(open_db(&fresh, cache_bytes)?);
    sync_all(&fresh).map_err(failed)?;
    fs::rename(&fresh, dir).map_err(failed)?;
    sync(data).map_err(failed)?;
    match data.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync(Path::new(".")).map_err(failed),
        Some(parent) => sync(parent).map_err(failed),
        None => Ok(()),
    }
}

/// Syncs every file of sled, its directories, and the directory that holds them.
fn sync_all(dir: &Path) -> io::Result<()> {
    for name in ["db", "conf", "blobs"] {
        sync(&dir.join(name))?;
    }
    sync(dir)?;
    dir.parent().map_or(Ok(()), sync)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// G1. sled looks for its newest snapshot by name and does not see that one named `.generating` was never finished.
fn remove_unfinished_snapshots(dir: &Path) -> io::Result<()> {
    for path in snapshots(dir)? {
        if path.extension().is_some_and(|ext| ext == "generating") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn snapshots(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b"snap.") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn first_blob(dir: &Path) -> io::Result<Option<String>> {
    let first = fs::read_dir(dir.join("blobs"))?.next().transpose()?;
    Ok(first.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

/// Opens sled. Its snapshot is an index of its log, synced on its own and rebuilt from the log when it is not there. sled
/// refuses to open with a damaged one, and says so by a corruption that lies nowhere in the log; then it is set aside.
fn open_db(dir: &Path, cache_bytes: u64) -> Result<Db, StoreError> {
    let failed = |e: io::Error| cannot_open(dir, &e);
    let first = try_open(dir, cache_bytes)?;
    let Err(SledError::Corruption { at: None, .. }) = first else {
        return first.map_err(|e| damaged(dir, &e));
    };
    let mut aside = Vec::new();
    for path in snapshots(dir).map_err(failed)? {
        let mut name = OsString::from("aside.");
        name.push(path.file_name().unwrap_or_default());
        let name = dir.join(name);
        fs::rename(&path, &name).map_err(failed)?;
        aside.push((path, name));
    }
    match try_open(dir, cache_bytes)? {
        Ok(db) => {
            for (_, name) in aside {
                fs::remove_file(name).map_err(failed)?;
            }
            Ok(db)
        }
        Err(e) => {
            for (path, name) in aside {
                fs::rename(name, path).map_err(failed)?;
            }
            Err(damaged(dir, &e))
        }
    }
}

/// The outer error is ours: a panic, or a lock.
fn try_open(dir: &Path, cache_bytes: u64) -> Result<Result<Db, SledError>, StoreError> {
    for _ in 0..LOCK_TRIES {
        let config = ::sled::Config::new()
            .path(dir)
            .cache_capacity(cache_bytes)
            // Its background thread would sync between our syncs and hide an error from them.
            .flush_every_ms(None);
        match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Err(SledError::Io(e))) if e.to_string().contains("could not acquire lock") => {
                thread::sleep(LOCK_PAUSE);
            }
            Ok(opened) => return Ok(opened),
            Err(panic) => {
                let reason = format!("sled panicked: {}", text_of(&*panic));
                let place = dir.join("db").display().to_string();
                return Err(StoreError::Damaged { place, reason });
            }
        }
    }
    // We hold our lock, so this is a program that knows sled but not us.
    Err(StoreError::Held { path: dir.display().to_string() })
}

fn side_name(number: u64) -> String {
    format!("side.{number}")
}

fn side_number(name: &IVec) -> Option<u64> {
    std::str::from_utf8(name).ok()?.strip_prefix("side.")?.parse().ok()
}

fn cannot_open(path: &Path, reason: &dyn std::fmt::Display) -> StoreError {
    StoreError::Open { path: path.display().to_string(), reason: reason.to_string() }
}

fn damaged(dir: &Path, error: &SledError) -> StoreError {
    let place = dir.join("db").display().to_string();
    StoreError::Damaged { place, reason: error.to_string() }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_refused_before_the_disk_is_full() {
        let edge = STORE_GROWTH_BYTES_MAX + 2_000;
        assert!(check_room(edge, 1_000).is_ok());
        assert!(matches!(check_room(edge - 1, 1_000), Err(StoreError::NotCommitted { .. })));
    }
}
