//! Turning an export, or another store, into a store: `import` and `backup`.

use super::inspect::events;
use super::walk::{Sink, Walked, walk};
use super::{ExportError, Folder, FolderPayloads};
use crate::event::EpisodeName;
use crate::ledger::{Filler, IMPORTED, StorePayloads};
use crate::merkle::Head;
use crate::merkle::hash::Hash;
use crate::merkle::tree::FullTile;
use crate::note::Note;
use crate::note::checkpoint::Checkpoint;
use crate::store::{Store, layout};
use crate::verify::Payloads;

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
    sink.finish(&note, head.size, Some(&manifest))?;
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
    sink.finish(note, head.size, imported.as_deref())?;
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

/// No episode has the empty name.
fn name(episode: Option<&EpisodeName>) -> &str {
    episode.map_or("", |name| name.as_str())
}

impl Sink for Filler<'_> {
    fn event(&mut self, _seq: u64, bytes: &[u8], entry: bool) -> Result<(), ExportError> {
        Ok(Filler::event(self, bytes, entry)?)
    }

    fn tile(&mut self, tile: &FullTile) -> Result<(), ExportError> {
        Ok(Filler::tile(self, tile)?)
    }

    fn key(&mut self, episode: &EpisodeName, key: &Hash) -> Result<(), ExportError> {
        Ok(Filler::key(self, episode.as_str(), key)?)
    }

    fn opening(
        &mut self,
        episode: &EpisodeName,
        seq: u64,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        Ok(Filler::opening(self, episode.as_str(), seq, bytes)?)
    }

    fn wants(&mut self, episode: Option<&EpisodeName>, hash: &Hash) -> Result<bool, ExportError> {
        Ok(Filler::wants(self, name(episode), hash)?)
    }

    fn object(
        &mut self,
        episode: Option<&EpisodeName>,
        hash: &Hash,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        Ok(Filler::object(self, name(episode), hash, bytes)?)
    }
}
