//! Everything that links the crate, in one binary.

mod log; // tree, tiles, proofs, map, notes: spec/log.md
mod ledger; // the writer: group commit, crash sweep, start-up checks, the clock and the disk
mod store; // both stores against one contract, the layout on top of them, faults and damage: spec/store.md
