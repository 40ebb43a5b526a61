#!/usr/bin/env python3
"""Writes fixtures/canon from spec/canon.md alone, on Python's own JSON parser and decimals.

    tools/vectors_canon.py            writes the files
    tools/vectors_canon.py --check    compares them with what it would write

ok/NAME.json    any spelling        ok/NAME.canon     the canonical bytes, no line end      ok/NAME.txt    sha256
err/NAME.json   what is refused     err/NAME.txt      `expect: CODE at OFFSET`

Standard library only.
"""

import hashlib
import json
import sys
from decimal import Decimal, localcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "fixtures" / "canon"
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class Number:
    def __init__(self, text):
        self.text = text


def number(text):
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 20_000, 999_999, -999_999
        value = Decimal(text)
        out = format(value, "f")
    if "." in out:
        out = out.rstrip("0").rstrip(".")
    return "0" if value.is_zero() else out


def string(text):
    return '"' + "".join(SHORT.get(c) or (c if c >= " " else f"\\u{ord(c):04x}") for c in text) + '"'


def canon(v):
    if isinstance(v, Number):
        return number(v.text)
    if v is None or isinstance(v, bool):
        return {None: "null", False: "false", True: "true"}[v]
    if isinstance(v, str):
        return string(v)
    if isinstance(v, list):
        return "[" + ",".join(map(canon, v)) + "]"
    pairs = sorted(v.items(), key=lambda pair: pair[0].encode())
    return "{" + ",".join(f"{string(k)}:{canon(x)}" for k, x in pairs) + "}"


def plan(effect, payload, finish=False):
    return ('{"effects":[{"cost":1,"effect":"%s","id":"e1","payload":%s,"scope":"worktree"}],"finish":%s,'
            '"plan":"world/effect-plan/v1","result":null}' % (effect, payload, str(finish).lower()))


# Published digests. Everything else is computed below.
PUBLISHED = {
    "plan-read-data": (plan("Workspace.Read", '{"op":"read","path":"data.txt"}'),
                       "a1f0feb6b661e46646dab346043e8c144bf3d2be7733df0e520506119b2b773f"),
    "plan-read-hello": (plan("Workspace.Read", '{"op":"read","path":"hello.ail"}'),
                        "ce4340a1e95c36232b8625b2b1524ca16341c88fac58ea6adb04c317dc14e017"),
    "plan-run-hello": (plan("Ailang.Run", '{"path":"hello.ail"}'),
                       "5d0d3fde7279f852a15332cf7ca5f093a70a0e128cc8e22c0700173e5b20b78d"),
    "plan-check-hello": (plan("Ailang.Check", '{"op":"ai_check","path":"hello.ail"}', True),
                         "414ed668233095e53709fbd65fdb560b9da66649afb75a4978861af787d51f46"),
    "plan-edit-hello": (plan("Workspace.Write", r'{"new_text":"println(\"hello from pi\")",'
                             r'"old_text":"println(\"hello from ailang-run\")","op":"edit","path":"hello.ail"}'),
                        "fd356d64398a1d37b19a7d357ec66167c17e91b2b09e5c01f0b85d90487e0084"),
    "output-read-data": (
        r'{"content":"hello from ep1\n","ok":true,'
        '"policy_digest":"4b7541a98c773068896571d54c5182bc5601b335f2c5e663743c07eda077b121",'
        '"tool":"sha256:e55ff71c710c10395ebf949f6777ef9114bed8bba859e3ba719ed73c6d1b9c7f","world":{"effects":[{"id":"e1",'
        '"record":"sha256:4770647ef5f9b08c8ccb51773631a3460a070d2be9a06cffb609b4eb094df1df","status":"ok"}],'
        '"plan":"sha256:a1f0feb6b661e46646dab346043e8c144bf3d2be7733df0e520506119b2b773f"}}',
        "a70447b8e8c490f547b021f257ee0c3799857d3d70ec6eaeccfb9a6293ee1572"),
    "input-data": ('{"path":"data.txt"}', "db1faa2d"),
    "input-hello": ('{"path":"hello.ail"}', "d3527c92"),
}

