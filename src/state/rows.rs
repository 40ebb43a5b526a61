//! The rows of the state, as the digest hashes them (`spec/state.md`).
//!
//! Like event bodies they are CBOR maps whose fields stand in canonical order.

use crate::event::{
    Alg, ApprovalVerdict, B16, B32, Blob, Demand, EpisodeName, Front, Grant, RevocationReason,
    Role, Use, Verdict,
};
use crate::merkle::hash::Hash;
use serde::{Deserialize, Serialize};

/// What there is once in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRow {
    /// Whether new intents stop everywhere.
    pub frozen: bool,
    /// Name of the log.
    pub origin: String,
    /// Commits so far.
    pub entries: u64,
}

/// A key of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRow {
    /// Algorithm.
    pub alg: Alg,
    /// The raw public key.
    #[serde(rename = "pub")]
    pub public: Blob,
    /// What it signs.
    #[serde(rename = "use")]
    pub usage: Use,
    /// First size that it may sign.
    pub from: u64,
    /// Last size that it may sign.
    pub until: Option<u64>,
}

/// A published transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionRow {
    /// The tool that it plans.
    pub tool: String,
    /// What a session must hold to see the tool.
    pub access: Demand,
    /// The engine that runs it.
    pub engine: String,
    /// Whether it has a second pure run.
    pub finish: bool,
    /// SHA-256 of its input schema.
    pub schema: B32,
    /// SHA-256 of its source.
    pub source: B32,
    /// What its plans may ask for.
    pub declared: Vec<Demand>,
}

/// An episode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeRow {
    /// Whether new intents stop here.
    pub frozen: bool,
    /// Whether its payloads are gone.
    pub redacted: bool,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// SHA-256 of the token's characters.
    pub cred: B32,
    /// What it may do.
    pub role: Role,
    /// Claims that it holds.
    pub claims: u64,
    /// What it may spend.
    pub grants: Vec<Grant>,
    /// Its episode; null for auditors and approvers.
    pub episode: Option<EpisodeName>,
    /// Unix milliseconds from which it is over.
    pub expires: u64,
    /// Why it ended early.
    pub revoked: Option<RevocationReason>,
}

/// What an episode spent on one effect in one scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentRow {
    /// By outcomes and closures.
    pub charged: u64,
    /// By intents that neither has followed.
    pub reserved: u64,
}

/// A call that has a plan and no end yet, by the plan's seq.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRow {
    /// The invocation.
    pub inv: B16,
    /// Equal for equal plans.
    pub same: B16,
    /// The tool.
    pub tool: String,
    /// The client's own id, blinded.
    pub claim: Option<B32>,
    /// The adapter.
    pub front: Front,
    /// The preview token, blinded.
    pub token: Option<B32>,
    /// Its intent.
    pub intent: Option<IntentRow>,
    /// Its episode.
    pub episode: EpisodeName,
    /// Seq of its outcome.
    pub outcome: Option<u64>,
    /// Its session.
    pub session: Option<B16>,
    /// Its transition.
    pub transition: Option<u64>,
}

/// The intent of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentRow {
    /// Its event.
    pub seq: u64,
    /// Units reserved.
    pub cost: u64,
    /// Where it acts.
    pub scope: String,
    /// Units charged by its last outcome or closure; null while they are reserved.
    pub charge: Option<u64>,
    /// Verdict of its last closure.
    pub closed: Option<Verdict>,
    /// Name of the effect.
    pub effect: String,
}

/// A call closed in doubt, by its intent's seq.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoubtRow {
    /// The call as it stood.
    pub call: CallRow,
    /// The plan's seq.
    pub plan: u64,
}

/// What became of a claim or a token: null while its call is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// The plan's seq.
    pub plan: u64,
    /// The commit's seq, when there is one.
    pub commit: Option<u64>,
    /// The closure's seq, when it ended in-doubt or unrecorded.
    pub closure: Option<u64>,
}

/// How often a session committed the same in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Of the last commit.
    pub same: B16,
    /// Commits in a row that equal it in `same` and `refused`.
    pub count: u64,
    /// Of the last commit.
    pub refused: bool,
}

/// A person's answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// Whether an intent used it.
    pub used: bool,
    /// Unix milliseconds until which it holds.
    pub until: u64,
    /// The answer.
    pub verdict: ApprovalVerdict,
}

/// The end of an episode's chain. Not part of the digest: the map of episodes fixes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainRow {
    /// Events of the episode.
    pub n: u64,
    /// Leaf hash of the last.
    pub last: B32,
}

impl ChainRow {
    /// The value in the map of episodes: SHA-256(n as 8 bytes, big-endian || last leaf hash).
    pub fn value(&self) -> Hash {
        crate::merkle::hash::sha256_parts(&[&self.n.to_be_bytes(), &self.last.0])
    }
}
