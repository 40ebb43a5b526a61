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
use crate::limits::OBJECT_INLINE_BYTES_MAX;
use crate::merkle::hash::sha256;
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
    (episode.to_owned(), sha256(&object.bytes).into())
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
        for object in submissions.flat_map(|submission| &submission.objects).filter(|o| large(o)) {
            let (episode, hash) = name(object);
            if layout::has_object(store, &episode, &hash.0)? {
                continue;
            }
            self.ahead.push((episode.clone(), hash));
            let mut mark = Batch::default();
            layout::put_meta(&mut mark, MARK, &to_cbor(&self.ahead).map_err(refused)?)?;
            let (_, batches) = layout::stage_object(&episode, &object.bytes)?;
            // The mark is durable before the first part.
            for batch in std::iter::once(mark).chain(batches) {
                store.commit(&batch)?;
            }
        }
        Ok(())
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
