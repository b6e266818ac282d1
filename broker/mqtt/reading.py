"""What an MQTT client subscribes to, is given and acknowledges.

Where its session is kept its topic filters are durable subscriptions, and how it reads them is kept with the
session: the node's database is all that there is of it. A queue is read as long as the connection lasts.
"""

import hashlib
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from broker.core.clients.kept_sessions import READS, KeptSession
from broker.core.messages.queue import Queue
from broker.core.sessions.sessions import Connection
from broker.mqtt import packets
from broker.mqtt.packet_ids import GivenIds
from broker.mqtt.packets import PacketError
from broker.mqtt.ports import Speaker
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
from treeconnector.patterns import from_mqtt, to_mqtt

_log = logging.getLogger("sapwood.mqtt")
_CREDIT: Final = 100
_MAX_NAME: Final = 255


class _Reading(NamedTuple):
    """A filter that is read. `durable`: its subscription's name, '' = it ends with the connection."""

    number: int
    qos: int
    durable: str


class _KeptReading(NamedTuple):
    """How a kept session reads a filter, as it is on disk."""

    spelled: str
    qos: int


class MqttReading:
    """One connection's. `kept`: where its session outlives the connection."""

    def __init__(self, client: Speaker) -> None:
        self._client = client
        self._kept: KeptSession | None = None
        self._filters: dict[str, _Reading] = {}
        self._numbers: dict[int, _Reading] = {}
        self._count = 0
        self._ids = GivenIds()
        self._held = 0
        self._acks: list[int] = []
        self._refusals: list[RefuseDelivery] = []

    def __repr__(self) -> str:
        return f"<MqttReading {len(self._filters)} filters, {len(self._ids)} messages unacknowledged>"

    # --- subscriptions

    def go_on(self, kept: KeptSession) -> None:
        """Read what was subscribed to before, and release again what was released."""
        self._kept = kept
        self._ids = GivenIds(kept)
        self._client.write(
            b"".join(packets.answer(packets.PUBREL, each) for each in sorted(self._ids.released))
        )
        names = [name for name in kept.values if name.startswith(READS)]
        for name in names:
            found = self._client.core.topics.durable(self._client.session, name.removeprefix(READS))
            if found is None:  # an operator has ended it
                kept.drop(name)
                continue
            reading = msgspec.msgpack.decode(kept.values[name], type=_KeptReading)
            self._read(reading.spelled, topic(found.pattern), reading.qos, found.name, greeted=False)

    @staticmethod
    def adopt(kept: KeptSession, older: Mapping[str, str]) -> None:
        """Patterns by names of durable subscriptions that an older version made, which begin with the QoS."""
        for name, pattern in older.items():
            reading = _KeptReading(to_mqtt(pattern), int(name[0]))
            kept.put(READS + name, msgspec.msgpack.encode(reading))

    def subscribe(self, spelled: str, qos: int) -> int:
        """The answer of SUBACK to a filter: the QoS that it is given with, or that it is refused."""
        try:
            destination = self._destination(spelled)
        except (PatternError, InvalidName, PacketError) as error:
            _log.info("! MQTT client %r may not read %r: %s", self._client.client_id, spelled[:80], error)
            return packets.REFUSED
        if destination.kind == Kind.QUEUE:
            qos = min(qos, 1)
        durable = "" if self._kept is None or destination.kind == Kind.QUEUE else _name(spelled)
        known = self._filters.get(spelled)
        if known is None:
            return qos if self._read(spelled, destination, qos, durable) else packets.REFUSED
        self._read_otherwise(spelled, known, qos)
        return qos

    def _destination(self, spelled: str) -> Destination:
        """`$share/GROUP/` and the prefix of queues is a queue; every other filter is one of topics."""
        if not spelled.startswith("$share/"):
            return topic(from_mqtt(spelled))
        prefix = self._client.queue_prefix
        rest = spelled.split("/", 2)[-1]
        if not rest.startswith(prefix):
            raise PacketError(f"a shared subscription reads a queue: $share/GROUP/{prefix}NAME")
        return queue(queue_name(rest.removeprefix(prefix)))

    def _read(
        self, spelled: str, destination: Destination, qos: int, durable: str, *, greeted: bool = True
    ) -> bool:
        self._count += 1
        reading = _Reading(self._count, qos, durable)
        self._filters[spelled] = self._numbers[reading.number] = reading
        frames: list[ClientFrame] = []
        if destination.kind == Kind.QUEUE:
            frames.append(Create(self._client.new_request(), destination.name))
        request = self._client.new_request()
        frames.append(Subscribe(request, reading.number, destination, _CREDIT, durable, retained=greeted))
        if self._client.ask(*frames):
            self._keep(spelled, reading)
            return True
        del self._filters[spelled], self._numbers[reading.number]
        return False

    def _read_otherwise(self, spelled: str, known: _Reading, qos: int) -> None:
        """Subscribed to again: nothing that waits is lost, and the retained messages come again."""
        reading = known._replace(qos=qos)
        self._filters[spelled] = self._numbers[known.number] = reading
        self._keep(spelled, reading)
        if not spelled.startswith("$share/"):
            topics, session = self._client.core.topics, self._client.session
            found = topics.find(session, known.durable, spelled)
            if found is not None:
                topics.greet(found)

    def _keep(self, spelled: str, reading: _Reading) -> None:
        if self._kept is not None and reading.durable:
            value = msgspec.msgpack.encode(_KeptReading(spelled, reading.qos))
            self._kept.put(READS + reading.durable, value)

    def unsubscribe(self, spelled: str) -> None:
        """End it, also if it is durable. No error if it is not there."""
        reading = self._filters.pop(spelled, None)
        if reading is None:
            return
        del self._numbers[reading.number]
        self._client.ask(Unsubscribe(self._client.new_request(), reading.number))
        if reading.durable:
            self._client.ask(EndSubscription(self._client.new_request(), reading.durable))
            if self._kept is not None:
                self._kept.drop(READS + reading.durable)

    # --- messages

    @staticmethod
    def pause(connection: Connection) -> None:
        """Be given nothing for now."""
        for reader in connection.consumers:
            reader.credit = 0

    @staticmethod
    def resume(connection: Connection) -> list[Queue]:
        """Be given messages again; return from where."""
        readers = connection.consumers
        for reader in readers:
            reader.credit = _CREDIT
        return [place for reader in readers for place in reader.queues]

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
        spelled = self._spelled(frame.destination).encode()
        retain = bool(frame.flags & Flag.KEPT)
        again = frame.redelivered or bool(frame.flags & Flag.MAYBE_DUPLICATE)
        most = reading.qos if frame.flags & Flag.PERSISTENT else 0
        skip = bundles.mask_bits(frame.skip)
        try:
            messages = bundles.unpack(header, frame.body)
        except FrameError as error:  # an older version kept it without a look
            self._refuse(frame, error)
            return
        parts, on_disk = [], True
        for index, message in enumerate(messages):
            if skip >> index & 1:
                continue
            transfer, qos = frame.first + index, min(most, _qos(message))
            number = self._ids.known(transfer) if qos == 2 else 0
            dup = bool(qos) and (again or bool(number))
            if qos and not number:
                number = self._ids.next(transfer, qos)
                on_disk = on_disk and (qos == 1 or self._kept is None)
            if not qos:
                self._acks.append(transfer)  # it is dealt with as soon as it is written
            parts.append(packets.publish(spelled, message.payload, qos, number, retain=retain, again=dup))
        said = b"".join(parts)
        if on_disk and not self._held:
            self._client.write(said)
        else:
            self.write_committed(said)

    def write_committed(self, said: bytes) -> None:
        """Write this once it is on disk, and before all that is given from now on."""
        self._held += 1

        def write() -> None:
            self._held -= 1
            self._client.write(said)

        self._client.after_commit(write)

    def _refuse(self, frame: Deliver, error: FrameError) -> None:
        """Nobody can read it: the switch makes it a dead letter, and the connection goes on."""
        client, where = self._client.client_id, frame.destination
        _log.warning("! MQTT client %r is not given %s messages of %s: %s", client, frame.count, where, error)
        last = frame.first + frame.count - 1
        self._refusals.append(RefuseDelivery(frame.first, last, f"UNREADABLE: {error}"))

    def _spelled(self, destination: Destination) -> str:
        prefix = self._client.queue_prefix if destination.kind == Kind.QUEUE else ""
        return prefix + destination.name

    # --- answers

    def acknowledged(self, number: int) -> None:
        """PUBACK. One that nobody waits for is no error: the line may have broken in between."""
        if transfer := self._ids.dealt_with(number):
            self._acks.append(transfer)

    def received(self, number: int) -> None:
        """PUBREC: the client has it, and is told so once that is on disk."""
        if transfer := self._ids.release(number):
            self._acks.append(transfer)
            self.flush()
        said = packets.answer(packets.PUBREL, number)
        self._client.after_commit(lambda: self._client.write(said))

    def completed(self, number: int) -> None:
        """PUBCOMP."""
        self._ids.complete(number)

    def flush(self) -> None:
        """Tell the switch what is dealt with."""
        acks, self._acks = self._acks, []
        if acks:
            self._client.ask(Acknowledge([(each, each) for each in acks]))
        refusals, self._refusals = self._refusals, []
        if refusals:
            self._client.ask(*refusals)


def _qos(message: Message) -> int:
    """The QoS with which it was published; 1 where its sender has none."""
    foreign = message.properties.foreign
    return foreign.qos if foreign is not None else 1


def _name(spelled: str) -> str:
    """The name of a durable subscription."""
    if len(spelled) <= _MAX_NAME and spelled.isprintable():
        return spelled
    return hashlib.sha256(spelled.encode()).hexdigest()
