//! The ledger: the one writer of the log.
//!
//! ```text
//! submission ─► [queue] ─► writer thread: check, fold, hash, sign ─► store.commit ─► publish head ─► answer
//! ```
//!
//! Whatever is queued becomes one group commit: one batch, one flush, one signed head. The head is in the batch and leaves
//! only after the flush; the answers leave after the head. The state runs ahead of the store by at most one group, and is
//! taken back when the store says that nothing was committed. When the store does not know, the ledger halts for good: the
//! process has to end, and the next start finds out from the bytes.
//!
//! Who calls it: the service submits events with their payloads; nobody else reaches [`crate::store::Store::commit`].

mod beside;
mod fill;
mod guard;
mod inspect;
mod keys;
mod open;
mod read;
mod staging;
mod tend;
mod writer;

pub use beside::Naming;
pub use fill::{Filler, IMPORTED};
pub use guard::{Guard, GuardError};
pub use inspect::{Inspection, Options as InspectOptions, StorePayloads, check_objects, inspect};
pub use keys::{Keys, KeysError, Seeds};
pub use open::{Config, OpenError, open};
pub use read::Found;
pub use writer::Reserve;

use crate::clock::Clock;
use crate::event::blind::{EpisodeKey, Opening};
use crate::event::{B16, Body, EpisodeName};
use crate::merkle::Head;
use crate::merkle::hash::{Hash, sha256};
use crate::merkle::tree::Tree;
use crate::state::{State, Unlawful};
use crate::store::{Receipt, Store};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::{oneshot, watch};

/// Submissions that may wait. Beyond it callers are told to come back: at 5,000 calls a second this is half a second.
const QUEUE_MAX: usize = 4_096;

/// An object on its way into the log. It is hashed once, by whoever makes it, and not by the writer's thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    episode: Option<EpisodeName>,
    hash: Hash,
    bytes: Arc<Vec<u8>>,
}

impl NewObject {
    /// An object of `episode`; `None` for transitions' sources and schemas.
    pub fn new(episode: Option<&EpisodeName>, bytes: Vec<u8>) -> Self {
        Self { episode: episode.cloned(), hash: sha256(&bytes), bytes: Arc::new(bytes) }
    }

    /// SHA-256 of its bytes.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Its name on the wire: `sha256:` and 64 hexadecimal digits.
    pub fn reference(&self) -> String {
        format!("sha256:{}", crate::event::hex(&self.hash))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }
}

/// An event on its way into the log. The writer gives it its seq, time and links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its episode.
    pub episode: Option<EpisodeName>,
    /// Its invocation.
    pub inv: Option<B16>,
    /// Its body; references to earlier drafts of the submission by [`crate::event::prior`]. The writer fills in the entry
    /// index of a commit and everything of a seal.
    pub body: Body,
    /// The plain hashes behind its blinded references.
    pub opening: Option<Opening>,
}

impl Draft {
    /// An event that hides nothing.
    pub fn plain(episode: Option<&EpisodeName>, body: impl Into<Body>) -> Self {
        Self { episode: episode.cloned(), inv: None, body: body.into(), opening: None }
    }
}

/// Events that become durable together or not at all, with their payloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submission {
    /// In order.
    pub drafts: Vec<Draft>,
    /// Payloads, durable no later than the events.
    pub objects: Vec<NewObject>,
    /// Keys of new episodes.
    pub keys: Vec<(EpisodeName, EpisodeKey)>,
}

/// What became of a submission.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Seq of its first event.
    pub first: u64,
    /// The time of its events.
    pub at: u64,
    /// Leaf hashes of its events.
    pub leaves: Vec<Hash>,
    /// Entry index of its commit, if it had one.
    pub entry: Option<u64>,
    /// Proof for the handlers.
    pub receipt: Arc<Receipt>,
}

