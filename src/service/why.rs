//! The whole story behind a reference: what was asked by whom, what was decided, what ran, what it left, and where it is in
//! the log.

use super::kinds::kind_named_by;
use super::view::may_see;
use super::{Caller, Receipt, Service};
use crate::canon::{Value, object, parse};
use crate::event::{
    B16, B32, Body, Closure, EpisodeName, Event, Grant, Intent, Outcome, Plan, Role, hex,
};
use crate::ledger::{Found, Naming};
use crate::limits::STORY_FILES_MAX;
use crate::merkle::hash::Hash;
use crate::store::StoreError;

/// Closures of one call that are told: recovery closes it once, and a person settles it once.
const CLOSURES_MAX: usize = 8;
/// What a story is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An object.
    Object(Hash),
    /// An entry.
    Entry(u64),
    /// An invocation.
    Invocation(B16),
    /// An event.
    Leaf(u64),
}

impl Cause {
    /// `sha256:HEX64`, `N` or `entry:N`, `leaf:N`, 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
        };
        if let Some(digits) = text.strip_prefix("sha256:") {
            return B32::from_hex(digits).map(|hash| Self::Object(hash.0));
        }
        if let Some(digits) = text.strip_prefix("leaf:") {
            return number(digits).map(Self::Leaf);
        }
        if text.len() == 32 {
            return B16::from_hex(text).map(Self::Invocation);
        }
        number(text.strip_prefix("entry:").unwrap_or(text)).map(Self::Entry)
    }
}

