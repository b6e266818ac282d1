"""Deduplication: which messages were here before, by the identity of their bundle (`Header.identity`).

A queue's bundle may be divided: some messages are dealt with at one node, the rest goes on to another, and a
dead letter of it comes later and alone. A repetition brings a message that was here; what is left of a
bundle brings none. So of queues it is known which messages came; of topics the bundle alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from broker.core.clock import Clock
from broker.core.messages.queue import QueueEntry
from broker.core.rows import SeenRow, Transaction
from sapwood.protocol.bundles import mask_bits, mask_bytes

_MOST_SEEN: Final = 200_000
_MAKER: Final = 12
_ID: Final = 16
_NONE: Final[dict[int, int]] = {}
ALL: Final = -1
"""A mask of any number of messages."""


class IdentitySet:
    """Bundles' identities, taking a bit for each where they were made one after the other, as the bundles are
    that wait for long: ids end in a counter of the node and start that made them. One that is there several
    times is counted.
    """

    __slots__ = ("_again", "_bits", "count")

    def __init__(self) -> None:
        self._bits: dict[bytes, dict[int, int]] = {}
        self._again: Counter[bytes] = Counter()
        self.count = 0

    def __repr__(self) -> str:
        return f"<IdentitySet {self.count} of {len(self._bits)} makers>"

    def __len__(self) -> int:
        return self.count

    def __contains__(self, bundle: bytes) -> bool:
        maker, number = _parts(bundle)
        return bool(self._bits.get(maker, _NONE).get(number >> 8, 0) >> (number & 255) & 1)

    def add(self, bundle: bytes) -> None:
        maker, number = _parts(bundle)
        self._put(maker, number >> 8, 1 << (number & 255))

    def remove(self, bundle: bytes) -> None:
        """Caller's duty: it is in there."""
        self.count -= 1
        if bundle in self._again:
            self._again[bundle] -= 1
            if not self._again[bundle]:
                del self._again[bundle]
            return
        maker, number = _parts(bundle)
        runs = self._bits[maker]
        runs[number >> 8] ^= 1 << (number & 255)
        if not runs[number >> 8]:
            del runs[number >> 8]
            if not runs:
                del self._bits[maker]

    def as_bytes(self) -> dict[bytes, dict[int, bytes]]:
        """All of them, as `add_all` takes them; caller's duty: none is there several times."""
        return {
            maker: {run: bits.to_bytes(32, "little").rstrip(b"\0") for run, bits in runs.items()}
            for maker, runs in self._bits.items()
        }

    def add_all(self, others: dict[bytes, dict[int, bytes]], again: Iterable[bytes] = ()) -> None:
        for bundle in again:
            self.add(bundle)
        for maker, runs in others.items():
            for run, bits in runs.items():
                self._put(maker, run, int.from_bytes(bits, "little"))

    def _put(self, maker: bytes, run: int, bits: int) -> None:
        runs = self._bits.setdefault(maker, {})
        before = runs.get(run, 0)
        runs[run] = before | bits
        self.count += bits.bit_count()
        for at in _ones(before & bits):
            self._again[maker[:_MAKER] + (run << 8 | at).to_bytes(_ID - _MAKER, "big") + maker[_MAKER:]] += 1


