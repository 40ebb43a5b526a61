//! A file of a worktree as it stood at any moment, from what calls recorded of it.
//!
//! An index beside the log leads from a path back through the intents that named it, so that a long log costs no more than a
//! short one; what counts is what the events say. A folder that is moved takes along what is in it, unnamed: so the folders
//! above a path are followed too. What changed a file without a call is not in the log, and neither is it here.

use super::{Caller, Service};
use crate::canon::{Value, parse};
use crate::event::blind::{EpisodeKey, OpenFile, Opening};
use crate::event::{B16, Body, EpisodeName, Event, Intent, Outcome, Status, Verdict, hex};
use crate::handlers::FOLDER;
use crate::ledger::Naming;
use crate::limits::{FILES_SEARCH_MAX, PATH_DEPTH_MAX};
use crate::merkle::hash::{Hash, sha256};
use crate::store::StoreError;
use base64ct::{Base64, Encoding};

/// Moves of folders that are followed back for one file.
const MOVES_MAX: usize = 16;

/// What is known of a file at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileView {
    /// Its path beneath the worktree.
    pub path: String,
    /// The call that changed it last.
    pub change: Option<FileChanged>,
    /// Leaf before which nothing was looked at; none when all was.
    pub searched_to: Option<u64>,
    /// A later call that may have changed it too: its end, and the invocation.
    pub doubt: Option<(u64, String)>,
}

/// The last change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChanged {
    /// What stands there after it; none when it was removed or moved away.
    pub content: Option<Content>,
    /// Seq of the commit.
    pub leaf: u64,
    /// The invocation.
    pub invocation: String,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A folder.
    Folder,
    /// A file, by the SHA-256 of its bytes; and those, when they are recorded.
    File(Hash, Option<Vec<u8>>),
}

