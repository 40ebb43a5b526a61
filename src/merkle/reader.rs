//! Tiles from a source that is not trusted, under a head that is.
//!
//! ```text
//! head (trusted) <- the partial tiles of all levels, together the right edge
//!                       ^ each of their hashes is the root of one full tile of the level below
//!                              ^ and so on down to the leaf hashes
//! ```
//!
//! [`Reader::open`] reads the partial tile of every level. Every hash of every one of them enters the root, so when
//! the root is right they all are. Any other tile is full, and its root stands in the tile above it, which is
//! authenticated first. There is no third case and no index of "the first tile still to be checked": the flaw of
//! CVE-2026-56865, where up to two fetched tiles were handed out and cached unchecked, has no place to live.
//!
//! Only what has been authenticated is returned, kept, or given to [`TileSource::keep`].

use std::collections::BTreeMap;

use crate::limits;
use crate::merkle::hash::{EMPTY_ROOT, Hash, leaf_hash};
use crate::merkle::proof::{Node, ProofError, Subtree, consistency_parts, inclusion_parts};
use crate::merkle::tile::{
    BundleId, TILE_LEVELS, TILE_WIDTH, TileError, TileId, decode_bundle, decode_tile, partial_width,
};
use crate::merkle::tree::complete_root;
use crate::merkle::{Head, Hex};

/// Where the bytes of tiles come from: a server, a folder, a store. Nothing it says is believed.
pub trait TileSource {
    /// Why it has no bytes.
    type Error;

    /// The bytes of a tile: `32 * width`. For a partial tile the bytes of the full one may be returned instead, since
    /// a log may delete partial tiles once they are full; the first `width` hashes are used.
    fn read(&mut self, id: TileId) -> Result<Vec<u8>, Self::Error>;

    /// Called once for each tile that was read *and authenticated*, so that it can be cached. Does nothing by default.
    fn keep(&mut self, id: TileId, hashes: &[Hash]) {
        let _ = (id, hashes);
    }
}

/// Why nothing was read. `E` is the error of the source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError<E> {
    /// The source has no bytes.
    #[error("{id} cannot be read: {cause}")]
    Source {
        /// The tile.
        id: TileId,
        /// What the source said.
        cause: E,
    },
    /// The source's bytes are not hashes, or not as many as the tile has.
    #[error("{id}: {cause}")]
    Shape {
        /// The tile.
        id: TileId,
        /// What is wrong.
        cause: TileError,
    },
    /// The partial tiles do not lead to the root. Which of them is wrong cannot be told.
    #[error("the tiles of the right edge lead to the root {computed}, not {expected}", computed = Hex(computed), expected = Hex(expected))]
    Edge {
        /// What they lead to.
        computed: Hash,
        /// The root of the head.
        expected: Hash,
    },
    /// A full tile does not lead to the hash that the tile above has for it.
    #[error("{id} is not the tile of this log: its root is {computed}, not {expected}", computed = Hex(computed), expected = Hex(expected))]
    Forged {
        /// The tile.
        id: TileId,
        /// What its hashes lead to.
        computed: Hash,
        /// The authenticated hash above it.
        expected: Hash,
    },
    /// An entry is not the one whose hash is in the tree.
    #[error("entry {index} is not the one of this log")]
    Entry {
        /// The index of the leaf.
        index: u64,
    },
    /// An entry bundle has another shape.
    #[error("{id}: {cause}")]
    Bundle {
        /// The bundle.
        id: BundleId,
        /// What is wrong.
        cause: TileError,
    },
    /// The tree has not grown to this size.
    #[error("size {size} lies beyond the head of size {head}")]
    SizeBeyond {
        /// As asked for.
        size: u64,
        /// The size of the head.
        head: u64,
    },
    /// What was asked for does not exist in this tree.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

/// Reads hashes, proofs and entries of one tree.
#[derive(Clone, Debug)]
pub struct Reader<S> {
    head: Head,
    source: S,
    /// The partial tiles, authenticated by the root. At most one a level.
    edge: BTreeMap<TileId, Vec<Hash>>,
    /// Full tiles, authenticated by the tile above. At most `READER_TILES_MAX`.
    full: BTreeMap<TileId, Vec<Hash>>,
}

impl<S: TileSource> Reader<S> {
    /// Reads the right edge (at most eight tiles) and compares it with the root of `head`, which the caller trusts.
    pub fn open(head: Head, source: S) -> Result<Self, ReadError<S::Error>> {
        if head.size > limits::TREE_LEAVES_MAX {
            return Err(ProofError::TreeTooLarge { size: head.size }.into());
        }
        let mut reader = Self { head, source, edge: BTreeMap::new(), full: BTreeMap::new() };
        let mut edge = BTreeMap::new();
        for level in (0..TILE_LEVELS).filter(|level| partial_width(*level, head.size) > 0) {
            if let Some(id) = TileId::holding(level, (head.size >> (8 * level)) - 1, head.size) {
                edge.insert(id, reader.fetch(id)?);
            }
        }
        let whole = Subtree { start: 0, end: head.size };
        let computed = whole.root(|node| {
            // Every node of the whole tree's edge lies in a partial tile, because its level has no more full ones.
            Self::place(node, head.size)
                .and_then(|id| edge.get(&id))
                .and_then(|tile| Self::hash_in(node, tile))
                .ok_or(ReadError::Edge { computed: EMPTY_ROOT, expected: head.root })
        })?;
        if computed != head.root {
            return Err(ReadError::Edge { computed, expected: head.root });
        }
        for (id, hashes) in &edge {
            reader.source.keep(*id, hashes);
        }
        reader.edge = edge;
        Ok(reader)
    }

