//! One invocation: its names, and the events and objects that tell of it.
//!
//! ```text
//! plan ─ intent ─ outcome ─ commit         each with the opening of what it hides
//! ```
//!
//! Nothing here decides or runs anything; `run`, `effect`, `undo` and `recovery` hand what is made here to the ledger.

use super::Service;
use super::answer::{Answer, Reply, compose};
use crate::broker::{ClosureRecord, Record};
use crate::canon::{Value, object};
use crate::event::blind::{EpisodeKey, InvocationKey, OpenFile, Opening};
use crate::event::{
    B16, B32, Body, ClosedBy, Closure, Commit, Denial, EpisodeName, Evidence, Front, Intent,
    Outcome, Plan, Status, Verdict, prior,
};
use crate::ledger::{Committed, Draft, NewObject, Submission};
use crate::merkle::hash::Hash;

/// What belongs to one invocation from its start.
#[derive(Clone)]
pub(super) struct Invocation {
    pub(super) service: Service,
    pub(super) front: Front,
    pub(super) tool: String,
    /// None for an act of the operator.
    pub(super) session: Option<B16>,
    /// Seq of the transition; none for an act of the operator.
    pub(super) transition: Option<u64>,
    pub(super) episode: EpisodeName,
    pub(super) inv: B16,
    pub(super) key: EpisodeKey,
    pub(super) claim: Option<B32>,
    pub(super) input: NewObject,
    pub(super) plan: NewObject,
}

/// What an effect is asked for.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) id: String,
    pub(super) effect: String,
    pub(super) scope: String,
    pub(super) cost: u64,
    pub(super) payload: Value,
    pub(super) finish: bool,
}

/// Under what an intent acts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leave {
    /// Index of the grant; none for an act of the operator.
    pub(super) grant: Option<u64>,
    /// Units left before it.
    pub(super) before: u64,
}

/// How an effect ended, for its record and outcome.
pub(super) struct Ended {
    pub(super) status: Status,
    pub(super) denial: Option<Denial>,
    pub(super) failure: Option<String>,
    pub(super) evidence: Value,
    pub(super) request: Option<String>,
    pub(super) result: Option<NewObject>,
    pub(super) seen: Vec<OpenFile>,
    pub(super) before: u64,
    pub(super) charge: u64,
    pub(super) started: u64,
    pub(super) recovered: bool,
}

/// An outcome that is not written yet.
pub(super) struct Account {
    pub(super) outcome: Draft,
    pub(super) record: NewObject,
    pub(super) objects: Vec<NewObject>,
}

/// A closure that is not written yet.
pub(super) struct Closing {
    pub(super) draft: Draft,
    pub(super) record: NewObject,
}

impl Invocation {
    pub(super) fn blind(&self) -> InvocationKey {
        self.key.invocation(&self.inv)
    }

    pub(super) fn object(&self, value: &Value) -> NewObject {
        NewObject::new(Some(&self.episode), value.to_bytes())
    }

    /// Equal for equal plans.
    pub(super) fn same(&self) -> B16 {
        self.key.same(&self.plan.hash())
    }

    pub(super) fn draft(&self, body: impl Into<Body>, opening: Opening) -> Draft {
        Draft {
            episode: Some(self.episode.clone()),
            inv: Some(self.inv),
            body: body.into(),
            opening: Some(opening),
        }
    }

    /// The plan, with the preview token that it uses up, blinded.
    pub(super) fn plan_draft(&self, token: Option<B32>) -> Draft {
        let (input, plan) = (self.input.hash(), self.plan.hash());
        let blind = self.blind();
        let body = Plan {
            plan: blind.bref(&plan),
            same: self.same(),
            tool: self.tool.clone(),
            claim: self.claim,
            front: self.front,
            input: blind.bref(&input),
            token,
            session: self.session,
            transition: self.transition,
        };
        self.draft(body, Opening { refs: vec![plan, input], ..Opening::default() })
    }

    pub(super) fn request(&self, planned: &Planned, evidence: Value) -> NewObject {
        self.object(&object([
            ("cost", planned.cost.into()),
            ("effect", planned.effect.as_str().into()),
            ("evidence", evidence),
            ("invocation", self.inv.to_string().into()),
            ("plan", self.plan.reference().into()),
            ("request", "world/effect-request/v1".into()),
            ("scope", planned.scope.as_str().into()),
        ]))
    }

