//! An open log with everything around it: what `serve`, `init` and verbs without a server work on.

use super::place;
use super::{Failure, token};
use crate::clock::SystemClock;
use crate::entropy::SystemEntropy;
use crate::event::{B16, Body, Event, Role};
use crate::ledger::{self, Guard, Keys, Ledger, Reserve, Seeds};
use crate::limits::STORE_CACHE_BYTES_MAX;
use crate::merkle::hash::sha256;
use crate::service::{self, GrantSpec, NewSession, Service};
use crate::store::sled::SledStore;
use crate::store::{Store, StoreError, layout};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes let go of when the disk is full: outcomes, commits and closures of what runs then fit.
const BALLAST_BYTES: usize = 32 * 1024 * 1024;
/// Name of the first episode.
const FIRST_EPISODE: &str = "first";
/// Units of each effect that the first session may spend.
const FIRST_BUDGET: u64 = 10_000;
/// Seconds for which it lives: 30 days.
const FIRST_TTL_S: u64 = 30 * 24 * 3600;

/// How long closing waits for the ledger's thread: 200 x 10 ms.
const CLOSE_TRIES: u32 = 200;
const CLOSE_PAUSE: Duration = Duration::from_millis(10);

/// How to open a log.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    data: place::DataArgs,
    /// Folder of the worktrees [default: <data>/workspace].
    #[arg(long, value_name = "W")]
    workspace: Option<PathBuf>,
    /// Name of a new log [default: worldlog.local/<digits of its key>].
    #[arg(long, value_name = "O")]
    origin: Option<String>,
    /// File of the guard [default: `$XDG_STATE_HOME/worldlog/<key id>.guard`, or below ~/.local/state].
    #[arg(long, value_name = "G")]
    guard: Option<PathBuf>,
    /// Make a missing guard anew, after comparing the head with what an auditor or witness holds.
    #[arg(long)]
    guard_init: bool,
    /// Start without hashing every payload: `worldlog fsck` does it when there is time.
    #[arg(long)]
    quick: bool,
    /// Free bytes of the disk below which no new effects begin.
    #[arg(long, value_name = "BYTES", default_value_t = 256 * 1024 * 1024)]
    reserve: u64,
}

impl Options {
    /// For a verb that has none of these but the data directory.
    pub(super) fn of(
        data: &place::DataArgs,
        workspace: Option<&Path>,
        guard: Option<&Path>,
    ) -> Self {
        Self {
            data: data.clone(),
            workspace: workspace.map(Path::to_owned),
            origin: None,
            guard: guard.map(Path::to_owned),
            guard_init: false,
            quick: true,
            reserve: 0,
        }
    }

    /// The data directory.
    pub(super) fn data(&self) -> Result<PathBuf, Failure> {
        self.data.path()
    }
}

/// An open log.
pub(super) struct Node {
    /// The data directory.
    pub(super) data: PathBuf,
    /// The door.
    pub(super) service: Service,
    store: Arc<SledStore>,
}

/// The session that a new log begins with.
#[derive(Debug)]
pub(super) struct First {
    /// Its name.
    pub(super) session: B16,
    /// What to say of its token.
    pub(super) token: token::Shown,
}

impl Node {
    /// Opens the log, or begins one when `begin`.
    pub(super) fn open(args: &Options, begin: bool) -> Result<Self, Failure> {
        let data = args.data()?;
        if !begin && !place::is_data(&data) {
            return Err(Failure::usage(place::no_log(&data)));
        }
        crate::durable::create_folder(&data)
            .map_err(|error| Failure::start(format!("{}: {error}", data.display())))?;
        let store = SledStore::open(&data, STORE_CACHE_BYTES_MAX).map_err(|error| match error {
            StoreError::Held { .. } => Failure::start(place::held(&data)),
            other => Failure::start(other),
        })?;
        let keys = keys(args, &data, &store)?;
        let guard = Guard::at(
            &place::guard(args.guard.as_deref(), keys.verifier_key())?,
            keys.verifier_key(),
        );
        let ballast = data.join("ballast");
        if begin {
            ensure_ballast(&store, &ballast, args.reserve)?;
        }
        let clock = Arc::new(SystemClock::new());
        let store = Arc::new(store);
        let ledger = ledger::open(ledger::Config {
            store: store.clone(),
            keys,
            guard: Some(guard),
            guard_init: args.guard_init,
            clock: clock.clone(),
            reserve: Reserve { bytes: args.reserve, ballast: Some(ballast) },
            payloads: !args.quick,
        })
        .map_err(Failure::start)?;
        let workspace = match &args.workspace {
            Some(path) => place::absolute(path)?,
            None => data.join("workspace"),
        };
        let service = Service::start(service::Config {
            ledger,
            workspace,
            locks: data.join("episodes"),
            clock,
            entropy: Arc::new(SystemEntropy),
            program: program()?,
            transitions: crate::transitions::all().to_vec(),
        })
        .map_err(Failure::start)?;
        Ok(Self { data, service, store })
    }

