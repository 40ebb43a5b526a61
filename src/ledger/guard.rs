//! The guard: the last released head, kept where a restored data directory does not bring it back to an earlier one.
//!
//! ```text
//! worldlog/guard/v1 LF
//! <verifier key of the log's heads> LF
//! <the signed head, or nothing before the first>
//! ```
//!
//! It is made and synced before genesis is committed, so that a log without a guard is never new. While heads advance it
//! is replaced once a second at least, and at shutdown: a restored store that lacks less than that last second is not
//! noticed by it (`spec/store.md` states the window).

use crate::durable;
use crate::note::Note;
use crate::note::checkpoint::Checkpoint;
use crate::note::key::VerifierKey;
use std::io;
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "worldlog/guard/v1";

/// Why a guard cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// It cannot be read or written.
    #[error("guard {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        error: io::Error,
    },
    /// It is no guard.
    #[error("guard {path} is malformed: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It guards another log.
    #[error("guard {path} belongs to the log with key {found}, not {expected}")]
    OtherLog {
        /// The file.
        path: PathBuf,
        /// The key in it.
        found: String,
        /// The key of this log.
        expected: String,
    },
}

/// The guard's place, and what it last held.
#[derive(Debug, Clone)]
pub struct Guard {
    path: PathBuf,
    key: String,
}

impl Guard {
    /// The guard of the log with this key at `path`.
    pub fn at(path: &Path, key: &VerifierKey) -> Self {
        Self { path: path.to_owned(), key: key.to_string() }
    }

    /// Where a guard lies unless the operator says otherwise: `$XDG_STATE_HOME/worldlog/<key id>.guard`, or below
    /// `~/.local/state`. `None` without a home.
    pub fn default_path(
        key: &VerifierKey,
        state_home: Option<PathBuf>,
        home: Option<PathBuf>,
    ) -> Option<PathBuf> {
        let base = state_home.filter(|path| path.is_absolute());
        let base = base.or_else(|| home.map(|home| home.join(".local/state")))?;
        Some(base.join("worldlog").join(format!("{}.guard", crate::event::hex(&key.id()))))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The signed head that it holds: `None` when there is no guard, empty before the first head.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn read(&self) -> Result<Option<Vec<u8>>, GuardError> {
        let malformed =
            |reason: &str| GuardError::Malformed { path: self.path.clone(), reason: reason.into() };
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(GuardError::File { path: self.path.clone(), error }),
        };
        let rest = text.strip_prefix(FIRST_LINE).and_then(|rest| rest.strip_prefix('\n'));
        let (key, head) = rest
            .and_then(|rest| rest.split_once('\n'))
            .ok_or_else(|| malformed("it has no first line that says so"))?;
        if key != self.key {
            let (found, expected) = (key.to_owned(), self.key.clone());
            return Err(GuardError::OtherLog { path: self.path.clone(), found, expected });
        }
        if !head.is_empty() {
            let note = Note::parse(head.as_bytes()).map_err(|e| malformed(&e.to_string()))?;
            Checkpoint::parse(note.text()).map_err(|e| malformed(&e.to_string()))?;
        }
        Ok(Some(head.as_bytes().to_vec()))
    }

    /// Replaces it; durable when this returns.
    ///
    /// # Errors
    /// [`GuardError::File`].
    pub fn write(&self, head: &str) -> Result<(), GuardError> {
        let text = format!("{FIRST_LINE}\n{}\n{head}", self.key);
        let written = self
            .path
            .parent()
            .map_or(Ok(()), durable::create_folder)
            .and_then(|()| durable::replace(&self.path, text.as_bytes(), 0o600));
        written.map_err(|error| GuardError::File { path: self.path.clone(), error })
    }
}