/// Why a submission did not become part of the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A check that held when it was prepared does not hold now: decide again.
    #[error("the log moved on: {0}")]
    Changed(Unlawful),
    /// Too many wait.
    #[error("{QUEUE_MAX} submissions wait already; come back later")]
    Busy,
    /// The disk is nearly full: no new intents.
    #[error("the disk has {free} bytes left, and {reserve} are kept for what already began")]
    NoSpace {
        /// Bytes free.
        free: u64,
        /// Bytes kept back.
        reserve: u64,
    },
    /// The episode has stored what it may.
    #[error("the episode has stored {stored} of its {quota} bytes; begin a new one")]
    Quota {
        /// Bytes stored.
        stored: u64,
        /// Bytes allowed.
        quota: u64,
    },
    /// The clock cannot be believed: no new intents.
    #[error("the clock {reason}; check it, then run `worldlog clock accept`")]
    Clock {
        /// What it did.
        reason: String,
    },
    /// The store said that nothing was committed.
    #[error("nothing was committed: {0}")]
    NotCommitted(String),
    /// It may or may not be committed, and the ledger has halted.
    #[error("the outcome is unknown until the next start: {0}")]
    Unknown(String),
    /// It is no submission that could be written.
    #[error("malformed submission: {0}")]
    Malformed(String),
}

/// The newest durable head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Size and root.
    pub head: Head,
    /// The signed note, with the Ed25519 line.
    pub note: String,
    /// Time of the last event.
    pub at: u64,
}

struct Message {
    submission: Submission,
    answer: oneshot::Sender<Result<Committed, Refused>>,
}

/// What the writer, the readers and the once-a-second work share.
struct Shared {
    store: Arc<dyn Store>,
    keys: Keys,
    guard: Option<Guard>,
    clock: Arc<dyn Clock>,
    /// Ahead of the store by at most one group.
    state: RwLock<State>,
    /// Written by the writer after each commit.
    published: watch::Sender<Arc<Published>>,
    /// The newest head with both signatures.
    checkpoint: RwLock<String>,
    /// The tree of `published`.
    tree: RwLock<Tree>,
    episode_keys: RwLock<BTreeMap<EpisodeName, EpisodeKey>>,
    /// Bytes of objects, by episode.
    stored: RwLock<BTreeMap<EpisodeName, u64>>,
    /// Ends of calls by invocation that the side index does not have yet.
    recent: Mutex<BTreeMap<B16, u64>>,
    /// Objects and paths by the events that name them, as far as the side indexes do not have them yet.
    beside: Mutex<beside::Recent>,
    /// Held by whoever writes side indexes.
    indexing: Mutex<()>,
    clock_watch: Mutex<writer::ClockWatch>,
    reserve: writer::Reserve,
    halted: AtomicBool,
}

/// A handle on the ledger; cheap to clone. The writer ends when the last handle is gone.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
    queue: SyncSender<Message>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ledger({})", self.shared.keys.origin())
    }
}

// A poisoned lock means that a thread panicked while it held it. The fold is total and the rest are plain stores, so what
// the lock guards is whole; the panic itself ends the process elsewhere.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// Hands a submission to the writer. Dropping the receiver does not take it back.
    ///
    /// # Errors
    /// [`Refused::Busy`] at once when the queue is full, [`Refused::Unknown`] when the ledger has halted.
    pub fn submit(
        &self,
        submission: Submission,
    ) -> Result<oneshot::Receiver<Result<Committed, Refused>>, Refused> {
        let (answer, receiver) = oneshot::channel();
        match self.queue.try_send(Message { submission, answer }) {
            Ok(()) => Ok(receiver),
            Err(TrySendError::Full(_)) => Err(Refused::Busy),
            Err(TrySendError::Disconnected(_)) => Err(halted()),
        }
    }

    /// Hands a submission to the writer and waits for what becomes of it.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn commit(&self, submission: Submission) -> Result<Committed, Refused> {
        self.submit(submission)?.await.unwrap_or_else(|_| Err(halted()))
    }

    /// The same for a thread outside the runtime.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn commit_blocking(&self, submission: Submission) -> Result<Committed, Refused> {
        self.submit(submission)?.blocking_recv().unwrap_or_else(|_| Err(halted()))
    }

    /// Whether the fate of a commit is unknown: the process has to end.
    pub fn halted(&self) -> bool {
        self.shared.halted.load(Ordering::SeqCst)
    }
}

fn halted() -> Refused {
    Refused::Unknown("the ledger has halted; start again to find out".to_owned())
}
