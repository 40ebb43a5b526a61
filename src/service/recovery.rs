//! Closing what a crash left open, by what the disk shows. An effect is never run again.
//!
//! | the disk shows | verdict | charged | and then |
//! |---|---|---|---|
//! | what the intent was to leave | `landed` | cost | outcome (`recovered`) and commit in the same submission |
//! | what stood there before, untouched; or the effect leaves nothing | `not-happened` | 0 | |
//! | anything else | `in-doubt` | cost | `/v1/health` counts it as unresolved |
//!
//! It runs at start-up for every open intent, and ahead of a call for its episode, under the episode's lock.

use super::Service;
use super::answer::{compose, effect_value};
use crate::broker::{ClosureRecord, Record};
use crate::canon::{Value, parse};
use crate::event::blind::{EpisodeKey, InvocationKey, OpenFile, Opening};
use crate::event::{
    Body, ClosedBy, Closure, Commit, EpisodeName, Event, Evidence, Intent, Outcome, Status,
    Verdict, hex, prior,
};
use crate::handlers;
use crate::ledger::{Draft, NewObject, Refused, Submission};
use crate::merkle::hash::Hash;
use crate::sandbox::Worktree;
use crate::state::CallRow;
use crate::store::StoreError;

/// What the log says of an intent that has no outcome.
struct Open {
    plan: u64,
    call: CallRow,
    intent: Intent,
    seq: u64,
    at: u64,
    key: EpisodeKey,
    /// Plain hashes behind the intent and the plan.
    opened: Opening,
    plan_hash: Option<Hash>,
    request: Option<Value>,
}

impl Service {
    /// Closes every open intent. Called once, before anything is served.
    ///
    /// # Errors
    /// [`Refused`] or a [`StoreError`] in words.
    pub(super) fn recover_all(&self) -> Result<(), Refused> {
        let open: Vec<_> = self.inner.ledger.with_state(|state| {
            state.calls.iter().map(|(seq, call)| (*seq, call.clone())).collect()
        });
        open.into_iter().try_for_each(|(plan, call)| self.recover(plan, call))
    }

    /// Closes the open intent of one episode, if there is one. The caller holds the episode's lock.
    pub(super) async fn recover_episode(&self, episode: &EpisodeName) -> Result<(), Refused> {
        let open = self.inner.ledger.with_state(|state| {
            let mut calls = state.calls.iter();
            calls.find(|(_, call)| call.episode == *episode).map(|(seq, call)| (*seq, call.clone()))
        });
        let Some((plan, call)) = open else { return Ok(()) };
        let service = self.clone();
        let closed = tokio::task::spawn_blocking(move || service.recover(plan, call)).await;
        closed.unwrap_or_else(|error| Err(Refused::NotCommitted(error.to_string())))
    }

    fn recover(&self, plan: u64, call: CallRow) -> Result<(), Refused> {
        let in_words = |error: StoreError| Refused::NotCommitted(error.to_string());
        let Some(open) = self.read_open(plan, call).map_err(in_words)? else { return Ok(()) };
        let (verdict, evidence) = self.judge(&open);
        tracing::warn!(
            invocation = %open.call.inv, episode = %open.call.episode, effect = open.intent.effect,
            %verdict, %evidence, "closed an intent that was left open"
        );
        let submission = self.close(&open, verdict, evidence);
        self.inner.ledger.commit_blocking(submission)?;
        self.sweep(&open);
        Ok(())
    }

    /// Removes what a handler that died left beside its files. After the verdict, which it was evidence for; left here, it
    /// would raise a doubt about the next write that is cut off.
    fn sweep(&self, open: &Open) {
        let Ok(tree) = Worktree::open(&self.inner.workspace.join(open.call.episode.as_str()))
        else {
            return;
        };
        for file in &open.opened.files {
            if let Err(error) = tree.sweep(&file.path) {
                tracing::warn!(%error, "a temporary file could not be removed");
            }
        }
    }

    fn read_open(&self, plan: u64, call: CallRow) -> Result<Option<Open>, StoreError> {
        let ledger = &self.inner.ledger;
        let Some(row) = &call.intent else { return Ok(None) };
        let Some(key) = ledger.episode_key(&call.episode) else { return Ok(None) };
        let Some(bytes) = ledger.event(row.seq)? else { return Ok(None) };
        let Ok(Event { at, seq, body: Body::Intent(intent), .. }) = Event::decode(&bytes) else {
            return Ok(None);
        };
        let opened = ledger.opening(&call.episode, seq)?.unwrap_or_default();
        let request = match opened.refs.first() {
            Some(hash) => ledger.object(Some(&call.episode), hash)?,
            None => None,
        };
        let request = request.and_then(|bytes| parse(&bytes).ok());
        let plan_hash = ledger.opening(&call.episode, plan)?.and_then(|o| o.refs.first().copied());
        Ok(Some(Open { plan, call, intent, seq, at, key, opened, plan_hash, request }))
    }

