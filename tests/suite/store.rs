//! The contract of `Store`, run on both implementations and against a model. Below: the layout over both (`events`,
//! `objects`), the faults of the one in memory (`faults`), the guards of the one in sled (`guards`).

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail too")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use proptest::prelude::*;
use tempfile::TempDir;
use worldlog::limits::{
    COMMIT_BYTES_MAX, EVENT_BYTES_MAX, OBJECT_BYTES_MAX, STORE_KEY_BYTES_MAX, STORE_VALUE_BYTES_MAX,
};
use worldlog::merkle::hash::sha256;
use worldlog::store::layout::{self, NewEvent, TILE_BYTES};
use worldlog::store::memory::{Fault, MemoryStore, Side};
use worldlog::store::sled::SledStore;
use worldlog::store::{Batch, Pair, Store, StoreError};

const CACHE: u64 = 16 * 1024 * 1024;

/// A store that can be closed and opened again.
trait World {
    fn store(&self) -> &dyn Store;
    fn reopen(&mut self);
}

struct Memory(MemoryStore);

impl Memory {
    fn new() -> Self {
        Self(MemoryStore::new())
    }
}

impl World for Memory {
    fn store(&self) -> &dyn Store {
        &self.0
    }
    fn reopen(&mut self) {
        self.0 = self.0.crash(Side::Keep);
    }
}

struct Disk {
    dir: TempDir,
    store: Option<SledStore>,
}

impl Disk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Some(SledStore::open(dir.path(), CACHE).unwrap());
        Self { dir, store }
    }
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("store").join(name)
    }
    fn close(&mut self) {
        self.store = None;
    }
}

impl World for Disk {
    fn store(&self) -> &dyn Store {
        self.store.as_ref().unwrap()
    }
    fn reopen(&mut self) {
        self.close();
        self.store = Some(SledStore::open_existing(self.dir.path(), CACHE).unwrap());
    }
}

macro_rules! on_both {
    ($($test:ident)*) => {
        mod in_memory {
            $(#[test] fn $test() {
                super::$test(&mut crate::store::Memory::new());
            })*
        }
        mod in_sled {
            $(#[test] fn $test() {
                let mut disk = crate::store::Disk::new();
                super::$test(&mut disk);
                // G5: whatever was written, nothing of it went where sled never syncs.
                assert_eq!(std::fs::read_dir(disk.file("blobs")).unwrap().count(), 0);
            })*
        }
    };
}

mod events;
mod faults;
mod guards;
mod objects;

on_both! {
    a_commit_applies_puts_and_deletes_together
    ranges_are_half_open_ordered_and_limited
    last_finds_the_greatest_key_below_the_end
    empty_values_are_values
    sizes_are_checked_before_anything_is_written
    a_key_named_twice_is_refused
    the_receipt_vouches_for_the_events_of_the_batch
    a_big_batch_survives_reopening
    a_walk_beside_the_writer_sees_whole_commits
    side_values_have_a_key_space_of_their_own
    free_bytes_are_reported
}

fn batch(puts: &[(&str, &str)], deletes: &[&str]) -> Batch {
    let mut batch = Batch::default();
    for (key, value) in puts {
        batch.put(key.as_bytes().to_vec(), value.as_bytes().to_vec());
    }
    for key in deletes {
        batch.delete(key.as_bytes().to_vec());
    }
    batch
}

fn pairs(expected: &[(&str, &str)]) -> Vec<Pair> {
    batch(expected, &[]).puts
}

fn everything(store: &dyn Store) -> Vec<Pair> {
    store.range(&[], &[0xff; 8], 100_000).unwrap()
}

/// Bytes that do not repeat within a value, so that swapped parts show.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn place(seq: u64) -> usize {
    usize::try_from(seq).unwrap()
}

fn place_of(error: StoreError) -> String {
    match error {
        StoreError::Damaged { place, .. } => place,
        other => panic!("not damage: {other:?}"),
    }
}

fn is_not_committed<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotCommitted { .. }))
}

/// Every third event is an entry.
fn put_all(batch: &mut Batch, first: u64, entries: u64, events: &[Vec<u8>]) {
    let events: Vec<_> =
        (first..).zip(events).map(|(seq, bytes)| NewEvent { bytes, entry: seq % 3 == 2 }).collect();
    layout::put_events(batch, first, entries, &events).unwrap();
}

/// Commits the events in batches of these sizes; returns them.
fn write_events(store: &dyn Store, sizes: &[usize], length: impl Fn(u64) -> usize) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for size in sizes {
        let first = all.len() as u64;
        let events: Vec<_> =
            (first..first + *size as u64).map(|seq| noise(length(seq), seq)).collect();
        let mut batch = Batch::default();
        put_all(&mut batch, first, first / 3, &events);
        assert_eq!(store.commit(&batch).unwrap().events(), first..first + *size as u64);
        all.extend(events);
    }
    all
}

