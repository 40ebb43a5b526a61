//! Whether an event is lawful at its place.
//!
//! Flat, ordered lists of checks, one named refusal each; the order is contract (`spec/state.md`). A refusal's code is
//! also the code of the verifier's finding.

use super::{CLAIMS_MAX, CallRow, ChainRow, FOLD, SessionRow, State};
use crate::event::{
    ApprovalVerdict, B16, Body, ClosedBy, Closure, Commit, Event, Front, Intent, Outcome, Plan,
    Role, Session, Status, Verdict,
};

macro_rules! unlawful {
    ($($(#[$doc:meta])* $variant:ident = $code:literal,)+) => {
        /// Why an event is not lawful.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Unlawful { $($(#[$doc])* $variant,)+ }

        impl Unlawful {
            /// Every code, in order.
            pub const CODES: &'static [&'static str] = &[$($code,)+];

            /// The stable code.
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }
        }

        impl std::fmt::Display for Unlawful {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.code())
            }
        }
    };
}

unlawful! {
    /// Its seq is not its position.
    SeqGap = "seq-gap",
    /// Its `prev` is not the leaf hash of the event before.
    ChainBroken = "chain-broken",
    /// Its time is before that of the event before.
    TimeBackwards = "time-backwards",
    /// Its episode link does not continue the episode's chain.
    EpisodeChainBroken = "episode-chain-broken",
    /// A genesis that is not the first event, or another first event.
    GenesisMisplaced = "genesis-misplaced",
    /// The kind wants an episode or an invocation that is absent, or the reverse.
    EnvelopeMisfit = "envelope-misfit",
    /// The episode was never begun.
    EpisodeUnknown = "episode-unknown",
    /// The episode was begun before.
    EpisodeRepeated = "episode-repeated",
    /// The session changed its role or episode, or took a credential that another one has.
    SessionChanged = "session-changed",
    /// No such session.
    SessionUnknown = "session-unknown",
    /// The session is over, revoked, or not one that calls tools.
    SessionNotLive = "session-not-live",
    /// The session belongs to another episode.
    SessionElsewhere = "session-elsewhere",
    /// The plan names a transition that was not published for its tool.
    TransitionUnknown = "transition-unknown",
    /// The session used this claim before.
    ClaimRepeated = "claim-repeated",
    /// The session holds too many claims.
    ClaimsFull = "claims-full",
    /// Another call of the episode is open.
    CallsOverlap = "calls-overlap",
    /// The plan is not open, or belongs to another invocation or episode.
    PlanUnknown = "plan-unknown",
    /// The call has an intent, or an outcome, already.
    IntentRepeated = "intent-repeated",
    /// New intents are stopped here.
    Frozen = "frozen",
    /// An act of the operator with a session, a grant or a cost.
    AdminMisfit = "admin-misfit",
    /// The transition did not declare this effect, scope and cost.
    EffectUndeclared = "effect-undeclared",
    /// The session has no such grant.
    GrantMissing = "grant-missing",
    /// The grant is over.
    GrantExpired = "grant-expired",
    /// What is said to be left of the budget is not what is left.
    BudgetMisstated = "budget-misstated",
    /// The cost is more than what is left of the budget.
    BudgetExceeded = "budget-exceeded",
    /// `by` names no live session that may do this.
    ByUnknown = "by-unknown",
    /// No person approved the call, or the approval is over, another session's, or used.
    ApprovalMissing = "approval-missing",
    /// The session used this token before.
    TokenRepeated = "token-repeated",
    /// The intent is not the call's, or is settled.
    IntentUnknown = "intent-unknown",
    /// The call has an outcome already.
    OutcomeRepeated = "outcome-repeated",
    /// The charge is not what the rules say.
    ChargeWrong = "charge-wrong",
    /// `recovered` stands without a closure that says so, or the reverse.
    RecoveryUnmarked = "recovery-unmarked",
    /// The commit names another outcome than the call's, or leaves an intent without one.
    OutcomeMissing = "outcome-missing",
    /// The answer to a denied call is not marked as refused.
    RefusalUnmarked = "refusal-unmarked",
    /// Entries are not counted without a gap.
    EntryGap = "entry-gap",
    /// A closure where none is lawful.
    ClosureUnlawful = "closure-unlawful",
    /// The seal fixes another state than the events give.
    StateDiffers = "state-differs",
    /// The seal fixes another map of episodes than the events give.
    EpisodesDiffer = "episodes-differ",
    /// The seal was made by another fold: its state was not recomputed.
    FoldUnknown = "fold-unknown",
}

