//! The guards of the store in sled, and what it makes of damage.

use super::*;

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
