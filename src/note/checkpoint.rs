//! Checkpoints (C2SP tlog-checkpoint v1.0.0): the text of the note that states a log's head, and whom to believe.
//!
//! ```text
//! <origin> LF
//! <size: decimal, no leading zero> LF
//! <root: base64 of 32 bytes> LF
//! (<extension line, not empty> LF)*        represented, never written by us, refused in our log
//! ```
//!
//! [`Policy::open`] is the one way to a [`VerifiedCheckpoint`]: from the bytes of a note, under keys that came from
//! somewhere else. Comparing it with earlier heads is the caller's work; heads are ordered by size, never by time.

use base64ct::{Base64, Encoding};

use crate::limits;
use crate::merkle::hash::{EMPTY_ROOT, Hash};
use crate::merkle::{Head, Hex};
use crate::note::key::{KeyError, KeyId, KeyType, Keyring, NameError, VerifierKey, check_name};
use crate::note::{Note, NoteError, Signed, parse_decimal, parse_hash};

/// Why a text is no checkpoint, or a note is not a checkpoint of the log that was expected. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It is no well-formed note, or its signatures are refused.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The last line is not ended.
    #[error("checkpoint does not end in a line feed")]
    NoFinalNewline,
    /// Fewer than three lines.
    #[error("checkpoint has {lines} lines instead of three")]
    TooShort {
        /// As given.
        lines: usize,
    },
    /// The first line is empty or longer than `ORIGIN_BYTES_MAX`.
    #[error("line 1: origin has {bytes} bytes instead of 1 to {max}", max = limits::ORIGIN_BYTES_MAX)]
    OriginBytes {
        /// As given.
        bytes: usize,
    },
    /// The second line is not a decimal number that fits 64 bits, in its one form.
    #[error(
        "line 2: size is not a decimal number without sign, leading zeros or more than 64 bits"
    )]
    Size,
    /// The size is above `TREE_LEAVES_MAX`.
    #[error("line 2: size {size} is larger than a tree may be")]
    SizeTooLarge {
        /// As given.
        size: u64,
    },
    /// The third line is not the base64 of 32 bytes, in its one form.
    #[error("line 3: root is not the canonical base64 of 32 bytes")]
    Root,
    /// An extension line is empty, so that the text could be taken for another one.
    #[error("line {line}: extension line is empty")]
    EmptyExtension {
        /// The line.
        line: usize,
    },
    /// Extension lines under a policy that refuses them.
    #[error("line 4: {lines} extension lines, which this log does not have")]
    Extensions {
        /// How many.
        lines: usize,
    },
    /// The size is 0 and the root is not that of the empty tree.
    #[error("line 3: size 0 with the root {root}, which is not that of the empty tree", root = Hex(root))]
    EmptyRoot {
        /// As given.
        root: Hash,
    },
    /// The checkpoint is of another log.
    #[error("line 1: origin is {actual:?}, not {expected:?}")]
    OtherOrigin {
        /// The policy's.
        expected: String,
        /// As given.
        actual: String,
    },
    /// There are verified signatures, but none is of the log itself.
    #[error("no signature is of a key of the log")]
    NotByTheLog,
    /// Fewer witnesses than the policy asks for.
    #[error("{actual} of {needed} witnesses have cosigned")]
    Quorum {
        /// What the policy asks for.
        needed: usize,
        /// Different trusted witness keys with a verified cosignature.
        actual: usize,
    },
}

/// Why keys do not make a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The origin is no key name, and ours always is one.
    #[error("origin {0}")]
    Origin(#[from] NameError),
    /// Two keys are the same.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// There is no key of the log.
    #[error("no key of the log is given")]
    NoLogKey,
    /// A key of the log is not named as the log.
    #[error("the key {name} is not named as the log {origin}")]
    LogKeyName {
        /// The key's name.
        name: String,
        /// The log's origin.
        origin: String,
    },
    /// A key of the log has type 0x04, which only a witness has.
    #[error("the key {name}+{id} of the log has the type of a witness", id = Hex(id))]
    LogKeyType {
        /// The key's name.
        name: String,
        /// The key's id.
        id: KeyId,
    },
    /// A witness key has type 0x01, or the name of the log.
    #[error("the key {name}+{id} is not one of a witness", id = Hex(id))]
    WitnessKey {
        /// The key's name.
        name: String,
        /// The key's id.
        id: KeyId,
    },
    /// More witnesses are asked for than there are.
    #[error("a quorum of {quorum} cannot be reached by {witnesses} witnesses")]
    Quorum {
        /// What is asked for.
        quorum: usize,
        /// How many there are.
        witnesses: usize,
    },
}

/// What a checkpoint states, whoever signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    origin: String,
    head: Head,
    extensions: Vec<String>,
}

impl Checkpoint {
    /// The checkpoint of a log with this origin and head, without extension lines. Refuses what does not parse.
    pub fn new(origin: &str, head: Head) -> Result<Self, CheckpointError> {
        Self::parse(&Self { origin: origin.to_owned(), head, extensions: Vec::new() }.to_string())
    }

