//! Reading the log: only what is durable, and never beyond the head that was published.

use super::inspect::StorePayloads;
use super::{Ledger, Published, read};
use crate::event::blind::EpisodeKey;
use crate::event::{B16, Body, Closure, Commit, EpisodeName, Event, Intent, Outcome, Plan};
use crate::merkle::Head;
use crate::merkle::hash::Hash;
use crate::merkle::reader::{ReadError, Reader, TileSource};
use crate::merkle::tile::{BundleId, TileId, encode_entry};
use crate::note::Note;
use crate::note::bundle::Bundle;
use crate::note::checkpoint::Checkpoint;
use crate::note::key::VerifierKey;
use crate::state::State;
use crate::store::{Store, StoreError, layout};
use crate::verify::Payloads;
use std::sync::Arc;
use tokio::sync::watch;

/// All events of one invocation that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Plan.
    pub plan: Option<(Event, Plan)>,
    /// Intent.
    pub intent: Option<(Event, Intent)>,
    /// Outcome.
    pub outcome: Option<(Event, Outcome)>,
    /// The last closure.
    pub closure: Option<(Event, Closure)>,
    /// Commit.
    pub commit: Option<(Event, Commit)>,
}

/// Tiles of the published tree: full ones from the store, the right edge from memory.
struct LedgerTiles<'a>(&'a Ledger);

impl TileSource for LedgerTiles<'_> {
    type Error = StoreError;

    fn read(&mut self, id: TileId) -> Result<Vec<u8>, StoreError> {
        let missing = || StoreError::Damaged {
            place: id.to_string(),
            reason: "the tile is not there".to_owned(),
        };
        self.0.tile(id)?.ok_or_else(missing)
    }
}

impl Ledger {
    /// The newest durable head.
    pub fn published(&self) -> Arc<Published> {
        self.shared.published.borrow().clone()
    }

    /// Wakes when a newer head is durable.
    pub fn heads(&self) -> watch::Receiver<Arc<Published>> {
        self.shared.published.subscribe()
    }

    /// The newest head with both signatures, as `/checkpoint` serves it.
    pub fn checkpoint(&self) -> String {
        read(&self.shared.checkpoint).clone()
    }

    /// Name of the log.
    pub fn origin(&self) -> &str {
        self.shared.keys.origin()
    }

    /// The verifier keys of heads: Ed25519, then ML-DSA-44.
    pub fn verifier_keys(&self) -> [&VerifierKey; 2] {
        [self.shared.keys.head.verifier_key(), self.shared.keys.cosign.verifier_key()]
    }

