//! What anybody may read to check the log: heads, events, entries, receipts, proofs, tiles (`spec/provenance.md`).
//!
//! ```text
//! GET /v1/health          GET /v1/log?from=&limit=     GET /v1/events?from=&limit=   GET /checkpoint
//! GET /v1/head            GET /v1/log/N                GET /v1/events/N              GET /tile/L/N[.p/W]
//! GET /v1/receipts/ID     GET /v1/proof/LEAF.tlog-proof  GET /v1/objects/sha256:HEX64  GET /tile/entries/N[.p/W]
//! GET /v1/episodes/NAME   GET /v1/unresolved             GET /v1/stream                GET /v1/why/REF
//! ```
//!
//! Nothing here changes anything. Objects are for callers who may see them, and to anybody else every name is equally
//! unknown; a plain reference is told only to those, because it would confirm a guess of what it names. HEAD is answered
//! wherever GET is. How an event looks in JSON is in `event.rs`.

mod episodes;
mod event;
mod stream;
mod why;

use super::Rim;
use super::http::{self, Accept, BYTES, Refusal, Response, TEXT};
use crate::canon::{Value, object};
use crate::event::{B16, B32, Fixed, Front};
use crate::merkle::tile::TilePath;
use crate::service::{Caller, ObjectError, Receipt, Service, StoreError, is_client_id};
use base64ct::{Base64, Encoding};
use hyper::StatusCode;
use hyper::header;
use hyper::http::request::Parts;

/// The description of all this for programs.
const OPENAPI: &str = include_str!("../../../spec/openapi.json");
/// The bytes of an event.
const CBOR: &str = "application/cbor";
/// What never changes may be kept for a year.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Whether the path is one of these.
pub(super) fn has(path: &str) -> bool {
    path == "/checkpoint" || path.starts_with("/tile/") || path.starts_with("/v1/")
}

/// Answers one request.
pub(super) async fn answer(rim: &Rim, head: &Parts) -> Response {
    let service = &rim.service;
    let Some(route) = Route::of(head.uri.path()) else {
        return http::not_found("there is nothing at this path").into();
    };
    if !http::reads(&head.method) {
        return http::method_not_allowed("GET, HEAD").into();
    }
    // Whoever shows a session that is no good has to learn it, wherever it is shown.
    if let Err(refusal) = guest(service, head) {
        return refusal.into();
    }
    let answered = match route {
        Route::Health => health(service, head),
        Route::Head => note(head, service.ledger().published().note.clone()),
        Route::Checkpoint => note(head, service.ledger().checkpoint()),
        Route::Log => log(service, head).await,
        Route::Entry(text) => entry(service, head, text).await,
        Route::Receipt(text) => receipt(service, head, text).await,
        Route::Events => events(service, head).await,
        Route::Event(text) => one_event(service, head, text).await,
        Route::Object(text) => object_of(service, head, text).await,
        Route::Proof(text) => proof(service, head, text).await,
        Route::Tile(text) => tile(service, head, text).await,
        Route::Unresolved => episodes::unresolved(service, head).await,
        Route::Episodes => episodes::list(service, head),
        Route::Episode(name) => episodes::one(service, head, name).await,
        Route::File(name, path) => episodes::file(service, head, (name, path)).await,
        Route::Why(text) => why::story(service, head, text).await,
        Route::OfKind(name) => why::of_kind(service, head, name).await,
        Route::OpenApi => {
            http::query(head, []).map(|[]| http::reply(StatusCode::OK, http::JSON, OPENAPI))
        }
        Route::Stream => stream::begin(rim, head).await,
    };
    answered.unwrap_or_else(Response::from)
}

