//! Which keys the log uses, and how its things become values: the same for every store.
//!
//! Numbers are big-endian, so that the order of keys is the order of numbers. The first byte of a key says what it is.
//! Writing means adding to a [`Batch`]; reading is strict, and bytes that no writer here makes are `Damaged`, with the
//! thing named in words. Nothing here knows what an event or an object says. A name is a length byte
//! and that many bytes; one that is longer than 255 is refused, on reading too.
//!
//! ```text
//! e first_seq:u64                       -> chunk of events                          events.rs
//! p seq:u64 part:u8                     -> part of an event that fits no chunk      events.rs
//! t level:u8 index:u64 half:u8          -> half of a full tile, 128 hashes          tiles.rs
//! h size:u64                            -> head of that size
//! m name                                -> meta value
//! k episode:name                        -> key of the episode, 32 bytes
//! o episode:name sha256:32 part:u16     -> part of an object                        objects.rs
//! q episode:name seq:u64 part:u16       -> part of the opening of an event          objects.rs
//! ```

mod events;
mod objects;
mod parts;
mod tiles;

pub use events::{
    Chunk, Events, NewEvent, entry_chunk, event, event_count, events, last_chunk, put_events,
};
pub use objects::{
    Blob, Blobs, Object, Opening, all_objects, all_openings, delete_object, delete_opening,
    has_object, object, object_length, object_raw, objects, opening, openings, put_object,
    put_opening, stage_object,
};
pub use tiles::{TILE_BYTES, put_tile, tile};

use super::{Batch, Pair, Store, StoreError, refused};
use crate::limits::{STORE_NAME_BYTES_MAX, STORE_VALUE_BYTES_MAX};
use crate::merkle::hash::Hash;

/// Pairs fetched at once when many are walked: at most 32 x 6 KiB in memory.
const PAIRS_PER_READ: usize = 32;

const EVENTS: u8 = b'e';
const EVENT_PARTS: u8 = b'p';
const TILES: u8 = b't';
const HEADS: u8 = b'h';
const META: u8 = b'm';
const EPISODE_KEYS: u8 = b'k';
const OBJECTS: u8 = b'o';
const OPENINGS: u8 = b'q';

/// Adds the signed head of a log of `size` events.
pub fn put_head(batch: &mut Batch, size: u64, head: &[u8]) -> Result<(), StoreError> {
    check_value(head, || format!("head {size}"))?;
    batch.put(number_key(HEADS, size), head.to_vec());
    Ok(())
}

/// The head of exactly this size.
pub fn head_at<S: Store + ?Sized>(store: &S, size: u64) -> Result<Option<Vec<u8>>, StoreError> {
    store.get(&number_key(HEADS, size))
}

/// The head of the greatest size that is at most `size`, and that size.
pub fn last_head_up_to<S: Store + ?Sized>(
    store: &S,
    size: u64,
) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    let found = store.last(&[HEADS], &just_after(number_key(HEADS, size)))?;
    found.map(|(key, head)| Ok((number_of(&key, "head")?, head))).transpose()
}

/// The newest head and its size.
pub fn last_head<S: Store + ?Sized>(store: &S) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    last_head_up_to(store, u64::MAX)
}

/// At most `limit` heads with their sizes, the smallest size first, which is at least `from`.
pub fn heads<S: Store + ?Sized>(
    store: &S,
    from: u64,
    limit: usize,
) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
    let pairs = store.range(&number_key(HEADS, from), &[HEADS + 1], limit)?;
    pairs.into_iter().map(|(key, head)| Ok((number_of(&key, "head")?, head))).collect()
}

/// Adds a meta value. There are few of them; each name is a constant of its user.
pub fn put_meta(batch: &mut Batch, name: &str, value: &[u8]) -> Result<(), StoreError> {
    check_name(name)?;
    check_value(value, || format!("meta {name}"))?;
    batch.put(meta_key(name), value.to_vec());
    Ok(())
}

/// Removes a meta value.
pub fn delete_meta(batch: &mut Batch, name: &str) {
    batch.delete(meta_key(name));
}

/// A meta value.
pub fn meta<S: Store + ?Sized>(store: &S, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    store.get(&meta_key(name))
}

