//! The A2A front: 0.1 `tasks/send`, 1.0 `SendMessage` and its kin, 0.3 names (`spec/a2a.md`).
//!
//! ```text
//! POST /a2a     one request of JSON-RPC
//!   ◄─ 200      {"jsonrpc":"2.0","id":1,"result":{…}}, or an error with the id of the request
//! GET  /.well-known/agent.json, /.well-known/agent-card.json
//! ```
//!
//! At-most-once: a task id (0.1) or a message id (0.3, 1.0) is the key of its call in the session, and a request that is
//! sent again gets what the first one committed. `ask` reads what a send asks for, `task` prints tasks, `fault` errors,
//! `list` is `ListTasks`, `card` the cards. The order of the checks is contract; `spec/a2a.md` lists them.

mod ask;
mod card;
mod fault;
mod list;
mod task;
mod time;

use super::Rim;
use super::body::{self, Body, BodyFault};
use super::http::{self, JSON, Response};
use super::rpc::{self, Message, Sent};
use crate::event::Front;
use crate::limits::SMALL_BODY_BYTES_MAX;
use crate::service::{Caller, Past, Service, StoreError};
use ask::Ask;
use card::STRICT_URI;
use fault::Fault;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use task::{Printer, parse_uuid, uuid_of};

/// Bytes of one POST.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Whose names and forms are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// 0.1: the client names the task.
    V01,
    /// 0.3: the server names the task.
    V03,
    /// 1.0: the same with other names.
    V10,
}

/// The version of the protocol that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// 0.3, and what came before there were versions.
    Old,
    /// 1.0.
    New,
}

impl Version {
    const NEW: &'static str = "1.0";

    /// Reads the header, or else the query. Patches are passed over; absent and empty are 0.3.
    fn of(head: &Parts) -> Result<Self, Fault> {
        let name = HeaderName::from_static("a2a-version");
        let sent = http::single(&head.headers, &name)
            .map_err(|()| Fault::invalid_request("A2A-Version must be one visible value"))?;
        let of_query = || {
            let mut pairs = head.uri.query().unwrap_or("").split('&');
            pairs.find_map(|pair| pair.strip_prefix("A2A-Version="))
        };
        let sent = sent.or_else(of_query).unwrap_or("").trim();
        let number =
            |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<&str> = sent.split('.').collect();
        match parts.as_slice() {
            [""] | ["0", "3"] => Ok(Self::Old),
            ["0", "3", patch] if number(patch) => Ok(Self::Old),
            ["1", "0"] => Ok(Self::New),
            ["1", "0", patch] if number(patch) => Ok(Self::New),
            _ => Err(Fault::version(sent, "1.0 or 0.3")),
        }
    }
}

/// Whether there is a card at this path.
pub(super) fn has_card(path: &str) -> bool {
    path == card::FIRST || path == card::NEWEST
}

/// Answers a request for a card.
pub(super) fn card(rim: &Rim, head: &Parts) -> Response {
    card::answer(rim, head)
}

/// Answers one request to the endpoint.
pub(super) async fn answer(rim: &Rim, head: &Parts, body: &mut Body) -> Response {
    if head.method != Method::POST {
        return http::method_not_allowed("POST").into();
    }
    let version = Version::of(head);
    // Who sends a version that is not spoken here still reads the errors of the newest.
    let dialect = if version == Ok(Version::Old) { Dialect::V01 } else { Dialect::V10 };
    // Who is nobody gets what every connection has: enough for the id that a client waits for.
    let known = http::caller(&rim.service, &head.headers).is_ok();
    let bytes = body.read(if known { BODY_BYTES_MAX } else { SMALL_BODY_BYTES_MAX }).await;
    // A session may end while its body is on the way.
    let caller = match http::caller(&rim.service, &head.headers) {
        Ok(caller) => caller,
        Err(why) => {
            // The body tells nothing but the id: a client waits for the one that it sent.
            let sent = bytes.as_deref().ok().and_then(|bytes| rpc::read(bytes).ok());
            return refuse(
                &Fault::credential(why, dialect),
                dialect,
                sent.as_ref().and_then(id_of),
            );
        }
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(fault) => return bodiless(fault, dialect),
    };
    // The older versions say nothing of it; a client of this one that announces something else meant another binding.
    let foreign = head.headers.contains_key(header::CONTENT_TYPE) && !http::is_json(&head.headers);
    if dialect == Dialect::V10 && foreign {
        let sent = rpc::read(&bytes).ok();
        let fault = Fault::content("Content-Type must be application/json");
        return refuse(&fault, dialect, sent.as_ref().and_then(id_of));
    }
    let (id, method, params) = match rpc::read(&bytes) {
        Ok(Sent::One(Message::Request { id, method, params })) => (id, method, params),
        Ok(Sent::One(Message::Invalid { id, failure })) => {
            return refuse(&Fault::undecodable(dialect, &failure), dialect, id);
        }
        // What cannot be answered to anybody must not run anything either.
        Ok(Sent::One(Message::Notification)) => {
            let fault = Fault::invalid_request("id must be a string or an integer");
            return refuse(&fault, dialect, None);
        }
        Ok(Sent::One(Message::Response)) => {
            let fault = Fault::invalid_request("it has no method, and nobody asked for a response");
            return refuse(&fault, dialect, None);
        }
        Ok(Sent::Batch(_)) => {
            let fault = Fault::invalid_request("one request was due, and here are several");
            return refuse(&fault, dialect, None);
        }
        Err(failure) => return refuse(&Fault::undecodable(dialect, &failure), dialect, None),
    };
    let version = match version {
        Ok(version) => version,
        Err(fault) => return refuse(&fault, dialect, Some(id)),
    };
    let turn = Turn { service: &rim.service, caller: &caller, head };
    let (dialect, result) = turn.request(version, &method, params).await;
    match result {
        Ok(Success { result, extension }) => {
            let response = http::reply(StatusCode::OK, JSON, rpc::result(id, &result));
            if extension {
                http::with(response, HeaderName::from_static("a2a-extensions"), STRICT_URI)
            } else {
                response
            }
        }
        Err(fault) => refuse(&fault, dialect, Some(id)),
    }
}

