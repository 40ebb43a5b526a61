"""The fixtures of spec/log.md, made by tlog.py and ed25519.py: see vectors.py.

Each case of the corpus has one fault. What must come out is written here and in log_notes.py by hand; that tlog.py
refuses the case too is checked on the way, so that no case is right by accident.
"""

import hashlib
import json

import ed25519
import log_notes
import tlog
from golden import (
    LOG_ID,
    LOG_PUBLIC,
    LOG_VKEY,
    ORIGIN,
    TREE,
    WITNESS,
    WITNESS_ID,
    WITNESS_VKEY,
    corpus,
    fold,
    root,
)
from tlog import sha256

ROOTS = ["log/checkpoint", "log/proof", "log/bundle", "log/tile", "log/vkey", "log/made"]


# ------------------------------------------------------------------------------------------------------- proofs


def inclusion_input(index, size, root_, leaf, proof):
    head = "inclusion %d %d %s %s" % (index, size, root_.hex(), leaf.hex())
    return "\n".join([head] + [p.hex() for p in proof] + [""]).encode()


def consistency_input(first, second, first_root, second_root, proof):
    head = "consistency %d %d %s %s" % (first, second, first_root.hex(), second_root.hex())
    return "\n".join([head] + [p.hex() for p in proof] + [""]).encode()


def check_proof(data, _):
    head, *proof = data.decode().splitlines()
    kind, a, b, c, d = head.split(" ")
    c, d, proof = bytes.fromhex(c), bytes.fromhex(d), [bytes.fromhex(p) for p in proof]
    if kind == "inclusion":
        tlog.verify_inclusion(d, int(a), int(b), c, proof)
    else:
        tlog.verify_consistency(int(a), int(b), c, d, proof)


