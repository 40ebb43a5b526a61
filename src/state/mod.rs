//! The state: a fold over the events, `State + Event -> State` (`spec/state.md`).
//!
//! Everything that the server decides on is in it, and nothing else: no clock, no I/O, no order but that of keys. The
//! same two functions serve the one who writes and the one who audits: [`State::check`] says whether an event is lawful
//! here, [`State::apply`] folds it. The ledger checks each event with the seq and time that it is about to write, so a
//! decision that no longer holds is found there; the verifier reports what the same check finds.
//!
//! What it does not do: verify the tree and its signatures, open blinded references, or look at objects.

mod apply;
mod check;
mod rows;
mod table;

pub use check::Unlawful;
pub use rows::*;
pub use table::Table;

use crate::event::{B4, B16, B32, BodyError, EpisodeName, NO_PREV, from_cbor, to_cbor};
use crate::merkle::hash::Hash;
use crate::merkle::map::Map;

/// Version of the fold. It rises with every change that gives some log another state; a test watches the sources.
pub const FOLD: u64 = 1;

/// Milliseconds after a session's expiry at which its claims, tokens and seen files are dropped.
const FORGET_AFTER_MS: u64 = 24 * 60 * 60 * 1000;
/// Claims that one live session may hold: at 100 bytes a row, 10 MB.
pub const CLAIMS_MAX: u64 = 100_000;

/// Where the fold stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Seq of the next event: the number of events folded.
    pub seq: u64,
    /// Leaf hash of the last event.
    pub leaf: Hash,
    /// Time of the last event.
    pub at: u64,
}

macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident: $name:literal $key:ty => $row:ty,)+) => {
        /// The state at one position of the log.
        #[derive(Debug, Clone)]
        pub struct State {
            position: Position,
            /// Ends of the episodes' chains, fixed by the map of episodes.
            pub chains: Table<EpisodeName, ChainRow>,
            $($(#[$doc])* pub $field: Table<$key, $row>,)+
            digest: Map,
            episodes: Map,
        }

        /// A point to which [`State::undo`] can go back.
        #[derive(Debug, Clone)]
        pub struct Mark {
            position: Position,
            chains: usize,
            $($field: usize,)+
        }

        impl State {
            /// The state before the first event.
            pub fn new() -> Self {
                Self {
                    position: Position { seq: 0, leaf: NO_PREV, at: 0 },
                    chains: Table::new("chain"),
                    $($field: Table::new($name),)+
                    digest: Map::new(),
                    episodes: Map::new(),
                }
            }

            /// A point to go back to.
            pub fn mark(&self) -> Mark {
                Mark {
                    position: self.position,
                    chains: self.chains.mark(),
                    $($field: self.$field.mark(),)+
                }
            }

            /// Takes back everything since `mark`. Marks made after it are void.
            pub fn undo(&mut self, mark: &Mark) {
                self.position = mark.position;
                self.chains.undo(mark.chains);
                $(self.$field.undo(mark.$field);)+
            }

            /// Forgets how to go back: what was folded is durable. All marks are void.
            pub fn settle(&mut self) {
                self.chains.settle();
                $(self.$field.settle();)+
            }

            /// Root of the map of all rows.
            ///
            /// # Errors
            /// [`BodyError`] when a row cannot be encoded, which no row that an event made does.
            pub fn digest(&mut self) -> Result<Hash, BodyError> {
                let mut map = std::mem::take(&mut self.digest);
                $(self.$field.digest(&mut map)?;)+
                self.digest = map;
                Ok(self.digest.root())
            }

            /// The rows for a snapshot, one encoded table after another.
            ///
            /// # Errors
            /// As [`State::digest`].
            pub fn dump(&self) -> Result<Vec<(String, Vec<u8>)>, BodyError> {
                Ok(vec![
                    ("chain".to_owned(), self.chains.dump()?),
                    $(($name.to_owned(), self.$field.dump()?),)+
                ])
            }

            /// The state that a dump describes. The caller compares [`State::digest`] with what it trusts.
            ///
            /// # Errors
            /// [`BodyError`] when a table is missing or malformed.
            pub fn load(position: Position, tables: &[(String, Vec<u8>)]) -> Result<Self, BodyError> {
                let find = |name: &str| {
                    let table = tables.iter().find(|(table, _)| table == name);
                    let missing = || BodyError { reason: format!("table `{name}` is missing") };
                    table.map(|(_, bytes)| bytes.as_slice()).ok_or_else(missing)
                };
                let mut state = Self::new();
                state.position = position;
                state.chains.load(find("chain")?)?;
                $(state.$field.load(find($name)?)?;)+
                Ok(state)
            }

            /// Rows, as JSON-ready pairs of encoded key and row, table by table.
            ///
            /// # Errors
            /// As [`State::digest`].
            pub fn rows(&self) -> Result<Vec<(&'static str, Vec<u8>, Vec<u8>)>, BodyError> {
                let mut rows = Vec::new();
                $(for (key, row) in self.$field.iter() {
                    rows.push(($name, to_cbor(key)?, to_cbor(row)?));
                })+
                Ok(rows)
            }
        }
    };
}

tables! {
    /// What there is once.
    log: "log" () => LogRow,
    /// Keys by id.
    keys: "key" B4 => KeyRow,
    /// Transitions by the seq that published them.
    transitions: "transition" u64 => TransitionRow,
    /// The newest transition of each tool.
    tools: "tool" String => u64,
    /// Episodes.
    episodes_by_name: "episode" EpisodeName => EpisodeRow,
    /// Sessions by id.
    sessions: "session" B16 => SessionRow,
    /// Sessions by SHA-256 of their token.
    creds: "cred" B32 => B16,
    /// Sessions whose claims are still held, by expiry.
    expiries: "expiry" (u64, B16) => bool,
    /// Spending by episode, effect and scope.
    spending: "spent" (EpisodeName, String, String) => SpentRow,
    /// Open calls by their plan's seq.
    calls: "call" u64 => CallRow,
    /// Plan's seq by the seq of an open intent.
    intents: "intent" u64 => u64,
    /// Calls closed in doubt, by the intent's seq.
    doubts: "doubt" u64 => DoubtRow,
    /// Claims by session and claim.
    claims: "claim" (B16, B32) => ClaimRow,
    /// Used preview tokens by session and token.
    tokens: "token" (B16, B32) => ClaimRow,
    /// Intents of a session by `same`.
    uses: "use" (B16, B16) => u64,
    /// Runs of equal commits by session.
    runs: "run" B16 => RunRow,
    /// Approvals by session and token.
    approvals: "approval" (B16, B32) => ApprovalRow,
    /// Content token by session and path token.
    seen: "seen" (B16, B16) => B16,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Where the fold stands.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Root of the map of episodes.
    ///
    /// # Errors
    /// As [`State::digest`].
    pub fn episodes_root(&mut self) -> Result<Hash, BodyError> {
        Ok(self.episodes_map()?.root())
    }

    /// The map of episodes: SHA-256(name) to SHA-256(n || last leaf hash).
    ///
    /// # Errors
    /// As [`State::digest`].
    pub fn episodes_map(&mut self) -> Result<&mut Map, BodyError> {
        self.chains.map_values(&mut self.episodes);
        Ok(&mut self.episodes)
    }

    /// Commits so far.
    pub fn entries(&self) -> u64 {
        self.log.get(&()).map_or(0, |row| row.entries)
    }

    /// Name of the log; empty before genesis.
    pub fn origin(&self) -> &str {
        self.log.get(&()).map_or("", |row| &row.origin)
    }

    /// What `episode` has charged and reserved for one effect in one scope.
    pub fn spent(&self, episode: &EpisodeName, effect: &str, scope: &str) -> SpentRow {
        let key = (episode.clone(), effect.to_owned(), scope.to_owned());
        self.spending.get(&key).copied().unwrap_or_default()
    }

    /// The session that a token's hash names.
    pub fn session_by_cred(&self, cred: &B32) -> Option<(B16, &SessionRow)> {
        let id = self.creds.get(cred)?;
        self.sessions.get(id).map(|row| (*id, row))
    }

    /// Whether new intents are stopped in `episode`, here or everywhere.
    pub fn frozen(&self, episode: &EpisodeName) -> bool {
        self.log.get(&()).is_some_and(|row| row.frozen)
            || self.episodes_by_name.get(episode).is_some_and(|row| row.frozen)
    }
}

/// A stored picture of the state. Never trusted: a reader compares the leaf hash with the log and the digest with the
/// rows.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Snapshot {
    /// Number of events folded.
    pub seq: u64,
    /// Version of the fold.
    pub fold: u64,
    /// Leaf hash of the last event.
    pub leaf: B32,
    /// Time of the last event.
    pub time: u64,
    /// Root of the map of rows.
    pub digest: B32,
    /// Each table's name and encoded rows.
    pub tables: Vec<(String, crate::event::Blob)>,
}

impl Snapshot {
    /// A picture of `state`.
    ///
    /// # Errors
    /// As [`State::digest`].
    pub fn take(state: &mut State) -> Result<Vec<u8>, BodyError> {
        let position = state.position;
        let digest = state.digest()?.into();
        let blob = |(name, bytes)| (name, crate::event::Blob(bytes));
        to_cbor(&Self {
            seq: position.seq,
            fold: FOLD,
            leaf: position.leaf.into(),
            time: position.at,
            digest,
            tables: state.dump()?.into_iter().map(blob).collect(),
        })
    }

    /// Parses a picture without believing it.
    ///
    /// # Errors
    /// [`BodyError`] when the bytes are malformed.
    pub fn parse(bytes: &[u8]) -> Result<Self, BodyError> {
        from_cbor(bytes)
    }

    /// The state, if this fold made it and the rows have the digest that they claim.
    ///
    /// # Errors
    /// [`BodyError`], saying which comparison failed.
    pub fn restore(&self) -> Result<State, BodyError> {
        let refuse = |reason: &str| Err(BodyError { reason: reason.to_owned() });
        if self.fold != FOLD {
            return refuse("another fold made it");
        }
        let position = Position { seq: self.seq, leaf: self.leaf.0, at: self.time };
        let tables: Vec<_> = self.tables.iter().map(|(n, b)| (n.clone(), b.0.clone())).collect();
        let mut state = State::load(position, &tables)?;
        if state.digest()? != self.digest.0 {
            return refuse("its rows do not have its digest");
        }
        Ok(state)
    }
}
