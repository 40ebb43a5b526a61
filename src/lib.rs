//! `worldlog`: a server on which AI agents run tools, and whose every step can be proven afterwards.
//!
//! The ground state is one append-only log of events. Everything else is derived: the Merkle tree and its signed heads
//! prove the log, the state is a fold over it, and what a worktree holds is what recorded effects left there. Kill the
//! process anywhere, and the log tells what was promised, what ran, and what nobody can know.
//!
//! # Map, in reading order
//!
//! ```text
//! limits        every limit, as a constant with its reason
//!
//!               pure: functions of their arguments
//! canon         canonical JSON, the spelling of objects            spec/canon.md
//! merkle        tree, tiles, proofs, the sparse map                spec/log.md
//! note          signed notes, checkpoints, keys                    spec/log.md
//! event         events and their canonical CBOR, blinding          spec/event.md
//! state         the fold, and what is lawful                       spec/state.md
//! broker        may this effect run; the record of one             spec/broker.md
//! transitions   arguments to plans                                 spec/tools.md
//! verify        the auditor: findings and verdicts                 spec/state.md
//!
//!               ports
//! clock entropy the only readers of time and randomness
//! durable       files that survive a power cut
//! store         an ordered map of bytes: sled, and memory          spec/store.md
//!
//!               shell: what does things
//! ledger        the one writer: group commit, heads, guard
//! sandbox       files beneath a worktree and nowhere else          spec/tools.md
//! handlers      effects; each needs a permit                       spec/tools.md
//! export        the log as a tree of files                         spec/export.md
//! service       the door: authenticate, invoke, read, administer
//!
//!               fronts: bytes to service and back
//! server        MCP, A2A and provenance over HTTP                  spec/mcp.md, spec/a2a.md, spec/provenance.md
//! cli           the command line                                   spec/cli.md
//! ```
//!
//! # Rules
//!
//! `tests/architecture.rs` holds them as a table and checks what a machine can.
//!
//! - **Down only.** No module imports one that stands below it here in another layer.
//! - **Pure zone.** No clock, I/O, randomness or hash map up to `verify`. Time and host facts enter as event fields.
//! - **One writer.** Only `ledger` calls `Store::commit`.
//! - **Intent before act.** A handler takes a `Permit`; only the receipt of a durable intent makes one.
//! - **JSON at the rim.** Envelopes are made in `server` and `cli`; objects are `canon`, events are `event`.
//! - **A verifier you can read.** `verify`, `event`, `canon`, `merkle` and `note` know no store, server or runtime.
//! - **Quarantine.** Each third-party crate is named in one file or folder.
//! - **Tests come in by the door.** Fixtures, service, HTTP, command line.

pub mod limits;

pub mod canon;
pub mod merkle;
pub mod note;

pub mod event;

pub mod broker;
pub mod state;
pub mod transitions;
pub mod verify;

pub mod clock;
pub mod durable;
pub mod entropy;
pub mod store;

pub mod export;
pub mod handlers;
pub mod ledger;
pub mod sandbox;

pub mod service;

pub mod server;

pub mod cli;
