"""Producers: messages enter this node from its clients, and are confirmed.

A producer numbers its sends; what was taken before is confirmed again and not stored again. Only here, where
messages enter, is anything refused for want of room.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from broker.core.clients.batching import Batching, BundleClass, batch_of, flags_of
from broker.core.context import Context
from broker.core.errors import BadRequest, NoSuchQueue, QueueFull, SwitchError, TooLarge
from broker.core.messages.queue_names import SITE, queue_name_of
from broker.core.routing.admission import MessageAdmission
from broker.core.rows import ProducerRow, RejectedRow
from broker.core.sessions.producer_streams import ProducerStream, Rejections
from broker.core.sessions.sessions import Connection, Session
from sapwood.protocol import bundles, destinations
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination, Kind, cell
from sapwood.protocol.errors import FrameError, PatternError, SapwoodError, TooMuchInside
from sapwood.protocol.names import LOCAL, node_name, queue_name
from sapwood.protocol.session_frames import MAX_PACKET, Confirm, Reject, Send, Welcome
from treeconnector.patterns import check_topic
from treeconnector.positions import MAX_NUMBER


class Producers:
    """The way in for messages. `streams`: by name; those that have sent last are the last."""

    __slots__ = ("_admission", "_context", "_entry", "_node", "_store", "streams")

    def __init__(self, context: Context, entry: Batching, admission: MessageAdmission) -> None:
        self._node = context.name
        self._context = context
        self._store = blake2b(context.identity.store_id, digest_size=8).digest()
        self._entry = entry
        self.streams: dict[str, ProducerStream] = {}
        self._admission = admission

    def __repr__(self) -> str:
        return f"<Producers at {self._node} streams={len(self.streams)}>"

    def stream(self, session: str, producer: str) -> ProducerStream:
        """The numbered stream of a session's producer; '' = one that ends with its connection."""
        name = f"{session}/{producer}" if producer else ""
        found = self.streams.get(name) if name else None
        if found is None:
            found = self._made(name, 0, self._context.clock.now)
        return found

    def _made(self, name: str, committed: int, seen: float) -> ProducerStream:
        if not name:
            return ProducerStream(name, committed, seen)
        custody = self._context.custody
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
        """The producer has not sent for long, or does not come back."""
        if stream.rejections is not None:
            stream.rejections.forget()
        self.streams.pop(stream.name, None)
        self._context.custody.transaction.delete(ProducerRow, stream.name)

    def leave(self, connection: Connection) -> None:
        """Nobody goes on with the numbers of its producer."""
        if connection.stream is not None and connection.stream.name:
            self.forget(connection.stream)

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
            rejected = stream.rejections.told() if stream.rejections is not None else []
            connection.told = rejected[-1].last if rejected else 0
            name = session.token.removeprefix(session.rights.space)
            connection.send(
                Welcome(
                    self._node,
                    name,
                    stream.committed,
                    MAX_PACKET,
                    rejected,
                    refuses=True,
                    returns=True,
                    store=self._store,
                    deletes=True,
                    plain=True,
                    forgets=True,
                )
            )

        if stream.taken > stream.committed:
            self._context.next_commit.then(answer)
        else:
            answer()

    def one(
        self, session: Session, name: str, message: Message, *, retained: bool = False, tell: bool = False
    ) -> None:
        """One message to a queue or, as `topic:…`, to a topic. Raises `SwitchError`, or `InvalidName`.

        `tell`: (queues) where nobody serves it that is said, by `NoSuchQueue` or at the reply queue.
        """
        destination = self._named(name)
        body = bundles.encode_message(message)
        try:
            _check_properties(message, body)
            self._admission.check_rights(session.rights, destination, [message], self._named)
            self._check(destination, session.token, [message], 1, len(body), self._scope(destination, -1))
            tell = tell and self._is_doubtful(destination, message)
        except SwitchError as error:
            self._context.custody.trace.refused(session.token, destination, 1, error.code)
            raise
        scope = self._scope(destination, -1)
        kind = BundleClass(destination, flags_of(True, retained, tell), scope, session.token)
        self._entry.add(kind, batch_of([message], body))
        self._admission.stored(len(body))

    def seal(self) -> None:
        """Messages sent so far enter now: who subscribes after them is given none of them as a new one."""
        self._entry.seal()

    def _is_doubtful(self, destination: Destination, message: Message) -> bool:
        """May a queue not exist, as far as is known here? One that was made here does, read or not.

        Raises `NoSuchQueue` where that is certain, and `BadRequest` where no answer could come.
        """
        queue = self._context.custody.queues.get(queue_name_of(destination))
        if destination.kind != Kind.QUEUE or (queue is not None and queue.created):
            return False
        if not message.properties.reply_to:
            raise BadRequest("to be told of a queue that does not exist, name a reply queue for the answer")
        if any(policy.is_nobodys(destination) for policy in self._context.policies.is_nobodys):
            raise NoSuchQueue(f"QUEUE_DOES_NOT_EXIST: nobody in the whole tree serves {destination}")
        return True

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
        settings = self._context.settings
        try:
            check_topic(name, settings.max_filter_length, settings.max_levels)
            if len(name) > bundles.MAX_NAME or (not name.isascii() and len(name.encode()) > bundles.MAX_NAME):
                raise PatternError(f"a topic of more than {bundles.MAX_NAME} bytes: no node would read it")
            return Destination(Kind.TOPIC, name)
        except PatternError as error:
            raise BadRequest(str(error)) from None

    def _scope(self, destination: Destination, scope: int) -> int:
        return scope if scope in (0, 1) else int(self._context.settings.policy(destination).scope)

    def _check(
        self,
        destination: Destination,
        sender: str,
        messages: Sequence[Message],
        count: int,
        size: int,
        scope: int,
    ) -> int:
        """How many of `count` messages may enter. Raises `SwitchError`, as `QueueFull`, if none may."""
        self._admission.check_answers(destination, messages, scope)
        gathered = self._entry.gathered(destination, sender)
        return self._admission.fits(destination, sender, count, size, scope, gathered)

    def for_absent(self, token: str, destination: Destination, will: Message, flags: int) -> None:
        """A message of a client that has gone, which was allowed to send it. Raises `SwitchError`."""
        destination, body = self._checked(destination), bundles.encode_message(will)
        scope = self._scope(destination, -1)
        self._check(destination, token, [will], 1, len(body), scope)
        self._entry.add(BundleClass(destination, flags, scope, token), batch_of([will], body))
        self._admission.stored(len(body))

    def check_site(
        self, destination: Destination, messages: Sequence[Message], bodies: Sequence[bytes], scope: int
    ) -> int:
        """How many messages of the site broker may enter. It has many senders, so no quota. `bodies`: each of
        them, encoded. Caller's duty: all of them want their answers at one place, if any.

        Raises `QueueFull` if none may now, another `SapwoodError` if none ever may.
        """
        for message, body in zip(messages, bodies, strict=True):
            _check_properties(message, body)
        size = sum(map(len, bodies))
        fits = self._check(self._checked(destination), SITE, messages, len(messages), size, scope)
        self._admission.stored(sum(map(len, bodies[:fits])))
        return fits

    def has_room_for_site(self, destination: Destination, scope: int) -> bool:
        """Would a small message of the site broker enter now, or be refused for ever? Nothing is counted."""
        try:
            gathered = self._entry.gathered(destination, SITE)
            return self._admission.room(self._checked(destination), SITE, 1, 0, scope, gathered) > 0
        except QueueFull:
            return False
        except SapwoodError:
            return True

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
            stream.rejections.heard(connection.told, frame.first)
        known = max(stream.taken - frame.first + 1, 0)
        if known < frame.count:
            try:
                self._take(session, stream, frame, known)
            except FrameError:
                raise
            except SapwoodError as error:
                code = getattr(error, "code", BadRequest.code)
                self._context.custody.trace.refused(session.token, frame.destination, frame.count, code)
                reject = Reject(max(frame.first, stream.taken + 1), last, code, str(error))
                connection.send(reject)
                stream.taken = last
                self._record(stream)
                if stream.rejections is not None:
                    stream.rejections.add(reject)
        confirms = self._context.next_commit.batch.confirms
        confirms[connection] = max(last, confirms.get(connection, 0))

    def _take(self, session: Session, stream: ProducerStream, frame: Send, known: int) -> None:
        try:
            messages = bundles.decode_messages(frame.body, frame.count)
        except TooMuchInside as error:
            raise TooLarge(str(error)) from None
        except FrameError as error:
            raise BadRequest(str(error)) from None
        destination, body, count = self._checked(frame.destination), frame.body, frame.count - known
        self._admission.check_rights(session.rights, destination, messages, self._named)
        scope = self._scope(destination, frame.scope)
        fits = self._check(destination, session.token, messages, count, len(body), scope)
        if known or fits < count:
            messages = messages[known : known + fits]
            body = bundles.encode_messages(messages)
        kind = BundleClass(
            destination,
            flags_of(frame.persistent, frame.retained, frame.tell and destination.kind == Kind.QUEUE),
            scope,
            session.token,
        )
        self._entry.add(kind, batch_of(messages, body))
        self._admission.stored(len(body))
        stream.taken = frame.first + known + fits - 1
        self._record(stream)
        if fits < count:
            raise self._admission.no_room(destination)

    def _record(self, stream: ProducerStream) -> None:
        if stream.name:
            self.streams.pop(stream.name, None)
            self.streams[stream.name] = stream
            stream.seen = self._context.clock.now
            self._context.custody.transaction.put(
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
