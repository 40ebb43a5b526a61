//! An effect with its permit, its deadline, and what is written when it has ended.
//!
//! ```text
//! running ─seal─► sealing: awaited, whatever the clock says
//!        └close─► closed:  the handler stops at its seal; a closure by the deadline says that nothing happened
//! ```
//!
//! One of the two steps wins, for ever: no effect outlives its closure. The episode stays locked until the handler's thread
//! has ended, also where its client was answered before.

use super::answer::{Answer, Reply, effect_value, problem};
use super::call::{CallError, Phase};
use super::invocation::{Account, Ended, Planned};
use super::look::Look;
use super::run::{Rest, Run, canon_of};
use super::{Service, Slot};
use crate::canon::{Value, object};
use crate::event::{ClosedBy, Evidence, Status, Verdict, prior};
use crate::handlers::{self, Done, Permit, Status as HandlerStatus};
use crate::ledger::{Committed, NewObject, Refused, Submission};
use crate::limits::{EFFECT_MS_MAX, WIND_UP_MS_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often outcome and commit are tried while the store says that nothing was committed.
const COMMIT_TRIES_MAX: u32 = 20;
/// Pause between two such tries.
const COMMIT_RETRY: Duration = Duration::from_millis(100);

const RUNNING: u8 = 0;
const SEALING: u8 = 1;
const CLOSED: u8 = 2;

/// The one step between a handler and its deadline.
#[derive(Debug, Default)]
struct Gate(AtomicU8);

impl Gate {
    fn step(&self, to: u8) -> bool {
        self.0.compare_exchange(RUNNING, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The handler may pass its point of no return.
    fn seal(&self) -> bool {
        self.step(SEALING)
    }

    /// Nobody closed it.
    fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst) != CLOSED
    }

    /// It never will.
    fn close(&self) -> bool {
        self.step(CLOSED)
    }
}

/// What is known once the intent is durable.
pub(super) struct Began {
    pub(super) committed: Committed,
    pub(super) before: u64,
    pub(super) request: NewObject,
    pub(super) at: u64,
}

/// Outcome and commit, ready to be submitted.
struct Written {
    submission: Submission,
    reply: Reply,
    record: String,
}

impl Run {
    /// Runs the effect and writes what came of it.
    pub(super) async fn perform(
        self,
        planned: Planned,
        look: Look,
        began: Began,
        deadline: Instant,
        slot: &Slot,
    ) -> (Result<Answer, CallError>, Option<Rest>) {
        self.reached(Phase::Recorded);
        let permit = Permit::new(&began.committed.receipt, began.committed.first + 1);
        let Some(permit) = permit else { return (Err(self.unconfirmed(Vec::new())), None) };
        let (context, inv) = (self.service().inner.context.clone(), self.of.inv.0);
        let evidence = look.evidence();
        let gate = Arc::new(Gate::default());
        let sealing = Arc::clone(&gate);
        let mut handler = tokio::task::spawn_blocking(move || match look {
            Look::Ready(tree, prepared) => {
                let gate = handlers::Gate { seal: &|| sealing.seal(), open: &|| sealing.is_open() };
                handlers::perform(permit, &tree, *prepared, &inv, &context, gate)
            }
            Look::Failed(reason) => {
                Done { status: HandlerStatus::Failed(reason), output: object([]), seen: Vec::new() }
            }
        });
        let ended = tokio::select! {
            biased;
            done = &mut handler => Ok(done),
            () = tokio::time::sleep_until(effect_deadline(deadline)) => Err(true),
            () = slot.stopped() => Err(false),
        };
        let ended = match ended {
            Err(late) if gate.close() => {
                let said = self.stopped(&began, late).await;
                let rest: Rest = Box::pin(async move { drop(handler.await) });
                return (said, Some(rest));
            }
            Err(_) => handler.await,
            Ok(ended) => ended,
        };
        let done = match ended {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "a handler ended in a panic");
                return (Err(self.unconfirmed(Vec::new())), None);
            }
        };
        self.reached(Phase::Ran);
        (self.conclude(planned, began, done, evidence).await, None)
    }

    fn unconfirmed(&self, records: Vec<String>) -> CallError {
        CallError::Unconfirmed { invocation: self.of.inv.to_string(), records }
    }

    /// The deadline, or the operator, came first: the closure that says so.
    async fn stopped(&self, began: &Began, late: bool) -> Result<Answer, CallError> {
        let (service, plan) = (self.service().clone(), began.committed.first);
        let closed =
            tokio::task::spawn_blocking(move || service.close_call(plan, ClosedBy::Deadline)).await;
        let closed = closed.unwrap_or_else(|error| Err(Refused::NotCommitted(error.to_string())));
        let (verdict, record) = match closed {
            Ok(Some(closed)) => closed,
            Ok(None) => return Err(self.unconfirmed(Vec::new())),
            Err(refused) => {
                // The episode's next call closes it.
                tracing::error!(%refused, "an effect that was stopped is not closed");
                return Err(self.unconfirmed(Vec::new()));
            }
        };
        let invocation = self.of.inv.to_string();
        match verdict {
            Verdict::NotHappened => Err(CallError::Stopped { invocation, record, late }),
            // What was to be written stood there already.
            Verdict::Landed => {
                let found = self.service().inner.ledger.find(&self.of.inv);
                let commit = found.ok().flatten().and_then(|found| found.commit);
                let answer = commit
                    .and_then(|(event, _)| self.service().answer_at(event.seq).ok().flatten());
                answer.ok_or_else(|| self.unconfirmed(vec![record]))
            }
            _ => Err(self.unconfirmed(vec![record])),
        }
    }

    /// Writes outcome and commit of an effect that ran; or, where its finish phase fails, outcome and closure.
    async fn conclude(
        self,
        planned: Planned,
        began: Began,
        done: Done,
        evidence: Value,
    ) -> Result<Answer, CallError> {
        let written = match self.write(&planned, &began, done, evidence).await {
            Ok(written) => written,
            Err((submission, record, reason)) => {
                tracing::error!(%reason, invocation = %self.of.inv, "an effect ran and its finish phase failed");
                // Not written, the intent stays open, and the episode's next call closes it.
                let _ = self.commit(&submission).await;
                return Err(self.unconfirmed(vec![record]));
            }
        };
        match self.commit(&written.submission).await {
            Some(committed) => Ok(self.of.answer(&committed, &written.reply)),
            None => Err(self.unconfirmed(vec![written.record])),
        }
    }

    /// Commits what must not be lost, with patience. None: nobody knows, or nothing was committed.
    async fn commit(&self, submission: &Submission) -> Option<Committed> {
        for attempt in 1..=COMMIT_TRIES_MAX {
            match self.service().inner.ledger.commit(submission.clone()).await {
                Ok(committed) => return Some(committed),
                Err(refused @ (Refused::Unknown(_) | Refused::Malformed(_))) => {
                    tracing::error!(%refused, "an effect is recorded in no outcome");
                    return None;
                }
                Err(refused) => tracing::warn!(%refused, attempt, "outcome and commit wait"),
            }
            tokio::time::sleep(COMMIT_RETRY).await;
        }
        None
    }

    async fn write(
        &self,
        planned: &Planned,
        began: &Began,
        done: Done,
        evidence: Value,
    ) -> Result<Written, (Submission, String, String)> {
        let (status, failure) = match done.status {
            HandlerStatus::Ok => (Status::Ok, None),
            HandlerStatus::Failed(reason) => (Status::Failed, Some(reason)),
        };
        let result = (status == Status::Ok).then(|| self.of.object(&done.output));
        let first = began.committed.first;
        let ended = Ended {
            status,
            denial: None,
            failure,
            evidence,
            request: Some(began.request.reference()),
            result,
            seen: done.seen,
            before: began.before,
            charge: planned.cost,
            started: began.at,
            recovered: false,
        };
        let Account { outcome, record, mut objects } =
            self.of.account(planned, first, Some(first + 1), ended);
        let name = record.reference();
        let output = if status == Status::Ok { done.output } else { Value::Null };
        let own = match self.finish(planned, status, &record, output).await {
            Ok(own) => own,
            Err(reason) => {
                let closing = self.of.closing(
                    (first + 1, planned.cost),
                    (Verdict::Unrecorded, Evidence::Record),
                    ClosedBy::Recovery,
                    Some(began.request.reference()),
                );
                objects.push(closing.record);
                let drafts = vec![outcome, closing.draft];
                return Err((Submission { drafts, objects, keys: Vec::new() }, name, reason));
            }
        };
        let said = canon_of(&record).and_then(|record| problem(Some(&record), &own));
        let effects = vec![effect_value(&planned.id, status, &record)];
        let reply = self.of.reply(own, effects, said);
        objects.push(reply.output.clone());
        let drafts = vec![outcome, self.of.commit_draft(first, Some(prior(0)), &reply)];
        Ok(Written {
            submission: Submission { drafts, objects, keys: Vec::new() },
            reply,
            record: name,
        })
    }
}

/// The effect's own deadline: room is left to write down what came of it before the client's is over.
fn effect_deadline(invocation: Instant) -> Instant {
    let room = Duration::from_millis(WIND_UP_MS_MAX);
    let own = Instant::now() + Duration::from_millis(EFFECT_MS_MAX);
    invocation.checked_sub(room).map_or(own, |latest| latest.min(own))
}

impl Service {
    /// Closes the open intent of the call that `plan` began. Returns verdict and record.
    fn close_call(&self, plan: u64, by: ClosedBy) -> Result<Option<(Verdict, String)>, Refused> {
        let call = self.inner.ledger.with_state(|state| state.calls.get(&plan).cloned());
        match call {
            Some(call) => self.settle(plan, call, by),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seal_and_close_exclude_each_other() {
        let sealed = Gate::default();
        assert!(sealed.seal() && !sealed.close() && !sealed.seal());
        let closed = Gate::default();
        assert!(closed.is_open() && closed.close() && !closed.seal() && !closed.close());
        assert!(sealed.is_open() && !closed.is_open());
    }
}
