//! Event bodies through serde and ciborium. The only file that names ciborium.
//!
//! ciborium is lenient (longer heads, indefinite lengths, repeated keys, trailing bytes), so nothing reaches it that
//! [`super::cbor::scan`] has not accepted. Three leniencies are about types and pass the scanner: a longer array where a
//! tuple is due and a map of one pair where a word is due leave items unread, hence the check that nothing is left; an
//! empty byte string where a list is due is refused by `bytes::list`. What it writes is canonical because body structs declare their fields in canonical order.

use super::BodyError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes a map that is known to be canonical.
pub(super) fn from_map<T: DeserializeOwned>(map: &[u8]) -> Result<T, BodyError> {
    let mut rest = map;
    let value = ciborium::from_reader(&mut rest);
    let value = value.map_err(|error| BodyError { reason: reason(&error) })?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(BodyError { reason: "a field holds more than its type takes".to_owned() })
    }
}

/// Encodes one value.
pub(super) fn to_map<T: Serialize>(value: &T) -> Result<Vec<u8>, BodyError> {
    let mut bytes = Vec::with_capacity(256);
    ciborium::into_writer(value, &mut bytes)
        .map_err(|error| BodyError { reason: error.to_string() })?;
    Ok(bytes)
}

/// ciborium's own texts print its internals; serde's name the field.
fn reason(error: &ciborium::de::Error<std::io::Error>) -> String {
    match error {
        ciborium::de::Error::Semantic(_, text) => text.clone(),
        other => other.to_string(),
    }
}

/// Encodes a row or key of the state (`spec/state.md`).
pub fn to_cbor<T: Serialize>(value: &T) -> Result<Vec<u8>, BodyError> {
    to_map(value)
}

/// Decodes a row or key of the state.
pub fn from_cbor<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    super::cbor::scan(bytes).map_err(|error| BodyError { reason: error.to_string() })?;
    from_map(bytes)
}
