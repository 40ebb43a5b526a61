#!/usr/bin/env python3
"""Verifies an exported log, written from spec/ alone. Standard library and tools/ed25519.py only.

    verify.py EXPORT_DIR [--vkey KEY|FILE] [--seen HEAD_FILE] [--json]

The exit code is the verdict: 0 verified, 3 rewritten, 4 truncated, 5 damaged, 6 unverifiable; 1 bad usage or unreadable.
Findings have the codes of spec/state.md. ML-DSA-44 (lines, proofs of possession) is not verified here, and that is said.
"""

import argparse
import base64
import hashlib
import heapq
import hmac
import json
import os
import re
import sys
from collections import Counter, namedtuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ed25519  # noqa: E402

ZERO = bytes(32)
VERDICTS = {0: "verified", 3: "rewritten", 4: "truncated", 5: "damaged", 6: "unverifiable"}
EXIT = {"head-shorter": 4}  # by code; 3 where nothing else is said
EXIT.update(dict.fromkeys("checkpoint-malformed entries-missing bundle-malformed leaf-changed tile-changed "
                          "opening-malformed object-changed".split(), 5))
EXIT.update(dict.fromkeys("signature-missing key-not-given kind-unknown fold-unknown".split(), 6))


SHOWN = 5  # findings of one code


class Refused(Exception):
    """Input that the specification does not admit: a code and what or where."""


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def mac(key, *parts):
    return hmac.digest(key, b"".join(parts), "sha256")


# ---- Canonical CBOR (event.md section 2) ----

SIMPLE = {0xf4: False, 0xf5: True, 0xf6: None}
SHORTEST = {24: 24, 25: 1 << 8, 26: 1 << 16, 27: 1 << 32}


def item(data, at, depth):
    """The item at offset `at`, which lies inside `depth` others, and the offset behind it."""
    try:
        first = data[at]
    except IndexError:
        raise Refused("truncated", at)
    major, n, end = first >> 5, first & 31, at + 1
    if major == 7 or major == 1 or major == 6:
        if first in SIMPLE:
            return SIMPLE[first], end
        raise Refused("indefinite" if first == 0xff else "forbidden", at)
    if n > 23:
        if n > 27:
            raise Refused("indefinite" if n == 31 and major else "forbidden", at)
        least, end = SHORTEST[n], end + (1 << n - 24)
        if end > len(data):
            raise Refused("truncated", at)
        n = int.from_bytes(data[at + 1:end], "big")
        if n < least:
            raise Refused("not-shortest", at)
    if major == 0:
        if n >= 1 << 53:
            raise Refused("too-large", at)
        return n, end
    after = end + n
    if after > len(data):  # for arrays and maps a count: each item has a byte at least
        raise Refused("truncated", at)
    if major == 2:
        return data[end:after], after
    if major == 3:
        try:
            return data[end:after].decode(), after
        except UnicodeDecodeError:
            raise Refused("not-utf8", at)
    if depth >= 8:
        raise Refused("too-deep", at)
    if major == 4:
        values = []
        for _ in range(n):
            value, end = item(data, end, depth + 1)
            values.append(value)
        return values, end
    pairs, before = {}, b""
    for _ in range(n):
        key, after = item(data, end, depth + 1)
        if type(key) is not str:
            raise Refused("key-type", end)
        spelled = data[end:after]
        if spelled <= before:
            raise Refused("duplicate-key" if spelled == before else "key-order", end)
        pairs[key], end = item(data, after, depth + 1)
        before = spelled
    return pairs, end


def encode(value):
    """The canonical CBOR of a value; tuples are arrays. For rows of the state."""
    if value is None or value is True or value is False:
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return number_head(0, value)
    if isinstance(value, bytes):
        return number_head(0x40, len(value)) + value
    if isinstance(value, str):
        return number_head(0x60, len(value.encode())) + value.encode()
    if isinstance(value, dict):
        pairs = sorted((encode(key), encode(field)) for key, field in value.items())
        return number_head(0xa0, len(value)) + b"".join(key + field for key, field in pairs)
    return number_head(0x80, len(value)) + b"".join(map(encode, value))


def number_head(major, n):
    if n < 24:
        return bytes([major | n])
    info = 24 if n < 1 << 8 else 25 if n < 1 << 16 else 26 if n < 1 << 32 else 27
    return bytes([major | info]) + n.to_bytes(1 << info - 24, "big")


# ---- Bodies (event.cddl): a type is a function that says whether a value is of it ----

def uint(v): return type(v) is int
def boolean(v): return type(v) is bool
def size(n): return lambda v: type(v) is bytes and len(v) == n
def word(words): return lambda v: type(v) is str and v in words.split()
def maybe(t): return lambda v: v is None or t(v)
def array(*types): return lambda v: type(v) is list and len(v) == len(types) and all(t(x) for t, x in zip(types, v))
def listing(t, low=0, high=65535): return lambda v: type(v) is list and low <= len(v) <= high and all(map(t, v))


def text(pattern):
    match = re.compile(pattern).fullmatch
    return lambda v: type(v) is str and match(v) is not None


def fields(types, also=lambda v: True):
    """A map of exactly these fields; `also` relates one to another."""
    types = {name: t for names, t in types.items() for name in names.split()}
    return lambda v: type(v) is dict and v.keys() == types.keys() and all(t(v[k]) for k, t in types.items()) and also(v)


def key_of(use, reasons):
    signs = use == "cosign"
    return fields({"id": size(4), "alg": word("ml-dsa-44" if signs else "ed25519"), "use": word(use), "from": uint,
                   "pub": size(1312 if signs else 32), "until": maybe(uint), "reason": word(reasons),
                   "pop": size(2420 if signs else 64)}, lambda v: v["until"] is None or v["until"] >= v["from"])


