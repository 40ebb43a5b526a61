//! Everything that links the crate, in one binary.

mod canon; // spec/canon.md: parser and printer against fixtures of another implementation
mod event; // spec/event.md: the decoder against the CDDL and against fixtures of another implementation
mod ledger; // the writer: group commit, crash sweep, start-up checks, the clock and the disk
mod limits; // spec/limits.md against src/limits.rs, as text
mod log; // tree, tiles, proofs, map, notes: spec/log.md
mod state; // spec/state.md: lawfulness by table, the fold, undo, digest and snapshot
mod store; // both stores against one contract, the layout on top of them, faults and damage: spec/store.md