type Check = Result<(), Unlawful>;

fn demand(holds: bool, otherwise: Unlawful) -> Check {
    if holds { Ok(()) } else { Err(otherwise) }
}

impl State {
    /// Whether `event` may follow here.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check(&mut self, event: &Event) -> Check {
        self.check_place(event)?;
        match &event.body {
            Body::Session(session) => self.check_session(event, session),
            Body::Revocation(revocation) => self.of_episode(event, &revocation.session),
            Body::Plan(plan) => self.check_plan(event, plan),
            Body::Intent(intent) => self.check_intent(event, intent),
            Body::Outcome(outcome) => self.check_outcome(event, outcome),
            Body::Commit(commit) => self.check_commit(event, commit),
            Body::Closure(closure) => self.check_closure(event, closure),
            Body::Hook(hook) => self.open_call(event, hook.plan).map(drop),
            Body::Approval(approval) => {
                self.of_episode(event, &approval.session)?;
                self.may(event, approval.by.as_ref(), &[Role::Approver])
            }
            Body::Redaction(redaction) => {
                self.may(event, redaction.by.as_ref(), &[Role::Auditor, Role::Approver])
            }
            Body::Seal(seal) => {
                demand(seal.size == event.seq, Unlawful::SeqGap)?;
                let episodes = self.episodes_root().unwrap_or_default();
                demand(seal.episodes.0 == episodes, Unlawful::EpisodesDiffer)?;
                demand(seal.fold == FOLD, Unlawful::FoldUnknown)?;
                demand(seal.state.0 == self.digest().unwrap_or_default(), Unlawful::StateDiffers)
            }
            _ => Ok(()),
        }
    }

    /// The chains, the clock, and what the envelope of each kind has to hold.
    fn check_place(&self, event: &Event) -> Check {
        let position = self.position;
        demand(event.seq == position.seq, Unlawful::SeqGap)?;
        demand(event.prev == position.leaf, Unlawful::ChainBroken)?;
        demand(event.at >= position.at, Unlawful::TimeBackwards)?;
        if let Some(ep) = &event.ep {
            let next = ChainRow::next(self.chains.get(&ep.name));
            demand((ep.n, ep.prev) == next, Unlawful::EpisodeChainBroken)?;
            let known = self.episodes_by_name.get(&ep.name).is_some();
            match event.body {
                Body::Episode(_) => demand(!known, Unlawful::EpisodeRepeated)?,
                _ => demand(known, Unlawful::EpisodeUnknown)?,
            }
        }
        let genesis = matches!(event.body, Body::Genesis(_));
        demand(genesis == (event.seq == 0), Unlawful::GenesisMisplaced)?;
        let (ep, inv) = (event.ep.is_some(), event.inv.is_some());
        let fits = match &event.body {
            Body::Genesis(_) | Body::Key(_) | Body::Transition(_) | Body::Seal(_) => !ep && !inv,
            Body::Session(session) => ep == (session.role == Role::Agent) && !inv,
            Body::Revocation(_) | Body::Freeze(_) => !inv,
            Body::Episode(_) | Body::Approval(_) | Body::Redaction(_) => ep && !inv,
            Body::Plan(_)
            | Body::Intent(_)
            | Body::Outcome(_)
            | Body::Commit(_)
            | Body::Closure(_)
            | Body::Hook(_) => ep && inv,
            Body::Extension { .. } => true,
        };
        demand(fits, Unlawful::EnvelopeMisfit)
    }

    fn check_session(&self, event: &Event, session: &Session) -> Check {
        if let Some(holder) = self.creds.get(&session.cred) {
            demand(*holder == session.id, Unlawful::SessionChanged)?;
        }
        let Some(row) = self.sessions.get(&session.id) else { return Ok(()) };
        let episode = event.ep.as_ref().map(|ep| &ep.name);
        let same = row.role == session.role && row.episode.as_ref() == episode;
        // What was revoked stays so: its name does not come back under another token.
        demand(same && row.revoked.is_none(), Unlawful::SessionChanged)
    }

    /// The session is known and is one of the event's episode, or of none like the event.
    fn of_episode(&self, event: &Event, session: &B16) -> Check {
        let row = self.sessions.get(session).ok_or(Unlawful::SessionUnknown)?;
        let episode = event.ep.as_ref().map(|ep| &ep.name);
        demand(row.episode.as_ref() == episode, Unlawful::SessionElsewhere)
    }

    /// The operator, or a live session with one of these roles.
    fn may(&self, event: &Event, by: Option<&B16>, roles: &[Role]) -> Check {
        let Some(id) = by else { return Ok(()) };
        let row = self.sessions.get(id).ok_or(Unlawful::ByUnknown)?;
        let live = row.revoked.is_none() && event.at < row.expires;
        demand(live && roles.contains(&row.role), Unlawful::ByUnknown)
    }

    /// The session `id`, if it may call tools in the event's episode at the event's time.
    fn live(&self, event: &Event, id: &B16) -> Result<&SessionRow, Unlawful> {
        let row = self.sessions.get(id).ok_or(Unlawful::SessionUnknown)?;
        let live = row.revoked.is_none() && event.at < row.expires && row.role == Role::Agent;
        demand(live, Unlawful::SessionNotLive)?;
        let episode = event.ep.as_ref().map(|ep| &ep.name);
        demand(row.episode.as_ref() == episode, Unlawful::SessionElsewhere)?;
        Ok(row)
    }

    fn check_plan(&self, event: &Event, plan: &Plan) -> Check {
        if plan.front == Front::Admin {
            let named = plan.session.is_some() || plan.transition.is_some();
            let bare = !named && plan.token.is_none() && plan.claim.is_none();
            demand(bare, Unlawful::AdminMisfit)?;
        } else {
            let session = plan.session.ok_or(Unlawful::SessionUnknown)?;
            let row = self.live(event, &session)?;
            let transition = plan.transition.and_then(|seq| self.transitions.get(&seq));
            let published = transition.is_some_and(|row| row.tool == plan.tool);
            demand(published, Unlawful::TransitionUnknown)?;
            if let Some(claim) = plan.claim {
                let new = self.claims.get(&(session, claim)).is_none();
                demand(new, Unlawful::ClaimRepeated)?;
                demand(row.claims < CLAIMS_MAX, Unlawful::ClaimsFull)?;
            }
        }
        let episode = event.ep.as_ref().map(|ep| &ep.name);
        let open = self.calls.iter().any(|(_, call)| Some(&call.episode) == episode);
        demand(!open, Unlawful::CallsOverlap)
    }

    /// The open call that `plan` began, if the event belongs to it.
    fn open_call(&self, event: &Event, plan: u64) -> Result<&CallRow, Unlawful> {
        let call = self.calls.get(&plan).ok_or(Unlawful::PlanUnknown)?;
        let episode = event.ep.as_ref().map(|ep| &ep.name);
        let same = Some(call.inv) == event.inv && Some(&call.episode) == episode;
        demand(same, Unlawful::PlanUnknown)?;
        Ok(call)
    }

    fn check_intent(&self, event: &Event, intent: &Intent) -> Check {
        let call = self.open_call(event, intent.plan)?;
        let first = call.intent.is_none() && call.outcome.is_none();
        demand(first, Unlawful::IntentRepeated)?;
        if call.front == Front::Admin {
            let bare = intent.grant.is_none() && intent.cost == 0 && intent.before == 0;
            return demand(bare, Unlawful::AdminMisfit);
        }
        demand(!self.frozen(&call.episode), Unlawful::Frozen)?;
        let session = call.session.ok_or(Unlawful::SessionUnknown)?;
        let row = self.live(event, &session)?;
        let transition = call.transition.and_then(|seq| self.transitions.get(&seq));
        let declared = transition.is_some_and(|row| {
            row.declared.iter().any(|demand| {
                demand.effect == intent.effect
                    && demand.scope == intent.scope
                    && demand.cost == intent.cost
            })
        });
        demand(declared, Unlawful::EffectUndeclared)?;
        let index = intent.grant.and_then(|index| usize::try_from(index).ok());
        let grant = index.and_then(|index| row.grants.get(index)).ok_or(Unlawful::GrantMissing)?;
        let fits = grant.effect == intent.effect && grant.scope == intent.scope;
        demand(fits, Unlawful::GrantMissing)?;
        demand(event.at < grant.expires, Unlawful::GrantExpired)?;
        let spent = self.spent(&call.episode, &intent.effect, &intent.scope);
        let left = grant.budget.saturating_sub(spent.charged.saturating_add(spent.reserved));
        demand(intent.before == left, Unlawful::BudgetMisstated)?;
        demand(intent.cost <= left, Unlawful::BudgetExceeded)?;
        if grant.confirm {
            let approval = call.token.and_then(|token| self.approvals.get(&(session, token)));
            let approved = approval.is_some_and(|row| {
                row.verdict == ApprovalVerdict::Approve && event.at < row.until && !row.used
            });
            demand(approved, Unlawful::ApprovalMissing)?;
        }
        let token = call.token.and_then(|token| self.tokens.get(&(session, token)));
        demand(token.is_none(), Unlawful::TokenRepeated)
    }

    fn check_outcome(&self, event: &Event, outcome: &Outcome) -> Check {
        let call = self.open_call(event, outcome.plan)?;
        demand(call.outcome.is_none(), Unlawful::OutcomeRepeated)?;
        let intent = call.intent.as_ref();
        demand(intent.map(|row| row.seq) == outcome.intent, Unlawful::IntentUnknown)?;
        let landed = intent.is_some_and(|row| row.closed == Some(Verdict::Landed));
        demand(outcome.recovered == landed, Unlawful::RecoveryUnmarked)?;
        let due = match outcome.status {
            Status::Denied => 0,
            Status::Ok | Status::Failed => intent.map_or(0, |row| row.cost),
        };
        demand(outcome.charge == due, Unlawful::ChargeWrong)
    }

    fn check_commit(&self, event: &Event, commit: &Commit) -> Check {
        let call = self.open_call(event, commit.plan)?;
        demand(call.outcome == commit.outcome, Unlawful::OutcomeMissing)?;
        let settled = call.intent.is_none() || call.outcome.is_some();
        demand(settled, Unlawful::OutcomeMissing)?;
        // An outcome without an intent is a denial.
        let denied = call.intent.is_none() && call.outcome.is_some();
        demand(commit.refused || !denied, Unlawful::RefusalUnmarked)?;
        demand(commit.entry == self.entries(), Unlawful::EntryGap)
    }

    fn check_closure(&self, event: &Event, closure: &Closure) -> Check {
        let open = self.intents.get(&closure.intent).and_then(|plan| self.calls.get(plan));
        let doubt = self.doubts.get(&closure.intent).map(|row| &row.call);
        let call = open.or(doubt).ok_or(Unlawful::IntentUnknown)?;
        let episode = event.ep.as_ref().map(|ep| &ep.name);
        let same = Some(call.inv) == event.inv && Some(&call.episode) == episode;
        demand(same, Unlawful::IntentUnknown)?;
        let operator = closure.by == ClosedBy::Operator;
        demand(operator == doubt.is_some(), Unlawful::ClosureUnlawful)?;
        let intent = call.intent.as_ref().ok_or(Unlawful::IntentUnknown)?;
        demand(open.is_none() || intent.closed.is_none(), Unlawful::ClosureUnlawful)?;
        let recorded = call.outcome.is_some();
        let admitted = match closure.verdict {
            Verdict::Unrecorded => recorded && !operator,
            Verdict::InDoubt => !recorded && !operator,
            Verdict::Landed | Verdict::NotHappened => !recorded,
        };
        demand(admitted, Unlawful::ClosureUnlawful)?;
        let due = if closure.verdict == Verdict::NotHappened { 0 } else { intent.cost };
        demand(closure.charge == due, Unlawful::ChargeWrong)
    }
}