B16, B32, NAME, ORIGIN = size(16), size(32), text("[!-~]{1,128}"), text("[!-*,-~]{1,255}")
EPISODE_NAME, EXTENSION = text("[a-z0-9][a-z0-9-]{0,63}"), text("x-[a-z0-9][a-z0-9-]{0,61}")
DEMAND = array(NAME, NAME, uint)
SUCCESSORS = [key_of(use, "rotation compromise") for use in ("head", "cosign", "cose")]
DENIALS = word(" ".join("denied:" + why for why in "effect-name scope expired budget token approval hook loop".split()))
CLOSURES = {("landed", "person", "operator"), ("not-happened", "person", "operator")} | {
    (verdict, evidence, by) for by in ("recovery", "deadline") for verdict, evidence in (
        ("landed", "after"), ("not-happened", "before"), ("not-happened", "harmless"), ("in-doubt", "run"),
        ("in-doubt", "other"), ("unrecorded", "record"))}
BODIES = {
    "genesis": fields({"format": word("worldlog/log/v1"), "origin": ORIGIN,
                       "keys": array(*(key_of(use, "genesis") for use in ("head", "cosign", "cose"))),
                       "predecessor": maybe(fields({"origin": ORIGIN, "size": uint, "root": B32}))}),
    "key": lambda v: any(successor(v) for successor in SUCCESSORS),
    "transition": fields({"tool engine": NAME, "source schema": B32, "access": DEMAND, "declared": listing(DEMAND),
                          "finish": boolean}),
    "episode": fields({"base_commit": maybe(B32)}),
    "session": fields({"id": B16, "cred": B32, "role": word("agent auditor approver"), "expires": uint,
                       "grants": listing(array(NAME, NAME, uint, uint, boolean)), "label": maybe(B32)}),
    "revocation": fields({"session": B16, "reason": word("operator compromise")}),
    "freeze": fields({"frozen": boolean}),
    "plan": fields({"front": word("mcp a2a surface admin"), "tool": NAME, "transition": maybe(uint),
                    "session": maybe(B16), "input plan": B32, "same": B16, "claim token": maybe(B32)}),
    "intent": fields({"plan cost before": uint, "effect scope": NAME, "grant": maybe(uint), "request": B32,
                      "files": listing(array(B16, maybe(B16), maybe(B16)), 0, 512)}),
    "outcome": fields({"plan charge": uint, "intent": maybe(uint), "status": word("ok failed denied"), "record": B32,
                       "denial": maybe(DENIALS), "result": maybe(B32), "seen": listing(array(B16, B16), 0, 512),
                       "recovered": boolean},
                      lambda v: (v["status"] == "denied") == (v["denial"] is not None) == (v["intent"] is None)
                      and (v["status"] != "denied" or v["result"] is None)),
    "commit": fields({"entry plan": uint, "outcome": maybe(uint), "output": B32, "refused": boolean}),
    "closure": fields({"intent charge": uint, "verdict evidence by": text("[a-z-]+"), "record": B32},
                      lambda v: (v["verdict"], v["evidence"], v["by"]) in CLOSURES),
    "approval": fields({"token": B32, "verdict": word("approve decline expire"), "session": B16, "by": maybe(B16),
                        "until": uint}),
    "hook": fields({"plan": uint, "point": word("before after"), "name": text("[a-z0-9-]{1,32}"),
                    "verdict": word("pass block")}),
    "redaction": fields({"refs": maybe(listing(B32, 1)), "reason": word("person secret law operator"),
                         "by": maybe(B16)}),
    "seal": fields({"size fold": uint, "episodes state": B32}),
}
Event = namedtuple("Event", "v seq at prev kind ep inv body")
def string(v): return type(v) is str


EP = (string, uint, B32)
ENVELOPE = Event(uint, uint, uint, B32, string, maybe(array(*EP)), maybe(B16), lambda v: type(v) is dict)


def read_event(data):
    if len(data) > 65535:
        raise Refused("too-long", 0)
    if data[:1] != b"\x88" or len(data) < 9:
        item(data, 0, 0)
        raise Refused("truncated" if data[:1] == b"\x88" else "unexpected", 0)
    values, end = [], 1
    for position, admits in enumerate(ENVELOPE):
        value, after = item(data, end, 1)
        if not admits(value):
            if position == 5 and type(value) is list and len(value) == 3:  # the item of `ep` that is at fault
                bad = [t(x) for t, x in zip(EP, value)].index(False)
                end += 1 + sum(len(encode(x)) for x in value[:bad])
            raise Refused("unexpected", end)
        if position == 0 and value != 1:
            raise Refused("version", value)
        if position == 5 and value is not None and not EPISODE_NAME(value[0]):
            raise Refused("episode-name", end + 1)
        values.append(value)
        start, end = end, after
    event = Event(*values)
    if end < len(data):
        raise Refused("trailing", end)
    body = BODIES.get(event.kind)
    if body is None and not EXTENSION(event.kind):
        raise Refused("kind", event.kind)
    if body is not None and not body(event.body):
        raise Refused("body", start)
    return event


# ---- Canonical JSON (canon.md) ----

class Number(str):
    """A number as it is spelled."""


NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?").fullmatch


def read_json(data):
    """The value of canonical JSON; anything else is refused."""
    def pairs(members):
        if len(dict(members)) < len(members):
            raise ValueError("duplicate-key")
        return dict(members)
    try:
        value = json.loads(data.decode(), object_pairs_hook=pairs, parse_int=Number, parse_float=Number)
        if print_json(value, 0).encode() == data:
            return value
    except (ValueError, RecursionError):
        pass
    raise Refused("object-malformed", "not canonical JSON")


def print_json(value, depth):
    if type(value) is str:
        return json.dumps(value, ensure_ascii=False)
    if type(value) is Number:
        digits, whole = value.lstrip("-").replace(".", "").strip("0"), value.lstrip("-").partition(".")[0].lstrip("0")
        if not NUMBER(value) or value == "-0" or len(digits) > 1024 or len(whole) > 10000 or len(value) > 11100:
            raise ValueError("number")
        return value
    if type(value) is dict and depth < 64:
        return "{%s}" % ",".join(json.dumps(name, ensure_ascii=False) + ":" + print_json(value[name], depth + 1)
                                 for name in sorted(value))  # code points sort as their UTF-8 does
    if type(value) is list and depth < 64:
        return "[%s]" % ",".join(print_json(x, depth + 1) for x in value)
    if value is None or type(value) is bool:
        return {None: "null", True: "true", False: "false"}[value]
    raise ValueError("too-deep, or NaN")


