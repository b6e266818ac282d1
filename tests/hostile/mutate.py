#!/usr/bin/env python3
"""Gives parsers wrong inputs, each in processes of its own, and keeps whatever one of them cannot take.

    python tests/hostile/mutate.py                                       # a minute or two
    python tests/hostile/mutate.py --inputs 10000000 --guided --hours 6  # a night; the next one goes on
    python tests/hostile/mutate.py --parsers xml yaml --seed 7

`--inputs` is for each parser. How many each was given is kept in `FOUND/progress.json`: with `--hours` a run
stops then, and the next run with the same `--inputs` goes on, the parser first that is furthest behind. Once
all have had theirs, a run begins again with other inputs.

With `--guided` coverage leads the way, where `atheris` is installed (`pip install atheris`): a tenth of the
inputs are made with a look at which code they reach, and whatever reached new code is kept in
`FOUND/corpus/PARSER`. The others are made from the examples, the seeds and that
corpus. Without atheris all are. Each line of output says how many inputs a parser was given, and how fast.

Exit code 0: every parser kept to what it promises; 1: some did not, and the inputs are in `FOUND/PARSER`;
put what was found into `tests/hostile/seeds/PARSER/`, where the tests try it for ever.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

HERE: Final = Path(__file__)
_GUIDED_SHARE: Final = 0.1
_SLICE: Final = 600
"""Seconds of one process; then the next parser has its turn."""
_KIND: Final = {True: "guided", False: "blind"}


@dataclass
class Given:
    """The inputs of one parser so far. `runs`: processes, each with a seed of its own."""

    inputs: int = 0
    guided: int = 0
    seconds: float = 0.0
    runs: int = 0
    faulty: bool = False


class Progress:
    """The inputs of all parsers in one round of `inputs` for each; kept in a file. `round`: 1, 2, …"""

    def __init__(self, file: Path, inputs: int, names: list[str]) -> None:
        self._file = file
        kept = json.loads(file.read_text()) if file.is_file() else {}
        if kept.get("each") != inputs:
            kept = {}
        self.each, self.round = inputs, int(kept.get("round", 1))
        self._all = {name: Given(**found) for name, found in kept.get("given", {}).items()}
        if not any(self.left(name) for name in names):
            self.round += 1
            self._all = {name: found for name, found in self._all.items() if name not in names}

    def __repr__(self) -> str:
        return f"<Progress of round {self.round}, {self.each} each>"

    def of(self, name: str) -> Given:
        return self._all.setdefault(name, Given())

    def left(self, name: str) -> int:
        return max(self.each - self.of(name).inputs, 0)

    def add(self, name: str, count: int, seconds: float, *, guided: bool, faulty: bool) -> None:
        given = self.of(name)
        given.inputs, given.runs, given.seconds = (
            given.inputs + count,
            given.runs + 1,
            given.seconds + seconds,
        )
        given.guided += count if guided else 0
        given.faulty = given.faulty or faulty
        self._file.parent.mkdir(parents=True, exist_ok=True)
        told = {name: asdict(found) for name, found in self._all.items()}
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps({"each": self.each, "round": self.round, "given": told}, indent=1))
        fresh.replace(self._file)


class Program:
    """Runs processes, a few at once, until every parser has had its inputs or the time is over."""

    def __init__(self, options: argparse.Namespace, names: list[str]) -> None:
        self._options = options
        self._names = names
        self.progress = Progress(options.found / "progress.json", options.inputs, names)
        self._ends = time.monotonic() + (options.hours * 3600 or float("inf"))
        self._guides = options.guided and importlib.util.find_spec("atheris") is not None
        if options.guided and not self._guides:
            print("atheris is not installed, so nothing guides: pip install atheris", file=sys.stderr)
        self._running: dict[Future[None], str] = {}
        self._over: set[str] = set()
        self._guideless: set[str] = set()

    def __repr__(self) -> str:
        return f"<Program for {len(self._names)} parsers, {len(self._running)} at work>"

    def run(self) -> int:
        with ThreadPoolExecutor(self._options.jobs) as pool:
            while self._start(pool):
                done, _ = wait(self._running, return_when=FIRST_COMPLETED)
                for each in done:
                    self._running.pop(each)
                    each.result()
        return int(any(self.progress.of(name).faulty for name in self._names))

    def _start(self, pool: ThreadPoolExecutor) -> bool:
        """Let as many be at work as may be, those first that are furthest behind. False: none is."""
        if time.monotonic() < self._ends:
            behind = [
                name
                for name in self._names
                if self.progress.left(name) and name not in self._over and name not in self._running.values()
            ]
            behind.sort(key=lambda name: self.progress.of(name).seconds)
            for name in behind[: self._options.jobs - len(self._running)]:
                self._running[pool.submit(self._slice, name)] = name
        return bool(self._running)

    def _slice(self, name: str) -> None:
        """One process for one parser: one that dies ends only itself."""
        given, left = self.progress.of(name), self.progress.left(name)
        for_guided = int(self.progress.each * _GUIDED_SHARE) - given.guided
        guided = self._guides and for_guided > 0 and name not in self._guideless
        inputs = min(left, for_guided) if guided else left
        seconds = min(self._options.seconds or _SLICE, max(self._ends - time.monotonic(), 1.0))
        code, count, took, cpu = self._process(name, inputs, seconds, guided=guided)
        self.progress.add(name, count, took, guided=guided, faulty=code != 0)
        if code and guided:
            self._guideless.add(name)  # it ends at its first fault, and would at the same one again
        if (self._options.seconds and not guided) or not count:
            self._over.add(name)
        what = "well" if code == 0 else f"FAULTY (exit code {code}): see {self._options.found / name}"
        rate = f"{count / max(took, 0.01):.0f}/s, {count / max(cpu, 0.01):.0f}/s of CPU"
        so_far = f"{given.inputs} of {self.progress.each} so far"
        print(
            f"{name:12} {what}, {_KIND[guided]}, {count} inputs, {took:.0f} s, {rate}; {so_far}", flush=True
        )

    def _process(
        self, name: str, inputs: int, seconds: float, *, guided: bool
    ) -> tuple[int, int, float, float]:
        """Its exit code, and how many inputs it tried, in how many seconds, of its CPU too."""
        options, given = self._options, self.progress.of(name)
        seed = options.seed + 1000 * given.runs + 1_000_000 * (self.progress.round - 1)
        words = [sys.executable, str(HERE.with_name("mutating.py")), name, "--found", str(options.found)]
        words += ["--inputs", str(inputs), "--seed", str(seed), "--seconds", str(int(seconds))]
        with tempfile.NamedTemporaryFile() as counted:
            Path(counted.name).write_bytes(bytes(24))
            words += ["--count", counted.name, *(["--guided"] if guided else [])]
            code = subprocess.run(words, check=False).returncode
            return code, *_count(Path(counted.name))


def _count(file: Path) -> tuple[int, float, float]:
    from mutating import Count

    count = Count(file)
    return int(count), count.seconds, count.cpu


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--inputs", type=int, default=20_000, help="for each parser")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument(
        "--seconds", type=int, default=0, help="for each parser at most; 0 = as long as it takes"
    )
    made.add_argument("--hours", type=float, default=0.0, help="for all together; 0 = as long as it takes")
    made.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    made.add_argument("--parsers", nargs="*", default=[], help="their names; all unless given")
    made.add_argument("--guided", action="store_true", help="by coverage, if atheris is installed")
    made.add_argument("--found", type=Path, default=Path("failures/hostile"))
    return made.parse_args()


def main() -> int:
    from parsers import PARSERS

    options = _options()
    return Program(options, options.parsers or [parser.name for parser in PARSERS]).run()


if __name__ == "__main__":
    sys.exit(main())
