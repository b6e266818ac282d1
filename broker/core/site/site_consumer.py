"""A consumer that hands what it is given to the site's broker, as deliveries."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.queue_names import SITE
from broker.core.messages.unpacked import elapsed
from broker.core.sessions.sessions import (
    Connection,
    ConsumerDelivery,
    PushConsumer,
    Session,
    Unacked,
    slice_of,
)
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Message
from treeconnector.edge import BrokerDelivery


class UnackedByConsumer(Unacked):
    """Finds the slices of one consumer at once: there are as many consumers as queues that the site reads."""

    __slots__ = ("_by",)

    def __init__(self) -> None:
        super().__init__()
        self._by: dict[PushConsumer, dict[int, ConsumerDelivery]] = {}

    def put(self, given: ConsumerDelivery) -> None:
        super().put(given)
        self._by.setdefault(given.consumer, {})[given.first] = given

    def remove(self, given: ConsumerDelivery) -> None:
        super().remove(given)
        left = self._by[given.consumer]
        del left[given.first]
        if not left:
            del self._by[given.consumer]

    def take_out(self, id: int, at: float | None = None) -> Iterator[tuple[ConsumerDelivery, int]]:
        """Its consumer has this one no longer: the slice that it was in and its bit, unless it is settled; or
        was given at another time than `at`.
        """
        for given in self.within(id, id):
            bits = given.bits_of(id, id) & ~given.entry.done
            if bits and at in (None, given.at):
                self.split(given, id, id)
                given.consumer.outstanding -= 1
                yield given, bits

    def of(self, consumer: PushConsumer | None) -> list[ConsumerDelivery]:
        return super().of(None) if consumer is None else list(self._by.get(consumer, {}).values())


class SiteSession:
    """The site's broker as a client of this node's switch: a session with one connection."""

    __slots__ = ("connection", "session", "unacked")

    def __init__(self) -> None:
        self.unacked = UnackedByConsumer()
        self.session = Session(SITE, unacked=self.unacked)
        self.connection = Connection(lambda frame: None, "site broker", "site broker")
        self.connection.session = self.session
        self.session.connections[self.connection] = None

    def __repr__(self) -> str:
        return f"<SiteSession {self.session!r}>"


class SiteConsumer(PushConsumer):
    """Reads a queue, or all topics, for the site broker; `come` is called with what it is given."""

    __slots__ = ("come", "now")
    can_fail = False

    def __init__(
        self,
        session: Session,
        connection: Connection,
        queues: list[Queue],
        come: Callable[[ConsumerDelivery, list[BrokerDelivery]], None],
        now: Callable[[], float],
    ) -> None:
        super().__init__(session, connection, session.next_number(), 0, queues)
        self.come = come
        self.now = now

    def unpacks(self, entry: QueueEntry, count: int) -> bool:
        return True

    def give(self, given: ConsumerDelivery, body: bytes) -> None:
        messages = slice_of(given, body)
        header, entry = given.entry.stored.header, given.entry
        again = entry.deliveries > 0 or bool(header.flags & bundles.Flag.MAYBE_DUPLICATE)
        if header.expires_first:
            age = elapsed(entry.stored, body, self.now())
            messages = [_aged(message, age) for message in messages]
        self.outstanding += given.messages
        self.session.unacked.put(given)
        assert self.connection is not None
        self.connection.messages_out += given.messages
        persistent, retained = header.persistent, bool(header.flags & bundles.Flag.RETAINED)
        key, at, begin = header.destination, given.at, given.position
        deliveries = [
            BrokerDelivery(
                given.first + offset,
                key,
                message,
                persistent,
                retained,
                again,
                name=header.id + bytes((begin + offset,)) if retained else b"",
                at=at,
            )
            for offset, message in enumerate(messages)
        ]
        self.come(given, deliveries)


def _aged(message: Message, age: float) -> Message:
    properties = message.properties
    if properties.expires_in <= 0:
        return message
    left = max(int(properties.expires_in - age), 1)
    return Message(message.payload, msgspec.structs.replace(properties, expires_in=left))


def ranges_of(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Ids as ranges, in order."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(ids):
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
