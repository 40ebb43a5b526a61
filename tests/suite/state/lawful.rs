//! Every refusal of `spec/state.md`, each by at least one sequence of events that yields exactly it.

use super::world::{
    HOUR, START, World, admin_intent, admin_plan, approval, b16, b32, closure, commit, denied,
    genesis, grant, intent, outcome, plan, resolution, session, transition, write_intent,
    write_plan,
};
use std::collections::BTreeSet;
use std::fmt::Write;
use worldlog::event::{
    Approval, ApprovalVerdict, Body, Closure, Commit, Episode, EpisodeLink, Event, Freeze, Hook,
    HookPoint, HookVerdict, Intent, Outcome, Plan, Redaction, RedactionReason, Revocation,
    RevocationReason, Role, Seal, Session, Verdict, from_cbor, hex, to_cbor,
};
use worldlog::merkle::hash::leaf_hash;
use worldlog::state::{SessionRow, State, Unlawful};

type Make = fn(&mut World) -> Event;

/// `(code, how)`: `how` brings the world to a place and returns the event that is refused there.
#[rustfmt::skip] // a table, one way a line
const CASES: &[(&str, &[Make])] = &[
    ("seq-gap", &[
        |w| Event { seq: w.state.position().seq + 1, ..freeze(w) },
        |w| Event { seq: w.state.position().seq - 1, ..freeze(w) },
        |w| sealed(w, |seal| seal.size -= 1),
    ]),
    ("chain-broken", &[|w| Event { prev: [7; 32], ..freeze(w) }]),
    ("time-backwards", &[|w| Event { at: w.at - 1, ..freeze(w) }]),
    ("episode-chain-broken", &[
        |w| linked(w, |link| link.n += 1),
        |w| linked(w, |link| link.n -= 1),
        |w| linked(w, |link| link.prev = [7; 32]),
    ]),
    ("genesis-misplaced", &[
        |w| w.next(None, None, genesis()),
        |w| { *w = World::empty(); w.next(None, None, Freeze { frozen: true }) },
    ]),
    ("envelope-misfit", &[
        |w| w.next(Some("ep1"), None, transition("t", "read")),
        |w| w.next(None, Some(1), transition("t", "read")),
        |w| w.next(Some("ep1"), None, plan()),
        |w| w.next(None, Some(1), plan()),
        |w| w.next(None, None, session(2)),
        |w| w.next(Some("ep1"), None, Session { role: Role::Auditor, ..session(2) }),
        |w| w.next(None, None, approval(1)),
        |w| w.next(None, Some(1), Freeze { frozen: true }),
    ]),
    ("episode-unknown", &[|w| w.next(Some("nowhere"), None, Freeze { frozen: true })]),
    ("episode-repeated", &[|w| w.next(Some("ep1"), None, Episode { base_commit: None })]),
    ("session-changed", &[
        |w| w.next(None, None, Session { role: Role::Auditor, ..session(1) }),
        |w| w.next(Some("ep1"), None, Session { cred: b32(1), ..session(2) }),
        |w| { second_episode(w); w.next(Some("ep2"), None, session(1)) },
        |w| { revoke(w); w.next(Some("ep1"), None, Session { cred: b32(9), ..session(1) }) },
    ]),
    ("session-unknown", &[
        |w| w.of(1, Plan { session: Some(b16(9)), ..plan() }),
        |w| w.of(1, Plan { session: None, ..plan() }),
        |w| w.next(None, None, Revocation { session: b16(9), reason: RevocationReason::Operator }),
        |w| w.next(Some("ep1"), None, Approval { session: b16(9), ..approval(1) }),
    ]),
    ("session-not-live", &[
        |w| { w.at = START + 24 * HOUR; w.of(1, plan()) },
        |w| { revoke(w); w.of(1, plan()) },
        |w| { let plan = w.call(1, plan()); revoke(w); w.of(1, intent(plan, 3)) },
        |w| {
            w.add(None, Session { role: Role::Approver, grants: Vec::new(), ..session(2) });
            w.of(1, Plan { session: Some(b16(2)), ..plan() })
        },
    ]),
    ("session-elsewhere", &[|w| {
        second_episode(w);
        w.of(1, Plan { session: Some(b16(2)), ..plan() })
    }]),
    ("transition-unknown", &[
        |w| w.of(1, Plan { transition: Some(0), ..plan() }),
        |w| w.of(1, Plan { transition: None, ..plan() }),
        |w| w.of(1, Plan { tool: "write-file".to_owned(), ..plan() }),
    ]),
    ("claim-repeated", &[|w| {
        w.whole(1, 3, Plan { claim: Some(b32(1)), ..plan() });
        w.of(2, Plan { claim: Some(b32(1)), ..plan() })
    }]),
    ("claims-full", &[|w| { w.state = with_claims(&w.state); w.of(1, Plan { claim: Some(b32(1)), ..plan() }) }]),
    ("calls-overlap", &[
        |w| { w.call(1, plan()); w.of(2, plan()) },
        |w| { w.begin(1, 3); w.of(2, admin_plan()) },
    ]),
    ("plan-unknown", &[
        |w| w.of(1, intent(3, 3)),
        |w| { let plan = w.call(1, plan()); w.of(2, intent(plan, 3)) },
        |w| { let plan = w.whole(1, 3, plan()); w.of(1, denied(plan)) },
        |w| { let plan = w.whole(1, 3, plan()); w.of(1, commit(plan, None, 1)) },
        |w| { let plan = w.call(1, plan()); second_episode(w); w.next(Some("ep2"), Some(1), intent(plan, 3)) },
        |w| w.of(1, Hook { name: "h".to_owned(), plan: 3, point: HookPoint::Before, verdict: HookVerdict::Pass }),
    ]),
    ("intent-repeated", &[
        |w| { let (plan, _) = w.begin(1, 3); w.of(1, intent(plan, 2)) },
        |w| { let plan = w.call(1, plan()); w.call(1, denied(plan)); w.of(1, intent(plan, 3)) },
    ]),
    ("frozen", &[
        |w| { let plan = w.call(1, plan()); w.add(None, Freeze { frozen: true }); w.of(1, intent(plan, 3)) },
        |w| { let plan = w.call(1, plan()); w.add(Some("ep1"), Freeze { frozen: true }); w.of(1, intent(plan, 3)) },
    ]),
    ("admin-misfit", &[
        |w| w.of(1, Plan { session: Some(b16(1)), ..admin_plan() }),
        |w| w.of(1, Plan { transition: Some(1), ..admin_plan() }),
        |w| w.of(1, Plan { token: Some(b32(1)), ..admin_plan() }),
        |w| { let plan = w.call(1, admin_plan()); w.of(1, Intent { cost: 1, ..admin_intent(plan) }) },
        |w| { let plan = w.call(1, admin_plan()); w.of(1, Intent { grant: Some(0), ..admin_intent(plan) }) },
        |w| { let plan = w.call(1, admin_plan()); w.of(1, Intent { before: 1, ..admin_intent(plan) }) },
    ]),
    ("effect-undeclared", &[
        |w| planned(w, |intent| intent.cost = 2),
        |w| planned(w, |intent| intent.scope.push('2')),
        |w| { let plan = w.call(1, plan()); w.of(1, write_intent(plan, 3)) },
    ]),
    ("grant-missing", &[
        |w| planned(w, |intent| intent.grant = None),
        |w| planned(w, |intent| intent.grant = Some(3)),
        |w| planned(w, |intent| intent.grant = Some(1)),
        |w| planned(w, |intent| intent.grant = Some((1 << 53) - 1)),
    ]),
    ("grant-expired", &[|w| {
        w.at = START + HOUR / 2;
        planned(w, |intent| { intent.grant = Some(2); intent.before = 9; })
    }]),
    ("budget-misstated", &[
        |w| planned(w, |intent| intent.before = 4),
        |w| planned(w, |intent| intent.before = 2),
        // The open call of a moment ago still counts.
        |w| { w.whole(1, 3, plan()); let plan = w.call(2, plan()); w.of(2, intent(plan, 3)) },
        // A new session of the episode spends what the old one spent.
        |w| { w.whole(1, 3, plan()); w.add(Some("ep1"), session(2)); planned(w, |_| ()) },
    ]),
    ("budget-exceeded", &[|w| {
        for n in 0..3 { w.whole(n, 3 - u64::from(n), plan()); }
        planned(w, |intent| intent.before = 0)
    }, |w| {
        w.whole(1, 3, plan());
        w.add(Some("ep1"), Session { grants: vec![grant("read", 1, START + HOUR, false)], ..session(1) });
        planned(w, |intent| intent.before = 0)
    }]),
    ("by-unknown", &[
        |w| w.next(Some("ep1"), None, Approval { by: Some(b16(9)), ..approval(1) }),
        |w| w.next(Some("ep1"), None, Approval { by: Some(b16(1)), ..approval(1) }),
        |w| {
            w.add(None, Session { role: Role::Approver, grants: vec![], ..session(7) });
            w.add(None, Revocation { session: b16(7), reason: RevocationReason::Operator });
            w.next(Some("ep1"), None, Approval { by: Some(b16(7)), ..approval(1) })
        },
        |w| w.next(Some("ep1"), None, redaction(Some(b16(1)))),
    ]),
    ("approval-missing", &[
        |w| writing(w, |_| ()),
        |w| { let plan = w.call(1, Plan { token: None, ..write_plan(1) }); w.of(1, write_intent(plan, 3)) },
        |w| { approve(w, |a| a.verdict = ApprovalVerdict::Decline); writing(w, |_| ()) },
        |w| { approve(w, |a| a.until = START); writing(w, |_| ()) },
        |w| { w.add(Some("ep1"), session(2)); approve(w, |a| a.session = b16(2)); writing(w, |_| ()) },
        |w| { approve(w, |a| a.token = b32(2)); writing(w, |_| ()) },
        // The approval is used.
        |w| {
            approve(w, |_| ());
            let plan = w.call(1, write_plan(1));
            let intent = w.call(1, write_intent(plan, 3));
            let outcome = w.call(1, outcome(plan, intent));
            w.call(1, commit(plan, Some(outcome), 0));
            let plan = w.call(1, write_plan(1));
            w.of(1, write_intent(plan, 2))
        },
    ]),
    ("token-repeated", &[|w| {
        w.whole(1, 3, Plan { token: Some(b32(1)), ..plan() });
        let plan = w.call(2, Plan { token: Some(b32(1)), ..plan() });
        w.of(2, intent(plan, 2))
    }]),
    ("intent-unknown", &[
        |w| { let (plan, intent) = w.begin(1, 3); w.of(1, outcome(plan, intent + 1)) },
        |w| { let plan = w.call(1, plan()); w.of(1, outcome(plan, plan)) },
        |w| { let (plan, _) = w.begin(1, 3); w.of(1, denied(plan)) },
        |w| w.of(1, closure(3, Verdict::InDoubt)),
        |w| { let (_, intent) = w.begin(1, 3); w.of(2, closure(intent, Verdict::InDoubt)) },
        |w| { w.whole(1, 3, plan()); let intent = w.state.position().seq - 3; w.of(1, closure(intent, Verdict::InDoubt)) },
    ]),
    ("outcome-repeated", &[
        |w| { let (plan, intent) = w.begin(1, 3); w.call(1, outcome(plan, intent)); w.of(1, outcome(plan, intent)) },
        |w| { let plan = w.call(1, plan()); w.call(1, denied(plan)); w.of(1, denied(plan)) },
    ]),
    ("charge-wrong", &[
        |w| ended(w, |outcome| outcome.charge = 0),
        |w| ended(w, |outcome| outcome.charge = 2),
        |w| { let plan = w.call(1, plan()); w.of(1, Outcome { charge: 1, ..denied(plan) }) },
        |w| closed(w, Verdict::NotHappened, |closure| closure.charge = 1),
        |w| closed(w, Verdict::InDoubt, |closure| closure.charge = 0),
        |w| closed(w, Verdict::Landed, |closure| closure.charge = 0),
    ]),
    ("recovery-unmarked", &[
        |w| ended(w, |outcome| outcome.recovered = true),
        |w| { let event = closed(w, Verdict::Landed, |_| ()); w.push(&event); w.of(1, outcome(5, 6)) },
    ]),
    ("outcome-missing", &[
        |w| { let (plan, _) = w.begin(1, 3); w.of(1, commit(plan, None, 0)) },
        |w| { let (plan, intent) = w.begin(1, 3); w.of(1, commit(plan, Some(intent), 0)) },
        |w| { let event = ended(w, |_| ()); w.push(&event); w.of(1, commit(5, None, 0)) },
    ]),
    ("refusal-unmarked", &[|w| {
        let plan = w.call(1, plan());
        let outcome = w.call(1, denied(plan));
        w.of(1, Commit { refused: false, ..commit(plan, Some(outcome), 0) })
    }]),
    ("entry-gap", &[
        |w| { let plan = w.call(1, plan()); w.of(1, commit(plan, None, 1)) },
        |w| { w.whole(1, 3, plan()); let plan = w.call(2, plan()); w.of(2, Commit { entry: 0, ..commit(plan, None, 0) }) },
    ]),
    ("closure-unlawful", &[
        |w| { let (_, intent) = w.begin(1, 3); w.of(1, resolution(intent, Verdict::Landed)) },
        |w| closed(w, Verdict::Unrecorded, |_| ()),
        |w| { let event = ended(w, |_| ()); w.push(&event); w.of(1, closure(6, Verdict::InDoubt)) },
        |w| { let event = ended(w, |_| ()); w.push(&event); w.of(1, closure(6, Verdict::NotHappened)) },
        |w| { let event = closed(w, Verdict::InDoubt, |_| ()); w.push(&event); w.of(1, closure(6, Verdict::Landed)) },
        |w| { let event = closed(w, Verdict::Landed, |_| ()); w.push(&event); w.of(1, closure(6, Verdict::InDoubt)) },
    ]),
    ("state-differs", &[|w| sealed(w, |seal| seal.state = b32(1))]),
    ("episodes-differ", &[|w| sealed(w, |seal| seal.episodes = b32(1))]),
    ("fold-unknown", &[|w| sealed(w, |seal| seal.fold += 1)]),
];

