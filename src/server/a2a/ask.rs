//! What a send asks for: the tool, its arguments, and what stands beside them, read from the params of each dialect.
//!
//! ```text
//! 0.1  {"id":"read-1","message":{"parts":[{"type":"data","data":{…}}]},"metadata":{"skill_id":"ailang-read"}}
//! 0.3  {"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"data","data":{…}}],"metadata":{…}}}
//! 1.0  {"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"data":{…}}]},"metadata":{…},"configuration":{…}}
//! ```
//!
//! Members that a dialect does not know are passed over and never come back; those of ours that this server does not know
//! are refused, because whoever sends a guard relies on it. Nothing here runs anything.

use super::super::beside;
use super::Dialect;
use super::fault::Fault;
use crate::canon::{self, Value, object};
use crate::event::{B32, Fixed, Front, hex};
use crate::merkle::hash::sha256;
use crate::service::{Call, is_client_id};
use std::collections::BTreeMap;

/// The member that names the tool.
const SKILL: &str = "skill_id";
/// The member that pins the transition's source.
const PIN: &str = "transition_fn";
/// The member that asks for one content a message id.
const STRICT: &str = "worldlog/strict-message-id";

/// The members of an object.
type Object = BTreeMap<String, Value>;

/// Parses params as canonical JSON: numbers never pass through a float.
pub(super) fn params(text: Option<&str>) -> Result<Object, Fault> {
    let wrong = |reason: String| Fault::params("params", reason);
    let value = canon::parse(text.unwrap_or("{}").as_bytes()).map_err(|e| wrong(e.to_string()))?;
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(wrong("must be an object".to_owned())),
    }
}

/// A member that is a string; empty counts as absent, as in protobuf's JSON.
pub(super) fn text<'a>(of: &'a Object, at: &str, name: &str) -> Result<Option<&'a str>, Fault> {
    match of.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(Fault::params(format!("{at}.{name}"), "must be a string")),
    }
}

fn required<'a>(of: &'a Object, at: &str, name: &str) -> Result<&'a str, Fault> {
    text(of, at, name)?.ok_or_else(|| Fault::params(format!("{at}.{name}"), "is required"))
}

/// A member that is an object.
fn members<'a>(of: &'a Object, at: &str, name: &str) -> Result<Option<&'a Object>, Fault> {
    match of.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(_) => Err(Fault::params(format!("{at}.{name}"), "must be an object")),
    }
}

/// A member that is true or false.
pub(super) fn flag(of: &Object, at: &str, name: &str) -> Result<bool, Fault> {
    match of.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Fault::params(format!("{at}.{name}"), "must be true or false")),
    }
}

/// A member that is a whole number.
pub(super) fn number(of: &Object, at: &str, name: &str) -> Result<Option<u64>, Fault> {
    match of.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| Fault::params(format!("{at}.{name}"), "must be a non-negative integer")),
    }
}

/// What a send asks for, before it is known whether the session may.
#[derive(Debug)]
pub(super) struct Ask {
    /// The task id of 0.1, or the message id.
    pub(super) id: String,
    /// The task that the message is for.
    pub(super) task: Option<String>,
    /// The context that the message is for.
    pub(super) context: Option<String>,
    /// The tool.
    pub(super) skill: Result<String, Fault>,
    /// Whether only a preview is wanted.
    pub(super) preview: bool,
    /// The extension that was asked for and is honoured.
    pub(super) strict: bool,
    parts: Value,
    call: Call,
    pin: Option<String>,
}

impl Ask {
    /// Reads the params. `strict` is what the header asks for.
    pub(super) fn read(dialect: Dialect, params: &Object, strict: bool) -> Result<Self, Fault> {
        let first = dialect == Dialect::V01;
        let id = if first { required(params, "params", "id")? } else { "" };
        if first && !is_client_id(id) {
            return Err(Fault::params("params.id", "must be 1 to 128 of A-Z a-z 0-9 . _ : -"));
        }
        let message = members(params, "params", "message")?
            .ok_or_else(|| Fault::params("params.message", "is required"))?;
        let at = "params.message";
        let id = if first { id } else { required(message, at, "messageId")? }.to_owned();
        let (mut task, mut context) = (None, None);
        if !first {
            let role = if dialect == Dialect::V10 { "ROLE_USER" } else { "user" };
            if required(message, at, "role")? != role {
                return Err(Fault::params("params.message.role", format!("must be {role:?}")));
            }
            task = text(message, at, "taskId")?.map(str::to_owned);
            context = text(message, at, "contextId")?.map(str::to_owned);
            configuration(params)?;
        }
        let mut metadata = merged(params, message)?;
        let skill = required(&metadata, "params.metadata", SKILL).map(str::to_owned);
        let pin = text(&metadata, "params.metadata", PIN)?.map(str::to_owned);
        let strict = strict || flag(&metadata, "params.metadata", STRICT)?;
        metadata.remove(STRICT);
        let mut call = Call::new(Front::A2a, "", object([]));
        let preview = beside::fill(&metadata, &mut call).map_err(|(name, reason)| {
            Fault::params(format!("params.metadata[{name:?}]"), reason)
        })?;
        let parts = message.get("parts").cloned().unwrap_or(Value::Null);
        Ok(Self { id, task, context, skill, preview, strict: strict && !first, parts, call, pin })
    }

