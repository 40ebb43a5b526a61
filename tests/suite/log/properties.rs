//! Properties of every parser (no panic, one spelling) and of proofs and maps over random data.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;

use worldlog::merkle::Head;
use worldlog::merkle::hash::{EMPTY_ROOT, Hash, sha256};
use worldlog::merkle::map::{
    EMPTY_MAP_ROOT, Map, MapError, MapProof, Membership, Terminal, verify_map,
};
use worldlog::merkle::proof::{
    Node, Subtree, consistency_length, consistency_parts, inclusion_length, inclusion_parts,
    verify_consistency, verify_inclusion,
};
use worldlog::merkle::tile::{
    BundleId, TileId, TilePath, decode_bundle, decode_tile, encode_entry,
};
use worldlog::note::Note;
use worldlog::note::bundle::Bundle;
use worldlog::note::checkpoint::{Checkpoint, Policy};
use worldlog::note::cosign::sign_note;
use worldlog::note::key::{VerifierKey, check_name};

use super::{ORIGIN, golden_leaf, golden_tree, log_signer};

/// A log of `size` leaves, and the hash of each complete subtree that a proof may need.
fn node_of(node: Node) -> Hash {
    if node.height == 0 {
        return golden_leaf(node.index);
    }
    let below = |side| node_of(Node { height: node.height - 1, index: 2 * node.index + side });
    sha256(&[&[1], &below(0)[..], &below(1)[..]].concat())
}

fn hashed(parts: &[Subtree]) -> Vec<Hash> {
    parts.iter().map(|part| part.root(|node| Ok::<_, ()>(node_of(node))).unwrap()).collect()
}

fn valid_bundle() -> String {
    let (tree, _) = golden_tree(11);
    let text = Checkpoint::new(ORIGIN, tree.head()).unwrap().to_string();
    let note = Note::new(&text, vec![sign_note(&log_signer(), &text).unwrap()]).unwrap();
    Bundle::new(6, hashed(&inclusion_parts(6, 11).unwrap()), note).unwrap().to_string()
}

/// The map of the definition, computed by dividing the set.
fn naive_root(pairs: &BTreeMap<Hash, Hash>, depth: usize) -> Hash {
    let mut all = pairs.iter();
    match (all.next(), pairs.len()) {
        (None, _) => EMPTY_MAP_ROOT,
        (Some((key, value)), 1) => sha256(&[&[0], &key[..], &value[..]].concat()),
        _ => {
            let bit = |key: &Hash| key[depth / 8] >> (7 - depth % 8) & 1;
            let side = |wanted| {
                let side = pairs.iter().filter(|(key, _)| bit(key) == wanted);
                naive_root(&side.map(|(k, v)| (*k, *v)).collect(), depth + 1)
            };
            sha256(&[&[1], &side(0)[..], &side(1)[..]].concat())
        }
    }
}

/// Keys that meet often and late: all bits but a few are 0.
fn keys() -> impl Strategy<Value = Hash> {
    prop_oneof![
        any::<Hash>(),
        vec(0_usize..256, 0..4).prop_map(|bits| {
            let mut key = [0; 32];
            for bit in bits {
                key[bit / 8] ^= 0x80 >> (bit % 8);
            }
            key
        }),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Hash, Hash),
    Update(Index, Hash),
    Remove(Index),
    Root,
    Fork,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (keys(), any::<Hash>()).prop_map(|(key, value)| Step::Insert(key, value)),
        1 => (any::<Index>(), any::<Hash>()).prop_map(|(at, value)| Step::Update(at, value)),
        2 => any::<Index>().prop_map(Step::Remove),
        1 => Just(Step::Root),
        1 => Just(Step::Fork),
    ];
    vec(step, 0..60)
}

