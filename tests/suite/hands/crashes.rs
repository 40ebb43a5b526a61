//! A crash between any two steps of a change, and what evidence says of the disk that it leaves.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use worldlog::canon::{Value, object};
use worldlog::event::{Evidence, hex};
use worldlog::handlers::{self, Effect, settle};
use worldlog::merkle::hash::sha256;
use worldlog::sandbox::Worktree;

use super::{MEANS, World, carry, edit, json, mkdir, perform, perform_sealed, read, remove, write};

const TEMPORARY: &str = ".worldlog-0707070707070707.tmp";

/// Prepares, and dies right before the file is put in place.
fn die_before_rename(tree: &Worktree, effect: &Effect) -> Value {
    let prepared = handlers::prepare(tree, effect);
    let evidence = prepared.evidence.clone();
    let died = AssertUnwindSafe(|| perform_sealed(tree, prepared, &|| panic!("killed")));
    assert!(catch_unwind(died).is_err());
    evidence
}

fn exchange(world: &World) {
    let (a, b) = (world.at(TEMPORARY), world.at("f"));
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

#[test]
fn the_evidence_says_what_stands_there_and_what_is_to() {
    let world = World::new();
    world.put("d/f", b"one", 0o751);
    symlink("d", world.at("l")).unwrap();
    let tree = world.open();
    let prepared = handlers::prepare(&tree, &edit("l/f", "one", "two"));
    let meta = fs::metadata(world.at("d/f")).unwrap();
    let ctime = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
    let (one, two) = (sha256(b"one"), sha256(b"two"));
    let before = object([
        ("sha256", hex(&one).into()),
        ("size", "3".into()),
        ("mode", 0o751.into()),
        ("inode", meta.ino().to_string().into()),
        ("ctime", ctime.to_string().into()),
    ]);
    let after = object([("sha256", hex(&two).into()), ("mode", 0o751.into())]);
    let file = object([("path", "d/f".into()), ("before", before), ("after", after)]);
    assert_eq!(prepared.evidence, object([("files", vec![file].into())]));
    assert_eq!(prepared.before, [b"one".to_vec()]);
    let [named] = prepared.files.as_slice() else { panic!("one file") };
    assert_eq!((named.path.as_str(), named.first, named.second), ("d/f", Some(one), Some(two)));

    let prepared = handlers::prepare(&tree, &write("new", "x"));
    let after = object([("sha256", hex(&sha256(b"x")).into()), ("mode", 0o644.into())]);
    let file = object([("path", "new".into()), ("before", Value::Null), ("after", after)]);
    assert_eq!(prepared.evidence, object([("files", vec![file].into())]));
    assert_eq!(prepared.before, [Vec::<u8>::new()]);
    assert_eq!(prepared.files[0].first, None);
}

#[test]
fn what_changes_nothing_has_no_evidence() {
    let world = World::new();
    let tree = world.open();
    let picture = world.picture();
    for effect in [read("x"), write(".git/x", "x"), edit("nope", "a", "b")] {
        let prepared = handlers::prepare(&tree, &effect);
        assert_eq!(
            (&prepared.evidence, prepared.files.len(), prepared.before.len()),
            (&Value::Null, 0, 0)
        );
        assert_eq!(settle(&tree, &prepared.evidence), Evidence::Harmless);
    }
    handlers::prepare(&tree, &write("a/b", "x"));
    assert_eq!(world.picture(), picture, "preparing changes nothing");
}

#[test]
fn dying_before_the_rename_is_before() {
    for means in MEANS {
        for effect in [write("f", "two"), edit("f", "one", "two"), write("x/y/f", "two")] {
            let world = World::new();
            let tree = world.tree(means);
            world.put("f", b"one", 0o644);
            let evidence = die_before_rename(&tree, &effect);
            assert_eq!(settle(&tree, &evidence), Evidence::Before);
            let path = evidence.get("files").unwrap().as_array().unwrap()[0].get("path").unwrap();
            assert_eq!(tree.sweep(path.as_str().unwrap()), Ok(1));
            assert_eq!(tree.sweep(path.as_str().unwrap()), Ok(0));
            assert_eq!(settle(&tree, &evidence), Evidence::Before);
        }
    }
}

#[test]
fn dying_with_half_a_temporary_file_is_before() {
    let world = World::new();
    let tree = world.open();
    world.put("f", b"one", 0o644);
    for content in ["two two", "one"] {
        let evidence = handlers::prepare(&tree, &write("f", content)).evidence;
        world.put(TEMPORARY, b"tw", 0o600);
        assert_eq!(settle(&tree, &evidence), Evidence::Before, "{content}");
    }
}

#[test]
fn dying_after_the_exchange_is_after() {
    let world = World::new();
    let tree = world.open();
    world.put("f", b"one", 0o644);
    let evidence = die_before_rename(&tree, &write("f", "two"));
    exchange(&world);
    assert_eq!((world.get("f"), world.get(TEMPORARY)), (b"two".to_vec(), b"one".to_vec()));
    assert_eq!(settle(&tree, &evidence), Evidence::After);
    assert_eq!(tree.sweep("f"), Ok(1));
    assert!(!world.at(TEMPORARY).exists());
    assert_eq!(settle(&tree, &evidence), Evidence::After);
}

#[test]
fn dying_before_the_strangers_file_is_put_back_is_in_doubt() {
    let world = World::new();
    let tree = world.open();
    world.put("f", b"one", 0o644);
    let evidence = die_before_rename(&tree, &write("f", "two"));
    world.put("f", b"theirs", 0o644);
    assert_eq!(settle(&tree, &evidence), Evidence::Other);
    exchange(&world);
    assert_eq!(settle(&tree, &evidence), Evidence::Other, "theirs was displaced and must be found");
    assert_eq!(world.get(TEMPORARY), b"theirs");
}

#[test]
fn dying_between_link_and_unlink_is_after() {
    // A file system without renameat2 makes new files by a second name.
    let world = World::new();
    let tree = world.tree(MEANS[3]);
    let evidence = die_before_rename(&tree, &write("f", "two"));
    fs::hard_link(world.at(TEMPORARY), world.at("f")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::After);
    assert!(tree.target("f").is_err(), "two names");
    assert_eq!(tree.sweep("f"), Ok(1));
    assert!(tree.target("f").is_ok());
}

#[test]
fn what_ran_to_its_end_is_after_until_somebody_writes() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("f", b"one", 0o711);
        for effect in [write("f", "two"), edit("f", "two", "3"), write("f", "3"), write("a/b", "n")]
        {
            let prepared = handlers::prepare(&tree, &effect);
            let evidence = prepared.evidence.clone();
            perform(&tree, prepared);
            assert_eq!(settle(&tree, &evidence), Evidence::After);
        }
        let prepared = handlers::prepare(&tree, &write("f", "four"));
        let evidence = prepared.evidence.clone();
        perform(&tree, prepared);
        world.put("f", b"four", 0o600);
        assert_eq!(settle(&tree, &evidence), Evidence::Other, "another mode");
        world.put("f", b"five", 0o711);
        assert_eq!(settle(&tree, &evidence), Evidence::Other, "other bytes");
        world.put("f", b"four", 0o711);
        assert_eq!(settle(&tree, &evidence), Evidence::After);
        fs::rename(world.at("f"), world.at("g")).unwrap();
        assert_eq!(settle(&tree, &evidence), Evidence::Other, "gone");
        symlink("g", world.at("f")).unwrap();
        assert_eq!(settle(&tree, &evidence), Evidence::Other, "a link to such a file");
    }
}

