"""The malformed checkpoints and .tlog-proof files of fixtures/log: see log_vectors.py."""

import ed25519
import tlog
from golden import (
    LOG_ID,
    LOG_PUBLIC,
    LOG_SEED,
    LOG_VKEY,
    ORIGIN,
    SECONDS,
    TREE,
    WITNESS,
    WITNESS_ID,
    WITNESS_SEED,
    WITNESS_VKEY,
    corpus,
    fold,
    log_line,
    mark_unused_bits,
    note,
    root,
    signed,
    witness_line,
)
from tlog import DASH, b64, signature_line


# -------------------------------------------------------------------------------------------------- checkpoints


def checkpoint_cases():
    text = tlog.checkpoint_text(ORIGIN, 300, root(300))
    r = b64(root(300))
    line = log_line(text)
    unknown = signature_line("grease.invalid", b"\x01\x02\x03\x04", bytes(64))
    zeroed = signature_line(ORIGIN, LOG_ID, bytes(64))
    other_id = signature_line(ORIGIN, b"\xff\xff\xff\xff", bytes(64))
    key = "the key %s+%s" % (ORIGIN, LOG_ID.hex())
    witness = "the key %s+%s" % (WITNESS, WITNESS_ID.hex())
    one = {"quorum": 1}
    size = "line 2: size is not a decimal number without sign, leading zeros or more than 64 bits"
    bad_root = "line 3: root is not the canonical base64 of 32 bytes"

    def triple(first=ORIGIN, second="300", third=r, more=""):
        return signed("%s\n%s\n%s\n%s" % (first, second, third, more))

    def verified(size_, root_, log, witnesses):
        return "size %d root %s log %d witnesses %d" % (size_, root_.hex(), log, witnesses)

    empty = tlog.checkpoint_text(ORIGIN, 0, tlog.EMPTY_ROOT)
    later = tlog.checkpoint_text(ORIGIN, 299, root(299))
    ok = {
        "valid": (verified(300, root(300), 1, 0), signed(text)),
        "size-zero": (verified(0, tlog.EMPTY_ROOT, 1, 0), signed(empty)),
        "witnessed": (verified(300, root(300), 1, 1), note(text, line, witness_line(text)), one),
        "unknown-lines-around": (
            verified(300, root(300), 1, 1),
            note(text, unknown, witness_line(text), other_id, line, unknown),
            one,
        ),
        "name-of-the-log-unknown-id": (verified(300, root(300), 1, 0), note(text, other_id, line)),
        "hundred-lines": (verified(300, root(300), 1, 0), note(text, *[unknown] * 99, line)),
    }
    err = {
        # The note itself.
        "not-utf8": ("note is not UTF-8 at byte 3", b"log\xff" + signed(text)[4:]),
        "crlf": ("line 1: control character 0x0d", signed(text).replace(b"\n", b"\r\n")),
        "control-character-in-origin": ("line 1: control character 0x07", triple("log.example/\7events")),
        "tab-in-origin": ("line 1: control character 0x09", triple("log.example/\tevents")),
        "no-final-newline": ("note does not end in a line feed", signed(text)[:-1]),
        "unsigned": ("note has no signature", text.encode()),
        "unsigned-with-empty-line": ("note has no signature", note(text)),
        "no-text": ("note has no text", ("\n" + line).encode()),
        "hundred-and-one-lines": ("note has 101 signature lines, more than 100", note(text, *[unknown] * 100, line)),
        "text-after-signatures": ("line 6: not a signature line", signed(text) + b"and more\n"),
        "hyphen-for-dash": ("line 5: not a signature line", note(text, "-" + line[1:])),
        "no-space-after-dash": ("line 5: not a signature line", note(text, line.replace(DASH, DASH.strip()))),
        "signature-missing": ("line 5: signature line is not a name and a signature", note(text, DASH + ORIGIN + "\n")),
        "two-spaces-in-line": (
            "line 5: signature is not canonical base64",
            note(text, line.replace(ORIGIN, ORIGIN + " ")),
        ),
        "key-name-empty": ("line 5: key name is empty", note(text, line.replace(ORIGIN, ""))),
        "key-name-with-plus": ("line 5: key name contains '+'", note(text, line.replace(ORIGIN, "log+example"))),
        "key-name-with-no-break-space": (
            "line 5: key name contains '\\u{a0}'",
            note(text, line.replace(ORIGIN, "log\u00a0example")),
        ),
        "key-name-256-bytes": (
            "line 5: key name has 256 bytes, more than 255",
            note(text, line.replace(ORIGIN, "n" * 256)),
        ),
        "signature-base64-unused-bits": (
            "line 5: signature is not canonical base64",
            note(text, "%s%s %s\n" % (DASH, ORIGIN, mark_unused_bits(line.split(" ")[2].strip()))),
        ),
        "signature-base64-unpadded": (
            "line 5: signature is not canonical base64",
            note(text, line.replace("=", "")),
        ),
        "key-id-alone": (
            "line 5: signature has no byte after the key id",
            note(text, signature_line(ORIGIN, LOG_ID, b"")),
        ),
        # The three lines. All are signed by the log, so that only the form is wrong.
        "two-lines": ("checkpoint has 2 lines instead of three", signed("%s\n300\n" % ORIGIN)),
        "origin-empty": ("line 1: origin has 0 bytes instead of 1 to 255", triple("")),
        "origin-256-bytes": ("line 1: origin has 256 bytes instead of 1 to 255", triple("o" * 256)),
        "empty-line-after-origin": (size, triple(ORIGIN + "\n")),
        "size-leading-zero": (size, triple(second="0300")),
        "size-plus": (size, triple(second="+300")),
        "size-minus": (size, triple(second="-300")),
        "size-hex": (size, triple(second="0x12c")),
        "size-space-behind": (size, triple(second="300 ")),
        "size-arabic-digits": (size, triple(second="\u0663\u0660\u0660")),
        "size-empty": (size, triple(second="")),
        "size-two-to-the-64": (size, triple(second=str(2**64))),
        "size-above-two-to-the-62": (
            "line 2: size %d is larger than a tree may be" % (2**62 + 1),
            triple(second=str(2**62 + 1)),
        ),
        "root-31-bytes": (bad_root, triple(third=b64(root(300)[:31]))),
        "root-33-bytes": (bad_root, triple(third=b64(root(300) + b"\0"))),
        "root-base64-unused-bits": (bad_root, triple(third=mark_unused_bits(r))),
        "root-base64-url-alphabet": (bad_root, triple(third=b64(b"\xff" * 32).replace("/", "_"))),
        "root-hex": (bad_root, triple(third=root(300).hex())),
        "extension-line": ("line 4: 1 extension lines, which this log does not have", triple(more="frozen\n")),
        "extension-empty-line": ("line 4: extension line is empty", triple(more="\nfrozen\n")),
        "size-zero-with-other-root": (
            "line 3: size 0 with the root %s, which is not that of the empty tree" % root(300).hex(),
            triple(second="0"),
        ),
        "other-origin": (
            'line 1: origin is "log.example/other", not "log.example/events"',
            triple("log.example/other"),
        ),
        # The signatures.
        "size-changed": ("line 5: signature of %s: signature does not verify" % key, signed(text).replace(b"\n300", b"\n301", 1)),
        "only-an-unknown-signature": ("no signature is of a trusted key", note(text, unknown)),
        "signature-by-another-key": (
            "line 5: signature of %s: signature does not verify" % key,
            note(text, log_line(text, WITNESS_SEED)),
        ),
        "signature-63-bytes": (
            "line 5: signature of %s: signature has 63 bytes instead of 64" % key,
            note(text, signature_line(ORIGIN, LOG_ID, ed25519.sign(LOG_SEED, text.encode())[:63])),
        ),
        "signature-s-not-reduced": (
            "line 5: signature of %s: signature does not verify" % key,
            note(text, signature_line(ORIGIN, LOG_ID, unreduced(ed25519.sign(LOG_SEED, text.encode())))),
        ),
        "signature-r-of-small-order": (
            "line 5: signature of %s: signature does not verify" % key,
            note(text, signature_line(ORIGIN, LOG_ID, with_neutral_r(text.encode()))),
        ),
        "log-line-twice": ("line 6: second signature of %s" % key, note(text, line, line)),
        "good-line-then-zeroed-line": ("line 6: second signature of %s" % key, note(text, line, zeroed)),
        "zeroed-line-then-good-line": (
            "line 5: signature of %s: signature does not verify" % key,
            note(text, zeroed, line),
        ),
        "only-the-witness": ("no signature is of a key of the log", note(text, witness_line(text))),
        "witness-line-forged": (
            "line 6: signature of %s: signature does not verify" % witness,
            note(text, line, signature_line(WITNESS, WITNESS_ID, bytes(72))),
        ),
        "witness-line-twice": (
            "line 7: second signature of %s" % witness,
            note(text, line, witness_line(text), witness_line(text, SECONDS + 1)),
            {"quorum": 1},
        ),
        "witness-under-another-name": (
            "0 of 1 witnesses have cosigned",
            note(text, line, witness_line(text).replace(WITNESS, "witness.example/w2")),
            one,
        ),
        "witness-of-another-size": (
            "line 6: signature of %s: signature does not verify" % witness,
            note(text, line, witness_line(later)),
            one,
        ),
        "witness-line-without-timestamp": (
            "line 6: signature of %s: cosignature has no timestamp" % witness,
            note(text, line, signature_line(WITNESS, WITNESS_ID, b"\0" * 7)),
        ),
        "witness-timestamp-above-63-bits": (
            "line 6: signature of %s: timestamp %d is larger than permitted" % (witness, 2**63),
            note(text, line, witness_line(text, 2**63)),
        ),
        "quorum-missing": ("0 of 1 witnesses have cosigned", signed(text), one),
    }

    def check(data, parameters):
        tlog.open_checkpoint(data, ORIGIN, [LOG_VKEY], [WITNESS_VKEY], parameters.get("quorum", 0))

    return corpus("checkpoint", ok, err, check)


