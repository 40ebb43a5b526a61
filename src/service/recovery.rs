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
use super::answer::{Reply, effect_value};
use super::invocation::{Account, Closing, Ended, Invocation, Planned};
use crate::canon::{Value, parse};
use crate::durable;
use crate::event::blind::OpenFile;
use crate::event::{
    B16, Body, ClosedBy, EpisodeName, Event, Evidence, Intent, Status, Verdict, hex, prior,
};
use crate::handlers;
use crate::ledger::{Draft, NewObject, Refused, Submission};
use crate::sandbox::Worktree;
use crate::state::CallRow;
use crate::store::StoreError;
use std::time::Duration;

/// How long the lock of an episode is waited for: longer than a program may run.
const LOCK_TRIES: u32 = 300;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// What the log says of an intent that has no outcome.
struct Open {
    /// Its call, as it began.
    of: Invocation,
    plan: u64,
    /// An outcome that no commit followed.
    recorded: bool,
    intent: Intent,
    seq: u64,
    at: u64,
    files: Vec<OpenFile>,
    /// Name of the request and what it says.
    name: Option<String>,
    request: Option<Value>,
}

impl Service {
    /// Closes every open intent. Called once, before anything is served.
    pub(super) fn recover_all(&self) -> Result<(), Refused> {
        let open: Vec<_> = self
            .inner
            .ledger
            .with_state(|state| state.calls.iter().map(|(_, call)| call.episode.clone()).collect());
        open.iter().try_for_each(|episode| self.recover_now(episode))
    }

    /// Closes the open intent of one episode, if there is one. The caller holds the episode's lock.
    pub(super) async fn recover_episode(&self, episode: &EpisodeName) -> Result<(), Refused> {
        let held = self.slot(episode).held.get().is_some();
        if held && self.open_in(episode).is_none() {
            return Ok(());
        }
        let (service, episode) = (self.clone(), episode.clone());
        let closed = tokio::task::spawn_blocking(move || service.recover_now(&episode)).await;
        closed.unwrap_or_else(|error| Err(Refused::NotCommitted(error.to_string())))
    }

    /// The same for a thread outside the runtime.
    pub(super) fn recover_now(&self, episode: &EpisodeName) -> Result<(), Refused> {
        self.hold(episode)?;
        match self.open_in(episode) {
            Some((plan, call)) => self.settle(plan, call, ClosedBy::Recovery).map(drop),
            None => Ok(()),
        }
    }

