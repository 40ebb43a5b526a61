//! `spec/limits.md` and `src/limits.rs` name the same limits with the same values.

use std::collections::BTreeMap;
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// Evaluates sums, products, shifts, brackets and names of earlier constants, as Rust does.
struct Sum<'a> {
    words: Vec<String>,
    at: usize,
    known: &'a BTreeMap<String, u128>,
}

impl<'a> Sum<'a> {
    fn of(text: &str, known: &'a BTreeMap<String, u128>) -> u128 {
        let mut spaced = text.replace("<<", " << ");
        for sign in ["(", ")", "+", "-", "*"] {
            spaced = spaced.replace(sign, &format!(" {sign} "));
        }
        let words = spaced.split_whitespace().map(str::to_owned).collect();
        let mut sum = Self { words, at: 0, known };
        let value = sum.shift();
        assert_eq!(sum.at, sum.words.len(), "`{text}` is more than this test can read");
        value
    }

    fn next(&mut self, words: &[&str]) -> Option<String> {
        let word = self.words.get(self.at).filter(|word| words.contains(&word.as_str())).cloned();
        self.at += usize::from(word.is_some());
        word
    }

    fn shift(&mut self) -> u128 {
        let mut value = self.terms();
        while self.next(&["<<"]).is_some() {
            value <<= self.terms();
        }
        value
    }

    fn terms(&mut self) -> u128 {
        let mut value = self.factors();
        while let Some(sign) = self.next(&["+", "-"]) {
            let other = self.factors();
            value = if sign == "+" { value + other } else { value - other };
        }
        value
    }

    fn factors(&mut self) -> u128 {
        let mut value = self.atom();
        while self.next(&["*"]).is_some() {
            value *= self.atom();
        }
        value
    }

    fn atom(&mut self) -> u128 {
        if self.next(&["("]).is_some() {
            let value = self.shift();
            self.next(&[")"]).expect("a closing bracket");
            return value;
        }
        let word = self.words[self.at].clone();
        self.at += 1;
        self.known.get(&word).copied().unwrap_or_else(|| {
            word.replace('_', "").parse().unwrap_or_else(|_| panic!("`{word}` is not known here"))
        })
    }
}

fn source() -> BTreeMap<String, u128> {
    let mut known = BTreeMap::new();
    let text = read("src/limits.rs");
    for declaration in text.split("pub const ").skip(1) {
        let (name, rest) = declaration.split_once(':').expect("a type");
        let (_, rest) = rest.split_once('=').expect("a value");
        let (value, _) = rest.split_once(';').expect("an end");
        let value = Sum::of(value, &known);
        known.insert(name.to_owned(), value);
    }
    known
}

fn specification() -> BTreeMap<String, u128> {
    let text = read("spec/limits.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, rest)| {
        let (value, why) = rest.split_once(" | ").expect("a reason");
        assert!(why.len() > 10, "{name} has no reason");
        (name.to_owned(), value.replace(',', "").parse().expect("a number"))
    })
    .collect()
}

#[test]
fn names_and_values_agree_both_ways() {
    let (source, specification) = (source(), specification());
    assert!(!source.is_empty());
    for (name, value) in &source {
        let listed = specification.get(name);
        assert_eq!(listed, Some(value), "spec/limits.md wants a row: | `{name}` | {value} | why |");
    }
    for name in specification.keys() {
        assert!(source.contains_key(name), "src/limits.rs has no {name}");
    }
}

#[test]
fn what_is_read_from_the_text_is_what_the_compiler_reads() {
    let source = source();
    assert_eq!(source["BUNDLE_BYTES_MAX"], worldlog::limits::BUNDLE_BYTES_MAX as u128);
    assert_eq!(source["EVENT_UINT_MAX"], u128::from(worldlog::limits::EVENT_UINT_MAX));
    assert_eq!(source["PROOF_FILE_BYTES_MAX"], worldlog::limits::PROOF_FILE_BYTES_MAX as u128);
    assert_eq!(worldlog::state::CLAIMS_MAX, 100_000);
}
