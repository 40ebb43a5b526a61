#!/usr/bin/env python3
"""Verifies an exported log, written from spec/ alone, to be read in one sitting. Standard library and ed25519.py only.

    verify.py EXPORT_DIR [--vkey KEY|FILE]... [--seen HEAD_FILE] [--json]

The exit code is the verdict: 0 verified, 3 rewritten, 4 truncated, 5 damaged, 6 unverifiable; 1 bad usage or unreadable.
Codes are those of spec/state.md section 4. tools/lawful.py checks what is not checked here: all other laws, the state and
the map of episodes at each seal, possession of keys, form of objects, records, export.json. Neither verifies ML-DSA-44."""
import argparse, hmac, json, os, re, sys  # noqa: E401
from collections import Counter, namedtuple
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ed25519 import Head, Key, Refused, need, read_head, read_vkey, sha, signers  # noqa: E402

ZERO = bytes(32)
VERDICTS = {0: "verified", 3: "rewritten", 4: "truncated", 5: "damaged", 6: "unverifiable"}
EXIT = {code: verdict for verdict, codes in {
    3: "head-other-log head-forged seen-other-log seen-inconsistent key-unproven key-foreign same-differs record-differs",
    4: "bundle-missing bundle-cut leaf-missing seen-longer",
    5: "head-malformed leaf-surplus leaf-changed tile-changed tile-missing root-differs episode-key-missing "
       "opening-missing opening-differs object-missing object-changed object-not-canonical export-differs",
    6: "head-missing no-key kind-unknown"}.items() for code in codes.split()}
# Every other code is of row 7 or 10: rewritten, or damaged where nobody is shown to have signed these bytes.

def mac(key, *parts): return hmac.digest(key, b"".join(parts), "sha256")

# ---- Canonical CBOR (event.md section 2) ----
def item(data, at, depth):
    """The item at offset `at`, which lies inside `depth` others, and the offset behind it."""
    need(at < len(data), "truncated", at)
    first, end = data[at], at + 1
    major, n = first >> 5, first & 31
    if major in (1, 6, 7):
        need(first in (0xf4, 0xf5, 0xf6), "indefinite" if first == 0xff else "forbidden", at)
        return (False, True, None)[first - 0xf4], end
    need(n < 28, "indefinite" if n == 31 and major else "forbidden", at)
    if n > 23:
        least, end = (24, 1 << 8, 1 << 16, 1 << 32)[n - 24], end + (1 << n - 24)
        need(end <= len(data), "truncated", at)
        n = int.from_bytes(data[at + 1:end], "big")
        need(n >= least, "not-shortest", at)
    if major == 0:
        need(n < 1 << 53, "too-large", at)
        return n, end
    after = end + n  # for arrays and maps n is a count: each item has a byte at least
    need(after <= len(data), "truncated", at)
    if major in (2, 3):
        try:
            return data[end:after] if major == 2 else data[end:after].decode(), after
        except UnicodeDecodeError:
            raise Refused("not-utf8", at)
    need(depth < 8, "too-deep", at)
    values, pairs, before = [], {}, b""
    for _ in range(n):
        value, after = item(data, end, depth + 1)
        if major == 5:
            spelled, before = before, data[end:after]
            need(type(value) is str, "key-type", end)
            need(before > spelled, "duplicate-key" if spelled == before else "key-order", end)
            pairs[value], after = item(data, after, depth + 1)
        values.append(value)
        end = after
    return (values if major == 4 else pairs), end

# ---- Envelope and bodies (event.cddl) ----
def fits(t, v):
    """`T?` T or null, `T*` a list of T, `A;B` an array of these, a name of TYPES, a number of bytes, a pattern of text."""
    t = TYPES.get(t, t) if type(t) is str else t
    if type(t) is dict:
        return type(v) is dict and v.keys() == t.keys() and all(map(fits, t.values(), map(v.get, t)))
    if type(t) is type:
        return type(v) is t
    if ";" in t:
        return type(v) is list and len(v) == t.count(";") + 1 and all(map(fits, t.split(";"), v))
    if t[-1] == "?":
        return v is None or fits(t[:-1], v)
    if t[-1] == "*":
        return type(v) is list and all(fits(t[:-1], x) for x in v)
    return type(v) is bytes and len(v) == int(t) if t.isdigit() else type(v) is str and re.fullmatch(t, v) is not None

