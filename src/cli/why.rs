//! `worldlog why REF`: the story behind an entry, an invocation, a leaf or an object, for a person.

use super::ask::At;
use super::out::Out;
use super::{Done, out};
use crate::canon::{Value, object};

/// Characters of arguments that are shown: a write has a whole file in them.
const ARGS_CHARS_MAX: usize = 300;

/// `why`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// sha256:…, an entry (N or entry:N), leaf:N, or an invocation.
    reference: String,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let request = object([("ref", args.reference.as_str().into()), ("verb", "why".into())]);
    let story = args.at.ask(&request)?;
    if args.at.json {
        out.json(&story);
        return Ok(0);
    }
    for line in words(&story) {
        out.line(out::shown(&line));
    }
    Ok(0)
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or("-").to_owned()
}

fn number(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_u64).map_or_else(|| "-".to_owned(), |n| n.to_string())
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).unwrap_or_default()
}

/// A story in about ten lines; an event of no call in one.
fn words(story: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if story.get("semantic_id").is_some() {
        let (kind, leaf) = (text(story, "semantic_id"), number(story, "named_by"));
        lines.push(format!("{} is a {kind}, named by leaf {leaf}", text(story, "ref")));
    }
    let Some(decision) = story.get("decision") else {
        lines.push(format!("leaf {}: {} event", number(story, "leaf"), text(story, "kind")));
        return lines;
    };
    asked(story, &mut lines);
    decided(story, decision, &mut lines);
    ended(story, &mut lines);
    logged(story, &mut lines);
    lines
}

fn asked(story: &Value, lines: &mut Vec<String>) {
    let by = match story.get("session").and_then(Value::as_str) {
        Some(session) => format!("session {session}, over {}", text(story, "front")),
        None => "the operator".to_owned(),
    };
    let args = story.get("args").map(Value::to_bytes).unwrap_or_default();
    let args: String = String::from_utf8_lossy(&args).chars().take(ARGS_CHARS_MAX).collect();
    lines.push(format!("asked    {} {args} by {by}", text(story, "tool")));
    lines.push(format!(
        "         invocation {} in episode {}",
        text(story, "invocation"),
        text(story, "episode")
    ));
}

fn decided(story: &Value, decision: &Value, lines: &mut Vec<String>) {
    lines.push(match decision.get("allowed").and_then(Value::as_bool) {
        None => "decided  nothing: the plan has no effect".to_owned(),
        Some(false) => format!(
            "decided  {}: {} in {}, {} left",
            text(decision, "denial"),
            text(decision, "effect"),
            text(decision, "scope"),
            number(decision, "budgetBefore")
        ),
        Some(true) => format!(
            "decided  {} in {} may run: {} left before it, {} after",
            text(decision, "effect"),
            text(decision, "scope"),
            number(decision, "budgetBefore"),
            number(decision, "budgetAfter")
        ),
    });
    let Some(grants) = story.get("grants") else { return };
    let same = |grant: &Value, name: &str| {
        grant.get(name).is_some() && grant.get(name) == decision.get(name)
    };
    for grant in items(grants, "items") {
        if same(grant, "effect") && same(grant, "scope") {
            lines.push(format!(
                "granted  {}={}:{} by leaf {}",
                text(grant, "effect"),
                text(grant, "scope"),
                number(grant, "budget"),
                number(grants, "leaf")
            ));
        }
    }
}

fn ended(story: &Value, lines: &mut Vec<String>) {
    for closure in items(story, "closures") {
        lines.push(format!(
            "closed   {} by {}: {} ({} charged)",
            text(closure, "verdict"),
            text(closure, "by"),
            text(closure, "evidence"),
            number(closure, "charge")
        ));
    }
    lines.push(format!("ended    {}", text(story, "status")));
    let problem = story.get("problem").and_then(Value::as_str);
    lines.extend(problem.map(|problem| format!("         {problem}")));
    // What an intent names is what it was to change.
    let did = if text(story, "status") == "ok" && problem.is_none() { "changed" } else { "wanted" };
    for file in items(story, "files") {
        let (before, after) = (text(file, "before"), text(file, "after"));
        lines.push(format!("{did:<8} {}: {before} -> {after}", text(file, "path")));
    }
}

fn logged(story: &Value, lines: &mut Vec<String>) {
    for event in items(story, "events") {
        lines.push(format!("logged   leaf {} {}", number(event, "leaf"), text(event, "kind")));
    }
    if let Some(Value::Object(refs)) = story.get("refs") {
        lines.extend(
            refs.iter().map(|(name, value)| format!("{name:<8} {}", value.as_str().unwrap_or("-"))),
        );
    }
    if let Some(receipt) = story.get("receipt") {
        lines.push(format!(
            "proof    entry {}: worldlog prove {}",
            number(receipt, "entry"),
            number(receipt, "leaf")
        ));
    }
}