#[test]
fn the_same_bytes_written_again_are_not_the_state_before() {
    let world = World::new();
    let tree = world.open();
    world.put("f", b"one", 0o644);
    let evidence = handlers::prepare(&tree, &write("f", "two")).evidence;
    assert_eq!(settle(&tree, &evidence), Evidence::Before);
    // The clock of the file system ticks every few milliseconds.
    sleep(Duration::from_millis(30));
    world.put("f", b"one", 0o644);
    assert_eq!(settle(&tree, &evidence), Evidence::Other, "same inode, later change");

    let evidence = handlers::prepare(&tree, &write("f", "two")).evidence;
    world.put("g", b"one", 0o644);
    fs::rename(world.at("g"), world.at("f")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other, "another inode");

    let evidence = handlers::prepare(&tree, &write("n", "two")).evidence;
    File::create(world.at("n")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other, "absent, and now empty");
}

#[test]
fn evidence_that_says_nothing_settles_nothing() {
    let world = World::new();
    let tree = world.open();
    world.put("f", b"one", 0o644);
    let sound = handlers::prepare(&tree, &write("f", "two")).evidence;
    let file = sound.get("files").unwrap().as_array().unwrap()[0].clone();
    let absent = handlers::prepare(&tree, &write("n", "two"));
    let other = absent.evidence.get("files").unwrap().as_array().unwrap()[0].clone();
    let all = |files: Vec<Value>| settle(&tree, &object([("files", files.into())]));
    assert_eq!(all(vec![file.clone(), other.clone()]), Evidence::Before);
    perform(&tree, absent);
    assert_eq!(all(vec![other.clone()]), Evidence::After);
    assert_eq!(all(vec![file, other]), Evidence::Other, "one before, one after");
    for broken in ["{}", "[]", r#"{"files":[]}"#, r#"{"files":[{"path":"f"}]}"#, r#"{"files":{}}"#]
    {
        assert_eq!(settle(&tree, &json(broken)), Evidence::Other, "{broken}");
    }
}

#[test]
fn the_sweep_takes_only_what_unfinished_writes_left() {
    let world = World::new();
    let tree = world.open();
    let near = [
        ".worldlog-070707070707070.tmp",
        ".worldlog-070707070707070G.tmp",
        ".worldlog-0707070707070707.tm",
        "worldlog-0707070707070707.tmp",
        ".worldlog-07070707070707070.tmp",
    ];
    for name in near {
        world.put(name, b"x", 0o600);
    }
    world.put(".worldlog-00000000000000aa.tmp/x", b"a folder", 0o600);
    symlink("../outside/secret", world.at(".worldlog-00000000000000ab.tmp")).unwrap();
    let kept = world.picture();
    world.put(TEMPORARY, b"x", 0o600);
    world.put(".worldlog-0000000000000000.tmp", b"x", 0o600);
    assert_eq!(tree.sweep("f"), Ok(2));
    assert_eq!(world.picture(), kept);
    assert_eq!(tree.sweep("no/such/f"), Ok(0));
    assert!(tree.sweep("../outside/f").is_err());
}

fn paths(evidence: &Value) -> Vec<String> {
    let files = evidence.get("files").unwrap().as_array().unwrap();
    files.iter().map(|file| file.get("path").unwrap().as_str().unwrap().to_owned()).collect()
}

/// What recovery does after it has looked.
fn sweep(tree: &Worktree, evidence: &Value) -> usize {
    paths(evidence).iter().map(|path| tree.sweep(path).unwrap()).sum()
}

#[test]
fn dying_before_a_folder_or_a_move_or_a_removal_is_before() {
    for means in MEANS {
        for effect in [
            mkdir("a"),
            mkdir("a/b/c"),
            remove("d/f"),
            remove("hollow"),
            carry("d/f", "g"),
            carry("d", "x/y/z"),
        ] {
            let world = World::new();
            let tree = world.tree(means);
            world.put("d/f", b"one", 0o644);
            fs::create_dir(world.at("hollow")).unwrap();
            let picture = world.picture();
            let evidence = die_before_rename(&tree, &effect);
            assert_eq!(settle(&tree, &evidence), Evidence::Before, "{effect:?} {means:?}");
            sweep(&tree, &evidence);
            assert_eq!(settle(&tree, &evidence), Evidence::Before);
            let mut left = world.picture();
            // Folders that the goal of the move needs may stay, as for a write.
            left.retain(|path, _| !path.starts_with("worktree/x"));
            assert_eq!(left, picture, "{effect:?} {means:?}");
        }
    }
}

#[test]
fn dying_after_the_rename_that_makes_folders_is_after() {
    let world = World::new();
    let tree = world.open();
    let evidence = die_before_rename(&tree, &mkdir("a/b"));
    assert!(world.at(TEMPORARY).join("b").is_dir());
    fs::rename(world.at(TEMPORARY), world.at("a")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::After);
    assert_eq!(sweep(&tree, &evidence), 0);
    fs::create_dir(world.at("a/other")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::After, "what is in them is not ours to judge");
    fs::remove_dir(world.at("a/b")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other, "one is there and one is not");
}

#[test]
fn dying_with_some_of_the_folders_made_is_before() {
    let world = World::new();
    let tree = world.open();
    let evidence = handlers::prepare(&tree, &mkdir("a/b/c")).evidence;
    fs::create_dir(world.at(TEMPORARY)).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Before);
    fs::create_dir(world.at(TEMPORARY).join("b")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Before);
    assert_eq!(sweep(&tree, &evidence), 1);
    assert!(!world.at(TEMPORARY).exists());
}

