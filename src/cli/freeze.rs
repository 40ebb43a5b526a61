//! `worldlog freeze`, `thaw`: no new effects in an episode, or anywhere.

use super::Done;
use super::ask::At;
use super::out::Out;
use crate::canon::object;

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
    at: At,
}

pub(super) fn run(args: &Args, frozen: bool, out: &mut Out) -> Done {
    if args.now && !frozen {
        return Err(super::Failure::usage("--now stops what runs: it belongs to `freeze`"));
    }
    let request = object([
        ("episode", args.episode.clone().into()),
        ("frozen", frozen.into()),
        ("now", args.now.into()),
        ("verb", "freeze".into()),
    ]);
    let answer = args.at.ask(&request)?;
    if args.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let place =
        args.episode.as_deref().map_or("everywhere".to_owned(), |name| format!("in {name}"));
    let what = if frozen { "no new effects begin" } else { "effects may begin again" };
    out.line(format!("{what} {place}"));
    Ok(0)
}
