//! Tiles and entry bundles: their names, which of them a tree has, and their bytes (C2SP tlog-tiles v0.1.0).
//!
//! ```text
//! tile/<L>/<N>[.p/<W>]        W x 32 bytes   the hashes N*256 .. N*256+W of level L
//! tile/entries/<N>[.p/<W>]    W x (uint16 length, big-endian || entry)
//!
//! L   0..63, decimal            hash i of level L is the root over the leaves i*256^L .. (i+1)*256^L
//! N   groups of three digits, all but the last with `x` in front: 5 is 005, 1234067 is x001/x234/067
//! W   1..255 in a partial tile; a full tile has 256 hashes and no suffix
//! ```
//!
//! A name has exactly one spelling: what parses prints as the same bytes. Nothing here says whether a tile is *true*;
//! that is `reader`'s work.

use std::fmt;
use std::str::FromStr;

use crate::limits;
use crate::merkle::hash::Hash;

/// Hashes of a full tile, and entries of a full bundle.
pub const TILE_WIDTH: u16 = 256;
/// Levels that a tree of [`limits::TREE_LEAVES_MAX`] leaves can have: 62 bits, eight a level.
pub const TILE_LEVELS: u8 = 8;

/// Why a name or the bytes of a tile are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileError {
    /// The path is not of the form in the module's head.
    #[error("tile path {path:?}: {fault}")]
    Path {
        /// The path, cut to 80 bytes.
        path: String,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// The width is neither a partial tile's nor a full one's.
    #[error("tile width {width} is not between 1 and 256")]
    Width {
        /// As given.
        width: u64,
    },
    /// No tree of the permitted size has this tile.
    #[error("tile {level}/{index} lies beyond the largest tree")]
    BeyondTree {
        /// The level, 0 for leaves and for entries.
        level: u8,
        /// The index at that level.
        index: u64,
    },
    /// A tile's bytes are not `width` hashes.
    #[error("tile has {actual} bytes instead of {expected}")]
    TileBytes {
        /// 32 times the width.
        expected: usize,
        /// As given.
        actual: usize,
    },
    /// An entry bundle ends inside an entry or its length.
    #[error("entry bundle ends inside entry {entry}")]
    EntryCut {
        /// The position in the bundle, from 0.
        entry: usize,
    },
    /// An entry bundle goes on after its last entry.
    #[error("entry bundle has {bytes} bytes after its last entry")]
    BundleTrailing {
        /// How many.
        bytes: usize,
    },
    /// An entry does not fit the 16 bits of its length.
    #[error("entry of {bytes} bytes is longer than 65535")]
    EntryTooLong {
        /// As given.
        bytes: usize,
    },
}

/// What is wrong with a tile's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It does not begin with `tile/` and a level or `entries`.
    #[error("does not begin with tile/<level>/ or tile/entries/")]
    Prefix,
    /// The level is not a decimal number without leading zeros.
    #[error("level is not a decimal number from 0 to 63")]
    Level,
    /// The index is not written in groups of three digits, all but the last with an `x`.
    #[error("index is not in groups of three digits, all but the last with an x")]
    Index,
    /// The index has a first group `x000`, so a shorter spelling exists.
    #[error("index begins with x000")]
    LeadingZeros,
    /// The index needs more than 64 bits.
    #[error("index is too large")]
    IndexTooLarge,
    /// The suffix is not `.p/` and a width from 1 to 255 without leading zeros.
    #[error("partial width is not a decimal number from 1 to 255")]
    PartialWidth,
}

/// The name of one tile of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileId {
    level: u8,
    index: u64,
    width: u16,
}

/// The name of one entry bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleId {
    index: u64,
    width: u16,
}

/// Either name, as it stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TilePath {
    /// `tile/<L>/<N>[.p/<W>]`.
    Hashes(TileId),
    /// `tile/entries/<N>[.p/<W>]`.
    Entries(BundleId),
}

impl TileId {
    /// The tile `index` of `level` with its first `width` hashes, 256 of them if it is full.
    ///
    /// Refuses a width outside 1..=256, and a tile that no tree of [`limits::TREE_LEAVES_MAX`] leaves has.
    pub fn new(level: u8, index: u64, width: u16) -> Result<Self, TileError> {
        if width == 0 || width > TILE_WIDTH {
            return Err(TileError::Width { width: u64::from(width) });
        }
        // The last hash of the tile must lie in the largest tree, whose hashes are counted at this level.
        let end = (u128::from(index) << 8) + u128::from(width);
        if level >= TILE_LEVELS || end > u128::from(limits::TREE_LEAVES_MAX >> (8 * level)) {
            return Err(TileError::BeyondTree { level, index });
        }
        Ok(Self { level, index, width })
    }

    /// The level: 0 holds leaf hashes.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The index at its level.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The number of hashes, 1..=256.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// The tile holding hash number `position` of `level`, as wide as a tree of `size` leaves has it, or `None` when
    /// that tree has no such hash.
    pub fn holding(level: u8, position: u64, size: u64) -> Option<Self> {
        if level >= TILE_LEVELS {
            return None;
        }
        let hashes = size >> (8 * level);
        let index = position >> 8;
        if position >= hashes {
            return None;
        }
        let width = u16::try_from((hashes - (index << 8)).min(u64::from(TILE_WIDTH))).ok()?;
        Self::new(level, index, width).ok()
    }
}

impl BundleId {
    /// The bundle `index` with its first `width` entries; refused like the tile of level 0 that it belongs to.
    pub fn new(index: u64, width: u16) -> Result<Self, TileError> {
        TileId::new(0, index, width).map(|tile| Self { index: tile.index, width: tile.width })
    }

