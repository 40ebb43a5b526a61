//! What may be read: heads, events, entries, receipts, objects.
//!
//! Heads, events and entries are public, because nothing in them tells what an agent did it to. Objects are for those who
//! may see them: an agent those of its own episode, an auditor all; to anybody else every name is equally unknown.

use super::answer::ReceiptView;
use super::files::redacted;
use super::{Caller, Service};
use crate::canon::{Value, object};
use crate::event::{B16, B32, Body, EpisodeName, Event, Role, hex};
use crate::ledger::Found;
use crate::merkle::hash::{Hash, leaf_hash};
use crate::merkle::reader::ReadError;
use crate::merkle::tile::TilePath;
use crate::store::StoreError;

/// How the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Name of the log.
    pub origin: String,
    /// Durable events.
    pub size: u64,
    /// Committed calls.
    pub entries: u64,
    /// Intents that recovery could not settle.
    pub unresolved: u64,
    /// Why the clock is not believed.
    pub clock: Option<String>,
    /// Whether the fate of a commit is unknown.
    pub halted: bool,
    /// The program's version.
    pub version: &'static str,
}

/// One entry of `/v1/log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Entry index.
    pub entry: u64,
    /// Seq of the commit.
    pub leaf: u64,
    /// Unix milliseconds.
    pub at: u64,
    /// The episode.
    pub episode: String,
    /// The invocation.
    pub invocation: String,
    /// The tool.
    pub tool: String,
    /// The front.
    pub front: String,
    /// `ok`, `failed`, `denied`, or `refused` for a plan without an effect.
    pub status: String,
    /// Blinded references: input, plan, record, output.
    pub brefs: [Option<B32>; 4],
    /// `sha256:` references in the same order, for those who may see them.
    pub refs: [Option<String>; 4],
}

impl LogEntry {
    /// The JSON object.
    pub fn to_value(&self) -> Value {
        const NAMES: [&str; 4] = ["input", "plan", "record", "output"];
        let members = |values: Vec<Value>| {
            let named = NAMES.iter().map(|name| (*name).to_owned());
            Value::Object(named.zip(values).filter(|(_, value)| *value != Value::Null).collect())
        };
        let brefs = self.brefs.iter().map(|bref| bref.map(|b| b.to_string()).into()).collect();
        let refs: Vec<Value> = self.refs.iter().map(|text| text.clone().into()).collect();
        let mut value = object([
            ("at", self.at.into()),
            ("brefs", members(brefs)),
            ("entry", self.entry.into()),
            ("episode", self.episode.as_str().into()),
            ("front", self.front.as_str().into()),
            ("invocation", self.invocation.as_str().into()),
            ("leaf", self.leaf.into()),
            ("status", self.status.as_str().into()),
            ("tool", self.tool.as_str().into()),
        ]);
        if let (Value::Object(all), true) = (&mut value, self.refs.iter().any(Option::is_some)) {
            all.insert("refs".to_owned(), members(refs));
        }
        value
    }
}

/// One event with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventView {
    /// Its index.
    pub seq: u64,
    /// Its leaf hash.
    pub leaf_hash: Hash,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What is known of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receipt {
    /// Nothing: it may never have reached the log.
    NotStarted,
    /// It has a plan and no end: its effect may be running.
    Open,
    /// It has an intent that was closed without a commit.
    Closed {
        /// Seq of the closure.
        leaf: u64,
        /// What became of the effect.
        verdict: &'static str,
    },
    /// It is committed.
    Committed(ReceiptView),
}