fn redaction(by: Option<worldlog::event::B16>) -> Redaction {
    Redaction { by, refs: None, reason: RedactionReason::Person }
}

fn freeze(world: &World) -> Event {
    world.next(Some("ep1"), None, Freeze { frozen: true })
}

fn linked(world: &World, change: fn(&mut EpisodeLink)) -> Event {
    let mut event = freeze(world);
    event.ep.iter_mut().for_each(change);
    event
}

fn sealed(world: &mut World, change: fn(&mut Seal)) -> Event {
    let mut event = world.seal();
    if let Body::Seal(seal) = &mut event.body {
        change(seal);
    }
    event
}

fn second_episode(world: &mut World) {
    world.add(Some("ep2"), Episode { base_commit: None });
    world.add(Some("ep2"), session(2));
}

fn revoke(world: &mut World) {
    world.add(Some("ep1"), Revocation { session: b16(1), reason: RevocationReason::Compromise });
}

fn approve(world: &mut World, change: fn(&mut Approval)) {
    let mut body = approval(1);
    change(&mut body);
    world.add(Some("ep1"), body);
}

/// A plan, and the intent after it.
fn planned(world: &mut World, change: fn(&mut Intent)) -> Event {
    let plan = world.call(1, plan());
    let mut body = intent(plan, 3);
    change(&mut body);
    world.of(1, body)
}