def proof_cases():
    leaf = TREE.leaves[42]
    path = TREE.inclusion(42, 0, 300)
    growth = TREE.consistency(130, 0, 300)
    garbage = sha256(b"garbage")
    empty = tlog.EMPTY_ROOT
    not_root = "proof leads to the root %s, not %s"
    power = TREE.consistency(256, 0, 300)

    def lengths(actual, expected):
        return "proof has %d hashes instead of %d" % (actual, expected)

    def includes(index, size, root_=None, leaf_=leaf, proof=path):
        return inclusion_input(index, size, root_ or root(min(size, 300)), leaf_, proof)

    def grows(first, second, first_root, second_root, proof=growth):
        return consistency_input(first, second, first_root, second_root, proof)

    ok = {
        "inclusion-42-in-300": ("leaf 42 in 300", includes(42, 300)),
        "inclusion-of-the-only-leaf": ("leaf 0 in 1", inclusion_input(0, 1, root(1), TREE.leaves[0], [])),
        "inclusion-of-the-last-leaf": (
            "leaf 256 in 257",
            inclusion_input(256, 257, root(257), TREE.leaves[256], TREE.inclusion(256, 0, 257)),
        ),
        "consistency-130-to-300": ("extends 130 to 300", grows(130, 300, root(130), root(300))),
        "consistency-power-of-two": ("extends 256 to 300", grows(256, 300, root(256), root(300), power)),
        "consistency-same-size": ("same 300", grows(300, 300, root(300), root(300), [])),
        "consistency-size-zero-twice": ("nothing proven", grows(0, 0, empty, empty, [])),
        "consistency-size-zero-to-garbage": ("nothing proven", grows(0, 5, empty, garbage, [])),
    }
    err = {
        "inclusion-in-the-empty-tree": (
            "leaf 0 is outside a tree of 0 leaves",
            inclusion_input(0, 0, empty, leaf, []),
        ),
        "inclusion-index-is-the-size": ("leaf 300 is outside a tree of 300 leaves", includes(300, 300)),
        "inclusion-tree-too-large": (
            "a tree of %d leaves is larger than permitted" % (2**62 + 1),
            includes(42, 2**62 + 1),
        ),
        "inclusion-hash-missing": (lengths(len(path) - 1, len(path)), includes(42, 300, proof=path[:-1])),
        "inclusion-hash-extra": (lengths(len(path) + 1, len(path)), includes(42, 300, proof=path + [garbage])),
        "inclusion-64-hashes": (lengths(64, len(path)), includes(42, 300, proof=[garbage] * 64)),
        "inclusion-at-the-next-size": (
            not_root % (root(300).hex(), garbage.hex()),
            includes(42, 301, root_=garbage),
        ),
        "inclusion-at-twice-the-size": (
            lengths(len(path), tlog.inclusion_length(42, 600)),
            includes(42, 600, root_=root(300)),
        ),
        "inclusion-of-the-neighbour": (
            not_root % (fold(43, 300, leaf, path).hex(), root(300).hex()),
            includes(43, 300),
        ),
        "inclusion-of-another-leaf": (
            not_root % (fold(42, 300, garbage, path).hex(), root(300).hex()),
            includes(42, 300, leaf_=garbage),
        ),
        "inclusion-hashes-swapped": (
            not_root % (fold(42, 300, leaf, [path[1], path[0]] + path[2:]).hex(), root(300).hex()),
            includes(42, 300, proof=[path[1], path[0]] + path[2:]),
        ),
        "consistency-shrinks": (
            "the first size 300 is larger than the second 130",
            grows(300, 130, root(300), root(130)),
        ),
        "consistency-empty-proof": (lengths(0, len(growth)), grows(130, 300, root(130), root(300), [])),
        "consistency-hash-missing": (
            lengths(len(growth) - 1, len(growth)),
            grows(130, 300, root(130), root(300), growth[:-1]),
        ),
        "consistency-first-root-in-front": (
            lengths(len(power) + 1, len(power)),
            grows(256, 300, root(256), root(300), [root(256)] + power),
        ),
        "consistency-other-first-root": (
            "proof starts from the root %s, not %s" % (root(130).hex(), garbage.hex()),
            grows(130, 300, garbage, root(300)),
        ),
        "consistency-other-second-root": (
            not_root % (root(300).hex(), garbage.hex()),
            grows(130, 300, root(130), garbage),
        ),
        "consistency-two-roots-for-one-size": (
            "two roots for the size 300: %s and %s" % (root(300).hex(), garbage.hex()),
            grows(300, 300, root(300), garbage, []),
        ),
        "consistency-same-size-with-proof": (lengths(1, 0), grows(300, 300, root(300), root(300), [garbage])),
        "consistency-size-zero-with-proof": (lengths(1, 0), grows(0, 300, empty, root(300), [root(300)])),
        "consistency-size-zero-with-other-root": (
            "size 0 with the root %s, which is not that of the empty tree" % garbage.hex(),
            grows(0, 300, garbage, root(300), []),
        ),
        "consistency-size-zero-with-two-roots": (
            "size 0 with the root %s, which is not that of the empty tree" % garbage.hex(),
            grows(0, 0, empty, garbage, []),
        ),
    }
    return corpus("proof", ok, err, check_proof)


# -------------------------------------------------------------------------------------------------------- tiles


