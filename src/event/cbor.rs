//! The canonical form of our CBOR, decided on the bytes in one pass.
//!
//! The form is core deterministic encoding (RFC 8949 section 4.2.1) and narrower: definite lengths only, shortest heads,
//! map keys strictly ascending in the bytewise order of their encodings, no tags, no floats, no negative integers, of the
//! simple values only false, true and null; unsigned integers below 2^53, text in UTF-8, a depth limit, nothing after
//! the item. [`Reader`] reads single items and refuses every other spelling; [`scan`] checks a whole item.
//!
//! This file does not know what an event is; `codec` does.

use crate::limits::{EVENT_DEPTH_MAX, EVENT_UINT_MAX};

/// Why bytes are not in canonical form. `at` is the offset of the item at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CborError {
    /// The bytes end inside an item.
    #[error("the bytes end inside the item at byte {at}")]
    Truncated {
        /// Offset.
        at: usize,
    },
    /// Bytes follow the item.
    #[error("{count} bytes follow the item, from byte {at}")]
    Trailing {
        /// Offset of the first byte too many.
        at: usize,
        /// How many there are.
        count: usize,
    },
    /// A head longer than its value needs.
    #[error("the head at byte {at} is not the shortest for its value")]
    NotShortest {
        /// Offset.
        at: usize,
    },
    /// A string, array or map of indefinite length.
    #[error("the item at byte {at} has an indefinite length")]
    Indefinite {
        /// Offset.
        at: usize,
    },
    /// A map key that equals the one before it.
    #[error("the map key at byte {at} stands twice")]
    DuplicateKey {
        /// Offset.
        at: usize,
    },
    /// A map key that sorts before the one before it.
    #[error("the map key at byte {at} is out of order")]
    KeyOrder {
        /// Offset.
        at: usize,
    },
    /// A map key that is not text.
    #[error("the map key at byte {at} is not text")]
    KeyType {
        /// Offset.
        at: usize,
    },
    /// A tag, float, negative integer, or a simple value but false, true and null.
    #[error("{what} at byte {at} has no place here")]
    Forbidden {
        /// Offset.
        at: usize,
        /// The kind of item.
        what: &'static str,
    },
    /// An unsigned integer of 2^53 or more.
    #[error("the integer at byte {at} is not below 2^53")]
    TooLarge {
        /// Offset.
        at: usize,
    },
    /// Text that is not UTF-8.
    #[error("the text at byte {at} is not UTF-8")]
    NotUtf8 {
        /// Offset.
        at: usize,
    },
    /// Nesting beyond the limit.
    #[error("the item at byte {at} is nested deeper than {EVENT_DEPTH_MAX}")]
    TooDeep {
        /// Offset.
        at: usize,
    },
    /// Another kind of item than this place takes.
    #[error("the item at byte {at} is not {wanted}")]
    Unexpected {
        /// Offset.
        at: usize,
        /// What this place takes.
        wanted: &'static str,
    },
}

impl CborError {
    /// The stable code (`spec/event.md`).
    pub fn code(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::Trailing { .. } => "trailing",
            Self::NotShortest { .. } => "not-shortest",
            Self::Indefinite { .. } => "indefinite",
            Self::DuplicateKey { .. } => "duplicate-key",
            Self::KeyOrder { .. } => "key-order",
            Self::KeyType { .. } => "key-type",
            Self::Forbidden { .. } => "forbidden",
            Self::TooLarge { .. } => "too-large",
            Self::NotUtf8 { .. } => "not-utf8",
            Self::TooDeep { .. } => "too-deep",
            Self::Unexpected { .. } => "unexpected",
        }
    }

    /// Offset of the item at fault.
    pub fn at(&self) -> usize {
        match self {
            Self::Truncated { at }
            | Self::Trailing { at, .. }
            | Self::NotShortest { at }
            | Self::Indefinite { at }
            | Self::DuplicateKey { at }
            | Self::KeyOrder { at }
            | Self::KeyType { at }
            | Self::Forbidden { at, .. }
            | Self::TooLarge { at }
            | Self::NotUtf8 { at }
            | Self::TooDeep { at }
            | Self::Unexpected { at, .. } => *at,
        }
    }
}

/// The head of an item: its kind and its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    Uint(u64),
    Bytes(usize),
    Text(usize),
    Array(usize),
    Map(usize),
    False,
    True,
    Null,
}

