//! A call as a front hands it over, and what is known of one that has no answer.

use crate::canon::{Value, object};
use crate::event::Front;
use crate::ledger::Refused;
use crate::merkle::hash::Hash;
use std::collections::BTreeMap;

/// Characters of a client's own id for a call: enough for any UUID or hash, and it is hashed once a call.
const CLIENT_ID_BYTES_MAX: usize = 128;

/// A tool call, whichever front it came through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The adapter.
    pub front: Front,
    /// The tool's name.
    pub tool: String,
    /// The arguments.
    pub args: Value,
    /// The client's own id for the call, as its front scopes it. The same id with the same tool and arguments gets the same
    /// answer and no second run.
    pub claim: Option<String>,
    /// The preview token that came with it, as it was sent.
    pub token: Option<String>,
    /// Files as the caller expects them to stand: SHA-256, or `None` for absent.
    pub expect: BTreeMap<String, Option<Hash>>,
    /// SHA-256 of the transition's source that the caller relies on.
    pub pin: Option<Hash>,
}

impl Call {
    /// A call with nothing beside its arguments.
    pub fn new(front: Front, tool: &str, args: Value) -> Self {
        let tool = tool.to_owned();
        Self { front, tool, args, claim: None, token: None, expect: BTreeMap::new(), pin: None }
    }
}

/// Whether `id` may be a client's own id for a call: 1 to 128 of `[A-Za-z0-9._:-]`.
pub fn is_client_id(id: &str) -> bool {
    let admitted = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=CLIENT_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(admitted)
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It has its episode to itself, and a plan.
    Planned,
    /// Its intent is durable; the effect runs.
    Recorded,
    /// The effect has ended; outcome and commit are on their way.
    Ran,
}

impl Phase {
    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Recorded => "recorded",
            Self::Ran => "ran",
        }
    }
}

/// Is told each phase as it is reached, on the call's own task: it must not wait.
pub type Progress = Box<dyn Fn(Phase) + Send + Sync>;

/// Why there is no committed answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No tool of that name that the caller may see.
    #[error("unknown tool {0:?}")]
    UnknownTool(String),
    /// The tool's transition is not the one that the caller pinned.
    #[error("the proposal does not match the registered transition")]
    OtherTransition,
    /// A call with this client id is under way.
    #[error("a call with this id is under way")]
    ClaimInFlight,
    /// The client id belongs to another tool or other arguments.
    #[error("this id was used for another call")]
    ClaimTaken,
    /// The session holds as many client ids as it may.
    #[error("the session holds as many ids of calls as it may")]
    ClaimsFull,
    /// No effect ran. With [`Refused::Unknown`] a refusal by the plan may turn out to be committed.
    #[error("not committed, and no effect ran: {0}")]
    NotCommitted(Refused),
    /// The episode takes no calls: its payloads are gone, or an operator stopped it.
    #[error("not committed, and nothing ran: {0}")]
    Closed(&'static str),
    /// Too many calls wait for the episode.
    #[error("not committed, and nothing ran: too many calls of the episode wait")]
    Crowded,
    /// Another call of the episode ran until the deadline.
    #[error("not committed, and nothing ran: another call of the episode ran until the deadline")]
    Waited,
    /// The transition broke a rule of plans.
    #[error("not committed, and nothing ran: {0}")]
    Transition(String),
    /// The plan took longer than it may.
    #[error("not committed, and nothing ran: the plan phase exceeded its deadline")]
    PlanTimedOut,
    /// The effect was stopped before its point of no return, and the log says so.
    #[error("not committed: the effect was stopped before it changed anything; record: {record}")]
    Stopped {
        /// 32 hexadecimal digits.
        invocation: String,
        /// Name of the closure's record.
        record: String,
        /// Whether its deadline stopped it, and not an operator.
        late: bool,
    },
    /// The deadline passed. The call goes on, and its receipt will tell.
    #[error("the deadline passed; the call may still commit: look for invocation {invocation}")]
    TimedOut {
        /// 32 hexadecimal digits.
        invocation: String,
    },
    /// The effect ran or may have run, and the call is not confirmed committed.
    #[error(
        "effects were requested but the invocation was not confirmed committed; effect records: {}",
        names(records)
    )]
    Unconfirmed {
        /// 32 hexadecimal digits.
        invocation: String,
        /// Names of the records that tell of it.
        records: Vec<String>,
    },
}

