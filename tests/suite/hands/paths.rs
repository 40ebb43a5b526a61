//! Paths that a line of a fixture cannot hold.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use worldlog::handlers::occurrences;
use worldlog::sandbox::{Fault, Worktree, shown};

use super::{
    Effect, MEANS, World, carry, edit, mkdir, op, output, read, refused, remove, run, text, write,
};

fn said(tree: &Worktree, path: &str) -> [String; 3] {
    [read(path), write(path, "x"), edit(path, "a", "b")].map(|e| text(&run(tree, &e).output))
}

/// Every tool that takes a path, with what its refusals begin with. `there` is a file that can be moved.
fn every_tool(path: &str) -> Vec<(String, Effect)> {
    let short = shown(path);
    let verb = |verb: &str| format!("{verb} {short}: ");
    vec![
        (verb("read"), read(path)),
        (verb("read"), op("view", &[("path", path)])),
        (verb("list"), op("list", &[("path", path)])),
        (verb("search"), op("search", &[("path", path), ("pattern", "s")])),
        (verb("write"), write(path, "x")),
        (verb("edit"), edit(path, "a", "b")),
        (verb("mkdir"), mkdir(path)),
        (verb("remove"), remove(path)),
        (verb("move"), carry(path, "free")),
        (format!("move there: to {short}: "), carry("there", path)),
    ]
}

/// Each tool refuses the path with this text, by every means, and nothing is changed anywhere.
fn refuse_all(set_up: impl Fn(&World), path: &str, why: &str, but: &[&str]) {
    for means in MEANS {
        let world = World::new();
        world.put("there", b"there", 0o644);
        set_up(&world);
        let picture = world.picture();
        let tree = world.tree(means);
        for (prefix, effect) in every_tool(path) {
            if but.iter().any(|verb| prefix.starts_with(verb)) {
                continue;
            }
            let done = run(&tree, &effect);
            assert_eq!(text(&done.output), refused(&format!("{prefix}{why}")), "{means:?}");
            assert!(done.seen.is_empty());
            assert_eq!(world.picture(), picture, "{effect:?} {means:?}");
        }
    }
}

#[test]
fn no_tool_leaves_the_worktree() {
    let escapes = |path: &str| format!("path {path:?} escapes sandbox \"<worktree>\"");
    let link = |name: &'static str, target: &'static str| {
        move |world: &World| symlink(target, world.at(name)).unwrap()
    };
    let nothing = |_: &World| ();
    for path in
        ["../outside/secret", "there/../../outside", "/etc/hosts", "../worktree_evil/secret"]
    {
        if !path.starts_with("there") {
            refuse_all(nothing, path, &escapes(path), &[]);
        }
    }
    // `..` after a folder goes back to where it came from.
    refuse_all(
        |w| fs::create_dir(w.at("d")).unwrap(),
        "d/../../outside",
        &escapes("d/../../outside"),
        &[],
    );
    refuse_all(link("l", "../outside"), "l/secret", &escapes("l/secret"), &[]);
    refuse_all(link("l", "../worktree_evil"), "l/secret", &escapes("l/secret"), &[]);
    refuse_all(link("l", "/"), "l/etc/hosts", &escapes("l/etc/hosts"), &[]);
    refuse_all(link("l", "../outside"), "l/new/x", &escapes("l/new/x"), &[]);
    // At the end of a path a link is what is moved and removed, and it is not.
    let ends = &["remove", "move"];
    refuse_all(link("l", "../outside/secret"), "l", &escapes("l"), ends);
    refuse_all(link("l", "../outside/nothing"), "l", &escapes("l"), ends);
    refuse_all(link("l", "/etc/hosts"), "l", &escapes("l"), ends);
    let chain = |world: &World| {
        symlink("b", world.at("a")).unwrap();
        symlink("c", world.at("b")).unwrap();
        symlink("../outside", world.at("c")).unwrap();
    };
    refuse_all(chain, "a/secret", &escapes("a/secret"), &[]);
    refuse_all(chain, "a", &escapes("a"), ends);
    let ring = |world: &World| {
        symlink("b", world.at("a")).unwrap();
        symlink("a", world.at("b")).unwrap();
    };
    let looped = |path: &str| format!("openat {path}: too many levels of symbolic links");
    refuse_all(ring, "a/x", &looped("a/x"), &[]);
    refuse_all(ring, "a", &looped("a"), ends);
}

#[test]
fn no_tool_takes_a_path_that_no_file_has() {
    let nothing = |_: &World| ();
    refuse_all(nothing, "", "path is empty", &[]);
    refuse_all(nothing, "there\0.png", "path contains a NUL byte", &[]);
    let long = "a/".repeat(2048);
    refuse_all(nothing, &long, "path is 4096 bytes; the limit is 4095", &[]);
    let name = "n".repeat(256);
    refuse_all(nothing, &name, &format!("openat {name}: file name too long"), &[]);
    let deep = format!("{}x", "d/".repeat(257));
    // What is not there cannot be too deep to be read.
    let why = "path is nested deeper than 256 folders";
    refuse_all(nothing, &deep, why, &[]);
    refuse_all(nothing, "there/x", "openat there/x: not a directory", &[]);
    refuse_all(nothing, "there/", "openat there/: not a directory", &[]);
}

#[test]
fn no_tool_writes_what_policy_keeps() {
    let reads = &["read", "list", "search"];
    let git = ".git/ is read-only to the lane's tools";
    for path in [".git", ".git/x", ".GIT/hooks/x", "sub/.Git/x", "./.git", "sub//.git/."] {
        refuse_all(|_| (), path, git, reads);
    }
    let link = |world: &World| {
        world.put(".git/config", b"c", 0o644);
        symlink(".git", world.at("l")).unwrap();
    };
    refuse_all(link, "l/config", git, reads);
    for (path, pattern) in [
        (".github/x", ".github/**"),
        (".GitHub/x", ".github/**"),
        (".pi", ".pi/**"),
        (".claude/x", ".claude/**"),
        (".ailang/x", ".ailang/**"),
        (".gitmodules", ".gitmodules"),
        (".gitattributes", ".gitattributes"),
        ("a/.worldlog-0000000000000001.tmp", ".worldlog-*.tmp"),
    ] {
        let why =
            format!("matches fs_deny_write \"{pattern}\" \u{2014} read-only under this policy");
        refuse_all(|_| (), path, &why, reads);
    }
    // Neither listed nor searched, where it may be read.
    let hidden = ".git/ is not listed and not searched";
    refuse_all(link, ".git", hidden, &["read", "write", "edit", "mkdir", "remove", "move"]);
    refuse_all(link, "l", hidden, &["read", "write", "edit", "mkdir", "remove", "move"]);
}

#[test]
fn no_tool_opens_a_pipe_or_a_device_or_parts_a_file_from_its_names() {
    let pipe = |world: &World| super::set_up(world, "fifo", "p").then_some(()).unwrap();
    let why = "openat p: is a named pipe, not a regular file";
    refuse_all(pipe, "p", why, &["list"]);
    let twin = |world: &World| fs::hard_link(world.at("../outside/secret"), world.at("h")).unwrap();
    let why = "the file has 2 hard links; only a file with one name can be written";
    refuse_all(twin, "h", why, &["read", "list", "search"]);
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
