//! `mkdir`: a folder, with the folders above it that are missing.

use super::evidence::{After, Touched};
use super::{Call, Done, OpError, Prepared, Standing, Work};
use crate::handlers::effect::Payload;
use crate::sandbox::{Raising, Spot, Thing, Worktree, exists};

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path"];

/// A folder to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: String,
}

/// Folders that are to be made inside one another, and their permission bits.
#[derive(Debug)]
pub(super) struct Folders {
    folders: Vec<String>,
    modes: Vec<u32>,
}

/// The mode of a folder that is made.
const MODE_NEW: u32 = 0o755;

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request { path: payload.text("path")?.to_owned() })
}

pub(super) fn prepare(tree: &Worktree, request: &Request) -> Prepared {
    let path = request.path.as_str();
    let spot = match tree.spot_of_folder(path) {
        Ok(spot) => spot,
        Err(fault) => return Prepared::refusal("mkdir", path, &fault.to_string()),
    };
    match &spot.thing {
        // Whoever wants it to be there has it.
        Some(Thing::Folder(_)) => Prepared::harmless("mkdir", path, Work::Stands),
        Some(file) => Prepared::refusal("mkdir", path, &exists(path, file).to_string())
            .over(vec![Standing::of(&spot.path, Some(file))]),
        None => {
            let modes = spot.missing().iter().map(|_| MODE_NEW).collect();
            raising("mkdir", path, &spot, modes)
        }
    }
}

/// Makes what is missing for `spot`, with these permission bits.
pub(super) fn raising(verb: &'static str, path: &str, spot: &Spot, modes: Vec<u32>) -> Prepared {
    let folders = spot.missing();
    let touched = folders.iter().zip(&modes).map(|(path, mode)| Touched {
        path: path.clone(),
        before: None,
        after: After::Folder { mode: *mode, inode: None },
    });
    let touched = touched.collect();
    Prepared::change(verb, path, touched, Work::Raise(Folders { folders, modes }))
}

pub(super) fn perform(call: &Call<'_>, folders: &Folders) -> Done {
    let Folders { folders, modes } = folders;
    let raising = Raising { path: call.path, folders, modes, unique: call.unique() };
    call.ended(call.tree.raise(&raising, call.gate.seal), |_| {
        "something else stands there now; list the folder and try again".to_owned()
    })
}