    /// Looks at the state. It may be ahead of the published head by one group, so that nothing read here is an answer to
    /// "what is durable"; a submission that rests on it is checked again.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&read(&self.shared.state))
    }

    /// The state as it is, to go on with elsewhere.
    pub fn state(&self) -> State {
        read(&self.shared.state).clone()
    }

    /// The secret of an episode; `None` when it was redacted or never was.
    pub fn episode_key(&self, episode: &EpisodeName) -> Option<EpisodeKey> {
        read(&self.shared.episode_keys).get(episode).cloned()
    }

    /// The bytes of an event.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn event(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        if seq >= self.published().head.size {
            return Ok(None);
        }
        layout::event(self.shared.store.as_ref(), seq)
    }

    /// At most `limit` events from `from` on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn events(&self, from: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let size = self.published().head.size;
        let events = layout::events(self.shared.store.as_ref(), from);
        let durable = events.take_while(|item| item.as_ref().map_or(true, |(seq, _)| *seq < size));
        durable.take(limit).collect()
    }

    /// The parsed event at `seq`.
    fn parsed(&self, seq: u64) -> Result<Option<Event>, StoreError> {
        let Some(bytes) = self.event(seq)? else { return Ok(None) };
        let damaged = |error: crate::event::EventError| StoreError::Damaged {
            place: format!("event {seq}"),
            reason: error.to_string(),
        };
        Event::decode(&bytes).map(Some).map_err(damaged)
    }

    /// Seqs of at most `limit` commits from entry `from` on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn entries(&self, from: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let size = self.published().head.size;
        let Some(chunk) = layout::entry_chunk(self.shared.store.as_ref(), from)? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for item in layout::events(self.shared.store.as_ref(), chunk.first_seq) {
            let (seq, bytes) = item?;
            if seq >= size || found.len() == limit {
                break;
            }
            let event = Event::decode(&bytes).ok();
            let wanted = |event: &Event| matches!(&event.body, Body::Commit(c) if c.entry >= from);
            found.extend(event.filter(wanted));
        }
        Ok(found)
    }

    /// Number of durable commits.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn entry_count(&self) -> Result<u64, StoreError> {
        let store = self.shared.store.as_ref();
        let Some(chunk) = layout::last_chunk(store)? else { return Ok(0) };
        let mut count = chunk.entries;
        for item in layout::events(store, chunk.first_seq) {
            let event = Event::decode(&item?.1).ok();
            if let Some(Event { body: Body::Commit(commit), .. }) = event {
                count = commit.entry + 1;
            }
        }
        Ok(count)
    }

    /// What is known of an invocation that has ended.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn find(&self, inv: &B16) -> Result<Option<Found>, StoreError> {
        let end = match self.shared.end_of(inv)? {
            None if self.lost()? => {
                self.catch_up()?;
                self.shared.end_of(inv)?
            }
            end => end,
        };
        let Some(end) = end else { return Ok(None) };
        let mut found = Found::default();
        let Some(event) = self.parsed(end)? else { return Ok(None) };
        let (mut plan, mut intent) = (None, None);
        match event.body.clone() {
            Body::Commit(commit) => {
                plan = Some(commit.plan);
                if let Some(event) =
                    commit.outcome.map(|seq| self.parsed(seq)).transpose()?.flatten()
                    && let Body::Outcome(outcome) = event.body.clone()
                {
                    intent = outcome.intent;
                    found.outcome = Some((event, outcome));
                }
                found.commit = Some((event, commit));
            }
            Body::Closure(closure) => {
                intent = Some(closure.intent);
                found.closure = Some((event, closure));
            }
            _ => {}
        }
        if let Some(event) = intent.map(|seq| self.parsed(seq)).transpose()?.flatten()
            && let Body::Intent(intent) = event.body.clone()
        {
            plan = Some(intent.plan);
            found.intent = Some((event, intent));
        }
        if let Some(event) = plan.map(|seq| self.parsed(seq)).transpose()?.flatten()
            && let Body::Plan(plan) = event.body.clone()
        {
            found.plan = Some((event, plan));
        }
        Ok(Some(found))
    }

    /// An object's bytes, which have its hash.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn object(
        &self,
        episode: Option<&EpisodeName>,
        hash: &Hash,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let episode = episode.map_or("", |name| name.as_str());
        layout::object(self.shared.store.as_ref(), episode, hash)
    }

    /// How many bytes an object has.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn object_size(
        &self,
        episode: Option<&EpisodeName>,
        hash: &Hash,
    ) -> Result<Option<u64>, StoreError> {
        let episode = episode.map_or("", |name| name.as_str());
        layout::object_length(self.shared.store.as_ref(), episode, hash)
    }

    /// The opening of an event.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn opening(
        &self,
        episode: &EpisodeName,
        seq: u64,
    ) -> Result<Option<crate::event::blind::Opening>, StoreError> {
        let bytes = StorePayloads(self.shared.store.as_ref()).opening(episode, seq);
        let damaged = |reason| StoreError::Damaged { place: format!("opening {seq}"), reason };
        let Some(bytes) = bytes.map_err(damaged)? else { return Ok(None) };
        crate::event::blind::Opening::decode(&bytes)
            .map(Some)
            .map_err(|error| damaged(error.to_string()))
    }

    /// The bytes of a tile as any published head had it; `None` beyond the newest head.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tile(&self, id: TileId) -> Result<Option<Vec<u8>>, StoreError> {
        let width = usize::from(id.width());
        {
            let tree = read(&self.shared.tree);
            let edge = tree
                .partials()
                .find(|(edge, _)| (edge.level(), edge.index()) == (id.level(), id.index()));
            if let Some((_, hashes)) = edge {
                return Ok(hashes.get(..width).map(<[Hash]>::concat));
            }
        }
        let full = layout::tile(self.shared.store.as_ref(), id.level(), id.index())?;
        Ok(full.and_then(|bytes| bytes.get(..32 * width).map(<[u8]>::to_vec)))
    }

    /// An entry bundle as any published head had it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn bundle(&self, id: BundleId) -> Result<Option<Vec<u8>>, StoreError> {
        let first = id.index() << 8;
        let width = usize::from(id.width());
        let events = self.events(first, width)?;
        if events.len() < width {
            return Ok(None);
        }
        let mut bundle = Vec::new();
        for (seq, bytes) in events {
            encode_entry(&bytes, &mut bundle).map_err(|error| StoreError::Damaged {
                place: format!("event {seq}"),
                reason: error.to_string(),
            })?;
        }
        Ok(Some(bundle))
    }

    /// The `.tlog-proof` of a leaf under the newest checkpoint, or under the newest head when that does not hold it yet.
    ///
    /// # Errors
    /// [`ReadError`], when stored tiles do not fit the head.
    pub fn proof(&self, leaf: u64) -> Result<Option<String>, ReadError<StoreError>> {
        let checkpoint = self.checkpoint();
        let newest = self.published().note.clone();
        for text in [checkpoint, newest] {
            let Ok(note) = Note::parse(text.as_bytes()) else { continue };
            let Ok(checkpoint) = Checkpoint::parse(note.text()) else { continue };
            let head = checkpoint.head();
            if leaf >= head.size {
                continue;
            }
            let mut reader = self.reader(head)?;
            let hashes = reader.inclusion_proof(leaf, head.size)?;
            return Ok(Bundle::new(leaf, hashes, note).ok().map(|bundle| bundle.to_string()));
        }
        Ok(None)
    }

    /// The consistency proof between two sizes up to the newest head.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn consistency(&self, first: u64, second: u64) -> Result<Vec<Hash>, ReadError<StoreError>> {
        self.reader(self.published().head)?.consistency_proof(first, second)
    }

    /// A reader that trusts `head`. The edge in memory may be newer than `head`: the tiles of an older head are prefixes.
    fn reader(&self, head: Head) -> Result<Reader<LedgerTiles<'_>>, ReadError<StoreError>> {
        Reader::open(head, LedgerTiles(self))
    }

    /// The store, for exporting and inspecting it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }
}
