//! `worldlog seal`: fixes the state in a seal now.

use super::Done;
use super::ask::At;
use super::out::Out;
use crate::canon::{Value, object};

/// `seal`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    at: At,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let answer = args.at.ask(&object([("verb", "seal".into())]))?;
    match answer.get("leaf").and_then(Value::as_u64) {
        _ if args.at.json => out.json(&answer),
        Some(leaf) => out.line(format!("sealed by leaf {leaf}")),
        None => out.line("nothing is new since the last seal"),
    }
    Ok(0)
}
