//! What `write` and `edit` share: one file is replaced by other bytes, with evidence before and an answer after.

use super::evidence::{After, Touched};
use super::{Call, Done, Prepared, Standing, Work, stale};
use crate::limits::FILE_BYTES_MAX;
use crate::merkle::hash::{Hash, sha256};
use crate::sandbox::{Change, Target, Thing};

/// The bytes that are to stand at a path, and what stands there now.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) resolved: String,
    pub(super) before: Option<(Hash, u32)>,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// The mode of a file that is made.
const MODE_NEW: u32 = 0o644;
/// What a write keeps of a mode: all but set-user-id and set-group-id.
const MODE_KEPT: u32 = 0o1777;

pub(super) fn prepare(verb: &'static str, path: &str, target: Target, bytes: Vec<u8>) -> Prepared {
    let Target { path: resolved, before, .. } = target;
    let before = before.map(Thing::File);
    if bytes.len() > FILE_BYTES_MAX {
        let why = format!("the file would be {} bytes; the limit is {FILE_BYTES_MAX}", bytes.len());
        let base = vec![Standing::of(&resolved, before.as_ref())];
        return Prepared::refusal(verb, path, &why).over(base);
    }
    let recorded = match &before {
        Some(Thing::File(found)) => Some((found.sha256, found.stamp.mode)),
        _ => None,
    };
    let mode = recorded.map_or(MODE_NEW, |(_, mode)| mode & MODE_KEPT);
    let after = After::File { sha256: sha256(&bytes), mode };
    let touched = vec![Touched { path: resolved.clone(), before, after }];
    let replacement = Replacement { resolved, before: recorded, bytes, mode };
    Prepared::change(verb, path, touched, Work::Replace(replacement))
}

pub(super) fn perform(call: &Call<'_>, replacement: &Replacement) -> Done {
    let Replacement { resolved, before, bytes, mode } = replacement;
    let unique = call.unique();
    let change = Change { path: call.path, resolved, before: *before, bytes, mode: *mode, unique };
    let was = before.as_ref().map(|(sha256, _)| sha256);
    call.ended(call.tree.replace(&change, call.gate.seal), |now| stale(was, now))
}