/// `none`, or the names with spaces between.
fn names(records: &[String]) -> String {
    if records.is_empty() { "none".to_owned() } else { records.join(" ") }
}

/// What is known of a call that has no answer, for a program to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// How far it got: `admission`, `plan`, `intent`, `effect` or `commit`.
    pub phase: &'static str,
    /// 32 hexadecimal digits, where it has a name that can be looked up.
    pub invocation: Option<String>,
    /// Names of records that tell of it.
    pub records: Vec<String>,
    /// Whether sending it again can do no harm.
    pub safe_to_repeat: bool,
    /// What to do next.
    pub advice: String,
}

impl Fate {
    /// `{"phase","invocation"?,"records","safe_to_repeat","advice"}`.
    pub fn to_value(&self) -> Value {
        let records = self.records.iter().map(|name| Value::from(name.as_str())).collect();
        let mut value = object([
            ("advice", self.advice.as_str().into()),
            ("phase", self.phase.into()),
            ("records", Value::Array(records)),
            ("safe_to_repeat", self.safe_to_repeat.into()),
        ]);
        if let (Value::Object(members), Some(invocation)) = (&mut value, &self.invocation) {
            members.insert("invocation".to_owned(), invocation.as_str().into());
        }
        value
    }
}

impl CallError {
    /// What a client may do. The cause itself stays with the operator, because it may name paths of the host.
    pub fn fate(&self) -> Fate {
        let nothing_ran = |phase, then: &str| Fate {
            phase,
            invocation: None,
            records: Vec::new(),
            safe_to_repeat: true,
            advice: format!("nothing ran and nothing was spent{then}"),
        };
        match self {
            Self::UnknownTool(_) => nothing_ran("admission", ": list the tools that you may call"),
            Self::OtherTransition => {
                nothing_ran("admission", ": the tool's code is not the one you pinned; look at it, and drop or change the pin")
            }
            Self::ClaimInFlight => Fate {
                safe_to_repeat: false,
                ..nothing_ran("admission", " by this copy: the call with this id is under way; send it again later for its answer")
            },
            Self::ClaimTaken => {
                nothing_ran("admission", ": the id belongs to another call of this session; take a new one")
            }
            Self::ClaimsFull => nothing_ran(
                "admission",
                ": the session holds as many ids of calls as it may; have your operator begin another one",
            ),
            Self::Closed(reason) => nothing_ran("admission", &format!(": {reason}")),
            Self::Crowded => {
                nothing_ran("admission", ": too many calls of the episode wait; send it again in a second")
            }
            Self::Waited => nothing_ran(
                "admission",
                ": another call of the episode ran until the deadline; send it again",
            ),
            Self::Transition(_) => {
                nothing_ran("plan", ", but the same call will fail again: tell your operator")
            }
            Self::PlanTimedOut => {
                nothing_ran("plan", ": the plan took too long; send it again once, then tell your operator")
            }
            // Without a durable intent no effect runs, but a refusal by the plan may turn out to be committed.
            Self::NotCommitted(refused @ Refused::Unknown(_)) => Fate {
                safe_to_repeat: false,
                advice: format!("no effect ran; {}", next_step(refused)),
                ..nothing_ran("intent", "")
            },
            Self::NotCommitted(refused) => nothing_ran("intent", &format!("; {}", next_step(refused))),
            Self::Stopped { invocation, record, .. } => Fate {
                invocation: Some(invocation.clone()),
                records: vec![record.clone()],
                advice: "the effect was stopped at its deadline before it changed anything, and nothing was spent: send it again, or ask for less".to_owned(),
                ..nothing_ran("effect", "")
            },
            Self::TimedOut { invocation } => unsure(
                "effect",
                invocation,
                Vec::new(),
                "the call may still commit",
            ),
            Self::Unconfirmed { invocation, records } => unsure(
                "commit",
                invocation,
                records.clone(),
                "the effect may have run and was charged",
            ),
        }
    }
}

