//! What takes a change back: exactly its paths, bytes and modes, or nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use worldlog::canon::Value;
use worldlog::event::{Evidence, hex};
use worldlog::handlers::{self, Effect, FOLDER, Prepared, settle};
use worldlog::merkle::hash::{Hash, sha256};
use worldlog::sandbox::{Means, Worktree};

use super::{
    MEANS, World, carry, edit, json, mkdir, output, perform, perform_sealed, read, remove, text,
    write,
};

/// The contents that intents kept.
#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Kept {
    /// Runs a change, keeps what it replaced, and returns its evidence.
    fn change(&mut self, tree: &Worktree, prepared: Prepared) -> Value {
        assert_eq!(prepared.refused(), None);
        for (file, bytes) in prepared.files.iter().zip(&prepared.before) {
            let hash = file.first.map(|_| sha256(bytes));
            assert_eq!(hash, file.first, "what is kept is what the intent names");
        }
        self.0.extend(prepared.before.clone());
        let evidence = prepared.evidence.clone();
        assert_eq!(settle(tree, &evidence), Evidence::Before);
        assert_eq!(text(&perform(tree, prepared).output), output(true, None));
        assert_eq!(settle(tree, &evidence), Evidence::After);
        evidence
    }

    fn undo(&self, tree: &Worktree, evidence: &Value) -> Result<Prepared, String> {
        let find = |hash: &Hash| self.0.iter().find(|bytes| sha256(bytes) == *hash).cloned();
        handlers::undo(tree, evidence, &find)
    }
}