    fn judge(&self, open: &Open) -> (Verdict, Evidence) {
        if open.call.outcome.is_some() {
            return (Verdict::Unrecorded, Evidence::Record);
        }
        if open.intent.files.is_empty() && handlers::leaves_files_only(&open.intent.effect) {
            return (Verdict::NotHappened, Evidence::Harmless);
        }
        let root = self.inner.workspace.join(open.call.episode.as_str());
        let evidence = open.request.as_ref().and_then(|request| request.get("evidence"));
        let found = match (Worktree::open(&root), evidence) {
            (Ok(tree), Some(evidence)) => handlers::settle(&tree, evidence),
            _ => Evidence::Other,
        };
        match found {
            Evidence::After => (Verdict::Landed, found),
            Evidence::Before | Evidence::Harmless => (Verdict::NotHappened, found),
            _ => (Verdict::InDoubt, found),
        }
    }

    fn close(&self, open: &Open, verdict: Verdict, evidence: Evidence) -> Submission {
        let charge = if verdict == Verdict::NotHappened { 0 } else { open.intent.cost };
        let object = |value: &Value| NewObject::new(Some(&open.call.episode), value.to_bytes());
        let request = open.opened.refs.first().map(|hash| format!("sha256:{}", hex(hash)));
        let account = ClosureRecord {
            invocation: open.call.inv.to_string(),
            intent: open.seq,
            verdict,
            evidence,
            by: ClosedBy::Recovery,
            charge,
            request: request.clone(),
        };
        let account = object(&account.to_value());
        let account_hash = account.hash();
        let blind = open.key.invocation(&open.call.inv);
        let closure = Closure {
            by: ClosedBy::Recovery,
            charge,
            intent: open.seq,
            record: blind.bref(&account_hash),
            verdict,
            evidence,
        };
        let draft = |body: Body, opening: Opening| Draft {
            episode: Some(open.call.episode.clone()),
            inv: Some(open.call.inv),
            body,
            opening: Some(opening),
        };
        let opening = Opening { refs: vec![account_hash], ..Opening::default() };
        let mut submission = Submission {
            drafts: vec![draft(closure.into(), opening)],
            objects: vec![account],
            keys: Vec::new(),
        };
        if verdict == Verdict::Landed {
            let (drafts, objects) = self.landed(open, &blind, request, draft, object);
            submission.drafts.extend(drafts);
            submission.objects.extend(objects);
        }
        submission
    }

    /// Outcome and commit of an effect that landed: what its handler would have answered.
    fn landed(
        &self,
        open: &Open,
        blind: &InvocationKey,
        request: Option<String>,
        draft: impl Fn(Body, Opening) -> Draft,
        object: impl Fn(&Value) -> NewObject,
    ) -> (Vec<Draft>, Vec<NewObject>) {
        let own = handlers::landed(&self.inner.context);
        let result = object(&own);
        let record = Record {
            invocation: open.call.inv.to_string(),
            effect: open.intent.effect.clone(),
            scope: open.intent.scope.clone(),
            cost: open.intent.cost,
            budget_before: open.intent.before,
            charge: open.intent.cost,
            denial: None,
            status: Status::Ok,
            failure: None,
            evidence: open
                .request
                .as_ref()
                .and_then(|request| request.get("evidence").cloned())
                .unwrap_or(Value::Null),
            request,
            result: Some(result.reference()),
            started: open.at,
            ended: self.now(),
        };
        let record = object(&record.to_value());
        let plan = open.plan_hash.map_or(String::new(), |hash| format!("sha256:{}", hex(&hash)));
        let output = object(&compose(own, vec![effect_value("e1", Status::Ok, &record)], &plan));
        let hashes = [&record, &result, &output].map(NewObject::hash);
        let [record_hash, result_hash, output_hash] = hashes;
        let seen: Vec<OpenFile> = open
            .opened
            .files
            .iter()
            .filter(|file| file.second.is_some())
            .map(|file| OpenFile { path: file.path.clone(), first: file.second, second: None })
            .collect();
        let outcome = Outcome {
            plan: open.plan,
            seen: seen.iter().filter_map(|file| file.seen(&open.key)).collect(),
            charge: open.intent.cost,
            denial: None,
            intent: Some(open.seq),
            record: blind.bref(&record_hash),
            result: Some(blind.bref(&result_hash)),
            status: Status::Ok,
            recovered: true,
        };
        let commit = Commit {
            plan: open.plan,
            entry: 0,
            output: blind.bref(&output_hash),
            outcome: Some(prior(1)),
            refused: false,
        };
        let opening = |refs: Vec<Hash>, files| Opening { refs, files, more: Vec::new() };
        let drafts = vec![
            draft(outcome.into(), opening(vec![record_hash, result_hash], seen)),
            draft(commit.into(), opening(vec![output_hash], Vec::new())),
        ];
        (drafts, vec![result, record, output])
    }
}
