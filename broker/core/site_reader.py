"""A reader that hands what it is given to the site's broker, as deliveries."""

from collections.abc import Callable

import msgspec

from broker.core.copies import Copy
from broker.core.custody import Place
from broker.core.readers import Given, Reader, slice_of
from broker.core.sessions import Connection, Session
from treeconnector import bundles
from treeconnector.bundles import Message
from treeconnector.edge import Delivery


class SiteReader(Reader):
    """Reads a queue, or all topics, for the site broker; `come` is called with what it is given."""

    __slots__ = ("come", "now")
    can_fail = False

    def __init__(
        self,
        session: Session,
        connection: Connection,
        places: list[Place],
        come: Callable[[Given, list[Delivery]], None],
        now: Callable[[], float],
    ) -> None:
        super().__init__(session, connection, 0, 0, places)
        self.come = come
        self.now = now

    def give(self, given: Given, body: bytes) -> None:
        messages = slice_of(given, body)
        header, copy = given.copy.stored.header, given.copy
        again = copy.deliveries > 0 or bool(header.flags & bundles.Flag.MAYBE_DUPLICATE)
        if header.expires_first:
            elapsed = self._elapsed(copy)
            messages = [_aged(message, elapsed) for message in messages]
        self.outstanding += given.messages
        self.session.desk.put(given)
        assert self.connection is not None
        self.connection.messages_out += given.messages
        persistent, retained = header.persistent, bool(header.flags & bundles.Flag.RETAINED)
        self.come(
            given,
            [
                Delivery(given.first + offset, header.destination, message, persistent, retained, again)
                for offset, message in enumerate(messages)
            ],
        )

    def _elapsed(self, copy: Copy) -> float:
        """Milliseconds since the messages of a bundle entered the tree."""
        stored = copy.stored
        times = (message.properties.expires_in for message in stored.messages or ())
        before = min((time for time in times if time > 0), default=0) - stored.header.expires_first
        return before + (self.now() - stored.since) * 1000


def _aged(message: Message, elapsed: float) -> Message:
    properties = message.properties
    if properties.expires_in <= 0:
        return message
    left = max(int(properties.expires_in - elapsed), 1)
    return Message(message.payload, msgspec.structs.replace(properties, expires_in=left))
