//! `spec/event.md` and `spec/event.cddl` against the decoder, on fixtures that another implementation made.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use worldlog::event::blind::{EpisodeKey, OpenFile, Opening};
use worldlog::event::{Body, Event, EventError, Fixed, Front, hex};
use worldlog::merkle::hash::leaf_hash;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// A fixture: its name, its bytes, and the text beside it.
struct Fixture {
    name: String,
    bytes: Vec<u8>,
    text: String,
}

impl Fixture {
    fn line(&self, key: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "an odd number of digits");
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Every fixture of a folder; a folder without any is a fault of the tree.
fn fixtures(folder: &str) -> Vec<Fixture> {
    let folder = root().join("fixtures/event").join(folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "hex") {
            continue;
        }
        let mut bytes = Vec::new();
        for line in std::fs::read_to_string(&path).expect("text").lines() {
            let (unit, count) = line.split_once('*').unwrap_or((line, "1"));
            bytes.extend(unhex(unit).repeat(count.parse().expect("a count")));
        }
        let text = std::fs::read_to_string(path.with_extension("txt")).expect("text beside it");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        found.push(Fixture { name, bytes, text });
    }
    assert!(!found.is_empty(), "{} is empty", folder.display());
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The CDDL for a validator that searches where RFC 8610 wants the whole text to match.
fn cddl() -> String {
    let text = std::fs::read_to_string(root().join("spec/event.cddl")).expect("the CDDL");
    let anchor = |line: &str| match line.split_once(".regexp \"") {
        Some((before, rest)) => {
            let (pattern, after) = rest.split_once('"').expect("a closing quote");
            format!("{before}.regexp \"^(?:{pattern})$\"{after}")
        }
        None => line.to_owned(),
    };
    text.lines().map(anchor).fold(String::new(), |all, line| all + &line + "\n")
}

struct Validator(cddl_cat::context::BasicContext);

impl Validator {
    fn new() -> Self {
        let rules = cddl_cat::flatten::flatten_from_str(&cddl()).expect("the CDDL parses");
        Self(cddl_cat::context::BasicContext::new(rules))
    }

