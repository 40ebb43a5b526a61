//! One kind of row: an ordered map that remembers how to go back and which rows the digest has not seen.
//!
//! The ledger folds an event before its batch is durable. When the batch turns out not to be committed, [`Table::undo`]
//! takes the rows back; once it is durable, [`Table::settle`] forgets how.

use crate::event::{BodyError, from_cbor, to_cbor};
use crate::merkle::hash::{Hash, sha256};
use crate::merkle::map::Map;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Rows of one kind, by key.
#[derive(Debug, Clone)]
pub struct Table<K: Ord, V> {
    /// First element of each row's key in the digest.
    name: &'static str,
    rows: BTreeMap<K, V>,
    /// What stood where, since the last `settle`, oldest first.
    undo: Vec<(K, Option<V>)>,
    /// Keys changed since the digest last looked, and whether it then saw a row there.
    dirty: BTreeMap<K, bool>,
}

impl<K: Ord + Clone, V: Clone + PartialEq> Table<K, V> {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, rows: BTreeMap::new(), undo: Vec::new(), dirty: BTreeMap::new() }
    }

    /// The row at `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    /// All rows in the order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// Rows from `key` on, in order.
    pub fn from(&self, key: K) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.range(key..)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Sets the row (`Some`) or removes it.
    pub(super) fn set(&mut self, key: K, row: Option<V>) {
        let old = match row {
            Some(row) => self.rows.insert(key.clone(), row),
            None => self.rows.remove(&key),
        };
        self.stain(&key, old.is_some());
        self.undo.push((key, old));
    }

    /// Notes that the digest has to look at `key` again, where a row stood or not.
    fn stain(&mut self, key: &K, stood: bool) {
        if !self.dirty.contains_key(key) {
            self.dirty.insert(key.clone(), stood);
        }
    }

    pub(super) fn put(&mut self, key: K, row: V) {
        self.set(key, Some(row));
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let row = self.rows.get(&key).cloned()?;
        self.set(key, None);
        Some(row)
    }

    /// Changes the row at `key` if there is one.
    pub(super) fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) {
        if let Some(row) = self.rows.get(key) {
            let mut row = row.clone();
            change(&mut row);
            self.set(key.clone(), Some(row));
        }
    }

    /// A mark to which `undo` can go back.
    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    pub(super) fn undo(&mut self, mark: usize) {
        while self.undo.len() > mark {
            if let Some((key, old)) = self.undo.pop() {
                let stood = self.rows.contains_key(&key);
                self.stain(&key, stood);
                match old {
                    Some(row) => self.rows.insert(key, row),
                    None => self.rows.remove(&key),
                };
            }
        }
    }

    pub(super) fn settle(&mut self) {
        self.undo.clear();
    }
}

impl Table<crate::event::EpisodeName, super::ChainRow> {
    /// Brings the map of episodes up to date.
    pub(super) fn map_values(&mut self, map: &mut Map) {
        for (name, _) in std::mem::take(&mut self.dirty) {
            let key = sha256(name.as_str().as_bytes());
            match self.rows.get(&name) {
                Some(row) => map.insert(key, row.value()),
                None => map.remove(&key),
            };
        }
    }
}

impl<K, V> Table<K, V>
where
    K: Ord + Clone + Serialize + DeserializeOwned,
    V: Clone + PartialEq + Serialize + DeserializeOwned,
{
    /// Brings the digest's map up to date.
    pub(super) fn digest(&mut self, map: &mut Map) -> Result<(), BodyError> {
        for (key, stood) in std::mem::take(&mut self.dirty) {
            let row = self.rows.get(&key);
            if row.is_none() && !stood {
                // It came and went between two looks, as the rows of most calls do.
                continue;
            }
            let name: Hash = sha256(&to_cbor(&(self.name, &key))?);
            match row {
                Some(row) => map.insert(name, sha256(&to_cbor(row)?)),
                None => map.remove(&name),
            };
        }
        Ok(())
    }

    /// All rows as `[key, row]` pairs.
    pub(super) fn dump(&self) -> Result<Vec<u8>, BodyError> {
        to_cbor(&self.rows.iter().collect::<Vec<_>>())
    }

    /// Replaces the rows by those of a dump; the digest sees all of them as new.
    pub(super) fn load(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        let rows: Vec<(K, V)> = from_cbor(bytes)?;
        self.rows = rows.into_iter().collect();
        self.dirty = self.rows.keys().map(|key| (key.clone(), false)).collect();
        self.undo.clear();
        Ok(())
    }
}
