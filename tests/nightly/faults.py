"""What is done to nodes, brokers and applications: killed, stopped for a while. The killer's journal knows.

down NAME AT KIND    it is gone, or does not run
up NAME AT KIND      it is there again: a node answers, a broker takes connections, an application has begun
joined all AT -      everything is there, and each node has all its links
"""

import asyncio
import contextlib
import errno
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Self

from application import Journal
from chain import Chain

PATIENCE = 120.0
HOUR, YEAR = 3600.0, 365 * 86_400.0
NODE, BROKER, APPLICATION = "node", "broker", "application"


class Fault(NamedTuple):
    """`do(killer, name, seconds)` does it, and brings back what it took. `to`: what kind of thing."""

    to: str
    do: Callable[["Killer", str, float], Awaitable[None]]


class Killer:
    """Takes one thing after the other away, and brings each back later, several at once. `kinds`: the names
    of faults that are drawn from; `enough`: set when none is to begin any more. An async context manager: at
    its end nothing is done any more.

    Of five absences four last a second or two, one up to `longest`: some are longer than a node waits before
    it serves an absent child's queues elsewhere. `stopped`: nodes that ended by themselves.
    """

    def __init__(
        self,
        chain: Chain,
        seed: int,
        *,
        kinds: list[str],
        longest: float,
        pause: float,
        enough: asyncio.Event,
    ) -> None:
        self.chain = chain
        self.journal = Journal(chain.journals / "killer.journal")
        self.away: set[str] = set()
        self._chance = random.Random(seed)
        self._kinds = kinds
        self._longest = longest
        self._pause = pause
        self._enough = enough
        self._tasks: set[asyncio.Task[None]] = set()
        self.done: Counter[str] = Counter()
        self.stopped = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def rounds(self, count: int) -> None:
        """Do harm so often; returns before all are back."""
        for _ in range(count):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._chance.uniform(0.2, 2 * self._pause)):
                    await self._enough.wait()
                    return
            kind = self._chance.choice(self._kinds)
            name = self._chance.choice(self._targets(FAULTS[kind].to))
            short, long = self._chance.uniform(0.2, 2.0), self._chance.uniform(2.0, self._longest)
            away = long if self._chance.random() < 0.2 else short
            self.chain.check_programs()
            self._fail_early()
            if name in self.away:
                continue
            self.away.add(name)
            self.done[kind] += 1
            self._tasks.add(asyncio.create_task(self._do(kind, name, away)))

    def _targets(self, kind: str) -> list[str]:
        """All that can be harmed in this way, there or not: the draw depends on the seed alone."""
        chain = self.chain
        found = {NODE: chain.network.nodes.by_name, BROKER: chain.brokers, APPLICATION: chain.commands}
        return list(found[kind])

    def _fail_early(self) -> None:
        for task in [each for each in self._tasks if each.done()]:
            self._tasks.discard(task)
            task.result()

    async def _do(self, kind: str, name: str, away: float) -> None:
        self.note("down", name, kind)
        await FAULTS[kind].do(self, name, away)
        self.note("up", name, kind)
        self.away.discard(name)

    def note(self, word: str, name: str, kind: str) -> None:
        self.journal.write(word, name, time.monotonic(), kind)

    async def until_back(self) -> None:
        """Wait until all are there, and then until all are linked."""
        await asyncio.gather(*self._tasks)
        self._tasks.clear()
        await self.chain.until_whole(PATIENCE)
        self.note("joined", "all", "-")


async def kill(killer: Killer, name: str, away: float) -> None:
    chain = killer.chain
    chain.network.kill(name)
    await asyncio.sleep(away)
    await chain.network.launch(name)
    await chain.network.nodes.until_ready(name, PATIENCE)


async def kill_broker(killer: Killer, name: str, away: float) -> None:
    """A Mosquitto answers before it saves: what SIGKILL takes then of a site is its own loss, not ours. One
    that only links ride on keeps nothing.
    """
    server = killer.chain.brokers[name]
    await asyncio.to_thread(server.stop if name == "mosquitto" else server.kill)
    await asyncio.sleep(away)
    await asyncio.to_thread(server.start)