/// The id to answer with, where one could be read.
fn id_of<'a>(sent: &Sent<'a>) -> Option<&'a str> {
    match sent {
        Sent::One(message) => message.id(),
        Sent::Batch(_) => None,
    }
}

fn bodiless(fault: BodyFault, dialect: Dialect) -> Response {
    let text = match fault {
        BodyFault::TooLarge => "the body has more than 1048576 bytes",
        BodyFault::Slow => "the body did not arrive in time",
        BodyFault::Cut => "the body ended before its announced end",
        // No request was read, so that there is nothing for a protocol to say.
        BodyFault::Crowded => return body::crowded().into(),
    };
    refuse(&Fault::invalid_request(text), dialect, None)
}

/// An error rides in HTTP 200: clients read its code there, and a transport error elsewhere.
fn refuse(fault: &Fault, dialect: Dialect, id: Option<&str>) -> Response {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::OK);
    let mut response = http::reply(status, JSON, fault.render(dialect, id));
    if status == StatusCode::UNAUTHORIZED {
        response = http::with(response, header::WWW_AUTHENTICATE, http::CHALLENGE);
    }
    if fault.close {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A result, and whether the extension that was asked for was honoured.
struct Success {
    result: String,
    extension: bool,
}

impl Success {
    fn plain(result: String) -> Self {
        Self { result, extension: false }
    }
}

/// One request that passed the checks of its head.
struct Turn<'a> {
    service: &'a Service,
    caller: &'a Caller,
    head: &'a Parts,
}

/// Methods that only 1.0 has.
const NEW_METHODS: [&str; 11] = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];

