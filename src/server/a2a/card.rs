//! Agent cards: where the endpoint is, and which skills there are.
//!
//! ```text
//! /.well-known/agent.json        0.1: needs a session, whose grants choose the skills
//! /.well-known/agent-card.json   1.0: public, all skills; with a token, those of its session
//! ```
//!
//! The public card tells no more than the log does, whose `transition` events name every tool. Members that a schema does
//! not know make its readers refuse a card, so none of ours is in it.

use super::super::Rim;
use super::super::http::{self, JSON, Response};
use super::super::rpc::text_of;
use crate::canon::{Value, object};
use crate::event::hex;
use crate::merkle::hash::sha256;
use crate::service::{Service, Unauthenticated};
use crate::transitions::Transition;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;

/// The card of 0.1.
pub(super) const FIRST: &str = "/.well-known/agent.json";
/// The card of 1.0.
pub(super) const NEWEST: &str = "/.well-known/agent-card.json";

/// How the 1.0 client asks for one content a message id.
pub(super) const STRICT_URI: &str = "urn:worldlog:a2a:strict-message-id:1";

const DESCRIPTION: &str = "Runs tools in a worktree and proves every step: each call is committed to a transparency log, \
    refused and denied ones too. Send one data part with the arguments of a skill and name the skill in \
    metadata.skill_id; the task's metadata says where the call is in the log.";

/// Answers a request for a card.
pub(super) fn answer(rim: &Rim, head: &Parts) -> Response {
    if !http::reads(&head.method) {
        return http::method_not_allowed("GET, HEAD").into();
    }
    let (service, newest) = (&rim.service, head.uri.path() == NEWEST);
    match http::guest(service, &head.headers) {
        Ok(None) if newest => cached(head, &self::newest(head, service.published(), service), true),
        Ok(None) => denied(Unauthenticated::Absent),
        Ok(Some(caller)) if newest => {
            cached(head, &self::newest(head, service.tools(&caller), service), false)
        }
        Ok(Some(caller)) => http::json(&first(head, service.tools(&caller))),
        Err(why) => denied(why),
    }
}

/// A header that is none is the client's fault; anything else is a matter of authority.
fn denied(why: Unauthenticated) -> Response {
    let mut response: Response = http::unauthorized(why).into();
    if why == Unauthenticated::Malformed {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    response
}

/// The card with what caches need, or 304 when the client has it.
fn cached(head: &Parts, card: &Value, public: bool) -> Response {
    let body = card.to_bytes();
    let digits = hex(sha256(&body).get(..16).unwrap_or_default());
    let tag = format!("\"{digits}\"");
    let mut sent = head.headers.get_all(header::IF_NONE_MATCH).iter();
    let known = sent.any(|line| {
        let mut tags = line.to_str().unwrap_or("").split(',').map(str::trim);
        tags.any(|sent| sent == "*" || sent.strip_prefix("W/").unwrap_or(sent) == tag)
    });
    let mut response = if known {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        http::reply(StatusCode::OK, JSON, body)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    // What a session may see changes when an operator says so.
    let age = if public { "public, max-age=300" } else { "private, max-age=30" };
    let response = http::with(response, header::CACHE_CONTROL, age);
    http::with(response, header::VARY, "Authorization")
}

/// The endpoint under the name that the client used. Other names than loopback ones are reached through TLS.
fn url(head: &Parts) -> String {
    let host = http::single(&head.headers, &header::HOST).ok().flatten().unwrap_or("localhost");
    let scheme = if http::is_local(host) { "http" } else { "https" };
    format!("{scheme}://{host}/a2a")
}

fn modes() -> Value {
    Value::Array(vec!["application/json".into()])
}

/// What an agent reads to choose a skill and to fill its arguments: no version of the protocol has a member for a schema.
fn description(tool: &dyn Transition) -> Value {
    let schema = text_of(&tool.input_schema());
    format!("{} Arguments, as JSON Schema: {schema}", tool.description()).into()
}

fn first(head: &Parts, tools: Vec<&'static dyn Transition>) -> Value {
    let skill = |tool: &'static dyn Transition| {
        object([
            ("description", description(tool)),
            ("examples", Value::Array(Vec::new())),
            ("id", tool.tool().into()),
            ("name", tool.title().into()),
            ("tags", Value::Array(Vec::new())),
        ])
    };
    let capabilities = object([
        ("pushNotifications", false.into()),
        ("stateTransitionHistory", false.into()),
        ("streaming", false.into()),
    ]);
    object([
        ("authentication", object([("schemes", Value::Array(vec!["bearer".into()]))])),
        ("capabilities", capabilities),
        ("defaultInputModes", modes()),
        ("defaultOutputModes", modes()),
        ("description", DESCRIPTION.into()),
        ("name", "worldlog".into()),
        ("skills", Value::Array(tools.into_iter().map(skill).collect())),
        ("url", url(head).into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
    ])
}

/// The card of 1.0 with these skills.
pub(super) fn newest(
    head: &Parts,
    tools: Vec<&'static dyn Transition>,
    service: &Service,
) -> Value {
    let skill = |tool: &'static dyn Transition| {
        // The schema wants at least one tag.
        let kind = if service.reads_only(tool) { "read" } else { "write" };
        object([
            ("description", description(tool)),
            ("id", tool.tool().into()),
            ("name", tool.title().into()),
            ("tags", Value::Array(vec![kind.into()])),
        ])
    };
    let interface = object([
        ("protocolBinding", "JSONRPC".into()),
        ("protocolVersion", "1.0".into()),
        ("url", url(head).into()),
    ]);
    let strict = object([
        (
            "description",
            "A message id belongs to one content: sent again with another, it is refused".into(),
        ),
        ("required", false.into()),
        ("uri", STRICT_URI.into()),
    ]);
    let capabilities = object([
        ("extendedAgentCard", true.into()),
        ("extensions", Value::Array(vec![strict])),
        ("pushNotifications", false.into()),
        ("streaming", false.into()),
    ]);
    let scheme = object([
        ("bearerFormat", "64 lowercase hexadecimal digits".into()),
        ("description", "The token of a session, as the operator made it".into()),
        ("scheme", "Bearer".into()),
    ]);
    let schemes = object([("session", object([("httpAuthSecurityScheme", scheme)]))]);
    let needed = object([("session", object([("list", Value::Array(Vec::new()))]))]);
    object([
        ("capabilities", capabilities),
        ("defaultInputModes", modes()),
        ("defaultOutputModes", modes()),
        ("description", DESCRIPTION.into()),
        ("name", "worldlog".into()),
        ("securityRequirements", Value::Array(vec![object([("schemes", needed)])])),
        ("securitySchemes", schemes),
        ("skills", Value::Array(tools.into_iter().map(skill).collect())),
        ("supportedInterfaces", Value::Array(vec![interface])),
        ("version", env!("CARGO_PKG_VERSION").into()),
    ])
}
