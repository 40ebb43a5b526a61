//! From an object to its story: by a side index that may be lost, and whose answers are looked at.

use super::{caller, invoke, member, read, write};
use crate::support::World;
use worldlog::canon::Value;
use worldlog::event::{B16, B32};
use worldlog::service::{Answer, CallError, Cause, GrantSpec, SessionChange, WhyError};
use worldlog::store::memory::Fault;

/// The record that an answer names.
fn record(answer: &Answer) -> Cause {
    let world = member(answer, "world");
    let effects = world.get("effects").and_then(Value::as_array).expect("effects");
    let name = effects[0].get("record").and_then(Value::as_str).expect("a record");
    Cause::parse(name).expect("a reference")
}

fn invocation(world: &World, token: &str, cause: Cause) -> Result<String, WhyError> {
    let story = world.service.why(Some(&caller(world, token)), cause)?;
    Ok(story.get("invocation").and_then(Value::as_str).expect("an invocation").to_owned())
}

#[test]
fn the_index_of_objects_survives_whatever_happens_to_it() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 100), world.agent("ep2", 100));
    let mut answers = Vec::new();
    for n in 0..20 {
        answers.push(invoke(&world, &token, write(&format!("f{n}.txt"), "x")).expect("it"));
        if n == 7 {
            // Some of it is written aside, some is only in memory.
            world.service.ledger().tend().expect("tended");
        }
    }
    let holds = |world: &World| {
        for answer in &answers {
            let found = invocation(world, &token, record(answer)).expect("a story");
            assert_eq!(found, answer.receipt.invocation);
            let foreign = invocation(world, &other, record(answer));
            assert!(matches!(foreign, Err(WhyError::NotFound)), "{foreign:?}");
        }
    };
    holds(&world);
    // A crash loses what was not written aside, and perhaps all of it.
    let after = world.crash();
    holds(&after);
    invoke(&after, &token, read("f3.txt")).expect("it goes on");
    after.service.ledger().tend().expect("tended");
    holds(&after.crash());
}

#[test]
fn the_newest_call_tells_of_what_several_named() {
    let world = World::new();
    let token = world.agent("ep1", 100);
    let answers = [0, 1, 2].map(|_| invoke(&world, &token, read("hello.ail")).expect("it"));
    let plan = member(&answers[0], "world").get("plan").and_then(Value::as_str).map(str::to_owned);
    let plan = Cause::parse(&plan.expect("a plan")).expect("a reference");
    let newest = invocation(&world, &token, plan).expect("a story");
    assert_eq!(newest, answers[2].receipt.invocation);
    world.service.ledger().tend().expect("tended");
    assert_eq!(invocation(&world, &token, plan).expect("a story"), newest);
    let unknown = Cause::Object(B32::from_hex(&"0".repeat(64)).expect("hex").0);
    assert!(matches!(invocation(&world, &token, unknown), Err(WhyError::NotFound)));
    assert!(matches!(world.service.why(None, plan), Err(WhyError::Session)));
}

/// The values of a member in each item of a list.
fn each(story: &Value, list: &str, name: &str) -> Vec<Value> {
    let items = story.get(list).and_then(Value::as_array).expect(list);
    items.iter().map(|item| item.get(name).cloned().unwrap_or(Value::Null)).collect()
}

#[test]
fn a_story_has_every_closure_of_its_call() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    world.store.fail_at(2, Fault::Lost);
    let error = invoke(&world, &token, write("a.txt", "one")).expect_err("lost");
    let CallError::Unconfirmed { invocation, .. } = error else { panic!("{error}") };
    world.file("a.txt", "somebody else was here");
    let world = world.crash();
    let cause = Cause::parse(&invocation).expect("an invocation");
    let story = world.service.why(None, cause).expect("a story");
    let words = |words: &[&str]| words.iter().map(|word| Value::from(*word)).collect::<Vec<_>>();
    assert_eq!(each(&story, "closures", "verdict"), words(&["in-doubt"]));
    assert_eq!(each(&story, "closures", "by"), words(&["recovery"]));
    let inv = B16::from_hex(&invocation).expect("hex");
    world.service.resolve(&inv, true).expect("settled");
    for world in [&world, &world.crash()] {
        let story = world.service.why(None, cause).expect("a story");
        assert_eq!(each(&story, "closures", "verdict"), words(&["in-doubt", "landed"]));
        assert_eq!(each(&story, "closures", "by"), words(&["recovery", "operator"]));
        let kinds = ["plan", "intent", "closure", "closure", "outcome", "commit"];
        assert_eq!(each(&story, "events", "kind"), words(&kinds));
        assert_eq!(story.get("verdict").and_then(Value::as_str), Some("landed"));
        assert_eq!(story.get("status").and_then(Value::as_str), Some("ok"));
    }
}

#[test]
fn a_story_has_the_grants_of_its_time() {
    let world = World::new();
    let token = world.agent("ep1", 7);
    let first = invoke(&world, &token, read("hello.ail")).expect("it");
    let session = caller(&world, &token).session().to_string();
    let change = SessionChange { grants: Some(GrantSpec::coding(9)), ..SessionChange::default() };
    world.service.change_session(&session, &change).expect("more budget");
    let second = invoke(&world, &token, read("hello.ail")).expect("it");
    let budgets = |world: &World, entry: u64| {
        let story = world.service.why(None, Cause::Entry(entry)).expect("a story");
        let grants = story.get("grants").expect("grants").clone();
        let leaf = grants.get("leaf").and_then(Value::as_u64).expect("a leaf");
        (each(&grants, "items", "budget")[0].as_u64().expect("a budget"), leaf)
    };
    for world in [&world, &world.crash()] {
        let (old, new) = (budgets(world, 0), budgets(world, 1));
        assert_eq!((old.0, new.0), (7, 9));
        assert!(old.1 < first.receipt.leaf && first.receipt.leaf < new.1);
        assert!(new.1 < second.receipt.leaf);
    }
}

#[test]
fn references_have_one_form() {
    for text in
        ["", "sha256:", "sha256:00", "entry:", "entry:-1", "01", "leaf:x", "leaf:", "LEAF:1"]
    {
        assert_eq!(Cause::parse(text), None, "{text}");
    }
    assert_eq!(Cause::parse("7"), Some(Cause::Entry(7)));
    assert_eq!(Cause::parse("entry:7"), Some(Cause::Entry(7)));
    assert_eq!(Cause::parse("leaf:0"), Some(Cause::Leaf(0)));
}
