"""Ed25519 (RFC 8032) in standard-library Python, for vectors and for verifying public data.

Verification is the strict form that spec/log.md section 3 asks for. Nothing here runs in constant time, so no secret
that matters belongs into it: the seeds of fixtures are public.

    public(seed) -> 32 bytes        sign(seed, message) -> 64 bytes        verify(public, message, signature) -> bool
"""

import hashlib

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
