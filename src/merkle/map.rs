//! A sparse Merkle map from SHA-256 keys to SHA-256 values: the digest of the state, and the map of episodes.
//!
//! ```text
//! root of no pair      32 zero bytes
//! root of one pair     SHA-256(0x00 || key || value)
//! root of more pairs   SHA-256(0x01 || root(pairs whose next key bit is 0) || root(pairs whose next key bit is 1))
//! ```
//!
//! The next bit of the whole set is the most significant bit of the key's first byte. The root depends on the set of
//! pairs alone, not on the order in which they came. It has no proof of how it changed: whoever audits the log
//! recomputes it.
//!
//! In memory it is a binary tree shared between clones. A change forgets the hashes on its path; [`Map::root`]
//! computes those that are missing, so a thousand changes cost one hash for each node that they touched. Clones are
//! cheap, and a clone that is dropped undoes what was done to it.

use std::sync::{Arc, OnceLock};

use crate::limits;
use crate::merkle::Hex;
use crate::merkle::hash::{Hash, sha256_parts};

/// The root of a map without pairs.
pub const EMPTY_MAP_ROOT: Hash = [0; 32];

/// Why a proof is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// A key has 256 bits, so no proof is longer.
    #[error("map proof has {siblings} siblings, more than a key has bits")]
    TooDeep {
        /// As given.
        siblings: usize,
    },
    /// The leaf at the end of the path does not lie on the path of the key.
    #[error("map proof ends in a leaf that leaves the path of the key at bit {bit}")]
    OtherPath {
        /// The first bit in which the keys differ.
        bit: usize,
    },
    /// A path ends one step above an empty neighbour: a set of one pair, or of none, has no branch.
    #[error("map proof has an empty last sibling, so the path should have ended before")]
    EmptySibling,
    /// The proof leads to another root.
    #[error("map proof leads to the root {computed}, not {expected}", computed = Hex(computed), expected = Hex(expected))]
    Root {
        /// What the proof leads to.
        computed: Hash,
        /// The root it was to be.
        expected: Hash,
    },
}

/// Where the path of a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// No pair of the map begins with the bits of the path.
    Empty,
    /// One pair does: the one asked for, or another, and then the one asked for is absent.
    Leaf {
        /// Its key.
        key: Hash,
        /// Its value.
        value: Hash,
    },
}

/// What a map says about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapProof {
    /// The roots beside the path, from the root of the map downwards: number `d` is on the other side of bit `d`.
    pub siblings: Vec<Hash>,
    /// The end of the path, `siblings.len()` bits down.
    pub terminal: Terminal,
}

/// What a verified proof has shown about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The map has the key, with this value.
    Presence {
        /// The value.
        value: Hash,
    },
    /// The map does not have the key.
    Absence,
}

/// A map with a root. Cloning it costs nothing; clones share what they have in common.
#[derive(Clone, Debug, Default)]
pub struct Map {
    top: Slot,
    len: usize,
}

type Slot = Option<Arc<Node>>;

#[derive(Clone, Debug)]
enum Node {
    Leaf {
        key: Hash,
        value: Hash,
    },
    /// Two pairs or more. Both sides may be branches, and one side may be empty only if the other is a branch.
    Branch {
        sides: [Slot; 2],
        /// Unset while a change below has not been hashed.
        root: OnceLock<Hash>,
    },
}

impl Map {
    /// The map without pairs.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of `key`.
    pub fn get(&self, key: &Hash) -> Option<Hash> {
        match self.prove_path(key, |_| ()) {
            Terminal::Leaf { key: found, value } if found == *key => Some(value),
            _ => None,
        }
    }

    /// Sets the value of `key` and returns the former one. Setting the same value again costs no hashing.
    pub fn insert(&mut self, key: Hash, value: Hash) -> Option<Hash> {
        let former = self.get(&key);
        if former != Some(value) {
            insert_below(&mut self.top, 0, key, value);
        }
        self.len += usize::from(former.is_none());
        former
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &Hash) -> Option<Hash> {
        let former = self.get(key)?;
        remove_below(&mut self.top, 0, key);
        self.len -= 1;
        Some(former)
    }

    /// The root. Hashes what has changed since it was last asked for, in this map or in one it was cloned from.
    pub fn root(&self) -> Hash {
        root_of(&self.top)
    }

    /// The proof of the presence or the absence of `key`, against [`Map::root`].
    pub fn prove(&self, key: &Hash) -> MapProof {
        let mut siblings = Vec::new();
        let terminal = self.prove_path(key, |sibling| siblings.push(root_of(sibling)));
        MapProof { siblings, terminal }
    }

