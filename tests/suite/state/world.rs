//! A log in memory: events are made for the place where they would stand.

use worldlog::event::{
    Alg, Approval, ApprovalVerdict, B16, B32, Blob, Body, ClosedBy, Closure, Commit, Demand,
    Denial, Episode, EpisodeLink, EpisodeName, Event, Evidence, FORMAT, Fixed, Front, Genesis,
    Grant, Intent, Key, KeyReason, Outcome, Plan, Role, Seal, Session, Status, Transition, Use,
    Verdict,
};
use worldlog::merkle::hash::{leaf_hash, sha256};
use worldlog::state::{ChainRow, FOLD, State, Unlawful};

pub(crate) const START: u64 = 1_767_225_600_000;
pub(crate) const HOUR: u64 = 3_600_000;
/// Where the base of every test put the transition of `read` and of `write`.
pub(crate) const READ: u64 = 1;
pub(crate) const WRITE: u64 = 2;

pub(crate) fn b16(n: u8) -> B16 {
    Fixed([n; 16])
}

pub(crate) fn b32(n: u8) -> B32 {
    Fixed([n; 32])
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) at: u64,
    /// The bytes of every event.
    pub(crate) leaves: Vec<Vec<u8>>,
}

fn key(usage: Use) -> Key {
    let (alg, public, pop) = match usage {
        Use::Cosign => (Alg::MlDsa44, 1312, 2420),
        _ => (Alg::Ed25519, 32, 64),
    };
    Key {
        id: Fixed([usage as u8; 4]),
        alg,
        pop: Blob(vec![0; pop]),
        public: Blob(vec![usage as u8; public]),
        usage,
        from: 0,
        until: None,
        reason: KeyReason::Genesis,
    }
}

pub(crate) fn genesis() -> Body {
    let keys = [Use::Head, Use::Cosign, Use::Cose].map(key).to_vec();
    let origin = "worldlog.local/00000000".to_owned();
    Genesis { keys, format: FORMAT.to_owned(), origin, predecessor: None }.into()
}

fn demand(effect: &str, cost: u64) -> Demand {
    Demand { effect: effect.to_owned(), scope: "worktree".to_owned(), cost }
}

pub(crate) fn transition(tool: &str, effect: &str) -> Body {
    Transition {
        tool: tool.to_owned(),
        access: demand(effect, 1),
        engine: "ailang/1".to_owned(),
        finish: false,
        schema: b32(1),
        source: b32(2),
        declared: vec![demand(effect, 1)],
    }
    .into()
}

pub(crate) fn grant(effect: &str, budget: u64, expires: u64, confirm: bool) -> Grant {
    Grant { effect: effect.to_owned(), scope: "worktree".to_owned(), budget, expires, confirm }
}

/// Session `n`: `read` without asking, `write` with approval, and `read` once more for half an hour.
pub(crate) fn session(n: u8) -> Session {
    Session {
        id: b16(n),
        cred: b32(n),
        role: Role::Agent,
        label: None,
        grants: vec![
            grant("read", 3, START + 24 * HOUR, false),
            grant("write", 3, START + 24 * HOUR, true),
            grant("read", 9, START + HOUR / 2, false),
        ],
        expires: START + 24 * HOUR,
    }
}

/// A call of `read` by session 1 without a client's id or a token.
pub(crate) fn plan() -> Plan {
    Plan {
        plan: b32(1),
        same: b16(1),
        tool: "read-file".to_owned(),
        claim: None,
        front: Front::Mcp,
        input: b32(2),
        token: None,
        session: Some(b16(1)),
        transition: Some(READ),
    }
}

/// The same of `write`, with a token.
pub(crate) fn write_plan(token: u8) -> Plan {
    Plan {
        tool: "write-file".to_owned(),
        transition: Some(WRITE),
        token: Some(b32(token)),
        ..plan()
    }
}

pub(crate) fn admin_plan() -> Plan {
    Plan { front: Front::Admin, session: None, transition: None, tool: "undo".to_owned(), ..plan() }
}

pub(crate) fn intent(plan: u64, before: u64) -> Intent {
    Intent {
        cost: 1,
        plan,
        files: vec![(b16(1), None, Some(b16(2)))],
        grant: Some(0),
        scope: "worktree".to_owned(),
        before,
        effect: "read".to_owned(),
        request: b32(3),
    }
}

pub(crate) fn write_intent(plan: u64, before: u64) -> Intent {
    Intent { grant: Some(1), effect: "write".to_owned(), ..intent(plan, before) }
}

pub(crate) fn admin_intent(plan: u64) -> Intent {
    Intent { grant: None, cost: 0, effect: "undo".to_owned(), ..intent(plan, 0) }
}

pub(crate) fn outcome(plan: u64, intent: u64) -> Outcome {
    Outcome {
        plan,
        seen: vec![(b16(1), b16(2))],
        charge: 1,
        denial: None,
        intent: Some(intent),
        record: b32(4),
        result: Some(b32(5)),
        status: Status::Ok,
        recovered: false,
    }
}