def _ones(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while bits:
        yield bits.bit_length() - 1
        bits ^= 1 << bits.bit_length() - 1


def _parts(bundle: bytes) -> tuple[bytes, int]:
    """Its maker, and its number there."""
    return bundle[:_MAKER] + bundle[_ID:], int.from_bytes(bundle[_MAKER:_ID], "big")


class HeldIdentities:
    """Bundles that wait here now, for consumers or to be routed on; not those on their way to a neighbour.

    `cold`: those of which only rows on disk wait. A queue's have one entry each, and all their messages came
    with it.
    """

    __slots__ = ("_queued", "_subscribed", "cold")

    def __init__(self) -> None:
        self._queued: dict[bytes, list[QueueEntry]] = {}
        self._subscribed: dict[bytes, int] = {}
        self.cold = IdentitySet()

    def __repr__(self) -> str:
        return f"<HeldIdentities {len(self._queued)} queued, {len(self._subscribed)} topics, {self.cold!r}>"

    def __len__(self) -> int:
        return len(self._queued) + len(self._subscribed) + len(self.cold)

    def __contains__(self, bundle: bytes) -> bool:
        return bundle in self._queued or bundle in self._subscribed or bundle in self.cold

    def which(self, bundle: bytes) -> int:
        """The messages of a queue's bundle that came here with what is kept, as a mask."""
        if self.cold.count and bundle in self.cold:
            return ALL
        found = 0
        for entry in self._queued.get(bundle, ()):
            found |= entry.all & ~mask_bits(entry.stored.header.done)
        return found

    def add(self, entry: QueueEntry) -> None:
        bundle = entry.stored.header.identity
        if entry.queue.destination is not None:
            self._queued.setdefault(bundle, []).append(entry)
        else:
            self._subscribe(bundle, 1)

    def remove(self, entry: QueueEntry) -> None:
        bundle = entry.stored.header.identity
        if entry.queue.destination is not None:
            entries = self._queued[bundle]
            entries.remove(entry)
            if not entries:
                del self._queued[bundle]
        else:
            self._subscribe(bundle, -1)

    def cool(self, bundle: bytes, keeps: int) -> None:
        """So many subscriptions have a bundle of which nothing is in memory from now on."""
        if keeps:
            self._subscribe(bundle, -keeps)
            self.cold.add(bundle)

    def wake(self, bundle: bytes, keeps: int) -> None:
        if keeps:
            self.cold.remove(bundle)
            self._subscribe(bundle, keeps)

    def _subscribe(self, bundle: bytes, count: int) -> None:
        left = self._subscribed.get(bundle, 0) + count
        if left:
            self._subscribed[bundle] = left
        else:
            del self._subscribed[bundle]


class DeliveredIdentities:
    """Bundles of which messages were dealt with here, for `dedup_window` seconds of running time; the latest
    only, for they are in memory and are read at each start. An older version kept ids without origins."""

    __slots__ = ("_at", "_clock", "_part", "_window")

    def __init__(self, clock: Clock, window: float) -> None:
        self._clock = clock
        self._window = window
        self._at: dict[bytes, float] = {}
        self._part: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<DeliveredIdentities {len(self._at)} bundles>"

    def __contains__(self, bundle: bytes) -> bool:
        return bundle in self._at

    def which(self, identity: bytes, bundle: bytes) -> int:
        """The messages of a bundle that were dealt with here, as a mask. `bundle`: its id alone."""
        at, part, found = self._at, self._part, 0
        if identity in at:
            found = part.get(identity, ALL)
        if bundle in at:
            found |= part.get(bundle, ALL)
        return found

    def _which(self, bundle: bytes) -> int:
        return self._part.get(bundle, ALL) if bundle in self._at else 0

    def restore(self, row: SeenRow) -> None:
        self._at[row.bundle] = row.at / 1000
        if row.part:
            self._part[row.bundle] = mask_bits(row.part)

    def add(self, entry: QueueEntry, transaction: Transaction) -> None:
        """What is done of an entry was done here, but for what was done when it came."""
        header = entry.stored.header
        bundle, bits = header.identity, entry.done & ~mask_bits(header.done)
        known = self._which(bundle)
        if bits & ~known:
            self._at.pop(bundle, None)
            self._at[bundle] = self._clock.now
            self._put(bundle, bits | known, entry.all, transaction)

    def forget(self, entry: QueueEntry, bits: int, transaction: Transaction) -> None:
        """These messages, which were dealt with, are to be given again."""
        header = entry.stored.header
        for bundle in (header.identity, header.id):
            known = self._which(bundle) & entry.all
            if known & ~bits:
                self._put(bundle, known & ~bits, entry.all, transaction)
            elif known:
                self._end(bundle, transaction)

    def prune(self, transaction: Transaction) -> None:
        """Forget what is older than the window, or too much; the oldest come first."""
        old = self._clock.now - self._window
        too_many = islice(self._at, max(len(self._at) - _MOST_SEEN, 0))
        for bundle in {**dict.fromkeys(too_many), **dict.fromkeys(self._older(old))}:
            self._end(bundle, transaction)

    def _older(self, than: float) -> Iterator[bytes]:
        for bundle, at in self._at.items():
            if at >= than:
                return
            yield bundle

    def _put(self, bundle: bytes, bits: int, whole: int, transaction: Transaction) -> None:
        if bits == whole:
            self._part.pop(bundle, None)
        else:
            self._part[bundle] = bits
        part = mask_bytes(self._part.get(bundle, 0))
        transaction.put(SeenRow(bundle, int(self._at[bundle] * 1000), part))

    def _end(self, bundle: bytes, transaction: Transaction) -> None:
        del self._at[bundle]
        self._part.pop(bundle, None)
        transaction.delete(SeenRow, bundle)
