//! Taking back what a call did to files: an act of the operator, recorded like any call.
//!
//! ```text
//! plan (front admin) ─ intent (no grant, cost 0) ─ outcome ─ commit
//! ```
//!
//! The bytes before come from the objects that the call's intent named. It restores exactly that call's paths, bytes and
//! modes, and only while they stand as the call left them. Runs leave more than files, so they are not taken back. No session
//! has seen what an undo wrote: its next write there is refused until it reads. Dying on the way leaves an intent with
//! evidence, which recovery settles like that of a write.

use super::Service;
use super::answer::{effect_value, problem};
use super::invocation::{Account, Ended, Invocation, Leave, Planned};
use super::look::Look;
use super::run::canon_of;
use crate::canon::{Value, object, parse};
use crate::event::{
    B16, Body, Commit, EpisodeName, Event, Fixed, Front, Intent, Outcome, Status, prior,
};
use crate::handlers::{self, Permit, Status as HandlerStatus};
use crate::ledger::{NewObject, Refused, Submission};
use crate::sandbox::Worktree;
use crate::store::StoreError;
use crate::transitions::PLAN;

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The invocation of the undo, 32 hexadecimal digits.
    pub invocation: String,
    /// Its entry index.
    pub entry: u64,
    /// The paths that it restored.
    pub paths: Vec<String>,
}

/// Why nothing was taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// There is no such entry.
    #[error("there is no entry {0}; `worldlog log` lists them")]
    NoEntry(u64),
    /// The entry changed nothing that could be taken back.
    #[error("entry {entry} cannot be taken back: {why}")]
    NotUndoable {
        /// The entry.
        entry: u64,
        /// Why.
        why: String,
    },
    /// The log did not take it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The log could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The effect ran, and what became of it is not in the log.
    #[error(
        "the undo of entry {entry} ran and is not confirmed committed: look for invocation {invocation}"
    )]
    Unconfirmed {
        /// The entry.
        entry: u64,
        /// 32 hexadecimal digits.
        invocation: String,
    },
}

/// The call that is to be taken back.
struct Target {
    episode: EpisodeName,
    evidence: Value,
    effect: String,
    scope: String,
}

impl Service {
    /// Takes back what the call of entry `entry` did to files.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn undo(&self, entry: u64) -> Result<Undone, UndoError> {
        let no = |why: &str| UndoError::NotUndoable { entry, why: why.to_owned() };
        let target = self.undoable(entry)?;
        let episode = &target.episode;
        let key = self.inner.ledger.episode_key(episode);
        let key = key.ok_or_else(|| no("the episode's payloads were redacted"))?;
        let turn = self.turn_blocking(episode);
        self.recover_now(episode)?;
        let tree = Worktree::open(&self.inner.workspace.join(episode.as_str()))
            .map_err(|_| no("the worktree is not there"))?;
        let object_of = |hash: &crate::merkle::hash::Hash| {
            self.inner.ledger.object(Some(episode), hash).ok().flatten()
        };
        let prepared =
            handlers::undo(&tree, &target.evidence, &object_of).map_err(|why| no(&why))?;
        if let Some(why) = prepared.refused() {
            return Err(no(why));
        }
        let planned = Planned {
            id: "e1".to_owned(),
            effect: target.effect,
            scope: target.scope,
            cost: 0,
            payload: object([("entry", entry.into()), ("op", "undo".into())]),
            finish: false,
        };
        let inv: B16 = Fixed(self.inner.entropy.bytes16().map_err(Refused::from)?);
        let input = object([("entry", entry.into())]);
        let of = Invocation {
            service: self.clone(),
            front: Front::Admin,
            tool: "undo".to_owned(),
            session: None,
            transition: None,
            episode: episode.clone(),
            inv,
            key,
            claim: None,
            input: NewObject::new(Some(episode), input.to_bytes()),
            plan: NewObject::new(Some(episode), plan_of(&planned).to_bytes()),
        };
        let undone = of.take_back(&planned, Look::Ready(tree, Box::new(prepared)), entry);
        drop(turn);
        undone
    }

    fn undoable(&self, entry: u64) -> Result<Target, UndoError> {
        let no = |why: &str| UndoError::NotUndoable { entry, why: why.to_owned() };
        let commits = self.inner.ledger.entries(entry, 1)?;
        let Some(Event {
            body: Body::Commit(Commit { entry: found, outcome, .. }),
            ep: Some(ep),
            ..
        }) = commits.into_iter().next()
        else {
            return Err(UndoError::NoEntry(entry));
        };
        if found != entry {
            return Err(UndoError::NoEntry(entry));
        }
        let Some(outcome) = outcome.map(|seq| self.read(seq)).transpose()?.flatten() else {
            return Err(no("its plan had no effect"));
        };
        let Body::Outcome(Outcome { intent: Some(intent), status: Status::Ok, .. }) = outcome.body
        else {
            return Err(no("its effect did not run, or failed"));
        };
        let Some(Event { body: Body::Intent(Intent { effect, scope, files, .. }), .. }) =
            self.read(intent)?
        else {
            return Err(no("its intent cannot be read"));
        };
        if !handlers::leaves_files_only(&effect) {
            return Err(no("a run may have done more than its files tell"));
        }
        if files.is_empty() {
            return Err(no("it changed no file"));
        }
        let request = self.named(&ep.name, intent, 0)?.and_then(|(_, bytes)| parse(&bytes).ok());
        let evidence = request.and_then(|request| request.get("evidence").cloned());
        let evidence = evidence.ok_or_else(|| no("its evidence is gone: it was redacted"))?;
        Ok(Target { episode: ep.name, evidence, effect, scope })
    }
}

