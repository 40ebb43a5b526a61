//! From an object to its story: by a side index that may be lost, and whose answers are looked at.

use super::{caller, invoke, member, read, write};
use crate::support::World;
use worldlog::canon::Value;
use worldlog::event::B32;
use worldlog::service::{Answer, Cause, WhyError};

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
