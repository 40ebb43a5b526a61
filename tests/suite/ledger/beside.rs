//! The indexes beside the log: what they hold is found at every moment, and what they lack is made up for in pieces.

use super::world::{Acked, CallOf, START, World, begin, ep, key};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use worldlog::event::{B16, EpisodeName, Freeze, Status, Verdict};
use worldlog::ledger::{Draft, Ledger, Naming, Submission, open};
use worldlog::limits::{BESIDE_CATCH_UP_MAX, COMMIT_EVENTS_MAX};
use worldlog::store::memory::{MemoryStore, Side};
use worldlog::store::{Batch, Pair, Receipt, Store, StoreError};

type Look = Box<dyn Fn() + Send>;

/// A store beneath which somebody looks whenever side values are about to be written, and which may lose all of them.
struct Watched {
    below: Arc<MemoryStore>,
    look: Mutex<Option<Look>>,
    side: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Whether side values are kept at all.
    keeps: AtomicBool,
}

impl Watched {
    fn new(below: Arc<MemoryStore>) -> Arc<Self> {
        let (look, side, keeps) = (Mutex::new(None), Mutex::default(), AtomicBool::new(true));
        Arc::new(Self { below, look, side, keeps })
    }

    fn lose(&self) {
        self.side.lock().expect("values").clear();
    }
}

impl Store for Watched {
    fn commit(&self, batch: &Batch) -> Result<Receipt, StoreError> {
        self.below.commit(batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.below.get(key)
    }

    fn range(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.below.range(from, to, limit)
    }

    fn last(&self, from: &[u8], to: &[u8]) -> Result<Option<Pair>, StoreError> {
        self.below.last(from, to)
    }

    fn side_put(&self, pairs: &[Pair]) -> Result<(), StoreError> {
        if let Some(look) = self.look.lock().expect("a look").as_ref() {
            look();
        }
        if self.keeps.load(Ordering::SeqCst) {
            self.side.lock().expect("values").extend(pairs.iter().cloned());
        }
        Ok(())
    }

    fn side_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.side.lock().expect("values").get(key).cloned())
    }

    fn free_bytes(&self) -> Result<u64, StoreError> {
        self.below.free_bytes()
    }
}

fn path() -> B16 {
    key().path("a.txt")
}

#[test]
fn what_is_being_written_aside_is_found_meanwhile() {
    let world = World::new();
    let store = Watched::new(world.store.clone());
    let mut config = world.config();
    config.store = store.clone();
    let ledger = open(config).expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 10).expect("begins");
    let call = CallOf::new(0);
    let intent = call.intent(transition, 10, false);
    let object = intent.drafts[1].opening.clone().expect("an opening").refs[0];
    let plan = ledger.commit_blocking(intent).expect("commits").first;
    ledger.commit_blocking(call.outcome(plan, Status::Failed, 10)).expect("commits");

    let looks = Arc::new(Mutex::new(0));
    let (counted, reader, inv) = (Arc::clone(&looks), ledger.clone(), call.inv);
    let holds = move |ledger: &Ledger| {
        let found = ledger.find(&inv).expect("readable").expect("it is committed");
        assert!(found.commit.is_some());
        let naming = ledger.naming(&ep(), &object).expect("readable");
        assert_eq!(naming, Naming::Event(plan + 1));
        let naming = ledger.named_before(&ep(), &path(), u64::MAX).expect("readable");
        assert_eq!(naming, Naming::Event(plan + 1));
    };
    let look = holds;
    *store.look.lock().expect("a look") = Some(Box::new(move || {
        look(&reader);
        *counted.lock().expect("a count") += 1;
    }));
    ledger.tend().expect("tended");
    assert!(*looks.lock().expect("a count") >= 2, "both indexes are written");
    *store.look.lock().expect("a look") = None;
    holds(&ledger);
}

