//! `worldlog unresolved`: calls whose effect nobody could settle.

use super::Done;
use super::ask::At;
use super::out::Out;
use crate::canon::{Value, object};

/// `unresolved`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// First intent to list, by its leaf.
    #[arg(long, value_name = "LEAF", default_value_t = 0)]
    from: u64,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let request = object([
        ("from", args.from.into()),
        ("limit", super::request::ENTRIES_MAX.into()),
        ("verb", "unresolved".into()),
    ]);
    let answer = args.at.ask(&request)?;
    if args.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let items = answer.get("items").and_then(Value::as_array).unwrap_or_default();
    for item in items {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or("-");
        let leaf = item.get("intent").and_then(Value::as_u64).unwrap_or(0);
        out.line(format!(
            "{}  {}  {}  {}  intent at leaf {leaf}",
            text("invocation"),
            text("episode"),
            text("tool"),
            text("effect")
        ));
    }
    if items.is_empty() {
        out.line("nothing is unresolved");
    } else {
        out.line("look at the worktree, then: worldlog resolve INVOCATION landed|not-happened");
    }
    Ok(0)
}
