//! What takes a change back: its evidence read the other way round.
//!
//! | the call | undo |
//! |---|---|
//! | made a file | removes it |
//! | replaced a file | puts the bytes and the mode before in place |
//! | removed a file | writes it again, bytes and mode |
//! | made folders | removes them, if they are empty |
//! | removed folders | makes them again |
//! | moved | moves back |
//!
//! An undo is a change like others: it has evidence of the same form, so that recovery settles it and another undo takes it
//! back. Nothing is prepared where what stands there is not what the call left.

use super::evidence::{After, Touched, shows};
use super::replacing::Replacement;
use super::{Prepared, Work, carry, mkdir, named, remove};
use crate::canon::Value;
use crate::event::hex;
use crate::merkle::hash::{Hash, sha256};
use crate::sandbox::{Fault, Spot, Thing, Worktree};

const VERB: &str = "undo";

/// One entry of evidence.
struct Entry<'a> {
    path: &'a str,
    before: &'a Value,
    after: &'a Value,
}

impl Entry<'_> {
    fn made(&self) -> bool {
        *self.before == Value::Null && *self.after != Value::Null
    }

    fn removed(&self) -> bool {
        *self.before != Value::Null && *self.after == Value::Null
    }

    fn folder(&self) -> bool {
        [self.before, self.after].iter().any(|facts| facts.get("folder").is_some())
    }

    fn mode(&self) -> Result<u32, String> {
        let mode = self.before.get("mode").and_then(Value::as_u64);
        let mode = mode.and_then(|mode| u32::try_from(mode).ok());
        mode.filter(|mode| *mode <= 0o7777).ok_or_else(unreadable)
    }
}

fn unreadable() -> String {
    "the evidence of this call is not of a form that can be taken back".to_owned()
}

/// Prepares what takes back the call with this evidence: exactly its paths, bytes and modes. `before` gives the bytes that
/// have a SHA-256. Everything that can be known now is an error and not a refusal, so that nothing is recorded for an undo
/// that cannot be; what changes from here on is a refusal of the effect, as for any other.
///
/// # Errors
/// In words, after the path: the call changed nothing; what stands there is not what it left; policy; or the bytes before
/// are not to be had.
pub fn undo(
    tree: &Worktree,
    evidence: &Value,
    before: &dyn Fn(&Hash) -> Option<Vec<u8>>,
) -> Result<Prepared, String> {
    let files = evidence.get("files").and_then(Value::as_array).unwrap_or_default();
    let entry = |file: &'_ Value| -> Option<(String, Value, Value)> {
        let path = file.get("path").and_then(Value::as_str)?;
        Some((path.to_owned(), file.get("before")?.clone(), file.get("after")?.clone()))
    };
    let files: Option<Vec<_>> = files.iter().map(entry).collect();
    let files = files.ok_or_else(unreadable)?;
    let entries: Vec<Entry<'_>> =
        files.iter().map(|(path, before, after)| Entry { path, before, after }).collect();
    match entries.as_slice() {
        [] => Err("this call changed no file, so there is nothing to take back".to_owned()),
        [from, to] if from.removed() && to.made() => carry_back(tree, from, to),
        [file] if !file.folder() => file_back(tree, file, before),
        folders if folders.iter().all(|entry| entry.folder() && entry.made()) => {
            let left =
                folders.iter().map(|entry| left(tree, entry)).collect::<Result<Vec<_>, _>>()?;
            folders_away(tree, &left)
        }
        folders if folders.iter().all(|entry| entry.folder() && entry.removed()) => {
            folders_back(tree, folders)
        }
        _ => Err(unreadable()),
    }
}

/// What stands at the path, if it is what the call left there.
fn left(tree: &Worktree, entry: &Entry<'_>) -> Result<Spot, String> {
    let path = super::shown(entry.path);
    let spot = tree.spot(entry.path).map_err(|fault| format!("{path}: {fault}"))?;
    if spot.path == entry.path && shows(spot.thing.as_ref(), entry.after) {
        return Ok(spot);
    }
    let was = match entry.after.get("sha256").and_then(Value::as_str) {
        Some(sha256) => format!("sha256:{sha256}"),
        None if entry.folder() && *entry.after != Value::Null => "a folder".to_owned(),
        None => "nothing".to_owned(),
    };
    let is = spot.thing.as_ref().map_or_else(
        || "nothing".to_owned(),
        |thing| named(Some(&super::evidence::content(thing))),
    );
    Err(format!(
        "{path}: what stands there is not what the call left: it left {was}, now there is {is}"
    ))
}

