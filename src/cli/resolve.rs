//! `worldlog resolve`: a person looked, and says what became of an effect that is in doubt.

use super::node::Options as NodeArgs;
use super::out::Out;
use super::{Done, ask, place};
use crate::canon::{Value, object};
use std::path::PathBuf;

/// `resolve`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The invocation, 32 hexadecimal digits.
    invocation: String,
    /// What became of its effect.
    verdict: Verdict,
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

/// What a person can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Verdict {
    /// What was asked for is there: it stays charged, and the call is committed.
    Landed,
    /// Nothing of it is there: the charge is taken back, and the caller's id is free again.
    NotHappened,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let node = NodeArgs::of(&args.data, args.workspace.as_deref(), args.guard.as_deref());
    let landed = args.verdict == Verdict::Landed;
    let request = object([
        ("invocation", args.invocation.as_str().into()),
        ("landed", landed.into()),
        ("verb", "resolve".into()),
    ]);
    let answer = ask::ask(&node, &request)?;
    if args.json {
        out.json(&answer);
        return Ok(0);
    }
    let record = answer.get("record").and_then(Value::as_str).unwrap_or("-");
    let verdict = if landed { "landed" } else { "not-happened" };
    out.line(format!("{} is settled as {verdict}: {record}", args.invocation));
    Ok(0)
}
