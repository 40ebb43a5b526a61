//! What all fronts share of HTTP: who may speak, how much, and what an answer looks like.
//!
//! ```text
//! Host, Origin ─► 403      Authorization ─► 401      body ─► 413, 408, 400, 503
//! {"error":{"class":"NotFound","message":"log entry not found"}}
//! ```
//!
//! Every check is a function of the request's head, so that a front can put them in the order of its contract. Which
//! paths there are is in `mod.rs`, how a body is read in `body`; what it means is the fronts' own. Nothing here answers a preflight: there is no
//! browser client, so no answer has a CORS header.

use crate::canon::{Value, object};
use crate::service::{Caller, Service, StoreError, Unauthenticated};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// An answer on its way out.
pub(super) type Response = hyper::Response<UnsyncBoxBody<Bytes, Infallible>>;

/// An answer in the error envelope, while it is still known what it says.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    class: &'static str,
    message: String,
    /// What the status obliges to.
    header: Option<(HeaderName, &'static str)>,
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.message.as_str().into();
        let inner = object([("class", refusal.class.into()), ("message", message)]);
        let response = reply(refusal.status, JSON, object([("error", inner)]).to_bytes());
        match refusal.header {
            Some((name, value)) => with(response, name, value),
            None => response,
        }
    }
}

/// JSON.
pub(super) const JSON: &str = "application/json";
/// Text for people and notes.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
/// Bytes that no browser should look into.
pub(super) const BYTES: &str = "application/octet-stream";

/// What a 401 has to carry.
pub(super) const CHALLENGE: &str = "Bearer";

/// Entries of a page unless asked otherwise.
const PAGE: u64 = 100;
/// Entries of the largest page.
const PAGE_MAX: u64 = 500;
/// The names under which this server may be spoken to.
///
/// A page of another origin reaches a loopback address with a right Host (so Origin is looked at), and a rebound name
/// arrives with a wrong one (so Host is looked at).
#[derive(Debug)]
pub(super) struct Gate {
    port: u16,
    hosts: Vec<String>,
}

impl Gate {
    /// Loopback names with `port`, and `hosts`: `NAME` (without a port or with `port`) or `NAME:PORT`.
    pub(super) fn new(port: u16, hosts: &[String]) -> Self {
        Self { port, hosts: hosts.iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Refuses a request that another site may have caused.
    pub(super) fn check(&self, head: &Parts) -> Result<(), Refusal> {
        let forbidden = |text: &str| error(StatusCode::FORBIDDEN, "Forbidden", text);
        let hosts = single(&head.headers, &header::HOST);
        let Ok(Some(host)) = hosts else {
            return Err(forbidden("exactly one Host header was due"));
        };
        // The authority of an absolute request target takes the place of Host (RFC 9112, 3.2.2).
        let target = head.uri.authority().map(hyper::http::uri::Authority::as_str);
        if !std::iter::once(host).chain(target).all(|name| self.is_own(name)) {
            return Err(forbidden(
                "the Host is not a name of this server; the operator can allow it with --host",
            ));
        }
        match single(&head.headers, &header::ORIGIN) {
            Ok(None) => Ok(()),
            Ok(Some(origin)) if self.may_come_from(origin) => Ok(()),
            _ => Err(forbidden("the Origin may not use this server")),
        }
    }

    fn is_own(&self, authority: &str) -> bool {
        let authority = authority.to_ascii_lowercase();
        let (name, port) = split_port(&authority);
        let right = port.is_none_or(|port| port == self.port.to_string());
        let listed = |own: &String| *own == authority || right && own == name;
        right && is_loopback(name) || self.hosts.iter().any(listed)
    }

    /// A page on another loopback port is no stranger; it still cannot read an answer, for want of CORS headers.
    fn may_come_from(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let Some(("http" | "https", authority)) = origin.split_once("://") else { return false };
        let (name, port) = split_port(authority);
        let valid = port.is_none_or(|port| {
            port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
        });
        valid && is_loopback(name) || self.is_own(authority)
    }
}

/// Whether a Host names this machine as it calls itself.
pub(super) fn is_local(authority: &str) -> bool {
    let authority = authority.to_ascii_lowercase();
    is_loopback(split_port(&authority).0)
}

fn is_loopback(name: &str) -> bool {
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

/// `name`, `name:port`, `[v6]`, `[v6]:port`.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (authority, None),
    }
}

/// The one value of a header; an error when there are several or it is not visible ASCII.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

/// The token of `Authorization: Bearer TOKEN`; `None` without the header.
pub(super) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Unauthenticated> {
    let malformed = Unauthenticated::Malformed;
    let Some(value) = single(headers, &header::AUTHORIZATION).map_err(|()| malformed)? else {
        return Ok(None);
    };
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("Bearer") && !token.contains(' ') => {
            Ok(Some(token))
        }
        _ => Err(malformed),
    }
}

