//! Paths that a line of a fixture cannot hold.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use worldlog::handlers::occurrences;
use worldlog::sandbox::{Fault, Worktree, shown};

use super::{MEANS, World, edit, output, read, refused, run, text, write};

fn said(tree: &Worktree, path: &str) -> [String; 3] {
    [read(path), write(path, "x"), edit(path, "a", "b")].map(|e| text(&run(tree, &e).output))
}

#[test]
fn nul_is_in_no_name() {
    let world = World::new();
    world.put("a.txt", b"a", 0o644);
    let picture = world.picture();
    for means in MEANS {
        let all = said(&world.tree(means), "a.txt\0.png");
        let why = |verb| refused(&format!("{verb} a.txt\0.png: path contains a NUL byte"));
        assert_eq!(all, [why("read"), why("write"), why("edit")]);
    }
    assert_eq!(world.picture(), picture);
}

#[test]
fn long_paths_are_refused_and_shortened() {
    let world = World::new();
    let picture = world.picture();
    for means in MEANS {
        let tree = world.tree(means);
        let path = "a/".repeat(2048);
        let shown = format!("{}... (4096 bytes)", "a/".repeat(512));
        let all = said(&tree, &path);
        let why = |verb| refused(&format!("{verb} {shown}: path is 4096 bytes; the limit is 4095"));
        assert_eq!(all, [why("read"), why("write"), why("edit")]);
        let name = "n".repeat(256);
        let why = |verb| refused(&format!("{verb} {name}: openat {name}: file name too long"));
        assert_eq!(said(&tree, &name), [why("read"), why("write"), why("edit")]);
    }
    assert_eq!(world.picture(), picture);
}

#[test]
fn as_deep_as_the_limit_and_no_deeper() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        let path = format!("{}x", "d/".repeat(256));
        assert_eq!(text(&run(&tree, &write(&path, "deep")).output), output(true, None));
        let content = output(true, Some(("content", "deep")));
        assert_eq!(text(&run(&tree, &read(&path)).output), content);
        let picture = world.picture();
        let deeper = format!("d/{path}");
        let why =
            |verb| refused(&format!("{verb} {deeper}: path is nested deeper than 256 folders"));
        let all = said(&tree, &deeper);
        assert_eq!(all[1..], [why("write"), why("edit")]);
        assert_eq!(all[0], why("read"));
        assert_eq!(world.picture(), picture);
    }
}

#[test]
fn a_link_to_a_name_that_is_not_utf8() {
    let world = World::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    fs::rename(
        {
            world.put("x", b"x", 0o644);
            world.at("x")
        },
        world.at(".").join(name),
    )
    .unwrap();
    symlink(name, world.at("l")).unwrap();
    let picture = world.picture();
    for means in MEANS {
        let why = |verb| refused(&format!("{verb} l: path leads to a name that is not UTF-8"));
        assert_eq!(said(&world.tree(means), "l"), [why("read"), why("write"), why("edit")]);
    }
    assert_eq!(world.picture(), picture);
}

#[test]
fn as_many_links_as_the_kernel_follows() {
    let world = World::new();
    world.put("l0", b"end", 0o644);
    for n in 1..=41 {
        symlink(format!("l{}", n - 1), world.at(&format!("l{n}"))).unwrap();
    }
    for means in MEANS {
        let tree = world.tree(means);
        assert_eq!(tree.read("l40").unwrap().path, "l0");
        let fault = tree.read("l41").unwrap_err();
        assert_eq!(fault.to_string(), "openat l41: too many levels of symbolic links");
    }
}

#[test]
fn unicode_twins_are_two_files() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        for (path, content) in [("\u{e9}", "composed"), ("e\u{301}", "decomposed")] {
            assert_eq!(text(&run(&tree, &write(path, content)).output), output(true, None));
        }
        assert_eq!(
            (world.get("\u{e9}"), world.get("e\u{301}")),
            (b"composed".to_vec(), b"decomposed".to_vec())
        );
    }
}

#[test]
fn a_device_is_not_opened() {
    // The worktree is /dev itself: nothing else has devices that a test may rely on.
    for means in MEANS {
        let tree = Worktree::open_with("/dev".as_ref(), means).unwrap();
        let why =
            |verb| refused(&format!("{verb} null: openat null: is a device, not a regular file"));
        assert_eq!(said(&tree, "null"), [why("read"), why("write"), why("edit")]);
    }
}

#[test]
fn the_worktree_is_a_handle_and_not_a_name() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        fs::rename(world.at(""), world.dir.path().join("moved")).unwrap();
        symlink("outside", world.dir.path().join("worktree")).unwrap();
        assert_eq!(text(&run(&tree, &write("n", "new")).output), output(true, None));
        assert_eq!(fs::read(world.dir.path().join("moved/n")).unwrap(), b"new");
        assert!(!world.outside().join("n").exists());
    }
}

#[test]
fn an_absent_worktree_is_not_opened_and_not_named() {
    let world = World::new();
    let error = Worktree::open(&world.at("no")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(!error.to_string().contains("worktree"));
    world.put("file", b"", 0o644);
    assert!(Worktree::open(&world.at("file")).is_err());
}

#[test]
fn a_shown_path_is_cut_between_characters() {
    let path = format!("a{}", "\u{e9}".repeat(600));
    assert_eq!(shown(&path), format!("a{}... (1201 bytes)", "\u{e9}".repeat(511)));
    let fault = Fault::Escapes { path: "a\"b\n".to_owned() };
    assert_eq!(fault.to_string(), r#"path "a\"b\n" escapes sandbox "<worktree>""#);
}

proptest::proptest! {
    #[test]
    fn occurrences_are_those_of_the_plain_search(text in "[ab]{0,40}", needle in "[ab]{1,6}") {
        let (text, needle) = (text.as_bytes(), needle.as_bytes());
        let plain: Vec<usize> = (0..text.len()).filter(|at| text[*at..].starts_with(needle)).collect();
        let (count, first) = occurrences(text, needle);
        proptest::prop_assert_eq!(count, plain.len());
        proptest::prop_assert_eq!(first, plain.first().copied().unwrap_or(0));
    }
}
