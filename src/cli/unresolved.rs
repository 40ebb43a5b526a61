//! `worldlog unresolved`: calls whose effect nobody could settle.

use super::ask::At;
use super::out::Out;
use super::request::ENTRIES_MAX;
use super::{Done, out};
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
    let (mut items, mut from) = (Vec::new(), args.from);
    loop {
        let request = object([
            ("from", from.into()),
            ("limit", ENTRIES_MAX.into()),
            ("verb", "unresolved".into()),
        ]);
        let answer = args.at.ask(&request)?;
        let page = answer.get("items").and_then(Value::as_array).unwrap_or_default();
        items.extend_from_slice(page);
        let last = page.last().and_then(|item| item.get("intent")).and_then(Value::as_u64);
        let full = page.len() as u64 == ENTRIES_MAX;
        let Some(last) = last.filter(|_| full) else { break };
        from = last + 1;
    }
    if args.at.json {
        out.json(&object([("items", Value::Array(items))]));
        return Ok(0);
    }
    for item in &items {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or("-");
        let number = |name: &str| item.get(name).and_then(Value::as_u64).unwrap_or(0);
        let leaf = number("intent");
        out.line(format!(
            "{}  {}  {}  {}  intent at leaf {leaf}",
            text("invocation"),
            text("episode"),
            text("tool"),
            text("effect")
        ));
        let paths = item.get("paths").and_then(Value::as_array).unwrap_or_default();
        let paths: Vec<_> = paths.iter().filter_map(Value::as_str).collect();
        if !paths.is_empty() {
            out.line(out::shown(&format!("    may have changed {}", paths.join(", "))));
        }
        out.line(format!("    closed at leaf {}, record {}", number("closure"), text("record")));
    }
    if items.is_empty() {
        out.line("nothing is unresolved");
    } else {
        out.line("look at the worktree, then: worldlog resolve INVOCATION landed|not-happened");
    }
    Ok(0)
}
