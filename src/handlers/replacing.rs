//! What `write` and `edit` share: one file is replaced by other bytes, with evidence before and an answer after.

use super::evidence::{After, record};
use super::{Call, DEADLINE, Done, Prepared, Standing, Work, failed, named};
use crate::event::blind::OpenFile;
use crate::limits::FILE_BYTES_MAX;
use crate::merkle::hash::{Hash, sha256};
use crate::sandbox::{Change, Replaced, Target};

/// The bytes that are to stand at a path, and what stands there now.
#[derive(Debug)]
pub(super) struct Replacement {
    resolved: String,
    before: Option<(Hash, u32)>,
    bytes: Vec<u8>,
    mode: u32,
}

/// The mode of a file that is made.
const MODE_NEW: u32 = 0o644;
/// What a write keeps of a mode: all but set-user-id and set-group-id.
const MODE_KEPT: u32 = 0o1777;

pub(super) fn prepare(
    verb: &'static str,
    path: &str,
    target: Target,
    bytes: Vec<u8>,
    work: fn(Replacement) -> Work,
) -> Prepared {
    let Target { path: resolved, before, .. } = target;
    let base = vec![Standing::of(&resolved, before.as_ref())];
    if bytes.len() > FILE_BYTES_MAX {
        let why = format!("the file would be {} bytes; the limit is {FILE_BYTES_MAX}", bytes.len());
        return Prepared::refusal(verb, path, &why).over(base);
    }
    let mode = before.as_ref().map_or(MODE_NEW, |found| found.stamp.mode & MODE_KEPT);
    let after = After { sha256: sha256(&bytes), mode };
    let evidence = record(&resolved, before.as_ref(), after);
    let first = before.as_ref().map(|found| found.sha256);
    let file = OpenFile { path: resolved.clone(), first, second: Some(after.sha256) };
    let recorded = before.as_ref().map(|found| (found.sha256, found.stamp.mode));
    let replacement = Replacement { resolved, before: recorded, bytes, mode };
    Prepared {
        evidence,
        files: vec![file],
        before: vec![before.map(|found| found.bytes).unwrap_or_default()],
        base,
        verb,
        path: path.to_owned(),
        work: work(replacement),
    }
}

pub(super) fn perform(call: &Call<'_>, replacement: &Replacement) -> Done {
    let Replacement { resolved, before, bytes, mode } = replacement;
    let unique = u64::from_be_bytes(call.unique.first_chunk().copied().unwrap_or_default());
    let change = Change { path: call.path, resolved, before: *before, bytes, mode: *mode, unique };
    match call.tree.replace(&change, call.seal) {
        Ok(Replaced::Done) => call.accepted(None, resolved, sha256(bytes)),
        Ok(Replaced::Stopped) => failed(DEADLINE.to_owned()),
        Ok(Replaced::Stale { now }) => call.refuse(&format!(
            "the file changed while this call waited: it was {}, it is {}; read it again",
            named(before.as_ref().map(|(sha256, _)| sha256)),
            named(now.as_ref())
        )),
        Ok(Replaced::Unsure { reason }) => failed(reason),
        Err(fault) => call.refuse(&fault),
    }
}