fn writing(world: &mut World, change: fn(&mut Intent)) -> Event {
    let plan = world.call(1, write_plan(1));
    let mut body = write_intent(plan, 3);
    change(&mut body);
    world.of(1, body)
}

/// Plan (5) and intent (6), and the outcome after them.
fn ended(world: &mut World, change: fn(&mut Outcome)) -> Event {
    let (plan, intent) = world.begin(1, 3);
    let mut body = outcome(plan, intent);
    change(&mut body);
    world.of(1, body)
}

/// Plan (5) and intent (6), and a closure after them.
fn closed(world: &mut World, verdict: Verdict, change: fn(&mut Closure)) -> Event {
    let (_, intent) = world.begin(1, 3);
    let mut body = closure(intent, verdict);
    change(&mut body);
    world.of(1, body)
}

/// The state, where each session already holds as many claims as it may; 100,000 calls would be slow.
fn with_claims(state: &State) -> State {
    let mut tables = state.dump().expect("rows encode");
    for (_, bytes) in tables.iter_mut().filter(|(name, _)| name == "session") {
        let mut rows: Vec<(worldlog::event::B16, SessionRow)> = from_cbor(bytes).expect("rows");
        for (_, row) in &mut rows {
            row.claims = worldlog::state::CLAIMS_MAX;
        }
        *bytes = to_cbor(&rows).expect("rows encode");
    }
    State::load(state.position(), &tables).expect("a state")
}