/// Why there is no story.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// A reference is told to those who may see it only.
    #[error("a session is needed")]
    Session,
    /// Nothing of that name that the caller may see.
    #[error("nothing of that name is in the log")]
    NotFound,
    /// The index does not reach so far yet.
    #[error("the index of objects is being made up; ask again in a second")]
    Behind,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// The story behind `cause`, as far as the caller may see it.
    ///
    /// # Errors
    /// [`WhyError`].
    pub fn why(&self, caller: Option<&Caller>, cause: Cause) -> Result<Value, WhyError> {
        let leaf = match cause {
            Cause::Invocation(inv) => return self.story(caller, &inv, Vec::new()),
            Cause::Entry(entry) => {
                let found = self.inner.ledger.entries(entry, 1)?.into_iter().next();
                let same =
                    |event: &Event| matches!(&event.body, Body::Commit(c) if c.entry == entry);
                found.filter(same).map(|event| event.seq).ok_or(WhyError::NotFound)?
            }
            Cause::Leaf(leaf) => leaf,
            Cause::Object(hash) => {
                let caller = caller.ok_or(WhyError::Session)?;
                return self.why_object(caller, hash);
            }
        };
        let event = self.read(leaf)?.ok_or(WhyError::NotFound)?;
        match event.inv {
            Some(inv) => self.story(caller, &inv, Vec::new()),
            None => Ok(object([
                ("at", event.at.into()),
                ("episode", event.ep.map(|ep| ep.name.to_string()).into()),
                ("kind", event.body.kind().into()),
                ("leaf", leaf.into()),
            ])),
        }
    }

    fn why_object(&self, caller: &Caller, hash: Hash) -> Result<Value, WhyError> {
        if let Some(value) = self.why_transition(&hash)? {
            return Ok(value);
        }
        for episode in self.visible(caller) {
            match self.inner.ledger.naming(&episode, &hash)? {
                Naming::Event(seq) => {
                    let event = self.read(seq)?.ok_or(WhyError::NotFound)?;
                    let kind = self.kind_of(&event, &hash)?;
                    let inv = event.inv.ok_or(WhyError::NotFound)?;
                    let more = vec![
                        ("named_by", seq.into()),
                        ("ref", format!("sha256:{}", hex(&hash)).into()),
                        ("semantic_id", kind.into()),
                    ];
                    return self.story(Some(caller), &inv, more);
                }
                // Each look makes up for a piece; going on would make up for all of it in one answer.
                Naming::Behind => return Err(WhyError::Behind),
                Naming::Nothing | Naming::Lost(_) => {}
            }
        }
        Err(WhyError::NotFound)
    }

    /// The newest transition with this source or schema. They belong to no episode and hide nothing.
    fn why_transition(&self, hash: &Hash) -> Result<Option<Value>, StoreError> {
        let found = self.inner.ledger.with_state(|state| {
            let mut rows = state.transitions.iter().rev();
            let found = rows.find(|(_, row)| row.source.0 == *hash || row.schema.0 == *hash);
            found.map(|(seq, row)| (*seq, usize::from(row.source.0 != *hash)))
        });
        let Some((seq, place)) = found else { return Ok(None) };
        let Some(event) = self.read(seq)? else { return Ok(None) };
        let kind = kind_named_by("transition", place);
        Ok(Some(object([
            ("at", event.at.into()),
            ("episode", Value::Null),
            ("kind", event.body.kind().into()),
            ("leaf", seq.into()),
            ("named_by", seq.into()),
            ("ref", format!("sha256:{}", hex(hash)).into()),
            ("semantic_id", kind.into()),
        ])))
    }

    /// The episodes whose objects the caller may see.
    fn visible(&self, caller: &Caller) -> Vec<EpisodeName> {
        match (&caller.episode, caller.role) {
            (Some(name), _) => vec![name.clone()],
            (None, Role::Auditor) => self.inner.ledger.with_state(|state| {
                state.episodes_by_name.iter().map(|(name, _)| name.clone()).collect()
            }),
            (None, _) => Vec::new(),
        }
    }

    fn story(
        &self,
        caller: Option<&Caller>,
        inv: &B16,
        more: Vec<(&'static str, Value)>,
    ) -> Result<Value, WhyError> {
        let found = self.found(inv)?.ok_or(WhyError::NotFound)?;
        let (event, plan) = found.plan.as_ref().ok_or(WhyError::NotFound)?;
        let episode = event.ep.as_ref().map(|ep| ep.name.clone()).ok_or(WhyError::NotFound)?;
        let seen = caller.is_some_and(|caller| may_see(caller, Some(&episode)));
        let closures = self.closures(&episode, inv, &found)?;
        let mut members = more;
        members.extend([
            ("decision", decision(&found)),
            ("episode", episode.to_string().into()),
            ("events", events_of(&found, &closures)),
            ("front", plan.front.to_string().into()),
            ("invocation", inv.to_string().into()),
            ("session", plan.session.map(|id| id.to_string()).into()),
            ("status", status_of(&found).into()),
            ("tool", plan.tool.as_str().into()),
            ("transition", self.transition_of(plan)),
        ]);
        if let Some((_, closure)) = closures.last() {
            members.push(("verdict", closure.verdict.to_string().into()));
            members.push(("closures", Value::Array(closures.iter().map(closure_value).collect())));
        }
        if let Some(session) = &plan.session {
            let grants = self.grants_of(&episode, session, event.seq)?;
            members.extend(grants.map(|grants| ("grants", grants)));
        }
        if let Receipt::Committed(receipt) = self.receipt(caller, inv)? {
            let mut value = receipt.to_value();
            if let (Value::Object(members), true) = (&mut value, receipt.output.is_empty()) {
                members.remove("output");
            }
            members.push(("proof", format!("/v1/receipts/{inv}?proof=true").into()));
            members.push(("receipt", value));
        }
        if seen {
            members.extend(self.hidden(&episode, &found)?);
        }
        Ok(Value::Object(
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ))
    }

    /// What is known of an invocation, also of one under way.
    fn found(&self, inv: &B16) -> Result<Option<Found>, StoreError> {
        if let Some(found) = self.inner.ledger.find(inv)? {
            return Ok(Some(found));
        }
        let open = self.inner.ledger.with_state(|state| {
            let mut calls = state.calls.iter();
            calls
                .find(|(_, call)| call.inv == *inv)
                .map(|(plan, call)| (*plan, call.intent.as_ref().map(|intent| intent.seq)))
        });
        let Some((plan, intent)) = open else { return Ok(None) };
        let Some(plan) = self.read_plan(plan)? else { return Ok(None) };
        let intent = intent.map(|seq| self.read(seq)).transpose()?.flatten();
        let intent = intent.and_then(|event| match event.body.clone() {
            Body::Intent(intent) => Some((event, intent)),
            _ => None,
        });
        Ok(Some(Found { plan: Some(plan), intent, ..Found::default() }))
    }

    fn transition_of(&self, plan: &Plan) -> Value {
        let Some(seq) = plan.transition else { return Value::Null };
        let row = self.inner.ledger.with_state(|state| state.transitions.get(&seq).cloned());
        let Some(row) = row else { return Value::Null };
        object([
            ("engine", row.engine.into()),
            ("leaf", seq.into()),
            ("source", format!("sha256:{}", row.source).into()),
        ])
    }

    /// Plain references, files, and what the record says in words.
    fn hidden(
        &self,
        episode: &EpisodeName,
        found: &Found,
    ) -> Result<Vec<(&'static str, Value)>, StoreError> {
        let mut refs = std::collections::BTreeMap::new();
        let events = [
            found.plan.as_ref().map(|(event, _)| (event.seq, &["plan", "input"][..])),
            found.intent.as_ref().map(|(event, _)| (event.seq, &["request"][..])),
            found.outcome.as_ref().map(|(event, _)| (event.seq, &["record", "result"][..])),
            found.closure.as_ref().map(|(event, _)| (event.seq, &["closure"][..])),
            found.commit.as_ref().map(|(event, _)| (event.seq, &["output"][..])),
        ];
        for (seq, names) in events.into_iter().flatten() {
            for (name, hash) in names.iter().zip(self.plain(episode, seq)?) {
                let name = (*name).to_owned();
                refs.insert(name, Value::from(format!("sha256:{}", hex(&hash))));
            }
        }
        let mut members = vec![("refs", Value::Object(refs))];
        if let Some((event, _)) = &found.intent {
            let opening = self.inner.ledger.opening(episode, event.seq)?.unwrap_or_default();
            let named =
                |hash: Option<Hash>| Value::from(hash.map(|hash| format!("sha256:{}", hex(&hash))));
            let files = opening.files.iter().take(STORY_FILES_MAX).map(|file| {
                object([
                    ("after", named(file.second)),
                    ("before", named(file.first)),
                    ("path", file.path.as_str().into()),
                ])
            });
            members.push(("files", Value::Array(files.collect())));
        }
        if let Some((event, _)) = &found.plan {
            let args = self.named(episode, event.seq, 1)?;
            let args = args.and_then(|(_, bytes)| parse(&bytes).ok());
            members.push(("args", args.unwrap_or(Value::Null)));
        }
        if let Some((event, Outcome { denial: Some(denial), .. })) = &found.outcome {
            let record = self.named(episode, event.seq, 0)?;
            let record = record.and_then(|(_, bytes)| parse(&bytes).ok()).unwrap_or(Value::Null);
            let of = |name: &str| record.get(name).cloned().unwrap_or(Value::Null);
            let names = ["budgetAfter", "budgetBefore", "cost", "effect", "scope"];
            let told = names.into_iter().map(|name| (name.to_owned(), of(name)));
            let mut decision: std::collections::BTreeMap<String, Value> = told.collect();
            decision.insert("allowed".to_owned(), false.into());
            decision.insert("denial".to_owned(), denial.as_str().into());
            members.push(("decision", Value::Object(decision)));
        }
        let problem = match &found.commit {
            Some((event, _)) => self.answer_at(event.seq)?.and_then(|answer| answer.problem),
            None => None,
        };
        members.push(("problem", problem.into()));
        Ok(members)
    }

    /// All closures of a call, oldest first: a person may have settled what recovery could not.
    fn closures(
        &self,
        episode: &EpisodeName,
        inv: &B16,
        found: &Found,
    ) -> Result<Vec<(Event, Closure)>, StoreError> {
        let (mut closures, mut before) = (Vec::new(), u64::MAX);
        while let Naming::Event(seq) = self.inner.ledger.named_before(episode, inv, before)? {
            before = seq;
            let Some(event) = self.read(seq)? else { continue };
            if let (Body::Closure(closure), true) = (&event.body, event.inv == Some(*inv)) {
                let closure = closure.clone();
                closures.push((event, closure));
            }
            if closures.len() == CLOSURES_MAX {
                break;
            }
        }
        closures.reverse();
        // The index may be on its way; what ended the call is known without it.
        let last = found.closure.iter().filter(|(event, _)| closures.iter().all(|c| c.0 != *event));
        let last: Vec<_> = last.cloned().collect();
        closures.extend(last);
        Ok(closures)
    }

    /// The grants that were in force for the session of a plan, and the leaf that gave them.
    fn grants_of(
        &self,
        episode: &EpisodeName,
        session: &B16,
        plan: u64,
    ) -> Result<Option<Value>, StoreError> {
        let ledger = &self.inner.ledger;
        let Naming::Event(seq) = ledger.named_before(episode, session, plan)? else {
            return Ok(None);
        };
        let Some(Event { body: Body::Session(given), .. }) = self.read(seq)? else {
            return Ok(None);
        };
        let grant = |grant: &Grant| {
            object([
                ("budget", grant.budget.into()),
                ("confirm", grant.confirm.into()),
                ("effect", grant.effect.as_str().into()),
                ("expires", grant.expires.into()),
                ("scope", grant.scope.as_str().into()),
            ])
        };
        let grants = Value::Array(given.grants.iter().map(grant).collect());
        let grants = object([("items", grants), ("leaf", seq.into())]);
        Ok((given.id == *session).then_some(grants))
    }
}