#[test]
fn dying_after_a_file_was_taken_away_is_after() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("f", b"one", 0o644);
        let evidence = die_before_rename(&tree, &remove("f"));
        fs::rename(world.at("f"), world.at(TEMPORARY)).unwrap();
        assert_eq!(settle(&tree, &evidence), Evidence::After);
        assert_eq!(sweep(&tree, &evidence), 1);
        assert_eq!(settle(&tree, &evidence), Evidence::After);
        assert!(!world.at(TEMPORARY).exists());
    }
}

#[test]
fn dying_with_a_strangers_file_taken_away_is_in_doubt() {
    let world = World::new();
    let tree = world.open();
    world.put("f", b"one", 0o644);
    let evidence = die_before_rename(&tree, &remove("f"));
    world.put(TEMPORARY, b"theirs", 0o644);
    fs::remove_file(world.at("f")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other);
    // It is the only copy of what they wrote.
    assert_eq!(tree.sweep_known("f", &[Some(sha256(b"one")), None]), Ok(0));
    assert_eq!(world.get(TEMPORARY), b"theirs");
    assert_eq!(tree.sweep_known("f", &[Some(sha256(b"theirs")), None]), Ok(1));

    let world = World::new();
    let tree = world.open();
    world.put("f", b"one", 0o644);
    let evidence = die_before_rename(&tree, &carry("f", "g"));
    world.put("f", b"theirs", 0o644);
    fs::rename(world.at("f"), world.at("g")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other);
}

