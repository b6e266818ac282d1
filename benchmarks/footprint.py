"""An idle store: memory of its node, and the CPU from its start until it is linked.

`python -m benchmarks.footprint`: a real root, and under it a leaf beside a real Mosquitto, started `--rounds`
times after once that does not count; memory by `/proc/PID/smaps_rollup` once it has been idle for `--idle`
seconds. The leaf itself is asked nothing: its parent says when it is linked. Beside it in the same run: a
Mosquitto that bridges to another, and a Python that has imported asyncio and waits.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import (
    PATIENCE,
    ROOT,
    Processes,
    cpu_seconds,
    free_port,
    get_json,
    line_bytes,
    machine,
    until,
)

sys.path.insert(0, str(ROOT / "tests" / "brokers"))

from mosquitto_server import MosquittoServer

_BARE: Final = "import asyncio; print('up', flush=True); asyncio.run(asyncio.sleep(3600))"
_SAPWOOD: Final = "from broker.cli.program import main; main()"
_BROKER: Final = ("allow_anonymous true", "log_dest topic", "log_type notice", "log_type subscribe")
_MIB: Final = 1024
Row = dict[str, float]


def memory(pid: int) -> Row:
    """MiB: resident, its share of what several processes have, and what nobody else has."""
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        fields[name] = int(rest.split()[0]) / _MIB
    private = fields["Private_Clean"] + fields["Private_Dirty"]
    return {"rss": fields["Rss"], "pss": fields["Pss"], "private": private}


def _look(pid: int, idle: float, linked: Callable[[], Any]) -> Row:
    """The CPU until `linked` is true, then memory and CPU at rest."""
    until("the link up", linked, PATIENCE, poll=0.01)
    cpu = cpu_seconds(pid)
    time.sleep(idle)
    rest = (cpu_seconds(pid) - cpu) / idle
    return {"cpu_s": cpu, "rest_ms": rest * 1000, **memory(pid)}


def _write(directory: Path, name: str, site: dict[str, Any]) -> str:
    file = directory / f"{name}.yaml"
    made = {"name": name, "data": str(directory / f"data-{name}"), "log": {"level": "warning"}, **site}
    file.write_text(json.dumps({"broker": made}))
    return str(file)


class Nodes:
    """A root that runs all the time, and leaves under it, one after the other, each with an empty store."""

    def __init__(self, processes: Processes, directory: Path, broker: int) -> None:
        self._processes, self._directory, self._broker = processes, directory, broker
        self._port, self._count = free_port(), 0
        root: dict[str, Any] = {
            "listener": {"port": self._port},
            "permits": {"consume": ["#"], "send": ["#"], "nodes": ["*"]},
        }
        self._run("hq", root)
        until("the root up", lambda: get_json(f"http://127.0.0.1:{self._port}/api/links"), PATIENCE)

    def __repr__(self) -> str:
        return f"<Nodes under port {self._port}>"

    def _run(self, name: str, site: dict[str, Any]) -> Any:
        file = _write(self._directory, name, site)
        return self._processes.start(name, [sys.executable, "-c", _SAPWOOD, "node", "run", file])

    def leaf(self, idle: float, *, site_broker: bool) -> Row:
        self._count += 1
        name = f"store-{self._count}"
        site: dict[str, Any] = {
            "listener": {"port": 0},
            "tree_connectors": [{"nodetype": "leaf", "uri": f"ws://127.0.0.1:{self._port}/link"}],
        }
        if site_broker:
            site["site_broker"] = {"uri": f"mqtt://127.0.0.1:{self._broker}"}
        process = self._run(name, site)
        try:
            return _look(process.pid, idle, partial(self._linked, name))
        finally:
            process.stop()

    def _linked(self, name: str) -> bool:
        links = (get_json(f"http://127.0.0.1:{self._port}/api/links") or {}).get("links", [])
        return any(link["name"] == name and link["state"] == "running" for link in links)


def _bridge(directory: Path, port: int, idle: float) -> Row:
    """A Mosquitto that bridges to the one at `port`."""
    up = (
        f"connection {directory.name}",
        f"address 127.0.0.1:{port}",
        "topic sales/# out 1",
        "restart_timeout 1",
    )
    broker = MosquittoServer(directory, *_BROKER, *up)
    broker.start()
    try:
        pid = broker.process.pid  # type: ignore[union-attr]
        return _look(pid, idle, lambda: line_bytes(pid, port))
    finally:
        broker.stop()


def _bare(processes: Processes, name: str, idle: float) -> Row:
    process = processes.start(name, [sys.executable, "-c", _BARE])
    assert process.popen.stdout is not None
    process.popen.stdout.readline()
    try:
        return _look(process.pid, idle, lambda: True)
    finally:
        process.stop()


@contextmanager
def _site(directory: Path) -> Iterator[tuple[Processes, Nodes, int]]:
    broker = MosquittoServer(directory / "broker", *_BROKER)
    broker.start()
    try:
        with Processes(directory) as processes:
            yield processes, Nodes(processes, directory, broker.port), broker.port
    finally:
        broker.stop()


@contextmanager
def _bytecode(folder: Path) -> Iterator[None]:
    """Each start but the first finds its modules compiled, as those of an installed package are."""
    before = dict(os.environ)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def measure(rounds: int, idle: float, folder: Path | None = None) -> dict[str, Row]:
    """The median of each figure, by system; the systems take turns."""
    found: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="sapwood-footprint-", dir=folder) as made:
        directory = Path(made)
        with _bytecode(directory / "bytecode"), _site(directory) as (processes, nodes, broker):
            systems: dict[str, Callable[[int], Row]] = {
                "leaf, Mosquitto": lambda _: nodes.leaf(idle, site_broker=True),
                "leaf, no site broker": lambda _: nodes.leaf(idle, site_broker=False),
                "mosquitto, bridge": lambda turn: _bridge(directory / f"bridge-{turn}", broker, idle),
                "python, asyncio": lambda turn: _bare(processes, f"bare-{turn}", idle),
            }
            for turn in range(rounds + 1):
                for name, look in systems.items():
                    found.setdefault(name, []).append(look(turn))
    return {
        name: {key: statistics.median(row[key] for row in rows[1:]) for key in rows[0]}
        for name, rows in found.items()
    }


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=3.0, help="seconds")
    parser.add_argument("--directory", type=Path, help="where stores go for the time")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    about, figures = machine(), measure(options.rounds, options.idle, options.directory)
    say(f"{about}; median of {options.rounds}\n")
    say("| process | CPU until linked, s | resident, MiB | proportional | private | CPU at rest, ms/s |")
    say("|---|---:|---:|---:|---:|---:|")
    for name, row in figures.items():
        sizes = f"{row['rss']:.1f} | {row['pss']:.1f} | {row['private']:.1f}"
        say(f"| {name} | {row['cpu_s']:.2f} | {sizes} | {row['rest_ms']:.1f} |")
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "figures": figures}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
