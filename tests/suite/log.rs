//! The log: tree, tiles, proofs, map, notes, against fixtures that other implementations made.
//!
//! `corpus` walks the malformed inputs, `vectors` the data of others, `reader` is lied to, `properties` tries what nobody
//! thought of, `signing` makes what the others read.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails like the test, and clippy exempts #[test] functions only"
)]

mod corpus;
mod properties;
mod reader;
mod signing;
mod vectors;

use std::path::PathBuf;
use std::sync::OnceLock;

use worldlog::merkle::hash::{Hash, leaf_hash, sha256};
use worldlog::merkle::tree::{FullTile, Tree};
use worldlog::note::key::{KeyType, Signer};

const ORIGIN: &str = "log.example/events";

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/log")
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd number of hex digits");
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn unhex32(text: &str) -> Hash {
    unhex(text).try_into().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The hash of entry `event-<i>` of the golden log.
fn golden_leaf(index: u64) -> Hash {
    leaf_hash(format!("event-{index}").as_bytes())
}

/// The edge and the full tiles of the golden log at `size`.
fn golden_tree(size: u64) -> (Tree, Vec<FullTile>) {
    let (mut tree, mut full) = (Tree::new(), Vec::new());
    for index in 0..size {
        assert_eq!(tree.append(golden_leaf(index), &mut full), Ok(index));
    }
    (tree, full)
}

/// The same at 70,000 entries, made once.
fn golden() -> &'static (Tree, Vec<FullTile>) {
    static GOLDEN: OnceLock<(Tree, Vec<FullTile>)> = OnceLock::new();
    GOLDEN.get_or_init(|| golden_tree(70_000))
}

fn log_signer() -> Signer {
    Signer::from_seed(ORIGIN, KeyType::Ed25519, &sha256(b"tlog-try log key")).unwrap()
}

fn witness_signer() -> Signer {
    let seed = sha256(b"tlog-try witness key");
    Signer::from_seed("witness.example/w1", KeyType::Ed25519Cosignature, &seed).unwrap()
}
