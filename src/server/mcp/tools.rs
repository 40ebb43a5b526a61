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
use crate::service::{Answer, Call, CallError, Caller, Refused, Service};

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
    let call = Call { front: Front::Mcp, tool, args };
    match service.invoke(caller, call).await {
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

/// What is known of a call that has no answer, for a program to act on.
struct Fate<'a> {
    phase: &'static str,
    invocation: Option<&'a str>,
    record: Option<&'a str>,
    safe_to_repeat: bool,
    advice: String,
}

impl Fate<'_> {
    fn to_value(&self) -> Value {
        let mut value = object([
            ("advice", self.advice.as_str().into()),
            ("phase", self.phase.into()),
            ("records", Value::Array(self.record.map(Value::from).into_iter().collect())),
            ("safe_to_repeat", self.safe_to_repeat.into()),
        ]);
        if let (Value::Object(members), Some(invocation)) = (&mut value, self.invocation) {
            members.insert("invocation".to_owned(), invocation.into());
        }
        value
    }
}

fn failure(error: &CallError) -> Failure {
    if let CallError::UnknownTool(name) = error {
        let name: String = name.chars().take(128).collect();
        return Failure::new(INVALID_PARAMS, format!("unknown tool \"{name}\""));
    }
    tracing::warn!(cause = %error, "a call has no answer");
    let message = match error {
        CallError::Waited | CallError::TimedOut { .. } => "host callback timed out",
        _ => "host callback failed",
    };
    let data = Some(fate(error).to_value());
    Failure { data, ..Failure::new(INTERNAL_ERROR, message) }
}

/// The cause itself stays with the operator, because it may name paths of the host.
fn fate(error: &CallError) -> Fate<'_> {
    let nothing_ran = |phase, advice: String| Fate {
        phase,
        invocation: None,
        record: None,
        safe_to_repeat: true,
        advice,
    };
    match error {
        CallError::UnknownTool(_) | CallError::Transition(_) => nothing_ran(
            "plan",
            "nothing ran and nothing was spent, but the same call will fail again: tell your operator".to_owned(),
        ),
        CallError::Closed(reason) => {
            nothing_ran("admission", format!("nothing ran and nothing was spent: {reason}"))
        }
        CallError::Waited => nothing_ran(
            "admission",
            "nothing ran and nothing was spent: another call of the episode ran until the deadline; send it again"
                .to_owned(),
        ),
        // Without a durable intent no effect runs, but a refusal by the plan may turn out to be committed.
        CallError::NotCommitted(refused @ Refused::Unknown(_)) => Fate {
            safe_to_repeat: false,
            ..nothing_ran("intent", format!("no effect ran; {}", next_step(refused)))
        },
        CallError::NotCommitted(refused) => {
            nothing_ran("intent", format!("nothing ran and nothing was spent; {}", next_step(refused)))
        }
        CallError::TimedOut { invocation } => Fate {
            phase: "effect",
            invocation: Some(invocation),
            record: None,
            safe_to_repeat: false,
            advice: format!(
                "the call may still commit: GET /v1/receipts/{invocation}, and read what it was to change before you repeat it"
            ),
        },
        CallError::Unconfirmed { invocation, record } => Fate {
            phase: "commit",
            invocation: Some(invocation),
            record: Some(record.as_str()).filter(|record| record.starts_with("sha256:")),
            safe_to_repeat: false,
            advice: format!(
                "the effect may have run and was charged: GET /v1/receipts/{invocation}, and read what it was to change \
                 before you repeat it"
            ),
        },
    }
}

fn next_step(refused: &Refused) -> &'static str {
    match refused {
        Refused::Busy | Refused::Changed(_) => "wait a second and send it again",
        Refused::NoSpace { .. } => {
            "the disk is nearly full: tell your operator before you send it again"
        }
        Refused::Quota { .. } => {
            "the episode has stored what it may: your operator has to begin a new one"
        }
        Refused::Clock { .. } => {
            "the server's clock is not believed: tell your operator before you send it again"
        }
        Refused::NotCommitted(_) => {
            "the store refused it: send it again, and tell your operator if it stays so"
        }
        Refused::Unknown(_) => {
            "the server has to start again first: look into the log before you send it again"
        }
        Refused::Malformed(_) => "the same call will fail again: tell your operator",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message, phase, whether it is safe to repeat.
    fn told(error: &CallError) -> (String, String, bool) {
        let failure = failure(error);
        assert_eq!(failure.code, INTERNAL_ERROR);
        let data = failure.data.unwrap();
        let phase = data.get("phase").and_then(Value::as_str).unwrap().to_owned();
        let safe = data.get("safe_to_repeat").and_then(Value::as_bool).unwrap();
        assert!(data.get("advice").and_then(Value::as_str).is_some_and(|text| !text.is_empty()));
        (failure.message, phase, safe)
    }

    #[test]
    fn only_what_never_began_is_safe_to_repeat() {
        let invocation = "0f".repeat(16);
        let failed =
            |phase: &str, safe| ("host callback failed".to_owned(), phase.to_owned(), safe);
        let late = CallError::TimedOut { invocation: invocation.clone() };
        assert_eq!(told(&late), ("host callback timed out".to_owned(), "effect".to_owned(), false));
        let waited = ("host callback timed out".to_owned(), "admission".to_owned(), true);
        assert_eq!(told(&CallError::Waited), waited);
        let lost = CallError::Unconfirmed { invocation, record: "none".to_owned() };
        assert_eq!(told(&lost), failed("commit", false));
        assert_eq!(told(&CallError::Closed("stopped")), failed("admission", true));
        assert_eq!(told(&CallError::Transition("L3".to_owned())), failed("plan", true));
        assert_eq!(told(&CallError::NotCommitted(Refused::Busy)), failed("intent", true));
        let unknown = Refused::Unknown("halted".to_owned());
        assert_eq!(told(&CallError::NotCommitted(unknown)), failed("intent", false));
    }

    #[test]
    fn no_cause_that_may_name_a_path_of_the_host_leaves() {
        let cause = "/srv/secret/place".to_owned();
        let errors = [
            CallError::Transition(cause.clone()),
            CallError::NotCommitted(Refused::NotCommitted(cause.clone())),
            CallError::NotCommitted(Refused::Unknown(cause.clone())),
            CallError::NotCommitted(Refused::Malformed(cause)),
        ];
        for error in &errors {
            assert!(!failure(error).render(Some("1")).contains("/srv"), "{error}");
        }
    }
}
