"""What an MQTT client subscribes to, is given and acknowledges.

Where its session is kept its topic filters are durable subscriptions, and how it reads them is kept with the
session: the node's database is all that there is of it. A queue is read as long as the connection lasts.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from bridges.mqtt import packets
from bridges.mqtt.fields import PacketError
from broker.core.clients.kept_sessions import READS, SHARES, KeptSession
from broker.core.routing.subscriptions import SHARED
from broker.mqtt.aliases import GivenAliases
from broker.mqtt.messages import is_plain, qos_of, written
from broker.mqtt.packet_ids import GivenIds
from broker.mqtt.ports import Speaker
from broker.mqtt.reasons import Reason, of_error
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import Destination, Kind, queue, topic
from sapwood.protocol.errors import FrameError, InvalidName, PatternError
from sapwood.protocol.names import queue_name
from sapwood.protocol.session_frames import (
    Acknowledge,
    ClientFrame,
    Create,
    Deliver,
    EndSubscription,
    RefuseDelivery,
    Subscribe,
    Unsubscribe,
)
from treeconnector.patterns import from_mqtt, has_wildcard, to_mqtt

_log = logging.getLogger("sapwood.mqtt")
_CREDIT: Final = 1000
"""Messages that are with a client: so most bundles are given whole."""
_SHARED_CREDIT: Final = 100
"""As many of a queue or a group's: others that read it have their part."""
_ENVELOPE: Final = 64
"""Bytes of a packet beside its topic and payload at most, without properties of its message."""
_MAX_NAME: Final = 255
_SHARE: Final = "$share/"
_MOST_BEFORE_SUBACK: Final = 1024 * 1024


class _Reading(NamedTuple):
    """A filter that is read. `durable`: its subscription's name, '' = it ends with the connection. `group`:
    who shares it, '' = nobody.

    `options`: as in SUBSCRIBE, with the QoS that is granted; `identifier`: 0 = none.
    """

    number: int
    options: int
    identifier: int
    durable: str
    group: str = ""


class _KeptReading(NamedTuple):
    """How a kept session reads a filter, as it is on disk."""

    spelled: str
    options: int
    identifier: int = 0


