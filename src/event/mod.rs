//! Events: the immutable records that the log consists of (`spec/event.md`).
//!
//! ```text
//! event = [ 1, seq, at, prev, kind, ep / null, inv / null, body ]
//! ep    = [ name, n, prev ]
//! ```
//!
//! An event is one leaf of the Merkle tree and one link of the chain; with an `ep` it is also a link of its episode's own
//! chain. This module parses and prints them strictly and knows which fields point where. What an event *does* is the
//! fold in `state`; whether bytes are in canonical form is decided in `cbor`; how payloads are named without telling what
//! they hold is in `blind`.

pub mod blind;
mod body;
mod bytes;
mod cbor;
mod check;
mod codec;

pub use body::*;
pub use bytes::{B4, B16, B32, Blob, Fixed, hex};
pub use cbor::{CborError, Item, Reader, Writer, scan};
pub use codec::{from_cbor, to_cbor};

use crate::limits::EVENT_BYTES_MAX;
use crate::merkle::hash::Hash;
use std::sync::Arc;

/// Version of the envelope.
pub const VERSION: u64 = 1;
/// The `format` of a genesis event.
pub const FORMAT: &str = "worldlog/log/v1";
/// `prev` of the first event, and of the first of an episode.
pub const NO_PREV: Hash = [0; 32];

/// The name of an episode: `[a-z0-9][a-z0-9-]{0,63}`. Cheap to clone, since it stands in every row and link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EpisodeName(Arc<str>);

impl EpisodeName {
    /// Checks the grammar.
    pub fn parse(text: &str) -> Option<Self> {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.as_bytes();
        let first = *bytes.first()?;
        let fits = bytes.len() <= 64 && word(first) && bytes.iter().all(|b| word(*b) || *b == b'-');
        fits.then(|| Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for EpisodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for EpisodeName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("an episode's name is [a-z0-9][a-z0-9-]{0,63}")
    }
}

impl From<EpisodeName> for String {
    fn from(name: EpisodeName) -> Self {
        name.0.as_ref().to_owned()
    }
}

/// A link of an episode's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeLink {
    /// The episode.
    pub name: EpisodeName,
    /// How many events of the episode come before.
    pub n: u64,
    /// Leaf hash of its event `n - 1`; zeros at `n = 0`.
    pub prev: Hash,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Index of its leaf.
    pub seq: u64,
    /// Unix milliseconds; never less than the event before.
    pub at: u64,
    /// Leaf hash of the event before.
    pub prev: Hash,
    /// Its place in its episode's chain.
    pub ep: Option<EpisodeLink>,
    /// The invocation that it belongs to.
    pub inv: Option<B16>,
    /// What happened.
    pub body: Body,
}

/// A body that is not what its kind demands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BodyError {
    /// What is wrong, naming the field.
    pub reason: String,
}

/// Why bytes are not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// More bytes than a leaf can hold.
    #[error("{size} bytes are more than the {EVENT_BYTES_MAX} of an event")]
    TooLong {
        /// Their number.
        size: usize,
    },
    /// Not in canonical form, or not this envelope.
    #[error("not canonical: {0}")]
    Cbor(#[from] CborError),
    /// Another version of the envelope.
    #[error("version {version} of the envelope needs another worldlog; this one reads {VERSION}")]
    Version {
        /// The version found.
        version: u64,
    },
    /// An episode whose name breaks the grammar.
    #[error("`{name}` cannot name an episode")]
    EpisodeName {
        /// The name found.
        name: String,
    },
    /// A kind that this version does not know.
    #[error("kind `{kind}` needs a newer worldlog")]
    Kind {
        /// The kind found.
        kind: String,
    },
    /// A body that its kind does not admit.
    #[error("body of `{kind}`: {reason}")]
    Body {
        /// The kind.
        kind: String,
        /// What is wrong, naming the field.
        reason: String,
    },
}

impl EventError {
    /// The stable code (`spec/event.md`).
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "too-long",
            Self::Cbor(error) => error.code(),
            Self::Version { .. } => "version",
            Self::EpisodeName { .. } => "episode-name",
            Self::Kind { .. } => "kind",
            Self::Body { .. } => "body",
        }
    }
}

impl Event {
    /// Parses the bytes of one leaf.
    ///
    /// # Errors
    /// [`EventError`]: the first fault of form from the left, else the kind, else the body.
    pub fn decode(bytes: &[u8]) -> Result<Self, EventError> {
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(EventError::TooLong { size: bytes.len() });
        }
        let mut reader = Reader::new(bytes);
        reader.array_of(8)?;
        let version = reader.uint()?;
        if version != VERSION {
            return Err(EventError::Version { version });
        }
        let seq = reader.uint()?;
        let at = reader.uint()?;
        let prev = reader.array()?;
        let kind = reader.text()?;
        let ep = if reader.null() { None } else { Some(Self::decode_link(&mut reader)?) };
        let inv = if reader.null() { None } else { Some(Fixed(reader.array()?)) };
        let map = reader.map(1)?;
        reader.end()?;
        let refused =
            |error: BodyError| EventError::Body { kind: kind.into(), reason: error.reason };
        let body = Body::decode(kind, map)
            .ok_or_else(|| EventError::Kind { kind: kind.into() })?
            .map_err(refused)?;
        body.check().map_err(refused)?;
        Ok(Self { seq, at, prev, ep, inv, body })
    }

    fn decode_link(reader: &mut Reader<'_>) -> Result<EpisodeLink, EventError> {
        reader.array_of(3)?;
        let text = reader.text()?;
        let name = EpisodeName::parse(text)
            .ok_or_else(|| EventError::EpisodeName { name: text.to_owned() })?;
        Ok(EpisodeLink { name, n: reader.uint()?, prev: reader.array()? })
    }

    /// The bytes of the leaf.
    ///
    /// # Errors
    /// [`EventError::Body`] when a field is out of its range, [`EventError::TooLong`], or [`EventError::Cbor`] when an
    /// extension's map is not canonical.
    pub fn encode(&self) -> Result<Vec<u8>, EventError> {
        let kind = self.body.kind();
        let refused =
            |error: BodyError| EventError::Body { kind: kind.into(), reason: error.reason };
        self.body.check().map_err(refused)?;
        let map = self.body.encode().map_err(refused)?;
        let mut writer = Writer::with_capacity(160 + map.len());
        writer.array(8);
        writer.uint(VERSION);
        writer.uint(self.seq);
        writer.uint(self.at);
        writer.bytes(&self.prev);
        writer.text(kind);
        match &self.ep {
            Some(link) => {
                writer.array(3);
                writer.text(link.name.as_str());
                writer.uint(link.n);
                writer.bytes(&link.prev);
            }
            None => writer.null(),
        }
        match &self.inv {
            Some(inv) => writer.bytes(&inv.0),
            None => writer.null(),
        }
        writer.splice(&map);
        let bytes = writer.finish();
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(EventError::TooLong { size: bytes.len() });
        }
        // Catches an unresolved reference, an integer out of range and a body struct with its fields out of order.
        scan(&bytes)?;
        Ok(bytes)
    }
}