type Change = fn(&mut Vec<u8>);

/// Changes one stored value as a commit, which both stores allow.
fn rewrite(store: &dyn Store, key: &[u8], change: impl Fn(&mut Vec<u8>)) {
    let mut value = store.get(key).unwrap().unwrap();
    change(&mut value);
    let mut batch = Batch::default();
    batch.put(key.to_vec(), value);
    store.commit(&batch).unwrap();
}

// ---- the contract ----

fn a_commit_applies_puts_and_deletes_together(world: &mut dyn World) {
    world.store().commit(&batch(&[("a", "1"), ("b", "2"), ("c", "3")], &[])).unwrap();
    world.store().commit(&batch(&[("b", "two"), ("d", "4")], &["a", "absent"])).unwrap();
    let expected = pairs(&[("b", "two"), ("c", "3"), ("d", "4")]);
    assert_eq!(everything(world.store()), expected);
    world.reopen();
    assert_eq!(everything(world.store()), expected);
    assert_eq!(world.store().get(b"a").unwrap(), None);
    assert_eq!(world.store().get(b"b").unwrap(), Some(b"two".to_vec()));
}

fn ranges_are_half_open_ordered_and_limited(world: &mut dyn World) {
    let store = world.store();
    let all = [("a", "1"), ("aa", "2"), ("b", "3"), ("b\u{0}", "4"), ("c", "5")];
    let mut shuffled = all;
    shuffled.reverse();
    store.commit(&batch(&shuffled, &[])).unwrap();
    assert_eq!(everything(store), pairs(&all));
    assert_eq!(store.range(b"aa", b"c", 9).unwrap(), pairs(&all[1..4]));
    assert_eq!(store.range(b"ab", b"b", 9).unwrap(), pairs(&[]));
    assert_eq!(store.range(b"a", b"z", 2).unwrap(), pairs(&all[..2]));
    assert_eq!(store.range(b"a", b"z", 0).unwrap(), pairs(&[]));
    assert_eq!(store.range(b"b", b"b", 9).unwrap(), pairs(&[]));
    assert_eq!(store.range(b"c", b"a", 9).unwrap(), pairs(&[]));
}

fn last_finds_the_greatest_key_below_the_end(world: &mut dyn World) {
    let store = world.store();
    assert_eq!(store.last(b"a", b"z").unwrap(), None);
    store.commit(&batch(&[("a", "1"), ("b", "2"), ("c", "3")], &[])).unwrap();
    let last = |from: &str, to: &str| {
        store.last(from.as_bytes(), to.as_bytes()).unwrap().map(|(key, _)| key)
    };
    assert_eq!(last("a", "z"), Some(b"c".to_vec()));
    assert_eq!(last("a", "c"), Some(b"b".to_vec()));
    assert_eq!(last("bb", "c"), None);
    assert_eq!(last("b", "b"), None);
    assert_eq!(last("c", "a"), None);
}

fn empty_values_are_values(world: &mut dyn World) {
    world.store().commit(&batch(&[("a", ""), ("b", "x")], &[])).unwrap();
    world.store().commit(&Batch::default()).unwrap();
    world.reopen();
    assert_eq!(world.store().get(b"a").unwrap(), Some(Vec::new()));
    assert_eq!(everything(world.store()), pairs(&[("a", ""), ("b", "x")]));
}

fn sizes_are_checked_before_anything_is_written(world: &mut dyn World) {
    let store = world.store();
    let mut too_much = batch(&[("a", "1")], &[]);
    too_much.put(b"b".to_vec(), vec![0; STORE_VALUE_BYTES_MAX + 1]);
    assert!(is_not_committed(&store.commit(&too_much)));
    let mut long_key = batch(&[("a", "1")], &[]);
    long_key.put(vec![b'k'; STORE_KEY_BYTES_MAX + 1], Vec::new());
    assert!(is_not_committed(&store.commit(&long_key)));
    let mut long_delete = batch(&[("a", "1")], &[]);
    long_delete.delete(vec![b'k'; STORE_KEY_BYTES_MAX + 1]);
    assert!(is_not_committed(&store.commit(&long_delete)));
    assert!(is_not_committed(&store.side_put(&too_much.puts[1..])));
    assert_eq!(everything(store), pairs(&[]));
    // The store goes on, and the greatest sizes fit.
    let mut most = Batch::default();
    most.put(vec![b'k'; STORE_KEY_BYTES_MAX], vec![7; STORE_VALUE_BYTES_MAX]);
    store.commit(&most).unwrap();
    assert_eq!(everything(store), most.puts);
}

fn a_key_named_twice_is_refused(world: &mut dyn World) {
    let store = world.store();
    store.commit(&batch(&[("a", "0")], &[])).unwrap();
    assert!(is_not_committed(&store.commit(&batch(&[("a", "1"), ("a", "2")], &[]))));
    assert!(is_not_committed(&store.commit(&batch(&[("a", "1")], &["a"]))));
    assert!(is_not_committed(&store.commit(&batch(&[], &["a", "a"]))));
    assert_eq!(everything(store), pairs(&[("a", "0")]));
}