class MqttReading:
    """One connection's. `kept`: where its session outlives the connection."""

    def __init__(self, client: Speaker) -> None:
        self._client = client
        self._kept: KeptSession | None = None
        self._aliases = GivenAliases()
        self._filters: dict[str, _Reading] = {}
        self._numbers: dict[int, _Reading] = {}
        self._count = 0
        self._ids = GivenIds()
        self._held = 0
        self._early: list[bytes] | None = None
        self._acks: list[int] = []
        self._refusals: list[RefuseDelivery] = []

    def __repr__(self) -> str:
        return f"<MqttReading {len(self._filters)} filters, {len(self._ids)} messages unacknowledged>"

    # --- subscriptions

    def begin(self, aliases: int) -> None:
        """`aliases`: how many of topics the client takes."""
        self._aliases = GivenAliases(aliases)

    def go_on(self, kept: KeptSession) -> Iterator[None]:
        """Read what was subscribed to before, filter by filter, and release again what was released."""
        self._kept = kept
        self._ids = GivenIds(kept)
        self._window_taken(len(self._ids.released))
        if self._ids.released:  # perhaps just now, over the connection before
            released = (packets.answer(packets.PUBREL, each) for each in sorted(self._ids.released))
            self.write_committed(b"".join(released))
        for name in [name for name in kept.values if name.startswith(READS)]:
            found = self._client.core.topics.durable(self._client.session, name.removeprefix(READS))
            if found is None:  # an operator has ended it
                kept.drop(name)
                continue
            reading = msgspec.msgpack.decode(kept.values[name], type=_KeptReading)
            wanted = _Reading(0, reading.options, reading.identifier, found.name)
            self._read(reading.spelled, topic(found.pattern), wanted, greeted=False)
            yield
        for value in [value for name, value in kept.values.items() if name.startswith(SHARES)]:
            reading = msgspec.msgpack.decode(value, type=_KeptReading)
            self.subscribe(reading.spelled, reading.options, reading.identifier)
            yield

    @staticmethod
    def adopt(kept: KeptSession, older: Mapping[str, str]) -> None:
        """Patterns by names of durable subscriptions that an older version made, which begin with the QoS."""
        for name, pattern in older.items():
            reading = _KeptReading(to_mqtt(pattern), int(name[0]))
            kept.put(READS + name, msgspec.msgpack.encode(reading))

    def subscribe(self, spelled: str, options: int, identifier: int) -> int:
        """The answer of SUBACK to a filter: the QoS that it is given with, or why it is refused."""
        try:
            destination, group = self._destination(spelled)
        except (PatternError, InvalidName, PacketError) as error:
            _log.info("! MQTT client %r may not read %r: %s", self._client.client_id, spelled[:80], error)
            return Reason.WRONG_FILTER
        is_shared = spelled.startswith(_SHARE)
        if is_shared:
            if options & packets.NO_LOCAL:
                raise PacketError("a shared subscription with No Local", Reason.PROTOCOL_ERROR)
            options = options & ~packets.QOS | min(options & packets.QOS, 1)
        lasts = bool(group) or (self._kept is not None and destination.kind == Kind.TOPIC)
        durable = _name(destination.name) if lasts else ""
        wanted = _Reading(0, options, identifier, durable, group)
        known = self._filters.get(spelled)
        if known is not None:
            self._read_otherwise(spelled, wanted._replace(number=known.number))
        elif not self._read(
            spelled,
            destination,
            wanted,
            greeted=not is_shared and options & packets.HANDLING != packets.NEVER_RETAINED,
        ):
            return of_error(self._client.failure)
        return options & packets.QOS

    def _destination(self, spelled: str) -> tuple[Destination, str]:
        """`$share/GROUP/` and the prefix of queues is a queue, which has no groups; every other filter is one
        of topics, with its group.
        """
        if not spelled.startswith(_SHARE):
            return topic(from_mqtt(spelled)), ""
        group, _, rest = spelled.removeprefix(_SHARE).partition("/")
        if not group or has_wildcard(group) or not rest:
            raise PacketError("a shared subscription is $share/GROUP/FILTER, and its group has no wildcard")
        prefix = self._client.names.prefix
        if rest.startswith(prefix):
            if has_wildcard(rest):
                raise PatternError("no pattern reads several queues")
            return queue(queue_name(rest.removeprefix(prefix))), ""
        return topic(from_mqtt(rest)), group

    def _read(self, spelled: str, destination: Destination, wanted: _Reading, *, greeted: bool) -> bool:
        self._end_before(destination, wanted)
        self._count += 1
        reading = wanted._replace(number=self._count)
        self._filters[spelled] = self._numbers[reading.number] = reading
        frames: list[ClientFrame] = []
        if destination.kind == Kind.QUEUE:
            frames.append(Create(self._client.new_request(), destination.name))
        own = not reading.options & packets.NO_LOCAL
        request = self._client.new_request()
        name, group = reading.durable, reading.group
        credit = _SHARED_CREDIT if group or destination.kind == Kind.QUEUE else _CREDIT
        frames.append(Subscribe(request, reading.number, destination, credit, name, own, greeted, group))
        if self._client.ask(*frames):
            self._keep(spelled, reading)
            return True
        del self._filters[spelled], self._numbers[reading.number]
        return False

    def _end_before(self, destination: Destination, wanted: _Reading) -> None:
        """A subscription from before a restart that a clean session had: this one has no part in it."""
        core, session = self._client.core, self._client.session
        if destination.kind == Kind.TOPIC and not wanted.durable:
            before = core.topics.find(session, "", destination.name)
            if before is not None and not before.attached:
                core.switch.interest.end(before)

    def _read_otherwise(self, spelled: str, reading: _Reading) -> None:
        """Subscribed to again: nothing that waits is lost, and the retained messages may come again."""
        self._filters[spelled] = self._numbers[reading.number] = reading
        self._keep(spelled, reading)
        if spelled.startswith(_SHARE):
            return
        topics, session = self._client.core.topics, self._client.session
        found = topics.find(session, reading.durable, spelled)
        if found is not None:
            found.deaf = bool(reading.options & packets.NO_LOCAL)
            if not reading.options & packets.HANDLING:
                self._client.core.switch.producers.seal()
                topics.greet(found)

    def _keep(self, spelled: str, reading: _Reading) -> None:
        if self._kept is not None and reading.durable:
            value = msgspec.msgpack.encode(_KeptReading(spelled, reading.options, reading.identifier))
            self._kept.put(self._kept_as(reading), value)

    def _kept_as(self, reading: _Reading) -> str:
        """The name of the value that is kept of it."""
        if not reading.group:
            return READS + reading.durable
        rights = self._client.connection.rights
        return f"{SHARES}{rights.space if rights else ''}{SHARED}{reading.group}\n{reading.durable}"

    def unsubscribe(self, spelled: str) -> int:
        """End it, also if it is durable: the answer of UNSUBACK."""
        reading = self._filters.pop(spelled, None)
        if reading is None:
            return Reason.NO_SUBSCRIPTION
        del self._numbers[reading.number]
        if reading.durable and self._kept is not None:
            self._kept.drop(self._kept_as(reading))
        self._client.ask(Unsubscribe(self._client.new_request(), reading.number))
        if reading.durable and not reading.group:
            self._client.ask(EndSubscription(self._client.new_request(), reading.durable))
        return Reason.SUCCESS

    # --- messages

    def deliver(self, frame: Deliver) -> None:
        """Write the PUBLISH packets of a delivery; none if it cannot be read. Raises `SapwoodError` if it
        cannot be numbered.
        """
        reading = self._numbers.get(frame.subscription)
        if reading is None:
            return
        header = Header(
            id=frame.bundle,
            destination=frame.destination,
            flags=frame.flags,
            count=frame.count,
            size=frame.size,
        )
        try:
            messages = bundles.unpack(header, frame.body)
        except FrameError as error:  # an older version kept it without a look
            self._refuse(frame, error)
            return
        said, on_disk = self._packets(frame, reading, messages)
        if self._early is not None:
            self._early.append(said)
            if sum(map(len, self._early)) > _MOST_BEFORE_SUBACK:
                self.write_committed(self._held_back())
        elif on_disk and not self._held:
            self._client.write(said)
        else:
            self.write_committed(said)

    def _packets(self, frame: Deliver, reading: _Reading, messages: list[Message]) -> tuple[bytes, bool]:
        """The PUBLISH packets, and whether they may be written now: all that they say is on disk."""
        skip, most_packet = bundles.mask_bits(frame.skip), self._client.most_packet
        most = reading.options & packets.QOS if frame.flags & Flag.PERSISTENT else 0
        name = self._client.names.topic(frame.destination).encode()
        if most == 1 and not skip and (row := self._row(frame, reading, messages, name)):
            return row, True
        parts, on_disk = [], True
        for index, message in enumerate(messages):
            if skip >> index & 1:
                continue
            transfer, qos = frame.first + index, most and min(most, qos_of(message))
            number = self._ids.known(transfer)
            if number and qos < 2:
                self._abandon(number)
                number = 0
            if is_new := bool(qos) and not number:
                number = self._ids.next(transfer, qos)
            packet = self._packet(frame, reading, message, name, qos, number, again=not is_new)
            if len(packet) > most_packet:
                self._too_large(transfer, number, len(packet))
                continue
            if qos == 2 and self._kept is not None:
                on_disk = False  # nor is it, perhaps, that it was given over an earlier connection
            if not qos:
                self._acks.append(transfer)  # it is dealt with as soon as it is written
            parts.append(packet)
        return b"".join(parts), on_disk

    def _row(self, frame: Deliver, reading: _Reading, messages: list[Message], name: bytes) -> bytes:
        """All of a delivery, where its packets differ in their payloads only; b'' where they do not."""
        client, said = self._client, b""
        payloads = [each.payload for each in messages if is_plain(each, client.is_5)]
        longest = len(name) + max(map(len, payloads), default=0) + _ENVELOPE
        if len(payloads) < len(messages) or longest > client.most_packet:
            return b""
        if not self._ids.begins_anew or self._aliases.is_new(name):
            return b""
        if client.is_5:
            name, alias = self._aliases.of(name)
            said = written(messages[0], client.names, frame.elapsed, reading.identifier, alias)
        numbers = self._ids.next_row(frame.first, len(payloads))
        retain, again = self._is_retained(frame, reading), _is_again(frame)
        return packets.publish_row(name, payloads, numbers, retain=retain, again=again, said=said)

    def hold_back(self) -> None:
        """Give nothing before the SUBACK that comes: a client may take the answer for what comes first."""
        self._early = []

    def _held_back(self) -> bytes:
        early, self._early = self._early or [], None
        return b"".join(early)

    def answer_subscribe(self, suback: bytes) -> None:
        """Once the subscriptions are on disk; what they gave meanwhile comes behind it."""
        self.write_committed(suback + self._held_back())

    def write_committed(self, said: bytes) -> None:
        """Write this once it is on disk, and before all that is given from now on."""
        self._held += 1

        def write() -> None:
            self._held -= 1
            self._client.write(said)

        self._client.after_commit(write)

    def _packet(
        self,
        frame: Deliver,
        reading: _Reading,
        message: Message,
        name: bytes,
        qos: int,
        number: int,
        *,
        again: bool,
    ) -> bytes:
        """The PUBLISH of a message under topic `name`. `again`: it was given over an earlier connection."""
        client, elapsed = self._client, frame.elapsed
        retain, dup = self._is_retained(frame, reading), bool(qos) and (again or _is_again(frame))

        def as_(topic: bytes, alias: int) -> bytes:
            said = written(message, client.names, elapsed, reading.identifier, alias) if client.is_5 else b""
            return packets.publish(topic, message.payload, qos, number, retain=retain, again=dup, said=said)

        return self._aliases.packet(name, as_, client.most_packet) if client.is_5 else as_(name, 0)

    @staticmethod
    def _is_retained(frame: Deliver, reading: _Reading) -> bool:
        as_published = reading.options & packets.AS_PUBLISHED and frame.flags & Flag.RETAINED
        return bool(frame.flags & Flag.KEPT or as_published)

    def _too_large(self, transfer: int, number: int, size: int) -> None:
        """Its client takes no such packet: a dead letter, and it goes on."""
        self._ids.dealt_with(number)
        why = f"TOO_LARGE: a packet of {size} bytes, of which this client takes {self._client.most_packet}"
        self._refusals.append(RefuseDelivery(transfer, transfer, why))

    def _refuse(self, frame: Deliver, error: FrameError) -> None:
        """Nobody can read it: the switch makes it a dead letter, and the connection goes on."""
        client, where = self._client.client_id, frame.destination
        _log.warning("! MQTT client %r is not given %s messages of %s: %s", client, frame.count, where, error)
        last = frame.first + frame.count - 1
        self._refusals.append(RefuseDelivery(frame.first, last, f"UNREADABLE: {error}"))

    # --- answers

    def acknowledged(self, numbers: tuple[int, ...]) -> None:
        """PUBACK. One that nobody waits for is no error: the line may have broken in between."""
        self._acks += filter(None, map(self._ids.dealt_with, numbers))

    def received(self, number: int, reason: int) -> None:
        """PUBREC: the client has it, and is told so once that is on disk; or it will not have it."""
        if reason >= Reason.UNSPECIFIED:
            self.acknowledged((number,))
            return
        transfer = self._ids.release(number)
        if transfer:
            self._window_taken(1)
            self._acks.append(transfer)
            self.flush()
        known = transfer or number in self._ids.released or not self._client.is_5
        said = packets.answer(packets.PUBREL, number, 0 if known else Reason.UNKNOWN_IDENTIFIER)
        self._client.after_commit(lambda: self._client.write(said))

    def _abandon(self, number: int) -> None:
        """Its message is given with a lower QoS now: the client is told to forget the identifier."""
        self._ids.release(number)
        self._window_taken(1)
        self.write_committed(packets.answer(packets.PUBREL, number))

    def completed(self, number: int) -> None:
        """PUBCOMP."""
        if number in self._ids.released:
            self._ids.complete(number)
            self._window_taken(-1)

    def _window_taken(self, count: int) -> None:
        """A released message counts until it is completed."""
        window = self._client.connection.window
        if window is not None:
            was_full, window.taken = window.room <= 0, window.taken + count
            if was_full and window.room > 0:
                self._client.core.switch.go_on(self._client.connection)

    def flush(self) -> None:
        """Tell the switch what is dealt with."""
        acks, self._acks = self._acks, []
        window = self._client.connection.window
        was_full = window is not None and window.room <= 0
        if acks:
            self._client.ask(Acknowledge(list(_runs(acks))))
        refusals, self._refusals = self._refusals, []
        if refusals:
            self._client.ask(*refusals)
        if was_full and window is not None and window.room > 0:
            self._client.core.switch.go_on(self._client.connection)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run, which is dealt with in one step: what follows is given together."""
    numbers = sorted(set(numbers))
    if numbers and numbers[-1] - numbers[0] + 1 == len(numbers):
        yield numbers[0], numbers[-1]
        return
    begin = 0
    for at, number in enumerate(numbers):
        if at + 1 == len(numbers) or numbers[at + 1] > number + 1:
            yield numbers[begin], number
            begin = at + 1


def _is_again(frame: Deliver) -> bool:
    """May a message of it have been given before?"""
    return frame.redelivered or bool(frame.flags & Flag.MAYBE_DUPLICATE)


def _name(spelled: str) -> str:
    """The name of a durable subscription."""
    if len(spelled) <= _MAX_NAME and spelled.isprintable():
        return spelled
    return hashlib.sha256(spelled.encode()).hexdigest()
