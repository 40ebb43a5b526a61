//! Indexes beside the log, that nobody trusts: the newest event that names an object, and all events that have a mark.
//!
//! ```text
//! ref/  || SHA-256(episode || 0x00 || object)[..12]           ->  seq of the newest event with that object in its opening
//! mark/ || SHA-256(episode || 0x00 || mark)[..12]             ->  seq of the newest event with that mark
//! mark/ || SHA-256(episode || 0x00 || mark)[..12] || seq:u64  ->  seq of the one before that event; ff*8: there is none
//! beside/upto                                                 ->  events looked at so far
//! ```
//!
//! The marks of an event are 16 bytes each: an intent has the path tokens of its files, a closure its invocation, a session
//! event the session's id, a commit ff*16, a redaction of a whole episode zeros.
//!
//! They are written about once a second, off the commit path; until then what the writer told is in memory. What an unclean
//! end, an import or a lost side value left out is made up for in pieces, from the events and openings in the store. A reader
//! looks at the event before it believes an answer, so that a wrong value costs an answer and never gives a false one.

use super::tend::end_key;
use super::{Draft, Ledger, Shared, lock};
use crate::event::blind::Opening;
use crate::event::{B16, Body, EpisodeName, Event, Fixed, Redaction};
use crate::limits::{BESIDE_CATCH_UP_MAX, FILES_SEARCH_MAX};
use crate::merkle::hash::{Hash, sha256_parts};
use crate::store::{Store, StoreError, layout};
use std::collections::BTreeMap;

const UPTO: &[u8] = b"beside/upto";
const REFS: &[u8] = b"ref/";
const MARKS: &[u8] = b"mark/";
/// The mark of what is about a whole episode.
const WHOLE: B16 = Fixed([0; 16]);
/// The mark of an episode's commits.
const CALL: B16 = Fixed([0xff; 16]);
/// Stands for no earlier event.
const NONE: u64 = u64::MAX;

/// What is not in the indexes yet.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Episode, object and event, oldest first.
    named: Vec<(EpisodeName, Hash, u64)>,
    /// Episode, mark and event, oldest first.
    marked: Vec<(EpisodeName, B16, u64)>,
    /// First event that was never looked at, and the first that the writer told of itself.
    behind: Option<(u64, u64)>,
    /// What the store has under [`UPTO`], and what is just being written there. Anything else: the values are gone.
    upto: Option<u64>,
    coming: Option<u64>,
    /// How often they went while the log was open, ends of calls among them; and whether they are not all made up for.
    losses: u64,
    lost: bool,
}

/// What a reader asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The newest event that names it.
    Event(u64),
    /// None does.
    Nothing,
    /// None that was looked at, and the index is still being made up.
    Behind,
    /// More were passed over than one answer may, down to this event; or the index does not go on there.
    Lost(u64),
}

impl Recent {
    /// The indexes of a log of `size` events that is now opened.
    pub(super) fn open(store: &dyn Store, size: u64) -> Result<Self, StoreError> {
        let upto = stored(store, UPTO)?;
        let seen = upto.unwrap_or(0).min(size);
        let behind = (seen < size).then_some((seen, size));
        Ok(Self { behind, upto, ..Self::default() })
    }

    /// Looks whether the store still has what was written to it; if not, all of the log is to be looked at again.
    fn check(&mut self, store: &dyn Store, size: u64) -> Result<(), StoreError> {
        let found = stored(store, UPTO)?;
        if found != self.upto && (found.is_none() || found != self.coming) {
            tracing::warn!("the indexes beside the log are gone, and are made again");
            self.losses += 1;
            (self.upto, self.lost, self.behind) = (found, true, Some((0, size)));
        }
        Ok(())
    }

