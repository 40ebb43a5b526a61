//! What is swapped while the sandbox looks: between looking and acting, and all the time.

use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use worldlog::event::hex;
use worldlog::handlers::{self, DEADLINE, Status};
use worldlog::merkle::hash::sha256;

use super::{
    MEANS, World, carry, edit, mkdir, op, output, perform, perform_sealed, read, refused, remove,
    run, text, write,
};

const WRITES: usize = 2_000;

/// Two names are exchanged all the time: `d` is now a folder, now a link to the folder outside.
fn while_flipping(world: &World, work: impl FnOnce()) -> usize {
    fs::create_dir(world.at("d")).unwrap();
    symlink("../outside", world.at("other")).unwrap();
    let (stop, flips) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (a, b) = (world.at("d"), world.at("other"));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
                flips.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Also when the work panics: the scope waits for its threads.
        let worked = catch_unwind(AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        worked.unwrap();
    });
    flips.into_inner()
}

#[test]
fn no_write_leaves_while_a_folder_turns_into_a_link() {
    for means in [MEANS[0], MEANS[3]] {
        let world = World::new();
        let outside = || {
            let mut picture = world.picture();
            picture.retain(|path, _| !path.starts_with("worktree"));
            picture
        };
        let before = outside();
        let tree = world.tree(means);
        let (mut written, mut refused) = (0, 0);
        let flips = while_flipping(&world, || {
            for n in 0..WRITES {
                // Some are new, some replace, and some would hit the secret.
                let path = ["d/secret", "d/new", "d/sub/x"][n % 3];
                let done = run(&tree, &write(path, &n.to_string()));
                match done.output.get("ok").unwrap().as_bool() {
                    Some(true) => written += 1,
                    _ => refused += 1,
                }
            }
        });
        assert_eq!(outside(), before, "{means:?}");
        assert_eq!(written + refused, WRITES);
        assert!(flips > 100, "{flips} flips are no race");
        assert!(written > 0 && refused > 0, "{written} written, {refused} refused");
    }
}

#[test]
fn no_read_leaves_while_a_folder_turns_into_a_link() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        while_flipping(&world, || {
            for _ in 0..1_000 {
                let said = text(&run(&tree, &read("d/secret")).output);
                assert!(!said.contains("content"), "{means:?}: {said}");
            }
        });
    }
}

#[test]
fn no_change_leaves_while_a_folder_turns_into_a_link() {
    for means in [MEANS[0], MEANS[3]] {
        let world = World::new();
        let outside = || {
            let mut picture = world.picture();
            picture.retain(|path, _| !path.starts_with("worktree"));
            picture
        };
        let before = outside();
        let tree = world.tree(means);
        world.put("in", b"in", 0o644);
        let (mut done, mut refused) = (0, 0);
        while_flipping(&world, || {
            for n in 0..WRITES {
                let effect = match n % 6 {
                    0 => carry("in", "d/secret"),
                    1 => carry("d/secret", "in"),
                    2 => remove("d/secret"),
                    3 => mkdir("d/made/deep"),
                    4 => remove("d/made/deep"),
                    _ => carry("d/made", "made"),
                };
                match run(&tree, &effect).output.get("ok").unwrap().as_bool() {
                    Some(true) => done += 1,
                    _ => refused += 1,
                }
                // Whatever was moved or removed, there is something to move again.
                let _ = fs::remove_dir(world.at("made/deep"));
                let _ = fs::remove_dir(world.at("made"));
                if !world.at("in").exists() && !world.at("d/secret").exists() {
                    world.put("in", b"in", 0o644);
                }
            }
        });
        assert_eq!(outside(), before, "{means:?}");
        assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
        let held = fs::read_dir(world.at(".")).unwrap().map(|entry| entry.unwrap().file_name());
        let held: Vec<_> = held.filter(|name| name.to_string_lossy().contains(".tmp")).collect();
        assert!(held.is_empty(), "{held:?} are left");
    }
}

#[test]
fn no_walk_leaves_while_a_folder_turns_into_a_link() {
    for means in [MEANS[0], MEANS[3]] {
        let world = World::new();
        world.put("d0/in", b"in", 0o644);
        let tree = world.tree(means);
        while_flipping(&world, || {
            for _ in 0..1_000 {
                let listed = run(&tree, &op("list", &[]));
                assert!(!text(&listed.output).contains("secret"), "{means:?}");
                let listed = run(&tree, &op("list", &[("path", "d")]));
                assert!(!text(&listed.output).contains("secret"), "{means:?}");
                let searched = run(&tree, &op("search", &[("pattern", "secret")]));
                assert!(!text(&searched.output).contains("\"line\""), "{means:?}");
                let searched =
                    run(&tree, &op("search", &[("pattern", "secret"), ("path", "d/secret")]));
                assert!(!text(&searched.output).contains("\"line\""), "{means:?}");
            }
        });
    }
}