#[test]
fn every_code_is_yielded_by_what_it_names() {
    for (code, ways) in CASES {
        for (at, make) in ways.iter().enumerate() {
            let mut world = World::new();
            let event = make(&mut world);
            let found = world.offer(&event).map_err(Unlawful::code);
            assert_eq!(found, Err(*code), "way {at} of {code}: {event:?}");
        }
    }
    let covered: BTreeSet<_> = CASES.iter().map(|(code, _)| *code).collect();
    for code in Unlawful::CODES {
        assert!(covered.contains(code), "nothing yields {code}");
    }
    assert_eq!(covered.len(), Unlawful::CODES.len(), "a code that does not exist is listed");
}

/// The words of the specification, in its order.
#[test]
fn the_specification_lists_every_code_in_order() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("spec/state.md");
    let text = std::fs::read_to_string(path).expect("spec/state.md");
    let listed: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(code, _)| code)
        .collect();
    let from =
        listed.iter().position(|code| Some(code) == Unlawful::CODES.first()).expect("the table");
    let rows: Vec<_> = listed.iter().skip(from).take(Unlawful::CODES.len()).collect();
    assert_eq!(rows, Unlawful::CODES.iter().collect::<Vec<_>>());
}

/// A short lawful log in which nearly everything happens.
fn life() -> World {
    let mut world = World::new();
    // An answer without an effect, a denial, a failure of the handler.
    let pure = world.call(1, plan());
    world.call(1, commit(pure, None, 0));
    let refused = world.call(2, plan());
    let denial = world.call(2, denied(refused));
    world.call(2, Commit { refused: true, ..commit(refused, Some(denial), 1) });
    // An approved write; the same claim again after it did not happen.
    approve(&mut world, |_| ());
    let write = world.call(3, Plan { claim: Some(b32(3)), ..write_plan(1) });
    let attempt = world.call(3, write_intent(write, 3));
    world.call(3, closure(attempt, Verdict::NotHappened));
    approve(&mut world, |_| ());
    let write = world.call(4, Plan { claim: Some(b32(3)), ..write_plan(1) });
    let attempt = world.call(4, write_intent(write, 3));
    // Recovery finds it landed.
    world.call(4, closure(attempt, Verdict::Landed));
    let landed = world.call(4, Outcome { recovered: true, ..outcome(write, attempt) });
    world.call(4, commit(write, Some(landed), 2));
    // Recorded, but finish failed.
    let (read, attempt) = world.begin(5, 3);
    world.call(5, outcome(read, attempt));
    world.call(5, closure(attempt, Verdict::Unrecorded));
    // In doubt, and a person looks.
    let (_, attempt) = world.begin(6, 2);
    world.call(6, closure(attempt, Verdict::InDoubt));
    world.call(6, resolution(attempt, Verdict::NotHappened));
    // The operator's own act, even while all is frozen.
    world.add(None, Freeze { frozen: true });
    let undo = world.call(7, admin_plan());
    let attempt = world.call(7, admin_intent(undo));
    let done = world.call(7, Outcome { charge: 0, ..outcome(undo, attempt) });
    world.call(7, commit(undo, Some(done), 3));
    world.add(None, Freeze { frozen: false });
    // More budget by extension: spending stays.
    let more = vec![grant("read", 10, START + 24 * HOUR, false)];
    world.add(Some("ep1"), Session { grants: more, cred: b32(8), ..session(1) });
    world.whole(8, 9, plan());
    let seal = world.seal();
    world.push(&seal);
    // The end: a session revoked, payloads removed, and two days later what the session held is forgotten.
    revoke(&mut world);
    world.add(Some("ep1"), Redaction { by: None, refs: None, reason: RedactionReason::Law });
    world.at = START + 48 * HOUR;
    world.add(Some("ep1"), Freeze { frozen: true });
    let seal = world.seal();
    world.push(&seal);
    world
}

/// The same log for other implementations: each event, and the digest and the map of episodes after it.
#[test]
fn the_life_is_the_one_in_the_fixture() {
    let mut state = State::new();
    let mut found = String::new();
    for bytes in life().leaves {
        let event = Event::decode(&bytes).expect("our own");
        assert_eq!(state.check(&event), Ok(()));
        state.apply(&event, &leaf_hash(&bytes));
        let digest = hex(&state.digest().expect("a digest"));
        let episodes = hex(&state.episodes_root().expect("a root"));
        writeln!(found, "event {}\nstate {digest}\nepisodes {episodes}", hex(&bytes))
            .expect("a string");
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/state/life.txt");
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        let mut file = std::fs::File::create(&path).expect("the fixture");
        std::io::Write::write_all(&mut file, found.as_bytes()).expect("the fixture");
    }
    let kept = std::fs::read_to_string(&path).expect("fixtures/state/life.txt");
    let differ = kept.lines().zip(found.lines()).position(|(a, b)| a != b);
    assert_eq!(
        (differ, kept.len()),
        (None, found.len()),
        "UPDATE_FIXTURES=1 rewrites it; is FOLD raised?"
    );
}
