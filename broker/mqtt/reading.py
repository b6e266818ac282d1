"""What an MQTT client subscribes to, is given and acknowledges.

Without a clean session its topic filters are durable subscriptions, whose names are the QoS and the filter:
the node's database is all that is kept of it. A queue is read as long as the connection lasts.
"""

import hashlib
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.core.messages.queue import Queue
from broker.core.sessions.sessions import Connection
from broker.mqtt import packets
from broker.mqtt.packets import PacketError
from broker.mqtt.ports import Speaker
from treeconnector import bundles
from treeconnector.bundles import Flag, Header
from treeconnector.destinations import Destination, Kind, queue, topic
from treeconnector.errors import FrameError, InvalidName, PatternError, SapwoodError
from treeconnector.names import queue_name
from treeconnector.patterns import from_mqtt, to_mqtt
from treeconnector.session_frames import (
    Acknowledge,
    ClientFrame,
    Create,
    Deliver,
    EndSubscription,
    RefuseDelivery,
    Subscribe,
    Unsubscribe,
)

_log = logging.getLogger("sapwood.mqtt")
_CREDIT: Final = 100
_MAX_NAME: Final = 255
_MOST_IDS: Final = 65_535


class _Reading(NamedTuple):
    """A filter. `durable`: its subscription's name, '' = it ends with the connection."""

    number: int
    qos: int
    durable: str


