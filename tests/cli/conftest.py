"""A real node in a thread of its own, for commands that block."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.cli import app as program
from broker.node import Node
from config.model import AdvisoryLog, Delivery, Listener, ServerTls, Site
from sapwood.client import Client, connect

sys.path.append(str(Path(__file__).parents[1] / "network"))  # for `nursery`

Work = Callable[[Client], Coroutine[Any, Any, Any]]


class Running:
    """A node that runs. `do` lets a client of it do something, and waits for that."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self._loop = loop
        self.url = f"http://127.0.0.1:{node.port}"

    def do(self, work: Work, session: str = "till-7-secret") -> Any:
        async def working() -> Any:
            async with connect(self.url, session=session) as client:
                return await work(client)

        return asyncio.run_coroutine_threadsafe(working(), self._loop).result(120)

    def call(self, work: Callable[[], None]) -> None:
        """Do something in the node's own thread."""

        async def calling() -> None:
            work()

        asyncio.run_coroutine_threadsafe(calling(), self._loop).result(120)

    def until(self, holds: Callable[[Node], object]) -> None:
        """Wait until something is so."""

        async def waiting() -> None:
            while not holds(self.node):
                await asyncio.sleep(0.01)

        asyncio.run_coroutine_threadsafe(waiting(), self._loop).result(120)


@contextmanager
def in_a_thread(site: Site) -> Iterator[Running]:
    began, node, ending = threading.Event(), Node(site), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def life() -> None:
        loops.append(asyncio.get_running_loop())
        await node.start()
        began.set()
        await ending.wait()
        await node.stop()
        for _ in range(10):
            await asyncio.sleep(0)  # transports close in the loop's next turns

    thread = threading.Thread(target=lambda: asyncio.run(life()))
    thread.start()
    assert began.wait(120)
    try:
        yield Running(node, loops[0])
    finally:
        loops[0].call_soon_threadsafe(ending.set)
        thread.join()


def site(folder: Path, **tls: Path) -> Site:
    return Site(
        name="hq",
        data=folder,
        listener=Listener(port=0, tls=ServerTls(**tls)),
        advisory_log=AdvisoryLog(enabled=False),
        delivery=Delivery(hold_time=3600.0 if tls else 0.001),
    )


@pytest.fixture(autouse=True)
def no_contexts_of_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.delenv("SAPWOOD_CONTEXT", raising=False)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with in_a_thread(site(tmp_path)) as found:
        yield found


@pytest.fixture
def serve() -> Callable[..., Any]:
    """`serve(folder, certificate=…, key=…, client_ca=…)`: a node with TLS, as a context."""
    return lambda folder, **tls: in_a_thread(site(folder, **tls))


@pytest.fixture
def sapwood(running: Running, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command at the node; returns what it printed, read as JSON where that was asked for."""

    def run(*arguments: str) -> Any:
        capsys.readouterr()
        program.app([*arguments, "--url", running.url], standalone_mode=False)
        printed = capsys.readouterr().out
        return json.loads(printed) if "--json" in arguments else printed

    return run