OK = {
    "null": "null", "true": "true", "false": "false", "empty-string": '""', "empty-array": "[ ]", "empty-object": "{ }",
    "space": ' \t\r\n{ "b" : [ 1 , 2 ] , "a" : { } } \n', "plan-spread": json.dumps(json.loads(
        PUBLISHED["plan-edit-hello"][0]), indent=2, sort_keys=False),
    "keys-sorted": '{"b":1,"a":2,"B":3,"":4,"aa":5,"\u00e9":6,"~":7}',
    # UTF-16 order would put the second first.
    "keys-bytewise": '{"\U00010000":1,"\uffff":2}',
    "keys-escaped": r'{"\u0062":1,"\u0061":2}',
    "zero": "[0,-0,0.0,-0.0,0e5,0E-5,-0e0,0.000e10000]",
    "integers": "[1,-1,10,100,1000000000000000000000000,9007199254740993,18446744073709551616]",
    "fractions": "[1.50,0.10,1.0,-2.500,0.1,0.30000000000000004,123.456]",
    "exponents": "[1e3,1E3,1e+3,1e-3,1.5e1,1.5e0,12.5e-1,-1e2,1e00003,100e-2,0.001e3,0.01E1]",
    "exponent-greatest": "1e9999", "exponent-point": "0.1e10000", "exponent-least": "1e-9999", "exponent-least-point":
    "0.1e-10000",
    "digits-1024": "9" * 1024, "digits-1024-fraction": "0." + "9" * 1024, "digits-trailing-zeros": "1" + "0" * 2000,
    "digits-leading-zeros": "0." + "0" * 2000 + "1", "token-16384": "1." + "0" * 16382,
    "escapes": r'"\"\\\/\b\f\n\r\t\u0022\u005C\u002f\u0041\u00e9\u00E9"',
    "controls": '"' + "".join(f"\\u{c:04X}" for c in range(0x20)) + '\\u007f"',
    "del-raw": '"\x7f\x80\u0085"', "html-raw": r'"<a href=\u0027x\u0027>&\u003c\u003e\u0026"',
    "line-separators": '"\u2028\u2029\\u2028"', "nul-escaped": r'"\u0000"',
    "surrogate-pair": r'"\ud83d\ude00\uD83D\uDE00\ud800\udc00\udbff\udfff"', "astral-raw": '"\U0001f600\U0010ffff"',
    "noncharacters": '"\ufffe\uffff\\ufffe\\uffff"', "bom-inside": '"\ufeff"',
    "not-normalised": '["e\u0301","\u00e9","\u212b"]',
    "depth-64": "[" * 64 + "]" * 64, "depth-64-objects": '{"a":' * 63 + "{}" + "}" * 63,
}

