//! Which lie is found, and with which exit code: `spec/cli.md` has the same table in words.

use super::logs::{self, Log, ORIGIN};
use super::{Home, copy, read, text};
use std::fs;
use std::path::{Path, PathBuf};
use worldlog::limits::STORE_CACHE_BYTES_MAX;
use worldlog::merkle::tile::encode_entry;
use worldlog::store::sled::SledStore;
use worldlog::store::{Batch, Store, layout};

/// Changes an export, and says what has to be found.
struct Lie {
    name: &'static str,
    change: fn(&Path),
    code: i32,
    finding: &'static str,
}

const FULL: &str = "tile/entries/000";

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("a file");
}

/// The partial file of a tile or bundle.
fn partial(folder: &Path, name: &str) -> PathBuf {
    let inner = folder.join(format!("{name}.p"));
    inner.read_dir().expect("a folder").next().expect("one").expect("an entry").path()
}

fn entries(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let (entry, tail) = tail.split_at(usize::from(u16::from_be_bytes(*length)));
        entries.push(entry.to_vec());
        rest = tail;
    }
    entries
}

fn with_entries(path: &Path, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
    let mut all = entries(&fs::read(path).expect("a bundle"));
    change(&mut all);
    let mut bytes = Vec::new();
    for entry in &all {
        encode_entry(entry, &mut bytes).expect("an entry");
    }
    fs::write(path, bytes).expect("a bundle");
}

/// Payloads of the episode, by name.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.join("objects/work").read_dir().expect("objects");
    let mut paths: Vec<_> = folder.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn replace(path: &Path, from: &str, to: &str) {
    let old = read(path);
    let new = old.replacen(from, to, 1);
    assert_ne!(old, new, "{from:?} is not in {}", path.display());
    fs::write(path, new).expect("a file");
}

/// Events, tiles and the head.
const STRUCTURE: &[Lie] = &[
    Lie {
        name: "an event changed",
        change: |dir| with_entries(&dir.join(FULL), |all| all[10][40] ^= 1),
        code: 5,
        finding: "leaf-changed at leaf 10",
    },
    Lie {
        name: "bytes after the hashes of a tile",
        change: |dir| {
            let path = partial(dir, "tile/0/001");
            let mut bytes = fs::read(&path).expect("a tile");
            bytes.push(0);
            fs::write(path, bytes).expect("a tile");
        },
        code: 5,
        finding: "tile-changed",
    },
    Lie {
        name: "an event replaced by another one",
        change: |dir| with_entries(&dir.join(FULL), |all| all[20] = all[21].clone()),
        code: 5,
        finding: "leaf-changed at leaf 20",
    },
    Lie {
        name: "an event and its leaf hash changed alike",
        change: |dir| {
            with_entries(&dir.join(FULL), |all| all[10][40] ^= 1);
            let entry = entries(&fs::read(dir.join(FULL)).expect("a bundle"))[10].clone();
            let path = dir.join("tile/0/000");
            let mut tile = fs::read(&path).expect("a tile");
            tile[320..352].copy_from_slice(&worldlog::merkle::hash::leaf_hash(&entry));
            fs::write(&path, tile).expect("a tile");
        },
        code: 5,
        finding: "root-differs",
    },
    Lie {
        name: "an event removed from the middle",
        change: |dir| with_entries(&dir.join(FULL), |all| drop(all.remove(10))),
        code: 4,
        finding: "leaf-missing at leaf 255",
    },
    Lie {
        name: "the last event removed",
        change: |dir| with_entries(&partial(dir, "tile/entries/001"), |all| drop(all.pop())),
        code: 4,
        finding: "leaf-missing",
    },
    Lie {
        name: "a bundle removed",
        change: |dir| fs::remove_file(dir.join(FULL)).expect("a bundle"),
        code: 4,
        finding: "bundle-missing at leaf 0",
    },
    Lie {
        name: "an event added",
        change: |dir| {
            let again = |all: &mut Vec<Vec<u8>>| all.push(all[0].clone());
            with_entries(&partial(dir, "tile/entries/001"), again);
        },
        code: 5,
        finding: "leaf-surplus",
    },
    Lie {
        name: "a full tile changed",
        change: |dir| flip(&dir.join("tile/0/000"), 33),
        code: 5,
        finding: "tile-changed: tile/0/000 ",
    },
    Lie {
        name: "a partial tile changed",
        change: |dir| flip(&partial(dir, "tile/1/000"), 5),
        code: 5,
        finding: "tile-changed: tile/1/000.p/1 ",
    },
    Lie {
        name: "a tile removed",
        change: |dir| fs::remove_file(dir.join("tile/0/000")).expect("a tile"),
        code: 5,
        finding: "tile-missing: tile/0/000 ",
    },
    Lie {
        name: "the head's root changed",
        change: |dir| {
            let root = read(&dir.join("checkpoint")).lines().nth(2).expect("a root").to_owned();
            let other = if root.starts_with('A') { "B" } else { "A" };
            let changed = format!("{other}{}", &root[1..]);
            replace(&dir.join("checkpoint"), &root, &changed);
        },
        code: 3,
        finding: "head-forged",
    },
    Lie {
        name: "the log cut, with a head for what is left",
        change: |dir| {
            let path = dir.join("checkpoint");
            let size = read(&path).lines().nth(1).expect("a size").to_owned();
            replace(&path, &format!("\n{size}\n"), "\n256\n");
        },
        code: 3,
        finding: "head-forged",
    },
    Lie {
        name: "no head",
        change: |dir| fs::remove_file(dir.join("checkpoint")).expect("a head"),
        code: 6,
        finding: "head-missing",
    },
    Lie {
        name: "a head that is none",
        change: |dir| fs::write(dir.join("checkpoint"), "hello\n").expect("a file"),
        code: 5,
        finding: "head-malformed",
    },
    Lie {
        name: "another size in export.json",
        change: |dir| replace(&dir.join("export.json"), "\"size\":", "\"size\":1"),
        code: 5,
        finding: "export-differs",
    },
];