fn plan_of(planned: &Planned) -> Value {
    let effect = object([
        ("cost", planned.cost.into()),
        ("effect", planned.effect.as_str().into()),
        ("id", planned.id.as_str().into()),
        ("payload", planned.payload.clone()),
        ("scope", planned.scope.as_str().into()),
    ]);
    object([
        ("effects", vec![effect].into()),
        ("finish", false.into()),
        ("plan", PLAN.into()),
        ("result", Value::Null),
    ])
}

impl Invocation {
    /// Records the intent, runs what was prepared, and commits what came of it.
    fn take_back(&self, planned: &Planned, look: Look, entry: u64) -> Result<Undone, UndoError> {
        let ledger = &self.service.inner.ledger;
        let (evidence, started) = (look.evidence(), self.service.now());
        let request = self.request(planned, evidence.clone());
        let leave = Leave { grant: None, before: 0 };
        let paths: Vec<String> = look.files().iter().map(|file| file.path.clone()).collect();
        let intent = self.intent(planned, leave, None, &request, (look.files(), look.before()));
        let committed = ledger.commit_blocking(intent)?;
        let unconfirmed = || UndoError::Unconfirmed { entry, invocation: self.inv.to_string() };
        let permit = Permit::new(&committed.receipt, committed.first + 1);
        let (Some(permit), Look::Ready(tree, prepared)) = (permit, look) else {
            return Err(unconfirmed());
        };
        let context = &self.service.inner.context;
        let gate = handlers::Gate { seal: &|| true, open: &|| true };
        let done = handlers::perform(permit, &tree, *prepared, &self.inv.0, context, gate);
        let (status, failure) = match done.status {
            HandlerStatus::Ok => (Status::Ok, None),
            HandlerStatus::Failed(reason) => (Status::Failed, Some(reason)),
        };
        let ended = Ended {
            status,
            denial: None,
            failure,
            evidence,
            request: Some(request.reference()),
            result: (status == Status::Ok).then(|| self.object(&done.output)),
            // Nobody saw it: the sessions have to read before they write there again.
            seen: Vec::new(),
            before: 0,
            charge: 0,
            started,
            recovered: false,
        };
        let first = committed.first;
        let Account { outcome, record, mut objects } =
            self.account(planned, first, Some(first + 1), ended);
        let own = if status == Status::Ok { done.output } else { object([]) };
        let said = canon_of(&record).and_then(|record| problem(Some(&record), &own));
        let effects = vec![effect_value(&planned.id, status, &record)];
        let reply = self.reply(own, effects, said);
        objects.push(reply.output.clone());
        let drafts = vec![outcome, self.commit_draft(first, Some(prior(0)), &reply)];
        let submission = Submission { drafts, objects, keys: Vec::new() };
        let written = ledger.commit_blocking(submission).map_err(|refused| {
            tracing::error!(%refused, "an undo is recorded in no outcome");
            unconfirmed()
        })?;
        match reply.problem {
            Some(why) => Err(UndoError::NotUndoable { entry, why }),
            None => Ok(Undone {
                invocation: self.inv.to_string(),
                entry: written.entry.unwrap_or(0),
                paths,
            }),
        }
    }
}
