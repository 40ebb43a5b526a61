//! What a person says: approvals of calls under a `confirm` grant, and stopping an episode.
//!
//! An approval is for one session and one token, and is used up by the intent that it lets through. The token fixes the plan,
//! the files as they stand and how often the same was done before, so that what runs is what the person saw.

use super::Service;
use super::admin::AdminError;
use crate::canon::{Value, parse};
use crate::event::{
    Approval, ApprovalVerdict, B16, B32, Body, Denial, EpisodeName, Event, Freeze, Outcome,
};
use crate::ledger::{Draft, Submission};
use crate::limits::APPROVALS_SEARCH_MAX;
use crate::state::State;
use crate::store::StoreError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;

/// Whose call a token is, for the newest previews. Lost with the process: then the operator names the session.
#[derive(Debug, Default)]
pub(super) struct Previews {
    sessions: BTreeMap<String, B16>,
    order: VecDeque<String>,
}

impl Previews {
    fn put(&mut self, token: &str, session: B16) {
        if self.sessions.insert(token.to_owned(), session).is_none() {
            self.order.push_back(token.to_owned());
        }
        while self.order.len() as u64 > APPROVALS_SEARCH_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.sessions.remove(&oldest);
            }
        }
    }
}

/// A call that a person has to approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What approves it.
    pub token: String,
    /// Whose call it is.
    pub session: B16,
    /// Its episode.
    pub episode: EpisodeName,
    /// The denied invocation.
    pub invocation: String,
    /// The tool.
    pub tool: String,
    /// The arguments; null when they are gone.
    pub args: Value,
    /// Unix milliseconds of the denial.
    pub at: u64,
}

impl Service {
    pub(super) fn remember_preview(&self, token: &str, session: B16) {
        let previews = &self.inner.previews;
        previews.lock().unwrap_or_else(PoisonError::into_inner).put(token, session);
    }

