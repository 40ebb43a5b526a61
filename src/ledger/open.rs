//! Opening a log: every redundant fact is compared before anything is signed.
//!
//! Order: keys, guard, events (canonical form, chains, tree, tiles, fold), head, guard against head. On any mismatch the
//! log stays closed, and the error says what differs and what to run.

use super::guard::{Guard, GuardError};
use super::inspect::{Inspection, Options, inspect};
use super::keys::Keys;
use super::writer::{ClockWatch, Reserve, run};
use super::{Ledger, Published, QUEUE_MAX, Shared, Submission};
use crate::clock::Clock;
use crate::event::{FORMAT, Genesis};
use crate::merkle::Head;
use crate::merkle::tree::Tree;
use crate::note::Note;
use crate::note::checkpoint::Checkpoint;
use crate::store::{Store, StoreError, layout};
use crate::verify::{Report, Trust};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use tokio::sync::watch;

/// What opening needs.
pub struct Config {
    /// The store, opened.
    pub store: Arc<dyn Store>,
    /// The log's keys.
    pub keys: Keys,
    /// The guard; `None` for a log that is read only or that a test owns.
    pub guard: Option<Guard>,
    /// Makes the guard anew when it is missing: the operator looked at the witnesses.
    pub guard_init: bool,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Space kept for what began.
    pub reserve: Reserve,
    /// Whether to hash every payload first.
    pub payloads: bool,
}

/// Why the log stays closed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The guard cannot be used.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// A log without its guard.
    #[error(
        "the log has {size} events but no guard at {path}: it may be an old copy. Compare `worldlog head` with a head \
         that an auditor or witness holds, then start with --guard-init"
    )]
    GuardMissing {
        /// Where it was looked for.
        path: String,
        /// Events in the store.
        size: u64,
    },
    /// A guard without its log.
    #[error(
        "the guard {path} holds a head of {guard} events, the store has {size}: it was restored from an older copy or \
         cut. Bring back the newer store; `worldlog head --guard` shows both heads. Going on here would be a second \
         history"
    )]
    GuardAhead {
        /// The guard's file.
        path: String,
        /// Size of its head.
        guard: u64,
        /// Events in the store.
        size: u64,
    },
    /// The events, tiles or head do not fit together.
    #[error(
        "the log is {verdict}: {first}. Nothing was signed; `worldlog fsck` lists every finding"
    )]
    Findings {
        /// The verdict's word.
        verdict: &'static str,
        /// The worst finding in words.
        first: String,
        /// All of it.
        report: Box<Report>,
    },
    /// Genesis names other keys or another origin than the ones at hand.
    #[error("the keys here are not those of the log: {reason}")]
    OtherKeys {
        /// What differs.
        reason: String,
    },
    /// The first event could not be written.
    #[error("the first event: {0}")]
    Genesis(super::Refused),
    /// The thread could not be started.
    #[error("the writer could not be started: {0}")]
    Thread(std::io::Error),
}

/// Opens the log in `config.store`, or begins one when the store is empty.
///
/// # Errors
/// [`OpenError`].
pub fn open(config: Config) -> Result<Ledger, OpenError> {
    let count = layout::event_count(config.store.as_ref())?;
    let seen = check_guard(&config, count)?;
    if count == 0 {
        let shared = share(config, None)?;
        let ledger = start(shared)?;
        begin(&ledger)?;
        ledger.tend().map_err(OpenError::Guard)?;
        return Ok(ledger);
    }
    let trust = Trust { keys: vec![config.keys.verifier_key().clone()], seen };
    let options =
        Options { trust, payloads: config.payloads, snapshot: true, until: None, sample: None };
    let inspection = inspect(config.store.as_ref(), &options);
    if let Some(worst) = inspection.report.findings.iter().min_by_key(|finding| finding.verdict) {
        let leaf = worst.leaf.map_or(String::new(), |leaf| format!(" at leaf {leaf}"));
        let first = format!("{}{leaf}: {}", worst.code, worst.detail);
        let verdict = worst.verdict.as_str();
        return Err(OpenError::Findings { verdict, first, report: Box::new(inspection.report) });
    }
    check_keys(&config, &inspection)?;
    super::staging::sweep(config.store.as_ref())?;
    let ledger = start(share(config, Some(inspection))?)?;
    ledger.tend().map_err(OpenError::Guard)?;
    Ok(ledger)
}

