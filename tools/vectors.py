#!/usr/bin/env python3
"""Writes the fixtures that come from a second implementation, or compares them with what is committed.

    python3 tools/vectors.py            write
    python3 tools/vectors.py --check    compare; the exit status is 1 if a file differs, is missing or is left over

Standard library only, written from spec/ and never from src/. The output is the same on every machine. Each part is
a module with ROOTS, the folders below fixtures/ that belong to it wholly, and files(), the contents by path.
"""

import pathlib
import sys

sys.dont_write_bytecode = True
import log_vectors

PARTS = [log_vectors]
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    wrong = 0
    for part in PARTS:
        files = part.files()
        present = {
            str(path.relative_to(FIXTURES))
            for root in part.ROOTS
            for path in (FIXTURES / root).rglob("*")
            if path.is_file()
        }
        for name in sorted(present - files.keys()):
            print("left over:", name)
            wrong += 1
        for name, data in sorted(files.items()):
            path = FIXTURES / name
            if path.is_file() and path.read_bytes() == data:
                continue
            if arguments:
                print("differs:", name)
                wrong += 1
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        print("%s: %d files" % (part.__name__, len(files)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
