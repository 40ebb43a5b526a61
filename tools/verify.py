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
from itertools import islice

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ed25519  # noqa: E402

ZERO = bytes(32)
VERDICTS = {0: "verified", 3: "rewritten", 4: "truncated", 5: "damaged", 6: "unverifiable"}
EXIT = {"head-shorter": 4}  # by code; 3 where nothing else is said
EXIT.update(dict.fromkeys("checkpoint-malformed entries-missing bundle-malformed leaf-changed tile-changed "
                          "opening-malformed object-changed".split(), 5))
EXIT.update(dict.fromkeys("signature-missing key-not-given kind-unknown fold-unknown".split(), 6))


class Refused(Exception):
    """Input that the specification does not admit: a code and what or where."""


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def mac(key, *parts):
    return hmac.digest(key, b"".join(parts), "sha256")


# ---- Canonical CBOR (event.md section 2) ----

SIMPLE = {20: False, 21: True, 22: None}
SHORTEST = {24: 24, 25: 1 << 8, 26: 1 << 16, 27: 1 << 32}


def item(data, at, depth):
    """The item at offset `at`, which lies inside `depth` others, and the offset behind it."""
    if at >= len(data):
        raise Refused("truncated", at)
    major, n, end = data[at] >> 5, data[at] & 31, at + 1
    if major == 7 or major == 1 or major == 6:
        if major == 7 and n in SIMPLE:
            return SIMPLE[n], end
        raise Refused("indefinite" if major == 7 and n == 31 else "forbidden", at)
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
    if n > len(data) - end:
        raise Refused("truncated", at)
    if major == 2:
        return data[end:end + n], end + n
    if major == 3:
        try:
            return data[end:end + n].decode(), end + n
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
ENVELOPE = Event(uint, uint, uint, B32, lambda v: type(v) is str, maybe(array(lambda v: type(v) is str, uint, B32)),
                 maybe(B16), lambda v: type(v) is dict)


def read_event(data):
    if len(data) > 65535:
        raise Refused("too-long", 0)
    if data[:1] != b"\x88":
        item(data, 0, 0)
        raise Refused("unexpected", 0)
    values, end = [], 1
    for position, admits in enumerate(ENVELOPE):
        value, after = item(data, end, 1)
        if not admits(value):
            raise Refused("unexpected", end)
        if position == 0 and value != 1:
            raise Refused("version", end)
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
