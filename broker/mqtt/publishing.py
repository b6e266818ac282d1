"""What an MQTT client publishes: gathered to numbered sends, answered when they are on disk.

Law: a PUBACK or PUBREC goes out after the commit that holds the message. A QoS 2 message that comes again
before its PUBREL is answered again, and not taken again.

Law: a message that could never be taken, however often it comes, is a dead letter, and is answered too.
"""

from collections import deque
from typing import Final, NamedTuple

from broker.core.clients.batching import BundleClass, flags_of
from broker.core.errors import BadRequest, TooLarge
from broker.core.sessions.rights import Rights
from broker.mqtt import packets
from broker.mqtt.packet_ids import ReceivedIds
from broker.mqtt.packets import PacketError, Publish
from broker.mqtt.ports import Speaker
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Foreign, Message, Properties
from sapwood.protocol.destinations import Destination, Kind, queue, topic
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.names import queue_name
from sapwood.protocol.session_frames import Reject, Send
from treeconnector.patterns import topic_from_mqtt

_MAX_UNCONFIRMED: Final = 4 * 1024 * 1024
_LONGEST_NAME: Final = 1024
_LONGEST_REASON: Final = 300
_NEVER: Final = (TooLarge.code, BadRequest.code)
"""Codes of refusals that will be the same whenever the message comes."""
_OF_BROKERS: Final = ("$SYS", "$CONTROL", "$share")
"""First levels of topics that no application publishes to: brokers speak there, or are commanded."""
_ONCE: Final = Properties(foreign=Foreign(qos=2))


class _Sent(NamedTuple):
    """Messages under way to the disk, up to the number `last`; the QoS and packet identifier of each."""

    last: int
    size: int
    answers: list[tuple[int, int]]


class Publishing:
    """One connection's. `received`: identifiers of QoS 2 messages that are here and not released."""

    def __init__(self, client: Speaker) -> None:
        self._client = client
        self._gathered: list[Publish] = []
        self._size = 0
        self._under_way: deque[_Sent] = deque()
        self._last = 0
        self._unconfirmed = 0
        self.received = ReceivedIds()

    def __repr__(self) -> str:
        return f"<Publishing {self._unconfirmed} bytes unconfirmed>"

    @property
    def crowded(self) -> bool:
        """Is so much under way that no more may be read?"""
        return self._unconfirmed > _MAX_UNCONFIRMED

    def take(self, publish: Publish) -> None:
        """A packet came. Raises what `flush` raises, and `Busy`."""
        if publish.qos == 2 and publish.packet_id:
            if publish.packet_id in self.received:
                self.flush()
                self._answer_after_commit([(2, publish.packet_id)])
                return
            self.received.add(publish.packet_id)
        if self._gathered and not self._goes_with(publish):
            self.flush()
        self._gathered.append(publish)
        self._size += len(publish.payload)
        if publish.cut:
            self.flush()

    def _goes_with(self, publish: Publish) -> bool:
        first = self._gathered[0]
        return (
            first.topic == publish.topic
            and first.retain == publish.retain
            and bool(first.qos) == bool(publish.qos)
            and len(self._gathered) < bundles.MAX_MESSAGES
            and self._size + len(publish.payload) <= bundles.MAX_BYTES
        )

    def flush(self) -> None:
        """Send what has gathered: messages of one topic and kind."""
        gathered, self._gathered, self._size = self._gathered, [], 0
        if not gathered:
            return
        first = gathered[0]
        try:
            destination = self._destination(first.topic)
        except SapwoodError as error:
            self._bury(gathered, f"DESTINATION: {error}")
            return
        if first.cut:
            self._bury(gathered, f"{TooLarge.code}: {first.cut}")
            return
        body = b"".join(bundles.encode_message(_message(each)) for each in gathered)
        begin, self._last = self._last + 1, self._last + len(gathered)
        answers = [(each.qos, each.packet_id) for each in gathered if each.packet_id]
        self._under_way.append(_Sent(self._last, len(body), answers))
        self._unconfirmed += len(body)
        retained = first.retain and destination.kind == Kind.TOPIC
        self._gathered = gathered  # a refusal comes while this is asked
        self._client.ask(Send(begin, destination, len(gathered), body, bool(first.qos), retained))
        self._gathered = []

    def check(self, will: str) -> None:
        """Raise `SapwoodError` if nothing could ever be published under this topic of a will."""
        try:
            self._destination(will)
        except SapwoodError as error:
            raise PacketError(f"its will goes nowhere: {error}") from None

    def why_not(self, name: str, rights: Rights) -> str:
        """Why nothing may be published to a topic with these rights, '' if it may."""
        try:
            rights.check_send(self._destination(name))
        except SapwoodError as error:
            return str(error)
        return ""

    def _destination(self, name: str) -> Destination:
        prefix = self._client.queue_prefix
        if name.startswith(prefix) and len(name) > len(prefix):
            return queue(queue_name(name.removeprefix(prefix)))
        if name.startswith("$") and name.split("/", 1)[0] in _OF_BROKERS:
            raise PacketError(f"{name[:80]!r}: no client publishes to topics of brokers")
        return topic(topic_from_mqtt(name))

    # --- answers

    def confirmed(self, through: int) -> None:
        """All up to this number are on disk."""
        done: list[bytes] = []
        while self._under_way and self._under_way[0].last <= through:
            sent = self._under_way.popleft()
            self._unconfirmed -= sent.size
            done += map(_answer, sent.answers)
        self._client.write(b"".join(done))

    def rejected(self, frame: Reject) -> str:
        """Messages were refused. Why the line must end, '' if it need not.

        3.1.1 has no word for 'not now': a message of QoS 0 is gone and counted, and for any other the client
        is to come back and send it again.
        """
        sent = self._under_way[-1]
        refused = self._gathered[frame.first - frame.last - 1 :]
        if sent.answers:
            self._under_way[-1] = sent._replace(answers=sent.answers[: len(sent.answers) - len(refused)])
        if frame.code in _NEVER:
            self._bury(refused, f"{frame.code}: {frame.text}")
            return ""
        if not sent.answers:
            return ""
        for each in refused:
            self.received.discard(each.packet_id)
        return f"a message was refused: {frame.text}"

    def _bury(self, publishes: list[Publish], reason: str) -> None:
        """These can never be taken: dead letters, in the transaction after which they are answered."""
        core = self._client.core
        for each in publishes:
            kind = Kind.QUEUE if each.topic.startswith(self._client.queue_prefix) else Kind.TOPIC
            name = Destination(kind, each.topic[:_LONGEST_NAME])
            bundle = BundleClass(name, flags_of(True, False), 0, self._client.session)
            core.batching.refuse(bundle, _message(each), core.arrivals.refuse, reason[:_LONGEST_REASON])
        self._answer_after_commit([(each.qos, each.packet_id) for each in publishes if each.packet_id])

    def _answer_after_commit(self, answers: list[tuple[int, int]]) -> None:
        said = b"".join(map(_answer, answers))
        self._client.after_commit(lambda: self._client.write(said))


def _message(publish: Publish) -> Message:
    return Message(publish.payload, _ONCE) if publish.qos == 2 else Message(publish.payload)


def _answer(of: tuple[int, int]) -> bytes:
    qos, number = of
    return packets.answer(packets.PUBACK if qos == 1 else packets.PUBREC, number)
