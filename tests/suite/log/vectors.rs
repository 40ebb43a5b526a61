//! Data that others made: proofs of transparency-dev, the golden log, all pairs of sizes up to 300, maps.

use base64ct::{Base64, Encoding};
use serde_json::Value;

use worldlog::merkle::Head;
use worldlog::merkle::hash::{Hash, leaf_hash, sha256};
use worldlog::merkle::map::{Map, MapProof, Membership, Terminal, verify_map};
use worldlog::merkle::proof::{
    Growth, Node, Subtree, consistency_parts, inclusion_parts, verify_consistency, verify_inclusion,
};
use worldlog::merkle::tile::{BundleId, TileId, encode_entry, tiles};
use worldlog::merkle::tree::Tree;
use worldlog::note::Note;
use worldlog::note::bundle::Bundle;
use worldlog::note::checkpoint::Policy;
use worldlog::note::key::{KeyType, Keyring, VerifierKey};

use super::{
    ORIGIN, fixtures, golden, golden_leaf, hex, log_signer, unhex, unhex32, witness_signer,
};

fn json(name: &str) -> Value {
    let bytes = std::fs::read(fixtures().join("vectors").join(name)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is no text"))
}

fn hash64(value: &Value) -> Option<Hash> {
    Base64::decode_vec(value.as_str().unwrap()).unwrap().try_into().ok()
}

/// All hashes of a vector, or `None` if one of them has not 32 bytes: such a vector cannot even be expressed.
fn hashes64(value: &Value) -> Option<Vec<Hash>> {
    value.as_array().map_or(Some(Vec::new()), |list| list.iter().map(hash64).collect())
}

/// Nodes of the golden log, hashed the plain way: a third opinion beside tree and reader.
struct Plain(Vec<Vec<Hash>>);

impl Plain {
    fn new(leaves: Vec<Hash>) -> Self {
        let mut levels = vec![leaves];
        while levels.last().unwrap().len() > 1 {
            let below = levels.last().unwrap().as_chunks::<2>().0;
            levels.push(
                below.iter().map(|[l, r]| sha256(&[&[1], &l[..], &r[..]].concat())).collect(),
            );
        }
        Self(levels)
    }

    fn hash(&self, part: &Subtree) -> Hash {
        part.root(|Node { height, index }| {
            Ok::<_, ()>(self.0[height as usize][usize::try_from(index).unwrap()])
        })
        .unwrap()
    }
}

#[test]
fn inclusion_vectors_of_transparency_dev() {
    let vectors = json("merkle-vectors.json");
    let vectors = vectors["inclusion"].as_array().unwrap();
    assert_eq!(vectors.len(), 98);
    let mut accepted = 0;
    for vector in vectors {
        let verified = (|| {
            let head = Head { size: vector["treeSize"].as_u64()?, root: hash64(&vector["root"])? };
            let (leaf, proof) = (hash64(&vector["leafHash"])?, hashes64(&vector["proof"])?);
            verify_inclusion(&leaf, vector["leafIdx"].as_u64()?, &head, &proof).ok()
        })();
        accepted += usize::from(verified.is_some());
        assert_eq!(verified.is_none(), vector["wantErr"].as_bool().unwrap(), "{}", vector["file"]);
    }
    assert!(accepted > 4, "{accepted} accepted");
}

#[test]
fn consistency_vectors_of_transparency_dev() {
    // Its roots have 12 bytes, and a root has 32.
    let refused_by_us = "consistency/additional/sizes-are-equal-one-and-proof-is-empty.json";
    let vectors = json("merkle-vectors.json");
    let vectors = vectors["consistency"].as_array().unwrap();
    assert_eq!(vectors.len(), 98);
    let mut accepted = 0;
    for vector in vectors {
        let growth = (|| {
            let head = |size: &str, root: &str| {
                Some(Head { size: vector[size].as_u64()?, root: hash64(&vector[root])? })
            };
            let (first, second) = (head("size1", "root1")?, head("size2", "root2")?);
            verify_consistency(&first, &second, &hashes64(&vector["proof"])?).ok()
        })();
        let file = vector["file"].as_str().unwrap();
        let wanted = !vector["wantErr"].as_bool().unwrap();
        // Size 0 is neither consistent nor an error to us; it proves nothing.
        let shown = match growth {
            None | Some(Growth::NothingProven) => false,
            Some(Growth::Same { .. } | Growth::Extends { .. }) => true,
        };
        accepted += usize::from(shown);
        let zero = growth == Some(Growth::NothingProven);
        assert!(!zero || vector["size1"].as_u64() == Some(0), "{file}");
        assert_eq!(shown || zero && wanted, wanted && file != refused_by_us, "{file}");
    }
    assert!(accepted > 4, "{accepted} accepted");
}

#[test]
fn the_small_tree_of_ct() {
    let vectors = json("tlog-vectors.json");
    let small = &vectors["ct_small_tree"];
    let leaves: Vec<Hash> = small["leaves_hex"]
        .as_array()
        .unwrap()
        .iter()
        .map(|leaf| leaf_hash(&unhex(leaf.as_str().unwrap())))
        .collect();
    let roots: Vec<Hash> = small["roots_hex_by_size"]
        .as_array()
        .unwrap()
        .iter()
        .map(|root| unhex32(root.as_str().unwrap()))
        .collect();
    let mut tree = Tree::new();
    for (leaf, root) in leaves.iter().zip(&roots) {
        assert_eq!(tree.root(), *root);
        tree.append(*leaf, &mut Vec::new()).unwrap();
    }
    assert_eq!((tree.size(), tree.root()), (8, roots[8]));
    let plain = Plain::new(leaves.clone());
    let list = |value: &Value| -> Vec<Hash> {
        value.as_array().unwrap().iter().map(|h| unhex32(h.as_str().unwrap())).collect()
    };
    for (name, proof) in small["inclusion"].as_object().unwrap() {
        let (index, size) = name.split_once('/').unwrap();
        let (index, size): (u64, u64) = (index.parse().unwrap(), size.parse().unwrap());
        let made: Vec<_> =
            inclusion_parts(index, size).unwrap().iter().map(|p| plain.hash(p)).collect();
        assert_eq!(made, list(proof), "{name}");
    }
    for (name, proof) in small["consistency"].as_object().unwrap() {
        let (first, second) = name.split_once("->").unwrap();
        let parts = consistency_parts(first.parse().unwrap(), second.parse().unwrap()).unwrap();
        let made: Vec<_> = parts.iter().map(|p| plain.hash(p)).collect();
        assert_eq!(made, list(proof), "{name}");
    }
}

/// `compact_log` issue 13: a generator that is wrong for some pairs of sizes only.
#[test]
fn all_pairs_of_sizes_up_to_300() {
    let lines = std::fs::read_to_string(fixtures().join("made/trees.txt")).unwrap();
    let plain = Plain::new((0..300).map(golden_leaf).collect());
    let root = |size| plain.hash(&Subtree { start: 0, end: size });
    let feed = |all: &mut Vec<u8>, proof: &[Hash]| {
        all.push(u8::try_from(proof.len()).unwrap());
        all.extend(proof.iter().flatten());
    };
    let mut tree = Tree::new();
    let mut sizes = 0;
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        let second: u64 = words[0].parse().unwrap();
        assert_eq!(second, sizes);
        let head = Head { size: second, root: unhex32(words[1]) };
        assert_eq!((tree.head(), root(second)), (head, head.root));
        let mut all = Vec::new();
        for index in 0..second {
            let parts = inclusion_parts(index, second).unwrap();
            let proof: Vec<_> = parts.iter().map(|part| plain.hash(part)).collect();
            verify_inclusion(&golden_leaf(index), index, &head, &proof).unwrap();
            feed(&mut all, &proof);
        }
        assert_eq!(hex(&sha256(&all)), words[2], "inclusion in {second}");
        all.clear();
        for first in 0..=second {
            let parts = consistency_parts(first, second).unwrap();
            let proof: Vec<_> = parts.iter().map(|part| plain.hash(part)).collect();
            let old = Head { size: first, root: root(first) };
            let expected = match first {
                0 => Growth::NothingProven,
                _ if first == second => Growth::Same { size: first },
                _ => Growth::Extends { first, second },
            };
            assert_eq!(verify_consistency(&old, &head, &proof), Ok(expected));
            feed(&mut all, &proof);
        }
        assert_eq!(hex(&sha256(&all)), words[3], "consistency to {second}");
        tree.append(golden_leaf(second), &mut Vec::new()).unwrap();
        sizes += 1;
    }
    assert_eq!(sizes, 301);
}

