"""The end of a channel at this node: what comes from a pipe goes to the core, and the other way round.

Law: memory is bounded, however slow anybody reads. A pipe is read no further than `LocalEnds.room` says while
what came has not been passed on; bytes that came through the tree are given credit again when the pipe has
taken them, so the links bound those.

Law: no neighbour takes all ends. It has fewer than are free, so one alone takes half of them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, ParamSpec

from broker.core.neighbours.channels import RESET, Channel, Channels
from broker.host import Host
from broker.link_driver import LinkDriver
from sapwood.channels.pipes import Pipe, PipeBroken, until_first
from sapwood.protocol.packets import Bytes

MOST: Final = 4096
"""Ends of channels at one node."""
WINDOW: Final = 480 * 1024
LEAST: Final = 4 * 1024
"""Bytes of one pipe that may be under way at most, and whatever the others do."""
ALL_BYTES: Final = 32 * 1024 * 1024
_STOPS: Final = "the node stops"
Arguments = ParamSpec("Arguments")


class LocalEnds:
    """All of one node."""

    def __init__(self, host: Host, wires: LinkDriver) -> None:
        self._host = host
        self._wires = wires
        self.open: set[LocalEnd] = set()
        self._of: Counter[str] = Counter()
        self._unpassed = 0

    def __repr__(self) -> str:
        return f"<LocalEnds of {self._host.core.identity.name}: {len(self.open)}>"

    @property
    def channels(self) -> Channels:
        return self._host.core.channels

    def why_none(self, asker: str = "") -> str:
        """Why there can be no more of a neighbour's, or of whoever asks here; '' if there can."""
        me, free, has = self._host.core.identity.name, MOST - len(self.open), self._of[asker]
        if not free:
            return f"{me} has {MOST} ends of channels: none more now"
        if asker and has >= free:
            return f"{asker} has {has} of the {MOST} ends of channels at {me}: none more of it now"
        return ""

    def add(self, end: "LocalEnd") -> None:
        self.open.add(end)
        self._of[end.asker] += 1

    def discard(self, end: "LocalEnd") -> None:
        """It is over: what was under way counts no more."""
        if end in self.open:
            self.open.discard(end)
            self._of[end.asker] -= 1
            if not self._of[end.asker]:
                del self._of[end.asker]
            self._unpassed -= end.unpassed

    def took(self, end: "LocalEnd", size: int) -> None:
        """So many bytes of a pipe are under way, or, below 0, have been passed on."""
        end.unpassed += size
        if end in self.open:
            self._unpassed += size

    def room(self, end: "LocalEnd") -> int:
        """Bytes that may be read of a pipe: a few always, and of the rest no pipe has more than is free.

        0 before half of what it may have is there to be read: else a line that takes a packet of 12 KB at a
        time is read 12 KB at a time.
        """
        free = ALL_BYTES - MOST * LEAST - self._unpassed
        most = max(LEAST, min(WINDOW, free))
        room = most - end.unpassed
        return room if 2 * room >= most else 0

    def tell(
        self, call: Callable[Arguments, None], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> None:
        """Tell the core something of a channel, and let out what follows from that."""
        self._host.core.advance(self._host.now())
        call(*arguments, **named)
        self._wires.flush()


class LocalEnd:
    """One end, a `Side` of its channel. `via`: what stands there, for people. `channel`: None before it is.
    `asker`: the neighbour that asked for it; '' = somebody here. `unpassed`: bytes of its pipe under way.

    `why`: it is over before its time, and why; '' while it is not. `dialling`: the work on the connection
    that it waits for, which ends with it.
    """

    def __init__(self, ends: LocalEnds, via: str, asker: str = "") -> None:
        self.via = via
        self.asker = asker
        self.channel: Channel | None = None
        self.why = ""
        self.dialling: asyncio.Task[None] | None = None
        self._ends = ends
        self._outgoing: deque[Bytes] = deque()
        self.unpassed = 0
        self._ending = False
        self._some, self._room, self._heard_all = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_open, self._is_over = asyncio.Event(), asyncio.Event()
        ends.add(self)

    def __repr__(self) -> str:
        return f"<LocalEnd {self.via} unpassed={self.unpassed} outgoing={len(self._outgoing)}>"

    # --- the core's side

    def opened(self) -> None:
        self._is_open.set()

    def send(self, data: Bytes) -> None:
        self._outgoing.append(data)
        self._some.set()

    def finish(self) -> None:
        self._ending = True
        self._some.set()

    def reset(self, reason: str, text: str) -> None:
        self.why = text or reason or RESET
        self._outgoing.clear()
        if self.dialling is not None:
            self.dialling.cancel()
        self._ends.discard(self)
        self._is_open.set()
        self._is_over.set()

    def passed(self, size: int) -> None:
        self._ends.took(self, -size)
        self._room.set()

    # --- the pipe's side

    async def until_open(self, seconds: float) -> bool:
        """Is what was asked for there? If not, `why` says why not."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_open.wait()
        except TimeoutError:
            self.end("unreachable", f"no answer within {seconds:g} s")
        except asyncio.CancelledError as cancelled:
            self.end(RESET, str(cancelled) or _STOPS)
            raise
        return not self.why

    def end(self, reason: str, text: str) -> None:
        """End it here, if it is not over yet."""
        if not self.why:
            self._ends.tell(self._ends.channels.broken, self, reason, text)
            self.reset(reason, text)

    async def run(self, pipe: Pipe) -> None:
        """Pass bytes on until both directions have ended, or it is broken; then the pipe has ended too."""
        well = False
        try:
            await until_first(self._read(pipe), self._write(pipe), self._is_over.wait())
            well = not self.why
        except PipeBroken as error:
            self.end(RESET, f"{self.via}: {error}")
        except asyncio.CancelledError as cancelled:
            self.end(RESET, str(cancelled) or _STOPS)
            raise
        finally:
            if not well:
                self.end(RESET, _STOPS)
            try:
                await (pipe.close() if well else pipe.abort(self.why))
            finally:
                self._ends.discard(self)

    async def _read(self, pipe: Pipe) -> None:
        ends = self._ends
        while data := await pipe.read(ends.room(self)):
            ends.took(self, len(data))
            ends.tell(ends.channels.arrived, self, data)
            while ends.room(self) <= 0:
                self._room.clear()
                await self._room.wait()
        ends.tell(ends.channels.finished, self)
        self._heard_all.set()
        await pipe.broken()

    async def _write(self, pipe: Pipe) -> None:
        ends = self._ends
        while not self._ending or self._outgoing:
            while self._outgoing:
                data = self._outgoing.popleft()
                await pipe.write(data)
                ends.tell(ends.channels.passed, self, len(data))
            if not self._ending:
                self._some.clear()
                await self._some.wait()
        await pipe.finish()
        await self._heard_all.wait()
