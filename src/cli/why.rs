//! `worldlog why REF`: the story behind an entry, an invocation, a leaf or an object, for a person.

use super::Done;
use super::ask::At;
use super::out::Out;
use crate::canon::{Value, object};

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
        out.line(line);
    }
    Ok(0)
}

fn words(story: &Value) -> Vec<String> {
    let text = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_str).unwrap_or("-").to_owned()
    };
    let number = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_u64).map_or_else(|| "-".to_owned(), |n| n.to_string())
    };
    let json = |value: Option<&Value>| {
        let bytes = value.map(Value::to_bytes).unwrap_or_default();
        String::from_utf8_lossy(&bytes).chars().take(300).collect::<String>()
    };
    let Some(decision) = story.get("decision") else {
        return vec![format!("leaf {}: {} event", number(story, "leaf"), text(story, "kind"))];
    };
    let mut lines = Vec::new();
    if story.get("semantic_id").is_some() {
        let (kind, leaf) = (text(story, "semantic_id"), number(story, "named_by"));
        lines.push(format!("{} is a {kind}, named by leaf {leaf}", text(story, "ref")));
    }
    let by = match story.get("session").and_then(Value::as_str) {
        Some(session) => format!("session {session}, over {}", text(story, "front")),
        None => "the operator".to_owned(),
    };
    lines.push(format!("asked    {} {} by {by}", text(story, "tool"), json(story.get("args"))));
    lines.push(format!(
        "         invocation {} in episode {}",
        text(story, "invocation"),
        text(story, "episode")
    ));
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
    let granted = |leaf: &Value, grant: &Value| {
        let (effect, scope) = (text(grant, "effect"), text(grant, "scope"));
        let (budget, leaf) = (number(grant, "budget"), number(leaf, "leaf"));
        format!("granted  {effect}={scope}:{budget} by leaf {leaf}")
    };
    if let Some(grants) = story.get("grants") {
        let items = grants.get("items").and_then(Value::as_array).unwrap_or_default();
        let used = |grant: &&Value| {
            ["effect", "scope"].iter().all(|name| grant.get(name) == decision.get(name))
        };
        lines.extend(items.iter().filter(used).map(|grant| granted(grants, grant)));
    }
    for closure in story.get("closures").and_then(Value::as_array).unwrap_or_default() {
        lines.push(format!(
            "closed   {} by {}: {} ({} charged)",
            text(closure, "verdict"),
            text(closure, "by"),
            text(closure, "evidence"),
            number(closure, "charge")
        ));
    }
    lines.push(format!("ended    {}", text(story, "status")));
    if let Some(problem) = story.get("problem").and_then(Value::as_str) {
        lines.push(format!("         {problem}"));
    }
    // What an intent names is what it was to change.
    let well = text(story, "status") == "ok" && story.get("problem") == Some(&Value::Null);
    let did = if well { "changed " } else { "intended" };
    for file in story.get("files").and_then(Value::as_array).unwrap_or_default() {
        let (before, after) = (text(file, "before"), text(file, "after"));
        lines.push(format!("{did} {}: {before} -> {after}", text(file, "path")));
    }
    for event in story.get("events").and_then(Value::as_array).unwrap_or_default() {
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
    lines
}
