//! What a committed call answers: the tool's output with its `world` block, a receipt, and a sentence on what to do next.

use crate::canon::{Value, object};
use crate::event::{Denial, Status, hex};
use crate::handlers::{Done, Status as HandlerStatus};
use crate::ledger::NewObject;
use crate::merkle::hash::Hash;
use std::sync::Arc;

/// Where a call is in the log. A function of the commit alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptView {
    /// 32 hexadecimal digits.
    pub invocation: String,
    /// Entry index.
    pub entry: u64,
    /// Seq of the commit.
    pub leaf: u64,
    /// Leaf hash of the commit.
    pub leaf_hash: Hash,
    /// Name of the output.
    pub output: String,
    /// Why the effect was denied.
    pub denial: Option<Denial>,
    /// Whether recovery completed the call.
    pub recovered: bool,
}

impl ReceiptView {
    /// `{"invocation","entry","leaf","leaf_hash","size","output","denial"?,"recovered"?}`.
    pub fn to_value(&self) -> Value {
        let mut value = object([
            ("invocation", self.invocation.as_str().into()),
            ("entry", self.entry.into()),
            ("leaf", self.leaf.into()),
            ("leaf_hash", hex(&self.leaf_hash).into()),
            ("size", (self.leaf + 1).into()),
            ("output", self.output.as_str().into()),
        ]);
        if let Value::Object(members) = &mut value {
            if let Some(denial) = self.denial {
                members.insert("denial".to_owned(), denial.as_str().into());
            }
            if self.recovered {
                members.insert("recovered".to_owned(), true.into());
            }
        }
        value
    }
}

/// A committed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The tool's output with the `world` block: the bytes of the object that the commit names.
    pub output: Arc<Vec<u8>>,
    /// Why it is no success and what to do next; `None` for a success.
    pub problem: Option<String>,
    /// Where it is in the log.
    pub receipt: ReceiptView,
}

/// A tool's own output with the `world` block.
pub(super) fn compose(own: Value, effects: Vec<Value>, plan: &str) -> Value {
    let mut members = match own {
        Value::Object(members) => members,
        _ => std::collections::BTreeMap::new(),
    };
    let world = object([("effects", Value::Array(effects)), ("plan", plan.into())]);
    members.insert("world".to_owned(), world);
    Value::Object(members)
}

pub(super) fn effect_value(id: &str, status: Status, record: &NewObject) -> Value {
    object([
        ("id", id.into()),
        ("record", record.reference().into()),
        ("status", status.as_str().into()),
    ])
}

pub(super) fn problem_of(done: &Done) -> Option<String> {
    if let HandlerStatus::Failed(failure) = &done.status {
        return Some(format!(
            "{failure}. The handler failed and one unit was spent; look at what is there before you repeat it."
        ));
    }
    let refused = done.output.get("ok").and_then(Value::as_bool) == Some(false);
    let text =
        done.output.get("refused").and_then(Value::as_str).unwrap_or("the operation was refused");
    refused.then(|| format!("{text}. The effect ran, changed nothing, and one unit was spent."))
}

/// What an agent should do about a denial.
pub(super) fn advice(denial: Denial, effect: &str) -> String {
    let next = match denial {
        Denial::EffectName | Denial::Scope => {
            "this session may not use it here; ask your operator for a grant"
        }
        Denial::Expired => "the grant is over; ask your operator to extend the session",
        Denial::Budget => {
            "its budget is spent; stop calling tools that need it and tell your operator"
        }
        Denial::Token => "the token is not the token of this call; ask for a new preview",
        Denial::Approval => {
            "a person has to approve this call first; send it again with the token after that"
        }
        Denial::Hook => "a hook of the operator said no; do something else",
        Denial::Loop => {
            "the same call was refused again and again; change it, or ask your operator"
        }
    };
    format!("{denial}: {effect} did not run and nothing was spent; {next}.")
}
