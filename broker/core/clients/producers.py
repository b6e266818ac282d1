"""Producers: messages enter this node from its clients, and are confirmed.

A producer numbers its sends; what was taken before is confirmed again and not stored again. Only here, where
messages enter, is anything refused for want of room.
"""

import math
from collections import Counter
from functools import lru_cache

from broker.core.clients.batching import Batching, BundleClass, batch_of, flags_of
from broker.core.errors import BadRequest, QueueFull, SwitchError, TooLarge
from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import SITE, is_internal
from broker.core.policy import first_reason
from broker.core.routing.forwarding import Forwarder
from broker.core.rows import ProducerRow, RejectedRow
from broker.core.sessions.producer_streams import ProducerStream, Rejections
from broker.core.sessions.sessions import Connection, Session
from broker.core.settings import Overflow
from treeconnector import bundles, destinations
from treeconnector.bundles import Message
from treeconnector.destinations import Destination, Kind, cell
from treeconnector.errors import FrameError, PatternError, SapwoodError, TooMuchInside
from treeconnector.names import LOCAL, node_name, queue_name
from treeconnector.patterns import check_topic
from treeconnector.positions import MAX_NUMBER
from treeconnector.session_frames import MAX_PACKET, Confirm, Reject, Send, Welcome


class Producers:
    """The way in for messages.

    `streams`: by name; those that have sent last are the last.

    `disk_room`: bytes of disk that messages may still take; what enters is counted off at once, since the
    disk itself shows it only after the commit, and the node measures anew from time to time. `memory_room`:
    bytes of memory that the process may still take before it takes no more, as measured last. `refused`:
    messages that were not taken since the start, by the error's code. `why_not(destination, scope)`: why the
    node has no room for a message, '' if it has.
    """

    def __init__(self, node: str, forwarder: Forwarder, entry: Batching) -> None:
        self._node = node
        self._forwarder = forwarder
        self._entry = entry
        self.streams: dict[str, ProducerStream] = {}
        self.disk_room: float = math.inf
        self.memory_room: float = math.inf
        self.refused: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Producers at {self._node} streams={len(self.streams)}>"

    @property
    def refusing(self) -> str:
        """Why nothing is taken now, '' if it is."""
        if self.disk_room <= 0:
            return f"the disk of node {self._node} is nearly full: make space"
        if self.memory_room <= 0:
            return f"node {self._node} is near the limit of its memory: give it more, or drain its queues"
        return ""

    def stream(self, session: str, producer: str) -> ProducerStream:
        """The numbered stream of a session's producer; '' = one that ends with its connection."""
        name = f"{session}/{producer}" if producer else ""
        found = self.streams.get(name) if name else None
        if found is None:
            found = self._made(name, 0, self._forwarder.clock.now)
        return found

    def _made(self, name: str, committed: int, seen: float) -> ProducerStream:
        if not name:
            return ProducerStream(name, committed, seen)
        custody = self._forwarder.custody
        made = ProducerStream(name, committed, seen, Rejections(name, lambda: custody.transaction))
        self.streams[name] = made
        return made

    def restore(self, row: ProducerRow) -> None:
        self._made(row.producer, row.number, row.seen / 1000)

    def restore_rejected(self, row: RejectedRow) -> None:
        stream = self.streams.get(row.producer)
        if stream is not None and stream.rejections is not None:
            stream.rejections.restore(row)

    def forget(self, stream: ProducerStream) -> None:
        """The producer has not sent for long."""
        if stream.rejections is not None:
            stream.rejections.forget()
        del self.streams[stream.name]
        self._forwarder.custody.transaction.delete(ProducerRow, stream.name)

    def welcome(self, connection: Connection, session: Session, producer: str) -> None:
        """Answer a login: how far the producer's sends are on disk, once all that it has sent are, and which
        of them were rejected. Raises `BadRequest` if this connection has another producer already.
        """
        stream = self.stream(session.token, producer)
        if connection.stream is None:
            connection.stream = stream
        elif connection.stream.name != stream.name:
            raise BadRequest("this connection sends as another producer already: open one for each")

        def answer() -> None:
            rejected = stream.rejections.tell(connection) if stream.rejections is not None else []
            name = session.token.removeprefix(session.rights.space)
            connection.send(Welcome(self._node, name, stream.committed, MAX_PACKET, rejected, True, True))

        if stream.taken > stream.committed:
            self._forwarder.turn.after.append(answer)
        else:
            answer()

    def one(self, session: Session, name: str, message: Message) -> None:
        """One message to a queue or, as `topic:…`, to a topic. Raises `SwitchError`, or `InvalidName`."""
        destination = self._named(name)
        body = bundles.encode_message(message)
        try:
            _check_properties(message, body)
            self._check_rights(session, destination, [message])
            self._check(destination, session.token, 1, len(body), self._scope(destination, -1))
        except SwitchError as error:
            self._forwarder.custody.trace.refused(session.token, destination, 1, error.code)
            raise
        kind = BundleClass(destination, flags_of(True, False), self._scope(destination, -1), session.token)
        self._entry.add(kind, batch_of([message], body))
        self.disk_room -= _ON_DISK * len(body)

    def _check_rights(self, session: Session, destination: Destination, messages: list[Message]) -> None:
        """Raises `SwitchError` for what the session may not send, or may not have an answer to."""
        rights = session.rights
        if not rights.limited:
            return
        try:
            rights.check_send(destination)
            for message in messages:
                rights.check_reply(message.properties.reply_to, self._named)
        except SwitchError as error:
            self.refused[error.code] += len(messages)
            raise

    def _named(self, name: str) -> Destination:
        if name.startswith("topic:"):
            return self._topic(name.removeprefix("topic:"))
        return cell(name.removeprefix("queue:"))

    def _checked(self, destination: Destination) -> Destination:
        """A destination from a client, validated."""
        if destination.kind == Kind.TOPIC:
            return self._topic(destination.name)
        if destination.kind != Kind.QUEUE:
            raise BadRequest(f"{destination}: messages are sent to a queue or a topic")
        return _checked_queue(destination)

    def _topic(self, name: str) -> Destination:
        settings = self._forwarder.settings
        try:
            return Destination(Kind.TOPIC, check_topic(name, settings.max_filter_length, settings.max_levels))
        except PatternError as error:
            raise BadRequest(str(error)) from None

    def _scope(self, destination: Destination, scope: int) -> int:
        return scope if scope in (0, 1) else int(self._forwarder.settings.policy(destination).scope)

    def _check(self, destination: Destination, sender: str, count: int, size: int, scope: int) -> int:
        """How many of `count` messages may enter. Raises `QueueFull` if none may, or `TooLarge`."""
        try:
            fits = self._fitting(destination, sender, count, size, scope)
        except SwitchError as error:
            self.refused[error.code] += count
            raise
        if fits < count:
            self.refused[QueueFull.code] += count - fits
        return fits

    def _fitting(self, destination: Destination, sender: str, count: int, size: int, scope: int) -> int:
        settings = self._forwarder.settings
        if is_internal(destination):
            raise SwitchError(f"REFUSED: {destination} is for nodes: ask a node through its HTTP API")
        if self.refusing:
            raise QueueFull(f"QUEUE_FULL: {self.refusing}")
        if size > max(settings.max_message, bundles.MAX_BYTES):
            raise TooLarge(f"{size} bytes: this node takes messages of at most {settings.max_message}")
        if full := first_reason(self._forwarder.policies.why_not_enter, destination, scope):
            raise QueueFull(f"QUEUE_FULL: {full}")
        if destination.kind != Kind.QUEUE:
            return count
        queue = self._forwarder.custody.queue_for(destination)
        policy = settings.policy(destination)
        gathered = self._entry.gathered(destination, sender)
        room = count
        if sender != SITE:
            room = settings.queue_quota - queue.senders.get(sender, 0) - gathered
        if policy.overflow is Overflow.REFUSE:
            room = min(room, policy.max_messages - queue.messages - gathered)
            room = 0 if queue.size >= policy.max_bytes else room
            if queue.messages > _CROWDED * policy.max_messages and _is_largest(queue, sender):
                room = 0
        if room <= 0:
            raise QueueFull(f"QUEUE_FULL: {destination} has no room for more of this sender's messages")
        return min(count, room)

    def check_site(self, destination: Destination, message: Message, body: bytes, scope: int) -> None:
        """May a message of the site broker enter? It has many senders, so no quota. `body`: it, encoded.

        Raises `QueueFull` if it may not now, another `SapwoodError` if it never may.
        """
        _check_properties(message, body)
        self._check(self._checked(destination), SITE, 1, len(body), scope)
        self.disk_room -= _ON_DISK * len(body)

    def pipelined(self, connection: Connection, session: Session, frame: Send) -> None:
        """Numbered sends. Numbers that were committed before are confirmed without storing.

        Raises `FrameError` for numbers that no client may say; what cannot be taken, or read, is rejected.
        """
        stream = connection.stream
        assert stream is not None
        _check_numbers(frame)
        connection.messages_in += frame.count
        last = frame.first + frame.count - 1
        if stream.rejections:
            stream.rejections.heard(connection, frame.first)
        known = max(stream.taken - frame.first + 1, 0)
        if known < frame.count:
            try:
                self._take(session, stream, frame, known)
            except FrameError:
                raise
            except SapwoodError as error:
                code = getattr(error, "code", BadRequest.code)
                self._forwarder.custody.trace.refused(session.token, frame.destination, frame.count, code)
                reject = Reject(max(frame.first, stream.taken + 1), last, code, str(error))
                connection.send(reject)
                stream.taken = last
                self._record(stream)
                if stream.rejections is not None:
                    stream.rejections.add(reject)
        confirms = self._forwarder.turn.confirms
        confirms[connection] = max(last, confirms.get(connection, 0))

    def _take(self, session: Session, stream: ProducerStream, frame: Send, known: int) -> None:
        try:
            messages = bundles.decode_messages(frame.body, frame.count)
        except TooMuchInside as error:
            raise TooLarge(str(error)) from None
        except FrameError as error:
            raise BadRequest(str(error)) from None
        destination, body, count = self._checked(frame.destination), frame.body, frame.count - known
        self._check_rights(session, destination, messages)
        scope = self._scope(destination, frame.scope)
        fits = self._check(destination, session.token, count, len(body), scope)
        if known or fits < count:
            messages = messages[known : known + fits]
            body = b"".join(map(bundles.encode_message, messages))
        kind = BundleClass(
            destination,
            flags_of(frame.persistent, frame.retained, frame.tell and destination.kind == Kind.QUEUE),
            scope,
            session.token,
        )
        self._entry.add(kind, batch_of(messages, body))
        self.disk_room -= _ON_DISK * len(body)
        stream.taken = frame.first + known + fits - 1
        self._record(stream)
        if fits < count:
            raise QueueFull(f"QUEUE_FULL: {destination} has no room for more of this sender's messages")

    def _record(self, stream: ProducerStream) -> None:
        if stream.name:
            self.streams.pop(stream.name, None)
            self.streams[stream.name] = stream
            stream.seen = self._forwarder.clock.now
            self._forwarder.custody.transaction.put(
                ProducerRow(stream.name, stream.taken, int(stream.seen * 1000))
            )

    def confirm(self, confirms: dict[Connection, int]) -> None:
        """After a commit: tell the producers how far theirs are on disk."""
        for connection, through in confirms.items():
            if connection.stream is not None:
                connection.stream.committed = max(connection.stream.committed, through)
            connection.send(Confirm(through))