fn unsure(phase: &'static str, invocation: &str, records: Vec<String>, what: &str) -> Fate {
    Fate {
        phase,
        invocation: Some(invocation.to_owned()),
        records,
        safe_to_repeat: false,
        advice: format!(
            "{what}: GET /v1/receipts/{invocation}, and read what it was to change before you repeat it"
        ),
    }
}

fn next_step(refused: &Refused) -> &'static str {
    match refused {
        Refused::Busy | Refused::Changed(_) => "wait a second and send it again",
        Refused::NoSpace { .. } => {
            "the disk is nearly full: tell your operator before you send it again"
        }
        Refused::Quota { .. } => {
            "the episode has stored what it may: your operator has to begin a new one"
        }
        Refused::Clock { .. } => {
            "the server's clock is not believed: tell your operator before you send it again"
        }
        Refused::NotCommitted(_) => {
            "the store refused it: send it again, and tell your operator if it stays so"
        }
        Refused::Unknown(_) => {
            "the server has to start again first: look into the log before you send it again"
        }
        Refused::Malformed(_) => "the same call will fail again: tell your operator",
    }
}

#[cfg(test)]
mod tests {
    //! Here, because most of these cannot be brought about from outside.

    use super::*;

    /// Phase, whether it is safe to repeat.
    fn told(error: &CallError) -> (&'static str, bool) {
        let fate = error.fate();
        assert!(!fate.advice.is_empty());
        (fate.phase, fate.safe_to_repeat)
    }

    #[test]
    fn only_what_never_began_is_safe_to_repeat() {
        let invocation = "0f".repeat(16);
        let record = format!("sha256:{}", "0e".repeat(32));
        assert_eq!(
            told(&CallError::TimedOut { invocation: invocation.clone() }),
            ("effect", false)
        );
        assert_eq!(told(&CallError::Waited), ("admission", true));
        assert_eq!(told(&CallError::Crowded), ("admission", true));
        assert_eq!(told(&CallError::ClaimInFlight), ("admission", false));
        assert_eq!(told(&CallError::PlanTimedOut), ("plan", true));
        let lost = CallError::Unconfirmed {
            invocation: invocation.clone(),
            records: vec![record.clone()],
        };
        assert_eq!(told(&lost), ("commit", false));
        assert_eq!(lost.fate().records, std::slice::from_ref(&record));
        assert!(lost.to_string().ends_with(&format!("effect records: {record}")), "{lost}");
        let none = CallError::Unconfirmed { invocation: invocation.clone(), records: Vec::new() };
        assert!(none.to_string().ends_with("effect records: none"), "{none}");
        assert_eq!(told(&CallError::Stopped { invocation, record, late: true }), ("effect", true));
        assert_eq!(told(&CallError::Closed("stopped")), ("admission", true));
        assert_eq!(told(&CallError::Transition("L3".to_owned())), ("plan", true));
        assert_eq!(told(&CallError::NotCommitted(Refused::Busy)), ("intent", true));
        let unknown = Refused::Unknown("halted".to_owned());
        assert_eq!(told(&CallError::NotCommitted(unknown)), ("intent", false));
    }

    #[test]
    fn no_cause_that_may_name_a_path_of_the_host_leaves() {
        let cause = "/srv/secret/place".to_owned();
        let errors = [
            CallError::Transition(cause.clone()),
            CallError::NotCommitted(Refused::NotCommitted(cause.clone())),
            CallError::NotCommitted(Refused::Unknown(cause.clone())),
            CallError::NotCommitted(Refused::Malformed(cause)),
        ];
        for error in &errors {
            let told = error.fate().to_value().to_bytes();
            assert!(!String::from_utf8_lossy(&told).contains("/srv"), "{error}");
        }
    }

    #[test]
    fn ids_of_clients() {
        assert!(is_client_id("a") && is_client_id("A9._:-") && is_client_id(&"x".repeat(128)));
        assert!(!is_client_id("") && !is_client_id(&"x".repeat(129)) && !is_client_id("a/b"));
    }
}
