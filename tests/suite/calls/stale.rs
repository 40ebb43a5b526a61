//! No lost update: a write over a file that changed since the session saw it.

use super::{call, check, content, invoke, member, read, spent, write};
use crate::support::World;
use worldlog::canon::Value;
use worldlog::event::hex;
use worldlog::merkle::hash::sha256;
use worldlog::service::Call;

fn name(text: &str) -> String {
    format!("sha256:{}", hex(&sha256(text.as_bytes())))
}

fn refused(world: &World, token: &str, call: Call) -> Option<String> {
    let answer = invoke(world, token, call).expect("an answer");
    member(&answer, "refused").as_str().map(str::to_owned)
}

#[test]
fn a_write_over_what_moved_on_is_refused_naming_both() {
    let world = World::new();
    let token = world.agent("ep1", 20);
    world.file("a.txt", "seen");
    // Never seen: it may be written.
    assert_eq!(refused(&world, &token, write("hello.ail", "new")), None);
    assert_eq!(refused(&world, &token, read("a.txt")), None);
    world.file("a.txt", "theirs");
    let said = refused(&world, &token, write("a.txt", "mine")).expect("refused");
    assert!(said.contains(&name("seen")) && said.contains(&name("theirs")), "{said}");
    assert_eq!(content(&world, "a.txt").as_deref(), Some("theirs"));
    // It cost a unit, and a crash forgets nothing.
    assert_eq!(spent(&world), (2, 0));
    let world = world.crash();
    assert!(refused(&world, &token, write("a.txt", "mine")).is_some());
    assert_eq!(refused(&world, &token, read("a.txt")), None);
    assert_eq!(refused(&world, &token, write("a.txt", "mine")), None);
    // What it wrote itself it has seen.
    assert_eq!(refused(&world, &token, write("a.txt", "mine again")), None);
    check(&world);
}

#[test]
fn one_session_does_not_see_for_another() {
    let world = World::new();
    let (one, two) = (world.agent("ep1", 20), world.agent("ep1", 20));
    world.file("a.txt", "zero");
    assert_eq!(refused(&world, &one, read("a.txt")), None);
    assert_eq!(refused(&world, &two, write("a.txt", "two")), None);
    let said = refused(&world, &one, write("a.txt", "one")).expect("refused");
    assert!(said.contains(&name("zero")) && said.contains(&name("two")), "{said}");
}

#[test]
fn an_edit_is_guarded_by_its_text_and_an_absent_file_by_nothing() {
    let world = World::new();
    let token = world.agent("ep1", 20);
    world.file("a.txt", "left right");
    assert_eq!(refused(&world, &token, read("a.txt")), None);
    world.file("a.txt", "left and right");
    let edit = call("ailang-edit", r#"{"path":"a.txt","old_text":"right","new_text":"wrong"}"#);
    assert_eq!(refused(&world, &token, edit), None);
    assert_eq!(content(&world, "a.txt").as_deref(), Some("left and wrong"));
    std::fs::remove_file(world.worktree().join("a.txt")).expect("removed");
    assert_eq!(refused(&world, &token, write("a.txt", "back")), None);
}

#[test]
fn a_caller_may_say_what_it_expects() {
    let world = World::new();
    let token = world.agent("ep1", 20);
    world.file("a.txt", "zero");
    let expecting = |path: &str, text: Option<&str>, call: Call| {
        let expect = [(path.to_owned(), text.map(|text| sha256(text.as_bytes())))];
        Call { expect: expect.into_iter().collect(), ..call }
    };
    let said = refused(&world, &token, expecting("a.txt", Some("one"), write("a.txt", "x")));
    let said = said.expect("refused");
    assert!(said.contains(&name("one")) && said.contains(&name("zero")), "{said}");
    let said = refused(&world, &token, expecting("a.txt", None, write("a.txt", "x")));
    assert!(said.expect("refused").contains("absent"));
    assert_eq!(
        refused(&world, &token, expecting("a.txt", Some("zero"), write("a.txt", "x"))),
        None
    );
    assert_eq!(refused(&world, &token, expecting("b.txt", None, write("b.txt", "x"))), None);
    // What it names and does not touch cannot be promised.
    assert!(refused(&world, &token, expecting("c.txt", None, write("b.txt", "y"))).is_some());
    let said = refused(&world, &token, expecting("a.txt", Some("x"), read("a.txt")));
    assert!(said.expect("refused").contains("no path that this call changes"));
    // It goes before what was seen, and guards an edit too.
    world.file("a.txt", "theirs");
    assert_eq!(
        refused(&world, &token, expecting("a.txt", Some("theirs"), write("a.txt", "z"))),
        None
    );
    let edit = call("ailang-edit", r#"{"path":"a.txt","old_text":"z","new_text":"y"}"#);
    assert!(refused(&world, &token, expecting("a.txt", Some("no"), edit)).is_some());
    assert_eq!(
        member(&invoke(&world, &token, read("a.txt")).expect("it"), "content"),
        Value::from("z")
    );
    check(&world);
}
