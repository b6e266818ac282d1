"""Real node processes for clients that know sockets only."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "network"))  # for `nursery`

from nursery import NODES, NurseryChild, nursery
from plain import PATIENCE, Link

from broker.cli.demo.plan import free_ports

STRICT = {"PYTHONWARNINGS": "error"}


class Node:
    """One node as a process, with its file and its data. `links` are closed with it."""

    def __init__(self, folder: Path, name: str = "hq", **settings: Any) -> None:
        self.name = name
        self.file = folder / f"{name}.yaml"
        self.log = folder / f"{name}.log"
        (self.port,) = free_ports(1)
        self.links: list[Link] = []
        self.process: NurseryChild | None = None
        self.write(**settings)

    def write(self, **settings: Any) -> None:
        """Write its file; it counts from the next start."""
        listener = {"port": self.port, **settings.pop("listener", {})}
        fixed = {"name": self.name, "tree": "test", "data": f"data-{self.name}", "listener": listener}
        self.file.write_text(json.dumps({"broker": settings | fixed}))

    def start(self) -> "Node":
        with self.log.open("ab") as log:
            self.process = nursery(*NODES, **STRICT).start(
                ["node", "run", str(self.file)], self.file.parent, [log.fileno()] * 2, STRICT
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with Link(self.port) as link:
                    assert link.ask("/readyz").status == 200
                    return self
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, "the node does not answer"
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def link(self) -> Link:
        link = Link(self.port)
        self.links.append(link)
        return link

    def session(self, token: str) -> Link:
        """A new connection, logged in to a session."""
        return self.link().login(token)

    def status(self) -> dict[str, Any]:
        with Link(self.port) as link:
            return dict(json.loads(link.well("/api/status")))

    def until(self, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until the node's status is so."""
        deadline = time.monotonic() + PATIENCE
        while True:
            status = self.status()
            if holds(status):
                return status
            assert time.monotonic() < deadline, f"not {what}: {status}"
            time.sleep(0.02)

    def messages(self, queue: str) -> int:
        """How many messages a queue holds."""
        names = (queue, f"queue:{queue}")
        return sum(item["messages"] for item in self.status()["queues"] if item["name"] in names)

    def end(self) -> None:
        for link in self.links:
            link.close()
        if self.process is not None and self.process.poll() is None:
            self.kill()


Maker = Callable[..., Node]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Maker]:
    """Nodes that are gone at the end of the test."""
    made: list[Node] = []

    def start(name: str = "hq", **settings: Any) -> Node:
        node = Node(tmp_path, name, **settings)
        made.append(node)
        return node.start()

    yield start
    for node in made:
        node.end()


@pytest.fixture
def node(make: Maker) -> Node:
    return make()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all tests of a module that leave nothing behind."""
    node = Node(tmp_path_factory.mktemp("shared")).start()
    yield node
    node.end()


@pytest.fixture
def here(shared: Node) -> Iterator[Node]:
    """The module's node; connections end with the test."""
    yield shared
    for link in shared.links:
        link.close()
    shared.links.clear()