def with_neutral_r(message):
    """A signature that satisfies the equation with the neutral point as R: strict verification refuses it."""
    scalar, _ = ed25519.expand(LOG_SEED)
    r = ed25519.encode(ed25519.NEUTRAL)
    s = ed25519.challenge(r, LOG_PUBLIC, message) * scalar % ed25519.ORDER
    return r + s.to_bytes(32, "little")


def unreduced(signature):
    s = int.from_bytes(signature[32:], "little") + ed25519.ORDER
    return signature[:32] + s.to_bytes(32, "little")


# -------------------------------------------------------------------------------------------- .tlog-proof files


def bundle_cases():
    text = tlog.checkpoint_text(ORIGIN, 300, root(300))
    path = TREE.inclusion(42, 0, 300)
    checkpoint = signed(text)
    header = "c2sp.org/tlog-proof@v1"
    bad_hash = "line %d: not the canonical base64 of 32 bytes"
    bad_extra = "line 2: extra is not the canonical base64 of 1 to 65535 bytes"
    bad_index = "line %d: not an index line with a decimal number"
    leaf = {"leaf": "event-42"}
    good = "leaf 42 in 300"

    def proof_file(first=header, extra="", index="index 42\n", hashes=path, tail=checkpoint):
        lines = "".join(b64(p) + "\n" for p in hashes)
        return ("%s\n%s%s%s\n" % (first, extra, index, lines)).encode() + tail

    plain = proof_file()
    first_hash = b64(path[0]).encode()
    frozen = text + "frozen\n"
    other = tlog.checkpoint_text(ORIGIN, 299, root(299))
    wrong = "inclusion: proof leads to the root %s, not %s"
    ok = {
        "valid": (good, plain, leaf),
        "extra": (good, proof_file(extra="extra aGludA==\n"), leaf),
        "only-leaf": (
            "leaf 0 in 1",
            proof_file(index="index 0\n", hashes=[], tail=signed(tlog.checkpoint_text(ORIGIN, 1, root(1)))),
            {"leaf": "event-0"},
        ),
        "witnessed": (good, proof_file(tail=note(text, log_line(text), witness_line(text))), leaf),
    }
    err = {
        "no-checkpoint": ("file has no empty line before a checkpoint", plain.split(b"\n\n")[0] + b"\n"),
        "empty": ("file has no empty line before a checkpoint", b""),
        "crlf": ("file has no empty line before a checkpoint", plain.replace(b"\n", b"\r\n")),
        "crlf-in-the-header": ("line 1: not c2sp.org/tlog-proof@v1", plain.replace(b"\n", b"\r\n", 1)),
        "other-version": ("line 1: not c2sp.org/tlog-proof@v1", proof_file(first=header.replace("v1", "v2"))),
        "extra-empty": (bad_extra, proof_file(extra="extra \n")),
        "extra-65536-bytes": (bad_extra, proof_file(extra="extra %s\n" % b64(bytes(65536)))),
        "extra-base64-unused-bits": (bad_extra, proof_file(extra="extra aGludB==\n")),
        "extra-without-data": (bad_index % 2, proof_file(extra="extra\n")),
        "extra-twice": (bad_index % 3, proof_file(extra="extra aGludA==\nextra aGludA==\n")),
        "extra-after-index": (bad_hash % 3, proof_file(index="index 42\nextra aGludA==\n")),
        "index-missing": (bad_index % 2, proof_file(index="")),
        "index-twice": (bad_hash % 3, proof_file(index="index 42\nindex 42\n")),
        "index-leading-zero": (bad_index % 2, proof_file(index="index 042\n")),
        "index-plus": (bad_index % 2, proof_file(index="index +42\n")),
        "index-two-to-the-64": (bad_index % 2, proof_file(index="index %d\n" % 2**64)),
        "index-space-behind": (bad_index % 2, proof_file(index="index 42 \n")),
        "index-without-number": (bad_index % 2, proof_file(index="index\n")),
        "hashes-64": ("proof has 64 hashes, more than 63", proof_file(hashes=path[:1] * 64)),
        "hash-base64-unused-bits": (bad_hash % 3, plain.replace(first_hash, mark_unused_bits(first_hash.decode()).encode(), 1)),
        "hash-31-bytes": (bad_hash % 3, proof_file(hashes=[path[0][:31]] + path[1:])),
        "hash-hex": (bad_hash % 3, plain.replace(first_hash, path[0].hex().encode(), 1)),
        "hash-not-utf8": (bad_hash % 3, plain.replace(first_hash, b"\xff" * 44, 1)),
        "no-final-newline": ("checkpoint: note does not end in a line feed", plain[:-1]),
        "two-empty-lines": ("checkpoint: line 1: origin has 0 bytes instead of 1 to 255", proof_file(tail=b"\n" + checkpoint)),
        "checkpoint-unsigned": ("checkpoint: note has no signature", proof_file(tail=text.encode())),
        "checkpoint-with-extension-line": (
            "checkpoint: line 4: 1 extension lines, which this log does not have",
            proof_file(tail=signed(frozen)),
        ),
        "checkpoint-of-another-log": (
            'checkpoint: line 1: origin is "log.example/other", not "log.example/events"',
            proof_file(tail=signed(text.replace("events", "other"))),
        ),
        "checkpoint-size-changed": (
            "checkpoint: line 5: signature of the key %s+%s: signature does not verify" % (ORIGIN, LOG_ID.hex()),
            plain.replace(b"\n300\n", b"\n301\n"),
        ),
        "checkpoint-of-another-size": (
            wrong % (fold(42, 299, TREE.leaves[42], path).hex(), root(299).hex()),
            proof_file(tail=signed(other)),
        ),
        "index-outside": ("inclusion: leaf 300 is outside a tree of 300 leaves", proof_file(index="index 300\n")),
        "index-of-the-neighbour": (
            wrong % (fold(43, 300, TREE.leaves[42], path).hex(), root(300).hex()),
            proof_file(index="index 43\n"),
        ),
        "hash-missing": ("inclusion: proof has 8 hashes instead of 9", proof_file(hashes=path[:-1])),
        "hash-extra": ("inclusion: proof has 10 hashes instead of 9", proof_file(hashes=path + path[:1])),
        "leaf-of-another-index": (
            wrong % (fold(42, 300, TREE.leaves[43], path).hex(), root(300).hex()),
            plain,
            {"leaf": "event-43"},
        ),
    }
    assert len(path) == 9
    err = {name: (*value[:2], value[2] if len(value) > 2 else leaf) for name, value in err.items()}

    def check(data, parameters):
        tlog.verify_proof_file(data, parameters["leaf"].encode(), ORIGIN, [LOG_VKEY], [WITNESS_VKEY])

    return corpus("bundle", ok, err, check)
