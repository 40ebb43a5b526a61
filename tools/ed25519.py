"""Ed25519 (RFC 8032) in standard-library Python, for vectors and for verifying public data.

Verification is the strict form that spec/log.md section 3 asks for. Nothing here runs in constant time, so no secret
that matters belongs into it: the seeds of fixtures are public.

    public(seed) -> 32 bytes        sign(seed, message) -> 64 bytes        verify(public, message, signature) -> bool

Below: the notes that such keys sign (spec/log.md sections 3 and 4), read strictly.

    read_head(bytes) -> Head or None
    read_vkey(text) -> Key; ValueError for what is none
    signers(head, keys) -> (keys that signed, fault or None)
"""

import base64
import hashlib
import re
from collections import namedtuple

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE_D = -121665 * pow(121666, -1, FIELD) % FIELD
ROOT_OF_MINUS_ONE = pow(2, (FIELD - 1) // 4, FIELD)
NEUTRAL = (0, 1, 1, 0)  # extended coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z


def add(p, q):
    """The sum of two points. The formula holds for every pair, doubling included (RFC 8032 section 5.1.4)."""
    a = (p[1] - p[0]) * (q[1] - q[0])
    b = (p[1] + p[0]) * (q[1] + q[0])
    c = 2 * p[3] * q[3] * CURVE_D
    d = 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % FIELD, g * h % FIELD, f * g % FIELD, e * h % FIELD


def multiply(scalar, point):
    total = NEUTRAL
    for bit in bin(scalar)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def same(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % FIELD == 0 and (p[1] * q[2] - q[1] * p[2]) % FIELD == 0


def encode(point):
    inverse = pow(point[2], -1, FIELD)
    x, y = point[0] * inverse % FIELD, point[1] * inverse % FIELD
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decode(data):
    """The point, or None for what is not the one canonical encoding of a point."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if len(data) != 32 or y >= FIELD:
        return None
    square = (y * y - 1) * pow(CURVE_D * y * y + 1, -1, FIELD) % FIELD
    x = pow(square, (FIELD + 3) // 8, FIELD)
    if x * x % FIELD != square:
        x = x * ROOT_OF_MINUS_ONE % FIELD
    if x * x % FIELD != square or (x == 0 and sign == 1):
        return None
    if x & 1 != sign:
        x = FIELD - x
    return x, y, 1, x * y % FIELD


BASE = decode((4 * pow(5, -1, FIELD) % FIELD).to_bytes(32, "little"))


def small_order(point):
    return same(multiply(8, point), NEUTRAL)


def expand(seed):
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & (2**254 - 8) | 2**254, digest[32:]


def challenge(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def public(seed):
    return encode(multiply(expand(seed)[0], BASE))


def sign(seed, message):
    scalar, prefix = expand(seed)
    key = encode(multiply(scalar, BASE))
    nonce = challenge(prefix, message)
    commitment = encode(multiply(nonce, BASE))
    answer = (nonce + challenge(commitment, key, message) * scalar) % ORDER
    return commitment + answer.to_bytes(32, "little")


def verify(key, message, signature):
    point, commitment = decode(key), decode(signature[:32])
    answer = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or point is None or commitment is None or answer >= ORDER:
        return False
    if small_order(point) or small_order(commitment):
        return False
    product = multiply(challenge(signature[:32], key, message), point)
    return same(multiply(answer, BASE), add(commitment, product))


class Refused(ValueError):
    """Input that the specification does not admit: a code and what or where."""


def need(holds, code, where=""):
    if not holds:
        raise Refused(code, where)


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


Head, Key = namedtuple("Head", "origin size root text lines"), namedtuple("Key", "name id pub")
NAME = r"[^\s+]{1,255}"
CHECKPOINT = re.compile(r"((%s)\n(0|[1-9][0-9]{0,18})\n(\S{44})\n)\n((?:\u2014 %s \S+\n){1,100})" % (NAME, NAME))


def base64_of(spelled):
    data = base64.b64decode(spelled, validate=True)
    need(base64.b64encode(data).decode() == spelled, "base64 that is not canonical")
    return data


def read_head(data):
    """The head that a checkpoint note states, or None."""
    try:
        return checkpoint(data)
    except ValueError:
        return None


def checkpoint(data):
    note = CHECKPOINT.fullmatch(data.decode())
    need(note and len(data) <= 524288 and not re.search(b"[\0-\x09\x0b-\x1f]", data), "not a note of three lines")
    text, origin, size, root = note[1], note[2], int(note[3]), base64_of(note[4])
    need(size <= 1 << 62 and (size or root == sha()), "too large, or another root than that of size 0")
    lines = [(name, base64_of(line)) for _, name, line in (line.split(" ") for line in note[5].split("\n")[:-1])]
    need(all(len(line) > 4 and len(name.encode()) < 256 for name, line in lines + [(origin, root)]), "not a line")
    return Head(origin, size, root, text.encode(), [(name, line[:4], line[4:]) for name, line in lines])


def read_vkey(spelled):
    name, key_id, public = spelled.split("+", 2)
    typed = base64_of(public)
    need(re.fullmatch(NAME, name) and sha(name.encode(), b"\n", typed)[:4].hex() == key_id, "a key with another id")
    need(typed[:1] == b"\x01" and len(typed) == 33, "not the verifier key of an Ed25519 note key (type 0x01)")
    return Key(name, bytes.fromhex(key_id), typed[1:])


def signers(head, keys):
    """The keys whose line verifies, and a fault if there is none, or a line that does not verify or stands twice."""
    found = {key: [line[2] for line in head.lines if line[:2] == (key.name, key.id)] for key in keys}
    for key, lines in found.items():
        if lines and (len(lines) > 1 or not verify(key.pub, head.text, lines[0])):
            return set(), "the line of key %s does not verify, or stands twice" % key.id.hex()
    signed = {key for key, lines in found.items() if lines}
    return signed, None if signed else "no line of a key that is known"
