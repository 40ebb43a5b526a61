//! Permits, payloads, limits, and what an effect makes known.

use std::os::unix::fs::symlink;

use worldlog::canon::{self, Value, object};
use worldlog::event::hex;
use worldlog::handlers::{self, Effect, Permit, Status, policy, policy_digest};
use worldlog::limits::{FILE_BYTES_MAX, OBJECT_BYTES_MAX};
use worldlog::merkle::hash::sha256;
use worldlog::store::memory::MemoryStore;
use worldlog::store::{Batch, Store};

use super::{MEANS, World, edit, json, output, perform, read, refused, run, text, write};

#[test]
fn a_permit_needs_the_receipt_of_its_intent() {
    let batch = Batch { events: 7..9, ..Batch::default() };
    let receipt = MemoryStore::new().commit(&batch).unwrap();
    let given = |intent| Permit::new(&receipt, intent).is_some();
    assert_eq!([6, 7, 8, 9].map(given), [false, true, true, false]);
    let nothing = MemoryStore::new().commit(&Batch::default()).unwrap();
    assert!(Permit::new(&nothing, 0).is_none());
}

#[test]
fn an_effect_takes_its_own_ops_only() {
    let (r, w) = ("Workspace.Read", "Workspace.Write");
    let cases = [
        (r, r#"{"op":"write","path":"x","content":"y"}"#, r#"refuses op "write""#),
        (r, r#"{"op":"Read","path":"x"}"#, r#"refuses op "Read""#),
        (w, r#"{"op":"read","path":"x"}"#, r#"refuses op "read""#),
        (w, r#"{"op":"","path":"x"}"#, r#"refuses op """#),
    ];
    for (effect, payload, wanted) in cases {
        let wanted = format!("broker: {effect} {wanted}: not in this effect's op allowlist");
        assert_eq!(Effect::parse(effect, &json(payload)).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn a_payload_has_the_members_of_its_op() {
    let (r, w) = ("Workspace.Read", "Workspace.Write");
    let cases = [
        ("Workspace.Exec", r#"{"op":"read","path":"x"}"#, "no handler serves this effect"),
        ("workspace.read", r#"{"op":"read","path":"x"}"#, "no handler serves this effect"),
        (r, "[]", "the payload is not an object"),
        (r, r#"{"path":"x"}"#, r#"payload key "op" must be a string"#),
        (r, r#"{"OP":"write","op":"read"}"#, r#"payload key "OP" is a case variant of "op""#),
        (r, r#"{"Op":"read","path":"x"}"#, r#"payload key "Op" is a case variant of "op""#),
        (r, r#"{"op":"read","path":1,"x":1}"#, r#"payload key "x" is not one of op "read""#),
        (r, r#"{"op":"read","path":1}"#, r#"payload key "path" must be a string"#),
        (w, r#"{"op":"write","path":"x"}"#, r#"payload key "content" must be a string"#),
        (
            w,
            r#"{"op":"edit","path":"x","old_text":""}"#,
            r#"payload key "new_text" must be a string"#,
        ),
    ];
    for (effect, payload, why) in cases {
        let wanted = format!("broker: {effect} refused: {why}");
        assert_eq!(Effect::parse(effect, &json(payload)).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn what_an_effect_makes_known() {
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        world.put("d/f", b"one", 0o644);
        symlink("d", world.at("l")).unwrap();
        let seen = |effect| {
            let done = run(&tree, &effect);
            assert_eq!(done.status, Status::Ok);
            done.seen
                .into_iter()
                .map(|file| (file.path, file.first, file.second))
                .collect::<Vec<_>>()
        };
        let known = |bytes: &[u8]| vec![("d/f".to_owned(), Some(sha256(bytes)), None)];
        assert_eq!(seen(read("l/f")), known(b"one"));
        assert_eq!(seen(write("l/f", "two")), known(b"two"));
        assert_eq!(seen(edit("d/f", "w", "W")), known(b"tWo"));
        world.put("d/f", b"\xff", 0o644);
        for effect in [read("d/f"), read("nope"), edit("d/f", "x", "y"), write(".git", "")] {
            assert_eq!(seen(effect), []);
        }
    }
}

#[test]
fn a_file_that_the_session_saw_otherwise_is_not_written() {
    let world = World::new();
    let tree = world.open();
    world.put("f", b"two", 0o644);
    let picture = world.picture();
    let named = |bytes: &[u8]| format!("sha256:{}", hex(&sha256(bytes)));
    let said = |effect: &Effect, seen: Option<&[u8]>| {
        let seen = seen.map(sha256);
        let prepared = handlers::prepare(&tree, effect);
        let path = prepared.base.first().map_or("f", |standing| &standing.path).to_owned();
        let prepared = prepared.moved_on(&path, seen.as_ref());
        assert_eq!((&prepared.evidence, prepared.files.len()), (&Value::Null, 0));
        text(&perform(&tree, prepared).output)
    };
    let why = |path: &str, was: String, is: String| {
        refused(&format!(
            "write {path}: the file changed since this session last saw it: it was {was}, it is {is}; read it again"
        ))
    };
    assert_eq!(said(&write("f", "x"), Some(b"one")), why("f", named(b"one"), named(b"two")));
    assert_eq!(said(&write("f", "x"), None), why("f", "absent".to_owned(), named(b"two")));
    assert_eq!(said(&write("n", "x"), Some(b"one")), why("n", named(b"one"), "absent".to_owned()));
    let elsewhere = handlers::prepare(&tree, &write("n", "x")).moved_on("f", Some(&sha256(b"one")));
    let named_one = named(b"one");
    assert_eq!(
        text(&perform(&tree, elsewhere).output),
        refused(&format!(
            "write n: {named_one} was expected at f, which is no path that this call changes"
        ))
    );
    assert_eq!(
        said(&read("f"), None),
        refused("read f: absent was expected at f, which is no path that this call changes"),
        "a read changes no file, so it keeps no promise about one"
    );
    assert_eq!(world.picture(), picture);
    let prepared = handlers::prepare(&tree, &write(".git", ""));
    assert_eq!(prepared.refused(), Some("write .git: .git/ is read-only to the lane's tools"));
    assert_eq!(handlers::prepare(&tree, &write("f", "")).refused(), None);
}

#[test]
fn the_base_is_what_stands_there_whatever_becomes_of_the_effect() {
    let world = World::new();
    let tree = world.open();
    world.put("d/f", b"two two", 0o644);
    symlink("d", world.at("l")).unwrap();
    let base = |effect: &Effect| {
        let prepared = handlers::prepare(&tree, effect);
        prepared
            .base
            .into_iter()
            .map(|standing| (standing.path, standing.found))
            .collect::<Vec<_>>()
    };
    let stands = vec![("d/f".to_owned(), Some((sha256(b"two two"), 7)))];
    for effect in [write("l/f", "x"), edit("l/f", "two t", "x"), edit("d/f", "two", "x")] {
        assert_eq!(base(&effect), stands);
    }
    let too_large = "a".repeat(FILE_BYTES_MAX + 1);
    for effect in [edit("d/f", "no", "x"), edit("d/f", "", "x"), write("d/f", &too_large)] {
        assert_eq!(base(&effect), stands, "certain to be refused");
    }
    for effect in [write("d/n", "x"), edit("l/n", "a", "b")] {
        assert_eq!(base(&effect), [("d/n".to_owned(), None)]);
    }
    for effect in [read("d/f"), write(".git/x", ""), write("d", ""), edit("../f", "a", "b")] {
        assert_eq!(base(&effect), []);
    }
}

#[test]
fn files_up_to_the_limit() {
    for means in [MEANS[0], MEANS[3]] {
        let world = World::new();
        let tree = world.tree(means);
        let most = "a".repeat(FILE_BYTES_MAX);
        assert_eq!(text(&run(&tree, &write("f", &most)).output), output(true, None));
        assert_eq!(world.get("f").len(), FILE_BYTES_MAX);
        let picture = world.picture();
        let too_large =
            format!("the file would be {} bytes; the limit is 8388608", FILE_BYTES_MAX + 1);
        let done = run(&tree, &write("f", &format!("{most}a")));
        assert_eq!(text(&done.output), refused(&format!("write f: {too_large}")));
        world.put("g", format!("{}b", &most[1..]).as_bytes(), 0o644);
        let done = run(&tree, &edit("g", "b", "bb"));
        assert_eq!(text(&done.output), refused(&format!("edit g: {too_large}")));
        std::fs::remove_file(world.at("g")).unwrap();
        assert_eq!(world.picture(), picture);

        // Beyond the limit nothing can be read, edited, or replaced: undo could not bring it back.
        world.put("f", format!("{most}a").as_bytes(), 0o644);
        let why =
            |verb| refused(&format!("{verb} f: the file is 8388609 bytes; the limit is 8388608"));
        assert_eq!(text(&run(&tree, &read("f")).output), why("read"));
        assert_eq!(text(&run(&tree, &write("f", "x")).output), why("write"));
        assert_eq!(text(&run(&tree, &edit("f", "a", "b")).output), why("edit"));
        assert_eq!(world.get("f").len(), FILE_BYTES_MAX + 1);
    }
}

#[test]
fn an_output_is_an_object_that_can_be_stored() {
    let world = World::new();
    let tree = world.open();
    // Each of these bytes takes six in JSON.
    world.put("f", &vec![1; (OBJECT_BYTES_MAX - 4096 - 2) / 6], 0o644);
    let done = run(&tree, &read("f"));
    let bytes = done.output.to_bytes();
    assert!(bytes.len() < OBJECT_BYTES_MAX && bytes.len() > OBJECT_BYTES_MAX - 8192);
    assert_eq!(done.output.get("ok").unwrap(), &Value::from(true));
    let more = vec![1; (OBJECT_BYTES_MAX - 4096 - 2) / 6 + 1];
    world.put("f", &more, 0o644);
    let (size, digest) = (more.len(), hex(&sha256(&more)));
    assert_eq!(
        text(&run(&tree, &read("f")).output),
        refused(&format!(
            "read f: the text takes {} bytes as JSON; the limit is 8384512 (size {size}, sha256:{digest})",
            2 + 6 * size
        ))
    );
}

#[test]
fn an_edit_of_a_hostile_text_takes_linear_time() {
    // A search that starts again at each byte would take 2^42 steps here.
    let world = World::new();
    let tree = world.open();
    world.put("f", &vec![b'a'; 4 << 20], 0o644);
    let old = format!("{}b", "a".repeat(1 << 20));
    let done = run(&tree, &edit("f", &old, "x"));
    let why = "edit f: old_text not found \u{2014} the file may have changed; read it again";
    assert_eq!(text(&done.output), refused(why));
}

#[test]
fn every_byte_of_a_text_comes_back() {
    let all: String = (0..0x250u32)
        .chain(0x2020..0x2040)
        .chain(0xfff0..0xffff)
        .chain([0x1f600])
        .filter_map(char::from_u32)
        .collect();
    for means in MEANS {
        let world = World::new();
        let tree = world.tree(means);
        assert_eq!(text(&run(&tree, &write("f", &all)).output), output(true, None));
        assert_eq!(world.get("f"), all.as_bytes());
        let done = run(&tree, &read("f"));
        let again = canon::parse(&done.output.to_bytes()).unwrap();
        assert_eq!(again.get("content").unwrap().as_str(), Some(all.as_str()));
    }
}

#[test]
fn the_policy_has_a_digest() {
    let wanted = object([
        ("policy", "worldlog/sandbox-policy/v1".into()),
        ("case", "ascii-fold".into()),
        (
            "fs_deny_write",
            json(
                r#"[".github/**",".pi/**",".claude/**",".ailang/**",".gitmodules",".gitattributes"]"#,
            ),
        ),
        ("fs_deny_write_any_folder", json(r#"[".git",".worldlog-*.tmp"]"#)),
        ("file_bytes_max", 8_388_608.into()),
        ("path_depth_max", 256.into()),
        ("path_links_max", 40.into()),
    ]);
    assert_eq!(policy(), wanted);
    assert_eq!(policy_digest(), hex(&sha256(&wanted.to_bytes())));
    let spec = include_str!("../../../spec/tools.md");
    assert!(spec.contains(&text(&wanted)), "spec/tools.md shows the policy");
}
