//! A `.tlog-proof` from a store that no server holds.

use super::ExportError;
use crate::merkle::hash::leaf_hash;
use crate::merkle::reader::{Reader, TileSource};
use crate::merkle::tile::TileId;
use crate::merkle::tree::Tree;
use crate::note::Note;
use crate::note::bundle::Bundle;
use crate::note::checkpoint::Checkpoint;
use crate::store::{Store, layout};

/// Full tiles from the store, the right edge recomputed from the events.
struct Tiles<'a> {
    store: &'a dyn Store,
    tree: Tree,
}

impl TileSource for Tiles<'_> {
    type Error = String;

    fn read(&mut self, id: TileId) -> Result<Vec<u8>, String> {
        let same = |edge: &TileId| (edge.level(), edge.index()) == (id.level(), id.index());
        if let Some((_, hashes)) = self.tree.partials().find(|(edge, _)| same(edge)) {
            return Ok(hashes.concat());
        }
        let found = layout::tile(self.store, id.level(), id.index()).map_err(|e| e.to_string())?;
        found.ok_or_else(|| "the tile is missing".to_owned())
    }
}

/// The proof that leaf `leaf` is under the newest head of `store`; `None` when that head does not cover it.
///
/// # Errors
/// [`ExportError`], when what is stored does not give the head.
pub fn prove(store: &dyn Store, leaf: u64) -> Result<Option<String>, ExportError> {
    let refused = |error: &dyn std::fmt::Display| ExportError::damaged("the signed head", error);
    let (_, note) = layout::last_head(store)?.ok_or(ExportError::Empty)?;
    let note = Note::parse(&note).map_err(|error| refused(&error))?;
    let head = Checkpoint::parse(note.text()).map_err(|error| refused(&error))?.head();
    if leaf >= head.size {
        return Ok(None);
    }
    let mut tree = Tree::new();
    let mut full = Vec::new();
    for item in layout::events(store, 0) {
        let (seq, bytes) = item?;
        if seq >= head.size {
            break;
        }
        let place = || format!("leaf {seq}");
        let added = tree.append(leaf_hash(&bytes), &mut full);
        added.map_err(|error| ExportError::damaged(place(), error))?;
        full.clear();
    }
    let damaged =
        |error: &dyn std::fmt::Display| ExportError::damaged(format!("leaf {leaf}"), error);
    let mut reader = Reader::open(head, Tiles { store, tree }).map_err(|e| damaged(&e))?;
    let hashes = reader.inclusion_proof(leaf, head.size).map_err(|error| damaged(&error))?;
    let bundle = Bundle::new(leaf, hashes, note).map_err(|error| damaged(&error))?;
    Ok(Some(bundle.to_string()))
}
