//! Bytes longer than one value, cut into parts under one prefix. What they are, the caller knows.
//!
//! ```text
//! prefix part:u16 -> bytes; part 0 begins with the length of the whole as u32; every part but the last has 6,144 bytes
//! ```
//!
//! Part 0 is written last and removed first when that takes several commits: where it is, the others are.

use super::{Batch, PAIRS_PER_READ, Store, StoreError, damaged, just_after, refused};
use crate::limits::{COMMIT_BYTES_MAX, OBJECT_BYTES_MAX, STORE_VALUE_BYTES_MAX};

const LENGTH_BYTES: usize = 4;
const FIRST_BYTES_MAX: usize = STORE_VALUE_BYTES_MAX - LENGTH_BYTES;

/// The pairs of all parts, part 0 first.
pub(super) fn split<'a>(
    prefix: &'a [u8],
    bytes: &'a [u8],
    what: &str,
) -> Result<impl DoubleEndedIterator<Item = (Vec<u8>, Vec<u8>)> + use<'a>, StoreError> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= OBJECT_BYTES_MAX);
    let Some(length) = length else {
        let n = bytes.len();
        return Err(refused(format!("{what} has {n} bytes, more than {OBJECT_BYTES_MAX}")));
    };
    let (first, rest) = bytes.split_at(bytes.len().min(FIRST_BYTES_MAX));
    let mut value = Vec::with_capacity(LENGTH_BYTES + first.len());
    value.extend_from_slice(&length.to_be_bytes());
    value.extend_from_slice(first);
    let count = u16::try_from(rest.len().div_ceil(STORE_VALUE_BYTES_MAX)).unwrap_or(u16::MAX);
    let others = (1..=count).zip(rest.chunks(STORE_VALUE_BYTES_MAX));
    Ok(std::iter::once((part_key(prefix, 0), value))
        .chain(others.map(|(part, bytes)| (part_key(prefix, part), bytes.to_vec()))))
}

/// Batches of at most [`COMMIT_BYTES_MAX`] that write all parts, to be committed in this order.
pub(super) fn stage<I>(parts: I) -> impl Iterator<Item = Batch>
where
    I: DoubleEndedIterator<Item = (Vec<u8>, Vec<u8>)>,
{
    let mut parts = parts.rev().peekable();
    std::iter::from_fn(move || {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while let Some((key, value)) =
            parts.next_if(|(key, value)| bytes + key.len() + value.len() <= COMMIT_BYTES_MAX)
        {
            bytes += key.len() + value.len();
            batch.put(key, value);
        }
        (!batch.puts.is_empty()).then_some(batch)
    })
}

/// The length that part 0 announces.
pub(super) fn announced(value: &[u8]) -> Option<usize> {
    let (length, first) = value.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    (length <= OBJECT_BYTES_MAX && first.len() == length.min(FIRST_BYTES_MAX)).then_some(length)
}

/// Puts the parts together. `None` when there is no part 0.
pub(super) fn join<S: Store + ?Sized>(
    store: &S,
    prefix: &[u8],
    what: impl Fn() -> String,
) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(first) = store.get(&part_key(prefix, 0))? else { return Ok(None) };
    let Some(length) = announced(&first) else {
        return Err(damaged(what(), "part 0 does not have the length it announces".to_owned()));
    };
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(first.get(LENGTH_BYTES..).unwrap_or_default());
    let end = just_after(part_key(prefix, u16::MAX));
    let mut next = 1_u16;
    loop {
        // One more than is missing, so that one too many is noticed.
        let missing = (length - bytes.len()).div_ceil(STORE_VALUE_BYTES_MAX);
        let limit = PAIRS_PER_READ.min(missing + 1);
        let pairs = store.range(&part_key(prefix, next), &end, limit)?;
        let short = pairs.len() < limit;
        for (key, value) in pairs {
            let expected = (length - bytes.len()).min(STORE_VALUE_BYTES_MAX);
            if key != part_key(prefix, next) || expected == 0 || value.len() != expected {
                let reason = format!("part {next} is missing, too much, or of a wrong length");
                return Err(damaged(what(), reason));
            }
            bytes.extend_from_slice(&value);
            next = next.saturating_add(1);
        }
        if short {
            break;
        }
    }
    if bytes.len() != length {
        let n = bytes.len();
        return Err(damaged(what(), format!("{n} bytes in its parts instead of {length}")));
    }
    Ok(Some(bytes))
}

/// Removes every part there is, whether or not they make a whole.
pub(super) fn delete<S: Store + ?Sized>(
    store: &S,
    batch: &mut Batch,
    prefix: &[u8],
) -> Result<(), StoreError> {
    let end = just_after(part_key(prefix, u16::MAX));
    let mut from = part_key(prefix, 0);
    loop {
        let pairs = store.range(&from, &end, PAIRS_PER_READ)?;
        let short = pairs.len() < PAIRS_PER_READ;
        for (key, _) in pairs {
            from = just_after(key.clone());
            batch.delete(key);
        }
        if short {
            return Ok(());
        }
    }
}

pub(super) fn part_key(prefix: &[u8], part: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 2);
    key.extend_from_slice(prefix);
    key.extend_from_slice(&part.to_be_bytes());
    key
}
