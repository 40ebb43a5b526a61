//! What an operator does to calls: approve, stop, settle, take back. The performing side, as in `request`.
//!
//! ```text
//! {"verb":"approvals"}                                     -> {"waiting":[{"args","at","episode","invocation","session","token","tool"}…]}
//! {"verb":"approve","token","session"?,"verdict","ttl"}    -> {"session"}
//! {"verb":"freeze","episode"?,"frozen","now"}              -> {"frozen"}
//! {"verb":"unresolved","from","limit"}                     -> {"items":[…]}
//! {"verb":"why","ref"}                                     -> the story (`spec/provenance.md`)
//! {"verb":"undo","entry"}                                  -> {"entry","invocation","paths"}
//! {"verb":"resolve","invocation","landed"}                 -> {"record"}
//! ```

use super::Failure;
use super::request::{ENTRIES_MAX, number, text};
use crate::canon::{Value, object};
use crate::event::{ApprovalVerdict, B16};
use crate::service::{Cause, Service, Waiting, WhyError};

/// Does what is asked; `None` when the verb is none of these.
pub(super) fn perform(service: &Service, request: &Value) -> Option<Result<Value, Failure>> {
    Some(match request.get("verb").and_then(Value::as_str)? {
        "approvals" => approvals(service),
        "approve" => approve(service, request),
        "freeze" => freeze(service, request),
        "why" => why(service, request),
        "unresolved" => unresolved(service, request),
        "undo" => undo(service, request),
        "resolve" => resolve(service, request),
        _ => return None,
    })
}

fn approvals(service: &Service) -> Result<Value, Failure> {
    let waiting = service.waiting().map_err(Failure::damaged)?;
    Ok(object([("waiting", Value::Array(waiting.iter().map(waits).collect()))]))
}

fn waits(call: &Waiting) -> Value {
    object([
        ("args", call.args.clone()),
        ("at", call.at.into()),
        ("episode", call.episode.to_string().into()),
        ("invocation", call.invocation.as_str().into()),
        ("session", call.session.to_string().into()),
        ("token", call.token.as_str().into()),
        ("tool", call.tool.as_str().into()),
    ])
}

fn approve(service: &Service, request: &Value) -> Result<Value, Failure> {
    let verdict = match text(request, "verdict")? {
        "approve" => ApprovalVerdict::Approve,
        "decline" => ApprovalVerdict::Decline,
        other => {
            return Err(Failure::usage(format!("`verdict` is {other:?}, not approve or decline")));
        }
    };
    let session = match request.get("session").and_then(Value::as_str) {
        Some(id) => Some(invocation(id, "session")?),
        None => None,
    };
    let session =
        service.approve(text(request, "token")?, session, verdict, number(request, "ttl")?);
    let session = session.map_err(Failure::usage)?;
    Ok(object([("session", session.to_string().into())]))
}

fn freeze(service: &Service, request: &Value) -> Result<Value, Failure> {
    let flag = |name: &str| request.get(name).and_then(Value::as_bool).unwrap_or(false);
    let episode = request.get("episode").and_then(Value::as_str);
    service.freeze(episode, flag("frozen"), flag("now")).map_err(Failure::usage)?;
    Ok(object([("frozen", flag("frozen").into())]))
}

fn why(service: &Service, request: &Value) -> Result<Value, Failure> {
    let reference = text(request, "ref")?;
    let cause = Cause::parse(reference).ok_or_else(|| {
        Failure::usage(format!(
            "{reference:?}: sha256:…, an entry (N or entry:N), leaf:N or an invocation was due"
        ))
    })?;
    service.why(Some(&service.operator()), cause).map_err(|error| match error {
        WhyError::Store(error) => Failure::damaged(error),
        other => Failure::usage(format!("{reference}: {other}")),
    })
}

fn unresolved(service: &Service, request: &Value) -> Result<Value, Failure> {
    let limit = usize::try_from(number(request, "limit")?.min(ENTRIES_MAX)).unwrap_or(0);
    let items = service.unresolved(Some(&service.operator()), number(request, "from")?, limit);
    Ok(object([("items", Value::Array(items.map_err(Failure::damaged)?))]))
}

fn undo(service: &Service, request: &Value) -> Result<Value, Failure> {
    let undone = service.undo(number(request, "entry")?).map_err(Failure::usage)?;
    let paths = undone.paths.iter().map(|path| Value::from(path.as_str())).collect();
    Ok(object([
        ("entry", undone.entry.into()),
        ("invocation", undone.invocation.into()),
        ("paths", Value::Array(paths)),
    ]))
}

fn resolve(service: &Service, request: &Value) -> Result<Value, Failure> {
    let inv = invocation(text(request, "invocation")?, "invocation")?;
    let landed = request.get("landed").and_then(Value::as_bool);
    let landed = landed.ok_or_else(|| Failure::usage("`landed` is neither true nor false"))?;
    let record = service.resolve(&inv, landed).map_err(Failure::usage)?;
    Ok(object([("record", record.into())]))
}

fn invocation(text: &str, what: &str) -> Result<B16, Failure> {
    B16::from_hex(text).ok_or_else(|| {
        Failure::usage(format!("{what} {text:?}: 32 lowercase hexadecimal digits were due"))
    })
}
