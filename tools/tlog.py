"""The formats of spec/log.md in standard-library Python: an implementation that shares nothing with src/.

Written from the specification, for vectors and for verifiers. Everything is strict: what the specification calls
refused raises Refused. ML-DSA-44 lines are carried and never verified here; a key of type 0x06 raises Unsupported.
"""

import base64
import hashlib

import ed25519

SIZE_MAX = 2**62
NOTE_BYTES_MAX = 524288
EMPTY_ROOT = hashlib.sha256(b"").digest()
EMPTY_MAP_ROOT = bytes(32)
DASH = "\u2014 "


class Refused(Exception):
    """Input that a verifier must not take."""


class Unsupported(Exception):
    """An algorithm that this file does not have."""


def require(condition, why):
    if not condition:
        raise Refused(why)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def leaf_hash(leaf):
    return sha256(b"\0", leaf)


def node_hash(left, right):
    return sha256(b"\1", left, right)


# ---------------------------------------------------------------------------------------------- section 1: tree


class Tree:
    """Roots of ranges of a list of leaf hashes, remembered."""

    def __init__(self, leaves):
        self.leaves = leaves
        self.memory = {}

    def root(self, start, end):
        if start == end:
            return EMPTY_ROOT
        if end - start == 1:
            return self.leaves[start]
        if (start, end) not in self.memory:
            middle = start + split(end - start)
            self.memory[start, end] = node_hash(self.root(start, middle), self.root(middle, end))
        return self.memory[start, end]

    def inclusion(self, leaf, start, end):
        if end - start == 1:
            return []
        middle = start + split(end - start)
        if leaf < middle:
            return self.inclusion(leaf, start, middle) + [self.root(middle, end)]
        return self.inclusion(leaf, middle, end) + [self.root(start, middle)]

    def consistency(self, first, start, end, whole=True):
        if first == end:
            return [] if whole else [self.root(start, end)]
        middle = start + split(end - start)
        if first <= middle:
            return self.consistency(first, start, middle, whole) + [self.root(middle, end)]
        return self.consistency(first, middle, end, False) + [self.root(start, middle)]


def split(count):
    """The largest power of two strictly below count."""
    return 1 << ((count - 1).bit_length() - 1)


def ones(number):
    return bin(number).count("1")


def inclusion_length(index, size):
    inner = (index ^ (size - 1)).bit_length()
    return inner + ones(index >> inner)


def consistency_length(first, second):
    if first in (0, second):
        return 0
    inner = ((first - 1) ^ (second - 1)).bit_length()
    trailing = (first & -first).bit_length() - 1
    return (0 if ones(first) == 1 else 1) + inner - trailing + ones((first - 1) >> inner)


def verify_inclusion(leaf, index, size, root, proof):
    require(0 <= index < size <= SIZE_MAX, "index outside the tree")
    require(len(proof) == inclusion_length(index, size), "length of the proof")
    fn, sn, r = index, size - 1, leaf
    for p in proof:
        if fn & 1 or fn == sn:
            r = node_hash(p, r)
            while fn & 1 == 0 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hash(r, p)
        fn, sn = fn >> 1, sn >> 1
    require(sn == 0 and r == root, "root of the proof")


def verify_consistency(first, second, first_root, second_root, proof):
    """'nothing proven', 'same' or 'extends'."""
    require(0 <= first <= second <= SIZE_MAX, "sizes")
    require(len(proof) == consistency_length(first, second), "length of the proof")
    for size, root in ((first, first_root), (second, second_root)):
        require(size or root == EMPTY_ROOT, "root of the empty tree")
    if first == 0:
        return "nothing proven"
    if first == second:
        require(first_root == second_root, "two roots for one size")
        return "same"
    path = ([first_root] if ones(first) == 1 else []) + proof
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for c in path[1:]:
        if fn & 1 or fn == sn:
            fr, sr = node_hash(c, fr), node_hash(c, sr)
            while fn & 1 == 0 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node_hash(sr, c)
        fn, sn = fn >> 1, sn >> 1
    require(fr == first_root, "first root of the proof")
    require(sn == 0 and sr == second_root, "second root of the proof")
    return "extends"


# --------------------------------------------------------------------------------------------- section 2: tiles


def tile_path(level, index, width):
    groups = ["%03d" % (index % 1000)]
    while index >= 1000:
        index //= 1000
        groups.insert(0, "x%03d" % (index % 1000))
    return "tile/%s/%s%s" % (level, "/".join(groups), "" if width == 256 else ".p/%d" % width)