#[test]
fn dying_after_a_folder_was_removed_is_after() {
    let world = World::new();
    let tree = world.open();
    fs::create_dir_all(world.at("a/b")).unwrap();
    let evidence = die_before_rename(&tree, &remove("a/b"));
    fs::remove_dir(world.at("a/b")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::After);
    fs::remove_dir(world.at("a")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::After, "and what held it went too");
    fs::create_dir_all(world.at("a/b")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other, "another folder of that name");
}

#[test]
fn dying_after_the_rename_that_moves_is_after() {
    for (from, to) in [("d/f", "g"), ("d", "x")] {
        let world = World::new();
        let tree = world.open();
        world.put("d/f", b"one", 0o644);
        let evidence = die_before_rename(&tree, &carry(from, to));
        fs::rename(world.at(from), world.at(to)).unwrap();
        assert_eq!(settle(&tree, &evidence), Evidence::After);
        // Moved back by somebody: it happened, and is not the state before.
        sleep(Duration::from_millis(30));
        fs::rename(world.at(to), world.at(from)).unwrap();
        assert_eq!(settle(&tree, &evidence), Evidence::Other);
    }
}

#[test]
fn a_copy_beside_the_original_is_no_move() {
    // What the second name of a file system without renameat2 leaves, and what a folder of the same name is.
    let world = World::new();
    let tree = world.tree(MEANS[3]);
    world.put("f", b"one", 0o644);
    let evidence = die_before_rename(&tree, &carry("f", "g"));
    fs::hard_link(world.at("f"), world.at("g")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other);

    fs::create_dir(world.at("d")).unwrap();
    let evidence = die_before_rename(&tree, &carry("d", "e"));
    fs::create_dir(world.at("e")).unwrap();
    fs::remove_dir(world.at("d")).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::Other, "another folder");
}