class MqttReading:
    """One connection's."""

    def __init__(self, client: Speaker) -> None:
        self._client = client
        self._filters: dict[str, _Reading] = {}
        self._numbers: dict[int, _Reading] = {}
        self._count = 0
        self._given: dict[int, int] = {}
        self._next_id = 0
        self._acks: list[int] = []
        self._refusals: list[RefuseDelivery] = []

    def __repr__(self) -> str:
        return f"<MqttReading {len(self._filters)} filters, {len(self._given)} messages unacknowledged>"

    # --- subscriptions

    def go_on(self, kept: Mapping[str, str]) -> None:
        """Read what was subscribed to before: patterns by the names of their durable subscriptions."""
        for name, pattern in kept.items():
            self._read(to_mqtt(pattern), topic(pattern), int(name[0]), name)

    def forget(self, kept: Mapping[str, str]) -> None:
        """A clean session: nothing of the one before remains."""
        for name in kept:
            self._client.ask(EndSubscription(self._client.new_request(), name))

    def subscribe(self, spelled: str, qos: int, *, clean: bool) -> int:
        """What SUBACK says of a filter: the QoS that it is given with, or that it is refused."""
        try:
            destination = self._destination(spelled)
        except (PatternError, InvalidName, PacketError) as error:
            _log.info("! MQTT client %r may not read %r: %s", self._client.client_id, spelled[:80], error)
            return packets.REFUSED
        qos = min(qos, 1)
        durable = "" if clean or destination.kind == Kind.QUEUE else _name(qos, spelled)
        known = self._filters.get(spelled)
        if known is not None and (known.qos, known.durable) == (qos, durable):
            return qos
        self.unsubscribe(spelled)
        return qos if self._read(spelled, destination, qos, durable) else packets.REFUSED

    def _destination(self, spelled: str) -> Destination:
        """`$share/GROUP/` and the prefix of queues is a queue; every other filter is one of topics."""
        if not spelled.startswith("$share/"):
            return topic(from_mqtt(spelled))
        prefix = self._client.queue_prefix
        rest = spelled.split("/", 2)[-1]
        if not rest.startswith(prefix):
            raise PacketError(f"a shared subscription reads a queue: $share/GROUP/{prefix}NAME")
        return queue(queue_name(rest.removeprefix(prefix)))

    def _read(self, spelled: str, destination: Destination, qos: int, durable: str) -> bool:
        self._count += 1
        reading = self._filters[spelled] = self._numbers[self._count] = _Reading(self._count, qos, durable)
        frames: list[ClientFrame] = []
        if destination.kind == Kind.QUEUE:
            frames.append(Create(self._client.new_request(), destination.name))
        request = self._client.new_request()
        frames.append(Subscribe(request, reading.number, destination, _CREDIT, durable))
        if self._client.ask(*frames):
            return True
        del self._filters[spelled], self._numbers[reading.number]
        return False

    def unsubscribe(self, spelled: str) -> None:
        """End it, also if it is durable. No error if it is not there."""
        reading = self._filters.pop(spelled, None)
        if reading is None:
            return
        del self._numbers[reading.number]
        self._client.ask(Unsubscribe(self._client.new_request(), reading.number))
        if reading.durable:
            self._client.ask(EndSubscription(self._client.new_request(), reading.durable))

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

    def deliver(self, frame: Deliver) -> bytes:
        """The PUBLISH packets of a delivery; none if it cannot be read. Raises `SapwoodError` if it cannot be
        numbered.
        """
        reading = self._numbers.get(frame.subscription)
        if reading is None:
            return b""
        header = Header(
            id=frame.bundle,
            destination=frame.destination,
            flags=frame.flags,
            count=frame.count,
            size=frame.size,
        )
        spelled = self._spelled(frame.destination).encode()
        qos = reading.qos if frame.flags & Flag.PERSISTENT else 0
        again = bool(qos) and (frame.redelivered or bool(frame.flags & Flag.MAYBE_DUPLICATE))
        retain = bool(frame.flags & Flag.RETAINED)
        skip = bundles.mask_bits(frame.skip)
        try:
            messages = bundles.unpack(header, frame.body)
        except FrameError as error:  # an older version kept it without a look
            self._refuse(frame, error)
            return b""
        parts = []
        for index, message in enumerate(messages):
            if not skip >> index & 1:
                number = self._number(frame.first + index) if qos else self._dealt_with(frame.first + index)
                parts.append(
                    packets.publish(spelled, message.payload, qos, number, retain=retain, again=again)
                )
        return b"".join(parts)

    def _refuse(self, frame: Deliver, error: FrameError) -> None:
        """Nobody can read it: the switch makes it a dead letter, and the connection goes on."""
        client, where = self._client.client_id, frame.destination
        _log.warning("! MQTT client %r is not given %s messages of %s: %s", client, frame.count, where, error)
        last = frame.first + frame.count - 1
        self._refusals.append(RefuseDelivery(frame.first, last, f"UNREADABLE: {error}"))

    def _spelled(self, destination: Destination) -> str:
        prefix = self._client.queue_prefix if destination.kind == Kind.QUEUE else ""
        return prefix + destination.name

    def _number(self, transfer: int) -> int:
        """A packet identifier for a message that is to be acknowledged."""
        if len(self._given) >= _MOST_IDS:
            raise SapwoodError(f"it has {_MOST_IDS} messages unacknowledged")
        while True:
            self._next_id = self._next_id % _MOST_IDS + 1
            if self._next_id not in self._given:
                self._given[self._next_id] = transfer
                return self._next_id

    def _dealt_with(self, transfer: int) -> int:
        """With QoS 0 a message is dealt with as soon as it is written; it has no identifier."""
        self._acks.append(transfer)
        return 0

    def acknowledged(self, number: int) -> None:
        """PUBACK. One that nobody waits for is no error: the line may have broken in between."""
        transfer = self._given.pop(number, None)
        if transfer is not None:
            self._acks.append(transfer)

    def flush(self) -> None:
        """Tell the switch what is dealt with."""
        acks, self._acks = self._acks, []
        if acks:
            self._client.ask(Acknowledge([(each, each) for each in acks]))
        refusals, self._refusals = self._refusals, []
        if refusals:
            self._client.ask(*refusals)


def _name(qos: int, spelled: str) -> str:
    """The name of a durable subscription, which begins with its QoS."""
    name = f"{qos} {spelled}"
    if len(name) <= _MAX_NAME and name.isprintable():
        return name
    return f"{qos} {hashlib.sha256(spelled.encode()).hexdigest()}"
