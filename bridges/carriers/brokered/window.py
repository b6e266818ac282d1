"""How much of a link may be under way through a broker, and that nothing of it is lost. Pure.

A broker takes what it is given and, when it has too much, drops it or refuses it. So each side keeps a
window: bytes and envelopes that the other *node* has not taken yet. While it is full the rest waits here, and
gathers: an envelope carries all packets that fit.

Law: numbers are consecutive from 1. A gap, or more than the window, ends the carrier.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from sapwood.protocol.errors import SequenceError

MAX_ENVELOPES: Final = 64
"""Envelopes under way: far below what brokers keep for a reader by default (Mosquitto: 1000)."""

_HEAD: Final = 5
_SHARE: Final = 4
_SLACK: Final = 2


class OutgoingWindow:
    """The packets that this side sends.

    `limit`: bytes that wait or are under way together; `batch`: of one envelope.
    """

    def __init__(self, limit: int, batch: int) -> None:
        self.number = 0
        self.batch = batch
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._under_way: deque[int] = deque()
        self._taken = 0
        self.bytes = 0

    def __repr__(self) -> str:
        counts = f"{len(self._waiting)} waiting, {len(self._under_way)} under way, {self.bytes} bytes"
        return f"<OutgoingWindow {counts}>"

    @property
    def room(self) -> int:
        return self._limit - self.bytes

    @property
    def idle(self) -> bool:
        """Nothing waits here."""
        return not self._waiting

    @property
    def is_light(self) -> bool:
        """Nothing waits here, and no more is under way than what the other node says at once that it took."""
        return not self._waiting and len(self._under_way) <= MAX_ENVELOPES // _SHARE

    def put(self, packets: Sequence[bytes], size: int) -> None:
        self._waiting.extend(packets)
        self.bytes += size

    def next_envelope(self) -> tuple[int, list[bytes]] | None:
        """Return number and packets of the envelope to send now; None while there is none, or no room."""
        if not self._waiting or len(self._under_way) >= MAX_ENVELOPES:
            return None
        packets = [self._waiting.popleft()]
        encoded = len(packets[0]) + _HEAD
        while self._waiting and encoded + len(self._waiting[0]) <= self.batch:
            encoded += len(self._waiting[0]) + _HEAD
            packets.append(self._waiting.popleft())
        self.number += 1
        self._under_way.append(encoded - _HEAD * len(packets))
        return self.number, packets

    def taken(self, number: int) -> None:
        """The other node has taken all up to `number`. Raises `SequenceError` for what was never sent."""
        if number > self.number:
            raise SequenceError(f"it says that it took number {number}, and {self.number} is the latest sent")
        while self._taken < number:
            self._taken += 1
            self.bytes -= self._under_way.popleft()


class IncomingWindow:
    """The packets that this side hears. `limit`: the window of the other side, in bytes."""

    def __init__(self, limit: int, max_packet: int) -> None:
        self.number = 0
        self._limit = limit
        self._max_packet = max_packet
        self._arrived: list[bytes] = []
        self._bytes = 0
        self._told = 0
        self._taken_bytes = 0

    def __repr__(self) -> str:
        return f"<IncomingWindow {len(self._arrived)} packets arrived, up to number {self.number}>"

    def __bool__(self) -> bool:
        return bool(self._arrived)

    def follows(self, number: int) -> bool:
        """Whether `number` is the next; False for one that came before. Raises `SequenceError` at a gap."""
        if number > self.number + 1:
            lost = number - self.number - 1
            raise SequenceError(f"a gap: {lost} envelopes before number {number} never came")
        return number == self.number + 1

    def arrived(self, number: int, packets: list[bytes]) -> None:
        """The packets of the envelope that follows. Raises `SequenceError` if they are more than may be."""
        size = sum(map(len, packets))
        too_many = number - self._told > _SLACK * MAX_ENVELOPES
        if too_many or self._bytes + size > _SLACK * (self._limit + self._max_packet):
            raise SequenceError(
                f"it sends more than its window of {self._limit} bytes and {MAX_ENVELOPES} envelopes"
            )
        if any(len(packet) > self._max_packet for packet in packets):
            raise SequenceError(f"a packet of more than the {self._max_packet} bytes that were agreed")
        self.number = number
        self._arrived += packets
        self._bytes += size

    def take(self) -> list[bytes]:
        """All that has arrived."""
        found, self._arrived = self._arrived, []
        self._taken_bytes += self._bytes
        self._bytes = 0
        return found

    def to_tell(self) -> int:
        """The number up to which all was taken, if it is time to tell that; else 0. Told once."""
        if self._arrived or self.number == self._told:
            return 0
        due = self._taken_bytes * _SHARE >= self._limit
        if not due and (self.number - self._told) * _SHARE < MAX_ENVELOPES:
            return 0
        self._told, self._taken_bytes = self.number, 0
        return self.number
