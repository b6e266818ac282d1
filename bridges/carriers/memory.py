"""The carrier in memory: two ends in one process, for tests and for the port's own definition.

Its two directions are bounded buffers. `cut` breaks both ends at once, as a line does.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from bridges.carriers.base import (
    BUFFER_BYTES,
    Carrier,
    CarrierBroken,
    CarrierClosed,
    CarrierEnded,
    CarrierError,
)
from treeconnector.frames import DEFAULT_MAX_FRAME


class _Direction:
    """Packets on their way from one end to the other."""

    def __init__(self, limit: int) -> None:
        self.packets: deque[bytes] = deque()
        self.size = 0
        self.limit = limit
        self.arrived = asyncio.Event()
        self.drained = asyncio.Event()
        self.drained.set()

    def put(self, packets: Sequence[bytes], size: int) -> None:
        self.packets.extend(packets)
        self.size += size
        if packets:
            self.arrived.set()
        if self.size >= self.limit:
            self.drained.clear()

    def take(self) -> list[bytes]:
        found = list(self.packets)
        self.packets.clear()
        self.size = 0
        self.arrived.clear()
        self.drained.set()
        return found


class MemoryCarrier(Carrier):
    """One end. Make both with `pair`."""

    def __init__(self, peer: str, max_packet: int, incoming: _Direction, outgoing: _Direction) -> None:
        self.peer = peer
        self.max_packet = max_packet
        self._incoming = incoming
        self._outgoing = outgoing
        self._error: CarrierError | None = None
        self._other: MemoryCarrier | None = None

    def __repr__(self) -> str:
        state = type(self._error).__name__ if self._error else "open"
        return f"<MemoryCarrier to {self.peer} {state}, {self._outgoing.size} bytes buffered>"

    def join(self, other: "MemoryCarrier") -> None:
        self._other = other

    async def receive(self) -> list[bytes]:
        while not self._incoming.packets:
            if self._error:
                raise self._error
            await self._incoming.arrived.wait()
            self._incoming.arrived.clear()
        if isinstance(self._error, CarrierClosed):
            raise self._error
        return self._incoming.take()

    def send(self, packets: Sequence[bytes]) -> None:
        if self._error:
            raise self._error
        self._outgoing.put([bytes(packet) for packet in packets], self.check_size(packets))

    @property
    def room(self) -> int:
        return 0 if self._error else self._outgoing.limit - self._outgoing.size

    @property
    def unsent(self) -> int:
        return self._outgoing.size

    @property
    def is_idle(self) -> bool:
        return not self._error and not self._outgoing.size

    async def drain(self) -> None:
        while not self._error and self.room <= 0:
            await self._outgoing.drained.wait()
        if self._error:
            raise self._error

    async def close(self, reason: str = "") -> None:
        if self._error:
            return
        self.fail(CarrierClosed(f"the carrier to {self.peer} was closed here: {reason or 'no reason given'}"))
        other = self._other
        if other:
            other.fail(CarrierEnded(f"{other.peer} closed the carrier: {reason or 'no reason given'}"))

    def fail(self, error: CarrierError) -> None:
        """End this end with `error`; wakes who waits."""
        self._error = self._error or error
        self._incoming.arrived.set()
        self._outgoing.drained.set()

    def cut(self) -> None:
        """Break the line: both ends are broken, what was under way is lost."""
        for end in (self, self._other):
            if end:
                end._incoming.packets.clear()
                end.fail(CarrierBroken(f"the line to {end.peer} was cut"))


def pair(
    max_packet: int = DEFAULT_MAX_FRAME, buffer_bytes: int = BUFFER_BYTES
) -> tuple[MemoryCarrier, MemoryCarrier]:
    """Two ends of one carrier, named 'left' and 'right'. Needs a running event loop only when used."""
    there, back = _Direction(buffer_bytes), _Direction(buffer_bytes)
    left = MemoryCarrier("memory:right", max_packet, back, there)
    right = MemoryCarrier("memory:left", max_packet, there, back)
    left.join(right)
    right.join(left)
    return left, right
