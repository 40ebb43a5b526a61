//! Objects too large for the batch of their events: committed ahead of it, and removed again when the events never come.
//!
//! ```text
//! m staging -> [* [episode, sha256]]      from the first batch of such an object until the batch of its events
//! ```
//!
//! Dying in between leaves the mark, and the next start removes what it lists.

use super::{NewObject, Submission};
use crate::event::B32;
use crate::event::{BodyError, from_cbor, to_cbor};
use crate::limits::{COMMIT_BYTES_MAX, OBJECT_INLINE_BYTES_MAX, STORE_VALUE_BYTES_MAX};
use crate::store::layout;
use crate::store::{Batch, Store, StoreError};

const MARK: &str = "staging";

/// What is committed ahead of events that do not exist yet. Owned by the writer.
#[derive(Debug, Default)]
pub(super) struct Staging {
    ahead: Vec<(String, B32)>,
}

/// Whether an object has to be staged.
pub(super) fn large(object: &NewObject) -> bool {
    object.bytes.len() > OBJECT_INLINE_BYTES_MAX
}

fn name(object: &NewObject) -> (String, B32) {
    let episode = object.episode.as_ref().map_or("", |name| name.as_str());
    (episode.to_owned(), object.hash.into())
}

fn refused(error: BodyError) -> StoreError {
    StoreError::NotCommitted { reason: error.reason }
}

impl Staging {
    /// Commits the large objects of these submissions that are not there yet.
    pub(super) fn bring<'a>(
        &mut self,
        store: &dyn Store,
        submissions: impl Iterator<Item = &'a Submission>,
    ) -> Result<(), StoreError> {
        let (mut coming, mut parts) = (Vec::new(), Vec::new());
        for object in submissions.flat_map(|submission| &submission.objects).filter(|o| large(o)) {
            let named = name(object);
            // What an earlier try that was not committed announced may be there, or only announced.
            if coming.contains(&named) || layout::has_object(store, &named.0, &named.1.0)? {
                continue;
            }
            parts.extend(layout::stage_object(&named.0, &object.bytes)?.1);
            coming.push(named);
        }
        let announced = coming.into_iter().filter(|named| !self.ahead.contains(named));
        let announced: Vec<_> = announced.collect();
        self.ahead.extend(announced);
        if parts.is_empty() {
            return Ok(());
        }
        // The mark is in the first batch, so that no part is durable before it. Objects share batches: each costs a sync.
        let mut batch = Batch::default();
        layout::put_meta(&mut batch, MARK, &to_cbor(&self.ahead).map_err(refused)?)?;
        for part in parts {
            if batch.bytes() + part.bytes() > COMMIT_BYTES_MAX + STORE_VALUE_BYTES_MAX {
                store.commit(&std::mem::take(&mut batch))?;
            }
            batch.puts.extend(part.puts);
        }
        store.commit(&batch).map(drop)
    }

    /// Adds to the batch of these submissions' events what ends the staging: the mark goes, and so does every object that
    /// none of them brought along.
    pub(super) fn end<'a>(
        &self,
        store: &dyn Store,
        batch: &mut Batch,
        submissions: impl Iterator<Item = &'a Submission>,
    ) -> Result<(), StoreError> {
        if self.ahead.is_empty() {
            return Ok(());
        }
        let objects = submissions.flat_map(|submission| &submission.objects);
        let kept: Vec<_> = objects.filter(|object| large(object)).map(name).collect();
        for (episode, hash) in self.ahead.iter().filter(|ahead| !kept.contains(ahead)) {
            layout::delete_object(store, batch, episode, &hash.0)?;
        }
        layout::delete_meta(batch, MARK);
        Ok(())
    }

    /// The batch that ended the staging is durable.
    pub(super) fn ended(&mut self) {
        self.ahead.clear();
    }
}

/// Removes what a process that died had staged. Called before the writer starts.
pub(super) fn sweep(store: &dyn Store) -> Result<(), StoreError> {
    let Some(bytes) = layout::meta(store, MARK)? else { return Ok(()) };
    let damaged = |error: BodyError| StoreError::Damaged {
        place: "the mark of staged objects".to_owned(),
        reason: error.reason,
    };
    let staging = Staging { ahead: from_cbor(&bytes).map_err(damaged)? };
    let mut batch = Batch::default();
    staging.end(store, &mut batch, std::iter::empty())?;
    store.commit(&batch).map(drop)
}
