//! The ledger on a store that fails: nothing acknowledged is lost, nothing that is not the log is signed, and it starts
//! only on what it can vouch for.

#![expect(clippy::disallowed_methods, reason = "a file of a test need not survive a crash")]

mod beside;
mod world;

use std::sync::Arc;
use std::thread;
use world::{Acked, CallOf, ORIGIN, START, World, begin, check_all, ep, keys, session, workload};
use worldlog::event::{Body, Status};
use worldlog::ledger::{OpenError, Refused, Reserve, open};
use worldlog::merkle::Head;
use worldlog::merkle::reader::{Reader, TileSource};
use worldlog::merkle::tile::TileId;
use worldlog::note::bundle::Bundle;
use worldlog::note::checkpoint::Policy;
use worldlog::state::{Snapshot, Unlawful};
use worldlog::store::layout;
use worldlog::store::memory::{Fault, MemoryStore, Side};
use worldlog::store::{Store, StoreError};

/// Runs the workload on a store that fails as planned; returns what was acknowledged.
fn run(world: &World) -> Acked {
    let mut acked = Acked::default();
    if let Ok(ledger) = world.open() {
        // Ends at the fault, which is the point.
        let _ = workload(&ledger, &mut acked);
    }
    acked
}

#[test]
fn every_sync_may_fail_in_every_way() {
    let world = World::new();
    let whole = run(&world);
    let syncs = world.store.syncs();
    assert!(syncs >= 15, "the workload commits: {syncs} syncs");
    let state = check_all(world.store.as_ref(), &whole);
    assert_eq!(state.entries(), 4);

    for sync in 1..=syncs {
        for fault in [Fault::NotCommitted, Fault::Lost, Fault::Persisted] {
            for side in [Side::Keep, Side::Drop] {
                let world = World::new();
                world.store.fail_at(sync, fault);
                let acked = run(&world);
                let after = world.with(world.store.crash(side));
                let ledger = after.open().unwrap_or_else(|error| {
                    panic!("sync {sync}, {fault:?}, {side:?}: does not open: {error}")
                });
                check_all(after.store.as_ref(), &acked);
                // It goes on: what comes next is lawful where the log now ends.
                ledger.seal().expect("a seal");
                ledger.tend().expect("the guard");
                check_all(after.store.as_ref(), &acked);
            }
        }
    }
}

#[test]
fn after_an_unknown_commit_nothing_is_acknowledged() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let mut acked = Acked::default();
    let transition = begin(&ledger, &mut acked, 10).expect("begins");
    world.store.fail_at(1, Fault::Persisted);
    let first = ledger.commit_blocking(CallOf::new(0).intent(transition, 10, false));
    assert!(matches!(first, Err(Refused::Unknown(_))), "{first:?}");
    assert!(ledger.halted());
    let second = ledger.commit_blocking(CallOf::new(1).intent(transition, 10, false));
    assert!(matches!(second, Err(Refused::Unknown(_))), "{second:?}");
}

#[test]
fn a_commit_that_did_not_happen_is_taken_back() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 10).expect("begins");
    let before = ledger.state().digest().expect("rows");
    world.store.fail_at(1, Fault::NotCommitted);
    let refused = ledger.commit_blocking(CallOf::new(0).intent(transition, 10, false));
    assert!(matches!(refused, Err(Refused::NotCommitted(_))), "{refused:?}");
    assert_eq!(ledger.state().digest().expect("rows"), before);
    // The same submission is still lawful.
    ledger.commit_blocking(CallOf::new(0).intent(transition, 10, false)).expect("commits");
}

#[test]
fn what_was_staged_comes_with_its_events_or_goes() {
    for (sync, again) in [(1, true), (2, true), (1, false), (2, false)] {
        let world = World::new();
        let ledger = world.open().expect("opens");
        let mut acked = Acked::default();
        let transition = begin(&ledger, &mut acked, 10).expect("begins");
        // The first sync is that of the large object, the second that of the events.
        world.store.fail_at(sync, Fault::NotCommitted);
        let refused = ledger.commit_blocking(CallOf::new(0).intent(transition, 10, true));
        assert!(matches!(refused, Err(Refused::NotCommitted(_))), "{refused:?}");
        let next = if again { CallOf::new(0) } else { CallOf::new(1) };
        let committed =
            ledger.commit_blocking(next.intent(transition, 10, again)).expect("commits");
        acked.0.push(committed);
        check_all(world.store.as_ref(), &acked);
    }
}

#[test]
fn a_decision_that_no_longer_holds_is_not_written() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 1).expect("begins");
    let misstated = ledger.commit_blocking(CallOf::new(0).intent(transition, 2, false));
    assert_eq!(misstated.err(), Some(Refused::Changed(Unlawful::BudgetMisstated)));
    let call = CallOf::new(0);
    let plan = ledger.commit_blocking(call.intent(transition, 1, false)).expect("commits").first;
    ledger.commit_blocking(call.outcome(plan, Status::Failed, 1)).expect("commits");
    let spent = ledger.commit_blocking(CallOf::new(1).intent(transition, 0, false));
    assert_eq!(spent.err(), Some(Refused::Changed(Unlawful::BudgetExceeded)));
    world.clock.advance(3_600_000);
    let late = ledger.commit_blocking(CallOf::new(2).intent(transition, 0, false));
    assert_eq!(late.err(), Some(Refused::Changed(Unlawful::SessionNotLive)));
    let size = ledger.published().head.size;
    assert_eq!(size, ledger.state().position().seq, "nothing of them is left");
}