    /// The head that everything is authenticated against.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Gives the source back.
    pub fn into_source(self) -> S {
        self.source
    }

    /// The hash of leaf `index`.
    pub fn leaf_hash(&mut self, index: u64) -> Result<Hash, ReadError<S::Error>> {
        self.node(Node { height: 0, index })
    }

    /// The proof that leaf `index` is in the tree of the first `size` leaves; `size` may be any up to the head's, so
    /// that a proof can be made for the checkpoint that somebody holds.
    pub fn inclusion_proof(
        &mut self,
        index: u64,
        size: u64,
    ) -> Result<Vec<Hash>, ReadError<S::Error>> {
        self.check_size(size)?;
        inclusion_parts(index, size)?.iter().map(|part| part.root(|node| self.node(node))).collect()
    }

    /// The proof that the tree of the first `second` leaves extends that of the first `first`.
    pub fn consistency_proof(
        &mut self,
        first: u64,
        second: u64,
    ) -> Result<Vec<Hash>, ReadError<S::Error>> {
        self.check_size(second)?;
        consistency_parts(first, second)?
            .iter()
            .map(|part| part.root(|node| self.node(node)))
            .collect()
    }

    /// The root that this log had at `size`.
    pub fn root_at(&mut self, size: u64) -> Result<Hash, ReadError<S::Error>> {
        self.check_size(size)?;
        Subtree { start: 0, end: size }.root(|node| self.node(node))
    }

    /// The entries of a bundle, after comparing the hash of each with the tree. A bundle with one entry of another log,
    /// or with anything after the last one, is refused as a whole.
    pub fn entries<'b>(
        &mut self,
        id: BundleId,
        bytes: &'b [u8],
    ) -> Result<Vec<&'b [u8]>, ReadError<S::Error>> {
        let entries = decode_bundle(id, bytes).map_err(|cause| ReadError::Bundle { id, cause })?;
        let leaves = self.tile(id.leaves())?;
        let wrong = entries.iter().zip(leaves).position(|(entry, leaf)| leaf_hash(entry) != *leaf);
        match wrong {
            None => Ok(entries),
            Some(offset) => Err(ReadError::Entry { index: (id.index() << 8) + offset as u64 }),
        }
    }

    /// The hash of a complete subtree.
    pub fn node(&mut self, node: Node) -> Result<Hash, ReadError<S::Error>> {
        let Some(id) = Self::place(node, self.head.size) else {
            return Err(self.outside(node.index));
        };
        let hash = Self::hash_in(node, self.tile(id)?);
        hash.ok_or_else(|| self.outside(node.index))
    }

    /// The hashes of a tile, named as wide as this tree has it (see [`TileId::holding`]).
    pub fn tile(&mut self, id: TileId) -> Result<&[Hash], ReadError<S::Error>> {
        if id.width() < TILE_WIDTH {
            let outside = self.outside(id.index() << 8);
            return self.edge.get(&id).map(Vec::as_slice).ok_or(outside);
        }
        if !self.full.contains_key(&id) {
            let above = Node { height: 8 * (u32::from(id.level()) + 1), index: id.index() };
            // Recursion ends at the top level after at most seven steps, because the topmost tile is a partial one.
            let expected = self.node(above)?;
            let tile = self.fetch(id)?;
            let computed = complete_root(&tile);
            if computed != expected {
                return Err(ReadError::Forged { id, computed, expected });
            }
            self.source.keep(id, &tile);
            if self.full.len() >= limits::READER_TILES_MAX {
                // Lower levels sort first; the few tiles that lead to all others stay.
                self.full.pop_first();
            }
            self.full.insert(id, tile);
        }
        let outside = self.outside(id.index() << 8);
        self.full.get(&id).map(Vec::as_slice).ok_or(outside)
    }

    /// The bytes of a tile as hashes. Nothing is known about them yet.
    fn fetch(&mut self, id: TileId) -> Result<Vec<Hash>, ReadError<S::Error>> {
        let mut bytes = self.source.read(id).map_err(|cause| ReadError::Source { id, cause })?;
        if bytes.len() == 32 * usize::from(TILE_WIDTH) {
            bytes.truncate(32 * usize::from(id.width()));
        }
        decode_tile(id, &bytes).map_err(|cause| ReadError::Shape { id, cause })
    }

    /// The tile that a complete subtree lies in, if it is in the tree.
    fn place(node: Node, size: u64) -> Option<TileId> {
        let level = u8::try_from(node.height / 8).ok()?;
        let first = node.index.checked_mul(1 << (node.height % 8))?;
        let last = first.checked_add((1 << (node.height % 8)) - 1)?;
        // The last hash of the subtree must be in the tree, and then the first is in the same tile.
        TileId::holding(level, last, size)
    }

    /// The hash of a complete subtree from the tile that it lies in.
    fn hash_in(node: Node, tile: &[Hash]) -> Option<Hash> {
        let hashes = 1_usize << (node.height % 8);
        let offset = usize::from((node.index << (node.height % 8) & 0xff) as u8);
        tile.get(offset..offset + hashes).map(complete_root)
    }

    fn check_size(&self, size: u64) -> Result<(), ReadError<S::Error>> {
        if size > self.head.size {
            return Err(ReadError::SizeBeyond { size, head: self.head.size });
        }
        Ok(())
    }

    fn outside(&self, index: u64) -> ReadError<S::Error> {
        ProofError::IndexOutside { index, size: self.head.size }.into()
    }
}
