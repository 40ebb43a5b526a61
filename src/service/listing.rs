//! A session's own calls of one front, as its client may list them, and the tools that there are for anybody to see.
//!
//! Listed are the calls that came with a client's own id: what is under way, committed, or closed without a commit and still
//! holding its id. A call that did not happen has given its id back and is not a call any more. The state has the ids; the
//! front of each is in its plan, so that a page costs a read for each call of the session.

use super::{Caller, Past, Service};
use crate::event::{B16, B32, Front};
use crate::limits::LISTED_BYTES_MAX;
use crate::state::ClaimRow;
use crate::store::StoreError;
use crate::transitions::Transition;

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Under way.
    Open,
    /// Committed.
    Committed,
    /// Closed without a commit.
    Closed,
}

/// Which calls are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallsWanted {
    /// The adapter that they came through.
    pub front: Front,
    /// Only those that are so far.
    pub how: Option<How>,
    /// Only those whose last event is at or after these unix milliseconds.
    pub since: Option<u64>,
    /// Only those whose last event has a smaller seq: the `next` of the page before.
    pub before: Option<u64>,
    /// At most so many; fewer when their outputs are large.
    pub limit: usize,
}

/// Calls, the one that changed last first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallsPage {
    /// Invocation (32 hexadecimal digits) and what became of it.
    pub calls: Vec<(String, Past)>,
    /// How many fit, on all pages.
    pub total: u64,
    /// What to ask for as `before` of the next page; none after the last.
    pub next: Option<u64>,
}

/// Seq of the event that says how far a call is.
fn last_of(row: &ClaimRow) -> u64 {
    row.commit.or(row.closure).unwrap_or(row.plan)
}

fn how(row: &ClaimRow) -> How {
    match (row.commit, row.closure) {
        (Some(_), _) => How::Committed,
        (None, Some(_)) => How::Closed,
        (None, None) => How::Open,
    }
}

impl Service {
    /// All tools, in the bytewise order of their names. They are no secret: the log's `transition` events name them.
    pub fn published(&self) -> Vec<&'static dyn Transition> {
        self.inner.transitions.values().map(|(_, transition)| *transition).collect()
    }

    /// What became of an invocation of the session's own, if it came through `front`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn call_through(
        &self,
        caller: &Caller,
        front: Front,
        invocation: &B16,
    ) -> Result<Past, StoreError> {
        let ledger = &self.inner.ledger;
        let open = ledger.with_state(|state| {
            let mut calls = state.calls.iter();
            calls.find(|(_, call)| call.inv == *invocation).map(|(_, call)| call.front)
        });
        let past = self.call_of(caller, invocation)?;
        let other = match &past {
            Past::Committed { front: of, .. } => *of != front,
            Past::Open { .. } => open.is_some_and(|of| of != front),
            Past::Closed { .. } => {
                let plan = ledger.find(invocation)?.and_then(|found| found.plan);
                plan.is_some_and(|(_, plan)| plan.front != front)
            }
            Past::None => false,
        };
        if other {
            return Ok(Past::None);
        }
        // While the fate of a commit is unknown, the call that it ends is neither open nor over. It did begin.
        if past == Past::None && ledger.halted() {
            for row in self.own_claims(caller) {
                let Some((event, plan)) = self.read_plan(row.plan)? else { continue };
                if event.inv == Some(*invocation) && plan.front == front {
                    return Ok(Past::Open { invocation: invocation.to_string() });
                }
            }
        }
        Ok(past)
    }

    /// The session's claims as far as they are durable: the state runs ahead, and nobody is told what may yet be taken back.
    fn own_claims(&self, caller: &Caller) -> Vec<ClaimRow> {
        let ledger = &self.inner.ledger;
        let mut rows = ledger.with_state(|state| {
            let own = state.claims.from((caller.id, B32::from([0; 32])));
            let own = own.take_while(|((session, _), _)| *session == caller.id);
            own.map(|(_, row)| row.clone()).collect::<Vec<_>>()
        });
        let size = ledger.published().head.size;
        let durable = |seq: Option<u64>| seq.filter(|seq| *seq < size);
        rows.retain_mut(|row| {
            (row.commit, row.closure) = (durable(row.commit), durable(row.closure));
            row.plan < size
        });
        rows
    }

    /// The session's own calls with a client id.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn calls(&self, caller: &Caller, wanted: &CallsWanted) -> Result<CallsPage, StoreError> {
        let mut rows = self.own_claims(caller);
        rows.retain(|row| wanted.how.is_none_or(|wanted| how(row) == wanted));
        rows.sort_by_key(|row| std::cmp::Reverse(last_of(row)));
        let mut page = CallsPage { calls: Vec::new(), total: 0, next: None };
        let (mut last, mut bytes, mut full) = (None, 0, wanted.limit == 0);
        for row in rows {
            let end = last_of(&row);
            // Time never goes back in the log: all that follow are older.
            if let Some(since) = wanted.since
                && self.read(end)?.is_none_or(|event| event.at < since)
            {
                break;
            }
            let Some((event, plan)) = self.read_plan(row.plan)? else { continue };
            let (true, Some(inv)) = (plan.front == wanted.front, event.inv) else { continue };
            page.total += 1;
            if wanted.before.is_some_and(|before| end >= before) {
                continue;
            }
            if full {
                page.next = last;
                continue;
            }
            let past = self.call_through(caller, wanted.front, &inv)?;
            if let Past::Committed { answer, .. } = &past {
                bytes += answer.output.len();
            }
            page.calls.push((inv.to_string(), past));
            last = Some(end);
            full = page.calls.len() == wanted.limit || bytes >= LISTED_BYTES_MAX;
        }
        Ok(page)
    }
}
