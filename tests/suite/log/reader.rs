//! The reader under sources that lie, and the tree restored from what was stored.

use std::collections::BTreeMap;

use worldlog::limits::{READER_TILES_MAX, TREE_LEAVES_MAX};
use worldlog::merkle::Head;
use worldlog::merkle::hash::{EMPTY_ROOT, Hash, leaf_hash};
use worldlog::merkle::proof::{Growth, Node, ProofError, verify_consistency, verify_inclusion};
use worldlog::merkle::reader::{ReadError, Reader, TileSource};
use worldlog::merkle::tile::{BundleId, TileId, encode_entry};
use worldlog::merkle::tree::{Tree, TreeError};

use super::{golden, golden_leaf, golden_tree};

/// Tiles in memory, by name; remembers what was read and what it was told to keep.
#[derive(Clone, Default)]
struct Tiles {
    bytes: BTreeMap<TileId, Vec<u8>>,
    read: Vec<TileId>,
    kept: Vec<(TileId, Vec<Hash>)>,
}

impl TileSource for Tiles {
    type Error = &'static str;

    fn read(&mut self, id: TileId) -> Result<Vec<u8>, Self::Error> {
        self.read.push(id);
        let full = TileId::new(id.level(), id.index(), 256).unwrap();
        self.bytes.get(&id).or_else(|| self.bytes.get(&full)).cloned().ok_or("gone")
    }

    fn keep(&mut self, id: TileId, hashes: &[Hash]) {
        self.kept.push((id, hashes.to_vec()));
    }
}

fn tile(level: u8, index: u64, width: u16) -> TileId {
    TileId::new(level, index, width).unwrap()
}

fn source(tree: &Tree, full: &[worldlog::merkle::tree::FullTile]) -> Tiles {
    let mut bytes: BTreeMap<_, _> = full.iter().map(|tile| (tile.id, tile.to_bytes())).collect();
    bytes.extend(tree.partials().map(|(id, hashes)| (id, hashes.concat())));
    Tiles { bytes, ..Tiles::default() }
}

fn golden_source() -> (Head, Tiles) {
    let (tree, full) = golden();
    (tree.head(), source(tree, full))
}

/// The forgery of golang/go#80744: leaf 42123 in tile/0/164 has another hash, everything else is right.
fn forged_source() -> (Head, Tiles, Hash) {
    let (head, mut tiles) = golden_source();
    let evil = leaf_hash(b"evil");
    let bytes = tiles.bytes.get_mut(&tile(0, 164, 256)).unwrap();
    bytes[139 * 32..140 * 32].copy_from_slice(&evil);
    (head, tiles, evil)
}

#[test]
fn cve_2026_56865_forged_leaf_is_refused_before_anything_is_cached() {
    let (head, tiles, evil) = forged_source();
    let mut reader = Reader::open(head, tiles).unwrap();
    match reader.leaf_hash(42_123) {
        Err(ReadError::Forged { id, .. }) => assert_eq!(id, tile(0, 164, 256)),
        other => panic!("{other:?}"),
    }
    // Asking again, for a neighbour or for a proof does not help either.
    reader.leaf_hash(42_123).unwrap_err();
    reader.leaf_hash(42_122).unwrap_err();
    reader.inclusion_proof(42_122, 70_000).unwrap_err();
    reader.tile(tile(0, 164, 256)).unwrap_err();
    // Other leaves are read as ever.
    assert_eq!(reader.leaf_hash(41_983).unwrap(), golden_leaf(41_983));
    let source = reader.into_source();
    assert!(source.read.contains(&tile(0, 164, 256)));
    assert!(
        source
            .kept
            .iter()
            .all(|(id, hashes)| { *id != tile(0, 164, 256) && !hashes.contains(&evil) })
    );
}

/// No tile of the log can be changed in any of its hashes without being refused, and nothing false is kept.
#[test]
fn every_forged_tile_is_refused() {
    let (tree, full) = golden_tree(1_100);
    let honest = source(&tree, &full);
    let ids: Vec<_> = honest.bytes.keys().copied().collect();
    assert_eq!(ids.len(), 6);
    for id in ids {
        for offset in [0, usize::from(id.width()) / 2, usize::from(id.width()) - 1] {
            let mut tiles = honest.clone();
            tiles.bytes.get_mut(&id).unwrap()[offset * 32 + 31] ^= 1;
            let lie = tiles.bytes[&id].clone();
            let kept = match Reader::open(tree.head(), tiles) {
                Err(ReadError::Edge { .. }) => {
                    assert!(id.width() < 256, "{id} is not of the edge");
                    continue;
                }
                Ok(mut reader) => {
                    let index = (id.index() << 8) + offset as u64;
                    match reader.leaf_hash(index) {
                        Err(ReadError::Forged { id: refused, .. }) => assert_eq!(refused, id),
                        other => panic!("{id}: {other:?}"),
                    }
                    reader.into_source().kept
                }
                Err(other) => panic!("{id}: {other:?}"),
            };
            assert!(kept.iter().all(|(_, hashes)| hashes.concat() != lie), "{id} was kept");
        }
    }
}

