//! The writer thread: group commit.

use super::staging::{self, Staging};
use super::{
    Committed, Draft, Message, NewObject, Published, Refused, Shared, Submission, lock, read, write,
};
use crate::clock::Now;
use crate::event::{Body, EpisodeLink, Event, Seal};
use crate::limits::{
    COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX, EPISODE_BYTES_MAX, OBJECT_INLINE_BYTES_MAX,
};
use crate::merkle::hash::{Hash, leaf_hash};
use crate::merkle::tree::Tree;
use crate::note::checkpoint::Checkpoint;
use crate::note::{Note, cosign};
use crate::state::{ChainRow, FOLD, State};
use crate::store::layout::{self, NewEvent};
use crate::store::{Batch, StoreError};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

/// A clock this far behind the last event is not believed.
const CLOCK_BEHIND_MAX_MS: u64 = 5_000;
/// A wall clock that moved this much against the monotonic one is not believed.
const CLOCK_JUMP_MAX_MS: u64 = 3_600_000;
/// Bytes of an event that the writer adds to its body, and of keys in the store.
const EVENT_OVERHEAD_BYTES: usize = 1_024;
/// Below this, outcomes no longer fit for certain, and the ballast is let go.
const SPACE_LOW_BYTES: u64 = 16 * 1024 * 1024;

/// Watches the wall clock against the monotonic one.
#[derive(Debug, Clone)]
pub(super) struct ClockWatch {
    accepted: Now,
    doubt: Option<String>,
}

impl ClockWatch {
    pub(super) fn new(now: Now) -> Self {
        Self { accepted: now, doubt: None }
    }

    /// Looks at the clock. A doubt stays until [`ClockWatch::accept`].
    fn look(&mut self, now: Now, last_at: u64) {
        let expected = self.accepted.wall_ms + (now.monotonic_ms - self.accepted.monotonic_ms);
        let jump = now.wall_ms.abs_diff(expected);
        if now.wall_ms + CLOCK_BEHIND_MAX_MS < last_at {
            let behind = last_at - now.wall_ms;
            self.doubt = Some(format!("is {behind} ms behind the last event"));
        } else if jump > CLOCK_JUMP_MAX_MS {
            self.doubt = Some(format!("jumped by {jump} ms"));
        } else if self.doubt.is_none() {
            // Small steps are how a time server corrects a clock; only their sum since the last look counts.
            self.accepted = now;
        }
    }

    pub(super) fn accept(&mut self, now: Now) {
        *self = Self::new(now);
    }

    pub(super) fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }
}

/// Space that is kept for what already began.
#[derive(Debug, Clone, Default)]
pub struct Reserve {
    /// Intents stop below this many free bytes.
    pub bytes: u64,
    /// A file of zeros, removed when outcomes would not fit otherwise.
    pub ballast: Option<PathBuf>,
}

/// One submission, checked and folded, on its way into the batch.
struct Staged {
    message_answer: tokio::sync::oneshot::Sender<Result<Committed, Refused>>,
    submission: Submission,
    events: Vec<(Vec<u8>, Hash, bool)>,
    first: u64,
    entry: Option<u64>,
}

/// Halts the ledger when the writer ends in a panic: what it was about to say is then unknown, like any commit cut off.
struct HaltOnPanic<'a>(&'a Shared);

impl Drop for HaltOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.halted.store(true, Ordering::SeqCst);
        }
    }
}

pub(super) fn run(shared: &Arc<Shared>, queue: &Receiver<Message>) {
    let _halt = HaltOnPanic(shared);
    let mut staging = Staging::default();
    let mut next = None;
    while let Some(first) = next.take().or_else(|| queue.recv().ok()) {
        let mut events = first.submission.drafts.len();
        let mut bytes = size_of(&first.submission);
        let mut group = vec![first];
        // No timer: what arrived while the last group was flushed is the next group, as far as one commit holds it.
        while let Ok(message) = queue.try_recv() {
            events += message.submission.drafts.len();
            bytes += size_of(&message.submission);
            if events > COMMIT_EVENTS_MAX || bytes > COMMIT_BYTES_MAX {
                next = Some(message);
                break;
            }
            group.push(message);
        }
        commit(shared, &mut staging, group);
        if shared.halted.load(Ordering::SeqCst) {
            return;
        }
    }
}

fn submissions(staged: &[Staged]) -> impl Iterator<Item = &Submission> {
    staged.iter().map(|one| &one.submission)
}

/// What a submission adds to a group. A large object is not in its batch, and counts so that few are staged at once.
fn size_of(submission: &Submission) -> usize {
    let size = |object: &NewObject| object.bytes.len().min(OBJECT_INLINE_BYTES_MAX);
    let objects = submission.objects.iter().map(size).sum::<usize>();
    objects + EVENT_OVERHEAD_BYTES * submission.drafts.len()
}