/// A liar may build a root over any hashes. What no map can contain is refused even if the root is right.
#[test]
fn a_map_proof_must_have_the_shape_of_a_map() {
    let leaf = |key: &Hash, value: &Hash| sha256(&[&[0], &key[..], &value[..]].concat());
    let branch = |zero: &Hash, one: &Hash| sha256(&[&[1], &zero[..], &one[..]].concat());
    let (zero, one, value) = ([0; 32], [0x80; 32], [7; 32]);
    // The pair of a key that begins with 1 stands on the side of 0: "absent" would be shown for a key that is there.
    let root = branch(&leaf(&one, &value), &value);
    let proof = MapProof { siblings: vec![value], terminal: Terminal::Leaf { key: one, value } };
    assert_eq!(verify_map(&root, &zero, &proof), Err(MapError::OtherPath { bit: 0 }));
    // A branch over one pair, and over none.
    let root = branch(&leaf(&zero, &value), &EMPTY_MAP_ROOT);
    let siblings = vec![EMPTY_MAP_ROOT];
    let terminal = Terminal::Leaf { key: zero, value };
    let proof = MapProof { siblings: siblings.clone(), terminal };
    assert_eq!(verify_map(&root, &zero, &proof), Err(MapError::EmptySibling));
    let root = branch(&EMPTY_MAP_ROOT, &EMPTY_MAP_ROOT);
    let proof = MapProof { siblings, terminal: Terminal::Empty };
    assert_eq!(verify_map(&root, &zero, &proof), Err(MapError::EmptySibling));
    let proof = MapProof { siblings: vec![value; 257], terminal: Terminal::Empty };
    assert_eq!(verify_map(&root, &zero, &proof), Err(MapError::TooDeep { siblings: 257 }));
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = (Note::parse(&bytes), Bundle::parse(&bytes), Checkpoint::parse(&text));
        let _ = (text.parse::<VerifierKey>(), text.parse::<TilePath>(), check_name(&text));
        let id = BundleId::new(0, 3).unwrap();
        if let Ok(entries) = decode_bundle(id, &bytes) {
            let mut again = Vec::new();
            for entry in entries {
                encode_entry(entry, &mut again).unwrap();
            }
            prop_assert_eq!(again, bytes);
        }
    }

    /// Valid files with a few bytes changed, removed or doubled: whatever still parses prints as itself.
    #[test]
    fn what_parses_prints_as_itself(edits in vec((any::<Index>(), any::<u8>(), 0..3_u8), 1..4)) {
        let mut bytes = valid_bundle().into_bytes();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
        }
        if let Ok(bundle) = Bundle::parse(&bytes) {
            prop_assert_eq!(bundle.to_string().into_bytes(), bytes.clone());
            if let Ok(checkpoint) = Checkpoint::parse(bundle.note().text()) {
                prop_assert_eq!(checkpoint.to_string(), bundle.note().text());
            }
            // Verification holds for the one original only, or for bytes that it does not speak about.
            let key = log_signer().verifier_key().clone();
            let policy = Policy::new(ORIGIN, vec![key], vec![], 0).unwrap();
            if let Ok(verified) = bundle.verify(&policy, b"event-6") {
                prop_assert_eq!(verified.checkpoint.head(), golden_tree(11).0.head());
                prop_assert_eq!(verified.included.index, 6);
            }
        }
    }

    #[test]
    fn notes_of_any_text_survive_a_round_trip(lines in vec("[^\\x00-\\x1f]{0,20}", 1..6)) {
        let text = format!("{}\n", lines.join("\n"));
        let line = sign_note(&log_signer(), &text).unwrap();
        let whole = format!("{text}\n{line}\n");
        match Note::parse(whole.as_bytes()) {
            Ok(note) => {
                prop_assert_eq!(note.to_string(), whole);
                prop_assert_eq!(note.text(), text);
            }
            Err(error) => prop_assert!(text == "\n", "{:?}: {}", text, error),
        }
    }

    #[test]
    fn tile_names_have_one_spelling(level in 0_u8..9, index in any::<u64>(), width in 0_u16..300, shift in 0_u32..64) {
        if let Ok(id) = TileId::new(level, index >> shift, width) {
            prop_assert_eq!(id.to_string().parse(), Ok(TilePath::Hashes(id)));
            prop_assert!(decode_tile(id, &vec![7; 32 * usize::from(width)]).is_ok());
        }
        if let Ok(id) = BundleId::new(index >> shift, width) {
            prop_assert_eq!(id.to_string().parse(), Ok(TilePath::Entries(id)));
        }
    }

    #[test]
    fn tile_paths_that_parse_print_as_themselves(path in "tile/([0-9]{1,2}|entries)/(x[0-9]{3}/){0,3}[0-9]{3}(\\.p/[0-9]{1,3})?") {
        if let Ok(parsed) = path.parse::<TilePath>() {
            prop_assert_eq!(parsed.to_string(), path);
        }
    }

    /// The lengths hold for sizes that no test could build, and no proof is longer than a witness takes.
    #[test]
    fn proofs_of_large_trees_have_the_length_they_must(a in 0_u64..=1 << 62, b in 0_u64..=1 << 62) {
        let (first, second) = (a.min(b), a.max(b));
        let parts = consistency_parts(first, second).unwrap();
        prop_assert_eq!(parts.len(), consistency_length(first, second).unwrap());
        prop_assert!(parts.len() <= 63);
        if first < second {
            let parts = inclusion_parts(first, second).unwrap();
            prop_assert_eq!(parts.len(), inclusion_length(first, second).unwrap());
            prop_assert!(parts.len() <= 62);
            // Together with the leaf itself they cover the tree.
            prop_assert_eq!(parts.iter().map(|part| part.end - part.start).sum::<u64>(), second - 1);
        }
    }

    #[test]
    fn a_tampered_proof_fails(size in 2_u64..200, at in any::<Index>(), which in any::<Index>(), bit in 0..256_usize) {
        let head = golden_tree(size).0.head();
        let flip = |hash: &mut Hash| hash[bit / 8] ^= 1 << (bit % 8);
        let index = at.index(usize::try_from(size).unwrap()) as u64;
        let mut proof = hashed(&inclusion_parts(index, size).unwrap());
        prop_assert!(verify_inclusion(&golden_leaf(index), index, &head, &proof).is_ok());
        let position = which.index(proof.len());
        flip(&mut proof[position]);
        prop_assert!(verify_inclusion(&golden_leaf(index), index, &head, &proof).is_err());
        let first = index.max(1);
        let old = golden_tree(first).0.head();
        let mut proof = hashed(&consistency_parts(first, size).unwrap());
        prop_assert!(verify_consistency(&old, &head, &proof).is_ok());
        let mut other = head;
        flip(&mut other.root);
        prop_assert!(verify_consistency(&old, &other, &proof).is_err());
        let empty = Head { size: 0, root: EMPTY_ROOT };
        for wrong in [Head { size: first, root: other.root }, empty] {
            prop_assert!(verify_consistency(&wrong, &head, &proof).is_err());
        }
        let position = which.index(proof.len());
        flip(&mut proof[position]);
        prop_assert!(verify_consistency(&old, &head, &proof).is_err());
    }

    /// Whatever happened to a map, its root is that of its pairs, and clones keep what they had.
    #[test]
    fn a_map_is_the_set_of_its_pairs(steps in steps()) {
        let (mut map, mut model) = (Map::new(), BTreeMap::new());
        let mut forks: Vec<(Map, BTreeMap<Hash, Hash>)> = Vec::new();
        let nth = |model: &BTreeMap<Hash, Hash>, at: Index| -> Option<Hash> {
            (!model.is_empty()).then(|| *model.keys().nth(at.index(model.len())).unwrap())
        };
        for step in steps {
            match step {
                Step::Insert(key, value) => {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                }
                Step::Update(at, value) => if let Some(key) = nth(&model, at) {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                },
                Step::Remove(at) => if let Some(key) = nth(&model, at) {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                    prop_assert_eq!(map.remove(&key), None);
                },
                Step::Root => prop_assert_eq!(map.root(), naive_root(&model, 0)),
                Step::Fork => forks.push((map.clone(), model.clone())),
            }
            prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
        }
        forks.push((map, model));
        for (map, model) in forks {
            prop_assert_eq!(map.root(), naive_root(&model, 0));
            for (key, value) in &model {
                prop_assert_eq!(map.get(key), Some(*value));
            }
        }
    }

    #[test]
    fn map_proofs_verify_and_tampered_ones_fail(
        pairs in btree_map(keys(), any::<Hash>(), 0..20), key in keys(), at in any::<Index>(), bit in 0..256_usize,
    ) {
        let mut map = Map::new();
        for (key, value) in &pairs {
            map.insert(*key, *value);
        }
        let root = map.root();
        let flip = |hash: &mut Hash| hash[bit / 8] ^= 1 << (bit % 8);
        for key in pairs.keys().copied().take(3).chain([key]) {
            let proof = map.prove(&key);
            let expected = match pairs.get(&key) {
                Some(value) => Membership::Presence { value: *value },
                None => Membership::Absence,
            };
            prop_assert_eq!(verify_map(&root, &key, &proof), Ok(expected));
            let mut other = root;
            flip(&mut other);
            prop_assert!(verify_map(&other, &key, &proof).is_err());
            // A proof for this key does not show the opposite about it by another terminal.
            let mut lie = proof.clone();
            lie.terminal = match proof.terminal {
                Terminal::Empty => Terminal::Leaf { key, value: root },
                Terminal::Leaf { .. } => Terminal::Empty,
            };
            prop_assert!(verify_map(&root, &key, &lie).is_err());
            if let Terminal::Leaf { key: found, mut value } = proof.terminal {
                flip(&mut value);
                lie.terminal = Terminal::Leaf { key: found, value };
                prop_assert!(verify_map(&root, &key, &lie).is_err());
            }
            if !proof.siblings.is_empty() {
                let mut lie = proof.clone();
                let position = at.index(lie.siblings.len());
                flip(&mut lie.siblings[position]);
                prop_assert!(verify_map(&root, &key, &lie).is_err());
                lie = proof.clone();
                lie.siblings.pop();
                prop_assert!(verify_map(&root, &key, &lie).is_err());
            }
            let mut lie = proof;
            lie.siblings.push(EMPTY_MAP_ROOT);
            prop_assert!(verify_map(&root, &key, &lie).is_err());
        }
    }
}
