//! The bodies of events, one struct a kind.
//!
//! Each struct is a CBOR map with exactly its fields, declared in the order of their encoded keys (shorter names first,
//! then by bytes): that is how they come out canonical. `spec/event.md` and `spec/event.cddl` say what each field means;
//! the scanner checks the order of every event we write.
//!
//! A field that points at another event holds that event's seq. While a submission is being prepared its seqs are not
//! known, so such a field may hold [`prior`] instead, which [`Body::resolve`] replaces; the encoder refuses it, because it
//! is no uint below 2^53.

use super::bytes::{B4, B16, B32, Blob, list};
use serde::{Deserialize, Serialize};

/// Marks a seq as the index of an earlier event of the same submission.
const PRIOR: u64 = 1 << 63;

/// A reference to the `index`-th event of the submission that is being prepared.
pub fn prior(index: u64) -> u64 {
    PRIOR | index
}

/// serde takes an absent `Option` for `None`; here null has to be written out.
fn nullable<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What a key signs.
    Use {
        /// Heads, as a note signature of type 0x01.
        Head = "head",
        /// Heads, as a cosignature of type 0x06.
        Cosign = "cosign",
        /// COSE receipts.
        Cose = "cose",
    }
}
words! {
    /// Signature algorithms.
    Alg {
        /// RFC 8032.
        Ed25519 = "ed25519",
        /// FIPS 204.
        MlDsa44 = "ml-dsa-44",
    }
}
words! {
    /// Why a key appears.
    KeyReason {
        /// One of the first three.
        Genesis = "genesis",
        /// The planned successor of another.
        Rotation = "rotation",
        /// The successor of a key that somebody else may hold.
        Compromise = "compromise",
    }
}
words! {
    /// What a session may do.
    Role {
        /// Calls tools in its episode.
        Agent = "agent",
        /// Reads everything.
        Auditor = "auditor",
        /// Approves and declines.
        Approver = "approver",
    }
}
words! {
    /// Why a session ended early.
    RevocationReason {
        /// The operator asked.
        Operator = "operator",
        /// The token may be known to somebody else.
        Compromise = "compromise",
    }
}
words! {
    /// The adapter through which a call came.
    Front {
        /// Model Context Protocol.
        Mcp = "mcp",
        /// The Agent to Agent protocol.
        A2a = "a2a",
        /// `pling.surface`.
        Surface = "surface",
        /// The operator's own act.
        Admin = "admin",
    }
}
words! {
    /// How an effect ended.
    Status {
        /// The handler answered; its answer may be a refusal.
        Ok = "ok",
        /// The handler could not do it.
        Failed = "failed",
        /// The broker did not let it run.
        Denied = "denied",
    }
}
words! {
    /// Why the broker did not let an effect run. The order is the order of the checks.
    Denial {
        /// No grant names the effect.
        EffectName = "denied:effect-name",
        /// No grant of the effect has this scope.
        Scope = "denied:scope",
        /// The grant has expired.
        Expired = "denied:expired",
        /// The grant's budget does not cover the cost.
        Budget = "denied:budget",
        /// The token that came with the call is not the token of this call.
        Token = "denied:token",
        /// The grant wants a person's approval.
        Approval = "denied:approval",
        /// A hook said no.
        Hook = "denied:hook",
        /// The same refused call, once too often.
        Loop = "denied:loop",
    }
}
words! {
    /// What became of an intent that no outcome followed in time.
    Verdict {
        /// The effect took place.
        Landed = "landed",
        /// It did not take place.
        NotHappened = "not-happened",
        /// It may have taken place.
        InDoubt = "in-doubt",
        /// It took place and is recorded, but the call did not commit.
        Unrecorded = "unrecorded",
    }
}
words! {
    /// What a closure rests on.
    Evidence {
        /// The disk shows what the effect was to leave.
        After = "after",
        /// The disk shows what stood there before, untouched.
        Before = "before",
        /// The disk shows something else.
        Other = "other",
        /// An effect of this name leaves nothing behind.
        Harmless = "harmless",
        /// A program ran, and nobody can tell how far.
        Run = "run",
        /// The effect's record.
        Record = "record",
        /// A person looked.
        Person = "person",
    }
}
words! {
    /// Who closed an intent.
    ClosedBy {
        /// Start-up after a crash.
        Recovery = "recovery",
        /// The call's deadline.
        Deadline = "deadline",
        /// A person.
        Operator = "operator",
    }
}
words! {
    /// What a person said to a call that asked.
    ApprovalVerdict {
        /// Yes, once.
        Approve = "approve",
        /// No.
        Decline = "decline",
        /// Nobody answered in time.
        Expire = "expire",
    }
}
words! {
    /// When a hook runs.
    HookPoint {
        /// Ahead of the intent.
        Before = "before",
        /// After the effect.
        After = "after",
    }
}
words! {
    /// What a hook said.
    HookVerdict {
        /// Go on.
        Pass = "pass",
        /// Stop.
        Block = "block",
    }
}
words! {
    /// Why payloads were removed.
    RedactionReason {
        /// They are about a person who asked.
        Person = "person",
        /// They hold a secret.
        Secret = "secret",
        /// An authority asked.
        Law = "law",
        /// The operator's own reason.
        Operator = "operator",
    }
}

