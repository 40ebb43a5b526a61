//! What an answer costs does not grow with the log: reads of the store are counted, never time.

use super::{call, caller, ep, invoke, member, write};
use crate::support::World;
use worldlog::canon::Value;
use worldlog::event::B16;
use worldlog::service::{Answer, Caller, Cause};

/// Reads that a log ten times as long may cost more: bisections over its chunks.
const MORE_MAX: u64 = 12;

/// A question and its answer's worth.
type Question<'a> = (&'static str, Box<dyn Fn() -> Value + 'a>);

fn questions<'a>(world: &'a World, me: &'a Caller, first: &Answer) -> Vec<Question<'a>> {
    let service = &world.service;
    let inv = B16::from_hex(&first.receipt.invocation).expect("hex");
    let (entry, leaf) = (first.receipt.entry, first.receipt.leaf);
    let record = member(first, "world");
    let record = record.get("effects").and_then(Value::as_array).expect("effects")[0].clone();
    let record = record.get("record").and_then(Value::as_str).expect("a record");
    let output = Cause::parse(&first.receipt.output).expect("a reference");
    let record = Cause::parse(record).expect("a reference");
    let why = move |cause| service.why(Some(me), cause).expect("a story");
    let file =
        move |path: &str, at| service.file_at(me, &ep(), path, at).expect("it").to_value(true);
    let list = |items: Vec<Value>| Value::Array(items);
    vec![
        ("an entry", Box::new(move || why(Cause::Entry(entry)))),
        ("an invocation", Box::new(move || why(Cause::Invocation(inv)))),
        ("a leaf", Box::new(move || why(Cause::Leaf(leaf)))),
        ("a record", Box::new(move || why(record))),
        ("an output", Box::new(move || why(output))),
        ("a file", Box::new(move || file("a.txt", None))),
        ("a file at a leaf", Box::new(move || file("a.txt", Some(leaf)))),
        ("a file that no call wrote", Box::new(move || file("x/y/z", None))),
        (
            "a receipt",
            Box::new(move || {
                Value::from(matches!(
                    service.receipt(Some(me), &inv),
                    Ok(worldlog::service::Receipt::Committed(_))
                ))
            }),
        ),
        (
            "a page of the log",
            Box::new(move || {
                let page = service.log(Some(me), entry, 2).expect("a page");
                list(page.iter().map(worldlog::service::LogEntry::to_value).collect())
            }),
        ),
        (
            "the calls of an episode",
            Box::new(move || {
                let calls = service.newest_calls(Some(me), &ep()).expect("calls");
                list(calls.iter().map(worldlog::service::LogEntry::to_value).collect())
            }),
        ),
        (
            "an object",
            Box::new(move || match output {
                Cause::Object(hash) => (service.object(me, &hash).expect("it").len() as u64).into(),
                _ => Value::Null,
            }),
        ),
        (
            "what is unresolved",
            Box::new(move || list(service.unresolved(Some(me), 0, 9).expect("it"))),
        ),
        (
            "a page of a kind",
            Box::new(move || {
                list(service.objects_of_kind(me, "world/effect-record/v1", None, 1).expect("it").0)
            }),
        ),
    ]
}

#[test]
fn an_answer_costs_the_same_however_long_the_log() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 10), world.agent("ep2", 10));
    let me = caller(&world, &token);
    let first = invoke(&world, &token, write("a.txt", "one")).expect("an answer");
    let grow = |count: usize| {
        for _ in 0..count {
            let refused = call("ailang-read", r#"{"no":"such argument"}"#);
            invoke(&world, &other, refused).expect("an answer");
        }
        world.service.ledger().tend().expect("tended");
    };
    let ask = || {
        let asked = questions(&world, &me, &first).into_iter().map(|(name, question)| {
            let before = world.store.reads();
            let answer = question();
            (name, world.store.reads() - before, answer)
        });
        asked.collect::<Vec<_>>()
    };
    grow(400);
    let short = ask();
    grow(3_600);
    for ((name, before, answer), (_, after, same)) in short.into_iter().zip(ask()) {
        assert_eq!(answer, same, "{name}");
        assert_ne!(answer, Value::Null, "{name}");
        assert!(after <= before + MORE_MAX, "{name}: {before} reads before, {after} after");
    }
}
