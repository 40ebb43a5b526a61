//! What each kind of event does to the state.
//!
//! Total: an unlawful event is folded as far as it makes sense, so that a verifier can report it and go on.

use super::{
    ApprovalRow, CallRow, ChainRow, ClaimRow, DoubtRow, EpisodeRow, FORGET_AFTER_MS, IntentRow,
    KeyRow, RunRow, SessionRow, State, TransitionRow,
};
use crate::event::{
    B16, Body, Closure, Commit, Event, Intent, Key, NO_PREV, Outcome, Plan, Session, Transition,
    Verdict,
};
use crate::merkle::hash::Hash;

impl State {
    /// Folds one event whose leaf hash is `leaf`.
    pub fn apply(&mut self, event: &Event, leaf: &Hash) {
        if !matches!(event.body, Body::Seal(_)) {
            self.forget(event.at);
        }
        match &event.body {
            Body::Genesis(genesis) => {
                let mut row = self.log.get(&()).cloned().unwrap_or_default();
                row.origin.clone_from(&genesis.origin);
                self.log.put((), row);
                genesis.keys.iter().for_each(|key| self.apply_key(key));
            }
            Body::Key(key) => self.apply_key(key),
            Body::Transition(transition) => self.apply_transition(event.seq, transition),
            Body::Episode(_) => {
                if let Some(ep) = &event.ep {
                    self.episodes_by_name.put(ep.name.clone(), EpisodeRow::default());
                }
            }
            Body::Session(session) => self.apply_session(event, session),
            Body::Revocation(revocation) => self
                .sessions
                .update(&revocation.session, |row| row.revoked = Some(revocation.reason)),
            Body::Freeze(freeze) => match &event.ep {
                Some(ep) => {
                    self.episodes_by_name.update(&ep.name, |row| row.frozen = freeze.frozen);
                }
                None => self.log.update(&(), |row| row.frozen = freeze.frozen),
            },
            Body::Plan(plan) => self.apply_plan(event, plan),
            Body::Intent(intent) => self.apply_intent(event.seq, intent),
            Body::Outcome(outcome) => self.apply_outcome(event.seq, outcome),
            Body::Commit(commit) => self.apply_commit(event.seq, commit),
            Body::Closure(closure) => self.apply_closure(event.seq, closure),
            Body::Approval(approval) => {
                let row =
                    ApprovalRow { used: false, until: approval.until, verdict: approval.verdict };
                self.approvals.put((approval.session, approval.token), row);
            }
            Body::Redaction(redaction) => {
                if let (None, Some(ep)) = (&redaction.refs, &event.ep) {
                    self.episodes_by_name.update(&ep.name, |row| row.redacted = true);
                }
            }
            Body::Hook(_) | Body::Seal(_) | Body::Extension { .. } => {}
        }
        if let Some(ep) = &event.ep {
            self.chains.put(ep.name.clone(), ChainRow { n: ep.n + 1, last: (*leaf).into() });
        }
        self.position.seq = event.seq + 1;
        self.position.leaf = *leaf;
        self.position.at = event.at;
    }

    /// Drops what was held for sessions that are over for a day.
    fn forget(&mut self, at: u64) {
        loop {
            let next = self.expiries.iter().next().map(|(key, _)| *key);
            let Some((expires, id)) = next else { return };
            if expires.saturating_add(FORGET_AFTER_MS) > at {
                return;
            }
            self.expiries.remove((expires, id));
            forget_of(&mut self.claims, id, [0; 32].into());
            forget_of(&mut self.tokens, id, [0; 32].into());
            forget_of(&mut self.approvals, id, [0; 32].into());
            forget_of(&mut self.seen, id, [0; 16].into());
            forget_of(&mut self.uses, id, [0; 16].into());
            self.runs.remove(id);
            self.sessions.update(&id, |row| row.claims = 0);
        }
    }

    fn apply_key(&mut self, key: &Key) {
        let row = KeyRow {
            alg: key.alg,
            public: key.public.clone(),
            usage: key.usage,
            from: key.from,
            until: key.until,
        };
        self.keys.put(key.id, row);
    }

