//! What is done about once a second, off the writer's path: seal, cosign, guard, index, snapshot.

use super::inspect::write_snapshot;
use super::{Draft, GuardError, Ledger, Refused, Shared, Submission, lock, read, write};
use crate::event::{B16, B32, Body, Event, Seal};
use crate::note::checkpoint::Checkpoint;
use crate::note::{Note, cosign};
use crate::state::Snapshot;
use crate::store::{StoreError, layout};
use std::collections::BTreeMap;

/// Events between two snapshots: folding that many again takes less than a second.
const SNAPSHOT_EVERY: u64 = 100_000;

impl Ledger {
    /// Signs the newest durable head with the second key, moves the guard up to it, and writes what is kept aside. Called
    /// about once a second and after opening. Dying anywhere here costs nothing: the next start does it again.
    ///
    /// # Errors
    /// [`GuardError`] when the guard cannot be written: the process should end, since heads must not run away from it.
    pub fn tend(&self) -> Result<(), GuardError> {
        let shared = &self.shared;
        let published = self.published();
        if published.head.size == 0 {
            return Ok(());
        }
        if let Some(guard) = &shared.guard {
            guard.write(&published.note)?;
        }
        if let Err(error) = shared.cosign(&published.note) {
            tracing::error!(error, "the newest head could not be cosigned");
        }
        if let Err(error) = shared.index_recent() {
            tracing::warn!(%error, "the index of invocations could not be written");
        }
        if let Err(error) = shared.index_beside(published.head.size) {
            tracing::warn!(%error, "the indexes of objects and paths could not be written");
        }
        Ok(())
    }

    /// Fixes the state in a seal, if anything happened since the last one. `None` when nothing did.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn seal(&self) -> Result<Option<u64>, Refused> {
        let size = self.published().head.size;
        let last = size.checked_sub(1).and_then(|seq| self.event(seq).ok().flatten());
        let sealed = last.and_then(|bytes| Event::decode(&bytes).ok());
        if sealed.is_some_and(|event| matches!(event.body, Body::Seal(_))) {
            return Ok(None);
        }
        let none: B32 = [0; 32].into();
        let seal = Seal { fold: 0, size: 0, state: none, episodes: none };
        let drafts = vec![Draft::plain(None, seal)];
        let committed = self.commit_blocking(Submission { drafts, ..Submission::default() })?;
        Ok(Some(committed.first))
    }

    /// Writes a snapshot aside when enough happened since the last one, or when `now` asks.
    pub fn snapshot(&self, last: u64, now: bool) -> Option<u64> {
        let mut state = {
            let state = read(&self.shared.state);
            let position = state.position();
            let durable = position.seq == self.published().head.size;
            if !durable || position.seq < last.saturating_add(if now { 1 } else { SNAPSHOT_EVERY })
            {
                return None;
            }
            state.clone()
        };
        let seq = state.position().seq;
        let written =
            Snapshot::take(&mut state).map_err(|error| error.to_string()).and_then(|bytes| {
                write_snapshot(self.shared.store.as_ref(), &bytes)
                    .map_err(|error| error.to_string())
            });
        match written {
            Ok(()) => Some(seq),
            Err(error) => {
                tracing::warn!(error, "no snapshot was written");
                None
            }
        }
    }

    /// Accepts what the clock shows: the operator looked at it.
    pub fn accept_clock(&self) {
        lock(&self.shared.clock_watch).accept(self.shared.clock.now());
    }

    /// Why the clock is not believed, if it is not.
    pub fn clock_doubt(&self) -> Option<String> {
        lock(&self.shared.clock_watch).doubt().map(str::to_owned)
    }
}

impl Shared {
    /// Adds the ML-DSA-44 line to the head in `note` and serves the result as the newest checkpoint.
    fn cosign(&self, note: &str) -> Result<(), String> {
        let parsed = Note::parse(note.as_bytes()).map_err(|error| error.to_string())?;
        let served = read(&self.checkpoint).starts_with(parsed.text());
        if served {
            return Ok(());
        }
        let checkpoint = Checkpoint::parse(parsed.text()).map_err(|error| error.to_string())?;
        let seconds = self.clock.now().wall_ms / 1000;
        let line = cosign::cosign(&self.keys.cosign, &checkpoint, seconds.max(1))
            .map_err(|error| error.to_string())?;
        let mut lines = parsed.signatures().to_vec();
        lines.push(line);
        let note = Note::new(parsed.text(), lines).map_err(|error| error.to_string())?;
        *write(&self.checkpoint) = note.to_string();
        Ok(())
    }

    /// Moves the newest ends of calls into the side index. They stay in memory until they are in the store, so that a reader
    /// finds them in one of the two: whoever is told that a call never started sends it again.
    fn index_recent(&self) -> Result<(), StoreError> {
        // A call may get a second end, which an older round must not write over.
        let _one_at_a_time = lock(&self.indexing);
        let recent = lock(&self.recent).clone();
        self.index_ends(&recent)?;
        lock(&self.recent).retain(|inv, seq| recent.get(inv) != Some(seq));
        Ok(())
    }

    /// Writes ends of calls into the side index. Its reader checks what it finds.
    pub(super) fn index_ends(&self, ends: &BTreeMap<B16, u64>) -> Result<(), StoreError> {
        let pairs: Vec<_> =
            ends.iter().map(|(inv, seq)| (end_key(inv), seq.to_be_bytes().to_vec())).collect();
        self.store.side_put(&pairs)
    }

    /// Seq of the last commit or closure of an invocation.
    pub(super) fn end_of(&self, inv: &B16) -> Result<Option<u64>, StoreError> {
        if let Some(seq) = lock(&self.recent).get(inv) {
            return Ok(Some(*seq));
        }
        let value = self.store.side_get(&end_key(inv))?;
        let seq = value.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let Some(seq) = seq else { return Ok(None) };
        let bytes = layout::event(self.store.as_ref(), seq)?;
        let event = bytes.and_then(|bytes| Event::decode(&bytes).ok());
        Ok(event.filter(|event| event.inv == Some(*inv)).map(|event| event.seq))
    }
}

pub(super) fn end_key(inv: &B16) -> Vec<u8> {
    [b"end/".as_slice(), &inv.0].concat()
}
