//! `move`: a file or a folder gets another path, where nothing stands. Missing folders above it are made.

use super::evidence::{After, Touched, content};
use super::{Call, Done, OpError, Prepared, Standing, Work, stale};
use crate::handlers::effect::Payload;
use crate::merkle::hash::Hash;
use crate::sandbox::{Carriage, Fault, Known, Spot, Thing, Worktree, exists};

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["from", "to"];

/// A file or folder to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    from: String,
    to: String,
}

/// What is to be moved, as it was found.
#[derive(Debug)]
pub(super) struct Moving {
    to: String,
    resolved: (String, String),
    known: Known,
    was: Hash,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request { from: payload.text("from")?.to_owned(), to: payload.text("to")?.to_owned() })
}

pub(super) fn prepare(tree: &Worktree, request: &Request) -> Prepared {
    let Request { from, to } = request;
    let refusal = |fault: &Fault| Prepared::refusal("move", from, &fault.to_string());
    let source = match tree.spot(from) {
        Ok(spot) => spot,
        Err(fault) => return refusal(&fault),
    };
    let goal = match tree.spot(to) {
        Ok(spot) => spot,
        Err(Fault::Link) => {
            return refusal(&Fault::Exists { path: to.clone(), what: "a symbolic link" });
        }
        // The verb and the source come first, so the goal has to be named.
        Err(fault) => {
            return Prepared::refusal("move", from, &format!("to {}: {fault}", super::shown(to)));
        }
    };
    let base = vec![
        Standing::of(&source.path, source.thing.as_ref()),
        Standing::of(&goal.path, goal.thing.as_ref()),
    ];
    match check(&source, &goal, request) {
        Ok(thing) => carrying("move", (from, to), (&source.path, &goal.path), thing),
        Err(fault) => refusal(&fault).over(base),
    }
}

fn check(source: &Spot, goal: &Spot, request: &Request) -> Result<Thing, Fault> {
    let thing = source.thing.clone().ok_or_else(|| Fault::absent(&request.from))?;
    if let Some(there) = &goal.thing {
        return Err(exists(&request.to, there));
    }
    if goal.wants_folder() && matches!(thing, Thing::File(_)) {
        return Err(Fault::absent(&request.to));
    }
    if goal.path.strip_prefix(source.path.as_str()).is_some_and(|rest| rest.starts_with('/')) {
        return Err(Fault::Inside { path: request.to.clone() });
    }
    Ok(thing)
}

/// Moves `thing`. Paths as given, and without links.
pub(super) fn carrying(
    verb: &'static str,
    (from, to): (&str, &str),
    (source, goal): (&str, &str),
    thing: Thing,
) -> Prepared {
    let (known, was) = (Known::from(&thing), content(&thing));
    let after = match known {
        Known::File { sha256, mode } => After::File { sha256, mode },
        Known::Folder { inode, mode } => After::Folder { mode, inode: Some(inode) },
    };
    let touched = vec![
        Touched { path: source.to_owned(), before: Some(thing), after: After::Absent },
        Touched { path: goal.to_owned(), before: None, after },
    ];
    let resolved = (source.to_owned(), goal.to_owned());
    let moving = Moving { to: to.to_owned(), resolved, known, was };
    Prepared::change(verb, from, touched, Work::Move(moving))
}

pub(super) fn perform(call: &Call<'_>, moving: &Moving) -> Done {
    let carriage = Carriage {
        given: (call.path, &moving.to),
        resolved: (&moving.resolved.0, &moving.resolved.1),
        known: moving.known,
    };
    call.ended(call.tree.carry(&carriage, call.gate.seal), |now| stale(Some(&moving.was), now))
}
