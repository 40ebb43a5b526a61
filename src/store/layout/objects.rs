//! Objects and openings: bytes that belong to an episode and can be deleted with it.
//!
//! An object is named by the SHA-256 of its bytes, an opening by the seq of the event beside which it was written. An
//! object without an episode has the empty name. Deleting here removes what the store can find under the key; which
//! bytes of it are left in the files below, `compact` has to see to.
//!
//! ```text
//! o episode:name sha256:32 part:u16 -> parts (parts.rs)
//! q episode:name seq:u64   part:u16 -> parts
//! ```

use std::marker::PhantomData;

use super::{
    Batch, OBJECTS, OPENINGS, Store, StoreError, damaged, damaged_key, end_of, just_after,
    named_key, parts, split_name,
};
use crate::merkle::hash::{Hash, sha256};

/// Adds an object to a batch. Larger ones than [`crate::limits::OBJECT_INLINE_BYTES_MAX`] are to be staged.
pub fn put_object(batch: &mut Batch, episode: &str, bytes: &[u8]) -> Result<Hash, StoreError> {
    let hash = sha256(bytes);
    let prefix = object_prefix(episode, &hash)?;
    batch.puts.extend(parts::split(&prefix, bytes, "an object")?);
    Ok(hash)
}

/// Batches of at most [`crate::limits::COMMIT_BYTES_MAX`] that bring an object in, to be committed in this order. Dying
/// between two of them leaves parts without part 0: no object yet, and [`Blobs`] shows them as incomplete.
pub fn stage_object(episode: &str, bytes: &[u8]) -> Result<(Hash, Vec<Batch>), StoreError> {
    let hash = sha256(bytes);
    let prefix = object_prefix(episode, &hash)?;
    let batches = parts::stage(parts::split(&prefix, bytes, "an object")?).collect();
    Ok((hash, batches))
}

/// Whether the object is there, all of it.
pub fn has_object<S: Store + ?Sized>(
    store: &S,
    episode: &str,
    hash: &Hash,
) -> Result<bool, StoreError> {
    let prefix = object_prefix(episode, hash)?;
    Ok(store.get(&parts::part_key(&prefix, 0))?.is_some())
}

/// How many bytes the object has, without reading them.
pub fn object_length<S: Store + ?Sized>(
    store: &S,
    episode: &str,
    hash: &Hash,
) -> Result<Option<u64>, StoreError> {
    let prefix = object_prefix(episode, hash)?;
    let Some(first) = store.get(&parts::part_key(&prefix, 0))? else { return Ok(None) };
    let length = parts::announced(&first).ok_or_else(|| {
        let reason = "part 0 does not have the length it announces".to_owned();
        damaged(object_name(episode, hash), reason)
    })?;
    Ok(Some(length as u64))
}

/// The bytes of an object, which have the hash that names them.
pub fn object<S: Store + ?Sized>(
    store: &S,
    episode: &str,
    hash: &Hash,
) -> Result<Option<Vec<u8>>, StoreError> {
    let bytes = object_raw(store, episode, hash)?;
    if bytes.as_ref().is_some_and(|bytes| sha256(bytes) != *hash) {
        let reason = "its bytes have another hash".to_owned();
        return Err(damaged(object_name(episode, hash), reason));
    }
    Ok(bytes)
}

/// The bytes stored under the name, for callers that hash them themselves.
pub fn object_raw<S: Store + ?Sized>(
    store: &S,
    episode: &str,
    hash: &Hash,
) -> Result<Option<Vec<u8>>, StoreError> {
    parts::join(store, &object_prefix(episode, hash)?, || object_name(episode, hash))
}

/// Adds to the batch the removal of all parts there are, of an incomplete object too.
pub fn delete_object<S: Store + ?Sized>(
    store: &S,
    batch: &mut Batch,
    episode: &str,
    hash: &Hash,
) -> Result<(), StoreError> {
    parts::delete(store, batch, &object_prefix(episode, hash)?)
}

/// Walks the objects of an episode, in the order of their hashes.
pub fn objects<'a, S: Store + ?Sized>(
    store: &'a S,
    episode: &str,
) -> Result<Blobs<'a, S, Object>, StoreError> {
    Ok(Blobs::new(store, named_key(OBJECTS, episode)?))
}

/// Walks the objects of all episodes, shorter names first.
pub fn all_objects<S: Store + ?Sized>(store: &S) -> Blobs<'_, S, Object> {
    Blobs::new(store, vec![OBJECTS])
}

/// Adds the opening of event `seq` to a batch.
pub fn put_opening(
    batch: &mut Batch,
    episode: &str,
    seq: u64,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let prefix = opening_prefix(episode, seq)?;
    batch.puts.extend(parts::split(&prefix, bytes, "an opening")?);
    Ok(())
}

/// The opening of event `seq`.
pub fn opening<S: Store + ?Sized>(
    store: &S,
    episode: &str,
    seq: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    parts::join(store, &opening_prefix(episode, seq)?, || {
        format!("opening {seq} of episode {episode}")
    })
}

