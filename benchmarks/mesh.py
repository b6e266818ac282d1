"""Three roots that are one, four regions, forty stores: each root is killed in turn under load, then all
lines of one region are cut and restored.

`python -m benchmarks.mesh --help`. All nodes are real, with stores on disk and links on sockets; the stores
of a region share a process. Each store reads a queue of its own and sends, all the time, to the queue of a
store of another region. What was confirmed and did not arrive, or came twice without a mark, fails the run.
"""

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.leaf_host import Spec
from benchmarks.processes import BenchmarkFailed, Process, Processes, free_port, get_json, machine
from broker.cli.demo.line import CutLine
from sapwood.client import Client, connect

CORES: Final = ("hq-1", "hq-2", "hq-3")
_POLL: Final = 0.1
_BURST: Final = 5
Say = Callable[[str], None]


class Network:
    """The nodes and the lines of the first region."""

    def __init__(self, processes: Processes, directory: Path, options: argparse.Namespace) -> None:
        self._processes = processes
        self._directory = directory
        self._limit = options.limit
        self.regions = [f"region-{number}" for number in range(options.regions)]
        self.stores = {
            region: [f"{region}-store-{number}" for number in range(options.stores)]
            for region in self.regions
        }
        names = [*CORES, *self.regions, *(store for stores in self.stores.values() for store in stores)]
        self.ports = {name: free_port() for name in names}
        self.lines = [CutLine(free_port(), self.ports[core]) for core in CORES]
        self.servers: dict[str, Process] = {}
        self._hosts: list[Process] = []

    def __repr__(self) -> str:
        return f"<Network of {len(self.ports)} nodes>"

    async def start(self) -> None:
        for name in (*CORES, *self.regions):
            self.launch(name)
        for name in (*CORES, *self.regions):
            await self.until(name, lambda status: True, "up")
        for region, stores in self.stores.items():
            uri, ports = f"ws://127.0.0.1:{self.ports[region]}/link", [self.ports[store] for store in stores]
            text = msgspec.json.encode(Spec(stores, uri, str(self._directory), ports)).decode()
            self._hosts.append(self._processes.python(f"stores-{region}", "benchmarks.leaf_host", text))
        for host in self._hosts:
            await asyncio.to_thread(host.ask, do="start")
        await self.until_whole()

    def launch(self, name: str) -> None:
        file = self._directory / f"{name}.yaml"
        file.write_text(json.dumps({"broker": self._site(name)}))
        self.servers[name] = self._processes.python(name, "benchmarks.node_process", str(file))

    def _site(self, name: str) -> dict[str, Any]:
        """As by default, but that a node dials again within 2 s. The first region has the lines only."""
        site: dict[str, Any] = {
            "name": name,
            "data": str(self._directory / name),
            "listener": {"port": self.ports[name]},
            "link": {"backoff_initial": 0.25, "backoff_max": 2, "connect_timeout": 30},
            "log": {"level": "error"},
            "permits": "open",  # no permits are measured here
        }
        outside = [f"ws://127.0.0.1:{line.port}/link" for line in self.lines]
        inside = [f"ws://127.0.0.1:{self.ports[core]}/link" for core in CORES]
        if name in CORES:
            others = zip(CORES, inside, strict=True)
            site["mesh"] = {"cores": [{"name": core, "uri": uri} for core, uri in others if core != name]}
            site["listener"]["public_uri"] = outside[CORES.index(name)]
            return site
        uris = outside if name == self.regions[0] else inside
        site["tree_connectors"] = [{"nodetype": "branch", "uri": uris[0], "uris": uris[1:]}]
        return site

    async def status(self, name: str) -> dict[str, Any]:
        return await asyncio.to_thread(get_json, f"http://127.0.0.1:{self.ports[name]}/api/status") or {}

    async def until(self, name: str, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
        end = time.monotonic() + self._limit
        while not ((status := await self.status(name)) and holds(status)):
            if time.monotonic() > end:
                raise BenchmarkFailed(f"{name} is not {what} after {self._limit:g} s")
            await asyncio.sleep(_POLL)

    async def until_whole(self) -> None:
        """All roots are linked with each other, all regions with all roots."""
        for name in CORES:
            await self.until(name, lambda status: _running(status, "mesh") == len(CORES) - 1, "in the mesh")
        for name in self.regions:
            await self.until(
                name, lambda status: _running(status, "parents") == len(CORES), "linked with all"
            )

    async def total(self, counter: str) -> int:
        """Of all nodes that answer, since they started last."""
        found = [await self.status(name) for name in self.ports]
        return sum(status.get("counters", {}).get(counter, 0) for status in found)


def _running(status: dict[str, Any], kind: str) -> int:
    return sum(link["state"] == "running" for link in status[kind])


class Load:
    """Each store sends to one of another region. `longest`: the longest time without any message, seconds."""

    def __init__(self, network: Network, rate: float) -> None:
        self._network = network
        self._pause = _BURST / rate
        self._tasks: list[asyncio.Task[None]] = []
        self.confirmed: set[bytes] = set()
        self.came: Counter[bytes] = Counter()
        self.unmarked: Counter[bytes] = Counter()
        self.enough = False
        self.longest = 0.0
        self._last = time.monotonic()

    async def start(self, stack: AsyncExitStack) -> None:
        stores = [store for stores in zip(*self._network.stores.values(), strict=True) for store in stores]
        clients: dict[str, Client] = {}
        for store in stores:
            client = connect(f"http://127.0.0.1:{self._network.ports[store]}")
            clients[store] = await stack.enter_async_context(client)
            await clients[store].create(f"queue-{store}")
            self._spawn(self._receive(clients[store], f"queue:queue-{store}"))
        await asyncio.sleep(2)
        for store, to in zip(stores, [*stores[1:], stores[0]], strict=True):
            self._spawn(self._send(clients[store], store, f"queue:queue-{to}"))
        self.fresh()

    def _spawn(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    def fresh(self) -> float:
        """The longest pause since the last call, seconds."""
        longest, self.longest, self._last = self.longest, 0.0, time.monotonic()
        return longest

    async def _receive(self, client: Client, queue: str) -> None:
        async for delivery in client.subscribe(queue):
            now = time.monotonic()
            self.longest, self._last = max(self.longest, now - self._last), now
            self.came[delivery.payload] += 1
            self.unmarked[delivery.payload] += not delivery.redelivered
            delivery.ack()

    async def _send(self, client: Client, name: str, queue: str) -> None:
        number = 0
        await asyncio.sleep(random.uniform(0, self._pause))
        while not self.enough:
            burst = [f"{name} {number + each}".encode() for each in range(_BURST)]
            await client.send_many(queue, burst)
            self.confirmed.update(burst)
            number += _BURST
            await asyncio.sleep(self._pause)

    async def finish(self, limit: float) -> None:
        """Wait until all that was confirmed has come. Raises `BenchmarkFailed`."""
        self.enough = True
        end = time.monotonic() + limit
        while len(self.came) < len(self.confirmed) and time.monotonic() < end:
            await asyncio.sleep(_POLL)
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise BenchmarkFailed(f"a store could not go on: {ended}")
        lost = self.confirmed - self.came.keys()
        if lost:
            raise BenchmarkFailed(f"{len(lost)} confirmed messages never came, such as {min(lost)!r}")
        twice = [payload for payload, count in self.unmarked.items() if count > 1]
        if twice:
            raise BenchmarkFailed(f"{len(twice)} messages came twice without a mark, such as {min(twice)!r}")


async def run(options: argparse.Namespace, say: Say) -> dict[str, Any]:
    """The whole scenario; its counts."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sapwood-mesh-")))
        network = Network(stack.enter_context(Processes(folder)), folder, options)
        for line in network.lines:
            await stack.enter_async_context(line)
        started = time.monotonic()
        await network.start()
        say(f"{len(network.ports)} nodes linked after {time.monotonic() - started:.1f} s")
        load = Load(network, options.rate)
        await load.start(stack)
        pauses = await _trouble(network, load, options, say)
        await load.finish(options.limit)
        counts = {name: await network.total(name) for name in ("out_of_order", "duplicates_dropped")}
    return {
        "machine": machine(),
        "nodes": len(network.ports),
        "messages": len(load.confirmed),
        "came_twice_and_marked": sum(count - 1 for count in load.came.values()),
        **counts,
        "longest_pause_s": pauses,
    }


async def _trouble(network: Network, load: Load, options: argparse.Namespace, say: Say) -> dict[str, float]:
    """Kill each root, cut a region's lines; the longest time without any message in each of these."""
    pauses: dict[str, float] = {}
    await asyncio.sleep(options.seconds)
    pauses["quiet"] = round(load.fresh(), 3)
    for core in CORES:
        network.servers[core].kill()
        await asyncio.sleep(options.seconds)
        network.launch(core)
        await network.until_whole()
        pauses[f"{core} killed"] = round(load.fresh(), 3)
        say(f"{core} was killed and is back; {len(load.confirmed)} messages so far")
    for line in network.lines:
        await line.cut()
    await asyncio.sleep(options.seconds)
    for line in network.lines:
        await line.restore()
    await network.until_whole()
    pauses[f"lines of {network.regions[0]} cut"] = round(load.fresh(), 3)
    say(f"all lines of {network.regions[0]} were cut and are back; {len(load.confirmed)} messages so far")
    return pauses


def main(arguments: Sequence[str] | None = None, say: Say = print) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--regions", type=int, default=4)
    parser.add_argument("--stores", type=int, default=10, help="of each region")
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second that each store sends")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each trouble lasts")
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--limit", type=float, default=120.0, help="longest wait for anything, seconds")
    options = parser.parse_args(arguments)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = asyncio.run(run(options, lambda text: print(text, file=sys.stderr, flush=True)))
    except BenchmarkFailed as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
    say(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
