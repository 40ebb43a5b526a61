//! `view`: a file, or some of its lines, and what the file is.
//!
//! ```text
//! {"bom":false,"content":"two\n","encoding":"utf-8","final_newline":true,"first":2,"line_ends":"lf","lines":3,"more":true,
//!  "ok":true,"policy_digest":"<hex>","returned":1,"sha256":"sha256:<hex>","size":14,"tool":"sha256:<hex>","utf8":true}
//! ```
//!
//! A line ends with LF; what comes after the last one is a line too. `content` is the bytes as they stand, line ends and a
//! byte-order mark included. In base64 the parts are counted in bytes and not in lines.

use base64ct::{Base64, Encoding};

use super::effect::Payload;
use super::read::json_bytes;
use super::{Call, Done, OpError, Prepared, Work, named};
use crate::canon::Value;
use crate::limits::{EVENT_UINT_MAX, OBJECT_BYTES_MAX, OUTPUT_FRAME_BYTES_MAX};
use crate::sandbox::Found;

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path", "offset", "limit", "encoding"];

const BASE64: &str = "base64";
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A part of a file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: String,
    /// The first line or byte, counted from 1.
    offset: u64,
    limit: Option<u64>,
    encoding: &'static str,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request {
        path: payload.text("path")?.to_owned(),
        offset: payload.whole("offset", 1, EVENT_UINT_MAX)?.unwrap_or(1),
        limit: payload.whole("limit", 1, EVENT_UINT_MAX)?,
        encoding: payload.word("encoding", &["utf-8", BASE64])?,
    })
}

pub(super) fn prepare(request: &Request) -> Prepared {
    Prepared::harmless("read", &request.path, Work::View(request.clone()))
}

pub(super) fn perform(call: &Call<'_>, request: &Request) -> Done {
    let found = match call.tree.read(call.path) {
        Ok(found) => found,
        Err(fault) => return call.refuse(&fault),
    };
    let lines = Lines::of(&found.bytes);
    let utf8 = std::str::from_utf8(&found.bytes);
    let text = request.encoding != BASE64;
    if let (true, Err(error)) = (text, &utf8) {
        return call.refuse(&format!(
            "not UTF-8 text: the byte at offset {} is invalid (size {}, {}); read it with encoding base64",
            error.valid_up_to(),
            found.bytes.len(),
            named(Some(&found.sha256))
        ));
    }
    let (parts, what) =
        if text { (lines.count, "lines") } else { (found.bytes.len() as u64, "bytes") };
    // The first part of an empty file is its end.
    if request.offset > parts.max(1) {
        let offset = request.offset;
        return call.refuse(&format!("offset is {offset}, and the file has {parts} {what}"));
    }
    let start = request.offset - 1;
    let end = request.limit.map_or(parts, |limit| start.saturating_add(limit)).min(parts);
    let bytes =
        if text { lines_of(&found.bytes, start, end) } else { slice(&found.bytes, start, end) };
    let content = if text { std::str::from_utf8(bytes).ok() } else { None };
    // In base64 four characters for three bytes, before any of them is made.
    let length = content.map_or(bytes.len().div_ceil(3) * 4 + 2, json_bytes);
    let most = OBJECT_BYTES_MAX - OUTPUT_FRAME_BYTES_MAX;
    if length > most {
        return call.refuse(&format!(
            "the content takes {length} bytes as JSON; the limit is {most}; read it in parts with offset and limit (size {}, {what} {parts})",
            found.bytes.len()
        ));
    }
    let content = content.map_or_else(|| Base64::encode_string(bytes), str::to_owned);
    let part = Part { content, first: request.offset, end, more: end < parts };
    answer(call, request, &found, &lines, part, utf8.is_ok())
}

/// What is returned of a file.
struct Part {
    content: String,
    first: u64,
    end: u64,
    more: bool,
}

fn answer(
    call: &Call<'_>,
    request: &Request,
    found: &Found,
    lines: &Lines,
    part: Part,
    utf8: bool,
) -> Done {
    let members: [(&str, Value); 12] = [
        ("bom", found.bytes.starts_with(BOM).into()),
        ("content", part.content.into()),
        ("encoding", request.encoding.into()),
        ("final_newline", found.bytes.ends_with(b"\n").into()),
        ("first", part.first.into()),
        ("line_ends", lines.ends().into()),
        ("lines", lines.count.into()),
        ("more", part.more.into()),
        ("returned", (part.end + 1).saturating_sub(part.first).into()),
        ("sha256", named(Some(&found.sha256)).into()),
        ("size", (found.bytes.len() as u64).into()),
        ("utf8", utf8.into()),
    ];
    call.told(members, &found.path, found.sha256)
}

fn slice(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let at = |index: u64| usize::try_from(index).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(at(from)..at(to)).unwrap_or_default()
}

/// The lines of a file, counted.
struct Lines {
    count: u64,
    lf: u64,
    crlf: u64,
}

impl Lines {
    fn of(bytes: &[u8]) -> Self {
        let mut lines = Self { count: 0, lf: 0, crlf: 0 };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            lines.count += 1;
            if line.ends_with(b"\r\n") {
                lines.crlf += 1;
            } else if line.ends_with(b"\n") {
                lines.lf += 1;
            }
        }
        lines
    }

    fn ends(&self) -> &'static str {
        match (self.lf, self.crlf) {
            (0, 0) => "none",
            (_, 0) => "lf",
            (0, _) => "crlf",
            _ => "mixed",
        }
    }
}

/// The bytes of the lines from `from` to before `to`, counted from 0.
fn lines_of(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let (mut start, mut end, mut at) = (bytes.len(), bytes.len(), 0);
    for (number, line) in (0..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        if number == from {
            start = at;
        }
        if number == to {
            end = at;
            break;
        }
        at += line.len();
    }
    bytes.get(start..end).unwrap_or_default()
}
