//! The growing right edge of an RFC 6962 tree, in tiles of height 8.
//!
//! A [`Tree`] holds what an append and a root need and no more: the roots of the complete subtrees of the edge (one
//! for each bit set in the size) and the hashes of the unfinished tile of each level. Tiles that fill are handed out
//! and forgotten; storing them is the caller's work, and so is undoing: append to a clone, and keep the clone only
//! once its tiles are durable.
//!
//! ```text
//! size 70000 = 1 00010001 01110000b        level 2: 1 hash
//!                                          level 1: 17 hashes    (tile 1, tile 0 is full and stored)
//!                                          level 0: 112 hashes   (tile 273, tiles 0..272 are full and stored)
//! ```

use std::convert::Infallible;

use crate::limits;
use crate::merkle::Head;
use crate::merkle::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::merkle::tile::{TILE_LEVELS, TILE_WIDTH, TileId, partial_width};

/// Why a tree does not grow, or cannot be restored. `E` is the error of whoever reads stored tiles;
/// an append reads none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError<E = Infallible> {
    /// The tree has [`limits::TREE_LEAVES_MAX`] leaves, or was asked to be restored with more.
    #[error("a tree of {size} leaves is larger than permitted")]
    Full {
        /// The size that was asked for.
        size: u64,
    },
    /// The leaves of the unfinished tile are not `size % 256`.
    #[error("{actual} leaf hashes for an unfinished tile of {expected}")]
    Leaves {
        /// `size % 256`.
        expected: usize,
        /// As given.
        actual: usize,
    },
    /// A full tile was read that does not have 256 hashes.
    #[error("{id} was read with {actual} hashes")]
    TileWidth {
        /// The tile.
        id: TileId,
        /// As read.
        actual: usize,
    },
    /// A stored tile cannot be read.
    #[error("{id} cannot be read: {cause}")]
    Read {
        /// The tile.
        id: TileId,
        /// What the reader said.
        cause: E,
    },
}

/// A tile that has just become full and will never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullTile {
    /// Its name; the width is 256.
    pub id: TileId,
    /// Its 256 hashes.
    pub hashes: Vec<Hash>,
}

impl FullTile {
    /// The 8,192 bytes that are stored and served.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.hashes.concat()
    }
}

/// The right edge of an append-only tree. A clone costs at most 255 hashes a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    /// Roots of the complete subtrees, the largest first: bit k of `size` stands for one of 2^k leaves.
    edge: Vec<Hash>,
    /// The unfinished tile of each level: `partial_width(level, size)` hashes.
    partial: [Vec<Hash>; TILE_LEVELS as usize],
}

impl Tree {
    /// The tree without leaves.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root: at most 61 hashes of work.
    pub fn root(&self) -> Hash {
        let mut smallest_first = self.edge.iter().rev();
        match smallest_first.next() {
            None => EMPTY_ROOT,
            Some(last) => smallest_first.fold(*last, |right, left| node_hash(left, &right)),
        }
    }

    /// Size and root.
    pub fn head(&self) -> Head {
        Head { size: self.size, root: self.root() }
    }

    /// Adds a leaf hash, pushes the tiles that it fills to `full` (level 0 first), and returns the index of the leaf.
    ///
    /// On an error nothing has changed.
    pub fn append(&mut self, leaf: Hash, full: &mut Vec<FullTile>) -> Result<u64, TreeError> {
        let index = self.size;
        if index >= limits::TREE_LEAVES_MAX {
            return Err(TreeError::Full { size: index });
        }
        self.size = index + 1;
        let mut hash = leaf;
        self.push_to_tile(0, hash, full);
        // Each one at the end of the old size is a complete left sibling of what is being added.
        for height in 1..=index.trailing_ones() {
            let Some(left) = self.edge.pop() else { break };
            hash = node_hash(&left, &hash);
            if height % 8 == 0 {
                self.push_to_tile((height / 8) as usize, hash, full);
            }
        }
        self.edge.push(hash);
        Ok(index)
    }