/// The head that the guard holds. Makes a guard for a new log, durable before its first event.
fn check_guard(config: &Config, count: u64) -> Result<Option<Vec<u8>>, OpenError> {
    let Some(guard) = &config.guard else { return Ok(None) };
    let path = || guard.path().display().to_string();
    let Some(head) = guard.read()? else {
        if count > 0 && !config.guard_init {
            return Err(OpenError::GuardMissing { path: path(), size: count });
        }
        if count == 0 {
            guard.write("")?;
        }
        return Ok(None);
    };
    if head.is_empty() {
        return Ok(None);
    }
    let size = Note::parse(&head).ok().and_then(|note| Checkpoint::parse(note.text()).ok());
    let size = size.map_or(0, |checkpoint| checkpoint.head().size);
    if size > count {
        return Err(OpenError::GuardAhead { path: path(), guard: size, size: count });
    }
    Ok(Some(head))
}

fn check_keys(config: &Config, inspection: &Inspection) -> Result<(), OpenError> {
    let origin = inspection.state.origin().to_owned();
    if origin != config.keys.origin() {
        let reason = format!("the log is {origin}, the keys are named {}", config.keys.origin());
        return Err(OpenError::OtherKeys { reason });
    }
    for key in config.keys.published() {
        if inspection.state.keys.get(&key.id).is_none() {
            let reason = format!("no event publishes the {} key {}", key.usage, key.id);
            return Err(OpenError::OtherKeys { reason });
        }
    }
    Ok(())
}

fn share(config: Config, inspection: Option<Inspection>) -> Result<Shared, OpenError> {
    let empty = || Published {
        head: Head { size: 0, root: Tree::new().root() },
        note: String::new(),
        at: 0,
    };
    let published = match &inspection {
        Some(found) => Published {
            head: found.tree.head(),
            note: String::from_utf8(found.head.clone().unwrap_or_default()).unwrap_or_default(),
            at: found.state.position().at,
        },
        None => empty(),
    };
    let (state, tree, keys, stored, ends) = match inspection {
        Some(mut found) => {
            found.state.settle();
            (found.state, found.tree, found.keys, found.stored, found.ends)
        }
        None => Default::default(),
    };
    let now = config.clock.now();
    let beside = super::beside::Recent::open(config.store.as_ref(), published.head.size)?;
    let shared = Shared {
        store: config.store,
        keys: config.keys,
        guard: config.guard,
        clock_watch: Mutex::new(ClockWatch::new(now)),
        clock: config.clock,
        state: RwLock::new(state),
        published: watch::Sender::new(Arc::new(published)),
        checkpoint: RwLock::new(String::new()),
        tree: RwLock::new(tree),
        episode_keys: RwLock::new(keys),
        stored: RwLock::new(stored),
        recent: Mutex::new(BTreeMap::new()),
        beside: Mutex::new(beside),
        indexing: Mutex::new(()),
        reserve: config.reserve,
        halted: AtomicBool::new(false),
    };
    shared.index_ends(&ends)?;
    Ok(shared)
}

fn start(shared: Shared) -> Result<Ledger, OpenError> {
    let (queue, receiver) = std::sync::mpsc::sync_channel(QUEUE_MAX);
    let shared = Arc::new(shared);
    let writer = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("ledger".to_owned())
        .spawn(move || run(&writer, &receiver))
        .map_err(OpenError::Thread)?;
    Ok(Ledger { shared, queue })
}

/// Writes the first event. Dying before it leaves an empty store, which the next start begins again.
fn begin(ledger: &Ledger) -> Result<(), OpenError> {
    let keys = &ledger.shared.keys;
    let genesis = Genesis {
        keys: keys.published(),
        format: FORMAT.to_owned(),
        origin: keys.origin().to_owned(),
        predecessor: None,
    };
    let drafts = vec![super::Draft::plain(None, genesis)];
    let submission = Submission { drafts, ..Submission::default() };
    ledger.commit_blocking(submission).map(drop).map_err(OpenError::Genesis)
}
