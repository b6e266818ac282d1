"""Messages through three brokers in a row: how many a second, how late, how many bytes, how much CPU.

`python -m benchmarks.throughput --help`. Leaf to branch to root ("up") and root to branch to leaf ("down"),
durable messages of 256 bytes, the producer and the consumer processes of their own. Every message is counted:
a run that loses or doubles one fails.

Beside it, in the same run on the same machine, NATS JetStream in the same shape, so that what matters is the
ratio. Figures of one machine on one day are no more than that.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.brokered_chain import BrokeredChain
from benchmarks.jetstream_chain import JetStreamChain
from benchmarks.processes import BenchmarkFailed, Process, Processes, machine, raise_file_limit
from benchmarks.sapwood_chain import SapwoodChain
from benchmarks.worker import Task

Chain = SapwoodChain | JetStreamChain
Row = dict[str, Any]
DIRECTIONS: Final = {"up": ("leaf", "root"), "down": ("root", "leaf")}
SYSTEMS: Final = ("sapwood", "jetstream", "jetstream-sync")
OVER_BROKERS: Final = {"sapwood-mqtt": "mqtt", "sapwood-amqp": "amqp"}
"""Sapwood with its links over Mosquitto or RabbitMQ: they run only where they are asked for."""


def run_once(chain: Chain, processes: Processes, direction: str, task: Task) -> Row:
    """One measurement on a fresh chain."""
    entry, exit_ = DIRECTIONS[direction]
    chain.start()
    consumer = _worker(chain, processes, "consume", exit_, task)
    consumer.answer()
    chain.prepare(entry, task.destinations)
    producer = _worker(chain, processes, "produce", entry, task)
    producer.answer()
    time.sleep(0.5)
    before = {name: server.cpu() for name, server in chain.servers.items()}
    bytes_before = chain.line_bytes()
    producer.tell(go=True)
    sent = producer.answer()
    received = consumer.answer()
    seconds = received["last"] - sent["start"]
    carried = {line: total - bytes_before[line] for line, total in chain.line_bytes().items()}
    cpu = {name: server.cpu() - before[name] for name, server in chain.servers.items()}
    cpu |= {"producer": sent["cpu"], "consumer": received["cpu"]}
    return {
        "messages": task.count,
        "seconds": round(seconds, 3),
        "rate": round(task.count / seconds) if seconds > 0 else 0,
        "entry_rate": round(task.count / (sent["end"] - sent["start"])),
        "lost": received["lost"],
        "duplicated": received["duplicated"],
        "p50_ms": round(received["p50_ms"], 3),
        "p99_ms": round(received["p99_ms"], 3),
        "bytes": {line: round(total / task.count, 1) for line, total in carried.items()},
        "cpu_us": {name: round(used / task.count * 1e6, 2) for name, used in cpu.items()},
        "details": chain.details(),
    }


def _worker(chain: Chain, processes: Processes, what: str, at: str, task: Task) -> Process:
    given = msgspec.structs.replace(task, url=chain.url(at), options=chain.options() | {"at": at})
    return processes.python(what, chain.module, what, msgspec.json.encode(given).decode())


def measure(
    system: str, direction: str, task: Task, within: Path | None, profile: str = "", profiles: Path = Path()
) -> Row:
    """One measurement in a folder of its own in `within`, which is removed afterwards.

    `profile`: the node whose profile is kept in the folder `profiles`; '' = none.
    """
    directory = Path(tempfile.mkdtemp(prefix="sapwood-benchmark-", dir=within))
    try:
        with Processes(directory) as processes:
            chain = _chain(system, processes, directory, profile)
            try:
                row = run_once(chain, processes, direction, task)
            finally:
                if isinstance(chain, BrokeredChain):
                    chain.stop()
        if isinstance(chain, SapwoodChain) and profile:
            target = profiles / f"{direction}-{task.destinations}-{profile}.txt"
            shutil.copy(chain.profile_file, target)
            row["profile"] = str(target)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return _head(system, direction, task) | row


def _head(system: str, direction: str, task: Task) -> Row:
    head = {"system": system, "direction": direction, "destinations": task.destinations}
    return head | {"burst": task.burst, "payload": task.kind, "paced": task.rate}


def _chain(system: str, processes: Processes, directory: Path, profile: str) -> Chain:
    if system in OVER_BROKERS:
        return BrokeredChain(processes, directory, OVER_BROKERS[system])
    if system == "sapwood":
        return SapwoodChain(processes, directory, profile)
    return JetStreamChain(processes, directory, always=system == "jetstream-sync")


def plan(options: argparse.Namespace) -> list[tuple[str, str, Task]]:
    """All measurements, the systems in turn within each, so that they see the same machine."""
    tasks: list[Task] = []
    for kind in options.payloads:
        for count in options.destinations:
            one = Task("", options.messages, count, kind, burst=256 if count == 1 else options.burst)
            tasks.append(one)
    if options.rate:
        paced = int(options.rate * options.seconds)
        tasks.append(Task("", paced, 1, options.payloads[0], options.rate, warm_up=paced // 10))
    ways = [(way, task) for task in tasks for way in options.directions for _ in range(options.repeat)]
    return [(system, way, _fewer(system, task)) for way, task in ways for system in options.systems]


def _fewer(system: str, task: Task) -> Task:
    """A system that is slower by tens is not kept busy for minutes."""
    if system != "jetstream-sync" or task.rate:
        return task
    return msgspec.structs.replace(task, count=max(task.count // 20, 2000))


_HEAD: Final = (
    "system         way  dest. burst payload messages/s  p50 ms  p99 ms lost dup."
    "  B/msg leaf-branch branch-root  CPU us/msg nodes clients"
)


def line(row: Row) -> str:
    """One row of the table."""
    start = (
        f"{row['system']:14} {row['direction']:5}{row['destinations']:5} {row['burst']:5} {row['payload']:7}"
    )
    if "error" in row:
        return f"{start} failed: {row['error'].splitlines()[-1]}"
    cpu, carried = row["cpu_us"], row["bytes"]
    clients = cpu["producer"] + cpu["consumer"]
    late = f"{row['p50_ms']:7.2f} {row['p99_ms']:7.2f}" if row["paced"] else f"{'-':>7} {'-':>7}"
    return (
        f"{start} {row['rate']:10,} {late} {row['lost']:4} {row['duplicated']:4} "
        f"{carried['leaf-branch']:18.1f} {carried['branch-root']:11.1f} "
        f"{sum(cpu.values()) - clients:17.2f} {clients:7.2f}"
    )


def ratios(rows: list[Row]) -> list[str]:
    """Sapwood's rate as a multiple of each other system's, measurement by measurement."""
    found = []
    whole = [row for row in rows if "error" not in row and not row["paced"]]
    for ours in (row for row in whole if row["system"] == "sapwood"):
        same = ("direction", "destinations", "payload")
        for other in (row for row in whole if row["system"] != "sapwood"):
            if all(ours[key] == other[key] for key in same):
                what = ", ".join(str(ours[key]) for key in same)
                found.append(f"{what}: {ours['rate'] / other['rate']:.1f} times {other['system']}")
    return found


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=300_000, help="in one measurement")
    parser.add_argument("--destinations", type=int, nargs="*", default=[1, 1000])
    parser.add_argument("--burst", type=int, default=1, help="messages in a row for one of many destinations")
    parser.add_argument("--payloads", nargs="*", choices=("json", "random"), default=["json", "random"])
    parser.add_argument("--directions", nargs="*", choices=tuple(DIRECTIONS), default=list(DIRECTIONS))
    parser.add_argument("--systems", nargs="*", choices=(*SYSTEMS, *OVER_BROKERS), default=list(SYSTEMS))
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second for latency; 0 = not")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long at that rate")
    parser.add_argument(
        "--repeat", type=int, default=1, help="how often, the systems in turn; each run has its row"
    )
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--directory", type=Path, help="where the stores lie: a real disk, not tmpfs")
    parser.add_argument("--profile", choices=("root", "branch", "leaf"), default="", help="profile this node")
    parser.add_argument("--profile-directory", type=Path, default=Path())
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Run what the options ask for; 0 if nothing was lost, doubled or failed."""
    options = _options(arguments)
    raise_file_limit()
    found = machine()
    say(", ".join(f"{name} {value}" for name, value in found.items()))
    say(_HEAD)
    rows: list[Row] = []
    for system, direction, task in plan(options):
        try:
            profile, profiles = options.profile, options.profile_directory
            row = measure(system, direction, task, options.directory, profile, profiles)
        except BenchmarkFailed as error:
            row = _head(system, direction, task) | {"error": str(error)}
        rows.append(row)
        say(line(row))
    for ratio in ratios(rows):
        say(ratio)
    if options.json:
        options.json.write_text(json.dumps({"machine": found, "argv": sys.argv[1:], "rows": rows}, indent=1))
    return int(any("error" in row or row["lost"] or row["duplicated"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
