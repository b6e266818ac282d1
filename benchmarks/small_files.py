"""What many small logs cost to read: ten thousand files, some of them damaged, and every line accounted for.

    python -m benchmarks.small_files --files 10000

Of each hundred files one is a gzip file cut in half, one ends in the middle of a line, one has a schema of
the future, one was written by a clock that was never set, and one is there twice; every second is compressed.
The run fails unless each of these is found, and every other row is used.
"""

import argparse
import gzip
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from audit import session
from audit.accounts import totals
from audit.listing import list_local
from audit.reading import read

ROWS = 20


def generate(folder: Path, files: int) -> None:
    for number in range(files):
        region = folder / f"region-{number % 25}"
        region.mkdir(exist_ok=True)
        _write(region / f"store-{number}.advisories.jsonl", number)


def _write(path: Path, number: int) -> None:
    text, kind = b"".join(_line(number, row) for row in range(ROWS)), number % 100
    if kind == 2:
        text += text[:40]
    if kind == 6:
        path.with_name(f"copy-{number}.jsonl").write_bytes(text)
    if number % 2:
        packed = gzip.compress(text)
        path.with_suffix(".jsonl.gz").write_bytes(packed[: len(packed) // 2] if kind == 1 else packed)
    else:
        path.write_bytes(text)


def _line(number: int, row: int) -> bytes:
    kind = number % 100
    year = 1970 if kind == 4 else 2026
    event = {
        "event": "consumer",
        "at": f"{year}-03-14T08:{row:02}:00.{number:06}Z",
        "tree": "acme",
        "node": f"store-{number}",
        "role": "leaf",
        "op": "add",
        "kind": "queue",
        "destination": f"till-{row}",
        "cause": f"store-{number}:{row}",
        "origin": f"store-{number}",
        "schema": 9 if kind == 3 else 1,
    }
    return json.dumps(event).encode() + b"\n"


def measure(folder: Path, files: int) -> dict[str, Any]:
    listing = list_local([str(folder)])
    spark = session.start("", listing.bytes)
    try:
        began = time.monotonic()
        intake = read(spark, listing)
        counts = totals(intake.files).to_pylist()[0]
        used, clocks = intake.events.count(), len(intake.clocks)
        seconds = time.monotonic() - began
    finally:
        spark.stop()
    each = files // 100
    expected = {"files": files + each, "faults": 2 * each, "half": each, "newer": each * ROWS}
    expected["repeated"] = each * ROWS
    assert {name: counts[name] for name in expected} == expected, counts
    assert used == (files - each) * ROWS, used
    assert clocks == each, clocks
    return {"files": files + each, "bytes": listing.bytes, "rows": used, "seconds": round(seconds, 1)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.small_files", description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000, help="a multiple of 100")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sapwood-small-files-") as folder:
        generate(Path(folder), options.files)
        found = measure(Path(folder), options.files)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
