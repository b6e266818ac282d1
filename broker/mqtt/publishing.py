"""What an MQTT client publishes: gathered to numbered sends, answered when they are on disk.

Law: a PUBACK or PUBREC goes out after the commit that holds the message. A QoS 2 message that comes again
before its PUBREL is answered again, and not taken again.
"""

from collections import deque
from typing import Final, NamedTuple

from broker.core.sessions.rights import Rights
from broker.mqtt import packets
from broker.mqtt.packet_ids import PacketIds
from broker.mqtt.packets import PacketError, Publish
from broker.mqtt.ports import Speaker
from treeconnector import bundles
from treeconnector.bundles import Message
from treeconnector.destinations import Destination, Kind, queue, topic
from treeconnector.errors import SapwoodError
from treeconnector.names import queue_name
from treeconnector.patterns import topic_from_mqtt
from treeconnector.session_frames import Reject, Send

_MAX_UNCONFIRMED: Final = 4 * 1024 * 1024


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
        self._under_way: deque[_Sent] = deque()
        self._last = 0
        self._unconfirmed = 0
        self.received = PacketIds()

    def __repr__(self) -> str:
        return f"<Publishing {self._unconfirmed} bytes unconfirmed>"

    @property
    def crowded(self) -> bool:
        """Is so much under way that no more may be read?"""
        return self._unconfirmed > _MAX_UNCONFIRMED

    def take(self, publish: Publish) -> None:
        """A packet came. Raises what `flush` raises."""
        if publish.qos == 2:
            if publish.packet_id in self.received:
                self._client.write(packets.answer(packets.PUBREC, publish.packet_id))
                return
            self.received.add(publish.packet_id)
        if self._gathered and not self._goes_with(publish):
            self.flush()
        self._gathered.append(publish)

    def _goes_with(self, publish: Publish) -> bool:
        first = self._gathered[0]
        return (
            first.topic == publish.topic
            and first.retain == publish.retain
            and bool(first.qos) == bool(publish.qos)
            and len(self._gathered) < bundles.MAX_MESSAGES
        )

    def flush(self) -> None:
        """Send what has gathered: messages of one topic and kind. Raises `SapwoodError` for no topic."""
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        first = gathered[0]
        destination = self._destination(first.topic)
        body = b"".join(bundles.encode_message(Message(each.payload)) for each in gathered)
        begin, self._last = self._last + 1, self._last + len(gathered)
        answers = [(each.qos, each.packet_id) for each in gathered if each.packet_id]
        self._under_way.append(_Sent(self._last, len(body), answers))
        self._unconfirmed += len(body)
        retained = first.retain and destination.kind == Kind.TOPIC
        self._client.ask(Send(begin, destination, len(gathered), body, bool(first.qos), retained))

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
        if name.startswith("$"):
            raise PacketError(f"{name[:80]!r}: no client publishes to topics that begin with '$'")
        return topic(topic_from_mqtt(name))

    def confirmed(self, through: int) -> None:
        """All up to this number are on disk."""
        done: list[bytes] = []
        while self._under_way and self._under_way[0].last <= through:
            sent = self._under_way.popleft()
            self._unconfirmed -= sent.size
            for qos, number in sent.answers:
                done.append(packets.answer(packets.PUBACK if qos == 1 else packets.PUBREC, number))
        self._client.write(b"".join(done))

    def rejected(self, frame: Reject) -> str:
        """Why the line must end, '' if it need not. 3.1.1 has no word for 'not taken': a message of QoS 0 is
        gone and counted, and for any other the client is to come back and send it again.
        """
        sent = next((each for each in self._under_way if each.last >= frame.last), None)
        if sent is None or not sent.answers:
            return ""
        self.received.difference_update(number for _, number in sent.answers)
        return f"a message was refused: {frame.text}"
