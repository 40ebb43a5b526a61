//! What a committed call answers: the tool's output with its `world` block, a receipt, and a sentence on what to do next.

use crate::canon::{Value, object};
use crate::event::{B16, Denial, Status, hex};
use crate::ledger::{Committed, NewObject};
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

/// A committed answer. Sent again under the same client id, a call gets an equal one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The tool's output with the `world` block: the bytes of the object that the commit names.
    pub output: Arc<Vec<u8>>,
    /// Why it is no success and what to do next; `None` for a success.
    pub problem: Option<String>,
    /// Where it is in the log.
    pub receipt: ReceiptView,
    /// Unix milliseconds of the commit.
    pub at: u64,
    /// What to send the same call with once a person has approved it.
    pub token: Option<String>,
}

/// An answer before it is committed.
pub(super) struct Reply {
    pub(super) output: NewObject,
    pub(super) problem: Option<String>,
}

impl Answer {
    /// The answer whose commit is the last event of what was committed.
    pub(super) fn of(inv: B16, committed: &Committed, reply: &Reply) -> Self {
        let receipt = ReceiptView {
            invocation: inv.to_string(),
            entry: committed.entry.unwrap_or(0),
            leaf: (committed.first + committed.leaves.len() as u64).saturating_sub(1),
            leaf_hash: committed.leaves.last().copied().unwrap_or_default(),
            output: reply.output.reference(),
            denial: None,
            recovered: false,
        };
        Self {
            output: Arc::clone(reply.output.bytes()),
            problem: reply.problem.clone(),
            receipt,
            at: committed.at,
            token: None,
        }
    }
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

/// What an answer says beside its output, from what is stored of it: the record of its effect, and its output. Whoever
/// sends a call again gets the sentence that it got at first.
pub(super) fn problem(record: Option<&Value>, output: &Value) -> Option<String> {
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let refused = text(output, "refused");
    let Some(record) = record else {
        return refused.map(|text| {
            format!(
                "{text}. Nothing ran and nothing was spent: change the argument and call again."
            )
        });
    };
    let cost = |name: &str| record.get(name).and_then(Value::as_u64).unwrap_or(0);
    let spent = match cost("budgetBefore").saturating_sub(cost("budgetAfter")) {
        1 => "one unit was spent".to_owned(),
        units => format!("{units} units were spent"),
    };
    if let Some(denial) = text(record, "denial") {
        let effect = text(record, "effect").unwrap_or_default();
        return Some(format!(
            "{denial}: {effect} did not run and nothing was spent; {}.",
            advice(&denial, record)
        ));
    }
    if let Some(failure) = text(record, "failure") {
        return Some(format!(
            "{failure}. The handler failed and {spent}; look at what is there before you repeat it."
        ));
    }
    let no = output.get("ok").and_then(Value::as_bool) == Some(false);
    no.then(|| {
        let why = refused.unwrap_or_else(|| "the operation was refused".to_owned());
        format!("{why}. The effect ran, changed nothing, and {spent}.")
    })
}

/// What an agent should do about a denial.
fn advice(denial: &str, record: &Value) -> String {
    let all = [
        Denial::EffectName,
        Denial::Scope,
        Denial::Expired,
        Denial::Budget,
        Denial::Token,
        Denial::Approval,
        Denial::Hook,
        Denial::Loop,
    ];
    let next = match all.into_iter().find(|known| known.as_str() == denial) {
        None | Some(Denial::EffectName | Denial::Scope) => {
            "this session may not use it here; ask your operator for a grant"
        }
        Some(Denial::Expired) => "the grant is over; ask your operator to extend the session",
        Some(Denial::Budget) => {
            "its budget is spent; stop calling tools that need it and tell your operator"
        }
        Some(Denial::Token) => {
            "the token is not the token of this call as things are now; ask for a new preview"
        }
        Some(Denial::Approval) => {
            let token = record.get("evidence").and_then(|evidence| evidence.get("token"));
            let token = token.and_then(Value::as_str).unwrap_or("of its preview");
            return format!(
                "a person has to approve this call: have your operator run `worldlog approve {token}`, and then send it \
                 again with this token and under a new id"
            );
        }
        Some(Denial::Hook) => "a hook of the operator said no; do something else",
        Some(Denial::Loop) => {
            "the same call was refused again and again; change it, or ask your operator"
        }
    };
    next.to_owned()
}

/// The token that a call which waits for approval has to come back with, from the record of its denial.
pub(super) fn token_of(record: &Value) -> Option<String> {
    let token = record.get("evidence").and_then(|evidence| evidence.get("token"));
    token.and_then(Value::as_str).map(str::to_owned)
}