/// A public key of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// First four bytes of a hash over name, type and key (`spec/log.md`).
    pub id: B4,
    /// Algorithm.
    pub alg: Alg,
    /// Proof of possession: a signature by the key itself.
    pub pop: Blob,
    /// The raw public key.
    #[serde(rename = "pub")]
    pub public: Blob,
    /// What it signs.
    #[serde(rename = "use")]
    pub usage: Use,
    /// First size of the log that it may sign.
    pub from: u64,
    /// Last size of the log that it may sign; null while it is in use.
    #[serde(deserialize_with = "nullable")]
    pub until: Option<u64>,
    /// Why it appears.
    pub reason: KeyReason,
}

/// The head of a log that this one continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predecessor {
    /// Its root at that size.
    pub root: B32,
    /// Its last size.
    pub size: u64,
    /// Its origin.
    pub origin: String,
}

/// The first event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// The three first keys: head, cosign, cose.
    #[serde(deserialize_with = "list")]
    pub keys: Vec<Key>,
    /// [`super::FORMAT`].
    pub format: String,
    /// Name of the log, for ever.
    pub origin: String,
    /// The log that this one continues.
    #[serde(deserialize_with = "nullable")]
    pub predecessor: Option<Predecessor>,
}

/// Effect, scope and cost. On the wire an array of these three.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(String, String, u64)", into = "(String, String, u64)")]
pub struct Demand {
    /// Name of the effect.
    pub effect: String,
    /// Where it may act.
    pub scope: String,
    /// Units of budget.
    pub cost: u64,
}

impl From<(String, String, u64)> for Demand {
    fn from((effect, scope, cost): (String, String, u64)) -> Self {
        Self { effect, scope, cost }
    }
}

impl From<Demand> for (String, String, u64) {
    fn from(demand: Demand) -> Self {
        (demand.effect, demand.scope, demand.cost)
    }
}

/// A transition, published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// The tool that it plans.
    pub tool: String,
    /// What a session must hold to see the tool.
    pub access: Demand,
    /// The engine that runs it.
    pub engine: String,
    /// Whether it reshapes the effect's output in a second pure run.
    pub finish: bool,
    /// SHA-256 of its input schema, an object without episode.
    pub schema: B32,
    /// SHA-256 of its source, an object without episode.
    pub source: B32,
    /// What its plans may ask for.
    #[serde(deserialize_with = "list")]
    pub declared: Vec<Demand>,
}

/// An episode begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    /// The commit that its worktree started from, as a bref.
    #[serde(deserialize_with = "nullable")]
    pub base_commit: Option<B32>,
}

/// What a session may spend. On the wire `[effect, scope, budget, expires, confirm]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, String, u64, u64, bool)", into = "(String, String, u64, u64, bool)")]
pub struct Grant {
    /// Name of the effect.
    pub effect: String,
    /// Where it may act.
    pub scope: String,
    /// Units that its episode may spend in all.
    pub budget: u64,
    /// Unix milliseconds from which it holds no more.
    pub expires: u64,
    /// Whether a person has to approve each call.
    pub confirm: bool,
}

impl From<(String, String, u64, u64, bool)> for Grant {
    fn from((effect, scope, budget, expires, confirm): (String, String, u64, u64, bool)) -> Self {
        Self { effect, scope, budget, expires, confirm }
    }
}

impl From<Grant> for (String, String, u64, u64, bool) {
    fn from(grant: Grant) -> Self {
        (grant.effect, grant.scope, grant.budget, grant.expires, grant.confirm)
    }
}

