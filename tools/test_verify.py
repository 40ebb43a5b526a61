#!/usr/bin/env python3
"""Tests of verify.py and lawful.py: makes small logs with an encoder of its own, exports them, breaks them, and looks at
the verdicts of both programs.

    test_verify.py [WORD]    only the cases whose name contains WORD

With the path of a binary of worldlog in WORLDLOG_BINARY, its exit code is compared too, and each other one is told.
test_verify.key has the public ML-DSA-44 key and its proof of possession of a log of this origin: Python makes no such key.
"""

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ed25519
import lawful
import verify

TOOLS = Path(__file__).resolve().parent
FIXTURES = TOOLS.parent / "fixtures"
ORIGIN = "worldlog.local/248a7738"
DAY = 86_400_000
START = 1_767_225_600_000


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), "sha256").digest()


def cbor(v):
    """Canonical CBOR."""
    if v is None or isinstance(v, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[v]
    if isinstance(v, int):
        return head(0, v)
    if isinstance(v, bytes):
        return head(2, len(v)) + v
    if isinstance(v, str):
        return head(3, len(v.encode())) + v.encode()
    if isinstance(v, (list, tuple)):
        return head(4, len(v)) + b"".join(map(cbor, v))
    return head(5, len(v)) + b"".join(k + x for k, x in sorted((cbor(k), cbor(x)) for k, x in v.items()))


def head(major, n):
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 24:
            return bytes([major << 5 | n])
        if n < 1 << 8 * size:
            return bytes([major << 5 | info]) + n.to_bytes(size, "big")
    raise ValueError(n)


def root(leaves):
    """The root over leaf hashes, by the definition."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return sha(b"\x01", root(leaves[:k]), root(leaves[k:]))


def map_root(pairs, bit=0):
    """The root of a map, by the definition."""
    if len(pairs) < 2:
        return sha(b"\x00", *pairs[0]) if pairs else bytes(32)
    sides = [], []
    for key, value in pairs:
        sides[key[bit // 8] >> 7 - bit % 8 & 1].append((key, value))
    return sha(b"\x01", map_root(sides[0], bit + 1), map_root(sides[1], bit + 1))


def digest(state):
    """The digest of the rows, by the definition."""
    return map_root([(sha(cbor([table, key])), sha(cbor(row)))
                     for table, rows in state.rows.items() for key, row in rows.items()])


def fixture(path):
    out = b""
    for line in path.read_text().split():
        unit, _, count = line.partition("*")
        out += bytes.fromhex(unit) * int(count or 1)
    return out


COSIGN = base64.b64decode((TOOLS / "test_verify.key").read_text())
COSIGN = {"pub": COSIGN[:1312], "pop": COSIGN[1312:]}
K_EP = sha(b"the key of the episode")
SESSION, AUDITOR = sha(b"session")[:16], sha(b"auditor")[:16]
KEY_TYPES = {"head": b"\x01", "cosign": b"\x06", "cose": b"\xffworldlog/cose/v1"}


def key(use, seed, reason="genesis", origin=ORIGIN, **changes):
    pub = COSIGN["pub"] if use == "cosign" else ed25519.public(seed)
    message = b"worldlog/pop/v1\n%s\n%s\n%s" % (origin.encode(), use.encode(), pub)
    return {"id": sha(origin.encode(), b"\n", KEY_TYPES[use], pub)[:4], "use": use, "pub": pub, "from": 0, "until": None,
            "alg": "ml-dsa-44" if use == "cosign" else "ed25519", "reason": reason,
            "pop": COSIGN["pop"] if use == "cosign" else ed25519.sign(seed, message), **changes}


SEED = sha(b"a public seed")
KEYS = [key("head", SEED), key("cosign", None), key("cose", sha(b"another public seed"))]


def vkey(seed=SEED, origin=ORIGIN):
    typed = b"\x01" + ed25519.public(seed)
    return "%s+%s+%s" % (origin, sha(origin.encode(), b"\n", typed)[:4].hex(), base64.b64encode(typed).decode())


def checkpoint(leaves, seed=SEED, origin=ORIGIN):
    text = "%s\n%d\n%s\n" % (origin, len(leaves), base64.b64encode(root(leaves)).decode())
    line = bytes.fromhex(vkey(seed, origin).split("+")[1]) + ed25519.sign(seed, text.encode())
    cosign = bytes(4) + bytes(8) + COSIGN["pop"]  # of a key that nobody knows
    return text + "\n" + "".join("\u2014 %s %s\n" % (origin, base64.b64encode(x).decode()) for x in (cosign, line))


class Log:
    """Events as a server writes them, lawful or not, with their objects and openings."""

    def __init__(self, keys=KEYS, origin=ORIGIN):
        self.events, self.leaves, self.chains = [], [], {}
        self.openings, self.objects, self.at, self.invocations, self.ended = {}, {}, START, 0, None
        self.state = lawful.State()  # only for its rows; the digest over them is computed here
        self.add("genesis", {"format": "worldlog/log/v1", "origin": origin, "keys": keys, "predecessor": None})

    def add(self, kind, body, ep=None, inv=None, seq=None, prev=None, link=None, refs=(), files=(), more=()):
        seq = len(self.events) if seq is None else seq
        link = link or (ep and [ep, *self.chains.get(ep, (0, bytes(32)))])
        prev = prev or (self.leaves[-1] if self.leaves else bytes(32))
        self.append(cbor([1, seq, self.at, prev, kind, link, inv, body]), ep)
        if refs and ep:
            self.openings.setdefault(ep, []).append([seq, [list(refs), list(files), list(more)]])
        return seq

    def append(self, data, ep=None):
        self.events.append(data)
        self.leaves.append(sha(b"\x00", data))
        if ep:
            self.chains[ep] = (self.chains.get(ep, (0, 0))[0] + 1, self.leaves[-1])
        try:
            self.state.fold(verify.read_event(data), self.leaves[-1])
        except verify.Refused:
            pass
        return len(self.events) - 1

    def object(self, ep, value):
        data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        self.objects[ep or "_", sha(data).hex()] = data
        return sha(data)

    def begin(self, budget=1000, confirm=False, schema=b"{}", ep="ep1"):
        self.add("episode", {"base_commit": None}, ep)
        self.transition = self.add("transition", {
            "tool": "write", "source": self.object(None, b"source"), "engine": "engine/1",
            "access": ["write", "worktree", 1], "declared": [["write", "worktree", 1]], "finish": True,
            "schema": self.object(None, schema)})
        self.session(budget, confirm)
        self.add("session", {"id": AUDITOR, "cred": sha(b"cred of the auditor"), "role": "auditor", "grants": [],
                             "expires": START + DAY, "label": mac(K_EP, b"label", b"somebody")})
        return self

    def session(self, budget=1000, confirm=False, ep="ep1", cred=b"cred", expires=START + DAY):
        self.add("session", {"id": SESSION, "cred": sha(cred), "role": "agent", "expires": expires, "label": None,
                             "grants": [["write", "worktree", budget, START + DAY, confirm]]}, ep)

    def left(self, ep="ep1"):
        spent = self.state.rows["spent"].get((ep, "write", "worktree"), {"charged": 0, "reserved": 0})
        grants = self.state.rows["session"][SESSION]["grants"] if SESSION in self.state.rows["session"] else [[0, 0, 0]]
        return max(0, grants[0][2] - spent["charged"] - spent["reserved"])

    def plan(self, ep="ep1", claim=None, token=None, front="mcp", **changes):
        self.invocations += 1
        self.ep, self.inv = ep, sha(b"inv%d" % self.invocations)[:16]
        refs = self.object(ep, {"plan": "world/effect-plan/v1"}), self.object(ep, {"path": "a.txt", "n": self.invocations})
        admin = front == "admin"
        self.planned = self.add("plan", {
            "front": front, "tool": "write", "transition": None if admin else self.transition,
            "session": None if admin else SESSION, "same": mac(K_EP, b"plan", refs[0])[:16],
            "claim": claim and mac(K_EP, b"mcp\x00", claim), "token": token and mac(K_EP, b"token", token),
            **self.brefs({"plan": refs[0], "input": refs[1]}), **changes}, ep, self.inv, refs=refs)
        return self

    def brefs(self, plain):
        return {field: mac(mac(K_EP, b"inv", self.inv), ref) for field, ref in plain.items()}

    def intent(self, **changes):
        self.before = changes.get("before", self.left())
        refs = [self.object(self.ep, {"request": self.invocations})]
        path, old, new = mac(K_EP, b"path", b"a.txt")[:16], sha(b"old"), sha(b"new%d" % self.invocations)
        token = mac(K_EP, b"file", new)[:16]
        self.intended = self.add("intent", {
            "plan": self.planned, "effect": "write", "scope": "worktree", "cost": 1, "grant": 0, "before": self.before,
            "files": [[path, None, token]], **self.brefs({"request": refs[0]}), **changes},
            self.ep, self.inv, refs=refs, files=[["a.txt", None, new]])
        return self

    def outcome(self, status="ok", record=None, plain=None, more=(), **changes):
        denied = status == "denied"
        account = {"effect": "write", "scope": "worktree", "cost": 1, "budgetBefore": self.left() if denied else self.before,
                   "status": status, "denial": "denied:budget" if denied else None, "n": 0.5, "who": "\u00e9\n\U0001f600"}
        account.update({"cost": 0} if changes.get("charge") == 0 and not denied else {})
        data = json.dumps({**account, **(record or {})}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        refs = {"record": self.object(self.ep, data.encode())}
        if not denied:
            refs["result"] = self.object(self.ep, plain or {"ok": True})
        content = sha(b"new%d" % self.invocations)
        self.ended = self.add("outcome", {
            "plan": self.planned, "intent": None if denied else self.intended, "status": status, "charge": 0 if denied else 1,
            "denial": "denied:budget" if denied else None, "result": None, "recovered": False,
            "seen": [[mac(K_EP, b"path", b"a.txt")[:16], mac(K_EP, b"file", content)[:16]]],
            **self.brefs(refs), **changes}, self.ep, self.inv, refs=list(refs.values()), files=[["a.txt", content, None]], more=more)
        return self

    def commit(self, **changes):
        ref = self.object(self.ep, {"answer": self.invocations})
        self.add("commit", {"entry": self.state.rows["log"][None]["entries"], "plan": self.planned, "outcome": self.ended,
                            "refused": False, **self.brefs({"output": ref}), **changes}, self.ep, self.inv, refs=[ref])
        return self

    def closure(self, verdict, evidence, by="recovery", charge=1, **changes):
        ref = self.object(self.ep, {"closed": verdict})
        self.add("closure", {"intent": self.intended, "verdict": verdict, "evidence": evidence, "by": by, "charge": charge,
                             **self.brefs({"record": ref}), **changes}, self.ep, self.inv, refs=[ref])
        return self

    def call(self, result=None, more=(), **plan):
        return self.plan(**plan).intent().outcome(plain=result, more=more).commit()

    def seal(self, **changes):
        episodes = [(sha(name.encode()), sha(n.to_bytes(8, "big"), last)) for name, (n, last) in self.chains.items()]
        self.add("seal", {"size": len(self.events), "episodes": map_root(episodes), "fold": 1, "state": digest(self.state),
                          **changes})
        return self

    def approve(self, token, **changes):
        self.add("approval", {"token": mac(K_EP, b"token", token), "verdict": "approve", "session": SESSION, "by": None,
                              "until": START + DAY, **changes}, "ep1")
        return self

    def export(self, out, events=None, leaves=None, public=False, seed=SEED, origin=ORIGIN):
        events = self.events if events is None else events
        leaves = [sha(b"\x00", data) for data in events] if leaves is None else leaves
        write(out, "checkpoint", checkpoint(self.leaves, seed, origin).encode())
        for at in range(0, len(events), 256):
            part = events[at:at + 256]
            path = verify.tile_path("entries", at // 256, len(part))
            write(out, path, b"".join(len(data).to_bytes(2, "big") + data for data in part))
        level, hashes = 0, leaves
        while hashes:
            for at in range(0, len(hashes), 256):
                write(out, verify.tile_path(level, at // 256, len(hashes[at:at + 256])), b"".join(hashes[at:at + 256]))
            hashes = [root(hashes[at:at + 256]) for at in range(0, len(hashes) - 255, 256)]
            level += 1
        write(out, "export.json", json.dumps({
            "export": "worldlog/export/v1", "origin": origin, "public": public, "size": len(self.leaves), "vkey": vkey(seed, origin),
            "root": base64.b64encode(root(self.leaves)).decode(), "vkeys": [vkey(seed, origin)]},
            sort_keys=True, separators=(",", ":")).encode())
        if public:
            return
        for (ep, name), data in self.objects.items():
            write(out, "objects/%s/%s" % (ep, name), data)
        for ep in self.chains:
            write(out, "keys/" + ep, K_EP.hex().encode() + b"\n")
            write(out, "openings/" + ep, b"".join(map(cbor, self.openings.get(ep, []))))


def write(out, path, data):
    path = Path(out) / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def rich():
    """A lawful log with every kind and every course of a call."""
    log = Log().begin()
    log.call().call(claim=b"task-1")
    log.plan().outcome("denied").commit(refused=True)
    log.plan()
    log.ended = None
    log.commit(refused=True)
    log.seal()
    log.plan()
    for point in ("before", "after"):
        log.add("hook", {"plan": log.planned, "point": point, "name": "lint", "verdict": "pass"}, "ep1", log.inv)
    log.intent().outcome("failed").commit()
    log.approve(b"sha256:t1").call(token=b"sha256:t1", claim=b"task-2")
    log.plan(claim=b"task-3").intent().closure("landed", "after").outcome(recovered=True).commit()
    log.plan(claim=b"task-4").intent().closure("not-happened", "before", charge=0).call(claim=b"task-4")
    log.plan(claim=b"task-5").intent().closure("in-doubt", "run").seal()
    held = log.planned, log.intended, log.inv, log.before
    log.call()
    log.planned, log.intended, log.inv, log.before = held
    log.closure("landed", "person", "operator").outcome(recovered=True).commit()
    log.plan(token=b"sha256:t2").intent().outcome().closure("unrecorded", "record")
    log.plan(token=b"sha256:t3").intent().closure("in-doubt", "other", "deadline")
    log.closure("not-happened", "person", "operator", 0)
    log.plan(front="admin").intent(cost=0, before=0, grant=None).outcome(charge=0).commit()
    for frozen in (True, False):
        log.add("freeze", {"frozen": frozen}, "ep1")
        log.add("freeze", {"frozen": frozen})
    log.add("key", key("cose", sha(b"cose 2"), "rotation"))
    log.add("x-note", {"any": [{"thing": b"\x01"}, None, True]}, "ep1", bytes(16))
    log.plan().intent().closure("in-doubt", "run").seal()
    log.session(2000, cred=b"new cred")
    while len(log.events) < 300:
        log.call()
    log.at = START + 3 * DAY
    log.add("episode", {"base_commit": None}, "ep2")
    log.seal()
    log.session(5000, cred=b"new cred", expires=START + 9 * DAY)
    log.add("revocation", {"session": SESSION, "reason": "operator"}, "ep1")
    return log.seal()


PASSED, FAILED = [], []


ONLY_LAWFUL = set("""key-unproven object-not-canonical same-differs record-differs export-differs leaf-changed state-differs
episodes-differ session-unknown session-not-live session-elsewhere session-changed refusal-unmarked recovery-unmarked
calls-overlap claim-repeated transition-unknown effect-undeclared frozen approval-missing token-repeated closure-unlawful
episode-unknown episode-repeated genesis-misplaced envelope-misfit by-unknown""".split())
BINARY = os.environ.get("WORLDLOG_BINARY")


def case(name, exit_code, codes, make, change=None, args=("--vkey", vkey()), says="", basic=None, **export):
    """Exports a log, changes the export; expects the exit code, all of the findings' codes, and words in the output.

    Of verify.py those codes are expected that it knows, or those of `basic`."""
    if len(sys.argv) > 1 and sys.argv[1] not in name:
        return
    with tempfile.TemporaryDirectory() as out:
        log = make() if callable(make) else make
        log.export(out, **export)
        if change:
            change(Path(out), log)
        args = [a.replace("OUT", out) for a in args]
        expect("lawful.py", name, out, args, exit_code, codes.split(), says)
        known = sorted(set(codes.split()) - ONLY_LAWFUL) if basic is None else basic.split()
        worst = min((verify.EXIT.get(code, 5 if exit_code == 5 else 3) for code in known), default=0)
        expect("verify.py", name, out, args, 1 if exit_code == 1 else worst, known, "")
        if BINARY:
            run = subprocess.run([BINARY, "verify", out, *args], capture_output=True, text=True)
            if run.returncode != exit_code:
                found = [line for line in run.stdout.splitlines() if line.startswith("finding")]
                print("BINARY %s: exit %d, here %d: %s; here %s" % (name, run.returncode, exit_code, found[:4], codes))


def expect(program, name, out, args, exit_code, codes, says):
    run = subprocess.run([sys.executable, str(TOOLS / program), out, *args], capture_output=True, text=True)
    found = sorted({line.split()[1] for line in run.stdout.splitlines() if line.startswith("FINDING")})
    verdict = "VERDICT: %s\n" % verify.VERDICTS[exit_code] if exit_code in verify.VERDICTS else ""
    good = run.returncode == exit_code and found == sorted(codes) and run.stdout.endswith(verdict) and says in run.stdout
    (PASSED if good else FAILED).append(name)
    if not good or run.stderr and exit_code != 1:
        print("FAILED %s %s: exit %d (%d is due), findings %s (%s)\n%s%s" % (
            program, name, run.returncode, exit_code, " ".join(found), " ".join(codes), run.stdout[-1500:], run.stderr))


def unlawful(name, code, make, exit_code=3, **more):
    case("law: " + name, exit_code, code, lambda: make(Log().begin()), **more)


def replaced(events, position, old, new):
    events = list(events)
    assert old in events[position]
    events[position] = events[position].replace(old, new)
    return events


def entries(log, out, events):
    """Overwrites the entries of an export, and nothing else."""
    log.export(out, events=events, leaves=log.leaves, public=True)
    export_json(out, log)


def edit(path, change):
    return lambda out, log: (out / path).write_bytes(change((out / path).read_bytes()))


def an_object(log, kind):
    """Path of the first object that the last event of a kind names."""
    for seq, (refs, _, _) in reversed(log.openings["ep1"]):
        if verify.read_event(log.events[seq]).kind == kind:
            return "objects/ep1/" + refs[0].hex()


def swap_objects(out, log):
    one, two = out / an_object(log, "commit"), out / an_object(log, "intent")
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def seen(leaves, seed=SEED, origin=ORIGIN):
    return lambda out, log: write(out, "seen", checkpoint(leaves(log), seed, origin).encode())


SEEN = ("--vkey", vkey(), "--seen", "OUT/seen")


def exports():
    good = rich()
    opened = sum(map(len, good.openings.values()))
    case("good", 0, "", good, says=" %d openings verified\n" % opened)
    case("good, with an earlier head", 0, "", good, seen(lambda log: log.leaves[:200]), SEEN)
    case("good, with the same head", 0, "", good, seen(lambda log: log.leaves), SEEN)
    case("good, with a head of nothing", 0, "", good, seen(lambda log: []), SEEN)
    case("good, with the key in a file", 0, "", good, lambda out, log: write(out, "key", b"# mine\n" + vkey().encode() + b"\n"),
         ("--vkey", "OUT/key"))
    case("public", 0, "", good, says="a public export: none there, none checked", public=True)
    case("result of any bytes", 0, "", lambda: Log().begin().call(result=b"\xff any bytes"))
    case("no key", 6, "no-key", good, args=(), says="consistent with %s inside" % KEYS[0]["id"].hex())
    case("no key, and signed by none inside", 3, "head-forged no-key", good, args=(), seed=sha(b"other"))
    case("key of another", 3, "head-forged", good, args=("--vkey", vkey(sha(b"other"))))
    case("key of another log", 3, "head-forged", good, args=("--vkey", vkey(origin="log.example/other")))
    case("head of another log", 3, "head-other-log key-foreign", good, origin="log.example/other",
         args=("--vkey", vkey(origin="log.example/other")))
    case("signed by another, and the log does not name him", 3, "key-foreign", good, args=("--vkey", vkey(sha(b"x"))), seed=sha(b"x"))
    case("signed by another, who copied the key id", 3, "head-forged", good,
         edit("checkpoint", lambda data: data[:-40] + (b"A" if data[-40:-39] != b"A" else b"B") + data[-39:]))
    case("signed twice", 3, "head-forged", good,
         edit("checkpoint", lambda data: data + data[data.rindex(b"\xe2\x80\x94"):]))
    case("shorter than seen", 4, "seen-longer", good, seen(lambda log: log.leaves + [sha(b"more")]), SEEN)
    case("not what was seen", 3, "seen-inconsistent", good, seen(lambda log: [sha(b"x")] + log.leaves[1:200]), SEEN)
    case("head seen by nobody we know", 3, "seen-other-log", good, seen(lambda log: log.leaves, sha(b"other")), SEEN)
    case("head seen of another log", 3, "seen-other-log", good, seen(lambda log: log.leaves, origin="log.example/other"), SEEN)
    case("head seen that is none", 3, "seen-other-log", good, lambda out, log: write(out, "seen", b"none"), SEEN)
    case("usage", 1, "", good, args=("--vkey", "nonsense"))
    case("no export", 1, "", good, lambda out, log: [(out / name).unlink() for name in ("checkpoint", "export.json")])
    case("no checkpoint", 6, "head-missing", good, lambda out, log: (out / "checkpoint").unlink())
    case("checkpoint with an extension line", 5, "head-malformed", good,
         edit("checkpoint", lambda data: data.replace(b"\n\n", b"\nmore\n\n")))
    bundle = "tile/entries/001.p/%d" % (len(good.events) - 256)
    case("bundle cut short", 4, "bundle-cut leaf-missing", good, edit(bundle, lambda data: data[:-1]))
    case("bundle with more", 5, "leaf-surplus", good, edit(bundle, lambda data: data + b"\0\1x"))
    case("bundle missing", 4, "bundle-missing leaf-missing", good, lambda out, log: (out / bundle).unlink())
    case("full bundle in place of a part", 0, "", good, lambda out, log: (
        write(out, "tile/entries/001", (out / bundle).read_bytes()), (out / bundle).unlink()))
    case("hash tile forged", 5, "tile-changed", good, edit("tile/0/000", lambda data: sha(b"x") + data[32:]))
    case("upper hash tile forged", 5, "tile-changed", good, edit("tile/1/000.p/1", lambda data: sha(b"x")))
    case("hash tile missing", 5, "tile-missing", good, lambda out, log: (out / "tile/0/000").unlink())
    case("hash tile of an earlier size forged", 5, "tile-changed", good, lambda out, log: write(out, "tile/0/000.p/1", sha(b"x")), basic="")
    case("objects swapped", 5, "object-changed", good, swap_objects)
    case("object missing", 5, "object-missing", good, lambda out, log: (out / an_object(log, "commit")).unlink())
    case("object under another name", 5, "object-changed", good,
         lambda out, log: write(out, "objects/ep1/" + "0" * 64, b"{}"), basic="")
    case("key of the episode missing", 5, "episode-key-missing", good, lambda out, log: (out / "keys/ep1").unlink())
    case("key of the episode malformed", 5, "episode-key-missing", good, edit("keys/ep1", lambda data: data[:-1]))
    case("key of the episode swapped", 5, "opening-differs", good, edit("keys/ep1", lambda data: b"0" * 64 + b"\n"))
    case("openings missing", 5, "opening-missing", good, lambda out, log: (out / "openings/ep1").unlink())
    case("openings cut short", 5, "opening-differs opening-missing", good, edit("openings/ep1", lambda data: data[:-1]))
    case("opening that does not open", 5, "opening-differs", good,
         edit("openings/ep1", lambda data: data.replace(good.openings["ep1"][3][1][0][0], sha(b"x"))))
    case("opening of another path", 5, "opening-differs", good,
         edit("openings/ep1", lambda data: data.replace(b"ea.txt", b"eb.txt", 1)))
    case("opening of no event", 5, "opening-differs", good,
         edit("openings/ep1", lambda data: cbor([0, [[sha()], [], []]]) + data), basic="")
    case("object that no field names missing", 5, "object-missing", lambda: Log().begin().call(more=[sha(b"nowhere")]))
    case("all payloads missing", 5, "episode-key-missing opening-missing object-missing", good, lambda out, log: [
        shutil.rmtree(out / part) for part in ("keys", "openings", "objects")])
    case("export.json of another size", 5, "export-differs", good, edit("export.json", lambda data: data.replace(b'"size":', b'"size":1')))
    case("export.json that is not canonical", 5, "export-differs", good, edit("export.json", lambda data: data + b" "))
    case("export.json that says public", 5, "export-differs", good, edit("export.json", lambda data: data.replace(b"false", b"true")))
    case("export.json missing", 0, "", good, lambda out, log: (out / "export.json").unlink())


def events():
    good = rich()
    at = len(good.events) - 1
    tampered = replaced(good.events, 2, b"engine/1", b"engine/2")
    case("event changed", 5, "chain-broken leaf-changed root-differs state-differs", good,
         lambda out, log: entries(log, out, tampered), basic="chain-broken root-differs tile-changed")
    case("event and tiles changed", 5, "chain-broken root-differs state-differs tile-changed", good,
         lambda out, log: log.export(out, events=tampered), basic="chain-broken root-differs")
    case("event changed, the rest signed anew", 3, "chain-broken state-differs", lambda: resigned(tampered))
    case("event removed at the end", 4, "bundle-missing leaf-missing", good, lambda out, log: (
        entries(log, out, log.events[:-1]), export_json(out, log),
        (out / ("tile/entries/001.p/%d" % (at - 256))).unlink(), (out / ("tile/entries/001.p/%d" % (at - 255))).unlink()))

    def removed():
        log = Log().begin()
        log.call().events.pop(4)
        log.leaves.pop(4)
        return log
    case("event removed, the rest signed anew", 3, "seq-gap", removed)
    case("event that is not canonical", 3, "event-malformed", lambda: raw(lambda data: b"\x88\x18\x01" + data[2:]))
    case("event cut short", 3, "event-malformed", lambda: raw(lambda data: data[:-1]))
    case("event cut short by somebody else", 5, "event-malformed root-differs tile-changed", lambda: raw(lambda data: data[:-1]),
         signed_before, basic="event-malformed root-differs")
    case("event of an unknown kind", 6, "kind-unknown", lambda: unknown("checkpoint"))
    case("event of another version", 6, "kind-unknown", lambda: raw(lambda data: b"\x88\x02" + data[2:]))
    case("key that nobody proved", 3, "key-unproven", lambda: with_key(pop=bytes(64)))
    case("key with another id", 3, "key-unproven", lambda: with_key(id=bytes(4)))
    case("key out of use", 3, "key-foreign", lambda: with_head(until=2))
    case("record of another effect", 3, "record-differs", lambda: Log().begin().plan().intent().outcome(
        record={"effect": "read"}).commit())
    case("record with another budget", 3, "record-differs", lambda: Log().begin().plan().intent().outcome(
        record={"budgetBefore": 999}).commit())
    case("plan of another `same`", 3, "same-differs", lambda: Log().begin().plan(same=bytes(16)).intent().outcome().commit())
    case("answer that is not canonical", 5, "object-not-canonical", spaced)
    case("schema that is not canonical", 5, "object-not-canonical", lambda: Log().begin(schema=b"{ }"))
    case("redacted objects", 0, "", redacted, lambda out, log: (out / an_object(log, "commit")).unlink(),
         says="1 payloads missing that a redaction covers")
    case("redacted episode", 0, "", lambda: (log := Log().begin().call(), log.add(
        "redaction", {"refs": None, "reason": "law", "by": None}, "ep1"))[0], lambda out, log: [
        shutil.rmtree(out / part) for part in ("keys", "openings", "objects/ep1")])


def export_json(out, log, leaves=None):
    """Says of an export that was changed what its head says, and that it has payloads."""
    says = json.loads((out / "export.json").read_text())
    says.update(public=False, root=base64.b64encode(root(leaves or log.leaves)).decode())
    write(out, "export.json", json.dumps(says, sort_keys=True, separators=(",", ":")).encode())


def signed_before(out, log):
    """The head is of another last event."""
    leaves = log.leaves[:-1] + [sha(b"x")]
    write(out, "checkpoint", checkpoint(leaves).encode())
    export_json(out, log, leaves)


def resigned(events):
    log = rich()
    log.events, log.leaves = list(events), [sha(b"\x00", data) for data in events]
    return log


def raw(change):
    log = Log().begin()
    log.add("freeze", {"frozen": True})
    log.events[-1] = change(log.events[-1])
    log.leaves[-1] = sha(b"\x00", log.events[-1])
    return log


def unknown(kind):
    log = Log().begin()
    log.add(kind, {})
    log.add("freeze", {"frozen": True})
    return log


def with_key(**changes):
    log = Log()
    log.add("key", key("cose", sha(b"cose 2"), "rotation", **changes))
    return log


def with_head(**changes):
    log = Log()
    log.add("key", key("head", SEED, "rotation", **changes))
    log.add("freeze", {"frozen": True})
    return log


def spaced():
    log = Log().begin().call()
    log.plan()
    plain = log.object("ep1", b'{"answer": 1}')
    log.ended = None
    log.add("commit", {"entry": 1, "plan": log.planned, "outcome": None, "refused": False,
                       **log.brefs({"output": plain})}, "ep1", log.inv, refs=[plain])
    return log


def redacted():
    log = Log().begin().call()
    log.add("redaction", {"refs": [log.brefs({"x": log.openings["ep1"][-1][1][0][0]})["x"]], "reason": "law", "by": None},
            "ep1")
    return log


def redaction(log, by):
    log.add("redaction", {"refs": [sha(b"x")], "reason": "law", "by": by}, "ep1")
    return log


def laws():
    unlawful("budget exceeded", "budget-exceeded", lambda log: log.session(0) or log.plan().intent())
    unlawful("budget misstated", "budget-misstated", lambda log: log.call().plan().intent(before=1000).outcome(
        record={"budgetBefore": 1000}).commit())
    unlawful("plan of an unknown session", "session-unknown", lambda log: log.plan(session=bytes(16)))
    unlawful("intent of an unknown session", "session-unknown", lambda log: log.plan(
        session=bytes(16)).intent().outcome().commit(), basic="grant-missing")
    unlawful("intent without plan", "plan-unknown", lambda log: log.call().intent() and log)
    unlawful("intent after the session was revoked", "session-not-live", lambda log: (
        log.plan(), log.add("revocation", {"session": SESSION, "reason": "compromise"}, "ep1"), log.intent())[2])
    unlawful("second intent", "intent-repeated", lambda log: log.plan().intent().intent())
    unlawful("second outcome", "outcome-repeated", lambda log: log.plan().intent().outcome().outcome().commit())
    unlawful("outcome after the commit", "plan-unknown", lambda log: log.call().outcome())
    unlawful("outcome that charges nothing", "charge-wrong", lambda log: log.plan().intent().outcome(
        charge=0, record={"cost": 1}))
    unlawful("outcome marked as recovered", "recovery-unmarked", lambda log: log.plan().intent().outcome(recovered=True))
    unlawful("commit without the outcome", "outcome-missing", lambda log: log.plan().intent().commit(outcome=None))
    unlawful("entries with a gap", "entry-gap", lambda log: log.plan().intent().outcome().commit(entry=1))
    unlawful("two calls at once", "calls-overlap", lambda log: log.plan().plan())
    unlawful("claim twice", "claim-repeated", lambda log: log.call(claim=b"c").call(claim=b"c"))
    unlawful("unknown transition", "transition-unknown", lambda log: log.plan(tool="read"))
    unlawful("effect not declared", "effect-undeclared", lambda log: log.plan().intent(effect="erase"), basic="grant-missing")
    unlawful("no such grant", "grant-missing", lambda log: log.plan().intent(grant=1))
    unlawful("grant over", "session-not-live", lambda log: (log.plan(), setattr(log, "at", START + DAY), log.intent())[2])
    unlawful("frozen", "frozen", lambda log: (log.plan(), log.add("freeze", {"frozen": True}, "ep1"), log.intent())[2])
    unlawful("no approval", "approval-missing", lambda log: log.session(9, True) or log.plan(token=b"t").intent())
    unlawful("declined", "approval-missing", lambda log: log.session(9, True) or log.approve(
        b"t", verdict="decline").plan(token=b"t").intent())
    unlawful("token twice", "token-repeated", lambda log: log.call(token=b"t").call(token=b"t"))
    unlawful("admin with cost", "admin-misfit", lambda log: log.plan(
        front="admin").intent(grant=None, before=0), basic="budget-exceeded")
    unlawful("closure of nothing", "intent-unknown", lambda log: log.call().closure("landed", "after"))
    unlawful("closure of an open intent by the operator", "closure-unlawful", lambda log: log.plan().intent().closure(
        "landed", "person", "operator"))
    unlawful("closure that charges too little", "charge-wrong", lambda log: log.plan().intent().closure(
        "landed", "after", charge=0))
    unlawful("time runs back", "time-backwards", lambda log: setattr(log, "at", START - 1) or log.plan())
    unlawful("broken chain", "chain-broken", lambda log: log.add("freeze", {"frozen": True}, prev=bytes(32)) and log)
    unlawful("gap in seq", "seq-gap", lambda log: log.add("freeze", {"frozen": True}, seq=9) and log)
    unlawful("broken episode chain", "episode-chain-broken", lambda log: log.add(
        "freeze", {"frozen": True}, "ep1", link=["ep1", 2, bytes(32)]) and log)
    unlawful("link of the episode left out", "episode-chain-broken", lambda log: log.add(
        "freeze", {"frozen": True}, "ep1", link=["ep1", 3, log.chains["ep1"][1]]) and log)
    unlawful("unknown episode", "episode-unknown", lambda log: log.add("freeze", {"frozen": True}, "ep9") and log)
    unlawful("episode twice", "episode-repeated", lambda log: log.add("episode", {"base_commit": None}, "ep1") and log)
    unlawful("second genesis", "genesis-misplaced", lambda log: log.add("genesis", {
        "format": "worldlog/log/v1", "origin": ORIGIN, "keys": KEYS, "predecessor": None}) and log)
    unlawful("seal in an episode", "envelope-misfit", lambda log: log.add(
        "seal", {"size": 5, "episodes": bytes(32), "fold": 1, "state": bytes(32)}, "ep1") and log)
    unlawful("session in another episode", "session-changed", lambda log: log.add(
        "episode", {"base_commit": None}, "ep2") and log.session(ep="ep2") or log)
    unlawful("seal of another state", "state-differs", lambda log: log.seal(state=bytes(32)))
    unlawful("seal of other episodes", "episodes-differ", lambda log: log.seal(episodes=bytes(32)))
    unlawful("seal of another fold", "", lambda log: log.seal(fold=2, state=bytes(32)), 0)
    unlawful("denied, and not refused", "refusal-unmarked", lambda log: log.plan().outcome("denied").commit())
    unlawful("session again after it was revoked", "session-changed", lambda log: (
        log.add("revocation", {"session": SESSION, "reason": "operator"}, "ep1"), log.session(5), log)[2])
    unlawful("revocation elsewhere", "session-elsewhere", lambda log: log.add(
        "revocation", {"session": SESSION, "reason": "operator"}) and log)
    unlawful("approval by an auditor", "by-unknown", lambda log: log.approve(b"t", by=AUDITOR))
    unlawful("approval by nobody known", "by-unknown", lambda log: log.approve(b"t", by=bytes(16)))
    unlawful("redaction by an auditor", "", lambda log: redaction(log, AUDITOR), 0)
    unlawful("redaction by an agent", "by-unknown", lambda log: redaction(log, SESSION))
    unlawful("admin with a claim", "admin-misfit", lambda log: log.plan(front="admin", claim=b"c"), basic="")


def fixtures():
    """Every event of fixtures/event is admitted, or refused with its code, at its offset where a fault of form has one."""
    for path in sorted((FIXTURES / "event").glob("*/*.hex")):
        expected = path.with_suffix(".txt").read_text().split("\n")[0].split()[1:]
        try:
            verify.read_event(fixture(path))
            got = ["ok"]
        except verify.Refused as fault:
            got = [fault.args[0], "at", str(fault.args[1])]
        same = got == expected if "at" in expected else got[0] == expected[0]
        (PASSED if same else FAILED).append(path.stem)
        if not same:
            print("FAILED %s: %s, %s is due" % (path, " ".join(got), " ".join(expected)))
    for path in sorted((FIXTURES / "canon/ok").glob("*.canon")) + sorted((FIXTURES / "canon/err").glob("*.json")):
        try:
            lawful.read_json(path.read_bytes())
            got = ".canon"
        except verify.Refused:
            got = ".json"
        (PASSED if got == path.suffix else FAILED).append(path.stem)
        if got != path.suffix:
            print("FAILED %s" % path)


if __name__ == "__main__":
    fixtures()
    exports()
    events()
    laws()
    print("%d passed, %d failed" % (len(PASSED), len(FAILED)))
    sys.exit(bool(FAILED))
