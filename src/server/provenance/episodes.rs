//! Episodes, their files, and what is unresolved.
//!
//! ```text
//! GET /v1/unresolved?from=&limit=        GET /v1/episodes?after=&limit=        GET /v1/episodes/NAME
//! GET /v1/episodes/NAME/files/PATH?at=LEAF&payload=true
//! ```

use super::super::http::{self, Refusal, Response};
use super::{behind, gone, guest, read};
use crate::canon::{Value, object};
use crate::event::{EpisodeName, Role};
use crate::service::{FileError, Service};
use hyper::StatusCode;
use hyper::http::request::Parts;

/// Episodes of a page.
const PAGE: usize = 100;
/// Episodes of the largest page.
const PAGE_MAX: u64 = 500;

pub(super) async fn unresolved(service: &Service, head: &Parts) -> Result<Response, Refusal> {
    let caller = guest(service, head)?;
    let (from, limit) = http::page(head)?;
    let found =
        read(service, head, move |service| service.unresolved(caller.as_ref(), from, limit));
    Ok(http::json(&object([("items", Value::Array(found.await?))])))
}

/// Names alone are public; that there are no others is not, so the list is the auditor's.
pub(super) fn list(service: &Service, head: &Parts) -> Result<Response, Refusal> {
    let caller = http::caller(service, &head.headers).map_err(http::unauthorized)?;
    if caller.role() != Role::Auditor {
        return Err(http::error(
            StatusCode::FORBIDDEN,
            "Forbidden",
            "only an auditor lists episodes; ask for yours by its name",
        ));
    }
    let [after, limit] = http::query(head, ["after", "limit"])?;
    let after = after.map(name).transpose()?;
    let limit = match limit {
        None => PAGE,
        Some(text) => {
            let number = http::index(text).filter(|number| *number > 0);
            let number =
                number.ok_or_else(|| http::bad_request("limit must be a positive integer"))?;
            usize::try_from(number.min(PAGE_MAX)).unwrap_or(PAGE)
        }
    };
    let views = service.episodes(&caller, after.as_ref(), limit);
    let items = views.iter().map(crate::service::EpisodeView::to_value).collect();
    Ok(http::json(&object([("items", Value::Array(items))])))
}

pub(super) async fn one(service: &Service, head: &Parts, text: &str) -> Result<Response, Refusal> {
    http::query(head, [])?;
    let caller = guest(service, head)?;
    let name = name(text)?;
    let found = service.episode(caller.as_ref(), &name);
    let mut value = found.ok_or_else(|| http::not_found("episode not found"))?.to_value();
    let calls = read(service, head, move |service| service.newest_calls(caller.as_ref(), &name));
    let calls = calls.await?.iter().map(crate::service::LogEntry::to_value).collect();
    if let Value::Object(members) = &mut value {
        members.insert("calls".to_owned(), Value::Array(calls));
    }
    Ok(http::json(&value))
}

/// Authority comes first: without it the answer does not depend on the name or the path.
pub(super) async fn file(
    service: &Service,
    head: &Parts,
    (episode, path): (&str, &str),
) -> Result<Response, Refusal> {
    let caller = http::caller(service, &head.headers).map_err(http::unauthorized)?;
    let [at, payload] = http::query(head, ["at", "payload"])?;
    let payload = http::flag("payload", payload)?;
    let at = match at {
        None => None,
        Some(text) => Some(
            http::index(text)
                .ok_or_else(|| http::bad_request("at must be the number of a leaf"))?,
        ),
    };
    let path = decoded(path)
        .ok_or_else(|| http::bad_request("the path is no percent-encoded UTF-8, or is empty"))?;
    let episode = name(episode)?;
    let found =
        read(service, head, move |service| match service.file_at(&caller, &episode, &path, at) {
            Ok(view) => Ok(Ok(view)),
            Err(FileError::Store(error)) => Err(error),
            Err(other) => Ok(Err(other)),
        });
    match found.await? {
        Ok(view) => Ok(http::json(&view.to_value(payload))),
        Err(error @ FileError::Redacted(_)) => Err(gone(error.to_string())),
        Err(error @ FileError::Behind) => Err(behind(error.to_string())),
        Err(_) => Err(http::not_found("episode not found")),
    }
}

fn name(text: &str) -> Result<EpisodeName, Refusal> {
    EpisodeName::parse(text)
        .ok_or_else(|| http::bad_request("episode must be [a-z0-9][a-z0-9-]{0,63}"))
}

/// Percent-decoded UTF-8, not empty.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = more;
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}
