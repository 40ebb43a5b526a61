//! `spec/broker.md`: decisions by the table in fixtures/broker, and the notation of grants.

use std::fs;
use std::path::Path;
use worldlog::broker::{Ask, Decision, decide};
use worldlog::event::{B16, B32, EpisodeName, Fixed, to_cbor};
use worldlog::service::GrantSpec;
use worldlog::state::{ApprovalRow, Position, SessionRow, SpentRow, State};

const EXPIRES: u64 = 1_000;

fn episode() -> EpisodeName {
    EpisodeName::parse("ep1").expect("a name")
}

fn session() -> B16 {
    Fixed([1; 16])
}

fn token() -> B32 {
    Fixed([2; 32])
}

fn grant(text: &str) -> worldlog::event::Grant {
    let (text, expires) = match text.split_once('@') {
        Some((text, at)) => (text, at.parse().expect("an expiry")),
        None => (text, EXPIRES),
    };
    let spec = GrantSpec::parse(text).expect("a grant");
    let (effect, scope) = (spec.effect, spec.scope);
    worldlog::event::Grant { effect, scope, budget: spec.budget, expires, confirm: spec.confirm }
}

/// A state that holds exactly these rows.
fn state(
    grants: Vec<worldlog::event::Grant>,
    spent: ((EpisodeName, String, String), SpentRow),
    approval: Option<ApprovalRow>,
) -> State {
    let row = SessionRow {
        cred: token(),
        role: worldlog::event::Role::Agent,
        claims: 0,
        grants,
        episode: Some(episode()),
        expires: EXPIRES,
        revoked: None,
    };
    let mut tables = State::new().dump().expect("tables");
    let mut set = |name: &str, bytes: Vec<u8>| {
        tables.iter_mut().find(|(table, _)| table == name).expect("a table").1 = bytes;
    };
    set("session", to_cbor(&[(session(), row)]).expect("a row"));
    set("spent", to_cbor(&[spent]).expect("a row"));
    let approvals: Vec<_> = approval.map(|row| ((session(), token()), row)).into_iter().collect();
    set("approval", to_cbor(&approvals).expect("a row"));
    State::load(Position { seq: 9, leaf: [0; 32], at: 0 }, &tables).expect("a state")
}

fn approval(word: &str) -> ApprovalRow {
    use worldlog::event::ApprovalVerdict::{Approve, Decline};
    let verdict = if word == "declined" { Decline } else { Approve };
    ApprovalRow { used: word == "used", until: if word == "over" { 1 } else { EXPIRES }, verdict }
}

fn run(line: &str) -> (String, String) {
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    let [grants, ask, wanted] = parts[..] else { panic!("three parts: {line}") };
    let grants = grants.split(' ').filter(|text| *text != "-").map(grant).collect();
    let words: Vec<&str> = ask.split(' ').collect();
    let [effect, scope, cost, "at", at, "spent", spent, rest @ ..] = &words[..] else {
        panic!("an ask: {line}")
    };
    let (charged, reserved) = spent.split_once('+').expect("charged+reserved");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let row = SpentRow { charged: number(charged), reserved: number(reserved) };
    let key = (episode(), (*effect).to_owned(), (*scope).to_owned());
    let state = state(grants, (key, row), rest.first().map(|word| approval(word)));
    let (session, episode, token) = (session(), episode(), token());
    let ask = Ask {
        session: &session,
        episode: &episode,
        effect,
        scope,
        cost: number(cost),
        token: Some(&token),
    };
    let found = match decide(&state, number(at), &ask) {
        Decision::Allow { grant, before } => format!("allow {grant} {before}"),
        Decision::Deny { denial, before } => format!("{denial} {before}"),
    };
    (found, wanted.to_owned())
}

#[test]
fn decisions_are_those_of_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cases = 0;
    for entry in fs::read_dir(root.join("fixtures/broker")).expect("fixtures") {
        let text = fs::read_to_string(entry.expect("readable").path()).expect("readable");
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (found, wanted) = run(line);
            assert_eq!(found, wanted, "{line}");
            cases += 1;
        }
    }
    assert!(cases > 20, "{cases} cases");
}

#[test]
fn the_notation_of_grants_is_strict() {
    let full = GrantSpec::parse("A.B=x:y:7;confirm;ttl=60").expect("a grant");
    assert_eq!((full.effect.as_str(), full.scope.as_str(), full.budget), ("A.B", "x:y", 7));
    assert_eq!((full.confirm, full.ttl_s), (true, Some(60)));
    for bad in [
        "",
        "A",
        "A=",
        "A=x",
        "A=:1",
        "=x:1",
        "A=x:",
        "A=x:-1",
        "A=x:1.0",
        "A=x:4294967296",
        "A=x:1;",
        "A=x:1;no",
        "A=x:1;ttl",
        "A=x:1;ttl=",
        "A=x:1;ttl=x",
        "A b=x:1",
        "A=x y:1",
        "\u{e9}=x:1",
    ] {
        let error = GrantSpec::parse(bad).expect_err(bad);
        assert!(error.starts_with("grant "), "{error}");
    }
}