#[test]
fn values_that_go_while_the_log_is_open_are_made_again() {
    let world = World::new();
    let store = Watched::new(world.store.clone());
    let mut config = world.config();
    config.store = store.clone();
    let ledger = open(config).expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 10).expect("begins");
    let call = CallOf::new(0);
    let intent = call.intent(transition, 10, false);
    let object = intent.drafts[1].opening.clone().expect("an opening").refs[0];
    let plan = ledger.commit_blocking(intent).expect("commits").first;
    ledger.commit_blocking(call.outcome(plan, Status::Failed, 10)).expect("commits");
    ledger.tend().expect("tended");
    let ended = |ledger: &Ledger| ledger.find(&call.inv).expect("readable").is_some();
    let named = |ledger: &Ledger| ledger.naming(&ep(), &object).expect("readable");
    let back = |ledger: &Ledger| ledger.named_before(&ep(), &path(), u64::MAX).expect("readable");

    store.lose();
    assert!(ended(&ledger), "by a reader of ends");
    assert!(!ledger.lost().expect("readable"), "all is made up for");
    store.lose();
    assert_eq!(back(&ledger), Naming::Event(plan + 1), "by a reader of marks");
    store.lose();
    assert_eq!(named(&ledger), Naming::Event(plan + 1), "by a reader of objects");
    store.lose();
    ledger
        .commit_blocking(Submission {
            drafts: vec![Draft::plain(Some(&ep()), Freeze { frozen: false })],
            ..Submission::default()
        })
        .expect("commits");
    ledger.tend().expect("tended");
    assert!(!ledger.lost().expect("readable"), "by the work of each second");
    assert!(ended(&ledger) && named(&ledger) == back(&ledger));

    // When they cannot be kept at all, nobody is told that there is nothing.
    store.keeps.store(false, Ordering::SeqCst);
    store.lose();
    assert!(!ended(&ledger) && ledger.lost().expect("readable"));
    assert_eq!((named(&ledger), back(&ledger)), (Naming::Behind, Naming::Behind));
    store.keeps.store(true, Ordering::SeqCst);
    assert!(ended(&ledger) && named(&ledger) == Naming::Event(plan + 1));
    assert!(!ledger.lost().expect("readable"));
}

#[test]
fn intents_of_a_path_are_linked_back_to_the_first() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 100).expect("begins");
    let mut intents = Vec::new();
    for number in 0..20 {
        let call = CallOf::new(number);
        let intent =
            ledger.commit_blocking(call.intent(transition, 100 - number, false)).expect("it").first
                + 1;
        ledger.commit_blocking(call.closure(intent, Verdict::InDoubt)).expect("closed");
        intents.push(intent);
        if number % 7 == 3 {
            ledger.tend().expect("tended");
        }
    }
    let back = |ledger: &Ledger| {
        let (mut before, mut seen) = (u64::MAX, Vec::new());
        while let Naming::Event(seq) =
            ledger.named_before(&ep(), &path(), before).expect("readable")
        {
            seen.push(seq);
            before = seq;
        }
        seen.reverse();
        seen
    };
    assert_eq!(back(&ledger), intents);
    let middle = ledger.named_before(&ep(), &path(), intents[9]).expect("readable");
    assert_eq!(middle, Naming::Event(intents[8]));
    let between = ledger.named_before(&ep(), &path(), intents[9] + 1).expect("readable");
    assert_eq!(between, Naming::Event(intents[9]));
    let elsewhere = EpisodeName::parse("ep2").expect("a name");
    let foreign = ledger.named_before(&elsewhere, &path(), u64::MAX).expect("readable");
    assert_eq!(foreign, Naming::Nothing);
    for side in [Side::Keep, Side::Drop] {
        let after = world.with(world.store.crash(side));
        let ledger = after.open().expect("opens");
        assert_eq!(back(&ledger), intents, "{side:?}");
        ledger.tend().expect("tended");
        assert_eq!(back(&ledger), intents, "{side:?}");
    }
}

#[test]
fn a_lost_index_says_so_until_it_is_made_up_for() {
    let world = World::new();
    let ledger = world.open().expect("opens");
    let transition = begin(&ledger, &mut Acked::default(), 100).expect("begins");
    let freezes = |frozen: bool| {
        let drafts =
            (0..COMMIT_EVENTS_MAX / 2).map(|_| Draft::plain(Some(&ep()), Freeze { frozen }));
        Submission { drafts: drafts.collect(), ..Submission::default() }
    };
    while ledger.published().head.size < BESIDE_CATCH_UP_MAX {
        ledger.commit_blocking(freezes(false)).expect("commits");
    }
    let call = CallOf::new(0);
    let intent = call.intent(transition, 100, false);
    let object = intent.drafts[1].opening.clone().expect("an opening").refs[0];
    let intent = ledger.commit_blocking(intent).expect("commits").first + 1;
    ledger.commit_blocking(call.closure(intent, Verdict::InDoubt)).expect("closed");

    let after = world.with(world.store.crash(Side::Drop));
    let ledger = after.open().expect("opens");
    // Opening made up for one piece, and one of the looks here for the rest; none of them said that there is nothing.
    let mut answers = vec![ledger.named_before(&ep(), &path(), u64::MAX).expect("readable")];
    answers.push(ledger.named_before(&ep(), &path(), u64::MAX).expect("readable"));
    assert!(!answers.contains(&Naming::Nothing), "{answers:?}");
    assert_eq!(answers[1], Naming::Event(intent));
    assert_eq!(ledger.naming(&ep(), &object).expect("readable"), Naming::Event(intent));
    assert!(ledger.published().at >= START);
}
