//! Who may call what, and when: admission, client ids, the episode's lock, the deadline.
//!
//! ```text
//! admit ─► (stored answer?) ─► in flight? ─► [lock of the episode] ─► recover ─► (stored answer?) ─► run, detached
//! ```
//!
//! A call waits for its episode's lock in its client's own time: a client that goes away here takes its call with it, for
//! nothing has begun. From then on it runs detached, so that a lost connection never leaves an effect without its record.
//! Dying before the intent is durable leaves nothing; dying after it leaves an intent, which `recovery` settles by what the
//! disk shows.

use super::answer::Answer;
use super::call::{Call, CallError, Progress};
use super::invocation::Invocation;
use super::run::{Rest, Run};
use super::{Caller, Service, Slot};
use crate::event::blind::EpisodeKey;
use crate::event::{B16, B32, EpisodeName, Fixed};
use crate::ledger::{NewObject, Refused};
use crate::limits::{CALLS_WAITING_MAX, INVOCATION_MS_MAX};
use crate::merkle::hash::sha256;
use crate::state::{CLAIMS_MAX, State};
use crate::transitions::Transition;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::Instant;

/// A call that may be made.
pub(super) struct Admitted {
    pub(super) transition: (u64, &'static dyn Transition),
    pub(super) episode: EpisodeName,
    pub(super) key: EpisodeKey,
    /// The client id, blinded.
    pub(super) claim: Option<B32>,
}

/// A client id that is in use by a call under way, until this is dropped.
struct Flight {
    service: Service,
    key: (B16, B32),
}

impl Drop for Flight {
    fn drop(&mut self) {
        let flights = &self.service.inner.flights;
        flights.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// A place in the queue of an episode, until this is dropped.
struct Waiting(Arc<Slot>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The episode, to oneself.
pub(super) struct Turn {
    pub(super) slot: Arc<Slot>,
    _guard: OwnedMutexGuard<()>,
}

impl Service {
    /// Runs a tool and waits for the answer, at most [`INVOCATION_MS_MAX`]. `progress` is told each phase as it is reached.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn invoke(
        &self,
        caller: &Caller,
        call: Call,
        progress: Option<Progress>,
    ) -> Result<Answer, CallError> {
        let admitted = self.admit(caller, &call)?;
        if let Some(settled) = self.settled_claim(caller, &call, &admitted)? {
            return settled;
        }
        let flight = self.fly(caller, &admitted)?;
        let deadline = Instant::now() + Duration::from_millis(INVOCATION_MS_MAX);
        let inv: B16 =
            Fixed(self.inner.entropy.bytes16().map_err(|e| CallError::NotCommitted(e.into()))?);
        let turn = self.turn(&admitted.episode, deadline).await?;
        let (answer, answered) = oneshot::channel();
        let (service, caller) = (self.clone(), caller.clone());
        tokio::spawn(async move {
            let watch = (deadline, progress);
            let (said, rest) = service.take_turn(&caller, call, admitted, inv, watch, &turn).await;
            // Whoever waited may be gone; the call is in the log all the same.
            drop(answer.send(said));
            // What a deadline closed may still have a thread that winds up: the episode is its own until that ends.
            if let Some(rest) = rest {
                rest.await;
            }
            drop((flight, turn));
        });
        let invocation = inv.to_string();
        tokio::select! {
            answer = answered => answer.unwrap_or_else(|_| {
                // The task ended in a panic: at worst with an open intent, which the episode's next call settles.
                tracing::error!(%invocation, "a call ended in a panic");
                Err(CallError::Unconfirmed { invocation, records: Vec::new() })
            }),
            () = tokio::time::sleep_until(deadline) => Err(CallError::TimedOut { invocation: inv.to_string() }),
        }
    }

    /// One call that has its episode to itself. Returns its answer, and what has to end before the next may begin.
    async fn take_turn(
        &self,
        caller: &Caller,
        call: Call,
        admitted: Admitted,
        inv: B16,
        (deadline, progress): (Instant, Option<Progress>),
        turn: &Turn,
    ) -> (Result<Answer, CallError>, Option<Rest>) {
        if let Err(refused) = self.recover_episode(&admitted.episode).await {
            return (Err(CallError::NotCommitted(refused)), None);
        }
        match self.settled_claim(caller, &call, &admitted) {
            Ok(None) => {}
            Ok(Some(settled)) => return (settled, None),
            Err(error) => return (Err(error), None),
        }
        let run = self.run_of(caller, call, admitted, inv);
        run.run(deadline, &turn.slot, progress).await
    }

    /// A run of this call, with nothing planned yet.
    pub(super) fn run_of(&self, caller: &Caller, call: Call, admitted: Admitted, inv: B16) -> Run {
        let Admitted { transition: (seq, transition), episode, key, claim } = admitted;
        let input = NewObject::new(Some(&episode), call.args.to_bytes());
        let invocation = Invocation {
            service: self.clone(),
            front: call.front,
            tool: call.tool.clone(),
            session: Some(caller.id),
            transition: Some(seq),
            // The plan takes its place once there is one.
            plan: input.clone(),
            episode,
            inv,
            key,
            claim,
            input,
        };
        Run::new(invocation, call, caller.id, transition)
    }

    /// Whether the caller may call this, and what the call belongs to.
    pub(super) fn admit(&self, caller: &Caller, call: &Call) -> Result<Admitted, CallError> {
        let tools = self.tools(caller);
        let visible = tools.iter().any(|transition| transition.tool() == call.tool);
        let transition = self.inner.transitions.get(call.tool.as_str()).copied();
        let (true, Some(transition), Some(episode)) = (visible, transition, &caller.episode) else {
            return Err(CallError::UnknownTool(call.tool.clone()));
        };
        let source = || sha256(transition.1.source().as_bytes());
        if call.pin.is_some_and(|pin| pin != source()) {
            return Err(CallError::OtherTransition);
        }
        let key = self.inner.ledger.episode_key(episode);
        let key = key.ok_or(CallError::Closed("the episode's payloads were redacted"))?;
        let claim = call.claim.as_ref().map(|id| key.claim(call.front, id));
        Ok(Admitted { transition, episode: episode.clone(), key, claim })
    }

    fn fly(&self, caller: &Caller, admitted: &Admitted) -> Result<Option<Flight>, CallError> {
        let Some(claim) = admitted.claim else { return Ok(None) };
        let key = (caller.id, claim);
        let mut flights = self.inner.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if !flights.insert(key) {
            return Err(CallError::ClaimInFlight);
        }
        Ok(Some(Flight { service: self.clone(), key }))
    }

    /// Whether a call with this session and claim is under way.
    pub(super) fn flies(&self, claim: &(B16, B32)) -> bool {
        self.inner.flights.lock().unwrap_or_else(PoisonError::into_inner).contains(claim)
    }

    /// The episode's lock, within the deadline, unless too many wait for it.
    async fn turn(&self, episode: &EpisodeName, deadline: Instant) -> Result<Turn, CallError> {
        let slot = self.slot(episode);
        let waiting = Waiting(Arc::clone(&slot));
        if slot.waiting.fetch_add(1, Ordering::SeqCst) >= CALLS_WAITING_MAX {
            return Err(CallError::Crowded);
        }
        let lock = Arc::clone(&slot.lock).lock_owned();
        let guard = tokio::time::timeout_at(deadline, lock).await.map_err(|_| CallError::Waited)?;
        drop(waiting);
        Ok(Turn { slot, _guard: guard })
    }

    /// The episode's lock, for a thread outside the runtime.
    pub(super) fn turn_blocking(&self, episode: &EpisodeName) -> Turn {
        let slot = self.slot(episode);
        let guard = Arc::clone(&slot.lock).blocking_lock_owned();
        Turn { slot, _guard: guard }
    }

    /// What a call with this client id came to, once it is over.
    fn settled_claim(
        &self,
        caller: &Caller,
        call: &Call,
        admitted: &Admitted,
    ) -> Result<Option<Result<Answer, CallError>>, CallError> {
        let Some(claim) = admitted.claim else { return Ok(None) };
        let claims = |state: &State| state.claims.get(&(caller.id, claim)).cloned();
        let Some(row) = self.inner.ledger.with_state(claims) else {
            let held = |state: &State| state.sessions.get(&caller.id).map_or(0, |row| row.claims);
            let full = self.inner.ledger.with_state(held) >= CLAIMS_MAX;
            return if full { Err(CallError::ClaimsFull) } else { Ok(None) };
        };
        let unread = |error: crate::store::StoreError| {
            CallError::NotCommitted(Refused::NotCommitted(error.to_string()))
        };
        if !self.same_call(&row, call, &admitted.key).map_err(unread)? {
            return Ok(Some(Err(CallError::ClaimTaken)));
        }
        self.outcome_of(&row).map_err(unread)
    }
}