fn world() -> World {
    let world = World::new();
    world.put("d/f", b"one\r\n\xff\x00", 0o751);
    world.put("d/g", b"", 0o600);
    world.put("e/x/y", b"deep", 0o644);
    fs::create_dir_all(world.at("hollow")).unwrap();
    fs::set_permissions(world.at("hollow"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("d", world.at("l")).unwrap();
    world
}

fn changes() -> Vec<Effect> {
    vec![
        write("d/f", "two"),
        write("l/f", ""),
        write("new", "text"),
        edit("d/f", "one", "1"),
        remove("d/f"),
        remove("l/g"),
        remove("hollow"),
        mkdir("a"),
        mkdir("a/b/c"),
        mkdir("l/sub/sub"),
        carry("d/f", "e/f"),
        carry("d", "moved"),
        carry("hollow", "d/hollow"),
        carry("e/x", "x"),
    ]
}

#[test]
fn an_undo_restores_and_can_be_undone() {
    for means in MEANS {
        for effect in changes() {
            let world = world();
            let tree = world.tree(means);
            let mut kept = Kept::default();
            let before = world.picture();
            let evidence = kept.change(&tree, handlers::prepare(&tree, &effect));
            let after = world.picture();
            assert_ne!(before, after);

            let undo = kept.undo(&tree, &evidence).unwrap();
            let undone = kept.change(&tree, undo);
            assert_eq!(world.picture(), before, "{effect:?} {means:?}");

            let redo = kept.undo(&tree, &undone).unwrap();
            let redone = kept.change(&tree, redo);
            assert_eq!(world.picture(), after, "{effect:?} {means:?}");

            let again = kept.undo(&tree, &redone).unwrap();
            kept.change(&tree, again);
            assert_eq!(world.picture(), before, "{effect:?} {means:?}");
        }
    }
}

#[test]
fn a_mode_that_a_write_dropped_comes_back() {
    let world = World::new();
    world.put("f", b"one", 0o4755);
    let tree = world.open();
    let mut kept = Kept::default();
    let evidence = kept.change(&tree, handlers::prepare(&tree, &write("f", "two")));
    assert_eq!(fs::metadata(world.at("f")).unwrap().permissions().mode() & 0o7777, 0o755);
    let undo = kept.undo(&tree, &evidence).unwrap();
    kept.change(&tree, undo);
    assert_eq!(fs::metadata(world.at("f")).unwrap().permissions().mode() & 0o7777, 0o4755);
}

/// Dying at the seal of an undo, and right after it.
#[test]
fn an_undo_that_is_cut_off_is_settled() {
    for effect in changes() {
        let world = world();
        let tree = world.open();
        let mut kept = Kept::default();
        let evidence = kept.change(&tree, handlers::prepare(&tree, &effect));
        let after = world.picture();
        let undo = kept.undo(&tree, &evidence).unwrap();
        let of_undo = undo.evidence.clone();
        let done = perform_sealed(&tree, undo, &|| false);
        assert_eq!(text(&done.output), "{}");
        assert_eq!(settle(&tree, &of_undo), Evidence::Before, "{effect:?}");
        assert_eq!(world.picture(), after);
    }
}

#[test]
fn what_moved_on_is_not_undone() {
    type Spoil = fn(&World);
    let cases: [(Effect, Spoil, &str); 14] = [
        (write("d/f", "two"), |w| w.put("d/f", b"three", 0o751), "not what the call left"),
        (write("d/f", "two"), |w| w.put("d/f", b"two", 0o600), "not what the call left"),
        (write("d/f", "two"), |w| fs::remove_file(w.at("d/f")).unwrap(), "now there is nothing"),
        (write("new", "x"), |w| fs::remove_file(w.at("new")).unwrap(), "now there is nothing"),
        (
            write("new", "x"),
            |w| {
                fs::remove_file(w.at("new")).unwrap();
                symlink("d/f", w.at("new")).unwrap();
            },
            "symbolic link",
        ),
        (write("d/f", "two"), |w| fs::hard_link(w.at("d/f"), w.at("h")).unwrap(), "2 hard links"),
        (remove("d/f"), |w| w.put("d/f", b"three", 0o644), "it left nothing, now there is sha256:"),
        (remove("d/f"), |w| fs::create_dir(w.at("d/f")).unwrap(), "now there is a folder"),
        (mkdir("a"), |w| w.put("a/x", b"", 0o644), "a: the folder is not empty any more"),
        (mkdir("a/b/c"), |w| w.put("a/b/x", b"", 0o644), "a/b: the folder is not empty any more"),
        (mkdir("a/b/c"), |w| w.put("a/b/c/x", b"", 0o644), "a/b/c: the folder is not empty"),
        (remove("hollow"), |w| fs::create_dir(w.at("hollow")).unwrap(), "now there is a folder"),
        (carry("d", "m"), |w| fs::create_dir(w.at("d")).unwrap(), "it left nothing"),
        (carry("d/f", "m"), |w| w.put("m", b"three", 0o751), "not what the call left"),
    ];
    for (effect, spoil, why) in cases {
        let world = world();
        let tree = world.open();
        let mut kept = Kept::default();
        let evidence = kept.change(&tree, handlers::prepare(&tree, &effect));
        spoil(&world);
        let picture = world.picture();
        let said = kept.undo(&tree, &evidence).unwrap_err();
        assert!(said.contains(why), "{effect:?}: {said}");
        assert!(!said.contains(world.dir.path().to_str().unwrap()));
        assert_eq!(world.picture(), picture);
    }
}

#[test]
fn what_moves_on_between_is_refused_and_kept() {
    for means in MEANS {
        let mut kept = Kept::default();
        let undone = |world: &World, kept: &mut Kept, effect: &Effect| -> (Worktree, Prepared) {
            let tree = world.tree(means);
            let evidence = kept.change(&tree, handlers::prepare(&tree, effect));
            let undo = kept.undo(&tree, &evidence).unwrap();
            (tree, undo)
        };
        let refused = |world: &World, tree: &Worktree, undo: Prepared, spoil: &dyn Fn()| {
            let spoilt = std::cell::RefCell::new(None);
            let done = perform_sealed(tree, undo, &|| {
                spoil();
                *spoilt.borrow_mut() = Some(world.picture());
                true
            });
            let said = text(&done.output);
            assert!(said.contains("\"ok\":false"), "{said}");
            let mut spoilt = spoilt.into_inner().unwrap();
            spoilt.retain(|path, _| !path.to_string_lossy().contains(".worldlog-"));
            assert_eq!(world.picture(), spoilt, "{means:?}: {said}");
        };
        let world = self::world();
        let (tree, undo) = undone(&world, &mut kept, &write("new", "mine"));
        refused(&world, &tree, undo, &|| world.put("new", b"theirs", 0o644));
        let (tree, undo) = undone(&world, &mut kept, &remove("d/f"));
        refused(&world, &tree, undo, &|| world.put("d/f", b"theirs", 0o644));
        let (tree, undo) = undone(&world, &mut kept, &mkdir("a/b/c"));
        refused(&world, &tree, undo, &|| world.put("a/b/c/theirs", b"", 0o644));
        let (tree, undo) = undone(&world, &mut kept, &mkdir("s"));
        refused(&world, &tree, undo, &|| world.put("s/theirs", b"", 0o644));
        let (tree, undo) = undone(&world, &mut kept, &carry("e", "m"));
        refused(&world, &tree, undo, &|| world.put("e/theirs", b"", 0o644));
    }
}

#[test]
fn what_cannot_be_taken_back_says_why() {
    let world = world();
    let tree = world.open();
    let mut kept = Kept::default();
    let said = |kept: &Kept, evidence: &Value| kept.undo(&tree, evidence).unwrap_err();
    let nothing = "this call changed no file, so there is nothing to take back";
    assert_eq!(said(&kept, &Value::Null), nothing);
    assert_eq!(said(&kept, &handlers::prepare(&tree, &read("d/f")).evidence), nothing);
    let evidence = kept.change(&tree, handlers::prepare(&tree, &write("d/f", "two")));
    let gone = format!(
        "d/f: its content before the call (sha256:{}) is not in the log any more",
        hex(&sha256(b"one\r\n\xff\x00"))
    );
    assert_eq!(said(&Kept::default(), &evidence), gone);
    // Whoever hands over other bytes hands over nothing.
    let other = handlers::undo(&tree, &evidence, &|_| Some(b"other".to_vec()));
    assert_eq!(other.unwrap_err(), gone);
    for broken in [
        r#"{"files":[{"path":"f"}]}"#,
        r#"{"files":[{"path":"f","before":null,"after":null}]}"#,
        r#"{"files":[{"path":"d/f","before":{},"after":{"mode":1}},{"path":"f","before":null,"after":null}]}"#,
    ] {
        assert!(kept.undo(&tree, &json(broken)).is_err(), "{broken}");
    }
    let policy =
        r#"{"files":[{"path":".git/x","before":null,"after":{"sha256":"00","mode":420}}]}"#;
    assert_eq!(said(&kept, &json(policy)), ".git/x: .git/ is read-only to the lane's tools");
    let out = r#"{"files":[{"path":"../outside/secret","before":null,"after":{"sha256":"00","mode":420}}]}"#;
    assert!(said(&kept, &json(out)).contains("escapes sandbox"));
}

#[test]
fn folders_have_a_content_of_their_own() {
    let world = world();
    let tree = world.tree(Means { openat2: true, renameat2: true });
    let folder = sha256(FOLDER);
    let prepared = handlers::prepare(&tree, &mkdir("a/b"));
    let files: Vec<_> =
        prepared.files.iter().map(|f| (f.path.as_str(), f.first, f.second)).collect();
    assert_eq!(files, [("a", None, Some(folder)), ("a/b", None, Some(folder))]);
    let base: Vec<_> = prepared.base.iter().map(|s| (s.path.as_str(), s.found)).collect();
    assert_eq!(base, [("a", None), ("a/b", None)]);
    let prepared = handlers::prepare(&tree, &carry("d", "m"));
    let base: Vec<_> = prepared.base.iter().map(|s| (s.path.as_str(), s.found)).collect();
    assert_eq!(base, [("d", Some((folder, 0))), ("m", None)]);
    assert_eq!(prepared.before, [FOLDER.to_vec(), Vec::new()]);
    let seen = perform(&tree, prepared).seen;
    let seen: Vec<_> = seen.iter().map(|f| (f.path.as_str(), f.first)).collect();
    assert_eq!(seen, [("m", Some(folder))], "what the session now knows");
    let seen = perform(&tree, handlers::prepare(&tree, &remove("m/f"))).seen;
    assert_eq!(seen.len(), 0);
}

#[test]
fn folders_as_deep_as_a_path_may_be_come_and_go() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        let before = world.picture();
        let mut kept = Kept::default();
        let path = format!("{}x", "d/".repeat(256));
        let evidence = kept.change(&tree, handlers::prepare(&tree, &mkdir(&path)));
        assert_eq!(evidence.get("files").unwrap().as_array().unwrap().len(), 257);
        let undo = kept.undo(&tree, &evidence).unwrap();
        kept.change(&tree, undo);
        assert_eq!(world.picture(), before, "{means:?}");
        let deeper = handlers::prepare(&tree, &mkdir(&format!("d/{path}")));
        assert!(deeper.refused().unwrap().ends_with("path is nested deeper than 256 folders"));
    }
}
