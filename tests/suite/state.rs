//! `spec/state.md`: what is lawful, what the fold makes of it, and the digest over all rows.

mod lawful;
mod world;

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use world::{
    HOUR, START, World, approval, b16, closure, commit, denied, intent, outcome, plan, resolution,
    session, write_intent, write_plan,
};
use worldlog::event::{
    Episode, Event, Freeze, Plan, Redaction, RedactionReason, Revocation, RevocationReason,
    Session, Verdict, Writer, hex, scan,
};
use worldlog::merkle::hash::{Hash, sha256, sha256_parts};
use worldlog::state::{FOLD, Snapshot, State};

/// A world with a row in every table.
fn full() -> World {
    let mut world = World::new();
    world.add(Some("ep2"), Episode { base_commit: None });
    world.add(Some("ep3"), Episode { base_commit: None });
    world.add(Some("ep3"), Session { label: Some(world::b32(9)), ..session(3) });
    world.whole(1, 3, Plan { claim: Some(world::b32(1)), ..plan() });
    world.add(Some("ep1"), approval(1));
    let write = world.call(2, write_plan(1));
    let in_doubt = world.call(2, write_intent(write, 3));
    world.call(2, closure(in_doubt, Verdict::InDoubt));
    let third = Plan { session: Some(b16(3)), token: Some(world::b32(3)), ..plan() };
    let event = world.next(Some("ep3"), Some(3), third);
    let open = world.push(&event);
    let event = world.next(Some("ep3"), Some(3), intent(open, 3));
    world.push(&event);
    world.add(Some("ep3"), Revocation { session: b16(3), reason: RevocationReason::Operator });
    world
}

#[test]
fn every_row_and_key_is_canonical() {
    let world = full();
    let rows = world.state.rows().expect("rows encode");
    let mut tables = BTreeSet::new();
    for (table, key, row) in &rows {
        scan(key).unwrap_or_else(|e| panic!("key of {table}: {e}"));
        scan(row).unwrap_or_else(|e| panic!("row of {table}: {e}"));
        tables.insert((*table).to_owned());
    }
    for (table, bytes) in world.state.dump().expect("rows encode") {
        scan(&bytes).unwrap_or_else(|e| panic!("dump of {table}: {e}"));
        assert!(table == "chain" || tables.contains(&table), "no row in {table} to look at");
    }
}

/// The map of `spec/log.md`, from its three lines.
fn map_root(pairs: &[(Hash, Hash)], depth: usize) -> Hash {
    match pairs {
        [] => [0; 32],
        [(key, value)] => sha256_parts(&[&[0], key, value]),
        _ => {
            let one = |(key, _): &&(Hash, Hash)| key[depth / 8] >> (7 - depth % 8) & 1 == 1;
            let ones: Vec<_> = pairs.iter().filter(one).copied().collect();
            let zeros: Vec<_> = pairs.iter().filter(|pair| !one(pair)).copied().collect();
            sha256_parts(&[&[1], &map_root(&zeros, depth + 1), &map_root(&ones, depth + 1)])
        }
    }
}

fn digest_of_rows(state: &State) -> Hash {
    let rows = state.rows().expect("rows encode");
    let pairs = rows.iter().map(|(table, key, row)| {
        let mut name = Writer::default();
        name.array(2);
        name.text(table);
        name.splice(key);
        (sha256(&name.finish()), sha256(row))
    });
    map_root(&pairs.collect::<Vec<_>>(), 0)
}

#[test]
fn the_digest_is_the_map_of_all_rows() {
    let mut world = full();
    assert_eq!(world.state.digest().expect("a digest"), digest_of_rows(&world.state));
    let chains = world.state.chains.iter().map(|(name, row)| {
        let value = sha256_parts(&[&row.n.to_be_bytes(), &row.last.0]);
        (sha256(name.as_str().as_bytes()), value)
    });
    let root = map_root(&chains.collect::<Vec<_>>(), 0);
    assert_eq!(world.state.episodes_root().expect("a root"), root);
}

#[test]
fn a_seal_changes_no_row() {
    let mut world = full();
    world.at = START + 1000 * HOUR;
    let before = world.state.rows();
    let seal = world.seal();
    world.push(&seal);
    assert_eq!(world.state.rows(), before);
    let again = world.seal();
    world.push(&again);
}

#[test]
fn what_a_session_held_is_forgotten_a_day_after_its_expiry() {
    let held = |world: &World| {
        let of = ["claim", "token", "use", "run", "seen", "expiry"];
        let rows = world.state.rows().expect("rows encode");
        rows.iter().filter(|(table, ..)| of.contains(table)).count()
    };
    let mut world = full();
    world.at = START + 48 * HOUR - 1;
    world.add(None, Freeze { frozen: false });
    assert!(held(&world) > 6);
    world.at += 1;
    world.add(None, Freeze { frozen: false });
    assert_eq!(held(&world), 0);
    assert_eq!(world.state.sessions.get(&b16(1)).map(|row| row.claims), Some(0));
}

