"""Packet identifiers of messages under way, in both directions; those of a kept session are on disk.

Law: an identifier of a QoS 2 message is in the transaction of the message. One that was given is on disk
before the message is written: after a crash the client gets it again under the same, and knows it. Its
release is on disk before PUBREL or PUBCOMP is written.
"""

from collections.abc import Iterable
from typing import Final

from broker.core.clients.kept_sessions import KeptSession
from sapwood.protocol.errors import SapwoodError

MOST_IDS: Final = 65_535
_RECEIVED: Final = "received "
_GIVEN: Final = "given "
_RELEASED: Final = b"released"


class PacketIds:
    """A set of numbers from 0 to 65,535, a bit each: all of them take 8 KiB."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray()

    def __repr__(self) -> str:
        return f"<PacketIds {len(self)} in {len(self._bits)} bytes>"

    def __len__(self) -> int:
        return int.from_bytes(self._bits).bit_count()

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] >> (number & 7) & 1)

    def add(self, number: int) -> None:
        place = number >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        self._bits[place] |= 1 << (number & 7)

    def discard(self, number: int) -> None:
        if number in self:
            self._bits[number >> 3] &= ~(1 << (number & 7))


class ReceivedIds:
    """Identifiers of QoS 2 messages that are here and not released. `kept`: if they outlive a connection."""

    def __init__(self, kept: KeptSession | None = None) -> None:
        self._kept = kept
        self._ids = PacketIds()
        for name in kept.values if kept is not None else ():
            if name.startswith(_RECEIVED):
                self._ids.add(int(name.removeprefix(_RECEIVED)))

    def __repr__(self) -> str:
        return f"<ReceivedIds {len(self._ids)}>"

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, number: int) -> bool:
        return number in self._ids

    def add(self, number: int) -> None:
        """Raises `Busy` where no more can be kept."""
        if self._kept is not None:
            self._kept.put(f"{_RECEIVED}{number}", b"")
        self._ids.add(number)

    def discard(self, number: int) -> None:
        if self._kept is not None:
            self._kept.drop(f"{_RECEIVED}{number}")
        self._ids.discard(number)


class GivenIds:
    """Identifiers of messages that were given and are not dealt with, by transfer id and the other way round.

    `released`: of those QoS 2 messages that the client has, and has not forgotten yet.
    """

    def __init__(self, kept: KeptSession | None = None) -> None:
        self._kept = kept
        self._transfers: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._reserved: set[int] = set()
        self.released: set[int] = set()
        self._latest = 0
        for name, value in kept.values.items() if kept is not None else ():
            if name.startswith(_GIVEN):
                number = int(name.removeprefix(_GIVEN))
                if value == _RELEASED:
                    self.released.add(number)
                else:
                    self._before[int(value)] = number
                    self._reserved.add(number)

    def __repr__(self) -> str:
        return f"<GivenIds {len(self._transfers)} given, {len(self.released)} released>"

    def __len__(self) -> int:
        return len(self._transfers)

    @property
    def begins_anew(self) -> bool:
        """Is nothing left that was given over an earlier connection?"""
        return not self._before

    def known(self, transfer: int) -> int:
        """The identifier under which this QoS 2 message was given over an earlier connection; 0 = none."""
        number = self._before.pop(transfer, 0)
        if number:
            self._reserved.discard(number)
            self._transfers[number] = transfer
        return number

    def next(self, transfer: int, qos: int) -> int:
        """A new identifier. Raises `SapwoodError` if none is left, or none can be kept."""
        if len(self._transfers) + len(self.released) + len(self._reserved) >= MOST_IDS:
            raise SapwoodError(f"it has {MOST_IDS} messages unacknowledged")
        while True:
            self._latest = self._latest % MOST_IDS + 1
            number = self._latest
            if number not in self._transfers and number not in self.released and number not in self._reserved:
                break
        if qos == 2 and self._kept is not None:
            self._kept.put(f"{_GIVEN}{number}", b"%d" % transfer)
        self._transfers[number] = transfer
        return number

    def next_row(self, transfer: int, count: int) -> Iterable[int]:
        """As `next` for so many messages of QoS 1, whose transfer ids begin with `transfer`."""
        numbers = range(self._latest + 1, self._latest + count + 1)
        taken = (self._transfers.keys(), self.released, self._reserved)
        if numbers[-1] > MOST_IDS or not all(each.isdisjoint(numbers) for each in taken):
            return [self.next(each, 1) for each in range(transfer, transfer + count)]
        self._latest += count
        self._transfers.update(zip(numbers, range(transfer, transfer + count), strict=True))
        return numbers

    def dealt_with(self, number: int) -> int:
        """The client has the message, and wants no PUBREL: its transfer id. 0 = nobody waits for that."""
        transfer = self._transfers.pop(number, 0)
        if transfer and self._kept is not None:
            self._kept.drop(f"{_GIVEN}{number}")
        return transfer

    def release(self, number: int) -> int:
        """The client has the QoS 2 message: its transfer id. 0 = it said so before, or it is none."""
        transfer = self._transfers.pop(number, 0)
        if transfer:
            self.released.add(number)
            if self._kept is not None:
                self._kept.put(f"{_GIVEN}{number}", _RELEASED)
        return transfer

    def complete(self, number: int) -> None:
        """The client has forgotten the identifier."""
        self.released.discard(number)
        if self._kept is not None and number not in self._transfers:
            self._kept.drop(f"{_GIVEN}{number}")
