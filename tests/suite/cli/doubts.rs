//! A call in doubt, as a person meets it: listed, looked at, settled.

use super::{Home, Served, read, text};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use worldlog::canon::{Value, object, parse};
use worldlog::clock::SystemClock;
use worldlog::entropy::SystemEntropy;
use worldlog::event::Front;
use worldlog::ledger::{self, Guard, Keys, Reserve, Seeds};
use worldlog::limits::STORE_CACHE_BYTES_MAX;
use worldlog::service::{Call, CallError, Config, Service};
use worldlog::store::sled::SledStore;
use worldlog::store::{Batch, Pair, Receipt, Store, StoreError};

/// A store that loses power after so many commits.
struct Cut {
    below: Arc<SledStore>,
    left: AtomicI64,
}

impl Store for Cut {
    fn commit(&self, batch: &Batch) -> Result<Receipt, StoreError> {
        if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Err(StoreError::Unknown { reason: "the power went".to_owned() });
        }
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
        self.below.side_put(pairs)
    }

    fn side_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.below.side_get(key)
    }

    fn free_bytes(&self) -> Result<u64, StoreError> {
        self.below.free_bytes()
    }
}

/// Writes `a.txt` in the first episode of a log that is there; the power goes between intent and outcome. Returns the
/// invocation, and the key of the log.
fn lost_write(home: &Home) -> (String, String) {
    let data = home.data();
    let below = Arc::new(SledStore::open(&data, STORE_CACHE_BYTES_MAX).expect("a store"));
    let store = Arc::new(Cut { below: below.clone(), left: AtomicI64::new(i64::MAX) });
    let seeds = Seeds::load(&data).expect("readable").expect("seeds");
    let keys = Keys::new(&seeds.default_origin().expect("an origin"), &seeds).expect("keys");
    let guards = fs::read_dir(home.path("state/worldlog")).expect("a folder");
    let guard = guards.map(|entry| entry.expect("an entry").path()).next().expect("a guard");
    let guard = Guard::at(&guard, keys.verifier_key());
    let vkey = keys.verifier_key().to_string();
    let clock = Arc::new(SystemClock::new());
    let ledger = ledger::open(ledger::Config {
        store: store.clone(),
        keys,
        guard: Some(guard),
        guard_init: false,
        clock: clock.clone(),
        reserve: Reserve::default(),
        payloads: false,
    });
    let service = Service::start(Config {
        ledger: ledger.expect("a log"),
        workspace: data.join("workspace"),
        locks: data.join("episodes"),
        clock,
        entropy: Arc::new(SystemEntropy),
        program: "sha256:00".to_owned(),
        transitions: worldlog::transitions::all().to_vec(),
    });
    let service = service.expect("a service");
    let token = read(&data.join("first-session.token"));
    let caller = service.authenticate(Some(token.trim())).expect("a caller");
    let args = object([("path", "a\u{9b}.txt".into()), ("content", "mine".into())]);
    store.left.store(1, Ordering::SeqCst);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let call = Call::new(Front::Mcp, "ailang-write", args);
    let said = runtime.expect("a runtime").block_on(service.invoke(&caller, call, None));
    let Err(CallError::Unconfirmed { invocation, .. }) = said else { panic!("{said:?}") };
    drop((service, store));
    // Its thread lets go of the store a moment later.
    while Arc::strong_count(&below) > 1 {
        std::thread::yield_now();
    }
    (invocation, vkey)
}

#[test]
fn a_doubt_is_listed_with_its_next_step_and_settled() {
    let home = Home::new();
    home.ok(&["init"]);
    let (invocation, vkey) = lost_write(&home);
    fs::write(home.data().join("workspace/first/a\u{9b}.txt"), "theirs").expect("a file");

    // Without a server the store is opened, and recovery finds what nobody can tell.
    let listed = home.ok(&["unresolved"]);
    assert!(
        listed.starts_with(&format!("{invocation}  first  ailang-write  Workspace.Write  ")),
        "{listed}"
    );
    assert!(listed.contains("may have changed a\\u{9b}.txt\n"), "{listed}");
    assert!(listed.contains("record sha256:") && listed.contains("worldlog resolve"), "{listed}");
    let json = parse(home.ok(&["unresolved", "--json"]).trim().as_bytes()).expect("JSON");
    let items = json.get("items").and_then(Value::as_array).expect("items");
    let number = |name: &str| items[0].get(name).and_then(Value::as_u64).expect("a number");
    assert_eq!((items.len(), number("charge")), (1, 1));
    assert!(number("closure") > number("intent") && number("at") > 0);
    let beyond = (number("intent") + 1).to_string();
    assert!(home.ok(&["unresolved", "--from", &beyond]).contains("nothing is unresolved"));

    // With one it is asked.
    let served = Served::start(&home, &[]);
    assert_eq!(home.ok(&["unresolved"]), listed);
    assert!(home.ok(&["health"]).contains("1 unresolved"));
    assert!(home.ok(&["resolve", &invocation, "not-happened"]).contains("settled"));
    assert!(home.ok(&["unresolved"]).contains("nothing is unresolved"));
    assert_eq!(served.stop(), Some(0));
    home.ok(&["verify", text(&home.data()), "--vkey", &vkey]);
}
