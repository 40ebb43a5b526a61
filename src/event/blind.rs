//! Blinded references: how an event names what the public must not learn.
//!
//! Heads, tiles and events are public, and a plain digest of a short secret is found by trying. So each episode has a
//! random key, and events hold HMACs under it:
//!
//! ```text
//! K_inv   = HMAC(K_ep, "inv" || invocation)         disclosed to prove one call
//! bref    = HMAC(K_inv, sha256(object))
//! path    = HMAC(K_ep, "path" || path)[..16]
//! content = HMAC(K_ep, "file" || sha256(content))[..16]
//! claim   = HMAC(K_ep, front || 0x00 || client id)
//! token   = HMAC(K_ep, "token" || token)
//! same    = HMAC(K_ep, "plan" || sha256(plan))[..16]
//! label   = HMAC(K_ep, "label" || label)
//! ```
//!
//! An *opening* lists the plain hashes behind one event's references; it is kept beside the log and never in it.

use super::bytes::{B16, B32, Fixed};
use super::{BodyError, FileChange, FileSeen, Front, Reader, Writer};
use crate::limits::EVENT_FILES_MAX;
use crate::merkle::hash::{Hash, hmac_sha256};

/// The secret of one episode. Never printed; gone when the episode is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct EpisodeKey(Hash);

/// The secret of one invocation, derived from its episode's.
#[derive(Clone, PartialEq, Eq)]
pub struct InvocationKey(Hash);

impl std::fmt::Debug for EpisodeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EpisodeKey(..)")
    }
}

impl std::fmt::Debug for InvocationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InvocationKey(..)")
    }
}

fn half(hash: Hash) -> B16 {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    Fixed(bytes)
}

impl EpisodeKey {
    /// 32 random bytes.
    pub fn new(bytes: Hash) -> Self {
        Self(bytes)
    }

    /// The bytes, for storing and exporting them.
    pub fn bytes(&self) -> &Hash {
        &self.0
    }

    /// The key of one invocation.
    pub fn invocation(&self, invocation: &B16) -> InvocationKey {
        InvocationKey(hmac_sha256(&self.0, &[b"inv", &invocation.0]))
    }

    /// Token of a path beneath the worktree.
    pub fn path(&self, path: &str) -> B16 {
        half(hmac_sha256(&self.0, &[b"path", path.as_bytes()]))
    }

    /// Token of a file's content.
    pub fn content(&self, sha256: &Hash) -> B16 {
        half(hmac_sha256(&self.0, &[b"file", sha256]))
    }

    /// A client's own id for a call.
    pub fn claim(&self, front: Front, id: &str) -> B32 {
        Fixed(hmac_sha256(&self.0, &[front.as_str().as_bytes(), &[0], id.as_bytes()]))
    }

    /// A preview token.
    pub fn token(&self, token: &str) -> B32 {
        Fixed(hmac_sha256(&self.0, &[b"token", token.as_bytes()]))
    }

    /// Equal for equal plans.
    pub fn same(&self, plan: &Hash) -> B16 {
        half(hmac_sha256(&self.0, &[b"plan", plan]))
    }

    /// A session's label.
    pub fn label(&self, label: &str) -> B32 {
        Fixed(hmac_sha256(&self.0, &[b"label", label.as_bytes()]))
    }
}

impl InvocationKey {
    /// The blinded reference to the object with this SHA-256.
    pub fn bref(&self, object: &Hash) -> B32 {
        Fixed(hmac_sha256(&self.0, &[object]))
    }

    /// The bytes, for disclosing one call.
    pub fn bytes(&self) -> &Hash {
        &self.0
    }
}

/// A file named by an event, in the clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// Path beneath the worktree.
    pub path: String,
    /// SHA-256 of the content before (intent) or as seen (outcome); `None` for an absent file.
    pub first: Option<Hash>,
    /// SHA-256 of the content after (intent only).
    pub second: Option<Hash>,
}

impl OpenFile {
    /// The entry of an intent's `files`.
    pub fn change(&self, key: &EpisodeKey) -> FileChange {
        let token = |hash: &Option<Hash>| hash.as_ref().map(|h| key.content(h));
        (key.path(&self.path), token(&self.first), token(&self.second))
    }

