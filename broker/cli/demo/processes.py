"""Real node processes: started, killed and stopped by their process id, never by a name.

Law: whoever starts a node ends it: `Nodes` kills what is left when its context ends, and a node dies with
the process that started it, however that ends (see `tied`).
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import aiohttp

from treeconnector.wording import counted

POLL: Final = 0.1
STOP_TIME: Final = 15.0
READY: Final = 120.0
Status = dict[str, Any]


def patience(seconds: float) -> float:
    """So much more time as this machine has more to do than it has processors."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class NodeFailed(Exception):
    """A node did not do what was waited for; the text ends with the last lines of its log."""


class NodeProcess:
    """One node: its file, its URL and, while it runs, its process. Several starts, one after the other."""

    def __init__(self, name: str, file: Path, url: str) -> None:
        self.name = name
        self.file = file
        self.url = url
        self.log = file.with_suffix(".log")
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._signalled = False

    def __repr__(self) -> str:
        state = f"pid={self._process.pid}" if self.running and self._process else "stopped"
        return f"<NodeProcess {self.name} {state} starts={self.starts}>"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended_by_itself(self) -> bool:
        """It was started, has ended, and nobody here told it to."""
        return self._process is not None and not self.running and not self._signalled

    @property
    def pid(self) -> int:
        """Process id of the latest start. Raises `NodeFailed` before the first one."""
        if self._process is None:
            raise NodeFailed(f"{self.name} was never started")
        return self._process.pid

    def start(self, *, environment: dict[str, str] | None = None) -> None:
        """Start the process and return at once; `Nodes.until_ready` waits for it."""
        if self.running:
            raise NodeFailed(f"{self.name} runs already, as process {self.pid}")
        with self.log.open("ab") as log:
            self._process = self._spawn(log.fileno(), environment or {})
        self._signalled = False
        self.starts += 1

    def _spawn(self, log: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        tied = [sys.executable, "-P", "-m", "broker.cli.demo.tied", str(os.getpid())]
        return subprocess.Popen(  # noqa: S603 - our own program
            [*tied, "node", "run", str(self.file)],
            cwd=self.file.parent,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
        )

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it still runs."""
        if self.running and self._process is not None:
            self._signalled = True
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end of the process: it gets no chance to do anything."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    async def stop(self, seconds: float = STOP_TIME) -> int:
        """SIGTERM, and return the exit code. Kills after `seconds`, or more on a busy machine, and raises
        `NodeFailed`.
        """
        self.signal(signal.SIGTERM)
        try:
            return await self.exited(seconds)
        except NodeFailed:
            self.kill()
            raise

    async def exited(self, seconds: float = STOP_TIME) -> int:
        """Wait for the process to end by itself and return its exit code."""
        loop, limit = asyncio.get_running_loop(), patience(seconds)
        deadline = loop.time() + limit
        while self.running:
            if loop.time() > deadline:
                raise NodeFailed(f"{self.name} still runs after {limit:g} s\n{self.last_words()}")
            await asyncio.sleep(POLL)
        return self._process.returncode if self._process is not None else 0

    def last_words(self, lines: int = 15) -> str:
        """The end of the node's log, for errors."""
        if not self.log.exists():
            return f"({self.name} has written no log)"
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(f"  {self.name}: {line}" for line in text.splitlines()[-lines:])


class Nodes:
    """Some nodes and an HTTP client to ask them. An async context manager that leaves nothing running."""

    def __init__(self, nodes: list[NodeProcess]) -> None:
        self.by_name = {node.name: node for node in nodes}
        self._http: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"<Nodes running={sum(node.running for node in self.by_name.values())} of {len(self.by_name)}>"

    def __getitem__(self, name: str) -> NodeProcess:
        return self.by_name[name]

    async def __aenter__(self) -> "Nodes":
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.0))
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.by_name.values():
            node.kill()
        if self._http is not None:
            await self._http.close()

    async def status(self, name: str) -> Status | None:
        """What a node says of itself; None while it cannot be reached."""
        assert self._http is not None, "use `async with`"
        try:
            async with self._http.get(f"{self[name].url}/api/status") as answer:
                if answer.status != 200:
                    return None
                found: Status = await answer.json()
                return found
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def all_status(self) -> dict[str, Status | None]:
        names = list(self.by_name)
        return dict(zip(names, await asyncio.gather(*map(self.status, names)), strict=True))

    async def until(
        self, name: str, holds: Callable[[Status], bool], what: str, seconds: float = READY
    ) -> Status:
        """Poll until `holds(status)`. Raises `NodeFailed` after `seconds`, or when the node ends first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            status = await self.status(name)
            if status is not None and holds(status):
                return status
            if not self[name].running:
                raise NodeFailed(f"{name} ended before it was {what}\n{self[name].last_words()}")
            if loop.time() > deadline:
                raise NodeFailed(f"{name} is not {what} after {seconds:g} s\n{self[name].last_words()}")
            await asyncio.sleep(POLL)

    async def until_ready(self, name: str, seconds: float = READY) -> Status:
        """Wait until the node answers."""
        return await self.until(name, lambda _: True, "ready", seconds)

    async def until_linked(self, name: str, seconds: float = READY) -> Status:
        """Wait until the node's link to its parent is up."""
        return await self.until(name, is_linked, "linked with its parent", seconds)

    async def until_all_linked(self, names: Iterable[str], seconds: float) -> None:
        """Wait until these nodes, parents first, are linked with their parents.

        Raises `NodeFailed` when no further one has answered or was linked for `seconds`, or more on a busy
        machine; it names the node that is in the way: one that has ended, else the uppermost.
        """
        loop, wanted = asyncio.get_running_loop(), list(names)
        asked, best, since = wanted, -1, loop.time()
        while True:
            found = await asyncio.gather(*map(self.status, asked))
            waiting = [(n, s) for n, s in zip(asked, found, strict=True) if not s or not is_linked(s)]
            if not waiting:
                if asked is wanted:
                    return
                asked = wanted  # once more: one that was linked may have lost its parent meanwhile
                continue
            for node in self.by_name.values():
                if node.ended_by_itself:
                    raise NodeFailed(f"{node.name} has ended\n{node.last_words()}")
            linked = len(wanted) - len(waiting)
            reached, limit = linked + len(wanted) - found.count(None), patience(seconds)
            asked = [name for name, _ in waiting]
            if reached > best:
                best, since = reached, loop.time()
            elif loop.time() - since > limit:
                raise NodeFailed(self._in_the_way(*waiting[0], limit))
            await asyncio.sleep(POLL)

    def _in_the_way(self, name: str, status: Status | None, seconds: float) -> str:
        does = "is not linked with its parent" if status else f"does not answer at {self[name].url}"
        load = f"load {os.getloadavg()[0]:.0f} on {counted(os.cpu_count() or 1, 'processor')}"
        last = self[name].last_words()
        return f"{name} {does}, and no node came further for {seconds:.0f} s ({load})\n{last}"

    async def keep_messages(self) -> bool:
        """Does any node keep a message, for a neighbour, a reader or as a dead letter? True also where one
        does not say."""
        found = (await self.all_status()).values()
        return any(
            status is None or any(status["spool"].values()) or status["dead"]["messages"] for status in found
        )

    async def stop_all(self) -> dict[str, int]:
        """SIGTERM to all, and their exit codes."""
        running = [node for node in self.by_name.values() if node.running]
        codes = await asyncio.gather(*(node.stop() for node in running))
        return {node.name: code for node, code in zip(running, codes, strict=True)}


def is_linked(status: Status) -> bool:
    """True when a node's parent link runs; a root is always linked."""
    parent = status.get("parent")
    return status.get("role") == "root" or bool(parent and parent.get("state") == "running")
