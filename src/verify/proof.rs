//! One leaf under one head: a `.tlog-proof` and the bytes of the leaf.

use super::audit::open;
use super::{Report, Trust};
use crate::merkle::hash::leaf_hash;
use crate::merkle::proof::verify_inclusion;
use crate::note::bundle::Bundle;
use crate::note::checkpoint::{Checkpoint, CheckpointError};
use crate::note::{Note, NoteError};

/// Checks the proof in `bytes`: its signature, and that `leaf` is where it says. Without the leaf's bytes nothing says
/// what the proof is about.
pub fn proof(trust: &Trust, bytes: &[u8], leaf: Option<&[u8]>) -> Report {
    let mut report = Report::default();
    let bundle = match Bundle::parse(bytes) {
        Ok(bundle) => bundle,
        Err(error) => {
            report.find("proof-malformed", None, error.to_string());
            return report;
        }
    };
    let checkpoint = match Checkpoint::parse(bundle.note().text()) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            report.find("head-malformed", None, error.to_string());
            return report;
        }
    };
    let head = checkpoint.head();
    checkpoint.origin().clone_into(&mut report.origin);
    (report.size, report.root) = (head.size, head.root);
    signatures(trust, bundle.note(), &checkpoint, &mut report);
    seen(trust, &checkpoint, &mut report);
    // What `extra` holds is proven by its hash, like anything else that is brought along.
    if let Some(leaf) = leaf.or(bundle.extra()) {
        let included = verify_inclusion(&leaf_hash(leaf), bundle.index(), &head, bundle.proof());
        if let Err(error) = included {
            report.find("proof-refused", Some(bundle.index()), error.to_string());
        }
    } else {
        let detail = "the bytes of the leaf were not given, so nothing was proven of them";
        report.find("leaf-not-given", Some(bundle.index()), detail.to_owned());
    }
    report
}

fn signatures(trust: &Trust, note: &Note, checkpoint: &Checkpoint, report: &mut Report) {
    if trust.keys.is_empty() {
        let own = note.signatures().iter().find(|line| line.name() == checkpoint.origin());
        let id = own.map_or_else(|| "none".to_owned(), |line| crate::event::hex(&line.id()));
        let detail = format!(
            "signed in the name of key {id}; no key was given, so no signature was verified"
        );
        return report.find("no-key", None, detail);
    }
    let origin = trust.keys.first().map_or("", |key| key.name());
    match open(origin, &trust.keys, note) {
        Ok(signed) => report.signed_by = signed,
        Err(error @ CheckpointError::OtherOrigin { .. }) => {
            report.find("head-other-log", None, error.to_string());
        }
        Err(CheckpointError::Note(
            error @ (NoteError::Untrusted | NoteError::Signature { .. }),
        )) => {
            report.find("head-forged", None, error.to_string());
        }
        Err(error) => report.find("head-malformed", None, error.to_string()),
    }
}

/// Two heads of one size must be one head; of two sizes a single proof says nothing.
fn seen(trust: &Trust, checkpoint: &Checkpoint, report: &mut Report) {
    let Some(bytes) = &trust.seen else { return };
    let parsed = Note::parse(bytes).map_err(CheckpointError::from).and_then(|note| {
        let seen = Checkpoint::parse(note.text())?;
        if !trust.keys.is_empty() {
            open(seen.origin(), &trust.keys, &note)?;
        }
        Ok(seen)
    });
    let seen = match parsed {
        Ok(seen) => seen,
        Err(error) => {
            return report.find("seen-other-log", None, format!("the head seen before: {error}"));
        }
    };
    let (old, new) = (seen.head(), checkpoint.head());
    if seen.origin() != checkpoint.origin() {
        let detail =
            format!("this is {}, the head seen before {}", checkpoint.origin(), seen.origin());
        report.find("seen-other-log", None, detail);
    } else if old.size == new.size && old.root != new.root {
        let detail = format!("two different heads of {} events were signed", old.size);
        report.find("seen-inconsistent", None, detail);
    } else if old == new {
        report.extends = Some(old.size);
    } else {
        let words = format!(
            "whether the heads of {} and {} events agree: that takes the log",
            old.size, new.size
        );
        report.unchecked.push(words);
    }
}