def tile_cases():
    entries = [b"", b"a", b"bc"]
    bundle = tlog.encode_bundle(entries)
    hashes = b"".join(TREE.leaves[:3])

    def with_bytes(path, data):
        return ("%s\n%s\n" % (path, data.hex())).encode()

    def path_fault(path, fault):
        return 'tile path "%s": %s' % (path, fault), path.encode()

    prefix = "does not begin with tile/<level>/ or tile/entries/"
    level = "level is not a decimal number from 0 to 63"
    index = "index is not in groups of three digits, all but the last with an x"
    width = "partial width is not a decimal number from 1 to 255"
    largest = tlog.tile_path(0, 2**54 - 1, 256)
    beyond = tlog.tile_path(0, 2**54, 1)
    ok = {
        "leaf-tile": ("tile 0/5/256", b"tile/0/005"),
        "groups": ("tile 0/1234067/256", b"tile/0/x001/x234/067"),
        "thousand": ("tile 0/1000/256", b"tile/0/x001/000"),
        "inner-zero-group": ("tile 0/1000000/256", b"tile/0/x001/x000/000"),
        "partial": ("tile 1/1/17", b"tile/1/001.p/17"),
        "partial-255": ("tile 2/0/255", b"tile/2/000.p/255"),
        "entries": ("entries 273/256", b"tile/entries/273"),
        "entries-partial": ("entries 273/112", b"tile/entries/273.p/112"),
        "largest": ("tile 0/%d/256" % (2**54 - 1), largest.encode()),
        "top-level": ("tile 7/0/64", b"tile/7/000.p/64"),
        "tile-bytes": ("tile 0/0/3 with 3 hashes", with_bytes("tile/0/000.p/3", hashes)),
        "bundle-bytes": ("entries 0/3 with 3 entries", with_bytes("tile/entries/000.p/3", bundle)),
    }
    err = {
        "prefix-missing": path_fault("0/005", prefix),
        "slash-in-front": path_fault("/tile/0/005", prefix),
        "level-missing": path_fault("tile/005", prefix),
        "level-64": path_fault("tile/64/000", level),
        "level-leading-zero": path_fault("tile/00/000", level),
        "level-signed": path_fault("tile/+0/000", level),
        "level-word": path_fault("tile/data/000", level),
        "level-8": ("tile 8/0 lies beyond the largest tree", b"tile/8/000"),
        "index-two-digits": path_fault("tile/0/05", index),
        "index-four-digits": path_fault("tile/0/0005", index),
        "index-empty": path_fault("tile/0/", index),
        "index-first-group-without-x": path_fault("tile/0/001/000", index),
        "index-last-group-with-x": path_fault("tile/0/x001/x000", index),
        "index-upper-x": path_fault("tile/0/X001/000", index),
        "index-dots": path_fault("tile/0/../000", index),
        "index-arabic-digits": path_fault("tile/0/\u0660\u0660\u0660", index),
        "index-trailing-slash": path_fault("tile/0/000/", index),
        "index-leading-zero-group": path_fault("tile/0/x000/001", "index begins with x000"),
        "index-above-64-bits": path_fault("tile/0/x999/x999/x999/x999/x999/x999/999", "index is too large"),
        "index-beyond": ("tile 0/%d lies beyond the largest tree" % 2**54, beyond.encode()),
        "top-level-too-wide": ("tile 7/0 lies beyond the largest tree", b"tile/7/000.p/65"),
        "width-zero": path_fault("tile/0/000.p/0", width),
        "width-256": path_fault("tile/0/000.p/256", width),
        "width-leading-zero": path_fault("tile/0/000.p/07", width),
        "width-empty": path_fault("tile/0/000.p/", width),
        "width-twice": path_fault("tile/0/000.p/7.p/7", width),
        "query": path_fault("tile/0/000?x", index),
        "tile-bytes-short": ("tile has 95 bytes instead of 96", with_bytes("tile/0/000.p/3", hashes[:-1])),
        "tile-bytes-hash-extra": ("tile has 128 bytes instead of 96", with_bytes("tile/0/000.p/3", hashes + bytes(32))),
        "bundle-entry-cut": ("entry bundle ends inside entry 2", with_bytes("tile/entries/000.p/3", bundle[:-1])),
        "bundle-length-cut": ("entry bundle ends inside entry 2", with_bytes("tile/entries/000.p/3", bundle[:-3])),
        "bundle-entry-missing": ("entry bundle ends inside entry 3", with_bytes("tile/entries/000.p/4", bundle)),
        "bundle-trailing-byte": ("entry bundle has 1 bytes after its last entry", with_bytes("tile/entries/000.p/3", bundle + b"\0")),
        "bundle-entry-extra": ("entry bundle has 2 bytes after its last entry", with_bytes("tile/entries/000.p/3", bundle + b"\0\0")),
    }

    def check(data, _):
        path, _, rest = data.decode().partition("\n")
        level_, _, width_ = tlog.parse_tile_path(path)
        if rest and level_ == "entries":
            tlog.decode_bundle(width_, bytes.fromhex(rest))
        elif rest:
            tlog.require(len(bytes.fromhex(rest)) == 32 * width_, "bytes of the tile")

    return corpus("tile", ok, err, check)


# ---------------------------------------------------------------------------------------------------- vkey texts


