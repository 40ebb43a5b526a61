//! The store in memory, for tests: it tells *live* bytes from *durable* ones and fails at the n-th sync as told.
//!
//! A commit is one sync. Syncs are counted from 1 and a plan says what happens at which of them, so a test first runs
//! once to count them, and then once per sync and kind of failure. [`MemoryStore::crash`] is the power cut: what it
//! returns holds the durable bytes only. Nothing here touches a disk, and no key has a meaning.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Batch, Pair, Receipt, Store, StoreError, check_sizes};

type Map = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// How a sync goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is applied and the caller is told so; the store goes on.
    NotCommitted,
    /// The caller is told `Unknown`. The batch was visible for a moment, and a crash loses it.
    Lost,
    /// The caller is told `Unknown`. The batch is durable all the same.
    Persisted,
}

/// What becomes of side values in a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// All of them happened to reach the disk.
    Keep,
    /// None of them did.
    Drop,
}

#[derive(Debug, Default)]
struct State {
    /// What reads see.
    live: Map,
    /// What a crash leaves.
    durable: Map,
    side: Map,
    syncs: u64,
    reads: u64,
    faults: BTreeMap<u64, Fault>,
    poisoned: Option<String>,
    free_bytes: u64,
}

/// An ordered map that can lose what was not synced.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store on an endless disk that never fails.
    pub fn new() -> Self {
        Self::with(State { free_bytes: u64::MAX, ..State::default() })
    }

    fn with(state: State) -> Self {
        Self { state: Mutex::new(state) }
    }

    /// Makes the `sync`-th sync from now on (the next one is 1) go wrong.
    pub fn fail_at(&self, sync: u64, fault: Fault) {
        let mut state = self.state();
        let at = state.syncs.saturating_add(sync);
        state.faults.insert(at, fault);
    }

    /// Syncs so far, failed ones included.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// What reads cost so far: one for each, and one for each pair that a range gave.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// The machine loses power and starts again: a new store with the durable bytes, no faults planned, no syncs
    /// counted. The old one is left as it was, so that one moment can be crashed in several ways.
    #[must_use]
    pub fn crash(&self, side: Side) -> Self {
        let state = self.state();
        let kept = match side {
            Side::Keep => state.side.clone(),
            Side::Drop => Map::new(),
        };
        Self::with(State {
            live: state.durable.clone(),
            durable: state.durable.clone(),
            side: kept,
            free_bytes: state.free_bytes,
            ..State::default()
        })
    }

    /// Sets what [`Store::free_bytes`] answers.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.state().free_bytes = bytes;
    }

    /// Everything that a crash would leave.
    pub fn durable(&self) -> Vec<Pair> {
        self.state().durable.iter().map(|(key, value)| (key.clone(), value.to_vec())).collect()
    }

    /// Changes stored bytes behind the program's back, live and durable, without a sync and without any check; `None`
    /// removes the key. Returns what was there.
    pub fn tamper(&self, key: &[u8], value: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut state = self.state();
        let old = if let Some(bytes) = value {
            let shared: Arc<[u8]> = Arc::from(bytes);
            state.live.insert(key.to_vec(), Arc::clone(&shared));
            state.durable.insert(key.to_vec(), shared)
        } else {
            state.live.remove(key);
            state.durable.remove(key)
        };
        old.map(|bytes| bytes.to_vec())
    }

    /// A panic of another test thread leaves no half-made change behind: each change below is one that cannot panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apply(map: &mut Map, puts: &[(Vec<u8>, Arc<[u8]>)], deletes: &[Vec<u8>]) {
    for key in deletes {
        map.remove(key);
    }
    for (key, value) in puts {
        map.insert(key.clone(), Arc::clone(value));
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: &Batch) -> Result<Receipt, StoreError> {
        let mut state = self.state();
        if let Some(reason) = &state.poisoned {
            return Err(StoreError::Unknown { reason: reason.clone() });
        }
        batch.check()?;
        state.syncs += 1;
        let n = state.syncs;
        let fault = state.faults.remove(&n);
        if fault == Some(Fault::NotCommitted) {
            return Err(StoreError::NotCommitted { reason: format!("sync {n} was told to fail") });
        }
        let puts: Vec<_> = batch
            .puts
            .iter()
            .map(|(key, value)| (key.clone(), Arc::<[u8]>::from(value.as_slice())))
            .collect();
        apply(&mut state.live, &puts, &batch.deletes);
        if fault != Some(Fault::Lost) {
            apply(&mut state.durable, &puts, &batch.deletes);
        }
        if fault.is_some() {
            let reason = format!("sync {n} was told to fail");
            state.poisoned = Some(reason.clone());
            return Err(StoreError::Unknown { reason });
        }
        Ok(Receipt { events: batch.events.clone() })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut state = self.state();
        state.reads += 1;
        Ok(state.live.get(key).map(|value| value.to_vec()))
    }

    fn range(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let mut state = self.state();
        let found = state.live.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        let found = found.take(limit).map(|(key, value)| (key.clone(), value.to_vec()));
        let found: Vec<_> = found.collect();
        state.reads += 1 + found.len() as u64;
        Ok(found)
    }

    fn last(&self, from: &[u8], to: &[u8]) -> Result<Option<Pair>, StoreError> {
        if from >= to {
            return Ok(None);
        }
        let mut state = self.state();
        state.reads += 1;
        let mut found = state.live.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        Ok(found.next_back().map(|(key, value)| (key.clone(), value.to_vec())))
    }

    fn side_put(&self, pairs: &[Pair]) -> Result<(), StoreError> {
        pairs.iter().try_for_each(|(key, value)| check_sizes(key, value))?;
        let mut state = self.state();
        for (key, value) in pairs {
            state.side.insert(key.clone(), Arc::from(value.as_slice()));
        }
        Ok(())
    }

    fn side_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut state = self.state();
        state.reads += 1;
        Ok(state.side.get(key).map(|value| value.to_vec()))
    }

    fn free_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.state().free_bytes)
    }
}
