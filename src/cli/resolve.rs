//! `worldlog resolve`: a person looked, and says what became of an effect that is in doubt.

use super::Done;
use super::ask::At;
use super::out::Out;
use crate::canon::{Value, object};

/// `resolve`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The invocation, 32 hexadecimal digits.
    invocation: String,
    /// What became of its effect.
    verdict: Verdict,
    #[command(flatten)]
    at: At,
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
    let landed = args.verdict == Verdict::Landed;
    let request = object([
        ("invocation", args.invocation.as_str().into()),
        ("landed", landed.into()),
        ("verb", "resolve".into()),
    ]);
    let answer = args.at.ask(&request)?;
    if args.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let record = answer.get("record").and_then(Value::as_str).unwrap_or("-");
    let verdict = if landed { "landed" } else { "not-happened" };
    out.line(format!("{} is settled as {verdict}: {record}", args.invocation));
    Ok(0)
}