def vkey_cases():
    name, key_id, key = LOG_VKEY.split("+", 2)
    small = [(0).to_bytes(32, "little"), (1).to_bytes(32, "little"), (ed25519.FIELD - 1).to_bytes(32, "little")]
    # y = 3 is on the curve; written as 3 + p it is a second name for the same point.
    assert ed25519.decode((3).to_bytes(32, "little")) is not None
    again = (ed25519.FIELD + 3).to_bytes(32, "little")
    off_curve = next(y for y in range(2, 99) if ed25519.decode(y.to_bytes(32, "little")) is None)
    no_base64 = "key is not canonical base64"
    point = "public key is not the canonical form of a point"
    computed = LOG_ID.hex()
    long = "n" * 256
    ok = {
        "log": ("type 0x01 id %s name %s" % (computed, ORIGIN), LOG_VKEY.encode()),
        "witness": ("type 0x04 id %s name %s" % (WITNESS_ID.hex(), WITNESS), WITNESS_VKEY.encode()),
        "ml-dsa-44": (
            "type 0x06 id %s name pq.example" % tlog.key_id("pq.example", 6, bytes(1312)).hex(),
            tlog.vkey("pq.example", 6, bytes(1312)).encode(),
        ),
        "c2sp-example": (
            "type 0x01 id 530d903a name example.com/foo",
            b"example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        ),
        "go-example": (
            "type 0x01 id c74f20a3 name PeterNeumann",
            b"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        ),
        "go-checksum-database": (
            "type 0x01 id 033de0ae name sum.golang.org",
            b"sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8",
        ),
        "name-255-bytes": (
            "type 0x01 id %s name %s" % (tlog.key_id(long[1:], 1, LOG_PUBLIC).hex(), long[1:]),
            tlog.vkey(long[1:], 1, LOG_PUBLIC).encode(),
        ),
    }
    err = {
        "too-long": ("key text has 2020 bytes, more than 2017", (LOG_VKEY + "A" * (2020 - len(LOG_VKEY))).encode()),
        "empty": ("key text is not <name>+<id>+<key>", b""),
        "two-parts": ("key text is not <name>+<id>+<key>", ("%s+%s" % (name, key_id)).encode()),
        "name-empty": ("key name: is empty", LOG_VKEY[len(name) :].encode()),
        "name-with-space": ("key name: contains ' '", tlog.vkey("a b", 1, LOG_PUBLIC).encode()),
        "name-with-em-space": ("key name: contains '\\u{2003}'", tlog.vkey("a\u2003b", 1, LOG_PUBLIC).encode()),
        "name-with-control-character": ("key name: contains '\\0'", tlog.vkey("a\0b", 1, LOG_PUBLIC).encode()),
        "name-256-bytes": ("key name: has 256 bytes, more than 255", tlog.vkey(long, 1, LOG_PUBLIC).encode()),
        "id-upper-case": ("key id is not 8 lowercase hex digits", LOG_VKEY.replace(key_id, key_id.upper()).encode()),
        "id-seven-digits": ("key id is not 8 lowercase hex digits", LOG_VKEY.replace(key_id, key_id[1:]).encode()),
        "id-signed": ("key id is not 8 lowercase hex digits", LOG_VKEY.replace(key_id, "+" + key_id[1:]).encode()),
        "id-of-another-name": (
            "key id is %s, but name and key have the id %s" % (computed, tlog.key_id("other", 1, LOG_PUBLIC).hex()),
            ("other+%s+%s" % (key_id, key)).encode(),
        ),
        "line-feed-behind": (no_base64, LOG_VKEY.encode() + b"\n"),
        "base64-unpadded": (no_base64, tlog.vkey("p", 6, bytes(1312)).rstrip("=").encode()[:-1]),
        "base64-url-alphabet": (no_base64, ("%s+%s+%s" % (name, key_id, key.replace("+", "-").replace("/", "_") + "_")).encode()),
        "key-empty": ("key is empty", ("%s+%s+" % (name, key_id)).encode()),
        "type-ecdsa": ("key type 0x02 is not supported", tlog.vkey(name, 2, LOG_PUBLIC).encode()),
        "type-unknown": ("key type 0xff is not supported", tlog.vkey(name, 255, LOG_PUBLIC).encode()),
        "key-31-bytes": ("public key has 31 bytes instead of 32", tlog.vkey(name, 1, LOG_PUBLIC[:31]).encode()),
        "key-33-bytes": ("public key has 33 bytes instead of 32", tlog.vkey(name, 4, LOG_PUBLIC + b"\0").encode()),
        "ml-dsa-44-key-1311-bytes": (
            "public key has 1311 bytes instead of 1312",
            tlog.vkey(name, 6, bytes(1311)).encode(),
        ),
        "point-not-on-the-curve": (point, tlog.vkey(name, 1, off_curve.to_bytes(32, "little")).encode()),
        "point-not-reduced": (point, tlog.vkey(name, 1, again).encode()),
        "point-of-order-4": ("public key has small order", tlog.vkey(name, 1, small[0]).encode()),
        "point-of-order-1": ("public key has small order", tlog.vkey(name, 1, small[1]).encode()),
        "point-of-order-2": ("public key has small order", tlog.vkey(name, 4, small[2]).encode()),
        "cosigner-point-of-order-4": ("public key has small order", tlog.vkey(name, 4, small[0]).encode()),
    }
    return corpus("vkey", ok, err, lambda data, _: tlog.parse_vkey(data.decode()))


# ------------------------------------------------------------------------------------------- all pairs, and maps


def trees():
    """One line a size: size, root, and SHA-256 over all inclusion and over all consistency proofs to that size."""
    lines = ["# size, root, H(all inclusion proofs, index 0..size-1), H(all consistency proofs, first 0..size)"]
    for size in range(301):
        inclusion, consistency = hashlib.sha256(), hashlib.sha256()
        for index in range(size):
            proof = TREE.inclusion(index, 0, size)
            tlog.verify_inclusion(TREE.leaves[index], index, size, root(size), proof)
            inclusion.update(bytes([len(proof)]) + b"".join(proof))
        for first in range(size + 1):
            proof = TREE.consistency(first, 0, size) if first else []
            tlog.verify_consistency(first, size, root(first), root(size), proof)
            consistency.update(bytes([len(proof)]) + b"".join(proof))
        lines.append("%d %s %s %s" % (size, root(size).hex(), inclusion.hexdigest(), consistency.hexdigest()))
    return "\n".join(lines + [""]).encode()


def map_sets():
    """Sets of pairs: hashed keys as in use, and keys chosen to share long beginnings."""
    hashed = [(sha256(b"key-%d" % i), sha256(b"value-%d" % i)) for i in range(200)]
    for count in (0, 1, 2, 3, 4, 5, 8, 17, 64, 200):
        yield "hashed-%d" % count, dict(hashed[:count])
    value = sha256(b"value")
    last = bytes(31) + b"\1"
    yield "last-bit", {bytes(32): value, last: value}
    yield "last-bit-of-ones", {b"\xff" * 32: value, b"\xff" * 31 + b"\xfe": sha256(b"other")}
    yield "one-bit-each", {(1 << i).to_bytes(32, "big"): sha256(b"bit-%d" % i) for i in range(0, 256, 5)}
    yield "deep-and-shallow", {bytes(32): value, last: value, b"\x80" + bytes(31): value}


def maps():
    """JSON lines: a set, its root, and proofs for its own keys and for absent ones."""
    lines = []
    for name, pairs in map_sets():
        absent = [sha256(b"absent-%d" % i) for i in range(3)] + [bytes(32), b"\xff" * 32, bytes(31) + b"\2"]
        keys = sorted(pairs)[:: max(1, len(pairs) // 3)] + [key for key in absent if key not in pairs]
        top, proofs = tlog.map_root(pairs), []
        for key in keys:
            siblings, terminal = tlog.map_proof(pairs, key)
            assert tlog.verify_map(top, key, siblings, terminal) == pairs.get(key)
            proofs.append(
                {
                    "key": key.hex(),
                    "value": pairs[key].hex() if key in pairs else None,
                    "siblings": [sibling.hex() for sibling in siblings],
                    "terminal": [part.hex() for part in terminal] if terminal else None,
                }
            )
        listed = [[key.hex(), value.hex()] for key, value in sorted(pairs.items())]
        lines.append(json.dumps({"name": name, "pairs": listed, "root": top.hex(), "proofs": proofs}))
    return "\n".join(lines + [""]).encode()


def files():
    out = {"log/made/trees.txt": trees(), "log/made/maps.jsonl": maps()}
    for cases in (log_notes.checkpoint_cases, log_notes.bundle_cases, proof_cases, tile_cases, vkey_cases):
        out.update(cases())
    return out