    /// Takes the episode's lock file, first for this process alone: what an earlier one left running there has ended then,
    /// and the disk tells what it did.
    fn hold(&self, episode: &EpisodeName) -> Result<(), Refused> {
        let slot = self.slot(episode);
        if slot.held.get().is_some() {
            return Ok(());
        }
        let path = self.inner.locks.join(format!("{episode}.lock"));
        let failed =
            |error: std::io::Error| Refused::NotCommitted(format!("{}: {error}", path.display()));
        for _ in 0..LOCK_TRIES {
            if let Some(lock) = durable::Lock::exclusive(&path).map_err(failed)? {
                lock.share().map_err(failed)?;
                // Another thread may have been first; then this one is let go of.
                let _ = slot.held.set(lock);
                return Ok(());
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        let text = "is held by a process that an earlier server started";
        Err(failed(std::io::Error::other(text)))
    }

    /// The open call of an episode.
    pub(super) fn open_in(&self, episode: &EpisodeName) -> Option<(u64, CallRow)> {
        self.inner.ledger.with_state(|state| {
            let mut calls = state.calls.iter();
            calls.find(|(_, call)| call.episode == *episode).map(|(seq, call)| (*seq, call.clone()))
        })
    }

    /// Closes the open intent of a call by what the disk shows, and sweeps what its handler left. Returns verdict and
    /// record; none when there is no intent to close.
    pub(super) fn settle(
        &self,
        plan: u64,
        call: CallRow,
        by: ClosedBy,
    ) -> Result<Option<(Verdict, String)>, Refused> {
        let Some(open) = self.read_open(plan, call).map_err(in_words)? else { return Ok(None) };
        let (verdict, evidence) = self.judge(&open);
        tracing::warn!(
            invocation = %open.of.inv, episode = %open.of.episode, effect = open.intent.effect,
            %verdict, %evidence, %by, "closed an open intent"
        );
        let (submission, record) = self.close(&open, verdict, evidence, by);
        self.inner.ledger.commit_blocking(submission)?;
        self.sweep(&open, verdict);
        Ok(Some((verdict, record)))
    }

    /// A person says what became of the effect of `invocation`, which is in doubt: it landed, or it did not happen. Returns
    /// the name of the closure's record.
    ///
    /// Dying before the closure is durable leaves the doubt as it was.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub fn resolve(&self, invocation: &B16, landed: bool) -> Result<String, ResolveError> {
        let doubt = self.inner.ledger.with_state(|state| {
            let mut doubts = state.doubts.iter();
            doubts.find(|(_, row)| row.call.inv == *invocation).map(|(_, row)| row.clone())
        });
        let doubt = doubt.ok_or(ResolveError::NotInDoubt)?;
        let turn = self.turn_blocking(&doubt.call.episode);
        self.recover_now(&doubt.call.episode)?;
        let open = self.read_open(doubt.plan, doubt.call).map_err(in_words)?;
        let open = open.ok_or(ResolveError::NotInDoubt)?;
        let verdict = if landed { Verdict::Landed } else { Verdict::NotHappened };
        let (submission, record) = self.close(&open, verdict, Evidence::Person, ClosedBy::Operator);
        self.inner.ledger.commit_blocking(submission)?;
        drop(turn);
        Ok(record)
    }

    /// Removes what a handler that died left beside its files. After the verdict, which it was evidence for; left here, it
    /// would raise a doubt about the next write that is cut off.
    fn sweep(&self, open: &Open, verdict: Verdict) {
        let Ok(tree) = Worktree::open(&self.inner.workspace.join(open.of.episode.as_str())) else {
            return;
        };
        for file in &open.files {
            let swept = match verdict {
                Verdict::InDoubt => tree.sweep_known(&file.path, &[file.first, file.second]),
                _ => tree.sweep(&file.path),
            };
            if let Err(error) = swept {
                tracing::warn!(%error, "a temporary file could not be removed");
            }
        }
    }

    fn read_open(&self, plan: u64, call: CallRow) -> Result<Option<Open>, StoreError> {
        let ledger = &self.inner.ledger;
        let Some(row) = &call.intent else { return Ok(None) };
        let Some(key) = ledger.episode_key(&call.episode) else { return Ok(None) };
        let Some(Event { at, seq, body: Body::Intent(intent), .. }) = self.read(row.seq)? else {
            return Ok(None);
        };
        let opened = ledger.opening(&call.episode, seq)?.unwrap_or_default();
        let name = opened.refs.first().map(|hash| format!("sha256:{}", hex(hash)));
        let request = match opened.refs.first() {
            Some(hash) => ledger.object(Some(&call.episode), hash)?,
            None => None,
        };
        let object = |found: Option<(_, Vec<u8>)>| {
            NewObject::new(Some(&call.episode), found.map(|(_, bytes)| bytes).unwrap_or_default())
        };
        // An opening lists plan before input.
        let planned = object(self.named(&call.episode, plan, 0)?);
        let input = object(self.named(&call.episode, plan, 1)?);
        let of = Invocation {
            service: self.clone(),
            front: call.front,
            tool: call.tool,
            session: call.session,
            transition: call.transition,
            episode: call.episode.clone(),
            inv: call.inv,
            key,
            claim: call.claim,
            input,
            plan: planned,
        };
        let request = request.and_then(|bytes| parse(&bytes).ok());
        let recorded = call.outcome.is_some();
        Ok(Some(Open { of, plan, recorded, intent, seq, at, files: opened.files, name, request }))
    }

    fn judge(&self, open: &Open) -> (Verdict, Evidence) {
        if open.recorded {
            return (Verdict::Unrecorded, Evidence::Record);
        }
        if open.intent.files.is_empty() && handlers::leaves_files_only(&open.intent.effect) {
            return (Verdict::NotHappened, Evidence::Harmless);
        }
        let root = self.inner.workspace.join(open.of.episode.as_str());
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

    fn close(
        &self,
        open: &Open,
        verdict: Verdict,
        evidence: Evidence,
        by: ClosedBy,
    ) -> (Submission, String) {
        let of = (open.seq, open.intent.cost);
        let Closing { draft, record } =
            open.of.closing(of, (verdict, evidence), by, open.name.clone());
        let name = record.reference();
        let mut submission =
            Submission { drafts: vec![draft], objects: vec![record], keys: Vec::new() };
        if verdict == Verdict::Landed {
            let (drafts, objects) = self.landed(open);
            submission.drafts.extend(drafts);
            submission.objects.extend(objects);
        }
        (submission, name)
    }

    /// Outcome and commit of an effect that landed: what its handler would have answered.
    fn landed(&self, open: &Open) -> (Vec<Draft>, Vec<NewObject>) {
        let own = handlers::landed(&self.inner.context);
        let evidence = open.request.as_ref().and_then(|request| request.get("evidence").cloned());
        let after = open.files.iter().filter(|file| file.second.is_some());
        let seen = |file: &OpenFile| OpenFile {
            path: file.path.clone(),
            first: file.second,
            second: None,
        };
        let planned = Planned {
            id: "e1".to_owned(),
            effect: open.intent.effect.clone(),
            scope: open.intent.scope.clone(),
            cost: open.intent.cost,
            payload: Value::Null,
            finish: false,
        };
        let ended = Ended {
            status: Status::Ok,
            denial: None,
            failure: None,
            evidence: evidence.unwrap_or(Value::Null),
            request: open.name.clone(),
            result: Some(open.of.object(&own)),
            seen: after.map(seen).collect(),
            before: open.intent.before,
            charge: open.intent.cost,
            started: open.at,
            recovered: true,
        };
        let Account { outcome, record, mut objects } =
            open.of.account(&planned, open.plan, Some(open.seq), ended);
        let effects = vec![effect_value("e1", Status::Ok, &record)];
        let reply: Reply = open.of.reply(own, effects, None);
        objects.push(reply.output.clone());
        let commit = open.of.commit_draft(open.plan, Some(prior(1)), &reply);
        (vec![outcome, commit], objects)
    }
}

/// Why a doubt was not settled.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is none.
    #[error("no call of that name is in doubt; `worldlog unresolved` lists those that are")]
    NotInDoubt,
    /// The log did not take it.
    #[error(transparent)]
    Refused(#[from] Refused),
}

#[expect(clippy::needless_pass_by_value, reason = "errors are handed over by `map_err`")]
fn in_words(error: StoreError) -> Refused {
    Refused::NotCommitted(error.to_string())
}