/// Adds the key of an episode.
pub fn put_episode_key(batch: &mut Batch, episode: &str, key: &Hash) -> Result<(), StoreError> {
    batch.put(named_key(EPISODE_KEYS, episode)?, key.to_vec());
    Ok(())
}

/// Removes the key of an episode: nothing blinded with it can be opened any more.
pub fn delete_episode_key(batch: &mut Batch, episode: &str) -> Result<(), StoreError> {
    batch.delete(named_key(EPISODE_KEYS, episode)?);
    Ok(())
}

/// The key of an episode.
pub fn episode_key<S: Store + ?Sized>(
    store: &S,
    episode: &str,
) -> Result<Option<Hash>, StoreError> {
    let Some(value) = store.get(&named_key(EPISODE_KEYS, episode)?)? else { return Ok(None) };
    episode_key_of(episode, &value).map(Some)
}

/// At most `limit` episodes that have a key, with it, in the order of their keys in the store (shorter names first);
/// `after` is the last name of the page before.
pub fn episode_keys<S: Store + ?Sized>(
    store: &S,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, Hash)>, StoreError> {
    let from = match after {
        None => vec![EPISODE_KEYS],
        Some(name) => just_after(named_key(EPISODE_KEYS, name)?),
    };
    let pairs = store.range(&from, &[EPISODE_KEYS + 1], limit)?;
    let named = pairs.into_iter().map(|(key, value)| {
        let name = match split_name(&key) {
            Some((name, [])) => name.to_owned(),
            _ => return Err(damaged_key(&key, "episode key")),
        };
        let secret = episode_key_of(&name, &value)?;
        Ok((name, secret))
    });
    named.collect()
}

fn episode_key_of(episode: &str, value: &[u8]) -> Result<Hash, StoreError> {
    value.try_into().map_err(|_| {
        damaged(format!("key of episode {episode}"), format!("{} bytes instead of 32", value.len()))
    })
}

fn number_key(prefix: u8, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9);
    key.push(prefix);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn number_of(key: &[u8], what: &str) -> Result<u64, StoreError> {
    let number = key.get(1..).and_then(|tail| <[u8; 8]>::try_from(tail).ok());
    number.map(u64::from_be_bytes).ok_or_else(|| damaged_key(key, what))
}

fn meta_key(name: &str) -> Vec<u8> {
    let mut key = vec![META];
    key.extend_from_slice(name.as_bytes());
    key
}

/// `prefix`, then the name with its length before it: no name's keys lie between those of another.
fn named_key(prefix: u8, name: &str) -> Result<Vec<u8>, StoreError> {
    check_name(name)?;
    let length = u8::try_from(name.len()).map_err(|_| refused("a name is too long".to_owned()))?;
    let mut key = Vec::with_capacity(2 + name.len() + 34);
    key.extend_from_slice(&[prefix, length]);
    key.extend_from_slice(name.as_bytes());
    Ok(key)
}

/// The name in a key made by [`named_key`], and what follows it.
fn split_name(key: &[u8]) -> Option<(&str, &[u8])> {
    let (length, tail) = key.get(1..)?.split_first()?;
    let (name, rest) = tail.split_at_checked(usize::from(*length))?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() > STORE_NAME_BYTES_MAX {
        let n = name.len();
        return Err(refused(format!("a name of {n} bytes is longer than {STORE_NAME_BYTES_MAX}")));
    }
    Ok(())
}

fn check_value(value: &[u8], what: impl Fn() -> String) -> Result<(), StoreError> {
    if value.len() > STORE_VALUE_BYTES_MAX {
        let (what, n) = (what(), value.len());
        return Err(refused(format!("{what} has {n} bytes, more than {STORE_VALUE_BYTES_MAX}")));
    }
    Ok(())
}

/// The key that follows `key` immediately.
fn just_after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The first key that does not begin with `prefix`, whose last byte that can be raised exists: it begins with a letter.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

fn damaged(place: String, reason: String) -> StoreError {
    StoreError::Damaged { place, reason }
}

fn damaged_key(key: &[u8], what: &str) -> StoreError {
    damaged(format!("{what} under key {}", super::hex(key)), "the key is malformed".to_owned())
}