# ---- Notes and checkpoints (log.md sections 3 and 4) ----

Head = namedtuple("Head", "origin size root text lines")
Key = namedtuple("Key", "name id pub")


def base64_of(spelled):
    data = base64.b64decode(spelled, validate=True)
    if base64.b64encode(data).decode() != spelled:
        raise ValueError("base64 that is not canonical")
    return data


def key_name(name):
    if not 1 <= len(name.encode()) <= 255 or "+" in name or any(c.isspace() for c in name):
        raise ValueError("not a key name")
    return name


def read_head(data):
    """A checkpoint note; ValueError for another thing."""
    note = data.decode()
    body, split, signatures = note.rpartition("\n\n")
    text = body + "\n"
    origin, size, root, nothing = text.split("\n")
    if len(data) > 524288 or not split or nothing or re.search("[\0-\x09\x0b-\x1f]", note):
        raise ValueError("not a note of three lines")
    if not re.fullmatch("0|[1-9][0-9]{0,18}", size) or int(size) > 1 << 62 or len(base64_of(root)) != 32:
        raise ValueError("not a size and a root")
    if size == "0" and base64_of(root) != sha():
        raise ValueError("size 0 has another root")
    *rows, last = signatures.split("\n")
    if last or not 1 <= len(rows) <= 100:
        raise ValueError("no signature, too many, or a last line that does not end")
    lines = []
    for line in rows:
        dash, name, signature = line.split(" ")
        if dash != "\u2014" or len(base64_of(signature)) < 5:
            raise ValueError("not a signature line")
        lines.append((key_name(name), base64_of(signature)[:4], base64_of(signature)[4:]))
    return Head(key_name(origin), int(size), base64_of(root), text.encode(), lines)


def read_vkey(spelled):
    name, key_id, public = spelled.strip().split("+", 2)
    typed = base64_of(public)
    if key_name(name) and typed[:1] != b"\x01" or len(typed) != 33:
        raise ValueError("not the verifier key of an Ed25519 note key (type 0x01)")
    if sha(name.encode(), b"\n", typed)[:4].hex() != key_id:
        raise ValueError("a verifier key whose id is not that of its bytes")
    return Key(name, bytes.fromhex(key_id), typed[1:])


def signed_by(head, key):
    """Nothing if the head has exactly one line of this key and it verifies, else a finding's code."""
    signatures = [signature for name, key_id, signature in head.lines if (name, key_id) == (key.name, key.id)]
    if not signatures:
        return "signature-missing"
    return None if len(signatures) == 1 and ed25519.verify(key.pub, head.text, signatures[0]) else "signature-wrong"


# ---- Tree, tiles, bundles (log.md sections 1 and 2) ----

def tile_path(level, n, width):
    path = "%03d" % (n % 1000)
    while n >= 1000:
        n //= 1000
        path = "x%03d/%s" % (n % 1000, path)
    return "tile/%s/%s" % (level, path) + (".p/%d" % width if width < 256 else "")


