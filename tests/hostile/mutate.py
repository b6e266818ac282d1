#!/usr/bin/env python3
"""Gives parsers wrong inputs, each in a process of its own, and keeps whatever one of them cannot take.

    python tests/hostile/mutate.py                                 # a minute
    python tests/hostile/mutate.py --inputs 10000000 --guided      # a night
    python tests/hostile/mutate.py --parsers xml yaml --seed 7

With `--guided` coverage leads the way, where `atheris` is installed (`pip install atheris`): what reached new
code is changed further. Without it, inputs are drawn from the examples alone. `--inputs` is for the quickest
parsers; some that take a thousand times as long get a share of it (`parsers.py`). With `--seconds` none takes
longer than that. Each line of output says how many inputs its parser was given.

Exit code 0: every parser kept to what it promises; 1: some did not, and the inputs are in `--found`;
put what was found into `tests/hostile/seeds/PARSER/`, where the tests try it for ever.
"""

import argparse
import hashlib
import importlib.util
import mmap
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

HERE: Final = Path(__file__)
HOUSES: Final = ("treeconnector", "broker", "bridges", "config", "sapwood")
SEEDS: Final = HERE.parent / "seeds"
MEMORY: Final = 2 << 30
"""Bytes of addresses that a process may have while it parses inputs of at most 64 KiB."""
_LONGEST: Final = 64 * 1024


class Count:
    """How many inputs were tried, in a file of eight bytes: it outlives the process that counts."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._bytes = mmap.mmap(opened.fileno(), 8)

    def one_more(self) -> None:
        struct.pack_into("=q", self._bytes, 0, int(self) + 1)

    def __int__(self) -> int:
        return int(struct.unpack_from("=q", self._bytes, 0)[0])


def main() -> int:
    options = _options()
    if options.one:
        return _one(options)
    names = options.parsers or _names()
    return max([_run(name, options) for name in names], default=0)


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    made.add_argument("--inputs", type=int, default=20_000, help="for each of the quickest parsers")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument(
        "--seconds", type=int, default=0, help="for each parser at most; 0 = as long as it takes"
    )
    made.add_argument("--parsers", nargs="*", default=[], help="their names; all unless given")
    made.add_argument("--guided", action="store_true", help="by coverage, if atheris is installed")
    made.add_argument("--found", type=Path, default=Path("failures/hostile"))
    made.add_argument("--one", default="", help=argparse.SUPPRESS)
    made.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    return made.parse_args()


def _names() -> list[str]:
    from parsers import PARSERS

    return [parser.name for parser in PARSERS]


def _run(name: str, options: argparse.Namespace) -> int:
    """One parser in a process of its own: one that dies ends only itself."""
    guided = options.guided and importlib.util.find_spec("atheris") is not None
    if options.guided and not guided:
        print(f"{name}: atheris is not installed, so nothing guides: pip install atheris", file=sys.stderr)
    words = [sys.executable, str(HERE), "--one", name, "--found", str(options.found)]
    for each in ("inputs", "seed", "seconds"):
        words += [f"--{each}", str(getattr(options, each))]
    began = time.monotonic()
    with tempfile.NamedTemporaryFile() as counted:
        Path(counted.name).write_bytes(bytes(8))
        words += ["--count", counted.name, *(["--guided"] if guided else [])]
        code = subprocess.run(words, check=False).returncode
        count = int(Count(Path(counted.name)))
    what = "well" if code == 0 else f"FAULTY (exit code {code}): see {options.found / name}"
    print(f"{name:12} {what}, {count} inputs, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if code else 0


def _one(options: argparse.Namespace) -> int:
    found = options.found / options.one
    found.mkdir(parents=True, exist_ok=True)
    return (_guided if options.guided else _blind)(options, found)


def _blind(options: argparse.Namespace, found: Path) -> int:
    """Go on after a fault; of those that look alike the smallest input is kept."""
    from trials import Fault, attempt, parser_of, still_well, watched

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    parser, random, kept = parser_of(options.one), Random(options.seed), dict[str, bytes]()
    count = max(int(options.inputs * parser.share), 1)
    mutator = parser.mutator()
    mutator.examples += [file.read_bytes() for file in sorted((SEEDS / parser.name).glob("*"))]
    tried, ends = Count(options.count), time.monotonic() + (options.seconds or float("inf"))
    with watched():
        for number in range(count):
            if time.monotonic() > ends:
                break
            tried.one_more()
            if number % 16 == 0:
                still_well()
            data = mutator.next(random)
            try:
                attempt(parser, data)
            except Fault as fault:
                kind = fault.kind
                if len(data) < len(kept.get(kind, b"x" * (_LONGEST + 1))):
                    kept[kind] = data
                    print(f"  {fault}", file=sys.stderr)
                still_well()
    for data in kept.values():
        (found / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return 1 if kept else 0


def _guided(options: argparse.Namespace, found: Path) -> int:
    """libFuzzer ends the process at the first fault, and keeps its input."""
    import atheris

    with atheris.instrument_imports(include=list(HOUSES), enable_loader_override=False):
        import trials
    parser = trials.parser_of(options.one)
    count = max(int(options.inputs * parser.share), 1)
    mutator = parser.mutator()
    corpus = found.parent / "corpus" / parser.name
    corpus.mkdir(parents=True, exist_ok=True)
    for example in parser.examples:
        (corpus / hashlib.sha256(example).hexdigest()[:16]).write_bytes(example)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return bytes(atheris.Mutate(data, most))
        return mutator.spoilt(random, data)[:most]

    words = [sys.argv[0], f"-runs={count}", f"-seed={options.seed}", f"-max_len={parser.most}", "-timeout=20"]
    words += [f"-artifact_prefix={found}/", "-verbosity=0", "-rss_limit_mb=2048"]
    words += [f"-max_total_time={options.seconds}"]
    seeds = SEEDS / parser.name
    words += [str(corpus), *([str(seeds)] if seeds.is_dir() else [])]
    tried = Count(options.count)

    def attempt(data: bytes) -> None:
        tried.one_more()
        trials.attempt(parser, data)

    atheris.Setup(words, attempt, custom_mutator=mutated)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