/// Objects, openings and keys.
const PAYLOADS: &[Lie] = &[
    Lie {
        name: "two objects swapped",
        change: |dir| {
            let all = objects(dir);
            let (one, other) = (fs::read(&all[0]).expect("one"), fs::read(&all[1]).expect("other"));
            fs::write(&all[0], other).expect("a file");
            fs::write(&all[1], one).expect("a file");
        },
        code: 5,
        finding: "object-changed",
    },
    Lie {
        name: "an object removed",
        change: |dir| fs::remove_file(&objects(dir)[0]).expect("an object"),
        code: 5,
        finding: "object-missing",
    },
    Lie {
        name: "all objects removed",
        change: |dir| fs::remove_dir_all(dir.join("objects")).expect("objects"),
        code: 5,
        finding: "object-missing",
    },
    Lie {
        name: "a hash in an opening changed",
        change: |dir| {
            let path = dir.join("openings/work");
            let last = fs::read(&path).expect("openings").len() - 10;
            flip(&path, last);
        },
        code: 5,
        finding: "opening-differs",
    },
    Lie {
        name: "openings removed",
        change: |dir| fs::remove_file(dir.join("openings/work")).expect("openings"),
        code: 5,
        finding: "opening-missing",
    },
    Lie {
        name: "the episode's key changed",
        change: |dir| {
            let path = dir.join("keys/work");
            let first = if read(&path).starts_with('0') { "1" } else { "0" };
            let rest = read(&path)[1..].to_owned();
            fs::write(&path, format!("{first}{rest}")).expect("a key");
        },
        code: 5,
        finding: "opening-differs",
    },
    Lie {
        name: "the episode's key removed",
        change: |dir| fs::remove_file(dir.join("keys/work")).expect("a key"),
        code: 5,
        finding: "episode-key-missing",
    },
];

const WORDS: [(i32, &str); 5] =
    [(0, "verified"), (3, "rewritten"), (4, "truncated"), (5, "damaged"), (6, "unverifiable")];

