//! A file of a worktree as it stood at any moment, from what calls recorded of it.
//!
//! The calls of the log are looked through backwards, at most [`FILES_SEARCH_MAX`] of them: each names the files that it changed by
//! tokens, which need no opening to be compared. What changed a file without a call is not in the log, and neither is it here.

use super::{Caller, Service};
use crate::canon::{Value, parse};
use crate::event::blind::EpisodeKey;
use crate::event::{Body, Commit, EpisodeName, Event, Intent, Outcome, Status, hex};
use crate::limits::FILES_SEARCH_MAX;
use crate::merkle::hash::{Hash, sha256};
use crate::state::State;
use crate::store::StoreError;
use base64ct::{Base64, Encoding};

/// Entries read at once.
const PAGE: u64 = 500;

/// What is known of a file at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileView {
    /// Its path beneath the worktree.
    pub path: String,
    /// The call that changed it last.
    pub change: Option<FileChanged>,
    /// Entry before which nothing was looked at; none when all were.
    pub searched_to: Option<u64>,
}

/// The last change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChanged {
    /// SHA-256 of its content after it; none when it was removed.
    pub hash: Option<Hash>,
    /// Its bytes, when they are recorded.
    pub bytes: Option<Vec<u8>>,
    /// Seq of the commit.
    pub leaf: u64,
    /// The invocation.
    pub invocation: String,
}

impl FileView {
    /// `{"path","state","sha256"?,"size"?,"leaf"?,"invocation"?,"payload"?,"content"?,"searched_to"?}`.
    pub fn to_value(&self, payload: bool) -> Value {
        let mut members = vec![("path", Value::from(self.path.as_str()))];
        let state = match (&self.change, self.searched_to) {
            (Some(FileChanged { hash: Some(_), .. }), _) => "present",
            (Some(_), _) => "absent",
            (None, Some(_)) => "unknown",
            (None, None) => "never-written",
        };
        members.push(("state", state.into()));
        if let Some(entry) = self.searched_to.filter(|_| self.change.is_none()) {
            members.push(("searched_to", entry.into()));
        }
        if let Some(change) = &self.change {
            members.push(("leaf", change.leaf.into()));
            members.push(("invocation", change.invocation.as_str().into()));
            if let Some(hash) = &change.hash {
                members.push(("sha256", format!("sha256:{}", hex(hash)).into()));
                match &change.bytes {
                    Some(bytes) => {
                        members.push(("size", (bytes.len() as u64).into()));
                        if payload {
                            members.push(("payload", Base64::encode_string(bytes).into()));
                        }
                    }
                    None => members.push(("content", "not recorded".into())),
                }
            }
        }
        Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Why a file is not shown.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No such episode that the caller may see.
    #[error("episode not found")]
    NotFound,
    /// Its payloads are gone.
    #[error("the payloads of the episode were redacted")]
    Redacted,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// The file at `path` as the calls committed up to leaf `at` left it; the newest state without `at`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn file_at(
        &self,
        caller: &Caller,
        episode: &EpisodeName,
        path: &str,
        at: Option<u64>,
    ) -> Result<FileView, FileError> {
        let ledger = &self.inner.ledger;
        let known = ledger.with_state(|state| state.episodes_by_name.get(episode).is_some());
        if !known || !super::view::may_see(caller, Some(episode)) {
            return Err(FileError::NotFound);
        }
        let key = ledger.episode_key(episode).ok_or(FileError::Redacted)?;
        let entries = ledger.with_state(State::entries);
        let least = entries.saturating_sub(FILES_SEARCH_MAX);
        let mut end = entries;
        while end > least {
            let from = end.saturating_sub(PAGE).max(least);
            let count = usize::try_from(end - from).unwrap_or(0);
            for event in ledger.entries(from, count)?.iter().rev() {
                if at.is_some_and(|at| event.seq > at) {
                    continue;
                }
                if let Some(change) = self.change_of(event, episode, path, &key)? {
                    return Ok(FileView {
                        path: path.to_owned(),
                        change: Some(change),
                        searched_to: None,
                    });
                }
            }
            end = from;
        }
        let searched_to = (least > 0).then_some(least);
        Ok(FileView { path: path.to_owned(), change: None, searched_to })
    }

    /// What the call of a commit did to the file.
    fn change_of(
        &self,
        event: &Event,
        episode: &EpisodeName,
        path: &str,
        key: &EpisodeKey,
    ) -> Result<Option<FileChanged>, StoreError> {
        let Event {
            body: Body::Commit(Commit { plan, outcome: Some(outcome), .. }),
            ep: Some(ep),
            inv: Some(inv),
            seq,
            ..
        } = event
        else {
            return Ok(None);
        };
        if ep.name != *episode {
            return Ok(None);
        }
        let outcome = self.read(*outcome)?.map(|event| event.body);
        let Some(Body::Outcome(Outcome { intent: Some(intent), status: Status::Ok, .. })) = outcome
        else {
            return Ok(None);
        };
        let Some(Event { body: Body::Intent(Intent { files, .. }), .. }) = self.read(intent)?
        else {
            return Ok(None);
        };
        let token = key.path(path);
        let Some(after) =
            files.iter().find(|(path, ..)| *path == token).map(|(_, _, after)| *after)
        else {
            return Ok(None);
        };
        let opening = self.inner.ledger.opening(episode, intent)?.unwrap_or_default();
        let opened = opening.files.iter().find(|file| file.path == path);
        // The handler may have refused after all: then nothing was changed, and the answer says so.
        let answer = self.answer_at(*seq)?;
        if answer.is_some_and(|answer| answer.problem.is_some()) {
            return Ok(None);
        }
        let hash = opened
            .and_then(|file| file.second)
            .filter(|hash| after.is_some_and(|after| key.content(hash) == after));
        let before = opened.and_then(|file| file.first);
        let bytes = match hash {
            Some(hash) => self.content(episode, *plan, before, hash)?,
            None => None,
        };
        Ok(Some(FileChanged { hash, bytes, leaf: *seq, invocation: inv.to_string() }))
    }

    /// Bytes with this hash: an object that a later change kept, or what the plan at `plan` made of those before.
    fn content(
        &self,
        episode: &EpisodeName,
        plan: u64,
        before: Option<Hash>,
        hash: Hash,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let ledger = &self.inner.ledger;
        if let Some(bytes) = ledger.object(Some(episode), &hash)? {
            return Ok(Some(bytes));
        }
        let Some((_, plan)) = self.named(episode, plan, 0)? else { return Ok(None) };
        let plan = parse(&plan).unwrap_or(Value::Null);
        let effects = plan.get("effects").and_then(Value::as_array).unwrap_or_default();
        let Some(payload) = effects.first().and_then(|effect| effect.get("payload")) else {
            return Ok(None);
        };
        let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::as_bytes);
        let made = match (text("content"), text("old_text"), text("new_text"), before) {
            (Some(content), ..) => Some(content.to_vec()),
            (None, Some(old), Some(new), Some(before)) => {
                ledger.object(Some(episode), &before)?.and_then(|bytes| replaced(&bytes, old, new))
            }
            _ => None,
        };
        Ok(made.filter(|bytes| sha256(bytes) == hash))
    }
}

/// `bytes` with the first `old` replaced.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let (count, first) = crate::handlers::occurrences(bytes, old);
    let (head, rest) = bytes.split_at_checked(first).filter(|_| count > 0)?;
    Some([head, new, rest.get(old.len()..)?].concat())
}
