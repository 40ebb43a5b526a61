//! `worldlog freeze`, `thaw`: no new effects in an episode, or anywhere.

use super::node::Options as NodeArgs;
use super::out::Out;
use super::{Done, ask, place};
use crate::canon::object;
use std::path::PathBuf;

/// `freeze` and `thaw`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The episode.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    episode: Option<String>,
    /// Everywhere.
    #[arg(long)]
    all: bool,
    /// Also stop what runs and has not passed its point of no return (`freeze` only).
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    data: place::DataArgs,
    /// File of the guard, when no server runs.
    #[arg(long, value_name = "G")]
    guard: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, frozen: bool, out: &mut Out) -> Done {
    if args.now && !frozen {
        return Err(super::Failure::usage("--now stops what runs: it belongs to `freeze`"));
    }
    let node = NodeArgs::of(&args.data, None, args.guard.as_deref());
    let request = object([
        ("episode", args.episode.clone().into()),
        ("frozen", frozen.into()),
        ("now", args.now.into()),
        ("verb", "freeze".into()),
    ]);
    let answer = ask::ask(&node, &request)?;
    if args.json {
        out.json(&answer);
        return Ok(0);
    }
    let place =
        args.episode.as_deref().map_or("everywhere".to_owned(), |name| format!("in {name}"));
    let what = if frozen { "no new effects begin" } else { "effects may begin again" };
    out.line(format!("{what} {place}"));
    Ok(0)
}