#[test]
fn the_golden_log_has_the_same_roots_and_tiles() {
    let vectors = json("tlog-vectors.json");
    let vector = &vectors["golden_log"];
    let roots = vector["roots_b64_by_size"].as_object().unwrap();
    assert!(roots.len() > 10);
    let mut tree = Tree::new();
    let mut full = Vec::new();
    let mut compared = 0;
    for index in 0..=70_000 {
        if let Some(root) = roots.get(&index.to_string()) {
            assert_eq!(Some(tree.root()), hash64(root), "size {index}");
            compared += 1;
        }
        if index < 70_000 {
            tree.append(golden_leaf(index), &mut full).unwrap();
        }
    }
    assert_eq!(compared, roots.len());
    let mut bytes: std::collections::BTreeMap<String, Vec<u8>> =
        full.iter().map(|tile| (tile.id.to_string(), tile.to_bytes())).collect();
    bytes.extend(tree.partials().map(|(id, hashes)| (id.to_string(), hashes.concat())));
    let named: Vec<_> = tiles(70_000).map(|id| id.to_string()).collect();
    let mut sorted = named.clone();
    sorted.sort();
    assert_eq!(sorted, bytes.keys().cloned().collect::<Vec<_>>());
    for id in [BundleId::new(0, 256).unwrap(), BundleId::new(273, 112).unwrap()] {
        let mut bundle = Vec::new();
        for entry in 0..u64::from(id.width()) {
            encode_entry(format!("event-{}", id.index() * 256 + entry).as_bytes(), &mut bundle)
                .unwrap();
        }
        bytes.insert(id.to_string(), bundle);
    }
    let digests = vector["tile_sha256"].as_object().unwrap();
    assert_eq!(digests.len(), 8);
    for (path, digest) in digests {
        assert_eq!(hex(&sha256(&bytes[path])), digest.as_str().unwrap(), "{path}");
    }
}

