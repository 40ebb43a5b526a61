//! A ledger on a store that fails on demand, a scripted workload, and the one checker of a whole log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use worldlog::clock::ManualClock;
use worldlog::entropy::SeededEntropy;
use worldlog::event::blind::{EpisodeKey, OpenFile, Opening};
use worldlog::event::{
    B16, B32, Body, ClosedBy, Closure, Commit, Demand, Denial, Episode, EpisodeName, Event,
    Evidence, Fixed, Front, Grant, Intent, Outcome, Plan, Role, Session, Status, Transition,
    Verdict, prior,
};
use worldlog::ledger::{
    Committed, Config, Draft, Guard, InspectOptions, Keys, Ledger, NewObject, OpenError, Refused,
    Seeds, Submission, inspect, open,
};
use worldlog::merkle::hash::sha256;
use worldlog::state::State;
use worldlog::store::Store;
use worldlog::store::memory::MemoryStore;
use worldlog::verify::Trust;

pub(crate) const ORIGIN: &str = "worldlog.test/ledger";
pub(crate) const START: u64 = 1_790_000_000_000;
const LARGE: usize = 200_000;

/// A data directory's worth of things around one store.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<ManualClock>,
    folder: Arc<TempDir>,
}

pub(crate) fn keys() -> Keys {
    let seeds = Seeds::draw(&SeededEntropy::new(7)).expect("seeds");
    Keys::new(ORIGIN, &seeds).expect("keys")
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(ManualClock::new(START)));
        Self { store, clock, folder }
    }

    /// The same guard and clock around other bytes.
    pub(crate) fn with(&self, store: MemoryStore) -> Self {
        let (clock, folder) = (Arc::clone(&self.clock), Arc::clone(&self.folder));
        Self { store: Arc::new(store), clock, folder }
    }

    pub(crate) fn guard_path(&self) -> PathBuf {
        self.folder.path().join("state").join("test.guard")
    }

    pub(crate) fn config(&self) -> Config {
        let keys = keys();
        Config {
            store: self.store.clone(),
            guard: Some(Guard::at(&self.guard_path(), keys.verifier_key())),
            keys,
            guard_init: false,
            clock: self.clock.clone(),
            reserve: worldlog::ledger::Reserve::default(),
            payloads: true,
        }
    }

    pub(crate) fn open(&self) -> Result<Ledger, OpenError> {
        open(self.config())
    }
}

/// What was acknowledged: the first seq and the leaf hashes of each submission.
#[derive(Default)]
pub(crate) struct Acked(pub(crate) Vec<Committed>);

pub(crate) fn ep() -> EpisodeName {
    EpisodeName::parse("ep1").expect("a name")
}

pub(crate) fn key() -> EpisodeKey {
    EpisodeKey::new([3; 32])
}

pub(crate) fn session() -> B16 {
    Fixed([5; 16])
}

fn demand(effect: &str) -> Demand {
    Demand { effect: effect.into(), scope: "worktree".into(), cost: 1 }
}

fn object(text: &str) -> NewObject {
    NewObject::new(Some(&ep()), format!("{{\"x\":\"{text}\"}}").into_bytes())
}

fn draft(inv: B16, body: impl Into<Body>, opening: Opening) -> Draft {
    Draft { episode: Some(ep()), inv: Some(inv), body: body.into(), opening: Some(opening) }
}

/// One call, told apart by its number.
pub(crate) struct CallOf {
    pub(crate) inv: B16,
    number: u64,
}

impl CallOf {
    pub(crate) fn new(number: u64) -> Self {
        Self { inv: Fixed(sha256(&number.to_be_bytes())[..16].try_into().expect("16")), number }
    }

    fn named(&self, what: &str) -> (NewObject, [u8; 32], B32) {
        let object = object(&format!("{what} {}", self.number));
        let hash = object.hash();
        let bref = key().invocation(&self.inv).bref(&hash);
        (object, hash, bref)
    }

