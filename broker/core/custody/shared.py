"""Bundles with several entries, none of which is in memory: how many there are, and where they count.

Neighbouring bundles mostly have the same subscribers, so that what is said of them is said once for a run of
them: about a byte for each.
"""

from typing import Final, NamedTuple

_RUN: Final = 256
_COPIES: Final = 60
_KEEPS: Final = 84
_USES: Final = (1 << _COPIES) - 1
_MOST: Final = (1 << _KEEPS - _COPIES) - 1
_NONE: Final[dict[int, int]] = {}


class Cold(NamedTuple):
    """Of one bundle. `uses`: as `Stored.uses`. `keeps`: so many of its entries wait for consumers here."""

    entries: int
    uses: int
    keeps: int


class Shared:
    """By the row of the bundle."""

    __slots__ = ("_count", "_runs")

    def __init__(self) -> None:
        self._runs: dict[int, dict[int, int]] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"<Shared {self._count} bundles>"

    def __len__(self) -> int:
        return self._count

    def find(self, row: int) -> Cold | None:
        value, _ = self._look(row)
        return Cold(value >> _COPIES & _MOST, value & _USES, value >> _KEEPS) if value else None

    def take(self, row: int) -> Cold | None:
        """The same; it is not in here any more."""
        found = self.find(row)
        if found is not None:
            self._set(row, 0)
        return found

    def put(self, row: int, cold: Cold) -> None:
        """Caller's duty: it is not in here."""
        self._set(row, cold.uses | cold.entries << _COPIES | cold.keeps << _KEEPS)

    def _look(self, row: int) -> tuple[int, int]:
        bit = 1 << row % _RUN
        for value, bits in self._runs.get(row // _RUN, _NONE).items():
            if bits & bit:
                return value, bit
        return 0, bit

    def _set(self, row: int, value: int) -> None:
        before, bit = self._look(row)
        self._count += bool(value) - bool(before)
        run = self._runs.setdefault(row // _RUN, {})
        if before:
            run[before] ^= bit
            if not run[before]:
                del run[before]
        if value:
            run[value] = run.get(value, 0) | bit
        elif not run:
            del self._runs[row // _RUN]