#[test]
fn dying_while_folders_are_taken_back() {
    let world = World::new();
    let tree = world.open();
    perform(&tree, handlers::prepare(&tree, &mkdir("a/b")));
    let of_call = handlers::prepare(&tree, &mkdir("a/b/c"));
    let made = of_call.evidence.clone();
    perform(&tree, of_call);
    let both = {
        let files = |path: &str| {
            format!(r#"{{"path":"{path}","before":null,"after":{{"folder":true,"mode":493}}}}"#)
        };
        json(&format!(r#"{{"files":[{},{}]}}"#, files("a/b"), files("a/b/c")))
    };
    assert_eq!(settle(&tree, &made), Evidence::After);
    let undo = handlers::undo(&tree, &both, &|_| None).unwrap();
    let evidence = undo.evidence.clone();
    let died = AssertUnwindSafe(|| perform_sealed(&tree, undo, &|| panic!("killed")));
    assert!(catch_unwind(died).is_err());
    assert_eq!(settle(&tree, &evidence), Evidence::Before);
    let temporary = format!("a/{TEMPORARY}");
    fs::rename(world.at("a/b"), world.at(&temporary)).unwrap();
    assert_eq!(settle(&tree, &evidence), Evidence::After);
    // Somebody put a file there before it was taken away: nobody may sweep it.
    world.put(&format!("{temporary}/c/theirs"), b"theirs", 0o644);
    assert_eq!(settle(&tree, &evidence), Evidence::Other);
    assert_eq!(sweep(&tree, &evidence), 0);
    fs::remove_file(world.at(&format!("{temporary}/c/theirs"))).unwrap();
    assert_eq!(sweep(&tree, &evidence), 1);
    assert_eq!(settle(&tree, &evidence), Evidence::After);
}

#[test]
fn the_evidence_of_folders_and_moves() {
    let world = World::new();
    let tree = world.open();
    world.put("d/f", b"one", 0o644);
    let meta = fs::metadata(world.at("d")).unwrap();
    let ctime = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
    let inode = meta.ino();
    let evidence = handlers::prepare(&tree, &carry("d", "e")).evidence;
    let wanted = format!(
        r#"{{"files":[
            {{"path":"d","before":{{"folder":true,"mode":493,"inode":"{inode}","ctime":"{ctime}"}},"after":null}},
            {{"path":"e","before":null,"after":{{"folder":true,"mode":493,"inode":"{inode}"}}}}]}}"#
    );
    assert_eq!(evidence, json(&wanted));
    let evidence = handlers::prepare(&tree, &mkdir("e/g")).evidence;
    let folder = r#""before":null,"after":{"folder":true,"mode":493}"#;
    let wanted = format!(r#"{{"files":[{{"path":"e",{folder}}},{{"path":"e/g",{folder}}}]}}"#);
    assert_eq!(evidence, json(&wanted));
}