#[test]
fn what_changes_in_the_last_moment_stays_where_it_is() {
    type Spoil = fn(&World);
    let cases: [(super::Effect, Spoil); 8] = [
        (remove("f"), |w| w.put("f", b"theirs", 0o640)),
        (remove("f"), |w| {
            fs::remove_file(w.at("f")).unwrap();
            symlink("../outside/secret", w.at("f")).unwrap();
        }),
        (remove("f"), |w| {
            fs::remove_file(w.at("f")).unwrap();
            w.put("f/theirs", b"theirs", 0o644);
        }),
        (carry("f", "g"), |w| w.put("f", b"theirs", 0o640)),
        (carry("f", "g"), |w| w.put("g", b"theirs", 0o640)),
        (carry("d", "e"), |w| {
            fs::rename(w.at("d"), w.at("was")).unwrap();
            w.put("d/theirs", b"theirs", 0o644);
        }),
        (carry("d", "e"), |w| w.put("e/theirs", b"theirs", 0o644)),
        (mkdir("n/m"), |w| w.put("n/theirs", b"theirs", 0o644)),
    ];
    for means in MEANS {
        for (effect, spoil) in &cases {
            let world = World::new();
            world.put("f", b"one", 0o644);
            world.put("d/x", b"one", 0o644);
            let tree = world.tree(means);
            let prepared = handlers::prepare(&tree, effect);
            let done = perform_sealed(&tree, prepared, &|| {
                spoil(&world);
                true
            });
            let said = text(&done.output);
            assert!(said.contains("\"ok\":false"), "{effect:?} {means:?}: {said}");
            assert!(done.seen.is_empty());
            let wanted = World::new();
            wanted.put("f", b"one", 0o644);
            wanted.put("d/x", b"one", 0o644);
            spoil(&wanted);
            assert_eq!(world.picture(), wanted.picture(), "{effect:?} {means:?}");
        }
    }
}

#[test]
fn what_moved_on_before_a_change_is_left_alone() {
    type Spoil = fn(&World);
    let cases: [(super::Effect, Spoil, &str); 9] = [
        (remove("f"), |w| w.put("f", b"theirs", 0o644), "read it again"),
        (remove("f"), |w| w.put("f", b"one", 0o600), "keeps changing"),
        (remove("f"), |w| fs::remove_file(w.at("f")).unwrap(), "it is absent"),
        (carry("f", "g"), |w| w.put("f", b"theirs", 0o644), "read it again"),
        (carry("f", "g"), |w| w.put("g", b"theirs", 0o644), "there is a file already"),
        (carry("f", "g"), |w| symlink("f", w.at("g")).unwrap(), "symbolic link"),
        (
            carry("d", "e"),
            |w| {
                fs::rename(w.at("d"), w.at("was")).unwrap();
                fs::create_dir(w.at("d")).unwrap();
            },
            "the folder changed",
        ),
        (mkdir("n/m"), |w| fs::create_dir(w.at("n")).unwrap(), "keeps changing"),
        (mkdir("n"), |w| w.put("n", b"theirs", 0o644), "something else stands there"),
    ];
    for (effect, spoil, why) in cases {
        let world = World::new();
        world.put("f", b"one", 0o644);
        fs::create_dir(world.at("d")).unwrap();
        let tree = world.open();
        let prepared = handlers::prepare(&tree, &effect);
        spoil(&world);
        let picture = world.picture();
        let said = text(&perform(&tree, prepared).output);
        assert!(said.contains(why), "{effect:?}: {said}");
        assert_eq!(world.picture(), picture);
    }
}

fn moved(verb: &str, path: &str, was: Option<&[u8]>, is: Option<&[u8]>) -> String {
    let named = |bytes: Option<&[u8]>| {
        bytes.map_or("absent".to_owned(), |bytes| format!("sha256:{}", hex(&sha256(bytes))))
    };
    let (was, is) = (named(was), named(is));
    refused(&format!(
        "{verb} {path}: the file changed while this call waited: it was {was}, it is {is}; read it again"
    ))
}

#[test]
fn a_file_that_moved_on_before_the_effect_is_left_alone() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("f", b"one", 0o644);
        let prepared = handlers::prepare(&tree, &edit("f", "one", "two"));
        world.put("f", b"three", 0o644);
        let said = text(&perform(&tree, prepared).output);
        assert_eq!(said, moved("edit", "f", Some(b"one"), Some(b"three")));
        assert_eq!(world.get("f"), b"three");

        let prepared = handlers::prepare(&tree, &write("n/m", "mine"));
        world.put("n/m", b"theirs", 0o644);
        let said = text(&perform(&tree, prepared).output);
        assert_eq!(said, moved("write", "n/m", None, Some(b"theirs")));
        assert_eq!(world.get("n/m"), b"theirs");

        let prepared = handlers::prepare(&tree, &write("f", "mine"));
        fs::remove_file(world.at("f")).unwrap();
        assert_eq!(
            text(&perform(&tree, prepared).output),
            moved("write", "f", Some(b"three"), None)
        );
        assert!(!world.at("f").exists());
    }
}