/// Reads canonical items one after another.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset of the next item.
    pub fn offset(&self) -> usize {
        self.at
    }

    fn take(&mut self, count: usize, item: usize) -> Result<&'a [u8], CborError> {
        let end = self.at.checked_add(count).ok_or(CborError::Truncated { at: item })?;
        let slice = self.bytes.get(self.at..end).ok_or(CborError::Truncated { at: item })?;
        self.at = end;
        Ok(slice)
    }

    fn head(&mut self) -> Result<Head, CborError> {
        let at = self.at;
        let first = self.take(1, at)?.first().copied().unwrap_or(0);
        let (major, info) = (first >> 5, first & 0x1f);
        if major == 7 {
            return match info {
                20 => Ok(Head::False),
                21 => Ok(Head::True),
                22 => Ok(Head::Null),
                25..=27 => Err(CborError::Forbidden { at, what: "a float" }),
                31 => Err(CborError::Indefinite { at }),
                _ => Err(CborError::Forbidden { at, what: "a simple value" }),
            };
        }
        match major {
            1 => return Err(CborError::Forbidden { at, what: "a negative integer" }),
            6 => return Err(CborError::Forbidden { at, what: "a tag" }),
            _ => {}
        }
        let (width, least) = match info {
            0..=23 => (0, 0),
            24 => (1, 24),
            25 => (2, 1 << 8),
            26 => (4, 1 << 16),
            27 => (8, 1 << 32),
            31 => return Err(CborError::Indefinite { at }),
            _ => return Err(CborError::Forbidden { at, what: "a reserved head" }),
        };
        let mut argument = u64::from(info);
        if width > 0 {
            argument = self.take(width, at)?.iter().fold(0, |sum, b| (sum << 8) | u64::from(*b));
        }
        if argument < least {
            return Err(CborError::NotShortest { at });
        }
        if major == 0 {
            return if argument > EVENT_UINT_MAX {
                Err(CborError::TooLarge { at })
            } else {
                Ok(Head::Uint(argument))
            };
        }
        // Each element takes a byte at least, so a count beyond the rest is a truncation, found before any allocation.
        let rest = self.bytes.len() - self.at;
        let length = usize::try_from(argument).ok().filter(|n| *n <= rest);
        let length = length.ok_or(CborError::Truncated { at })?;
        Ok(match major {
            2 => Head::Bytes(length),
            3 => Head::Text(length),
            4 => Head::Array(length),
            _ => Head::Map(length),
        })
    }

    fn text_of(&mut self, length: usize, at: usize) -> Result<&'a str, CborError> {
        std::str::from_utf8(self.take(length, at)?).map_err(|_| CborError::NotUtf8 { at })
    }

    /// An unsigned integer.
    pub fn uint(&mut self) -> Result<u64, CborError> {
        let at = self.at;
        match self.head()? {
            Head::Uint(value) => Ok(value),
            _ => Err(CborError::Unexpected { at, wanted: "an unsigned integer" }),
        }
    }

    /// A byte string of exactly `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CborError> {
        let at = self.at;
        match self.head()? {
            Head::Bytes(length) if length == N => {
                let bytes = self.take(N, at)?;
                bytes.try_into().map_err(|_| CborError::Truncated { at })
            }
            _ => Err(CborError::Unexpected { at, wanted: "a byte string of the length due here" }),
        }
    }

    /// Text.
    pub fn text(&mut self) -> Result<&'a str, CborError> {
        let at = self.at;
        match self.head()? {
            Head::Text(length) => self.text_of(length, at),
            _ => Err(CborError::Unexpected { at, wanted: "text" }),
        }
    }

    /// The head of an array of exactly `count` items.
    pub fn array_of(&mut self, count: usize) -> Result<(), CborError> {
        let at = self.at;
        match self.head()? {
            Head::Array(length) if length == count => Ok(()),
            _ => Err(CborError::Unexpected { at, wanted: "an array of the length due here" }),
        }
    }

    /// The head of an array of any number of items; they are read after it.
    pub fn array_len(&mut self) -> Result<usize, CborError> {
        let at = self.at;
        match self.head()? {
            Head::Array(length) => Ok(length),
            _ => Err(CborError::Unexpected { at, wanted: "an array" }),
        }
    }

    /// Whether the next item is null, which is then consumed.
    pub fn null(&mut self) -> bool {
        let null = self.bytes.get(self.at) == Some(&0xf6);
        self.at += usize::from(null);
        null
    }

    /// The bytes of the next item, of any kind, checked in depth; `depth` levels are open around it.
    pub fn item(&mut self, depth: usize) -> Result<&'a [u8], CborError> {
        let start = self.at;
        self.skip(depth)?;
        self.bytes.get(start..self.at).ok_or(CborError::Truncated { at: start })
    }

    /// The bytes of a map.
    pub fn map(&mut self, depth: usize) -> Result<&'a [u8], CborError> {
        let at = self.at;
        match self.bytes.get(at) {
            Some(first) if first >> 5 == 5 => self.item(depth),
            Some(_) => Err(CborError::Unexpected { at, wanted: "a map" }),
            None => Err(CborError::Truncated { at }),
        }
    }

    fn skip(&mut self, depth: usize) -> Result<(), CborError> {
        let at = self.at;
        match self.head()? {
            Head::Uint(_) | Head::False | Head::True | Head::Null => Ok(()),
            Head::Bytes(length) => self.take(length, at).map(drop),
            Head::Text(length) => self.text_of(length, at).map(drop),
            Head::Array(count) => {
                let depth = deeper(depth, at)?;
                (0..count).try_for_each(|_| self.skip(depth))
            }
            Head::Map(count) => {
                let depth = deeper(depth, at)?;
                let mut last: &[u8] = &[];
                for _ in 0..count {
                    let key_at = self.at;
                    let Head::Text(length) = self.head()? else {
                        return Err(CborError::KeyType { at: key_at });
                    };
                    self.text_of(length, key_at)?;
                    let key = self.bytes.get(key_at..self.at).unwrap_or(&[]);
                    match last.cmp(key) {
                        std::cmp::Ordering::Less => last = key,
                        std::cmp::Ordering::Equal => {
                            return Err(CborError::DuplicateKey { at: key_at });
                        }
                        std::cmp::Ordering::Greater => {
                            return Err(CborError::KeyOrder { at: key_at });
                        }
                    }
                    self.skip(depth)?;
                }
                Ok(())
            }
        }
    }

    /// Demands that nothing follows.
    pub fn end(&self) -> Result<(), CborError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            count => Err(CborError::Trailing { at: self.at, count }),
        }
    }
}

