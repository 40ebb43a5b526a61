//! Walks `fixtures/log/{checkpoint,proof,bundle,tile,vkey}`: what each file expects must come out, to the letter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use worldlog::merkle::Head;
use worldlog::merkle::proof::{Growth, verify_consistency, verify_inclusion};
use worldlog::merkle::tile::{TilePath, decode_bundle, decode_tile};
use worldlog::note::Note;
use worldlog::note::bundle::Bundle;
use worldlog::note::checkpoint::Policy;
use worldlog::note::key::VerifierKey;

use super::{ORIGIN, fixtures, hex, log_signer, unhex, unhex32, witness_signer};

struct Case {
    parameters: BTreeMap<String, String>,
    input: Vec<u8>,
}

/// Runs every file of a folder through `run`, and reports all that differ at once.
fn walk(folder: &str, run: impl Fn(&Case) -> Result<String, String>) {
    let mut report = String::new();
    for side in ["ok", "err"] {
        let mut cases = 0;
        for file in std::fs::read_dir(fixtures().join(folder).join(side)).unwrap() {
            let path = file.unwrap().path();
            let case = read_case(&std::fs::read(&path).unwrap());
            let expected = &case.parameters["expect"];
            let outcome = run(&case);
            let (Ok(text) | Err(text)) = &outcome;
            if outcome.is_ok() != (side == "ok") || text != expected {
                writeln!(report, "{}\n  expect {expected}\n  got    {outcome:?}", path.display())
                    .unwrap();
            }
            cases += 1;
        }
        assert!(cases > 3, "{folder}/{side} has {cases} cases");
    }
    assert!(report.is_empty(), "\n{report}");
}

fn read_case(file: &[u8]) -> Case {
    let end = file.windows(4).position(|bytes| bytes == b"---\n").unwrap();
    let head = std::str::from_utf8(&file[..end]).unwrap();
    let parameters = head
        .lines()
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Case { parameters, input: file[end + 4..].to_vec() }
}

fn policy(case: &Case) -> Policy {
    let quorum = case.parameters.get("quorum").map_or(0, |quorum| quorum.parse().unwrap());
    let log = vec![log_signer().verifier_key().clone()];
    Policy::new(ORIGIN, log, vec![witness_signer().verifier_key().clone()], quorum).unwrap()
}

#[test]
fn checkpoints() {
    walk("checkpoint", |case| {
        let opened = policy(case).open(&case.input).map_err(|error| error.to_string())?;
        let note = Note::parse(&case.input).unwrap();
        assert_eq!(note.to_string().as_bytes(), case.input, "one spelling");
        assert_eq!(opened.checkpoint().to_string(), note.text(), "one spelling");
        assert_eq!(opened.origin(), ORIGIN);
        Ok(format!(
            "size {} root {} log {} witnesses {}",
            opened.head().size,
            hex(&opened.head().root),
            opened.log().len(),
            opened.witnesses().len()
        ))
    });
}

#[test]
fn proofs() {
    walk("proof", |case| {
        let text = std::str::from_utf8(&case.input).unwrap();
        let mut lines = text.lines();
        let head: Vec<_> = lines.next().unwrap().split(' ').collect();
        let proof: Vec<_> = lines.map(unhex32).collect();
        let (a, b): (u64, u64) = (head[1].parse().unwrap(), head[2].parse().unwrap());
        let (c, d) = (unhex32(head[3]), unhex32(head[4]));
        if head[0] == "inclusion" {
            let included = verify_inclusion(&d, a, &Head { size: b, root: c }, &proof)
                .map_err(|error| error.to_string())?;
            assert_eq!(included.leaf, d);
            return Ok(format!("leaf {} in {}", included.index, included.head.size));
        }
        assert_eq!(head[0], "consistency");
        let (first, second) = (Head { size: a, root: c }, Head { size: b, root: d });
        match verify_consistency(&first, &second, &proof).map_err(|error| error.to_string())? {
            Growth::NothingProven => Ok("nothing proven".to_owned()),
            Growth::Same { size } => Ok(format!("same {size}")),
            Growth::Extends { first, second } => Ok(format!("extends {first} to {second}")),
        }
    });
}

#[test]
fn bundles() {
    walk("bundle", |case| {
        let bundle = Bundle::parse(&case.input).map_err(|error| error.to_string())?;
        assert_eq!(bundle.to_string().as_bytes(), case.input, "one spelling");
        let verified = bundle
            .verify(&policy(case), case.parameters["leaf"].as_bytes())
            .map_err(|error| error.to_string())?;
        assert_eq!(verified.included.head, verified.checkpoint.head());
        Ok(format!("leaf {} in {}", verified.included.index, verified.included.head.size))
    });
}

#[test]
fn tiles() {
    walk("tile", |case| {
        let text = std::str::from_utf8(&case.input).unwrap();
        let (path, data) = match text.split_once('\n') {
            Some((path, data)) => (path, Some(unhex(data.trim_end()))),
            None => (text, None),
        };
        let parsed: TilePath =
            path.parse().map_err(|error: worldlog::merkle::tile::TileError| error.to_string())?;
        assert_eq!(parsed.to_string(), path, "one spelling");
        let (name, content) = match parsed {
            TilePath::Hashes(id) => (
                format!("tile {}/{}/{}", id.level(), id.index(), id.width()),
                data.map(|data| decode_tile(id, &data).map(|h| format!("{} hashes", h.len()))),
            ),
            TilePath::Entries(id) => (
                format!("entries {}/{}", id.index(), id.width()),
                data.map(|data| decode_bundle(id, &data).map(|e| format!("{} entries", e.len()))),
            ),
        };
        match content.transpose().map_err(|error| error.to_string())? {
            Some(content) => Ok(format!("{name} with {content}")),
            None => Ok(name),
        }
    });
}

#[test]
fn verifier_keys() {
    walk("vkey", |case| {
        let text = std::str::from_utf8(&case.input).unwrap();
        let key: VerifierKey =
            text.parse().map_err(|error: worldlog::note::key::KeyError| error.to_string())?;
        assert_eq!(key.to_string(), text, "one spelling");
        Ok(format!("type {} id {} name {}", key.kind(), hex(&key.id()), key.name()))
    });
}
