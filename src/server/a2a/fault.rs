//! Errors of A2A: which code, which sentence, and what a program reads beside it, in each dialect.
//!
//! ```text
//! 0.1  {"code":-32602,"message":"invalid params","data":{"field":"params.id","reason":"…"}}
//! 1.0  {"code":-32602,"message":"invalid params: params.id …","data":[{"@type":"…/google.rpc.BadRequest","fieldViolations":[…]}]}
//! ```
//!
//! The sentences of 0.1 are contract, word for word: agents act on them. Causes stay in the server's own log, because they
//! may name paths of the host.

use super::super::rpc::{
    self, Failure, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    UNAUTHORIZED,
};
use super::Dialect;
use crate::canon::{Value, object};
use crate::service::{CallError, Fate, Refused, Unauthenticated};

/// No such task; in 0.1 also: no session.
const NOT_FOUND: i32 = -32001;
/// The task cannot be canceled.
const NOT_CANCELABLE: i32 = -32002;
/// No push notifications.
const NO_PUSH: i32 = -32003;
/// The server does not do that.
const UNSUPPORTED: i32 = -32004;
/// No such content.
const CONTENT_TYPE: i32 = -32005;
/// No such version of the protocol.
const VERSION: i32 = -32009;

/// `@type` of what names a reason.
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
/// `@type` of what names fields.
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
/// Whose reasons those of the protocol are.
const PROTOCOL: &str = "a2a-protocol.org";
/// Whose reasons the others are.
const OURS: &str = "worldlog";

/// What stands beside the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Detail {
    /// The field that is wrong.
    Field { field: String, reason: String },
    /// Why, for a program.
    Info { reason: &'static str, more: Vec<(&'static str, String)> },
    /// What is known of a call without an answer.
    Fate { reason: &'static str, fate: Box<Fate> },
}

/// An error on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    code: i32,
    sentence: String,
    detail: Detail,
    /// The status, where it is not 200.
    pub(super) status: u16,
    /// Whether the client should open another connection, because this one's time is up.
    pub(super) close: bool,
}

impl Fault {
    fn new(code: i32, sentence: impl Into<String>, detail: Detail) -> Self {
        Self { code, sentence: sentence.into(), detail, status: 200, close: false }
    }

    fn info(code: i32, sentence: impl Into<String>, reason: &'static str) -> Self {
        Self::new(code, sentence, Detail::Info { reason, more: Vec::new() })
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Detail::Info { more, .. } = &mut self.detail {
            more.push((name, value.into()));
        }
        self
    }

    /// A body that holds no request. Without a version it is 0.1, which has one code for all of these.
    pub(super) fn undecodable(dialect: Dialect, failure: &Failure) -> Self {
        let reason = failure.message.strip_prefix("invalid request: ").unwrap_or(&failure.message);
        if dialect == Dialect::V10 && failure.code == PARSE_ERROR {
            return Self::info(PARSE_ERROR, "invalid JSON payload", "JSON_PARSE_ERROR")
                .with("cause", reason);
        }
        Self::invalid_request(reason)
    }

    /// A body that holds no request, and why.
    pub(super) fn invalid_request(reason: &str) -> Self {
        Self::info(INVALID_REQUEST, "invalid JSON-RPC request", "INVALID_REQUEST")
            .with("cause", reason)
    }

    pub(super) fn method(method: &str) -> Self {
        let method: String = method.chars().take(128).collect();
        Self::info(METHOD_NOT_FOUND, "method not found", "METHOD_NOT_FOUND").with("method", method)
    }

    /// A field that is not as it has to be.
    pub(super) fn params(field: impl Into<String>, reason: impl Into<String>) -> Self {
        let detail = Detail::Field { field: field.into(), reason: reason.into() };
        Self::new(INVALID_PARAMS, "invalid params", detail)
    }

    pub(super) fn version(sent: &str, supported: &str) -> Self {
        let sent: String = sent.chars().take(64).collect();
        let sentence =
            format!("A2A-Version {sent:?} is not supported for this; it has to be {supported}");
        Self::info(VERSION, sentence, "VERSION_NOT_SUPPORTED")
            .with("requested", sent)
            .with("supported", supported)
    }