    /// What the writer just made durable.
    pub(super) fn tell(&mut self, seq: u64, draft: &Draft) {
        let Some(episode) = &draft.episode else { return };
        let all = draft.opening.iter().flat_map(|opening| opening.refs.iter().chain(&opening.more));
        self.named.extend(all.map(|hash| (episode.clone(), *hash, seq)));
        let marks = marks(draft.inv, &draft.body).map(|mark| (episode.clone(), mark, seq));
        self.marked.extend(marks);
    }
}

/// The marks of an event.
fn marks(inv: Option<B16>, body: &Body) -> impl Iterator<Item = B16> {
    let (files, one) = match body {
        Body::Intent(intent) => (intent.files.as_slice(), None),
        Body::Closure(_) => (&[][..], inv),
        Body::Commit(_) => (&[][..], Some(CALL)),
        Body::Session(session) => (&[][..], Some(session.id)),
        Body::Redaction(Redaction { refs: None, .. }) => (&[][..], Some(WHOLE)),
        _ => (&[][..], None),
    };
    files.iter().map(|(path, ..)| *path).chain(one)
}

/// Values on their way into the store, seen by those who make further ones.
struct Pairs<'a> {
    store: &'a dyn Store,
    pairs: BTreeMap<Vec<u8>, u64>,
}

impl Pairs<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        match self.pairs.get(key) {
            Some(seq) => Ok(Some(*seq)),
            None => stored(self.store, key),
        }
    }

    /// The event at `seq` names the object, unless the index has a newer one.
    fn name(&mut self, episode: &EpisodeName, object: &Hash, seq: u64) -> Result<(), StoreError> {
        self.raise(key(REFS, episode, object), seq)
    }

    fn raise(&mut self, key: Vec<u8>, seq: u64) -> Result<(), StoreError> {
        if self.get(&key)?.is_none_or(|known| known < seq) {
            self.pairs.insert(key, seq);
        }
        Ok(())
    }

    /// The event at `seq` has the mark. They come in their order; one that is linked already stays as it is.
    fn link(&mut self, episode: &EpisodeName, mark: &B16, seq: u64) -> Result<(), StoreError> {
        let newest = key(MARKS, episode, &mark.0);
        let known = self.get(&newest)?;
        if known.is_none_or(|known| known < seq) {
            self.pairs.insert(link_key(&newest, seq), known.unwrap_or(NONE));
            self.pairs.insert(newest, seq);
        }
        Ok(())
    }

    /// Looks at the events from `from` to before `to`.
    fn look_at(&mut self, from: u64, to: u64) -> Result<(), StoreError> {
        let count = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        for item in layout::events(self.store, from).take(count) {
            let (seq, bytes) = item?;
            let Ok(Event { ep: Some(link), inv, body, .. }) = Event::decode(&bytes) else {
                continue;
            };
            if let (Body::Commit(_) | Body::Closure(_), Some(inv)) = (&body, inv) {
                self.raise(end_key(&inv), seq)?;
            }
            for mark in marks(inv, &body) {
                self.link(&link.name, &mark, seq)?;
            }
            let opening = layout::opening(self.store, link.name.as_str(), seq)?;
            let opening = opening.and_then(|bytes| Opening::decode(&bytes).ok());
            for hash in opening.iter().flat_map(|o| o.refs.iter().chain(&o.more)) {
                self.name(&link.name, hash, seq)?;
            }
        }
        Ok(())
    }

    /// Links before what points at them, and how far they go last of all: what a crash leaves is a beginning.
    fn write(self, upto: u64) -> Result<bool, StoreError> {
        let store = self.store;
        let (links, ends): (Vec<_>, Vec<_>) =
            self.pairs.into_iter().partition(|(key, _)| is_link(key));
        let all = links.into_iter().chain(ends).chain([(UPTO.to_vec(), upto)]);
        let pairs: Vec<_> = all.map(|(key, seq)| (key, seq.to_be_bytes().to_vec())).collect();
        store.side_put(&pairs)?;
        // A store that cannot keep side values says nothing of it.
        Ok(stored(store, UPTO)? == Some(upto))
    }
}

