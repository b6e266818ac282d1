"""Many leaf nodes in one process: `python -m benchmarks.leaf_host SPEC`, told what to do on standard input.

They are whole nodes (`broker.node.Node`): each has its own store on disk, its own port, its own link by
socket to the parent. They share an event loop, so that a thousand fit on one machine.

Commands, a line of JSON each, answered by one: `start`, `interest` (so many queues read at each leaf), `one`
(one consumer more at the first so many leaves), `status`. The end of input ends the process.
"""

import asyncio
import gc
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from broker import memory
from broker.core.sessions.sessions import Connection
from broker.node import Node
from config.model import Link, Listener, Log, Site, TreeConnector

_AT_ONCE: Final = 20


class Spec(msgspec.Struct):
    """`names`: of the leaves. `uri`: of the parent. `directory`: where each gets its folder. `ports`: of the
    leaves in this order; without them any.
    """

    names: list[str]
    uri: str
    directory: str
    ports: list[int] = []


def queue_of(leaf: str, number: int) -> str:
    """The name of a leaf's queue: no two leaves share one."""
    return f"orders-{number:02d}-{leaf}"


def resident() -> int:
    """Bytes of memory that this process has."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


class Host:
    """The nodes of this process."""

    def __init__(self, spec: Spec) -> None:
        ports = spec.ports or [0] * len(spec.names)
        self._nodes = [Node(_site(spec, *leaf)) for leaf in zip(spec.names, ports, strict=True)]
        self._readers: dict[str, Connection] = {}
        self._commands: dict[str, Callable[[dict[str, Any]], Awaitable[None]]] = {
            "start": self._start,
            "interest": self._interest,
            "one": self._one,
            "status": self._nothing,
        }

    def __repr__(self) -> str:
        return f"<Host of {len(self._nodes)} leaves>"

    async def run(self) -> None:
        """Obey until the input ends, then stop all nodes."""
        loop = asyncio.get_running_loop()
        started = resident()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            await self._commands[command.pop("do")](command)
            gc.collect()
            answer = {"up": self._up(), "memory": resident(), "before": started, "at": time.monotonic()}
            print(json.dumps(answer), flush=True)
        await asyncio.gather(*(node.stop() for node in self._nodes))

    async def _start(self, _: dict[str, Any]) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def start(node: Node) -> None:
            async with gate:
                await node.start()

        await asyncio.gather(*map(start, self._nodes))

    async def _interest(self, command: dict[str, Any]) -> None:
        """Each leaf reads queues `first` to `last` - 1 of its own."""
        for node in self._nodes:
            for number in range(command["first"], command["last"]):
                self._read(node, queue_of(node.site.name, number))
            node.wake()
            await asyncio.sleep(0)

    async def _one(self, command: dict[str, Any]) -> None:
        for node in self._nodes[: command["leaves"]]:
            self._read(node, f"probe-{node.site.name}")
            node.wake()

    async def _nothing(self, _: dict[str, Any]) -> None:
        """Only the answer is wanted."""

    def _read(self, node: Node, queue: str) -> None:
        """A consumer comes to a queue of this leaf, through its switch as any client's."""
        connection = self._readers.get(node.site.name)
        if connection is None:
            connection = self._readers[node.site.name] = Connection(lambda frame: None, "benchmark")
            node.switch.login(connection, "benchmark")
        node.switch.create(connection, queue)
        node.switch.subscribe(connection, queue)

    def _up(self) -> int:
        parents = (node.core.parent for node in self._nodes if node.port)
        return sum(parent is not None and parent.up for parent in parents)


def _site(spec: Spec, name: str, port: int) -> Site:
    """As by default, but that a leaf dials again within 2 s: what is measured is not the pause."""
    return Site(
        name=name,
        data=Path(spec.directory) / name,
        listener=Listener(port=port),
        tree_connectors=(TreeConnector(nodetype="leaf", uri=spec.uri),),
        link=Link(backoff_initial=0.25, backoff_max=2.0, connect_timeout=30.0),
        log=Log(level="error"),
    )


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    memory.set_up()  # as each node's process does
    spec = msgspec.json.decode(sys.argv[1], type=Spec)
    try:
        import uvloop
    except ImportError:
        asyncio.run(Host(spec).run())
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Host(spec).run())


if __name__ == "__main__":
    main()