    pub(super) fn task(id: &str) -> Self {
        let id: String = id.chars().take(128).collect();
        let sentence = "task not found: no task of this session has this id";
        Self::info(NOT_FOUND, sentence, "TASK_NOT_FOUND").with("taskId", id)
    }

    pub(super) fn cancel(id: &str) -> Self {
        let sentence = "the task cannot be canceled: it is over, or its effect is under way";
        Self::info(NOT_CANCELABLE, sentence, "TASK_NOT_CANCELABLE").with("taskId", id)
    }

    pub(super) fn push() -> Self {
        let sentence = "push notifications are not supported: ask for the task instead";
        Self::info(NO_PUSH, sentence, "PUSH_NOTIFICATION_NOT_SUPPORTED")
    }

    pub(super) fn unsupported(sentence: &str) -> Self {
        Self::info(UNSUPPORTED, sentence, "UNSUPPORTED_OPERATION")
    }

    pub(super) fn content(sentence: &str) -> Self {
        Self::info(CONTENT_TYPE, sentence, "CONTENT_TYPE_NOT_SUPPORTED")
    }

    /// A tool that is not there, or that the session may not see.
    pub(super) fn unauthorized_skill() -> Self {
        Self::info(INVALID_PARAMS, "not authorized", "NOT_AUTHORIZED")
            .with("advice", "read the card with your token: it lists the skills of your session")
    }

    /// The store could not be read.
    pub(super) fn store() -> Self {
        Self::info(INTERNAL_ERROR, "internal store failure", "INTERNAL_ERROR")
    }

    /// No session. 1.0 has another meaning for the code of 0.1, and a status for this.
    pub(super) fn credential(why: Unauthenticated, dialect: Dialect) -> Self {
        let (reason, text) = match why {
            Unauthenticated::Absent => (
                "SESSION_ABSENT",
                "session credential is absent: send Authorization: Bearer <session-credential>",
            ),
            Unauthenticated::Malformed => (
                "SESSION_MALFORMED",
                "malformed Authorization header: expected Bearer <64-hex-credential>",
            ),
            Unauthenticated::Unknown => ("SESSION_UNKNOWN", "unknown session credential"),
            Unauthenticated::Expired => ("SESSION_EXPIRED", "session credential has expired"),
            Unauthenticated::Revoked => ("SESSION_REVOKED", "session credential has been revoked"),
        };
        if dialect == Dialect::V10 {
            return Self { status: 401, ..Self::info(UNAUTHORIZED, text, reason) };
        }
        let malformed = why == Unauthenticated::Malformed;
        Self::info(if malformed { INVALID_REQUEST } else { NOT_FOUND }, text, reason)
    }

    /// A call without an answer.
    pub(super) fn of_call(error: &CallError) -> Self {
        let (code, reason, sentence) = sentence_of(error);
        if code == INTERNAL_ERROR {
            tracing::warn!(cause = %error, "a call has no answer");
        }
        let close = matches!(
            error,
            CallError::Waited | CallError::TimedOut { .. } | CallError::PlanTimedOut
        );
        Self {
            close,
            ..Self::new(code, sentence, Detail::Fate { reason, fate: Box::new(error.fate()) })
        }
    }

    /// The bytes of the answer. `id` is raw text; `None` when it could not be read.
    pub(super) fn render(&self, dialect: Dialect, id: Option<&str>) -> String {
        let message = match (&self.detail, dialect) {
            (_, Dialect::V01) => self.sentence.clone(),
            (Detail::Field { field, reason }, _) => {
                format!("{}: {field} {reason}", self.sentence)
            }
            // Where the server names the tasks, the message id is the client's key.
            (Detail::Fate { .. }, _) => self.sentence.replace("task id", "message id"),
            _ => self.sentence.clone(),
        };
        let data = match dialect {
            Dialect::V10 => Value::Array(vec![self.as_any()]),
            Dialect::V01 | Dialect::V03 => self.as_object(),
        };
        rpc::Failure { data: Some(data), ..Failure::new(self.code, message) }.render(id)
    }

