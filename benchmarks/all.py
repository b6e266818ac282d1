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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import latency, pages
from benchmarks.processes import ROOT

Row = dict[str, Any]
_SITES: Final = ("mosquitto-bridges", "sapwood-mosquitto", "rabbitmq-shovels", "sapwood-rabbitmq")


class Part(NamedTuple):
    """`name`: of the benchmark and of its place in the page. `toy`: arguments for a run of a few seconds."""

    name: str
    arguments: str
    toy: str
    shown: Callable[[Row], str]


# --- tables of what is found


def _rates(found: Row) -> str:
    """Of `throughput`: each system's rate, and ours as a multiple of it."""
    rows = [row for row in found["rows"] if "error" not in row]
    ours = {(row["direction"], row["destinations"]): row for row in rows if row["system"] == "sapwood"}
    head = (
        "way | destinations | system | messages/s | ours, times | bytes/message leaf-branch | branch-root"
        " | CPU of three brokers, us/message"
    )
    return pages.table(head, (_rate(row, ours[row["direction"], row["destinations"]]) for row in rows), 3)


def _rate(row: Row, ours: Row) -> Iterable[object]:
    cpu = sum(used for name, used in row["cpu_us"].items() if name not in ("producer", "consumer"))
    times = "" if row is ours else f"{ours['rate'] / row['rate']:.1f}"
    way, destinations = row["direction"], f"{row['destinations']:,}"
    return way, destinations, row["system"], f"{row['rate']:,}", times, *row["bytes"].values(), f"{cpu:.1f}"


def _sites(found: Row) -> str:
    """Of `peers`."""
    head = "joined by | messages/s | bytes/message leaf-branch | branch-root | CPU us/message | lost | twice"
    rows = (row for row in found["rows"] if "error" not in row)
    return pages.table(head, map(_site, rows))


def _site(row: Row) -> Iterable[object]:
    kept = (row[key] for key in ("cpu_us", "lost", "duplicated"))
    return row["system"], f"{row['rate']:,}", *row["bytes"].values(), *kept


def _switch(found: Row) -> str:
    """Of `switch`: rates of the runs without accounts, shares of those with them."""
    shares = {(row["way"], row["clients"]): row["shares"] for row in found["rows"] if "shares" in row}
    head = "way | clients | cycles/s | p50 ms | p99 ms | node, us/cycle | of it HTTP | switch | SQLite | rest"
    rows = (row for row in found["rows"] if "shares" not in row)
    return pages.table(head, (_cycle(row, shares[row["way"], row["clients"]]) for row in rows))


def _cycle(row: Row, shares: Row) -> Iterable[object]:
    late = (f"{row['steps']['all'][key]:.2f}" for key in ("p50_ms", "p99_ms"))
    parts = (f"{share:.0%}" for share in shares.values())
    return row["way"], row["clients"], f"{row['rate']:,}", *late, row["node_cpu_us"], *parts


def _footprint(found: Row) -> str:
    head = "process | CPU until linked, s | resident, MiB | proportional | private | CPU at rest, ms/s"
    return pages.table(
        head,
        (
            (
                name,
                f"{row['cpu_s']:.2f}",
                *(f"{row[key]:.1f}" for key in ("rss", "pss", "private", "rest_ms")),
            )
            for name, row in found["figures"].items()
        ),
    )


def _names(found: Row) -> str:
    looks = ((row["what"], row["bytes_a_name"], row["ns"], row["times_dict"]) for row in found["look_ups"])
    joins = (
        (f"{chain['stores']:,} stores", *(f"{chain['levels'][level]['us']:,}" for level in chain["levels"]))
        for chain in found["joining"]
    )
    return "\n\n".join(
        (
            pages.table("look-up | bytes a name | ns | times the dict's", looks),
            pages.table("a join in a chain of | store, us | region, us | root, us", joins),
        )
    )


# --- the parts


PARTS: Final = (
    Part("latency", "--steps", "--seconds 0.2 --rounds 1 --rate 100 --steps", latency.shown),
    Part(
        "throughput",
        "--systems sapwood jetstream jetstream-sync --payloads json --rate 0 --messages 200000",
        "--systems sapwood --directions up --payloads json --rate 0 --messages 600 --destinations 3",
        _rates,
    ),
    Part(
        "peers",
        f"--systems {' '.join(_SITES)} --what rate --messages 30000",
        f"--systems {' '.join(_SITES[:2])} --what rate --messages 200",
        _sites,
    ),
    Part(
        "switch",
        "--ways http stream pipelined flood --messages 10000",
        "--ways http stream --messages 40 --clients 2",
        _switch,
    ),
    Part("footprint", "", "--rounds 1 --idle 0.2", _footprint),
    Part("names", "", "--nodes 200 --small 20 --joins 2 --rounds 1", _names),
)


def run(part: Part, *, toy: bool, directory: Path | None) -> str:
    """Its table, with the lines before it. Raises `CalledProcessError`, having shown what was said."""
    with tempfile.TemporaryDirectory(prefix="sapwood-all-") as folder:
        result = Path(folder) / "result.json"
        command = [
            sys.executable,
            "-m",
            f"benchmarks.{part.name}",
            *(part.toy if toy else part.arguments).split(),
        ]
        command += ["--json", str(result)]
        if directory is not None and part.name != "names":
            command += ["--directory", str(directory)]
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            print(done.stdout, file=sys.stderr)
        done.check_returncode()
        found = json.loads(result.read_text())
    return f"{_about(part, found['machine'])}\n\n{part.shown(found)}"


def _about(part: Part, machine: Row) -> str:
    load = machine["load"][0]
    return (
        f"`{' '.join(('python -m', f'benchmarks.{part.name}', *part.arguments.split()))}`: commit {commit()},"
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
