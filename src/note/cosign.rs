//! What each type of key signs, and the lines that result (C2SP tlog-cosignature v1.1.0-rc.1).
//!
//! ```text
//! 0x01   message    the text of the note
//!        line blob  key id || 64 bytes
//!
//! 0x04   message    "cosignature/v1" LF "time " <decimal seconds> LF <the text of the checkpoint>
//!        line blob  key id || u64 seconds || 64 bytes
//!
//! 0x06   message    "subtree/v1" LF 0x00 || u8 length || name of the cosigner || u64 seconds
//!                   || u8 length || origin || u64 start || u64 end || 32 bytes root
//!        line blob  key id || u64 seconds || 2,420 bytes
//! ```
//!
//! Numbers are big-endian. Under a checkpoint `start` is 0 and `end` is the size. A 0x06 message leaves extension lines
//! out, so a 0x06 signature under a checkpoint that has some is refused: it would vouch for less than it seems to.
//!
//! The meaning of a cosignature: "at this time this is the largest tree of this origin that I have seen, and it extends
//! all earlier ones". Keeping that promise is the signer's work, not this module's.

use crate::limits;
use crate::merkle::hash::Hash;
use crate::note::checkpoint::Checkpoint;
use crate::note::key::{KeyError, KeyType, NameError, Signer, VerifierKey};
use crate::note::{SignatureFault, SignatureLine};

/// What an ML-DSA-44 key says about a range of leaves.
#[derive(Clone, Copy, Debug)]
pub struct Subtree<'a> {
    /// The cosigner's key name.
    pub cosigner: &'a str,
    /// POSIX seconds; 0 if `start` is not 0.
    pub timestamp: u64,
    /// The origin of the log.
    pub origin: &'a str,
    /// The first leaf.
    pub start: u64,
    /// The leaf after the last.
    pub end: u64,
    /// The root over the leaves.
    pub root: Hash,
}

/// Signs the text of a note with a key of type 0x01; refuses other types.
pub fn sign_note(signer: &Signer, text: &str) -> Result<SignatureLine, KeyError> {
    let kind = signer.verifier_key().kind();
    if kind != KeyType::Ed25519 {
        return Err(KeyError::Use(kind));
    }
    Ok(line(signer, signer.sign_raw(text.as_bytes())))
}

/// Cosigns a checkpoint at `timestamp` (POSIX seconds) with a key of type 0x04 or 0x06; refuses others, and extension
/// lines: we never sign any.
pub fn cosign(
    signer: &Signer,
    checkpoint: &Checkpoint,
    timestamp: u64,
) -> Result<SignatureLine, SignatureFault> {
    if !checkpoint.extensions().is_empty() {
        return Err(SignatureFault::Extensions);
    }
    let message = message(signer.verifier_key(), &checkpoint.to_string(), checkpoint, timestamp)?;
    let signature = signer.sign_raw(&message);
    Ok(line(signer, [timestamp.to_be_bytes().as_slice(), &signature].concat()))
}

/// The message of type 0x04.
pub fn ed25519_message(timestamp: u64, text: &str) -> Vec<u8> {
    format!("cosignature/v1\ntime {timestamp}\n{text}").into_bytes()
}

/// The message of type 0x06. Refuses names that do not fit, an empty or impossible range, a time above 2^63 - 1, and
/// any time on a subtree that does not begin at 0.
pub fn subtree_message(subtree: &Subtree<'_>) -> Result<Vec<u8>, SignatureFault> {
    let Subtree { timestamp, start, end, .. } = *subtree;
    check_timestamp(timestamp)?;
    if start > end || start != 0 && (start == end || timestamp != 0) {
        return Err(SignatureFault::Subtree { start, end, timestamp });
    }
    let mut message = b"subtree/v1\n\0".to_vec();
    push_name(&mut message, subtree.cosigner)?;
    message.extend_from_slice(&timestamp.to_be_bytes());
    push_name(&mut message, subtree.origin)?;
    message.extend_from_slice(&start.to_be_bytes());
    message.extend_from_slice(&end.to_be_bytes());
    message.extend_from_slice(&subtree.root);
    Ok(message)
}

/// Verifies what follows the key id in a line of `key`, and returns the timestamp if the type has one.
pub(super) fn verify(
    key: &VerifierKey,
    text: &str,
    checkpoint: Option<&Checkpoint>,
    blob: &[u8],
) -> Result<Option<u64>, SignatureFault> {
    if key.kind() == KeyType::Ed25519 {
        key.verify_raw(text.as_bytes(), blob)?;
        return Ok(None);
    }
    let checkpoint = checkpoint.ok_or(SignatureFault::NoCheckpoint)?;
    let (timestamp, signature) =
        blob.split_first_chunk::<8>().ok_or(SignatureFault::NoTimestamp)?;
    let timestamp = u64::from_be_bytes(*timestamp);
    let message = message(key, text, checkpoint, timestamp)?;
    key.verify_raw(&message, signature)?;
    Ok(Some(timestamp))
}

fn message(
    key: &VerifierKey,
    text: &str,
    checkpoint: &Checkpoint,
    timestamp: u64,
) -> Result<Vec<u8>, SignatureFault> {
    check_timestamp(timestamp)?;
    match key.kind() {
        KeyType::Ed25519 => Err(KeyError::Use(KeyType::Ed25519).into()),
        KeyType::Ed25519Cosignature => Ok(ed25519_message(timestamp, text)),
        KeyType::MlDsa44 if !checkpoint.extensions().is_empty() => Err(SignatureFault::Extensions),
        KeyType::MlDsa44 => subtree_message(&Subtree {
            cosigner: key.name(),
            timestamp,
            origin: checkpoint.origin(),
            start: 0,
            end: checkpoint.head().size,
            root: checkpoint.head().root,
        }),
    }
}

fn line(signer: &Signer, signature: Vec<u8>) -> SignatureLine {
    let key = signer.verifier_key();
    SignatureLine { name: key.name().to_owned(), id: key.id(), signature }
}

fn check_timestamp(timestamp: u64) -> Result<(), SignatureFault> {
    if timestamp > limits::COSIGNATURE_SECONDS_MAX {
        Err(SignatureFault::Timestamp(timestamp))
    } else {
        Ok(())
    }
}

fn push_name(message: &mut Vec<u8>, name: &str) -> Result<(), NameError> {
    let length = u8::try_from(name.len()).map_err(|_| NameError::TooLong { bytes: name.len() })?;
    message.push(length);
    message.extend_from_slice(name.as_bytes());
    Ok(())
}
