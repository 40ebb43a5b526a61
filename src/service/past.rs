//! What became of an earlier call: the answer that its commit stands for, read back from the log.

use super::answer::{Answer, ReceiptView, problem, token_of};
use super::call::{Call, CallError};
use super::files::redacted;
use super::{Caller, Receipt, Service};
use crate::canon::{Value, parse};
use crate::event::blind::EpisodeKey;
use crate::event::{B16, Body, Commit, EpisodeName, Event, Front, Outcome, Plan, Verdict, hex};
use crate::merkle::hash::{Hash, leaf_hash, sha256};
use crate::state::ClaimRow;
use crate::store::StoreError;
use std::sync::Arc;

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    /// There is none of that name that the caller may see.
    None,
    /// It is under way.
    Open {
        /// 32 hexadecimal digits.
        invocation: String,
    },
    /// It is committed.
    Committed {
        /// The adapter that it came through.
        front: Front,
        /// The tool.
        tool: String,
        /// What it answered.
        answer: Answer,
    },
    /// Its effect was closed without a commit.
    Closed {
        /// 32 hexadecimal digits.
        invocation: String,
        /// What became of the effect.
        verdict: Verdict,
        /// Names of the records that tell of it.
        records: Vec<String>,
        /// Unix milliseconds of the closure.
        at: u64,
    },
}