    fn apply_transition(&mut self, seq: u64, transition: &Transition) {
        let row = TransitionRow {
            tool: transition.tool.clone(),
            access: transition.access.clone(),
            engine: transition.engine.clone(),
            finish: transition.finish,
            schema: transition.schema,
            source: transition.source,
            declared: transition.declared.clone(),
        };
        self.transitions.put(seq, row);
        self.tools.put(transition.tool.clone(), seq);
    }

    fn apply_session(&mut self, event: &Event, session: &Session) {
        let old = self.sessions.get(&session.id).cloned();
        let claims = old.as_ref().map_or(0, |row| row.claims);
        if let Some(old) = old {
            self.creds.remove(old.cred);
            self.expiries.remove((old.expires, session.id));
        }
        self.creds.put(session.cred, session.id);
        self.expiries.put((session.expires, session.id), true);
        let row = SessionRow {
            cred: session.cred,
            role: session.role,
            claims,
            grants: session.grants.clone(),
            episode: event.ep.as_ref().map(|ep| ep.name.clone()),
            expires: session.expires,
            revoked: None,
        };
        self.sessions.put(session.id, row);
    }

    fn apply_plan(&mut self, event: &Event, plan: &Plan) {
        let (Some(ep), Some(inv)) = (&event.ep, event.inv) else { return };
        if let (Some(session), Some(claim)) = (plan.session, plan.claim) {
            let row = ClaimRow { plan: event.seq, commit: None, closure: None };
            self.claims.put((session, claim), row);
            self.sessions.update(&session, |row| row.claims += 1);
        }
        let row = CallRow {
            inv,
            same: plan.same,
            tool: plan.tool.clone(),
            claim: plan.claim,
            front: plan.front,
            token: plan.token,
            intent: None,
            episode: ep.name.clone(),
            outcome: None,
            session: plan.session,
            transition: plan.transition,
        };
        self.calls.put(event.seq, row);
    }

    fn apply_intent(&mut self, seq: u64, intent: &Intent) {
        let Some(mut call) = self.calls.get(&intent.plan).cloned() else { return };
        call.intent = Some(IntentRow {
            seq,
            cost: intent.cost,
            scope: intent.scope.clone(),
            charge: None,
            closed: None,
            effect: intent.effect.clone(),
        });
        let key = (call.episode.clone(), intent.effect.clone(), intent.scope.clone());
        let mut spent = self.spending.get(&key).copied().unwrap_or_default();
        spent.reserved = spent.reserved.saturating_add(intent.cost);
        self.spending.put(key, spent);
        if let Some(session) = call.session {
            let uses = self.uses.get(&(session, call.same)).copied().unwrap_or(0);
            self.uses.put((session, call.same), uses + 1);
            if let Some(token) = call.token {
                let row = ClaimRow { plan: intent.plan, commit: None, closure: None };
                self.tokens.put((session, token), row);
                self.approvals.update(&(session, token), |row| row.used = true);
            }
        }
        self.intents.put(seq, intent.plan);
        self.calls.put(intent.plan, call);
    }

    /// Moves units from reserved, or from an earlier charge, to this charge.
    fn charge(&mut self, call: &mut CallRow, charge: u64) {
        let Some(intent) = &mut call.intent else { return };
        let key = (call.episode.clone(), intent.effect.clone(), intent.scope.clone());
        let mut spent = self.spending.get(&key).copied().unwrap_or_default();
        match intent.charge {
            None => spent.reserved = spent.reserved.saturating_sub(intent.cost),
            Some(earlier) => spent.charged = spent.charged.saturating_sub(earlier),
        }
        spent.charged = spent.charged.saturating_add(charge);
        intent.charge = Some(charge);
        self.spending.put(key, spent);
    }

    fn apply_outcome(&mut self, seq: u64, outcome: &Outcome) {
        let Some(mut call) = self.calls.get(&outcome.plan).cloned() else { return };
        call.outcome = Some(seq);
        if outcome.intent.is_some() {
            self.charge(&mut call, outcome.charge);
        }
        if let Some(session) = call.session.filter(|session| self.held(session)) {
            for (path, content) in &outcome.seen {
                self.seen.put((session, *path), *content);
            }
        }
        self.calls.put(outcome.plan, call);
    }

