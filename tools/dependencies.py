#!/usr/bin/env python3
"""Looks at every crate that the program links: where it comes from and under what licence. Needs no network.

Usage: tools/dependencies.py    (in the repository; runs `cargo metadata`)
A dependency is an event: a new licence or a source that is no registry is refused until this file says why it is fine.
"""
import json
import subprocess
import sys

# Each of these may be linked into a program under Apache-2.0 or MIT.
LICENCES = {"MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "Unlicense", "0BSD", "CC0-1.0",
            "Unicode-3.0", "BlueOak-1.0.0", "BSL-1.0", "Apache-2.0 WITH LLVM-exception"}
# Known and accepted, each with its reason.
ACCEPTED = {
    "fxhash": "unmaintained (RUSTSEC-2025-0057); sled 0.34.7 hashes integers with it, no untrusted keys",
    "instant": "unmaintained (RUSTSEC-2024-0384); a time shim of sled 0.34.7 that is std on Linux",
}


def fits(expression):
    """Whether one alternative of an SPDX expression consists of listed licences only."""
    words = expression.replace("/", " OR ").replace("(", " ").replace(")", " ")
    return any(all(part.strip() in LICENCES for part in choice.split(" AND ")) for choice in words.split(" OR "))


def main():
    text = subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked"], check=True,
                          stdout=subprocess.PIPE).stdout
    packages = [p for p in json.loads(text)["packages"] if p["source"]]
    faults = []
    for package in packages:
        name = "%s %s" % (package["name"], package["version"])
        if not package["source"].startswith("registry+"):
            faults.append("%s comes from %s, which is no registry" % (name, package["source"]))
        if not fits(package["license"] or ""):
            faults.append("%s has the licence %r" % (name, package["license"]))
        if package["name"] == "sled" and package["version"] != "0.34.7":
            faults.append("%s: the guards of the store are written against 0.34.7" % name)
    for fault in faults:
        print("dependencies:", fault, file=sys.stderr)
    known = sorted(name for name in ACCEPTED if any(p["name"] == name for p in packages))
    print("dependencies: %d crates, %d faults; accepted: %s" % (len(packages), len(faults), ", ".join(known) or "none"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
