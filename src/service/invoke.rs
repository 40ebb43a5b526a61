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
    /// No effect ran. With [`Refused::Unknown`] a refusal by the plan may turn out to be committed.
    #[error("not committed, and no effect ran: {0}")]
    NotCommitted(Refused),
    /// The episode takes no calls: its payloads are gone, or an operator stopped it.
    #[error("not committed, and nothing ran: {0}")]
    Closed(&'static str),
    /// Another call of the episode ran until the deadline.
    #[error("not committed, and nothing ran: another call of the episode ran until the deadline")]
    Waited,
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
        let deadline = tokio::time::sleep(Duration::from_millis(INVOCATION_MS_MAX));
        tokio::pin!(deadline);
        let inv = self.inner.entropy.bytes16().map_err(|e| CallError::NotCommitted(e.into()))?;
        let invocation = hex(&inv);
        let lock = self.lock_of(episode);
        // A client that goes away here takes its call with it: nothing has begun.
        let guard = tokio::select! {
            guard = lock.lock_owned() => guard,
            () = &mut deadline => return Err(CallError::Waited),
        };
        let run = async {
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
        tokio::select! {
            answer = run => answer,
            () = &mut deadline => Err(CallError::TimedOut { invocation: invocation.clone() }),
        }
    }
}