    fn as_object(&self) -> Value {
        match &self.detail {
            Detail::Field { field, reason } => {
                object([("field", field.as_str().into()), ("reason", reason.as_str().into())])
            }
            Detail::Info { reason, more } => {
                let mut members = strings(more.iter().map(|(name, value)| (*name, value.clone())));
                members.insert("reason".to_owned(), (*reason).into());
                Value::Object(members)
            }
            Detail::Fate { fate, .. } => fate.to_value(),
        }
    }

    fn as_any(&self) -> Value {
        let (domain, reason, metadata) = match &self.detail {
            Detail::Field { field, reason } => {
                let violation = object([
                    ("description", reason.as_str().into()),
                    ("field", field.strip_prefix("params.").unwrap_or(field).into()),
                ]);
                return object([
                    ("@type", BAD_REQUEST.into()),
                    ("fieldViolations", Value::Array(vec![violation])),
                ]);
            }
            Detail::Info { reason, more } => {
                let ours = reason.starts_with("SESSION_") || *reason == "NOT_AUTHORIZED";
                let more = strings(more.iter().map(|(name, value)| (*name, value.clone())));
                (if ours { OURS } else { PROTOCOL }, *reason, more)
            }
            Detail::Fate { reason, fate } => {
                let told = [
                    ("advice", Some(fate.advice.clone())),
                    ("invocation", fate.invocation.clone()),
                    ("phase", Some(fate.phase.to_owned())),
                    ("records", Some(fate.records.join(" "))),
                    ("safe_to_repeat", Some(fate.safe_to_repeat.to_string())),
                ];
                let told = told.into_iter().filter_map(|(name, value)| Some((name, value?)));
                (OURS, *reason, strings(told))
            }
        };
        object([
            ("@type", ERROR_INFO.into()),
            ("domain", domain.into()),
            ("metadata", Value::Object(metadata)),
            ("reason", reason.into()),
        ])
    }
}