pub(crate) fn denied(plan: u64) -> Outcome {
    Outcome {
        charge: 0,
        denial: Some(Denial::Budget),
        intent: None,
        result: None,
        seen: Vec::new(),
        status: Status::Denied,
        ..outcome(plan, 0)
    }
}

pub(crate) fn commit(plan: u64, outcome: Option<u64>, entry: u64) -> Commit {
    Commit { plan, entry, output: b32(6), outcome, refused: true }
}

pub(crate) fn closure(intent: u64, verdict: Verdict) -> Closure {
    let evidence = match verdict {
        Verdict::Landed => Evidence::After,
        Verdict::NotHappened => Evidence::Before,
        Verdict::InDoubt => Evidence::Other,
        Verdict::Unrecorded => Evidence::Record,
    };
    let charge = u64::from(verdict != Verdict::NotHappened);
    Closure { by: ClosedBy::Recovery, charge, intent, record: b32(7), verdict, evidence }
}

pub(crate) fn resolution(intent: u64, verdict: Verdict) -> Closure {
    Closure { by: ClosedBy::Operator, evidence: Evidence::Person, ..closure(intent, verdict) }
}

pub(crate) fn approval(token: u8) -> Approval {
    Approval {
        by: None,
        token: b32(token),
        until: START + 2 * HOUR,
        session: b16(1),
        verdict: ApprovalVerdict::Approve,
    }
}

impl World {
    pub(crate) fn empty() -> Self {
        Self { state: State::new(), at: START, leaves: Vec::new() }
    }

    /// Genesis, two transitions, episode `ep1` with session 1.
    pub(crate) fn new() -> Self {
        let mut world = Self::empty();
        world.add(None, genesis());
        assert_eq!(world.add(None, transition("read-file", "read")), READ);
        assert_eq!(world.add(None, transition("write-file", "write")), WRITE);
        world.add(Some("ep1"), Episode { base_commit: None });
        world.add(Some("ep1"), session(1));
        world
    }

    /// The event that would stand next; bodies that belong to a call get the invocation `inv`.
    pub(crate) fn next(&self, ep: Option<&str>, inv: Option<u8>, body: impl Into<Body>) -> Event {
        let position = self.state.position();
        let ep = ep.map(|name| {
            let name = EpisodeName::parse(name).expect("a name");
            let (n, prev) = ChainRow::next(self.state.chains.get(&name));
            EpisodeLink { name, n, prev }
        });
        let body = body.into();
        Event { seq: position.seq, at: self.at, prev: position.leaf, ep, inv: inv.map(b16), body }
    }

    /// An event of call `inv` in `ep1`.
    pub(crate) fn of(&self, inv: u8, body: impl Into<Body>) -> Event {
        self.next(Some("ep1"), Some(inv), body)
    }

    /// Appends the event if it is lawful.
    pub(crate) fn offer(&mut self, event: &Event) -> Result<u64, Unlawful> {
        let bytes = event.encode().expect("the event is well formed");
        assert_eq!(Event::decode(&bytes).as_ref(), Ok(event));
        self.state.check(event)?;
        self.state.apply(event, &leaf_hash(&bytes));
        self.leaves.push(bytes);
        Ok(event.seq)
    }

    pub(crate) fn push(&mut self, event: &Event) -> u64 {
        self.offer(event).unwrap_or_else(|code| panic!("{event:?} is {code}"))
    }

    pub(crate) fn add(&mut self, ep: Option<&str>, body: impl Into<Body>) -> u64 {
        let event = self.next(ep, None, body);
        self.push(&event)
    }

    pub(crate) fn call(&mut self, inv: u8, body: impl Into<Body>) -> u64 {
        let event = self.of(inv, body);
        self.push(&event)
    }

    /// Plan and intent of a `read`; their seqs.
    pub(crate) fn begin(&mut self, inv: u8, before: u64) -> (u64, u64) {
        let plan = self.call(inv, plan());
        (plan, self.call(inv, intent(plan, before)))
    }

    /// A whole `read`; the seq of its plan.
    pub(crate) fn whole(&mut self, inv: u8, before: u64, plan: Plan) -> u64 {
        let plan = self.call(inv, plan);
        let intent = self.call(inv, intent(plan, before));
        let outcome = self.call(inv, outcome(plan, intent));
        let entry = self.state.entries();
        self.call(inv, commit(plan, Some(outcome), entry));
        plan
    }

    pub(crate) fn seal(&mut self) -> Event {
        let seal = Seal {
            fold: FOLD,
            size: self.state.position().seq,
            state: self.state.digest().expect("a digest").into(),
            episodes: self.state.episodes_root().expect("a root").into(),
        };
        self.next(None, None, seal)
    }

    /// One number for everything that must agree between two states.
    pub(crate) fn picture(
        &mut self,
    ) -> (worldlog::merkle::hash::Hash, worldlog::merkle::hash::Hash, String) {
        let digest = self.state.digest().expect("a digest");
        let episodes = self.state.episodes_root().expect("a root");
        let dump = self.state.dump().expect("rows encode");
        (digest, episodes, format!("{dump:?} {:?} {:?}", self.state.position(), sha256(&digest)))
    }
}
