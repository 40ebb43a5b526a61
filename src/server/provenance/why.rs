//! Stories, and objects by their kind.
//!
//! ```text
//! GET /v1/why/sha256:HEX64 | N | entry:N | leaf:N | HEX32        GET /v1/objects/by-semantic-id/NAME?after=&limit=
//! ```

use super::super::http::{self, Refusal, Response};
use super::{behind, guest, read};
use crate::canon::{Value, object};
use crate::service::{Cause, Service, WhyError};
use hyper::http::request::Parts;

/// Objects of the largest page.
const PAGE_MAX: u64 = 500;
/// Objects of a page unless asked otherwise.
const PAGE: u64 = 100;

/// For a reference authority comes first: without it the answer does not depend on the name.
pub(super) async fn story(
    service: &Service,
    head: &Parts,
    text: &str,
) -> Result<Response, Refusal> {
    let caller = if text.starts_with("sha256:") {
        Some(http::caller(service, &head.headers).map_err(http::unauthorized)?)
    } else {
        guest(service, head)?
    };
    http::query(head, [])?;
    let cause = Cause::parse(text).ok_or_else(|| {
        http::bad_request(
            "why wants sha256: and 64 hexadecimal digits, an entry (N or entry:N), leaf:N, or the 32 hexadecimal digits of \
             an invocation",
        )
    })?;
    let found = read(service, head, move |service| match service.why(caller.as_ref(), cause) {
        Err(WhyError::Store(error)) => Err(error),
        other => Ok(other),
    });
    match found.await? {
        Ok(story) => Ok(http::json(&story)),
        Err(error @ WhyError::Behind) => Err(behind(error.to_string())),
        Err(error) => Err(http::not_found(&error.to_string())),
    }
}

pub(super) async fn of_kind(
    service: &Service,
    head: &Parts,
    name: &str,
) -> Result<Response, Refusal> {
    let caller = http::caller(service, &head.headers).map_err(http::unauthorized)?;
    let [after, limit] = http::query(head, ["after", "limit"])?;
    if name.is_empty() {
        return Err(http::bad_request("the semantic id is empty"));
    }
    let number = |name: &str, text: Option<&str>| match text {
        None => Ok(None),
        Some(text) => http::index(text)
            .map(Some)
            .ok_or_else(|| http::bad_request(format!("{name} must be a non-negative integer"))),
    };
    let after = number("after", after)?;
    let limit = number("limit", limit)?.filter(|limit| *limit > 0).unwrap_or(PAGE).min(PAGE_MAX);
    let (kind, limit) = (name.to_owned(), usize::try_from(limit).unwrap_or(0));
    let found =
        read(service, head, move |service| service.objects_of_kind(&caller, &kind, after, limit));
    let (items, next) = found.await?;
    let next = next.map_or(Value::Null, Value::from);
    Ok(http::json(&object([("items", Value::Array(items)), ("next", next)])))
}
