//! The four steps of a call: plan, decide, effect, commit.
//!
//! ```text
//! plan (pure) ─► decide ─► [plan + intent durable] ─► effect ─► [outcome + commit durable] ─► answer
//! ```
//!
//! A call waits for its episode's lock in its client's own time; from then on it runs detached, so that a lost connection
//! never leaves an effect without its record. Dying before the intent is durable leaves nothing; dying after it leaves an
//! intent, which `recovery` settles by what the disk shows.

use super::answer::Answer;
use super::run::Run;
use super::{Caller, Service};
use crate::canon::Value;
use crate::event::{Fixed, Front, hex};
use crate::ledger::Refused;
use crate::limits::INVOCATION_MS_MAX;
use std::time::Duration;

/// A tool call, whichever front it came through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The adapter.
    pub front: Front,
    /// The tool's name.
    pub tool: String,
    /// The arguments.
    pub args: Value,
}

/// Why there is no committed answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No tool of that name that the caller may see.
    #[error("unknown tool {0:?}")]
    UnknownTool(String),
    /// Nothing ran.
    #[error("not committed, and nothing ran: {0}")]
    NotCommitted(Refused),
    /// The episode takes no calls: its payloads are gone, or an operator stopped it.
    #[error("not committed, and nothing ran: {0}")]
    Closed(&'static str),
    /// The transition broke a rule of plans.
    #[error("not committed, and nothing ran: {0}")]
    Transition(String),
    /// The deadline passed. The call goes on, and its receipt will tell.
    #[error("the deadline passed; the call may still commit: look for invocation {invocation}")]
    TimedOut {
        /// 32 hexadecimal digits.
        invocation: String,
    },
    /// The effect ran, and the call is not confirmed committed.
    #[error(
        "effects were requested but the invocation was not confirmed committed; effect records: {record}"
    )]
    Unconfirmed {
        /// 32 hexadecimal digits.
        invocation: String,
        /// Name of the record, or `none`.
        record: String,
    },
}

impl Service {
    /// Runs a tool and waits for the answer, at most [`INVOCATION_MS_MAX`].
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn invoke(&self, caller: &Caller, call: Call) -> Result<Answer, CallError> {
        let tools = self.tools(caller);
        let visible = tools.iter().any(|transition| transition.tool() == call.tool);
        let transition = self.inner.transitions.get(call.tool.as_str()).copied();
        let (true, Some(transition), Some(episode)) = (visible, transition, &caller.episode) else {
            return Err(CallError::UnknownTool(call.tool));
        };
        let deadline = Duration::from_millis(INVOCATION_MS_MAX);
        let inv = self.inner.entropy.bytes16().map_err(|e| CallError::NotCommitted(e.into()))?;
        let invocation = hex(&inv);
        let lock = self.lock_of(episode);
        let run = async {
            let guard = lock.lock_owned().await;
            let key = self.inner.ledger.episode_key(episode);
            let key = key.ok_or(CallError::Closed("the episode's payloads were redacted"))?;
            let (service, caller) = (self.clone(), caller.clone());
            let episode = episode.clone();
            let detached = tokio::spawn(async move {
                let inv = Fixed(inv);
                let answer = match service.recover_episode(&episode).await {
                    Ok(()) => {
                        Run::new(service, caller, call, transition, episode, inv, key).run().await
                    }
                    Err(refused) => Err(CallError::NotCommitted(refused)),
                };
                drop(guard);
                answer
            });
            // A panic in the task leaves an open intent at worst, which the episode's next call settles.
            detached.await.unwrap_or_else(|error| {
                tracing::error!(%error, "a call ended in a panic");
                let invocation = invocation.clone();
                Err(CallError::Unconfirmed { invocation, record: "none".to_owned() })
            })
        };
        let timed_out = || CallError::TimedOut { invocation: invocation.clone() };
        tokio::time::timeout(deadline, run).await.unwrap_or_else(|_| Err(timed_out()))
    }
}