#[test]
fn a_group_of_many_writers_is_one_log() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let mut acked = Acked::default();
    begin(&ledger, &mut acked, 10).expect("begins");
    let threads: Vec<_> = (0..8_u32)
        .map(|writer| {
            let ledger = ledger.clone();
            thread::spawn(move || {
                (0..40_u32)
                    .map(|number| {
                        let kind = format!("x-load-{writer}-{number}");
                        let body = Body::Extension { kind, map: vec![0xa0] };
                        let draft = worldlog::ledger::Draft::plain(None, body);
                        let drafts = vec![draft.clone(), draft];
                        let submission =
                            worldlog::ledger::Submission { drafts, ..Default::default() };
                        ledger.commit_blocking(submission).expect("commits")
                    })
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    for thread in threads {
        acked.0.extend(thread.join().expect("no panic"));
    }
    check_all(world.store.as_ref(), &acked);
    assert!(world.store.syncs() < 8 * 40, "some shared a sync");
}

#[test]
fn it_does_not_start_on_a_mismatch() {
    let world = World::new();
    let acked = run(&world);
    let guard = std::fs::read(world.guard_path()).expect("a guard");

    // An older copy of the store.
    let older = World::new();
    let ledger = older.open().expect("opens");
    begin(&ledger, &mut Acked::default(), 10).expect("begins");
    let copy = world.with(older.store.crash(Side::Drop));
    let error = copy.open().expect_err("an older copy");
    assert!(matches!(error, OpenError::GuardAhead { .. }), "{error}");

    // Another history of the same length or more.
    let other = World::new();
    other.clock.set_wall(START + 5);
    let ledger = other.open().expect("opens");
    workload(&ledger, &mut Acked::default()).expect("runs");
    let fork = world.with(other.store.crash(Side::Drop));
    let error = fork.open().expect_err("another history");
    assert!(matches!(&error, OpenError::Findings { verdict: "rewritten", .. }), "{error}");

    // No guard.
    std::fs::remove_file(world.guard_path()).expect("removed");
    let again = world.with(world.store.crash(Side::Drop));
    let error = again.open().expect_err("no guard");
    assert!(matches!(error, OpenError::GuardMissing { .. }), "{error}");
    let config = worldlog::ledger::Config { guard_init: true, ..again.config() };
    open(config).expect("the operator insists");

    // Another log's guard.
    std::fs::write(
        world.guard_path(),
        String::from_utf8_lossy(&guard).replace(ORIGIN, "other.test/log"),
    )
    .expect("written");
    let error = world.with(world.store.crash(Side::Drop)).open().expect_err("another log");
    assert!(matches!(error, OpenError::Guard(_)), "{error}");
    check_all(world.store.as_ref(), &acked);
}

/// Whatever value of the store changes, opening says so, or it is one that nobody relies on.
#[test]
fn a_changed_value_is_found_at_the_start() {
    // With a snapshot at hand and without: it stands for the fold, and for no byte.
    changed_values(Side::Drop);
    changed_values(Side::Keep);
}

fn changed_values(side: Side) {
    let world = World::new();
    let acked = run(&world);
    let pairs = world.store.durable();
    assert!(pairs.len() > 40);
    for (key, value) in &pairs {
        for at in [0, value.len() / 2, value.len().saturating_sub(1)] {
            let copy = world.store.crash(side);
            let mut changed = value.clone();
            let Some(byte) = changed.get_mut(at) else { continue };
            *byte ^= 0x20;
            copy.tamper(key, Some(&changed));
            let kind = char::from(key[0]);
            let newest = layout::last_head(&copy).ok().flatten().map(|(size, _)| size);
            let opened = world.with(copy).open();
            // Heads before the newest are kept for readers and never believed.
            let old_head = kind == 'h' && !key.ends_with(&newest.unwrap_or(0).to_be_bytes());
            assert!(opened.is_err() || old_head, "key {kind} {key:02x?}, byte {at}: opened");
        }
        let copy = world.store.crash(side);
        copy.tamper(key, None);
        let opened = world.with(copy).open();
        assert!(opened.is_err() || key[0] == b'h', "key {key:02x?} removed: opened");
    }
    check_all(world.store.as_ref(), &acked);
}

#[test]
fn a_snapshot_is_never_trusted() {
    let world = World::new();
    run(&world);
    let mut state = world.open().expect("opens").state();
    let good = Snapshot::take(&mut state).expect("encodes");
    let parsed = Snapshot::parse(&good).expect("parses");
    assert_eq!(parsed.restore().expect("restores").digest().ok(), state.digest().ok());
    let other = Snapshot { leaf: [1; 32].into(), ..parsed.clone() };
    assert!(other.restore().is_ok(), "the log decides about the leaf hash");
    let forged = Snapshot { digest: [1; 32].into(), ..parsed };
    assert!(forged.restore().is_err(), "its rows do not have that digest");
}

#[test]
fn a_clock_that_cannot_be_believed_stops_intents_only() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 10).expect("begins");
    let call = CallOf::new(0);
    let plan = ledger.commit_blocking(call.intent(transition, 10, false)).expect("commits").first;
    world.clock.set_wall(START - 6_000);
    let outcome =
        ledger.commit_blocking(call.outcome(plan, Status::Ok, 10)).expect("what began ends");
    assert_eq!(outcome.at, START, "time does not go back");
    let refused = ledger.commit_blocking(CallOf::new(1).intent(transition, 9, false));
    assert!(matches!(refused, Err(Refused::Clock { .. })), "{refused:?}");
    world.clock.set_wall(START);
    let still = ledger.commit_blocking(CallOf::new(1).intent(transition, 9, false));
    assert!(matches!(still, Err(Refused::Clock { .. })), "a person has to look: {still:?}");
    assert!(ledger.clock_doubt().is_some());
    ledger.accept_clock();
    ledger.commit_blocking(CallOf::new(1).intent(transition, 9, false)).expect("accepted");
    world.clock.set_wall(START + 2 * 3_600_000);
    let jumped = ledger.commit_blocking(CallOf::new(2).intent(transition, 8, false));
    assert!(matches!(jumped, Err(Refused::Clock { .. } | Refused::Changed(_))), "{jumped:?}");
}

#[test]
fn a_full_disk_stops_intents_and_lets_what_began_end() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, b"zeros").expect("written");
    let reserve = Reserve { bytes: 1 << 28, ballast: Some(ballast.clone()) };
    let ledger = open(worldlog::ledger::Config { reserve, ..world.config() }).expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 10).expect("begins");
    let call = CallOf::new(0);
    let plan = ledger.commit_blocking(call.intent(transition, 10, false)).expect("commits").first;
    world.store.set_free_bytes((1 << 28) - 1);
    let refused = ledger.commit_blocking(CallOf::new(1).intent(transition, 9, false));
    assert!(matches!(refused, Err(Refused::NoSpace { .. })), "{refused:?}");
    assert!(ballast.exists());
    world.store.set_free_bytes(1 << 20);
    ledger.commit_blocking(call.outcome(plan, Status::Ok, 10)).expect("what began ends");
    assert!(!ballast.exists(), "the ballast made room");
}

