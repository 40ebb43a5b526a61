//! SHA-256 and HMAC-SHA-256, and the two hashes of RFC 6962 section 2.1. The only file that names their crates.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// A SHA-256 digest.
pub type Hash = [u8; 32];

/// The root of a tree without leaves: SHA-256 of nothing.
pub const EMPTY_ROOT: Hash = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// SHA-256 of the parts, one after another.
pub fn sha256_parts(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// HMAC-SHA-256 (RFC 2104) under `key` of the parts, one after another.
#[expect(clippy::missing_panics_doc, reason = "HMAC takes a key of any length")]
pub fn hmac_sha256(key: &Hash, parts: &[&[u8]]) -> Hash {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The hash of a leaf: SHA-256(0x00 || leaf).
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    sha256_parts(&[&[0], leaf])
}

/// The hash of an interior node: SHA-256(0x01 || left || right).
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    sha256_parts(&[&[1], left, right])
}
