"""The page of figures: runs the benchmarks that fit in some minutes, and writes what they found.

    python -m benchmarks.all                                  print the tables
    python -m benchmarks.all --write docs/performance.md      put each between its marks in the page
    python -m benchmarks.all --only latency switch            these alone

Each is a process of its own and writes its figures as JSON; its table is made of them here. Each table says
which commit it is of, which day, and how busy the machine was when it began. A benchmark that fails leaves
its table as it was, and makes the run fail.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import latency, pages, tables
from benchmarks.processes import ROOT

Row = dict[str, Any]
_SITES: Final = ("mosquitto-bridges", "sapwood-mosquitto", "rabbitmq-shovels", "sapwood-rabbitmq")


class Part(NamedTuple):
    """A table of the page. `command`: the benchmark with its arguments. `toy`: arguments for a run of a few
    seconds; none where the benchmark's own test makes one. `place`: in the page, if not the benchmark's name.
    """

    command: str
    table: Callable[[Row], str]
    toy: str | None = None
    place: str = ""

    @property
    def benchmark(self) -> str:
        return self.command.partition(" ")[0]

    @property
    def name(self) -> str:
        """Of its place in the page."""
        return self.place or self.benchmark


PARTS: Final = (
    Part("latency --steps", latency.shown, "--seconds 0.2 --rounds 1 --rate 100 --steps"),
    Part(
        "latency --busy 4",
        latency.shown,
        "--busy 1 --systems mosquitto-bridges sapwood-mosquitto --seconds 0.2 --rounds 1 --rate 100",
        place="busy",
    ),
    Part(
        "throughput --systems sapwood jetstream jetstream-sync --payloads json --rate 0 --messages 200000",
        tables.throughput,
        "--systems sapwood --directions up --payloads json --rate 0 --messages 600 --destinations 3",
    ),
    Part("thousand", tables.thousand),
    Part(
        "switch --ways http stream pipelined flood --messages 10000",
        tables.switch,
        "--ways http stream --messages 40 --clients 2",
    ),
    Part("sessions", tables.sessions),
    Part("door --systems door mosquitto --pairs 4", tables.door),
    Part("requests", tables.requests),
    Part(
        f"peers --systems {' '.join(_SITES)} --what rate --messages 30000",
        tables.peers,
        f"--systems {' '.join(_SITES[:2])} --what rate --messages 200",
    ),
    Part("calls", tables.calls),
    Part("footprint", tables.footprint, "--rounds 1 --idle 0.2"),
    Part("mesh --seconds 3 --rate 5", tables.mesh),
    Part("bombs --seconds 5", tables.bombs),
    Part("simulation", tables.simulation),
    Part("what_if", tables.what_if),
    Part("names", tables.names, "--nodes 200 --small 20 --joins 2 --rounds 1"),
)
_WITHOUT_DIRECTORY: Final = {"bombs", "calls", "door", "mesh", "names", "sessions", "simulation", "what_if"}


def run(part: Part, *, toy: bool, directory: Path | None) -> str:
    """Its table, with the lines before it. Raises `CalledProcessError`, having shown what was said."""
    with tempfile.TemporaryDirectory(prefix="sapwood-all-") as folder:
        result = Path(folder) / "result.json"
        words = f"{part.benchmark} {part.toy}" if toy else part.command
        command = [sys.executable, "-m", *f"benchmarks.{words}".split(), "--json", str(result)]
        if directory is not None and part.name not in _WITHOUT_DIRECTORY:
            command += ["--directory", str(directory)]
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            print(done.stdout, file=sys.stderr)
        done.check_returncode()
        found = json.loads(result.read_text())
    return f"{_about(part, found['machine'])}\n\n{part.table(found)}"


def _about(part: Part, machine: Row) -> str:
    load = machine["load"][0]
    return (
        f"`python -m benchmarks.{part.command}`: commit {commit()},"
        f" {time.strftime('%Y-%m-%d')}, {machine['cores']} cores, Python {machine['python']},"
        f" fsync {machine['fsync_ms']} ms, load {load} before."
    )


def commit() -> str:
    """The commit of this checkout, and whether it has been changed since."""
    ask = ("git", "-C", str(ROOT))
    told = subprocess.run((*ask, "rev-parse", "--short=10", "HEAD"), capture_output=True, text=True)
    changed = subprocess.run((*ask, "status", "--porcelain", "--", "*.py"), capture_output=True, text=True)
    return (told.stdout.strip() or "unknown") + (" with changes" if changed.stdout.strip() else "")


def main(arguments: list[str] | None = None, say: Callable[[str], object] = print) -> int:
    """0 if all ran."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--write", type=Path, help="the page that has a place for each table")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--toy", action="store_true", help="as small as it goes: does it work at all?")
    parser.add_argument("--directory", type=Path, help="where the stores lie: a real disk, not tmpfs")
    options = parser.parse_args(arguments)
    failed = []
    for part in (part for part in PARTS if part.name in options.only):
        try:
            shown = run(part, toy=options.toy, directory=options.directory)
        except subprocess.CalledProcessError as error:
            failed.append(f"{part.name}: {error}")
            continue
        say(shown)
        if options.write is not None:
            pages.put(options.write, part.name, shown)
    for text in failed:
        say(f"failed: {text}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
