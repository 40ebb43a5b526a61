//! Revision 2026-07-28: nothing is agreed beforehand, every request says what it is, and headers repeat it.
//!
//! ```text
//! MCP-Protocol-Version: 2026-07-28     Mcp-Method: tools/call     Mcp-Name: ailang-read
//! {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ailang-read","arguments":{…},
//!  "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
//! ```
//!
//! A request is of this era when its `_meta` names a version, its header names this one, or its method is
//! `server/discover`. Checked in this order: the header is there; `_meta` names version and capabilities; both versions are one;
//! it is this one; the headers of method and name say what the body says. There is no session, no `initialize`, no `ping`.

use super::super::http;
use super::super::rpc::{self, Failure, Members};
use super::{INSTRUCTIONS, REVISIONS, server_info};
use crate::canon::{Value, object};
use base64ct::{Base64, Encoding};
use hyper::header::{HeaderMap, HeaderName};

/// The revision.
pub(super) const REVISION: &str = "2026-07-28";
/// How long a client may keep a list, in milliseconds: an operator's act can change it at any time.
const TTL_MS: u64 = 5_000;

const VERSION_MEMBER: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_MEMBER: &str = "io.modelcontextprotocol/clientCapabilities";
/// What every result tells of the server.
pub(super) const SERVER_MEMBER: &str = "io.modelcontextprotocol/serverInfo";

/// Whether a request with this header, method and params is of this era.
pub(super) fn speaks(headers: &HeaderMap, method: &str, params: Option<&str>) -> bool {
    method == "server/discover" || names_it(headers) || version_of(params).is_some()
}

/// Whether the header names this revision.
pub(super) fn names_it(headers: &HeaderMap) -> bool {
    header(headers, "mcp-protocol-version").ok().flatten() == Some(REVISION)
}

fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, ()> {
    http::single(headers, &HeaderName::from_static(name)).map(|value| value.map(str::trim))
}

/// The raw version that `_meta` names.
fn version_of(params: Option<&str>) -> Option<&str> {
    let members = Members::parse(params?).ok()?;
    Members::parse(members.get("_meta")?).ok()?.get(VERSION_MEMBER)
}

fn mismatch(text: impl std::fmt::Display) -> Failure {
    Failure::new(rpc::HEADER_MISMATCH, format!("header mismatch: {text}"))
}

/// The checks of a request of this era, in their order.
pub(super) fn check(
    headers: &HeaderMap,
    method: &str,
    params: &Members<'_>,
) -> Result<(), Failure> {
    let missing = || mismatch("MCP-Protocol-Version must be there once");
    let sent = header(headers, "mcp-protocol-version").map_err(|()| missing())?;
    let sent = sent.ok_or_else(missing)?;
    let meta = params.get("_meta").and_then(|text| Members::parse(text).ok()).unwrap_or_default();
    let version = rpc::string(meta.get(VERSION_MEMBER)).ok_or_else(|| {
        Failure::params(format_args!("_meta must name {VERSION_MEMBER:?}, a string"))
    })?;
    let capable = meta.get(CAPABILITIES_MEMBER).is_some_and(|text| text.starts_with('{'));
    if !capable {
        let text = format!("_meta must have {CAPABILITIES_MEMBER:?}, an object");
        return Err(Failure::params(text));
    }
    if sent != version {
        let text = format!("MCP-Protocol-Version is {sent:?} and _meta names {version:?}");
        return Err(mismatch(text));
    }
    if version != REVISION {
        return Err(super::unsupported(&version));
    }
    mirrors(headers, "mcp-method", method)?;
    if method == "tools/call" {
        let name = rpc::string(params.get("name"))
            .ok_or_else(|| Failure::params("name must be a string"))?;
        mirrors(headers, "mcp-name", &name)?;
    }
    Ok(())
}

/// The header has to be there once and to say `body`.
fn mirrors(headers: &HeaderMap, name: &'static str, body: &str) -> Result<(), Failure> {
    let missing = || mismatch(format_args!("{name} must be there once"));
    let sent = header(headers, name).map_err(|()| missing())?.ok_or_else(missing)?;
    let unreadable = || mismatch(format_args!("{name} is no base64 of UTF-8"));
    // What a header cannot hold comes as =?base64?…?=.
    let encoded = sent.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let said = match encoded {
        Some(text) => {
            let bytes = Base64::decode_vec(text).map_err(|_| unreadable())?;
            String::from_utf8(bytes).map_err(|_| unreadable())?
        }
        None => sent.to_owned(),
    };
    if said == body {
        return Ok(());
    }
    let [said, body] = [&said, body].map(|text| text.chars().take(128).collect::<String>());
    Err(mismatch(format_args!("{name} says {said:?} and the body {body:?}")))
}

/// The result of `server/discover`.
pub(super) fn discover() -> Value {
    let versions = std::iter::once(REVISION).chain(REVISIONS).map(Value::from).collect();
    let tools = object([("listChanged", false.into())]);
    object([
        ("capabilities", object([("tools", tools)])),
        ("instructions", INSTRUCTIONS.into()),
        ("supportedVersions", Value::Array(versions)),
    ])
}

/// What every result of this era has, added to one of the older ones.
pub(super) fn dress(result: Value, kept: bool) -> Value {
    let Value::Object(mut members) = result else { return result };
    members.insert("resultType".to_owned(), "complete".into());
    members.insert("_meta".to_owned(), object([(SERVER_MEMBER, server_info())]));
    if kept {
        members.insert("ttlMs".to_owned(), TTL_MS.into());
        members.insert("cacheScope".to_owned(), "private".into());
    }
    Value::Object(members)
}