    fn accepts(&self, bytes: &[u8]) -> Result<(), String> {
        let value: ciborium::Value = ciborium::from_reader(bytes).map_err(|e| e.to_string())?;
        let rule = self.0.rules.get("event").expect("the rule `event`");
        cddl_cat::cbor::validate_cbor(rule, &value, &self.0).map_err(|error| error.to_string())
    }
}

/// An error as a fixture's `expect` line spells it.
fn spelled(error: &EventError) -> String {
    match error {
        EventError::Cbor(fault) => format!("{} at {}", fault.code(), fault.at()),
        EventError::Version { version } => format!("version {version}"),
        EventError::Body { kind, .. } => format!("body {kind}"),
        _ => error.code().to_owned(),
    }
}

#[test]
fn accepts_every_ok_fixture_and_gives_its_bytes_back() {
    let validator = Validator::new();
    for fixture in fixtures("ok") {
        let name = &fixture.name;
        let event = Event::decode(&fixture.bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(event.encode().as_ref(), Ok(&fixture.bytes), "{name} encodes to other bytes");
        assert_eq!(fixture.line("expect"), Some("ok"), "{name}");
        assert_eq!(fixture.line("leaf"), Some(hex(&leaf_hash(&fixture.bytes)).as_str()), "{name}");
        validator.accepts(&fixture.bytes).unwrap_or_else(|e| panic!("{name} and the CDDL: {e}"));
    }
}

#[test]
fn every_kind_has_an_ok_fixture() {
    let events = fixtures("ok").into_iter().filter_map(|f| Event::decode(&f.bytes).ok());
    let kinds: BTreeSet<String> = events.map(|event| event.body.kind().to_owned()).collect();
    for kind in Body::KINDS {
        assert!(kinds.contains(*kind), "no fixture of kind {kind}");
    }
    assert!(kinds.iter().any(|kind| kind.starts_with("x-")), "no extension");
}

#[test]
fn refuses_every_err_fixture_with_the_error_that_it_names() {
    for fixture in fixtures("err") {
        let name = &fixture.name;
        let want = fixture.line("expect").unwrap_or_else(|| panic!("{name} expects nothing"));
        let error = Event::decode(&fixture.bytes).expect_err(name);
        let found = spelled(&error);
        let Some(field) = want.strip_prefix(&found) else {
            panic!("{name}: wanted `{want}`, found `{found}`: {error}");
        };
        match &error {
            EventError::Body { reason, .. } if !field.is_empty() => {
                let field = format!("`{}`", field.trim());
                assert!(reason.contains(&field), "{name}: {field} is not named by `{reason}`");
            }
            _ => assert_eq!(found, want, "{name}"),
        }
    }
}

#[test]
fn the_cddl_refuses_what_the_decoder_refuses_for_its_content() {
    // A range between two fields of one map is nothing that CDDL can say.
    let beyond = ["key-until-before-from"];
    let validator = Validator::new();
    for fixture in fixtures("err") {
        let error = Event::decode(&fixture.bytes).expect_err(&fixture.name);
        let content = !matches!(error, EventError::Cbor(_) | EventError::TooLong { .. });
        if content && !beyond.contains(&fixture.name.as_str()) {
            assert!(validator.accepts(&fixture.bytes).is_err(), "{} and the CDDL", fixture.name);
        }
    }
}

#[test]
fn an_event_out_of_bounds_is_not_written() {
    let extension = |kind: &str, map: &[u8]| Event {
        seq: 0,
        at: 0,
        prev: [0; 32],
        ep: None,
        inv: None,
        body: Body::Extension { kind: kind.to_owned(), map: map.to_vec() },
    };
    assert!(extension("x-a", &[0xa0]).encode().is_ok());
    for (kind, map) in [
        ("x-a", &[0x00][..]),
        ("x-a", &[]),
        ("x-a", &[0xa0, 0x00]),
        ("x-a", &[0xa1, 0x61, 0x61]),
        ("x-", &[0xa0]),
        ("freeze", &[0xa0]),
    ] {
        assert!(extension(kind, map).encode().is_err(), "{kind} {map:?}");
    }
    let mut event = extension("x-a", &[0xa0]);
    event.seq = worldlog::event::prior(0);
    assert!(event.encode().is_err(), "an unresolved reference was written");
}

/// The lines of `fixtures/event/blind.txt`, name and value.
fn blind_lines() -> Vec<(String, Vec<u8>)> {
    let text =
        std::fs::read_to_string(root().join("fixtures/event/blind.txt")).expect("the fixture");
    let split = text.lines().map(|line| line.rsplit_once(' ').expect("a value"));
    split.map(|(name, value)| (name.to_owned(), unhex(value))).collect()
}

#[test]
fn blinds_as_the_other_implementation_does() {
    let lines = blind_lines();
    let find = |name: &str| &lines.iter().find(|(n, _)| n == name).expect(name).1;
    let hash = |name: &str| <[u8; 32]>::try_from(find(name).as_slice()).expect("32 bytes");
    let key = EpisodeKey::new(hash("key"));
    let inv = Fixed(find("inv").as_slice().try_into().expect("16 bytes"));
    assert_eq!(key.invocation(&inv).bytes(), &hash("invocation-key"));
    assert_eq!(key.invocation(&Fixed([0; 16])).bytes(), &hash("no-invocation-key"));
    let object = hash("object");
    assert_eq!(key.invocation(&inv).bref(&object).0, hash("bref"));
    assert_eq!(&key.content(&object).0[..], find("content"));
    assert_eq!(&key.same(&object).0[..], find("same"));
    let mut fronts = 0;
    for (name, value) in &lines {
        let found = match name.split(' ').collect::<Vec<_>>()[..] {
            ["path", path] => key.path(path).0.to_vec(),
            ["token", token] => key.token(token).0.to_vec(),
            ["label", label] => key.label(label).0.to_vec(),
            ["claim", front, id] => {
                fronts += 1;
                let all = [Front::Mcp, Front::A2a, Front::Surface, Front::Admin];
                let front = all.into_iter().find(|f| f.as_str() == front).expect("a front");
                key.claim(front, id).0.to_vec()
            }
            _ => continue,
        };
        assert_eq!(&found, value, "{name}");
    }
    assert_eq!(fronts, 4);
}

#[test]
fn openings_open_their_event_and_no_other() {
    let lines = blind_lines();
    let key = EpisodeKey::new(lines[0].1.as_slice().try_into().expect("32 bytes"));
    let pairs: Vec<_> = lines
        .windows(2)
        .filter(|pair| pair[0].0 == "event")
        .map(|pair| (Event::decode(&pair[0].1).expect("an event"), &pair[1].1))
        .collect();
    assert!(pairs.len() >= 8);
    for (at, (event, bytes)) in pairs.iter().enumerate() {
        let opening = Opening::decode(bytes).expect("an opening");
        assert_eq!(&opening.encode(), *bytes);
        assert_eq!(opening.opens(event, &key), Ok(()), "{event:?}");
        assert!(Opening::decode(&[bytes.as_slice(), &[0]].concat()).is_err(), "bytes after it");
        let other_key = EpisodeKey::new([0; 32]);
        let empty = opening.refs.is_empty() && opening.files.is_empty();
        assert_eq!(opening.opens(event, &other_key).is_ok(), empty);
        for (other, (another, _)) in pairs.iter().enumerate() {
            assert_eq!(opening.opens(another, &key).is_ok(), at == other, "{at} opens {other}");
        }
        let mut more = opening.clone();
        more.refs.push([0; 32]);
        assert_eq!(more.opens(event, &key), Err("refs"));
        let mut more = opening.clone();
        more.files.push(OpenFile { path: "b".to_owned(), first: Some([0; 32]), second: None });
        assert_eq!(more.opens(event, &key), Err("files"));
        if let (Body::Outcome(_), [file, ..]) = (&event.body, &opening.files[..]) {
            let file = OpenFile { second: Some([0; 32]), ..file.clone() };
            let more = Opening { files: vec![file], ..opening };
            assert_eq!(more.opens(event, &key), Err("files"));
        }
    }
}

/// RFC 8949 section 4.2.1 by means of ciborium's value type alone.
fn canonical(value: &ciborium::Value) -> Vec<u8> {
    let encode = |value: &ciborium::Value| {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes).expect("a value encodes");
        bytes
    };
    let sized = |head: Vec<u8>, major: u8| {
        // The head of a container is that of a byte string of as many bytes, under another major type.
        let mut head = head;
        head[0] = (head[0] & 0x1f) | (major << 5);
        head
    };
    let head = |count: usize, major| {
        let whole = encode(&ciborium::Value::Bytes(vec![0; count]));
        sized(whole[..whole.len() - count].to_vec(), major)
    };
    match value {
        ciborium::Value::Array(items) => {
            items.iter().fold(head(items.len(), 4), |all, item| [all, canonical(item)].concat())
        }
        ciborium::Value::Map(pairs) => {
            let mut sorted: Vec<_> =
                pairs.iter().map(|(key, value)| (canonical(key), canonical(value))).collect();
            sorted.sort();
            sorted.iter().fold(head(pairs.len(), 5), |all, (key, value)| {
                [all, key.clone(), value.clone()].concat()
            })
        }
        plain => encode(plain),
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Delete(prop::sample::Index, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), 1_u8..=255).prop_map(|(at, mask)| Edit::Flip(at, mask)),
        (at(), prop::collection::vec(any::<u8>(), 1..4)).prop_map(|(at, b)| Edit::Insert(at, b)),
        (at(), 1_usize..4).prop_map(|(at, count)| Edit::Delete(at, count)),
    ]
}