    /// Calls among the newest entries that were denied for want of an approval, and that nobody has answered yet, oldest
    /// first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        let ledger = &self.inner.ledger;
        let from = ledger.with_state(State::entries).saturating_sub(APPROVALS_SEARCH_MAX);
        let commits = ledger.entries(from, usize::try_from(APPROVALS_SEARCH_MAX).unwrap_or(0))?;
        let mut waiting: BTreeMap<(B16, String), Waiting> = BTreeMap::new();
        for event in commits {
            if let Some(found) = self.waits(&event)? {
                waiting.insert((found.session, found.token.clone()), found);
            }
        }
        let mut waiting: Vec<_> = waiting.into_values().collect();
        waiting.sort_by_key(|call| call.at);
        Ok(waiting)
    }

    fn waits(&self, event: &Event) -> Result<Option<Waiting>, StoreError> {
        let Event { body: Body::Commit(commit), ep: Some(ep), inv: Some(inv), at, .. } = event
        else {
            return Ok(None);
        };
        let Some(outcome) = commit.outcome else { return Ok(None) };
        let denied = matches!(
            self.read(outcome)?.map(|event| event.body),
            Some(Body::Outcome(Outcome { denial: Some(Denial::Approval), .. }))
        );
        if !denied {
            return Ok(None);
        }
        let Some((_, plan)) = self.read_plan(commit.plan)? else { return Ok(None) };
        let Some(session) = plan.session else { return Ok(None) };
        let record = self.named(&ep.name, outcome, 0)?.and_then(|(_, bytes)| parse(&bytes).ok());
        let Some(token) = record.as_ref().and_then(super::answer::token_of) else {
            return Ok(None);
        };
        if !self.unanswered(&ep.name, session, &token) {
            return Ok(None);
        }
        // An opening lists plan before input.
        let args = self.named(&ep.name, commit.plan, 1)?.and_then(|(_, bytes)| parse(&bytes).ok());
        Ok(Some(Waiting {
            token,
            session,
            episode: ep.name.clone(),
            invocation: inv.to_string(),
            tool: plan.tool,
            args: args.unwrap_or(Value::Null),
            at: *at,
        }))
    }

    /// The session is live, and nobody has said anything about the token.
    fn unanswered(&self, episode: &EpisodeName, session: B16, token: &str) -> bool {
        let Some(key) = self.inner.ledger.episode_key(episode) else { return false };
        let (token, now) = (key.token(token), self.now());
        self.inner.ledger.with_state(|state| {
            let row = state.sessions.get(&session);
            let live = row.is_some_and(|row| row.revoked.is_none() && now < row.expires);
            let answer = state.approvals.get(&(session, token));
            live && answer.is_none_or(|row| now >= row.until)
        })
    }

    /// Says yes or no to the call that `token` fixes, for `ttl_s` seconds. Without `session` the call is looked for among
    /// those that wait and the newest previews.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn approve(
        &self,
        token: &str,
        session: Option<B16>,
        verdict: ApprovalVerdict,
        ttl_s: u64,
    ) -> Result<B16, AdminError> {
        if token.strip_prefix("sha256:").and_then(B32::from_hex).is_none() {
            let text = "a token is sha256: and 64 lowercase hexadecimal digits";
            return Err(AdminError::Invalid(text.to_owned()));
        }
        let session = match session {
            Some(session) => session,
            None => self.session_of(token)?,
        };
        let row = self.inner.ledger.with_state(|state| state.sessions.get(&session).cloned());
        let episode = row.and_then(|row| row.episode);
        let episode = episode.ok_or_else(|| {
            AdminError::Invalid(format!("no agent's session has the name {session}"))
        })?;
        let key = self.inner.ledger.episode_key(&episode).ok_or_else(|| {
            AdminError::Invalid(format!("the payloads of episode {episode} were redacted"))
        })?;
        let approval = Approval {
            by: None,
            token: key.token(token),
            until: self.now().saturating_add(ttl_s.saturating_mul(1000)),
            session,
            verdict,
        };
        let drafts = vec![Draft::plain(Some(&episode), approval)];
        self.inner.ledger.commit_blocking(Submission { drafts, ..Submission::default() })?;
        Ok(session)
    }

    fn session_of(&self, token: &str) -> Result<B16, AdminError> {
        let previews = self.inner.previews.lock().unwrap_or_else(PoisonError::into_inner);
        let previewed = previews.sessions.get(token).copied();
        drop(previews);
        if let Some(session) = previewed {
            return Ok(session);
        }
        let waiting = self.waiting().map_err(|error| AdminError::Invalid(error.to_string()))?;
        let found = waiting.into_iter().find(|call| call.token == token);
        found.map(|call| call.session).ok_or_else(|| {
            AdminError::Invalid(
                "no call that waits has this token, and no preview of this server made it: name its session with --session"
                    .to_owned(),
            )
        })
    }

    /// Stops new effects in `episode`, or everywhere, or lets them begin again. With `now` what runs there and has not passed
    /// its point of no return is stopped as at a deadline.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn freeze(&self, episode: Option<&str>, frozen: bool, now: bool) -> Result<(), AdminError> {
        let episode = match episode {
            Some(text) => Some(self.known_episode(text)?),
            None => None,
        };
        let drafts = vec![Draft::plain(episode.as_ref(), Freeze { frozen })];
        self.inner.ledger.commit_blocking(Submission { drafts, ..Submission::default() })?;
        if frozen && now {
            let slots = self.inner.episodes.lock().unwrap_or_else(PoisonError::into_inner);
            let hit =
                slots.iter().filter(|(name, _)| episode.as_ref().is_none_or(|ep| ep == *name));
            hit.for_each(|(_, slot)| slot.stop.notify_waiters());
        }
        Ok(())
    }

    /// The episode of this name.
    pub(super) fn known_episode(&self, text: &str) -> Result<EpisodeName, AdminError> {
        let name = EpisodeName::parse(text);
        let known = name.filter(|name| {
            self.inner.ledger.with_state(|state| state.episodes_by_name.get(name).is_some())
        });
        known.ok_or_else(|| AdminError::Invalid(format!("there is no episode {text:?}")))
    }
}