/// Adds the removal of the opening of event `seq` to a batch.
pub fn delete_opening<S: Store + ?Sized>(
    store: &S,
    batch: &mut Batch,
    episode: &str,
    seq: u64,
) -> Result<(), StoreError> {
    parts::delete(store, batch, &opening_prefix(episode, seq)?)
}

/// Walks the openings of an episode, in the order of their events.
pub fn openings<'a, S: Store + ?Sized>(
    store: &'a S,
    episode: &str,
) -> Result<Blobs<'a, S, Opening>, StoreError> {
    Ok(Blobs::new(store, named_key(OPENINGS, episode)?))
}

/// Walks the openings of all episodes, shorter names first.
pub fn all_openings<S: Store + ?Sized>(store: &S) -> Blobs<'_, S, Opening> {
    Blobs::new(store, vec![OPENINGS])
}

/// What a walk finds in an object's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Empty: of no episode.
    pub episode: String,
    /// SHA-256 of its bytes.
    pub hash: Hash,
}

/// What a walk finds in an opening's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The episode of the event.
    pub episode: String,
    /// The event that it opens.
    pub seq: u64,
}

/// Something that is kept in parts, as a walk finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob<T> {
    /// Its name.
    pub name: T,
    /// How many bytes it has; `None` when part 0 is missing: staged and never finished, or half deleted.
    pub length: Option<usize>,
}

/// Reads a name from its key. Only [`Object`] and [`Opening`] have it.
pub trait Named: Sized {
    /// In words, for errors.
    #[doc(hidden)]
    const WHAT: &'static str;
    /// From the episode, and the bytes of the key after it without the part.
    #[doc(hidden)]
    fn parse(episode: &str, id: &[u8]) -> Option<Self>;
}

impl Named for Object {
    const WHAT: &'static str = "object";
    fn parse(episode: &str, id: &[u8]) -> Option<Self> {
        Some(Self { episode: episode.to_owned(), hash: id.try_into().ok()? })
    }
}

impl Named for Opening {
    const WHAT: &'static str = "opening";
    fn parse(episode: &str, id: &[u8]) -> Option<Self> {
        let seq = u64::from_be_bytes(id.try_into().ok()?);
        Some(Self { episode: episode.to_owned(), seq })
    }
}

/// Walks objects or openings by their first parts; one value is in memory at a time. Yields an error once, and then
/// nothing more.
#[derive(Debug)]
pub struct Blobs<'a, S: Store + ?Sized, T> {
    store: &'a S,
    from: Vec<u8>,
    to: Vec<u8>,
    kind: PhantomData<T>,
}

impl<'a, S: Store + ?Sized, T> Blobs<'a, S, T> {
    fn new(store: &'a S, prefix: Vec<u8>) -> Self {
        Self { store, to: end_of(&prefix), from: prefix, kind: PhantomData }
    }
}

impl<S: Store + ?Sized, T: Named> Iterator for Blobs<'_, S, T> {
    type Item = Result<Blob<T>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.step().transpose()?;
        if found.is_err() {
            self.from.clone_from(&self.to);
        }
        Some(found)
    }
}

impl<S: Store + ?Sized, T: Named> Blobs<'_, S, T> {
    fn step(&mut self) -> Result<Option<Blob<T>>, StoreError> {
        let found = self.store.range(&self.from, &self.to, 1)?;
        let Some((key, value)) = found.into_iter().next() else { return Ok(None) };
        let malformed = || damaged_key(&key, T::WHAT);
        let (prefix, part) = key.split_last_chunk::<2>().ok_or_else(malformed)?;
        let (episode, id) = split_name(prefix).ok_or_else(malformed)?;
        let name = T::parse(episode, id).ok_or_else(malformed)?;
        let length = if u16::from_be_bytes(*part) == 0 {
            let length = parts::announced(&value).ok_or_else(|| {
                let reason = "part 0 does not have the length it announces".to_owned();
                damaged(format!("{} under key {}", T::WHAT, super::super::hex(&key)), reason)
            })?;
            Some(length)
        } else {
            None
        };
        self.from = just_after(parts::part_key(prefix, u16::MAX));
        Ok(Some(Blob { name, length }))
    }
}

fn object_prefix(episode: &str, hash: &Hash) -> Result<Vec<u8>, StoreError> {
    let mut prefix = named_key(OBJECTS, episode)?;
    prefix.extend_from_slice(hash);
    Ok(prefix)
}

fn opening_prefix(episode: &str, seq: u64) -> Result<Vec<u8>, StoreError> {
    let mut prefix = named_key(OPENINGS, episode)?;
    prefix.extend_from_slice(&seq.to_be_bytes());
    Ok(prefix)
}

fn object_name(episode: &str, hash: &Hash) -> String {
    format!("object sha256:{} of episode {episode}", super::super::hex(hash))
}
