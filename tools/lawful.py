#!/usr/bin/env python3
"""Verifies an exported log in full: all of tools/verify.py, and on top of it what is needed to call a log lawful.

    lawful.py EXPORT_DIR [--vkey KEY|FILE] [--seen HEAD_FILE] [--json]

The exit code is the verdict: 0 verified, 3 rewritten, 4 truncated, 5 damaged, 6 unverifiable; 1 bad usage or unreadable.
Here are the relations between fields of a body, every law of spec/state.md section 3, the digest of the state and the map
of episodes at each seal, possession of keys, canonical JSON, records against events, tiles that a changed entry belies,
export.json, and what lies in the folder without belonging there.
"""

import base64
import heapq
import json
import os
import re
from collections import Counter

import ed25519
import verify
from verify import ZERO, Refused, fits, mac, sha, split, tile_path


# ---- Relations between fields (event.cddl) ----

DENIALS = "denied:(effect-name|scope|expired|budget|token|approval|hook|loop)"
CLOSURES = ("(landed after|not-happened (before|harmless)|in-doubt (run|other)|unrecorded record) (recovery|deadline)"
            "|(landed|not-happened) person operator")


def proper(key):
    return (key["alg"], len(key["pub"]), len(key["pop"])) == (
        ("ml-dsa-44", 1312, 2420) if key["use"] == "cosign" else ("ed25519", 32, 64)) and (
        key["until"] is None or key["until"] >= key["from"])


verify.BEYOND.update({  # what relates one field to another
    "genesis": lambda v: all(map(proper, v["keys"])) and [key["use"] for key in v["keys"]] == ["head", "cosign", "cose"],
    "key": proper, "redaction": lambda v: v["refs"] != [], "intent": lambda v: len(v["files"]) <= 512,
    "outcome": lambda v: len(v["seen"]) <= 512 and (v["denial"] is None or fits(DENIALS, v["denial"]) and v["result"] is None)
    and (v["status"] == "denied") == (v["denial"] is not None) == (v["intent"] is None),
    "closure": lambda v: fits(CLOSURES, "%(verdict)s %(evidence)s %(by)s" % v)})


# ---- Canonical CBOR, printed ----

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
    raise Refused("object-not-canonical", "not canonical JSON")


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
FORGOTTEN = ("claim", "token", "approval", "use", "run", "seen")  # rows that a session loses a day after it is over
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
        self.kind = None  # of the last event, for who counts
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

    def unresolved(self):
        return len(self.rows["call"]) + len(self.rows["doubt"])

    # What is lawful. Each `law_KIND` yields pairs: the code of a check, and whether it holds. The first that fails counts,
    # and nothing behind it is evaluated.

    def step(self, e, leaf):
        """Folds an event, lawful or not; the code of the first check that fails, or None."""
        code, self.kind = self.unlawful(e), "admin" if e.kind == "plan" and e.body["front"] == "admin" else e.kind
        self.fold(e, leaf)
        return code

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
        yield "session-changed", not old or (old["role"], old["episode"], old["revoked"]) == (body["role"], episode, None)

    def law_revocation(self, e, body, episode):
        yield "session-unknown", body["session"] in self.rows["session"]
        yield "session-elsewhere", self.rows["session"][body["session"]]["episode"] == episode

    def by(self, e, roles):
        by = e.body["by"] and self.rows["session"].get(e.body["by"], {"revoked": "unknown"})
        yield "by-unknown", by is None or not by["revoked"] and e.at < by["expires"] and by["role"] in roles

    def law_approval(self, e, body, episode):
        yield from self.law_revocation(e, body, episode)
        yield from self.by(e, ("approver",))

    def law_redaction(self, e, body, episode):
        yield from self.by(e, ("approver", "auditor"))

    def law_hook(self, e, body, episode):
        yield "plan-unknown", self.open_call(e)

    def law_plan(self, e, body, episode):
        session, claim = body["session"], body["claim"]
        if body["front"] == "admin":
            yield "admin-misfit", session is body["transition"] is body["token"] is claim is None
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
        approval = self.rows["approval"].get((call["session"], call["token"]))
        yield "approval-missing", not confirm or (
            approval and approval["verdict"] == "approve" and e.at < approval["until"] and not approval["used"])
        yield "token-repeated", call["token"] is None or (call["session"], call["token"]) not in self.rows["token"]

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
        yield "refusal-unmarked", body["refused"] or call["outcome"] is None or call["intent"] is not None
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
                self.use(call, True)

    def charge(self, call, units):
        intent = call["intent"]
        spent = intent and self.row("spent", (call["episode"], intent["effect"], intent["scope"]))
        if spent:
            field, before = ("reserved", intent["cost"]) if intent["charge"] is None else ("charged", intent["charge"])
            spent[field] = max(0, spent[field] - before)
            spent["charged"] = min(spent["charged"] + units, (1 << 64) - 1)
        if intent:
            intent["charge"] = units

    def use(self, call, used):
        approval = self.row("approval", (call["session"], call["token"]))
        if approval:
            approval["used"] = used

    def ends(self, call, plan):
        """The rows of `claim` and `token` that are this call's, with their table and key."""
        for table, has in (("claim", call["claim"]), ("token", call["token"] and call["intent"])):
            end = call["session"] and has and self.row(table, (call["session"], call[table]))
            if end and end["plan"] == plan:
                yield end, table, (call["session"], call[table])

    def conclude(self, call, plan, field, value):
        for end, _, _ in self.ends(call, plan):
            end[field] = value

    def held_session(self, session):
        row = self.rows["session"].get(session)
        return row and (row["expires"], session) in self.rows["expiry"]

    def fold_outcome(self, e, body):
        call = self.row("call", body["plan"])
        if not call:
            return
        call["outcome"] = e.seq
        if body["intent"] is not None:
            self.charge(call, body["charge"])
        if self.held_session(call["session"]):
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
        self.conclude(call, body["plan"], "commit", e.seq)
        if self.held_session(call["session"]):
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
            self.conclude(call, plan, "closure", None)
        elif body["verdict"] != "not-happened":
            if body["verdict"] == "in-doubt":
                self.put("doubt", body["intent"], {"plan": plan, "call": call})
            self.conclude(call, plan, "closure", e.seq)
        elif call["session"]:
            for _, table, key in list(self.ends(call, plan)):
                self.take(table, key)
                session = self.row("session", call["session"])
                if table == "token":
                    self.use(call, False)
                elif session:
                    session["claims"] = max(0, session["claims"] - 1)
            use = (call["session"], call["same"])
            count = self.take("use", use)
            if count and count > 1:
                self.put("use", use, count - 1)

    def fold_approval(self, e, body):
        self.put("approval", (body["session"], body["token"]), {
            "verdict": body["verdict"], "until": body["until"], "used": False})

    def fold_redaction(self, e, body):
        episode = self.row("episode", e.ep[0]) if e.ep and body["refs"] is None else None
        if episode:
            episode["redacted"] = True


