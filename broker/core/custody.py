"""Custody: which bundles this node must keep, where they wait, and what of that is still to be committed.

A *bundle* is stored once; a *copy* is one duty to deliver it, and waits in a *place*: a queue, a
neighbour's link, a subscription, or among the dead letters. Of a place where many wait only the first are in
memory (`waiting`, `cooling`); the others, and bodies, are read from disk a page at a time.

Law: whoever changes a bundle or copy says so here, so that the change is in the next transaction.
Volatile (non-persistent) bundles have row 0 and never touch the transaction.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.core.cooling import Cooling, ReadCopies
from broker.core.copies import Copy, Stored, copy_row
from broker.core.expiry import Expiry
from broker.core.place import Place
from broker.core.places import DEAD, SUBSCRIPTION, UPWARD, Spool, destination_of, place_name
from broker.core.repetition import Kept
from broker.core.rows import BundleRow, CopyRow, MetaRow, Transaction
from broker.core.spools import Spools
from broker.core.trace import BURIED, EVERY, Trace
from treeconnector import bundles
from treeconnector.bundles import Flag, Header
from treeconnector.destinations import Destination, Kind, queue
from treeconnector.names import is_incarnation

if TYPE_CHECKING:
    from broker.core.readers import Reader

__all__ = ["DEAD", "SUBSCRIPTION", "UPWARD", "Copy", "Custody", "Place", "ReadBodies", "Spool", "Stored"]

DOUBTED: Final = "doubted"
"""Of bundles below the row that this says nobody knows whether they have arrived where they go."""
_PAGE: Final = 64

ReadBodies = Callable[[Sequence[int]], dict[int, bytes]]


class Custody:
    """All bundles, copies and places of a node.

    `buried`: messages that became dead letters since the start, by the head of the reason.
    """

    def __init__(
        self,
        node: str,
        read_bodies: ReadBodies,
        read_copies: ReadCopies,
        cache_bytes: int,
        cache_copies: int,
        trace: Trace,
    ) -> None:
        self.trace = trace
        self.transaction = Transaction()
        self.cooling = Cooling(self, read_copies, cache_copies)
        self.places: dict[str, Place] = {}
        self.mine = frozenset((node,))
        self.directed: dict[str, dict[str, Place]] = {}
        self.readers: dict[str, list[Reader]] = {}
        self._senders: dict[str, dict[str, int]] = {}
        self.spools = Spools()
        self.is_home: Callable[[Destination], bool] = lambda destination: False
        self.stirred: list[Place] = []
        self.expiry = Expiry()
        self.buried: Counter[str] = Counter()
        self._node = node
        self.dead = self.place(DEAD)
        self.dead.spool = None
        self._read_bodies = read_bodies
        self._cache_bytes = cache_bytes
        self._cached = 0
        self._next_bundle = 1
        self._next_copy = 1
        self.fresh: dict[int, Stored] = {}
        self.kept = Kept()
        self._loaded_before = 0
        self._unreferenced: list[Stored] = []

    def __repr__(self) -> str:
        return f"<Custody places={len(self.places)} bytes={sum(self.spools.values())} cached={self._cached}>"

    # --- places

    def place(self, name: str, destination: Destination | None = None) -> Place:
        found = self.places.get(name)
        if found is None:
            found = self.places[name] = Place(name, destination, self.cooling)
        return found

    def queue(self, destination: Destination) -> Place:
        """Where messages for a destination wait.

        `queue:x`, `queue:x@this-node` and `queue:x@this-incarnation` have the same readers, and senders.
        """
        name = place_name(destination)
        place = self.places.get(name)
        if place is None:
            place = self.place(name, destination)
            if destination.node:
                self.directed.setdefault(destination.node, {})[name] = place
            if destination.kind == Kind.QUEUE and (not destination.node or destination.node in self.mine):
                place.readers = self.readers.setdefault(destination.name, [])
                place.senders = self._senders.setdefault(destination.name, {})
                place.home = self.is_home(destination)
                if is_incarnation(destination.node):
                    for reader in place.readers:
                        reader.places.append(place)
        return place

    def queues_here(self, name: str) -> list[Place]:
        """All places whose messages a reader of `name` gets."""
        made = [self.queue(queue(name)), self.queue(queue(name, self._node))]
        asked = (self.places.get(place_name(queue(name, node))) for node in self.mine - {self._node})
        return made + [place for place in asked if place is not None]

    def sweep_places(self, wanted: set[str]) -> None:
        """Forget places that hold nothing and that nobody reads or waits for."""
        for place in list(self.places.values()):
            idle = not (place.messages or place.readers or place.created or place.held_back)
            if idle and place.destination is not None and place.name not in wanted:
                del self.places[place.name]
                self._forget(place.destination, place.name)

    def _forget(self, destination: Destination, name: str) -> None:
        directed = self.directed.get(destination.node, {})
        directed.pop(name, None)
        if not directed:
            self.directed.pop(destination.node, None)
        plain = f"queue:{destination.name}"
        if not (plain in self.places or any(f"{plain}@{name}" in self.places for name in self.mine)):
            self.readers.pop(destination.name, None)
            self._senders.pop(destination.name, None)

    # --- bundles and copies

    def store(self, header: Header, body: bytes, now: float, encoded: bytes | None = None) -> Stored:
        """Keep a bundle. Without a copy at the end of the turn it is not written.

        `encoded`: the header as it came; it is written and sent so, as long as nothing in it changes.
        """
        if header.flags & 1:
            stored = Stored(self._next_bundle, header, body, len(body), now)
            self._next_bundle += 1
            self._cached += len(body)
            self.fresh[stored.row] = stored
        else:
            stored = Stored(0, header, body, len(body), now)
            stored.safe = True
        stored.encoded = encoded
        return stored

    def add(self, stored: Stored, place: Place, came: str, now: float) -> Copy:
        """A new duty to deliver `stored` from `place`; the caller lets it wait there."""
        copy = Copy(self._next_copy, stored, place, came, now)
        self._next_copy += 1
        if stored.header.done:
            copy.done = bundles.mask_bits(stored.header.done)
        if stored.doubted and (place.keeps or place.destination is not None):
            copy.deliveries = 1
        stored.copies += 1
        self._count(copy, 1)
        if stored.header.expires_last:
            self.expiry.add(copy)
        if stored.row:
            self.changed(copy)
        return copy

    def changed(self, copy: Copy) -> None:
        """The copy's row differs from what is on disk."""
        if copy.stored.row:
            self.transaction.changes[CopyRow][copy.row] = copy

    def header_changed(self, stored: Stored) -> None:
        stored.encoded = None
        if stored.row and stored.row not in self.fresh:
            self.transaction.changes[BundleRow][stored.row] = BundleRow(stored.row, stored.head, None)

    def leave_out(self, stored: Stored, bits: int) -> None:
        """The bundle does not bring these messages any more: others do, or did."""
        known = bundles.mask_bits(stored.header.done)
        if bits & ~known:
            stored.header.done = bundles.mask_bytes(known | bits)
            self.header_changed(stored)

    def move(self, copy: Copy, place: Place) -> None:
        """The copy's duty is another place's now; the caller takes it from the old one's `waiting`."""
        self._count(copy, -1)
        copy.place = place
        self._count(copy, 1)
        self.changed(copy)

    def mark_done(self, copy: Copy, bits: int) -> bool:
        """Some messages are dealt with. True if that was the last; the copy is then gone."""
        bits &= ~copy.done
        copy.given &= ~bits
        copy.done |= bits
        copy.place.messages -= bits.bit_count()
        if copy.note and copy.note in copy.place.senders:
            self.sent(copy.place, copy.note, -bits.bit_count())
        if not copy.place.tally.active:
            self._stir(copy.place)
        if copy.done == copy.all:
            self.discard(copy)
            return True
        self.changed(copy)
        return False

    def discard(self, copy: Copy) -> None:
        """The duty is fulfilled. The caller takes the copy from `waiting` if it is there."""
        stored = copy.stored
        self._count(copy, -1)
        if copy.note and copy.note in copy.place.senders:
            self.sent(copy.place, copy.note, -copy.open)
        copy.done = copy.all
        stored.copies -= 1
        if stored.row:
            self.transaction.changes[CopyRow][copy.row] = None
            if not stored.copies:
                self._unreferenced.append(stored)

    def sent(self, place: Place, sender: str, count: int) -> None:
        """Count what one sender has in a place, for quotas."""
        left = place.senders.get(sender, 0) + count
        if left > 0:
            place.senders[sender] = left
        else:
            place.senders.pop(sender, None)

    def bury(self, copy: Copy, reason: str) -> None:
        """Move a copy to the dead letters. The caller takes it from `waiting`.

        What was for a link or a subscription remembers that as where it came from.
        """
        if copy.note in copy.place.senders:
            self.sent(copy.place, copy.note, -copy.open)
        place = copy.place
        self.move(copy, self.dead)
        if place.destination is None:
            copy.came = place.name
        copy.note = reason
        copy.number = 0
        copy.given = 0
        self.note_dead(copy)
        self.changed(copy)

    def note_dead(self, copy: Copy) -> None:
        """A copy waits among the dead letters from now on; the head of its note is the reason."""
        self.dead.waiting.append(copy)
        self.buried[copy.note.partition(":")[0]] += copy.open
        self.trace.happened(BURIED, copy, EVERY, "", copy.note)

    def _count(self, copy: Copy, sign: int) -> None:
        """A copy is in its place from now on (1), or no more (-1)."""
        place, stored = copy.place, copy.stored
        messages = stored.header.count - copy.done.bit_count() if copy.done else stored.header.count
        place.messages += sign * messages
        place.size += sign * stored.size
        if sign > 0:
            place.tally.entered += messages
            if len(place.waiting.warm) >= place.waiting.room:
                self.cooling.crowded[place] = None
        if not place.tally.active:
            self._stir(place)
        if stored.row:
            self.spools.count(copy, sign)
            if place.keeps:
                if sign > 0:
                    self.kept.add(copy)
                else:
                    self.kept.remove(copy)

    def _stir(self, place: Place) -> None:
        """Something moves here: its rates are figured out until nothing does any more."""
        place.tally.active = True
        self.stirred.append(place)

    # --- bodies

    def body(self, copy: Copy) -> bytes:
        """The bundle's body; if it is on disk, those that wait behind it are read with it."""
        stored = copy.stored
        if stored.body is None:
            self._load_page(copy)
        assert stored.body is not None
        return stored.body

    def peek(self, copy: Copy) -> bytes | None:
        """The bundle's body for somebody who only looks: it does not stay in memory. None: it is gone."""
        stored = copy.stored
        return stored.body if stored.body is not None else self._read_bodies([stored.row]).get(stored.row)

    def _load_page(self, first: Copy) -> None:
        wanted = {first.stored.row: first.stored}
        for copy in first.place.waiting.warm:
            if len(wanted) >= _PAGE:
                break
            if copy.stored.body is None:
                wanted[copy.stored.row] = copy.stored
        for row, body in self._read_bodies(list(wanted)).items():
            wanted[row].body = body
            self._cached += len(body)

    def took_in(self, stored: Stored) -> None:
        """A bundle that was on disk alone is in memory again."""
        if stored.body is not None:
            self._cached += stored.size

    def evict(self, stored: Stored) -> None:
        if stored.body is not None:
            self._cached -= stored.size
            stored.body = stored.encoded = None
            stored.messages = None

    # --- turns

    def take(self) -> tuple[Transaction, list[Stored]]:
        """The transaction of this turn, and the bundles that it makes safe."""
        taken, self.transaction = self.transaction, Transaction()
        fresh, self.fresh = self.fresh, {}
        table = taken.changes[BundleRow]
        for stored in fresh.values():
            if stored.copies:
                table[stored.row] = BundleRow(stored.row, stored.head, stored.body)
        self._collect(table, fresh)
        copies = taken.changes[CopyRow]
        for row, copy in copies.items():
            if copy is not None:
                copies[row] = copy_row(copy)
        return taken, list(fresh.values())

    def _collect(self, table: dict[int, BundleRow | None], fresh: dict[int, Stored]) -> None:
        """Let go of bundles that no copy refers to any more (or ever did)."""
        gone = {stored.row: stored for stored in self._unreferenced if not stored.copies}
        gone.update((row, stored) for row, stored in fresh.items() if not stored.copies)
        for row, stored in gone.items():
            self.evict(stored)
            if row in fresh:
                table.pop(row, None)
            else:
                table[row] = None
        self._unreferenced = []

    def committed(self, fresh: list[Stored]) -> None:
        """These bundles are on disk: they are safe to give, and their bodies may leave memory."""
        self.trace.committed(fresh)
        for stored in fresh:
            stored.safe = True
            if self._cached > self._cache_bytes and stored.copies:
                self.evict(stored)
        if self.cooling.crowded:
            self.cooling.cool()

    # --- start

    def load_bundle(self, row: int, header: Header, size: int) -> Stored:
        stored = Stored(row, header, None, size, 0.0)
        stored.safe = True
        self.cooling.doubt(stored)
        self._loaded_before = self._next_bundle = max(self._next_bundle, row + 1)
        return stored

    def restore_doubt(self, before: int) -> None:
        """What was in doubt is so still; no row of these is used again for what is new."""
        self.cooling.doubted_before, self._next_bundle = before, max(self._next_bundle, before)

    def doubt_old(self) -> None:
        """Whatever this start found on the disk may have arrived where it goes: it is marked, once.

        Those that are not in memory are marked when they are.
        """
        before, self._loaded_before = self._loaded_before, 0
        if not before:
            return
        self.cooling.doubted_before = before
        self.transaction.put(MetaRow(DOUBTED, str(before).encode()))
        for place in self.places.values():
            for copy in [*place.waiting.warm, *place.resting.values()]:
                stored = copy.stored
                if 0 < stored.row < before and not stored.header.flags & Flag.MAYBE_DUPLICATE:
                    stored.header.flags |= Flag.MAYBE_DUPLICATE
                    self.header_changed(stored)

    def load_copy(self, row: CopyRow, stored: Stored) -> Copy:
        """Put a copy back where it was at the stop; numbered ones wait in no `waiting`."""
        destination = destination_of(row.place)
        place = self.queue(destination) if destination else self.place(row.place)
        copy = Copy(row.row, stored, place, row.came, row.since / 1000)
        copy.number, copy.done, copy.deliveries = row.number, bundles.mask_bits(row.done), row.deliveries
        copy.note, copy.transfer = row.note, row.transfer
        if copy.transfer:
            copy.deliveries = max(copy.deliveries, 1)
        stored.copies += 1
        stored.since = copy.since
        self._next_copy = max(self._next_copy, row.row + 1)
        self._count(copy, 1)
        if copy.note and place is not self.dead and destination is not None:
            self.sent(place, copy.note, copy.open)
        if not copy.number:
            place.waiting.append(copy)
        if stored.header.expires_last and place is not self.dead:
            self.expiry.add(copy)
        return copy
