//! One call that has its episode to itself: plan, decide, and what a decision leads to.
//!
//! ```text
//! plan ─► refusal ─────────────────────────► plan + commit
//!      └► look at the disk ─► decide ─► deny ─► plan + outcome + commit
//!                                   └► allow ─► plan + intent ─► effect.rs
//! ```

use super::answer::{Answer, effect_value, problem};
use super::call::{Call, CallError, Phase, Progress};
use super::invocation::{Account, Ended, Invocation, Leave, Planned};
use super::look::{Look, Seen};
use super::{Service, Slot};
use crate::broker::{Ask, Decision, decide};
use crate::canon::{Value, object};
use crate::event::{B16, Denial, Status, prior};
use crate::ledger::{NewObject, Refused, Submission};
use crate::limits::{FINISH_MS_MAX, PLAN_MS_MAX};
use crate::transitions::{ParsedPlan, Transition, check_finish, check_laws};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How often a decision is made again because the log moved on. Only an operator's act or the clock can cause one.
const DECISIONS_MAX: u32 = 8;

/// What has to end before the episode's next call may begin.
pub(super) type Rest = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a plan comes to before anything is decided.
pub(super) enum Prospect {
    /// No effect: the tool's output.
    Refusal(Value),
    /// An effect, and what it finds.
    Effect(Box<Planned>, Look),
}

/// A call on its way.
pub(super) struct Run {
    pub(super) of: Invocation,
    pub(super) call: Call,
    pub(super) session: B16,
    pub(super) transition: &'static dyn Transition,
    pub(super) progress: Option<Progress>,
}

impl Run {
    pub(super) fn new(
        of: Invocation,
        call: Call,
        session: B16,
        transition: &'static dyn Transition,
    ) -> Self {
        Self { of, call, session, transition, progress: None }
    }

    pub(super) fn service(&self) -> &Service {
        &self.of.service
    }

    pub(super) fn reached(&self, phase: Phase) {
        if let Some(progress) = &self.progress {
            progress(phase);
        }
    }

    pub(super) async fn run(
        mut self,
        deadline: Instant,
        slot: &Slot,
        progress: Option<Progress>,
    ) -> (Result<Answer, CallError>, Option<Rest>) {
        self.progress = progress;
        let prospect = match self.plan().await {
            Ok(prospect) => prospect,
            Err(error) => return (Err(error), None),
        };
        self.reached(Phase::Planned);
        match prospect {
            Prospect::Refusal(result) => (self.refuse(result).await, None),
            Prospect::Effect(planned, look) => self.execute(*planned, look, deadline, slot).await,
        }
    }

    /// The plan, which becomes the invocation's, and what its effect finds. One thread does both, because each handing over
    /// costs as much as the plan itself.
    pub(super) async fn plan(&mut self) -> Result<Prospect, CallError> {
        let (transition, args) = (self.transition, self.call.args.clone());
        let episode = self.of.episode.clone();
        let root = self.service().inner.workspace.join(episode.as_str());
        let planned = tokio::task::spawn_blocking(move || {
            let plan = transition.plan(&args);
            let prospect = match check_laws(&plan, transition.declared()) {
                Ok(ParsedPlan::Result(result)) => Ok(Prospect::Refusal(result)),
                Ok(ParsedPlan::Effect { id, demand, payload, finish }) => {
                    let planned = Box::new(Planned {
                        id,
                        effect: demand.effect.to_owned(),
                        scope: demand.scope.to_owned(),
                        cost: demand.cost,
                        payload,
                        finish,
                    });
                    Look::at(&root, &planned).map(|look| Prospect::Effect(planned, look))
                }
                Err(error) => Err(error.to_string()),
            };
            (NewObject::new(Some(&episode), plan.to_bytes()), prospect)
        });
        let planned = timeout(Duration::from_millis(PLAN_MS_MAX), planned).await;
        let (plan, prospect) = planned
            .map_err(|_| CallError::PlanTimedOut)?
            .map_err(|error| CallError::Transition(error.to_string()))?;
        self.of.plan = plan;
        prospect.map_err(CallError::Transition)
    }

    /// A plan without an effect: its result is the answer, and nothing is spent.
    async fn refuse(self, result: Value) -> Result<Answer, CallError> {
        let said = problem(None, &result);
        let reply = self.of.reply(result, Vec::new(), said);
        let submission = Submission {
            drafts: vec![self.of.plan_draft(None), self.of.commit_draft(prior(0), None, &reply)],
            objects: vec![self.of.input.clone(), self.of.plan.clone(), reply.output.clone()],
            keys: Vec::new(),
        };
        let committed = self.service().inner.ledger.commit(submission).await;
        let committed = committed.map_err(CallError::NotCommitted)?;
        Ok(self.of.answer(&committed, &reply))
    }

