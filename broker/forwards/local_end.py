"""The end of a channel at this node: what comes from a pipe goes to the core, and the other way round.

Law: memory is bounded, however slow anybody reads. A pipe is read no further while as much of it has not
been passed on as `LocalEnds.window` says; bytes that came through the tree are given credit again when the
pipe has taken them, so the links bound those.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, ParamSpec

from broker.core.neighbours.channels import RESET, Channel, Channels
from broker.forwards.pipes import PIECE, Pipe, PipeBroken
from broker.host import Host
from broker.link_driver import LinkDriver

MOST: Final = 4096
"""Ends of channels at one node."""
WINDOW: Final = 256 * 1024
ALL_BYTES: Final = 32 * 1024 * 1024
Arguments = ParamSpec("Arguments")


class LocalEnds:
    """All of one node."""

    def __init__(self, host: Host, wires: LinkDriver) -> None:
        self._host = host
        self._wires = wires
        self.open: set[LocalEnd] = set()

    def __repr__(self) -> str:
        return f"<LocalEnds of {self._host.core.identity.name}: {len(self.open)}>"

    @property
    def channels(self) -> Channels:
        return self._host.core.channels

    @property
    def has_room(self) -> bool:
        return len(self.open) < MOST

    @property
    def window(self) -> int:
        """Bytes of one pipe that may be under way."""
        return max(PIECE, min(WINDOW, ALL_BYTES // max(len(self.open), 1)))

    def tell(
        self, call: Callable[Arguments, None], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> None:
        """Tell the core something of a channel, and let out what follows from that."""
        self._host.core.advance(self._host.now())
        call(*arguments, **named)
        self._wires.flush()
        self._host.nudge()


class LocalEnd:
    """One end, a `Side` of its channel. `via`: what stands there, for people. `channel`: None before it is.

    `why`: it is over before its time, and why; '' while it is not. `dialling`: the work on the connection
    that it waits for, which ends with it.
    """

    def __init__(self, ends: LocalEnds, via: str) -> None:
        self.via = via
        self.channel: Channel | None = None
        self.why = ""
        self.dialling: asyncio.Task[None] | None = None
        self._ends = ends
        self._outgoing: deque[bytes] = deque()
        self._unpassed = 0
        self._ending = False
        self._some, self._room, self._heard_all = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_open, self._is_over = asyncio.Event(), asyncio.Event()
        ends.open.add(self)

    def __repr__(self) -> str:
        return f"<LocalEnd {self.via} unpassed={self._unpassed} outgoing={len(self._outgoing)}>"

    # --- the core's side

    def opened(self) -> None:
        self._is_open.set()

    def send(self, data: bytes) -> None:
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
        self._ends.open.discard(self)
        self._is_open.set()
        self._is_over.set()

    def passed(self, size: int) -> None:
        self._unpassed -= size
        self._room.set()

    # --- the pipe's side

    async def until_open(self, seconds: float) -> bool:
        """Is what was asked for there? If not, `why` says why not."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_open.wait()
        except TimeoutError:
            self.end("unreachable", f"no answer within {seconds:g} s")
        return not self.why

    def end(self, reason: str, text: str) -> None:
        """End it here, if it is not over yet."""
        if not self.why:
            self._ends.tell(self._ends.channels.broken, self, reason, text)
            self.reset(reason, text)

    async def run(self, pipe: Pipe) -> None:
        """Pass bytes on until both directions have ended, or it is broken; then the pipe has ended too."""
        works = (self._read(pipe), self._write(pipe), self._is_over.wait())
        tasks = [asyncio.ensure_future(work) for work in works]
        well = False
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            well = not self.why
        except PipeBroken as error:
            self.end(RESET, f"{self.via}: {error}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not well:
                self.end(RESET, "the node stops")
            try:
                await (pipe.close() if well else pipe.abort(self.why))
            finally:
                self._ends.open.discard(self)

    async def _read(self, pipe: Pipe) -> None:
        ends = self._ends
        while data := await pipe.read():
            self._unpassed += len(data)
            ends.tell(ends.channels.arrived, self, data)
            while self._unpassed >= ends.window:
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
