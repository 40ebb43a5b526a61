//! An event as JSON, for people and scripts.
//!
//! ```text
//! {"at":…,"body":{…},"ep":{"n":…,"name":"…","prev":"<hex>"},"inv":"<hex>","kind":"…","leaf_hash":"<hex>","prev":"<hex>",
//!  "seq":…,"version":1}
//! ```
//!
//! Byte strings are lowercase hexadecimal; `ep` and `inv` are null where the event has none. The rendering is a view: the
//! leaf is the CBOR, whose hash is `leaf_hash`. Members of bodies are not looked at, so that kinds of later versions show
//! too.

use crate::canon::{Value, object};
use crate::event::{CborError, Item, hex};
use crate::service::EventView;

/// Renders one event.
pub(super) fn to_value(view: &EventView) -> Result<Value, Fault> {
    let Item::Array(members) = Item::parse(&view.bytes)? else { return Err(Fault::Envelope) };
    let [version, seq, at, prev, kind, ep, inv, body] =
        <[Item; 8]>::try_from(members).map_err(|_| Fault::Envelope)?;
    let ep = match ep {
        Item::Array(link) => {
            let [name, n, prev] = <[Item; 3]>::try_from(link).map_err(|_| Fault::Envelope)?;
            object([("n", value(n)), ("name", value(name)), ("prev", value(prev))])
        }
        other => value(other),
    };
    Ok(object([
        ("at", value(at)),
        ("body", value(body)),
        ("ep", ep),
        ("inv", value(inv)),
        ("kind", value(kind)),
        ("leaf_hash", hex(&view.leaf_hash).into()),
        ("prev", value(prev)),
        ("seq", value(seq)),
        ("version", value(version)),
    ]))
}

/// Stored bytes that are no event: the store is damaged.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Not canonical CBOR.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// Not the envelope.
    #[error("a stored event is not an array of eight")]
    Envelope,
}

/// Depth is that of an event, which is bounded.
fn value(item: Item) -> Value {
    match item {
        Item::Uint(number) => number.into(),
        Item::Bytes(bytes) => hex(&bytes).into(),
        Item::Text(text) => text.into(),
        Item::Array(items) => Value::Array(items.into_iter().map(value).collect()),
        Item::Map(members) => {
            Value::Object(members.into_iter().map(|(name, item)| (name, value(item))).collect())
        }
        Item::Bool(flag) => flag.into(),
        Item::Null => Value::Null,
    }
}
