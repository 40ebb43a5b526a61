//! The contract of `Store`, run on both implementations; the layout over them; the faults of the one in memory; the
//! guards of the one in sled.

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
                super::$test(&mut super::Memory(worldlog::store::memory::MemoryStore::new()));
            })*
        }
        mod in_sled {
            $(#[test] fn $test() {
                let mut disk = super::Disk::new();
                super::$test(&mut disk);
                // G5: whatever was written, nothing of it went where sled never syncs.
                assert_eq!(std::fs::read_dir(disk.file("blobs")).unwrap().count(), 0);
            })*
        }
    };
}

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
    events_of_every_size_come_back
    events_pack_into_few_chunks
    events_can_be_walked_from_anywhere
    bad_events_are_refused
    entries_are_found_by_their_number
    damaged_events_are_named
    tiles_come_in_two_halves
    heads_are_found_by_size
    meta_and_episode_keys_come_back
    objects_of_every_size_come_back
    a_staged_object_appears_with_its_last_batch
    objects_of_episodes_do_not_mix
    damaged_objects_are_named
    openings_come_back
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

// ---- the layout: events ----

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

/// The longest event that a chunk holds itself, by the format: value, less header, less length.
const INLINE: usize = 6_144 - 20 - 4;

fn events_of_every_size_come_back(world: &mut dyn World) {
    let lengths =
        [1, 2, INLINE - 1, INLINE, INLINE + 1, 6_144, 6_145, 12_288, 3, EVENT_BYTES_MAX, 400];
    let all = write_events(world.store(), &[3, 8], |seq| lengths[place(seq)]);
    world.reopen();
    let store = world.store();
    for (seq, expected) in (0..).zip(&all) {
        assert!(layout::event(store, seq).unwrap().as_ref() == Some(expected), "event {seq}");
    }
    assert_eq!(layout::event_count(store).unwrap(), 11);
    assert_eq!(layout::event(store, 11).unwrap(), None);
    assert_eq!(layout::event(store, u64::MAX).unwrap(), None);
    let walked: Vec<_> = layout::events(store, 0).map(|found| found.unwrap().1).collect();
    assert!(walked == all);
}

fn events_pack_into_few_chunks(world: &mut dyn World) {
    write_events(world.store(), &[100], |_| 296);
    // 300 bytes a frame: 20 fit 6,124.
    let chunks = world.store().range(b"e", b"f", 100).unwrap();
    assert_eq!(chunks.len(), 5);
    assert_eq!(&chunks[4].1[..20], b"\x01\x01\0\0\0\0\0\0\0\x50\0\x14\0\0\0\0\0\0\0\x1a");
    assert_eq!(layout::last_chunk(world.store()).unwrap().unwrap().first_seq, 80);
}

fn events_can_be_walked_from_anywhere(world: &mut dyn World) {
    assert_eq!(layout::events(world.store(), 0).count(), 0);
    // More chunks than one read fetches.
    let all = write_events(world.store(), &[1, 700, 2, 60], |seq| 200 + (place(seq) * 7) % 900);
    assert!(world.store().range(b"e", b"f", 1_000).unwrap().len() > 64);
    for from in [0, 1, 2, 350, 700, 701, 762, 763, 5_000] {
        let walked: Vec<_> = layout::events(world.store(), from).collect::<Result<_, _>>().unwrap();
        let expected: Vec<_> = (0..).zip(all.clone()).skip(place(from)).collect();
        assert!(walked == expected, "from {from}");
    }
}

fn bad_events_are_refused(_: &mut dyn World) {
    let put = |first: u64, bytes: &[u8]| {
        layout::put_events(&mut Batch::default(), first, 0, &[NewEvent { bytes, entry: false }])
    };
    assert!(put(0, &[1]).is_ok());
    assert!(is_not_committed(&put(0, &[])));
    assert!(is_not_committed(&put(0, &vec![0; EVENT_BYTES_MAX + 1])));
    assert!(is_not_committed(&put(u64::MAX, &[1])));
    let mut twice = Batch::default();
    put_all(&mut twice, 0, 0, &[vec![1]]);
    let again = layout::put_events(&mut twice, 1, 0, &[NewEvent { bytes: &[1], entry: false }]);
    assert!(is_not_committed(&again));
}

