//! `worldlog undo ENTRY`: takes back what a call did to files.

use super::ask::At;
use super::out::Out;
use super::{Done, out};
use crate::canon::{Value, object};

/// `undo`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The entry, as `worldlog log` counts it.
    entry: u64,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let request = object([("entry", args.entry.into()), ("verb", "undo".into())]);
    let answer = args.at.ask(&request)?;
    if args.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let entry = answer.get("entry").and_then(Value::as_u64).unwrap_or(0);
    let paths = answer.get("paths").and_then(Value::as_array).unwrap_or_default();
    let paths: Vec<_> = paths.iter().filter_map(Value::as_str).collect();
    let told = format!("took back entry {}: {} (entry {entry})", args.entry, paths.join(", "));
    out.line(out::shown(&told));
    Ok(0)
}