@lru_cache(maxsize=4096)
def _checked_queue(destination: Destination) -> Destination:
    """The same object for the same queue: what is kept by destination is found faster."""
    node = node_name(destination.node) if destination.node not in ("", LOCAL) else ""
    return destinations.queue(queue_name(destination.name), node)


def _check_numbers(frame: Send) -> None:
    """Numbers are kept on disk, and a bundle's count is read by every later hop: both have bounds."""
    if not 1 <= frame.count <= bundles.MAX_MESSAGES:
        raise FrameError(f"{frame.count} messages in one Send: expected 1 to {bundles.MAX_MESSAGES}")
    if not 1 <= frame.first <= MAX_NUMBER:
        raise FrameError(f"a Send numbered {frame.first}: expected 1 to 2^62")


def _check_properties(message: Message, encoded: bytes) -> None:
    try:
        bundles.check_properties(message, encoded)
    except TooMuchInside as error:
        raise TooLarge(str(error)) from None


_CROWDED = 0.9
_ON_DISK = 2  # in the write-ahead log, and then in the table


def _is_largest(queue: Queue, sender: str) -> bool:
    """When a queue is nearly full, whoever has most in it is refused first."""
    mine = queue.senders.get(sender, 0)
    return len(queue.senders) > 1 and mine == max(queue.senders.values())
