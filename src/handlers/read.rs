//! `read`: a file's text, whole.
//!
//! Text is UTF-8, and given as it stands: a byte-order mark, CRLF and control characters are part of it. Bytes that are not
//! UTF-8 cannot be put into JSON without loss, so the answer says what the file is instead.

use super::effect::Payload;
use super::{Call, Done, OpError, Prepared, Work, named};
use crate::limits::{OBJECT_BYTES_MAX, OUTPUT_FRAME_BYTES_MAX};

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path"];

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: String,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request { path: payload.text("path")?.to_owned() })
}

pub(super) fn prepare(request: &Request) -> Prepared {
    Prepared::harmless("read", &request.path, Work::Read)
}

pub(super) fn perform(call: &Call<'_>) -> Done {
    let found = match call.tree.read(call.path) {
        Ok(found) => found,
        Err(fault) => return call.refuse(&fault),
    };
    let size = found.bytes.len();
    match String::from_utf8(found.bytes) {
        Ok(text) => {
            let bytes = json_bytes(&text);
            if bytes > OBJECT_BYTES_MAX - OUTPUT_FRAME_BYTES_MAX {
                let limit = OBJECT_BYTES_MAX - OUTPUT_FRAME_BYTES_MAX;
                return call.refuse(&format!(
                    "the text takes {bytes} bytes as JSON; the limit is {limit} (size {size}, {})",
                    named(Some(&found.sha256))
                ));
            }
            call.told([("content", text.into())], &found.path, found.sha256)
        }
        Err(error) => call.refuse(&format!(
            "not UTF-8 text: the byte at offset {} is invalid (size {size}, {})",
            error.utf8_error().valid_up_to(),
            named(Some(&found.sha256))
        )),
    }
}

/// Bytes of `text` as a canonical JSON string.
pub(super) fn json_bytes(text: &str) -> usize {
    let byte = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(byte).sum::<usize>()
}
