//! The Merkle tree of the log, and the sparse Merkle map of its state. Spec: `spec/log.md`.
//!
//! Reading order: `hash` (leaf and node), `tree` (the growing right edge), `tile` (names and bytes of tiles), `proof`
//! (what the existence and the growth of a tree are proven with), `reader` (tiles from somebody who is not trusted),
//! `map` (keys to values, with proofs of presence and of absence).
//!
//! Nothing here reads a file, a clock or the network, and nothing here knows signatures: a [`Head`] is only a pair of
//! numbers until `note` has verified who signed it.

pub mod hash;
pub mod map;
pub mod proof;
pub mod reader;
pub mod tile;
pub mod tree;

use hash::Hash;

/// What a tree is: how many leaves it has and the hash over all of them.
///
/// The empty tree has size 0 and the root [`hash::EMPTY_ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of leaves.
    pub size: u64,
    /// The hash of the root.
    pub root: Hash,
}

/// Prints a hash as 64 hex digits in error texts.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
