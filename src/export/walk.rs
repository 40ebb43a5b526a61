//! One pass over a log up to a head: every event, and the payloads that the events name.
//!
//! What is walked is believed only in the end, when the tree over the events has the root of the head. Payloads that are
//! gone are left out: a redaction took them, or the auditor of the copy will miss them.

use super::ExportError;
use crate::event::blind::Opening;
use crate::event::{Body, EpisodeName, Event, Use};
use crate::merkle::Head;
use crate::merkle::hash::{Hash, leaf_hash, sha256};
use crate::merkle::tree::{FullTile, Tree};
use crate::note::key::{KeyType, VerifierKey};
use crate::verify::Payloads;

/// Where a walk puts what it finds.
pub(super) trait Sink {
    /// The next event; `entry` when it is a commit.
    fn event(&mut self, seq: u64, bytes: &[u8], entry: bool) -> Result<(), ExportError>;
    /// A tile that is full now.
    fn tile(&mut self, tile: &FullTile) -> Result<(), ExportError>;
    /// The secret of an episode.
    fn key(&mut self, episode: &EpisodeName, key: &Hash) -> Result<(), ExportError>;
    /// The opening of an event; in order of seq.
    fn opening(&mut self, episode: &EpisodeName, seq: u64, bytes: &[u8])
    -> Result<(), ExportError>;
    /// Whether it lacks this object.
    fn wants(&mut self, episode: Option<&EpisodeName>, hash: &Hash) -> Result<bool, ExportError>;
    /// An object that it lacks. Its bytes have the hash.
    fn object(
        &mut self,
        episode: Option<&EpisodeName>,
        hash: &Hash,
        bytes: &[u8],
    ) -> Result<(), ExportError>;
}

/// What a walk came to.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The tree; its root is that of the head.
    pub(super) tree: Tree,
    /// Name of the log, as genesis has it.
    pub(super) origin: String,
    /// Verifier keys of heads, as genesis has them.
    pub(super) keys: Vec<VerifierKey>,
    /// Objects that went into the sink.
    pub(super) objects: u64,
}

/// Walks the events of `events` up to `head`.
pub(super) fn walk(
    events: &mut dyn Iterator<Item = Result<Vec<u8>, ExportError>>,
    mut payloads: Option<&mut dyn Payloads>,
    head: Head,
    sink: &mut dyn Sink,
) -> Result<Walked, ExportError> {
    let mut walked = Walked::default();
    let mut full = Vec::new();
    while walked.tree.size() < head.size {
        let seq = walked.tree.size();
        let place = || format!("leaf {seq}");
        let missing = || format!("it is missing; the head covers {}", head.size);
        let bytes = events.next().ok_or_else(|| ExportError::damaged(place(), missing()))??;
        let event = Event::decode(&bytes).map_err(|error| ExportError::damaged(place(), error))?;
        walked
            .tree
            .append(leaf_hash(&bytes), &mut full)
            .map_err(|error| ExportError::damaged(place(), error))?;
        sink.event(seq, &bytes, matches!(event.body, Body::Commit(_)))?;
        for tile in full.drain(..) {
            sink.tile(&tile)?;
        }
        if let Body::Genesis(genesis) = &event.body {
            walked.origin.clone_from(&genesis.origin);
            walked.keys =
                genesis.keys.iter().filter_map(|key| head_key(&walked.origin, key)).collect();
        }
        if let Some(payloads) = payloads.as_deref_mut() {
            carry(&event, payloads, sink, &mut walked.objects)?;
        }
    }
    if walked.tree.root() != head.root {
        let reason = "the events do not have the root of the head";
        return Err(ExportError::damaged(format!("{} events", head.size), reason));
    }
    Ok(walked)
}

fn head_key(origin: &str, key: &crate::event::Key) -> Option<VerifierKey> {
    let kind = match key.usage {
        Use::Head => KeyType::Ed25519,
        Use::Cosign => KeyType::MlDsa44,
        Use::Cose => return None,
    };
    VerifierKey::new(origin, kind, &key.public.0).ok()
}

fn carry(
    event: &Event,
    payloads: &mut dyn Payloads,
    sink: &mut dyn Sink,
    objects: &mut u64,
) -> Result<(), ExportError> {
    let place = format!("leaf {}", event.seq);
    let in_place = |reason: String| ExportError::damaged(place.clone(), reason);
    if let Body::Transition(transition) = &event.body {
        for hash in [&transition.source.0, &transition.schema.0] {
            *objects += carry_object(None, hash, payloads, sink)?;
        }
    }
    let Some(ep) = &event.ep else { return Ok(()) };
    if matches!(event.body, Body::Episode(_))
        && let Some(key) = payloads.episode_key(&ep.name).map_err(in_place)?
    {
        sink.key(&ep.name, &key)?;
    }
    if event.body.brefs().is_empty() {
        return Ok(());
    }
    let Some(bytes) = payloads.opening(&ep.name, event.seq).map_err(in_place)? else {
        return Ok(());
    };
    let opening = Opening::decode(&bytes)
        .map_err(|error| ExportError::damaged(format!("opening of {place}"), error))?;
    sink.opening(&ep.name, event.seq, &bytes)?;
    if matches!(event.body, Body::Episode(_)) {
        // The commit that a worktree started from is git's object, not ours.
        return Ok(());
    }
    for hash in opening.refs.iter().chain(&opening.more) {
        *objects += carry_object(Some(&ep.name), hash, payloads, sink)?;
    }
    Ok(())
}

fn carry_object(
    episode: Option<&EpisodeName>,
    hash: &Hash,
    payloads: &mut dyn Payloads,
    sink: &mut dyn Sink,
) -> Result<u64, ExportError> {
    if !sink.wants(episode, hash)? {
        return Ok(0);
    }
    let place = || format!("object sha256:{}", crate::event::hex(hash));
    let read = payloads.object(episode, hash).map_err(|e| ExportError::damaged(place(), e))?;
    let Some(bytes) = read else { return Ok(0) };
    if sha256(&bytes) != *hash {
        return Err(ExportError::damaged(place(), "its bytes have another hash"));
    }
    sink.object(episode, hash, &bytes)?;
    Ok(1)
}