fn strings<'a>(
    members: impl Iterator<Item = (&'a str, String)>,
) -> std::collections::BTreeMap<String, Value> {
    members.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Code, reason and sentence of 0.1. What was requested and may have run comes first: nothing may hide it.
fn sentence_of(error: &CallError) -> (i32, &'static str, String) {
    let (code, reason, text) = match error {
        CallError::Unconfirmed { .. } => {
            return (INTERNAL_ERROR, "EFFECTS_UNRECORDED", error.to_string());
        }
        CallError::UnknownTool(_) => (INVALID_PARAMS, "NOT_AUTHORIZED", "not authorized"),
        CallError::OtherTransition => (
            INVALID_PARAMS,
            "OTHER_TRANSITION",
            "proposal does not match the registered transition",
        ),
        CallError::ClaimInFlight => {
            (INVALID_PARAMS, "IN_FLIGHT", "task id already used in this session")
        }
        CallError::ClaimTaken => {
            (INVALID_PARAMS, "ID_TAKEN", "task id already used in this session")
        }
        CallError::NotCommitted(Refused::Unknown(_)) => (
            INTERNAL_ERROR,
            "OUTCOME_UNKNOWN",
            "invocation outcome is not confirmed; resend the same task id",
        ),
        CallError::NotCommitted(Refused::Changed(_)) => (
            INTERNAL_ERROR,
            "HEAD_MOVED",
            "world head moved during invocation; not committed; send a new task id",
        ),
        CallError::NotCommitted(_) | CallError::Stopped { .. } => {
            (INTERNAL_ERROR, "NOT_COMMITTED", "invocation was not committed; send a new task id")
        }
        CallError::Waited | CallError::TimedOut { .. } | CallError::PlanTimedOut => {
            (INTERNAL_ERROR, "DEADLINE_EXCEEDED", "invocation exceeded its deadline")
        }
        CallError::Transition(_) => {
            (INTERNAL_ERROR, "TRANSITION_FAILED", "transition execution failed")
        }
        CallError::Closed(_) | CallError::Crowded | CallError::ClaimsFull => (
            INTERNAL_ERROR,
            "NOT_AVAILABLE",
            "transition invocation is not available in this daemon",
        ),
    };
    (code, reason, text.to_owned())
}

#[cfg(test)]
mod tests {
    //! Here, because most of these cannot be brought about from outside.

    use super::*;

    fn errors() -> Vec<(CallError, i32, &'static str)> {
        let cause = || "/srv/secret/place".to_owned();
        let (invocation, record) = ("0f".repeat(16), format!("sha256:{}", "0e".repeat(32)));
        let lost = |records| CallError::Unconfirmed { invocation: invocation.clone(), records };
        let refused = CallError::NotCommitted;
        let deadline = "invocation exceeded its deadline";
        let again = "invocation was not committed; send a new task id";
        let used = "task id already used in this session";
        vec![
            (
                lost(vec!["sha256:aa".to_owned(), "sha256:bb".to_owned()]),
                -32603,
                "effects were requested but the invocation was not confirmed committed; effect records: sha256:aa sha256:bb",
            ),
            (
                lost(Vec::new()),
                -32603,
                "effects were requested but the invocation was not confirmed committed; effect records: none",
            ),
            (CallError::UnknownTool(cause()), -32602, "not authorized"),
            (
                CallError::OtherTransition,
                -32602,
                "proposal does not match the registered transition",
            ),
            (CallError::ClaimInFlight, -32602, used),
            (CallError::ClaimTaken, -32602, used),
            (
                refused(Refused::Unknown(cause())),
                -32603,
                "invocation outcome is not confirmed; resend the same task id",
            ),
            (
                refused(Refused::Changed(crate::state::Unlawful::ClaimsFull)),
                -32603,
                "world head moved during invocation; not committed; send a new task id",
            ),
            (refused(Refused::Busy), -32603, again),
            (refused(Refused::NotCommitted(cause())), -32603, again),
            (
                CallError::Stopped { invocation: invocation.clone(), record, late: true },
                -32603,
                again,
            ),
            (CallError::Waited, -32603, deadline),
            (CallError::PlanTimedOut, -32603, deadline),
            (CallError::TimedOut { invocation: invocation.clone() }, -32603, deadline),
            (CallError::Transition(cause()), -32603, "transition execution failed"),
            (
                CallError::Closed("frozen"),
                -32603,
                "transition invocation is not available in this daemon",
            ),
            (CallError::Crowded, -32603, "transition invocation is not available in this daemon"),
            (
                CallError::ClaimsFull,
                -32603,
                "transition invocation is not available in this daemon",
            ),
        ]
    }

    #[test]
    fn every_failure_of_a_call_has_its_sentence() {
        for (error, code, sentence) in errors() {
            let fault = Fault::of_call(&error);
            assert_eq!((fault.code, fault.sentence.as_str()), (code, sentence));
            let late = sentence == "invocation exceeded its deadline";
            assert_eq!(fault.close, late, "{error}");
            let old = fault.render(Dialect::V01, Some("1"));
            let told = error.fate().to_value();
            assert!(old.contains(&format!("\"data\":{}", rpc::text_of(&told))), "{old}");
            assert!(old.contains(&format!("\"message\":\"{sentence}\"")), "{old}");
            let new = fault.render(Dialect::V10, Some("1"));
            assert!(new.contains(r#""data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"worldlog","#));
            assert!(!new.contains("task id"), "{new}");
        }
    }

    #[test]
    fn no_cause_that_may_name_a_path_of_the_host_leaves() {
        for (error, ..) in errors() {
            for dialect in [Dialect::V01, Dialect::V03, Dialect::V10] {
                let text = Fault::of_call(&error).render(dialect, Some("1"));
                assert!(!text.contains("/srv"), "{text}");
            }
        }
    }
}
