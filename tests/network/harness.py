"""Whole networks of real node processes, for the numbered tests.

A `Network` holds nodes with their files and data in one folder. Every node runs as its own process with
Python's warnings as errors; all are gone, killed by their process id, when the network's context ends. The
line between a node and its parent can be a real proxy that is cut, stalled or slow.

    async with Network(tmp_path) as network:
        network.add("hq")
        network.add("store", "hq", line=True)
        await network.start()
        await network.send("hq", "queue:prices", [b"1", b"2"])
        assert await network.collect("store", "queue:prices", 2) == [b"1", b"2"]
        await network.line("store").cut()
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from pprint import pformat
from typing import Any, Self

from nursery import NODES, NurseryChild, nursery

from broker.advisory_log import LogRow, read_log
from broker.cli.demo.line import CutLine
from broker.cli.demo.plan import free_ports
from broker.cli.demo.processes import NodeFailed, NodeProcess, Nodes, Status
from sapwood.client import Client, connect
from sapwood.inbox import Delivery

PATIENCE = 180.0
"""Seconds that a test waits for its nodes: on a machine that does other things too, they take minutes."""
_NOTED = 6_000
NOBODY_THERE = "ws://127.0.0.1:9/link"
WARNINGS_ARE_ERRORS = {"PYTHONWARNINGS": "error"}
QUICK: dict[str, Any] = {
    "tree": "test",
    "link": {"backoff_initial": "50ms", "backoff_max": "500ms"},
}
"""A quick line; else every test has what a user gets."""

Settings = dict[str, Any]


def merged(base: Settings, over: Settings) -> Settings:
    """`over` laid upon `base`, section by section."""
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


class LoadedNode(NodeProcess):
    """A node that begins with the program loaded, unless there are words for Python or the loader."""

    def _spawn(self, log: int, environment: dict[str, str]) -> NurseryChild:
        own = {name for name in environment if name not in WARNINGS_ARE_ERRORS}
        if sys.platform != "linux" or any(name.startswith(("PYTHON", "LD_")) for name in own):
            return super()._spawn(log, environment)
        words, folder = ["node", "run", str(self.file)], self.file.parent
        return nursery(*NODES, **WARNINGS_ARE_ERRORS).start(words, folder, (log, log), environment)


class Network:
    """Nodes, lines and clients of one test. An async context manager.

    `base`: what each site's file says unless its own settings say otherwise; with `{"tree": "test"}` all
    durations are those that a user gets.
    """

    def __init__(self, folder: Path, base: Settings = QUICK) -> None:
        self.folder = folder
        self.base = base
        self.nodes = Nodes([])
        self.lines: dict[str, CutLine] = {}
        self.ports: dict[str, int] = {}
        self.parents: dict[str, str] = {}
        self.environments: dict[str, dict[str, str]] = {}
        self._settings: dict[str, Settings] = {}

    def __repr__(self) -> str:
        return f"<Network {' '.join(self.nodes.by_name)} {self.nodes!r}>"

    async def __aenter__(self) -> Self:
        await self.nodes.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.nodes.__aexit__(*exception)
        for line in self.lines.values():
            await line.cut()

    # --- nodes

    def add(
        self, name: str, parent: str = "", *, role: str = "leaf", line: bool = False, **settings: Any
    ) -> NodeProcess:
        """A new node, not started yet. Without `parent` it is the root. `role`: of a node with a parent.

        `line`: its line to the parent goes through a proxy. `settings`: further keys of the site's file.
        """
        (self.ports[name],) = self._fresh_ports(1)
        node = LoadedNode(name, self.folder / f"{name}.yaml", self.url(name))
        self.nodes.by_name[name] = node
        self.configure(name, parent, role=role, line=line, **settings)
        return node

    def configure(
        self, name: str, parent: str = "", *, role: str = "leaf", line: bool = False, **settings: Any
    ) -> None:
        """Write a node's file anew; it counts from the next start. Settings given earlier stay."""
        self.parents[name] = parent
        if parent and line and name not in self.lines:
            (port,) = self._fresh_ports(1)
            self.lines[name] = CutLine(port, self.ports[parent])
            self._reached_by_lines(parent)
        known = self._settings[name] = merged(self._settings.get(name, self.base), settings)
        fixed: Settings = {"name": name, "data": f"data/{name}", "listener": {"port": self.ports[name]}}
        fixed["permits"] = "open"  # what children may do is the subject of some tests only: these say it
        if any({"consume", "send", "nodes"} & child.keys() for child in known.get("children", ())):
            fixed.pop("permits")
        if is_leaf(known, parent, role):
            fixed.pop("permits", None)
        if parent:
            port = self.lines[name].port if line else self.ports[parent]
            fixed["tree_connectors"] = [{"nodetype": role, "uri": f"ws://127.0.0.1:{port}/link"}]
        text = json.dumps({"broker": merged(fixed, known)}, indent=2)
        self.nodes[name].file.write_text(text, encoding="utf-8")

    def _reached_by_lines(self, parent: str) -> None:
        """A child dials the address that its parent announces when its line is cut: let nobody be there."""
        known = self._settings[parent]
        if "mesh" in known:
            return
        self._settings[parent] = merged(known, {"listener": {"public_uri": NOBODY_THERE}})
        said = json.loads(self.nodes[parent].file.read_text())
        said["broker"]["listener"].setdefault("public_uri", NOBODY_THERE)
        self.nodes[parent].file.write_text(json.dumps(said, indent=2), encoding="utf-8")

    def _fresh_ports(self, count: int) -> list[int]:
        taken = {*self.ports.values(), *(line.port for line in self.lines.values())}
        return [port for port in free_ports(count + len(taken)) if port not in taken][:count]

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def data(self, name: str) -> Path:
        """The folder of the node's durable store."""
        return self.folder / "data" / name

    def line(self, name: str) -> CutLine:
        """The line between `name` and its parent (`add(..., line=True)`)."""
        return self.lines[name]

    async def start(self, *names: str) -> None:
        """Start nodes (all, unless named) and wait until each answers and is linked with its parent."""
        names = names or tuple(self.nodes.by_name)
        for name in names:
            await self.launch(name)
        for name in names:
            await self.nodes.until_linked(name, PATIENCE)

    async def launch(self, name: str) -> NodeProcess:
        """Start a node without waiting for it."""
        if name in self.lines and self.nodes[name].starts == 0:
            await self.lines[name].restore()
        self.nodes[name].start(environment=WARNINGS_ARE_ERRORS | self.environments.get(name, {}))
        return self.nodes[name]

    async def stop(self, name: str) -> int:
        """SIGTERM, wait, and return the exit code."""
        return await self.nodes[name].stop()

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until the process has gone."""
        self.nodes[name].kill()

    async def restart(self, name: str) -> None:
        """SIGTERM, then start again and wait until it is linked. Fails on an exit code other than 0."""
        code = await self.stop(name)
        if code:
            raise NodeFailed(f"{name} ended with exit code {code}\n{self.nodes[name].last_words()}")
        await self.start(name)

    # --- looking

    async def status(self, name: str) -> Status:
        """The node's status; waits until it answers."""
        return await self.nodes.until_ready(name, PATIENCE)

    async def until(
        self, name: str, holds: Callable[[Status], bool], what: str, seconds: float = PATIENCE
    ) -> Status:
        """Wait until `holds(status)`. `what` it should be, for the error."""
        try:
            return await self.nodes.until(name, holds, what, seconds)
        except NodeFailed as failed:
            failed.add_note(f"{name} says {pformat(await self.status(name), compact=True)}"[:_NOTED])
            raise

    async def until_refused(self, name: str, text: str) -> Status:
        """Wait until the node has dialled its parent and was told so."""
        return await self.until(
            name, lambda status: text in status["parent"]["dialling"]["error"], f"refused with {text!r}"
        )

    async def until_child(self, name: str, child: str, state: str = "running") -> Status:
        """Wait until `name` sees its child in `state`."""
        return await self.until(
            name, lambda status: child_state(status, child) == state, f"{state} with {child}"
        )

    async def until_known(self, name: str, destination: str, op: str = "add") -> None:
        """Wait until the node has received an advisory for a destination ('queue:NAME', 'topic:PATTERN')."""
        await self.until(
            name,
            lambda _status: any(
                f"{row.kind}:{row.destination}" == destination for row in self.advisories(name, op)
            ),
            f"told of {destination}",
        )

    async def until_drained(self, name: str, seconds: float = PATIENCE) -> Status:
        """Wait until nothing waits at the node, neither in queues nor for a neighbour."""
        return await self.until(name, lambda status: waiting(status) == 0, "drained", seconds)

    def log_rows(self, name: str) -> list[LogRow]:
        """The node's advisory log."""
        return list(read_log(self.data(name) / "advisories"))

    def advisories(self, name: str, op: str = "add") -> list[LogRow]:
        """Advisories of consumers (not of nodes) that the node has received."""
        rows = self.log_rows(name)
        return [row for row in rows if row.event == "advisory" and row.op == op and row.kind != "domain"]

    # --- clients

    def client(self, name: str, **options: Any) -> Client:
        """A client of a node; use it as a context manager. Patient, as a busy node is slow."""
        return connect(self.url(name), **({"timeout": PATIENCE / 3} | options))

    async def send(self, name: str, destination: str, payloads: Iterable[bytes], **options: Any) -> None:
        """Send and wait until the node has everything on disk."""
        async with asyncio.timeout(PATIENCE), self.client(name) as client:
            await client.send_many(destination, payloads, **options)

    async def collect(
        self, name: str, destination: str, count: int, seconds: float = PATIENCE
    ) -> list[bytes]:
        """Receive and acknowledge exactly `count` messages; fails if they do not come in time."""
        async with self.client(name) as client:
            got = await collect(client, destination, count, seconds)
        return [delivery.payload for delivery in got]


