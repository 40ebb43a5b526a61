//! Filling an empty store with a log that was written elsewhere: imports and backups.
//!
//! The writer does not run here, and nothing is signed: events come with the head that covers them. Whoever fills a store
//! compares the events with that head before, or while, it does, and gives the store its name only after the end.

use crate::limits::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX, OBJECT_INLINE_BYTES_MAX};
use crate::merkle::hash::Hash;
use crate::merkle::tree::FullTile;
use crate::store::layout::{self, NewEvent};
use crate::store::{Batch, Store, StoreError};
use std::collections::BTreeSet;

/// Meta value of a store that was imported: the `export.json` that it came with.
pub const IMPORTED: &str = "imported";

/// Gathers batches of a bounded size.
pub struct Filler<'a> {
    store: &'a dyn Store,
    batch: Batch,
    bytes: usize,
    events: Vec<(Vec<u8>, bool)>,
    /// Objects in the batch, which the store cannot tell of yet.
    objects: BTreeSet<(String, Hash)>,
    /// Events in earlier batches.
    size: u64,
    /// Entries in earlier batches.
    entries: u64,
}

impl<'a> Filler<'a> {
    /// Fills `store`, which is empty.
    pub fn new(store: &'a dyn Store) -> Self {
        Self {
            store,
            batch: Batch::default(),
            bytes: 0,
            events: Vec::new(),
            objects: BTreeSet::new(),
            size: 0,
            entries: 0,
        }
    }

    fn room_for(&mut self, bytes: usize) -> Result<(), StoreError> {
        let full =
            self.bytes + bytes > COMMIT_BYTES_MAX / 2 || self.events.len() >= COMMIT_EVENTS_MAX;
        if full {
            self.flush()?;
        }
        self.bytes += bytes;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let mut batch = std::mem::take(&mut self.batch);
        let events: Vec<_> =
            self.events.iter().map(|(bytes, entry)| NewEvent { bytes, entry: *entry }).collect();
        if !events.is_empty() {
            layout::put_events(&mut batch, self.size, self.entries, &events)?;
            self.size += events.len() as u64;
            self.entries += events.iter().filter(|event| event.entry).count() as u64;
        }
        self.events.clear();
        self.objects.clear();
        self.bytes = 0;
        if !batch.puts.is_empty() {
            self.store.commit(&batch)?;
        }
        Ok(())
    }

    /// The next event; `entry` when it is a commit.
    ///
    /// # Errors
    /// [`StoreError`], as of every method here; the store is then of no use.
    pub fn event(&mut self, bytes: &[u8], entry: bool) -> Result<(), StoreError> {
        self.room_for(bytes.len() + 64)?;
        self.events.push((bytes.to_vec(), entry));
        Ok(())
    }

    /// A tile that the last event filled: it goes with that event's batch, so that none stands without its events.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tile(&mut self, tile: &FullTile) -> Result<(), StoreError> {
        self.bytes += layout::TILE_BYTES;
        layout::put_tile(&mut self.batch, tile.id.level(), tile.id.index(), &tile.to_bytes())
    }

    /// The secret of an episode.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn key(&mut self, episode: &str, key: &Hash) -> Result<(), StoreError> {
        self.bytes += 256;
        layout::put_episode_key(&mut self.batch, episode, key)
    }

    /// The opening of an event.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn opening(&mut self, episode: &str, seq: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.bytes += bytes.len() + 256;
        layout::put_opening(&mut self.batch, episode, seq, bytes)
    }

    /// Whether this object is still missing.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn wants(&self, episode: &str, hash: &Hash) -> Result<bool, StoreError> {
        let waits = self.objects.contains(&(episode.to_owned(), *hash));
        Ok(!waits && !layout::has_object(self.store, episode, hash)?)
    }

    /// An object with its hash.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn object(&mut self, episode: &str, hash: &Hash, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.len() <= OBJECT_INLINE_BYTES_MAX {
            self.room_for(bytes.len() + 512)?;
            self.objects.insert((episode.to_owned(), *hash));
            layout::put_object(&mut self.batch, episode, bytes)?;
            return Ok(());
        }
        for batch in layout::stage_object(episode, bytes)?.1 {
            self.store.commit(&batch)?;
        }
        Ok(())
    }

    /// Writes the head, last of all: a store without one was never finished. `imported` makes it a read-only one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn finish(
        mut self,
        note: &[u8],
        size: u64,
        imported: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        self.flush()?;
        let mut batch = Batch::default();
        layout::put_head(&mut batch, size, note)?;
        if let Some(manifest) = imported {
            layout::put_meta(&mut batch, IMPORTED, manifest)?;
        }
        self.store.commit(&batch)?;
        Ok(())
    }
}
