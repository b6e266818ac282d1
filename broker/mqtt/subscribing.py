"""Work for one client that is done a slice at a time, before anything else that it says: SUBSCRIBE and
UNSUBSCRIBE packets, which are answered once all their filters are done, and the return to a session.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from bridges.mqtt import packets
from bridges.mqtt.fields import PacketError
from bridges.mqtt.properties import NONE
from broker.mqtt.reading import MqttReading
from broker.mqtt.reasons import REFUSED, Reason


class Answered(Protocol):
    """A client, as far as its packets are answered."""

    is_5: bool

    def answer_after_commit(self, answer: bytes) -> None: ...


class Returning:
    """The steps from a client's login to its first packet."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps = steps

    def __repr__(self) -> str:
        return "<Returning>"

    def go_on(self, is_over: Callable[[], bool]) -> bool:
        """Step by step, until the slice is over. Whether all are done. Raises `SapwoodError`."""
        return not any(is_over() for _ in self._steps)

    def answer(self, client: Answered) -> None:
        """Its CONNACK was one of the steps."""


class Subscribing:
    """One of these packets on its way. `codes`: the answers so far, in the order of its filters. Raises
    `PacketError` where its answer has more than the `most` bytes that the client takes.
    """

    def __init__(
        self, reading: MqttReading, packet: packets.Subscribe | packets.Unsubscribe, most: int
    ) -> None:
        size = len(packets.suback(packet.packet_id, bytes(len(packet.filters)), NONE))
        if size > most:
            raise PacketError(f"its answer has {size} bytes, and it takes {most}", Reason.PACKET_TOO_LARGE)
        self._reading = reading
        self.packet = packet
        self.codes: list[int] = []
        self._greeted: set[str] = set()

    def __repr__(self) -> str:
        return f"<Subscribing {len(self.codes)} of {len(self.packet.filters)}>"

    def go_on(self, is_over: Callable[[], bool]) -> bool:
        """Filter by filter, until the slice is over. Whether all are done. Raises `SapwoodError`."""
        packet = self.packet
        while len(self.codes) < len(packet.filters):
            if isinstance(packet, packets.Subscribe):
                code = self._subscribe(*packet.filters[len(self.codes)], packet.identifier)
            else:
                code = self._reading.unsubscribe(packet.filters[len(self.codes)])
            self.codes.append(code)
            if is_over():
                break
        return len(self.codes) == len(packet.filters)

    def answer(self, client: Answered) -> None:
        """Once all are done."""
        packet, codes = self.packet, self.codes
        properties = NONE if client.is_5 else None
        if isinstance(packet, packets.Unsubscribe):
            client.answer_after_commit(packets.unsuback(packet.packet_id, codes, properties))
            return
        if not client.is_5:
            codes = [min(each, REFUSED) for each in codes]
        self._reading.answer_subscribe(packets.suback(packet.packet_id, codes, properties))

    def _subscribe(self, spelled: str, options: int, identifier: int) -> int:
        """A filter that stands there several times is given the retained messages once."""
        if not options & packets.HANDLING:
            if spelled in self._greeted:
                options |= packets.NEVER_RETAINED
            self._greeted.add(spelled)
        return self._reading.subscribe(spelled, options, identifier)
