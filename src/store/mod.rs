//! The port to durable storage: one ordered map of bytes, two implementations.
//!
//! `layout` says which keys the log uses and packs events, tiles, heads and objects into values; `sled` is the embedded
//! default; `memory` keeps live and durable bytes apart and fails at the n-th sync on demand. Nothing here knows what an
//! event means. Only the ledger calls [`Store::commit`].
//!
//! A *side* value is a cache: an index or a snapshot that can be rebuilt from the log. It is written without a sync, may
//! be absent or old after a crash, and its reader never trusts it.

pub mod layout;
pub mod memory;
pub mod sled;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::limits::{STORE_KEY_BYTES_MAX, STORE_VALUE_BYTES_MAX};

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What one commit changes. Keys are distinct (no key is both put and deleted); a key is at most
/// [`STORE_KEY_BYTES_MAX`] bytes, a value at most [`STORE_VALUE_BYTES_MAX`]. Anything else is `NotCommitted`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Values to set.
    pub puts: Vec<Pair>,
    /// Keys to remove.
    pub deletes: Vec<Vec<u8>>,
    /// The seqs of the events that this batch makes durable; the receipt vouches for these.
    pub events: Range<u64>,
}

impl Batch {
    /// Sets `key` to `value`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.puts.push((key, value));
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.deletes.push(key);
    }

    /// Bytes of all keys and values: what [`crate::limits::COMMIT_BYTES_MAX`] counts.
    pub fn bytes(&self) -> usize {
        let puts: usize = self.puts.iter().map(|(key, value)| key.len() + value.len()).sum();
        puts + self.deletes.iter().map(Vec::len).sum::<usize>()
    }

    /// What every implementation asks before it touches anything: sizes, and one fate per key. An implementation
    /// may apply puts and deletes in any order, so a key named twice would have two possible outcomes.
    fn check(&self) -> Result<(), StoreError> {
        let mut seen = BTreeSet::new();
        let keys = self.puts.iter().map(|(key, _)| key).chain(&self.deletes);
        for key in keys {
            check_sizes(key, &[])?;
            if !seen.insert(key) {
                return Err(refused(format!("the batch names the key {} twice", hex(key))));
            }
        }
        self.puts.iter().try_for_each(|(key, value)| check_sizes(key, value))
    }
}

fn check_sizes(key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    if key.len() > STORE_KEY_BYTES_MAX {
        let n = key.len();
        return Err(refused(format!("a key of {n} bytes is longer than {STORE_KEY_BYTES_MAX}")));
    }
    if value.len() > STORE_VALUE_BYTES_MAX {
        let (n, key) = (value.len(), hex(key));
        return Err(refused(format!(
            "the value of key {key} has {n} bytes, more than {STORE_VALUE_BYTES_MAX}"
        )));
    }
    Ok(())
}

fn refused(reason: String) -> StoreError {
    StoreError::NotCommitted { reason }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Proof that the events of one commit are durable. Only an implementation of [`Store`] can make one.
#[derive(Debug)]
pub struct Receipt {
    events: Range<u64>,
}

impl Receipt {
    /// Seqs of the events that became durable.
    pub fn events(&self) -> Range<u64> {
        self.events.clone()
    }
}

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing of the batch is or will become visible. The store goes on working.
    #[error("nothing was committed: {reason}")]
    NotCommitted {
        /// What the layer below said.
        reason: String,
    },
    /// The batch may be durable or not, and later syncs cannot be believed. The process must end; opening again tells.
    #[error("the commit may or may not be durable: {reason}")]
    Unknown {
        /// What the layer below said.
        reason: String,
    },
    /// Stored bytes cannot be read back.
    #[error("the store is damaged at {place}: {reason}")]
    Damaged {
        /// The file, or the key in words.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// Another process holds the directory.
    #[error("{path} is held by another process")]
    Held {
        /// The data directory.
        path: String,
    },
    /// The store could not be opened.
    #[error("{path} could not be opened: {reason}")]
    Open {
        /// The data directory.
        path: String,
        /// What the layer below said.
        reason: String,
    },
}

/// Durable storage of one log.
pub trait Store: Send + Sync {
    /// Applies the whole batch or nothing. When it returns `Ok`, the batch survives a power cut. An error says whether
    /// the batch is certainly absent ([`StoreError::NotCommitted`]) or of unknown fate ([`StoreError::Unknown`]); after
    /// `Unknown` every further commit fails the same way. Called from one thread at a time.
    fn commit(&self, batch: &Batch) -> Result<Receipt, StoreError>;

    /// The value at `key`. This and the other reads may write and sync beneath, and say [`StoreError::Unknown`] when that
    /// fails. Sees every batch whose commit has returned, and perhaps one that is being committed.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// At most `limit` pairs with `from <= key < to`, in ascending order of key bytes; none when `from >= to`. Fewer
    /// than `limit` means that there were no more. The caller's `limit` bounds the memory: a value has at most
    /// [`STORE_VALUE_BYTES_MAX`] bytes.
    fn range(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError>;

    /// The pair with the greatest key in `from <= key < to`.
    fn last(&self, from: &[u8], to: &[u8]) -> Result<Option<Pair>, StoreError>;

    /// Sets side values, in a key space of their own and within the same sizes. Not durable, not atomic: after a
    /// crash any of them may be absent or old.
    fn side_put(&self, pairs: &[Pair]) -> Result<(), StoreError>;

    /// A side value, to be checked by the caller.
    fn side_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Bytes that the file system below still offers.
    fn free_bytes(&self) -> Result<u64, StoreError>;
}