    /// Follows the path of `key`, shows every sibling to `visit`, and returns the end of the path.
    fn prove_path(&self, key: &Hash, mut visit: impl FnMut(&Slot)) -> Terminal {
        let mut slot = &self.top;
        for depth in 0..=limits::MAP_SIBLINGS_MAX {
            match slot.as_deref() {
                None => return Terminal::Empty,
                Some(Node::Leaf { key, value }) => {
                    return Terminal::Leaf { key: *key, value: *value };
                }
                Some(Node::Branch { sides: [zero, one], .. }) => {
                    let (next, sibling) = if bit(key, depth) { (one, zero) } else { (zero, one) };
                    visit(sibling);
                    slot = next;
                }
            }
        }
        // Two different keys differ in one of 256 bits, so there is no branch below bit 255.
        Terminal::Empty
    }
}

/// Verifies what `proof` says about `key` in the map whose root is `root`.
pub fn verify_map(root: &Hash, key: &Hash, proof: &MapProof) -> Result<Membership, MapError> {
    let depth = proof.siblings.len();
    if depth > limits::MAP_SIBLINGS_MAX {
        return Err(MapError::TooDeep { siblings: depth });
    }
    if proof.siblings.last() == Some(&EMPTY_MAP_ROOT) {
        return Err(MapError::EmptySibling);
    }
    let (mut hash, membership) = match proof.terminal {
        Terminal::Empty => (EMPTY_MAP_ROOT, Membership::Absence),
        Terminal::Leaf { key: found, value } => {
            if let Some(bit) = (0..depth).find(|at| bit(key, *at) != bit(&found, *at)) {
                return Err(MapError::OtherPath { bit });
            }
            let here =
                if found == *key { Membership::Presence { value } } else { Membership::Absence };
            (leaf_root(&found, &value), here)
        }
    };
    for (at, sibling) in proof.siblings.iter().enumerate().rev() {
        hash = if bit(key, at) { branch_root(sibling, &hash) } else { branch_root(&hash, sibling) };
    }
    if hash == *root {
        Ok(membership)
    } else {
        Err(MapError::Root { computed: hash, expected: *root })
    }
}

/// Puts the pair below `slot`, which is reached by the first `depth` bits of its key. Recursion is at most 256 deep:
/// two keys part before their bits end.
fn insert_below(slot: &mut Slot, depth: usize, key: Hash, value: Hash) {
    let Some(node) = slot else {
        *slot = Some(Arc::new(Node::Leaf { key, value }));
        return;
    };
    if let Node::Leaf { key: found, .. } = **node {
        if found == key || depth >= limits::MAP_SIBLINGS_MAX {
            *slot = Some(Arc::new(Node::Leaf { key, value }));
            return;
        }
        let mut sides = [None, None];
        *side(&mut sides, bit(&found, depth)) = slot.take();
        insert_below(side(&mut sides, bit(&key, depth)), depth + 1, key, value);
        *slot = Some(Arc::new(Node::Branch { sides, root: OnceLock::new() }));
        return;
    }
    if let Node::Branch { sides, root } = Arc::make_mut(node) {
        *root = OnceLock::new();
        insert_below(side(sides, bit(&key, depth)), depth + 1, key, value);
    }
}

/// Removes a key that is known to be below `slot`, and pulls up a leaf that is left alone.
fn remove_below(slot: &mut Slot, depth: usize, key: &Hash) {
    let lonely = match slot.as_mut().map(Arc::make_mut) {
        None => return,
        Some(Node::Leaf { .. }) => None,
        Some(Node::Branch { sides, root }) => {
            *root = OnceLock::new();
            remove_below(side(sides, bit(key, depth)), depth + 1, key);
            match sides {
                [leaf @ Some(_), None] | [None, leaf @ Some(_)]
                    if matches!(leaf.as_deref(), Some(Node::Leaf { .. })) =>
                {
                    leaf.take()
                }
                _ => return,
            }
        }
    };
    *slot = lonely;
}

fn root_of(slot: &Slot) -> Hash {
    match slot.as_deref() {
        None => EMPTY_MAP_ROOT,
        Some(Node::Leaf { key, value }) => leaf_root(key, value),
        Some(Node::Branch { sides: [zero, one], root }) => {
            *root.get_or_init(|| branch_root(&root_of(zero), &root_of(one)))
        }
    }
}

fn leaf_root(key: &Hash, value: &Hash) -> Hash {
    sha256_parts(&[&[0], key, value])
}

fn branch_root(zero: &Hash, one: &Hash) -> Hash {
    sha256_parts(&[&[1], zero, one])
}

fn side(sides: &mut [Slot; 2], one: bool) -> &mut Slot {
    let [zero_side, one_side] = sides;
    if one { one_side } else { zero_side }
}

/// Bit `depth` of a key, the most significant of its first byte being bit 0. Beyond the key all bits are 0.
fn bit(key: &Hash, depth: usize) -> bool {
    key.get(depth / 8).is_some_and(|byte| byte >> (7 - depth % 8) & 1 == 1)
}