/// Every checkpoint and `.tlog-proof` of the golden log, the ML-DSA-44 cosignature among them.
#[test]
fn the_golden_log_is_verified() {
    let vectors = json("tlog-vectors.json");
    let vector = &vectors["golden_log"];
    let key = |name| text(vector, name).parse::<VerifierKey>().unwrap();
    let (log, w1, pq) = (key("vkey"), key("witness_vkey"), key("pq_witness_vkey"));
    assert_eq!(log.to_string(), log_signer().verifier_key().to_string());
    assert_eq!(w1.to_string(), witness_signer().verifier_key().to_string());
    let policy = Policy::new(ORIGIN, vec![log.clone()], vec![w1.clone()], 1).unwrap();
    let new = policy.open(text(vector, "checkpoint_70000").as_bytes()).unwrap();
    let old = policy.open(text(vector, "old_checkpoint_1000").as_bytes()).unwrap();
    assert_eq!(new.head(), golden().0.head());
    assert_eq!(new.witnesses()[0].timestamp, Some(1_767_000_000));
    let proof = hashes64(&vector["consistency"]).unwrap();
    assert_eq!(
        verify_consistency(&old.head(), &new.head(), &proof),
        Ok(Growth::Extends { first: 1_000, second: 70_000 })
    );
    for (name, witness) in [("tlog_proof_42123", w1), ("pq_tlog_proof", pq)] {
        let policy = Policy::new(ORIGIN, vec![log.clone()], vec![witness.clone()], 1).unwrap();
        let bundle = Bundle::parse(text(vector, name).as_bytes()).unwrap();
        assert_eq!(bundle.to_string(), text(vector, name));
        let verified = bundle.verify(&policy, b"event-42123").unwrap();
        assert_eq!((verified.included.index, verified.included.head.size), (42_123, 70_000));
        assert_eq!(verified.checkpoint.witnesses()[0].name, witness.name());
        assert_eq!(Some(verified.included.leaf), hash64(&vector["leaf_hash"]));
        bundle.verify(&policy, b"event-42124").unwrap_err();
    }
}