class Tree:
    """Grows leaf by leaf and keeps its right edge; calls `tile(level, index, hashes)` for each tile that fills."""

    def __init__(self, tile):
        self.size, self.edge, self.tiles, self.counts, self.tile = 0, [], [], [], tile

    def append(self, node):
        height, self.size = 0, self.size + 1
        while True:
            if height % 8 == 0:
                self.keep(height // 8, node)
            if height == len(self.edge):
                self.edge.append(None)
            if self.edge[height] is None:
                self.edge[height] = node
                return
            node, self.edge[height] = sha(b"\x01", self.edge[height], node), None
            height += 1

    def keep(self, level, node):
        if level == len(self.tiles):
            self.tiles.append(bytearray())
            self.counts.append(0)
        self.tiles[level] += node
        if len(self.tiles[level]) == 8192:
            self.tile(level, self.counts[level], bytes(self.tiles[level]))
            self.tiles[level], self.counts[level] = bytearray(), self.counts[level] + 1

    def finish(self):
        for level, hashes in enumerate(self.tiles):
            if hashes:
                self.tile(level, self.counts[level], bytes(hashes))

    def root(self):
        root = None
        for node in self.edge:
            if node is not None:
                root = node if root is None else sha(b"\x01", node, root)
        return root or sha()


# ---- Map (log.md section 7): an empty place is None, a pair (key, hash), a branch [hash or None, side 0, side 1] ----

def put(node, key, leaf, bit=255):
    """The node with the pair of this key put in, or taken out where `leaf` is None."""
    if node is None or type(node) is tuple and node[0] == key:
        return leaf and (key, leaf)
    if type(node) is tuple:
        if leaf is None:
            return node
        branch = [None, None, None]
        branch[1 + (node[0] >> bit & 1)] = node
        return put(branch, key, leaf, bit)
    side = 1 + (key >> bit & 1)
    node[0], node[side] = None, put(node[side], key, leaf, bit - 1)
    here, there = node[side], node[3 - side]
    if here is None and type(there) is tuple or there is None and type(here) is tuple:
        return here or there
    return node


def map_root(node):
    if node is None or type(node) is tuple:
        return node[1] if node else ZERO
    if node[0] is None:
        node[0] = sha(b"\x01", map_root(node[1]), map_root(node[2]))
    return node[0]


# ---- State: fold and lawfulness (state.md sections 1 to 3) ----

TABLES = ("log key transition tool episode session cred expiry spent call intent doubt claim token use run approval "
          "seen").split()
FORGOTTEN = ("claim", "token", "use", "run", "seen")  # rows that a session loses a day after it is over
SET, NONE, EITHER = (True,), (False,), (True, False)
FITS = {kind: (NONE, NONE) for kind in ("genesis", "key", "transition", "seal")}  # whether `ep` and `inv` are set
FITS.update({kind: (SET, NONE) for kind in ("episode", "approval", "redaction")})
FITS.update({kind: (EITHER, NONE) for kind in ("revocation", "freeze")})
FITS.update({kind: (SET, SET) for kind in ("plan", "intent", "outcome", "commit", "closure", "hook")})


class State:
    def __init__(self):
        self.rows = {table: {} for table in TABLES}
        self.seq, self.leaf, self.at, self.chains = 0, ZERO, 0, {}
        self.map, self.changed = None, set()  # the map of all rows, and the rows that it does not have yet
        self.episodes, self.moved = None, set()  # the map of episodes likewise
        self.expiries, self.held = [], {}  # a heap of `expiry` keys; by session, the rows to forget

    def put(self, table, key, row):
        self.rows[table][key] = row
        self.changed.add((table, key))
        if table in FORGOTTEN:
            self.held.setdefault(key if table == "run" else key[0], set()).add((table, key))

    def row(self, table, key):
        """The row, to be changed in place, or None."""
        self.changed.add((table, key))
        return self.rows[table].get(key)

    def take(self, table, key):
        self.changed.add((table, key))
        return self.rows[table].pop(key, None)

    def digest(self):
        for table, key in self.changed:
            name, row = sha(encode((table, key))), self.rows[table].get(key)
            leaf = None if row is None else sha(b"\0", name, sha(encode(row)))
            self.map = put(self.map, int.from_bytes(name, "big"), leaf)
        self.changed.clear()
        return map_root(self.map)

    def episodes_root(self):
        for name in self.moved:
            n, last = self.chains[name]
            key = sha(name.encode())
            self.episodes = put(self.episodes, int.from_bytes(key, "big"),
                                sha(b"\0", key, sha(n.to_bytes(8, "big"), last)))
        self.moved.clear()
        return map_root(self.episodes)

    # What is lawful. Each `law_KIND` yields pairs: the code of a check, and whether it holds. The first that fails counts,
    # and nothing behind it is evaluated.

    def unlawful(self, e):
        return next((code for code, holds in self.law(e, e.ep and e.ep[0]) if not holds), None)

    def law(self, e, episode):
        yield "seq-gap", e.seq == self.seq
        yield "chain-broken", e.prev == self.leaf
        yield "time-backwards", e.at >= self.at
        if e.ep:
            yield "episode-chain-broken", (e.ep[1], e.ep[2]) == self.chains.get(episode, (0, ZERO))
            if e.kind == "episode":
                yield "episode-repeated", episode not in self.rows["episode"]
            else:
                yield "episode-unknown", episode in self.rows["episode"]
        yield "genesis-misplaced", (e.kind == "genesis") == (e.seq == 0)
        ep, inv = FITS.get(e.kind, (EITHER, EITHER))
        if e.kind == "session":
            ep, inv = SET if e.body["role"] == "agent" else NONE, NONE
        yield "envelope-misfit", (e.ep is not None) in ep and (e.inv is not None) in inv
        yield from getattr(self, "law_" + e.kind, lambda *_: ())(e, e.body, episode)

    def open_call(self, e):
        call = self.rows["call"].get(e.body["plan"])
        return call if call and call["inv"] == e.inv and call["episode"] == e.ep[0] else None

    def live(self, key, e, episode):
        session = self.rows["session"].get(key)
        yield "session-unknown", session
        yield "session-not-live", not session["revoked"] and e.at < session["expires"] and session["role"] == "agent"
        yield "session-elsewhere", session["episode"] == episode

    def law_session(self, e, body, episode):
        old = self.rows["session"].get(body["id"])
        yield "session-changed", self.rows["cred"].get(body["cred"], body["id"]) == body["id"]
        yield "session-changed", not old or (old["role"], old["episode"]) == (body["role"], episode)

    def law_revocation(self, e, body, episode):
        yield "session-unknown", body["session"] in self.rows["session"]

    law_approval = law_revocation

    def law_hook(self, e, body, episode):
        yield "plan-unknown", self.open_call(e)

    def law_plan(self, e, body, episode):
        session, claim = body["session"], body["claim"]
        if body["front"] == "admin":
            yield "admin-misfit", session is body["transition"] is body["token"] is None
        else:
            yield from self.live(session, e, episode)
            yield "transition-unknown", self.rows["transition"].get(body["transition"], {}).get("tool") == body["tool"]
            yield "claim-repeated", claim is None or (session, claim) not in self.rows["claim"]
            yield "claims-full", claim is None or self.rows["session"][session]["claims"] < 100000
        yield "calls-overlap", all(call["episode"] != episode for call in self.rows["call"].values())

    def law_intent(self, e, body, episode):
        call = self.open_call(e)
        yield "plan-unknown", call
        yield "intent-repeated", call["intent"] is None and call["outcome"] is None
        if call["front"] == "admin":
            yield "admin-misfit", (body["grant"], body["cost"], body["before"]) == (None, 0, 0)
            return
        yield "frozen", not self.rows["log"].get(None, {}).get("frozen") and not self.rows["episode"][episode]["frozen"]
        yield from self.live(call["session"], e, episode)
        what = [body["effect"], body["scope"]]
        declared = self.rows["transition"].get(call["transition"], {}).get("declared", [])
        yield "effect-undeclared", what + [body["cost"]] in declared
        grants, number = self.rows["session"][call["session"]]["grants"], body["grant"]
        yield "grant-missing", number is not None and number < len(grants) and grants[number][:2] == what
        budget, expires, confirm = grants[number][2:]
        yield "grant-expired", e.at < expires
        spent = self.rows["spent"].get((episode, *what), {"charged": 0, "reserved": 0})
        left = max(0, budget - spent["charged"] - spent["reserved"])
        yield "budget-misstated", body["before"] == left
        yield "budget-exceeded", body["cost"] <= left
        approval = self.rows["approval"].get(call["token"])
        yield "approval-missing", not confirm or (
            approval and approval["verdict"] == "approve" and approval["session"] == call["session"]
            and e.at < approval["until"] and not approval["used"])
        yield "token-repeated", (call["session"], call["token"]) not in self.rows["token"]

    def law_outcome(self, e, body, episode):
        call = self.open_call(e)
        yield "plan-unknown", call
        yield "outcome-repeated", call["outcome"] is None
        intent = call["intent"]
        yield "intent-unknown", body["intent"] == (intent and intent["seq"])
        yield "recovery-unmarked", body["recovered"] == (intent is not None and intent["closed"] == "landed")
        yield "charge-wrong", body["charge"] == (intent["cost"] if intent else 0)

    def law_commit(self, e, body, episode):
        call = self.open_call(e)
        yield "plan-unknown", call
        yield "outcome-missing", body["outcome"] == call["outcome"]
        yield "outcome-missing", call["intent"] is None or call["outcome"] is not None
        yield "entry-gap", body["entry"] == self.rows["log"].get(None, {}).get("entries", 0)

    def law_closure(self, e, body, episode):
        doubt = self.rows["doubt"].get(body["intent"])
        call = doubt["call"] if doubt else self.rows["call"].get(self.rows["intent"].get(body["intent"]))
        yield "intent-unknown", call and call["inv"] == e.inv and call["episode"] == episode
        yield "closure-unlawful", (body["by"] == "operator") == (doubt is not None)
        yield "closure-unlawful", doubt or call["intent"]["closed"] is None
        lawful = ("unrecorded",) if call["outcome"] is not None else ("landed", "not-happened", "in-doubt")
        yield "closure-unlawful", body["verdict"] in (("landed", "not-happened") if doubt else lawful)
        yield "charge-wrong", body["charge"] == (0 if body["verdict"] == "not-happened" else call["intent"]["cost"])

    def law_seal(self, e, body, episode):
        yield "seq-gap", body["size"] == e.seq
        yield "episodes-differ", body["episodes"] == self.episodes_root()
        yield "fold-unknown", body["fold"] == 1
        yield "state-differs", body["state"] == self.digest()

    # The fold

    def fold(self, e, leaf):
        if e.kind != "seal":
            self.forget(e.at)
        step = getattr(self, "fold_" + e.kind, None)
        if step:
            step(e, e.body)
        if e.ep:
            self.chains[e.ep[0]] = (e.ep[1] + 1, leaf)
            self.moved.add(e.ep[0])
        self.seq, self.leaf, self.at = e.seq + 1, leaf, e.at

    def forget(self, at):
        while self.expiries and self.expiries[0][0] + 86400000 <= at:
            expiry = heapq.heappop(self.expiries)
            if self.take("expiry", expiry):
                for table, key in self.held.pop(expiry[1], ()):
                    self.take(table, key)
                session = self.row("session", expiry[1])
                if session:
                    session["claims"] = 0

    def fold_genesis(self, e, body):
        self.put("log", None, {"entries": 0, "frozen": False, **self.rows["log"].get(None, {}), "origin": body["origin"]})
        for key in body["keys"]:
            self.fold_key(e, key)

    def fold_key(self, e, body):
        self.put("key", body["id"], {field: body[field] for field in ("alg", "pub", "use", "from", "until")})

    def fold_transition(self, e, body):
        self.put("transition", e.seq, dict(body))
        self.put("tool", body["tool"], e.seq)

    def fold_episode(self, e, body):
        if e.ep:
            self.put("episode", e.ep[0], {"frozen": False, "redacted": False})

    def fold_session(self, e, body):
        old = self.rows["session"].get(body["id"])
        if old:
            self.take("cred", old["cred"])
            self.take("expiry", (old["expires"], body["id"]))
        self.put("cred", body["cred"], body["id"])
        self.put("expiry", (body["expires"], body["id"]), True)
        heapq.heappush(self.expiries, (body["expires"], body["id"]))
        self.put("session", body["id"], {
            **{field: body[field] for field in ("cred", "role", "grants", "expires")}, "revoked": None,
            "episode": e.ep[0] if e.ep else None, "claims": old["claims"] if old else 0})

    def fold_revocation(self, e, body):
        session = self.row("session", body["session"])
        if session:
            session["revoked"] = body["reason"]

    def fold_freeze(self, e, body):
        row = self.row("episode", e.ep[0]) if e.ep else self.row("log", None)
        if row:
            row["frozen"] = body["frozen"]

    def fold_plan(self, e, body):
        if e.ep is None or e.inv is None:
            return
        if body["session"] and body["claim"]:
            self.put("claim", (body["session"], body["claim"]), {"plan": e.seq, "commit": None, "closure": None})
            session = self.row("session", body["session"])
            if session:
                session["claims"] += 1
        self.put("call", e.seq, {
            **{field: body[field] for field in ("tool", "front", "session", "transition", "same", "claim", "token")},
            "inv": e.inv, "episode": e.ep[0], "intent": None, "outcome": None})

    def fold_intent(self, e, body):
        call = self.row("call", body["plan"])
        if not call:
            return
        call["intent"] = {"seq": e.seq, "effect": body["effect"], "scope": body["scope"], "cost": body["cost"],
                          "charge": None, "closed": None}
        where = (call["episode"], body["effect"], body["scope"])
        spent = self.rows["spent"].get(where, {"charged": 0, "reserved": 0})
        self.put("spent", where, {**spent, "reserved": min(spent["reserved"] + body["cost"], (1 << 64) - 1)})
        self.put("intent", e.seq, body["plan"])
        if call["session"]:
            use = (call["session"], call["same"])
            self.put("use", use, self.rows["use"].get(use, 0) + 1)
            if call["token"]:
                self.put("token", (call["session"], call["token"]),
                         {"plan": body["plan"], "commit": None, "closure": None})
                approval = self.row("approval", call["token"])
                if approval:
                    approval["used"] = True

    def charge(self, call, units):
        intent = call["intent"]
        spent = intent and self.row("spent", (call["episode"], intent["effect"], intent["scope"]))
        if spent:
            field, before = ("reserved", intent["cost"]) if intent["charge"] is None else ("charged", intent["charge"])
            spent[field] = max(0, spent[field] - before)
            spent["charged"] = min(spent["charged"] + units, (1 << 64) - 1)
        if intent:
            intent["charge"] = units

    def conclude(self, call, field, value):
        if call["session"]:
            for table, has in (("claim", call["claim"]), ("token", call["token"] and call["intent"])):
                end = has and self.row(table, (call["session"], call[table]))
                if end:
                    end[field] = value

    def fold_outcome(self, e, body):
        call = self.row("call", body["plan"])
        if not call:
            return
        call["outcome"] = e.seq
        if body["intent"] is not None:
            self.charge(call, body["charge"])
        if call["session"]:
            for path, content in body["seen"]:
                self.put("seen", (call["session"], path), content)

    def fold_commit(self, e, body):
        log = self.row("log", None)
        if log:
            log["entries"] = body["entry"] + 1
        call = self.take("call", body["plan"])
        if not call:
            return
        if call["intent"]:
            self.take("intent", call["intent"]["seq"])
        self.conclude(call, "commit", e.seq)
        if call["session"]:
            run, this = self.rows["run"].get(call["session"]), {"same": call["same"], "refused": body["refused"]}
            again = run is not None and run == {**this, "count": run["count"]}
            self.put("run", call["session"], {**this, "count": run["count"] + 1 if again else 1})

    def fold_closure(self, e, body):
        plan = self.take("intent", body["intent"])
        call = self.take("call", plan) if plan is not None else None
        if not call:
            doubt = self.take("doubt", body["intent"])
            if not doubt:
                return
            plan, call = doubt["plan"], doubt["call"]
        self.charge(call, body["charge"])
        call["intent"]["closed"] = body["verdict"]
        if body["verdict"] == "landed":
            self.put("call", plan, call)
            self.put("intent", body["intent"], plan)
            self.conclude(call, "closure", None)
        elif body["verdict"] != "not-happened":
            if body["verdict"] == "in-doubt":
                self.put("doubt", body["intent"], {"plan": plan, "call": call})
            self.conclude(call, "closure", e.seq)
        elif call["session"]:
            if call["claim"] and self.take("claim", (call["session"], call["claim"])):
                session = self.row("session", call["session"])
                if session:
                    session["claims"] = max(0, session["claims"] - 1)
            if call["token"]:
                self.take("token", (call["session"], call["token"]))
            use = (call["session"], call["same"])
            count = self.take("use", use)
            if count and count > 1:
                self.put("use", use, count - 1)

    def fold_approval(self, e, body):
        self.put("approval", body["token"], {**{field: body[field] for field in ("verdict", "session", "until")},
                                             "used": False})

    def fold_redaction(self, e, body):
        episode = self.row("episode", e.ep[0]) if e.ep and body["refs"] is None else None
        if episode:
            episode["redacted"] = True


# ---- Payloads: openings, objects, keys of episodes (event.md sections 6 to 9) ----

BREFS = {"episode": ("base_commit",), "plan": ("plan", "input"), "intent": ("request",), "outcome": ("record", "result"),
         "commit": ("output",), "closure": ("record",)}  # fields in the order of an opening's `refs`
NOT_JSON = ("base_commit", "result")
OPENING = array(uint, array(listing(B32), listing(array(string, maybe(B32), maybe(B32))), listing(B32)))


class Payloads:
    def __init__(self, audit, root):
        self.audit, self.root, self.episodes = audit, root, {}
        self.public = not any(os.path.isdir(os.path.join(root, part)) for part in ("keys", "openings", "objects"))
        self.checked, self.missing, self.redacted = set(), Counter(), set()

    def read(self, *path):
        try:
            with open(os.path.join(self.root, *path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def episode(self, name):
        """[key or None, rest of the openings, the next opening or None] of an episode."""
        if name not in self.episodes:
            key = re.fullmatch(rb"([0-9a-f]{64})\n", self.read("keys", name) or b"")
            self.episodes[name] = [bytes.fromhex(key[1].decode()) if key else None, self.openings(name), None]
            self.audit.count["episodes without key"] += not key
            self.episodes[name][2] = next(self.episodes[name][1], None)
        return self.episodes[name]

    def openings(self, name):
        data, at, last = self.read("openings", name) or b"", 0, -1
        while at < len(data):
            try:
                value, at = item(data, at, 0)
                if not OPENING(value) or value[0] <= last:
                    raise Refused("not an opening, or not ascending", at)
            except Refused as fault:
                self.audit.find("opening-malformed", "openings/%s: %s at byte %s" % (name, *fault.args))
                return
            last = value[0]
            yield value

    def strays(self, name, before):
        """Reports the openings of an episode that come before a leaf and were not its events'."""
        state = self.episode(name)
        while state[2] and (before is None or state[2][0] < before):
            self.audit.find("opening-malformed", "openings/%s: leaf %d is no event of it with something to open" %
                            (name, state[2][0]))
            state[2] = next(state[1], None)

    def event(self, e, state):
        count = self.audit.count
        if e.kind == "transition":
            for field in ("source", "schema"):
                self.object(None, e.body[field], None, False)
        if e.kind == "redaction" and e.ep:
            self.redacted.update((e.ep[0], ref) for ref in e.body["refs"] or ())
        fields = [field for field in BREFS.get(e.kind, ()) if e.body[field] is not None]
        if not e.ep or not fields:
            return
        self.strays(e.ep[0], e.seq)
        episode = self.episode(e.ep[0])
        key, opening = episode[0], episode[2]
        if not opening or opening[0] != e.seq:
            self.missing[e.ep[0], None, "events without opening"] += 1
            return
        episode[2] = next(episode[1], None)
        refs, files, more = opening[1]
        if key is None:
            count["openings that no key opens"] += 1
            return
        if not self.opens(e, key, fields, refs, files):
            self.audit.find("opening-differs", "leaf %d (%s)" % (e.seq, e.kind))
            return
        count["openings verified"] += 1
        objects = {field: self.object(e.ep[0], ref, e.body[field], field not in NOT_JSON, field == "record")
                   for field, ref in zip(fields, refs)}
        if e.kind == "plan" and mac(key, b"plan", refs[0])[:16] != e.body["same"]:
            self.audit.find("same-differs", "leaf %d" % e.seq)
        if e.kind == "outcome" and objects["record"] is not None:
            self.record(e, objects["record"], state.open_call(e))

    @staticmethod
    def opens(e, key, fields, refs, files):
        inner = mac(key, b"inv", e.inv or bytes(16))
        if [mac(inner, ref) for ref in refs] != [e.body[field] for field in fields]:
            return False
        blind = lambda content: content and mac(key, b"file", content)[:16]  # noqa: E731
        blinded = [[mac(key, b"path", path.encode())[:16], blind(first), blind(second)] for path, first, second in files]
        seen = [[path, content, None] for path, content in e.body.get("seen", ())]
        return blinded == (e.body["files"] if e.kind == "intent" else seen)

    def object(self, episode, digest, ref, is_json, again=False):
        """The value of a JSON object that a field names, once or `again`; None if there is none, or nothing new to check."""
        path = os.path.join("objects", episode or "_", digest.hex())
        if (path, is_json) in self.checked and not again:
            return None
        data = self.read(path)
        if data is None:
            self.missing[episode, ref, "objects missing"] += 1
        elif sha(data) != digest:
            if (path, False) not in self.checked:
                self.audit.find("object-changed", path)
            self.checked.add((path, False))
        else:
            self.checked.update([(path, False), (path, is_json)])
            try:
                return read_json(data) if is_json else None
            except Refused:
                self.audit.find("object-malformed", path)

    def record(self, e, record, call):
        wanted = {"status": e.body["status"], "denial": e.body["denial"]}
        intent = call and call["intent"]
        if intent:
            wanted.update(effect=intent["effect"], scope=intent["scope"], cost=Number(intent["cost"]),
                          budgetBefore=Number(self.audit.before.get(intent["seq"], 0)))
        got = record if type(record) is dict else {}
        differ = [f for f in wanted if f not in got or (type(got[f]), got[f]) != (type(wanted[f]), wanted[f])]
        if differ:
            self.audit.find("record-differs", "leaf %d: %s" % (e.seq, ", ".join(differ)))

    def finish(self, state):
        count = self.audit.count
        if self.audit.whole and not self.audit.stopped:
            for name in set(self.episodes) | set(state.rows["episode"]):
                self.strays(name, None)
        for (episode, ref, what), n in self.missing.items():
            row = state.rows["episode"].get(episode)
            covered = row and row["redacted"] or (episode, ref) in self.redacted
            count["payloads missing that a redaction covers" if covered else what] += n
        for folder, _, names in os.walk(os.path.join(self.root, "objects")):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                if (path, False) not in self.checked and sha(self.read(path)).hex() != name:
                    self.audit.find("object-changed", path)
                count["objects hashed"] += 1


# ---- The audit (state.md section 4) ----

class Audit:
    def __init__(self, root, key, seen):
        self.root, self.key, self.seen = root, key, seen
        self.findings, self.by_code, self.count, self.before = [], Counter(), Counter(), {}
        self.state, self.tree, self.payloads = State(), Tree(self.tile), Payloads(self, root)
        self.stopped, self.whole, self.seen_root, self.inside = False, False, None, None

    def find(self, code, where):
        self.by_code[code] += 1
        if self.by_code[code] <= SHOWN:
            self.findings.append((code, where))

    def exit_code(self):
        return min((EXIT.get(code, 3) for code in self.by_code), default=0)  # the smallest is the worst

    def run(self, checkpoint):
        try:
            self.head = head = read_head(checkpoint)
        except ValueError as fault:
            self.head = None
            return self.find("checkpoint-malformed", str(fault))
        if self.key:
            if self.key.name != head.origin:
                self.find("origin-differs", "the key is of %s, the checkpoint of %s" % (self.key.name, head.origin))
            code = signed_by(head, self.key)
            if code:
                self.find(code, "checkpoint, key %s" % self.key.id.hex())
        self.look_back()
        for leaf in self.entries():
            self.entry(leaf)
            self.look_back()
        self.tree.finish()
        self.whole = self.tree.size == head.size
        if self.whole and self.tree.root() != head.root:
            self.find("root-differs", "the entries do not have the root of the checkpoint")
        if self.seen and self.seen.size > head.size:
            self.find("head-shorter", "size %d, and %d was seen" % (head.size, self.seen.size))
        elif self.seen_root and self.seen_root != self.seen.root:
            self.find("head-differs", "the first %d entries do not have the root seen" % self.seen.size)
        if self.whole and not self.stopped:
            self.keys()
        self.payloads.finish(self.state)

    def look_back(self):
        if self.seen and self.tree.size == self.seen.size:
            self.seen_root = self.tree.root()

    def entries(self):
        """The bytes of each entry; stops at a bundle that is not whole."""
        for n in range((self.head.size + 255) // 256):
            width = min(256, self.head.size - 256 * n)
            data = self.payloads.read(tile_path("entries", n, width))
            full = None if data is not None or width == 256 else self.payloads.read(tile_path("entries", n, 256))
            at, data, leaves = 0, full if data is None else data, []
            while data and at + 2 <= len(data) and not (full and len(leaves) == width):
                end = at + 2 + int.from_bytes(data[at:at + 2], "big")
                if end > len(data):
                    break
                leaves.append(data[at + 2:end])
                at = end
            yield from leaves[:width]
            if data and (at < len(data) and not full or len(leaves) > width):
                return self.find("bundle-malformed", tile_path("entries", n, width))
            if len(leaves) < width:
                return self.find("entries-missing", "from leaf %d on" % (256 * n + len(leaves)))

    def tile(self, level, index, hashes):
        """Compares what is stored of a tile, in full or in part, with the hashes of the entries."""
        full = tile_path(level, index, 256)
        widths = {full: 256}
        try:
            widths.update({full + ".p/" + name: int(name) for name in os.listdir(os.path.join(self.root, full + ".p"))
                           if re.fullmatch("[1-9][0-9]{0,2}", name)})
        except OSError:
            pass
        stored = {path: self.payloads.read(path) for path in widths}
        self.count["hash tiles absent"] += all(data is None for data in stored.values())
        for path, data in stored.items():
            if data is not None:
                self.count["hash tiles compared"] += 1
                part = min(len(hashes), 32 * widths[path])
                if data[:part] != hashes[:part] or len(data) != 32 * widths[path]:
                    self.find("tile-changed" if level else "leaf-changed", path)

    def entry(self, data):
        position, leaf, state = self.tree.size, sha(b"\0", data), self.state
        self.tree.append(leaf)
        try:
            event = read_event(data)
        except Refused as fault:
            code, where = fault.args
            if code in ("kind", "version"):
                self.stopped = self.stopped or not self.find("kind-unknown", "leaf %d: %s %s needs a newer verifier" %
                                                             (position, code, ascii(where)))
            else:
                self.find("event-malformed", "leaf %d: %s at byte %s" % (position, code, where))
            state.seq, state.leaf = position + 1, leaf
            return
        self.count["events"] += 1
        if event.kind in ("genesis", "key"):
            for key in event.body.get("keys", [event.body]):
                self.prove(key, event.body.get("origin") or state.rows["log"].get(None, {}).get("origin", ""), position)
        if self.stopped:
            return
        code = state.unlawful(event)
        if code:
            self.find(code, "leaf %d (%s)" % (position, event.kind))
        if event.kind == "intent":
            self.before[event.seq] = event.body["before"]
        if event.kind == "plan" and event.body["front"] == "admin":
            self.count["operator's acts (front admin)"] += 1
        if not self.payloads.public:
            self.payloads.event(event, state)
        state.fold(event, leaf)
        if event.kind in ("commit", "seal"):
            self.count[event.kind + "s"] += 1

    def prove(self, key, origin, position):
        kind = {"head": b"\x01", "cosign": b"\x06", "cose": b"\xffworldlog/cose/v1"}[key["use"]]
        where = "leaf %d: key %s" % (position, key["id"].hex())
        if sha(origin.encode(), b"\n", kind, key["pub"])[:4] != key["id"]:
            self.find("key-id-wrong", where)
        message = b"worldlog/pop/v1\n%s\n%s\n%s" % (origin.encode(), key["use"].encode(), key["pub"])
        if key["alg"] != "ed25519":
            self.count["ML-DSA-44 proofs of possession not checked"] += 1
        elif not ed25519.verify(key["pub"], message, key["pop"]):
            self.find("key-unproven", where)

    def keys(self):
        """The key given is one of the log, for this size; without one, the checkpoint is signed by one that is."""
        head, origin = self.head, self.state.rows["log"].get(None, {}).get("origin")
        if head.size and origin != head.origin:
            self.find("origin-differs", "genesis has %s, the checkpoint %s" % (origin, head.origin))
        ours = [Key(head.origin, key_id, row["pub"]) for key_id, row in self.state.rows["key"].items()
                if row["use"] == "head" and row["from"] <= head.size
                and (row["until"] is None or head.size <= row["until"])]
        if self.key:
            if self.key not in ours and head.size:
                self.find("key-foreign", "key %s is no head key of the log at size %d" % (self.key.id.hex(), head.size))
            return
        codes = {key.id.hex(): signed_by(head, key) for key in ours}
        signers = [key for key, code in codes.items() if code != "signature-missing"]
        if any(codes[key] for key in signers):
            self.find("signature-wrong", "checkpoint, key %s" % ", ".join(signers))
        elif signers:
            self.inside = ", ".join(signers)
        else:
            self.find("signature-missing", "no line of a key found inside")


def say(what, text):
    print("%-11s %s" % (what, "".join(c if c.isprintable() else "?" for c in text)))


def usage(message):
    print("verify.py: %s" % message, file=sys.stderr)
    sys.exit(1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = usage
    parser.add_argument("export")
    parser.add_argument("--vkey", metavar="KEY|FILE")
    parser.add_argument("--seen", metavar="HEAD_FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    key = seen = None
    try:
        if given.vkey:
            key = read_vkey(open(given.vkey).readline() if os.path.exists(given.vkey) else given.vkey)
        if given.seen:
            seen = read_head(open(given.seen, "rb").read())
            if key and signed_by(seen, key):
                raise ValueError("the head seen has no good signature by the key given: it shows nothing")
        checkpoint = open(os.path.join(given.export, "checkpoint"), "rb").read()
    except (OSError, ValueError) as fault:
        usage(fault)
    return given, key, seen, checkpoint


def main():
    given, key, seen, checkpoint = arguments()
    audit = Audit(given.export, key, seen)
    try:
        audit.run(checkpoint)
    except OSError as fault:
        usage(fault)
    if not key:
        audit.find("key-not-given", "consistent with key %s found inside; no key was given" % audit.inside
                   if audit.inside else "no key was given, and none found inside signed this")
    code, state, count = audit.exit_code(), audit.state, audit.count
    count["unresolved: calls open, in doubt"] = len(state.rows["call"]) + len(state.rows["doubt"])
    if given.json:
        print(json.dumps({"verdict": VERDICTS[code], "exit": code, "counts": {w: n for w, n in count.items() if n},
                          "codes": audit.by_code, "findings": [{"code": c, "where": w} for c, w in audit.findings],
                          "public": audit.payloads.public}, sort_keys=True))
        sys.exit(code)
    if audit.head:
        say("log", "%s, size %d, root %s" % (audit.head.origin, audit.head.size, audit.head.root.hex()))
    say("signature", ("Ed25519, key %s given from outside" % key.id.hex() if key else "no key was given")
        + "; ML-DSA-44 is not checked here")
    if seen:
        say("head seen", "size %d: %s" % (seen.size, "nothing proven" if not seen.size else
                                          "compared" if audit.seen_root else "not comparable"))
    say("chains", "form of every event, seq, prev, time; the links of %d episodes" % len(state.chains))
    say("law", "sessions, grants, budgets, outcomes, closures, entries; at each seal the map of episodes and the state")
    say("payloads", "a public export: none there, none checked" if audit.payloads.public else
        "openings under the episodes' keys, objects by hash and form, records")
    for what in sorted(w for w, n in count.items() if n):
        say("", "%d %s" % (count[what], what))
    for found, where in audit.findings:
        say("FINDING", "%s (%s): %s" % (found, VERDICTS[EXIT.get(found, 3)], where))
    for found, n in audit.by_code.items():
        if n > SHOWN:
            say("", "%s: %d in all" % (found, n))
    print("VERDICT: " + VERDICTS[code])
    sys.exit(code)


if __name__ == "__main__":
    main()
