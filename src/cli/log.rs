//! `worldlog log`: committed calls, one a line, and on request those that come.

use super::out::Out;
use super::{Done, Failure, ask, place, request};
use crate::canon::{Value, object};
use crate::event::{Body, Event};
use crate::service::LogEntry;
use crate::store::{Store, StoreError, layout};
use std::path::Path;
use std::time::Duration;

/// How often `--follow` looks.
const PAUSE: Duration = Duration::from_millis(300);

/// `log`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Go on with what comes, while the server runs.
    #[arg(long)]
    follow: bool,
    /// First entry.
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    #[command(flatten)]
    data: place::DataArgs,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    let mut next = args.from;
    let mut asked = false;
    while !out.closed() {
        let request = object([
            ("from", next.into()),
            ("limit", request::ENTRIES_MAX.into()),
            ("verb", "log".into()),
        ]);
        let Some(answer) = ask::server(&data, &request)? else {
            if asked {
                // It stopped; what it committed was printed.
                return Ok(0);
            }
            return offline(&data, args, out);
        };
        asked = true;
        let entries = answer.get("entries").and_then(Value::as_array).unwrap_or_default();
        for entry in entries {
            print(entry, args.json, out);
            next = entry.get("entry").and_then(Value::as_u64).map_or(next, |entry| entry + 1);
        }
        if entries.is_empty() {
            if !args.follow {
                return Ok(0);
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(0)
}

fn print(entry: &Value, json: bool, out: &mut Out) {
    if json {
        out.json(entry);
        return;
    }
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("-");
    let number = |name: &str| entry.get(name).and_then(Value::as_u64).unwrap_or(0);
    out.line(format!(
        "{}  leaf {}  {}  {:<8}  {}  {}  {}",
        number("entry"),
        number("leaf"),
        number("at"),
        text("status"),
        text("tool"),
        text("episode"),
        text("invocation")
    ));
}

fn offline(data: &Path, args: &Args, out: &mut Out) -> Done {
    if args.follow {
        return Err(super::health::nobody(data));
    }
    let store = place::open_store(data, 1)?;
    let Some(chunk) = layout::entry_chunk(&store, args.from).map_err(Failure::damaged)? else {
        return Ok(0);
    };
    for item in layout::events(&store, chunk.first_seq) {
        let (_, bytes) = item.map_err(Failure::damaged)?;
        if let Some(entry) = entry(&store, &bytes).map_err(Failure::damaged)?
            && entry.entry >= args.from
        {
            print(&entry.to_value(), args.json, out);
        }
        if out.closed() {
            break;
        }
    }
    Ok(0)
}

/// The entry that an event is, as the server lists it.
fn entry(store: &dyn Store, bytes: &[u8]) -> Result<Option<LogEntry>, StoreError> {
    let Ok(Event { seq, at, ep: Some(ep), inv: Some(inv), body: Body::Commit(commit), .. }) =
        Event::decode(bytes)
    else {
        return Ok(None);
    };
    let read = |seq: u64| -> Result<Option<Body>, StoreError> {
        let bytes = layout::event(store, seq)?;
        Ok(bytes.and_then(|bytes| Event::decode(&bytes).ok()).map(|event| event.body))
    };
    let Some(Body::Plan(plan)) = read(commit.plan)? else { return Ok(None) };
    let outcome = match commit.outcome.map(read).transpose()?.flatten() {
        Some(Body::Outcome(outcome)) => Some(outcome),
        _ => None,
    };
    let record = outcome.as_ref().map(|outcome| outcome.record);
    Ok(Some(LogEntry {
        entry: commit.entry,
        leaf: seq,
        at,
        episode: ep.name.to_string(),
        invocation: inv.to_string(),
        tool: plan.tool,
        front: plan.front.to_string(),
        status: outcome.map_or("refused", |outcome| outcome.status.as_str()).to_owned(),
        brefs: [Some(plan.input), Some(plan.plan), record, Some(commit.output)],
        refs: [None, None, None, None],
    }))
}
