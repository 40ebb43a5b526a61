//! Everything that links the crate, in one binary.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails there; clippy's leave for tests does not reach their helpers"
)]

mod a2a; // spec/a2a.md: keys, copies at once, faults and crashes between a request and the one sent again
mod broker; // spec/broker.md: decisions by the table in fixtures/broker, grants
mod calls; // spec/broker.md by the door: client ids, tokens, approvals, stale files, finish, deadlines, budgets
mod canon; // spec/canon.md: parser and printer against fixtures of another implementation
mod cli; // spec/cli.md, spec/export.md: the program itself, by its exit codes and what it prints
mod event; // spec/event.md: the decoder against the CDDL and against fixtures of another implementation
mod hands; // spec/tools.md: paths that try to leave, effects end to end, crashes between their steps
mod ledger; // the writer: group commit, crash sweep, start-up checks, the clock and the disk
mod limits; // spec/limits.md against src/limits.rs, as text
mod load; // many clients, and clients that are slow, silent or gone: what they cost is bounded and comes back
mod log; // tree, tiles, proofs, map, notes: spec/log.md
mod mcp; // spec/mcp.md: news of long calls, a client of other people
mod openapi; // spec/openapi.json against the server
mod readme; // the tour of the README, executed
mod recovery; // calls over real files on a store that fails: what a crash left open is settled
mod state; // spec/state.md: lawfulness by table, the fold, undo, digest and snapshot
mod store; // both stores against one contract, the layout on top of them, faults and damage: spec/store.md
mod stream; // the live stream of entries: spec/provenance.md
mod support; // a server in this process, a client that sends bytes as they are, readable exchanges
mod surface; // spec/mcp.md, spec/provenance.md: the fronts over TCP, by fixtures/surface