# ---- The audit (state.md section 4) ----

class Audit(verify.Audit):
    LAWS = State

    def __init__(self, *given):
        super().__init__(*given)
        self.bodies, self.checked = {}, set()  # of intents, by seq; paths of objects

    def run(self):
        super().run()
        self.manifest()
        self.strays()
        self.count["unresolved: calls open, in doubt"] = self.laws.unresolved()
        covered = sum(bool({(episode, None), (episode, bref)} & self.redacted) for _, episode, bref in self.missing)
        self.count["payloads missing that a redaction covers"] = covered
        self.count = Counter({what: n for what, n in self.count.items() if n})

    def find(self, code, where):
        if code == "fold-unknown":  # no finding
            self.count["seals of another fold, state not recomputed"] += 1
        else:
            super().find(code, where)

    def payloads(self, e, where):
        if e.kind == "intent":
            self.bodies[e.seq] = e.body
        super().payloads(e, where)

    def entry(self, data, position):
        super().entry(data, position)
        kind = self.laws.kind
        self.count["commits"] += kind == "commit"
        self.count["seals"] += kind == "seal"
        self.count["operator's acts (front admin)"] += kind == "admin"
        self.laws.kind = None

    # Row 8

    def key(self, key, where):
        super().key(key, where)
        origin, use = (self.origin or "").encode(), key["use"]
        kind = {"head": b"\x01", "cosign": b"\x06", "cose": b"\xffworldlog/cose/v1"}[use]
        proven = True
        if key["alg"] == "ed25519":
            message = b"worldlog/pop/v1\n%s\n%s\n%s" % (origin, use.encode(), key["pub"])
            proven = ed25519.verify(key["pub"], message, key["pop"])
        else:
            self.count["ML-DSA-44 proofs of possession not checked"] += 1
        if sha(origin, b"\n", kind, key["pub"])[:4] != key["id"] or not proven:
            self.find("key-unproven", "%s: key %s" % (where, key["id"].hex()))

    # Row 4: where the entries have another root than the head, each tile is judged by the head alone

    def tiles(self, size):
        if self.whole:
            super().tiles(size)
            return self.other_tiles()
        stored, fits_head, levels = {}, {}, [size >> 8 * level for level in range(8) if size >> 8 * level]
        for level, count in enumerate(levels):
            for n in range(-(-count // 256)):
                width = min(256, count - 256 * n)
                data, full = self.part(level, n, width)
                if data is None:
                    self.find("tile-missing", tile_path(level, n, width))
                stored[level, n] = split(data[:32 * width]) if data and len(data) == 32 * full else []
        tail = []
        for level, count in enumerate(levels):
            hashes = (stored[level, count // 256] if count % 256 else []) + tail
            tail = [verify.root_of(hashes)] if hashes else []
        edge = verify.root_of(tail) == self.head.root
        ours = split(self.tree.levels[0])
        for (level, n), hashes in sorted(stored.items(), reverse=True):
            width = min(256, levels[level] - 256 * n)
            above = fits_head.get((level + 1, n))
            if not hashes or not (edge if width < 256 else verify.root_of(hashes) == above):
                self.find("tile-changed", tile_path(level, n, width))
                continue
            for i, one in enumerate(hashes, 256 * n):
                fits_head[level, i] = one
                if level == 0 and i < len(ours) and ours[i] != one:
                    self.find("leaf-changed", "leaf %d" % i)

    def other_tiles(self):
        """Tiles in part that the head does not need."""
        for level, ours in enumerate(self.tree.levels):
            for n in range(-(-len(ours) // 8192)):
                folder = tile_path(level, n, 256) + ".p"
                for name in self.names(folder):
                    width = int(name) if re.fullmatch("[1-9][0-9]{0,2}", name) else 0
                    data, due = self.read(folder, name), ours[8192 * n:8192 * n + 32 * width]
                    if width == (self.head.size >> 8 * level) - 256 * n:
                        continue
                    if not 0 < width < 256 or data is None or len(data) != 32 * width or data[:len(due)] != due:
                        self.find("tile-changed", folder + "/" + name)

    def names(self, folder):
        path = os.path.join(self.root, folder)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    # Row 14

    def manifest(self):
        data, head = self.read("export.json"), self.head
        if data is None or head is None:
            return
        try:
            says = read_json(data)
            good = (says["export"], says["origin"], says["size"], says["root"]) == (
                "worldlog/export/v1", head.origin, Number(head.size), base64.b64encode(head.root).decode())
            folders = any(self.names(part) for part in ("keys", "openings", "objects"))
            good = good and type(says["public"]) is bool and not (says["public"] and folders)
        except (ValueError, KeyError, TypeError, AttributeError):
            good = False
        if not good:
            self.find("export-differs", "export.json does not say what is in the folder")

    # Rows 11 to 13

    def strays(self):
        """Openings that belong to no event, objects of another hash than their name."""
        if self.complete and not self.stopped and not self.public:
            for name in sorted({*self.episodes, *self.names("openings")}):
                for seq in self.episode(name)[1]:
                    self.find("opening-differs", "openings/%s: leaf %d is no event of it" % (name, seq))
        for folder, _, names in os.walk(os.path.join(self.root, "objects")):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                self.count["objects hashed"] += 1
                if path not in self.checked and sha(self.read(path)).hex() != name:
                    self.find("object-changed", path)

    def object(self, e, episode, field, digest, bref):
        path = "objects/%s/%s" % (episode or "_", digest.hex())
        if (path, field) in self.checked:
            return
        data = super().object(e, episode, field, digest, bref)
        if data is not None:
            self.checked |= {path} if field in ("plan", "record") else {path, (path, field)}
        if field == "plan" and mac(self.episode(episode)[0], b"plan", digest)[:16] != e.body["same"]:
            self.find("same-differs", "leaf %d" % e.seq)
        if data is None or field in ("source", "result", "more"):
            return
        try:
            value = read_json(data)
        except Refused:
            return self.find("object-not-canonical", path)
        if field == "record" and e.kind == "outcome":
            self.record(e, value)

    def record(self, e, record):
        wanted, intent = {field: e.body[field] for field in ("status", "denial")}, self.bodies.get(e.body["intent"])
        if intent:
            wanted.update(effect=intent["effect"], scope=intent["scope"], cost=Number(intent["cost"]),
                          budgetBefore=Number(intent["before"]))
        got = record if type(record) is dict else {}
        differ = [f for f in wanted if f not in got or (type(got[f]), got[f]) != (type(wanted[f]), wanted[f])]
        if differ:
            self.find("record-differs", "leaf %d: %s" % (e.seq, ", ".join(differ)))


if __name__ == "__main__":
    verify.main(Audit, "chains, every law, openings, objects and records; at each seal the map of episodes and the state")
