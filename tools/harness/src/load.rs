//! A ledger on sled below one folder, and events to fill it with.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use worldlog::clock::SystemClock;
use worldlog::entropy::SystemEntropy;
use worldlog::event::blind::EpisodeKey;
use worldlog::event::{
    B16, Body, Commit, Demand, Episode, EpisodeName, Fixed, Front, Grant, Intent, Outcome, Plan,
    Role, Session, Status, Transition, Writer, prior,
};
use worldlog::ledger::{Config, Draft, Guard, Keys, Ledger, Reserve, Seeds, Submission, open};
use worldlog::merkle::hash::sha256;
use worldlog::store::StoreError;
use worldlog::store::sled::SledStore;

pub(crate) type Done = Result<(), Box<dyn Error>>;

const ORIGIN: &str = "worldlog.test/harness";
const CACHE_BYTES: u64 = 256 * 1024 * 1024;
const BUDGET: u64 = 1 << 40;
/// Different plans, and files that they read: an agent comes back to what it works on.
const PLANS: u64 = 1_000;

/// Opens the log below `folder`, with its keys and its guard, or begins one.
pub(crate) fn ledger(folder: &Path) -> Result<Ledger, Box<dyn Error>> {
    let data = folder.join("data");
    let keys = Keys::new(ORIGIN, &Seeds::load_or_draw(&data, &SystemEntropy)?)?;
    let guard = Guard::at(&folder.join("state").join("guard"), keys.verifier_key());
    let config = Config {
        store: Arc::new(store(&data)?),
        keys,
        guard: Some(guard),
        guard_init: false,
        clock: Arc::new(SystemClock::new()),
        reserve: Reserve::default(),
        payloads: false,
    };
    Ok(open(config)?)
}

/// A store that this process closed a moment ago may still be letting go of its lock.
fn store(data: &Path) -> Result<SledStore, StoreError> {
    for _ in 0..1_000 {
        match SledStore::open(data, CACHE_BYTES) {
            Err(StoreError::Held { .. }) => std::thread::sleep(Duration::from_millis(2)),
            other => return other,
        }
    }
    SledStore::open(data, CACHE_BYTES)
}

/// One event of about `size` bytes that changes no state.
pub(crate) fn event(number: u64, size: usize) -> Submission {
    let block = sha256(&number.to_be_bytes());
    let bytes: Vec<u8> = block.iter().cycle().take(size).copied().collect();
    let mut value = Writer::default();
    value.bytes(&bytes);
    // A map of one pair: "b" and the bytes.
    let map = [&[0xa1, 0x61, b'b'][..], &value.finish()].concat();
    let body = Body::Extension { kind: "x-load".to_owned(), map };
    Submission { drafts: vec![Draft::plain(None, body)], ..Submission::default() }
}

fn episode() -> Result<EpisodeName, Box<dyn Error>> {
    EpisodeName::parse("bench").ok_or_else(|| "the name is lawful".into())
}

/// Begins an episode with an endless budget; returns the seq of its transition.
pub(crate) fn begin(ledger: &Ledger) -> Result<u64, Box<dyn Error>> {
    let demand = Demand { effect: "Workspace.Read".into(), scope: "worktree".into(), cost: 1 };
    let transition = Transition {
        tool: "bench".into(),
        access: demand.clone(),
        engine: "rust/1".into(),
        finish: false,
        schema: Fixed([1; 32]),
        source: Fixed([2; 32]),
        declared: vec![demand],
    };
    let drafts = vec![Draft::plain(None, transition)];
    let first = ledger.commit_blocking(Submission { drafts, ..Submission::default() })?.first;
    let grant = Grant {
        effect: "Workspace.Read".into(),
        scope: "worktree".into(),
        budget: BUDGET,
        expires: 1 << 52,
        confirm: false,
    };
    let session = Session {
        id: Fixed([5; 16]),
        cred: Fixed([9; 32]),
        role: Role::Agent,
        label: None,
        grants: vec![grant],
        expires: 1 << 52,
    };
    let name = episode()?;
    let drafts = vec![
        Draft::plain(Some(&name), Episode { base_commit: None }),
        Draft::plain(Some(&name), session),
    ];
    let keys = vec![(name, EpisodeKey::new([3; 32]))];
    ledger.commit_blocking(Submission { drafts, objects: Vec::new(), keys })?;
    Ok(first)
}

/// `count` whole calls of four events each, from call number `from` on, in one submission. Without payloads: what is
/// measured with them is the log.
pub(crate) fn calls(transition: u64, from: u64, count: u64) -> Result<Submission, Box<dyn Error>> {
    let name = episode()?;
    let mut drafts = Vec::new();
    for number in from..from + count {
        let hash = sha256(&number.to_be_bytes());
        let mut inv = [0; 16];
        inv.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        let inv: B16 = Fixed(inv);
        let mut file = [0; 16];
        file.iter_mut().zip((number % PLANS).to_be_bytes()).for_each(|(to, from)| *to = from);
        let file: B16 = Fixed(file);
        let plan = drafts.len() as u64;
        let mut add = |body: Body| {
            drafts.push(Draft { episode: Some(name.clone()), inv: Some(inv), body, opening: None });
        };
        add(Plan {
            plan: Fixed(hash),
            same: file,
            tool: "bench".into(),
            claim: None,
            front: Front::Mcp,
            input: Fixed(hash),
            token: None,
            session: Some(Fixed([5; 16])),
            transition: Some(transition),
        }
        .into());
        add(Intent {
            cost: 1,
            plan: prior(plan),
            files: Vec::new(),
            grant: Some(0),
            scope: "worktree".into(),
            before: BUDGET - number,
            effect: "Workspace.Read".into(),
            request: Fixed(hash),
        }
        .into());
        add(Outcome {
            plan: prior(plan),
            seen: vec![(file, inv)],
            charge: 1,
            denial: None,
            intent: Some(prior(plan + 1)),
            record: Fixed(hash),
            result: Some(Fixed(hash)),
            status: Status::Ok,
            recovered: false,
        }
        .into());
        add(Commit {
            plan: prior(plan),
            entry: 0,
            output: Fixed(hash),
            outcome: Some(prior(plan + 2)),
            refused: false,
        }
        .into());
    }
    Ok(Submission { drafts, ..Submission::default() })
}
