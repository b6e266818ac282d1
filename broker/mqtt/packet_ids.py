"""Packet identifiers, a bit each: a client that uses all 65,535 makes the node keep 8 KiB, and no more."""

from collections.abc import Iterable


class PacketIds:
    """A set of numbers from 0 to 65,535."""

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

    def difference_update(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.discard(number)
