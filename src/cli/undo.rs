//! `worldlog undo ENTRY`: takes back what a call did to files.

use super::node::Options as NodeArgs;
use super::out::Out;
use super::{Done, ask, place};
use crate::canon::{Value, object};
use std::path::PathBuf;

/// `undo`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The entry, as `worldlog log` counts it.
    entry: u64,
    #[command(flatten)]
    data: place::DataArgs,
    /// Folder of the worktrees, when no server runs [default: <data>/workspace].
    #[arg(long, value_name = "W")]
    workspace: Option<PathBuf>,
    /// File of the guard, when no server runs.
    #[arg(long, value_name = "G")]
    guard: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let node = NodeArgs::of(&args.data, args.workspace.as_deref(), args.guard.as_deref());
    let request = object([("entry", args.entry.into()), ("verb", "undo".into())]);
    let answer = ask::ask(&node, &request)?;
    if args.json {
        out.json(&answer);
        return Ok(0);
    }
    let entry = answer.get("entry").and_then(Value::as_u64).unwrap_or(0);
    let paths = answer.get("paths").and_then(Value::as_array).unwrap_or_default();
    let paths: Vec<_> = paths.iter().filter_map(Value::as_str).collect();
    out.line(format!("took back entry {}: {} (entry {entry})", args.entry, paths.join(", ")));
    Ok(0)
}
