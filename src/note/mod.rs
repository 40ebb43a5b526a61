//! Signed notes (C2SP signed-note v1.0.0), and in the files beside: keys, checkpoints, cosignatures, `.tlog-proof`.
//! Spec: `spec/log.md`.
//!
//! ```text
//! <text: one or more lines, each ended by LF>
//! <empty line>
//! U+2014 <space> <key name> <space> <base64 of (4-byte key id || signature)> LF        (1 to 100 of these)
//! ```
//!
//! Text and signatures part at the *last* empty line. The whole is UTF-8 without control characters below 0x20 except
//! LF. There is one spelling of a note: what parses prints as the same bytes.
//!
//! A parsed [`Note`] has proven nothing. [`Note::verify`] returns the lines that it verified, and refuses a note with a
//! line of a trusted key that does not verify, however many others do: somebody tampered with it. Lines of unknown
//! keys are carried along and say nothing, whatever their order.

pub mod bundle;
pub mod checkpoint;
pub mod cosign;
pub mod key;

use std::fmt;

use base64ct::{Base64, Encoding};

use crate::limits;
use crate::merkle::Hex;
use crate::merkle::hash::Hash;
use checkpoint::Checkpoint;
use key::{KeyError, KeyId, KeyType, Keyring, NameError, check_name};

/// How a signature line begins: an em dash and a space.
const DASH: &str = "\u{2014} ";

/// Why a note is refused. Lines are counted from 1, at the beginning of the note.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// More bytes than `NOTE_BYTES_MAX`.
    #[error("note has {bytes} bytes, more than {max}", max = limits::NOTE_BYTES_MAX)]
    TooLong {
        /// As given.
        bytes: usize,
    },
    /// A byte that is no part of UTF-8.
    #[error("note is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Its offset.
        at: usize,
    },
    /// A byte below 0x20 that is not LF.
    #[error("line {line}: control character {byte:#04x}")]
    Control {
        /// The line.
        line: usize,
        /// The byte.
        byte: u8,
    },
    /// The last line is not ended.
    #[error("note does not end in a line feed")]
    NoFinalNewline,
    /// No empty line, or nothing after the last one.
    #[error("note has no signature")]
    Unsigned,
    /// Nothing before the empty line.
    #[error("note has no text")]
    NoText,
    /// More signature lines than `NOTE_SIGNATURES_MAX`.
    #[error("note has {lines} signature lines, more than {max}", max = limits::NOTE_SIGNATURES_MAX)]
    TooManySignatures {
        /// As given.
        lines: usize,
    },
    /// A line after the last empty line does not begin with an em dash and a space.
    #[error("line {line}: not a signature line")]
    NotASignature {
        /// The line.
        line: usize,
    },
    /// A signature line is not a name, one space and base64.
    #[error("line {line}: signature line is not a name and a signature")]
    SignatureParts {
        /// The line.
        line: usize,
    },
    /// A name that no key can have.
    #[error("line {line}: key name {cause}")]
    KeyName {
        /// The line.
        line: usize,
        /// What is wrong with it.
        cause: NameError,
    },
    /// A signature that is not base64 in its one canonical form.
    #[error("line {line}: signature is not canonical base64")]
    Base64 {
        /// The line.
        line: usize,
    },
    /// A signature with no byte after the four of the key id.
    #[error("line {line}: signature has no byte after the key id")]
    NoSignature {
        /// The line.
        line: usize,
    },
    /// A trusted key has two lines.
    #[error("line {line}: second signature of the key {name}+{id}", id = Hex(id))]
    Duplicate {
        /// The second one.
        line: usize,
        /// The name of the key.
        name: String,
        /// The id of the key.
        id: KeyId,
    },
    /// A line of a trusted key does not verify. The whole note is refused.
    #[error("line {line}: signature of the key {name}+{id}: {cause}", id = Hex(id))]
    Signature {
        /// The line.
        line: usize,
        /// The name of the key.
        name: String,
        /// The id of the key.
        id: KeyId,
        /// What is wrong with it.
        cause: SignatureFault,
    },
    /// None of the lines is of a trusted key.
    #[error("no signature is of a trusted key")]
    Untrusted,
}

/// What is wrong with one signature of a trusted key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// It does not verify, or has another length than the key's.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A cosignature has no room for its timestamp.
    #[error("cosignature has no timestamp")]
    NoTimestamp,
    /// A timestamp above `COSIGNATURE_SECONDS_MAX`.
    #[error("timestamp {0} is larger than permitted")]
    Timestamp(u64),
    /// A cosignature under a text that is no checkpoint.
    #[error("cosignature is not under a checkpoint")]
    NoCheckpoint,
    /// A checkpoint whose extension lines an ML-DSA-44 signature does not cover.
    #[error("an ML-DSA-44 signature does not cover the extension lines")]
    Extensions,
    /// A subtree message with an impossible range or a time that it must not have.
    #[error("subtree {start}..{end} at time {timestamp} cannot be signed")]
    Subtree {
        /// The first leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
        /// POSIX seconds.
        timestamp: u64,
    },
    /// A name whose length does not fit the message.
    #[error("name {0}")]
    Name(#[from] NameError),
}

/// One signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureLine {
    name: String,
    id: KeyId,
    signature: Vec<u8>,
}

