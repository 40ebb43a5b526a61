//! Kinds of objects. The kind of an object is a property of the event that names it, never of its bytes.

use super::view::may_see;
use super::{Caller, Service};
use crate::canon::{Value, object};
use crate::event::{Body, Event, hex};
use crate::limits::KINDS_SEARCH_MAX;
use crate::merkle::hash::Hash;
use crate::store::StoreError;

/// Kinds of objects, by the event that names one and its place among that event's references.
const KINDS: [(&str, &str, usize); 9] = [
    ("world/effect-plan/v1", "plan", 0),
    ("world/invocation-input/v1", "plan", 1),
    ("world/effect-request/v1", "intent", 0),
    ("world/effect-record/v1", "outcome", 0),
    ("world/effect-result/v1", "outcome", 1),
    ("world/invocation-output/v1", "commit", 0),
    ("world/closure-record/v1", "closure", 0),
    ("world/transition-source/v1", "transition", 0),
    ("world/transition-schema/v1", "transition", 1),
];
/// What a request keeps of a file.
const FILE: &str = "world/file-before/v1";
/// Events read at once.
const PAGE: usize = 500;

/// The kind of what an event of kind `by` names at a place among its references.
pub(super) fn kind_named_by(by: &str, place: usize) -> Option<&'static str> {
    let found = KINDS.iter().find(|(_, kind, index)| *kind == by && *index == place);
    found.map(|(name, ..)| *name)
}

impl Service {
    /// The kind of an object is a property of the event that names it.
    pub(super) fn kind_of(&self, event: &Event, hash: &Hash) -> Result<&'static str, StoreError> {
        let Some(ep) = &event.ep else { return Ok(FILE) };
        let refs = self.plain(&ep.name, event.seq)?;
        let place = refs.iter().position(|named| named == hash);
        let kind = place.and_then(|place| kind_named_by(event.body.kind(), place));
        Ok(kind.unwrap_or(FILE))
    }

    /// Objects of a kind that the caller may see, from the event after leaf `after` on, oldest first; and the leaf up to
    /// which was looked, when there may be more.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn objects_of_kind(
        &self,
        caller: &Caller,
        kind: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<Value>, Option<u64>), StoreError> {
        let Some((name, by, index)) = KINDS.iter().find(|(name, ..)| *name == kind) else {
            return Ok((Vec::new(), None));
        };
        let (mut items, mut next) = (Vec::new(), after.map_or(0, |leaf| leaf.saturating_add(1)));
        let end = next.saturating_add(KINDS_SEARCH_MAX);
        while next < end {
            let events = self.inner.ledger.events(next, PAGE)?;
            if events.is_empty() {
                return Ok((items, None));
            }
            for (seq, bytes) in events {
                next = seq + 1;
                let Ok(event) = Event::decode(&bytes) else { continue };
                if event.body.kind() != *by {
                    continue;
                }
                let Some((hash, size)) = self.object_of(caller, &event, *index)? else { continue };
                items.push(object([
                    ("hash", format!("sha256:{}", hex(&hash)).into()),
                    ("leaf", seq.into()),
                    ("semanticId", (*name).into()),
                    ("size", size.into()),
                ]));
                if items.len() >= limit {
                    return Ok((items, Some(seq)));
                }
            }
        }
        Ok((items, Some(next - 1)))
    }

    /// The object at a place of an event, with its size, if the caller may see it and it is there.
    fn object_of(
        &self,
        caller: &Caller,
        event: &Event,
        index: usize,
    ) -> Result<Option<(Hash, u64)>, StoreError> {
        let ledger = &self.inner.ledger;
        let (episode, hash) = match (&event.body, &event.ep) {
            (Body::Transition(transition), _) if index == 0 => (None, transition.source.0),
            (Body::Transition(transition), _) => (None, transition.schema.0),
            (_, Some(ep)) if may_see(caller, Some(&ep.name)) => {
                match self.plain(&ep.name, event.seq)?.get(index) {
                    Some(hash) => (Some(&ep.name), *hash),
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        Ok(ledger.object_size(episode, &hash)?.map(|size| (hash, size)))
    }
}