/// The caller, who has to show a token.
pub(super) fn caller(service: &Service, headers: &HeaderMap) -> Result<Caller, Unauthenticated> {
    bearer(headers).and_then(|token| service.authenticate(token))
}

/// The caller, who may come without a token but not with a bad one.
pub(super) fn guest(
    service: &Service,
    headers: &HeaderMap,
) -> Result<Option<Caller>, Unauthenticated> {
    match caller(service, headers) {
        Ok(caller) => Ok(Some(caller)),
        Err(Unauthenticated::Absent) => Ok(None),
        Err(why) => Err(why),
    }
}

/// 401 in the envelope.
pub(super) fn unauthorized(why: Unauthenticated) -> Refusal {
    let (class, text) = match why {
        Unauthenticated::Absent => (
            "SessionAbsent",
            "a session credential is required: no Authorization Bearer header was present",
        ),
        Unauthenticated::Malformed => (
            "InvalidSession",
            "malformed Authorization header: expected a Bearer <64-hex-credential>",
        ),
        Unauthenticated::Unknown => {
            ("SessionUnknown", "unknown session credential: no session matches this token")
        }
        Unauthenticated::Expired => ("SessionExpired", "session credential has expired"),
        Unauthenticated::Revoked => ("SessionRevoked", "session credential has been revoked"),
    };
    let refusal = error(StatusCode::UNAUTHORIZED, class, text);
    Refusal { header: Some((header::WWW_AUTHENTICATE, CHALLENGE)), ..refusal }
}

/// The media ranges of all `Accept` headers with their weights; what cannot be read counts as not sent.
#[derive(Debug)]
pub(super) struct Accept(Option<Vec<(String, f32)>>);

impl Accept {
    /// Parses the headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(header::ACCEPT).iter().peekable();
        if lines.peek().is_none() {
            return Self(None);
        }
        let ranges = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        Self(Some(ranges.filter_map(Self::range).collect()))
    }

    fn range(text: &str) -> Option<(String, f32)> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
        let weight = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case("q").then(|| value.trim())
        });
        let weight = weight.map_or(Some(1.0), |q| q.parse().ok())?;
        (0.0..=1.0).contains(&weight).then_some((name, weight))
    }

    /// Whether the client takes `media`: the most specific range that fits it decides. Without the header it takes all.
    pub(super) fn takes(&self, media: &str) -> bool {
        let Some(ranges) = &self.0 else { return true };
        let major = media.split('/').next().unwrap_or(media);
        let weight = |wanted: &str| {
            ranges.iter().find(|(name, _)| name == wanted).map(|(_, weight)| *weight)
        };
        let found =
            weight(media).or_else(|| weight(&format!("{major}/*"))).or_else(|| weight("*/*"));
        found.is_some_and(|weight| weight > 0.0)
    }

    /// Whether the client names `media` itself.
    pub(super) fn lists(&self, media: &str) -> bool {
        let ranges = self.0.as_deref().unwrap_or_default();
        ranges.iter().any(|(name, weight)| name == media && *weight > 0.0)
    }
}

/// Whether the body is announced as JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = single(headers, &header::CONTENT_TYPE).ok().flatten().unwrap_or("");
    let mut parts = value.split(';').map(str::trim);
    let media = parts.next().unwrap_or("");
    let utf8 = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        !key.eq_ignore_ascii_case("charset")
            || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
    };
    media.eq_ignore_ascii_case(JSON) && parts.all(utf8)
}

