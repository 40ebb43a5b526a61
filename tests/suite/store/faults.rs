//! What the store in memory does when a sync is told to fail.

use super::*;

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