impl SignatureLine {
    /// The name in the line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key id in the line.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What follows the key id: the signature, with a timestamp in front for the types 0x04 and 0x06. Not empty.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }
}

impl fmt::Display for SignatureLine {
    /// The line without its LF.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blob = [self.id.as_slice(), &self.signature].concat();
        write!(f, "{DASH}{} {}", self.name, Base64::encode_string(&blob))
    }
}

/// A well-formed note, of which nothing is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<SignatureLine>,
}

/// A signature line that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The name of the key.
    pub name: String,
    /// The id of the key.
    pub id: KeyId,
    /// The type of the key.
    pub kind: KeyType,
    /// POSIX seconds, in a cosignature.
    pub timestamp: Option<u64>,
}

impl Note {
    /// A note of `text`, which must be lines ended by LF, and at least one signature line. Refused like a parsed one.
    pub fn new(text: &str, signatures: Vec<SignatureLine>) -> Result<Self, NoteError> {
        Self::parse(Self { text: text.to_owned(), signatures }.to_string().as_bytes())
    }

    /// Parses a note. The checks are made in the order of the variants of [`NoteError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        if bytes.len() > limits::NOTE_BYTES_MAX {
            return Err(NoteError::TooLong { bytes: bytes.len() });
        }
        let note = std::str::from_utf8(bytes)
            .map_err(|error| NoteError::NotUtf8 { at: error.valid_up_to() })?;
        for (line, text) in (1..).zip(note.split('\n')) {
            if let Some(byte) = text.bytes().find(|byte| *byte < 0x20) {
                return Err(NoteError::Control { line, byte });
            }
        }
        if !note.ends_with('\n') {
            return Err(NoteError::NoFinalNewline);
        }
        // An empty line is two line feeds in a row, or one at the very beginning.
        let (text, lines) = match note.rsplit_once("\n\n") {
            Some((text, lines)) => (text, lines),
            None if note.starts_with('\n') => return Err(NoteError::NoText),
            None => return Err(NoteError::Unsigned),
        };
        if lines.is_empty() {
            return Err(NoteError::Unsigned);
        }
        if text.is_empty() {
            return Err(NoteError::NoText);
        }
        let text = format!("{text}\n");
        let count = lines.lines().count();
        if count > limits::NOTE_SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures { lines: count });
        }
        let first = text.lines().count() + 2;
        let signatures = (first..)
            .zip(lines.split_terminator('\n'))
            .map(|(number, line)| parse_signature(number, line))
            .collect::<Result<_, _>>()?;
        Ok(Self { text, signatures })
    }

    /// The text, including its last LF.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All lines, known or not, in their order.
    pub fn signatures(&self) -> &[SignatureLine] {
        &self.signatures
    }

    /// Verifies every line of a key in `keys`, and returns them in the order of the note. At least one.
    ///
    /// Cosignatures (types 0x04 and 0x06) verify only under a text that is a checkpoint.
    pub fn verify(&self, keys: &Keyring) -> Result<Vec<Signed>, NoteError> {
        let checkpoint = Checkpoint::parse(&self.text).ok();
        let first = self.text.lines().count() + 2;
        let mut verified: Vec<Signed> = Vec::new();
        for (line, signature) in (first..).zip(&self.signatures) {
            let Some(key) = keys.find(&signature.name, signature.id) else { continue };
            let (name, id, kind) = (signature.name.clone(), signature.id, key.kind());
            if verified.iter().any(|other| other.name == name && other.id == id) {
                return Err(NoteError::Duplicate { line, name, id });
            }
            match cosign::verify(key, &self.text, checkpoint.as_ref(), &signature.signature) {
                Ok(timestamp) => verified.push(Signed { name, id, kind, timestamp }),
                Err(cause) => return Err(NoteError::Signature { line, name, id, cause }),
            }
        }
        if verified.is_empty() { Err(NoteError::Untrusted) } else { Ok(verified) }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn parse_signature(line: usize, text: &str) -> Result<SignatureLine, NoteError> {
    let rest = text.strip_prefix(DASH).ok_or(NoteError::NotASignature { line })?;
    // Neither a name nor base64 contains a space; a second one is refused with the base64.
    let (name, blob) = rest.split_once(' ').ok_or(NoteError::SignatureParts { line })?;
    check_name(name).map_err(|cause| NoteError::KeyName { line, cause })?;
    let blob = Base64::decode_vec(blob).map_err(|_| NoteError::Base64 { line })?;
    match blob.split_first_chunk::<4>() {
        Some((id, signature)) if !signature.is_empty() => {
            Ok(SignatureLine { name: name.to_owned(), id: *id, signature: signature.to_vec() })
        }
        _ => Err(NoteError::NoSignature { line }),
    }
}

/// A decimal number without sign and leading zeros that fits 64 bits.
fn parse_decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    if digits && canonical { text.parse().ok() } else { None }
}

/// The base64 of exactly 32 bytes, in its one canonical form.
fn parse_hash(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    // 44 characters; a longer text would not fit the buffer and a shorter one would not fill it.
    match Base64::decode(text, &mut hash) {
        Ok(bytes) if bytes.len() == 32 => Some(hash),
        _ => None,
    }
}