fn deeper(depth: usize, at: usize) -> Result<usize, CborError> {
    if depth >= EVENT_DEPTH_MAX { Err(CborError::TooDeep { at }) } else { Ok(depth + 1) }
}

/// Checks that `bytes` are one item in canonical form.
pub fn scan(bytes: &[u8]) -> Result<(), CborError> {
    let mut reader = Reader::new(bytes);
    reader.item(0)?;
    reader.end()
}

/// Writes canonical items. Maps and bodies come from `codec`; this is for envelopes and keys.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    fn head(&mut self, major: u8, argument: u64) {
        let big = argument.to_be_bytes();
        let (info, from) = match argument {
            0..=23 => {
                self.bytes.push((major << 5) | big[7]);
                return;
            }
            24..=0xff => (24, 7),
            0x100..=0xffff => (25, 6),
            0x1_0000..=0xffff_ffff => (26, 4),
            _ => (27, 0),
        };
        self.bytes.push((major << 5) | info);
        self.bytes.extend_from_slice(big.get(from..).unwrap_or(&[]));
    }

    /// An unsigned integer.
    pub fn uint(&mut self, value: u64) {
        self.head(0, value);
    }

    /// A byte string.
    pub fn bytes(&mut self, value: &[u8]) {
        self.head(2, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Text.
    pub fn text(&mut self, value: &str) {
        self.head(3, value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// The head of an array; its items follow.
    pub fn array(&mut self, count: usize) {
        self.head(4, count as u64);
    }

    /// Null.
    pub fn null(&mut self) {
        self.bytes.push(0xf6);
    }

    /// An item encoded elsewhere.
    pub fn splice(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Any item, for printing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the kind of item that its name says")]
pub enum Item {
    Uint(u64),
    Bytes(Vec<u8>),
    Text(String),
    Array(Vec<Item>),
    Map(Vec<(String, Item)>),
    Bool(bool),
    Null,
}

impl Item {
    /// Reads one whole item in canonical form.
    pub fn parse(bytes: &[u8]) -> Result<Self, CborError> {
        scan(bytes)?;
        Self::read(&mut Reader::new(bytes))
    }

    /// Depth is bounded, because `parse` scanned the bytes.
    fn read(reader: &mut Reader<'_>) -> Result<Self, CborError> {
        let at = reader.at;
        Ok(match reader.head()? {
            Head::Uint(value) => Self::Uint(value),
            Head::Bytes(length) => Self::Bytes(reader.take(length, at)?.to_vec()),
            Head::Text(length) => Self::Text(reader.text_of(length, at)?.to_owned()),
            Head::Array(count) => {
                Self::Array((0..count).map(|_| Self::read(reader)).collect::<Result<_, _>>()?)
            }
            Head::Map(count) => {
                let pair = |_| Ok((reader.text()?.to_owned(), Self::read(reader)?));
                Self::Map((0..count).map(pair).collect::<Result<_, CborError>>()?)
            }
            Head::False => Self::Bool(false),
            Head::True => Self::Bool(true),
            Head::Null => Self::Null,
        })
    }
}