    fn plan(&self, transition: u64) -> (Draft, Vec<NewObject>) {
        let (plan, plan_hash, plan_ref) = self.named("plan");
        let (input, input_hash, input_ref) = self.named("input");
        let body = Plan {
            plan: plan_ref,
            same: key().same(&plan_hash),
            tool: "tool".into(),
            claim: None,
            front: Front::Mcp,
            input: input_ref,
            token: None,
            session: Some(session()),
            transition: Some(transition),
        };
        let refs = vec![plan_hash, input_hash];
        (draft(self.inv, body, Opening { refs, ..Opening::default() }), vec![plan, input])
    }

    /// Plan and intent, with a large object that has to be staged.
    pub(crate) fn intent(&self, transition: u64, before: u64, large: bool) -> Submission {
        let (plan, mut objects) = self.plan(transition);
        let (request, hash, bref) = self.named("request");
        let file = OpenFile { path: "a.txt".into(), first: None, second: Some([1; 32]) };
        let body = Intent {
            cost: 1,
            plan: prior(0),
            files: vec![file.change(&key())],
            grant: Some(0),
            scope: "worktree".into(),
            before,
            effect: "Workspace.Write".into(),
            request: bref,
        };
        let mut more = Vec::new();
        if large {
            let bytes: Vec<u8> =
                (0..LARGE).map(|i| sha256(&(i as u64 ^ self.number).to_be_bytes())[0]).collect();
            more.push(sha256(&bytes));
            objects.push(NewObject::new(Some(&ep()), bytes));
        }
        objects.push(request);
        let opening = Opening { refs: vec![hash], files: vec![file], more };
        Submission { drafts: vec![plan, draft(self.inv, body, opening)], objects, keys: vec![] }
    }

    /// The broker's account of the call.
    fn record(
        &self,
        status: Status,
        denial: Option<Denial>,
        before: u64,
    ) -> (NewObject, [u8; 32], B32) {
        let record = worldlog::broker::Record {
            invocation: self.inv.to_string(),
            effect: "Workspace.Write".into(),
            scope: "worktree".into(),
            cost: 1,
            budget_before: before,
            charge: u64::from(denial.is_none()),
            denial,
            status,
            failure: None,
            evidence: worldlog::canon::Value::Null,
            request: None,
            result: None,
            started: START,
            ended: START,
        };
        let bytes = record.to_value().to_bytes();
        let hash = sha256(&bytes);
        let object = NewObject::new(Some(&ep()), bytes);
        (object, hash, key().invocation(&self.inv).bref(&hash))
    }

    /// Outcome and commit; `plan` is the plan's seq, the intent follows it and had `before` units left.
    pub(crate) fn outcome(&self, plan: u64, status: Status, before: u64) -> Submission {
        let (record, record_hash, record_ref) = self.record(status, None, before);
        let (output, output_hash, output_ref) = self.named("output");
        let outcome = Outcome {
            plan,
            seen: vec![],
            charge: 1,
            denial: None,
            intent: Some(plan + 1),
            record: record_ref,
            result: None,
            status,
            recovered: false,
        };
        let commit =
            Commit { plan, entry: 0, output: output_ref, outcome: Some(prior(0)), refused: false };
        let open = |hash| Opening { refs: vec![hash], ..Opening::default() };
        Submission {
            drafts: vec![
                draft(self.inv, outcome, open(record_hash)),
                draft(self.inv, commit, open(output_hash)),
            ],
            objects: vec![record, output],
            keys: vec![],
        }
    }