impl Shared {
    /// Writes what is not in the indexes yet, and makes up for some of what was left out. What is in memory stays there until
    /// it is in the store, so that a reader finds it in one of the two.
    pub(super) fn index_beside(&self, size: u64) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.indexing);
        let (named, marked, behind, losses) = {
            let mut recent = lock(&self.beside);
            recent.check(self.store.as_ref(), size)?;
            let nothing = recent.named.is_empty() && recent.marked.is_empty();
            if nothing && recent.behind.is_none() && recent.upto.is_some() {
                return Ok(());
            }
            (recent.named.clone(), recent.marked.clone(), recent.behind, recent.losses)
        };
        let mut made = Pairs { store: self.store.as_ref(), pairs: BTreeMap::new() };
        let (mut left, mut upto) = (None, size);
        if let Some((from, end)) = behind {
            let to = end.min(from.saturating_add(BESIDE_CATCH_UP_MAX));
            made.look_at(from, to)?;
            left = (to < end).then_some((to, end));
            upto = if left.is_some() { to } else { size };
        }
        // Newer than all that was looked at: no need to ask what the index has.
        for (episode, hash, seq) in &named {
            made.pairs.insert(key(REFS, episode, hash), *seq);
        }
        // A link is to the intent before, so these wait until all before them are linked.
        let linked = if left.is_none() { marked.as_slice() } else { &[] };
        for (episode, mark, seq) in linked {
            made.link(episode, mark, *seq)?;
        }
        lock(&self.beside).coming = Some(upto);
        let written = made.write(upto)?;
        let mut recent = lock(&self.beside);
        recent.coming = None;
        // What went meanwhile was found to be gone by a reader: all of it is to be looked at again.
        if written && recent.losses == losses {
            recent.named.drain(..named.len());
            recent.marked.drain(..linked.len());
            recent.behind = left;
            recent.lost &= left.is_some();
        }
        if written {
            recent.upto = Some(upto);
        } else {
            // Memory is not to fill up with what the log has anyway.
            recent.named.retain(|(.., seq)| *seq >= size);
            recent.marked.retain(|(.., seq)| *seq >= size);
            (recent.lost, recent.behind) = (true, Some((0, size)));
        }
        Ok(())
    }
}