def parse_tile_path(path):
    """(level or 'entries', index, width)."""
    parts = path.split("/", 2)
    require(len(parts) == 3 and parts[0] == "tile", "prefix")
    index, dot, width = parts[2].partition(".p/")
    width = decimal(width) if dot else 256
    require(1 <= width <= (255 if dot else 256), "width")
    groups = index.split("/")
    require(all(len(g) == 4 and g[0] == "x" for g in groups[:-1]), "groups")
    digits = [g[1:] for g in groups[:-1]] + groups[-1:]
    require(all(len(d) == 3 and d.isascii() and d.isdigit() for d in digits), "groups")
    index = int("".join(digits))
    level = parts[1] if parts[1] == "entries" else decimal(parts[1])
    depth = 0 if level == "entries" else level
    require(depth <= 63 and (index * 256 + width) << (8 * depth) <= SIZE_MAX, "beyond the largest tree")
    require(tile_path(level, index, width) == path, "spelling")
    return level, index, width


def tiles(leaves):
    """{(level, index, width): bytes} of every tile of a tree."""
    found, level, hashes = {}, 0, leaves
    while hashes:
        for start in range(0, len(hashes), 256):
            tile = hashes[start : start + 256]
            found[level, start // 256, len(tile)] = b"".join(tile)
        full = range(0, len(hashes) - 255, 256)
        hashes = [Tree(hashes[start : start + 256]).root(0, 256) for start in full]
        level += 1
    return found


def encode_bundle(entries):
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def decode_bundle(width, data):
    entries, at = [], 0
    for _ in range(width):
        require(at + 2 <= len(data), "bundle cut")
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        require(end <= len(data), "bundle cut")
        entries.append(data[at + 2 : end])
        at = end
    require(at == len(data), "bytes after the bundle")
    return entries


# --------------------------------------------------------------------------------------------- section 3: notes


def decimal(text):
    require(text.isascii() and text.isdigit() and (text == "0" or text[0] != "0"), "decimal")
    return int(text)


def b64(data):
    return base64.b64encode(data).decode()


def unb64(text):
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Refused("base64") from error
    require(b64(data) == text, "base64 is not canonical")
    return data


def check_name(name):
    require(1 <= len(name.encode()) <= 255, "length of the name")
    # str.isspace also takes U+001C to U+001F, which are refused anyway as bytes below 0x20.
    require(not any(c.isspace() or c == "+" or c < " " for c in name), "character in the name")


def key_id(name, kind, public):
    return sha256(name.encode(), b"\n", bytes([kind]), public)[:4]


def vkey(name, kind, public):
    return "%s+%s+%s" % (name, key_id(name, kind, public).hex(), b64(bytes([kind]) + public))


def parse_vkey(text):
    """(name, id, type, public key)."""
    parts = text.split("+", 2)
    require(len(parts) == 3, "parts")
    name, identity, key = parts
    check_name(name)
    require(len(identity) == 8 and all(c in "0123456789abcdef" for c in identity), "id")
    typed = unb64(key)
    require(typed and typed[0] in (1, 4, 6), "type")
    kind, public = typed[0], typed[1:]
    require(len(public) == (1312 if kind == 6 else 32), "length of the key")
    if kind != 6:
        point = ed25519.decode(public)
        require(point is not None and not ed25519.small_order(point), "point")
    require(key_id(name, kind, public).hex() == identity, "id")
    return name, key_id(name, kind, public), kind, public


def signature_line(name, identity, blob):
    return "%s%s %s\n" % (DASH, name, b64(identity + blob))


def parse_note(data):
    """(text, [(name, id, blob)])."""
    require(len(data) <= NOTE_BYTES_MAX, "length of the note")
    try:
        note = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("UTF-8") from error
    require(all(c >= " " or c == "\n" for c in note), "control character")
    require(note.endswith("\n"), "end of the note")
    text, empty, lines = note.rpartition("\n\n")
    require(empty and text and lines, "unsigned or without text")
    signatures = []
    for line in lines[:-1].split("\n"):
        require(line.startswith(DASH), "signature line")
        name, space, blob = line[len(DASH) :].partition(" ")
        require(space, "signature line")
        check_name(name)
        blob = unb64(blob)
        require(len(blob) > 4, "signature")
        signatures.append((name, blob[:4], blob[4:]))
    require(len(signatures) <= 100, "number of signatures")
    return text + "\n", signatures


def verify_note(text, signatures, keys):
    """[(name, id, type, seconds or None)] of the lines of keys, a list of vkey texts."""
    trusted = {}
    for key in map(parse_vkey, keys):
        require(all(key[3] != other[3] for other in trusted.values()), "one key twice")
        trusted[key[0], key[1]] = key
    verified = {}
    for name, identity, blob in signatures:
        if (name, identity) not in trusted:
            continue
        require((name, identity) not in verified, "two lines of one key")
        kind, public = trusted[name, identity][2:]
        if kind == 6:
            raise Unsupported("ML-DSA-44")
        seconds, message = None, text.encode()
        if kind == 4:
            parse_checkpoint(text)
            require(len(blob) >= 8, "timestamp")
            seconds, blob = int.from_bytes(blob[:8], "big"), blob[8:]
            require(seconds < 2**63, "timestamp")
            message = cosignature_message(seconds, text)
        require(ed25519.verify(public, message, blob), "signature of a trusted key")
        verified[name, identity] = (name, identity, kind, seconds)
    require(verified, "no trusted signature")
    return list(verified.values())


# ---------------------------------------------------------------- sections 4 to 6: checkpoint, cosignature, proof


def checkpoint_text(origin, size, root):
    return "%s\n%d\n%s\n" % (origin, size, b64(root))


def parse_checkpoint(text):
    """(origin, size, root, extension lines)."""
    require(text.endswith("\n"), "end of the checkpoint")
    lines = text[:-1].split("\n")
    require(len(lines) >= 3, "three lines")
    origin, size, root = lines[:3]
    require(1 <= len(origin.encode()) <= 255, "origin")
    size, root = decimal(size), unb64(root)
    require(size <= SIZE_MAX and len(root) == 32, "size or root")
    require(size or root == EMPTY_ROOT, "root of the empty tree")
    require(all(lines[3:]), "empty extension line")
    return origin, size, root, lines[3:]


def cosignature_message(seconds, text):
    return ("cosignature/v1\ntime %d\n%s" % (seconds, text)).encode()


def open_checkpoint(data, origin, log_keys, witness_keys=(), quorum=0):
    """(size, root, signatures of the log, cosignatures of witnesses)."""
    text, signatures = parse_note(data)
    found, size, root, extensions = parse_checkpoint(text)
    require(found == origin and not extensions, "origin or extension lines")
    verified = verify_note(text, signatures, list(log_keys) + list(witness_keys))
    log = [signed for signed in verified if signed[0] == origin]
    witnesses = [signed for signed in verified if signed[0] != origin]
    require(log and len(witnesses) >= quorum, "not by the log, or a quorum is missing")
    return size, root, log, witnesses


def parse_proof_file(data):
    """(extra or None, index, proof, checkpoint note)."""
    require(len(data) <= NOTE_BYTES_MAX + 96 * 1024, "length of the file")
    head, empty, note = data.partition(b"\n\n")
    require(empty, "empty line")
    try:
        lines = head.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise Refused("UTF-8") from error
    require(lines.pop(0) == "c2sp.org/tlog-proof@v1", "first line")
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = unb64(lines.pop(0)[len("extra ") :])
        require(1 <= len(extra) <= 65535, "extra")
    require(lines and lines[0].startswith("index "), "index")
    index = decimal(lines.pop(0)[len("index ") :])
    require(index < 2**64 and len(lines) <= 63, "index or number of hashes")
    proof = [unb64(line) for line in lines]
    require(all(len(hash_) == 32 for hash_ in proof), "hash")
    parse_note(note)
    return extra, index, proof, note


def verify_proof_file(data, leaf, origin, log_keys, witness_keys=(), quorum=0):
    """(index, size, root)."""
    _, index, proof, note = parse_proof_file(data)
    size, root, _, _ = open_checkpoint(note, origin, log_keys, witness_keys, quorum)
    verify_inclusion(leaf_hash(leaf), index, size, root, proof)
    return index, size, root


# ---------------------------------------------------------------------------------------------- section 7: map


def bit(key, at):
    return key[at // 8] >> (7 - at % 8) & 1


def map_root(pairs, depth=0):
    """The root of a dictionary of pairs which agree in their first depth bits."""
    if not pairs:
        return EMPTY_MAP_ROOT
    if len(pairs) == 1:
        return sha256(b"\0", *next(iter(pairs.items())))
    return sha256(b"\1", *(map_root(side, depth + 1) for side in map_sides(pairs, depth)))


def map_sides(pairs, depth):
    return [{k: v for k, v in pairs.items() if bit(k, depth) == side} for side in (0, 1)]


def map_proof(pairs, key):
    """(siblings, None or (key, value))."""
    siblings = []
    while len(pairs) > 1:
        depth = len(siblings)
        sides = map_sides(pairs, depth)
        siblings.append(map_root(sides[1 - bit(key, depth)], depth + 1))
        pairs = sides[bit(key, depth)]
    return siblings, next(iter(pairs.items()), None)


def verify_map(root, key, siblings, terminal):
    """The value of the key, or None if the map does not have it."""
    require(len(siblings) <= 256, "number of siblings")
    require(not siblings or siblings[-1] != EMPTY_MAP_ROOT, "empty last sibling")
    r = EMPTY_MAP_ROOT
    if terminal is not None:
        require(all(bit(key, d) == bit(terminal[0], d) for d in range(len(siblings))), "path of the leaf")
        r = sha256(b"\0", *terminal)
    for depth in reversed(range(len(siblings))):
        pair = (siblings[depth], r) if bit(key, depth) else (r, siblings[depth])
        r = sha256(b"\1", *pair)
    require(r == root, "root of the proof")
    return terminal[1] if terminal is not None and terminal[0] == key else None