    /// The index: the bundle begins with entry `index * 256`.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The number of entries, 1..=256.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// The tile of leaf hashes of the same entries.
    pub fn leaves(&self) -> TileId {
        TileId { level: 0, index: self.index, width: self.width }
    }
}

/// The width of the partial tile at the right edge of `level` in a tree of `size` leaves: 0..=255, and 0 means that
/// there is none, for an empty partial tile is not served.
pub fn partial_width(level: u8, size: u64) -> u16 {
    if level >= TILE_LEVELS { 0 } else { ((size >> (8 * level)) & 0xff) as u16 }
}

/// Every tile of hashes of a tree of `size` leaves: level by level, left to right, the partial one last.
pub fn tiles(size: u64) -> impl Iterator<Item = TileId> {
    (0..TILE_LEVELS).flat_map(move |level| {
        let hashes = size >> (8 * level);
        (0..hashes.div_ceil(256)).filter_map(move |index| TileId::holding(level, index << 8, size))
    })
}

/// The hashes of a tile's bytes, exactly `id.width()` of them.
pub fn decode_tile(id: TileId, bytes: &[u8]) -> Result<Vec<Hash>, TileError> {
    let expected = 32 * usize::from(id.width);
    let (hashes, []) = bytes.as_chunks::<32>() else {
        return Err(TileError::TileBytes { expected, actual: bytes.len() });
    };
    if hashes.len() != usize::from(id.width) {
        return Err(TileError::TileBytes { expected, actual: bytes.len() });
    }
    Ok(hashes.to_vec())
}

/// Appends one entry to the bytes of a bundle; refuses one that is longer than its length can say.
pub fn encode_entry(entry: &[u8], bundle: &mut Vec<u8>) -> Result<(), TileError> {
    let length =
        u16::try_from(entry.len()).map_err(|_| TileError::EntryTooLong { bytes: entry.len() })?;
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
    Ok(())
}

/// The entries of a bundle's bytes, exactly `id.width()` of them and nothing after.
///
/// The slices borrow from `bytes`: no announced length is ever allocated.
pub fn decode_bundle(id: BundleId, bytes: &[u8]) -> Result<Vec<&[u8]>, TileError> {
    let mut entries = Vec::with_capacity(usize::from(id.width));
    let mut rest = bytes;
    for entry in 0..usize::from(id.width) {
        let cut = TileError::EntryCut { entry };
        let (length, tail) = rest.split_first_chunk::<2>().ok_or_else(|| cut.clone())?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (body, tail) = tail.split_at_checked(length).ok_or(cut)?;
        entries.push(body);
        rest = tail;
    }
    if rest.is_empty() { Ok(entries) } else { Err(TileError::BundleTrailing { bytes: rest.len() }) }
}

impl fmt::Display for TileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile/{}/{}", self.level, Suffix { index: self.index, width: self.width })
    }
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile/entries/{}", Suffix { index: self.index, width: self.width })
    }
}

impl fmt::Display for TilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hashes(id) => id.fmt(f),
            Self::Entries(id) => id.fmt(f),
        }
    }
}

impl FromStr for TilePath {
    type Err = TileError;

    fn from_str(path: &str) -> Result<Self, TileError> {
        let fail = |fault| TileError::Path { path: path.chars().take(80).collect(), fault };
        let (level, rest) = path
            .strip_prefix("tile/")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| fail(PathFault::Prefix))?;
        let (index, width) = match rest.split_once(".p/") {
            None => (rest, TILE_WIDTH),
            Some((index, width)) => {
                let width = canonical_below(width, 256).filter(|width| *width > 0);
                (index, width.ok_or_else(|| fail(PathFault::PartialWidth))?)
            }
        };
        let index = parse_index(index).map_err(fail)?;
        if level == "entries" {
            return BundleId::new(index, width).map(Self::Entries);
        }
        let level = canonical_below(level, 64).ok_or_else(|| fail(PathFault::Level))?;
        let level = u8::try_from(level).map_err(|_| fail(PathFault::Level))?;
        TileId::new(level, index, width).map(Self::Hashes)
    }
}

/// `<N>[.p/<W>]`.
struct Suffix {
    index: u64,
    width: u16,
}

impl fmt::Display for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 20 digits at most: 7 groups.
        let mut scale = 1_000_u64.pow(6);
        while scale >= 1_000 {
            if self.index >= scale {
                write!(f, "x{:03}/", self.index / scale % 1_000)?;
            }
            scale /= 1_000;
        }
        write!(f, "{:03}", self.index % 1_000)?;
        if self.width < TILE_WIDTH { write!(f, ".p/{}", self.width) } else { Ok(()) }
    }
}

fn parse_index(text: &str) -> Result<u64, PathFault> {
    if text.starts_with("x000/") {
        return Err(PathFault::LeadingZeros);
    }
    let mut index = 0_u64;
    let mut groups = text.split('/').peekable();
    while let Some(group) = groups.next() {
        let last = groups.peek().is_none();
        let digits = if last { Some(group) } else { group.strip_prefix('x') };
        let digits = digits.filter(|d| d.len() == 3 && d.bytes().all(|b| b.is_ascii_digit()));
        let value: u64 = digits.and_then(|d| d.parse().ok()).ok_or(PathFault::Index)?;
        index = index
            .checked_mul(1_000)
            .and_then(|index| index.checked_add(value))
            .ok_or(PathFault::IndexTooLarge)?;
    }
    Ok(index)
}

/// A decimal number below `end` without sign or leading zeros.
fn canonical_below(text: &str, end: u16) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    if digits && canonical { text.parse().ok().filter(|n| *n < end) } else { None }
}