TYPES = {"uint": int, "bool": bool, "text": str, "map": dict, "bytes": bytes, "name": "[!-~]{1,128}", "hook": "[a-z0-9-]{1,32}",
         "origin": "[!-*,-~]{1,255}", "episode": "[a-z0-9][a-z0-9-]{0,63}", "ep": "text;uint;32", "file": "16;16?;16?",
         "seen": "16;16", "demand": "name;name;uint", "grant": "name;name;uint;uint;bool", "change": "text;32?;32?",
         "opening": "32*;change*;32*", "head": {"origin": "origin", "size": "uint", "root": "32"}}
BODIES = {kind: dict(field.split(":", 1) for field in line) for kind, *line in map(str.split, r"""
genesis    format:worldlog/log/v1 origin:origin keys:first;first;first predecessor:head?
key        id:4 alg:ed25519|ml-dsa-44 use:head|cosign|cose pub:bytes from:uint until:uint? reason:rotation|compromise pop:bytes
transition tool:name source:32 engine:name access:demand declared:demand* finish:bool schema:32
episode    base_commit:32?
session    id:16 cred:32 role:agent|auditor|approver grants:grant* expires:uint label:32?
revocation session:16 reason:operator|compromise
freeze     frozen:bool
plan       front:mcp|a2a|surface|admin tool:name transition:uint? session:16? input:32 plan:32 same:16 claim:32? token:32?
intent     plan:uint effect:name scope:name cost:uint grant:uint? before:uint request:32 files:file*
outcome    plan:uint intent:uint? status:ok|failed|denied denial:text? charge:uint record:32 result:32? seen:seen* recovered:bool
commit     entry:uint plan:uint outcome:uint? output:32 refused:bool
closure    intent:uint verdict:text evidence:text by:text charge:uint record:32
approval   token:32 verdict:approve|decline|expire session:16 by:16? until:uint
hook       plan:uint point:before|after name:hook verdict:pass|block
redaction  refs:32*? reason:person|secret|law|operator by:16?
seal       size:uint episodes:32 fold:uint state:32""".strip().splitlines())}
TYPES.update(first={**BODIES["key"], "reason": "genesis"})
BEYOND = {}  # relations between the fields of a body: lawful.py
Event = namedtuple("Event", "v seq at prev kind ep inv body")

def read_event(data):
    need(len(data) <= 65535, "too-long", 0)
    need(data[:1] == b"\x88" or item(data, 0, 0) and False, "unexpected", 0)
    need(len(data) > 8, "truncated", 0)
    values, end = [], 1
    for position, t in enumerate("uint uint uint 32 text ep? 16? map".split()):
        start, (value, end) = end, item(data, end, 1)
        if position == 5 and type(value) is list and len(value) == 3 and not fits(t, value):
            start, parts = start + 1, []  # to the part of `ep` that is at fault
            while fits(("text", "uint", "32")[len(parts)], value[len(parts)]):
                parts, start = parts + [start], item(data, start, 2)[1]
        need(fits(t, value), "unexpected", start)
        need(position != 0 or value == 1, "version", value)
        need(position != 5 or value is None or fits("episode", value[0]), "episode-name", start + 1)
        values.append(value)
    need(end == len(data), "trailing", end)
    kind, body = values[4], values[7]
    need(kind in BODIES or fits("x-[a-z0-9][a-z0-9-]{0,61}", kind), "kind", kind)
    need(kind not in BODIES or fits(BODIES[kind], body) and BEYOND.get(kind, bool)(body), "body", start)
    return Event(*values)