fn carry_back(tree: &Worktree, from: &Entry<'_>, to: &Entry<'_>) -> Result<Prepared, String> {
    left(tree, from)?;
    let Some(thing) = left(tree, to)?.thing else { return Err(unreadable()) };
    let paths = (to.path, from.path);
    Ok(carry::carrying(VERB, paths, paths, thing))
}

fn file_back(
    tree: &Worktree,
    entry: &Entry<'_>,
    before: &dyn Fn(&Hash) -> Option<Vec<u8>>,
) -> Result<Prepared, String> {
    let spot = left(tree, entry)?;
    let path = entry.path;
    if entry.made() {
        let things = spot.thing.into_iter().map(|thing| (spot.path.clone(), thing)).collect();
        return Ok(remove::taking(VERB, path, things));
    }
    let wanted = entry.before.get("sha256").and_then(Value::as_str).ok_or_else(unreadable)?;
    let hash = crate::event::B32::from_hex(wanted).ok_or_else(unreadable)?.0;
    let mode = entry.mode()?;
    let bytes = before(&hash).filter(|bytes| hex(&sha256(bytes)) == wanted);
    let bytes = bytes.ok_or_else(|| {
        format!(
            "{}: its content before the call (sha256:{wanted}) is not in the log any more",
            super::shown(path)
        )
    })?;
    let recorded = match &spot.thing {
        Some(Thing::File(found)) => Some((found.sha256, found.stamp.mode)),
        Some(Thing::Folder(_)) => return Err(unreadable()),
        None => None,
    };
    let after = After::File { sha256: hash, mode };
    let touched = vec![Touched { path: path.to_owned(), before: spot.thing, after }];
    let replacement = Replacement { resolved: path.to_owned(), before: recorded, bytes, mode };
    Ok(Prepared::change(VERB, path, touched, Work::Replace(replacement)))
}

fn folders_away(tree: &Worktree, left: &[Spot]) -> Result<Prepared, String> {
    let full = |path: &str| format!("{}: the folder is not empty any more", super::shown(path));
    let mut things: Vec<(String, Thing)> = Vec::new();
    for (index, spot) in left.iter().enumerate() {
        let sole = match tree.sole_name(spot, &spot.path) {
            Ok(sole) => sole,
            Err(Fault::NotEmpty) => return Err(full(&spot.path)),
            Err(fault) => return Err(format!("{}: {fault}", super::shown(&spot.path))),
        };
        let below = match left.get(index + 1) {
            Some(next) => {
                let below = next.path.strip_prefix(&format!("{}/", spot.path));
                Some(below.filter(|name| !name.contains('/')).ok_or_else(unreadable)?)
            }
            None => None,
        };
        if sole.as_deref() != below {
            return Err(full(&spot.path));
        }
        things.extend(spot.thing.clone().map(|thing| (spot.path.clone(), thing)));
    }
    let path = things.first().map_or("", |(path, _)| path).to_owned();
    Ok(remove::taking(VERB, &path, things))
}

fn folders_back(tree: &Worktree, folders: &[Entry<'_>]) -> Result<Prepared, String> {
    let Some(last) = folders.last() else { return Err(unreadable()) };
    for entry in folders {
        left(tree, entry)?;
    }
    let spot = left(tree, last)?;
    let paths: Vec<&str> = folders.iter().map(|entry| entry.path).collect();
    if spot.missing() != paths {
        return Err(format!("{}: the folders above it are not as the call left them", last.path));
    }
    let modes = folders.iter().map(Entry::mode).collect::<Result<_, _>>()?;
    Ok(mkdir::raising(VERB, last.path, &spot, modes))
}