/// Verifies and returns what was printed. Exit code, verdict line and JSON agree.
fn verify(home: &Home, what: &Path, more: &[&str], code: i32) -> String {
    let args = [&["verify", text(what)], more].concat();
    let ran = home.run(&args);
    assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{args:?}\n{}", ran.out);
    let word = WORDS.iter().find(|(known, _)| *known == code).expect("a code").1;
    let last = ran.out.lines().last().expect("a verdict");
    assert!(last.starts_with(&format!("VERDICT: {word}")), "{}", ran.out);
    let json = home.run(&[args.as_slice(), &["--json"]].concat());
    assert_eq!(json.code, code);
    let value = worldlog::canon::parse(json.out.as_bytes()).expect("JSON");
    assert_eq!(value.get("verdict").and_then(|verdict| verdict.as_str()), Some(word));
    assert_eq!(
        value.get("exit").and_then(worldlog::canon::Value::as_u64),
        u64::try_from(code).ok()
    );
    stranger(what, more, code, ran.out.contains("finding export-differs"));
    let findings = value.get("findings").and_then(|all| all.as_array()).expect("findings");
    let lines = ran.out.lines().filter(|line| line.starts_with("finding "));
    assert_eq!(findings.len(), lines.count());
    ran.out
}

/// The verifiers in Python, written from the specification, come to the same exit code.
fn stranger(what: &Path, more: &[&str], code: i32, described_falsely: bool) {
    if !what.join("export.json").exists() {
        return;
    }
    for program in ["verify.py", "lawful.py"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(program);
        let ran = std::process::Command::new("python3").arg(path).arg(what).args(more).output();
        let ran = ran.expect("python3");
        let out = String::from_utf8_lossy(&ran.stdout);
        // The short one leaves the description of the export to the other.
        let left_out = program == "verify.py" && described_falsely;
        assert!(
            left_out || ran.status.code() == Some(code),
            "{program} {more:?}: {code} was due\n{out}"
        );
    }
}

fn matrix(lies: &[Lie]) {
    let home = Home::new();
    let log = logs::full();
    let honest = home.path("honest");
    log.export(&honest, false);
    let out = verify(&home, &honest, &["--vkey", &log.vkey], 0);
    assert!(!out.contains("finding") && !out.contains("not checked"), "{out}");
    for (number, lie) in lies.iter().enumerate() {
        let dir = home.path(&format!("lie-{number}"));
        copy(&honest, &dir);
        (lie.change)(&dir);
        let out = verify(&home, &dir, &["--vkey", &log.vkey], lie.code);
        let wanted = format!("finding {}", lie.finding);
        assert!(out.contains(&wanted), "{}: {wanted:?} was due\n{out}", lie.name);
        fs::remove_dir_all(&dir).expect("a folder");
    }
}

#[test]
fn lies_about_events_tiles_and_heads() {
    matrix(STRUCTURE);
}

#[test]
fn lies_about_payloads() {
    matrix(PAYLOADS);
}

#[test]
fn whose_log_it_is_takes_a_key() {
    let home = Home::new();
    let (log, forged) = (Log::new(ORIGIN, 1, 1), Log::new(ORIGIN, 2, 1));
    let stranger = Log::new("worldlog.test/stranger", 2, 1);
    let [mine, theirs, other] = ["mine", "theirs", "other"].map(|name| home.path(name));
    log.export(&mine, false);
    forged.export(&theirs, false);
    stranger.export(&other, false);

    let out = verify(&home, &mine, &[], 6);
    let id = log.vkey.split('+').nth(1).expect("an id");
    let words = format!("consistent with key {id} found inside; no key was given");
    assert!(out.contains(&format!("VERDICT: unverifiable: {words}")), "{out}");
    let out = verify(&home, &theirs, &["--vkey", &log.vkey], 3);
    assert!(out.contains("finding head-forged"), "{out}");
    let out = verify(&home, &other, &["--vkey", &log.vkey], 3);
    assert!(out.contains("finding head-other-log"), "{out}");

    fs::write(home.path("key"), format!("# the auditor's\n{}\n", log.vkey)).expect("a file");
    verify(&home, &mine, &["--vkey", text(&home.path("key"))], 0);
    let both =
        home.fails(&["verify", text(&mine), "--vkey", &log.vkey, "--vkey", &stranger.vkey], 1);
    assert!(both.contains("two logs"), "{both}");
}

