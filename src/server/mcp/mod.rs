//! The MCP front: Streamable HTTP without sessions, revisions 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28
//! (`spec/mcp.md`).
//!
//! ```text
//! POST /mcp    one message, or under 2025-03-26 a batch of them
//!   ◄─ 202                            nothing in it wants an answer
//!   ◄─ 200 text/event-stream          event: message LF data: {"jsonrpc":"2.0","id":1,"result":{…}} LF LF
//!   ◄─ 200 application/json           the same object
//! ```
//!
//! The order of the checks is contract; `spec/mcp.md` lists them. At-least-once: an id of JSON-RPC is no key, and each
//! request is a new invocation, unless it brings a key of ours. No session is minted, nothing resumed. Envelopes are in `rpc`,
//! tools in `tools`, what is new in 2026-07-28 in `modern`, news of long calls in `progress`.

mod modern;
mod progress;
mod tools;

use super::Rim;
use super::body::{self, Body, BodyFault};
use super::http::{self, Accept, JSON, Response, TEXT};
use super::rpc::{self, Failure, Members, Message, Sent};
use crate::canon::{Value, object};
use crate::limits::BATCH_BYTES_MAX;
use crate::service::{Caller, Progress, Service, Unauthenticated};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use tokio::sync::mpsc;

/// Bytes of one POST.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages of one batch. They run in order, each up to the deadline of a call.
const BATCH_MAX: usize = 1_000;
/// Tells proxies to let events through as they come.
const ACCEL: HeaderName = HeaderName::from_static("x-accel-buffering");
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
pub(super) async fn answer(rim: &Rim, head: &Parts, body: &mut Body) -> Response {
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
    let bytes = match body.read(BODY_BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(fault) => return bodiless(fault),
    };
    let sent = match rpc::read(&bytes) {
        Ok(sent) => sent,
        Err(failure) => return refuse(&failure, None),
    };
    let turn = Turn { service: &rim.service, token, accept };
    match sent {
        Sent::One(Message::Request { id, method, params })
            if modern::speaks(&head.headers, &method, params) =>
        {
            turn.modern(&head.headers, id, &method, params).await
        }
        Sent::One(message) => match revision(&head.headers) {
            Ok(_) => turn.one(message).await,
            Err(failure) => refuse(&failure, message.id()),
        },
        Sent::Batch(_) if modern::names_it(&head.headers) => {
            refuse(&no_batches(modern::REVISION), None)
        }
        Sent::Batch(messages) => match revision(&head.headers) {
            Ok(revision) => turn.batch(messages, revision).await,
            Err(failure) => refuse(&failure, None),
        },
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
        BodyFault::Crowded => return body::crowded().into(),
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
    // What is no request has no era: a notification of the newest is taken as well.
    let known = std::iter::once(modern::REVISION).chain(REVISIONS);
    known.into_iter().find(|known| *known == sent).ok_or_else(|| unsupported(sent))
}

fn unsupported(sent: &str) -> Failure {
    let supported = std::iter::once(modern::REVISION).chain(REVISIONS).map(Value::from).collect();
    let data = object([("requested", sent.into()), ("supported", Value::Array(supported))]);
    let sent: String = sent.chars().take(128).collect();
    let text = format!("unsupported protocol version {sent:?}");
    Failure { data: Some(data), ..Failure::new(rpc::UNSUPPORTED_VERSION, text) }
}

fn no_batches(revision: &str) -> Failure {
    let text = format!("invalid request: revision {revision} has no batches");
    Failure::new(rpc::INVALID_REQUEST, text)
}

/// A success: the raw result, whether it is a tool's, and the receipt of what it committed.
struct Success {
    result: String,
    of_tool: bool,
    receipt: Option<Value>,
}

impl Success {
    fn plain(result: &Value) -> Self {
        Self { result: rpc::text_of(result), of_tool: false, receipt: None }
    }
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
            Message::Request { id, method, params } => {
                if !matches!(&*method, "initialize" | "ping" | "tools/list" | "tools/call") {
                    return whole(no_method(&method).render(Some(id)));
                }
                let members = match members(params) {
                    Ok(members) => members,
                    Err(failure) => return whole(failure.render(Some(id))),
                };
                if method == "tools/call" {
                    return self.call(&members, id, false).await;
                }
                match self.request(&method, &members) {
                    Ok(success) => self.show(&success, id),
                    Err(failure) => whole(failure.render(Some(id))),
                }
            }
        }
    }

    /// A request of revision 2026-07-28.
    async fn modern(
        &self,
        headers: &HeaderMap,
        id: &str,
        method: &str,
        params: Option<&str>,
    ) -> Response {
        let members = match members(params) {
            Ok(members) => members,
            Err(failure) => return refuse(&failure, Some(id)),
        };
        if let Err(failure) = modern::check(headers, method, &members) {
            return refuse(&failure, Some(id));
        }
        let result = match method {
            "tools/call" => return self.call(&members, id, true).await,
            "server/discover" => Ok(modern::discover()),
            "tools/list" => {
                self.admit().and_then(|caller| tools::list(self.service, &caller, &members))
            }
            _ => {
                let text = no_method(method).render(Some(id));
                return http::reply(StatusCode::NOT_FOUND, JSON, text);
            }
        };
        match result {
            Ok(result) => self.show(&Success::plain(&modern::dress(result, true)), id),
            Err(failure) => whole(failure.render(Some(id))),
        }
    }

    /// `tools/call` of one request.
    async fn call(&self, members: &Members<'_>, id: &str, modern: bool) -> Response {
        let begun = self.admit().and_then(|caller| Ok((caller, tools::ask(members)?)));
        let (caller, asked) = match begun {
            Ok(begun) => begun,
            Err(failure) => return whole(failure.render(Some(id))),
        };
        let service = self.service.clone();
        let watched = asked.progress.clone().filter(|_| self.accept.takes(SSE));
        let done = match watched {
            None => tools::run(service, caller, asked, modern, None)
                .await
                .map_err(|failure| failure.render(Some(id))),
            Some(token) => {
                let (tell, phases) = mpsc::unbounded_channel();
                let tell: Progress = Box::new(move |phase| {
                    // Nobody may be listening any more.
                    let _ = tell.send(phase);
                });
                let own = id.to_owned();
                let calling: progress::Calling = Box::pin(async move {
                    let done = tools::run(service, caller, asked, modern, Some(tell)).await;
                    done.map_err(|failure| failure.render(Some(&own)))
                });
                match progress::watch(calling, phases, &token, id).await {
                    Ok(done) => done,
                    Err(streaming) => return streaming,
                }
            }
        };
        match done {
            Ok(success) => self.show(&success, id),
            Err(failure) => whole(failure),
        }
    }

    fn show(&self, success: &Success, id: &str) -> Response {
        let text = rpc::result(id, &success.result);
        let wished = success.of_tool && self.accept.lists(SSE);
        if wished || !self.accept.takes(JSON) { event(&text) } else { whole(text) }
    }

    async fn batch(&self, messages: Vec<Message<'_>>, revision: &str) -> Response {
        if revision != BATCHES {
            return refuse(&no_batches(revision), None);
        }
        if messages.len() > BATCH_MAX {
            let text = format!("invalid request: a batch has at most {BATCH_MAX} messages");
            return refuse(&Failure::new(rpc::INVALID_REQUEST, text), None);
        }
        let (mut answers, mut receipts) = (Vec::new(), Vec::new());
        let (count, mut bytes) = (messages.len(), 0);
        for (index, message) in messages.into_iter().enumerate() {
            if let (true, Some(id)) = (bytes >= BATCH_BYTES_MAX, message.id()) {
                answers.push(full().render(Some(id)));
                continue;
            }
            match self.item(message).await {
                None => {}
                Some(Ok((text, receipt))) => {
                    bytes += text.len();
                    answers.push(text);
                    receipts.extend(receipt);
                }
                Some(Err(failure)) => {
                    return whole(of_batch(failure, index, count, receipts).render(None));
                }
            }
        }
        if answers.is_empty() {
            return accepted();
        }
        let text = format!("[{}]", answers.join(","));
        if self.accept.takes(JSON) { whole(text) } else { event(&text) }
    }

    /// The answer to one message of a batch with the receipt of what it committed; an error is a failure of the host, which
    /// ends the batch.
    async fn item(&self, message: Message<'_>) -> Option<Result<(String, Option<Value>), Failure>> {
        let (id, method, params) = match message {
            Message::Notification | Message::Response => return None,
            Message::Invalid { id, failure } => return Some(Ok((failure.render(id), None))),
            Message::Request { id, method, params } => (id, method, params),
        };
        let done = match (&*method, members(params)) {
            ("initialize", _) => {
                let text = "invalid request: initialize must not be part of a batch";
                Err(Failure::new(rpc::INVALID_REQUEST, text))
            }
            ("ping" | "tools/list", Ok(members)) => self.request(&method, &members),
            ("tools/call", Ok(members)) => {
                match self.admit().and_then(|caller| Ok((caller, tools::ask(&members)?))) {
                    Ok((caller, asked)) => {
                        tools::run(self.service.clone(), caller, asked, false, None).await
                    }
                    Err(failure) => Err(failure),
                }
            }
            ("ping" | "tools/list" | "tools/call", Err(failure)) => Err(failure),
            _ => Err(no_method(&method)),
        };
        Some(match done {
            Ok(success) => Ok((rpc::result(id, &success.result), success.receipt)),
            Err(failure) if failure.code == rpc::INTERNAL_ERROR => Err(failure),
            Err(failure) => Ok((failure.render(Some(id)), None)),
        })
    }

    fn request(&self, method: &str, params: &Members<'_>) -> Result<Success, Failure> {
        Ok(Success::plain(&match method {
            "initialize" => initialize(params)?,
            "ping" => object([]),
            _ => tools::list(self.service, &self.admit()?, params)?,
        }))
    }

    /// Each message is admitted on its own: a batch may outlive its session.
    fn admit(&self) -> Result<Caller, Failure> {
        self.service
            .authenticate(self.token)
            .map_err(|why| Failure::new(rpc::UNAUTHORIZED, text_of(why)))
    }
}