    async fn execute(
        self,
        planned: Planned,
        mut look: Look,
        deadline: Instant,
        slot: &Slot,
    ) -> (Result<Answer, CallError>, Option<Rest>) {
        if let Some(used) = self.used_token() {
            return (used, None);
        }
        let frozen = self.service().inner.ledger.with_state(|state| state.frozen(&self.of.episode));
        if frozen {
            let why = "the operator has stopped new effects here; ask, and send it again";
            return (Err(CallError::Closed(why)), None);
        }
        if let Some(seen) = self.seen(&planned, &look) {
            look = look.moved_on(&seen);
        }
        let token = self.token(&look);
        let brought = self.call.token.as_deref().map(|text| text == token);
        let blinded = brought.filter(|matches| *matches).map(|_| self.of.key.token(&token));
        for _ in 0..DECISIONS_MAX {
            let at = self.service().now();
            let ask = Ask {
                session: &self.session,
                episode: &self.of.episode,
                effect: &planned.effect,
                scope: &planned.scope,
                cost: planned.cost,
                token: blinded.as_ref(),
            };
            let decision = self.service().inner.ledger.with_state(|state| decide(state, at, &ask));
            let (grant, before) = match with_token(decision, brought) {
                Decision::Deny { denial, before } => {
                    return (self.deny(&planned, denial, before, &token).await, None);
                }
                Decision::Allow { grant, before } => (grant, before),
            };
            let leave = Leave { grant: Some(grant), before };
            let request = self.of.request(&planned, look.evidence());
            let files = (look.files(), look.before());
            let submission = self.of.intent(&planned, leave, blinded, &request, files);
            match self.service().inner.ledger.commit(submission).await {
                Ok(committed) => {
                    let began = super::effect::Began { committed, before, request, at };
                    return self.perform(planned, look, began, deadline, slot).await;
                }
                // Decide again: what was true when it was decided is not when it would be written.
                Err(Refused::Changed(reason)) => tracing::debug!(%reason, "decided again"),
                Err(refused) => return (Err(CallError::NotCommitted(refused)), None),
            }
        }
        (Err(CallError::NotCommitted(Refused::Busy)), None)
    }

    /// What a token that this session has used up answers: what its call came to, if that was this call.
    fn used_token(&self) -> Option<Result<Answer, CallError>> {
        let token = self.of.key.token(self.call.token.as_deref()?);
        let service = self.service();
        let used = |state: &crate::state::State| state.tokens.get(&(self.session, token)).cloned();
        let row = service.inner.ledger.with_state(used)?;
        let stored = service
            .same_call(&row, &self.call, &self.of.key)
            .and_then(|same| if same { service.outcome_of(&row) } else { Ok(None) });
        match stored {
            Ok(answer) => answer,
            Err(error) => {
                Some(Err(CallError::NotCommitted(Refused::NotCommitted(error.to_string()))))
            }
        }
    }

    async fn deny(
        self,
        planned: &Planned,
        denial: Denial,
        before: u64,
        token: &str,
    ) -> Result<Answer, CallError> {
        // Whoever approves, and whoever sends the call again, finds the token in the record.
        let waits = denial == Denial::Approval;
        let evidence = if waits { object([("token", token.into())]) } else { Value::Null };
        let now = self.service().now();
        let ended = Ended {
            status: Status::Denied,
            denial: Some(denial),
            failure: None,
            evidence,
            request: None,
            result: None,
            seen: Vec::new(),
            before,
            charge: 0,
            started: now,
            recovered: false,
        };
        let Account { outcome, record, mut objects } =
            self.of.account(planned, prior(0), None, ended);
        let own = match self.finish(planned, Status::Denied, &record, Value::Null).await {
            Ok(own) => own,
            Err(reason) => return Err(CallError::Transition(reason)),
        };
        let said = canon_of(&record).and_then(|record| problem(Some(&record), &own));
        let effects = vec![effect_value(&planned.id, Status::Denied, &record)];
        let reply = self.of.reply(own, effects, said);
        objects.extend([self.of.input.clone(), self.of.plan.clone(), reply.output.clone()]);
        let commit = self.of.commit_draft(prior(0), Some(prior(1)), &reply);
        let drafts = vec![self.of.plan_draft(None), outcome, commit];
        let submission = Submission { drafts, objects, keys: Vec::new() };
        let committed = self.service().inner.ledger.commit(submission).await;
        let committed = committed.map_err(CallError::NotCommitted)?;
        let mut answer = self.of.answer(&committed, &reply);
        answer.receipt.denial = Some(denial);
        answer.token = waits.then(|| token.to_owned());
        Ok(answer)
    }

    /// What the tool makes of its effect's output in a second pure run, if it wants one. Without one a denied or failed
    /// effect leaves an empty object.
    ///
    /// # Errors
    /// Why there is no finish output.
    pub(super) async fn finish(
        &self,
        planned: &Planned,
        status: Status,
        record: &NewObject,
        output: Value,
    ) -> Result<Value, String> {
        if !planned.finish {
            return Ok(if status == Status::Ok { output } else { object([]) });
        }
        let result = object([
            ("effect", planned.effect.as_str().into()),
            ("id", planned.id.as_str().into()),
            ("output", output),
            ("record", record.reference().into()),
            ("status", status.as_str().into()),
        ]);
        let (transition, args) = (self.transition, self.call.args.clone());
        let finished = tokio::task::spawn_blocking(move || transition.reshape(&args, &[result]));
        let finished = timeout(Duration::from_millis(FINISH_MS_MAX), finished).await;
        let own = finished
            .map_err(|_| format!("the finish phase exceeded its {FINISH_MS_MAX} ms"))?
            .map_err(|error| error.to_string())?;
        check_finish(&own).map_err(|error| error.to_string())?;
        Ok(own)
    }

    /// The state as the stale guard has it, when the file moved on under the session.
    fn seen(&self, planned: &Planned, look: &Look) -> Option<Seen> {
        self.service().stale(&self.of, self.session, planned, look, &self.call.expect)
    }
}

/// A wrong token comes after what the grants say, and before approval.
pub(super) fn with_token(decision: Decision, brought: Option<bool>) -> Decision {
    match (decision, brought) {
        (
            Decision::Allow { before, .. } | Decision::Deny { denial: Denial::Approval, before },
            Some(false),
        ) => Decision::Deny { denial: Denial::Token, before },
        (decision, _) => decision,
    }
}

/// An object that was made here, as the value that it is.
pub(super) fn canon_of(made: &NewObject) -> Option<Value> {
    crate::canon::parse(made.bytes()).ok()
}
