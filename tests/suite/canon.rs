//! `spec/canon.md` against the parser and the printer, on fixtures that another implementation made.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use worldlog::canon::{CanonError, Value, is_canonical, parse};
use worldlog::event::hex;
use worldlog::merkle::hash::sha256;

/// Name and path of every input of a folder; a folder without any is a fault of the tree.
fn inputs(folder: &str) -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/canon").join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let named = paths.filter(|path| path.extension().is_some_and(|e| e == "json"));
    let mut found: Vec<_> = named
        .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path))
        .collect();
    assert!(!found.is_empty(), "{} is empty", folder.display());
    found.sort();
    found
}

fn line(path: &Path, key: &str) -> String {
    let text = std::fs::read_to_string(path.with_extension("txt")).expect("text beside it");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("{} has no `{key}`", path.display())).to_owned()
}

fn spelled(error: &CanonError) -> String {
    format!("{} at {}", error.code(), error.at())
}

#[test]
fn prints_every_ok_fixture_as_the_other_implementation_does() {
    for (name, path) in inputs("ok") {
        let input = std::fs::read(&path).expect("the input");
        let want = std::fs::read(path.with_extension("canon")).expect("the canonical bytes");
        let value = parse(&input).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes = value.to_bytes();
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&want), "{name}");
        assert_eq!(hex(&sha256(&bytes)), line(&path, "sha256"), "{name}");
        assert!(is_canonical(&want), "{name}");
        assert_eq!(is_canonical(&input), input == want, "{name}");
        assert_eq!(parse(&want), Ok(value), "{name}");
    }
}

#[test]
fn refuses_every_err_fixture_with_the_error_that_it_names() {
    let mut codes = BTreeSet::new();
    for (name, path) in inputs("err") {
        let error = parse(&std::fs::read(&path).expect("the input")).expect_err(&name);
        assert_eq!(spelled(&error), line(&path, "expect"), "{name}: {error}");
        codes.insert(error.code());
    }
    assert_eq!(codes.len(), 7, "an error without a fixture; there are {codes:?}");
}

#[test]
fn deep_nesting_costs_no_stack() {
    for opening in ["[", "{\"a\":", "[{\"a\":"] {
        let error = parse(opening.repeat(100_000).as_bytes()).expect_err("too deep");
        assert_eq!(error.code(), "too-deep");
    }
}

#[test]
fn a_long_number_costs_no_time() {
    for text in ["9".repeat(5_000_000), format!("1e{}", "9".repeat(5_000_000))] {
        assert_eq!(parse(text.as_bytes()).expect_err("too long").code(), "number-bounds");
    }
}

/// A value, and some spelling of it.
fn spelling() -> impl Strategy<Value = String> {
    let space = || prop::sample::select(vec!["", "", " ", "\n", "\t\r "]);
    let string = prop::collection::vec(
        prop_oneof![
            any::<char>().prop_map(|c| match c {
                '"' | '\\' | '\0'..='\u{1f}' => format!("\\u{:04x}", c as u32),
                plain => plain.to_string(),
            }),
            any::<char>().prop_map(|c| {
                let mut units = [0; 2];
                c.encode_utf16(&mut units)
                    .iter()
                    .fold(String::new(), |all, unit| all + &format!("\\u{unit:04X}"))
            }),
            prop::sample::select(vec!["\\n", "\\/", "\\\"", "\\\\", "\\b", "\\f", "\\r", "\\t"])
                .prop_map(str::to_owned),
        ],
        0..6,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = "-?(0|[1-9][0-9]{0,12})(\\.[0-9]{1,8})?([eE][+-]?[0-9]{1,2})?";
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned),
        number.prop_map(|text| text),
        string.clone(),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let array =
            (prop::collection::vec(inner.clone(), 0..5), space()).prop_map(|(items, space)| {
                format!("[{space}{}{space}]", items.join(&format!("{space},")))
            });
        let members = prop::collection::btree_map(0_u32..1000, (string.clone(), inner), 0..5);
        let object = (members, space()).prop_map(|(members, space)| {
            // The number in front keeps names apart.
            let pair = |(at, (name, value)): (&u32, &(String, String))| {
                format!("\"{at}-{}:{space}{value}", name.get(1..).unwrap_or(""))
            };
            let pairs: Vec<_> = members.iter().rev().map(pair).collect();
            format!("{{{space}{}{space}}}", pairs.join(&format!(",{space}")))
        });
        prop_oneof![array, object]
    })
}

fn same_value(ours: &Value, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::String(a), serde_json::Value::String(b)) => a == b,
        (Value::Number(a), serde_json::Value::Number(b)) => {
            // A float is all that the other one keeps of a number.
            let a: f64 = a.as_str().parse().expect("a number");
            b.as_f64().is_some_and(|b| (a - b).abs() <= 1e-12 * a.abs())
        }
        (Value::Array(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(a), serde_json::Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|b| same_value(v, b)))
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn print_after_parse_is_a_fixed_point(text in spelling()) {
        let value = parse(text.as_bytes()).expect("JSON");
        let bytes = value.to_bytes();
        prop_assert_eq!(parse(&bytes), Ok(value.clone()));
        prop_assert!(is_canonical(&bytes));
        let other: serde_json::Value = serde_json::from_str(&text).expect("JSON to serde_json as well");
        prop_assert!(same_value(&value, &other), "{} reads otherwise", text);
    }

    #[test]
    fn changed_text_is_refused_or_has_one_form(
        text in spelling(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = text.into_bytes();
        *at.get_mut(&mut bytes) = byte;
        if let Ok(value) = parse(&bytes) {
            prop_assert_eq!(parse(&value.to_bytes()), Ok(value));
            // serde_json keeps numbers as floats, and refuses what none can hold; it says so, and only then.
            let other = serde_json::from_slice::<serde_json::Value>(&bytes);
            let range = other.as_ref().err().is_some_and(|e| e.to_string().starts_with("number out of range"));
            prop_assert!(other.is_ok() || range, "{:?}", other);
        }
    }
}
