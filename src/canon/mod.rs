//! Canonical JSON: the one spelling of an object's bytes (`spec/canon.md`).
//!
//! ```text
//! {"a":[1,"é",null],"b":0.5}      sorted keys, no space, raw UTF-8, plain decimals
//! ```
//!
//! [`parse`] takes any JSON text within the limits and refuses what has no one meaning: duplicate keys, lone surrogates,
//! trailing text, invalid UTF-8. [`Value::to_bytes`] prints the canonical form. Numbers are exact decimals and never pass
//! through a float. Objects of the log are SHA-256 of these bytes.

mod number;
mod parse;

pub use parse::{CanonError, is_canonical, parse};

use std::collections::BTreeMap;

/// A JSON value in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A plain decimal: no exponent, no needless zero, no minus before zero.
    Number(Number),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// Members in the bytewise order of their names.
    Object(BTreeMap<String, Value>),
}

/// A number as its canonical text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(String);

impl Number {
    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(Number(number.to_string()))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::Array(items)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// An object of the members given.
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl Value {
    /// The member `name`, of an object that has it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Object(members) => members.get(name),
            _ => None,
        }
    }

    /// The text, of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value, of a bool.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The value, of a whole number within 64 bits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.0.parse().ok(),
            _ => None,
        }
    }

    /// The members, of an object.
    pub fn as_object(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The items, of an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::new();
        self.print(&mut text);
        text.into_bytes()
    }

    fn print(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(number) => out.push_str(&number.0),
            Self::String(text) => print_string(text, out),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.print(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    print_string(name, out);
                    out.push(':');
                    value.print(out);
                }
                out.push('}');
            }
        }
    }
}

fn print_string(text: &str, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    let mut plain = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(text.get(plain..index).unwrap_or(""));
        plain = index + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "\\u{byte:04x}")),
        }
    }
    out.push_str(text.get(plain..).unwrap_or(""));
    out.push('"');
}
