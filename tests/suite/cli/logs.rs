//! Logs made in process, where no server is needed, and exported.

use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use worldlog::canon::object;
use worldlog::clock::ManualClock;
use worldlog::entropy::SeededEntropy;
use worldlog::event::{Front, Role};
use worldlog::export::{self, Request};
use worldlog::ledger::{self, Keys, Reserve, Seeds};
use worldlog::service::{Call, Config, GrantSpec, NewSession, Service};
use worldlog::store::memory::MemoryStore;

pub(super) const ORIGIN: &str = "worldlog.test/cli";

/// A log in memory.
pub(super) struct Log {
    pub(super) service: Service,
    pub(super) vkey: String,
    token: String,
    workspace: TempDir,
}

impl Log {
    /// The log whose keys come from `keys`, under `origin`; `chance` decides all else.
    pub(super) fn new(origin: &str, keys: u64, chance: u64) -> Self {
        let seeds = Seeds::draw(&SeededEntropy::new(keys)).expect("seeds");
        let clock = Arc::new(ManualClock::new(1_790_000_000_000));
        let config = ledger::Config {
            store: Arc::new(MemoryStore::new()),
            keys: Keys::new(origin, &seeds).expect("keys"),
            guard: None,
            guard_init: false,
            clock: clock.clone(),
            reserve: Reserve::default(),
            payloads: false,
        };
        let ledger = ledger::open(config).expect("a log");
        let vkey = ledger.verifier_keys()[0].to_string();
        let workspace = tempfile::tempdir().expect("a folder");
        let service = Service::start(Config {
            ledger,
            workspace: workspace.path().to_owned(),
            locks: workspace.path().join("locks"),
            clock,
            entropy: Arc::new(SeededEntropy::new(chance)),
            program: "sha256:00".to_owned(),
            transitions: worldlog::transitions::all().to_vec(),
        });
        let service = service.expect("a service");
        let mut log = Self { service, vkey, token: String::new(), workspace };
        log.token = log.session("work");
        log
    }

    /// Begins a session, and returns its token.
    pub(super) fn session(&self, episode: &str) -> String {
        let new = NewSession {
            role: Role::Agent,
            episode: Some(episode.to_owned()),
            grants: GrantSpec::coding(1_000),
            ttl_s: 3_600,
            label: Some("label".to_owned()),
        };
        self.service.new_session(&new).expect("a session").1
    }

    /// Makes `count` events.
    pub(super) fn grow(&self, count: u64) {
        (0..count).for_each(|_| drop(self.session("work")));
    }

    /// Writes a file through the tool.
    pub(super) fn write(&self, path: &str, content: &str) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let caller = self.service.authenticate(Some(&self.token)).expect("a caller");
        let args = object([("path", path.into()), ("content", content.into())]);
        let call = Call::new(Front::Mcp, "ailang-write", args);
        let answer = runtime.block_on(self.service.invoke(&caller, call, None)).expect("an answer");
        assert_eq!(answer.problem, None, "{}", self.workspace.path().display());
    }

    /// Exports everything so far.
    pub(super) fn export(&self, to: &Path, public: bool) {
        let ledger = self.service.ledger();
        ledger.seal().expect("a seal");
        ledger.tend().expect("a cosignature");
        let note = ledger.checkpoint();
        let store = ledger.store().as_ref();
        let written = export::write(to, &Request { store, note: &note, cosigner: None, public });
        assert_eq!(written.expect("an export").size, ledger.published().head.size);
    }
}

/// A log with three calls and more than one full tile.
pub(super) fn full() -> Log {
    let log = Log::new(ORIGIN, 1, 1);
    for (path, content) in [("a.txt", "one"), ("b.txt", "two"), ("c.txt", "three")] {
        log.write(path, content);
    }
    log.grow(300);
    log
}