fn entries_are_found_by_their_number(world: &mut dyn World) {
    assert_eq!(layout::entry_chunk(world.store(), 0).unwrap(), None);
    write_events(world.store(), &[1, 1, 1, 90, 2, 300, 1], |seq| 20 + (place(seq) * 31) % 2_000);
    for seq in (0..396).filter(|seq| seq % 3 == 2) {
        let chunk = layout::entry_chunk(world.store(), seq / 3).unwrap().unwrap();
        assert!((chunk.first_seq..chunk.end()).contains(&seq), "{seq} is not in {chunk:?}");
        assert_eq!(chunk.entries, chunk.first_seq / 3);
    }
    // There is no such entry: the last chunk is where it would be.
    let beyond = layout::entry_chunk(world.store(), 10_000).unwrap();
    assert_eq!(beyond, layout::last_chunk(world.store()).unwrap());
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

fn chunk_key(seq: u64) -> Vec<u8> {
    [&b"e"[..], &seq.to_be_bytes()].concat()
}

fn damaged_events_are_named(world: &mut dyn World) {
    let store = world.store();
    write_events(store, &[5, 2, 5], |seq| if seq == 6 { 20_000 } else { 100 });
    let walk = || layout::events(store, 0).collect::<Result<Vec<_>, _>>();
    let sound = walk().unwrap();
    let changes: [(&str, Change); 10] = [
        ("version", |value| value[0] = 2),
        ("flag", |value| value[1] |= 2),
        ("first seq", |value| value[9] ^= 1),
        ("count too small", |value| value[11] -= 1),
        ("count too great", |value| value[11] += 1),
        ("no count", |value| value[11] = 0),
        ("entries", |value| value[19] = 9),
        ("frame too long", |value| value[23] += 1),
        ("cut", |value| value.truncate(15)),
        ("trailing", |value| value.push(0)),
    ];
    let original = store.get(&chunk_key(5)).unwrap().unwrap();
    for (name, change) in changes {
        rewrite(store, &chunk_key(5), change);
        assert_eq!(place_of(walk().unwrap_err()), "event chunk 5", "{name}");
        assert_eq!(place_of(layout::event(store, 5).unwrap_err()), "event chunk 5", "{name}");
        rewrite(store, &chunk_key(5), |value| value.clone_from(&original));
    }
    // A part of the split event.
    let part = [&b"p"[..], &6_u64.to_be_bytes(), &[1]].concat();
    for change in [(|value| value[77] ^= 1) as Change, |value| value.truncate(6_143)] {
        let whole = store.get(&part).unwrap().unwrap();
        rewrite(store, &part, change);
        assert_eq!(place_of(layout::event(store, 6).unwrap_err()), "event 6");
        rewrite(store, &part, |value| value.clone_from(&whole));
    }
    assert!(walk().unwrap() == sound);
    // A hole, seen by the walk, by a read in it and by the search.
    let mut hole = Batch::default();
    hole.delete(chunk_key(5));
    store.commit(&hole).unwrap();
    assert_eq!(place_of(walk().unwrap_err()), "event chunk 7");
    assert_eq!(place_of(layout::event(store, 6).unwrap_err()), "event chunk 7");
    assert_eq!(place_of(layout::entry_chunk(store, 2).unwrap_err()), "event chunk 0");
    // The walk says it once.
    let mut events = layout::events(store, 0);
    assert_eq!(events.by_ref().take_while(Result::is_ok).count(), 5);
    assert!(events.next().is_none());
    // A log that ends in the middle of a commit.
    let mut tail = Batch::default();
    tail.delete(chunk_key(7));
    store.commit(&tail).unwrap();
    rewrite(store, &chunk_key(0), |value| value[1] = 0);
    assert_eq!(place_of(walk().unwrap_err()), "event chunk 0");
    assert_eq!(place_of(layout::event_count(store).unwrap_err()), "event chunk 0");
    // A log whose beginning is missing.
    rewrite(store, &chunk_key(0), |value| value[1] = 1);
    let mut moved = Batch::default();
    layout::put_events(&mut moved, 5, 1, &[NewEvent { bytes: b"x", entry: false }]).unwrap();
    moved.delete(chunk_key(0));
    store.commit(&moved).unwrap();
    assert_eq!(place_of(walk().unwrap_err()), "event chunk 5");
    assert_eq!(place_of(layout::event(store, 0).unwrap_err()), "event chunk 5");
}

// ---- the layout: tiles, heads, meta, keys ----

fn tiles_come_in_two_halves(world: &mut dyn World) {
    let (first, second) = (noise(TILE_BYTES, 1), noise(TILE_BYTES, 2));
    let mut batch = Batch::default();
    layout::put_tile(&mut batch, 0, 0, &first).unwrap();
    layout::put_tile(&mut batch, 1, u64::MAX, &second).unwrap();
    assert_eq!(batch.puts.len(), 4);
    assert!(is_not_committed(&layout::put_tile(&mut batch, 0, 1, &first[..4_096])));
    world.store().commit(&batch).unwrap();
    world.reopen();
    let store = world.store();
    assert!(layout::tile(store, 0, 0).unwrap() == Some(first));
    assert!(layout::tile(store, 1, u64::MAX).unwrap() == Some(second));
    assert_eq!(layout::tile(store, 0, 1).unwrap(), None);
    let mut half = Batch::default();
    half.delete(batch.puts[1].0.clone());
    store.commit(&half).unwrap();
    assert_eq!(place_of(layout::tile(store, 0, 0).unwrap_err()), "tile 0 of level 0");
    rewrite(store, &batch.puts[3].0, |value| value.truncate(4_095));
    let place = place_of(layout::tile(store, 1, u64::MAX).unwrap_err());
    assert_eq!(place, "tile 18446744073709551615 of level 1");
}

fn heads_are_found_by_size(world: &mut dyn World) {
    let store = world.store();
    assert_eq!(layout::last_head(store).unwrap(), None);
    let mut batch = Batch::default();
    for size in [0, 255, 256, 70_000] {
        layout::put_head(&mut batch, size, format!("head {size}").as_bytes()).unwrap();
    }
    let long = vec![0; STORE_VALUE_BYTES_MAX + 1];
    assert!(is_not_committed(&layout::put_head(&mut batch, 9, &long)));
    store.commit(&batch).unwrap();
    let head = |size: u64| (size, format!("head {size}").into_bytes());
    assert_eq!(layout::last_head(store).unwrap(), Some(head(70_000)));
    assert_eq!(layout::last_head_up_to(store, 69_999).unwrap(), Some(head(256)));
    assert_eq!(layout::last_head_up_to(store, 255).unwrap(), Some(head(255)));
    assert_eq!(layout::head_at(store, 256).unwrap(), Some(head(256).1));
    assert_eq!(layout::head_at(store, 257).unwrap(), None);
    assert_eq!(layout::heads(store, 1, 2).unwrap(), [head(255), head(256)]);
}

fn meta_and_episode_keys_come_back(world: &mut dyn World) {
    let mut batch = Batch::default();
    layout::put_meta(&mut batch, "format", b"1").unwrap();
    layout::put_meta(&mut batch, "gone", b"x").unwrap();
    for name in ["b", "a", "aa"] {
        layout::put_episode_key(&mut batch, name, &sha256(name.as_bytes())).unwrap();
    }
    assert!(is_not_committed(&layout::put_episode_key(&mut batch, &"n".repeat(256), &[0; 32])));
    world.store().commit(&batch).unwrap();
    let mut deletes = Batch::default();
    layout::delete_meta(&mut deletes, "gone");
    layout::delete_episode_key(&mut deletes, "a").unwrap();
    world.store().commit(&deletes).unwrap();
    world.reopen();
    let store = world.store();
    assert_eq!(layout::meta(store, "format").unwrap(), Some(b"1".to_vec()));
    assert_eq!(layout::meta(store, "gone").unwrap(), None);
    assert_eq!(layout::episode_key(store, "a").unwrap(), None);
    assert_eq!(layout::episode_key(store, "b").unwrap(), Some(sha256(b"b")));
    let named = |name: &str| (name.to_owned(), sha256(name.as_bytes()));
    assert_eq!(layout::episode_keys(store, None, 9).unwrap(), [named("b"), named("aa")]);
    assert_eq!(layout::episode_keys(store, Some("b"), 9).unwrap(), [named("aa")]);
    rewrite(store, b"k\x01b", |value| value.truncate(31));
    assert_eq!(place_of(layout::episode_key(store, "b").unwrap_err()), "key of episode b");
}

// ---- the layout: objects and openings ----

fn objects_of_every_size_come_back(world: &mut dyn World) {
    let sizes = [0, 1, 6_139, 6_140, 6_141, 6_143, 6_144, 6_145, 12_284, 12_285, 32 * 1024];
    let mut hashes = Vec::new();
    for size in sizes {
        let mut batch = Batch::default();
        hashes.push(layout::put_object(&mut batch, "ep", &noise(size, 1)).unwrap());
        world.store().commit(&batch).unwrap();
    }
    let most = noise(OBJECT_BYTES_MAX, 2);
    let (hash, batches) = layout::stage_object("ep", &most).unwrap();
    assert!(batches.len() > 32);
    for batch in &batches {
        assert!(batch.bytes() <= COMMIT_BYTES_MAX);
        world.store().commit(batch).unwrap();
    }
    world.reopen();
    let store = world.store();
    for (size, hash) in sizes.into_iter().zip(&hashes) {
        assert!(layout::object(store, "ep", hash).unwrap() == Some(noise(size, 1)), "{size}");
    }
    assert!(layout::object(store, "ep", &hash).unwrap().unwrap() == most);
    let mut lengths: Vec<_> =
        layout::objects(store, "ep").unwrap().map(|found| found.unwrap().length.unwrap()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [&sizes[..], &[OBJECT_BYTES_MAX]].concat());
    // And away again, all of its parts.
    let mut delete = Batch::default();
    layout::delete_object(store, &mut delete, "ep", &hash).unwrap();
    store.commit(&delete).unwrap();
    assert_eq!(layout::object(store, "ep", &hash).unwrap(), None);
    assert_eq!(layout::objects(store, "ep").unwrap().count(), sizes.len());
    let too_long = vec![0; OBJECT_BYTES_MAX + 1];
    assert!(is_not_committed(&layout::stage_object("ep", &too_long)));
    assert!(is_not_committed(&layout::put_object(&mut Batch::default(), "ep", &too_long)));
}

fn a_staged_object_appears_with_its_last_batch(world: &mut dyn World) {
    let store = world.store();
    let bytes = noise(600_000, 5);
    let (hash, batches) = layout::stage_object("ep", &bytes).unwrap();
    assert_eq!(batches.len(), 3);
    for batch in &batches {
        assert!(!layout::has_object(store, "ep", &hash).unwrap());
        assert_eq!(layout::object(store, "ep", &hash).unwrap(), None);
        store.commit(batch).unwrap();
        let lengths: Vec<_> =
            layout::all_objects(store).map(|found| found.unwrap().length).collect();
        let whole = std::ptr::eq(batch, batches.last().unwrap());
        assert_eq!(lengths, [whole.then_some(600_000)]);
    }
    assert!(layout::has_object(store, "ep", &hash).unwrap());
    assert!(layout::object(store, "ep", &hash).unwrap() == Some(bytes));
    // An object that was never finished is swept by the same delete.
    let mut last = Batch::default();
    last.delete(batches[2].puts.last().unwrap().0.clone());
    store.commit(&last).unwrap();
    let mut sweep = Batch::default();
    layout::delete_object(store, &mut sweep, "ep", &hash).unwrap();
    store.commit(&sweep).unwrap();
    assert_eq!(everything(store), pairs(&[]));
}

fn objects_of_episodes_do_not_mix(world: &mut dyn World) {
    let store = world.store();
    let long = "e".repeat(255);
    let mut batch = Batch::default();
    let mut hash = [0; 32];
    for name in ["", "a", "b", "aa", long.as_str()] {
        hash = layout::put_object(&mut batch, name, b"same").unwrap();
    }
    layout::put_object(&mut batch, "a", b"other").unwrap();
    store.commit(&batch).unwrap();
    let mut delete = Batch::default();
    layout::delete_object(store, &mut delete, "b", &hash).unwrap();
    store.commit(&delete).unwrap();
    let count = |name: &str| layout::objects(store, name).unwrap().map(Result::unwrap).count();
    assert_eq!((count(""), count("a"), count("b"), count("aa"), count(&long)), (1, 2, 0, 1, 1));
    assert_eq!(layout::object(store, "b", &hash).unwrap(), None);
    assert_eq!(layout::object(store, &long, &hash).unwrap(), Some(b"same".to_vec()));
    let episodes: Vec<_> =
        layout::all_objects(store).map(|found| found.unwrap().name.episode).collect();
    assert_eq!(episodes, ["", "a", "a", "aa", long.as_str()]);
}

fn damaged_objects_are_named(world: &mut dyn World) {
    let store = world.store();
    let mut batch = Batch::default();
    let hash = layout::put_object(&mut batch, "x", &noise(20_000, 3)).unwrap();
    store.commit(&batch).unwrap();
    let name = "object sha256:57c879484628de1ac8c3099f01c48b0cd51ce0406f6d12a874a06d5bcd28b4a3 of episode x";
    let part = |n: u8| [&b"o\x01x"[..], &hash, &[0, n]].concat();
    let changes: [(u8, Change); 5] = [
        (0, |value| value[3] ^= 1),
        (0, |value| value.truncate(3)),
        (0, |value| value[..4].fill(0xff)),
        (2, |value| value.truncate(6_143)),
        (3, |value| value.push(0)),
    ];
    for (n, change) in changes {
        let sound = store.get(&part(n)).unwrap().unwrap();
        rewrite(store, &part(n), change);
        assert_eq!(place_of(layout::object_raw(store, "x", &hash).unwrap_err()), name);
        rewrite(store, &part(n), |value| value.clone_from(&sound));
    }
    // One part too many, one too few.
    let mut more = Batch::default();
    more.put(part(4), vec![0]);
    store.commit(&more).unwrap();
    assert_eq!(place_of(layout::object(store, "x", &hash).unwrap_err()), name);
    let fewer = Batch { deletes: vec![part(4), part(1)], ..Batch::default() };
    store.commit(&fewer).unwrap();
    assert_eq!(place_of(layout::object(store, "x", &hash).unwrap_err()), name);
    // Bytes of the right length that are not the ones: only the hash shows it.
    store.commit(&batch).unwrap();
    rewrite(store, &part(2), |value| value[9] ^= 1);
    assert_eq!(layout::object_raw(store, "x", &hash).unwrap().unwrap().len(), 20_000);
    assert_eq!(place_of(layout::object(store, "x", &hash).unwrap_err()), name);
    // A key that no writer makes.
    store.commit(&crate::store::batch(&[("o\u{9}short", "")], &[])).unwrap();
    let found: Vec<_> = layout::all_objects(store).collect();
    assert_eq!(found.len(), 2);
    assert!(matches!(&found[1], Err(StoreError::Damaged { .. })));
}

fn openings_come_back(world: &mut dyn World) {
    let store = world.store();
    let mut batch = Batch::default();
    let long = noise(50_000, 9);
    layout::put_opening(&mut batch, "ep", 300, b"small").unwrap();
    layout::put_opening(&mut batch, "ep", 7, &long).unwrap();
    layout::put_opening(&mut batch, "ef", 8, b"").unwrap();
    store.commit(&batch).unwrap();
    assert!(layout::opening(store, "ep", 7).unwrap() == Some(long));
    assert_eq!(layout::opening(store, "ep", 8).unwrap(), None);
    assert_eq!(layout::opening(store, "ef", 8).unwrap(), Some(Vec::new()));
    let seqs: Vec<_> =
        layout::openings(store, "ep").unwrap().map(|found| found.unwrap().name.seq).collect();
    assert_eq!(seqs, [7, 300]);
    assert_eq!(layout::all_openings(store).count(), 3);
    let mut delete = Batch::default();
    layout::delete_opening(store, &mut delete, "ep", 7).unwrap();
    assert_eq!(delete.deletes.len(), 9);
    store.commit(&delete).unwrap();
    assert_eq!(layout::opening(store, "ep", 7).unwrap(), None);
    rewrite(store, b"q\x02ep\0\0\0\0\0\0\x01\x2c\0\0", |value| value.truncate(8));
    let place = place_of(layout::opening(store, "ep", 300).unwrap_err());
    assert_eq!(place, "opening 300 of episode ep");
}

// ---- the store in memory: faults ----

#[test]
fn a_refused_sync_leaves_nothing_and_the_store_goes_on() {
    let store = MemoryStore::new();
    store.commit(&batch(&[("a", "1")], &[])).unwrap();
    store.fail_at(2, Fault::NotCommitted);
    store.commit(&batch(&[("b", "2")], &[])).unwrap();
    assert!(is_not_committed(&store.commit(&batch(&[("c", "3")], &["a"]))));
    let before = pairs(&[("a", "1"), ("b", "2")]);
    assert_eq!(everything(&store), before);
    assert_eq!(store.durable(), before);
    store.commit(&batch(&[("d", "4")], &[])).unwrap();
    assert_eq!(store.syncs(), 4);
    assert_eq!(everything(&store.crash(Side::Drop)), pairs(&[("a", "1"), ("b", "2"), ("d", "4")]));
}

#[test]
fn after_unknown_nothing_commits_and_a_crash_tells() {
    for (fault, survives) in [(Fault::Lost, false), (Fault::Persisted, true)] {
        let store = MemoryStore::new();
        store.commit(&batch(&[("a", "1")], &[])).unwrap();
        store.fail_at(1, fault);
        let failed = store.commit(&batch(&[("b", "2")], &["a"]));
        assert!(matches!(failed, Err(StoreError::Unknown { .. })), "{fault:?}");
        assert_eq!(everything(&store), pairs(&[("b", "2")]), "{fault:?}: live shows it");
        let again = store.commit(&batch(&[("c", "3")], &[]));
        assert_eq!(again.unwrap_err().to_string(), failed.unwrap_err().to_string());
        assert_eq!(store.syncs(), 2, "a poisoned store does not sync");
        let after = store.crash(Side::Drop);
        let expected = if survives { pairs(&[("b", "2")]) } else { pairs(&[("a", "1")]) };
        assert_eq!(everything(&after), expected, "{fault:?}");
        assert_eq!(after.syncs(), 0);
        after.commit(&batch(&[("c", "3")], &[])).unwrap();
    }
}

#[test]
fn a_crash_keeps_or_drops_side_values_as_told() {
    let store = MemoryStore::new();
    store.side_put(&pairs(&[("a", "1")])).unwrap();
    assert_eq!(store.crash(Side::Keep).side_get(b"a").unwrap(), Some(b"1".to_vec()));
    assert_eq!(store.crash(Side::Drop).side_get(b"a").unwrap(), None);
}

#[test]
fn bytes_can_be_tampered_with_and_space_can_run_out() {
    let store = MemoryStore::new();
    store.commit(&batch(&[("a", "1"), ("b", "2")], &[])).unwrap();
    assert_eq!(store.tamper(b"a", Some(b"!")), Some(b"1".to_vec()));
    assert_eq!(store.tamper(b"b", None), Some(b"2".to_vec()));
    assert_eq!(everything(&store), pairs(&[("a", "!")]));
    assert_eq!(store.durable(), pairs(&[("a", "!")]));
    store.set_free_bytes(17);
    assert_eq!(store.free_bytes().unwrap(), 17);
    assert_eq!(store.crash(Side::Drop).free_bytes().unwrap(), 17);
}

// ---- the store in sled: guards ----

#[test]
fn a_directory_is_held_by_one_store() {
    let mut disk = Disk::new();
    let path = disk.dir.path().to_owned();
    let second = || SledStore::open(&path, CACHE);
    assert!(matches!(second(), Err(StoreError::Held { path: held }) if Path::new(&held) == path));
    assert!(matches!(SledStore::open_existing(&path, CACHE), Err(StoreError::Held { .. })));
    disk.close();
    drop(second().unwrap());
}

#[test]
fn a_missing_store_is_not_made_by_looking() {
    let dir = tempfile::tempdir().unwrap();
    let looked = SledStore::open_existing(dir.path(), CACHE);
    assert!(matches!(looked, Err(StoreError::Open { .. })));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_unfinished_snapshot_is_removed() {
    let mut disk = Disk::new();
    disk.store().commit(&batch(&[("a", "1")], &[])).unwrap();
    disk.close();
    let left = disk.file("snap.FFFFFFFFFFFFFFFF.generating");
    fs::copy(disk.file("conf"), &left).unwrap();
    disk.reopen();
    assert!(!left.exists());
    assert_eq!(everything(disk.store()), pairs(&[("a", "1")]));
}

/// Writes a file under the store's feet.
fn spoil(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    File::create(path).unwrap().write_all(bytes.as_ref()).unwrap();
}

fn snapshots(disk: &Disk) -> Vec<PathBuf> {
    let entries = fs::read_dir(disk.file("")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("snap.")).collect()
}

#[test]
fn a_damaged_snapshot_is_rebuilt_from_the_log() {
    let mut disk = Disk::new();
    let all = write_events(disk.store(), &[50, 1], |_| 1_000);
    disk.reopen();
    disk.close();
    let found = snapshots(&disk);
    assert!(!found.is_empty());
    for path in &found {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        spoil(path, bytes);
    }
    disk.reopen();
    let walked: Vec<_> = layout::events(disk.store(), 0).map(|found| found.unwrap().1).collect();
    assert!(walked == all);
    assert!(snapshots(&disk).iter().all(|path| !path.to_string_lossy().contains("aside")));
}

#[test]
fn a_store_that_was_never_finished_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("store.new/blobs")).unwrap();
    spoil(dir.path().join("store.new/conf"), "");
    let store = SledStore::open(dir.path(), CACHE).unwrap();
    store.commit(&batch(&[("a", "1")], &[])).unwrap();
    assert!(!dir.path().join("store.new").exists());
}

