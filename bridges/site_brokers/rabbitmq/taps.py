"""One queue that is consumed, and what of it is not acknowledged yet.

Law: one acknowledgement covers all before it on a channel, so such a one is sent only where all before it are
in our custody. One that is there before others, which have no room, is acknowledged by itself: RabbitMQ would
give it again with those, each time that it has waited for them too long.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from bridges.amqp.connection import Channel
from bridges.amqp.frames import Incoming
from bridges.site_brokers.rabbitmq.messages import unreadable
from treeconnector.edge import Taken

Read = Callable[[Incoming], Taken | None]


class Tap:
    """One queue that we consume. `read` makes of a message what goes into the tree, or nothing.

    `is_gone`: it was deleted, and its channel is being closed. `settled`: called with the last message
    that is in our custody, as are all before it, under the tag up to which that is so.
    """

    __slots__ = ("_last", "_settled", "_unanswered", "channel", "is_gone", "leaving", "queue", "read", "tag")

    def __init__(self, queue: str, channel: Channel, read: Read, settled: Callable[[Incoming], None]) -> None:
        self.queue = queue
        self.channel = channel
        self.read = read
        self.tag = ""
        self.leaving = self.is_gone = False
        self._unanswered: OrderedDict[int, None] = OrderedDict()
        self._last = 0
        self._settled = settled

    def __repr__(self) -> str:
        return f"<Tap {self.queue} unanswered={len(self._unanswered)} leaving={self.leaving}>"

    @property
    def is_idle(self) -> bool:
        return not self._unanswered

    def taken(self, message: Incoming) -> Taken | None:
        """Whatever an application may have put into a message, it stops none but this one."""
        try:
            return self.read(message)
        except Exception as mistake:
            return unreadable(message, mistake)

    def handed(self, message: Incoming) -> None:
        """It is handed over, as were all before it."""
        self._unanswered[message.tag] = None
        self._last = message.tag

    def settle(self, messages: Sequence[Incoming]) -> None:
        """These are in our custody; in the order in which they came."""
        last, alone = None, []
        for message in messages:
            if message.tag == next(iter(self._unanswered)):
                last = message
            else:
                alone.append(message.tag)
            del self._unanswered[message.tag]
        if last is not None and not self.is_gone:
            self._settled(last._replace(tag=next(iter(self._unanswered), self._last + 1) - 1))
            if self.channel.is_open:
                self.channel.acknowledge(last.tag, multiple=True)
        if self.channel.is_open and not self.is_gone:
            for tag in alone:
                self.channel.acknowledge(tag)
