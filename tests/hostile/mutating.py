"""One process of `mutate.py`: gives one parser wrong inputs, blind or guided by coverage, for a while.

Both keep in `FOUND/corpus/PARSER` what is worth to be changed further, and both begin with what is there.
"""

import argparse
import contextlib
import hashlib
import mmap
import os
import resource
import struct
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

HOUSES: Final = ("treeconnector", "broker", "bridges", "config", "sapwood")
SEEDS: Final = Path(__file__).parent / "seeds"
MEMORY: Final = 2 << 30
"""Bytes of addresses that a process may have while it parses inputs of at most 64 KiB."""


class Count:
    """How many inputs were tried, and in what time, in a file of 24 bytes: it outlives its process.

    `seconds`: since the first input, `cpu`: of the processor.
    """

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._bytes = mmap.mmap(opened.fileno(), 24)
        self._began = self._used = 0.0

    def __repr__(self) -> str:
        return f"<Count {int(self)}>"

    def one_more(self) -> None:
        count = int(self)
        if not count:
            self._began, self._used = time.monotonic(), time.process_time()
        struct.pack_into("=q", self._bytes, 0, count + 1)
        if count % 64 == 0:
            self.now()

    def now(self) -> None:
        """Note how long it has taken."""
        used = time.monotonic() - self._began, time.process_time() - self._used
        struct.pack_into("=dd", self._bytes, 8, *used)

    def __int__(self) -> int:
        return int(struct.unpack_from("=q", self._bytes, 0)[0])

    @property
    def seconds(self) -> float:
        return float(struct.unpack_from("=d", self._bytes, 8)[0])

    @property
    def cpu(self) -> float:
        return float(struct.unpack_from("=d", self._bytes, 16)[0])


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("parser")
    made.add_argument("--inputs", type=int, required=True)
    made.add_argument("--seed", type=int, required=True)
    made.add_argument("--seconds", type=int, required=True)
    made.add_argument("--found", type=Path, required=True)
    made.add_argument("--count", type=Path, required=True)
    made.add_argument("--guided", action="store_true")
    return made.parse_args()


def _seeds(parser: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((SEEDS / parser).glob("*"))]


def _blind(options: argparse.Namespace, corpus: Path, found: Path) -> int:
    """Go on after a fault; of those that look alike the smallest input is kept."""
    from trials import Fault, attempt, parser_of, still_well, watched

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    parser, random, kept = parser_of(options.parser), Random(options.seed), dict[str, bytes]()
    mutator = parser.mutator()
    mutator.learn(_seeds(parser.name))
    mutator.learn(file.read_bytes() for file in sorted(corpus.glob("*")))
    tried, ends = Count(options.count), time.monotonic() + options.seconds
    with watched():
        for number in range(options.inputs):
            if time.monotonic() > ends:
                break
            tried.one_more()
            if number % 16 == 0:
                still_well()
            try:
                attempt(parser, mutator.next(random))
            except Fault as fault:
                if fault.kind not in kept or len(fault.data) < len(kept[fault.kind]):
                    kept[fault.kind] = fault.data
                    print(f"  {fault}", file=sys.stderr)
                still_well()
        tried.now()
    for data in kept.values():
        _keep(found, data)
    return 1 if kept else 0


def _keep(folder: Path, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def _guided(options: argparse.Namespace, corpus: Path, found: Path) -> int:
    """libFuzzer ends the process at the first fault, and keeps its input."""
    import atheris

    instrumented = atheris.instrument_imports(include=list(HOUSES), enable_loader_override=False)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), instrumented:
        import trials  # it names each module
    parser = trials.parser_of(options.parser)
    mutator = parser.mutator()
    for example in (*parser.examples, *_seeds(parser.name)):
        if len(example) <= parser.most:
            _keep(corpus, example)
    found.mkdir(parents=True, exist_ok=True)
    tried = Count(options.count)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return bytes(atheris.Mutate(data, most))
        return mutator.spoilt(random, data)[:most]

    def attempt(data: bytes) -> None:
        tried.one_more()
        try:
            trials.attempt(parser, data)
        except trials.Fault as fault:
            _keep(found, fault.data)
            raise

    words = [sys.argv[0], f"-runs={options.inputs}", f"-seed={options.seed}", f"-max_len={parser.most}"]
    words += ["-timeout=20", f"-artifact_prefix={found}/last-", "-verbosity=0", "-rss_limit_mb=2048"]
    words += [f"-max_total_time={options.seconds}", str(corpus)]
    atheris.Setup(words, attempt, custom_mutator=mutated)
    atheris.Fuzz()
    return 0


def main() -> int:
    options = _options()
    corpus, found = options.found / "corpus" / options.parser, options.found / options.parser
    corpus.mkdir(parents=True, exist_ok=True)
    return (_guided if options.guided else _blind)(options, corpus, found)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
