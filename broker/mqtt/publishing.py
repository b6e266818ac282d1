"""What an MQTT client publishes: gathered to numbered sends, answered when they are on disk.

Law: a PUBACK or PUBREC goes out after the commit that holds the message, in the order of the messages. A
QoS 2 message that comes again before its PUBREL is answered again, and not taken again.

Law: a message that is not taken is answered with the reason in MQTT 5. 3.1.1 has no word for it: one that
could never be taken, however often it comes, is answered too, and a dead letter where its account may send
there; for any other the client is to come back. A message of QoS 0 is gone then, and counted.
"""

from collections import deque
from functools import partial
from typing import Final, NamedTuple

from bridges.mqtt import packets
from bridges.mqtt.fields import PacketError
from bridges.mqtt.packets import Publish, Will
from broker.core.clients.batching import BundleClass, flags_of
from broker.core.errors import BadRequest, Busy, SwitchError, TooLarge
from broker.core.sessions.rights import Rights
from broker.mqtt.aliases import TopicAliases
from broker.mqtt.messages import message_of
from broker.mqtt.packet_ids import ReceivedIds
from broker.mqtt.ports import Speaker
from broker.mqtt.reasons import Reason, of_error
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination, Kind, parse
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.session_frames import Reject, Send

_MAX_UNCONFIRMED: Final = 4 * 1024 * 1024
MOST_RECEIVED: Final = 8192
"""The Receive Maximum of MQTT 5, held for QoS 2. Of QoS 1 no more is read while much is on its way."""
_LONGEST_NAME: Final = 1024
_LONGEST_REASON: Final = 300
_ANSWERED: Final = {1: packets.PUBACK, 2: packets.PUBREC}
"""How a message is answered, by its QoS."""
_BEGINS: Final = {qos: packets.PLAIN_ANSWERS[kind] for qos, kind in _ANSWERED.items()}
_NEVER: Final = (TooLarge.code, BadRequest.code)
"""Codes of refusals that will be the same whenever the message comes."""


class _Sent(NamedTuple):
    """Messages under way to the disk, up to the number `last`; the answers to them, as they are written."""

    last: int
    size: int
    answers: list[bytes]