def is_leaf(settings: Settings, parent: str, role: str) -> bool:
    """Is a node one that has no children, be its way up given by name or written out?"""
    ways = settings.get("tree_connectors", ())
    return (
        any(way.get("nodetype") == "leaf" for way in ways)
        or settings.get("scheme") == "satellite"
        or (role == "leaf" and bool(parent) and not ways)
    )


async def have(client: Client, destination: str) -> None:
    """A queue is made where it is not there; a topic needs nothing."""
    if destination.startswith("queue:"):
        await client.create(destination.removeprefix("queue:"))


async def collect(
    client: Client, destination: str, count: int, seconds: float = PATIENCE, durable: str = ""
) -> list[Delivery]:
    """Receive and acknowledge `count` messages over a client; `AssertionError` tells how many came.

    The subscription lives as long as the client: what it was given beyond `count` goes back with it.
    """
    got: list[Delivery] = []
    await have(client, destination)
    try:
        async with asyncio.timeout(seconds):
            async for delivery in client.subscribe(destination, durable=durable):
                got.append(delivery)
                delivery.ack()
                if len(got) == count:
                    break
    except TimeoutError:
        raise AssertionError(
            f"{len(got)} of {count} messages of {destination} came within {seconds:g} s"
        ) from None
    return got


@asynccontextmanager
async def receiving(client: Client, destination: str, durable: str = "") -> AsyncIterator[list[Delivery]]:
    """Receive and acknowledge in the background; yields the list that grows."""
    got: list[Delivery] = []
    await have(client, destination)
    subscription = await client.subscribe(destination, durable=durable).ready()

    async def receive() -> None:
        async for delivery in subscription:
            got.append(delivery)
            delivery.ack()

    task = asyncio.create_task(receive())
    try:
        yield got
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        subscription.close()


async def until_count(
    got: Sequence[object], count: int, seconds: float = PATIENCE, every: float = 0.02
) -> None:
    """Wait until a list that `receiving` fills has `count` items; `AssertionError` tells how many it has.

    `every`: so often, in seconds, it is looked at.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while len(got) < count:
        assert loop.time() < deadline, f"{len(got)} of {count} messages came within {seconds:g} s"
        await asyncio.sleep(every)


def child_state(status: Status, child: str) -> str:
    """How a node sees a child; '' if it does not know it."""
    return next((str(link["state"]) for link in status["children"] if link["name"] == child), "")


def waiting(status: Status) -> int:
    """Messages that wait at a node: in its queues and for its neighbours."""
    links = [*status["children"], *([status["parent"]] if status.get("parent") else [])]
    for_links = sum(link.get("waiting", 0) + link.get("outbox", 0) for link in links)
    return int(for_links + sum(queue["messages"] for queue in status["queues"]))
