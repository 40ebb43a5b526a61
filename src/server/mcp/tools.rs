//! Tools as MCP shows them: the list, the call, and what a failed one tells.
//!
//! ```text
//! {"content":[{"type":"text","text":"<output>"}],"structuredContent":<output>,"_meta":{"worldlog/receipt":{…}}}
//! ```
//!
//! `<output>` is spliced, byte for byte the object that the commit names: no printer touches it. With a problem there are
//! `"isError":true` and a second text block, one sentence on why and what to do next. Nothing here decides whether a call
//! may run; the service does.

use super::super::beside;
use super::super::rpc::{Failure, INTERNAL_ERROR, INVALID_PARAMS, Members, is_id, string, text_of};
use super::{Success, modern};
use crate::canon::{self, Value, object};
use crate::event::Front;
use crate::service::{Call, CallError, Caller, Preview, Progress, Service, is_client_id};

/// The member of `_meta` that makes a call repeatable.
const KEY: &str = "worldlog/idempotency-key";

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
) -> Result<Value, Failure> {
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
    Ok(object([("tools", Value::Array(shown.collect()))]))
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

/// What `tools/call` asks for.
pub(super) struct Asked {
    call: Call,
    /// Only what it would do.
    preview: bool,
    /// Raw text of the token that news of the call carry.
    pub(super) progress: Option<String>,
}

/// Reads the params of `tools/call`.
pub(super) fn ask(params: &Members<'_>) -> Result<Asked, Failure> {
    let tool =
        string(params.get("name")).ok_or_else(|| Failure::params("name must be a string"))?;
    let args = canon::parse(params.get("arguments").unwrap_or("{}").as_bytes())
        .map_err(|error| Failure::params(format_args!("arguments: {error}")))?;
    if args.as_object().is_none() {
        return Err(Failure::params("arguments must be an object"));
    }
    let mut asked =
        Asked { call: Call::new(Front::Mcp, &tool, args), preview: false, progress: None };
    let Some(text) = params.get("_meta") else { return Ok(asked) };
    let meta = Members::parse(text).map_err(|_| Failure::params("_meta must be an object"))?;
    if let Some(token) = meta.get("progressToken") {
        if !is_id(token) {
            return Err(Failure::params("_meta: progressToken must be a string or an integer"));
        }
        asked.progress = Some(token.to_owned());
    }
    let mut ours = std::collections::BTreeMap::new();
    for name in meta.names().filter(|name| name.starts_with("worldlog/")) {
        let value = canon::parse(meta.get(name).unwrap_or_default().as_bytes())
            .map_err(|error| Failure::params(format_args!("_meta: {name:?}: {error}")))?;
        ours.insert(name.to_owned(), value);
    }
    if let Some(key) = ours.remove(KEY) {
        let id = key.as_str().filter(|id| is_client_id(id)).ok_or_else(|| {
            Failure::params(format_args!("_meta: {KEY:?} must be 1 to 128 of A-Z a-z 0-9 . _ : -"))
        })?;
        asked.call.claim = Some(id.to_owned());
    }
    asked.preview = beside::fill(&ours, &mut asked.call)
        .map_err(|(name, reason)| Failure::params(format_args!("_meta: {name:?} {reason}")))?;
    Ok(asked)
}

/// Runs what was asked for, and prints its result.
pub(super) async fn run(
    service: Service,
    caller: Caller,
    asked: Asked,
    modern: bool,
    progress: Option<Progress>,
) -> Result<Success, Failure> {
    if asked.preview {
        let preview = service.preview(&caller, asked.call).await.map_err(|e| failure(&e))?;
        let result = Printed { modern, receipt: None, token: None };
        let (output, problem) = shown(&preview);
        return Ok(result.success(&output, problem.as_deref()));
    }
    let answer = service.invoke(&caller, asked.call, progress).await.map_err(|e| failure(&e))?;
    // Canonical bytes are UTF-8.
    let output = String::from_utf8_lossy(&answer.output);
    let result =
        Printed { modern, receipt: Some(answer.receipt.to_value()), token: answer.token.clone() };
    Ok(result.success(&output, answer.problem.as_deref()))
}

/// A preview as the object of a result, with the `world` block that every one has, and why the call would not be done.
fn shown(preview: &Preview) -> (String, Option<String>) {
    let mut value = preview.to_value();
    if let Value::Object(members) = &mut value {
        let world = [("effects", Value::Array(Vec::new())), ("plan", preview.plan.as_str().into())];
        members.insert("world".to_owned(), object(world));
    }
    let denial = preview.decision.as_ref().and_then(|decision| decision.denial);
    let problem = match (&preview.refused, denial) {
        (Some(refused), _) => Some(format!("{refused}. A call would be refused and cost nothing.")),
        (None, Some(denial)) => Some(format!("{denial}: a call would be denied and cost nothing.")),
        (None, None) => None,
    };
    (text_of(&value), problem)
}

/// A result on its way out.
struct Printed {
    modern: bool,
    receipt: Option<Value>,
    token: Option<String>,
}

impl Printed {
    fn success(self, output: &str, problem: Option<&str>) -> Success {
        let first = block(output);
        let (second, flag) = match problem {
            Some(problem) => (format!(",{}", block(problem)), r#""isError":true,"#),
            None => (String::new(), ""),
        };
        let kind = if self.modern { r#""resultType":"complete","# } else { "" };
        let mut meta = std::collections::BTreeMap::new();
        if let Some(receipt) = &self.receipt {
            meta.insert("worldlog/receipt".to_owned(), receipt.clone());
        }
        if let Some(token) = self.token {
            meta.insert("worldlog/token".to_owned(), token.into());
        }
        if self.modern {
            meta.insert(modern::SERVER_MEMBER.to_owned(), super::server_info());
        }
        let meta = text_of(&Value::Object(meta));
        let result = format!(
            r#"{{"content":[{first}{second}],"structuredContent":{output},{flag}{kind}"_meta":{meta}}}"#
        );
        Success { result, of_tool: true, receipt: self.receipt }
    }
}

fn block(text: &str) -> String {
    text_of(&object([("text", text.into()), ("type", "text".into())]))
}

fn failure(error: &CallError) -> Failure {
    if let CallError::UnknownTool(name) = error {
        let name: String = name.chars().take(128).collect();
        return Failure::new(INVALID_PARAMS, format!("unknown tool \"{name}\""));
    }
    let data = Some(error.fate().to_value());
    if matches!(error, CallError::ClaimInFlight | CallError::ClaimTaken) {
        let message = format!("invalid params: _meta: {KEY:?}: {error}");
        return Failure { data, ..Failure::new(INVALID_PARAMS, message) };
    }
    tracing::warn!(cause = %error, "a call has no answer");
    let message = match error {
        CallError::Waited
        | CallError::TimedOut { .. }
        | CallError::PlanTimedOut
        | CallError::Stopped { late: true, .. } => "host callback timed out",
        _ => "host callback failed",
    };
    Failure { data, ..Failure::new(INTERNAL_ERROR, message) }
}
