//! The record of an effect (`world/effect-record/v1`), and of a closure (`world/closure-record/v1`), as canonical JSON.

use crate::canon::{Value, object};
use crate::event::{ClosedBy, Denial, Evidence, Status, Verdict};

/// The broker's account of one effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// 32 hexadecimal digits.
    pub invocation: String,
    /// Name of the effect.
    pub effect: String,
    /// Where it acted.
    pub scope: String,
    /// Units that it costs.
    pub cost: u64,
    /// Units that were left: the grant's budget less what was spent and reserved.
    pub budget_before: u64,
    /// Units charged.
    pub charge: u64,
    /// Why it was denied.
    pub denial: Option<Denial>,
    /// How it ended.
    pub status: Status,
    /// Why the handler failed.
    pub failure: Option<String>,
    /// What the disk looked like before, and what it was to look like after.
    pub evidence: Value,
    /// `sha256:` of the request; none when denied.
    pub request: Option<String>,
    /// `sha256:` of the handler's output; none when denied or failed.
    pub result: Option<String>,
    /// Unix milliseconds.
    pub started: u64,
    /// Unix milliseconds.
    pub ended: u64,
}

impl Record {
    /// The object.
    pub fn to_value(&self) -> Value {
        object([
            ("allowed", (self.status != Status::Denied).into()),
            ("budgetAfter", self.budget_before.saturating_sub(self.charge).into()),
            ("budgetBefore", self.budget_before.into()),
            ("cost", self.cost.into()),
            ("denial", self.denial.map(Denial::as_str).into()),
            ("effect", self.effect.as_str().into()),
            ("ended", self.ended.into()),
            ("evidence", self.evidence.clone()),
            ("failed", (self.status == Status::Failed).into()),
            ("failure", self.failure.clone().into()),
            ("fences", Value::Array(Vec::new())),
            ("inner", Value::Null),
            ("invocation", self.invocation.as_str().into()),
            ("record", "world/effect-record/v1".into()),
            ("requestRef", self.request.clone().into()),
            ("resultRef", self.result.clone().into()),
            ("scope", self.scope.as_str().into()),
            ("started", self.started.into()),
            ("status", self.status.as_str().into()),
        ])
    }
}

/// The account of a closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosureRecord {
    /// 32 hexadecimal digits.
    pub invocation: String,
    /// Seq of the intent.
    pub intent: u64,
    /// What became of it.
    pub verdict: Verdict,
    /// What that rests on.
    pub evidence: Evidence,
    /// Who closed it.
    pub by: ClosedBy,
    /// Units charged.
    pub charge: u64,
    /// `sha256:` of the request, when it could be read.
    pub request: Option<String>,
}

impl ClosureRecord {
    /// The object.
    pub fn to_value(&self) -> Value {
        object([
            ("by", self.by.as_str().into()),
            ("charge", self.charge.into()),
            ("evidence", self.evidence.as_str().into()),
            ("intent", self.intent.into()),
            ("invocation", self.invocation.as_str().into()),
            ("record", "world/closure-record/v1".into()),
            ("requestRef", self.request.clone().into()),
            ("verdict", self.verdict.as_str().into()),
        ])
    }
}
