//! Turning an export, or another store, into a store: `import` and `backup`.

use super::inspect::events;
use super::walk::{Sink, Walked, walk};
use super::{ExportError, Folder, FolderPayloads};
use crate::event::EpisodeName;
use crate::ledger::StorePayloads;
use crate::limits::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX, OBJECT_INLINE_BYTES_MAX};
use crate::merkle::Head;
use crate::merkle::hash::Hash;
use crate::merkle::tree::FullTile;
use crate::note::Note;
use crate::note::checkpoint::Checkpoint;
use crate::store::layout::{self, NewEvent};
use crate::store::{Batch, Store};
use crate::verify::Payloads;
use std::collections::BTreeSet;

/// Meta value of a store that was imported: the `export.json` that it came with.
pub const IMPORTED: &str = "imported";

/// What a store was filled with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// Events.
    pub size: u64,
    /// Payload objects.
    pub objects: u64,
    /// Name of the log.
    pub origin: String,
}

/// Fills the empty store `to` with the export at `folder`. The caller audits the export before, and gives the store its
/// name after.
///
/// # Errors
/// [`ExportError`]; `to` is then of no use.
pub fn fill(to: &dyn Store, folder: &Folder) -> Result<Filled, ExportError> {
    let note = folder.checkpoint()?.ok_or(ExportError::Empty)?;
    let head = head_of(&note)?;
    let mut payloads = FolderPayloads::new(folder);
    let mut sink = Filler::new(to);
    let walked = walk(
        &mut events(folder, head.size),
        Some(&mut payloads as &mut dyn Payloads),
        head,
        &mut sink,
    )?;
    let manifest = folder.manifest()?.map_or_else(|| b"{}".to_vec(), |manifest| manifest.bytes);
    sink.finish(&note, head, Some(&manifest))?;
    Ok(filled(walked))
}

/// Fills the empty store `to` with what `from` holds up to the signed head `note`. `from` may grow meanwhile.
///
/// # Errors
/// [`ExportError`]; `to` is then of no use.
pub fn fill_from(to: &dyn Store, from: &dyn Store, note: &[u8]) -> Result<Filled, ExportError> {
    let head = head_of(note)?;
    let mut payloads = StorePayloads(from);
    let mut sink = Filler::new(to);
    let mut events =
        layout::events(from, 0).map(|item| item.map(|(_, bytes)| bytes).map_err(ExportError::from));
    let walked = walk(&mut events, Some(&mut payloads as &mut dyn Payloads), head, &mut sink)?;
    let imported = layout::meta(from, IMPORTED)?;
    sink.finish(note, head, imported.as_deref())?;
    Ok(filled(walked))
}

fn filled(walked: Walked) -> Filled {
    Filled { size: walked.tree.size(), objects: walked.objects, origin: walked.origin }
}

fn head_of(note: &[u8]) -> Result<Head, ExportError> {
    let note = Note::parse(note).map_err(|error| ExportError::damaged("the signed head", error))?;
    let checkpoint = Checkpoint::parse(note.text());
    let head = checkpoint.map_err(|e| ExportError::damaged("the signed head", e))?.head();
    if head.size == 0 { Err(ExportError::Empty) } else { Ok(head) }
}

/// Gathers batches of a bounded size.
struct Filler<'a> {
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
    fn new(store: &'a dyn Store) -> Self {
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

    fn room_for(&mut self, bytes: usize) -> Result<(), ExportError> {
        let full =
            self.bytes + bytes > COMMIT_BYTES_MAX / 2 || self.events.len() >= COMMIT_EVENTS_MAX;
        if full {
            self.flush()?;
        }
        self.bytes += bytes;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ExportError> {
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

    /// The head comes last: a store without one was never finished.
    fn finish(
        mut self,
        note: &[u8],
        head: Head,
        imported: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        self.flush()?;
        let mut batch = Batch::default();
        layout::put_head(&mut batch, head.size, note)?;
        if let Some(manifest) = imported {
            layout::put_meta(&mut batch, IMPORTED, manifest)?;
        }
        self.store.commit(&batch)?;
        Ok(())
    }
}

impl Sink for Filler<'_> {
    fn event(&mut self, _seq: u64, bytes: &[u8], entry: bool) -> Result<(), ExportError> {
        self.room_for(bytes.len() + 64)?;
        self.events.push((bytes.to_vec(), entry));
        Ok(())
    }

    fn tile(&mut self, tile: &FullTile) -> Result<(), ExportError> {
        // A tile never stands in a store without its events, so it goes with the batch of the last of them.
        self.bytes += layout::TILE_BYTES;
        Ok(layout::put_tile(&mut self.batch, tile.id.level(), tile.id.index(), &tile.to_bytes())?)
    }

    fn key(&mut self, episode: &EpisodeName, key: &Hash) -> Result<(), ExportError> {
        self.bytes += 256;
        Ok(layout::put_episode_key(&mut self.batch, episode.as_str(), key)?)
    }

    fn opening(
        &mut self,
        episode: &EpisodeName,
        seq: u64,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        self.bytes += bytes.len() + 256;
        Ok(layout::put_opening(&mut self.batch, episode.as_str(), seq, bytes)?)
    }

    fn wants(&mut self, episode: Option<&EpisodeName>, hash: &Hash) -> Result<bool, ExportError> {
        let episode = episode.map_or("", |name| name.as_str());
        let waits = self.objects.contains(&(episode.to_owned(), *hash));
        Ok(!waits && !layout::has_object(self.store, episode, hash)?)
    }

    fn object(
        &mut self,
        episode: Option<&EpisodeName>,
        hash: &Hash,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        let episode = episode.map_or("", |name| name.as_str());
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
}
