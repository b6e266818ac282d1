"""The MQTT door of a node beside a Mosquitto with persistence, in turn: messages a second, and CPU of each.

`python -m benchmarks.door --help`. One producer and one consumer with QoS 1, processes of their own, and
`--pairs` runs of each system. The node has each message on disk before it is acknowledged. `mosquitto` has
persistence and saves each half an hour, as it does unless it is told more; `mosquitto-saving` saves after
each round of its loop, as docs/mosquitto.md wants it, so that a kill loses little. Every message is counted.
"""

import argparse
import json
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.processes import PATIENCE, Process, Processes, free_port, get_json, machine, until
from benchmarks.worker import Task

_LINES: Final = (
    "allow_anonymous true",
    "persistence true",
    "max_queued_messages 1000000",
    "max_inflight_messages 1000",
)


def _node(processes: Processes, folder: Path, port: int) -> Process:
    http = free_port()
    site = {"name": "hq", "data": str(folder / "data"), "listener": {"port": http}, "mqtt": {"port": port}}
    file = folder / "hq.yaml"
    file.write_text(json.dumps({"broker": site | {"log": {"level": "warning"}}}))
    node = processes.python("node", "benchmarks.node_process", str(file))
    until("the node up", lambda: bool(get_json(f"http://127.0.0.1:{http}/api/status")), PATIENCE)
    return node


def _mosquitto(processes: Processes, folder: Path, port: int, *more: str) -> Process:
    file = folder / "mosquitto.conf"
    lines = (f"listener {port} 127.0.0.1", *_LINES, *more, f"persistence_location {folder}/", "user root")
    file.write_text("\n".join(lines) + "\n")
    server = processes.start("mosquitto", ["mosquitto", "-c", str(file)])
    until("Mosquitto up", lambda: _answers(port), PATIENCE)
    return server


def _saving(processes: Processes, folder: Path, port: int) -> Process:
    return _mosquitto(processes, folder, port, "autosave_on_changes true", "autosave_interval 1")


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


_SYSTEMS: Final[dict[str, Callable[[Processes, Path, int], Process]]] = {
    "door": _node,
    "mosquitto": _mosquitto,
    "mosquitto-saving": _saving,
}


def measure(system: str, count: int) -> dict[str, Any]:
    """One run on a fresh server."""
    folder = Path(tempfile.mkdtemp(prefix="sapwood-door-"))
    try:
        with Processes(folder) as processes:
            port = free_port()
            server = _SYSTEMS[system](processes, folder, port)
            task = msgspec.json.encode(Task(str(port), count)).decode()
            workers = [
                processes.python(what, "benchmarks.mqtt_worker", what, task)
                for what in ("consume", "produce")
            ]
            consumer, producer = workers
            for worker in workers:
                worker.answer()
            before = server.cpu()
            producer.tell(go=True)
            sent, received = producer.answer(), consumer.answer()
            return {
                "system": system,
                "messages": count,
                "rate": round(count / (received["last"] - sent["start"])),
                "acknowledged": round(count / (sent["end"] - sent["start"])),
                "cpu_us": round((server.cpu() - before) / count * 1e6, 1),
                "lost": received["lost"],
                "duplicated": received["duplicated"],
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--systems", nargs="+", choices=_SYSTEMS, default=[*_SYSTEMS])
    parser.add_argument("--json", type=Path, help="write everything there")
    options = parser.parse_args(arguments)
    about = machine()
    say(json.dumps(about | {"at": time.strftime("%F %T")}))
    rows = []
    for system in options.systems * options.pairs:
        rows.append(measure(system, options.messages))
        say(json.dumps(rows[-1]))
    best = {each: max(row["rate"] for row in rows if row["system"] == each) for each in options.systems}
    say(json.dumps({f"door of {each}": round(best["door"] / rate, 2) for each, rate in best.items()}))
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
