"""Custody: which bundles this node must keep, where they wait, and what of that is still to be committed.

A *bundle* is stored once; a *entry* is one duty to deliver it, and waits in a *queue*: a queue, a
neighbour's link, a subscription, or among the dead letters. Of a queue where many wait only the first are in
memory (`backlog`, `paging`); the others, and bodies, are read from disk a page at a time.

Law: whoever changes a bundle or entry says so here, so that the change is in the next transaction.
Volatile (non-persistent) bundles have row 0 and never touch the transaction.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker.core.custody.expiry import Expiry
from broker.core.custody.paging import Paging, ReadCopies
from broker.core.custody.spools import Spools
from broker.core.messages.deduplication import HeldIdentities
from broker.core.messages.queue import Queue, QueueEntry, StoredBundle, entry_row
from broker.core.messages.queue_names import DEAD, queue_name_of
from broker.core.messages.summaries import PAGE
from broker.core.messages.trace import BURIED, EVERY, Trace
from broker.core.rows import BundleRow, CopyRow, MetaRow, Transaction
from broker.core.settings import CoreSettings
from sapwood.protocol import bundles, destinations
from sapwood.protocol.bundles import Flag, Header
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.names import is_incarnation

DOUBTED: Final = "doubted"
"""Of bundles below the row that this says nobody knows whether they have arrived where they go."""
_PAGE: Final = 64
_COOLED: Final = 4 * PAGE
"""Entries that leave memory after one commit, beside twice as many as came since the one before."""

ReadBodies = Callable[[Sequence[int]], dict[int, bytes]]


class Custody:
    """All bundles, entries and queues of a node.

    `buried`: messages that became dead letters since the start, by the head of the reason.
    """

    __slots__ = (
        *("_added", "_cache_bytes", "_cached", "_found", "_loaded_before", "_next_bundle", "_next_copy"),
        *("_node", "_read_bodies", "_senders", "_settings", "_unreferenced", "buried", "consumers", "dead"),
        *("directed", "expiry", "fresh", "kept", "mine", "paging", "queues", "spools", "stirred"),
        *("trace", "transaction"),
    )

    def __init__(
        self,
        node: str,
        read_bodies: ReadBodies,
        read_copies: ReadCopies,
        trace: Trace,
        settings: CoreSettings,
    ) -> None:
        self.trace = trace
        self.transaction = Transaction()
        self.paging = Paging(self, read_copies, settings.cache_copies)
        self.queues: dict[str, Queue] = {}
        self._found: dict[Destination, Queue] = {}
        self.mine = frozenset((node,))
        self.directed: dict[str, dict[str, Queue]] = {}
        self.consumers: dict[str, list[Any]] = {}
        self._senders: dict[str, dict[str, int]] = {}
        self.spools = Spools()
        self._settings = settings
        self.stirred: list[Queue] = []
        self.expiry = Expiry()
        self.buried: Counter[str] = Counter()
        self._node = node
        self.dead = self.queue_named(DEAD)
        self.dead.spool = None
        self._read_bodies = read_bodies
        self._cache_bytes = settings.cache_bytes
        self._cached = 0
        self._next_bundle = 1
        self._next_copy = 1
        self._added = 0
        self.fresh: dict[int, StoredBundle] = {}
        self.kept = HeldIdentities()
        self._loaded_before = 0
        self._unreferenced: list[StoredBundle] = []

    def __repr__(self) -> str:
        return f"<Custody places={len(self.queues)} bytes={sum(self.spools.values())} cached={self._cached}>"

    # --- queues

    def queue_named(self, name: str, destination: Destination | None = None) -> Queue:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue(name, destination, self.paging)
        return found

    def queue_for(self, destination: Destination) -> Queue:
        """Where messages for a destination wait.

        `queue:x`, `queue:x@this-node` and `queue:x@this-incarnation` have the same consumers, and senders.
        """
        found = self._found.get(destination)
        if found is not None:
            return found
        name = queue_name_of(destination)
        queue = self.queues.get(name)
        if queue is None:
            queue = self._found[destination] = self.queue_named(name, destination)
            queue.policy = self._settings.policy(destination)
            if destination.node:
                self.directed.setdefault(destination.node, {})[name] = queue
            if destination.kind == Kind.QUEUE and (not destination.node or destination.node in self.mine):
                queue.consumers = self.consumers.setdefault(destination.name, [])
                queue.senders = self._senders.setdefault(destination.name, {})
                queue.home = queue.policy.home
                if is_incarnation(destination.node):
                    for consumer in queue.consumers:
                        consumer.queues.append(queue)
        return queue

    def queues_here(self, name: str) -> list[Queue]:
        """All queues whose messages a consumer of `name` gets."""
        made = [self.queue_for(destinations.queue(name, node)) for node in ("", self._node)]
        asked = (
            self.queues.get(queue_name_of(destinations.queue(name, node)))
            for node in self.mine - {self._node}
        )
        return made + [queue for queue in asked if queue is not None]

    def sweep(self, queue: Queue) -> None:
        """Forget a queue that holds nothing and that nobody reads or waits for.

        One through which messages go on remembers its way, and stays if any has come since the last look.
        """
        idle = not (queue.messages or queue.consumers or queue.created or queue.held_back)
        if not idle or queue.destination is None or queue.wanted:
            queue.idle_at = -1
        elif queue.ways < 0 or queue.idle_at == queue.tally.entered:
            self.forget(queue)
        else:
            queue.idle_at = queue.tally.entered

    def forget(self, queue: Queue) -> None:
        """It is none any more."""
        destination, name = queue.destination, queue.name
        self.queues.pop(name, None)
        if destination is None:
            return
        self._found.pop(destination, None)
        directed = self.directed.get(destination.node, {})
        directed.pop(name, None)
        if not directed:
            self.directed.pop(destination.node, None)
        plain = f"queue:{destination.name}"
        if not (plain in self.queues or any(f"{plain}@{name}" in self.queues for name in self.mine)):
            self.consumers.pop(destination.name, None)
            self._senders.pop(destination.name, None)

    # --- bundles and entries

    @property
    def next_row(self) -> int:
        """The row of the next entry; those of all that are here are below it."""
        return self._next_copy

    def store(self, header: Header, body: bytes, now: float, encoded: bytes | None = None) -> StoredBundle:
        """Keep a bundle. Without an entry at the end of the turn it is not written.

        `encoded`: the header as it came; it is written and sent so, as long as nothing in it changes.
        """
        if header.flags & 1:
            stored = StoredBundle(self._next_bundle, header, body, len(body), now)
            self._next_bundle += 1
            self._cached += len(body)
            self.fresh[stored.row] = stored
        else:
            stored = StoredBundle(0, header, body, len(body), now)
            stored.safe = True
        stored.encoded = encoded
        return stored

    def add(self, stored: StoredBundle, queue: Queue, came: str, now: float) -> QueueEntry:
        """A new duty to deliver `stored` from `queue`; the caller lets it wait there."""
        entry = QueueEntry(self._next_copy, stored, queue, came, now)
        self._next_copy += 1
        self._added += 1
        self.paging.warm += 1
        if stored.header.done:
            entry.done = bundles.mask_bits(stored.header.done)
        if stored.doubted and (queue.keeps or queue.destination is not None):
            entry.deliveries = 1
        stored.entries += 1
        self.count(entry, 1)
        if stored.header.expires_last:
            self.expiry.add(entry)
        if stored.row:
            self.transaction.changes[CopyRow][entry.row] = entry
        return entry

    def changed(self, entry: QueueEntry) -> None:
        """The copy's row differs from what is on disk."""
        if entry.stored.row:
            self.transaction.changes[CopyRow][entry.row] = entry

    def header_changed(self, stored: StoredBundle) -> None:
        stored.encoded = None
        if stored.row and stored.row not in self.fresh:
            self.transaction.changes[BundleRow][stored.row] = BundleRow(stored.row, stored.head, None)

    def flag(self, stored: StoredBundle, flags: int) -> None:
        """Tell all later nodes, and keep it on disk."""
        header = stored.header
        if flags & ~header.flags:
            header.flags |= flags
            self.header_changed(stored)

    def leave_out(self, stored: StoredBundle, bits: int) -> None:
        """The bundle does not bring these messages any more: others do, or did."""
        known = bundles.mask_bits(stored.header.done)
        if bits & ~known:
            stored.header.done = bundles.mask_bytes(known | bits)
            self.header_changed(stored)

    def move(self, entry: QueueEntry, queue: Queue) -> None:
        """The copy's duty is another place's now; the caller takes it from the old one's `waiting`."""
        self.count(entry, -1)
        entry.queue = queue
        self.count(entry, 1)
        self.changed(entry)

    def mark_done(self, entry: QueueEntry, bits: int) -> bool:
        """Some messages are dealt with. True if that was the last; the entry is then gone."""
        bits &= ~entry.done
        entry.given &= ~bits
        entry.done |= bits
        entry.queue.messages -= bits.bit_count()
        if entry.note and entry.note in entry.queue.senders:
            self.sent(entry.queue, entry.note, -bits.bit_count())
        if not entry.queue.tally.active:
            self.stir(entry.queue)
        if entry.done == entry.all:
            self.discard(entry)
            return True
        self.changed(entry)
        return False

    def discard(self, entry: QueueEntry) -> None:
        """The duty is fulfilled. The caller takes the entry from `waiting` if it is there."""
        stored = entry.stored
        self.count(entry, -1)
        if entry.note and entry.note in entry.queue.senders:
            self.sent(entry.queue, entry.note, -entry.open)
        entry.done = entry.all
        self.paging.warm -= 1
        stored.entries -= 1
        if stored.row:
            self.transaction.changes[CopyRow][entry.row] = None
            if not stored.entries:
                self._unreferenced.append(stored)
            elif stored.row in self.paging.parted:
                self.paging.left(stored)

    def sent(self, queue: Queue, sender: str, count: int) -> None:
        """Count what one sender has in a queue, for quotas."""
        left = queue.senders.get(sender, 0) + count
        if left > 0:
            queue.senders[sender] = left
        else:
            queue.senders.pop(sender, None)

    def bury(self, entry: QueueEntry, reason: str) -> None:
        """Move an entry to the dead letters. The caller takes it from `waiting`.

        What was for a link or a subscription remembers that as where it came from.
        """
        if entry.note in entry.queue.senders:
            self.sent(entry.queue, entry.note, -entry.open)
        queue = entry.queue
        self.move(entry, self.dead)
        if queue.destination is None:
            entry.came = queue.name
        entry.note = reason
        entry.number = 0
        entry.given = 0
        self.note_dead(entry)
        self.changed(entry)

    def note_dead(self, entry: QueueEntry) -> None:
        """An entry waits among the dead letters from now on; the head of its note is the reason."""
        self.dead.waiting.append(entry)
        self.buried[entry.note.partition(":")[0]] += entry.open
        self.trace.happened(BURIED, entry, EVERY, "", entry.note)

    def count(self, entry: QueueEntry, sign: int) -> None:
        """An entry is in its place from now on (1), or no more (-1)."""
        queue, stored = entry.queue, entry.stored
        messages = stored.header.count - entry.done.bit_count() if entry.done else stored.header.count
        queue.messages += sign * messages
        queue.size += sign * stored.size
        if sign > 0:
            queue.tally.entered += messages
            if len(queue.waiting.warm) >= queue.waiting.room:
                self.paging.crowded[queue] = None
        if not queue.tally.active:
            self.stir(queue)
        if stored.row:
            self.spools.count(entry, sign)
            if queue.keeps:
                if sign > 0:
                    self.kept.add(entry)
                else:
                    self.kept.remove(entry)

    def stir(self, queue: Queue) -> None:
        """Something moves here: its rates are figured out until nothing does any more."""
        queue.tally.active = True
        self.stirred.append(queue)

    # --- bodies

    def body(self, entry: QueueEntry) -> bytes:
        """The bundle's body; if it is on disk, those that wait behind it are read with it."""
        stored = entry.stored
        if stored.body is None:
            self._load_page(entry)
        assert stored.body is not None
        return stored.body

    def peek(self, entry: QueueEntry) -> bytes | None:
        """The bundle's body for somebody who only looks: it does not stay in memory. None: it is gone."""
        stored = entry.stored
        return stored.body if stored.body is not None else self._read_bodies([stored.row]).get(stored.row)

    def _load_page(self, first: QueueEntry) -> None:
        wanted = {first.stored.row: first.stored}
        for entry in first.queue.waiting.warm:
            if len(wanted) >= _PAGE:
                break
            if entry.stored.body is None:
                wanted[entry.stored.row] = entry.stored
        for row, body in self._read_bodies(list(wanted)).items():
            wanted[row].body = body
            self._cached += len(body)

    def took_in(self, stored: StoredBundle) -> None:
        """A bundle that was on disk alone is in memory again."""
        if stored.body is not None:
            self._cached += stored.size

    def evict(self, stored: StoredBundle) -> None:
        if stored.body is not None:
            self._cached -= stored.size
            stored.body = stored.encoded = None
            stored.messages = None

    # --- turns

    def take(self) -> list[StoredBundle]:
        """The turn's transaction is complete; another begins. Returns the bundles that it makes safe."""
        taken, self.transaction = self.transaction, Transaction()
        fresh, self.fresh = self.fresh, {}
        table = taken.changes[BundleRow]
        for row, stored in fresh.items():
            if stored.entries:
                table[row] = BundleRow(row, stored.encoded or stored.head, stored.body)
            else:
                self._unreferenced.append(stored)
        if self._unreferenced:
            self._collect(table, fresh)
        entries = taken.changes[CopyRow]
        for row, entry in entries.items():
            if entry is not None:
                entries[row] = entry_row(entry)
        return list(fresh.values())

    def _collect(self, table: dict[int, BundleRow | None], fresh: dict[int, StoredBundle]) -> None:
        """Let go of bundles that no entry refers to any more (or ever did)."""
        gone = {stored.row: stored for stored in self._unreferenced if not stored.entries}
        for row, stored in gone.items():
            self.evict(stored)
            if row in fresh:
                table.pop(row, None)
            else:
                table[row] = None
        self._unreferenced = []

    def committed(self, fresh: list[StoredBundle]) -> None:
        """These bundles are on disk: they are safe to give, and their bodies may leave memory."""
        self.trace.committed(fresh)
        for stored in fresh:
            stored.safe = True
            if self._cached > self._cache_bytes and stored.entries:
                self.evict(stored)
        if self.paging.is_due:
            self.paging.cool(_COOLED + 2 * self._added)
        self._added = 0

    # --- start

    def begin_above(self, copy: int = 0, bundle: int = 0) -> None:
        """A start has found these rows: those of what is new come after them."""
        self._next_copy = max(self._next_copy, copy + 1)
        if bundle:
            self._loaded_before = self._next_bundle = max(self._next_bundle, bundle + 1)

    def restore_doubt(self, before: int) -> None:
        """What was in doubt is so still; no row of these is used again for what is new."""
        self.paging.doubted_before, self._next_bundle = before, max(self._next_bundle, before)

    def doubt_old(self) -> None:
        """Whatever this start found on the disk may have arrived where it goes: it is marked, once.

        Those that are not in memory are marked when they are.
        """
        before, self._loaded_before = self._loaded_before, 0
        if not before:
            return
        self.paging.doubted_before = before
        self.transaction.put(MetaRow(DOUBTED, str(before).encode()))
        for queue in self.queues.values():
            for entry in [*queue.waiting.warm, *queue.resting.values()]:
                stored = entry.stored
                if 0 < stored.row < before and not stored.header.flags & Flag.MAYBE_DUPLICATE:
                    stored.header.flags |= Flag.MAYBE_DUPLICATE
                    self.header_changed(stored)
