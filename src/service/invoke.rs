//! The four steps of a call: plan, decide, effect, commit.
//!
//! ```text
//! plan (pure) ─► decide ─► [plan + intent durable] ─► effect ─► [outcome + commit durable] ─► answer
//! ```
//!
//! A call waits for its episode's lock in its client's own time; from then on it runs detached, so that a lost connection
//! never leaves an effect without its record. Dying before the intent is durable leaves nothing; dying after it leaves an
//! intent, which `recovery` settles by what the disk shows.

use super::{Caller, Service, reference};
use crate::broker::{Ask, Decision, Record, decide};
use crate::canon::{Value, object};
use crate::event::blind::{EpisodeKey, InvocationKey, OpenFile, Opening};
use crate::event::{
    B16, Commit, Denial, EpisodeName, Fixed, Front, Intent, Outcome, Plan, Status, hex, prior,
};
use crate::handlers::{self, Done, Effect, Permit, Prepared};
use crate::ledger::{Committed, Draft, NewObject, Refused, Submission};
use crate::limits::{EVENT_FILES_MAX, INVOCATION_MS_MAX};
use crate::merkle::hash::{Hash, sha256};
use crate::sandbox::Worktree;
use crate::transitions::{ParsedPlan, PlannedEffect, Transition, check_laws};
use std::sync::Arc;
use std::time::Duration;

/// How often a decision is made again because the log moved on. Only an operator's act or the clock can cause one.
const DECISIONS_MAX: u32 = 8;
/// How often outcome and commit are tried while the store says that nothing was committed.
const COMMIT_TRIES_MAX: u32 = 20;
/// Pause between two such tries.
const COMMIT_RETRY: Duration = Duration::from_millis(100);

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

/// Where a call is in the log. A function of the commit alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptView {
    /// 32 hexadecimal digits.
    pub invocation: String,
    /// Entry index.
    pub entry: u64,
    /// Seq of the commit.
    pub leaf: u64,
    /// Leaf hash of the commit.
    pub leaf_hash: Hash,
    /// Name of the output.
    pub output: String,
    /// Why the effect was denied.
    pub denial: Option<Denial>,
    /// Whether recovery completed the call.
    pub recovered: bool,
}

impl ReceiptView {
    /// `{"invocation","entry","leaf","leaf_hash","size","output","denial"?,"recovered"?}`.
    pub fn to_value(&self) -> Value {
        let mut value = object([
            ("invocation", self.invocation.as_str().into()),
            ("entry", self.entry.into()),
            ("leaf", self.leaf.into()),
            ("leaf_hash", hex(&self.leaf_hash).into()),
            ("size", (self.leaf + 1).into()),
            ("output", self.output.as_str().into()),
        ]);
        if let Value::Object(members) = &mut value {
            if let Some(denial) = self.denial {
                members.insert("denial".to_owned(), denial.as_str().into());
            }
            if self.recovered {
                members.insert("recovered".to_owned(), true.into());
            }
        }
        value
    }
}

/// A committed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The tool's output with the `world` block: the bytes of the object that the commit names.
    pub output: Arc<Vec<u8>>,
    /// Why it is no success and what to do next; `None` for a success.
    pub problem: Option<String>,
    /// Where it is in the log.
    pub receipt: ReceiptView,
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

