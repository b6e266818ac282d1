"""A message alone through a tree: how late it comes, and how many times as late as a peer's in the same run.

`python -m benchmarks.latency --help`. Leaf, branch and root, each a process, at `--rate` messages a second,
so that each message is a bundle, a frame and a commit of its own. The systems take turns, `--rounds` times,
each on fresh stores; a ratio is that of one round, and of these the median, the least and the most are told.
A machine that others keep busy makes all of them late: then ratios count, and milliseconds do not. `--busy`
makes it so: as many processes compute beside all that is measured.

- `sapwood`: applications at the nodes, by the client library; beside it JetStream over leaf nodes, which
  syncs before it acknowledges, as a node does (`jetstream-sync`), or every two minutes, its default
  (`jetstream`)
- `sapwood-mosquitto`, `sapwood-rabbitmq`: applications at unmodified brokers, a node beside each; beside
  them Mosquitto's own bridges and RabbitMQ's shovels

`--steps`: one run more of the nodes, which then say where their CPU time goes (`shares.py`).
"""

import argparse
import importlib.util
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks import jetstream_chain, pages, peers, throughput
from benchmarks.processes import BenchmarkFailed, Processes, machine, raise_file_limit
from benchmarks.sapwood_chain import NAMES, SapwoodChain
from benchmarks.worker import Task

Row = dict[str, Any]
PEERS: Final = {
    "sapwood": ("jetstream-sync", "jetstream"),
    "sapwood-mosquitto": ("mosquitto-bridges",),
    "sapwood-rabbitmq": ("rabbitmq-shovels",),
}
_NEEDS: Final = {"mosquitto": "mosquitto", "rabbitmq": "rabbitmq-server"}
SYSTEMS: Final = tuple(name for ours, theirs in PEERS.items() for name in (ours, *theirs))
PARTS: Final = ("http", "line", "core", "sqlite", "rest")


def at_hand(systems: Iterable[str]) -> list[str]:
    """Those whose programs this machine has."""
    return [system for system in systems if _has(system)]


def _has(system: str) -> bool:
    if system.startswith("jetstream"):
        return bool(jetstream_chain.program()) and importlib.util.find_spec("nats") is not None
    return all(shutil.which(needed) for broker, needed in _NEEDS.items() if broker in system)


def measure(system: str, way: str, task: Task, directory: Path | None) -> Row:
    """One run on a fresh chain. Raises `BenchmarkFailed`."""
    if system in throughput.SYSTEMS:
        found = throughput.measure(system, way, task, directory)
        cpu = sum(used for name, used in found["cpu_us"].items() if name in NAMES)
    else:
        found = peers.measure(system, "latency", task, directory)
        cpu = found["cpu_us"]
    kept = {key: found[key] for key in ("p50_ms", "p99_ms", "lost", "duplicated")}
    return {"system": system, "way": way, "cpu_us": round(cpu, 1)} | kept