/// The parameters of a query: each of `names` at most once, nothing else, nothing encoded.
pub(super) fn query<'a, const N: usize>(
    head: &'a Parts,
    names: [&str; N],
) -> Result<[Option<&'a str>; N], Refusal> {
    let mut values = [None; N];
    for pair in head.uri.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let slot = names.iter().zip(&mut values).find(|(known, _)| **known == name);
        match slot {
            Some((_, slot @ None)) => *slot = Some(value),
            Some(_) => return Err(bad_request(format!("{name} stands twice in the query"))),
            None => return Err(bad_request(format!("{name:?} is no parameter of this path"))),
        }
    }
    Ok(values)
}

/// A flag of a query: absent, `true` or `false`.
pub(super) fn flag(name: &str, value: Option<&str>) -> Result<bool, Refusal> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(bad_request(format!("{name} must be true or false"))),
    }
}

/// `from` and `limit`: the first index and the size of the page.
pub(super) fn page(head: &Parts) -> Result<(u64, usize), Refusal> {
    let [from, limit] = query(head, ["from", "limit"])?;
    let from = match from {
        None => 0,
        Some(text) => {
            index(text).ok_or_else(|| bad_request("from must be a non-negative integer"))?
        }
    };
    let limit = match limit {
        None => PAGE,
        Some(text) => match text.parse::<i64>() {
            Ok(limit) => u64::try_from(limit).ok().filter(|n| *n > 0).unwrap_or(PAGE),
            Err(_) => return Err(bad_request("limit must be an integer")),
        },
    };
    Ok((from, usize::try_from(limit.min(PAGE_MAX)).unwrap_or(0)))
}

/// A decimal number in its one form.
pub(super) fn index(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}

/// An answer with a body.
pub(super) fn reply(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = hyper::Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// An answer whose body arrives part by part, until its sender is gone.
pub(super) fn stream(media: &'static str, parts: mpsc::Receiver<Bytes>) -> Response {
    let mut response = hyper::Response::new(Arriving(parts).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A body that arrives over a channel.
struct Arriving(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Arriving {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// 200 with a JSON value.
pub(super) fn json(value: &Value) -> Response {
    reply(StatusCode::OK, JSON, value.to_bytes())
}

/// The answer with one more header.
pub(super) fn with(mut response: Response, name: HeaderName, value: &'static str) -> Response {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// An error of a class.
pub(super) fn error(
    status: StatusCode,
    class: &'static str,
    message: impl Into<String>,
) -> Refusal {
    Refusal { status, class, message: message.into(), header: None }
}

/// A refusal with one more header.
pub(super) fn also(refusal: Refusal, name: HeaderName, value: &'static str) -> Refusal {
    Refusal { header: Some((name, value)), ..refusal }
}

/// 400, naming the field.
pub(super) fn bad_request(message: impl Into<String>) -> Refusal {
    error(StatusCode::BAD_REQUEST, "BadRequest", message)
}

/// 404, naming what is not there.
pub(super) fn not_found(message: &str) -> Refusal {
    error(StatusCode::NOT_FOUND, "NotFound", message)
}

/// 405 with the methods that there are.
pub(super) fn method_not_allowed(allow: &'static str) -> Refusal {
    let message = format!("this path takes {allow} only");
    let refusal = error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
    Refusal { header: Some((header::ALLOW, allow)), ..refusal }
}

/// 500. The cause is for the operator: it may name paths of the host.
pub(super) fn internal(head: &Parts, cause: &dyn std::fmt::Display) -> Refusal {
    tracing::error!(method = %head.method, path = head.uri.path(), %cause, "internal error");
    error(StatusCode::INTERNAL_SERVER_ERROR, "Internal", "internal store failure")
}

/// Runs `read` where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    head: &Parts,
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(read).await;
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => Err(internal(head, &cause)),
        Err(cause) => Err(internal(head, &cause)),
    }
}

/// Whether the method only reads. hyper leaves the body of an answer to HEAD out.
pub(super) fn reads(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// Headers that every answer has unless its front said otherwise.
pub(super) fn harden(response: &mut Response) {
    let defaults = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in defaults {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}