    pub(crate) fn denied(&self, transition: u64) -> Submission {
        let (plan, mut objects) = self.plan(transition);
        let denial = Some(Denial::Budget);
        let (record, record_hash, record_ref) = self.record(Status::Denied, denial, 0);
        let (output, output_hash, output_ref) = self.named("output");
        let outcome = Outcome {
            plan: prior(0),
            seen: vec![],
            charge: 0,
            denial,
            intent: None,
            record: record_ref,
            result: None,
            status: Status::Denied,
            recovered: false,
        };
        let commit = Commit {
            plan: prior(0),
            entry: 0,
            output: output_ref,
            outcome: Some(prior(1)),
            refused: true,
        };
        let open = |hash| Opening { refs: vec![hash], ..Opening::default() };
        objects.extend([record, output]);
        Submission {
            drafts: vec![
                plan,
                draft(self.inv, outcome, open(record_hash)),
                draft(self.inv, commit, open(output_hash)),
            ],
            objects,
            keys: vec![],
        }
    }

    pub(crate) fn closure(&self, intent: u64, verdict: Verdict) -> Submission {
        let (record, hash, bref) = self.named("closure");
        let charge = u64::from(verdict != Verdict::NotHappened);
        let body = Closure {
            by: ClosedBy::Recovery,
            charge,
            intent,
            record: bref,
            verdict,
            evidence: Evidence::Other,
        };
        let opening = Opening { refs: vec![hash], ..Opening::default() };
        Submission {
            drafts: vec![draft(self.inv, body, opening)],
            objects: vec![record],
            keys: vec![],
        }
    }
}

fn one(episode: Option<&EpisodeName>, body: impl Into<Body>) -> Submission {
    Submission { drafts: vec![Draft::plain(episode, body)], ..Submission::default() }
}

/// Publishes a transition and begins an episode and a session; returns the transition's seq.
pub(crate) fn begin(ledger: &Ledger, acked: &mut Acked, budget: u64) -> Result<u64, Refused> {
    let source = NewObject::new(None, b"{\"source\":1}".to_vec());
    let transition = Transition {
        tool: "tool".into(),
        access: demand("Workspace.Write"),
        engine: "rust/1".into(),
        finish: false,
        schema: Fixed(source.hash()),
        source: Fixed(source.hash()),
        declared: vec![demand("Workspace.Write")],
    };
    let mut submission = one(None, transition);
    submission.objects.push(source);
    let committed = ledger.commit_blocking(submission)?;
    let seq = committed.first;
    acked.0.push(committed);
    let mut submission = one(Some(&ep()), Episode { base_commit: None });
    submission.keys.push((ep(), key()));
    let grant = Grant {
        effect: "Workspace.Write".into(),
        scope: "worktree".into(),
        budget,
        expires: START + 3_600_000,
        confirm: false,
    };
    let session = Session {
        id: session(),
        cred: Fixed([9; 32]),
        role: Role::Agent,
        label: None,
        grants: vec![grant],
        expires: START + 3_600_000,
    };
    submission.drafts.push(Draft::plain(Some(&ep()), session));
    acked.0.push(ledger.commit_blocking(submission)?);
    Ok(seq)
}

/// Everything that the ledger does, once: begins, calls with and without an effect, a large object, a denial, a closure in
/// doubt, seals, work aside. Ends early at the first refusal.
pub(crate) fn workload(ledger: &Ledger, acked: &mut Acked) -> Result<(), Refused> {
    let transition = begin(ledger, acked, 10)?;
    for number in 0..3 {
        let call = CallOf::new(number);
        let intent = ledger.commit_blocking(call.intent(transition, 10 - number, number == 1))?;
        let plan = intent.first;
        acked.0.push(intent);
        acked.0.push(ledger.commit_blocking(call.outcome(plan, Status::Ok, 10 - number))?);
    }
    ledger.seal()?;
    ledger.tend().expect("the guard can be written");
    acked.0.push(ledger.commit_blocking(CallOf::new(3).denied(transition))?);
    let call = CallOf::new(4);
    let intent = ledger.commit_blocking(call.intent(transition, 7, false))?;
    let seq = intent.first + 1;
    acked.0.push(intent);
    acked.0.push(ledger.commit_blocking(call.closure(seq, Verdict::InDoubt))?);
    ledger.snapshot(0, true);
    ledger.seal()?;
    ledger.tend().expect("the guard can be written");
    Ok(())
}

