//! The MCP front: Streamable HTTP without sessions, revisions 2025-03-26, 2025-06-18 and 2025-11-25 (`spec/mcp.md`).
//!
//! ```text
//! POST /mcp    one message, or under 2025-03-26 a batch of them
//!   ◄─ 202                            nothing in it wants an answer
//!   ◄─ 200 text/event-stream          event: message LF data: {"jsonrpc":"2.0","id":1,"result":{…}} LF LF
//!   ◄─ 200 application/json           the same object
//! ```
//!
//! The order of the checks is contract; `spec/mcp.md` lists them. At-least-once: an id of JSON-RPC is no key, and each
//! request is a new invocation. No session is minted, nothing is pushed, nothing resumed. Envelopes are in `rpc`, tools in
//! `tools`.

mod tools;

use super::Rim;
use super::http::{self, Accept, BodyFault, JSON, Response, TEXT};
use super::rpc::{self, Failure, Members, Message, Sent};
use crate::canon::{Value, object};
use crate::service::{Caller, Service, Unauthenticated};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

/// Bytes of one POST.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages of one batch. They run in order, each up to the deadline of a call.
const BATCH_MAX: usize = 1_000;
/// Server-sent events.
const SSE: &str = "text/event-stream";

/// Revisions, newest first.
const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// The one that a request without the header speaks, and the only one with batches.
const BATCHES: &str = "2025-03-26";

/// What an agent is told once.
const INSTRUCTIONS: &str = "Every call is committed to a log, refused ones too: when a result has isError, its second \
    text block says why and what to do next; wrong arguments cost nothing, an effect that ran costs one unit of its \
    budget, and after denied:budget you stop calling tools that need that effect and tell your operator. \
    _meta[\"worldlog/receipt\"] names the call's place in the log; when an answer is lost or an error says \
    safe_to_repeat false, ask GET /v1/receipts/<invocation> or GET /v1/log and read what the call was to change before \
    you repeat a write, an edit or a run.";

/// Answers one request to the endpoint.
pub(super) async fn answer(rim: &Rim, head: &Parts, body: &mut Incoming) -> Response {
    if head.method != Method::POST {
        return http::method_not_allowed("POST").into();
    }
    let token = match http::bearer(&head.headers) {
        Ok(token) => token,
        Err(why) => return unauthorized(why),
    };
    if let Err(why) = rim.service.authenticate(token) {
        return unauthorized(why);
    }
    if !http::is_json(&head.headers) {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return http::error(status, "BadRequest", "Content-Type must be application/json").into();
    }
    let accept = Accept::of(&head.headers);
    if !accept.takes(JSON) && !accept.takes(SSE) {
        let text = "Accept must admit application/json or text/event-stream";
        return http::error(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", text).into();
    }
    let bytes = match http::read_body(body, BODY_BYTES_MAX, rim.config.body_timeout).await {
        Ok(bytes) => bytes,
        Err(fault) => return bodiless(fault),
    };
    let sent = match rpc::read(&bytes) {
        Ok(sent) => sent,
        Err(failure) => return refuse(&failure, None),
    };
    let first = match &sent {
        Sent::One(message) => message.id(),
        Sent::Batch(_) => None,
    };
    let revision = match revision(&head.headers) {
        Ok(revision) => revision,
        Err(failure) => return refuse(&failure, first),
    };
    let turn = Turn { service: &rim.service, token, accept };
    match sent {
        Sent::One(message) => turn.one(message).await,
        Sent::Batch(messages) => turn.batch(messages, revision).await,
    }
}

/// The texts that agents know; plain, because a client shows them as they are.
fn text_of(why: Unauthenticated) -> &'static str {
    match why {
        Unauthenticated::Absent => {
            "session credential is absent: send Authorization: Bearer <session-credential>"
        }
        Unauthenticated::Malformed => {
            "malformed Authorization header: expected Bearer <64-hex-credential>"
        }
        Unauthenticated::Unknown => "unknown session credential",
        Unauthenticated::Expired => "session credential has expired",
        Unauthenticated::Revoked => "session credential has been revoked",
    }
}

fn unauthorized(why: Unauthenticated) -> Response {
    let response = http::reply(StatusCode::UNAUTHORIZED, TEXT, text_of(why));
    http::with(response, header::WWW_AUTHENTICATE, http::CHALLENGE)
}

fn bodiless(fault: BodyFault) -> Response {
    let (status, class, text) = match fault {
        BodyFault::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "PayloadTooLarge",
            "the body has more than 4194304 bytes",
        ),
        BodyFault::Slow => {
            (StatusCode::REQUEST_TIMEOUT, "SlowBody", "the body did not arrive in time")
        }
        BodyFault::Cut => {
            (StatusCode::BAD_REQUEST, "BadRequest", "the body ended before its announced end")
        }
    };
    http::error(status, class, text).into()
}

/// 400 with an error of JSON-RPC: the POST as a whole is none that could be worked on.
fn refuse(failure: &Failure, id: Option<&str>) -> Response {
    http::reply(StatusCode::BAD_REQUEST, JSON, failure.render(id))
}

