//! Full tiles of the Merkle tree, as C2SP tlog-tiles cuts it at height 8. The right edge is never stored: whoever opens
//! the log hashes it again from the last events. A tile never changes once it is full.
//!
//! ```text
//! t level:u8 index:u64 0x00 -> the first 128 hashes, 4,096 bytes
//! t level:u8 index:u64 0x01 -> the other 128
//! ```

use super::{Batch, Store, StoreError, TILES, damaged, just_after, refused};

/// A full tile: 256 hashes of 32 bytes.
pub const TILE_BYTES: usize = 8_192;
const HALF_BYTES: usize = TILE_BYTES / 2;

/// Adds a full tile.
pub fn put_tile(batch: &mut Batch, level: u8, index: u64, hashes: &[u8]) -> Result<(), StoreError> {
    if hashes.len() != TILE_BYTES {
        let n = hashes.len();
        return Err(refused(format!(
            "tile {index} of level {level} has {n} bytes, not {TILE_BYTES}"
        )));
    }
    for (half, bytes) in (0_u8..).zip(hashes.chunks(HALF_BYTES)) {
        batch.put(half_key(level, index, half), bytes.to_vec());
    }
    Ok(())
}

/// The 256 hashes of a full tile, one after another.
pub fn tile<S: Store + ?Sized>(
    store: &S,
    level: u8,
    index: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let to = just_after(half_key(level, index, u8::MAX));
    let halves = store.range(&half_key(level, index, 0), &to, 3)?;
    if halves.is_empty() {
        return Ok(None);
    }
    let mut hashes = Vec::with_capacity(TILE_BYTES);
    for (half, (key, value)) in (0_u8..).zip(&halves) {
        if half > 1 || *key != half_key(level, index, half) || value.len() != HALF_BYTES {
            return Err(bad(level, index));
        }
        hashes.extend_from_slice(value);
    }
    if hashes.len() != TILE_BYTES {
        return Err(bad(level, index));
    }
    Ok(Some(hashes))
}

fn bad(level: u8, index: u64) -> StoreError {
    let reason = format!("not two halves of {HALF_BYTES} bytes");
    damaged(format!("tile {index} of level {level}"), reason)
}

fn half_key(level: u8, index: u64, half: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(11);
    key.extend_from_slice(&[TILES, level]);
    key.extend_from_slice(&index.to_be_bytes());
    key.push(half);
    key
}