async def kill_application(killer: Killer, name: str, away: float) -> None:
    """It comes back under its names, and goes on."""
    chain = killer.chain
    chain.kill_program(name)
    await asyncio.sleep(away)
    chain.start_program(name)
    await chain.until_said(name, "begun", chain.said(name, "begun") + 1)


async def stop_application(killer: Killer, name: str, away: float) -> None:
    program = killer.chain.programs[name]
    program.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(away)
    finally:
        program.send_signal(signal.SIGCONT)


async def stop(killer: Killer, name: str, away: float) -> None:
    """SIGSTOP, and SIGCONT later: its neighbours and clients see a process that does not answer."""
    node = killer.chain.network.nodes[name]
    node.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(away)
    finally:
        node.signal(signal.SIGCONT)
    await killer.chain.network.nodes.until_ready(name, PATIENCE)


async def jump(killer: Killer, name: str, away: float) -> None:
    """The clock of the wall jumps by hours or years, back or ahead, and stays there."""
    ahead = (away * 1000 % 1) * 2 - 1
    farthest = 12 * HOUR if away * 100 % 1 < 0.5 else 50 * YEAR
    killer.chain.shims[name].set_clock(ahead * farthest)
    await killer.chain.network.nodes.until_ready(name, PATIENCE)


async def fail_disk(killer: Killer, name: str, away: float, error: int) -> None:
    """Nothing is written for a while. A node that stops for that is started again once the disk is well."""
    chain, node = killer.chain, killer.chain.network.nodes[name]
    chain.shims[name].fail(error)
    ends = time.monotonic() + away
    while node.running and time.monotonic() < ends:
        await asyncio.sleep(0.05)
    chain.shims[name].fail(0)
    await until_there(killer, name)


async def full_disk(killer: Killer, name: str, away: float) -> None:
    await fail_disk(killer, name, away, errno.ENOSPC)


async def failing_disk(killer: Killer, name: str, away: float) -> None:
    await fail_disk(killer, name, away, errno.EIO)


async def starve(killer: Killer, name: str, away: float) -> None:
    """The node gets no more memory than it has. One that ends for that is started again."""
    node = killer.chain.network.nodes[name]
    pages = int(Path(f"/proc/{node.pid}/statm").read_text().split()[0])
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_AS)
    resource.prlimit(node.pid, resource.RLIMIT_AS, (pages * resource.getpagesize(), hard))
    ends = time.monotonic() + away
    while node.running and time.monotonic() < ends:
        await asyncio.sleep(0.05)
    if node.running:
        resource.prlimit(node.pid, resource.RLIMIT_AS, (hard, hard))
    await until_there(killer, name)


async def until_there(killer: Killer, name: str) -> None:
    """Wait until the node answers; start it again if it has ended by itself."""
    chain, node = killer.chain, killer.chain.network.nodes[name]
    ends = time.monotonic() + PATIENCE
    while not node.running or await chain.network.nodes.status(name) is None:
        assert time.monotonic() < ends, f"{name} does not come back: {node.last_words()}"
        if not node.running:
            killer.stopped += 1
            await chain.network.launch(name)
        await asyncio.sleep(0.2)


FAULTS = {
    "kill": Fault(NODE, kill),
    "kill-application": Fault(APPLICATION, kill_application),
    "kill-broker": Fault(BROKER, kill_broker),
    "stop": Fault(NODE, stop),
    "stop-application": Fault(APPLICATION, stop_application),
    "clock": Fault(NODE, jump),
    "full-disk": Fault(NODE, full_disk),
    "failing-disk": Fault(NODE, failing_disk),
    "memory": Fault(NODE, starve),
}
USUAL = (*["kill"] * 3, *["kill-application"] * 2, "kill-broker", *FAULTS)
"""Drawn from where nothing is said: all, and what kills more often."""
SHIMMED = ("clock", "full-disk", "failing-disk")
