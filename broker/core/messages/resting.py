"""Entries that rest: passed over for now, so that others go first, and in memory all the while.

Law: they are bounded, of one queue and of all together. A queue has room for a few, whatever others have, so
that none is stopped by the rest of another.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

OF_A_QUEUE: Final = 10_000
"""So many come to wait with the others again in one step, in a millisecond or two."""
MOST: Final = 100_000
MOST_BYTES: Final = 256 * 1024 * 1024
ALWAYS: Final = 16


class Weighing(Protocol):
    """A bundle, as far as its bytes are asked for."""

    size: int


class Storing(Protocol):
    """An entry, as far as it is asked for its bundle, and for the neighbour that it came from."""

    @property
    def stored(self) -> Weighing: ...

    @property
    def came(self) -> str: ...


Entry = TypeVar("Entry", bound=Storing)


class RestingTotal:
    """Of all queues of a node: how many, and the bytes of their bundles."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = self.size = 0

    def __repr__(self) -> str:
        return f"<RestingTotal {self.count} of {self.size} bytes>"


_NONE: Final[dict[str, dict[int, None]]] = {}


class Resting(dict[int, Entry]):
    """Of one queue: entries by their rows."""

    __slots__ = ("_from", "_total")

    def __init__(self, total: RestingTotal) -> None:
        super().__init__()
        self._total = total
        self._from = _NONE  # shared, since nothing rests in most queues

    def __repr__(self) -> str:
        return f"<Resting {len(self)} of {self._total!r}>"

    @property
    def is_full(self) -> bool:
        """Has it as many as one queue may have?"""
        return len(self) >= OF_A_QUEUE

    @property
    def has_room(self) -> bool:
        total = self._total
        return len(self) < ALWAYS or (not self.is_full and total.count < MOST and total.size < MOST_BYTES)

    def __setitem__(self, row: int, entry: Entry) -> None:
        """Caller's duty: it does not rest here yet."""
        super().__setitem__(row, entry)
        self._from = self._from or {}
        self._from.setdefault(entry.came, {})[row] = None
        self._total.count += 1
        self._total.size += entry.stored.size

    def take(self, row: int) -> Entry | None:
        """The entry of that row, which rests no more; None if it does not rest here."""
        entry = super().pop(row, None)
        if entry is not None:
            self._total.count -= 1
            self._total.size -= entry.stored.size
            beside = self._from[entry.came]
            del beside[row]
            if not beside:
                del self._from[entry.came]
        return entry

    def take_first(self, may_go: Callable[[Entry], bool]) -> Entry | None:
        """The first that may go. `may_go` is asked for one of each sender: its others go as that does."""
        heads = (next(iter(rows)) for rows in self._from.values())
        found = next((row for row in heads if may_go(self[row])), None)
        return None if found is None else self.take(found)

    def take_all(self) -> list[Entry]:
        entries = list(self.values())
        self._total.count -= len(entries)
        self._total.size -= sum(entry.stored.size for entry in entries)
        self.clear()
        self._from.clear()
        return entries