/// A session begins, or continues under another token, with other grants or another expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Its name for ever.
    pub id: B16,
    /// SHA-256 of the 64 characters of the token.
    pub cred: B32,
    /// What it may do.
    pub role: Role,
    /// A blinded label.
    #[serde(deserialize_with = "nullable")]
    pub label: Option<B32>,
    /// What it may spend.
    #[serde(deserialize_with = "list")]
    pub grants: Vec<Grant>,
    /// Unix milliseconds from which it is over.
    pub expires: u64,
}

/// A session ends early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Why.
    pub reason: RevocationReason,
    /// Which.
    pub session: B16,
}

/// New intents stop or go on, in one episode or (without one) everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freeze {
    /// Whether they stop.
    pub frozen: bool,
}

/// What a transition made of a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The plan object.
    pub plan: B32,
    /// Equal for equal plans of one episode.
    pub same: B16,
    /// The tool.
    pub tool: String,
    /// The client's own id for the call, blinded.
    #[serde(deserialize_with = "nullable")]
    pub claim: Option<B32>,
    /// The adapter.
    pub front: Front,
    /// The arguments.
    pub input: B32,
    /// The preview token that came with the call, blinded.
    #[serde(deserialize_with = "nullable")]
    pub token: Option<B32>,
    /// The session; null for front `admin`.
    #[serde(deserialize_with = "nullable")]
    pub session: Option<B16>,
    /// The transition's event; null for front `admin`.
    #[serde(deserialize_with = "nullable")]
    pub transition: Option<u64>,
}

/// A file that an intent is going to change: path token, content tokens before and after.
pub type FileChange = (B16, Option<B16>, Option<B16>);
/// A file as a session saw it: path token, content token.
pub type FileSeen = (B16, B16);

/// The broker lets an effect run. Durable before it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// Units reserved.
    pub cost: u64,
    /// The plan's event.
    pub plan: u64,
    /// The files that it will change.
    #[serde(deserialize_with = "list")]
    pub files: Vec<FileChange>,
    /// Index in the grants in force here; null for front `admin`.
    #[serde(deserialize_with = "nullable")]
    pub grant: Option<u64>,
    /// Where it may act.
    pub scope: String,
    /// What the grant's budget had left.
    pub before: u64,
    /// Name of the effect.
    pub effect: String,
    /// The request object.
    pub request: B32,
}

/// How an effect ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The plan's event.
    pub plan: u64,
    /// Content as this session now knows it.
    #[serde(deserialize_with = "list")]
    pub seen: Vec<FileSeen>,
    /// Units spent.
    pub charge: u64,
    /// Why it was denied.
    #[serde(deserialize_with = "nullable")]
    pub denial: Option<Denial>,
    /// The intent's event; null exactly when denied.
    #[serde(deserialize_with = "nullable")]
    pub intent: Option<u64>,
    /// The record object.
    pub record: B32,
    /// The handler's output.
    #[serde(deserialize_with = "nullable")]
    pub result: Option<B32>,
    /// How it ended.
    pub status: Status,
    /// Whether recovery wrote it.
    pub recovered: bool,
}

/// The call has an answer: one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The plan's event.
    pub plan: u64,
    /// Dense index of commits, from 0.
    pub entry: u64,
    /// The answer.
    pub output: B32,
    /// The outcome's event; null when the plan had no effect.
    #[serde(deserialize_with = "nullable")]
    pub outcome: Option<u64>,
    /// Whether the answer is a refusal or a denial.
    pub refused: bool,
}

/// An intent is settled without its handler's word, or a doubt is settled by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closure {
    /// Who closed it.
    pub by: ClosedBy,
    /// Units spent.
    pub charge: u64,
    /// The intent's event.
    pub intent: u64,
    /// The record object.
    pub record: B32,
    /// What became of it.
    pub verdict: Verdict,
    /// What the verdict rests on.
    pub evidence: Evidence,
}

/// A person answered a call that needs approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The approver's session; null for the operator.
    #[serde(deserialize_with = "nullable")]
    pub by: Option<B16>,
    /// The preview token, blinded.
    pub token: B32,
    /// Unix milliseconds until which the answer holds.
    pub until: u64,
    /// The session whose call it is.
    pub session: B16,
    /// The answer.
    pub verdict: ApprovalVerdict,
}

