//! The shape of the sources, checked as text: layers, quarantine of crates, module docs, lengths, freshness of documents.
//!
//! The table is the rule; `src/lib.rs` says it in words. This test links nothing of the crate, so that it also speaks when
//! the crate does not compile.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails there")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Module, layer, modules of the same layer that it may import.
const LAYERS: &[(&str, u8, &[&str])] = &[
    ("limits", 0, &[]),
    ("merkle", 1, &[]),
    ("canon", 1, &[]),
    ("note", 1, &["merkle"]),
    ("event", 1, &["merkle"]),
    ("state", 2, &[]),
    ("broker", 2, &["state"]),
    ("transitions", 2, &[]),
    ("verify", 2, &["state"]),
    ("clock", 3, &[]),
    ("durable", 3, &[]),
    ("entropy", 3, &[]),
    ("store", 3, &[]),
    ("sandbox", 4, &[]),
    ("ledger", 4, &[]),
    ("handlers", 4, &["sandbox"]),
    ("export", 4, &["ledger"]),
    ("service", 5, &[]),
    ("server", 6, &[]),
    ("cli", 7, &[]),
];

/// What a module may import beyond its layer's right, and what it may not although its layer could.
const NEVER: &[(&str, &[&str])] = &[
    // The port must not know what it stores.
    ("store", &["event", "state", "canon", "note"]),
    ("sandbox", &["event", "state", "store", "ledger"]),
    // A handler has no way to the log but the permit it was given.
    ("handlers", &["ledger", "broker", "state", "clock", "entropy"]),
    ("transitions", &["event", "state"]),
];

/// Third-party crates, and the files or folders that may name them. Others may be named where their layer allows.
const QUARANTINE: &[(&str, &[&str])] = &[
    ("ciborium", &["src/event/codec.rs"]),
    ("sha2", &["src/merkle/hash.rs"]),
    ("hmac", &["src/merkle/hash.rs"]),
    ("ed25519_dalek", &["src/note/key.rs", "src/note/key/"]),
    ("ml_dsa", &["src/note/key.rs", "src/note/key/"]),
    ("sled", &["src/store/sled.rs", "src/store/sled/"]),
    ("getrandom", &["src/entropy.rs"]),
    ("ignore", &["src/sandbox/rules.rs"]),
    ("grep_matcher", &["src/handlers/search/"]),
    ("grep_regex", &["src/handlers/search/"]),
    ("grep_searcher", &["src/handlers/search/"]),
    ("hyper", &["src/server/", "src/cli/"]),
    ("hyper_util", &["src/server/", "src/cli/"]),
    ("http_body_util", &["src/server/", "src/cli/"]),
    ("serde_json", &["src/server/", "src/cli/"]),
    ("clap", &["src/cli/"]),
    ("tracing_subscriber", &["src/cli/"]),
];

/// Parts of std that the pure zone (layers 0 to 2) must not name.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::time",
    "tokio",
    "tracing",
];

/// Lines of code in one file, without comments, blank lines and tests.
const CODE_LINES_MAX: usize = 500;

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        let entries =
            std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for entry in entries {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("readable");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new(folder), &mut found);
    found.sort();
    assert!(!found.is_empty(), "nothing to check below {folder}");
    found
}

/// Lines of code: what comes before a file's own tests, without comments.
fn code(text: &str) -> Vec<&str> {
    text.lines()
        .map(str::trim)
        .take_while(|line| *line != "#[cfg(test)]")
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect()
}

fn module_of(path: &Path) -> String {
    let mut parts = path.components().skip(1);
    let first = parts.next().expect("below src").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Modules named as `crate::NAME`, also in `use crate::{a, b::c}`.
fn imports(text: &str) -> BTreeSet<String> {
    let word = |rest: &str| -> String {
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let joined = code(text).join(" ");
    let mut found = BTreeSet::new();
    for (at, _) in joined.match_indices("crate::") {
        let rest = &joined[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let (mut depth, mut start) = (0, true);
            for (at, c) in list.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if start && !c.is_whitespace() => {
                        found.insert(word(&list[at..]));
                        start = false;
                    }
                    _ => {}
                }
            }
        } else {
            found.insert(word(rest));
        }
    }
    found.remove("");
    found
}

#[test]
fn imports_go_down_only() {
    let layers: BTreeMap<_, _> =
        LAYERS.iter().map(|(name, layer, also)| (*name, (*layer, *also))).collect();
    for (path, text) in sources("src") {
        let module = module_of(&path);
        if module == "lib" || module == "main" {
            continue;
        }
        let (layer, also) = *layers
            .get(module.as_str())
            .unwrap_or_else(|| panic!("{}: give `{module}` a layer in this test", path.display()));
        let never =
            NEVER.iter().find(|(name, _)| *name == module).map_or(&[][..], |(_, list)| list);
        for import in imports(&text) {
            let Some((other, _)) = layers.get(import.as_str()) else { continue };
            let same = import == module;
            let allowed =
                same || *other < layer || (*other == layer && also.contains(&import.as_str()));
            assert!(
                allowed && !never.contains(&import.as_str()),
                "{}: `{module}` (layer {layer}) must not import `{import}` (layer {other})",
                path.display()
            );
        }
    }
}

