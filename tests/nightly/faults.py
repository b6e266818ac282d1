"""What is done to a node or broker: killed, stopped for a while. The killer's journal says when.

down NAME AT      it is gone, or does not run
up NAME AT        it is there again: a node answers, a broker takes connections
joined all AT     everything is there, and each node is linked with its parent
"""

import asyncio
import errno
import random
import resource
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from application import Journal
from chain import Chain
from mosquitto_server import MosquittoServer

from broker.cli.demo.processes import is_linked

Fault = Callable[["Killer", str, float], Awaitable[None]]
PATIENCE = 120.0


class Killer:
    """Takes one thing after the other away, and brings each back later, several at once. `kinds`: the names
    of faults that are drawn from.

    Of five absences four last a second or two, one up to `longest`: some are longer than a node waits before
    it serves an absent child's queues elsewhere. `stopped`: nodes that ended by themselves.
    """

    def __init__(self, chain: Chain, seed: int, *, kinds: list[str], longest: float, pause: float) -> None:
        self.chain = chain
        self.journal = Journal(chain.journals / "killer.journal")
        self.away: set[str] = set()
        self._chance = random.Random(seed)
        self._kinds = kinds
        self._longest = longest
        self._pause = pause
        self._tasks: set[asyncio.Task[None]] = set()
        self.done = 0
        self.stopped = 0

    async def rounds(self, count: int) -> None:
        """Do harm so often; returns before all are back."""
        for _ in range(count):
            await asyncio.sleep(self._chance.uniform(0.2, 2 * self._pause))
            names = [*self.chain.network.nodes.by_name, *self.chain.brokers]
            name, kind = self._chance.choice(names), self._chance.choice(self._kinds)
            short, long = self._chance.uniform(0.2, 2.0), self._chance.uniform(2.0, self._longest)
            away = long if self._chance.random() < 0.2 else short
            if name in self.away:
                continue
            fault = FAULTS[kind] if name not in self.chain.brokers else FAULTS["kill"]
            self.away.add(name)
            task = asyncio.create_task(self._do(fault, name, away))
            self._tasks.add(task)
            self.chain.check_programs()
            self._fail_early()
            self.done += 1

    def _fail_early(self) -> None:
        for task in [each for each in self._tasks if each.done()]:
            self._tasks.discard(task)
            task.result()

    async def _do(self, fault: Fault, name: str, away: float) -> None:
        await fault(self, name, away)
        self.note("up", name)
        self.away.discard(name)

    def note(self, word: str, name: str) -> None:
        self.journal.write(word, name, time.monotonic())

    async def until_back(self) -> None:
        """Wait until all are there, and then until all are linked."""
        await asyncio.gather(*self._tasks)
        self._tasks.clear()
        nodes = self.chain.network.nodes
        deadline = time.monotonic() + PATIENCE
        while not all(status and is_linked(status) for status in (await nodes.all_status()).values()):
            assert time.monotonic() < deadline, "not all nodes are linked"
            await asyncio.sleep(0.1)
        self.note("joined", "all")


async def kill(killer: Killer, name: str, away: float) -> None:
    chain = killer.chain
    server = chain.brokers.get(name)
    killer.note("down", name)
    if server is not None:
        # A Mosquitto answers before it saves: what SIGKILL takes with it then is its own loss, not ours.
        mosquitto = isinstance(server, MosquittoServer)
        await asyncio.to_thread(server.stop if mosquitto else server.kill)
        await asyncio.sleep(away)
        await asyncio.to_thread(server.start)
        return
    chain.network.kill(name)
    await asyncio.sleep(away)
    await chain.network.launch(name)
    await chain.network.nodes.until_ready(name, PATIENCE)


async def stop(killer: Killer, name: str, away: float) -> None:
    """SIGSTOP, and SIGCONT later: its neighbours and clients see a process that does not answer."""
    node = killer.chain.network.nodes[name]
    killer.note("down", name)
    node.signal(signal.SIGSTOP)
    await asyncio.sleep(away)
    node.signal(signal.SIGCONT)
    await killer.chain.network.nodes.until_ready(name, PATIENCE)


async def jump(killer: Killer, name: str, away: float) -> None:
    """The clock of the wall jumps, to 1970 or years ahead, and stays there."""
    years = (away * 1000 % 1) * 60 - 50
    killer.note("down", name)
    killer.chain.shims[name].set_clock(years * 365 * 86_400)
    await killer.chain.network.nodes.until_ready(name, PATIENCE)


async def fail_disk(killer: Killer, name: str, away: float, error: int) -> None:
    """Nothing is written for a while. A node that stops for that is started again once the disk is well."""
    chain, node = killer.chain, killer.chain.network.nodes[name]
    killer.note("down", name)
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
    killer.note("down", name)
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


FAULTS: dict[str, Fault] = {
    "memory": starve,
    "kill": kill,
    "stop": stop,
    "clock": jump,
    "full-disk": full_disk,
    "failing-disk": failing_disk,
}
SHIMMED = ("clock", "full-disk", "failing-disk")