#[test]
fn a_blob_is_reported() {
    let mut disk = Disk::new();
    disk.store().commit(&batch(&[("a", "1")], &[])).unwrap();
    spoil(disk.file("blobs/1"), "x");
    let seen = disk.store().commit(&batch(&[("b", "2")], &[]));
    assert!(matches!(seen, Err(StoreError::Unknown { .. })));
    fs::remove_file(disk.file("blobs/1")).unwrap();
    let after = disk.store().commit(&batch(&[("b", "2")], &[]));
    assert!(matches!(after, Err(StoreError::Unknown { .. })), "poisoned for ever");
    disk.close();
    spoil(disk.file("blobs/1"), "x");
    let opened = SledStore::open(disk.dir.path(), CACHE);
    assert!(place_of(opened.unwrap_err()).ends_with("store/blobs/1"));
}

/// How far sled's log had come when it was last opened: its snapshot is named after that.
fn log_position(disk: &Disk) -> u64 {
    let found = snapshots(disk);
    assert_eq!(found.len(), 1, "{found:?}");
    u64::from_str_radix(found[0].extension().unwrap().to_str().unwrap(), 16).unwrap()
}

#[test]
fn opening_moves_the_log_on() {
    let mut disk = Disk::new();
    for _ in 0..3 {
        disk.reopen();
        let before = log_position(&disk);
        // Nothing but the open itself writes. What was the tail segment of 512 KiB is behind the 100 values of 6 KiB.
        disk.reopen();
        let after = log_position(&disk);
        assert!(after >= before + 100 * 6_144, "{before} {after}");
    }
}

