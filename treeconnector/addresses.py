"""A node's cache of logical addresses: which incarnation has which name, who said so, where to dial it.

Two kinds of entries. *Kept* ones are this node's neighbours and the nodes below it: they hold until they are
replaced or taken out. *Lent* ones are answers to questions: they expire. The cache is bounded: the lent entry
that was not used for longest goes first, kept ones only when there is no other. Where the addresses to dial
are more than `MOST_BYTES` together, names and incarnations are kept without them.

Law: a name has one incarnation, an incarnation one name. Who was told of an entry stands in it, since whoever
takes it back tells these and nobody else.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.names import incarnation_text
from treeconnector.frames import Whereabouts

LEAST: Final = 1_000
MOST_BYTES: Final = 16 * 1024 * 1024
FOR_EVER: Final = float("inf")
_NOBODY: Final[frozenset[str]] = frozenset()


class ClaimedTwice(SapwoodError):
    """An incarnation that is another node's already. Somebody lies, or copied a running node."""


class Entry:
    """`via`: the neighbour that said it. `expires`: running time. `told`: neighbours that we told."""

    __slots__ = ("expires", "found", "told", "via")

    def __init__(self, found: Whereabouts, via: str, expires: float) -> None:
        self.found = found
        self.via = via
        self.expires = expires
        self.told = _NOBODY

    def __repr__(self) -> str:
        kind = "kept" if self.is_kept else f"lent until {self.expires:.1f}"
        return f"<Entry {self.found.name} via {self.via} {kind} told={len(self.told)}>"

    @property
    def is_kept(self) -> bool:
        return self.expires == FOR_EVER


class AddressCache:
    """`capacity` gives the most entries of now. All times: running time in seconds."""

    __slots__ = ("_bytes", "_capacity", "_kept", "_lent", "_names", "evicted")

    def __init__(self, capacity: Callable[[], int]) -> None:
        self._capacity = capacity
        self._kept: dict[str, Entry] = {}
        self._lent: dict[str, Entry] = {}
        self._names: dict[str, str] = {}
        self._bytes = 0
        self.evicted = 0

    def __repr__(self) -> str:
        return f"<AddressCache kept={len(self._kept)} lent={len(self._lent)} of {self._capacity()}>"

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Entry]:
        yield from self._kept.values()
        yield from self._lent.values()

    def named(self, name: str, now: float) -> Entry | None:
        """The entry of a node's name."""
        return self._kept.get(name) or self._used(name, now)

    def of(self, incarnation: bytes, now: float) -> Entry | None:
        """The entry of an incarnation."""
        name = self._names.get(incarnation_text(incarnation))
        return None if name is None else self.named(name, now)

    def find(self, key: str, now: float) -> Entry | None:
        """The entry of a name, or of an incarnation as text."""
        return self.named(self._names.get(key, key), now)

    def _used(self, name: str, now: float) -> Entry | None:
        entry = self._lent.pop(name, None)
        if entry is None:
            return None
        if entry.expires <= now:
            self._take(entry)
            return None
        self._lent[name] = entry
        return entry

    def put(self, found: Whereabouts, via: str, now: float, expires: float = FOR_EVER) -> Entry | None:
        """Put in an entry, or renew it. Returns the entry that it ends: the name's last incarnation.

        Raises `ClaimedTwice`.
        """
        holder = self.of(found.incarnation, now)
        if holder is not None and holder.found.name != found.name:
            raise ClaimedTwice(
                f"{found.name!r} says that it is the incarnation which {holder.found.name!r} is:"
                " it is not believed"
            )
        before = self.named(found.name, now)
        if before is not None:
            self._take(before)
        if self._bytes + _size(found) > MOST_BYTES:
            found = replace(found, addresses=[])
        self._bytes += _size(found)
        entry = Entry(found, via, expires)
        same = before is not None and before.found.incarnation == found.incarnation
        if same and before is not None:
            entry.told = before.told
        (self._kept if entry.is_kept else self._lent)[found.name] = entry
        self._names[incarnation_text(found.incarnation)] = found.name
        self._make_room()
        return None if same else before

    def take(self, incarnation: bytes) -> Entry | None:
        """Take out an incarnation, and return its entry."""
        name = self._names.get(incarnation_text(incarnation))
        if name is None:
            return None
        entry = self._kept.get(name) or self._lent[name]
        self._take(entry)
        return entry

    def take_lent(self, via: str) -> list[Entry]:
        """Take out what a neighbour has lent."""
        gone = [entry for entry in self._lent.values() if entry.via == via]
        for entry in gone:
            self._take(entry)
        return gone

    def expire(self, now: float) -> list[Entry]:
        """Take out what is over."""
        gone = [entry for entry in self._lent.values() if entry.expires <= now]
        for entry in gone:
            self._take(entry)
        return gone

    def _take(self, entry: Entry) -> None:
        (self._kept if entry.is_kept else self._lent).pop(entry.found.name, None)
        self._names.pop(incarnation_text(entry.found.incarnation), None)
        self._bytes -= _size(entry.found)

    def _make_room(self) -> None:
        while len(self._names) > max(self._capacity(), 1):
            self._take(next(iter(self._lent.values() or self._kept.values())))
            self.evicted += 1


def _size(found: Whereabouts) -> int:
    return sum(map(len, found.addresses))