fn edited(mut bytes: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits {
        if bytes.is_empty() {
            break;
        }
        match edit {
            Edit::Flip(at, mask) => *at.get_mut(&mut bytes) ^= mask,
            Edit::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
            Edit::Delete(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..bytes.len().min(at + count));
            }
        }
    }
    bytes
}

/// What holds for any bytes: an accepted event has one spelling, in two encoders.
fn one_spelling(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(event) = Event::decode(bytes) {
        prop_assert_eq!(event.encode().expect("what was decoded encodes"), bytes);
        let mut rest = bytes;
        let value: ciborium::Value = ciborium::from_reader(&mut rest).expect("CBOR");
        prop_assert!(rest.is_empty());
        prop_assert_eq!(canonical(&value), bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_changed_event_is_refused_or_has_one_spelling(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 1..4),
    ) {
        thread_local! {
            static SHORT: Vec<Vec<u8>> = fixtures("ok").into_iter().map(|f| f.bytes)
                .filter(|bytes| bytes.len() < 2_000).collect();
        }
        let start = SHORT.with(|all| which.get(all).clone());
        one_spelling(&edited(start, &edits))?;
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        one_spelling(&bytes)?;
        if let Ok(opening) = Opening::decode(&bytes) {
            prop_assert_eq!(opening.encode(), bytes);
        }
    }
}

/// Every change of one byte of every short fixture, exhaustively.
#[test]
fn no_single_byte_has_two_spellings() {
    for fixture in fixtures("ok").iter().filter(|f| f.bytes.len() < 400) {
        let mut bytes = fixture.bytes.clone();
        for at in 0..bytes.len() {
            let kept = bytes[at];
            for value in
                [0, 1, 0x17, 0x18, 0x40, 0x60, 0x80, 0xa0, 0xf6, 0xff, kept ^ 1, kept ^ 0x20]
            {
                bytes[at] = value;
                one_spelling(&bytes).unwrap_or_else(|e| panic!("{} at {at}: {e}", fixture.name));
            }
            bytes[at] = kept;
        }
    }
}