    /// The unfinished tile of each level that has one, lowest level first: what must be served beside the full tiles
    /// for the head of this size.
    pub fn partials(&self) -> impl Iterator<Item = (TileId, &[Hash])> {
        (0_u8..).zip(&self.partial).filter_map(|(level, hashes)| {
            let position = (self.size >> (8 * level)).checked_sub(1)?;
            let id = TileId::holding(level, position, self.size)?;
            (!hashes.is_empty()).then_some((id, hashes.as_slice()))
        })
    }

    /// Recomputes the edge of a tree of `size` leaves from stored bytes: from the `size % 256` hashes of the leaves in
    /// the unfinished tile, and from full tiles that `read` returns (at most 255 for each level above the lowest).
    ///
    /// The hashes are *computed*, never taken from a stored edge, so that a changed tile gives another root. Compare
    /// `head()` with the last signed head before anything is signed.
    pub fn restore<E>(
        size: u64,
        leaves: &[Hash],
        mut read: impl FnMut(TileId) -> Result<Vec<Hash>, E>,
    ) -> Result<Self, TreeError<E>> {
        if size > limits::TREE_LEAVES_MAX {
            return Err(TreeError::Full { size });
        }
        let expected = usize::from(partial_width(0, size));
        if leaves.len() != expected {
            return Err(TreeError::Leaves { expected, actual: leaves.len() });
        }
        let mut tree = Self { size, ..Self::default() };
        for (level, slot) in (0_u8..).zip(&mut tree.partial) {
            if level == 0 {
                *slot = leaves.to_vec();
                continue;
            }
            // Hash i of this level is the root of tile i one level down.
            let hashes = size >> (8 * level);
            let first = hashes & !0xff;
            for index in first..hashes {
                let id = TileId::new(level - 1, index, TILE_WIDTH)
                    .map_err(|_| TreeError::Full { size })?;
                let tile = read(id).map_err(|cause| TreeError::Read { id, cause })?;
                if tile.len() != usize::from(TILE_WIDTH) {
                    return Err(TreeError::TileWidth { id, actual: tile.len() });
                }
                slot.push(complete_root(&tile));
            }
        }
        // The largest subtrees are at the highest level and, within a tile, on the left.
        for hashes in tree.partial.iter().rev() {
            let mut rest = hashes.as_slice();
            for bit in (0..8).rev() {
                if let Some((subtree, tail)) = (hashes.len() >> bit & 1 == 1)
                    .then(|| rest.split_at_checked(1 << bit))
                    .flatten()
                {
                    tree.edge.push(complete_root(subtree));
                    rest = tail;
                }
            }
        }
        Ok(tree)
    }

    fn push_to_tile(&mut self, level: usize, hash: Hash, full: &mut Vec<FullTile>) {
        // A tree of the permitted size needs no ninth level: `append` stops before.
        let Some(partial) = self.partial.get_mut(level) else { return };
        partial.push(hash);
        if partial.len() < usize::from(TILE_WIDTH) {
            return;
        }
        let index = (self.size >> (8 * level)).saturating_sub(1) >> 8;
        // Eight levels fit a byte, and the index is that of an existing tile.
        if let Some(id) =
            u8::try_from(level).ok().and_then(|l| TileId::new(l, index, TILE_WIDTH).ok())
        {
            let hashes = std::mem::replace(partial, Vec::with_capacity(usize::from(TILE_WIDTH)));
            full.push(FullTile { id, hashes });
        }
    }
}

/// The root over hashes whose number is a power of two; [`EMPTY_ROOT`] over none.
pub(crate) fn complete_root(hashes: &[Hash]) -> Hash {
    let mut level = hashes.to_vec();
    while level.len() > 1 {
        level =
            level.as_chunks::<2>().0.iter().map(|[left, right]| node_hash(left, right)).collect();
    }
    level.first().copied().unwrap_or(EMPTY_ROOT)
}
