//! Listing and searching: their limits, their order, and what a file can do to them.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use worldlog::canon::Value;
use worldlog::handlers::{self, DEADLINE, Done, Effect, Gate, Status};
use worldlog::limits::{FILE_BYTES_MAX, SEARCH_LINE_READ_BYTES_MAX, WALK_OUTPUT_BYTES_MAX};
use worldlog::sandbox::{Glob, Scope, Worktree};

use super::{MEANS, World, context, json, op, permit, run, text};

fn list(members: &str) -> Effect {
    super::effect("Workspace.List", &json(members))
}

fn search(members: &str) -> Effect {
    super::effect("Workspace.Search", &json(members))
}

fn field(done: &Done, name: &str) -> String {
    text(done.output.get(name).unwrap_or_else(|| panic!("{}", text(&done.output))))
}

fn items<'a>(done: &'a Done, name: &str) -> &'a [Value] {
    done.output.get(name).unwrap().as_array().unwrap()
}

fn paths(done: &Done) -> Vec<String> {
    let path = |entry: &Value| entry.get("path").unwrap().as_str().unwrap().to_owned();
    items(done, "entries").iter().map(path).collect()
}

/// Runs while somebody waits for the first `times` questions.
fn run_until(tree: &Worktree, effect: &Effect, times: usize) -> Done {
    let asked = Cell::new(0);
    let open = || asked.replace(asked.get() + 1) < times;
    let gate = Gate { seal: &|| panic!("no point of no return"), open: &open };
    handlers::perform(permit(), tree, handlers::prepare(tree, effect), &[7; 16], &context(), gate)
}