    /// Parses the text of a note. The checks are made in the order of the variants of [`CheckpointError`].
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        let text = text.strip_suffix('\n').ok_or(CheckpointError::NoFinalNewline)?;
        let mut lines = text.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(CheckpointError::TooShort { lines: text.split('\n').count() });
        };
        if origin.is_empty() || origin.len() > limits::ORIGIN_BYTES_MAX {
            return Err(CheckpointError::OriginBytes { bytes: origin.len() });
        }
        let size = parse_decimal(size).ok_or(CheckpointError::Size)?;
        if size > limits::TREE_LEAVES_MAX {
            return Err(CheckpointError::SizeTooLarge { size });
        }
        let root = parse_hash(root).ok_or(CheckpointError::Root)?;
        let extensions: Vec<String> = lines.map(str::to_owned).collect();
        if let Some(at) = extensions.iter().position(String::is_empty) {
            return Err(CheckpointError::EmptyExtension { line: at + 4 });
        }
        if size == 0 && root != EMPTY_ROOT {
            return Err(CheckpointError::EmptyRoot { root });
        }
        Ok(Self { origin: origin.to_owned(), head: Head { size, root }, extensions })
    }

    /// The first line: which log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Size and root.
    pub fn head(&self) -> Head {
        self.head
    }

    /// The lines after the third. Nobody vouches for what they say.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }
}

impl std::fmt::Display for Checkpoint {
    /// The text of the note: what is signed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let root = Base64::encode_string(&self.head.root);
        write!(f, "{}\n{}\n{root}\n", self.origin, self.head.size)?;
        self.extensions.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Whether extension lines are taken in somebody else's checkpoint. In ours they never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensions {
    /// A checkpoint with extension lines is refused.
    Refuse,
    /// They are represented and otherwise ignored.
    Allow,
}

/// Whom to believe about one log.
#[derive(Clone, Debug)]
pub struct Policy {
    origin: String,
    /// Keys of the log, then of the witnesses; each public key is there once.
    keys: Keyring,
    log_keys: usize,
    quorum: usize,
    extensions: Extensions,
}

impl Policy {
    /// The log `origin` with its keys (at least one, named as the origin, of type 0x01 or 0x06), and the witnesses of
    /// which `quorum` must have cosigned (types 0x04 and 0x06). Extension lines are refused.
    pub fn new(
        origin: &str,
        log: Vec<VerifierKey>,
        witnesses: Vec<VerifierKey>,
        quorum: usize,
    ) -> Result<Self, PolicyError> {
        check_name(origin)?;
        if log.is_empty() {
            return Err(PolicyError::NoLogKey);
        }
        for key in &log {
            let name = key.name().to_owned();
            if name != origin {
                return Err(PolicyError::LogKeyName { name, origin: origin.to_owned() });
            }
            if key.kind() == KeyType::Ed25519Cosignature {
                return Err(PolicyError::LogKeyType { name, id: key.id() });
            }
        }
        for key in &witnesses {
            if key.kind() == KeyType::Ed25519 || key.name() == origin {
                return Err(PolicyError::WitnessKey { name: key.name().to_owned(), id: key.id() });
            }
        }
        if quorum > witnesses.len() {
            return Err(PolicyError::Quorum { quorum, witnesses: witnesses.len() });
        }
        let log_keys = log.len();
        let keys = Keyring::new(log.into_iter().chain(witnesses).collect())?;
        let extensions = Extensions::Refuse;
        Ok(Self { origin: origin.to_owned(), keys, log_keys, quorum, extensions })
    }

    /// The same policy with another answer to extension lines.
    #[must_use]
    pub fn with_extensions(self, extensions: Extensions) -> Self {
        Self { extensions, ..self }
    }

    /// The origin of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The keys of the log.
    pub fn log_keys(&self) -> &[VerifierKey] {
        self.keys.keys().get(..self.log_keys).unwrap_or_default()
    }

    /// Verifies the bytes of a checkpoint note: form, origin, every line of a known key, at least one of them of the
    /// log, and the quorum of witnesses.
    pub fn open(&self, bytes: &[u8]) -> Result<VerifiedCheckpoint, CheckpointError> {
        self.open_note(&Note::parse(bytes)?)
    }

    /// The same for a note that is parsed already.
    pub fn open_note(&self, note: &Note) -> Result<VerifiedCheckpoint, CheckpointError> {
        let checkpoint = Checkpoint::parse(note.text())?;
        if checkpoint.origin != self.origin {
            let (expected, actual) = (self.origin.clone(), checkpoint.origin);
            return Err(CheckpointError::OtherOrigin { expected, actual });
        }
        if self.extensions == Extensions::Refuse && !checkpoint.extensions.is_empty() {
            return Err(CheckpointError::Extensions { lines: checkpoint.extensions.len() });
        }
        // Witnesses are never named as the log, so the name tells who signed.
        let (log, witnesses): (Vec<_>, Vec<_>) =
            note.verify(&self.keys)?.into_iter().partition(|signed| signed.name == self.origin);
        if log.is_empty() {
            return Err(CheckpointError::NotByTheLog);
        }
        if witnesses.len() < self.quorum {
            return Err(CheckpointError::Quorum { needed: self.quorum, actual: witnesses.len() });
        }
        Ok(VerifiedCheckpoint { checkpoint, log, witnesses })
    }
}

/// A checkpoint that a policy's keys have signed: made by [`Policy::open`] only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedCheckpoint {
    checkpoint: Checkpoint,
    log: Vec<Signed>,
    witnesses: Vec<Signed>,
}

impl VerifiedCheckpoint {
    /// The log.
    pub fn origin(&self) -> &str {
        &self.checkpoint.origin
    }

    /// Size and root.
    pub fn head(&self) -> Head {
        self.checkpoint.head
    }

    /// What was verified, with its extension lines if the policy takes any.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The verified signatures of the log itself: one or more.
    pub fn log(&self) -> &[Signed] {
        &self.log
    }

    /// The verified cosignatures of trusted witnesses: each of another public key.
    pub fn witnesses(&self) -> &[Signed] {
        &self.witnesses
    }
}
