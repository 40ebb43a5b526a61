//! The broker: whether a planned effect may run, and the account of it.
//!
//! [`decide`] is a flat list of checks over the state, in the order that `spec/broker.md` gives; the first that fails
//! names the denial. It reads no clock: the time is an argument, and the writer checks the same things again with the time
//! that it writes. [`Record`] is the object that tells an agent or an auditor what was decided, what it cost, and what
//! came of it.

mod record;

pub use record::{ClosureRecord, Record};

use crate::event::{ApprovalVerdict, B16, B32, Denial, EpisodeName};
use crate::state::State;

/// An effect that a plan asks for.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The session that calls.
    pub session: &'a B16,
    /// Its episode.
    pub episode: &'a EpisodeName,
    /// Name of the effect.
    pub effect: &'a str,
    /// Where it acts.
    pub scope: &'a str,
    /// Units that it costs.
    pub cost: u64,
    /// The preview token that came with the call, blinded.
    pub token: Option<&'a B32>,
}

/// What the broker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may run under the grant of this index.
    Allow {
        /// Index in the session's grants.
        grant: u64,
        /// Units left before it.
        before: u64,
    },
    /// It may not.
    Deny {
        /// Why.
        denial: Denial,
        /// Units left under the grant that came closest; 0 when none came close.
        before: u64,
    },
}

/// Decides about `ask` at unix millisecond `at`. With several grants the first that allows wins, else the denial that got
/// furthest.
pub fn decide(state: &State, at: u64, ask: &Ask<'_>) -> Decision {
    let mut best = (Denial::EffectName, 0);
    let Some(session) = state.sessions.get(ask.session) else {
        return Decision::Deny { denial: best.0, before: 0 };
    };
    let spent = state.spent(ask.episode, ask.effect, ask.scope);
    for (index, grant) in (0..).zip(&session.grants) {
        let left = grant.budget.saturating_sub(spent.charged + spent.reserved);
        let denial = if grant.effect != ask.effect {
            Denial::EffectName
        } else if grant.scope != ask.scope {
            Denial::Scope
        } else if at >= grant.expires {
            Denial::Expired
        } else if ask.cost > left {
            Denial::Budget
        } else if grant.confirm && !approved(state, at, ask) {
            Denial::Approval
        } else {
            return Decision::Allow { grant: index, before: left };
        };
        if denial > best.0 {
            best = (denial, left);
        }
    }
    Decision::Deny { denial: best.0, before: best.1 }
}

fn approved(state: &State, at: u64, ask: &Ask<'_>) -> bool {
    let row = ask.token.and_then(|token| state.approvals.get(&(*ask.session, *token)));
    row.is_some_and(|row| row.verdict == ApprovalVerdict::Approve && at < row.until && !row.used)
}