/// An operator's hook looked at a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// The hook's configured name, `[a-z0-9-]{1,32}`.
    pub name: String,
    /// The plan's event.
    pub plan: u64,
    /// When it ran.
    pub point: HookPoint,
    /// What it said.
    pub verdict: HookVerdict,
}

/// Payloads were removed. Hashes and proofs stay valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// The auditor or approver who asked; null for the operator.
    #[serde(deserialize_with = "nullable")]
    pub by: Option<B16>,
    /// The objects; null for all of the episode.
    #[serde(deserialize_with = "nullable")]
    pub refs: Option<Vec<B32>>,
    /// Why.
    pub reason: RedactionReason,
}

/// Fixes the state before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// Version of the fold that computed `state`.
    pub fold: u64,
    /// Its own seq: the number of events that it covers.
    pub size: u64,
    /// Root of the map of all rows of the state.
    pub state: B32,
    /// Root of the map of episodes.
    pub episodes: B32,
}

macro_rules! bodies {
    ($($kind:ident = $word:literal,)+) => {
        /// The body of an event; the kind is its tag.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant is the struct of the same name")]
        pub enum Body {
            $($kind($kind),)+
            /// A kind `x-[a-z0-9][a-z0-9-]{0,61}` that is not ours. It never changes state; its map stays as it came.
            Extension {
                /// The kind.
                kind: String,
                /// The encoded map.
                map: Vec<u8>,
            },
        }

        $(impl From<$kind> for Body {
            fn from(body: $kind) -> Self { Self::$kind(body) }
        })+

        impl Body {
            /// Every kind that this version knows, in the order of the specification.
            pub const KINDS: &'static [&'static str] = &[$($word,)+];

            /// The kind on the wire.
            pub fn kind(&self) -> &str {
                match self { $(Self::$kind(_) => $word,)+ Self::Extension { kind, .. } => kind }
            }

            /// Decodes the map of a body whose canonical form was checked; `None` for a kind that this version does not
            /// know.
            pub(super) fn decode(kind: &str, map: &[u8]) -> Option<Result<Self, super::BodyError>> {
                match kind {
                    $($word => Some(super::codec::from_map(map).map(Self::$kind)),)+
                    _ if super::check::is_extension(kind) => {
                        Some(Ok(Self::Extension { kind: kind.to_owned(), map: map.to_vec() }))
                    }
                    _ => None,
                }
            }

            /// The encoded map.
            pub(super) fn encode(&self) -> Result<Vec<u8>, super::BodyError> {
                match self {
                    $(Self::$kind(body) => super::codec::to_map(body),)+
                    Self::Extension { map, .. } => Ok(map.clone()),
                }
            }
        }
    };
}

bodies! {
    Genesis = "genesis",
    Key = "key",
    Transition = "transition",
    Episode = "episode",
    Session = "session",
    Revocation = "revocation",
    Freeze = "freeze",
    Plan = "plan",
    Intent = "intent",
    Outcome = "outcome",
    Commit = "commit",
    Closure = "closure",
    Approval = "approval",
    Hook = "hook",
    Redaction = "redaction",
    Seal = "seal",
}

impl Body {
    /// Replaces every [`prior`] reference by the seq that it stands for, where the submission starts at `first`.
    pub fn resolve(&mut self, first: u64) {
        let resolve = |seq: &mut u64| {
            if *seq & PRIOR != 0 {
                *seq = first + (*seq & !PRIOR);
            }
        };
        match self {
            Self::Intent(body) => resolve(&mut body.plan),
            Self::Outcome(body) => {
                resolve(&mut body.plan);
                body.intent.iter_mut().for_each(resolve);
            }
            Self::Commit(body) => {
                resolve(&mut body.plan);
                body.outcome.iter_mut().for_each(resolve);
            }
            Self::Closure(body) => resolve(&mut body.intent),
            Self::Hook(body) => resolve(&mut body.plan),
            Self::Plan(body) => body.transition.iter_mut().for_each(resolve),
            _ => {}
        }
    }

    /// The blinded references of the body, in the order of its fields on the wire.
    pub fn brefs(&self) -> Vec<B32> {
        match self {
            Self::Episode(body) => body.base_commit.into_iter().collect(),
            Self::Plan(body) => vec![body.plan, body.input],
            Self::Intent(body) => vec![body.request],
            Self::Outcome(body) => std::iter::once(body.record).chain(body.result).collect(),
            Self::Commit(body) => vec![body.output],
            Self::Closure(body) => vec![body.record],
            _ => Vec::new(),
        }
    }
}