#[test]
fn paths_come_in_bytewise_order() {
    let world = World::new();
    for path in ["a/z", "a-b/x", "a.b", "a/b/c", "a0", "B", "a", "~", "é", "a b"] {
        if path != "a" {
            world.put(path, b"", 0o644);
        }
    }
    for means in MEANS {
        let listed = paths(&run(&world.tree(means), &op("list", &[])));
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        assert_eq!(listed, sorted);
        assert_eq!(listed.len(), 12);
        for limit in 1..listed.len() {
            let done =
                run(&world.tree(means), &list(&format!(r#"{{"op":"list","limit":{limit}}}"#)));
            assert_eq!(paths(&done), listed[..limit], "the first ones");
            assert_eq!(field(&done, "truncated_by"), r#""limit""#);
        }
    }
}

#[test]
fn a_long_answer_is_cut_and_says_so() {
    let world = World::new();
    let name = "n".repeat(240);
    for n in 0..5_000 {
        world.put(&format!("d/{n:04}{name}"), b"x\n", 0o644);
    }
    let tree = world.open();
    let done = run(&tree, &list(r#"{"op":"list","limit":10000}"#));
    assert_eq!(field(&done, "truncated_by"), r#""bytes""#);
    let bytes = done.output.to_bytes().len();
    assert!((WALK_OUTPUT_BYTES_MAX / 2..WALK_OUTPUT_BYTES_MAX + 1024).contains(&bytes), "{bytes}");

    world.put("long", "x\n".repeat(3_000).as_bytes(), 0o644);
    let done = run(&tree, &search(r#"{"op":"search","pattern":"x","path":"long"}"#));
    assert_eq!(
        (items(&done, "matches").len(), field(&done, "truncated_by")),
        (200, r#""limit""#.to_owned())
    );
    world.put("long", format!("{}x\n", "\u{1}".repeat(499)).repeat(2_000).as_bytes(), 0o644);
    let done = run(&tree, &search(r#"{"op":"search","pattern":"x","path":"long","limit":2000}"#));
    assert_eq!(field(&done, "truncated_by"), r#""bytes""#);
    assert!(done.output.to_bytes().len() < WALK_OUTPUT_BYTES_MAX + 1024);
}

#[test]
fn a_walk_over_too_many_names_is_cut_and_says_so() {
    let world = World::new();
    for n in 0..30 {
        world.put(&format!("d{}/{n:02}", n / 10), b"", 0o644);
    }
    let walk = |names: usize| {
        let mut seen = 0;
        let glob = Glob::new(Some("[0-9]*")).unwrap();
        let (depth, hidden, file) = (usize::MAX, false, false);
        let scope = Scope { path: None, depth, hidden, glob: &glob, file, names };
        let walked = world.open().walk(&scope, &|| true, &mut |_| {
            seen += 1;
            true
        });
        (walked.unwrap().cut, seen)
    };
    assert_eq!(walk(33), (false, 30));
    assert_eq!(walk(32), (true, 29));
    assert_eq!(walk(13), (true, 10), "three folders, and what is in the first");
    assert_eq!(walk(2), (true, 0));
}

#[test]
fn names_that_are_no_text_are_counted() {
    let world = World::new();
    world.put("f", b"x\n", 0o644);
    fs::copy(world.at("f"), world.at(".").join(OsStr::from_bytes(b"caf\xe9"))).unwrap();
    for means in MEANS {
        let tree = world.tree(means);
        let done = run(&tree, &op("list", &[]));
        assert_eq!(
            (paths(&done), field(&done, "not_utf8")),
            (vec!["f".to_owned()], "1".to_owned())
        );
        let done = run(&tree, &op("search", &[("pattern", "x")]));
        assert_eq!(
            (field(&done, "searched"), field(&done, "not_utf8")),
            ("1".to_owned(), "1".to_owned())
        );
    }
}

#[test]
fn a_walk_goes_as_deep_as_a_path_may() {
    let world = World::new();
    let tree = world.open();
    world.put(&format!("{}x", "d/".repeat(256)), b"x\n", 0o644);
    fs::create_dir(world.at(&"d/".repeat(257))).unwrap();
    let done = run(&tree, &search(r#"{"op":"search","pattern":"x"}"#));
    assert_eq!((items(&done, "matches").len(), field(&done, "unreadable")), (1, "1".to_owned()));
}

#[test]
fn files_beyond_the_limits_are_counted() {
    let world = World::new();
    let tree = world.open();
    let mut most = vec![b'a'; SEARCH_LINE_READ_BYTES_MAX - 1];
    most.push(b'x');
    world.put("f", &most, 0o644);
    world.put("g", &vec![b'\n'; FILE_BYTES_MAX + 1], 0o644);
    let done = run(&tree, &search(r#"{"op":"search","pattern":"x"}"#));
    let found = items(&done, "matches");
    assert_eq!(found.len(), 1, "one long line");
    assert_eq!(found[0].get("cut").unwrap(), &Value::from(true));
    assert_eq!(found[0].get("text").unwrap().as_str().unwrap(), format!("{}x", "a".repeat(499)));
    let counts = |done: &Done| (field(done, "searched"), field(done, "too_large"));
    assert_eq!(counts(&done), ("1".to_owned(), "1".to_owned()));
    most.push(b'x');
    world.put("f", &most, 0o644);
    let done = run(&tree, &search(r#"{"op":"search","pattern":"x"}"#));
    assert_eq!(counts(&done), ("0".to_owned(), "2".to_owned()), "a longer one");
    let listed = run(&tree, &op("list", &[]));
    assert!(text(&listed.output).contains(r#""path":"g","size":8388609"#));
}

#[test]
fn nobody_waits_so_it_stops() {
    let world = World::new();
    for n in 0..50 {
        world.put(&format!("d/{n}"), b"x\n", 0o644);
    }
    let tree = world.open();
    for effect in [op("list", &[]), op("search", &[("pattern", "x")])] {
        for times in [0, 1, 20] {
            let done = run_until(&tree, &effect, times);
            assert_eq!(done.status, Status::Failed(DEADLINE.to_owned()));
            assert_eq!(text(&done.output), "{}");
        }
        assert_eq!(run_until(&tree, &effect, 1_000).status, Status::Ok);
    }
    // Within one file, between two steps of it.
    world.put("big", "y\n".repeat(1 << 20).as_bytes(), 0o644);
    let effect = op("search", &[("pattern", "x"), ("path", "big")]);
    assert_eq!(run_until(&tree, &effect, 5).status, Status::Failed(DEADLINE.to_owned()));
}

#[test]
fn an_expression_that_is_hard_to_run_stops_too() {
    let world = World::new();
    // Whole, this would take most of a minute.
    let line: String = (0..2_000u32).map(|n| if n * n % 7 < 3 { 'a' } else { 'b' }).collect();
    world.put("f", format!("{line}\n").repeat(3_000).as_bytes(), 0o644);
    let tree = world.open();
    let effect = search(r#"{"op":"search","pattern":"a[ab]{900}[^ab]","path":"f"}"#);
    let done = run_until(&tree, &effect, 3);
    assert_eq!(done.status, Status::Failed(DEADLINE.to_owned()));
}

#[test]
fn a_hostile_gitignore_is_passed_over() {
    let world = World::new();
    world.put("f", b"x\n", 0o644);
    let tree = world.open();
    world.put(".gitignore", &vec![b'*'; 70 * 1024], 0o644);
    assert_eq!(paths(&run(&tree, &op("list", &[]))), ["f"], "too long");
    world.put(".gitignore", b"[\n{a\n\xff\xfe\n**\\\n\nnope\n", 0o644);
    assert_eq!(paths(&run(&tree, &op("list", &[]))), ["f"]);
    let many = (0..6_000).map(|n| format!("x{n}*\n")).collect::<Vec<_>>().concat();
    world.put(".gitignore", many.as_bytes(), 0o644);
    assert_eq!(paths(&run(&tree, &op("list", &[]))), ["f"]);
}

#[test]
fn a_search_makes_no_content_known() {
    let world = World::new();
    world.put("f", b"x\n", 0o644);
    let tree = world.open();
    for effect in [op("list", &[]), op("search", &[("pattern", "x")])] {
        let prepared = handlers::prepare(&tree, &effect);
        assert_eq!(
            (&prepared.evidence, prepared.files.len(), prepared.base.len()),
            (&Value::Null, 0, 0)
        );
        assert_eq!(run(&tree, &effect).seen, []);
    }
    assert_eq!(run(&tree, &op("view", &[("path", "f")])).seen.len(), 1);
}
