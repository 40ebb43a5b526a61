//! Tools as MCP shows them: the list, the call, and what a failed one tells.
//!
//! ```text
//! {"content":[{"type":"text","text":"<output>"}],"structuredContent":<output>,"_meta":{"worldlog/receipt":{…}}}
//! ```
//!
//! `<output>` is spliced, byte for byte the object that the commit names: no printer touches it. With a problem there are
//! `"isError":true` and a second text block, one sentence on why and what to do next. Nothing here decides whether a call
//! may run; the service does.

use super::rpc::{Failure, INTERNAL_ERROR, INVALID_PARAMS, Members, string, text_of};
use crate::canon::{self, Value, object};
use crate::event::Front;
use crate::service::{Answer, Call, CallError, Caller, Service};

/// What every output has. Tighter ones would make clients throw away refusals and denials, which share this object.
fn output_schema() -> Value {
    let world = object([("type", "object".into())]);
    object([
        ("properties", object([("world", world)])),
        ("required", Value::Array(vec!["world".into()])),
        ("type", "object".into()),
    ])
}

/// The result of `tools/list`: what the caller's grants let it see.
pub(super) fn list(
    service: &Service,
    caller: &Caller,
    params: &Members<'_>,
) -> Result<String, Failure> {
    if params.get("cursor").is_some_and(|cursor| cursor != "null") {
        return Err(Failure::params("cursor: all tools are on the first page"));
    }
    let shown = service.tools(caller).into_iter().map(|tool| {
        let reads = service.reads_only(tool);
        object([
            ("annotations", annotations(reads)),
            ("description", tool.description().into()),
            ("inputSchema", tool.input_schema()),
            ("name", tool.tool().into()),
            ("outputSchema", output_schema()),
            ("title", tool.title().into()),
        ])
    });
    Ok(text_of(&object([("tools", Value::Array(shown.collect()))])))
}

/// Every call is a new invocation in the log, so that none is idempotent unless it reads.
fn annotations(reads: bool) -> Value {
    if reads {
        return object([("openWorldHint", false.into()), ("readOnlyHint", true.into())]);
    }
    object([
        ("destructiveHint", true.into()),
        ("idempotentHint", false.into()),
        ("openWorldHint", false.into()),
        ("readOnlyHint", false.into()),
    ])
}

/// Runs `tools/call` and prints its result.
pub(super) async fn call(
    service: &Service,
    caller: &Caller,
    params: &Members<'_>,
) -> Result<String, Failure> {
    let tool =
        string(params.get("name")).ok_or_else(|| Failure::params("name must be a string"))?;
    let args = canon::parse(params.get("arguments").unwrap_or("{}").as_bytes())
        .map_err(|error| Failure::params(format_args!("arguments: {error}")))?;
    if args.as_object().is_none() {
        return Err(Failure::params("arguments must be an object"));
    }
    check_meta(params)?;
    let call = Call::new(Front::Mcp, &tool, args);
    match service.invoke(caller, call, None).await {
        Ok(answer) => Ok(render(&answer)),
        Err(error) => Err(failure(&error)),
    }
}

/// A member of `_meta` that asks for something of ours that this server does not know must not be passed over: whoever
/// sends a token or an expectation relies on it.
fn check_meta(params: &Members<'_>) -> Result<(), Failure> {
    let Some(text) = params.get("_meta") else { return Ok(()) };
    let meta = Members::parse(text).map_err(|_| Failure::params("_meta must be an object"))?;
    match meta.names().find(|name| name.starts_with("worldlog/")) {
        Some(name) => Err(Failure::params(format_args!("_meta: {name:?} is not known here"))),
        None => Ok(()),
    }
}

fn render(answer: &Answer) -> String {
    // Canonical bytes are UTF-8.
    let output = String::from_utf8_lossy(&answer.output);
    let receipt = text_of(&answer.receipt.to_value());
    let first = block(&output);
    let (second, flag) = match &answer.problem {
        Some(problem) => (format!(",{}", block(problem)), r#""isError":true,"#),
        None => (String::new(), ""),
    };
    format!(
        r#"{{"content":[{first}{second}],"structuredContent":{output},{flag}"_meta":{{"worldlog/receipt":{receipt}}}}}"#
    )
}

fn block(text: &str) -> String {
    text_of(&object([("text", text.into()), ("type", "text".into())]))
}

fn failure(error: &CallError) -> Failure {
    if let CallError::UnknownTool(name) = error {
        let name: String = name.chars().take(128).collect();
        return Failure::new(INVALID_PARAMS, format!("unknown tool \"{name}\""));
    }
    tracing::warn!(cause = %error, "a call has no answer");
    let message = match error {
        CallError::Waited | CallError::TimedOut { .. } | CallError::PlanTimedOut => {
            "host callback timed out"
        }
        _ => "host callback failed",
    };
    let data = Some(error.fate().to_value());
    Failure { data, ..Failure::new(INTERNAL_ERROR, message) }
}