/// Every place of the file where a marked value lies, flipped one at a time.
#[test]
fn a_flipped_byte_is_noticed() {
    let mut disk = Disk::new();
    let mut expected = Vec::new();
    for n in 0_u64..40 {
        let mut batch = Batch::default();
        let bytes = [&b"MARK"[..], &noise(3_000, n)].concat();
        expected.push((layout::put_object(&mut batch, "ep", &bytes).unwrap(), bytes));
        disk.store().commit(&batch).unwrap();
    }
    disk.reopen();
    disk.close();
    let sound = fs::read(disk.file("db")).unwrap();
    let marks: Vec<_> = (0..sound.len() - 4).filter(|at| &sound[*at..*at + 4] == b"MARK").collect();
    assert!(marks.len() >= 40);
    let (mut reported, mut lost) = (0, 0);
    for at in marks.iter().step_by(marks.len() / 12) {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(disk.dir.path(), copy.path());
        let mut bytes = sound.clone();
        bytes[at + 1_000] ^= 0x10;
        spoil(copy.path().join("store/db"), bytes);
        let store = match SledStore::open_existing(copy.path(), CACHE) {
            Ok(store) => store,
            Err(error) => {
                place_of(error);
                reported += 1;
                continue;
            }
        };
        for (hash, bytes) in &expected {
            match layout::object(&store, "ep", hash) {
                Ok(Some(found)) => assert!(found == *bytes),
                Ok(None) => lost += 1,
                Err(error) => {
                    place_of(error);
                    reported += 1;
                }
            }
        }
    }
    assert!(reported > 0, "{reported} reported, {lost} lost");
    assert_eq!(lost, 0, "{reported} reported");
}

