//! Inclusion and consistency proofs (RFC 9162 sections 2.1.3 and 2.1.4): exact lengths, verification, generation.
//!
//! ```text
//! inclusion     the leaf's sibling first, the child of the root last
//! consistency   SUBPROOF(first, D[second], true), in the order of the RFC
//! ```
//!
//! A proof's length follows from its numbers alone and is checked before anything is hashed, so no peer decides how much
//! we hash. A root does not tell its size (the left half of the paths is the same in several shapes): size and root
//! must come from one signed head, which is why they are one argument. Size 0 proves nothing: every tree extends the empty one, and
//! [`Growth::NothingProven`] says so instead of calling it consistent.
//!
//! Generation is split in two: *which* subtrees make up the proof is arithmetic, done here; their hashes come from the
//! caller, usually through `reader`.

use crate::limits;
use crate::merkle::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::merkle::{Head, Hex};

/// Why a proof is refused, or cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// A size above [`limits::TREE_LEAVES_MAX`].
    #[error("a tree of {size} leaves is larger than permitted")]
    TreeTooLarge {
        /// As given.
        size: u64,
    },
    /// The leaf is not in a tree of this size.
    #[error("leaf {index} is outside a tree of {size} leaves")]
    IndexOutside {
        /// The leaf.
        index: u64,
        /// The size of the tree.
        size: u64,
    },
    /// A tree does not shrink.
    #[error("the first size {first} is larger than the second {second}")]
    Shrinks {
        /// The size that should be the earlier one.
        first: u64,
        /// The size that should be the later one.
        second: u64,
    },
    /// The proof has another length than its numbers demand.
    #[error("proof has {actual} hashes instead of {expected}")]
    Length {
        /// The only possible number.
        expected: usize,
        /// As given.
        actual: usize,
    },
    /// The proof leads to another root.
    #[error("proof leads to the root {computed}, not {expected}", computed = Hex(computed), expected = Hex(expected))]
    Root {
        /// What the proof leads to.
        computed: Hash,
        /// The root of the head.
        expected: Hash,
    },
    /// The proof starts from another earlier root.
    #[error("proof starts from the root {computed}, not {expected}", computed = Hex(computed), expected = Hex(expected))]
    FirstRoot {
        /// What the proof starts from.
        computed: Hash,
        /// The root of the earlier head.
        expected: Hash,
    },
    /// One size with two roots: the log has two histories.
    #[error("two roots for the size {size}: {first} and {second}", first = Hex(first), second = Hex(second))]
    TwoRoots {
        /// The size of both heads.
        size: u64,
        /// The root of one.
        first: Hash,
        /// The root of the other.
        second: Hash,
    },
    /// A head of size 0 has another root than SHA-256 of nothing.
    #[error("size 0 with the root {root}, which is not that of the empty tree", root = Hex(root))]
    EmptyRoot {
        /// As given.
        root: Hash,
    },
}

/// What a verified inclusion proof has shown: this leaf is the one at this index of this tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    /// The leaf's index.
    pub index: u64,
    /// The leaf's hash.
    pub leaf: Hash,
    /// The tree.
    pub head: Head,
}

/// What a verified consistency proof has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The first size is 0. Every tree extends the empty one, so nothing has been learnt about the second.
    NothingProven,
    /// Both heads are the same.
    Same {
        /// Their size.
        size: u64,
    },
    /// The first `first` leaves of the second tree are the leaves of the first one.
    Extends {
        /// The earlier size, not 0.
        first: u64,
        /// The later size, larger.
        second: u64,
    },
}

/// The leaves `start..end`, an operand of a proof.
///
/// Every one that [`inclusion_parts`] and [`consistency_parts`] return is either complete (2^k leaves from a multiple
/// of 2^k) or reaches the right edge of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// The first leaf.
    pub start: u64,
    /// The leaf after the last.
    pub end: u64,
}

/// A complete subtree: the leaves `index << height .. (index + 1) << height`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The binary logarithm of the number of leaves.
    pub height: u32,
    /// The position among the nodes of that height.
    pub index: u64,
}

/// The number of hashes in the proof that leaf `index` is in a tree of `size`.
pub fn inclusion_length(index: u64, size: u64) -> Result<usize, ProofError> {
    check_size(size)?;
    if index >= size {
        return Err(ProofError::IndexOutside { index, size });
    }
    // Below `inner` the paths of the leaf and of the last leaf differ: one sibling a level. Above, only left ones.
    let inner = bit_length(index ^ (size - 1));
    Ok((inner + (index >> inner).count_ones()) as usize)
}

/// The number of hashes in the proof that a tree of `second` leaves extends one of `first`; 0 when `first` is 0.
pub fn consistency_length(first: u64, second: u64) -> Result<usize, ProofError> {
    check_size(second)?;
    if first > second {
        return Err(ProofError::Shrinks { first, second });
    }
    if first == 0 || first == second {
        return Ok(0);
    }
    let inner = bit_length((first - 1) ^ (second - 1));
    let border = ((first - 1) >> inner).count_ones();
    // A first tree that is complete is its own starting point and is not sent.
    let start = u32::from(!first.is_power_of_two());
    Ok((start + inner - first.trailing_zeros() + border) as usize)
}

