"""Unmodified brokers at three sites in a row, joined by their own means or by our nodes.

`python -m benchmarks.peers --help`. Leaf to branch to root, durable: Mosquitto with QoS 1 and persistence,
RabbitMQ with persistent messages, confirms and manual acknowledgements. For each way of joining them: how
many messages a second, how late at 500 a second, bytes on each line, CPU of all brokers and nodes, and what
is lost when the line between leaf and branch is cut for ten seconds. Needs mosquitto, rabbitmq-server, `ss`.
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.peers_chains import CHAINS, Chain
from benchmarks.processes import (
    PATIENCE,
    BenchmarkFailed,
    Process,
    Processes,
    machine,
    raise_file_limit,
    until,
)
from benchmarks.worker import Task

Row = dict[str, Any]
_OURS: Final = {
    "mosquitto-bridges": "sapwood-mosquitto",
    "rabbitmq-shovels": "sapwood-rabbitmq",
    "rabbitmq-federation": "sapwood-rabbitmq",
}


def measure(system: str, what: str, task: Task, directory: Path | None) -> Row:
    """One measurement on fresh brokers: `what` is 'rate', 'latency' or 'cut'."""
    folder = Path(tempfile.mkdtemp(prefix="sapwood-peers-", dir=directory))
    try:
        with Processes(folder) as processes:
            chain = CHAINS[system](processes, folder, cut_line=what == "cut")
            try:
                chain.start()
                return {"system": system, "what": what} | _run(chain, processes, task, cut=what == "cut")
            finally:
                chain.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(chain: Chain, processes: Processes, task: Task, *, cut: bool) -> Row:
    consumer = _worker(chain, processes, "consume", "root", task)
    consumer.answer()
    until("the consumer known at the leaf", chain.ready, PATIENCE)
    producer = _worker(chain, processes, "produce", "leaf", task)
    producer.answer()
    time.sleep(1.0)
    before, carried = chain.cpu(), chain.line_bytes()
    producer.tell(go=True)
    if cut:
        threading.Timer(5.0, chain.cut).start()
        threading.Timer(15.0, chain.restore).start()
    sent, received = producer.answer(), consumer.answer()
    seconds = received["last"] - sent["start"]
    line = {
        name: round((total - carried[name]) / task.count, 1) for name, total in chain.line_bytes().items()
    }
    return {
        "messages": task.count,
        "rate": round(task.count / seconds) if seconds > 0 else 0,
        "p50_ms": round(received["p50_ms"], 2),
        "p99_ms": round(received["p99_ms"], 2),
        "bytes": {} if cut else line,
        "cpu_us": round((chain.cpu() - before) / task.count * 1e6, 1),
        "lost": received["lost"],
        "duplicated": received["duplicated"],
    }


def _worker(chain: Chain, processes: Processes, what: str, at: str, task: Task) -> Process:
    given = msgspec.structs.replace(task, url=chain.url(at), options=chain.options)
    return processes.python(what, chain.worker, what, msgspec.json.encode(given).decode())


_HEAD: Final = (
    "system               what     messages/s  p50 ms  p99 ms  B/msg leaf-branch branch-root"
    "  CPU us/msg  lost  dup."
)


def line(row: Row) -> str:
    """One row of the table."""
    start = f"{row['system']:20} {row['what']:8}"
    if "error" in row:
        return f"{start} failed: {row['error'].splitlines()[-1]}"
    late = f"{row['p50_ms']:7.2f} {row['p99_ms']:7.2f}" if row["what"] == "latency" else f"{'-':>7} {'-':>7}"
    carried = "".join(f"{value:12.1f}" for value in row["bytes"].values()) or f"{'-':>12}{'-':>12}"
    return (
        f"{start} {row['rate']:10,} {late} {carried:>30} {row['cpu_us']:11.1f}"
        f" {row['lost']:5} {row['duplicated']:5}"
    )


def ratios(rows: list[Row]) -> list[str]:
    """Ours beside each way that the brokers bring."""
    found = {(row["system"], row["what"]): row for row in rows if "error" not in row}
    said = []
    for theirs, ours in _OURS.items():
        pairs = {what: (found.get((ours, what)), found.get((theirs, what))) for what in ("rate", "latency")}
        mine, other = pairs["rate"]
        if mine and other:
            more = mine["rate"] / max(other["rate"], 1)
            lines = [mine["bytes"][name] / max(value, 1) for name, value in other["bytes"].items()]
            shares = " and ".join(f"{share:.2f}" for share in lines)
            said.append(f"{ours} beside {theirs}: {more:.2f} of its rate, {shares} of its bytes on the lines")
        mine, other = pairs["latency"]
        if mine and other:
            middle, tail = mine["p50_ms"] / other["p50_ms"], mine["p99_ms"] / other["p99_ms"]
            said.append(f"{ours} beside {theirs}: {middle:.2f} of its p50, {tail:.2f} of its p99")
    return said


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", nargs="*", choices=tuple(CHAINS), default=list(CHAINS))
    parser.add_argument(
        "--what", nargs="*", choices=("rate", "latency", "cut"), default=["rate", "latency", "cut"]
    )
    parser.add_argument("--messages", type=int, default=50_000, help="for the rate")
    parser.add_argument(
        "--rate", type=float, default=500.0, help="messages a second for latency, and while cut"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long at that rate, for latency")
    parser.add_argument("--kind", choices=("json", "random"), default="json")
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--directory", type=Path, help="where the stores lie: a real disk, not tmpfs")
    return parser.parse_args(arguments)


def _task(what: str, options: argparse.Namespace) -> Task:
    if what == "rate":
        return Task("", options.messages, kind=options.kind)
    count = int(options.rate * (20.0 if what == "cut" else options.seconds))
    return Task("", count, kind=options.kind, rate=options.rate, warm_up=count // 10)


def main(arguments: list[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Run what the options ask for; 0 if ours lost nothing and nothing failed."""
    options = _options(arguments)
    raise_file_limit()
    found = machine()
    say(", ".join(f"{name} {value}" for name, value in found.items()))
    say(_HEAD)
    rows: list[Row] = []
    for what in options.what:
        for system in options.systems:
            try:
                row = measure(system, what, _task(what, options), options.directory)
            except BenchmarkFailed as error:
                row = {"system": system, "what": what, "error": str(error)}
            rows.append(row)
            say(line(row))
    for ratio in ratios(rows):
        say(ratio)
    if options.json:
        options.json.write_text(json.dumps({"machine": found, "argv": sys.argv[1:], "rows": rows}, indent=1))
    ours = [row for row in rows if row["system"].startswith("sapwood")]
    return int(any("error" in row or row["lost"] for row in ours))


if __name__ == "__main__":
    sys.exit(main())