/// Side values are a cache: damage to them costs them, and nothing else.
#[test]
fn damaged_side_values_are_given_up() {
    let mut disk = Disk::new();
    disk.store().commit(&batch(&[("a", "1")], &[])).unwrap();
    for n in 0_u8..10 {
        disk.store()
            .side_put(&[(vec![n], [&b"SIDE"[..], &noise(3_000, n.into())].concat())])
            .unwrap();
    }
    disk.reopen();
    disk.close();
    let mut bytes = fs::read(disk.file("db")).unwrap();
    for at in 0..bytes.len() - 4 {
        if &bytes[at..at + 4] == b"SIDE" {
            bytes[at + 100] ^= 1;
        }
    }
    spoil(disk.file("db"), bytes);
    disk.reopen();
    let store = disk.store();
    assert!((0_u8..10).all(|n| store.side_get(&[n]).unwrap().is_none()));
    store.side_put(&pairs(&[("new", "value")])).unwrap();
    assert_eq!(store.side_get(b"new").unwrap(), Some(b"value".to_vec()));
    store.commit(&batch(&[("b", "2")], &[])).unwrap();
    disk.reopen();
    assert_eq!(disk.store().side_get(b"new").unwrap(), Some(b"value".to_vec()));
    assert_eq!(everything(disk.store()), pairs(&[("a", "1"), ("b", "2")]));
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&to).unwrap();
            copy_dir(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
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
        run(&mut Memory(MemoryStore::new()), &steps);
        run(&mut Disk::new(), &steps);
    }
}