    /// Plan and intent. `before` are the contents of `files`, in the same order.
    pub(super) fn intent(
        &self,
        planned: &Planned,
        leave: Leave,
        token: Option<B32>,
        request: &NewObject,
        (files, before): (&[OpenFile], &[Vec<u8>]),
    ) -> Submission {
        let hash = request.hash();
        let files: Vec<OpenFile> = files.to_vec();
        let body = Intent {
            cost: planned.cost,
            plan: prior(0),
            files: files.iter().map(|file| file.change(&self.key)).collect(),
            grant: leave.grant,
            scope: planned.scope.clone(),
            before: leave.before,
            effect: planned.effect.clone(),
            request: self.blind().bref(&hash),
        };
        // What an absent file had before is not worth an object.
        let backups: Vec<NewObject> = files
            .iter()
            .zip(before)
            .filter(|(file, _)| file.first.is_some())
            .map(|(_, bytes)| NewObject::new(Some(&self.episode), bytes.clone()))
            .collect();
        let more = backups.iter().map(NewObject::hash).collect();
        let mut objects = vec![self.input.clone(), self.plan.clone(), request.clone()];
        objects.extend(backups);
        let opening = Opening { refs: vec![hash], files, more };
        let drafts = vec![self.plan_draft(token), self.draft(body, opening)];
        Submission { drafts, objects, keys: Vec::new() }
    }

    /// The record of an effect, and the outcome that names it. `plan` and `intent` are seqs, or [`prior`] ones.
    pub(super) fn account(
        &self,
        planned: &Planned,
        plan: u64,
        intent: Option<u64>,
        ended: Ended,
    ) -> Account {
        let record = Record {
            invocation: self.inv.to_string(),
            effect: planned.effect.clone(),
            scope: planned.scope.clone(),
            cost: planned.cost,
            budget_before: ended.before,
            charge: ended.charge,
            denial: ended.denial,
            status: ended.status,
            failure: ended.failure,
            evidence: ended.evidence,
            request: ended.request,
            result: ended.result.as_ref().map(NewObject::reference),
            started: ended.started,
            ended: self.service.now(),
        };
        let record = self.object(&record.to_value());
        let record_hash = record.hash();
        let result_hash = ended.result.as_ref().map(NewObject::hash);
        let blind = self.blind();
        let outcome = Outcome {
            plan,
            seen: ended.seen.iter().filter_map(|file| file.seen(&self.key)).collect(),
            charge: ended.charge,
            denial: ended.denial,
            intent,
            record: blind.bref(&record_hash),
            result: result_hash.map(|hash| blind.bref(&hash)),
            status: ended.status,
            recovered: ended.recovered,
        };
        let refs = std::iter::once(record_hash).chain(result_hash).collect();
        let opening = Opening { refs, files: ended.seen, more: Vec::new() };
        let objects = ended.result.into_iter().chain([record.clone()]).collect();
        Account { outcome: self.draft(outcome, opening), record, objects }
    }

    /// The commit of an answer.
    pub(super) fn commit_draft(&self, plan: u64, outcome: Option<u64>, reply: &Reply) -> Draft {
        let output: Hash = reply.output.hash();
        let refused = reply.problem.is_some();
        let body = Commit { plan, entry: 0, output: self.blind().bref(&output), outcome, refused };
        self.draft(body, Opening { refs: vec![output], ..Opening::default() })
    }

    /// A tool's own output with its `world` block, and what is to be said beside it.
    pub(super) fn reply(&self, own: Value, effects: Vec<Value>, problem: Option<String>) -> Reply {
        let output = self.object(&compose(own, effects, &self.plan.reference()));
        Reply { output, problem }
    }

    /// The answer that a commit, the last event of its submission, stands for.
    pub(super) fn answer(&self, committed: &Committed, reply: &Reply) -> Answer {
        Answer::of(self.inv, committed, reply)
    }

    /// The closure of an intent.
    pub(super) fn closing(
        &self,
        (intent, cost): (u64, u64),
        (verdict, evidence): (Verdict, Evidence),
        by: ClosedBy,
        request: Option<String>,
    ) -> Closing {
        let charge = if verdict == Verdict::NotHappened { 0 } else { cost };
        let account = ClosureRecord {
            invocation: self.inv.to_string(),
            intent,
            verdict,
            evidence,
            by,
            charge,
            request,
        };
        let record = self.object(&account.to_value());
        let hash = record.hash();
        let closure =
            Closure { by, charge, intent, record: self.blind().bref(&hash), verdict, evidence };
        let draft = self.draft(closure, Opening { refs: vec![hash], ..Opening::default() });
        Closing { draft, record }
    }
}
