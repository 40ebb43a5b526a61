"""The golden log of fixtures/log: entries "event-<i>", keys from published seeds; and how a case is written down."""

import base64

import ed25519
import tlog
from tlog import sha256, signature_line

ORIGIN = "log.example/events"
WITNESS = "witness.example/w1"
LOG_SEED = sha256(b"tlog-try log key")
WITNESS_SEED = sha256(b"tlog-try witness key")
LOG_PUBLIC = ed25519.public(LOG_SEED)
WITNESS_PUBLIC = ed25519.public(WITNESS_SEED)
LOG_ID = tlog.key_id(ORIGIN, 1, LOG_PUBLIC)
WITNESS_ID = tlog.key_id(WITNESS, 4, WITNESS_PUBLIC)
LOG_VKEY = tlog.vkey(ORIGIN, 1, LOG_PUBLIC)
WITNESS_VKEY = tlog.vkey(WITNESS, 4, WITNESS_PUBLIC)
SECONDS = 1767000000

LEAVES = [b"event-%d" % i for i in range(300)]
TREE = tlog.Tree([tlog.leaf_hash(leaf) for leaf in LEAVES])


def root(size):
    return TREE.root(0, size)


def log_line(text, seed=LOG_SEED):
    return signature_line(ORIGIN, LOG_ID, ed25519.sign(seed, text.encode()))


def witness_line(text, seconds=SECONDS):
    signature = ed25519.sign(WITNESS_SEED, tlog.cosignature_message(seconds, text))
    return signature_line(WITNESS, WITNESS_ID, seconds.to_bytes(8, "big") + signature)


def note(text, *lines):
    return (text + "\n" + "".join(lines)).encode()


def signed(text):
    return note(text, log_line(text))


def mark_unused_bits(text):
    """The same bytes in base64 with an unused bit set, which only a lenient decoder takes."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    at = len(text.rstrip("=")) - 1
    changed = text[:at] + alphabet[alphabet.index(text[at]) ^ 1] + text[at + 1 :]
    assert changed != text and base64.b64decode(changed) == base64.b64decode(text)
    return changed


def case(expect, data, **parameters):
    head = ["expect: " + expect] + ["%s: %s" % pair for pair in parameters.items()] + ["---", ""]
    return "\n".join(head).encode() + data


def corpus(folder, ok, err, check):
    """The files of one folder, after check(data, parameters) has taken every ok and refused every err."""
    out = {}
    for side, cases in (("ok", ok), ("err", err)):
        for name, (expect, data, *rest) in cases.items():
            parameters = rest[0] if rest else {}
            try:
                check(data, parameters)
                taken = True
            except tlog.Unsupported:
                taken = side == "ok"
            except tlog.Refused:
                taken = False
            assert taken == (side == "ok"), (folder, side, name)
            out["log/%s/%s/%s" % (folder, side, name)] = case(expect, data, **parameters)
    return out


def fold(index, size, leaf, proof):
    """What a proof of the right length leads to (spec section 1.1)."""
    fn, sn, r = index, size - 1, leaf
    for p in proof:
        if fn & 1 or fn == sn:
            r = tlog.node_hash(p, r)
            while fn & 1 == 0 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = tlog.node_hash(r, p)
        fn, sn = fn >> 1, sn >> 1
    return r
