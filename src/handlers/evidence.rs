//! Evidence of a change, and what the disk says about it after a crash.
//!
//! ```text
//! {"files":[{"path":"a/b.ail",
//!            "before":null / {"sha256":"<hex>","size":"<decimal>","mode":420,"inode":"<decimal>","ctime":"<decimal>"}
//!                          / {"folder":true,"mode":493,"inode":"<decimal>","ctime":"<decimal>"},
//!            "after":null / {"sha256":"<hex>","mode":420} / {"folder":true,"mode":493,"inode":"<decimal>"?}}]}
//! ```
//!
//! `path` holds no link. Numbers of 64 bits are text, because JSON readers round them; `ctime` is nanoseconds since 1970.
//! `sha256` is 64 hex digits, for a file is not an object of the log. Content can be the same by chance; inode and time of
//! change cannot be set back by a program, so they tell "nothing happened" from "happened and undone". A move is two
//! entries, also that of a folder: what is in it moves along. A folder's inode is known beforehand only when it is moved.

use crate::canon::{Value, object};
use crate::event::blind::OpenFile;
use crate::event::{Evidence, hex};
use crate::merkle::hash::{Hash, sha256};
use crate::sandbox::{Stamp, Thing, Worktree};

/// What stands for the content of a folder: its SHA-256 is what an intent, an outcome and a base name.
pub const FOLDER: &[u8] = b"worldlog/folder/v1";

/// SHA-256 of [`FOLDER`].
pub(super) fn folder() -> Hash {
    sha256(FOLDER)
}

/// What is to stand somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing.
    Absent,
    File {
        sha256: Hash,
        mode: u32,
    },
    Folder {
        mode: u32,
        inode: Option<u64>,
    },
}

impl After {
    fn facts(self) -> Value {
        match self {
            Self::Absent => Value::Null,
            Self::File { sha256, mode } => {
                object([("sha256", hex(&sha256).into()), ("mode", u64::from(mode).into())])
            }
            Self::Folder { mode, inode } => {
                let mut members = vec![("folder", true.into()), ("mode", u64::from(mode).into())];
                members.extend(inode.map(|inode| ("inode", inode.to_string().into())));
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect())
            }
        }
    }

    fn content(self) -> Option<Hash> {
        match self {
            Self::Absent => None,
            Self::File { sha256, .. } => Some(sha256),
            Self::Folder { .. } => Some(folder()),
        }
    }
}

/// A path that an effect changes.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) path: String,
    pub(super) before: Option<Thing>,
    pub(super) after: After,
}

impl Touched {
    /// What an intent says of it.
    pub(super) fn open(&self) -> OpenFile {
        let first = self.before.as_ref().map(content);
        OpenFile { path: self.path.clone(), first, second: self.after.content() }
    }
}

/// What an intent says of the content that stands somewhere.
pub(super) fn content(thing: &Thing) -> Hash {
    match thing {
        Thing::File(found) => found.sha256,
        Thing::Folder(_) => folder(),
    }
}

pub(super) fn record(touched: &[Touched]) -> Value {
    let entry = |touched: &Touched| {
        object([
            ("path", touched.path.as_str().into()),
            ("before", facts(touched.before.as_ref())),
            ("after", touched.after.facts()),
        ])
    };
    object([("files", touched.iter().map(entry).collect::<Vec<_>>().into())])
}

fn facts(thing: Option<&Thing>) -> Value {
    let apart = |stamp: &Stamp| {
        [
            ("mode", u64::from(stamp.mode).into()),
            ("inode", stamp.inode.to_string().into()),
            ("ctime", stamp.ctime_ns.to_string().into()),
        ]
    };
    match thing {
        None => Value::Null,
        Some(Thing::File(found)) => {
            let [mode, inode, ctime] = apart(&found.stamp);
            let size = ("size", found.stamp.size.to_string().into());
            object([("sha256", hex(&found.sha256).into()), size, mode, inode, ctime])
        }
        Some(Thing::Folder(stamp)) => {
            let [mode, inode, ctime] = apart(stamp);
            object([("folder", true.into()), mode, inode, ctime])
        }
    }
}

/// What the disk says about an effect that may have been cut off: [`Evidence::After`] when each path is as intended,
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
    let now = match tree.standing(path) {
        Ok(spot) if spot.path == path => spot.thing,
        Err(fault) if fault.is_absent() => None,
        _ => return Evidence::Other,
    };
    if shows(now.as_ref(), after) && displaced_is_known(tree, path, before, after) {
        Evidence::After
    } else if facts(now.as_ref()) == *before {
        Evidence::Before
    } else {
        Evidence::Other
    }
}

/// Whether what stands there has the facts of an `after`.
pub(super) fn shows(now: Option<&Thing>, after: &Value) -> bool {
    let mode = |stamp: &Stamp| after.get("mode").and_then(Value::as_u64) == Some(stamp.mode.into());
    let is_folder = after.get("folder").and_then(Value::as_bool) == Some(true);
    match now {
        None => *after == Value::Null,
        Some(Thing::File(found)) => {
            let sha256 = after.get("sha256").and_then(Value::as_str);
            !is_folder && sha256 == Some(hex(&found.sha256).as_str()) && mode(&found.stamp)
        }
        Some(Thing::Folder(stamp)) => {
            let inode = after.get("inode").map_or_else(
                || true,
                |inode| inode.as_str() == Some(stamp.inode.to_string().as_str()),
            );
            is_folder && inode && mode(stamp)
        }
    }
}

/// Dying between the step that displaces something and the check of what that was leaves it under a temporary name.
fn displaced_is_known(tree: &Worktree, path: &str, before: &Value, after: &Value) -> bool {
    let known = [before, after].map(|facts| facts.get("sha256").and_then(Value::as_str));
    let leftovers = match tree.leftovers(path) {
        Ok(leftovers) => leftovers,
        Err(fault) => return fault.is_absent(),
    };
    // A folder that was taken away must have held nothing.
    let removed = before.get("folder").is_some() && *after == Value::Null;
    let stranded = removed && tree.stranded(path).unwrap_or(true);
    !stranded
        && leftovers
            .iter()
            .all(|hash| hash.as_ref().is_some_and(|hash| known.contains(&Some(hex(hash).as_str()))))
}
