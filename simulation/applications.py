"""An application at a simulated site: it sends, it reads what it subscribed to, and acknowledges at once.

A message's payload says which it is and when it was sent, so that the reader knows how long it took.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final

from broker.core.sessions.sessions import Connection
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.session_frames import (
    VERSION,
    Acknowledge,
    Confirm,
    Create,
    Deliver,
    Failed,
    Login,
    Reject,
    Send,
    Subscribe,
    Unsubscribe,
)
from simulation.site import Site

_CREDIT: Final = 1000
_HEAD: Final = struct.Struct(">dQ")
LEAST_SIZE: Final = _HEAD.size
LARGEST_SIZE: Final = 1 << 18
_TEXT_BYTES: Final = 1 << 16
_STRIDE: Final = 4099
_TEXT: Final = Random(0).randbytes((LARGEST_SIZE + _TEXT_BYTES) // 2).hex().encode()
_DIGITS: Final = b"0123456789abcdef"
_OTHERS: Final = tuple(
    bytes.maketrans(_DIGITS, bytes(Random(number).sample(_DIGITS, len(_DIGITS)))) for number in range(256)
)
"""Other digits in place of these: as many ways as messages are in one bundle."""

Delivered = Callable[[Destination, int, float], None]
"""Hears of a message: where to, its number, seconds since it was sent."""

Confirmed = Callable[[Destination, range], object]
"""Hears that messages are safe, by their numbers."""


def text_of(number: int, size: int) -> bytes:
    """The text of a message: digits without a pattern, which compress to half, about as much as a till's
    lines do; none that others of its bundle say.
    """
    start = number * _STRIDE % _TEXT_BYTES
    return _TEXT[start : start + size].translate(_OTHERS[number % len(_OTHERS)])


class Application:
    """One session at a machine. `delivered` hears of what it was given, `confirmed` of what it sent and is
    safe; `serials` numbers what is sent, in the whole tree.
    """

    def __init__(
        self,
        machine: Site,
        serials: Iterator[int],
        delivered: Delivered,
        confirmed: Confirmed = lambda destination, numbers: None,
    ) -> None:
        self._machine = machine
        self._serials = serials
        self._delivered = delivered
        self._confirmed = confirmed
        self._under_way: deque[tuple[int, Destination, range]] = deque()
        self._connection: Connection | None = None
        self._reads: dict[Destination, int] = {}
        self._numbers = 0
        self._subscriptions = 0
        self._open: list[tuple[int, int]] = []
        self.sent = 0
        self.refused = 0
        self.not_sent = 0

    def __repr__(self) -> str:
        return f"<Application at {self._machine.name} reads {len(self._reads)}>"

    def connect(self) -> None:
        """Log in, and subscribe again to what it read."""
        if self._connection is None and self._machine.running:
            connection = Connection(lambda frame: self._said(connection, frame), "application")
            self._connection = connection
            self._numbers = 0
            self._say(Login(VERSION, "application"))
            for destination in list(self._reads):
                self._subscribe(destination)

    def gone(self) -> None:
        """The node has crashed."""
        self._connection = None
        self._open = []
        self._under_way.clear()

    def read(self, destination: Destination) -> None:
        if destination not in self._reads:
            self._subscriptions += 1
            self._reads[destination] = self._subscriptions
            if self._connection is not None:
                self._subscribe(destination)

    def leave(self, destination: Destination) -> None:
        """Read it no more; a durable subscription goes on gathering."""
        number = self._reads.pop(destination, None)
        if number is not None and self._connection is not None:
            self._say(Unsubscribe(0, number))

    def _subscribe(self, destination: Destination) -> None:
        number = self._reads[destination]
        if destination.kind == Kind.QUEUE:
            self._say(Create(0, destination.name))
            self._say(Subscribe(0, number, destination, _CREDIT))
        else:
            self._say(Subscribe(0, number, destination, _CREDIT, destination.name))

    def send(self, destination: Destination, count: int, size: int, expires: float) -> None:
        """Send messages that were made now; what is sent while the node is down is not sent at all."""
        if self._connection is None:
            self.not_sent += count
            return
        now, properties = self._machine.world.now, Properties(expires_in=int(expires * 1000))
        numbers = [next(self._serials) for _ in range(count)]
        body = bytearray()
        for number in numbers:
            payload = _HEAD.pack(now, number) + text_of(number, size - LEAST_SIZE)
            body += bundles.encode_message(Message(payload, properties))
        first, self._numbers = self._numbers + 1, self._numbers + count
        self._under_way.append((self._numbers, destination, range(numbers[0], numbers[0] + count)))
        self.sent += count
        self._say(Send(first, destination, count, bytes(body)))

    def act(self) -> None:
        """Acknowledge what has come."""
        ranges, self._open = self._open, []
        if ranges and self._connection is not None:
            self._say(Acknowledge(ranges))

    def _say(self, *frames: Any) -> None:
        assert self._connection is not None
        machine = self._machine
        machine.core.advance(machine.now)
        machine.core.switch.receive(self._connection, list(frames))

    def _said(self, connection: Connection, frame: Any) -> None:
        if self._connection is not connection:
            return
        if isinstance(frame, Deliver):
            self._open.append((frame.first, frame.first + frame.count - 1))
            for payload in _payloads(frame):
                made, number = _HEAD.unpack_from(payload)
                self._delivered(frame.destination, number, self._machine.world.now - made)
        elif isinstance(frame, Confirm):
            while self._under_way and self._under_way[0][0] <= frame.through:
                self._confirmed(*self._under_way.popleft()[1:])
        elif isinstance(frame, Reject):
            count = frame.last - frame.first + 1
            self.refused += count
            self.sent -= count
        elif isinstance(frame, Failed):
            raise SapwoodError(f"{self._machine.name}: {frame.text}")


def _payloads(frame: Deliver) -> Iterable[bytes]:
    header = bundles.Header(
        id=frame.bundle,
        destination=frame.destination,
        flags=frame.flags,
        count=frame.count,
        size=frame.size,
    )
    return [message.payload for message in bundles.unpack(header, frame.body)]
