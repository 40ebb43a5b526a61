//! One call from its plan to its commit, detached from whoever asked for it.
//!
//! A plan without an effect is committed with its refusal; a denied effect with the denial; an effect that may run gets its
//! intent, its permit, its record and its commit, in this order and no other.

use super::answer::{Answer, ReceiptView, advice, compose, effect_value, problem_of};
use super::{Call, CallError, Caller, Service};
use crate::broker::{Ask, Decision, Record, decide};
use crate::canon::{Value, object};
use crate::event::blind::{EpisodeKey, InvocationKey, OpenFile, Opening};
use crate::event::{B16, Commit, Denial, EpisodeName, Intent, Outcome, Plan, Status, prior};
use crate::handlers::Status as HandlerStatus;
use crate::handlers::{self, Done, Effect, Permit, Prepared};
use crate::ledger::{Committed, Draft, NewObject, Refused, Submission};
use crate::limits::EVENT_FILES_MAX;
use crate::merkle::hash::Hash;
use crate::sandbox::Worktree;
use crate::transitions::{Demand, ParsedPlan, Transition, check_laws};
use std::sync::Arc;
use std::time::Duration;

/// How often a decision is made again because the log moved on. Only an operator's act or the clock can cause one.
const DECISIONS_MAX: u32 = 8;
/// How often outcome and commit are tried while the store says that nothing was committed.
const COMMIT_TRIES_MAX: u32 = 20;
/// Pause between two such tries.
const COMMIT_RETRY: Duration = Duration::from_millis(100);