/// One bit of the ML-DSA-44 line is changed in turn: id aside, each must sink the whole note.
#[test]
fn a_changed_ml_dsa_44_cosignature_is_refused() {
    let vectors = json("tlog-vectors.json");
    let vector = &vectors["golden_log"];
    let bundle = Bundle::parse(text(vector, "pq_tlog_proof").as_bytes()).unwrap();
    let pq: VerifierKey = text(vector, "pq_witness_vkey").parse().unwrap();
    assert_eq!(pq.kind(), KeyType::MlDsa44);
    let ring = Keyring::new(vec![pq.clone()]).unwrap();
    let note = bundle.note().to_string();
    let line = bundle.note().signatures().iter().find(|line| line.id() == pq.id()).unwrap();
    assert_eq!(line.signature().len(), 8 + 2_420);
    assert_eq!(Note::parse(note.as_bytes()).unwrap().verify(&ring).unwrap().len(), 1);
    for at in [0, 7, 8, 40, 1_000, 2_400, 2_427] {
        let mut blob = [&line.id()[..], line.signature()].concat();
        blob[4 + at] ^= 1;
        let changed = note.replace(
            &line.to_string(),
            &format!("\u{2014} {} {}", line.name(), Base64::encode_string(&blob)),
        );
        assert_ne!(changed, note);
        let error = Note::parse(changed.as_bytes()).unwrap().verify(&ring).unwrap_err();
        assert!(error.to_string().contains(pq.name()), "byte {at}: {error}");
    }
}

#[test]
fn maps_of_the_second_implementation() {
    let lines = std::fs::read_to_string(fixtures().join("made/maps.jsonl")).unwrap();
    let (mut present, mut absent) = (0, 0);
    for line in lines.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let hash = |value: &Value| unhex32(value.as_str().unwrap());
        let mut map = Map::new();
        for pair in vector["pairs"].as_array().unwrap() {
            assert_eq!(map.insert(hash(&pair[0]), hash(&pair[1])), None);
        }
        let root = hash(&vector["root"]);
        assert_eq!(map.root(), root, "{}", vector["name"]);
        for proof in vector["proofs"].as_array().unwrap() {
            let key = hash(&proof["key"]);
            let expected = MapProof {
                siblings: proof["siblings"].as_array().unwrap().iter().map(hash).collect(),
                terminal: match proof["terminal"].as_array() {
                    None => Terminal::Empty,
                    Some(pair) => Terminal::Leaf { key: hash(&pair[0]), value: hash(&pair[1]) },
                },
            };
            assert_eq!(map.prove(&key), expected, "{}", vector["name"]);
            let membership = if proof["value"].is_null() {
                absent += 1;
                Membership::Absence
            } else {
                present += 1;
                Membership::Presence { value: hash(&proof["value"]) }
            };
            assert_eq!(verify_map(&root, &key, &expected), Ok(membership));
        }
    }
    assert!(present > 20 && absent > 40, "{present} present, {absent} absent");
}

#[test]
fn tiles_are_named_for_every_size() {
    for size in [0, 1, 255, 256, 257, 65_535, 65_536, 65_537, 70_000] {
        let hashes: u64 = tiles(size).map(|id| u64::from(id.width())).sum();
        assert_eq!(hashes, size + (size >> 8) + (size >> 16), "size {size}");
        assert!(tiles(size).all(|id: TileId| id.to_string().parse().is_ok_and(
            |path| matches!(path, worldlog::merkle::tile::TilePath::Hashes(same) if same == id)
        )));
    }
}