#[test]
fn an_earlier_head_finds_what_its_own_key_rewrote() {
    let home = Home::new();
    let (log, fork) = (Log::new(ORIGIN, 1, 1), Log::new(ORIGIN, 1, 2));
    let [early, late, rewritten] = ["early", "late", "rewritten"].map(|name| home.path(name));
    log.export(&early, true);
    log.grow(5);
    log.export(&late, true);
    fork.grow(20);
    fork.export(&rewritten, true);
    let (old, new) = (early.join("checkpoint"), late.join("checkpoint"));
    let key = ["--vkey", log.vkey.as_str()];
    let seen = |head: &Path| {
        [key[0], key[1], "--seen"]
            .map(str::to_owned)
            .into_iter()
            .chain([text(head).to_owned()])
            .collect::<Vec<_>>()
    };
    let verify = |what: &Path, head: &Path, code| {
        let more = seen(head);
        verify(&home, what, &more.iter().map(String::as_str).collect::<Vec<_>>(), code)
    };
    let out = verify(&late, &old, 0);
    assert!(out.contains("extends the head of"), "{out}");
    assert!(verify(&early, &new, 4).contains("finding seen-longer"));
    assert!(verify(&rewritten, &old, 3).contains("finding seen-inconsistent"));
    // Damage stays damage, whatever was seen before.
    let broken = home.path("broken");
    copy(&late, &broken);
    with_entries(&partial(&broken, "tile/entries/000"), |all| all[3][40] ^= 1);
    let out = verify(&broken, &old, 5);
    assert!(out.contains("not checked: whether the log extends"), "{out}");
    // Without the earlier head nobody can tell.
    self::verify(&home, &rewritten, &key, 0);
    let stranger = Log::new("worldlog.test/stranger", 2, 1);
    stranger.export(&home.path("other"), true);
    assert!(verify(&late, &home.path("other/checkpoint"), 3).contains("finding seen-other-log"));
    assert!(
        home.fails(&["verify", text(&late), "--seen", "/nowhere"], 1).contains("--seen /nowhere")
    );
}

#[test]
fn a_public_export_says_what_it_leaves_out() {
    let home = Home::new();
    let log = logs::full();
    let public = home.path("public");
    log.export(&public, true);
    for left_out in ["objects", "openings", "keys"] {
        assert!(!public.join(left_out).exists(), "{left_out}");
    }
    let out = verify(&home, &public, &["--vkey", &log.vkey], 0);
    assert!(out.contains("not checked: payloads"), "{out}");
}

#[test]
fn no_export_holds_a_private_key_or_a_token() {
    let home = Home::new();
    home.ok(&["init"]);
    home.ok(&["export", text(&home.path("out"))]);
    let keys = home.data().join("keys").read_dir().expect("keys");
    let mut secrets: Vec<String> = keys.map(|key| read(&key.expect("an entry").path())).collect();
    secrets.push(read(&home.data().join("first-session.token")));
    assert_eq!(secrets.len(), 4);
    let mut folders = vec![home.path("out")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).expect("a file");
            for secret in &secrets {
                let digits = secret.trim();
                let raw = worldlog::event::B32::from_hex(digits).expect("32 bytes").0;
                let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
                assert!(!holds(digits.as_bytes()) && !holds(&raw), "{}", path.display());
            }
        }
    }
}