struct Stored<'a>(&'a MemoryStore, Head);

impl TileSource for Stored<'_> {
    type Error = StoreError;

    fn read(&mut self, id: TileId) -> Result<Vec<u8>, StoreError> {
        let hashes: Vec<u8> = layout::events(self.0, 0)
            .take(usize::try_from(self.1.size).expect("small"))
            .map(|item| item.map(|(_, bytes)| worldlog::merkle::hash::leaf_hash(&bytes)))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        assert_eq!((id.level(), id.index()), (0, 0), "one tile holds this log");
        Ok(hashes)
    }
}

#[test]
fn readers_get_proofs_of_what_is_published() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let mut acked = Acked::default();
    workload(&ledger, &mut acked).expect("runs");
    let head = ledger.published().head;
    let policy =
        Policy::new(ORIGIN, vec![keys().verifier_key().clone()], vec![], 0).expect("a policy");
    for seq in 0..head.size {
        let bytes = ledger.event(seq).expect("readable").expect("there");
        let proof = ledger.proof(seq).expect("tiles fit").expect("there");
        let bundle = Bundle::parse(proof.as_bytes()).expect("well-formed");
        bundle.verify(&policy, &bytes).expect("proves");
    }
    assert_eq!(ledger.proof(head.size).expect("no error"), None);
    let mut reader = Reader::open(head, Stored(&world.store, head)).expect("authentic");
    let hashes = ledger.consistency(3, head.size).expect("a proof");
    assert_eq!(hashes, reader.consistency_proof(3, head.size).expect("a proof"));
    let call = CallOf::new(0);
    let found = ledger.find(&call.inv).expect("readable").expect("there");
    assert_eq!(found.commit.as_ref().map(|(_, commit)| commit.entry), Some(0));
    assert!(found.plan.is_some() && found.intent.is_some() && found.outcome.is_some());
    assert_eq!(ledger.find(&session()).expect("readable"), None);
    assert_eq!(ledger.entries(2, 10).expect("readable").len(), 2);
    assert!(ledger.episode_key(&ep()).is_some());
    let checkpoint = ledger.checkpoint();
    let both = ledger.verifier_keys().map(Clone::clone).to_vec();
    let policy = Policy::new(ORIGIN, both, vec![], 0).expect("a policy");
    assert_eq!(policy.open(checkpoint.as_bytes()).expect("signed twice").log().len(), 2);
    let store: Arc<dyn Store> = Arc::clone(ledger.store());
    assert_eq!(layout::event_count(store.as_ref()).expect("readable"), head.size);
}