impl Ledger {
    /// The newest event of `episode` that names the object.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn naming(&self, episode: &EpisodeName, object: &Hash) -> Result<Naming, StoreError> {
        self.twice(|| self.look_for(episode, object))
    }

    fn look_for(&self, episode: &EpisodeName, object: &Hash) -> Result<Naming, StoreError> {
        self.catch_up()?;
        let recent = {
            let recent = lock(&self.shared.beside);
            let mut named = recent.named.iter().rev();
            named.find(|(ep, hash, _)| ep == episode && hash == object).map(|(.., seq)| *seq)
        };
        let found = match recent {
            Some(seq) => Some(seq),
            None => stored(self.shared.store.as_ref(), &key(REFS, episode, object))?,
        };
        if let Some(seq) = found {
            let opening = self.opening(episode, seq)?.unwrap_or_default();
            if opening.refs.iter().chain(&opening.more).any(|hash| hash == object) {
                return Ok(Naming::Event(seq));
            }
        }
        let behind = lock(&self.shared.beside).behind.is_some();
        Ok(if behind { Naming::Behind } else { Naming::Nothing })
    }

    /// The newest event of `episode` before leaf `before` that may have the mark; the caller looks at it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn named_before(
        &self,
        episode: &EpisodeName,
        mark: &B16,
        before: u64,
    ) -> Result<Naming, StoreError> {
        self.twice(|| self.look_back(episode, mark, before))
    }

    fn look_back(
        &self,
        episode: &EpisodeName,
        mark: &B16,
        before: u64,
    ) -> Result<Naming, StoreError> {
        self.catch_up()?;
        let recent = {
            let recent = lock(&self.shared.beside);
            let mut marked = recent.marked.iter().rev();
            let fits = |(ep, own, seq): &&(EpisodeName, B16, u64)| {
                *seq < before && own == mark && ep == episode
            };
            marked.find(fits).map(|(.., seq)| *seq)
        };
        if let Some(seq) = recent {
            return Ok(Naming::Event(seq));
        }
        // What was not looked at yet may be newer than all that is linked.
        if lock(&self.shared.beside).behind.is_some() {
            return Ok(Naming::Behind);
        }
        let store = self.shared.store.as_ref();
        let newest = key(MARKS, episode, &mark.0);
        // Whoever goes back one by one is at a link already.
        let mut next = match stored(store, &link_key(&newest, before))? {
            Some(next) => next,
            None => match stored(store, &newest)? {
                Some(next) => next,
                None => return Ok(Naming::Nothing),
            },
        };
        for _ in 0..FILES_SEARCH_MAX {
            if next == NONE {
                return Ok(Naming::Nothing);
            }
            if next < before {
                return Ok(Naming::Event(next));
            }
            match stored(store, &link_key(&newest, next))? {
                Some(earlier) if earlier < next || earlier == NONE => next = earlier,
                _ => break,
            }
        }
        Ok(Naming::Lost(next))
    }

    /// The newest commits of an episode, newest first; while the index is being made up it may have fewer.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn commits_of(
        &self,
        episode: &EpisodeName,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        while found.len() < limit
            && let Naming::Event(seq) = self.named_before(episode, &CALL, before)?
        {
            before = seq;
            let event = self.event(seq)?.and_then(|bytes| Event::decode(&bytes).ok());
            found.extend(event.filter(|event| matches!(event.body, Body::Commit(_))));
        }
        Ok(found)
    }

    /// The newest redaction of the whole episode.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn redaction(&self, episode: &EpisodeName) -> Result<Option<u64>, StoreError> {
        let Naming::Event(seq) = self.named_before(episode, &WHOLE, u64::MAX)? else {
            return Ok(None);
        };
        let event = self.event(seq)?.and_then(|bytes| Event::decode(&bytes).ok());
        Ok(event.filter(|event| matches!(event.body, Body::Redaction(_))).map(|event| event.seq))
    }

    /// Looks again when there was nothing and the indexes turn out to be gone.
    fn twice(&self, look: impl Fn() -> Result<Naming, StoreError>) -> Result<Naming, StoreError> {
        match look()? {
            Naming::Nothing | Naming::Lost(_) if self.lost()? => look(),
            found => Ok(found),
        }
    }

    /// Whether the indexes went while the log was open, and are not all made up for: then nobody can tell that a call has
    /// no end.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn lost(&self) -> Result<bool, StoreError> {
        let size = self.published().head.size;
        let mut recent = lock(&self.shared.beside);
        recent.check(self.shared.store.as_ref(), size)?;
        Ok(recent.lost)
    }

    pub(super) fn catch_up(&self) -> Result<(), StoreError> {
        let behind = lock(&self.shared.beside).behind.is_some();
        if behind { self.shared.index_beside(self.published().head.size) } else { Ok(()) }
    }
}

fn stored(store: &dyn Store, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let value = store.side_get(key)?;
    Ok(value.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes))
}

fn key(kind: &[u8], episode: &EpisodeName, named: &[u8]) -> Vec<u8> {
    let digest = sha256_parts(&[episode.as_str().as_bytes(), &[0], named]);
    let half = digest.first_chunk::<12>().copied().unwrap_or_default();
    [kind, &half].concat()
}

fn link_key(newest: &[u8], seq: u64) -> Vec<u8> {
    [newest, &seq.to_be_bytes()].concat()
}

fn is_link(key: &[u8]) -> bool {
    key.starts_with(MARKS) && key.len() > MARKS.len() + 12
}