#[test]
fn a_proof_proves_its_leaf_and_no_other() {
    let home = Home::new();
    let log = logs::full();
    let bytes = log.service.event(270).expect("a store").expect("an event").bytes;
    log.service.ledger().tend().expect("a head");
    let proof = log.service.proof(270).expect("tiles").expect("a proof");
    let [file, leaf, other] = ["p", "leaf", "other"].map(|name| home.path(name));
    fs::write(&file, &proof).expect("a file");
    fs::write(&leaf, &bytes).expect("a file");
    fs::write(&other, [bytes.as_slice(), b"x"].concat()).expect("a file");
    let key = ["--vkey", log.vkey.as_str()];
    let with = |entry: &Path| {
        [&key[..], &["--entry-file"]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .chain([text(entry).to_owned()])
            .collect::<Vec<_>>()
    };
    let verify = |more: Vec<String>, code| {
        verify(&home, &file, &more.iter().map(String::as_str).collect::<Vec<_>>(), code)
    };
    verify(with(&leaf), 0);
    assert!(verify(with(&other), 3).contains("finding proof-refused"));
    assert!(verify(key.map(str::to_owned).to_vec(), 6).contains("finding leaf-not-given"));
    assert!(verify(vec!["--entry-file".into(), text(&leaf).into()], 6).contains("finding no-key"));
    let stranger = Log::new(ORIGIN, 9, 1);
    let forged =
        vec!["--vkey".into(), stranger.vkey.clone(), "--entry-file".into(), text(&leaf).into()];
    assert!(verify(forged, 3).contains("finding head-forged"));
    fs::write(&file, proof.replacen("index 270", "index 271", 1)).expect("a file");
    assert!(verify(with(&leaf), 3).contains("finding proof-refused"));
    fs::write(&file, &proof[..proof.len() / 2]).expect("a file");
    assert!(verify(with(&leaf), 5).contains("finding proof-malformed"));
}

/// Opens the store of a stopped server and changes one stored value.
fn change_store(data: &Path, change: impl FnOnce(&SledStore) -> (Vec<u8>, Vec<u8>)) {
    let store = SledStore::open_existing(data, STORE_CACHE_BYTES_MAX).expect("a store");
    let (key, value) = change(&store);
    let mut batch = Batch::default();
    batch.put(key, value);
    store.commit(&batch).expect("a commit");
}

#[test]
fn a_flipped_byte_in_the_store_is_named_and_nothing_starts() {
    let home = Home::new();
    home.ok(&["init"]);
    let data = home.data();
    let key = home.ok(&["init"]).lines().last().expect("a key").replace("verifier key ", "");
    change_store(&data, |store| {
        let (key, mut value) = store.range(b"e", b"f", 1).expect("a read").remove(0);
        let event = layout::event(store, 0).expect("a read").expect("genesis");
        let at = value.windows(event.len()).position(|window| window == event).expect("there");
        value[at + event.len() - 3] ^= 1;
        (key, value)
    });
    let ran = home.run(&["fsck"]);
    assert_eq!(ran.code, 5, "{}", ran.out);
    assert!(ran.out.contains("at leaf 0") && ran.out.contains("root-differs"), "{}", ran.out);
    let ran = home.run(&["verify", text(&data), "--vkey", &key]);
    assert_eq!(ran.code, 5, "{}", ran.out);
    assert!(ran.out.contains("finding event-malformed at leaf 0"), "{}", ran.out);
    let err = home.fails(&["serve", "--listen", "127.0.0.1:0"], 2);
    assert!(err.contains("fsck") && err.contains("leaf 0"), "{err}");
}

#[test]
fn a_flipped_payload_in_the_store_is_named() {
    let home = Home::new();
    home.ok(&["init"]);
    let data = home.data();
    change_store(&data, |store| {
        let (key, mut value) = store.range(b"o", b"p", 1).expect("a read").remove(0);
        *value.last_mut().expect("bytes") ^= 1;
        (key, value)
    });
    let ran = home.run(&["fsck"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("finding object-changed at leaf"), "{}", ran.out);
    let err = home.fails(&["export", text(&home.path("x"))], 5);
    assert!(err.contains("object sha256:") && !home.path("x").exists(), "{err}");
}

#[test]
fn a_flipped_byte_of_the_disk_is_found() {
    let home = Home::new();
    home.ok(&["init"]);
    let data = home.data();
    let event = {
        let store = SledStore::open_existing(&data, STORE_CACHE_BYTES_MAX).expect("a store");
        layout::event(&store, 0).expect("a read").expect("genesis")
    };
    let path = data.join("store/db");
    let mut bytes = fs::read(&path).expect("a file");
    let mut flipped = 0;
    for at in 0..bytes.len() - event.len() {
        if bytes[at..].starts_with(&event) {
            bytes[at + event.len() / 2] ^= 1;
            flipped += 1;
        }
    }
    assert!(flipped > 0, "genesis is not in the file as it is");
    fs::write(&path, bytes).expect("a file");
    let ran = home.run(&["fsck"]);
    assert_ne!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(home.run(&["serve", "--listen", "127.0.0.1:0"]).code, 2);
}

#[test]
fn a_restored_older_directory_does_not_start() {
    let home = Home::new();
    home.ok(&["init"]);
    let backup = home.path("backup");
    home.ok(&["backup", text(&backup)]);
    assert_eq!(super::mode(&backup), 0o700);
    assert_eq!(super::mode(&backup.join("keys/head.seed")), 0o600);
    // The copy opens as long as it is the newest history.
    home.ok(&["session", "list", "--data", text(&backup)]);
    home.ok(&["session", "new", "later"]);
    let err = home.fails(&["serve", "--listen", "127.0.0.1:0", "--data", text(&backup)], 2);
    assert!(err.contains("guard") && err.contains("older copy"), "{err}");
    let out = home.ok(&["head", "--guard", "--data", text(&backup)]);
    assert!(out.contains("the guard is ahead"), "{out}");
    let ran = home.run(&["fsck", "--data", text(&backup)]);
    assert_eq!(ran.code, 4, "{}", ran.out);
    assert!(ran.out.contains("finding seen-longer"), "{}", ran.out);
}

#[test]
fn a_missing_guard_stops_the_start_until_an_operator_looked() {
    let home = Home::new();
    home.ok(&["init"]);
    fs::remove_dir_all(home.path("state")).expect("the guard");
    let err = home.fails(&["init"], 2);
    assert!(err.contains("--guard-init"), "{err}");
    home.ok(&["init", "--guard-init"]);
    home.ok(&["init"]);
}

#[test]
fn keys_that_others_may_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.ok(&["init"]);
    let seed = home.data().join("keys/head.seed");
    fs::set_permissions(&seed, fs::Permissions::from_mode(0o640)).expect("a mode");
    let err = home.fails(&["init"], 2);
    assert!(err.contains("head.seed") && err.contains("0640"), "{err}");
    fs::remove_file(&seed).expect("a seed");
    let err = home.fails(&["init"], 2);
    assert!(err.contains("lacks the log's private keys"), "{err}");
    assert!(!seed.exists(), "no new key for an old log");
}

#[test]
fn the_table_of_findings_in_the_spec_is_the_one_in_the_code() {
    let spec = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("spec/cli.md"));
    let section = spec.split("## 3. Findings").nth(1).and_then(|rest| rest.split("## 4.").next());
    let mut written = Vec::new();
    for line in section.expect("a section").lines().filter(|line| line.contains(" | `")) {
        let (verdict, codes) = line.trim_matches('|').split_once('|').expect("two cells");
        let exit = verdict.trim().rsplit(' ').next().expect("a code").to_owned();
        let codes = codes.split('`').skip(1).step_by(2);
        written.extend(codes.map(|code| (code.to_owned(), exit.clone())));
    }
    let known = worldlog::verify::CODES.iter();
    let mut known: Vec<_> = known
        .map(|(code, verdict)| ((*code).to_owned(), verdict.exit_code().to_string()))
        .collect();
    written.sort();
    known.sort();
    assert_eq!(written, known);
}