impl Turn<'_> {
    /// Runs a method, and tells in which dialect it is answered.
    async fn request(
        &self,
        version: Version,
        method: &str,
        params: Option<&str>,
    ) -> (Dialect, Result<Success, Fault>) {
        use Dialect::{V01, V03, V10};
        let no_stream = || Err(Fault::unsupported("streaming is not supported: send it without"));
        match (version, method) {
            (Version::New, "SendMessage") => (V10, self.send(V10, params).await),
            (Version::New, "GetTask") => (V10, self.get(V10, params).await),
            (Version::New, "CancelTask") => (V10, self.cancel(V10, params).await),
            (Version::New, "ListTasks") => {
                (V10, list::answer(self.service, self.caller, params).await.map(Success::plain))
            }
            (Version::New, "GetExtendedAgentCard") => {
                let card = card::newest(self.head, self.service.tools(self.caller), self.service);
                (V10, Ok(Success::plain(rpc::text_of(&card))))
            }
            (Version::New, "SendStreamingMessage" | "SubscribeToTask") => (V10, no_stream()),
            (Version::New, name) if NEW_METHODS.contains(&name) => (V10, Err(Fault::push())),
            (Version::New, name) => (V10, Err(Fault::method(name))),
            (Version::Old, "tasks/send") => (V01, self.send(V01, params).await),
            (Version::Old, "message/send") => (V03, self.send(V03, params).await),
            (Version::Old, "tasks/get") => (V01, self.get(V01, params).await),
            (Version::Old, "tasks/cancel") => (V01, self.cancel(V01, params).await),
            (Version::Old, "message/stream" | "tasks/sendSubscribe" | "tasks/resubscribe") => {
                (V03, no_stream())
            }
            (Version::Old, name) if name.starts_with("tasks/pushNotification") => {
                (V03, Err(Fault::push()))
            }
            (Version::Old, name) if NEW_METHODS.contains(&name) => {
                (V10, Err(Fault::version("0.3", Version::NEW)))
            }
            (Version::Old, name) => (V01, Err(Fault::method(name))),
        }
    }

    fn printer(&self, dialect: Dialect) -> Printer<'_> {
        Printer { dialect, caller: self.caller, artifacts: true }
    }

    async fn send(&self, dialect: Dialect, params: Option<&str>) -> Result<Success, Fault> {
        let params = ask::params(params)?;
        let ask = Ask::read(dialect, &params, dialect != Dialect::V01 && self.wants_strict())?;
        let printer = self.printer(dialect);
        let extension = ask.strict;
        let data = if dialect == Dialect::V01 {
            self.admit(&ask)?;
            ask.data(dialect)?
        } else {
            self.check_target(&ask, &printer).await?;
            let data = ask.data(dialect)?;
            self.admit(&ask)?;
            data
        };
        let (id, preview) = (ask.id.clone(), ask.preview);
        let call = ask.call(dialect, data)?;
        if preview {
            let preview = self.service.preview(self.caller, call).await;
            let preview = preview.map_err(|error| Fault::of_call(&error))?;
            return Ok(Success::plain(printer.preview(&id, &preview)));
        }
        let answer = self.service.invoke(self.caller, call, None).await;
        let answer = answer.map_err(|error| Fault::of_call(&error))?;
        let result = match dialect {
            Dialect::V01 => printer.committed(&id, &answer),
            Dialect::V03 => printer.committed(&uuid_of(&answer.receipt.invocation), &answer),
            Dialect::V10 => {
                let task = printer.committed(&uuid_of(&answer.receipt.invocation), &answer);
                format!(r#"{{"task":{task}}}"#)
            }
        };
        Ok(Success { result, extension })
    }

    /// Whether the session may see the skill.
    fn admit(&self, ask: &Ask) -> Result<(), Fault> {
        let skill = ask.skill.as_ref().map_err(Clone::clone)?;
        let tools = self.service.tools(self.caller);
        let visible = tools.iter().any(|tool| tool.tool() == skill);
        visible.then_some(()).ok_or_else(Fault::unauthorized_skill)
    }

    /// A message for a task finds it over or under way: in neither state does it take another.
    async fn check_target(&self, ask: &Ask, printer: &Printer<'_>) -> Result<(), Fault> {
        if let Some(id) = &ask.task {
            self.past(id).await?.ok_or_else(|| Fault::task(id))?;
            let text = "the task takes no more messages: send one without taskId to begin another";
            return Err(Fault::unsupported(text));
        }
        match &ask.context {
            Some(context) if *context != printer.context() => {
                let reason =
                    "is not the context of this session: leave it out, or take it from a task";
                Err(Fault::params("params.message.contextId", reason))
            }
            _ => Ok(()),
        }
    }

    fn wants_strict(&self) -> bool {
        let name = HeaderName::from_static("a2a-extensions");
        let mut lines = self.head.headers.get_all(name).iter().filter_map(|l| l.to_str().ok());
        lines.any(|line| line.split(',').any(|uri| uri.trim() == STRICT_URI))
    }

    async fn get(&self, dialect: Dialect, params: Option<&str>) -> Result<Success, Fault> {
        let (id, dialect, past) = self.named(dialect, params).await?;
        let printer = self.printer(dialect);
        let task = match &past {
            Past::Committed { answer, .. } => Some(printer.committed(&id, answer)),
            past => printer.unanswered(&id, past),
        };
        task.map(Success::plain).ok_or_else(|| Fault::task(&id))
    }

    /// Nothing is ever canceled: what is over stays, and an effect under way is not cut.
    async fn cancel(&self, dialect: Dialect, params: Option<&str>) -> Result<Success, Fault> {
        let (id, _, _) = self.named(dialect, params).await?;
        Err(Fault::cancel(&id))
    }

    /// The task that params name, in the dialect that made it: the ids of 0.1 are the clients', all others ours.
    async fn named(
        &self,
        dialect: Dialect,
        params: Option<&str>,
    ) -> Result<(String, Dialect, Past), Fault> {
        let params = ask::params(params)?;
        let id = ask::text(&params, "params", "id")?
            .ok_or_else(|| Fault::params("params.id", "is required"))?
            .to_owned();
        ask::number(&params, "params", "historyLength")?;
        if dialect == Dialect::V01 && crate::service::is_client_id(&id) {
            let (service, caller, name) = (self.service.clone(), self.caller.clone(), id.clone());
            let past = blocking(move || service.claimed(&caller, Front::A2a, &name)).await?;
            if past != Past::None {
                return Ok((id, Dialect::V01, past));
            }
        }
        match self.past(&id).await? {
            Some(past) if dialect == Dialect::V01 => Ok((id, Dialect::V03, past)),
            Some(past) => Ok((id, dialect, past)),
            None => Err(Fault::task(&id)),
        }
    }

    /// The session's own call of this front that a UUID names.
    async fn past(&self, id: &str) -> Result<Option<Past>, Fault> {
        let Some(invocation) = parse_uuid(id) else { return Ok(None) };
        let (service, caller) = (self.service.clone(), self.caller.clone());
        let past = blocking(move || service.call_through(&caller, Front::A2a, &invocation)).await?;
        Ok(Some(past).filter(|past| *past != Past::None))
    }
}

/// Reads the store where it may block.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(read).await;
    let cause = match done {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(cause)) => cause.to_string(),
        Err(cause) => cause.to_string(),
    };
    tracing::error!(%cause, "a task could not be read");
    Err(Fault::store())
}