#[test]
fn a_charge_replaces_the_one_before() {
    let mut world = World::new();
    let spent = |world: &World| {
        let (_, row) = world.state.spending.iter().next().expect("a row");
        (row.charged, row.reserved)
    };
    let (_, intent) = world.begin(1, 3);
    assert_eq!(spent(&world), (0, 1));
    world.call(1, closure(intent, Verdict::InDoubt));
    assert_eq!(spent(&world), (1, 0));
    world.call(1, resolution(intent, Verdict::NotHappened));
    assert_eq!(spent(&world), (0, 0));

    let (plan, intent) = world.begin(2, 3);
    world.call(2, closure(intent, Verdict::InDoubt));
    world.call(2, resolution(intent, Verdict::Landed));
    assert_eq!(spent(&world), (1, 0));
    let outcome = worldlog::event::Outcome { recovered: true, ..outcome(plan, intent) };
    let outcome = world.call(2, outcome);
    assert_eq!(spent(&world), (1, 0));
    world.call(2, commit(plan, Some(outcome), 0));
    assert_eq!(spent(&world), (1, 0));
    assert!(
        world.state.calls.is_empty()
            && world.state.intents.is_empty()
            && world.state.doubts.is_empty()
    );
}

/// An event of the kind that `choice` stands for, lawful or not.
fn candidate(world: &mut World, choice: u8, number: u8) -> Event {
    let open = world.state.calls.iter().next().map(|(seq, call)| (*seq, call.clone()));
    let doubt = world.state.doubts.iter().next().map(|(seq, row)| (*seq, row.call.inv));
    let entry = world.state.entries();
    let used = |w: &World, effect: &str| {
        w.state
            .spending
            .iter()
            .filter(|((.., e, _), _)| e == effect)
            .map(|(_, row)| row.charged + row.reserved)
            .sum::<u64>()
    };
    world.at += u64::from(number) * if choice == 19 { HOUR } else { 1000 };
    let (plan_seq, call) = match (choice, open) {
        (0..=2, _) => {
            return world.of(
                number,
                Plan { claim: Some(world::b32(number)), same: b16(number % 3), ..plan() },
            );
        }
        (3, _) => return world.of(number, write_plan(number % 8)),
        (4, _) => return world.add_later(Some("ep1"), approval(number % 8)),
        (5, _) => return world.add_later(Some("ep1"), Freeze { frozen: number < 20 }),
        (6, _) => return world.seal(),
        (7, _) => {
            return world
                .add_later(Some("ep1"), Session { expires: world.at + HOUR, ..session(1) });
        }
        (8, _) => return world.add_later(Some("ep2"), Episode { base_commit: None }),
        (9, _) => return world.add_later(Some("ep2"), session(2)),
        (10, _) => {
            let redaction = Redaction { by: None, refs: None, reason: RedactionReason::Law };
            return world.add_later(Some("ep2"), redaction);
        }
        (11, _) => {
            let Some((seq, inv)) = doubt else { return world.seal() };
            let verdict = if number < 128 { Verdict::Landed } else { Verdict::NotHappened };
            return Event { inv: Some(inv), ..world.of(0, resolution(seq, verdict)) };
        }
        (_, None) => return world.add_later(None, Freeze { frozen: false }),
        (_, Some(open)) => open,
    };
    let body: worldlog::event::Body = match (choice, &call.intent) {
        (12..=14, None) if call.tool == "write-file" => {
            write_intent(plan_seq, 3_u64.saturating_sub(used(world, "write"))).into()
        }
        (12..=14, None) => intent(plan_seq, 3_u64.saturating_sub(used(world, "read"))).into(),
        (15, None) => denied(plan_seq).into(),
        (12..=15, Some(row)) => {
            let recovered = row.closed.is_some();
            worldlog::event::Outcome { recovered, ..outcome(plan_seq, row.seq) }.into()
        }
        (16 | 17, Some(row)) => {
            let all =
                [Verdict::Landed, Verdict::NotHappened, Verdict::InDoubt, Verdict::Unrecorded];
            closure(row.seq, all[usize::from(number % 4)]).into()
        }
        _ => commit(plan_seq, call.outcome, entry).into(),
    };
    Event { inv: Some(call.inv), ..world.of(0, body) }
}

impl World {
    fn add_later(&self, ep: Option<&str>, body: impl Into<worldlog::event::Body>) -> Event {
        self.next(ep, None, body)
    }

