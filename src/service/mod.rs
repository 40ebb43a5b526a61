//! The door: everything that a front may ask for, as plain types.
//!
//! A front authenticates a bearer token into a [`Caller`] and hands it to what it calls; without one there is no call.
//!
//! ```text
//! call        what is asked, and what is known of a call without an answer
//! invoke      who may call what, and when: client ids, the episode's lock, the deadline
//! look        what an effect finds; previews, tokens, the guard against lost updates
//! run         plan, decide, refuse, deny      effect   run it, finish, commit      invocation   events and objects
//! recovery    settles what was cut off        past     answers again               approve      what a person says
//! view        what may be read                admin    what only the operator may do       undo   takes a call back
//! ```
//!
//! Nothing here knows HTTP or JSON-RPC.

mod admin;
mod answer;
mod approve;
mod call;
mod effect;
mod episodes;
mod files;
mod invocation;
mod invoke;
mod kinds;
mod listing;
mod look;
mod past;
mod recovery;
mod run;
mod undo;
mod view;
mod why;

pub use admin::{AdminError, GrantSpec, NewSession, SessionChange, SessionView};
pub use answer::{Answer, ReceiptView};
pub use approve::Waiting;
pub use call::{Call, CallError, Fate, Phase, Progress, is_client_id};
pub use episodes::EpisodeView;
pub use files::{FileChanged, FileError, FileView};
pub use listing::{CallsPage, CallsWanted, How};
pub use look::{Preview, PreviewDecision};
pub use past::Past;
pub use recovery::ResolveError;
pub use undo::{UndoError, Undone};
pub use view::{EventView, Health, LogEntry, ObjectError, Receipt};
pub use why::{Cause, WhyError};

// What the fronts meet of the layers below, so that they need not name them.
pub use crate::ledger::Refused;
pub use crate::store::StoreError;

use crate::clock::Clock;
use crate::durable;
use crate::entropy::{Entropy, NoEntropy};
use crate::event::{B16, B32, BodyError, EpisodeName, Fixed, Role};
use crate::handlers::{self, Context};
use crate::ledger::{Draft, Ledger, NewObject, Submission};
use crate::merkle::hash::sha256;
use crate::state::SessionRow;
use crate::transitions::{Demand, Transition};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::Notify;

/// Effects that leave nothing behind.
const READS: [&str; 3] = ["Workspace.List", "Workspace.Read", "Workspace.Search"];

/// What the service needs.
pub struct Config {
    /// The log.
    pub ledger: Ledger,
    /// The folder that holds one worktree an episode.
    pub workspace: PathBuf,
    /// The folder of the episodes' lock files: what an earlier process left running in a worktree still holds one.
    pub locks: PathBuf,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// `sha256:` of the program that runs the effects: the `tool` of every output.
    pub program: String,
    /// The tools that there are.
    pub transitions: Vec<&'static dyn Transition>,
}

/// A door to one log; cheap to clone.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    ledger: Ledger,
    workspace: PathBuf,
    locks: PathBuf,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    context: Context,
    /// The newest transition of each tool with the seq that published it.
    transitions: BTreeMap<&'static str, (u64, &'static dyn Transition)>,
    /// The calls of an episode run one at a time.
    episodes: Mutex<BTreeMap<EpisodeName, Arc<Slot>>>,
    /// Client ids of calls under way, by session.
    flights: Mutex<BTreeSet<(B16, B32)>>,
    /// Sessions by the newest previews' tokens, so that an operator can approve what was not called yet.
    previews: Mutex<approve::Previews>,
}

/// What the calls of one episode share.
#[derive(Debug, Default)]
struct Slot {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Calls that wait for it.
    waiting: AtomicUsize,
    stop: Notify,
    /// Held, shared, from the first call on.
    held: OnceLock<durable::Lock>,
}

impl Slot {
    /// Ends when the operator stops what runs here now.
    async fn stopped(&self) {
        self.stop.notified().await;
    }
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A transition could not be published, or an open intent could not be closed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The log could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workspace.
    #[error("{path}: {error}")]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// What the file system said.
        error: std::io::Error,
    },
}

/// A session whose token was shown, or the operator. Only [`Service::authenticate`] and [`Service::operator`] make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    id: B16,
    role: Role,
    episode: Option<EpisodeName>,
}

impl Caller {
    /// The session's name.
    pub fn session(&self) -> &B16 {
        &self.id
    }

    /// What it may do.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Its episode, for an agent.
    pub fn episode(&self) -> Option<&EpisodeName> {
        self.episode.as_ref()
    }
}

/// Why a token opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unauthenticated {
    /// None came.
    Absent,
    /// It is not 64 hexadecimal digits.
    Malformed,
    /// No session has it.
    Unknown,
    /// Its session is over.
    Expired,
    /// Its session was ended early.
    Revoked,
}

/// Bytes that a part of the service could not turn into an event.
impl From<BodyError> for Refused {
    fn from(error: BodyError) -> Self {
        Self::Malformed(error.reason)
    }
}

impl From<NoEntropy> for Refused {
    fn from(error: NoEntropy) -> Self {
        Self::NotCommitted(error.to_string())
    }
}

