//! `.tlog-proof` files (C2SP tlog-proof v1): one leaf, its inclusion proof, and the checkpoint that it leads to.
//!
//! ```text
//! c2sp.org/tlog-proof@v1
//! extra <base64, at least one byte>       optional; authenticated by nobody
//! index <decimal>
//! <base64 of 32 bytes>                    0 to 63 lines: the leaf's sibling first
//! <empty line>
//! <the checkpoint note, with all its signature lines>
//! ```
//!
//! The file does not hold the leaf. Whoever verifies brings its bytes and hashes them, so a proof cannot be shown for
//! another artifact than the one at hand. It says nothing about growth: two files of one log are compared by a
//! consistency proof elsewhere.

use base64ct::{Base64, Encoding};

use crate::limits;
use crate::merkle::hash::{Hash, leaf_hash};
use crate::merkle::proof::{Included, ProofError, verify_inclusion};
use crate::note::checkpoint::{CheckpointError, Policy, VerifiedCheckpoint};
use crate::note::{Note, NoteError, parse_decimal, parse_hash};

/// The first line.
const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// Why a `.tlog-proof` is refused. Lines count from 1, at the beginning of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// More bytes than `PROOF_FILE_BYTES_MAX`.
    #[error("file has {bytes} bytes, more than {max}", max = limits::PROOF_FILE_BYTES_MAX)]
    TooLong {
        /// As given.
        bytes: usize,
    },
    /// No empty line, so no checkpoint.
    #[error("file has no empty line before a checkpoint")]
    NoCheckpoint,
    /// Another first line.
    #[error("line 1: not c2sp.org/tlog-proof@v1")]
    Header,
    /// The `extra` line holds nothing, too much, or no canonical base64.
    #[error("line 2: extra is not the canonical base64 of 1 to {max} bytes", max = limits::PROOF_EXTRA_BYTES_MAX)]
    Extra,
    /// No `index` line where one belongs, or not a decimal number in its one form.
    #[error("line {line}: not an index line with a decimal number")]
    Index {
        /// The line.
        line: usize,
    },
    /// More hashes than `PROOF_HASHES_MAX`.
    #[error("proof has {hashes} hashes, more than {max}", max = limits::PROOF_HASHES_MAX)]
    TooManyHashes {
        /// As given.
        hashes: usize,
    },
    /// A proof line that is not the base64 of 32 bytes, in its one form.
    #[error("line {line}: not the canonical base64 of 32 bytes")]
    Hash {
        /// The line.
        line: usize,
    },
    /// The part after the empty line is no well-formed note. Its lines count from its own first one.
    #[error("checkpoint: {0}")]
    Note(#[from] NoteError),
    /// The checkpoint is refused by the policy.
    #[error("checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The leaf is not the one at this index of this tree.
    #[error("inclusion: {0}")]
    Inclusion(#[from] ProofError),
}

/// A well-formed `.tlog-proof`, of which nothing is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    extra: Option<Vec<u8>>,
    index: u64,
    proof: Vec<Hash>,
    note: Note,
}

/// What a `.tlog-proof` has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedBundle {
    /// The leaf and its place in the tree.
    pub included: Included,
    /// The checkpoint, and who signed it.
    pub checkpoint: VerifiedCheckpoint,
}

impl Bundle {
    /// The proof of leaf `index` under the checkpoint in `note`. Refused like a parsed one.
    pub fn new(index: u64, proof: Vec<Hash>, note: Note) -> Result<Self, BundleError> {
        Self::parse(Self { extra: None, index, proof, note }.to_string().as_bytes())
    }

    /// The same with `extra` data, which nobody authenticates.
    pub fn with_extra(self, extra: Vec<u8>) -> Result<Self, BundleError> {
        Self::parse(Self { extra: Some(extra), ..self }.to_string().as_bytes())
    }

    /// Parses a file. The checks are made in the order of the variants of [`BundleError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        if bytes.len() > limits::PROOF_FILE_BYTES_MAX {
            return Err(BundleError::TooLong { bytes: bytes.len() });
        }
        // No line of the first part is empty, so the first empty line ends it.
        let at = bytes.windows(2).position(|pair| pair == b"\n\n");
        let (head, note) =
            at.and_then(|at| bytes.split_at_checked(at + 2)).ok_or(BundleError::NoCheckpoint)?;
        let mut lines =
            (1..).zip(head.strip_suffix(b"\n\n").unwrap_or(head).split(|b| *b == b'\n'));
        let mut next = || lines.next().unwrap_or((0, b""));
        if next().1 != HEADER.as_bytes() {
            return Err(BundleError::Header);
        }
        let (mut line, mut text) = next();
        let mut extra = None;
        if let Some(base64) = text.strip_prefix(b"extra ") {
            extra = Some(parse_extra(base64).ok_or(BundleError::Extra)?);
            (line, text) = next();
        }
        let index = parse_index(text).ok_or(BundleError::Index { line: line.max(2) })?;
        let hashes: Vec<_> = lines.collect();
        if hashes.len() > limits::PROOF_HASHES_MAX {
            return Err(BundleError::TooManyHashes { hashes: hashes.len() });
        }
        let proof = hashes
            .into_iter()
            .map(|(line, text)| {
                std::str::from_utf8(text)
                    .ok()
                    .and_then(parse_hash)
                    .ok_or(BundleError::Hash { line })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { extra, index, proof, note: Note::parse(note)? })
    }

    /// The unauthenticated data.
    pub fn extra(&self) -> Option<&[u8]> {
        self.extra.as_deref()
    }

    /// The index of the leaf, as the file says.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The hashes, the leaf's sibling first.
    pub fn proof(&self) -> &[Hash] {
        &self.proof
    }

    /// The checkpoint note.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Verifies that the leaf with these bytes is in the log of `policy`.
    pub fn verify(&self, policy: &Policy, leaf: &[u8]) -> Result<VerifiedBundle, BundleError> {
        let checkpoint = policy.open_note(&self.note)?;
        let included =
            verify_inclusion(&leaf_hash(leaf), self.index, &checkpoint.head(), &self.proof)?;
        Ok(VerifiedBundle { included, checkpoint })
    }
}

impl std::fmt::Display for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{HEADER}")?;
        if let Some(extra) = &self.extra {
            writeln!(f, "extra {}", Base64::encode_string(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        for hash in &self.proof {
            writeln!(f, "{}", Base64::encode_string(hash))?;
        }
        write!(f, "\n{}", self.note)
    }
}

fn parse_extra(base64: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(base64).ok()?;
    let extra = Base64::decode_vec(text).ok()?;
    (1..=limits::PROOF_EXTRA_BYTES_MAX).contains(&extra.len()).then_some(extra)
}

fn parse_index(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(line).ok()?.strip_prefix("index ").and_then(parse_decimal)
}