/// What belongs to one invocation from its start.
pub(super) struct Run {
    service: Service,
    caller: Caller,
    call: Call,
    transition: (u64, &'static dyn Transition),
    episode: EpisodeName,
    inv: B16,
    key: EpisodeKey,
    input: NewObject,
    /// What the transition returned, and the object that it is.
    planned: Value,
    plan: NewObject,
}

impl Run {
    pub(super) fn new(
        service: Service,
        caller: Caller,
        call: Call,
        transition: (u64, &'static dyn Transition),
        episode: EpisodeName,
        inv: B16,
        key: EpisodeKey,
    ) -> Self {
        let input = NewObject::new(Some(&episode), call.args.to_bytes());
        let planned = transition.1.plan(&call.args);
        let plan = NewObject::new(Some(&episode), planned.to_bytes());
        Self { service, caller, call, transition, episode, inv, key, input, planned, plan }
    }

    fn blind(&self) -> InvocationKey {
        self.key.invocation(&self.inv)
    }

    fn object(&self, value: &Value) -> NewObject {
        NewObject::new(Some(&self.episode), value.to_bytes())
    }

    pub(super) async fn run(self) -> Result<Answer, CallError> {
        match check_laws(&self.planned, self.transition.1.declared()) {
            Ok(ParsedPlan::Result(result)) => self.refuse(result).await,
            Ok(ParsedPlan::Effect { id, demand, payload, .. }) => {
                self.execute(PlannedEffect { id, demand, payload }).await
            }
            Err(error) => Err(CallError::Transition(error.to_string())),
        }
    }

    fn plan_draft(&self) -> Draft {
        let (input, plan) = (self.input.hash(), self.plan.hash());
        let blind = self.blind();
        let body = Plan {
            plan: blind.bref(&plan),
            same: self.key.same(&plan),
            tool: self.call.tool.clone(),
            claim: None,
            front: self.call.front,
            input: blind.bref(&input),
            token: None,
            session: Some(self.caller.id),
            transition: Some(self.transition.0),
        };
        self.draft(body, Opening { refs: vec![plan, input], ..Opening::default() })
    }

    fn draft(&self, body: impl Into<crate::event::Body>, opening: Opening) -> Draft {
        Draft {
            episode: Some(self.episode.clone()),
            inv: Some(self.inv),
            body: body.into(),
            opening: Some(opening),
        }
    }

    fn commit_draft(&self, plan: u64, outcome: Option<u64>, output: &Hash, refused: bool) -> Draft {
        let body = Commit { plan, entry: 0, output: self.blind().bref(output), outcome, refused };
        self.draft(body, Opening { refs: vec![*output], ..Opening::default() })
    }

    /// Adds the `world` block to a tool's own output.
    fn compose(&self, own: Value, effects: Vec<Value>) -> Value {
        let plan = self.plan.reference();
        compose(own, effects, &plan)
    }

    fn answer(
        &self,
        committed: &Committed,
        output: &NewObject,
        denial: Option<Denial>,
        problem: Option<String>,
    ) -> Answer {
        let leaf = committed.first + committed.leaves.len() as u64 - 1;
        let receipt = ReceiptView {
            invocation: self.inv.to_string(),
            entry: committed.entry.unwrap_or(0),
            leaf,
            leaf_hash: committed.leaves.last().copied().unwrap_or_default(),
            output: output.reference(),
            denial,
            recovered: false,
        };
        Answer { output: Arc::clone(output.bytes()), problem, receipt }
    }

    /// A plan without an effect: its result is the answer, and nothing is spent.
    async fn refuse(self, result: Value) -> Result<Answer, CallError> {
        let said = result.get("refused").and_then(Value::as_str).map(str::to_owned);
        let problem = said.map(|text| {
            format!(
                "{text}. Nothing ran and nothing was spent: change the argument and call again."
            )
        });
        let output = self.object(&self.compose(result, Vec::new()));
        let hash = output.hash();
        let submission = Submission {
            drafts: vec![
                self.plan_draft(),
                self.commit_draft(prior(0), None, &hash, problem.is_some()),
            ],
            objects: vec![self.input.clone(), self.plan.clone(), output.clone()],
            keys: Vec::new(),
        };
        let committed = self.service.inner.ledger.commit(submission).await;
        let committed = committed.map_err(CallError::NotCommitted)?;
        Ok(self.answer(&committed, &output, None, problem))
    }

    async fn execute(self, planned: PlannedEffect) -> Result<Answer, CallError> {
        let frozen = self.service.inner.ledger.with_state(|state| state.frozen(&self.episode));
        if frozen {
            return Err(CallError::Closed(
                "the operator has stopped new effects here; ask, and send it again",
            ));
        }
        let look = self.look(&planned).await.map_err(CallError::Transition)?;
        for _ in 0..DECISIONS_MAX {
            let at = self.service.now();
            let ask = Ask {
                session: &self.caller.id,
                episode: &self.episode,
                effect: planned.demand.effect,
                scope: planned.demand.scope,
                cost: planned.demand.cost,
                token: None,
            };
            let decision = self.service.inner.ledger.with_state(|state| decide(state, at, &ask));
            match decision {
                Decision::Deny { denial, before } => {
                    return self.deny(&planned, denial, before).await;
                }
                Decision::Allow { grant, before } => {
                    let request = self.request(&planned, look.evidence());
                    let submission = self.intent(&planned, grant, before, &request, &look);
                    match self.service.inner.ledger.commit(submission).await {
                        Ok(committed) => {
                            let began = Began { committed, before, request, at };
                            return self.perform(planned, look, began).await;
                        }
                        // Decide again: what was true when it was decided is not when it would be written.
                        Err(Refused::Changed(reason)) => {
                            tracing::debug!(%reason, "decided again");
                        }
                        Err(refused) => return Err(CallError::NotCommitted(refused)),
                    }
                }
            }
        }
        Err(CallError::NotCommitted(Refused::Busy))
    }

    /// What the handler sees before anything is decided. It changes nothing.
    async fn look(&self, planned: &PlannedEffect) -> Result<Look, String> {
        let root = self.service.inner.workspace.join(self.episode.as_str());
        let effect = match Effect::parse(planned.demand.effect, &planned.payload) {
            Ok(effect) => effect,
            Err(error) => return Ok(Look::Failed(error.to_string())),
        };
        let looked = tokio::task::spawn_blocking(move || {
            let tree = Worktree::open(&root).map_err(|error| error.to_string())?;
            let prepared = handlers::prepare(&tree, &effect);
            Ok::<_, String>(Look::Ready(tree, Box::new(prepared)))
        });
        let look = looked.await.map_err(|error| error.to_string())??;
        if look.files().len() > EVENT_FILES_MAX {
            return Err("it would change too many files".to_owned());
        }
        Ok(look)
    }

    fn request(&self, planned: &PlannedEffect, evidence: Value) -> NewObject {
        self.object(&object([
            ("cost", planned.demand.cost.into()),
            ("effect", planned.demand.effect.into()),
            ("evidence", evidence),
            ("invocation", self.inv.to_string().into()),
            ("plan", self.plan.reference().into()),
            ("request", "world/effect-request/v1".into()),
            ("scope", planned.demand.scope.into()),
        ]))
    }

    fn intent(
        &self,
        planned: &PlannedEffect,
        grant: u64,
        before: u64,
        request: &NewObject,
        look: &Look,
    ) -> Submission {
        let hash = request.hash();
        let files: Vec<OpenFile> = look.files().to_vec();
        let body = Intent {
            cost: planned.demand.cost,
            plan: prior(0),
            files: files.iter().map(|file| file.change(&self.key)).collect(),
            grant: Some(grant),
            scope: planned.demand.scope.to_owned(),
            before,
            effect: planned.demand.effect.to_owned(),
            request: self.blind().bref(&hash),
        };
        // What an absent file had before is not worth an object.
        let backups: Vec<NewObject> = files
            .iter()
            .zip(look.before())
            .filter(|(file, _)| file.first.is_some())
            .map(|(_, bytes)| NewObject::new(Some(&self.episode), bytes.clone()))
            .collect();
        let more = backups.iter().map(NewObject::hash).collect();
        let mut objects = vec![self.input.clone(), self.plan.clone(), request.clone()];
        objects.extend(backups);
        let drafts =
            vec![self.plan_draft(), self.draft(body, Opening { refs: vec![hash], files, more })];
        Submission { drafts, objects, keys: Vec::new() }
    }

    async fn deny(
        self,
        planned: &PlannedEffect,
        denial: Denial,
        before: u64,
    ) -> Result<Answer, CallError> {
        let now = self.service.now();
        let record = self.object(
            &Record {
                invocation: self.inv.to_string(),
                effect: planned.demand.effect.to_owned(),
                scope: planned.demand.scope.to_owned(),
                cost: planned.demand.cost,
                budget_before: before,
                charge: 0,
                denial: Some(denial),
                status: Status::Denied,
                failure: None,
                evidence: Value::Null,
                request: None,
                result: None,
                started: now,
                ended: now,
            }
            .to_value(),
        );
        let record_hash = record.hash();
        let outcome = Outcome {
            plan: prior(0),
            seen: Vec::new(),
            charge: 0,
            denial: Some(denial),
            intent: None,
            record: self.blind().bref(&record_hash),
            result: None,
            status: Status::Denied,
            recovered: false,
        };
        let effects = vec![effect_value(&planned.id, Status::Denied, &record)];
        let output = self.object(&self.compose(object([]), effects));
        let hash = output.hash();
        let submission = Submission {
            drafts: vec![
                self.plan_draft(),
                self.draft(outcome, Opening { refs: vec![record_hash], ..Opening::default() }),
                self.commit_draft(prior(0), Some(prior(1)), &hash, true),
            ],
            objects: vec![self.input.clone(), self.plan.clone(), record, output.clone()],
            keys: Vec::new(),
        };
        let committed = self.service.inner.ledger.commit(submission).await;
        let committed = committed.map_err(CallError::NotCommitted)?;
        let problem = Some(advice(denial, planned.demand.effect));
        Ok(self.answer(&committed, &output, Some(denial), problem))
    }

    async fn perform(
        self,
        planned: PlannedEffect,
        look: Look,
        began: Began,
    ) -> Result<Answer, CallError> {
        let unconfirmed = |record: &str| CallError::Unconfirmed {
            invocation: self.inv.to_string(),
            record: record.to_owned(),
        };
        let permit = Permit::new(&began.committed.receipt, began.committed.first + 1);
        let permit = permit.ok_or_else(|| unconfirmed("none"))?;
        let (context, inv) = (self.service.inner.context.clone(), self.inv.0);
        let evidence = look.evidence();
        let done = tokio::task::spawn_blocking(move || match look {
            Look::Ready(tree, prepared) => {
                handlers::perform(permit, &tree, *prepared, &inv, &context, &|| true)
            }
            Look::Failed(reason) => {
                Done { status: HandlerStatus::Failed(reason), output: object([]), seen: Vec::new() }
            }
        });
        let done = done.await.map_err(|error| {
            tracing::error!(%error, "a handler ended in a panic");
            unconfirmed("none")
        })?;
        let written = self.conclude(&planned, &began, done, evidence);
        for attempt in 1..=COMMIT_TRIES_MAX {
            match self.service.inner.ledger.commit(written.submission.clone()).await {
                Ok(committed) => {
                    return Ok(self.answer(&committed, &written.output, None, written.problem));
                }
                Err(refused @ (Refused::Unknown(_) | Refused::Malformed(_))) => {
                    tracing::error!(%refused, "an effect is recorded in no outcome");
                    break;
                }
                Err(refused) => tracing::warn!(%refused, attempt, "outcome and commit wait"),
            }
            tokio::time::sleep(COMMIT_RETRY).await;
        }
        Err(unconfirmed(&written.record))
    }

    /// Outcome and commit of an effect that ran.
    fn conclude(
        &self,
        planned: &PlannedEffect,
        began: &Began,
        done: Done,
        evidence: Value,
    ) -> Written {
        let (status, failure) = match &done.status {
            HandlerStatus::Ok => (Status::Ok, None),
            HandlerStatus::Failed(reason) => (Status::Failed, Some(reason.clone())),
        };
        let ok = failure.is_none();
        let result = ok.then(|| self.object(&done.output));
        let record = Record {
            invocation: self.inv.to_string(),
            effect: planned.demand.effect.to_owned(),
            scope: planned.demand.scope.to_owned(),
            cost: planned.demand.cost,
            budget_before: began.before,
            charge: planned.demand.cost,
            denial: None,
            status,
            failure,
            evidence,
            request: Some(began.request.reference()),
            result: result.as_ref().map(NewObject::reference),
            started: began.at,
            ended: self.service.now(),
        };
        let record = self.object(&record.to_value());
        let problem = problem_of(&done);
        let effects = vec![effect_value(&planned.id, status, &record)];
        let own = if ok { done.output } else { object([]) };
        let output = self.object(&self.compose(own, effects));
        let (record_hash, output_hash) = (record.hash(), output.hash());
        let result_hash = result.as_ref().map(NewObject::hash);
        let first = began.committed.first;
        let blind = self.blind();
        let outcome = Outcome {
            plan: first,
            seen: done.seen.iter().filter_map(|file| file.seen(&self.key)).collect(),
            charge: planned.demand.cost,
            denial: None,
            intent: Some(first + 1),
            record: blind.bref(&record_hash),
            result: result_hash.map(|hash| blind.bref(&hash)),
            status,
            recovered: false,
        };
        let refs = std::iter::once(record_hash).chain(result_hash).collect();
        let opening = Opening { refs, files: done.seen, more: Vec::new() };
        let drafts = vec![
            self.draft(outcome, opening),
            self.commit_draft(first, Some(prior(0)), &output_hash, problem.is_some()),
        ];
        let name = record.reference();
        let objects = result.into_iter().chain([record, output.clone()]).collect();
        let submission = Submission { drafts, objects, keys: Vec::new() };
        Written { submission, output, record: name, problem }
    }
}

/// The one effect of a plan.
struct PlannedEffect {
    id: String,
    demand: Demand,
    payload: Value,
}

/// What the handler saw, or why it cannot run.
enum Look {
    Ready(Worktree, Box<Prepared>),
    Failed(String),
}

impl Look {
    fn evidence(&self) -> Value {
        match self {
            Self::Ready(_, prepared) => prepared.evidence.clone(),
            Self::Failed(_) => Value::Null,
        }
    }

    fn files(&self) -> &[OpenFile] {
        match self {
            Self::Ready(_, prepared) => &prepared.files,
            Self::Failed(_) => &[],
        }
    }

    fn before(&self) -> &[Vec<u8>] {
        match self {
            Self::Ready(_, prepared) => &prepared.before,
            Self::Failed(_) => &[],
        }
    }
}

/// What is known once the intent is durable.
struct Began {
    committed: Committed,
    before: u64,
    request: NewObject,
    at: u64,
}

/// Outcome and commit, ready to be submitted.
struct Written {
    submission: Submission,
    output: NewObject,
    record: String,
    problem: Option<String>,
}
