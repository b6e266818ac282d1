"""The message switch of one node: send, transfer and acknowledge, by HTTP and by the streaming session.

`python -m benchmarks.switch --help`. One node and its clients, each a process. A message is on disk before
its send is answered, and its acknowledgement before that is answered (the streaming session confirms sends;
its acknowledgements are not answered). Beside each other, in one run:

- `http`: clients that wait for each answer; `pipelined`: 64 requests of a client under way together
- `general`: as `http`, on connections that the general HTTP server reads, as once a page was asked for
- `stream`: the client library, a confirmed send, a delivery, an acknowledgement; `flood`: as fast as it goes
- `wake`: what waking one blocked transfer costs the node while 0 or 5,000 others wait
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

from benchmarks.processes import (
    PATIENCE,
    Process,
    Processes,
    free_port,
    get_json,
    machine,
    raise_file_limit,
    until,
)
from benchmarks.switch_worker import SwitchTask

Row = dict[str, Any]
PARTS: Final = ("http", "core", "sqlite")
"""Of `shares.PARTS`: a node without links has no more."""


def start_node(processes: Processes, directory: Path, *, accounts: bool) -> tuple[Process, int]:
    """A node, with accounts of where its time goes (they cost some) or without."""
    port = free_port()
    file = directory / f"node-{port}.yaml"
    site = {
        "name": f"node-{port}",
        "tree": "bench",
        "data": f"data-{port}",
        "listener": {"port": port},
        "advisory_log": {"enabled": False},
        "limits": {"queue_quota": 10_000_000},
    }
    file.write_text(json.dumps({"broker": site}))
    module = "benchmarks.shares" if accounts else "benchmarks.node_process"
    node = processes.python(f"node-{port}", module, str(file))
    until("the node answers", lambda: get_json(f"http://127.0.0.1:{port}/api/status"), PATIENCE)
    return node, port


def measure(task: SwitchTask, directory: Path | None, *, accounts: bool) -> Row:
    """One measurement on a fresh node."""
    folder = Path(tempfile.mkdtemp(prefix="sapwood-benchmark-", dir=directory))
    try:
        with Processes(folder) as processes:
            node, port = start_node(processes, folder, accounts=accounts)
            given = msgspec.structs.replace(task, port=port)
            clients = processes.python(
                "clients", "benchmarks.switch_worker", msgspec.json.encode(given).decode()
            )
            clients.answer()
            idle = _idle(node) if task.way == "wake" else 0.0
            before, cpu = node.ask(say=True) if accounts else {}, node.cpu()
            found = clients.ask(go=True)
            used = node.cpu() - cpu
            after = node.ask(say=True) if accounts else {}
            clients.tell(end=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row = _head(task) | _figures(found, used - idle * found["seconds"])
    return row | (_shares(before, after, found["messages"]) if accounts else {})


def _idle(node: Process, seconds: float = 3.0) -> float:
    """CPU seconds that the node uses in a second while nothing comes."""
    before = node.cpu()
    time.sleep(seconds)
    return (node.cpu() - before) / seconds


def _head(task: SwitchTask) -> Row:
    where = ("same queue" if task.same_queue else "other queues") if task.others else ""
    return {"way": task.way, "clients": task.clients, "others": task.others, "where": where}


def _figures(found: Row, used: float) -> Row:
    count, seconds = found["messages"], found["seconds"]
    return {
        "messages": count,
        "rate": round(count / seconds),
        "steps": found["steps"],
        "node_cpu_us": round(used / count * 1e6, 1),
        "client_cpu_us": round(found["client_cpu"] / count * 1e6, 1),
    }


def _shares(before: Row, after: Row, count: int) -> Row:
    """Of the node's CPU time, how much went where; and of the wall time, how much was a commit's."""
    cpu, wall = after["cpu"] - before["cpu"], after["wall"] - before["wall"]
    parts = {part: after["parts"][part] - before["parts"][part] for part in PARTS}
    parts["rest"] = cpu - sum(parts.values())
    commits = after["commits"] - before["commits"]
    return {
        "shares": {part: round(spent / cpu, 3) for part, spent in parts.items()},
        "parts_us": {part: round(spent / count * 1e6, 1) for part, spent in parts.items()},
        "commits_per_message": round(commits / count, 3),
        "commit_wall_share": round((after["commit_wall"] - before["commit_wall"]) / wall, 3),
    }


_HEAD: Final = (
    "way       clients  messages/s  p50 ms  p99 ms  node us/msg | share of CPU:  http   core sqlite   rest"
    "  commits/msg  wall in commits"
)


def line(row: Row) -> str:
    whole = row["steps"]["all"]
    text = (
        f"{row['way']:10}{row['clients']:7} {row['rate']:11,} {whole['p50_ms']:7.2f} {whole['p99_ms']:7.2f} "
        f"{row['node_cpu_us']:12.1f}"
    )
    if row["way"] == "wake":
        return f"{text} | beside {row['others']:,} others {row['where']}"
    if "shares" not in row:
        return text
    shares = " ".join(f"{row['shares'][part]:6.0%}" for part in (*PARTS, "rest"))
    return f"{text} | {shares:>40} {row['commits_per_message']:12.3f} {row['commit_wall_share']:16.0%}"


def plan(options: argparse.Namespace) -> list[tuple[SwitchTask, bool]]:
    """All measurements: rates without accounts, then shares with them."""
    runs: list[tuple[SwitchTask, bool]] = []
    for accounts in (False, True):
        for clients in options.clients:
            count = options.messages if clients > 1 else options.messages // 4
            runs += [(SwitchTask(0, way, clients, count), accounts) for way in ("http", "general", "stream")]
        runs.append((SwitchTask(0, "pipelined", max(options.clients), options.messages), accounts))
        runs.append((SwitchTask(0, "flood", 1, options.messages * 20), accounts))
    for _ in range(options.rounds):  # in turn, so that all see the same machine
        for others, same in ((0, False), (options.others, False), (options.others, True)):
            runs.append((SwitchTask(0, "wake", 1, options.wakes, others, same), False))
    return [run for run in runs if run[0].way in options.ways]


def ratios(rows: list[Row]) -> list[str]:
    """What a wake costs with many others waiting, in multiples of what it costs with none; best of each."""
    best: dict[str, Row] = {}
    for row in rows:
        if row["way"] == "wake":
            known = best.setdefault(row["where"], row)
            best[row["where"]] = min(known, row, key=lambda each: float(each["node_cpu_us"]))
    alone = best.pop("", None)
    return [_beside(row, alone) for row in best.values()] if alone is not None else []


def _beside(row: Row, alone: Row) -> str:
    what = f"waking one beside {row['others']:,} others ({row['where']})"
    if alone["node_cpu_us"] <= 0:
        return f"{what}: too few wakes to tell from an idle node"
    return f"{what} costs the node {row['node_cpu_us'] / alone['node_cpu_us']:.2f} times what it costs alone"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    ways = ("http", "general", "pipelined", "stream", "flood", "wake")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", nargs="*", choices=ways, default=list(ways))
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 64])
    parser.add_argument(
        "--messages", type=int, default=20_000, help="in one measurement; a single client: a quarter"
    )
    parser.add_argument(
        "--others", type=int, default=5000, help="blocked transfers beside the one that is woken"
    )
    parser.add_argument("--wakes", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3, help="how often each wake; the best counts")
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--directory", type=Path, help="where the stores lie: a real disk, not tmpfs")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Run what the options ask for."""
    options = _options(arguments)
    raise_file_limit()
    found = machine()
    say(", ".join(f"{name} {value}" for name, value in found.items()))
    say(_HEAD)
    rows: list[Row] = []
    for task, accounts in plan(options):
        rows.append(measure(task, options.directory, accounts=accounts))
        say(line(rows[-1]))
    for ratio in ratios(rows):
        say(ratio)
    if options.json:
        options.json.write_text(json.dumps({"machine": found, "argv": sys.argv[1:], "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