#[test]
fn a_mode_or_a_way_that_changed_is_refused() {
    let changing = "the path or the file keeps changing; try again when nothing else writes there";
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("f", b"one", 0o644);
        let prepared = handlers::prepare(&tree, &write("f", "two"));
        world.put("f", b"one", 0o600);
        let picture = world.picture();
        assert_eq!(
            text(&perform(&tree, prepared).output),
            refused(&format!("write f: {changing}"))
        );
        assert_eq!(world.picture(), picture);

        world.put("g", b"one", 0o600);
        symlink("f", world.at("l")).unwrap();
        let prepared = handlers::prepare(&tree, &write("l", "two"));
        fs::remove_file(world.at("l")).unwrap();
        symlink("g", world.at("l")).unwrap();
        let picture = world.picture();
        assert_eq!(
            text(&perform(&tree, prepared).output),
            refused(&format!("write l: {changing}"))
        );
        assert_eq!(world.picture(), picture);
    }
}

#[test]
fn a_file_written_in_the_last_moment_is_put_back() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("f", b"one", 0o644);
        let prepared = handlers::prepare(&tree, &write("f", "mine"));
        let done = perform_sealed(&tree, prepared, &|| {
            world.put("f", b"theirs", 0o640);
            true
        });
        assert_eq!(text(&done.output), moved("write", "f", Some(b"one"), Some(b"theirs")));
        assert!(done.seen.is_empty());

        let prepared = handlers::prepare(&tree, &write("n", "mine"));
        let done = perform_sealed(&tree, prepared, &|| {
            world.put("n", b"theirs", 0o640);
            true
        });
        assert_eq!(text(&done.output), moved("write", "n", None, Some(b"theirs")));

        let wanted = World::new();
        wanted.put("f", b"theirs", 0o640);
        wanted.put("n", b"theirs", 0o640);
        assert_eq!(world.picture(), wanted.picture(), "{means:?}");
    }
}

#[test]
fn a_link_that_appears_in_the_last_moment_is_not_followed() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        for (path, was) in [("f", Some(b"one".as_slice())), ("n", None)] {
            if let Some(bytes) = was {
                world.put(path, bytes, 0o644);
            }
            let prepared = handlers::prepare(&tree, &write(path, "mine"));
            let done = perform_sealed(&tree, prepared, &|| {
                let _ = fs::remove_file(world.at(path));
                symlink("../outside/secret", world.at(path)).unwrap();
                true
            });
            assert_eq!(text(&done.output), moved("write", path, was, None), "{means:?}");
        }
        let wanted = World::new();
        symlink("../outside/secret", wanted.at("f")).unwrap();
        symlink("../outside/secret", wanted.at("n")).unwrap();
        assert_eq!(world.picture(), wanted.picture(), "{means:?}");
    }
}

#[test]
fn a_folder_swapped_in_the_last_moment_does_not_lead_out() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("d/secret", b"one", 0o644);
        let prepared = handlers::prepare(&tree, &write("d/secret", "mine"));
        perform_sealed(&tree, prepared, &|| {
            fs::rename(world.at("d"), world.at("was")).unwrap();
            symlink("../outside", world.at("d")).unwrap();
            true
        });
        assert_eq!(fs::read(world.outside().join("secret")).unwrap(), b"secret");
        assert_eq!(fs::read_dir(world.outside()).unwrap().count(), 1);
    }
}

#[test]
fn a_deadline_before_the_seal_leaves_nothing() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("f", b"one", 0o644);
        let picture = world.picture();
        for effect in [
            write("f", "mine"),
            edit("f", "one", "two"),
            write("x/y/z", "mine"),
            mkdir("x/y"),
            remove("f"),
            carry("f", "x/g"),
        ] {
            let prepared = handlers::prepare(&tree, &effect);
            let done = perform_sealed(&tree, prepared, &|| false);
            assert_eq!(done.status, Status::Failed(DEADLINE.to_owned()));
            assert_eq!((text(&done.output), done.seen), ("{}".to_owned(), Vec::new()));
            assert_eq!(world.picture(), picture, "{means:?}");
        }
    }
}

#[test]
fn the_seal_is_asked_once_when_all_is_ready() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("f", b"one", 0o644);
        let asked = AtomicUsize::new(0);
        let seal = || {
            // The new content is on disk under its temporary name, and the old one still in place.
            assert_eq!(world.get("f"), b"one");
            assert_eq!(world.get(".worldlog-0707070707070707.tmp"), b"two");
            asked.fetch_add(1, Ordering::Relaxed);
            true
        };
        let prepared = handlers::prepare(&tree, &write("f", "two"));
        assert_eq!(text(&perform_sealed(&tree, prepared, &seal).output), output(true, None));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        for effect in [
            read("f"),
            read("nope"),
            op("view", &[("path", "f")]),
            op("list", &[]),
            op("search", &[("pattern", "t")]),
            edit("f", "zzz", "y"),
            write(".git/x", "y"),
            mkdir("."),
            remove("nope"),
            carry("f", "f"),
        ] {
            let prepared = handlers::prepare(&tree, &effect);
            perform_sealed(&tree, prepared, &|| panic!("no point of no return"));
        }
    }
}