#[test]
fn every_leaf_is_read_and_every_tile_fetched_once() {
    let (tree, full) = golden_tree(1_100);
    let mut reader = Reader::open(tree.head(), source(&tree, &full)).unwrap();
    for index in 0..1_100 {
        assert_eq!(reader.leaf_hash(index).unwrap(), golden_leaf(index));
    }
    match reader.leaf_hash(1_100) {
        Err(ReadError::Proof(ProofError::IndexOutside { index: 1_100, size: 1_100 })) => {}
        other => panic!("{other:?}"),
    }
    let source = reader.into_source();
    assert_eq!(source.read.len(), 6);
    let kept: BTreeMap<_, _> = source.kept.iter().map(|(id, h)| (*id, h.concat())).collect();
    assert_eq!(kept, source.bytes);
}

/// Proofs are made for the checkpoint that the reader holds, and for any earlier one.
#[test]
fn proofs_from_tiles_verify_at_every_size() {
    let (head, tiles) = golden_source();
    let mut reader = Reader::open(head, tiles).unwrap();
    let sizes = [1, 2, 255, 256, 257, 1_000, 42_124, 65_535, 65_536, 65_537, 69_999, 70_000];
    for second in sizes {
        let newer = Head { size: second, root: reader.root_at(second).unwrap() };
        for index in [0, 1, 255, 256, 42_123, 65_536, second - 1] {
            if index >= second {
                continue;
            }
            let proof = reader.inclusion_proof(index, second).unwrap();
            verify_inclusion(&golden_leaf(index), index, &newer, &proof).unwrap();
            // certificate-transparency-rfcs#100: it is no proof for the head of another size.
            for size in [second + 1, second * 2].into_iter().filter(|size| *size <= 70_000) {
                let other = Head { size, root: reader.root_at(size).unwrap() };
                verify_inclusion(&golden_leaf(index), index, &other, &proof).unwrap_err();
                let mixed = Head { size: second * 2, root: newer.root };
                verify_inclusion(&golden_leaf(index), index, &mixed, &proof).unwrap_err();
            }
        }
        for first in sizes.into_iter().filter(|first| *first < second) {
            let older = Head { size: first, root: reader.root_at(first).unwrap() };
            let proof = reader.consistency_proof(first, second).unwrap();
            let growth = verify_consistency(&older, &newer, &proof);
            assert_eq!(growth, Ok(Growth::Extends { first, second }));
        }
    }
    assert_eq!(reader.root_at(0).unwrap(), EMPTY_ROOT);
    assert_eq!(reader.root_at(70_000).unwrap(), head.root);
    let beyond = ReadError::SizeBeyond { size: 70_001, head: 70_000 };
    assert_eq!(reader.root_at(70_001), Err(beyond.clone()));
    assert_eq!(reader.inclusion_proof(0, 70_001), Err(beyond.clone()));
    assert_eq!(reader.consistency_proof(1, 70_001), Err(beyond));
}

/// C2SP#145: the partial tile is gone, the full one stands in, and only its beginning counts.
#[test]
fn a_full_tile_stands_in_for_a_partial_one() {
    let (old, old_full) = golden_tree(300);
    let (new, new_full) = golden_tree(600);
    let mut tiles = source(&new, &new_full);
    tiles.bytes.insert(tile(1, 0, 1), old.partials().last().unwrap().1.concat());
    assert!(old_full.len() == 1 && !tiles.bytes.contains_key(&tile(0, 1, 44)));
    let mut reader = Reader::open(old.head(), tiles).unwrap();
    assert_eq!(reader.leaf_hash(299).unwrap(), golden_leaf(299));
    reader.leaf_hash(300).unwrap_err();
    let kept = reader.into_source().kept;
    assert!(kept.iter().any(|(id, hashes)| *id == tile(0, 1, 44) && hashes.len() == 44));
}

