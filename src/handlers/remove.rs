//! `remove`: a file, or an empty folder. A link at the end of the path is not followed, and not removed either.

use super::evidence::{After, Touched, content};
use super::{Call, Done, OpError, Prepared, Standing, Work, stale};
use crate::handlers::effect::Payload;
use crate::merkle::hash::Hash;
use crate::sandbox::{Fault, Known, Removal, Thing, Worktree};

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path"];

/// A file or folder to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: String,
}

/// What is to go, as it was found.
#[derive(Debug)]
pub(super) struct Gone {
    resolved: String,
    known: Known,
    was: Hash,
    /// Names of the folders in one another that a folder holds; none for one that is empty.
    below: Vec<String>,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request { path: payload.text("path")?.to_owned() })
}

pub(super) fn prepare(tree: &Worktree, request: &Request) -> Prepared {
    let path = request.path.as_str();
    let refusal = |fault: &Fault| Prepared::refusal("remove", path, &fault.to_string());
    let spot = match tree.spot(path) {
        Ok(spot) => spot,
        Err(fault) => return refusal(&fault),
    };
    let base = vec![Standing::of(&spot.path, spot.thing.as_ref())];
    if let Some(Thing::Folder(_)) = &spot.thing {
        match tree.is_empty(&spot, path) {
            Ok(true) => {}
            Ok(false) => return refusal(&Fault::NotEmpty).over(base),
            Err(fault) => return refusal(&fault).over(base),
        }
    }
    match spot.thing {
        Some(thing) => taking("remove", path, vec![(spot.path, thing)]),
        None => refusal(&Fault::absent(path)).over(base),
    }
}

/// Removes a file, or folders of which each is all that the one before it holds.
pub(super) fn taking(verb: &'static str, path: &str, things: Vec<(String, Thing)>) -> Prepared {
    let last_name = |path: &str| path.rsplit('/').next().unwrap_or("").to_owned();
    let below = things.iter().skip(1).map(|(path, _)| last_name(path)).collect();
    let Some((resolved, known, was)) =
        things.first().map(|(path, thing)| (path.clone(), Known::from(thing), content(thing)))
    else {
        return Prepared::refusal(verb, path, "there is nothing to remove");
    };
    let touched = things.into_iter().map(|(path, thing)| Touched {
        path,
        before: Some(thing),
        after: After::Absent,
    });
    let touched = touched.collect();
    Prepared::change(verb, path, touched, Work::Remove(Gone { resolved, known, was, below }))
}

pub(super) fn perform(call: &Call<'_>, gone: &Gone) -> Done {
    let below: Vec<&str> = gone.below.iter().map(String::as_str).collect();
    let removal = Removal {
        path: call.path,
        resolved: &gone.resolved,
        known: gone.known,
        below: &below,
        unique: call.unique(),
    };
    call.ended(call.tree.remove(&removal, call.gate.seal), |now| stale(Some(&gone.was), now))
}