    /// Appends what is lawful of what the choices stand for; how many events that is.
    fn run(&mut self, choices: &[(u8, u8)]) -> usize {
        let offered = choices.iter().map(|(choice, number)| {
            let event = candidate(self, *choice, *number);
            self.offer(&event).is_ok()
        });
        offered.filter(|lawful| *lawful).count()
    }
}

fn choices(most: usize) -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0_u8..20, any::<u8>()), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn undo_restores_everything(first in choices(80), second in choices(80), settle: bool) {
        let mut world = World::new();
        world.run(&first);
        if settle {
            world.state.settle();
        }
        let before = world.picture();
        let mark = world.state.mark();
        let at = world.at;
        world.run(&second);
        // A digest in between must not outlive what it was computed from.
        world.picture();
        world.state.undo(&mark);
        world.at = at;
        prop_assert_eq!(world.picture(), before);
        prop_assert_eq!(world.state.digest().expect("a digest"), digest_of_rows(&world.state));
    }

    #[test]
    fn a_snapshot_gives_the_same_state_and_the_same_future(first in choices(80), second in choices(80)) {
        let mut world = World::new();
        world.run(&first);
        let bytes = Snapshot::take(&mut world.state).expect("a snapshot");
        scan(&bytes).expect("canonical");
        let state = Snapshot::parse(&bytes).and_then(|s| s.restore()).expect("our own");
        let mut other = World { state, at: world.at, leaves: Vec::new() };
        prop_assert_eq!(other.picture(), world.picture());
        prop_assert_eq!(other.run(&second), world.run(&second));
        prop_assert_eq!(other.picture(), world.picture());
    }

    #[test]
    fn the_incremental_digest_is_the_whole_one(first in choices(120)) {
        let mut world = World::new();
        for choice in first {
            world.run(&[choice]);
            world.state.digest().expect("a digest");
        }
        prop_assert_eq!(world.state.digest().expect("a digest"), digest_of_rows(&world.state));
    }

    /// `apply` is total: what is unlawful is folded too, whatever it says.
    #[test]
    fn unlawful_events_do_not_panic(first in choices(60), second in choices(60)) {
        let mut world = World::new();
        world.run(&first);
        for (choice, number) in second {
            let event = candidate(&mut world, choice, number);
            let _ = world.state.check(&event);
            world.state.apply(&event, &[number; 32]);
        }
        prop_assert_eq!(world.state.digest().expect("a digest"), digest_of_rows(&world.state));
    }
}

/// Whatever changes in the bytes, what is restored has the true rows. Seq, leaf and time a reader compares with the log,
/// and the ends of the chains with the map of episodes.
#[test]
fn a_tampered_snapshot_is_refused() {
    let mut world = full();
    let bytes = Snapshot::take(&mut world.state).expect("a snapshot");
    let rows = world.state.rows();
    let mut refused = 0;
    for at in 0..bytes.len() {
        for mask in [1, 0x20, 0x80] {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            match Snapshot::parse(&bytes).and_then(|snapshot| snapshot.restore()) {
                Ok(state) => assert_eq!(state.rows(), rows, "byte {at} ^ {mask:#x}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 2 * bytes.len(), "{refused} of {} are refused", 3 * bytes.len());
    assert!(Snapshot::parse(&bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn a_snapshot_of_another_fold_is_refused() {
    let mut world = full();
    let bytes = Snapshot::take(&mut world.state).expect("a snapshot");
    let mut snapshot = Snapshot::parse(&bytes).expect("our own");
    snapshot.fold += 1;
    assert!(snapshot.restore().is_err());
}

/// What the compiler sees of a source file, without its layout.
fn code(text: &str) -> String {
    let line = |line: &str| {
        let whole = line.trim_start().starts_with("//");
        let code = if whole { "" } else { line.split_once(" // ").map_or(line, |(code, _)| code) };
        code.split_whitespace().collect::<String>()
    };
    let code: String = text.lines().map(line).collect();
    code.replace(",)", ")").replace(",]", "]").replace(",}", "}")
}

#[test]
fn the_fold_changes_only_with_its_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["apply", "check", "rows", "mod"].map(|name| {
        let path = root.join(format!("src/state/{name}.rs"));
        code(&std::fs::read_to_string(path).expect("the source"))
    });
    let found = format!("fold: {FOLD}\nsources: {}\n", hex(&sha256(sources.concat().as_bytes())));
    let kept = std::fs::read_to_string(root.join("fixtures/state/fold.txt")).unwrap_or_default();
    assert_eq!(
        kept, found,
        "\nThe code of src/state changed. Does it give any log another state, row or digest than before?\n\
         yes: raise FOLD in src/state/mod.rs, say so in spec/README.md (history), describe it in spec/state.md;\n\
         no: leave FOLD.\n\
         In both cases the new content of fixtures/state/fold.txt is:\n\n{found}",
    );
}
