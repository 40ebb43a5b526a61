//! `worldlog health`: how the server is.

use super::out::Out;
use super::{Done, Failure, ask, place};
use crate::canon::{Value, object};
use std::path::Path;

/// `health`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    let request = object([("verb", "health".into())]);
    let answer = ask::server(&data, &request)?.ok_or_else(|| nobody(&data))?;
    if args.json {
        out.json(&answer);
        return Ok(0);
    }
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or("-");
    let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    out.line(format!("worldlog {} serves {}", text("version"), text("origin")));
    out.line(format!(
        "{} events, {} entries, {} unresolved",
        number("size"),
        number("entries"),
        number("unresolved")
    ));
    if let Some(doubt) = answer.get("clock").and_then(Value::as_str) {
        out.line(format!(
            "the clock {doubt}: no new effects. Check it, then run `worldlog clock accept`"
        ));
    }
    Ok(0)
}

/// No server runs on this data directory.
pub(super) fn nobody(data: &Path) -> Failure {
    let data = data.display();
    Failure::usage(format!(
        "no server runs on {data}: start it with `worldlog serve --data {data}`"
    ))
}
