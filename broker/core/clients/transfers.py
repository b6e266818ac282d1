"""Transfers: messages that a session fetches, instead of being pushed.

Law: a transfer acknowledges nothing. It gives what the session has with ids above `ack_to`; and, whatever
`ack_to` is, what it has been given since the last transfer under an id that was given out before (its former
consumer went, or this node was started again). Ids ascend; a message keeps its id until it is dealt with.

Nothing is set aside for a session that does not ask: messages are handed to whoever asks or waits at that
moment. So a consumer that is busy with one message keeps no other from the rest of the queue's consumers.

Law: an answer says of each message whether it may have been given before: to this session, to another, or
before a crash. So it leaves only when the ids in it are on disk (`Switch.when_told`).
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.messages.queue import QueueEntry
from broker.core.routing.forwarding import Forwarder
from broker.core.sessions.mail import Waiter
from broker.core.sessions.sessions import Connection, ConsumerDelivery, Session, slice_of
from sapwood.protocol.bundles import Flag, Message
from sapwood.protocol.errors import FrameError

_ANSWER_BYTES: Final = 4 * 1024 * 1024
_ANSWER_MESSAGES: Final = 1000
_LOOKED_AT: Final = 1000


class Fetched(NamedTuple):
    """A message in an answer. `number`: its transfer id. `redelivered`: it may have been given before.

    `origin`: the node where it entered the tree; '' = this one.
    """

    number: int
    message: Message
    redelivered: bool = False
    origin: str = ""


class Transfers:
    """Gives sessions what they fetch. Calls are synchronous and pure.

    `unreadable`: the caller refuses these.
    """

    __slots__ = ("_context", "_custody", "_dispatcher", "_forwarder", "unreadable")

    def __init__(self, context: Context, forwarder: Forwarder, dispatcher: Dispatcher) -> None:
        self._context = context
        self._forwarder = forwarder
        self._dispatcher = dispatcher
        self._custody = context.custody
        self.unreadable: list[tuple[ConsumerDelivery, str]] = []

    def __repr__(self) -> str:
        return f"<Transfers at {self._context.name}>"

    def transfer(
        self, session: Session, connection: Connection, ack_to: int, waiter: Waiter | None = None
    ) -> list[Fetched]:
        """Some megabytes and a thousand messages at most, unpacked, the lowest ids first; ask again with a
        higher `ack_to` for the rest. `waiter`: the transfer has been blocked, and was woken.
        """
        self._pull(session)
        connection.answered.clear()
        result: list[Fetched] = []
        size = weight = 0
        for given in _due(session, ack_to):
            if not session.mail.is_for(given, waiter):
                continue
            weight += given.weight
            if result and (weight > _ANSWER_BYTES or len(result) + given.messages > _ANSWER_MESSAGES):
                break
            again = given.known and given.first in session.mail.untold
            try:
                messages = self._open(session, given, None if again else ack_to)
            except FrameError as error:  # an older version kept it without a look
                session.mail.take(given)
                self.unreadable.append((given, f"UNREADABLE: {error}"))
                continue
            result += messages
            size += sum(len(each.message.payload) for each in messages)
            self._told(session, connection, given, ack_to)
        connection.messages_out += len(result)
        connection.bytes_out += size
        return result

    def _open(self, session: Session, given: ConsumerDelivery, above: int | None) -> list[Fetched]:
        """Those messages of a slice that are not dealt with, with their ids; `above` None: all of them."""
        entry = given.entry
        again = entry.deliveries > 0 or bool(entry.stored.header.flags & Flag.MAYBE_DUPLICATE)
        again = again or session.mail.was_told(given)
        origin = entry.stored.header.origin
        origin = "" if origin == self._context.name else origin
        return [
            Fetched(given.first + offset, message, again, origin)
            for offset, message in enumerate(slice_of(given, self._custody.body(entry)))
            if (above is None or given.first + offset > above)
            and not entry.done >> (given.position + offset) & 1
        ]

    def _told(self, session: Session, connection: Connection, given: ConsumerDelivery, ack_to: int) -> None:
        """The session learns these ids. The first time, they are kept on disk with the messages."""
        if session.mail.take(given):
            self._custody.changed(given.entry)
        if given.first <= ack_to:
            connection.answered[given.first] = given

    def _pull(self, session: Session) -> None:
        """Let the session have what waits in its queues."""
        session.pulling = True
        try:
            self.offer(session)
        finally:
            session.pulling = False

    def offer(self, session: Session) -> None:
        """Give it what waits, as long as it asks. A queue that has more is among the `ready` again."""
        for _ in range(len(session.ready)):
            if not session.asks:
                return
            queue, _ = session.ready.popitem(last=False)
            self._forwarder.dispatch(queue)

    def wait(self, session: Session, ack_to: int, ready: Callable[[], None]) -> Waiter:
        return session.mail.wait(ack_to, ready)

    def settle_returned(self, session: Session, transfer: int, why: str) -> QueueEntry | None:
        """Deal with a message that this session's queues have, and nobody now. `why`: it is a dead letter.

        Whoever was given it, and came back in a new session, may acknowledge it by the id that it had.
        """
        for queue in session.ready:
            for entry in islice(queue.waiting, _LOOKED_AT):
                offset = transfer - entry.transfer
                if entry.transfer and 0 <= offset < entry.stored.header.count:
                    return self._settle(entry, 1 << offset, why)
        return None

    def _settle(self, entry: QueueEntry, bit: int, why: str) -> QueueEntry | None:
        if (entry.done | entry.given) & bit:
            return None
        queue = entry.queue
        if why:
            if self._dispatcher.bury_part(entry, bit, why):
                queue.waiting.remove(entry)
        elif self._custody.mark_done(entry, bit):
            queue.waiting.remove(entry)
            self._dispatcher.finished(entry)
        return entry


def _due(session: Session, ack_to: int) -> list[ConsumerDelivery]:
    """Slices with something to tell, in order."""
    found = {given.first: given for given in session.mail.untold.values() if given.known}
    for given in session.unacked.above(ack_to):
        if given.consumer.connection is None:
            found[given.first] = given
    return [found[first] for first in sorted(found)]
