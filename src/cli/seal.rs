//! `worldlog seal`: fixes the state in a seal now.

use super::node::Options as NodeArgs;
use super::out::Out;
use super::{Done, ask, place};
use crate::canon::{Value, object};
use std::path::PathBuf;

/// `seal`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File of the guard, when no server runs.
    #[arg(long, value_name = "G")]
    guard: Option<PathBuf>,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let node = NodeArgs::of(&args.data, None, args.guard.as_deref());
    let answer = ask::ask(&node, &object([("verb", "seal".into())]))?;
    match answer.get("leaf").and_then(Value::as_u64) {
        _ if args.json => out.json(&answer),
        Some(leaf) => out.line(format!("sealed by leaf {leaf}")),
        None => out.line("nothing is new since the last seal"),
    }
    Ok(0)
}