    /// The entry of an outcome's `seen`; `None` for an absent file.
    pub fn seen(&self, key: &EpisodeKey) -> Option<FileSeen> {
        self.first.as_ref().map(|hash| (key.path(&self.path), key.content(hash)))
    }
}

/// The plain hashes behind one event's references. CBOR:
/// `[refs: [* bstr32], files: [* [path, bstr32 / null, bstr32 / null]], more: [* bstr32]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opening {
    /// SHA-256 of each object that the body names, in the order of its fields on the wire.
    pub refs: Vec<Hash>,
    /// The files that the body names, in its order.
    pub files: Vec<OpenFile>,
    /// SHA-256 of further objects that came with the event and that no field names.
    pub more: Vec<Hash>,
}

impl Opening {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(64 + 34 * self.refs.len() + 100 * self.files.len());
        let hashes = |writer: &mut Writer, list: &[Hash]| {
            writer.array(list.len());
            for hash in list {
                writer.bytes(hash);
            }
        };
        let nullable = |writer: &mut Writer, hash: &Option<Hash>| match hash {
            Some(hash) => writer.bytes(hash),
            None => writer.null(),
        };
        writer.array(3);
        hashes(&mut writer, &self.refs);
        writer.array(self.files.len());
        for file in &self.files {
            writer.array(3);
            writer.text(&file.path);
            nullable(&mut writer, &file.first);
            nullable(&mut writer, &file.second);
        }
        hashes(&mut writer, &self.more);
        writer.finish()
    }

    /// Parses the stored form.
    ///
    /// # Errors
    /// [`BodyError`], saying where the bytes are at fault.
    pub fn decode(bytes: &[u8]) -> Result<Self, BodyError> {
        let refused = |reason: String| BodyError { reason };
        let mut reader = Reader::new(bytes);
        let opening = (|| {
            reader.array_of(3)?;
            let refs = hashes(&mut reader)?;
            let count = reader.array_len()?;
            let mut files = Vec::with_capacity(count.min(EVENT_FILES_MAX));
            for _ in 0..count {
                reader.array_of(3)?;
                let path = reader.text()?.to_owned();
                let first = nullable(&mut reader)?;
                files.push(OpenFile { path, first, second: nullable(&mut reader)? });
            }
            let more = hashes(&mut reader)?;
            reader.end()?;
            Ok(Self { refs, files, more })
        })();
        opening.map_err(|error: super::CborError| refused(error.to_string()))
    }
}

fn hashes(reader: &mut Reader<'_>) -> Result<Vec<Hash>, super::CborError> {
    (0..reader.array_len()?).map(|_| reader.array()).collect()
}

fn nullable(reader: &mut Reader<'_>) -> Result<Option<Hash>, super::CborError> {
    if reader.null() { Ok(None) } else { reader.array().map(Some) }
}

impl Opening {
    /// Whether `refs` and `files` are what the event's body hides, under the episode's key.
    ///
    /// # Errors
    /// The name of the first field that does not match.
    pub fn opens(&self, event: &super::Event, key: &EpisodeKey) -> Result<(), &'static str> {
        let none = Fixed([0; 16]);
        let invocation = key.invocation(event.inv.as_ref().unwrap_or(&none));
        let brefs: Vec<B32> = self.refs.iter().map(|hash| invocation.bref(hash)).collect();
        if brefs != event.body.brefs() {
            return Err("refs");
        }
        let files = match &event.body {
            super::Body::Intent(intent) => {
                self.files.iter().map(|file| file.change(key)).eq(intent.files.iter().copied())
            }
            super::Body::Outcome(outcome) => {
                self.files.iter().all(|file| file.second.is_none())
                    && self
                        .files
                        .iter()
                        .map(|f| f.seen(key))
                        .eq(outcome.seen.iter().map(|s| Some(*s)))
            }
            _ => self.files.is_empty(),
        };
        if files { Ok(()) } else { Err("files") }
    }
}
