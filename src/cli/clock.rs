//! `worldlog clock accept`: the operator looked at the server's clock, and effects may begin again.

use super::health::nobody;
use super::out::Out;
use super::{Done, ask, place};
use crate::canon::{Value, object};

/// Verbs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    /// Believe what the clock shows now.
    Accept(Accept),
}

/// `clock accept`.
#[derive(Debug, clap::Args)]
pub(super) struct Accept {
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(verb: Verb, out: &mut Out) -> Done {
    let Verb::Accept(args) = verb;
    let data = args.data.path()?;
    let request = object([("verb", "clock-accept".into())]);
    let answer = ask::server(&data, &request)?.ok_or_else(|| nobody(&data))?;
    match answer.get("accepted").and_then(Value::as_str) {
        _ if args.json => out.json(&answer),
        Some(doubt) => out.line(format!("accepted: the clock {doubt}")),
        None => out.line("the clock was not in doubt"),
    }
    Ok(0)
}
