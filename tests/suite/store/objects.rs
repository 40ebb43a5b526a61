//! Tiles, heads, meta values, keys, objects and openings, on both stores.

use super::*;

on_both! {
    tiles_come_in_two_halves
    heads_are_found_by_size
    meta_and_episode_keys_come_back
    objects_of_every_size_come_back
    a_staged_object_appears_with_its_last_batch
    objects_of_episodes_do_not_mix
    damaged_objects_are_named
    openings_come_back
}

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