fn the_receipt_vouches_for_the_events_of_the_batch(world: &mut dyn World) {
    let mut with_events = Batch::default();
    put_all(&mut with_events, 0, 0, &[noise(10, 1), noise(10, 2)]);
    assert_eq!(world.store().commit(&with_events).unwrap().events(), 0..2);
    assert!(world.store().commit(&batch(&[("x", "")], &[])).unwrap().events().is_empty());
}

fn a_big_batch_survives_reopening(world: &mut dyn World) {
    let mut big = Batch::default();
    for n in 0_u32..400 {
        big.put(n.to_be_bytes().to_vec(), noise(STORE_VALUE_BYTES_MAX, n.into()));
    }
    assert!(big.bytes() > 4 * COMMIT_BYTES_MAX);
    world.store().commit(&big).unwrap();
    world.reopen();
    assert!(everything(world.store()) == big.puts);
}

fn a_walk_beside_the_writer_sees_whole_commits(world: &mut dyn World) {
    let store = world.store();
    thread::scope(|scope| {
        // Three chunks a commit, so that a part of one could be seen.
        let writer = scope.spawn(|| write_events(store, &[40; 60], |_| 400));
        let mut seen = 0;
        while !writer.is_finished() {
            let count = layout::events(store, 0).map(Result::unwrap).count();
            assert!(count >= seen && count % 40 == 0, "{seen} {count}");
            seen = count;
        }
        writer.join().unwrap();
    });
    assert_eq!(layout::event_count(store).unwrap(), 2_400);
}

fn side_values_have_a_key_space_of_their_own(world: &mut dyn World) {
    let store = world.store();
    store.commit(&batch(&[("a", "log")], &[])).unwrap();
    store.side_put(&pairs(&[("a", "side"), ("b", "side")])).unwrap();
    store.side_put(&pairs(&[("b", "newer")])).unwrap();
    assert_eq!(store.get(b"a").unwrap(), Some(b"log".to_vec()));
    assert_eq!(store.get(b"b").unwrap(), None);
    assert_eq!(store.side_get(b"a").unwrap(), Some(b"side".to_vec()));
    assert_eq!(store.side_get(b"b").unwrap(), Some(b"newer".to_vec()));
    assert_eq!(store.side_get(b"c").unwrap(), None);
    // Closed in good order, both kept them.
    world.reopen();
    assert_eq!(world.store().side_get(b"b").unwrap(), Some(b"newer".to_vec()));
    assert_eq!(everything(world.store()), pairs(&[("a", "log")]));
}

fn free_bytes_are_reported(world: &mut dyn World) {
    assert!(world.store().free_bytes().unwrap() > 0);
}

// ---- both against a model ----

#[derive(Debug, Clone)]
enum Step {
    Commit(BTreeMap<Vec<u8>, Option<Vec<u8>>>),
    Range(Vec<u8>, Vec<u8>, usize),
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 0xfe, 0xff]), 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let value = (0_usize..STORE_VALUE_BYTES_MAX, any::<u64>()).prop_map(|(n, seed)| noise(n, seed));
    let changes = prop::collection::btree_map(key(), prop::option::weighted(0.7, value), 0..12);
    prop_oneof![
        6 => changes.prop_map(Step::Commit),
        4 => (key(), key(), 0_usize..8).prop_map(|(from, to, limit)| Step::Range(from, to, limit)),
        1 => Just(Step::Reopen),
    ]
}

fn run(world: &mut dyn World, steps: &[Step]) {
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Commit(changes) => {
                let mut batch = Batch::default();
                for (key, value) in changes {
                    if let Some(value) = value {
                        batch.put(key.clone(), value.clone());
                        model.insert(key.clone(), value.clone());
                    } else {
                        batch.delete(key.clone());
                        model.remove(key);
                    }
                }
                world.store().commit(&batch).unwrap();
                for key in changes.keys() {
                    assert!(world.store().get(key).unwrap().as_ref() == model.get(key));
                }
            }
            Step::Range(from, to, limit) => {
                let within = || model.iter().filter(|(key, _)| *key >= from && *key < to);
                let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
                let expected: Vec<_> = within().take(*limit).map(pair).collect();
                assert!(world.store().range(from, to, *limit).unwrap() == expected);
                assert!(world.store().last(from, to).unwrap() == within().next_back().map(pair));
            }
            Step::Reopen => world.reopen(),
        }
    }
    world.reopen();
    assert!(everything(world.store()) == model.into_iter().collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn both_stores_are_an_ordered_map(steps in prop::collection::vec(step(), 1..25)) {
        run(&mut Memory::new(), &steps);
        run(&mut Disk::new(), &steps);
    }
}