    /// The arguments: the data of exactly one part.
    pub(super) fn data(&self, dialect: Dialect) -> Result<Value, Fault> {
        let at = "params.message.parts";
        let parts = self.parts.as_array().ok_or_else(|| Fault::params(at, "must be an array"))?;
        let tag = match dialect {
            Dialect::V01 => Some("type"),
            Dialect::V03 => Some("kind"),
            Dialect::V10 => None,
        };
        let of_data = |part: &Value| match tag {
            Some(tag) => part.get(tag).and_then(Value::as_str) == Some("data"),
            None => part.get("data").is_some(),
        };
        let media = |part: &Value| part.get("mediaType").and_then(Value::as_str).map(str::to_owned);
        let json = |part: &Value| media(part).is_none_or(|media| is_json(&media));
        if dialect != Dialect::V01 && parts.iter().any(|part| !of_data(part) || !json(part)) {
            return Err(Fault::content(
                "the content type is not supported: send one part with data, an object of the skill's arguments",
            ));
        }
        match parts {
            [part] if of_data(part) => {
                let data = part.get("data").filter(|data| data.as_object().is_some());
                data.cloned().ok_or_else(|| {
                    Fault::params("params.message.parts[0].data", "must be an object")
                })
            }
            _ => Err(Fault::params(at, "must be exactly one part with data")),
        }
    }

    /// The call, for a tool that the session may see.
    pub(super) fn call(self, dialect: Dialect, data: Value) -> Result<Call, Fault> {
        let tool = self.skill?;
        let pin = match self.pin {
            None => None,
            Some(text) => {
                let Fixed(hash) =
                    text.strip_prefix("sha256:").and_then(B32::from_hex).ok_or_else(|| {
                        let reason = "must be sha256: and 64 lowercase hexadecimal digits";
                        Fault::params(format!("params.metadata.{PIN}"), reason)
                    })?;
                Some(hash)
            }
        };
        // None of these has the form of another front's or dialect's id, and none can be mistaken for another of them: the
        // last part tells which it is.
        let claim = match dialect {
            Dialect::V01 => self.id,
            _ if self.strict => format!("message/{}/strict", self.id),
            _ => format!("message/{}/{}", self.id, digest(&tool, &data)),
        };
        Ok(Call { tool, args: data, claim: Some(claim), pin, ..self.call })
    }
}

/// The first 16 digits of what a message asks for.
fn digest(tool: &str, data: &Value) -> String {
    let asked = object([("input", data.clone()), ("skill", tool.into())]);
    hex(sha256(&asked.to_bytes()).get(..8).unwrap_or_default())
}

fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or("").trim();
    media.is_empty() || media.eq_ignore_ascii_case("application/json")
}

/// What a send wishes of its answer. What cannot be granted is refused; a wish not to wait is granted by waiting, because
/// no call takes longer than its deadline.
fn configuration(params: &Object) -> Result<(), Fault> {
    let at = "params.configuration";
    let Some(wishes) = members(params, "params", "configuration")? else { return Ok(()) };
    number(wishes, at, "historyLength")?;
    flag(wishes, at, "returnImmediately")?;
    flag(wishes, at, "blocking")?;
    for name in ["taskPushNotificationConfig", "pushNotificationConfig"] {
        if members(wishes, at, name)?.is_some() {
            return Err(Fault::push());
        }
    }
    let modes = wishes.get("acceptedOutputModes").and_then(Value::as_array).unwrap_or_default();
    let taken = |mode: &Value| {
        mode.as_str().is_some_and(|mode| is_json(mode) || matches!(mode, "*/*" | "application/*"))
    };
    if modes.is_empty() || modes.iter().any(taken) {
        return Ok(());
    }
    Err(Fault::content("no accepted output mode is supported: outputs are application/json"))
}

/// The metadata of the request and of its message as one. They may not contradict each other in what this server reads.
fn merged(params: &Object, message: &Object) -> Result<Object, Fault> {
    let mut all = members(params, "params", "metadata")?.cloned().unwrap_or_default();
    let Some(of_message) = members(message, "params.message", "metadata")? else { return Ok(all) };
    for (name, value) in of_message {
        let read = name == SKILL || name == PIN || name.starts_with("worldlog/");
        if read && all.get(name).is_some_and(|other| other != value) {
            let field = format!("params.message.metadata[{name:?}]");
            return Err(Fault::params(field, "contradicts the member of params.metadata"));
        }
        all.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Ok(all)
}