# ---- Tree and tiles (log.md sections 1 and 2) ----
def tile_path(level, n, width):
    *groups, last = format(n, ",").split(",")  # of three digits, the first one filled up
    path = "".join("x%s/" % group.zfill(3) for group in groups) + last.zfill(3)
    return "tile/%s/%s" % (level, path) + (".p/%d" % width if width < 256 else "")
def split(data): return [bytes(data[at:at + 32]) for at in range(0, len(data), 32)]

def root_of(hashes):
    k = 1 << (len(hashes) - 1).bit_length() - 1 if len(hashes) > 1 else 0
    return sha(b"\x01", root_of(hashes[:k]), root_of(hashes[k:])) if k else b"".join(hashes) or sha()

class Tree:
    """Grows leaf by leaf; `levels` has the hashes of the tiles of each level, one after another."""
    def __init__(self):
        self.levels, self.size = [bytearray()], 0
    def append(self, node):
        level, self.size = 0, self.size + 1
        while node:
            self.levels += [bytearray()] if level == len(self.levels) else []
            self.levels[level] += node
            node, level = None if len(self.levels[level]) % 8192 else root_of(split(self.levels[level][-8192:])), level + 1
    def root(self):
        tail = []  # the root of what is in no full tile of the levels so far
        for hashes in (split(hashes[len(hashes) // 8192 * 8192:]) for hashes in self.levels):
            tail = [root_of(hashes + tail)] if hashes + tail else []
        return root_of(tail)

# ---- Laws (state.md): both chains, budgets, one outcome for each intent, dense entries ----
class Laws:
    def __init__(self):
        self.seq, self.leaf, self.at, self.chains, self.entries = 0, ZERO, 0, {}, 0
        self.grants, self.calls, self.intents, self.charged, self.reserved = {}, {}, {}, Counter(), Counter()
    def step(self, e, leaf):
        """Folds an event, lawful or not; the code of the first check that fails, or None."""
        name, *link = e.ep or (None,)
        checks = [("seq-gap", e.seq == self.seq), ("chain-broken", e.prev == self.leaf), ("time-backwards", e.at >= self.at),
                  ("episode-chain-broken", not e.ep or tuple(link) == self.chains.get(name, (0, ZERO)))]
        checks += getattr(self, e.kind, lambda *_: None)(e, e.body, name) or ()
        if e.ep:
            self.chains[name] = link[0] + 1, leaf
        self.seq, self.leaf, self.at = e.seq + 1, leaf, e.at
        return next((code for code, holds in checks if not holds), None)
    def session(self, e, body, episode):
        self.grants[body["id"]] = dict(enumerate(body["grants"]))
    def plan(self, e, body, episode):
        self.calls[e.seq] = {"plan": e.seq, "session": body["session"], "intent": None, "outcome": None, "cost": 0}
    def intent(self, e, body, episode):
        call, where = self.calls.get(body["plan"], {}), (episode, body["effect"], body["scope"])
        grants = self.grants.get(call.get("session"), {})  # none for the operator's acts, which cost nothing
        effect, scope, budget = grants.get(body["grant"], [*where[1:], 0])[:3]
        left = max(0, budget - self.charged[where] - self.reserved[where])
        checks = [("plan-unknown", call), ("intent-repeated", call.get("intent") is call.get("outcome") is None),
                  ("grant-missing", (effect, scope) == where[1:] and (body["grant"] in grants or not call.get("session"))),
                  ("budget-misstated", body["before"] == left), ("budget-exceeded", body["cost"] <= left)]
        if call:
            call.update(intent=e.seq, cost=body["cost"], where=where, held=(self.reserved, body["cost"]))
            self.intents[e.seq] = call
            self.reserved[where] += body["cost"]
        return checks
    def charge(self, call, units):
        """A charge replaces what was reserved or charged before."""
        (account, before), where = call["held"], call["where"]
        account[where] = max(0, account[where] - before)
        self.charged[where] += units
        call["held"] = self.charged, units
    def outcome(self, e, body, episode):
        call = self.calls.get(body["plan"], {"outcome": None, "intent": None, "cost": 0})
        checks = [("plan-unknown", "plan" in call), ("outcome-repeated", call["outcome"] is None),
                  ("intent-unknown", body["intent"] == call["intent"]), ("charge-wrong", body["charge"] == call["cost"])]
        call["outcome"] = e.seq
        if None not in (body["intent"], call["intent"]):
            self.charge(call, body["charge"])
        return checks
    def commit(self, e, body, episode):
        call, entry, self.entries = self.calls.pop(body["plan"], {}), self.entries, body["entry"] + 1
        skipped = self.intents.pop(call.get("intent"), None) and call["outcome"] is None
        return [("plan-unknown", call), ("outcome-missing", not skipped and body["outcome"] == call.get("outcome")),
                ("entry-gap", body["entry"] == entry)]
    def closure(self, e, body, episode):
        call = self.intents.pop(body["intent"], None)
        if call:
            self.charge(call, body["charge"])
            self.calls.pop(call["plan"], None)
            self.calls.update({call["plan"]: call} if body["verdict"] == "landed" else {})
            self.intents.update({body["intent"]: call} if body["verdict"] in ("landed", "in-doubt") else {})
        return [("intent-unknown", call),
                ("charge-wrong", call and body["charge"] == (0 if body["verdict"] == "not-happened" else call["cost"]))]

# ---- The audit (state.md section 4); payloads are event.md sections 6 to 9 ----
BREFS = {"episode": "base_commit", "plan": "plan input", "intent": "request", "outcome": "record result",
         "commit": "output", "closure": "record"}  # fields in the order of an opening's `refs`

class Audit:
    LAWS = Laws
    def __init__(self, root, given, seen):
        self.root, self.given, self.seen, self.head, self.origin, self.seen_root, self.trusted = root, given, seen, None, None, None, False
        self.findings, self.count, self.missing, self.keys, self.episodes, self.redacted = [], Counter(), {}, {}, {}, set()
        self.laws, self.tree, self.stopped, self.signed = self.LAWS(), Tree(), False, False
        self.public = b'"public":false' not in (self.read("export.json") or b"") and not any(
            os.path.isdir(os.path.join(root, part)) for part in ("keys", "openings", "objects"))
    def find(self, code, where):
        self.findings.append((code, where))
    def read(self, *path):
        path = os.path.join(self.root, *path)
        return open(path, "rb").read() if os.path.isfile(path) else None
    def run(self):
        checkpoint = self.read("checkpoint")
        self.head = read_head(checkpoint or b"")
        size = self.head.size if self.head else 0
        for data in self.entries(size):
            self.entry(data, self.tree.size)
            if self.seen and self.tree.size == self.seen.size:
                self.seen_root = self.tree.root()
        self.complete = self.head is not None and self.tree.size == size
        self.whole = self.complete and self.tree.root() == self.head.root
        if not self.whole:
            self.find("head-missing" if checkpoint is None else "head-malformed" if not self.head else
                      "root-differs" if self.complete else "leaf-missing", "%d leaves of %d" % (self.tree.size, size))
        if self.head:
            self.signatures(self.head)
            self.tiles(size)
        if self.seen:
            self.earlier(self.seen)
        for (code, episode, bref), where in self.missing.items():
            if not {(episode, None), (episode, bref)} & self.redacted:
                self.find(code, where)
    def part(self, level, n, width):
        """A tile or bundle, and its width; the full one may stand for a part."""
        data = self.read(tile_path(level, n, width))
        return (data, width) if data is not None else (self.read(tile_path(level, n, 256)), 256)
    def entries(self, size):
        for n in range(-(-size // 256)):
            width, at, count = min(256, size - 256 * n), 0, 0
            data, full = self.part("entries", n, width)
            while data and count < full and at + 2 <= len(data) >= (end := at + 2 + int.from_bytes(data[at:at + 2], "big")):
                if count < width:
                    yield data[at + 2:end]
                at, count = end, count + 1
            if count < width:
                return self.find("bundle-missing" if data is None else "bundle-cut", tile_path("entries", n, width))
            if at < len(data):
                self.find("leaf-surplus", tile_path("entries", n, width))
    def entry(self, data, position):
        leaf, where = sha(b"\0", data), "leaf %d" % position
        self.tree.append(leaf)
        try:
            event = read_event(data)
        except Refused as fault:
            self.stopped, code = True, "kind-unknown" if fault.args[0] in ("kind", "version") else "event-malformed"
            return self.find(code, "%s: %s, %s" % (where, *map(ascii, fault.args)))
        for key in event.body.get("keys", [event.body]) if event.kind in ("genesis", "key") else ():
            self.origin = event.body.get("origin", self.origin)
            self.key(key, where)
        code = None if self.stopped else self.laws.step(event, leaf)
        if code:
            self.find(code, "%s (%s)" % (where, event.kind))
        if not self.public:
            self.payloads(event, where)
        self.count["events"] += 1
    def key(self, key, where):
        self.keys[key["id"]] = key
    def signatures(self, head):
        """Rows 1, 2 and 9."""
        if self.origin not in (None, head.origin):
            self.find("head-other-log", "genesis has %s, the head %s" % (self.origin, ascii(head.origin)))
        inside = {Key(head.origin, i, key["pub"]) for i, key in self.keys.items() if key["use"] == "head"
                  and key["from"] <= head.size and (key["until"] is None or head.size <= key["until"])}
        signed, fault = signers(head, self.given or inside)
        if fault:
            self.find("head-forged", fault)
        if not self.given:
            self.find("no-key", "no key was given" + "".join("; consistent with %s inside" % key.id.hex() for key in signed))
        if self.complete and not self.stopped and not signed <= inside:
            self.find("key-foreign", "the key of the head is none of the log at this size")
        self.trusted, self.signed = bool(signed), bool(signed) and self.whole and self.origin in (None, head.origin)
    def tiles(self, size):
        """Row 4."""
        for level, ours in enumerate(self.tree.levels):
            for n in range(-(-(size >> 8 * level) // 256)):
                width = min(256, (size >> 8 * level) - 256 * n)
                (data, full), due = self.part(level, n, width), ours[8192 * n:8192 * (n + 1)]
                if data is None or len(data) != 32 * full or data[:len(due)] != due:
                    self.find("tile-missing" if data is None else "tile-changed", tile_path(level, n, width))
    def earlier(self, seen):
        """Row 6."""
        if seen.origin != (self.origin or seen.origin) or not seen.root or self.given and signers(seen, self.given)[1]:
            self.find("seen-other-log", "of another log, or not signed by the key given")
        elif seen.size > self.tree.size or seen.size and self.seen_root != seen.root and (  # damaged: head with head only
                self.whole or not self.trusted or self.head.size == seen.size and self.head.root != seen.root):
            self.find("seen-longer" if seen.size > self.tree.size else "seen-inconsistent", "%d leaves were seen" % seen.size)
    def episode(self, name):
        """The key of an episode or None, and its openings that no event had yet."""
        if name not in self.episodes:
            key = re.fullmatch(b"([0-9a-f]{64})\n", self.read("keys", name) or b"")
            data, at, openings = self.read("openings", name) or b"", 0, {}
            self.episodes[name] = key and bytes.fromhex(key[1].decode()), openings
            try:
                while at < len(data):
                    value, at = item(data, at, 0)
                    need(fits("uint;opening", value)
                         and value[0] > next(reversed(openings), -1), "no opening, or not ascending", at)
                    openings[value[0]] = value[1]
            except Refused as fault:
                self.find("opening-differs", "openings/%s: %s at byte %s" % (name, *fault.args))
        return self.episodes[name]
    def payloads(self, e, where):
        """Rows 11 and 12."""
        for field in ("source", "schema") if e.kind == "transition" else ():
            self.object(e, None, field, e.body[field], e.body[field])
        if not e.ep:
            return
        name, body = e.ep[0], e.body
        self.redacted.update((name, ref) for ref in (body["refs"] or [None] if e.kind == "redaction" else ()))
        key, openings = self.episode(name)
        fields, opening = [f for f in BREFS.get(e.kind, "").split() if body[f] is not None], openings.pop(e.seq, None)
        if fields and not key:
            self.missing["episode-key-missing", name, None] = where
        if fields and not opening:
            self.missing["opening-missing", name, body[fields[0]]] = where
        if not opening or not key:
            return
        (refs, files, more), inner, brefs = opening, mac(key, b"inv", e.inv or bytes(16)), [body[f] for f in fields]
        def blind(content): return content and mac(key, b"file", content)[:16]
        files = [[mac(key, b"path", path.encode())[:16], blind(one), blind(two)] for path, one, two in files]
        due = body["files"] if e.kind == "intent" else [[*seen, None] for seen in body["seen"]] if e.kind == "outcome" else []
        if [mac(inner, ref) for ref in refs] != brefs or files != due:
            return self.find("opening-differs", where)
        self.count["openings verified"] += 1
        for field, ref in [*zip(fields, refs), *(("more", ref) for ref in more)] if e.kind != "episode" else ():
            self.object(e, name, field, ref, mac(inner, ref))
    def object(self, e, episode, field, digest, bref):
        """The bytes of an object, if they are there and have its name."""
        path = "objects/%s/%s" % (episode or "_", digest.hex())
        data = self.read(path)
        if data is None:
            self.missing["object-missing", episode, bref] = path
        elif sha(data) != digest:
            self.find("object-changed", path)
        else:
            return data

# ---- The command line ----
def main(audit_class=Audit, checked="both chains, budgets, outcomes, entries, references (all other laws: lawful.py)"):
    parser = argparse.ArgumentParser(usage=sys.modules["__main__"].__doc__)
    parser.error = lambda message: sys.exit("error: %s" % message)  # exit code 1
    for name, options in {"export": {}, "--vkey": {}, "--seen": {}, "--json": {"action": "store_true"}}.items():
        parser.add_argument(name, **options)
    given = parser.parse_args()
    try:
        lines = open(given.vkey) if given.vkey and os.path.exists(given.vkey) else [given.vkey or ""]
        keys = {read_vkey(line.strip()) for line in lines if line.strip() and line[0] != "#"}
        need(len({key.name for key in keys}) == (given.vkey is not None), "no key, or keys of several logs")
        need({"checkpoint", "export.json"} & set(os.listdir(given.export)), "no export")
        audit = audit_class(given.export, keys, given.seen and (
            read_head(open(given.seen, "rb").read()) or Head("none", 0, b"", b"", [])))
        audit.run()
    except (OSError, ValueError) as fault:
        parser.error(fault)
    exits = {code: EXIT.get(code, 3 if audit.signed else 5) for code, _ in audit.findings}
    verdict = min(exits.values(), default=0)  # the smallest is the worst
    findings = [{"code": code, "verdict": VERDICTS[exits[code]], "where": where} for code, where in audit.findings]
    head = audit.head or Head("unknown", 0, b"", b"", [])
    words = ["log         %s, size %d, root %s" % (ascii(head.origin)[1:-1], head.size, head.root.hex()),
             "keys        %s; ML-DSA-44 is not checked here" % (", ".join(key.id.hex() for key in keys) or "none given"),
             "checked     form of every event, tree, tiles, " + checked,
             "payloads    " + ("a public export: none there, none checked" if audit.public else "openings and objects"),
             *("            %d %s" % (n, what) for what, n in sorted(audit.count.items())),
             *("FINDING     %(code)s (%(verdict)s): %(where)s" % found for found in findings),
             "VERDICT: " + VERDICTS[verdict]]
    answer = {"verdict": VERDICTS[verdict], "exit": verdict, "counts": audit.count, "findings": findings, "public": audit.public}
    print(json.dumps(answer, sort_keys=True) if given.json else "\n".join(words))
    sys.exit(verdict)
if __name__ == "__main__":
    main()