ERR = {
    "empty": ("", "syntax", 0), "space-alone": ("  ", "syntax", 2),
    "bom": ("\ufeff{}", "syntax", 0), "trailing-text": ("{} x", "trailing", 3), "trailing-value": ("1 2", "trailing", 2),
    "trailing-comma-after": ("[],", "trailing", 2), "trailing-nul": ("{}\0", "trailing", 2),
    "array-comma": ("[1,]", "syntax", 3), "array-comma-first": ("[,1]", "syntax", 1), "array-open": ("[1", "syntax", 2),
    "array-no-comma": ("[1 2]", "syntax", 3), "object-comma": ('{"a":1,}', "syntax", 7),
    "object-open": ('{"a":1', "syntax", 6), "object-no-colon": ('{"a" 1}', "syntax", 5),
    "object-no-value": ('{"a":}', "syntax", 5), "object-bare-key": ("{a:1}", "syntax", 1),
    "object-number-key": ("{1:1}", "syntax", 1), "object-single-quotes": ("{'a':1}", "syntax", 1),
    "word-case": ("True", "syntax", 0), "word-short": ("nul", "syntax", 0), "word-long": ("nulll", "trailing", 4),
    "nan": ("NaN", "syntax", 0), "infinity": ("-Infinity", "syntax", 1), "comment": ("/**/1", "syntax", 0),
    "space-nbsp": ("\u00a01", "syntax", 0), "space-form-feed": ("\f1", "syntax", 0),
    "number-plus": ("+1", "syntax", 0), "number-leading-zero": ("01", "trailing", 1),
    "number-minus-leading-zero": ("-01", "trailing", 2), "number-point-first": (".5", "syntax", 0),
    "number-point-last": ("1.", "syntax", 2), "number-minus-alone": ("-", "syntax", 1),
    "number-exponent-empty": ("1e", "syntax", 2), "number-exponent-sign": ("1e+", "syntax", 3),
    "number-hex": ("0x10", "trailing", 1), "number-underscore": ("1_0", "trailing", 1),
    "number-exponent-point": ("1e1.5", "trailing", 3), "number-arabic": ("\u0661", "syntax", 0),
    "digits-1025": ("9" * 1025, "number-bounds", 0), "digits-1025-fraction": ("[0." + "9" * 1025 + "]", "number-bounds", 1),
    "digits-1025-apart": ("1" + "0" * 1023 + "1", "number-bounds", 0), "token-16385": ("1." + "0" * 16383, "number-bounds", 0),
    "exponent-10001": ("1e10001", "number-bounds", 0), "exponent-10000-written-out": ("1e10000", "number-bounds", 0),
    "exponent-minus-10001": ("1e-10001", "number-bounds", 0), "exponent-zero-10001": ("0e10001", "number-bounds", 0),
    "exponent-small-written-out": ("0.01e-10000", "number-bounds", 0),
    "exponent-20-digits": ("1e99999999999999999999", "number-bounds", 0),
    "duplicate-key": ('{"a":1,"a":2}', "duplicate-key", 7), "duplicate-key-apart": ('{"a":1,"b":2,"a":1}', "duplicate-key", 13),
    "duplicate-key-escaped": (r'{"a":1,"\u0061":2}', "duplicate-key", 7),
    "duplicate-key-inside": ('[{"x":{"a":1,"a":1}}]', "duplicate-key", 13), "duplicate-key-empty": ('{"":1,"":1}', "duplicate-key", 6),
    "duplicate-key-before-fault": ('{"a":1,"a":[}', "duplicate-key", 7),
    "duplicate-key-surrogates": ('{"\U0001f600":1,"\\ud83d\\ude00":2}', "duplicate-key", 10),
    "control-raw": ('"a\x01"', "syntax", 2), "control-newline": ('"a\nb"', "syntax", 2), "control-tab": ('"\t"', "syntax", 1),
    "control-nul": ('"\0"', "syntax", 1), "string-open": ('"abc', "syntax", 4), "string-open-escape": ('"\\', "syntax", 1),
    "escape-unknown": (r'"\x41"', "syntax", 1), "escape-upper": (r'"\N"', "syntax", 1), "escape-quote": ("\"\\'\"", "syntax", 1),
    "escape-accent": ('"\\\u00e9"', "syntax", 1),
    "escape-three-digits": (r'"\u041"', "syntax", 3), "escape-no-hex": (r'"\u00g1"', "syntax", 3),
    "escape-sign": (r'"\u+041"', "syntax", 3), "escape-cut": (r'"\u00', "syntax", 3), "escape-wide": ('"\\u00\u00e9"', "syntax", 3),
    "lone-high": (r'"\ud800"', "lone-surrogate", 1), "lone-low": (r'"\udc00"', "lone-surrogate", 1),
    "lone-high-then-text": (r'"x\ud83dx"', "lone-surrogate", 2), "lone-high-then-escape": (r'"\ud83d\u0041"', "lone-surrogate", 1),
    "lone-high-then-newline": (r'"\ud83d\n"', "lone-surrogate", 1), "lone-high-high": (r'"\ud83d\ud83d"', "lone-surrogate", 1),
    "lone-low-high": (r'"\ude00\ud83d"', "lone-surrogate", 1), "lone-in-key": (r'{"\ud800":1}', "lone-surrogate", 2),
    "not-utf8": (b'"\xff"', "not-utf8", 1), "not-utf8-overlong": (b'"\xc0\x80"', "not-utf8", 1),
    "not-utf8-surrogate": (b'"\xed\xa0\x80"', "not-utf8", 1), "not-utf8-cut": (b'"\xf0\x9f\x98"', "not-utf8", 1),
    "not-utf8-beyond": (b'"\xf4\x90\x80\x80"', "not-utf8", 1), "not-utf8-before-syntax": (b'x"\xff"', "not-utf8", 2),
    "utf-16": ("[]".encode("utf-16-le"), "syntax", 1),
    "depth-65": ("[" * 65 + "]" * 65, "too-deep", 64), "depth-65-objects": ('{"a":' * 65, "too-deep", 320),
}


def files():
    out = {".gitattributes": b"* -text\n"}
    for name, text in (OK | {name: text for name, (text, _) in PUBLISHED.items()}).items():
        value = json.loads(text, parse_int=Number, parse_float=Number)
        canonical = canon(value).encode()
        digest = hashlib.sha256(canonical).hexdigest()
        if name in PUBLISHED:
            assert canonical == text.encode() and digest.startswith(PUBLISHED[name][1]), name
        out[f"ok/{name}.json"] = text.encode()
        out[f"ok/{name}.canon"] = canonical
        out[f"ok/{name}.txt"] = f"expect: ok\nsha256: {digest}\n".encode()
    for name, (text, code, at) in ERR.items():
        out[f"err/{name}.json"] = text if isinstance(text, bytes) else text.encode()
        out[f"err/{name}.txt"] = f"expect: {code} at {at}\n".encode()
    assert len(OK["token-16384"]) == 16384 and len(PUBLISHED["output-read-data"][0]) == 416
    return out


def main():
    want = files()
    have = {str(p.relative_to(ROOT)): p.read_bytes() for p in ROOT.rglob("*") if p.is_file()}
    if "--check" in sys.argv[1:]:
        wrong = sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))
        print("\n".join(wrong) if wrong else f"{len(want)} files agree")
        return 1 if wrong else 0
    for name in have.keys() - want.keys():
        (ROOT / name).unlink()
    for name, data in want.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_bytes(data)
    print(f"{len(want)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
