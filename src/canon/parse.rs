//! JSON text to [`Value`]: strict, bounded, one fault named.

use super::{Value, number};
use crate::limits::JSON_DEPTH_MAX;
use std::collections::BTreeMap;

/// Why text is not JSON that has a canonical form. `at` is a byte offset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonError {
    /// Not UTF-8.
    #[error("the text is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset.
        at: usize,
    },
    /// Not the grammar of RFC 8259.
    #[error("not JSON at byte {at}: {wanted} was due")]
    Syntax {
        /// Offset.
        at: usize,
        /// What the grammar wants there.
        wanted: &'static str,
    },
    /// Text after the value.
    #[error("text follows the value at byte {at}")]
    Trailing {
        /// Offset.
        at: usize,
    },
    /// A member that stands twice.
    #[error("the member {name:?} stands twice, again at byte {at}")]
    DuplicateKey {
        /// Offset.
        at: usize,
        /// The member's name.
        name: String,
    },
    /// An escaped surrogate without its other half.
    #[error("a lone surrogate is escaped at byte {at}")]
    LoneSurrogate {
        /// Offset.
        at: usize,
    },
    /// Nesting beyond the limit.
    #[error("nested deeper than {JSON_DEPTH_MAX} at byte {at}")]
    TooDeep {
        /// Offset.
        at: usize,
    },
    /// A number beyond the limits.
    #[error("the number at byte {at} is out of bounds")]
    NumberBounds {
        /// Offset.
        at: usize,
    },
}

impl CanonError {
    /// The stable code (`spec/canon.md`).
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } => "not-utf8",
            Self::Syntax { .. } => "syntax",
            Self::Trailing { .. } => "trailing",
            Self::DuplicateKey { .. } => "duplicate-key",
            Self::LoneSurrogate { .. } => "lone-surrogate",
            Self::TooDeep { .. } => "too-deep",
            Self::NumberBounds { .. } => "number-bounds",
        }
    }

    /// Offset of the fault.
    pub fn at(&self) -> usize {
        match self {
            Self::NotUtf8 { at }
            | Self::Syntax { at, .. }
            | Self::Trailing { at }
            | Self::DuplicateKey { at, .. }
            | Self::LoneSurrogate { at }
            | Self::TooDeep { at }
            | Self::NumberBounds { at } => *at,
        }
    }
}

/// Parses one JSON value.
///
/// # Errors
/// [`CanonError`], for the first fault from the left (invalid UTF-8 first of all).
pub fn parse(bytes: &[u8]) -> Result<Value, CanonError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| CanonError::NotUtf8 { at: error.valid_up_to() })?;
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.space();
    if parser.at == text.len() { Ok(value) } else { Err(CanonError::Trailing { at: parser.at }) }
}

/// Whether `bytes` are the canonical form of some value.
pub fn is_canonical(bytes: &[u8]) -> bool {
    parse(bytes).is_ok_and(|value| value.to_bytes() == bytes)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn syntax<T>(&self, wanted: &'static str) -> Result<T, CanonError> {
        Err(CanonError::Syntax { at: self.at, wanted })
    }

    fn take(&mut self, byte: u8, wanted: &'static str) -> Result<(), CanonError> {
        if self.peek() != Some(byte) {
            return self.syntax(wanted);
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, CanonError> {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            _ => self.syntax("a value"),
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, CanonError> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return self.syntax("a value");
        }
        self.at += word.len();
        Ok(value)
    }

    fn deeper(&self, depth: usize) -> Result<usize, CanonError> {
        if depth >= JSON_DEPTH_MAX {
            Err(CanonError::TooDeep { at: self.at })
        } else {
            Ok(depth + 1)
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, CanonError> {
        let depth = self.deeper(depth)?;
        self.at += 1;
        let mut members = BTreeMap::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            let at = self.at;
            if self.peek() != Some(b'"') {
                return self.syntax("a member's name");
            }
            let name = self.string()?;
            if members.contains_key(&name) {
                return Err(CanonError::DuplicateKey { at, name });
            }
            self.space();
            self.take(b':', "a colon")?;
            let value = self.value(depth)?;
            members.insert(name, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return self.syntax("a comma or the end of the object"),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, CanonError> {
        let depth = self.deeper(depth)?;
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return self.syntax("a comma or the end of the array"),
            }
        }
    }

    fn digits(&mut self) -> Result<(), CanonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.syntax("a digit");
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, CanonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let token = self.text.get(start..self.at).unwrap_or("");
        let number = number::normalise(token).ok_or(CanonError::NumberBounds { at: start })?;
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<String, CanonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            out.push_str(self.text.get(plain..self.at).unwrap_or(""));
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return self.syntax("an escape for the control character"),
                None => return self.syntax("the end of the string"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, CanonError> {
        let at = self.at;
        self.at += 1;
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(at),
            _ => return Err(CanonError::Syntax { at, wanted: "a known escape" }),
        })
    }

    /// `at` is the offset of the backslash.
    fn unicode(&mut self, at: usize) -> Result<char, CanonError> {
        let first = self.four_digits()?;
        let lone = CanonError::LoneSurrogate { at };
        if !(0xd800..0xe000).contains(&first) {
            return char::from_u32(first).ok_or(lone);
        }
        let escaped = self.text.get(self.at..).is_some_and(|rest| rest.starts_with("\\u"));
        if first >= 0xdc00 || !escaped {
            return Err(lone);
        }
        self.at += 2;
        let second = self.four_digits()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(lone);
        }
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or(lone)
    }

    fn four_digits(&mut self) -> Result<u32, CanonError> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(value) = digits.and_then(|text| u32::from_str_radix(text, 16).ok()) else {
            return self.syntax("four hexadecimal digits");
        };
        self.at += 4;
        Ok(value)
    }
}