fn commit(shared: &Shared, staging: &mut Staging, group: Vec<Message>) {
    let last_at = read(&shared.state).position().at;
    let now = shared.clock.now();
    lock(&shared.clock_watch).look(now, last_at);
    let at = now.wall_ms.max(last_at);

    let start = write(&shared.state).mark();
    let staged = stage_group(shared, group, at);
    if staged.is_empty() {
        return;
    }
    let mut tree = read(&shared.tree).clone();
    let brought = staging.bring(shared.store.as_ref(), submissions(&staged));
    match brought.and_then(|()| build_and_commit(shared, staging, &staged, &mut tree, at)) {
        Ok((receipt, published)) => {
            staging.ended();
            write(&shared.state).settle();
            *write(&shared.tree) = tree;
            remember(shared, &staged);
            shared.published.send_replace(Arc::new(published));
            let receipt = Arc::new(receipt);
            for one in staged {
                let leaves = one.events.iter().map(|(_, leaf, _)| *leaf).collect();
                let receipt = Arc::clone(&receipt);
                let committed =
                    Committed { first: one.first, at, leaves, entry: one.entry, receipt };
                // A caller that went away finds its answer in the log.
                let _ = one.message_answer.send(Ok(committed));
            }
        }
        Err(error) => {
            let refused = match error {
                StoreError::NotCommitted { reason } => {
                    write(&shared.state).undo(&start);
                    Refused::NotCommitted(reason)
                }
                other => {
                    tracing::error!(error = %other, "the fate of a commit is unknown: halting");
                    shared.halted.store(true, Ordering::SeqCst);
                    Refused::Unknown(other.to_string())
                }
            };
            for one in staged {
                let _ = one.message_answer.send(Err(refused.clone()));
            }
        }
    }
}

fn stage_group(shared: &Shared, group: Vec<Message>, at: u64) -> Vec<Staged> {
    let space = space_for_intents(shared);
    let doubt = lock(&shared.clock_watch).doubt().map(str::to_owned);
    let mut state = write(&shared.state);
    let mut staged = Vec::with_capacity(group.len());
    for Message { submission, answer } in group {
        let mark = state.mark();
        let result = gate(shared, &submission, space.as_ref(), doubt.as_deref())
            .and_then(|()| stage(&mut state, &submission, at));
        match result {
            Ok((first, events, entry)) => {
                staged.push(Staged { message_answer: answer, submission, events, first, entry });
            }
            Err(refused) => {
                state.undo(&mark);
                let _ = answer.send(Err(refused));
            }
        }
    }
    staged
}

/// Looks at the disk; lets go of the ballast when what began would not fit any more.
fn space_for_intents(shared: &Shared) -> Result<(), Refused> {
    let Ok(free) = shared.store.free_bytes() else { return Ok(()) };
    if free < SPACE_LOW_BYTES
        && let Some(ballast) = &shared.reserve.ballast
        && std::fs::remove_file(ballast).is_ok()
    {
        tracing::warn!(free, "the disk is full: dropped the ballast");
    }
    let reserve = shared.reserve.bytes;
    if free < reserve { Err(Refused::NoSpace { free, reserve }) } else { Ok(()) }
}

/// What stops new intents, and nothing else.
fn gate(
    shared: &Shared,
    submission: &Submission,
    space: Result<&(), &Refused>,
    doubt: Option<&str>,
) -> Result<(), Refused> {
    let intent = submission.drafts.iter().find(|draft| matches!(draft.body, Body::Intent(_)));
    let Some(intent) = intent else { return Ok(()) };
    space.map_err(Clone::clone)?;
    if let Some(reason) = doubt {
        return Err(Refused::Clock { reason: reason.to_owned() });
    }
    let stored = intent.episode.as_ref().and_then(|name| read(&shared.stored).get(name).copied());
    let (stored, quota) = (stored.unwrap_or(0), EPISODE_BYTES_MAX);
    if stored >= quota { Err(Refused::Quota { stored, quota }) } else { Ok(()) }
}

type StagedEvents = (u64, Vec<(Vec<u8>, Hash, bool)>, Option<u64>);

/// Gives each draft its place, checks that it is lawful there, and folds it.
fn stage(state: &mut State, submission: &Submission, at: u64) -> Result<StagedEvents, Refused> {
    let first = state.position().seq;
    let mut events = Vec::with_capacity(submission.drafts.len());
    let mut entry = None;
    for draft in &submission.drafts {
        let event = place(state, draft, first, at)?;
        if let Body::Commit(commit) = &event.body {
            entry = Some(commit.entry);
        }
        state.check(&event).map_err(Refused::Changed)?;
        let bytes = event.encode().map_err(|error| Refused::Malformed(error.to_string()))?;
        let leaf = leaf_hash(&bytes);
        state.apply(&event, &leaf);
        events.push((bytes, leaf, matches!(event.body, Body::Commit(_))));
    }
    Ok((first, events, entry))
}