class Publishing:
    """One connection's. `received`: identifiers of QoS 2 messages that are here and not released.

    `unconfirmed`: bytes under way to the disk.
    """

    def __init__(self, client: Speaker) -> None:
        self._client = client
        self._aliases = TopicAliases()
        self._gathered: list[Publish] = []
        self._size = 0
        self._under_way: deque[_Sent] = deque()
        self._last = 0
        self.unconfirmed = 0
        self.received = ReceivedIds()

    def __repr__(self) -> str:
        return f"<Publishing {self.unconfirmed} bytes unconfirmed>"

    def is_crowded(self, share: int) -> bool:
        """Is so much under way that no more may be read? `share`: bytes that any connection may have."""
        return self.unconfirmed > min(share, _MAX_UNCONFIRMED)

    def take(self, publish: Publish) -> None:
        """A packet came. Raises what `flush` raises, and `PacketError`."""
        if self._client.is_5:
            publish = self._aliases.resolved(publish)
        if publish.qos == 2 and publish.packet_id:
            if publish.packet_id in self.received:
                self.flush()
                self._answer([packets.answer(packets.PUBREC, publish.packet_id)])
                return
            if self._client.is_5 and len(self.received) >= MOST_RECEIVED:
                why = f"more than {MOST_RECEIVED} messages of QoS 2 are not released"
                raise PacketError(why, Reason.TOO_MANY_MESSAGES)
            try:
                self.received.add(publish.packet_id)
            except Busy as error:
                if not self._client.is_5:
                    raise
                self.flush()
                self._answer([self._refusal(publish, Reason.QUOTA_EXCEEDED, str(error))])
                return
        self.take_alike([publish])
        if publish.cut:
            self.flush()

    def take_alike(self, publishes: list[Publish]) -> None:
        """Packets that come in a row, of one topic and kind: QoS 0 or 1, no properties; or any single one."""
        size = sum([len(each.payload) for each in publishes])
        if self._gathered and not self._goes_with(publishes[0], len(publishes), size):
            self.flush()
        self._gathered += publishes
        self._size += size

    def _goes_with(self, publish: Publish, count: int, size: int) -> bool:
        first = self._gathered[0]
        return (
            not publish.cut
            and first.topic == publish.topic
            and first.retain == publish.retain
            and bool(first.qos) == bool(publish.qos)
            and len(self._gathered) + count <= bundles.MAX_MESSAGES
            and self._size + size <= bundles.MAX_BYTES
        )

    def flush(self) -> None:
        """Send what has gathered: messages of one topic and kind."""
        gathered, self._gathered, self._size = self._gathered, [], 0
        if not gathered:
            return
        first = gathered[0]
        try:
            destination = self._client.names.destination(first.topic)
            messages = [message_of(each, self._client.names) for each in gathered]
        except PacketError as error:
            self._never(gathered, error.reason, f"DESTINATION: {error}")
            return
        if first.cut:
            self._never(gathered, of_error(TooLarge.code), f"{TooLarge.code}: {first.cut}")
            return
        body = bundles.encode_messages(messages)
        begin, self._last = self._last + 1, self._last + len(gathered)
        answers = [_BEGINS[each.qos] + each.packet_id.to_bytes(2) for each in gathered if each.packet_id]
        self._under_way.append(_Sent(self._last, len(body), answers))
        self.unconfirmed += len(body)
        retained = first.retain and destination.kind == Kind.TOPIC
        self._gathered = gathered  # a refusal comes while this is asked
        self._client.ask(Send(begin, destination, len(gathered), body, bool(first.qos), retained))
        self._gathered = []

    # --- wills

    def check(self, will: Will) -> None:
        """Raise `PacketError` if nothing could ever be published under this topic of a will."""
        try:
            self._client.names.destination(will.topic)
            message_of(_published(will), self._client.names)
        except PacketError as error:
            raise PacketError(f"its will goes nowhere: {error}", error.reason) from None

    def why_not(self, name: str, rights: Rights) -> str:
        """Why nothing may be published to a topic with these rights, '' if it may."""
        try:
            rights.check_send(self._client.names.destination(name))
        except SapwoodError as error:
            return str(error)
        return ""

    def publish_will(self, will: Will) -> None:
        """Now. Raises `SapwoodError`."""
        self.take(_published(will))
        self.flush()

    def kept_will(self, will: Will) -> tuple[Destination, bytes, int]:
        """Its destination, the encoded message and the flags of its bundle: to be published later."""
        destination = self._client.names.destination(will.topic)
        encoded = bundles.encode_message(message_of(_published(will), self._client.names))
        return destination, encoded, flags_of(bool(will.qos), will.retain and destination.kind == Kind.TOPIC)

    # --- answers

    def confirmed(self, through: int) -> None:
        """All up to this number are on disk."""
        done: list[bytes] = []
        while self._under_way and self._under_way[0].last <= through:
            sent = self._under_way.popleft()
            self.unconfirmed -= sent.size
            done += sent.answers
        self._client.write(b"".join(done))

    def rejected(self, frame: Reject) -> str:
        """Messages were refused. Why the line must end, '' if it need not."""
        sent = self._under_way[-1]
        refused = self._gathered[frame.first - frame.last - 1 :]
        if sent.answers:
            self._under_way[-1] = sent._replace(answers=sent.answers[: len(sent.answers) - len(refused)])
        if self._client.is_5 or frame.code in _NEVER:
            self._never(refused, of_error(frame.code), f"{frame.code}: {frame.text}")
            return ""
        if not sent.answers:
            return ""
        for each in refused:
            self.received.discard(each.packet_id)
        return f"a message was refused: {frame.text}"

    def _never(self, refused: list[Publish], reason: int, why: str) -> None:
        """These are not taken: their client is told so, or they are dead letters."""
        why = why[:_LONGEST_REASON]
        if not self._client.is_5:
            self._bury(refused, why)
            reason, why = 0, ""
        answered = [each for each in refused if each.packet_id]
        for each in answered if reason else ():
            self.received.discard(each.packet_id)
        self._answer([self._refusal(each, reason, why) for each in answered])

    def _refusal(self, publish: Publish, reason: int, why: str) -> bytes:
        """As its client takes it: sections 3.1.2.11.7 and 3.4.2.2.2 of MQTT 5 forbid the text for some."""
        client, kind = self._client, _ANSWERED[publish.qos]
        said = packets.answer(kind, publish.packet_id, reason, why)
        if why and not (client.is_explained and len(said) <= client.most_packet):
            return packets.answer(kind, publish.packet_id, reason)
        return said

    def _bury(self, publishes: list[Publish], reason: str) -> None:
        """Dead letters, in the transaction after which they are answered; of what its account may not send
        nothing is kept, and it is counted.
        """
        core = self._client.core
        for each in publishes:
            message = Message(each.payload)
            if not self._may_send(each.topic, message):
                continue
            kind = Kind.QUEUE if each.topic.startswith(self._client.names.prefix) else Kind.TOPIC
            name = Destination(kind, each.topic[:_LONGEST_NAME])
            bundle = BundleClass(name, flags_of(True, False), 0, self._client.session)
            core.batching.refuse(bundle, message, core.arrivals.refuse, reason)

    def _may_send(self, name: str, message: Message) -> bool:
        client, rights = self._client, self._client.connection.rights
        assert rights is not None, "it is logged in"
        meant = client.names.as_written(name[:_LONGEST_NAME])
        try:
            client.core.message_admission.check_rights(rights, meant, [message], parse)
        except SwitchError:
            return False
        return True

    def _answer(self, answers: list[bytes]) -> None:
        """In their turn: behind the answers to all that came before."""
        self._under_way.append(_Sent(self._last, 0, answers))
        self._client.after_commit(partial(self.confirmed, self._last))


def _published(will: Will) -> Publish:
    return Publish(will.topic, will.payload, will.qos, will.retain, False, 0, properties=will.properties)
