"""SUBSCRIBE and UNSUBSCRIBE packets whose filters are done a slice at a time, and answered once all are."""

from collections.abc import Callable

from bridges.mqtt import packets
from broker.mqtt.reading import MqttReading


class Subscribing:
    """One of these packets on its way. `codes`: the answers so far, in the order of its filters."""

    def __init__(self, reading: MqttReading, packet: packets.Subscribe | packets.Unsubscribe) -> None:
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

    def _subscribe(self, spelled: str, options: int, identifier: int) -> int:
        """A filter that stands there several times is given the retained messages once."""
        if not options & packets.HANDLING:
            if spelled in self._greeted:
                options |= packets.NEVER_RETAINED
            self._greeted.add(spelled)
        return self._reading.subscribe(spelled, options, identifier)