fn place(state: &mut State, draft: &Draft, first: u64, at: u64) -> Result<Event, Refused> {
    let position = state.position();
    let mut body = draft.body.clone();
    body.resolve(first);
    match &mut body {
        Body::Commit(commit) => commit.entry = state.entries(),
        Body::Seal(seal) => {
            let malformed = |error: crate::event::BodyError| Refused::Malformed(error.reason);
            *seal = Seal {
                fold: FOLD,
                size: position.seq,
                state: state.digest().map_err(malformed)?.into(),
                episodes: state.episodes_root().map_err(malformed)?.into(),
            };
        }
        _ => {}
    }
    let ep = draft.episode.clone().map(|name| {
        let (n, prev) = ChainRow::next(state.chains.get(&name));
        EpisodeLink { name, n, prev }
    });
    Ok(Event { seq: position.seq, at, prev: position.leaf, ep, inv: draft.inv, body })
}

/// Builds the batch: events, tiles, head, payloads. Dying before the commit leaves nothing; after it, everything.
fn build_and_commit(
    shared: &Shared,
    staging: &Staging,
    staged: &[Staged],
    tree: &mut Tree,
    at: u64,
) -> Result<(crate::store::Receipt, Published), StoreError> {
    let refused = |reason: String| StoreError::NotCommitted { reason };
    let mut batch = Batch::default();
    let mut full = Vec::new();
    let events: Vec<NewEvent<'_>> = staged
        .iter()
        .flat_map(|one| &one.events)
        .map(|(bytes, _, entry)| NewEvent { bytes, entry: *entry })
        .collect();
    let entries = read(&shared.state).entries();
    let new_entries = events.iter().filter(|event| event.entry).count() as u64;
    layout::put_events(&mut batch, tree.size(), entries - new_entries, &events)?;
    for (_, leaf, _) in staged.iter().flat_map(|one| &one.events) {
        tree.append(*leaf, &mut full).map_err(|error| refused(error.to_string()))?;
    }
    for tile in &full {
        layout::put_tile(&mut batch, tile.id.level(), tile.id.index(), &tile.to_bytes())?;
    }
    let note = sign_head(shared, tree).map_err(refused)?;
    layout::put_head(&mut batch, tree.size(), note.as_bytes())?;
    put_payloads(&mut batch, staged)?;
    staging.end(shared.store.as_ref(), &mut batch, submissions(staged))?;
    let receipt = shared.store.commit(&batch)?;
    Ok((receipt, Published { head: tree.head(), note, at }))
}

fn put_payloads(batch: &mut Batch, staged: &[Staged]) -> Result<(), StoreError> {
    // Objects are named by their content, so the same one may come with several submissions.
    let mut seen = BTreeSet::new();
    for one in staged {
        for (episode, key) in &one.submission.keys {
            layout::put_episode_key(batch, episode.as_str(), key.bytes())?;
        }
        for object in &one.submission.objects {
            if staging::large(object) {
                continue;
            }
            let episode = object.episode.as_ref().map_or("", |name| name.as_str());
            if seen.insert((episode, object.hash)) {
                layout::put_object(batch, episode, &object.bytes)?;
            }
        }
        for (seq, draft) in (one.first..).zip(&one.submission.drafts) {
            if let (Some(opening), Some(episode)) = (&draft.opening, &draft.episode) {
                layout::put_opening(batch, episode.as_str(), seq, &opening.encode())?;
            }
        }
    }
    Ok(())
}

fn sign_head(shared: &Shared, tree: &Tree) -> Result<String, String> {
    let checkpoint =
        Checkpoint::new(shared.keys.origin(), tree.head()).map_err(|e| e.to_string())?;
    let text = checkpoint.to_string();
    let line = cosign::sign_note(&shared.keys.head, &text).map_err(|e| e.to_string())?;
    Note::new(&text, vec![line]).map(|note| note.to_string()).map_err(|e| e.to_string())
}

/// Keeps in memory what readers look up by name.
fn remember(shared: &Shared, staged: &[Staged]) {
    for one in staged {
        if !one.submission.keys.is_empty() {
            write(&shared.episode_keys).extend(one.submission.keys.iter().cloned());
        }
        for object in &one.submission.objects {
            if let Some(episode) = &object.episode {
                let mut stored = write(&shared.stored);
                *stored.entry(episode.clone()).or_default() += object.bytes.len() as u64;
            }
        }
        for (seq, draft) in (one.first..).zip(&one.submission.drafts) {
            if let (Body::Commit(_) | Body::Closure(_), Some(inv)) = (&draft.body, draft.inv) {
                lock(&shared.recent).insert(inv, seq);
            }
            lock(&shared.beside).tell(seq, draft);
        }
    }
}
