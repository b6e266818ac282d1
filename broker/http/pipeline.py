"""The requests of one connection that have no answer yet, in their order; and how long it is waited for more.

Law: answers leave in the order of the requests. Bodies under way, the part of one that has come, and answers
that are not read are of the node's buffers (`broker.buffers`).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.buffers import LOOKS, Buffers
from broker.http.encoding import encoded, stays_open
from broker.http.heads import Head
from broker.http.verbs import VerbAnswer

PATIENCE: Final = 30.0
"""Seconds for a first request, and for the head of every other."""
SLOWEST: Final = 1024
"""Bytes of a body that come in a second, once `PATIENCE` is over."""
_MOST_IN_FLIGHT: Final = 256


class Slot:
    """The place of one answer in the order of answers. `waits`: no request may be under way beside this."""

    __slots__ = ("answer", "head", "waits")

    def __init__(self, head: Head, waits: bool) -> None:
        self.head = head
        self.waits = waits
        self.answer: VerbAnswer | None = None


_NO_SLOTS: Final[deque[Slot]] = deque(maxlen=0)
"""Of all connections that are aiohttp's for good: a thousand links need no empty deque of 600 bytes each."""


class Pipeline:
    """Of one connection. `waiting`: bytes that have come and were not taken. `heard`: when something came
    last, or left; seconds, monotonic.
    """

    __slots__ = (
        "_began", "_buffers", "_come", "_opened", "_slots", "_transport", "_under_way", "_waiting", "heard",
    )  # fmt: skip

    def __init__(
        self, buffers: Buffers, transport: asyncio.Transport, waiting: Callable[[], int] = lambda: 0
    ) -> None:
        self._buffers = buffers
        self._transport = transport
        self._waiting = waiting
        self._slots: deque[Slot] = deque()
        self._under_way = 0
        self._opened = self.heard = self._began = time.monotonic()
        self._come = 0

    def __repr__(self) -> str:
        return f"<Pipeline of {len(self)}>"

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def is_full(self) -> bool:
        return len(self._slots) >= _MOST_IN_FLIGHT or self._under_way > self._buffers.share

    def admits(self, together: bool) -> bool:
        """May a request begin now, which may be under way `together` with others?"""
        return not self._slots or (together and not self._slots[-1].waits)

    def add(self, head: Head, *, waits: bool = False) -> Slot:
        """A request begins."""
        slot = Slot(head, waits)
        self._slots.append(slot)
        self._under_way += max(head.length, 0)
        return slot

    def answered(self, slot: Slot, answer: VerbAnswer) -> tuple[bytes, bool]:
        """An answer is ready. Returns (what may leave now, whether the connection stays)."""
        slot.answer = answer
        slots, leaving, stays = self._slots, list[bytes](), True
        while stays and slots and (ready := slots[0].answer) is not None:
            stays = stays_open(slots[0].head)
            self._under_way -= max(slots[0].head.length, 0)
            leaving.append(encoded(ready, stays, int(time.time())))
            slots.popleft()
        return leaving[0] if len(leaving) == 1 else b"".join(leaving), stays

    def close(self) -> None:
        """Nothing is answered any more here."""
        self._slots = _NO_SLOTS
        self._waiting = int
        self._buffers.gone(self)

    # --- bytes

    @property
    def held(self) -> int:
        came = max(self._come, self._waiting())
        return came + self._under_way + self._transport.get_write_buffer_size()

    def cut_off(self) -> None:
        self._transport.abort()

    def look(self) -> None:
        """Much is kept, perhaps."""
        if self._slots is not _NO_SLOTS:
            self._buffers.look(self)

    # --- how long it is waited

    def came(self, size: int) -> None:
        """So many bytes came."""
        self.heard = time.monotonic()
        self._come += size
        if self._come + self._under_way > LOOKS:
            self.look()

    def begin_again(self, *, now: bool = False) -> None:
        """Wait for the next from now on, or from when something came last."""
        if now:
            self.heard = time.monotonic()
        self._began, self._come = self.heard, 0

    def head_came(self) -> None:
        """Bytes that come from now on are a body's."""
        self._come = 0

    def is_stranger_late(self, now: float) -> bool:
        """Is it too late for a first login?"""
        return now - self._opened > PATIENCE

    def is_late(self, now: float, *, in_a_body: bool) -> bool:
        """Of a request of which a part has come."""
        return now - self._began > PATIENCE + (self._come / SLOWEST if in_a_body else 0.0)