/// Rebuilds everything from the bytes and compares: tree, chains, signature, tiles, state, payloads, and that nothing
/// acknowledged is missing. Returns the state from zero.
pub(crate) fn check_all(store: &dyn Store, acked: &Acked) -> State {
    let trust = Trust { keys: vec![keys().verifier_key().clone()], seen: None };
    let full = InspectOptions { trust, payloads: true, ..InspectOptions::default() };
    let mut found = inspect(store, &full);
    assert_eq!(found.report.findings, vec![], "a log that nobody touched");
    let with = inspect(store, &InspectOptions { snapshot: true, payloads: false, ..full });
    let mut state = with.state;
    let digest = found.state.digest().expect("rows encode");
    assert_eq!(state.digest().expect("rows encode"), digest, "from a snapshot as from zero");
    assert_eq!(with.tree, found.tree);
    assert_budgets(store, &found.state);
    assert_no_orphans(store);
    for committed in &acked.0 {
        for (seq, leaf) in (committed.first..).zip(&committed.leaves) {
            let bytes = worldlog::store::layout::event(store, seq).expect("readable");
            let bytes = bytes.unwrap_or_else(|| panic!("event {seq} was acknowledged and is gone"));
            assert_eq!(worldlog::merkle::hash::leaf_hash(&bytes), *leaf, "event {seq} changed");
        }
    }
    found.state
}

/// Every object is named by an opening or by a transition: nothing is left of what never reached the log.
fn assert_no_orphans(store: &dyn Store) {
    let mut named = std::collections::BTreeSet::new();
    for item in worldlog::store::layout::events(store, 0) {
        let (seq, bytes) = item.expect("readable");
        let event = Event::decode(&bytes).expect("an event");
        if let Body::Transition(transition) = &event.body {
            named.extend([
                (String::new(), transition.source.0),
                (String::new(), transition.schema.0),
            ]);
        }
        let Some(ep) = &event.ep else { continue };
        let opening =
            worldlog::store::layout::opening(store, ep.name.as_str(), seq).expect("readable");
        let opening =
            opening.map(|bytes| Opening::decode(&bytes).expect("an opening")).unwrap_or_default();
        named.extend(
            opening.refs.iter().chain(&opening.more).map(|hash| (ep.name.to_string(), *hash)),
        );
    }
    for object in worldlog::store::layout::all_objects(store) {
        let name = object.expect("readable").name;
        assert!(named.contains(&(name.episode, name.hash)), "an object that nothing names");
    }
}

/// Spending counted from the events alone, by other code than the fold: the last charge of each intent, and the cost of
/// those that have none. Nothing is ever over the budget, and no intent has two outcomes.
fn assert_budgets(store: &dyn Store, state: &State) {
    let mut intents: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
    let mut outcomes: BTreeMap<u64, u32> = BTreeMap::new();
    for item in worldlog::store::layout::events(store, 0) {
        let (seq, bytes) = item.expect("readable");
        match Event::decode(&bytes).expect("an event").body {
            Body::Intent(intent) => drop(intents.insert(seq, (intent.cost, None))),
            Body::Outcome(outcome) => {
                if let Some(intent) = outcome.intent {
                    *outcomes.entry(intent).or_default() += 1;
                    intents.entry(intent).and_modify(|row| row.1 = Some(outcome.charge));
                }
            }
            Body::Closure(closure) => {
                intents.entry(closure.intent).and_modify(|row| row.1 = Some(closure.charge));
            }
            _ => {}
        }
    }
    assert!(outcomes.values().all(|count| *count == 1), "one outcome an intent: {outcomes:?}");
    let charged: u64 = intents.values().filter_map(|(_, charge)| *charge).sum();
    let reserved: u64 = intents.values().filter(|row| row.1.is_none()).map(|row| row.0).sum();
    let row = state.spent(&ep(), "Workspace.Write", "worktree");
    assert_eq!((row.charged, row.reserved), (charged, reserved));
    assert!(charged + reserved <= 10, "over the budget");
}