/// Why no object is returned.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// There is none of that name that the caller may see.
    #[error("object not found")]
    NotFound,
    /// The payloads of the caller's episode are gone, whatever their names.
    #[error("{}", redacted(*.0))]
    Redacted(Option<u64>),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// How the server is.
    pub fn health(&self) -> Health {
        let ledger = &self.inner.ledger;
        let (entries, unresolved) =
            ledger.with_state(|state| (state.entries(), state.doubts.len() as u64));
        Health {
            origin: ledger.origin().to_owned(),
            size: ledger.published().head.size,
            entries,
            unresolved,
            clock: ledger.clock_doubt(),
            halted: ledger.halted(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// One event.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn event(&self, seq: u64) -> Result<Option<EventView>, StoreError> {
        let bytes = self.inner.ledger.event(seq)?;
        Ok(bytes.map(|bytes| EventView { seq, leaf_hash: leaf_hash(&bytes), bytes }))
    }

    /// Events from `from` on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn events(&self, from: u64, limit: usize) -> Result<Vec<EventView>, StoreError> {
        let view =
            |(seq, bytes): (u64, Vec<u8>)| EventView { seq, leaf_hash: leaf_hash(&bytes), bytes };
        Ok(self.inner.ledger.events(from, limit)?.into_iter().map(view).collect())
    }

    /// Entries from `from` on; with a caller, plain references where it may see them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn log(
        &self,
        caller: Option<&Caller>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let commits = self.inner.ledger.entries(from, limit)?;
        commits.into_iter().filter_map(|event| self.entry(caller, &event).transpose()).collect()
    }

    /// Durable entries.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn entries(&self) -> Result<u64, StoreError> {
        self.inner.ledger.entry_count()
    }

    pub(super) fn entry(
        &self,
        caller: Option<&Caller>,
        event: &Event,
    ) -> Result<Option<LogEntry>, StoreError> {
        let (Body::Commit(commit), Some(ep), Some(inv)) = (&event.body, &event.ep, event.inv)
        else {
            return Ok(None);
        };
        let read = |seq: u64| -> Result<Option<Event>, StoreError> {
            let bytes = self.inner.ledger.event(seq)?;
            Ok(bytes.and_then(|bytes| Event::decode(&bytes).ok()))
        };
        let Some(Event { body: Body::Plan(plan), .. }) = read(commit.plan)? else {
            return Ok(None);
        };
        let outcome = match commit.outcome.map(read).transpose()?.flatten() {
            Some(Event { body: Body::Outcome(outcome), .. }) => Some(outcome),
            _ => None,
        };
        let seen = caller.is_some_and(|caller| may_see(caller, Some(&ep.name)));
        let in_plain = |seq: Option<u64>, index: usize| -> Result<Option<String>, StoreError> {
            let (true, Some(seq)) = (seen, seq) else { return Ok(None) };
            let opening = self.inner.ledger.opening(&ep.name, seq)?;
            let hash = opening.and_then(|opening| opening.refs.get(index).copied());
            Ok(hash.map(|hash| format!("sha256:{}", hex(&hash))))
        };
        // An opening lists the body's references in the order of its fields: plan before input.
        let refs = [
            in_plain(Some(commit.plan), 1)?,
            in_plain(Some(commit.plan), 0)?,
            in_plain(commit.outcome, 0)?,
            in_plain(Some(event.seq), 0)?,
        ];
        let record = outcome.as_ref().map(|outcome| outcome.record);
        Ok(Some(LogEntry {
            entry: commit.entry,
            leaf: event.seq,
            at: event.at,
            episode: ep.name.to_string(),
            invocation: inv.to_string(),
            tool: plan.tool,
            front: plan.front.to_string(),
            status: outcome.map_or("refused", |outcome| outcome.status.as_str()).to_owned(),
            brefs: [Some(plan.input), Some(plan.plan), record, Some(commit.output)],
            refs,
        }))
    }

    /// What is known of an invocation. The name of the output is empty for a caller who may not see the episode: it would
    /// confirm a guess of what the output is.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn receipt(&self, caller: Option<&Caller>, inv: &B16) -> Result<Receipt, StoreError> {
        let ledger = &self.inner.ledger;
        if let Some(found) = ledger.find(inv)? {
            return self.receipt_of(caller, found);
        }
        let (open, entries) = ledger.with_state(|state| {
            (state.calls.iter().any(|(_, call)| call.inv == *inv), state.entries())
        });
        // The state runs ahead of what is durable, and after a commit of unknown fate it stays there: whoever is told that a
        // call never started sends it again.
        let last = entries.checked_sub(1);
        let ahead = match last {
            Some(last) => ledger.entries(last, 1)?.is_empty(),
            None => false,
        };
        if open || ahead || ledger.halted() {
            return Ok(Receipt::Open);
        }
        // It may have become durable since the first look.
        match ledger.find(inv)? {
            Some(found) => self.receipt_of(caller, found),
            None if ledger.lost()? => Ok(Receipt::Open),
            None => Ok(Receipt::NotStarted),
        }
    }

    fn receipt_of(&self, caller: Option<&Caller>, found: Found) -> Result<Receipt, StoreError> {
        let Some((event, commit)) = found.commit else {
            let closed = found.closure.map(|(event, closure)| Receipt::Closed {
                leaf: event.seq,
                verdict: closure.verdict.as_str(),
            });
            return Ok(closed.unwrap_or(Receipt::NotStarted));
        };
        let (Some(ep), Some(inv)) = (&event.ep, event.inv) else { return Ok(Receipt::NotStarted) };
        let bytes = self.inner.ledger.event(event.seq)?.unwrap_or_default();
        let opening = self.inner.ledger.opening(&ep.name, event.seq)?;
        let seen = caller.is_some_and(|caller| may_see(caller, Some(&ep.name)));
        let output = opening.filter(|_| seen).and_then(|opening| opening.refs.first().copied());
        let outcome = found.outcome.map(|(_, outcome)| outcome);
        Ok(Receipt::Committed(ReceiptView {
            invocation: inv.to_string(),
            entry: commit.entry,
            leaf: event.seq,
            leaf_hash: leaf_hash(&bytes),
            output: output.map_or(String::new(), |hash| format!("sha256:{}", hex(&hash))),
            denial: outcome.as_ref().and_then(|outcome| outcome.denial),
            recovered: outcome.is_some_and(|outcome| outcome.recovered),
        }))
    }

    /// An object that the caller may see.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn object(&self, caller: &Caller, hash: &Hash) -> Result<Vec<u8>, ObjectError> {
        let ledger = &self.inner.ledger;
        let episodes: Vec<EpisodeName> = match &caller.episode {
            Some(name) => vec![name.clone()],
            None if caller.role == Role::Auditor => ledger.with_state(|state| {
                state.episodes_by_name.iter().map(|(n, _)| n.clone()).collect()
            }),
            None => Vec::new(),
        };
        let gone = |name: &EpisodeName| {
            ledger.with_state(|state| state.episodes_by_name.get(name).is_some_and(|r| r.redacted))
        };
        for episode in episodes.iter().filter(|name| !gone(name)) {
            if let Some(bytes) = ledger.object(Some(episode), hash)? {
                return Ok(bytes);
            }
        }
        // Sources and schemas of transitions belong to no episode and hide nothing.
        if let Some(bytes) = ledger.object(None, hash)? {
            return Ok(bytes);
        }
        match caller.episode.as_ref().filter(|name| gone(name)) {
            Some(name) => Err(ObjectError::Redacted(ledger.redaction(name)?)),
            None => Err(ObjectError::NotFound),
        }
    }

    /// The bytes of a tile or entry bundle; `None` beyond the newest head.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tile(&self, path: TilePath) -> Result<Option<Vec<u8>>, StoreError> {
        match path {
            TilePath::Hashes(id) => self.inner.ledger.tile(id),
            TilePath::Entries(id) => self.inner.ledger.bundle(id),
        }
    }

    /// The `.tlog-proof` of a leaf.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn proof(&self, leaf: u64) -> Result<Option<String>, ReadError<StoreError>> {
        self.inner.ledger.proof(leaf)
    }
}

pub(super) fn may_see(caller: &Caller, episode: Option<&EpisodeName>) -> bool {
    caller.role == Role::Auditor || caller.episode.as_ref() == episode
}