    fn apply_commit(&mut self, seq: u64, commit: &Commit) {
        self.log.update(&(), |row| row.entries = commit.entry + 1);
        let Some(call) = self.calls.remove(commit.plan) else { return };
        if let Some(intent) = &call.intent {
            self.intents.remove(intent.seq);
        }
        self.conclude(commit.plan, &call, |row| row.commit = Some(seq));
        let Some(session) = call.session.filter(|session| self.held(session)) else { return };
        let refused = commit.refused;
        let count = match self.runs.get(&session) {
            Some(run) if run.same == call.same && run.refused == refused => run.count + 1,
            _ => 1,
        };
        self.runs.put(session, RunRow { same: call.same, count, refused });
    }

    /// Notes the end of a call at its claim and token.
    fn conclude(&mut self, plan: u64, call: &CallRow, change: impl Fn(&mut ClaimRow)) {
        let Some(session) = call.session else { return };
        // What was forgotten meanwhile may be in use again, by another call.
        let change = |row: &mut ClaimRow| {
            if row.plan == plan {
                change(row);
            }
        };
        if let Some(claim) = call.claim {
            self.claims.update(&(session, claim), change);
        }
        if let (Some(token), Some(_)) = (call.token, &call.intent) {
            self.tokens.update(&(session, token), change);
        }
    }

    fn apply_closure(&mut self, seq: u64, closure: &Closure) {
        // A second closure finds its call among the doubts.
        let open = self.intents.remove(closure.intent);
        let found = match open {
            Some(plan) => self.calls.remove(plan).map(|call| (plan, call)),
            None => self.doubts.remove(closure.intent).map(|doubt| (doubt.plan, doubt.call)),
        };
        let Some((plan, mut call)) = found else { return };
        self.charge(&mut call, closure.charge);
        if let Some(intent) = &mut call.intent {
            intent.closed = Some(closure.verdict);
        }
        match closure.verdict {
            Verdict::Landed => {
                // Outcome and commit follow in the same submission.
                self.conclude(plan, &call, |row| row.closure = None);
                self.intents.put(closure.intent, plan);
                self.calls.put(plan, call);
            }
            Verdict::NotHappened => self.release(plan, &call),
            Verdict::InDoubt => {
                self.conclude(plan, &call, |row| row.closure = Some(seq));
                self.doubts.put(closure.intent, DoubtRow { call, plan });
            }
            Verdict::Unrecorded => self.conclude(plan, &call, |row| row.closure = Some(seq)),
        }
    }

    /// Frees the key, the token and the approval of a call that did not take place; what was forgotten meanwhile and is in
    /// use again by another call stays.
    fn release(&mut self, plan: u64, call: &CallRow) {
        let Some(session) = call.session else { return };
        let own = |row: Option<&ClaimRow>| row.is_some_and(|row| row.plan == plan);
        if let Some(claim) = call.claim.filter(|claim| own(self.claims.get(&(session, *claim)))) {
            self.claims.remove((session, claim));
            self.sessions.update(&session, |row| row.claims = row.claims.saturating_sub(1));
        }
        if let Some(token) = call.token.filter(|token| own(self.tokens.get(&(session, *token)))) {
            self.tokens.remove((session, token));
            self.approvals.update(&(session, token), |row| row.used = false);
        }
        if let Some(uses) = self.uses.get(&(session, call.same)).copied() {
            self.uses.set((session, call.same), uses.checked_sub(1).filter(|left| *left > 0));
        }
    }

    /// Whether claims and the like are still held for a session.
    fn held(&self, session: &B16) -> bool {
        let expires = self.sessions.get(session).map(|row| row.expires);
        expires.is_some_and(|expires| self.expiries.get(&(expires, *session)).is_some())
    }
}

/// Removes the rows of one session from a table keyed by session first.
fn forget_of<K, V>(table: &mut super::Table<(B16, K), V>, session: B16, least: K)
where
    K: Ord + Clone,
    V: Clone + PartialEq,
{
    let keys = table.from((session, least)).map(|(key, _)| key.clone());
    let keys: Vec<_> = keys.take_while(|(id, _)| *id == session).collect();
    for key in keys {
        table.remove(key);
    }
}

impl ChainRow {
    /// The link that an episode's next event continues.
    pub fn next(row: Option<&Self>) -> (u64, Hash) {
        row.map_or((0, NO_PREV), |row| (row.n, row.last.0))
    }
}
