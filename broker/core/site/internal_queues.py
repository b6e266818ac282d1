"""Queues that the node itself reads, and what it sends of its own: how nodes talk with each other.

Such a queue is no consumer of anybody's: no advisory, no route; messages come by the node's name. What is
sent is not persistent: it costs no disk and leaves nothing behind where a line is down or a window is full;
whoever asks, asks again.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from broker.core.clients.batching import Batching, BundleClass, batch_of
from broker.core.clients.switch import Switch
from broker.core.context import Context
from broker.core.messages.queue_names import SYSTEM
from broker.core.routing.forwarding import Forwarder
from broker.core.sessions.sessions import Connection, PushConsumer, Session
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Header, Message
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError
from sapwood.protocol.session_frames import Acknowledge, Deliver, NodeFrame

_CREDIT: Final = 256
_LARGEST: Final = 5 * 1024 * 1024


class InternalMessage(NamedTuple):
    """A message to the node. `origin`: the node where it entered the tree; `flags`: those of its bundle."""

    queue: str
    origin: str
    flags: int
    message: Message


class InternalQueues:
    """The node as a client of itself. `ready` is called when letters have come; do not fetch them in it."""

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        batching: Batching,
        switch: Switch,
        ready: Callable[[], None],
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._batching = batching
        self._switch = switch
        self._ready = ready
        self._session = Session("")
        self._connection = Connection(self._come, "this node")
        self._connection.session = self._session
        self._session.connections[self._connection] = None
        self._frames: list[Deliver] = []

    def __repr__(self) -> str:
        return f"<InternalQueues {self._context.name} reads {len(self._session.consumers)} queues>"

    def read(self, name: str) -> None:
        """From now on what comes for this node's queue `name` is a letter; what is very large is none."""
        context = self._context
        queues = context.custody.queues_here(name)
        for queue in queues:
            queue.created, queue.owner = True, SYSTEM
        consumer = PushConsumer(self._session, self._connection, self._session.next_number(), _CREDIT, queues)
        self._session.add(consumer)
        queues[0].consumers.append(consumer)
        for queue in queues:
            self._forwarder.dispatch(queue)

    def send(self, destination: Destination, message: Message, flags: int = 0) -> None:
        """Send what may be lost. The caller wakes the node."""
        kind = BundleClass(destination, flags, 0, "")
        self._batching.add(kind, batch_of([message], bundles.encode_message(message)))

    def _come(self, frame: NodeFrame) -> None:
        if isinstance(frame, Deliver):
            self._frames.append(frame if frame.size <= _LARGEST else msgspec.structs.replace(frame, body=b""))
            if len(self._frames) == 1:
                self._ready()

    def letters(self) -> list[InternalMessage]:
        """What has come since the last time; it is dealt with by that."""
        frames, self._frames = self._frames, []
        found: list[InternalMessage] = []
        for frame in frames:
            last = frame.first + frame.count - 1
            self._switch.receive(self._connection, [Acknowledge([(frame.first, last)])])
            found += _letters_of(frame)
        return found


def _letters_of(frame: Deliver) -> list[InternalMessage]:
    """What does not decode is no letter."""
    header = Header(
        id=frame.bundle, destination=frame.destination, flags=frame.flags, count=frame.count, size=frame.size
    )
    try:
        messages = bundles.unpack(header, frame.body)
    except FrameError:
        return []
    return [
        InternalMessage(frame.destination.name, frame.origin, frame.flags, message) for message in messages
    ]
