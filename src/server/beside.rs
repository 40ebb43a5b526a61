//! What a client may send beside the arguments of a call, whichever front it comes through.
//!
//! ```text
//! {"worldlog/token":"sha256:…","worldlog/expect":{"a.txt":"sha256:…","b.txt":"absent"},"worldlog/preview":true}
//! ```
//!
//! A member of ours that is not known here is refused, and so is a malformed one: whoever sends a guard relies on it.

use crate::canon::Value;
use crate::event::{B32, Fixed};
use crate::service::Call;
use std::collections::BTreeMap;

/// Fills `call` from the members of ours; tells whether only a preview is wanted, or which member is wrong and why.
pub(super) fn fill(
    members: &BTreeMap<String, Value>,
    call: &mut Call,
) -> Result<bool, (String, &'static str)> {
    let mut preview = false;
    for (name, value) in members {
        let Some(own) = name.strip_prefix("worldlog/") else { continue };
        let wrong = |reason| Err((name.clone(), reason));
        match (own, value) {
            ("preview", Value::Bool(flag)) => preview = *flag,
            ("preview", _) => return wrong("must be true or false"),
            ("token", value) => match value.as_str().filter(|text| hash_of(text).is_some()) {
                Some(token) => call.token = Some(token.to_owned()),
                None => return wrong("must be a token as a preview or a denial gave it"),
            },
            ("expect", Value::Object(files)) => {
                for (path, expected) in files {
                    let hash = match expected.as_str() {
                        Some("absent") => None,
                        text => match text.and_then(hash_of) {
                            Some(hash) => Some(hash),
                            None => return wrong("must name sha256:… or absent for each path"),
                        },
                    };
                    call.expect.insert(path.clone(), hash);
                }
            }
            ("expect", _) => return wrong("must be an object of paths"),
            _ => return wrong("is not known here"),
        }
    }
    Ok(preview)
}

fn hash_of(text: &str) -> Option<[u8; 32]> {
    let Fixed(hash) = text.strip_prefix("sha256:").and_then(B32::from_hex)?;
    Some(hash)
}