def rounds(options: argparse.Namespace, say: Callable[[str], None]) -> Iterator[Row]:
    """All runs, the systems in turn. One that fails has an `error` instead of figures."""
    count = int(options.rate * options.seconds)
    task = Task("", count, rate=options.rate, warm_up=count // 10)
    for number in range(options.rounds):
        for way in options.directions:
            for system in options.systems:
                if way == "down" and system not in throughput.SYSTEMS:
                    continue  # the brokers' own means are set up for one way
                try:
                    row = measure(system, way, task, options.directory)
                except BenchmarkFailed as error:
                    row = {"system": system, "way": way, "error": str(error)}
                say(f"round {number + 1}: {json.dumps(row)}")
                yield {"round": number} | row


def medians(rows: list[Row]) -> list[Row]:
    """Each system's figures, way by way, in the order in which they ran."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if "error" not in row:
            found.setdefault((row["way"], row["system"]), []).append(row)
    return [
        {"way": way, "system": system}
        | {key: statistics.median(row[key] for row in same) for key in ("p50_ms", "p99_ms", "cpu_us")}
        for (way, system), same in sorted(found.items(), key=lambda each: each[0][0] == "down")
    ]


def ratios(rows: list[Row]) -> list[Row]:
    """Ours as a multiple of each peer's of the same round: [least, median, most] of p50 and p99."""
    by_key = {(row["round"], row["way"], row["system"]): row for row in rows if "error" not in row}
    made = []
    for way in throughput.DIRECTIONS:
        for ours, theirs in ((ours, peer) for ours, several in PEERS.items() for peer in several):
            pairs = [
                (row, by_key[number, way, theirs])
                for (number, at, system), row in by_key.items()
                if (at, system) == (way, ours) and (number, way, theirs) in by_key
            ]
            if pairs:
                times = {key: _spread(pairs, key) for key in ("p50_ms", "p99_ms", "cpu_us")}
                made.append({"way": way, "system": ours, "beside": theirs} | times)
    return made


def _spread(pairs: list[tuple[Row, Row]], key: str) -> list[float]:
    times = sorted(ours[key] / max(theirs[key], 1e-3) for ours, theirs in pairs)
    return [times[0], statistics.median(times), times[-1]]


class AccountedChain(SapwoodChain):
    """Three nodes that keep accounts of their CPU time; `details` says what came after `prepare`."""

    node_module = "benchmarks.shares"

    def prepare(self, entry: str, destinations: int) -> None:
        super().prepare(entry, destinations)
        self._before = self._accounts()

    def details(self) -> dict[str, Any]:
        after = self._accounts()
        return {name: _difference(self._before[name], after[name]) for name in NAMES}

    def _accounts(self) -> dict[str, Any]:
        return {name: self.servers[name].ask(say=True) for name in NAMES}


def _difference(before: Row, after: Row) -> Row:
    """Seconds of CPU by part; commits, and the seconds that they took."""
    parts = {part: after["parts"][part] - before["parts"][part] for part in after["parts"]}
    rest = after["cpu"] - before["cpu"] - sum(parts.values())
    kept = {key: after[key] - before[key] for key in ("commits", "commit_wall")}
    return parts | {"rest": rest} | kept


def steps(options: argparse.Namespace) -> list[Row]:
    """Of each node, from leaf to root: us of CPU a message by part, commits a message, ms of a commit."""
    count = int(options.rate * options.seconds)
    task = Task("", count, rate=options.rate, warm_up=count // 10)
    folder = Path(tempfile.mkdtemp(prefix="sapwood-latency-", dir=options.directory))
    try:
        with Processes(folder) as processes:
            found = throughput.run_once(AccountedChain(processes, folder), processes, "up", task)["details"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        {"node": name}
        | {part: round(found[name][part] / count * 1e6, 1) for part in PARTS}
        | {"commits": round(found[name]["commits"] / count, 2)}
        | {"commit_ms": round(found[name]["commit_wall"] / max(found[name]["commits"], 1) * 1e3, 2)}
        for name in reversed(NAMES)
    ]


# --- tables


def shown(found: Row) -> str:
    """All that was found, as tables in Markdown."""
    figures = (
        (row["way"], row["system"], f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}", f"{row['cpu_us']:,.0f}")
        for row in medians(found["rows"])
    )
    times = (
        (row["way"], row["system"], row["beside"], *map(_told, (row["p50_ms"], row["p99_ms"], row["cpu_us"])))
        for row in ratios(found["rows"])
    )
    tables = [
        pages.table("way | system | p50 ms | p99 ms | CPU of all brokers, us/message", figures, texts=2),
        pages.table("way | system | beside | p50, times | p99, times | CPU, times", times, texts=3),
    ]
    if found["steps"]:
        head = f"node | {' | '.join(PARTS)} | commits/message | ms/commit"
        tables.append(pages.table(head, (row.values() for row in found["steps"])))
    return "\n\n".join(tables)


def _told(spread: list[float]) -> str:
    least, middle, most = spread
    return f"{middle:.2f} ({least:.2f} to {most:.2f})"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--systems", nargs="*", choices=SYSTEMS, help="all whose programs are here, but for RabbitMQ"
    )
    ways = tuple(throughput.DIRECTIONS)
    parser.add_argument("--directions", nargs="*", choices=ways, default=list(ways))
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long at that rate, each time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile")
    parser.add_argument("--steps", action="store_true", help="where the CPU time of the nodes goes")
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--directory", type=Path, help="where the stores lie: a real disk, not tmpfs")
    options = parser.parse_args(arguments)
    if options.systems is None:
        options.systems = at_hand(system for system in SYSTEMS if "rabbitmq" not in system)
    return options


def main(arguments: list[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Run what the options ask for; 0 if nothing failed, and nodes lost and doubled nothing."""
    options = _options(arguments)
    raise_file_limit()
    found: Row = {"machine": machine(), "argv": sys.argv[1:]}
    say(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    with tempfile.TemporaryDirectory(prefix="sapwood-busy-") as logs, Processes(Path(logs)) as others:
        for number in range(options.busy):
            others.start(f"busy-{number}", [sys.executable, "-c", "while True: pass"])
        found["rows"] = list(rounds(options, say))
        found["steps"] = steps(options) if options.steps else []
    say("\n" + shown(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    ours = (row for row in found["rows"] if row["system"] in PEERS)
    wrong = any(row.get("lost") or row.get("duplicated") for row in ours)
    return int(wrong or any("error" in row for row in found["rows"]))


if __name__ == "__main__":
    sys.exit(main())