fn revision(headers: &HeaderMap) -> Result<&'static str, Failure> {
    let name = HeaderName::from_static("mcp-protocol-version");
    let sent = http::single(headers, &name).map_err(|()| {
        let text = "invalid request: MCP-Protocol-Version must be one visible value";
        Failure::new(rpc::INVALID_REQUEST, text)
    })?;
    let Some(sent) = sent else { return Ok(BATCHES) };
    REVISIONS.into_iter().find(|known| *known == sent).ok_or_else(|| {
        let supported = REVISIONS.map(Value::from).to_vec();
        let data = object([("requested", sent.into()), ("supported", Value::Array(supported))]);
        let text = format!("unsupported protocol version {sent:?}");
        Failure { data: Some(data), ..Failure::new(rpc::UNSUPPORTED_VERSION, text) }
    })
}

/// A success: the raw result, and whether it is a tool's.
struct Success {
    result: String,
    of_tool: bool,
}

/// One POST that passed the checks of its head.
struct Turn<'a> {
    service: &'a Service,
    token: Option<&'a str>,
    accept: Accept,
}

impl Turn<'_> {
    async fn one(&self, message: Message<'_>) -> Response {
        match message {
            Message::Notification | Message::Response => accepted(),
            Message::Invalid { id, failure } => refuse(&failure, id),
            Message::Request { id, method, params } => match self.request(&method, params).await {
                Ok(success) => {
                    let text = rpc::result(id, &success.result);
                    let wished = success.of_tool && self.accept.lists(SSE);
                    if wished || !self.accept.takes(JSON) { event(&text) } else { whole(text) }
                }
                Err(failure) => whole(failure.render(Some(id))),
            },
        }
    }

    async fn batch(&self, messages: Vec<Message<'_>>, revision: &str) -> Response {
        if revision != BATCHES {
            let text = format!("invalid request: revision {revision} has no batches");
            return refuse(&Failure::new(rpc::INVALID_REQUEST, text), None);
        }
        if messages.len() > BATCH_MAX {
            let text = format!("invalid request: a batch has at most {BATCH_MAX} messages");
            return refuse(&Failure::new(rpc::INVALID_REQUEST, text), None);
        }
        let mut answers = Vec::new();
        for message in messages {
            answers.extend(self.item(message).await);
        }
        if answers.is_empty() {
            return accepted();
        }
        let text = format!("[{}]", answers.join(","));
        if self.accept.takes(JSON) { whole(text) } else { event(&text) }
    }

    async fn item(&self, message: Message<'_>) -> Option<String> {
        match message {
            Message::Notification | Message::Response => None,
            Message::Invalid { id, failure } => Some(failure.render(id)),
            Message::Request { id, method, .. } if method == "initialize" => {
                let text = "invalid request: initialize must not be part of a batch";
                Some(Failure::new(rpc::INVALID_REQUEST, text).render(Some(id)))
            }
            Message::Request { id, method, params } => {
                Some(match self.request(&method, params).await {
                    Ok(success) => rpc::result(id, &success.result),
                    Err(failure) => failure.render(Some(id)),
                })
            }
        }
    }

    async fn request(&self, method: &str, params: Option<&str>) -> Result<Success, Failure> {
        let handshake = |result| Ok(Success { result, of_tool: false });
        if !matches!(method, "initialize" | "ping" | "tools/list" | "tools/call") {
            let method: String = method.chars().take(128).collect();
            let text = format!("method not found: \"{method}\"");
            return Err(Failure::new(rpc::METHOD_NOT_FOUND, text));
        }
        let params = match params {
            Some(text) => Members::parse(text)
                .map_err(|_| Failure::params("params must be an object, each member once"))?,
            None => Members::default(),
        };
        match method {
            "initialize" => handshake(initialize(&params)?),
            "ping" => handshake("{}".to_owned()),
            "tools/list" => handshake(tools::list(self.service, &self.admit()?, &params)?),
            _ => {
                let caller = self.admit()?;
                let result = tools::call(self.service, &caller, &params).await?;
                Ok(Success { result, of_tool: true })
            }
        }
    }

    /// Each message is admitted on its own: a batch may outlive its session.
    fn admit(&self) -> Result<Caller, Failure> {
        self.service
            .authenticate(self.token)
            .map_err(|why| Failure::new(rpc::UNAUTHORIZED, text_of(why)))
    }
}

fn initialize(params: &Members<'_>) -> Result<String, Failure> {
    let asked = rpc::string(params.get("protocolVersion"))
        .ok_or_else(|| Failure::params("protocolVersion must be a string"))?;
    let [newest, ..] = REVISIONS;
    let revision = REVISIONS.into_iter().find(|known| *known == asked).unwrap_or(newest);
    let tools = object([("listChanged", false.into())]);
    let server = object([
        ("name", "worldlog".into()),
        ("title", "worldlog".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
    ]);
    Ok(rpc::text_of(&object([
        ("capabilities", object([("tools", tools)])),
        ("instructions", INSTRUCTIONS.into()),
        ("protocolVersion", revision.into()),
        ("serverInfo", server),
    ])))
}

/// 202 without a body.
fn accepted() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn whole(text: String) -> Response {
    http::reply(StatusCode::OK, JSON, text)
}

/// One server-sent event. The text has no line end: canonical JSON escapes them, and a raw id cannot hold one.
fn event(text: &str) -> Response {
    let body = format!("event: message\ndata: {text}\n\n");
    let response = http::reply(StatusCode::OK, SSE, body);
    let response = http::with(response, HeaderName::from_static("x-accel-buffering"), "no");
    http::with(response, header::CACHE_CONTROL, "no-store")
}
