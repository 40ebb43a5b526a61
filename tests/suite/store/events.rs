//! Events in chunks, on both stores.

use super::*;

on_both! {
    events_of_every_size_come_back
    events_pack_into_few_chunks
    events_can_be_walked_from_anywhere
    bad_events_are_refused
    entries_are_found_by_their_number
    damaged_events_are_named
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