#[test]
fn a_head_of_another_tree_is_refused_at_once() {
    let (head, tiles) = golden_source();
    let other = Head { size: head.size, root: golden_leaf(0) };
    let Err(error) = Reader::open(other, tiles.clone()) else { panic!("opened") };
    assert_eq!(error, ReadError::Edge { computed: head.root, expected: other.root });
    let empty = Head { size: 0, root: golden_leaf(0) };
    assert!(matches!(Reader::open(empty, tiles.clone()), Err(ReadError::Edge { .. })));
    let large = Head { size: TREE_LEAVES_MAX + 1, root: head.root };
    assert!(matches!(Reader::open(large, tiles.clone()), Err(ReadError::Proof(_))));
    let missing = Head { size: 70_300, root: head.root };
    assert!(matches!(Reader::open(missing, tiles), Err(ReadError::Source { cause: "gone", .. })));
    let mut reader = Reader::open(Tree::new().head(), Tiles::default()).unwrap();
    reader.leaf_hash(0).unwrap_err();
    assert_eq!(reader.root_at(0).unwrap(), EMPTY_ROOT);
}

/// Whoever asks for what no tree has gets an error, whatever the numbers.
#[test]
fn nodes_outside_the_tree_are_refused() {
    let (head, tiles) = golden_source();
    let mut reader = Reader::open(head, tiles).unwrap();
    for height in [0, 7, 8, 16, 17, 31, 62, 63, 64, 255, 2_047, 2_048, u32::MAX] {
        for index in [(70_000 >> height.min(63)) + 1, u64::MAX >> 1, u64::MAX] {
            reader.node(Node { height, index }).unwrap_err();
        }
    }
    // Height 16 has one complete node, and so has each height below it at the edge; beside them there is nothing.
    assert!(reader.node(Node { height: 16, index: 0 }).is_ok());
    assert!(reader.node(Node { height: 16, index: 1 }).is_err());
    let edge = Node { height: 4, index: 70_000 / 16 - 1 };
    assert!(reader.node(edge).is_ok());
    assert!(reader.node(Node { height: 5, index: 70_000 / 32 }).is_err());
    // A tile has the one width that this tree gives it.
    for (level, index, width) in [(0, 0, 255), (0, 273, 111), (0, 273, 256), (0, 274, 1), (2, 0, 2)]
    {
        assert!(reader.tile(tile(level, index, width)).is_err(), "{level}/{index}/{width}");
    }
    assert_eq!(reader.tile(tile(0, 273, 112)).unwrap().len(), 112);
    assert_eq!(reader.tile(tile(1, 0, 256)).unwrap().len(), 256);
}

#[test]
fn bytes_that_are_no_tile_are_refused() {
    let (head, mut tiles) = golden_source();
    tiles.bytes.get_mut(&tile(0, 5, 256)).unwrap().pop();
    let mut reader = Reader::open(head, tiles).unwrap();
    assert!(matches!(reader.leaf_hash(1_280), Err(ReadError::Shape { .. })));
    let (head, mut tiles) = golden_source();
    tiles.bytes.get_mut(&tile(0, 273, 112)).unwrap().extend([0; 32]);
    assert!(matches!(Reader::open(head, tiles), Err(ReadError::Shape { .. })));
}

/// golang/go#80745: an answer with a record that is not the one proven, or with something after it.
#[test]
fn entries_are_compared_with_the_tree() {
    let (head, tiles) = golden_source();
    let mut reader = Reader::open(head, tiles).unwrap();
    let id = BundleId::new(273, 112).unwrap();
    let make = |changed: Option<u64>| {
        let mut bytes = Vec::new();
        for index in 273 * 256..70_000 {
            let index = if changed == Some(index) { index - 1 } else { index };
            encode_entry(format!("event-{index}").as_bytes(), &mut bytes).unwrap();
        }
        bytes
    };
    let bytes = make(None);
    let entries = reader.entries(id, &bytes).unwrap();
    assert_eq!((entries.len(), entries[111]), (112, b"event-69999".as_slice()));
    assert_eq!(reader.entries(id, &make(Some(69_950))), Err(ReadError::Entry { index: 69_950 }));
    let trailing = [&bytes[..], &[0, 0]].concat();
    assert!(matches!(reader.entries(id, &trailing), Err(ReadError::Bundle { .. })));
    let narrow = BundleId::new(273, 111).unwrap();
    assert!(reader.entries(narrow, &bytes).is_err());
}