impl FileView {
    /// `{"path","state","sha256"?,"size"?,"leaf"?,"invocation"?,"payload"?,"content"?,"searched_to"?,"in_doubt"?}`.
    pub fn to_value(&self, payload: bool) -> Value {
        let content = self.change.as_ref().map(|change| &change.content);
        let state = match (content, self.searched_to) {
            (Some(Some(Content::File(..))), _) => "present",
            (Some(Some(Content::Folder)), _) => "folder",
            (Some(None), _) => "absent",
            (None, Some(_)) => "unknown",
            (None, None) => "never-written",
        };
        let mut members = vec![("path", Value::from(self.path.as_str())), ("state", state.into())];
        if let Some(leaf) = self.searched_to.filter(|_| self.change.is_none()) {
            members.push(("searched_to", leaf.into()));
        }
        if let Some(change) = &self.change {
            members.push(("leaf", change.leaf.into()));
            members.push(("invocation", change.invocation.as_str().into()));
        }
        if let Some(Some(Content::File(hash, bytes))) = content {
            members.push(("sha256", format!("sha256:{}", hex(hash)).into()));
            match bytes {
                Some(bytes) => {
                    members.push(("size", (bytes.len() as u64).into()));
                    if payload {
                        members.push(("payload", Base64::encode_string(bytes).into()));
                    }
                }
                None => members.push(("content", "not recorded".into())),
            }
        }
        if let Some((leaf, invocation)) = &self.doubt {
            let call = crate::canon::object([
                ("invocation", invocation.as_str().into()),
                ("leaf", (*leaf).into()),
            ]);
            members.push(("in_doubt", call));
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
    #[error("{}", redacted(*.0))]
    Redacted(Option<u64>),
    /// The index does not reach so far yet.
    #[error("the index of paths is being made up; ask again in a second")]
    Behind,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What to say of an episode whose payloads are gone.
pub(super) fn redacted(leaf: Option<u64>) -> String {
    let at = leaf.map_or(String::new(), |leaf| format!(" at leaf {leaf}"));
    format!("the payloads of the episode were redacted{at}")
}

/// Whose files, and up to which leaf.
struct Moment<'a> {
    episode: &'a EpisodeName,
    key: EpisodeKey,
    at: u64,
}

/// A path that is followed back: the file's own, or that of a folder above it.
struct Track {
    path: String,
    token: B16,
    /// The newest intent that was not looked at.
    next: Option<u64>,
}

/// An intent that took effect.
struct Took {
    plan: u64,
    leaf: u64,
    invocation: String,
    files: Vec<OpenFile>,
}

impl Took {
    fn change(&self, content: Option<Content>) -> FileChanged {
        FileChanged { content, leaf: self.leaf, invocation: self.invocation.clone() }
    }
}

/// What an effect did to a folder, for what is in it.
enum Folder {
    /// Nothing.
    Untouched,
    /// Nothing is in it any more, or yet.
    Empty,
    /// It came from there, with all that was in it.
    Came(String),
}

/// What became of an intent, as of a moment.
enum Fate {
    Took(Took),
    /// It changed nothing, or not yet.
    Nothing,
    /// It may have changed something; the leaf that says so.
    Doubt(u64, String),
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
        let row = ledger.with_state(|state| state.episodes_by_name.get(episode).cloned());
        let row = row.filter(|_| super::view::may_see(caller, Some(episode)));
        let row = row.ok_or(FileError::NotFound)?;
        let key = ledger.episode_key(episode).filter(|_| !row.redacted);
        let Some(key) = key else { return Err(FileError::Redacted(ledger.redaction(episode)?)) };
        let at = at.unwrap_or(u64::MAX - 1);
        let mut steps = 0;
        self.trace(&Moment { episode, key, at }, path, &mut steps, MOVES_MAX)
    }

    /// Goes back through what named the path or a folder above it, to the first that says what stands there.
    fn trace(
        &self,
        moment: &Moment<'_>,
        path: &str,
        steps: &mut u64,
        moves: usize,
    ) -> Result<FileView, FileError> {
        let mut view =
            FileView { path: path.to_owned(), change: None, searched_to: None, doubt: None };
        let mut tracks = Vec::new();
        for path in above(path) {
            let token = moment.key.path(&path);
            let next = self.before(moment, &token, moment.at.saturating_add(1), &mut view)?;
            tracks.push(Track { path, token, next });
        }
        loop {
            // The path's own comes last: of one intent that names both, it says more.
            let newest = tracks.iter_mut().max_by_key(|track| track.next);
            let Some((track, seq)) = newest.and_then(|track| track.next.map(|seq| (track, seq)))
            else {
                return Ok(view);
            };
            *steps += 1;
            if *steps > FILES_SEARCH_MAX {
                view.searched_to = Some(seq);
                return Ok(view);
            }
            match self.fate(moment, seq)? {
                Fate::Nothing => {}
                Fate::Doubt(leaf, invocation) => {
                    view.doubt.get_or_insert((leaf, invocation));
                }
                Fate::Took(took) if track.path == path => {
                    view.change = self.own_change(moment, &took, path)?;
                }
                Fate::Took(took) => match folder_change(&took, &track.path) {
                    Folder::Untouched => {}
                    Folder::Empty => view.change = Some(took.change(None)),
                    Folder::Came(from) => {
                        let path = format!("{from}{}", path.get(track.path.len()..).unwrap_or(""));
                        self.moved_along(moment, (&path, seq), steps, moves, &mut view)?;
                        view.change = view.change.map(|was| took.change(was.content));
                        return Ok(view);
                    }
                },
            }
            if view.change.is_some() {
                return Ok(view);
            }
            track.next = self.before(moment, &track.token, seq, &mut view)?;
        }
    }

    /// The newest intent before leaf `before` that may name the path.
    fn before(
        &self,
        moment: &Moment<'_>,
        token: &B16,
        before: u64,
        view: &mut FileView,
    ) -> Result<Option<u64>, FileError> {
        match self.inner.ledger.named_before(moment.episode, token, before)? {
            Naming::Event(seq) => Ok(Some(seq)),
            Naming::Nothing => Ok(None),
            Naming::Behind => Err(FileError::Behind),
            Naming::Lost(seq) => {
                view.searched_to = Some(view.searched_to.unwrap_or(0).max(seq));
                Ok(None)
            }
        }
    }

    /// What became of the intent at `seq`, up to the moment.
    fn fate(&self, moment: &Moment<'_>, seq: u64) -> Result<Fate, StoreError> {
        let Some(Event { body: Body::Intent(intent), ep: Some(ep), inv: Some(inv), .. }) =
            self.read(seq)?
        else {
            return Ok(Fate::Nothing);
        };
        let found = self.inner.ledger.find(&inv)?;
        let (true, Some(found)) = (ep.name == *moment.episode, found) else {
            return Ok(Fate::Nothing);
        };
        let invocation = inv.to_string();
        let status = found.outcome.as_ref().map(|(_, Outcome { status, .. })| *status);
        let end = found.commit.as_ref().map(|(event, _)| event.seq);
        let end = end.or(found.closure.as_ref().map(|(event, _)| event.seq));
        if end.is_some_and(|end| end > moment.at) {
            return self.closed_by_then(moment, &inv);
        }
        Ok(match (&found.commit, &found.closure) {
            (Some((_, commit)), _) if status == Some(Status::Ok) && commit.refused => Fate::Nothing,
            (Some((event, _)), _) if status == Some(Status::Ok) => Fate::Took(Took {
                plan: intent.plan,
                leaf: event.seq,
                invocation,
                files: self.opened(moment, seq, &intent)?,
            }),
            (Some((event, _)), _) => Fate::Doubt(event.seq, invocation),
            (None, Some((event, closure))) if closure.verdict != Verdict::NotHappened => {
                Fate::Doubt(event.seq, invocation)
            }
            _ => Fate::Nothing,
        })
    }

    /// What was known of a call that ended later: it was under way, or in doubt until a person settled it.
    fn closed_by_then(&self, moment: &Moment<'_>, inv: &B16) -> Result<Fate, StoreError> {
        let before = moment.at.saturating_add(1);
        let Naming::Event(seq) = self.inner.ledger.named_before(moment.episode, inv, before)?
        else {
            return Ok(Fate::Nothing);
        };
        let closed = self.read(seq)?.filter(|event| event.inv == Some(*inv));
        Ok(match closed.map(|event| event.body) {
            Some(Body::Closure(_)) => Fate::Doubt(seq, inv.to_string()),
            _ => Fate::Nothing,
        })
    }

    /// The files of an intent in the clear, as far as they are those that it names.
    fn opened(
        &self,
        moment: &Moment<'_>,
        seq: u64,
        intent: &Intent,
    ) -> Result<Vec<OpenFile>, StoreError> {
        let opening = self.inner.ledger.opening(moment.episode, seq)?;
        let Opening { files, .. } = opening.unwrap_or_default();
        Ok(files.into_iter().filter(|f| intent.files.contains(&f.change(&moment.key))).collect())
    }

    /// What an effect left at a path that it named.
    fn own_change(
        &self,
        moment: &Moment<'_>,
        took: &Took,
        path: &str,
    ) -> Result<Option<FileChanged>, StoreError> {
        let Some(file) = took.files.iter().rev().find(|file| file.path == path) else {
            return Ok(None);
        };
        let content = match file.second {
            None => None,
            Some(hash) if hash == sha256(FOLDER) => Some(Content::Folder),
            Some(hash) => {
                let bytes = self.content(moment.episode, took.plan, file.first, hash)?;
                Some(Content::File(hash, bytes))
            }
        };
        Ok(Some(took.change(content)))
    }

    /// What stood at `path` before the intent at `seq` moved the folder that it is in.
    fn moved_along(
        &self,
        moment: &Moment<'_>,
        (path, seq): (&str, u64),
        steps: &mut u64,
        moves: usize,
        view: &mut FileView,
    ) -> Result<(), FileError> {
        let Some(moves) = moves.checked_sub(1) else {
            view.searched_to = Some(seq);
            return Ok(());
        };
        let (episode, key) = (moment.episode, moment.key.clone());
        let earlier = Moment { episode, key, at: seq.saturating_sub(1) };
        let was = self.trace(&earlier, path, steps, moves)?;
        view.change = was.change;
        view.searched_to = view.searched_to.max(was.searched_to);
        if view.doubt.is_none() {
            view.doubt = was.doubt;
        }
        Ok(())
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

fn folder_change(took: &Took, folder: &str) -> Folder {
    let is_folder = |hash: Option<Hash>| hash == Some(sha256(FOLDER));
    let Some(file) = took.files.iter().find(|file| file.path == folder) else {
        return Folder::Untouched;
    };
    if !is_folder(file.second) {
        // It went, or what stands there now is no folder; a file that stood there had nothing in it either.
        return Folder::Empty;
    }
    let from = took.files.iter().find(|other| is_folder(other.first) && other.second.is_none());
    match (from, file.first) {
        (Some(from), _) => Folder::Came(from.path.clone()),
        (None, None) => Folder::Empty,
        (None, Some(_)) => Folder::Untouched,
    }
}

/// The folders above a path, and the path itself as the last.
fn above(path: &str) -> Vec<String> {
    let ends = path.match_indices('/').map(|(at, _)| at).take(PATH_DEPTH_MAX);
    let folders = ends.filter_map(|at| path.get(..at)).filter(|folder| !folder.is_empty());
    folders.map(str::to_owned).chain([path.to_owned()]).collect()
}
