//! JSON-RPC 2.0 as MCP and A2A use it: what was sent, and the bytes of what is answered.
//!
//! ```text
//! {"jsonrpc":"2.0","id":7,"method":"ping"}          request       id: a string or an integer
//! {"jsonrpc":"2.0","method":"notifications/x"}      notification  never runs anything
//! {"jsonrpc":"2.0","id":7,"result":{}}              response      nobody asked
//! ```
//!
//! Members are looked at as raw text: an id comes back exactly as it was sent, and arguments reach the canonical parser
//! without having been another parser's numbers. A member that stands twice has no one meaning and is refused. What
//! methods there are is the fronts' own.

use crate::canon::{self, Value};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The text is not JSON.
pub(super) const PARSE_ERROR: i32 = -32700;
/// It is JSON, but no message of JSON-RPC.
pub(super) const INVALID_REQUEST: i32 = -32600;
/// No such method.
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
/// The method does not take these params.
pub(super) const INVALID_PARAMS: i32 = -32602;
/// The host could not do it.
pub(super) const INTERNAL_ERROR: i32 = -32603;
/// The version of the protocol is not spoken here (MCP 2026-07-28).
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;
/// A header does not say what the body says (MCP 2026-07-28).
pub(super) const HEADER_MISMATCH: i32 = -32020;
/// The session ended between the head of the request and this message: ours, outside the reserved codes.
pub(super) const UNAUTHORIZED: i32 = 401;

/// The members of an object, unparsed.
#[derive(Debug, Default)]
pub(super) struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    /// The raw text of a member.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|raw| raw.get())
    }

    /// The names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The members of the object that `text` is.
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    if members.contains_key(&name) {
                        return Err(A::Error::custom(format!("the member {name:?} stands twice")));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

/// An error on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The code.
    pub(super) code: i32,
    /// One sentence.
    pub(super) message: String,
    /// Structured advice.
    pub(super) data: Option<Value>,
}

impl Failure {
    /// An error without data.
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// `-32602 invalid params: …`.
    pub(super) fn params(reason: impl fmt::Display) -> Self {
        Self::new(INVALID_PARAMS, format!("invalid params: {reason}"))
    }

    /// The bytes of the answer. `id` is raw text; `None` when it could not be read.
    pub(super) fn render(&self, id: Option<&str>) -> String {
        let mut error = canon::object([("message", self.message.as_str().into())]);
        if let (Value::Object(members), Some(data)) = (&mut error, &self.data) {
            members.insert("data".to_owned(), data.clone());
        }
        let inner = text_of(&error);
        // Canonical values have no negative numbers to be made from, so the code is spliced in.
        let inner = inner.strip_prefix('{').unwrap_or(&inner);
        let (id, code) = (id.unwrap_or("null"), self.code);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},{inner}}}"#)
    }
}

/// The bytes of a success.
pub(super) fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The canonical text of a value.
pub(super) fn text_of(value: &Value) -> String {
    String::from_utf8_lossy(&value.to_bytes()).into_owned()
}

/// What one POST holds.
#[derive(Debug)]
pub(super) enum Sent<'a> {
    /// One message.
    One(Message<'a>),
    /// An array of them: a batch of revision 2025-03-26.
    Batch(Vec<Message<'a>>),
}

/// One message.
#[derive(Debug)]
pub(super) enum Message<'a> {
    /// It wants an answer.
    Request {
        /// Raw text.
        id: &'a str,
        /// The method.
        method: String,
        /// Raw text.
        params: Option<&'a str>,
    },
    /// It wants none.
    Notification,
    /// It answers something that this server never asked.
    Response,
    /// It is no message.
    Invalid {
        /// Raw text, where it could be read.
        id: Option<&'a str>,
        /// Why.
        failure: Failure,
    },
}

impl<'a> Message<'a> {
    /// The id to answer with.
    pub(super) fn id(&self) -> Option<&'a str> {
        match self {
            Self::Request { id, .. } => Some(id),
            Self::Invalid { id, .. } => *id,
            Self::Notification | Self::Response => None,
        }
    }

    fn invalid(id: Option<&'a str>, reason: &str) -> Self {
        let failure = Failure::new(INVALID_REQUEST, format!("invalid request: {reason}"));
        Self::Invalid { id, failure }
    }

    /// Reads one message. `text` is JSON that was found well-formed, or the whole body.
    fn read(text: &'a str) -> Result<Self, Failure> {
        let members = match Members::parse(text) {
            Ok(members) => members,
            Err(error) if error.classify() == Category::Data => {
                let text = error.to_string();
                // serde_json ends every text with the place, counted from this message.
                let reason = text.split(" at line ").next().unwrap_or(&text);
                return Ok(Self::invalid(None, reason));
            }
            Err(error) => return Err(parse_error(&error)),
        };
        let sent = members.get("id");
        let id = sent.filter(|raw| is_id(raw));
        if string(members.get("jsonrpc")).as_deref() != Some("2.0") {
            return Ok(Self::invalid(id, "jsonrpc must be \"2.0\""));
        }
        let Some(method) = members.get("method") else {
            let answers = members.get("result").or(members.get("error")).is_some();
            let no_method = || Self::invalid(id, "it has neither method nor result nor error");
            return Ok(if answers { Self::Response } else { no_method() });
        };
        let Some(method) = string(Some(method)) else {
            return Ok(Self::invalid(id, "method must be a string"));
        };
        Ok(match (sent, id) {
            (None, _) => Self::Notification,
            (Some(_), None) => Self::invalid(None, "id must be a string or an integer"),
            (Some(_), Some(id)) => Self::Request { id, method, params: members.get("params") },
        })
    }
}

/// Reads a body.
///
/// # Errors
/// A parse error, or the emptiness of a batch: there is nothing whose id could be answered.
pub(super) fn read(body: &[u8]) -> Result<Sent<'_>, Failure> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        Failure::new(PARSE_ERROR, format!("parse error: the text is not UTF-8 at byte {at}"))
    })?;
    if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('[') {
        return Message::read(text).map(Sent::One);
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| parse_error(&error))?;
    if items.is_empty() {
        return Err(Failure::new(INVALID_REQUEST, "invalid request: the batch is empty"));
    }
    items
        .into_iter()
        .map(|item| Message::read(item.get()))
        .collect::<Result<_, _>>()
        .map(Sent::Batch)
}

fn parse_error(error: &serde_json::Error) -> Failure {
    Failure::new(PARSE_ERROR, format!("parse error: {error}"))
}

/// A string or an integer. Floats and exponents are no integers even where their value is one.
pub(super) fn is_id(raw: &str) -> bool {
    if raw.starts_with('"') {
        return string(Some(raw)).is_some();
    }
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The text of a string; `None` for anything else, and for one with half a surrogate.
pub(super) fn string(raw: Option<&str>) -> Option<String> {
    serde_json::from_str(raw?).ok()
}
