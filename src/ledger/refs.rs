//! Which event names an object: a side index that nobody trusts.
//!
//! ```text
//! ref/ || SHA-256(episode || 0x00 || object)[..12]  ->  seq of the newest event with that object in its opening
//! refs/upto                                          ->  events looked at so far
//! ```
//!
//! It is written about once a second, off the commit path. What an unclean end, an import or a lost side value left out is
//! made up for in pieces, by the openings in the store. A reader looks at the event before it believes an answer, so that a
//! wrong entry costs an answer and never gives a false one.

use super::{Ledger, Shared, lock};
use crate::event::blind::Opening;
use crate::event::{EpisodeName, Event};
use crate::limits::REFS_CATCH_UP_MAX;
use crate::merkle::hash::{Hash, sha256_parts};
use crate::store::{Store, StoreError, layout};
use std::collections::BTreeMap;

const UPTO: &[u8] = b"refs/upto";

/// What is not in the index yet.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Episode, object and event, oldest first.
    named: Vec<(EpisodeName, Hash, u64)>,
    /// First event that was never looked at, and the first that the writer told of itself.
    behind: Option<(u64, u64)>,
}

/// What a reader asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The newest event that names the object.
    Event(u64),
    /// None does.
    Nothing,
    /// None that was looked at, and the index is still being made up.
    Behind,
}

impl Recent {
    /// The index of a log of `size` events that is now opened.
    pub(super) fn open(store: &dyn Store, size: u64) -> Result<Self, StoreError> {
        let upto = stored(store, UPTO)?.unwrap_or(0).min(size);
        Ok(Self { named: Vec::new(), behind: (upto < size).then_some((upto, size)) })
    }

    /// What the writer just made durable.
    pub(super) fn tell(&mut self, episode: &EpisodeName, seq: u64, opening: &Opening) {
        let all = opening.refs.iter().chain(&opening.more);
        self.named.extend(all.map(|hash| (episode.clone(), *hash, seq)));
    }
}

impl Shared {
    /// Writes what is not in the index yet, and makes up for some of what was left out.
    pub(super) fn index_refs(&self, size: u64) -> Result<(), StoreError> {
        let (named, behind) = {
            let mut recent = lock(&self.refs);
            (std::mem::take(&mut recent.named), recent.behind)
        };
        let mut newest = BTreeMap::new();
        let mut next = size;
        if let Some((from, end)) = behind {
            let to = end.min(from.saturating_add(REFS_CATCH_UP_MAX));
            self.look_at(from, to, &mut newest)?;
            lock(&self.refs).behind = (to < end).then_some((to, end));
            next = if to < end { to } else { size };
        }
        for (episode, hash, seq) in named {
            newest.insert(key(&episode, &hash), seq);
        }
        if newest.is_empty() && behind.is_none() {
            return Ok(());
        }
        let pairs = newest.into_iter().map(|(key, seq)| (key, seq.to_be_bytes().to_vec()));
        let upto = (UPTO.to_vec(), next.to_be_bytes().to_vec());
        self.store.side_put(&pairs.chain([upto]).collect::<Vec<_>>())
    }

    /// Collects what the events from `from` to before `to` name, unless the index has a newer event for it.
    fn look_at(
        &self,
        from: u64,
        to: u64,
        newest: &mut BTreeMap<Vec<u8>, u64>,
    ) -> Result<(), StoreError> {
        let store = self.store.as_ref();
        let count = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        for item in layout::events(store, from).take(count) {
            let (seq, bytes) = item?;
            let link = Event::decode(&bytes).ok().and_then(|event| event.ep);
            let Some(link) = link else { continue };
            let opening = layout::opening(store, link.name.as_str(), seq)?;
            let opening = opening.and_then(|bytes| Opening::decode(&bytes).ok());
            for hash in opening.iter().flat_map(|o| o.refs.iter().chain(&o.more)) {
                let key = key(&link.name, hash);
                if stored(store, &key)?.is_none_or(|known| known < seq) {
                    newest.insert(key, seq);
                }
            }
        }
        Ok(())
    }
}

fn stored(store: &dyn Store, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let value = store.side_get(key)?;
    Ok(value.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes))
}

impl Ledger {
    /// The newest event of `episode` that names the object.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn naming(&self, episode: &EpisodeName, object: &Hash) -> Result<Naming, StoreError> {
        let behind = lock(&self.shared.refs).behind.is_some();
        if behind {
            self.shared.index_refs(self.published().head.size)?;
        }
        let recent = {
            let recent = lock(&self.shared.refs);
            let mut named = recent.named.iter().rev();
            named.find(|(ep, hash, _)| ep == episode && hash == object).map(|(.., seq)| *seq)
        };
        let found = match recent {
            Some(seq) => Some(seq),
            None => stored(self.shared.store.as_ref(), &key(episode, object))?,
        };
        if let Some(seq) = found {
            let opening = self.opening(episode, seq)?.unwrap_or_default();
            if opening.refs.iter().chain(&opening.more).any(|hash| hash == object) {
                return Ok(Naming::Event(seq));
            }
        }
        let behind = lock(&self.shared.refs).behind.is_some();
        Ok(if behind { Naming::Behind } else { Naming::Nothing })
    }
}

fn key(episode: &EpisodeName, object: &Hash) -> Vec<u8> {
    let digest = sha256_parts(&[episode.as_str().as_bytes(), &[0], object]);
    let half = digest.first_chunk::<12>().copied().unwrap_or_default();
    [b"ref/".as_slice(), &half].concat()
}