/// What the broker decided, from the events alone.
fn decision(found: &Found) -> Value {
    let outcome = found.outcome.as_ref().map(|(_, outcome)| outcome);
    if let Some(denial) = outcome.and_then(|outcome| outcome.denial) {
        return object([("allowed", false.into()), ("denial", denial.as_str().into())]);
    }
    let Some((event, intent)) = &found.intent else { return Value::Null };
    let charge = match (outcome, &found.closure) {
        (_, Some((_, closure))) => Some(closure.charge),
        (Some(outcome), None) => Some(outcome.charge),
        (None, None) => None,
    };
    let left = charge.map(|charge| intent.before.saturating_sub(charge));
    object([
        ("allowed", true.into()),
        ("at", event.at.into()),
        ("budgetAfter", left.map_or(Value::Null, Value::from)),
        ("budgetBefore", intent.before.into()),
        ("cost", intent.cost.into()),
        ("effect", intent.effect.as_str().into()),
        ("grant", intent.grant.map_or(Value::Null, Value::from)),
        ("scope", intent.scope.as_str().into()),
    ])
}

fn closure_value((event, closure): &(Event, Closure)) -> Value {
    object([
        ("at", event.at.into()),
        ("by", closure.by.as_str().into()),
        ("charge", closure.charge.into()),
        ("evidence", closure.evidence.as_str().into()),
        ("leaf", event.seq.into()),
        ("verdict", closure.verdict.as_str().into()),
    ])
}

fn events_of(found: &Found, closures: &[(Event, Closure)]) -> Value {
    let of = |event: &Event| {
        object([
            ("at", event.at.into()),
            ("kind", event.body.kind().into()),
            ("leaf", event.seq.into()),
        ])
    };
    let events = [
        found.plan.as_ref().map(|(event, _)| event),
        found.intent.as_ref().map(|(event, _)| event),
        found.outcome.as_ref().map(|(event, _)| event),
        found.commit.as_ref().map(|(event, _)| event),
    ];
    let closures = closures.iter().map(|(event, _)| event);
    let mut events: Vec<_> = events.into_iter().flatten().chain(closures).collect();
    events.sort_by_key(|event| event.seq);
    Value::Array(events.into_iter().map(of).collect())
}

fn status_of(found: &Found) -> &'static str {
    match found {
        Found { outcome: Some((_, Outcome { status, .. })), .. } => status.as_str(),
        Found { commit: Some(_), .. } => "refused",
        Found { closure: Some(_), .. } => "closed",
        Found { intent: Some((_, Intent { .. })), .. } => "open",
        _ => "planned",
    }
}
