"""Redrive: dead letters are given back, and routed again as if they had come just now.

A letter of a queue waits in that queue again. A topic's goes back to the subscription or the link that it
was for; where that is gone, it is published again for whoever wants it now, marked *maybe-duplicate*. What
expired has no expiry any more; what may have been with a consumer is marked *maybe-duplicate* as well.

Law: a letter leaves the dead letters in the transaction that puts it where it waits again, and takes the room
of its own messages there, however large the bundle was that brought it.
Law: an operator fills no queue beyond what it may hold: what has no room stays a dead letter. A neighbour's
word that a letter goes on knows no such bound, as nothing does that neighbours bring.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from broker.core.context import Context
from broker.core.links.outgoing import outgoing
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry, StoredBundle
from broker.core.messages.trace import RETURNED
from broker.core.operations.removal import Removal
from broker.core.routing.admission import MessageAdmission, check_destination
from broker.core.routing.arrivals import Arrivals
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.topics import Topics
from sapwood.protocol import bundles
from sapwood.protocol.bundles import MAX_BYTES, MAX_MESSAGES, Flag, Header
from sapwood.protocol.destinations import Kind
from sapwood.protocol.errors import FrameError, InvalidName, PatternError

_TOO_MANY: Final = "TOO_MANY_DELIVERIES"
_EXPIRED: Final = "EXPIRED"
_REJECTED: Final = "REFUSED_BY_BROKER"


@dataclass(slots=True)
class Return:
    """How it went. `why`: the reason that there was no room for some, '' = there was for all."""

    messages: int = 0
    why: str = ""


class Redrive:
    """The dead letters of one node. All calls are synchronous; `NodePort.wake` must follow."""

    __slots__ = (
        *("_admission", "_arrivals", "_context", "_custody", "_forwarder", "_lookup", "_removal"),
        "_topics",
    )

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        lookup: Lookup,
        topics: Topics,
        arrivals: Arrivals,
        admission: MessageAdmission,
        removal: Removal,
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._lookup = lookup
        self._topics = topics
        self._admission = admission
        self._arrivals = arrivals
        self._removal = removal
        self._custody = context.custody

    def __repr__(self) -> str:
        return f"<Redrive {self._custody.dead.messages}>"

    def give_back_some(self, chosen: Iterable[tuple[QueueEntry, int]]) -> Return:
        """As `give_back`, for an operator: as many of them as there is room for."""
        done = Return()
        done.messages = self.give_back(self._with_room(chosen, done))
        return done

    def _with_room(
        self, chosen: Iterable[tuple[QueueEntry, int]], done: Return
    ) -> Iterator[tuple[QueueEntry, int]]:
        """The first of each, as far as there is room after those before it."""
        for entry, wanted in chosen:
            bits = wanted & entry.all & ~entry.done
            room, why = self._room(entry)
            if bits.bit_count() > room:
                done.why = why
            while bits.bit_count() > room:
                bits &= ~(1 << bits.bit_length() - 1)
            yield entry, bits

    def _room(self, letter: QueueEntry) -> tuple[int, str]:
        """How many of a letter's messages may wait where it goes, and why no more may."""
        header, queue = letter.stored.header, self._former(letter)
        if closed := self._admission.closed:
            return 0, f"QUEUE_FULL: {closed}"
        to_a_link = queue is not None and queue.name.startswith("link:")
        if (header.destination.kind == Kind.TOPIC and not to_a_link) or not self._may_go(header):
            return MAX_MESSAGES, ""
        address = self._lookup.address(header.destination)
        names = (header.destination, address)  # under its alias it waits but a moment
        queues = {queue} if queue else {self._custody.queue_for(each) for each in names}
        policy = self._context.settings.policy(address)
        is_full = sum(each.size for each in queues) >= policy.max_bytes
        room = 0 if is_full else policy.max_messages - sum(each.messages for each in queues)
        return max(room, 0), f"QUEUE_FULL: {queue.name if queue else address} has no room for more"

    def give_back(self, chosen: Iterable[tuple[QueueEntry, int]]) -> int:
        """Route these messages of dead letters again; return how many.

        What no queue can be named after stays, as does what is larger than this node takes, and a topic's
        that nobody wants.
        """
        context, count = self._context, 0
        gone: set[QueueEntry] = set()
        queues: dict[Queue, list[QueueEntry]] = {}
        for entry, wanted in chosen:
            bits = wanted & entry.all & ~entry.done
            if entry.queue is not self._custody.dead or not bits or not self._may_go(entry.stored.header):
                continue
            if not self._again(entry, bits, queues):
                continue
            count += bits.bit_count()
            self._arrivals.returned(entry, bits)
            self._custody.trace.happened(RETURNED, entry, bits, "", "from the dead letters")
            if self._custody.mark_done(entry, bits):
                gone.add(entry)
        self._removal.unlist(self._custody.dead, frozenset(gone))
        for queue, entries in queues.items():
            queue.waiting.put_back(entries)
            self._forwarder.dispatch(queue)
        context.counters["dead_returned"] = context.counters.get("dead_returned", 0) + count
        return count

    def discard(self, chosen: Iterable[tuple[QueueEntry, int]]) -> int:
        """Throw these messages of dead letters away; return how many."""
        context, count = self._context, 0
        gone: set[QueueEntry] = set()
        for entry, wanted in chosen:
            bits = wanted & entry.all & ~entry.done
            if entry.queue is self._custody.dead and bits:
                count += bits.bit_count()
                if self._custody.mark_done(entry, bits):
                    gone.add(entry)
        self._removal.unlist(self._custody.dead, frozenset(gone))
        context.counters["dead_deleted"] = context.counters.get("dead_deleted", 0) + count
        return count

    def _may_go(self, header: Header) -> bool:
        try:
            check_destination(header.destination)
        except (InvalidName, PatternError):
            return False
        return header.size <= max(self._context.settings.max_message, MAX_BYTES)

    def _again(self, letter: QueueEntry, bits: int, queues: dict[Queue, list[QueueEntry]]) -> bool:
        """An entry of what is chosen of a letter, where it has to go; `queues` gather those that wait there.

        False: there is nowhere to go.
        """
        flags = int(Flag.MAYBE_DUPLICATE) if _was_with_a_reader(letter) else 0
        queue = self._former(letter)
        header = letter.stored.header
        if queue is None and header.destination.kind == Kind.TOPIC and not header.destination.node:
            return self._publish(letter, bits)
        stored = self._bringing(letter, bits, flags)
        queue = queue or self._custody.queue_for(header.destination)
        entry = self._part(stored, bits, queue)
        entry.deliveries = 1 if flags else 0
        queues.setdefault(queue, []).append(entry)
        return True

    def _bringing(self, letter: QueueEntry, bits: int, flags: int) -> StoredBundle:
        """The bundle with which these messages go: one of its own, if a queue's has others to bring.

        For these may go away and come here again, whatever becomes of the others.
        """
        stored = letter.stored
        queued = stored.header.destination.kind == Kind.QUEUE
        divided = queued and (stored.entries > 1 or bits != letter.all & ~letter.done)
        again = divided or letter.note.startswith(_EXPIRED)
        if again:
            found = self._anew(letter, bits, flags)
        else:
            found = stored
            self._context.custody.flag(stored, flags)
        if queued:
            self._custody.leave_out(stored, bits if again else letter.done)
        return found

    def _former(self, letter: QueueEntry) -> Queue | None:
        """The subscription or link that it was for, if there still is one."""
        name = letter.came
        return self._custody.queues.get(name) if name.startswith(("subscription:", "link:")) else None

    def _publish(self, letter: QueueEntry, bits: int) -> bool:
        came = "" if ":" in letter.came else letter.came
        stored = self._anew(letter, bits, int(Flag.MAYBE_DUPLICATE))
        self._topics.publish(stored, came)
        return stored.entries > 0 or not stored.row

    def _part(self, stored: StoredBundle, bits: int, queue: Queue) -> QueueEntry:
        entry = self._custody.add(stored, queue, "", self._context.clock.now)
        others = entry.all & ~entry.done & ~bits
        entry.done |= others
        queue.messages -= others.bit_count()
        queue.tally.entered -= others.bit_count()
        return entry

    def _anew(self, letter: QueueEntry, bits: int, flags: int) -> StoredBundle:
        """The same bundle, all else done and empty in it; if it expired, or is a topic's, it never does."""
        context = self._context
        old = outgoing(letter, self._context.clock.now)
        expires = old.destination.kind == Kind.QUEUE and not letter.note.startswith(_EXPIRED)
        header = Header(
            id=old.id,
            destination=old.destination,
            scope=old.scope,
            flags=old.flags | flags,
            count=old.count,
            size=old.size,
            origin_store=old.origin_store,
            origin=old.origin,
            expires_first=old.expires_first if expires else 0,
            expires_last=old.expires_last if expires else 0,
            reroutes=old.reroutes,
            done=bundles.mask_bytes(letter.all & ~bits),
            start=old.start,
        )
        body = self._custody.body(letter)
        with contextlib.suppress(FrameError):  # what cannot be read goes as it is
            header, body = bundles.part_of(header, body, bits)
        return self._custody.store(header, body, context.clock.now)


def _was_with_a_reader(letter: QueueEntry) -> bool:
    """Or with some of those of a site's broker that read its topic: it says no where one of them does."""
    kind, note = letter.stored.header.destination.kind, letter.note
    rejected = kind == Kind.TOPIC and note.startswith(_REJECTED)
    return letter.deliveries > 0 or rejected or note.startswith(_TOO_MANY)
