//! Evidence of a write, and what the disk says about it after a crash.
//!
//! ```text
//! {"files":[{"path":"a/b.ail",
//!            "before":null / {"sha256":"<hex>","size":"<decimal>","mode":420,"inode":"<decimal>","ctime":"<decimal>"},
//!            "after":{"sha256":"<hex>","mode":420}}]}
//! ```
//!
//! `path` holds no link. Numbers of 64 bits are text, because JSON readers round them; `ctime` is nanoseconds since 1970.
//! `sha256` is 64 hex digits, for a file is not an object of the log. Content can be the same by chance; inode and time of
//! change cannot be set back by a program, so they tell "nothing happened" from "happened and undone".

use crate::canon::{Value, object};
use crate::event::{Evidence, hex};
use crate::merkle::hash::Hash;
use crate::sandbox::{Found, Worktree};

/// What is to stand there.
#[derive(Debug, Clone, Copy)]
pub(super) struct After {
    pub(super) sha256: Hash,
    pub(super) mode: u32,
}

pub(super) fn record(path: &str, before: Option<&Found>, after: After) -> Value {
    let After { sha256, mode } = after;
    let after = object([("sha256", hex(&sha256).into()), ("mode", u64::from(mode).into())]);
    let file = object([("path", path.into()), ("before", facts(before)), ("after", after)]);
    object([("files", vec![file].into())])
}

fn facts(found: Option<&Found>) -> Value {
    let Some(Found { sha256, stamp, .. }) = found else { return Value::Null };
    object([
        ("sha256", hex(sha256).into()),
        ("size", stamp.size.to_string().into()),
        ("mode", u64::from(stamp.mode).into()),
        ("inode", stamp.inode.to_string().into()),
        ("ctime", stamp.ctime_ns.to_string().into()),
    ])
}

/// What the disk says about an effect that may have been cut off: [`Evidence::After`] when each file is as intended,
/// [`Evidence::Before`] when each is provably untouched, [`Evidence::Other`] for anything else, and
/// [`Evidence::Harmless`] for evidence of null: nothing was to be changed. Look before the sweep: a temporary file
/// that holds neither the old nor the new content belongs to somebody who wrote in between.
pub fn settle(tree: &Worktree, evidence: &Value) -> Evidence {
    if *evidence == Value::Null {
        return Evidence::Harmless;
    }
    let files = evidence.get("files").and_then(Value::as_array).unwrap_or_default();
    let verdicts: Vec<Evidence> = files.iter().map(|file| settle_file(tree, file)).collect();
    match verdicts.split_first() {
        Some((first, rest)) if rest.iter().all(|verdict| verdict == first) => *first,
        _ => Evidence::Other,
    }
}

fn settle_file(tree: &Worktree, file: &Value) -> Evidence {
    let (Some(path), Some(before), Some(after)) =
        (file.get("path").and_then(Value::as_str), file.get("before"), file.get("after"))
    else {
        return Evidence::Other;
    };
    let now = match tree.read(path) {
        Ok(found) if found.path == path => Some(found),
        Err(fault) if fault.is_absent() => None,
        _ => return Evidence::Other,
    };
    let intended = now.as_ref().is_some_and(|found| shows(found, after));
    if intended && displaced_is_known(tree, path, before, after) {
        Evidence::After
    } else if facts(now.as_ref()) == *before {
        Evidence::Before
    } else {
        Evidence::Other
    }
}

fn shows(found: &Found, after: &Value) -> bool {
    let sha256 = after.get("sha256").and_then(Value::as_str);
    let mode = after.get("mode").and_then(Value::as_u64);
    sha256 == Some(hex(&found.sha256).as_str()) && mode == Some(u64::from(found.stamp.mode))
}

/// Dying between the exchange and the check of what it displaced leaves that under a temporary name.
fn displaced_is_known(tree: &Worktree, path: &str, before: &Value, after: &Value) -> bool {
    let known = [before, after].map(|facts| facts.get("sha256").and_then(Value::as_str));
    let leftovers = match tree.leftovers(path) {
        Ok(leftovers) => leftovers,
        Err(fault) => return fault.is_absent(),
    };
    leftovers
        .iter()
        .all(|hash| hash.as_ref().is_some_and(|hash| known.contains(&Some(hex(hash).as_str()))))
}
