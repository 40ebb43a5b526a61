#!/usr/bin/env python3
"""Writes fixtures/event from spec/event.md alone, with a CBOR encoder of its own.

    tools/vectors_event.py            writes the files
    tools/vectors_event.py --check    compares them with what it would write

NAME.hex    lowercase hexadecimal; a line `UNIT*COUNT` stands for COUNT times UNIT
NAME.txt    `expect: ...`, then (ok) the leaf hash, then the event in diagnostic notation
blind.txt   the formulas of section 6, and events with their openings (section 7)

Keys, signatures and hashes in these events are SHA-256 of a label: an event's form does not depend on them.
Standard library only.
"""

import hashlib
import hmac
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "fixtures" / "event"


class Raw:
    """Bytes that stand where an item is due, right or wrong."""

    def __init__(self, text):
        self.bytes = bytes.fromhex(text) if isinstance(text, str) else text


def head(major, n):
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 24:
            return bytes([major << 5 | n])
        if n < 1 << 8 * size:
            return bytes([major << 5 | info]) + n.to_bytes(size, "big")
    raise ValueError(n)


def enc(v):
    if isinstance(v, Raw):
        return v.bytes
    if v is None or isinstance(v, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[v]
    if isinstance(v, int):
        return head(0, v)
    if isinstance(v, bytes):
        return head(2, len(v)) + v
    if isinstance(v, str):
        return head(3, len(v.encode())) + v.encode()
    if isinstance(v, list):
        return head(4, len(v)) + b"".join(map(enc, v))
    pairs = sorted((enc(k), enc(x)) for k, x in v.items())
    return head(5, len(v)) + b"".join(k + x for k, x in pairs)


def diag(v, depth=0):
    if isinstance(v, Raw):
        return f"<{short(v.bytes)}>"
    if v is None or isinstance(v, bool):
        return {None: "null", False: "false", True: "true"}[v]
    if isinstance(v, int):
        return str(v)
    if isinstance(v, bytes):
        return f"h'{short(v)}'"
    if isinstance(v, str):
        return f'"{v}"' if len(v) <= 80 else f'"{v[:16]}..." ({len(v)} characters)'
    if isinstance(v, list):
        if len(v) > 16:
            return f"[{diag(v[0])}, ... ({len(v)} items)]"
        if depth == 0:
            return "[\n" + "".join(f"  {diag(x, 1)},\n" for x in v) + "]"
        return "[" + ", ".join(diag(x, 2) for x in v) + "]"
    pairs = [f"{diag(k)}: {diag(x, 2)}" for k, x in sorted(v.items(), key=lambda p: enc(p[0]))]
    if depth == 1:
        return "{\n" + "".join(f"    {p},\n" for p in pairs) + "  }"
    return "{" + ", ".join(pairs) + "}"


def short(b):
    return b.hex() if len(b) <= 64 else f"{b[:16].hex()}... ({len(b)} bytes)"


def h(label, size=32):
    """`size` bytes that depend on a label."""
    out = b""
    while len(out) < size:
        out += hashlib.sha256(f"{label}/{len(out)}".encode()).digest()
    return out[:size]


AT = 1_767_225_600_000
SESSION, INV = h("session", 16), h("invocation", 16)
EP = ["ep1", 4, h("leaf 8")]
NO_PREV = bytes(32)


def event(kind, body, ep=None, inv=None, seq=9, prev=None, at=AT, v=1):
    return [v, seq, at, h("leaf 8") if prev is None else prev, kind, ep, inv, body]


def key(use, reason="genesis", **change):
    alg, pub, pop = ("ml-dsa-44", 1312, 2420) if use == "cosign" else ("ed25519", 32, 64)
    body = {"id": h(f"id {use}", 4), "alg": alg, "use": use, "pub": h(f"pub {use}", pub), "from": 0,
            "until": None, "reason": reason, "pop": h(f"pop {use}", pop)}
    return body | change


GENESIS = {"format": "worldlog/log/v1", "origin": "worldlog.local/8c5a1f02",
           "keys": [key("head"), key("cosign"), key("cose")], "predecessor": None}
TRANSITION = {"tool": "ailang-read", "source": h("source"), "engine": "ailang/1",
              "access": ["Workspace.Read", "worktree", 1],
              "declared": [["Workspace.Read", "worktree", 1]], "finish": False, "schema": h("schema")}
AGENT = {"id": SESSION, "cred": h("cred"), "role": "agent", "expires": AT + 86_400_000,
         "grants": [["Workspace.Read", "worktree", 50, AT + 86_400_000, False],
                    ["Workspace.Write", "worktree", 20, AT + 3_600_000, True]], "label": h("label")}
PLAN = {"front": "mcp", "tool": "ailang-read", "transition": 4, "session": SESSION, "input": h("input"),
        "plan": h("plan"), "same": h("same", 16), "claim": h("claim"), "token": None}
INTENT = {"plan": 7, "effect": "Workspace.Read", "scope": "worktree", "cost": 1, "grant": 0, "before": 50,
          "request": h("request"), "files": []}
OUTCOME = {"plan": 7, "intent": 8, "status": "ok", "denial": None, "charge": 1, "record": h("record"),
           "result": h("result"), "seen": [[h("path", 16), h("content", 16)]], "recovered": False}
DENIED = OUTCOME | {"intent": None, "status": "denied", "denial": "denied:budget", "charge": 0,
                    "result": None, "seen": []}
COMMIT = {"entry": 0, "plan": 7, "outcome": 9, "output": h("output"), "refused": False}
CLOSURE = {"intent": 8, "verdict": "in-doubt", "charge": 1, "evidence": "other", "record": h("record"),
           "by": "recovery"}
APPROVAL = {"token": h("token"), "verdict": "approve", "session": SESSION, "by": None, "until": AT + 600_000}
HOOK = {"plan": 7, "point": "before", "name": "no-secrets", "verdict": "pass"}
REDACTION = {"refs": [h("ref 1"), h("ref 2")], "reason": "secret", "by": h("auditor", 16)}
SEAL = {"size": 9, "episodes": h("episodes"), "fold": 1, "state": h("state")}


def call(kind, body, **change):
    return event(kind, body, EP, INV, **change)


def nest(levels):
    return [] if levels == 1 else [nest(levels - 1)]


def closure(verdict, evidence, by="recovery", charge=1):
    return call("closure", CLOSURE | {"verdict": verdict, "evidence": evidence, "by": by, "charge": charge})


def filled(size):
    """An extension of exactly `size` bytes."""
    data = size - len(enc(event("x-fill", {"data": b""}))) - 2
    return event("x-fill", {"data": b"\xaa" * data})


CHANGE = [h("path", 16), h("content", 16), h("content 2", 16)]
FIRST = dict(seq=0, prev=NO_PREV)
OK = {
    "genesis": event("genesis", GENESIS, **FIRST),
    "genesis-successor": event("genesis", GENESIS | {"predecessor": {
        "origin": "worldlog.local/00c0ffee", "size": 70_000, "root": h("root")}}, **FIRST),
    "key-rotation": event("key", key("head", "rotation", **{"from": 10})),
    "key-compromise": event("key", key("cosign", "compromise", until=2**53 - 1)),
    "transition": event("transition", TRANSITION),
    "episode": event("episode", {"base_commit": None}, ["ep1", 0, NO_PREV]),
    "episode-base": event("episode", {"base_commit": h("base")}, ["0-" + "a" * 62, 0, NO_PREV]),
    "session-agent": event("session", AGENT, EP),
    "session-auditor": event("session", AGENT | {"role": "auditor", "grants": [], "label": None}),
    "session-approver": event("session", AGENT | {"role": "approver", "grants": [], "label": None}),
    "revocation": event("revocation", {"session": SESSION, "reason": "compromise"}, EP),
    "freeze-episode": event("freeze", {"frozen": True}, EP),
    "freeze-all": event("freeze", {"frozen": False}),
    "plan": call("plan", PLAN),
    "plan-token": call("plan", PLAN | {"front": "a2a", "token": h("token")}),
    "plan-admin": call("plan", PLAN | {"front": "admin", "tool": "undo", "transition": None,
                                       "session": None, "claim": None}),
    "intent": call("intent", INTENT),
    "intent-files": call("intent", INTENT | {"effect": "Workspace.Write", "files": [
        CHANGE, [h("path 2", 16), None, h("content 3", 16)], [h("path 3", 16), h("content 4", 16), None]]}),
    "intent-files-512": call("intent", INTENT | {"files": [CHANGE] * 512}),
    "intent-admin": call("intent", INTENT | {"grant": None, "cost": 0, "before": 0}),
    "outcome": call("outcome", OUTCOME),
    "outcome-failed": call("outcome", OUTCOME | {"status": "failed", "result": None, "seen": []}),
    "outcome-recovered": call("outcome", OUTCOME | {"recovered": True}),
    "commit": call("commit", COMMIT),
    "commit-pure": call("commit", COMMIT | {"outcome": None, "refused": True}),
    "closure-landed": closure("landed", "after"),
    "closure-not-happened-before": closure("not-happened", "before", "deadline", 0),
    "closure-not-happened-harmless": closure("not-happened", "harmless", charge=0),
    "closure-in-doubt": closure("in-doubt", "other"),
    "closure-in-doubt-run": closure("in-doubt", "run", "deadline"),
    "closure-unrecorded": closure("unrecorded", "record"),
    "closure-person": closure("landed", "person", "operator"),
    "approval": event("approval", APPROVAL, EP),
    "approval-decline": event("approval", APPROVAL | {"verdict": "decline", "by": h("approver", 16)}, EP),
    "approval-expire": event("approval", APPROVAL | {"verdict": "expire"}, EP),
    "hook": call("hook", HOOK),
    "hook-block": call("hook", HOOK | {"point": "after", "verdict": "block"}),
    "redaction": event("redaction", REDACTION, EP),
    "redaction-episode": event("redaction", REDACTION | {"refs": None, "by": None, "reason": "law"}, EP),
    "seal": event("seal", SEAL),
    "x-extension": event("x-acme-note", {"n": 1, "ok": None, "text": "caf\u00e9", "list": [True, b"\0"]}),
    "x-empty-map": call("x-0", {}),
    "x-depth-8": event("x-deep", {"a": nest(6)}),
    "x-longest-kind": event("x-" + "k" * 62, {"a": 0}),
    "x-longest-event": filled(65_535),
    "uint-greatest": event("x-uint", {"a": 2**53 - 1}, seq=2**53 - 1, at=2**53 - 1),
    "uint-widths": event("x-uint", {"a": [23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32]}),
}
for word in "effect-name scope expired budget token approval hook loop".split():
    OK[f"outcome-denied-{word}"] = call("outcome", DENIED | {"denial": f"denied:{word}"})

ERR = {}


def err(name, item, code, at=None):
    """A refused event; `at` is an offset, or the bytes at which the fault lies."""
    data = item if isinstance(item, bytes) else enc(item)
    if isinstance(at, bytes):
        assert data.count(at) == 1, name
        at = data.index(at)
    ERR[name] = (item, data, code if at is None else f"{code} at {at}")


def x(body, **change):
    return event("x-test", body, **change)


def bad(name, raw, code, skip=0):
    """The fault lies in the value of an extension's member, `skip` bytes into it."""
    raw = Raw(raw)
    at = enc(x({"a": raw})).rindex(enc("a") + raw.bytes) + 2 + skip
    err(name, x({"a": raw}), code, at)


def canonical_faults():
    whole = enc(call("freeze", {"frozen": True}))
    err("empty", b"", "truncated", 0)
    err("array-alone", whole[:1], "truncated", 0)
    err("truncated-seq", b"\x88\x01\x19\x01", "truncated", 0)
    err("truncated-prev", whole[:30], "truncated", whole.index(h("leaf 8")) - 2)
    err("truncated-kind", whole[:whole.index(b"freeze") + 2], "truncated", b"\x66fr")
    err("truncated-before-body", whole[:whole.index(b"\xa1\x66frozen")], "truncated",
        whole.index(b"\xa1\x66frozen"))
    err("truncated-last-byte", whole[:-1], "truncated", len(whole) - 1)
    err("trailing-byte", whole + b"\0", "trailing", len(whole))
    err("trailing-event", whole + whole, "trailing", len(whole))
    for width, raw in ((1, "1817"), (2, "1900ff"), (4, "1a0000ffff"), (8, "1b00000000ffffffff")):
        bad(f"not-shortest-uint-{8 * width}", raw, "not-shortest")
    bad("not-shortest-bytes", "580100", "not-shortest")
    bad("not-shortest-text", "780161", "not-shortest")
    bad("not-shortest-array", "980100", "not-shortest")
    bad("not-shortest-map", "b801616100", "not-shortest")
    err("not-shortest-seq", event("x-test", {}, seq=Raw("1809")), "not-shortest", 2)
    bad("indefinite-array", "9f00ff", "indefinite")
    bad("indefinite-map", "bf616100ff", "indefinite")
    bad("indefinite-bytes", "5f4100ff", "indefinite")
    bad("indefinite-text", "7f6161ff", "indefinite")
    bad("break", "ff", "indefinite")
    err("indefinite-envelope", b"\x9f" + whole[1:] + b"\xff", "indefinite", 0)
    bad("float-16", "f93c00", "forbidden")
    bad("float-32", "fa3f800000", "forbidden")
    bad("float-64", "fb3ff0000000000000", "forbidden")
    bad("tag", "c001", "forbidden")
    bad("tag-bignum", "c24101", "forbidden")
    bad("negative", "20", "forbidden")
    bad("undefined", "f7", "forbidden")
    bad("simple", "e0", "forbidden")
    bad("simple-24", "f8ff", "forbidden")
    bad("simple-false-long", "f814", "forbidden")
    bad("reserved-head", "1c", "forbidden")
    bad("uint-2-53", "1b0020000000000000", "too-large")
    bad("uint-2-64", "1bffffffffffffffff", "too-large")
    err("seq-2-53", event("x-test", {}, seq=2**53), "too-large", 2)
    bad("not-utf8", "61ff", "not-utf8")
    bad("not-utf8-overlong", "62c080", "not-utf8")
    bad("not-utf8-surrogate", "63eda080", "not-utf8")
    err("not-utf8-kind", event(Raw("62c328"), {}), "not-utf8", b"\x62\xc3\x28")
    err("not-utf8-key", x(Raw("a161ff00")), "not-utf8", b"\x61\xff\x00")
    bad("announced-too-long", "5affffffff", "truncated")
    bad("announced-too-many", "9affffffff", "truncated")
    bad("depth-9", enc(nest(7)), "too-deep", skip=6)
    err("duplicate-key", x(Raw("a2616100616101")), "duplicate-key", b"\x61\x61\x01")
    err("duplicate-key-apart", x(Raw("a3616100616200616101")), "key-order", b"\x61\x61\x01")
    err("key-order", x(Raw("a2616200616100")), "key-order", b"\x61\x61\x00")
    err("key-order-length-first", x(Raw("a262616100617a00")), "key-order", b"\x61\x7a\x00")
    err("key-bytes", x(Raw("a1414100")), "key-type", b"\x41\x41\x00")
    err("key-uint", x(Raw("a10100")), "key-type", len(enc(x({}))))
    err("too-long", filled(65_536), "too-long")


def envelope_faults():
    err("not-an-array", enc({"v": 1}), "unexpected", 0)
    err("seven-items", event("x-test", {})[:7], "unexpected", 0)
    err("nine-items", event("x-test", {}) + [None], "unexpected", 0)
    err("version-0", event("x-test", {}, v=0), "version 0")
    err("version-2", event("x-test", {}, v=2), "version 2")
    err("version-text", event("x-test", {}, v="1"), "unexpected", 1)
    err("seq-null", event("x-test", {}, seq=Raw("f6")), "unexpected", 2)
    err("at-text", event("x-test", {}, at="x"), "unexpected", 3)
    for size in (31, 33):
        err(f"prev-{size}-bytes", event("x-test", {}, prev=bytes(size)), "unexpected",
            enc([1, 9, AT]).__len__())
    err("prev-text", event("x-test", {}, prev="p" * 32), "unexpected", len(enc([1, 9, AT])))
    err("kind-bytes", event(b"x-test", {}), "unexpected", b"\x46x-test")
    err("body-array", event("x-test", []), "unexpected", len(enc(event("x-test", []))) - 1)
    err("body-null", event("freeze", None), "unexpected", len(enc(event("freeze", None))) - 1)
    err("ep-two-items", event("x-test", {}, EP[:2]), "unexpected", b"\x82\x63ep1")
    err("ep-text", event("x-test", {}, "ep1"), "unexpected", b"\x63ep1")
    err("ep-prev-31-bytes", event("x-test", {}, ["ep1", 4, bytes(31)]), "unexpected", b"\x58\x1f\0")
    err("inv-15-bytes", event("x-test", {}, EP, bytes(15)), "unexpected", b"\x4f\0")
    for name, text in (("empty", ""), ("upper", "Ep1"), ("dash-first", "-ep"), ("dot", "ep.1"),
                       ("65", "e" * 65), ("accent", "\u00e9p"), ("slash", "a/b")):
        err(f"episode-name-{name}", event("x-test", {}, [text, 4, h("leaf 8")]), "episode-name")
    for name, text in (("unknown", "checkpoint"), ("empty", ""), ("case", "Freeze"), ("x-alone", "x-"),
                       ("x-upper", "x-Note"), ("x-dash", "x--a"), ("x-long", "x-" + "k" * 63)):
        err(f"kind-{name}", event(text, {}), "kind")


def body(name, kind, map_, field=""):
    err(f"{kind}-{name}", event(kind, map_, EP, INV), f"body {kind} {field}".rstrip())


def body_faults():
    sample = {"genesis": GENESIS, "key": key("head", "rotation"), "transition": TRANSITION,
              "episode": {"base_commit": None}, "session": AGENT,
              "revocation": {"session": SESSION, "reason": "operator"}, "freeze": {"frozen": True},
              "plan": PLAN, "intent": INTENT, "outcome": OUTCOME, "commit": COMMIT, "closure": CLOSURE,
              "approval": APPROVAL, "hook": HOOK, "redaction": REDACTION, "seal": SEAL}
    for kind, whole in sample.items():
        for field in sorted(whole):
            less = {k: v for k, v in whole.items() if k != field}
            body(f"without-{field.replace('_', '-')}", kind, less, field)
        body("extra-field", kind, whole | {"zz": 0}, "zz")
    for kind, field in (("genesis", "keys"), ("key", "from"), ("transition", "access"), ("session", "grants"),
                        ("revocation", "reason"), ("freeze", "frozen"), ("plan", "same"), ("intent", "files"),
                        ("outcome", "status"), ("commit", "entry"), ("closure", "charge"), ("approval", "until"),
                        ("hook", "name"), ("redaction", "reason"), ("seal", "state")):
        body(f"null-{field}", kind, sample[kind] | {field: None})
    for kind, field, size in (("key", "id", 4), ("transition", "source", 32), ("session", "id", 16),
                              ("session", "cred", 32), ("plan", "claim", 32), ("plan", "same", 16),
                              ("intent", "request", 32), ("seal", "state", 32), ("episode", "base_commit", 32)):
        for wrong in (size - 1, size + 1):
            body(f"{field.replace('_', '-')}-{wrong}-bytes", kind, sample[kind] | {field: bytes(wrong)})
    for kind, field in (("key", "use"), ("key", "alg"), ("key", "reason"), ("session", "role"), ("plan", "front"),
                        ("outcome", "status"), ("closure", "verdict"), ("closure", "evidence"), ("closure", "by"),
                        ("approval", "verdict"), ("hook", "point"), ("hook", "verdict"), ("redaction", "reason"),
                        ("revocation", "reason")):
        body(f"unknown-{field}", kind, sample[kind] | {field: "other-word"})
        body(f"map-{field}", kind, sample[kind] | {field: {sample[kind][field]: None}})
    for kind, field in (("genesis", "keys"), ("transition", "declared"), ("session", "grants"), ("intent", "files"),
                        ("outcome", "seen"), ("redaction", "refs")):
        body(f"bytes-{field}", kind, sample[kind] | {field: b""})
    rules(sample)


def rules(sample):
    def with_(kind, name, field, change):
        body(name, kind, sample[kind] | change, field)

    keys = GENESIS["keys"]
    with_("genesis", "format", "format", {"format": "worldlog/log/v2"})
    for name, text in (("empty", ""), ("256", "o" * 256), ("plus", "a+b"), ("space", "a b"), ("accent", "\u00e9")):
        with_("genesis", f"origin-{name}", "origin", {"origin": text})
    with_("genesis", "predecessor-origin", "origin",
          {"predecessor": {"origin": "a b", "size": 1, "root": h("root")}})
    with_("genesis", "two-keys", "keys", {"keys": keys[:2]})
    with_("genesis", "four-keys", "keys", {"keys": keys + keys[:1]})
    with_("genesis", "keys-order", "keys", {"keys": keys[::-1]})
    with_("genesis", "key-as-array", "", {"keys": [list(keys[0].values())] + keys[1:]})
    with_("genesis", "key-reason", "reason", {"keys": [key("head", "rotation")] + keys[1:]})
    with_("key", "reason-genesis", "reason", {"reason": "genesis"})
    with_("key", "alg-not-of-use", "alg", {"alg": "ml-dsa-44"})
    with_("key", "pub-33-bytes", "pub", {"pub": bytes(33)})
    with_("key", "pop-63-bytes", "pop", {"pop": bytes(63)})
    with_("key", "until-before-from", "until", {"from": 5, "until": 4})
    for name, text in (("empty", ""), ("space", "a b"), ("129", "t" * 129), ("accent", "\u00e9"), ("del", "\x7f")):
        with_("transition", f"tool-{name}", "tool", {"tool": text})
    with_("transition", "engine-empty", "engine", {"engine": ""})
    with_("transition", "access-two-items", "", {"access": ["Workspace.Read", "worktree"]})
    with_("transition", "access-four-items", "", {"access": ["Workspace.Read", "worktree", 1, 0]})
    with_("transition", "declared-four-items", "", {"declared": [["Workspace.Read", "worktree", 1, "hidden"]]})
    with_("transition", "declared-scope", "scope", {"declared": [["Workspace.Read", "", 1]]})
    with_("transition", "finish-uint", "", {"finish": 1})
    with_("session", "grant-four-items", "", {"grants": [["Workspace.Read", "worktree", 50, AT]]})
    with_("session", "grant-six-items", "", {"grants": [["Workspace.Read", "worktree", 50, AT, True, 0]]})
    with_("session", "grant-effect", "effect", {"grants": [["Workspace Read", "worktree", 50, AT, True]]})
    with_("session", "grants-map", "", {"grants": {}})
    with_("plan", "tool-space", "tool", {"tool": "ailang read"})
    with_("plan", "same-text", "", {"same": "s" * 16})
    with_("plan", "same-array", "", {"same": [0] * 16})
    with_("intent", "effect-space", "effect", {"effect": "Workspace Read"})
    with_("intent", "scope-empty", "scope", {"scope": ""})
    with_("intent", "files-513", "files", {"files": [CHANGE] * 513})
    with_("intent", "file-two-items", "", {"files": [CHANGE[:2]]})
    with_("intent", "file-four-items", "", {"files": [CHANGE + [None]]})
    with_("outcome", "denial-on-ok", "denial", {"denial": "denied:scope"})
    with_("outcome", "denied-without-denial", "denial", {"status": "denied", "intent": None, "result": None})
    with_("outcome", "denied-with-intent", "intent", {"status": "denied", "denial": "denied:scope"})
    with_("outcome", "ok-without-intent", "intent", {"intent": None})
    with_("outcome", "denied-with-result", "result",
          {"status": "denied", "denial": "denied:scope", "intent": None})
    with_("outcome", "seen-null-content", "", {"seen": [[h("path", 16), None]]})
    with_("outcome", "seen-513", "seen", {"seen": [[h("path", 16), h("content", 16)]] * 513})
    for verdict, evidence, by in (("landed", "before", "recovery"), ("landed", "person", "recovery"),
                                  ("landed", "after", "operator"), ("not-happened", "after", "recovery"),
                                  ("in-doubt", "record", "recovery"), ("in-doubt", "person", "operator"),
                                  ("unrecorded", "other", "deadline")):
        with_("closure", f"{verdict}-{evidence}-{by}", "evidence",
              {"verdict": verdict, "evidence": evidence, "by": by})
    for name, text in (("empty", ""), ("33", "n" * 33), ("upper", "No"), ("accent", "\u00e9")):
        with_("hook", f"name-{name}", "name", {"name": text})
    with_("redaction", "refs-empty", "refs", {"refs": []})
    with_("redaction", "refs-31-bytes", "", {"refs": [bytes(31)]})


def mac(k, *parts):
    return hmac.new(k, b"".join(parts), hashlib.sha256).digest()


def blind():
    """Lines `name value`; an event is followed by its opening."""
    k = h("episode key")
    out = [("key", k.hex()), ("inv", INV.hex())]

    def k_inv(inv):
        return mac(k, b"inv", inv or bytes(16))

    def path(text):
        return mac(k, b"path", text.encode())[:16]

    def content(label):
        return label and mac(k, b"file", h(label))[:16]

    token = "sha256:" + h("token").hex()
    out += [("invocation-key", k_inv(INV).hex()), ("no-invocation-key", k_inv(None).hex()),
            ("object", h("object").hex()), ("bref", mac(k_inv(INV), h("object")).hex()),
            ("path src/main.ail", path("src/main.ail").hex()), ("content", content("object").hex()),
            ("same", mac(k, b"plan", h("object"))[:16].hex()),
            ("claim mcp call-7", mac(k, b"mcp\0call-7").hex()), ("claim a2a call-7", mac(k, b"a2a\0call-7").hex()),
            ("claim surface call-7", mac(k, b"surface\0call-7").hex()),
            ("claim admin call-7", mac(k, b"admin\0call-7").hex()),
            (f"token {token}", mac(k, b"token", token.encode()).hex()), ("label nightly", mac(k, b"labelnightly").hex())]

    def opened(kind, body, refs, files=(), inv=INV):
        body = body | {field: mac(k_inv(inv), h(label)) for field, label in refs}
        if kind == "intent":
            body["files"] = [[path(p), content(a), content(b)] for p, a, b in files]
        if kind == "outcome":
            body["seen"] = [[path(p), content(a)] for p, a, b in files]
        opening = [[h(label) for _, label in refs], [[p, a and h(a), b and h(b)] for p, a, b in files],
                   [h("further")]]
        out.extend([("event", enc(event(kind, body, EP, inv)).hex()), ("opening", enc(opening).hex())])

    opened("episode", {}, [("base_commit", "base")], inv=None)
    opened("plan", PLAN, [("plan", "plan"), ("input", "input")])
    opened("intent", INTENT, [("request", "request")],
           [("a.txt", "one", "two"), ("new.txt", None, "three"), ("old/\u00e9.txt", "four", None)])
    opened("outcome", OUTCOME, [("record", "record"), ("result", "result")], [("a.txt", "two", None)])
    opened("outcome", OUTCOME | {"result": None}, [("record", "record")])
    opened("commit", COMMIT, [("output", "output")])
    opened("closure", CLOSURE, [("record", "record of closure")])
    opened("hook", HOOK, [])
    return "".join(f"{name} {value}\n" for name, value in out)


def lines(data):
    """Hexadecimal, where a long run of one unit becomes one line."""
    for unit in (b"\xaa", enc(CHANGE), enc([h("path", 16), h("content", 16)])):
        run = re.search(b"(?:" + re.escape(unit) + b"){500,}", data)
        if run:
            count = len(run.group()) // len(unit)
            return lines(data[:run.start()]) + [f"{unit.hex()}*{count}"] + lines(data[run.end():])
    text = data.hex()
    return [text[i:i + 96] for i in range(0, len(text), 96)]


def files():
    canonical_faults()
    envelope_faults()
    body_faults()
    out = {"blind.txt": blind()}
    for name, item in OK.items():
        data = enc(item)
        leaf = hashlib.sha256(b"\0" + data).hexdigest()
        out[f"ok/{name}.hex"] = "".join(f"{line}\n" for line in lines(data))
        out[f"ok/{name}.txt"] = f"expect: ok\nleaf: {leaf}\n\n{diag(item)}\n"
    for name, (item, data, expect) in ERR.items():
        shown = f"h'{short(data)}'" if isinstance(item, bytes) else diag(item)
        out[f"err/{name}.hex"] = "".join(f"{line}\n" for line in lines(data))
        out[f"err/{name}.txt"] = f"expect: {expect}\n\n{shown}\n"
    return out


def main():
    want = files()
    have = {str(p.relative_to(ROOT)): p.read_text() for p in ROOT.rglob("*.*")}
    if "--check" in sys.argv[1:]:
        wrong = sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))
        print("\n".join(wrong) if wrong else f"{len(want)} files agree")
        return 1 if wrong else 0
    for name in have.keys() - want.keys():
        (ROOT / name).unlink()
    for name, text in want.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text)
    print(f"{len(want)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