#[test]
fn fronts_do_not_know_each_other() {
    const FRONTS: &[&str] = &["mcp", "provenance", "a2a", "surface", "viewer"];
    for (path, text) in sources("src/server") {
        let inside = path.strip_prefix("src/server").expect("below it");
        let own =
            inside.components().next().expect("a file").as_os_str().to_string_lossy().into_owned();
        let own = own.trim_end_matches(".rs");
        if !FRONTS.contains(&own) {
            continue;
        }
        for other in FRONTS.iter().filter(|front| **front != own) {
            let named = code(&text).iter().any(|line| {
                line.contains(&format!("super::{other}"))
                    || line.contains(&format!("server::{other}"))
            });
            assert!(!named, "{}: the front `{own}` names the front `{other}`", path.display());
        }
    }
}

#[test]
fn crates_stay_where_they_belong() {
    for (path, text) in sources("src") {
        let shown = path.display().to_string();
        for line in code(&text) {
            for (name, places) in QUARANTINE {
                let used = line.contains(&format!("use {name}::"))
                    || line.match_indices(&format!("{name}::")).any(|(at, _)| {
                        let before = line[..at].chars().next_back();
                        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
                    });
                let allowed = places.iter().any(|place| shown.starts_with(place));
                assert!(!used || allowed, "{shown}: `{name}` belongs to {places:?}: {line}");
            }
        }
    }
}

#[test]
fn the_pure_zone_is_pure() {
    let pure: Vec<_> =
        LAYERS.iter().filter(|(_, layer, _)| *layer <= 2).map(|(name, ..)| *name).collect();
    for (path, text) in sources("src") {
        if !pure.contains(&module_of(&path).as_str()) {
            continue;
        }
        for line in code(&text) {
            for impure in IMPURE {
                assert!(!line.contains(&format!("{impure}::")), "{}: {line}", path.display());
            }
            assert!(
                !line.starts_with("async fn") && !line.contains("debug_assert"),
                "{}: {line}",
                path.display()
            );
        }
    }
}

#[test]
fn only_the_ledger_commits() {
    for (path, text) in sources("src") {
        let module = module_of(&path);
        if module == "ledger" || module == "store" {
            continue;
        }
        let commits = code(&text).iter().any(|line| {
            line.contains("store.commit(")
                || line.contains("Store::commit(")
                || line.contains("store().commit(")
        });
        assert!(!commits, "{}: only the ledger commits to a store", path.display());
    }
}

#[test]
fn files_say_what_they_are_and_stay_short() {
    for folder in ["src", "tests", "tools/harness/src"] {
        for (path, text) in sources(folder) {
            assert!(text.starts_with("//!"), "{}: opens without saying what it is", path.display());
            let lines = code(&text).len();
            assert!(
                lines <= CODE_LINES_MAX || folder == "tests",
                "{}: {lines} lines of code, more than {CODE_LINES_MAX}",
                path.display()
            );
            for (number, line) in (1..).zip(text.lines()) {
                assert!(
                    line == line.trim_end(),
                    "{}:{number}: ends in white space",
                    path.display()
                );
                for word in ["TODO", "FIXME", "todo!", "unimplemented!"] {
                    let own = path.ends_with("architecture.rs");
                    assert!(own || !line.contains(word), "{}:{number}: {word}", path.display());
                }
            }
        }
    }
}

/// A path that a document names, such as `spec/log.md` or `src/merkle`.
fn named_paths(text: &str) -> BTreeSet<String> {
    const TOPS: &[&str] = &["spec/", "src/", "fixtures/", "tests/", "tools/"];
    // Methods of MCP look like paths of ours.
    const METHODS: &[&str] = &["tools/call", "tools/list"];
    text.split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)))
        .map(|word| word.trim_end_matches(['.', '/']))
        .filter(|word| {
            TOPS.iter().any(|top| word.starts_with(top))
                && !METHODS.contains(word)
                && !word.contains("NAME")
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn documents_name_only_what_is_there() {
    let mut documents = vec![PathBuf::from("README.md"), PathBuf::from("src/lib.rs")];
    let specs =
        std::fs::read_dir("spec").expect("spec").map(|entry| entry.expect("readable").path());
    documents
        .extend(specs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    for document in documents {
        let text = std::fs::read_to_string(&document).expect("readable");
        for path in named_paths(&text) {
            assert!(Path::new(&path).exists(), "{}: there is no {path}", document.display());
        }
    }
}

#[test]
fn every_module_stands_in_the_map() {
    let map = std::fs::read_to_string("src/lib.rs").expect("readable");
    for (name, ..) in LAYERS {
        let declared = map.contains(&format!("pub mod {name};"));
        let mapped = map.lines().any(|line| {
            line.strip_prefix("//! ")
                .is_some_and(|rest| rest.split(' ').take(2).any(|word| word == *name))
        });
        assert!(declared && mapped, "`{name}` is not in src/lib.rs as a module and in its map");
    }
}

#[test]
fn the_repository_speaks_of_itself_alone() {
    for folder in ["src", "tests", "tools/harness/src"] {
        for (path, text) in sources(folder) {
            for line in text.lines() {
                assert!(
                    !line.contains(concat!("/wo", "rk/")) && !line.contains(concat!("/ho", "me/")),
                    "{}: {line}",
                    path.display()
                );
            }
        }
    }
}
