"""Takes out what the broker retains from the tree and the node hears no more of: it would stay for ever.

Law: only what is still as the tree gave it goes; what an application has put in its place since is the
application's. So the door looks first, and goes on looking until the broker has heard: it sees in which
order things came, and what an application retained in between is put back.

Wrinkle: the session's connection says it, for that is not sent back to it as something new.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Final

from bridges.properties import MqttProperties
from bridges.site_brokers.base import Desk, SiteBrokerError
from bridges.site_brokers.mosquitto.connection import Filter, MqttConnection, Post, Received
from bridges.site_brokers.mosquitto.loop_detection import digest
from bridges.site_brokers.mosquitto.memory import Memory
from bridges.site_brokers.mosquitto.names import OURS
from treeconnector.patterns import MANY, matches

ROUND: Final = OURS + "round"
_AT_ONCE: Final = 100
_LOOKED_AT: Final = 2000
_SEVERAL: Final = 20
_PATIENCE: Final = 30.0


class Withdrawal:
    """Of one connection. `say`: publishes over the session. `changed`: the memory is to be saved."""

    def __init__(
        self,
        door: MqttConnection,
        say: Callable[[Post], None],
        memory: Memory,
        desk: Desk,
        changed: Callable[[], None],
    ) -> None:
        self.door = door
        self._say = say
        self._memory = memory
        self._desk = desk
        self._changed = changed
        self._patterns: dict[str, None] = {}
        self._work: asyncio.Task[None] | None = None
        self._seen: dict[str, list[Received]] = {}
        self._round = ""
        self._rounded = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Withdrawal patterns={len(self._patterns)} looking={len(self._seen)}>"

    def given(self, names: Iterable[str]) -> None:
        """The broker retains these now. Whoever read them may have gone while they were on the way."""
        for name in self._desk.outdated(name for name in names if name in self._memory.retained):
            self.review(name)

    def review(self, pattern: str) -> None:
        """Messages that are retained of these topics may be outdated."""
        self._patterns[pattern] = None
        if len(self._patterns) > _SEVERAL:
            self._patterns = {MANY: None}
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._review())

    def end(self) -> None:
        if self._work is not None:
            self._work.cancel()

    def heard(self, received: Received) -> bool:
        """The door was given this; whether it was looked for."""
        if received.topic == ROUND:
            if received.payload == self._round.encode():
                self._rounded.set()
            return True
        if received.topic not in self._seen:
            return False
        self._seen[received.topic].append(received)
        return True

    async def _review(self) -> None:
        try:
            while self._patterns:
                pattern = next(iter(self._patterns))
                del self._patterns[pattern]
                names = list(self._memory.retained)
                for first in range(0, len(names), _LOOKED_AT):
                    some = names[first : first + _LOOKED_AT]
                    await self._look([name for name in some if pattern == MANY or matches(pattern, name)])
                    await asyncio.sleep(0)
        except (SiteBrokerError, TimeoutError):
            return  # the connection is lost: the next one looks at everything

    async def _look(self, names: Iterable[str]) -> None:
        old = self._desk.outdated(names)
        for first in range(0, len(old), _AT_ONCE):
            await self._withdraw(old[first : first + _AT_ONCE])

    async def _withdraw(self, names: list[str]) -> None:
        """The desk is asked again at the last moment: somebody may have come, and was given it anew."""
        self._seen = {name: [] for name in names}
        try:
            await self.door.subscribe([Filter(name, 1) for name in names])
            await self._go_round()
            counts = {name: len(seen) for name, seen in self._seen.items()}
            ours = self._desk.outdated([name for name in names if self._is_ours(name)])
            await asyncio.gather(*map(self._clear, ours))
            await self._go_round()
            for name in ours:
                self._put_back(name, self._seen[name][counts[name] :])
        finally:
            self._seen = {}
        self._changed()
        await self.door.unsubscribe(names)

    def _is_ours(self, name: str) -> bool:
        """Is what is retained there what the tree gave? If not, it is none of ours any more."""
        seen = self._seen[name]
        if seen and digest(name, seen[-1].payload) == self._memory.retained.get(name):
            return True
        self._memory.retained.pop(name, None)
        return False

    def _clear(self, name: str) -> "asyncio.Future[int]":
        """The answer is the broker's reason code. Until then it counts as there."""
        answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        known = self._memory.retained[name]

        def done(code: int) -> None:
            if self._memory.retained.get(name) is known:  # and was not given anew since, were it the same
                del self._memory.retained[name]
            if not answered.done():
                answered.set_result(code)

        self._say(Post(name, b"", 1, True, MqttProperties(), done))
        return answered

    def _put_back(self, name: str, seen: list[Received]) -> None:
        """Had an application retained something there just before we cleared it?"""
        cleared = next((at for at, each in enumerate(seen) if not each.payload), 0)
        lost = [each for each in seen[:cleared] if each.retained]
        if lost and cleared == len(seen) - 1:
            last = lost[-1]
            self._say(Post(name, last.payload, last.qos, True, last.properties, lambda code: None))

    async def _go_round(self) -> None:
        """Until what the door is given comes after all that the broker has for it now."""
        self._round = secrets.token_hex(8)
        self._rounded.clear()
        self._say(Post(ROUND, self._round.encode(), 1, False, MqttProperties(), lambda code: None))
        async with asyncio.timeout(_PATIENCE):
            await self._rounded.wait()