#[test]
fn the_reader_keeps_a_bounded_number_of_tiles() {
    let (head, tiles) = golden_source();
    let mut reader = Reader::open(head, tiles).unwrap();
    for round in 0..2 {
        for index in (0..70_000).step_by(256) {
            assert_eq!(reader.leaf_hash(index).unwrap(), golden_leaf(index), "round {round}");
        }
    }
    let read = reader.into_source().read;
    let leaves = read.iter().filter(|id| id.level() == 0 && id.width() == 256).count();
    // All of them would fit if nothing bounded the reader: then each is read once.
    assert!(leaves >= 2 * 273 - READER_TILES_MAX, "{leaves} reads");
}

#[test]
fn a_tree_is_restored_from_stored_bytes() {
    for size in [0, 1, 255, 256, 257, 511, 512, 1_100, 65_535, 65_536, 65_793, 70_000] {
        let (tree, full) = golden_tree(size);
        let stored: BTreeMap<_, _> =
            full.iter().map(|tile| (tile.id, tile.hashes.clone())).collect();
        let leaves: Vec<_> = (size & !0xff..size).map(golden_leaf).collect();
        let read = |id: TileId| stored.get(&id).cloned().ok_or("gone");
        let mut restored = Tree::restore(size, &leaves, read).unwrap();
        assert_eq!(restored, tree, "size {size}");
        // It goes on as the original would.
        let (mut grown, mut tiles) = (tree.clone(), (Vec::new(), Vec::new()));
        for index in size..size + 300 {
            restored.append(golden_leaf(index), &mut tiles.0).unwrap();
            grown.append(golden_leaf(index), &mut tiles.1).unwrap();
        }
        assert_eq!((restored, tiles.0), (grown, tiles.1));
    }
}

#[test]
fn a_changed_or_missing_tile_shows_when_a_tree_is_restored() {
    let (tree, full) = golden_tree(1_100);
    let leaves: Vec<_> = (1_024..1_100).map(golden_leaf).collect();
    let stored: BTreeMap<_, _> = full.iter().map(|tile| (tile.id, tile.hashes.clone())).collect();
    let restored = Tree::restore(1_100, &leaves, |id| {
        let mut hashes = stored[&id].clone();
        hashes[7][0] ^= u8::from(id.index() == 2);
        Ok::<_, ()>(hashes)
    });
    assert_ne!(restored.unwrap().root(), tree.root());
    let id = tile(0, 0, 256);
    let gone = Tree::restore(1_100, &leaves, |_| Err::<Vec<Hash>, _>("gone"));
    assert_eq!(gone, Err(TreeError::Read { id, cause: "gone" }));
    let short = Tree::restore(1_100, &leaves, |_| Ok::<_, ()>(vec![EMPTY_ROOT; 128]));
    assert_eq!(short, Err(TreeError::TileWidth { id, actual: 128 }));
    let few = Tree::restore(1_100, &leaves[1..], |id| Ok::<_, ()>(stored[&id].clone()));
    assert_eq!(few, Err(TreeError::Leaves { expected: 76, actual: 75 }));
    let large = Tree::restore(TREE_LEAVES_MAX + 1, &[], |_| Err::<Vec<Hash>, _>(()));
    assert_eq!(large, Err(TreeError::Full { size: TREE_LEAVES_MAX + 1 }));
}

/// A group commit that fails is undone by dropping the clone.
#[test]
fn a_dropped_clone_leaves_the_tree_as_it_was() {
    let (tree, _) = golden_tree(65_535);
    let before = tree.head();
    let mut full = Vec::new();
    let mut attempt = tree.clone();
    attempt.append(golden_leaf(65_535), &mut full).unwrap();
    let filled: Vec<_> = full.iter().map(|tile| tile.id).collect();
    assert_eq!(filled, [tile(0, 255, 256), tile(1, 0, 256)]);
    assert_ne!(attempt.head(), before);
    assert_eq!(tree.head(), before);
}

/// At least 2 M leaves a second in a release build; here a tenth of it, so that a busy machine does not fail.
#[test]
fn appending_is_not_quadratic() {
    let (mut tree, mut full) = (Tree::new(), Vec::new());
    for _ in 0..200_000 {
        tree.append(EMPTY_ROOT, &mut full).unwrap();
    }
    assert_eq!(full.len(), 200_000 / 256 + 3);
}
