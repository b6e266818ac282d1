"""The carrier port: what transports packets between two neighbours, and nothing else.

A carrier knows no frames, no link and no node. Adapters: `memory`, `websocket`, and
`brokered` (on `mqtt` and `amqp`); the same tests hold for all.

Guarantees of every adapter:
- A packet arrives whole, once, unchanged and in order, or the carrier ends. `max_packet` bounds it.
- `receive` returns at least one packet and all that have arrived, so that a node commits once for many.
  It may be cancelled without loss. Packets that arrived before the end come before the error.
- `send` never blocks and never drops; who calls it only while `writable` keeps the buffer bounded.
- `close` sends what was buffered (for a few seconds at most), is idempotent and never raises.
- No exception of another library leaves an adapter; `asyncio.CancelledError` passes.

CarrierError
├── CarrierClosed    we closed it
├── CarrierEnded     the other side closed it, with its reason
├── CarrierBroken    it broke, or could never be made: refused, reset, not trusted, no such host
│   └── CarrierAbsent    nothing takes connections there: the broker does not run
├── CarrierBusy      the other side says: not now
└── CarrierFlooded   the other side sends more than anybody may who has not proved itself; we can still say so
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from sapwood.protocol.errors import LocalError, SapwoodError
from sapwood.protocol.packets import Bytes
from treeconnector.identity import Shown

BUFFER_BYTES: Final = 1024 * 1024
CLOSE_TIMEOUT: Final = 3.0
SOON: Final = 0.002


class CarrierError(SapwoodError):
    """The carrier cannot be used, or no longer."""


class CarrierClosed(CarrierError):
    """We closed it."""


class CarrierEnded(CarrierError):
    """The other side closed it."""


class CarrierBroken(CarrierError):
    """It broke, or could not be made; the text says where, why, and what to look at."""


class CarrierAbsent(CarrierBroken):
    """Nothing takes connections there, which a dial finds out at once and at no cost."""


class CarrierBusy(CarrierError):
    """The other side cannot take us now; try later."""


class CarrierFlooded(CarrierError):
    """A stranger sends too much. Nothing more is read; what is sent before `close` still goes out."""


class PacketTooLarge(LocalError, ValueError):
    """A packet above `max_packet`: the caller's mistake."""


class Carrier(ABC):
    """One connection to a neighbour. Used on one event loop; one task receives, any task sends.

    `peer`: the other side's address, for people. It is no identity. `max_packet`: bytes. `shown`: what the
    other side has proved itself with. `strangers`: what came and was not of this link, and was ignored.
    `when_kept`: told now and then while `kept` is much.
    """

    peer: str
    shown: Shown = Shown()
    strangers: int = 0
    max_packet: int
    is_proven: bool = False
    when_kept: Callable[[], object] | None = None

    @abstractmethod
    async def receive(self) -> list[bytes]:
        """Wait for packets and return all that have arrived. Raises `CarrierError` at the end."""

    @abstractmethod
    def send(self, packets: Sequence[bytes]) -> None:
        """Buffer packets for sending. Raises `CarrierError` if ended, `PacketTooLarge`."""

    def send_in_parts(self, parts: Sequence[Bytes]) -> None:
        """The same of one packet, whose parts follow each other."""
        self.send([b"".join(parts)])

    @property
    def unsent(self) -> int:
        """Bytes that were sent and have not left this process."""
        return BUFFER_BYTES - self.room

    @property
    def kept(self) -> int:
        """Bytes of what has come and was not received yet, parts of packets too, where that is known."""
        return 0

    @property
    @abstractmethod
    def room(self) -> int:
        """Bytes that the buffer takes before it is full; 0 or less: await `drain` before more."""

    @property
    def writable(self) -> bool:
        """True while the buffer has room and the carrier lives."""
        return self.room > 0

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Has all that was sent left this process? Then what is sent next waits for nothing of ours."""

    @property
    def takes(self) -> int:
        """Bytes of bulk that would wait nowhere for long, here or on the way; 0: await `until_idle`."""
        return BUFFER_BYTES if self.is_idle else 0

    async def until_idle(self) -> bool:
        """Wait until it `takes` something. Returns whether that was within about `SOON` seconds.

        Raises `CarrierError` if the carrier ends meanwhile.
        """
        begun, pause = time.monotonic(), 0.0
        while not self.is_idle:
            await self.drain()
            await asyncio.sleep(pause)
            pause = min(pause + SOON / 2, SOON)
        return time.monotonic() - begun < SOON

    @abstractmethod
    async def drain(self) -> None:
        """Wait until `writable`. Raises `CarrierError` if the carrier ends meanwhile."""

    @abstractmethod
    async def close(self, reason: str = "") -> None:
        """End it; `reason` travels to the other side where the carrier can say it."""

    def proven(self) -> None:
        """The other side has proved who it is: from now on it may send packets up to `max_packet`."""
        self.is_proven = True

    def check_size(self, packets: Sequence[bytes]) -> int:
        """Return the bytes of all packets; raise `PacketTooLarge` if one is over the limit."""
        total = 0
        for packet in packets:
            size = len(packet)
            if size > self.max_packet:
                raise PacketTooLarge(
                    f"a packet of {size} bytes for {self.peer}: this carrier takes {self.max_packet} at most"
                )
            total += size
        return total