    /// The log.
    pub(super) fn ledger(&self) -> &Ledger {
        self.service.ledger()
    }

    /// Gives a log that nobody has used yet an episode and a session. Dying before the session is durable leaves a log
    /// that the next start treats the same way.
    pub(super) fn first_session(&self) -> Result<Option<First>, Failure> {
        let used = self
            .ledger()
            .with_state(|state| !state.episodes_by_name.is_empty() || !state.sessions.is_empty());
        if used {
            return Ok(None);
        }
        let delivery = token::Delivery::plan(None, place::token(&self.data, "first-session"))
            .map_err(|failure| Failure::start(failure.text))?;
        let new = NewSession {
            role: Role::Agent,
            episode: Some(FIRST_EPISODE.to_owned()),
            grants: GrantSpec::coding(FIRST_BUDGET),
            ttl_s: FIRST_TTL_S,
            label: None,
        };
        let (session, secret) = self.service.new_session(&new).map_err(Failure::start)?;
        let token = delivery.deliver(&secret, &session.to_string())?;
        Ok(Some(First { session, token }))
    }

    /// Fixes what happened, and lets go of the store: the last thing that is done with a log. With `snapshot` the next
    /// start is fast.
    pub(super) fn close(self, snapshot: bool) -> Result<(), Failure> {
        let ledger = self.ledger();
        ledger.seal().map_err(|error| Failure::start(format!("the last seal: {error}")))?;
        if snapshot {
            ledger.snapshot(0, true);
        }
        ledger.tend().map_err(Failure::start)?;
        let Self { service, store, .. } = self;
        drop(service);
        // The store writes its side values, the snapshot among them, when its last handle is gone; until then the
        // ledger's thread has one.
        for _ in 0..CLOSE_TRIES {
            if Arc::strong_count(&store) == 1 {
                break;
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
        Ok(())
    }
}

/// The keys of the log in `store`. A log that has events never gets new ones.
fn keys(args: &Options, data: &Path, store: &SledStore) -> Result<Keys, Failure> {
    place::check_modes(data)?;
    let count = layout::event_count(store).map_err(Failure::start)?;
    if count == 0 {
        let seeds = Seeds::load_or_draw(data, &SystemEntropy).map_err(Failure::start)?;
        let origin = match &args.origin {
            Some(origin) => origin.clone(),
            None => seeds.default_origin().map_err(Failure::start)?,
        };
        return Keys::new(&origin, &seeds).map_err(Failure::start);
    }
    if place::imported(store) {
        return Err(Failure::start(format!(
            "{} holds an imported log: it is read only, since its private keys are elsewhere. `worldlog verify`, `log`, \
             `head`, `prove`, `export` and `replay` work on it",
            data.display()
        )));
    }
    let seeds = Seeds::load(data).map_err(Failure::start)?.ok_or_else(|| {
        let folder = data.join("keys");
        Failure::start(format!(
            "{} lacks the log's private keys: bring back its *.seed files from a backup. New keys would make another \
             log",
            folder.display()
        ))
    })?;
    let origin = origin(store)?;
    if let Some(asked) = args.origin.as_ref().filter(|asked| **asked != origin) {
        return Err(Failure::start(format!(
            "--origin {asked}: the log in {} is named {origin}, for ever; leave the option out",
            data.display()
        )));
    }
    Keys::new(&origin, &seeds).map_err(Failure::start)
}

/// The name that the log gave itself in its first event.
pub(super) fn origin(store: &dyn Store) -> Result<String, Failure> {
    let bytes = layout::event(store, 0).map_err(Failure::damaged)?.unwrap_or_default();
    match Event::decode(&bytes) {
        Ok(Event { body: Body::Genesis(genesis), .. }) => Ok(genesis.origin),
        Ok(event) => {
            Err(Failure::start(format!("leaf 0 is no genesis event but a {}", event.body.kind())))
        }
        Err(error) => {
            Err(Failure::start(format!("leaf 0: {error}; `worldlog fsck` lists what is damaged")))
        }
    }
}

fn ensure_ballast(store: &SledStore, path: &Path, reserve: u64) -> Result<(), Failure> {
    let free = store.free_bytes().map_err(Failure::start)?;
    if path.exists() || free < reserve.saturating_add(2 * BALLAST_BYTES as u64) {
        return Ok(());
    }
    crate::durable::create(path, &vec![0; BALLAST_BYTES], 0o600)
        .map_err(|error| Failure::start(format!("{}: {error}", path.display())))
}

/// `sha256:` of the program that runs.
fn program() -> Result<String, Failure> {
    let path = std::env::current_exe()
        .map_err(|error| Failure::start(format!("this program: {error}")))?;
    let mut bytes = Vec::new();
    // The link of the kernel still leads to the bytes that run when the file was replaced.
    let read = std::fs::File::open("/proc/self/exe").or_else(|_| std::fs::File::open(&path));
    read.and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| Failure::start(format!("{}: {error}", path.display())))?;
    Ok(format!("sha256:{}", crate::event::hex(&sha256(&bytes))))
}
