//! Everything that links the crate, in one binary.

mod log; // tree, tiles, proofs, map, notes: spec/log.md
mod store; // both stores against one contract, the layout on top of them, faults and damage: spec/store.md