/// Verifies that `leaf` is the hash of leaf `index` in the tree `head`.
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    head: &Head,
    proof: &[Hash],
) -> Result<Included, ProofError> {
    check_length(inclusion_length(index, head.size)?, proof)?;
    let (mut node, mut last) = (index, head.size - 1);
    let mut hash = *leaf;
    for sibling in proof {
        if on_the_right(&mut node, &mut last) {
            hash = node_hash(sibling, &hash);
        } else {
            hash = node_hash(&hash, sibling);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    // After the length check `last` is always 0 here. The RFC asks for both, and a reader should find both.
    if last != 0 || hash != head.root {
        return Err(ProofError::Root { computed: hash, expected: head.root });
    }
    Ok(Included { index, leaf: *leaf, head: *head })
}

/// Verifies that the tree `second` extends the tree `first`.
///
/// `first` must be a head that the caller kept, never one that came with the proof.
pub fn verify_consistency(
    first: &Head,
    second: &Head,
    proof: &[Hash],
) -> Result<Growth, ProofError> {
    check_length(consistency_length(first.size, second.size)?, proof)?;
    for head in [first, second] {
        if head.size == 0 && head.root != EMPTY_ROOT {
            return Err(ProofError::EmptyRoot { root: head.root });
        }
    }
    if first.size == 0 {
        return Ok(Growth::NothingProven);
    }
    if first.size == second.size {
        return if first.root == second.root {
            Ok(Growth::Same { size: first.size })
        } else {
            Err(ProofError::TwoRoots { size: first.size, first: first.root, second: second.root })
        };
    }
    let (mut node, mut last) = (first.size - 1, second.size - 1);
    let complete = node.trailing_ones();
    (node, last) = (node >> complete, last >> complete);
    let (start, rest) = match proof.split_first() {
        Some((start, rest)) if !first.size.is_power_of_two() => (start, rest),
        _ => (&first.root, proof),
    };
    let (mut first_hash, mut second_hash) = (*start, *start);
    for sibling in rest {
        if on_the_right(&mut node, &mut last) {
            first_hash = node_hash(sibling, &first_hash);
            second_hash = node_hash(sibling, &second_hash);
        } else {
            second_hash = node_hash(&second_hash, sibling);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    if first_hash != first.root {
        return Err(ProofError::FirstRoot { computed: first_hash, expected: first.root });
    }
    if last != 0 || second_hash != second.root {
        return Err(ProofError::Root { computed: second_hash, expected: second.root });
    }
    Ok(Growth::Extends { first: first.size, second: second.size })
}

/// The subtrees whose roots are the inclusion proof of leaf `index` in a tree of `size`, in the order of the proof.
pub fn inclusion_parts(index: u64, size: u64) -> Result<Vec<Subtree>, ProofError> {
    let length = inclusion_length(index, size)?;
    let mut parts = Vec::with_capacity(length);
    let (mut start, mut end) = (0, size);
    while end - start > 1 {
        let middle = start + split(end - start);
        if index < middle {
            parts.push(Subtree { start: middle, end });
            end = middle;
        } else {
            parts.push(Subtree { start, end: middle });
            start = middle;
        }
    }
    // Walked from the root, sent from the leaf.
    parts.reverse();
    Ok(parts)
}

/// The subtrees whose roots are the consistency proof from `first` to `second`, in the order of the proof. There are
/// none when `first` is 0 or equals `second`.
pub fn consistency_parts(first: u64, second: u64) -> Result<Vec<Subtree>, ProofError> {
    let length = consistency_length(first, second)?;
    let mut parts = Vec::with_capacity(length);
    if length == 0 {
        return Ok(parts);
    }
    let (mut start, mut end) = (0, second);
    while end > first {
        let middle = start + split(end - start);
        if first <= middle {
            parts.push(Subtree { start: middle, end });
            end = middle;
        } else {
            parts.push(Subtree { start, end: middle });
            start = middle;
        }
    }
    // What is left ends where the first tree ends. Only if it *is* the first tree does the verifier have its root.
    if start > 0 {
        parts.push(Subtree { start, end });
    }
    parts.reverse();
    Ok(parts)
}

impl Subtree {
    /// The complete subtrees that make it up, left to right. At most 62: `start` must be 0 or the left edge of a
    /// subtree, as in every part of a proof.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut start = self.start;
        while start < self.end {
            // As large as what is left permits, and no larger than the alignment of the start does.
            let height = (self.end - start).ilog2().min(start.trailing_zeros());
            nodes.push(Node { height, index: start >> height });
            start += 1 << height;
        }
        nodes
    }

    /// The root over its leaves, from the hashes of its complete subtrees. The root over no leaves is
    /// [`EMPTY_ROOT`].
    pub fn root<E>(&self, mut hash_of: impl FnMut(Node) -> Result<Hash, E>) -> Result<Hash, E> {
        let mut hashes =
            self.nodes().into_iter().map(&mut hash_of).collect::<Result<Vec<_>, E>>()?;
        let Some(last) = hashes.pop() else { return Ok(EMPTY_ROOT) };
        Ok(hashes.iter().rev().fold(last, |right, left| node_hash(left, &right)))
    }
}

/// One step of both verifications: whether the node is a right child (or the lonely last one), so that its sibling
/// stands on the left. A lonely node has no sibling until it is a right child itself: those levels are skipped.
fn on_the_right(node: &mut u64, last: &mut u64) -> bool {
    if *node & 1 == 0 && *node != *last {
        return false;
    }
    if *node != 0 {
        let lonely = node.trailing_zeros();
        (*node, *last) = (*node >> lonely, *last >> lonely);
    }
    true
}

fn check_size(size: u64) -> Result<(), ProofError> {
    if size > limits::TREE_LEAVES_MAX { Err(ProofError::TreeTooLarge { size }) } else { Ok(()) }
}

fn check_length(expected: usize, proof: &[Hash]) -> Result<(), ProofError> {
    if proof.len() == expected {
        Ok(())
    } else {
        Err(ProofError::Length { expected, actual: proof.len() })
    }
}

/// The largest power of two strictly below `size`, for a size above 1.
fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

fn bit_length(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}
