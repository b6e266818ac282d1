"""One queue that is consumed, and what of it is not acknowledged yet.

Law: messages are acknowledged in the order in which they came on their channel. One acknowledgement covers
all before it, so none is sent after a batch that could not be handed over.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from bridges.amqp.connection import Channel
from bridges.amqp.frames import Incoming
from bridges.site_brokers.rabbitmq.messages import unreadable
from treeconnector.edge import Taken

Read = Callable[[Incoming], Taken | None]


@dataclass(slots=True)
class TapBatch:
    """Messages of one queue that were handed over, up to `last`. `is_kept`: they are in our custody."""

    last: Incoming
    is_kept: bool = False


class Tap:
    """One queue that we consume. `read` makes of a message what goes into the tree, or nothing.

    `is_gone`: it was deleted, and its channel is being closed. `settled`: called with the last message
    that is in our custody.
    """

    __slots__ = ("_batches", "_settled", "channel", "is_gone", "leaving", "queue", "read", "tag")

    def __init__(self, queue: str, channel: Channel, read: Read, settled: Callable[[Incoming], None]) -> None:
        self.queue = queue
        self.channel = channel
        self.read = read
        self.tag = ""
        self.leaving = self.is_gone = False
        self._batches: deque[TapBatch] = deque()
        self._settled = settled

    def __repr__(self) -> str:
        return f"<Tap {self.queue} unanswered={len(self._batches)} leaving={self.leaving}>"

    @property
    def is_idle(self) -> bool:
        return not self._batches

    def taken(self, message: Incoming) -> Taken | None:
        """Whatever an application may have put into a message, it stops none but this one."""
        try:
            return self.read(message)
        except Exception as mistake:
            return unreadable(message, mistake)

    def handed(self, last: Incoming) -> TapBatch:
        """All messages up to this one were handed over; the result is for `settle`."""
        self._batches.append(batch := TapBatch(last))
        return batch

    def settle(self, batch: TapBatch) -> None:
        """A batch is in our custody: acknowledge it, once those before it are."""
        batch.is_kept = True
        last: Incoming | None = None
        while self._batches and self._batches[0].is_kept:
            last = self._batches.popleft().last
        if last is not None and not self.is_gone:
            self._settled(last)
            if self.channel.is_open:
                self.channel.acknowledge(last.tag, multiple=True)