fn members(params: Option<&str>) -> Result<Members<'_>, Failure> {
    match params {
        Some(text) => Members::parse(text)
            .map_err(|_| Failure::params("params must be an object, each member once")),
        None => Ok(Members::default()),
    }
}

fn no_method(method: &str) -> Failure {
    let method: String = method.chars().take(128).collect();
    Failure::new(rpc::METHOD_NOT_FOUND, format!("method not found: \"{method}\""))
}

/// A message of a batch whose answers are large enough.
fn full() -> Failure {
    let text = format!(
        "invalid request: the answers before this one have {BATCH_BYTES_MAX} bytes; it was not begun, send it in another request"
    );
    Failure::new(rpc::INVALID_REQUEST, text)
}

/// A failure of the host answers a whole batch, as one envelope without an id: what committed before it, and where it was.
fn of_batch(failure: Failure, index: usize, count: usize, receipts: Vec<Value>) -> Failure {
    let mut data = failure.data;
    if let Some(Value::Object(members)) = &mut data {
        members.insert("committed".to_owned(), Value::Array(receipts));
        members.insert("item".to_owned(), (index as u64).into());
        members.insert("not_begun".to_owned(), ((count - index - 1) as u64).into());
    }
    Failure { data, ..failure }
}

/// Name and version of this program.
fn server_info() -> Value {
    object([
        ("name", "worldlog".into()),
        ("title", "worldlog".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
    ])
}

fn initialize(params: &Members<'_>) -> Result<Value, Failure> {
    let asked = rpc::string(params.get("protocolVersion"))
        .ok_or_else(|| Failure::params("protocolVersion must be a string"))?;
    let [newest, ..] = REVISIONS;
    let revision = REVISIONS.into_iter().find(|known| *known == asked).unwrap_or(newest);
    let tools = object([("listChanged", false.into())]);
    Ok(object([
        ("capabilities", object([("tools", tools)])),
        ("instructions", INSTRUCTIONS.into()),
        ("protocolVersion", revision.into()),
        ("serverInfo", server_info()),
    ]))
}

/// 202 without a body.
fn accepted() -> Response {
    let mut response = http::reply(StatusCode::ACCEPTED, JSON, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

fn whole(text: String) -> Response {
    http::reply(StatusCode::OK, JSON, text)
}

/// One server-sent event. The text has no line end: canonical JSON escapes them, and a raw id cannot hold one.
fn event(text: &str) -> Response {
    undisturbed(http::reply(StatusCode::OK, SSE, sse(text)))
}

/// An event stream that nothing between here and the client keeps or holds back.
fn undisturbed(response: Response) -> Response {
    http::with(http::with(response, ACCEL, "no"), header::CACHE_CONTROL, "no-store")
}

fn sse(text: &str) -> String {
    format!("event: message\ndata: {text}\n\n")
}
