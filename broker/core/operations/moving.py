"""Moving: an operator lets waiting messages wait in another queue, or behind all others of their own.

Law: a message leaves its queue in the transaction that puts it where it waits from now on.
Law: a moved message is a new one of this node, with the payload, the properties and the remaining time of the
old one: nobody who saw the old one takes the new one for a repetition. One that may have been with a consumer
is marked *maybe-duplicate*.
Law: what moves takes the room of what moves: of a bundle only its messages, however many it has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.errors import QueueFull, SwitchError
from broker.core.links.outgoing import outgoing
from broker.core.messages.queue import QueueEntry
from broker.core.messages.trace import DROPPED
from broker.core.operations.removal import Removal
from broker.core.routing.admission import MessageAdmission
from broker.core.routing.arrivals import Arrivals
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError
from treeconnector.identity import BundleIds
from treeconnector.wording import counted

_KEPT: Final = Flag.PERSISTENT | Flag.COMPRESSED | Flag.MAYBE_DUPLICATE


@dataclass(slots=True)
class Move:
    """How it went. `why`: the reason that the rest stays where it is, '' = all has gone."""

    messages: int = 0
    why: str = ""


class Moving:
    """Moves at one node. All calls are synchronous; `NodePort.wake` must follow."""

    __slots__ = ("_admission", "_arrivals", "_context", "_dispatcher", "_ids", "_removal")

    def __init__(
        self,
        context: Context,
        dispatcher: Dispatcher,
        arrivals: Arrivals,
        admission: MessageAdmission,
        removal: Removal,
        ids: BundleIds,
    ) -> None:
        self._context = context
        self._dispatcher = dispatcher
        self._arrivals = arrivals
        self._admission = admission
        self._removal = removal
        self._ids = ids

    def __repr__(self) -> str:
        return f"<Moving at {self._context.name}>"

    def move(self, chosen: Iterable[tuple[QueueEntry, int]], to: Destination | None) -> Move:
        """Move these messages of entries that wait; None: behind all others of their queue.

        Messages that consumers have stay with them. Raises `SwitchError` if the first may not go there.
        """
        done = Move()
        for entry, wanted in chosen:
            bits = wanted & entry.all & ~(entry.done | entry.given)
            if not bits:
                continue
            try:
                self._check(entry, bits, to)
                header, body = self._part(entry, bits, to)
            except SwitchError as error:
                if not done.messages:
                    raise
                done.why = error.text
                break
            self._go(entry, bits, header, body)
            done.messages += bits.bit_count()
        counters = self._context.counters
        counters["moved"] = counters.get("moved", 0) + done.messages
        return done

    def _check(self, entry: QueueEntry, bits: int, to: Destination | None) -> None:
        header, count = entry.stored.header, bits.bit_count()
        if to is None:
            self._admission.check_open()
            return
        if self._admission.fits(to, "", count, header.size, header.scope, 0) < count:
            raise QueueFull(f"QUEUE_FULL: {to} has no room for {counted(count, 'message')} more")

    def _part(self, entry: QueueEntry, bits: int, to: Destination | None) -> tuple[Header, bytes]:
        try:
            return bundles.part_of(self._header(entry, to), self._context.custody.body(entry), bits)
        except FrameError as error:
            raise SwitchError(f"UNREADABLE: {error}") from None

    def _go(self, entry: QueueEntry, bits: int, header: Header, body: bytes) -> None:
        context, custody, queue = self._context, self._context.custody, entry.queue
        why = f"moved to {header.destination} as {header.id.hex()}"
        custody.trace.happened(DROPPED, entry, bits, "", why)
        if custody.mark_done(entry, bits):
            self._removal.unlist(queue, frozenset((entry,)))
            self._dispatcher.finished(entry)
        self._admission.stored(len(body))
        self._arrivals.moved(header, body, context.clock.now)
        if queue.held_back:
            self._dispatcher.holds.relieve(queue)

    def _header(self, entry: QueueEntry, to: Destination | None) -> Header:
        identity, old = self._context.identity, outgoing(entry, self._context.clock.now)
        own = entry.queue.destination or old.destination
        return Header(
            id=self._ids.next(),
            destination=to or own,
            scope=old.scope,
            flags=old.flags & _KEPT | (Flag.MAYBE_DUPLICATE if entry.deliveries else 0),
            count=old.count,
            size=old.size,
            origin_store=identity.store_id,
            origin=identity.name,
            expires_first=old.expires_first,
            expires_last=old.expires_last,
            start=identity.start,
        )