impl Service {
    /// Publishes transitions that the log does not have yet, and closes every intent that a crash left open.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: Config) -> Result<Self, StartError> {
        let workspace = config.workspace;
        durable::create_folder(&workspace)
            .map_err(|error| StartError::Workspace { path: workspace.clone(), error })?;
        let mut published = BTreeMap::new();
        for transition in config.transitions {
            let seq = publish(&config.ledger, transition)?;
            published.insert(transition.tool(), (seq, transition));
        }
        let context = Context { tool: config.program, policy_digest: handlers::policy_digest() };
        let inner = Inner {
            ledger: config.ledger,
            workspace,
            locks: config.locks,
            clock: config.clock,
            entropy: config.entropy,
            context,
            transitions: published,
            episodes: Mutex::new(BTreeMap::new()),
            flights: Mutex::new(BTreeSet::new()),
            previews: Mutex::new(approve::Previews::default()),
        };
        let service = Self { inner: Arc::new(inner) };
        service.recover_all()?;
        Ok(service)
    }

    /// The log behind it.
    pub fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    fn now(&self) -> u64 {
        self.inner.clock.now().wall_ms
    }

    /// Whoever has the data directory: they may read everything, and call no tool.
    pub fn operator(&self) -> Caller {
        Caller { id: Fixed([0; 16]), role: Role::Auditor, episode: None }
    }

    /// The caller that a token stands for. `token` is what came in the Authorization header after `Bearer `.
    ///
    /// # Errors
    /// [`Unauthenticated`].
    pub fn authenticate(&self, token: Option<&str>) -> Result<Caller, Unauthenticated> {
        let token = token.ok_or(Unauthenticated::Absent)?;
        if B32::from_hex(token).is_none() {
            return Err(Unauthenticated::Malformed);
        }
        let cred = credential(token);
        let now = self.now();
        self.inner.ledger.with_state(|state| {
            let (id, row) = state.session_by_cred(&cred).ok_or(Unauthenticated::Unknown)?;
            if row.revoked.is_some() {
                return Err(Unauthenticated::Revoked);
            }
            if now >= row.expires {
                return Err(Unauthenticated::Expired);
            }
            Ok(Caller { id, role: row.role, episode: row.episode.clone() })
        })
    }

    /// The tools that a caller may see, in the bytewise order of their names.
    pub fn tools(&self, caller: &Caller) -> Vec<&'static dyn Transition> {
        let (now, all) = (self.now(), self.inner.transitions.values());
        self.inner.ledger.with_state(|state| {
            let Some(session) = state.sessions.get(&caller.id) else { return Vec::new() };
            all.map(|(_, transition)| *transition)
                .filter(|transition| visible(session, *transition, now))
                .collect()
        })
    }

    /// Whether nothing that the tool's plans may ask for leaves anything behind.
    pub fn reads_only(&self, tool: &dyn Transition) -> bool {
        tool.declared().iter().all(|demand| READS.contains(&demand.effect))
    }

    fn slot(&self, episode: &EpisodeName) -> Arc<Slot> {
        let mut slots = self.inner.episodes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(episode.clone()).or_default())
    }
}

/// SHA-256 of the 64 characters of a token: what the log knows of it.
fn credential(token: &str) -> B32 {
    Fixed(sha256(token.as_bytes()))
}

/// A budget of nothing still shows the tool; calling it then says `denied:budget`.
fn visible(session: &SessionRow, transition: &dyn Transition, now: u64) -> bool {
    let access = transition.access();
    let fits = |grant: &crate::event::Grant| {
        grant.effect == access.effect && grant.scope == access.scope && now < grant.expires
    };
    session.role == Role::Agent && session.grants.iter().any(fits)
}

/// The seq of the event that publishes `transition` as it is now.
fn publish(ledger: &Ledger, transition: &dyn Transition) -> Result<u64, Refused> {
    let source = NewObject::new(None, transition.source().as_bytes().to_vec());
    let schema = NewObject::new(None, transition.input_schema().to_bytes());
    let body = crate::event::Transition {
        tool: transition.tool().to_owned(),
        access: demand(&transition.access()),
        engine: transition.engine().to_owned(),
        finish: transition.finish(),
        schema: Fixed(schema.hash()),
        source: Fixed(source.hash()),
        declared: transition.declared().iter().map(demand).collect(),
    };
    let current = ledger.with_state(|state| {
        let seq = *state.tools.get(&body.tool)?;
        let row = state.transitions.get(&seq)?;
        let same = (row.access == body.access)
            && row.engine == body.engine
            && row.finish == body.finish
            && row.schema == body.schema
            && row.source == body.source
            && row.declared == body.declared;
        same.then_some(seq)
    });
    if let Some(seq) = current {
        return Ok(seq);
    }
    let submission = Submission {
        drafts: vec![Draft::plain(None, body)],
        objects: vec![source, schema],
        keys: Vec::new(),
    };
    ledger.commit_blocking(submission).map(|committed| committed.first)
}

fn demand(demand: &Demand) -> crate::event::Demand {
    crate::event::Demand {
        effect: demand.effect.to_owned(),
        scope: demand.scope.to_owned(),
        cost: demand.cost,
    }
}
