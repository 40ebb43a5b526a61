//! `worldlog approvals`, `approve`, `decline`: calls that wait for a person.

use super::Done;
use super::ask::At;
use super::out::Out;
use crate::canon::{Value, object};

/// `approvals`.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    at: At,
}

/// `approve` and `decline`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The token, as the denial or the preview told it.
    token: String,
    /// The session whose call it is, for a token that this server no longer knows.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Seconds for which the answer holds.
    #[arg(long, value_name = "S", default_value_t = 900)]
    ttl: u32,
    #[command(flatten)]
    at: At,
}

pub(super) fn list(args: &List, out: &mut Out) -> Done {
    let answer = args.at.ask(&object([("verb", "approvals".into())]))?;
    if args.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let waiting = answer.get("waiting").and_then(Value::as_array).unwrap_or_default();
    for call in waiting {
        let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or("-");
        let args = call.get("args").map(Value::to_bytes).unwrap_or_default();
        let args = String::from_utf8_lossy(&args).into_owned();
        out.line(format!("{}  {}  {}  {args}", text("token"), text("episode"), text("tool")));
    }
    if waiting.is_empty() {
        out.line("no call waits for an approval");
    }
    Ok(0)
}

pub(super) fn run(args: &Args, verdict: &str, out: &mut Out) -> Done {
    let request = object([
        ("session", args.session.clone().into()),
        ("token", args.token.as_str().into()),
        ("ttl", u64::from(args.ttl).into()),
        ("verb", "approve".into()),
        ("verdict", verdict.into()),
    ]);
    let answer = args.at.ask(&request)?;
    if args.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let session = answer.get("session").and_then(Value::as_str).unwrap_or("-");
    let then = match verdict {
        "approve" => "it runs once, when the session sends it again with the token",
        _ => "it will not run",
    };
    out.line(format!("{verdict}d for session {session}: {then}"));
    Ok(0)
}
