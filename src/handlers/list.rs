//! `list`: what is in a folder and below it.
//!
//! ```text
//! {"entries":[{"kind":"file","path":"a/b.ail","size":12},{"kind":"folder","path":"a/c"},{"kind":"link","path":"l","target":"a"}],
//!  "not_utf8":0,"ok":true,"policy_digest":"<hex>","tool":"sha256:<hex>","truncated":false,"truncated_by":null,"unreadable":0}
//! ```

use super::effect::Payload;
use super::read::json_bytes;
use super::{Call, DEADLINE, Done, OpError, Prepared, Work, failed};
use crate::canon::{Value, object};
use crate::limits::{LIST_ENTRIES_MAX, PATH_DEPTH_MAX, WALK_NAMES_MAX, WALK_OUTPUT_BYTES_MAX};
use crate::sandbox::{Glob, Kind, Met, Scope};

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path", "glob", "depth", "hidden", "limit"];

/// Entries unless asked otherwise.
const ENTRIES: u64 = 1_000;
/// Room that an entry takes besides its path and target.
const ENTRY_FRAME_BYTES: usize = 64;

/// A folder to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: Option<String>,
    glob: Option<String>,
    depth: Option<u64>,
    hidden: bool,
    limit: u64,
}

/// The same, with the pattern read.
#[derive(Debug)]
pub(super) struct Listing {
    request: Request,
    glob: Glob,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request {
        path: payload.maybe_text("path")?,
        glob: payload.maybe_text("glob")?,
        depth: payload.whole("depth", 1, PATH_DEPTH_MAX as u64)?,
        hidden: payload.flag("hidden")?,
        limit: payload.whole("limit", 1, LIST_ENTRIES_MAX)?.unwrap_or(ENTRIES),
    })
}

pub(super) fn prepare(request: &Request) -> Prepared {
    let path = request.path.as_deref().unwrap_or(".");
    match Glob::new(request.glob.as_deref()) {
        Ok(glob) => {
            let listing = Listing { request: request.clone(), glob };
            Prepared::harmless("list", path, Work::List(listing))
        }
        Err(why) => Prepared::refusal("list", path, &why),
    }
}

pub(super) fn perform(call: &Call<'_>, listing: &Listing) -> Done {
    let Listing { request, glob } = listing;
    let depth = request.depth.and_then(|depth| usize::try_from(depth).ok());
    let scope = Scope {
        path: request.path.as_deref(),
        depth: depth.unwrap_or(usize::MAX),
        hidden: request.hidden,
        glob,
        file: false,
        names: WALK_NAMES_MAX,
    };
    let (mut entries, mut bytes, mut by) = (Vec::new(), 0, None);
    let walked = call.tree.walk(&scope, call.gate.open, &mut |met| {
        let target = if met.kind == Kind::Link { met.target() } else { None };
        bytes += json_bytes(met.path) + ENTRY_FRAME_BYTES;
        bytes += target.as_deref().map_or(0, json_bytes);
        if entries.len() as u64 >= request.limit {
            by = Some("limit");
        } else if bytes > WALK_OUTPUT_BYTES_MAX {
            by = Some("bytes");
        } else {
            entries.push(entry(met, target));
        }
        by.is_none()
    });
    let walked = match walked {
        Ok(walked) if walked.closed => return failed(DEADLINE.to_owned()),
        Ok(walked) => walked,
        Err(fault) => return call.refuse(&fault),
    };
    let by = by.or(walked.cut.then_some("names"));
    call.answered([
        ("entries", Value::Array(entries)),
        ("not_utf8", walked.unnamed.into()),
        ("truncated", by.is_some().into()),
        ("truncated_by", by.into()),
        ("unreadable", walked.unreadable.into()),
    ])
}

fn entry(met: &Met<'_>, target: Option<String>) -> Value {
    let (kind, path) = (("kind", met.kind.as_str().into()), ("path", met.path.into()));
    match met.kind {
        Kind::File => object([kind, path, ("size", met.size().into())]),
        Kind::Link => object([kind, path, ("target", target.into())]),
        _ => object([kind, path]),
    }
}