/// What a path names; its last part is not looked at yet.
enum Route<'a> {
    Health,
    Head,
    Checkpoint,
    Log,
    Entry(&'a str),
    Receipt(&'a str),
    Events,
    Event(&'a str),
    Object(&'a str),
    Proof(&'a str),
    Tile(&'a str),
    Unresolved,
    Episodes,
    Episode(&'a str),
    File(&'a str, &'a str),
    OpenApi,
    Stream,
    Why(&'a str),
    OfKind(&'a str),
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if first == "tile" {
            return Some(Self::Tile(path));
        }
        let (second, last) = rest.split_once('/').map_or((rest, None), |(a, b)| (a, Some(b)));
        match (first, second, last) {
            ("checkpoint", "", None) => Some(Self::Checkpoint),
            ("v1", "health", None) => Some(Self::Health),
            ("v1", "head", None) => Some(Self::Head),
            ("v1", "log", None) => Some(Self::Log),
            ("v1", "log", Some(index)) => Some(Self::Entry(index)),
            ("v1", "receipts", Some(id)) => Some(Self::Receipt(id)),
            ("v1", "events", None) => Some(Self::Events),
            ("v1", "events", Some(seq)) => Some(Self::Event(seq)),
            ("v1", "openapi.json", None) => Some(Self::OpenApi),
            ("v1", "why", Some(text)) => Some(Self::Why(text)),
            ("v1", "objects", Some(name)) if name.starts_with("by-semantic-id/") => {
                name.strip_prefix("by-semantic-id/").map(Self::OfKind)
            }
            ("v1", "objects", Some(name)) => Some(Self::Object(name)),
            ("v1", "unresolved", None) => Some(Self::Unresolved),
            ("v1", "stream", None) => Some(Self::Stream),
            ("v1", "episodes", None) => Some(Self::Episodes),
            ("v1", "episodes", Some(rest)) => match rest.split_once('/') {
                None => Some(Self::Episode(rest)),
                Some((name, rest)) => {
                    rest.strip_prefix("files/").map(|path| Self::File(name, path))
                }
            },
            ("v1", "proof", Some(name)) => name.strip_suffix(".tlog-proof").map(Self::Proof),
            _ => None,
        }
    }
}

fn health(service: &Service, head: &Parts) -> Result<Response, Refusal> {
    http::query(head, [])?;
    let health = service.health();
    let mut response = http::json(&object([
        ("clock", health.clock.into()),
        ("entries", health.entries.into()),
        ("origin", health.origin.into()),
        ("size", health.size.into()),
        ("status", if health.halted { "halted" } else { "ok" }.into()),
        ("unresolved", health.unresolved.into()),
        ("version", health.version.into()),
    ]));
    if health.halted {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

fn note(head: &Parts, note: String) -> Result<Response, Refusal> {
    http::query(head, [])?;
    Ok(http::reply(StatusCode::OK, TEXT, note))
}

fn guest(service: &Service, head: &Parts) -> Result<Option<Caller>, Refusal> {
    http::guest(service, &head.headers).map_err(http::unauthorized)
}

/// Runs `read` where it may block, with a handle of its own.
async fn read<T: Send + 'static>(
    service: &Service,
    head: &Parts,
    read: impl FnOnce(&Service) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Refusal> {
    let service = service.clone();
    http::blocking(head, move || read(&service)).await
}

/// An index beside the log is being made up.
fn behind(message: String) -> Refusal {
    let refusal = http::error(StatusCode::SERVICE_UNAVAILABLE, "IndexBehind", message);
    http::also(refusal, header::RETRY_AFTER, "1")
}

/// What was there was redacted.
fn gone(message: String) -> Refusal {
    http::error(StatusCode::GONE, "Redacted", message)
}

async fn log(service: &Service, head: &Parts) -> Result<Response, Refusal> {
    let caller = guest(service, head)?;
    let (from, limit) = http::page(head)?;
    let entries = read(service, head, move |service| service.log(caller.as_ref(), from, limit));
    let items = entries.await?.iter().map(crate::service::LogEntry::to_value).collect();
    Ok(http::json(&object([("items", Value::Array(items))])))
}

async fn entry(service: &Service, head: &Parts, text: &str) -> Result<Response, Refusal> {
    http::query(head, [])?;
    let caller = guest(service, head)?;
    let index = http::index(text)
        .ok_or_else(|| http::bad_request("log index must be a non-negative integer"))?;
    let found = read(service, head, move |service| service.log(caller.as_ref(), index, 1)).await?;
    match found.first().filter(|found| found.entry == index) {
        Some(entry) => Ok(http::json(&entry.to_value())),
        None => Err(http::not_found("log entry not found")),
    }
}

async fn receipt(service: &Service, head: &Parts, text: &str) -> Result<Response, Refusal> {
    let [proven] = http::query(head, ["proof"])?;
    let proven = http::flag("proof", proven)?;
    let (found, invocation) = find(service, head, text).await?;
    if proven {
        return match found {
            Receipt::Committed(view) => proof_of(service, head, view.leaf).await,
            _ => Err(http::not_found("the invocation has no commit, so there is nothing to prove")),
        };
    }
    Ok(http::json(&receipt_value(&invocation, found)))
}

/// What is known of an invocation, named by itself or by its client's own id; and its name, as far as that is known.
async fn find(service: &Service, head: &Parts, text: &str) -> Result<(Receipt, String), Refusal> {
    if let Some((front, id)) = claim(text) {
        let caller = http::caller(service, &head.headers).map_err(http::unauthorized)?;
        let id = id.to_owned();
        let found = read(service, head, move |service| service.receipt_by_id(&caller, front, &id));
        let (receipt, invocation) = found.await?;
        return Ok((receipt, invocation.unwrap_or_else(|| text.to_owned())));
    }
    let caller = guest(service, head)?;
    let inv = B16::from_hex(text).ok_or_else(|| {
        http::bad_request(
            "receipt id must be the 32 lowercase hexadecimal digits of an invocation, or a2a:, mcp: or surface: and a \
             client's own id",
        )
    })?;
    let found = read(service, head, move |service| service.receipt(caller.as_ref(), &inv));
    Ok((found.await?, text.to_owned()))
}

/// A client's own id with its front; of the caller's session.
fn claim(text: &str) -> Option<(Front, &str)> {
    let (front, id) = text.split_once(':')?;
    let front = match front {
        "a2a" => Front::A2a,
        "mcp" => Front::Mcp,
        "surface" => Front::Surface,
        _ => return None,
    };
    is_client_id(id).then_some((front, id))
}

fn receipt_value(invocation: &str, receipt: Receipt) -> Value {
    let state = |state: &str| object([("invocation", invocation.into()), ("state", state.into())]);
    let mut value = match &receipt {
        Receipt::NotStarted => return state("not-started"),
        Receipt::Open => return state("indeterminate"),
        Receipt::Closed { .. } => state("closed"),
        Receipt::Committed(view) => view.to_value(),
    };
    let Value::Object(members) = &mut value else { return value };
    match receipt {
        Receipt::Closed { leaf, verdict } => {
            members.insert("leaf".to_owned(), leaf.into());
            members.insert("verdict".to_owned(), verdict.into());
        }
        Receipt::Committed(view) => {
            members.insert("state".to_owned(), "resolved".into());
            if view.output.is_empty() {
                members.remove("output");
            }
        }
        Receipt::NotStarted | Receipt::Open => {}
    }
    value
}

async fn events(service: &Service, head: &Parts) -> Result<Response, Refusal> {
    let (from, limit) = http::page(head)?;
    let views = read(service, head, move |service| service.events(from, limit)).await?;
    let items = views.iter().map(event::to_value).collect::<Result<_, _>>();
    let items = items.map_err(|cause| http::internal(head, &cause))?;
    Ok(http::json(&object([("items", Value::Array(items))])))
}

async fn one_event(service: &Service, head: &Parts, text: &str) -> Result<Response, Refusal> {
    http::query(head, [])?;
    let seq = http::index(text)
        .ok_or_else(|| http::bad_request("event seq must be a non-negative integer"))?;
    let view = read(service, head, move |service| service.event(seq)).await?;
    let view = view.ok_or_else(|| http::not_found("event not found"))?;
    let response = if Accept::of(&head.headers).lists(CBOR) {
        http::reply(StatusCode::OK, CBOR, view.bytes)
    } else {
        http::json(&event::to_value(&view).map_err(|cause| http::internal(head, &cause))?)
    };
    let response = http::with(response, header::CACHE_CONTROL, IMMUTABLE);
    Ok(http::with(response, header::VARY, "Accept"))
}

/// Authority comes first: without it the answer does not depend on the name.
async fn object_of(service: &Service, head: &Parts, name: &str) -> Result<Response, Refusal> {
    let caller = http::caller(service, &head.headers).map_err(http::unauthorized)?;
    let [payload] = http::query(head, ["payload"])?;
    let payload = http::flag("payload", payload)?;
    let Fixed(hash) = name.strip_prefix("sha256:").and_then(B32::from_hex).ok_or_else(|| {
        http::bad_request("object ref must be sha256: and 64 lowercase hexadecimal digits")
    })?;
    let found = read(service, head, move |service| match service.object(&caller, &hash) {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(ObjectError::Store(error)) => Err(error),
        Err(other) => Ok(Err(other)),
    });
    let bytes = found.await?.map_err(|error| match error {
        ObjectError::Redacted(_) => gone(error.to_string()),
        _ => http::not_found("object not found"),
    })?;
    if Accept::of(&head.headers).lists(BYTES) {
        return Ok(http::with(http::reply(StatusCode::OK, BYTES, bytes), header::VARY, "Accept"));
    }
    let mut value = object([("hash", name.into()), ("size", (bytes.len() as u64).into())]);
    if let (Value::Object(members), true) = (&mut value, payload) {
        members.insert("payload".to_owned(), Base64::encode_string(&bytes).into());
    }
    Ok(http::with(http::json(&value), header::VARY, "Accept"))
}

async fn proof(service: &Service, head: &Parts, text: &str) -> Result<Response, Refusal> {
    http::query(head, [])?;
    let leaf = http::index(text)
        .ok_or_else(|| http::bad_request("proof leaf must be a non-negative integer"))?;
    proof_of(service, head, leaf).await
}

async fn proof_of(service: &Service, head: &Parts, leaf: u64) -> Result<Response, Refusal> {
    let service = service.clone();
    let made = tokio::task::spawn_blocking(move || service.proof(leaf)).await;
    match made {
        Ok(Ok(Some(text))) => Ok(http::reply(StatusCode::OK, TEXT, text)),
        Ok(Ok(None)) => Err(http::not_found("the leaf lies beyond the head")),
        Ok(Err(cause)) => Err(http::internal(head, &cause)),
        Err(cause) => Err(http::internal(head, &cause)),
    }
}

/// Partial tiles may be kept as long as full ones: their bytes never change either.
async fn tile(service: &Service, head: &Parts, path: &str) -> Result<Response, Refusal> {
    http::query(head, [])?;
    let path: Result<TilePath, _> = path.parse();
    let path = path.map_err(|fault| http::bad_request(fault.to_string()))?;
    let bytes = read(service, head, move |service| service.tile(path)).await?;
    let bytes = bytes.ok_or_else(|| http::not_found("the tile lies beyond the head"))?;
    Ok(http::with(http::reply(StatusCode::OK, BYTES, bytes), header::CACHE_CONTROL, IMMUTABLE))
}