/// Why there is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// The payloads of the session's episode are gone, and with them what its ids stood for.
    #[error("{}", redacted(*.0))]
    Redacted(Option<u64>),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// What became of the session's own call with this client id.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn claimed(&self, caller: &Caller, front: Front, id: &str) -> Result<Past, StoreError> {
        let ledger = &self.inner.ledger;
        let key = caller.episode.as_ref().and_then(|episode| ledger.episode_key(episode));
        let Some(key) = key else { return Ok(Past::None) };
        let claim = key.claim(front, id);
        let row = ledger.with_state(|state| state.claims.get(&(caller.id, claim)).cloned());
        match row {
            Some(row) => self.past_of(caller, &row),
            None => Ok(Past::None),
        }
    }

    /// The receipt of the session's own call with this client id, and its invocation as far as that is known.
    ///
    /// # Errors
    /// [`ReceiptError`].
    pub fn receipt_by_id(
        &self,
        caller: &Caller,
        front: Front,
        id: &str,
    ) -> Result<(Receipt, Option<String>), ReceiptError> {
        let ledger = &self.inner.ledger;
        let Some(episode) = &caller.episode else { return Ok((Receipt::NotStarted, None)) };
        let redacted = ledger.with_state(|state| {
            state.episodes_by_name.get(episode).is_some_and(|row| row.redacted)
        });
        // Without the key an id is no claim any more, and nobody can tell whether it was one.
        let key = ledger.episode_key(episode).filter(|_| !redacted);
        let Some(key) = key else { return Err(ReceiptError::Redacted(ledger.redaction(episode)?)) };
        let claim = (caller.id, key.claim(front, id));
        // Whoever is told that a call never started sends it again. A call is in flight until its claim is in the state, so
        // that looking there first misses none.
        let begun = self.flies(&claim) || ledger.halted();
        let unknown = if begun { Receipt::Open } else { Receipt::NotStarted };
        let Some(row) = ledger.with_state(|state| state.claims.get(&claim).cloned()) else {
            return Ok((unknown, None));
        };
        Ok(match self.past_of(caller, &row)? {
            // Its plan is not durable yet.
            Past::None => (Receipt::Open, None),
            Past::Open { invocation } => (Receipt::Open, Some(invocation)),
            Past::Committed { answer, .. } => {
                let invocation = answer.receipt.invocation.clone();
                (Receipt::Committed(answer.receipt), Some(invocation))
            }
            Past::Closed { invocation, .. } => match B16::from_hex(&invocation) {
                Some(inv) => (self.receipt(Some(caller), &inv)?, Some(invocation)),
                None => (Receipt::Open, None),
            },
        })
    }

    /// What became of an invocation of the session's own.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn call_of(&self, caller: &Caller, invocation: &B16) -> Result<Past, StoreError> {
        let open = self.inner.ledger.with_state(|state| {
            state
                .calls
                .iter()
                .any(|(_, call)| call.inv == *invocation && call.session == Some(caller.id))
        });
        if open {
            return Ok(Past::Open { invocation: invocation.to_string() });
        }
        let Some(found) = self.inner.ledger.find(invocation)? else { return Ok(Past::None) };
        let plan = match (&found.commit, &found.outcome) {
            (Some((_, commit)), _) => commit.plan,
            (None, Some((_, outcome))) => outcome.plan,
            (None, None) => match &found.closure {
                Some((_, closure)) => match self.read(closure.intent)? {
                    Some(Event { body: Body::Intent(intent), .. }) => intent.plan,
                    _ => return Ok(Past::None),
                },
                None => return Ok(Past::None),
            },
        };
        let commit = found.commit.as_ref().map(|(event, _)| event.seq);
        let closure =
            found.closure.as_ref().map(|(event, _)| event.seq).filter(|_| commit.is_none());
        self.past_of(caller, &ClaimRow { plan, commit, closure })
    }

    fn past_of(&self, caller: &Caller, row: &ClaimRow) -> Result<Past, StoreError> {
        let Some((event, plan)) = self.read_plan(row.plan)? else { return Ok(Past::None) };
        let (true, Some(inv)) = (plan.session == Some(caller.id), event.inv) else {
            return Ok(Past::None);
        };
        let invocation = inv.to_string();
        if let Some(commit) = row.commit {
            return Ok(match self.answer_at(commit)? {
                Some(answer) => Past::Committed { front: plan.front, tool: plan.tool, answer },
                None => Past::Open { invocation },
            });
        }
        let Some(seq) = row.closure else { return Ok(Past::Open { invocation }) };
        match self.read(seq)? {
            Some(Event { body: Body::Closure(closure), at, .. }) => {
                let records = self.records_of(&event, seq, closure.intent)?;
                Ok(Past::Closed { invocation, verdict: closure.verdict, records, at })
            }
            _ => Ok(Past::Open { invocation }),
        }
    }

    /// The event at `seq`; none while it is not durable.
    pub(super) fn read(&self, seq: u64) -> Result<Option<Event>, StoreError> {
        let bytes = self.inner.ledger.event(seq)?;
        Ok(bytes.and_then(|bytes| Event::decode(&bytes).ok()))
    }

    pub(super) fn read_plan(&self, seq: u64) -> Result<Option<(Event, Plan)>, StoreError> {
        Ok(match self.read(seq)? {
            Some(event) => match event.body.clone() {
                Body::Plan(plan) => Some((event, plan)),
                _ => None,
            },
            None => None,
        })
    }

    /// The plain hashes behind the references of the event at `seq`.
    pub(super) fn plain(&self, episode: &EpisodeName, seq: u64) -> Result<Vec<Hash>, StoreError> {
        let opening = self.inner.ledger.opening(episode, seq)?;
        Ok(opening.map(|opening| opening.refs).unwrap_or_default())
    }

    /// The object that is the `index`-th reference of the event at `seq`.
    pub(super) fn named(
        &self,
        episode: &EpisodeName,
        seq: u64,
        index: usize,
    ) -> Result<Option<(Hash, Vec<u8>)>, StoreError> {
        let Some(hash) = self.plain(episode, seq)?.get(index).copied() else { return Ok(None) };
        let bytes = self.inner.ledger.object(Some(episode), &hash)?;
        Ok(bytes.map(|bytes| (hash, bytes)))
    }

    /// Whether the call behind `row` had the same tool and arguments as `call`. A plan that is not durable yet is no
    /// other call's: whoever asks waits for it.
    pub(super) fn same_call(
        &self,
        row: &ClaimRow,
        call: &Call,
        key: &EpisodeKey,
    ) -> Result<bool, StoreError> {
        let Some((event, plan)) = self.read_plan(row.plan)? else { return Ok(true) };
        let Some(inv) = event.inv else { return Ok(false) };
        let input = key.invocation(&inv).bref(&sha256(&call.args.to_bytes()));
        Ok(plan.tool == call.tool && plan.input == input)
    }

    /// The answer to send again; none while the call is under way or not durable yet.
    pub(super) fn outcome_of(
        &self,
        row: &ClaimRow,
    ) -> Result<Option<Result<Answer, CallError>>, StoreError> {
        if let Some(commit) = row.commit {
            return Ok(self.answer_at(commit)?.map(Ok));
        }
        let (Some(seq), Some((event, _))) = (row.closure, self.read_plan(row.plan)?) else {
            return Ok(None);
        };
        let (Some(Event { body: Body::Closure(closure), .. }), Some(inv)) =
            (self.read(seq)?, event.inv)
        else {
            return Ok(None);
        };
        let records = self.records_of(&event, seq, closure.intent)?;
        Ok(Some(Err(CallError::Unconfirmed { invocation: inv.to_string(), records })))
    }

    /// Names of the records of an effect that was closed: its own, when there is one, and that of its closure.
    fn records_of(&self, of: &Event, closure: u64, intent: u64) -> Result<Vec<String>, StoreError> {
        let Some(ep) = &of.ep else { return Ok(Vec::new()) };
        let mut records = Vec::new();
        // An outcome without a commit stands right before its closure.
        let before = closure.checked_sub(1);
        if let Some(Event { seq, body: Body::Outcome(outcome), .. }) =
            before.map(|seq| self.read(seq)).transpose()?.flatten()
            && outcome.intent == Some(intent)
        {
            records.extend(self.plain(&ep.name, seq)?.first().copied());
        }
        records.extend(self.plain(&ep.name, closure)?.first().copied());
        Ok(records.iter().map(|hash| format!("sha256:{}", hex(hash))).collect())
    }

    /// The answer of the commit at `seq`; none while it is not durable, or when its payloads are gone.
    pub(super) fn answer_at(&self, seq: u64) -> Result<Option<Answer>, StoreError> {
        let Some(bytes) = self.inner.ledger.event(seq)? else { return Ok(None) };
        let Ok(Event { body: Body::Commit(commit), ep: Some(ep), inv: Some(inv), at, .. }) =
            Event::decode(&bytes)
        else {
            return Ok(None);
        };
        let Some((hash, output)) = self.named(&ep.name, seq, 0)? else { return Ok(None) };
        let outcome = self.outcome(&commit)?;
        let record = match commit.outcome {
            Some(seq) => self.named(&ep.name, seq, 0)?.and_then(|(_, bytes)| parse(&bytes).ok()),
            None => None,
        };
        let parsed = parse(&output).unwrap_or(Value::Null);
        Ok(Some(Answer {
            problem: problem(record.as_ref(), &parsed).filter(|_| commit.refused),
            output: Arc::new(output),
            receipt: ReceiptView {
                invocation: inv.to_string(),
                entry: commit.entry,
                leaf: seq,
                leaf_hash: leaf_hash(&bytes),
                output: format!("sha256:{}", hex(&hash)),
                denial: outcome.as_ref().and_then(|outcome| outcome.denial),
                recovered: outcome.is_some_and(|outcome| outcome.recovered),
            },
            at,
            token: record.as_ref().and_then(token_of),
        }))
    }

    fn outcome(&self, commit: &Commit) -> Result<Option<Outcome>, StoreError> {
        Ok(match commit.outcome.map(|seq| self.read(seq)).transpose()?.flatten() {
            Some(Event { body: Body::Outcome(outcome), .. }) => Some(outcome),
            _ => None,
        })
    }
}