/// What belongs to one invocation from its start.
struct Run {
    service: Service,
    caller: Caller,
    call: Call,
    transition: (u64, &'static dyn Transition),
    episode: EpisodeName,
    inv: B16,
    key: EpisodeKey,
    input: NewObject,
    plan: NewObject,
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

impl Run {
    fn new(
        service: Service,
        caller: Caller,
        call: Call,
        transition: (u64, &'static dyn Transition),
        episode: EpisodeName,
        inv: B16,
        key: EpisodeKey,
    ) -> Self {
        let object = |value: &Value| NewObject {
            episode: Some(episode.clone()),
            bytes: Arc::new(value.to_bytes()),
        };
        let input = object(&call.args);
        let plan = object(&transition.1.plan(&call.args));
        Self { service, caller, call, transition, episode, inv, key, input, plan }
    }

    fn blind(&self) -> InvocationKey {
        self.key.invocation(&self.inv)
    }

    fn object(&self, value: &Value) -> NewObject {
        NewObject { episode: Some(self.episode.clone()), bytes: Arc::new(value.to_bytes()) }
    }

    async fn run(self) -> Result<Answer, CallError> {
        let plan = crate::canon::parse(&self.plan.bytes).unwrap_or(Value::Null);
        match check_laws(&plan, &self.transition.1.declared()) {
            Ok(ParsedPlan::Result(result)) => self.refuse(result).await,
            Ok(ParsedPlan::Effect(effect)) => self.execute(effect).await,
            Err(error) => Err(CallError::Transition(error.to_string())),
        }
    }

    fn plan_draft(&self) -> Draft {
        let (input, plan) = (sha256(&self.input.bytes), sha256(&self.plan.bytes));
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
        let plan = reference(&self.plan.bytes);
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
            output: reference(&output.bytes),
            denial,
            recovered: false,
        };
        Answer { output: Arc::clone(&output.bytes), problem, receipt }
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
        let hash = sha256(&output.bytes);
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
        let root = self.service.inner.workspace.join(self.episode.as_str());
        let effect = Effect::parse(&planned.effect, &planned.payload);
        let looked = tokio::task::spawn_blocking(move || {
            let tree = Worktree::open(&root).map_err(|error| error.to_string())?;
            let prepared = match &effect {
                Ok(effect) => handlers::prepare(&tree, effect),
                Err(error) => Prepared::failed(error.to_string()),
            };
            Ok::<_, String>((tree, prepared))
        });
        let looked = looked.await.map_err(|error| CallError::Transition(error.to_string()))?;
        let (tree, prepared) = looked.map_err(CallError::Transition)?;
        if prepared.files().len() > EVENT_FILES_MAX {
            return Err(CallError::Transition("it would change too many files".to_owned()));
        }
        for _ in 0..DECISIONS_MAX {
            let at = self.service.now();
            let ask = Ask {
                session: &self.caller.id,
                episode: &self.episode,
                effect: &planned.effect,
                scope: &planned.scope,
                cost: planned.cost,
                token: None,
            };
            let decision = self.service.inner.ledger.with_state(|state| decide(state, at, &ask));
            match decision {
                Decision::Deny { denial, before } => {
                    return self.deny(&planned, denial, before).await;
                }
                Decision::Allow { grant, before } => {
                    let request = self.request(&planned, prepared.evidence());
                    let submission = self.intent(&planned, grant, before, &request, &prepared);
                    match self.service.inner.ledger.commit(submission).await {
                        Ok(committed) => {
                            let began = Began { committed, before, request, at };
                            return self.perform(planned, tree, prepared, began).await;
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

    fn request(&self, planned: &PlannedEffect, evidence: Value) -> NewObject {
        self.object(&object([
            ("cost", planned.cost.into()),
            ("effect", planned.effect.as_str().into()),
            ("evidence", evidence),
            ("invocation", self.inv.to_string().into()),
            ("plan", reference(&self.plan.bytes).into()),
            ("request", "world/effect-request/v1".into()),
            ("scope", planned.scope.as_str().into()),
        ]))
    }

    fn intent(
        &self,
        planned: &PlannedEffect,
        grant: u64,
        before: u64,
        request: &NewObject,
        prepared: &Prepared,
    ) -> Submission {
        let hash = sha256(&request.bytes);
        let files: Vec<OpenFile> = prepared.files().to_vec();
        let body = Intent {
            cost: planned.cost,
            plan: prior(0),
            files: files.iter().map(|file| file.change(&self.key)).collect(),
            grant: Some(grant),
            scope: planned.scope.clone(),
            before,
            effect: planned.effect.clone(),
            request: self.blind().bref(&hash),
        };
        let backups: Vec<NewObject> = prepared
            .before()
            .iter()
            .map(|bytes| NewObject {
                episode: Some(self.episode.clone()),
                bytes: Arc::clone(bytes),
            })
            .collect();
        let more = backups.iter().map(|object| sha256(&object.bytes)).collect();
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
                effect: planned.effect.clone(),
                scope: planned.scope.clone(),
                cost: planned.cost,
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
        let record_hash = sha256(&record.bytes);
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
        let hash = sha256(&output.bytes);
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
        let problem = Some(advice(denial, &planned.effect));
        Ok(self.answer(&committed, &output, Some(denial), problem))
    }

    async fn perform(
        self,
        planned: PlannedEffect,
        tree: Worktree,
        prepared: Prepared,
        began: Began,
    ) -> Result<Answer, CallError> {
        let unconfirmed = |record: &str| CallError::Unconfirmed {
            invocation: self.inv.to_string(),
            record: record.to_owned(),
        };
        let permit = Permit::new(&began.committed.receipt, began.committed.first + 1);
        let permit = permit.ok_or_else(|| unconfirmed("none"))?;
        let (context, inv) = (self.service.inner.context.clone(), self.inv.0);
        let evidence = prepared.evidence();
        let done = tokio::task::spawn_blocking(move || {
            handlers::perform(permit, &tree, prepared, &inv, &context, &|| true)
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
                Err(refused @ Refused::Unknown(_)) | Err(refused @ Refused::Malformed(_)) => {
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
        let ok = done.failure.is_none();
        let status = if ok { Status::Ok } else { Status::Failed };
        let result = ok.then(|| self.object(&done.output));
        let record = Record {
            invocation: self.inv.to_string(),
            effect: planned.effect.clone(),
            scope: planned.scope.clone(),
            cost: planned.cost,
            budget_before: began.before,
            charge: planned.cost,
            denial: None,
            status,
            failure: done.failure.clone(),
            evidence,
            request: Some(reference(&began.request.bytes)),
            result: result.as_ref().map(|object| reference(&object.bytes)),
            started: began.at,
            ended: self.service.now(),
        };
        let record = self.object(&record.to_value());
        let problem = problem_of(&done);
        let effects = vec![effect_value(&planned.id, status, &record)];
        let own = if ok { done.output } else { object([]) };
        let output = self.object(&self.compose(own, effects));
        let (record_hash, output_hash) = (sha256(&record.bytes), sha256(&output.bytes));
        let result_hash = result.as_ref().map(|object| sha256(&object.bytes));
        let first = began.committed.first;
        let blind = self.blind();
        let outcome = Outcome {
            plan: first,
            seen: done.seen.iter().filter_map(|file| file.seen(&self.key)).collect(),
            charge: planned.cost,
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
        let name = reference(&record.bytes);
        let objects = result.into_iter().chain([record, output.clone()]).collect();
        let submission = Submission { drafts, objects, keys: Vec::new() };
        Written { submission, output, record: name, problem }
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

/// A tool's own output with the `world` block.
pub(super) fn compose(own: Value, effects: Vec<Value>, plan: &str) -> Value {
    let mut members = match own {
        Value::Object(members) => members,
        _ => std::collections::BTreeMap::new(),
    };
    let world = object([("effects", Value::Array(effects)), ("plan", plan.into())]);
    members.insert("world".to_owned(), world);
    Value::Object(members)
}

pub(super) fn effect_value(id: &str, status: Status, record: &NewObject) -> Value {
    object([
        ("id", id.into()),
        ("record", reference(&record.bytes).into()),
        ("status", status.as_str().into()),
    ])
}

fn problem_of(done: &Done) -> Option<String> {
    if let Some(failure) = &done.failure {
        return Some(format!(
            "{failure}. The handler failed and one unit was spent; look at what is there before you repeat it."
        ));
    }
    let refused = done.output.get("ok").and_then(Value::as_bool) == Some(false);
    let text =
        done.output.get("refused").and_then(Value::as_str).unwrap_or("the operation was refused");
    refused.then(|| format!("{text}. The effect ran, changed nothing, and one unit was spent."))
}

/// What an agent should do about a denial.
fn advice(denial: Denial, effect: &str) -> String {
    let next = match denial {
        Denial::EffectName | Denial::Scope => {
            "this session may not use it here; ask your operator for a grant"
        }
        Denial::Expired => "the grant is over; ask your operator to extend the session",
        Denial::Budget => {
            "its budget is spent; stop calling tools that need it and tell your operator"
        }
        Denial::Token => "the token is not the token of this call; ask for a new preview",
        Denial::Approval => {
            "a person has to approve this call first; send it again with the token after that"
        }
        Denial::Hook => "a hook of the operator said no; do something else",
        Denial::Loop => {
            "the same call was refused again and again; change it, or ask your operator"
        }
    };
    format!("{denial}: {effect} did not run and nothing was spent; {next}.")
}
