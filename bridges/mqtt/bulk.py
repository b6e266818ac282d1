"""paho-mqtt, with messages past it.

paho keeps the session: it logs in, subscribes, keeps alive and says goodbye. A message costs it as much CPU
as all the rest of a node. So PUBLISH and its answers are read and written here, as many at once as have come
or gathered, by the codec of the door for applications.

Law: packets leave in the order in which they were said, paho's among them. Nothing that comes is answered
before `answer`, QoS 2 included. Wrinkle: a broker goes on with QoS 2 messages of an earlier connection; only
numbers of this one are heard, since the earlier one's messages are given anew.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from paho.mqtt import MQTTException
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion

from bridges.mqtt import packets, readers
from bridges.mqtt.fields import PacketError
from bridges.mqtt.framing import LEVEL_3_1_1, LEVEL_5
from bridges.mqtt.library import paho

A_TURN: Final = 4 * 1024 * 1024
FAILURE: Final = 0x80
MOST_UNANSWERED: Final = 60_000
"""Messages: packets have 65,535 numbers, and subscriptions need some too."""
LARGEST: Final = 268_435_455
_CHUNK: Final = 64 * 1024


class PahoInBulk(paho.Client):
    """Of one connection. `given` is called with each message, `answered` with the numbers of some of ours and
    the broker's reason code for them. `has_more`: there is more to read that the socket does not say.
    """

    given: Callable[[packets.Publish], None]
    answered: Callable[[Sequence[int], int], None]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        level = LEVEL_5 if self._protocol == MQTTProtocolVersion.MQTTv5 else LEVEL_3_1_1
        self._reader = readers.ServerReader(LARGEST, level)
        self._said: list[bytes] = []
        self._size = 0
        self.has_more = False
        self._under_way: set[int] = set()
        self._kept: set[int] = set()

    # --- writing

    def publish_in_bulk(self, topic: str, payload: bytes, qos: int, retain: bool, said: bytes = b"") -> int:
        """Its number, 0 for QoS 0. Raises `ValueError` or `OverflowError` where MQTT cannot say this."""
        name = topic.encode()
        self._raise_for_invalid_topic(name)
        number = self._mid_generate() if qos else 0
        self._say(packets.publish(name, payload, qos, number, retain=retain, again=False, said=said))
        if number:
            self._under_way.add(number)
        return number

    def publish_row(self, topic: str, payloads: Sequence[bytes], said: bytes = b"") -> list[int]:
        """Messages of QoS 1; returns their numbers. Raises as `publish_in_bulk` does, and says none then."""
        name = topic.encode()
        self._raise_for_invalid_topic(name)
        numbers = [self._mid_generate() for _ in payloads]
        self._say(packets.publish_row(name, payloads, numbers, retain=False, again=False, said=said))
        self._under_way.update(numbers)
        return numbers

    def answer(self, number: int, qos: int) -> None:
        """The broker may forget it."""
        self._say(packets.answer(packets.PUBREC if qos == 2 else packets.PUBACK, number))

    def answer_row(self, numbers: Sequence[int]) -> None:
        """The broker may forget these, of QoS 1."""
        if numbers:
            self._say(packets.acknowledged(numbers))

    def want_write(self) -> bool:
        return bool(self._said) or super().want_write()

    def _mid_generate(self) -> int:
        while (number := super()._mid_generate()) in self._under_way:
            pass
        return number

    def _say(self, packet: bytes) -> None:
        self._said.append(packet)
        self._size += len(packet)
        if self._size >= _CHUNK:
            self._gather()
        self._call_socket_register_write()

    def _gather(self) -> None:
        """Put it where paho writes from."""
        if self._said:
            super()._packet_queue(packets.PUBACK << 4, b"".join(self._said), 0, 1)
            self._said, self._size = [], 0

    def _packet_queue(self, command: int, packet: Any, mid: int, qos: int, info: Any = None) -> MQTTErrorCode:
        self._gather()
        return super()._packet_queue(command, packet, mid, qos, info)

    def _packet_write(self) -> MQTTErrorCode:
        self._gather()
        return super()._packet_write()

    # --- reading

    def _packet_read(self) -> MQTTErrorCode:
        """Read all that has arrived, and no more than `A_TURN` of one packet: others have their turns."""
        left = A_TURN
        try:
            while left > 0 and self._sock is not None:
                data = b"" if self.has_more else self._received()
                left -= len(data)
                if (result := self._feed(data)) is not None:
                    return result
        except BlockingIOError:
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        except OSError:
            return MQTTErrorCode.MQTT_ERR_CONN_LOST
        except (PacketError, MQTTException):
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _received(self) -> bytes:
        data = self._sock_recv(_CHUNK)
        if not data:
            raise ConnectionError
        self._last_bytes_received = paho.time_func()
        return data

    def _feed(self, data: bytes) -> MQTTErrorCode | None:
        """None if no packet is complete."""
        result, self.has_more = None, False
        for packet in self._reader.feed(data):
            result = MQTTErrorCode.MQTT_ERR_SUCCESS
            if isinstance(packet, readers.Alike):
                for each in packet.publishes:
                    self.given(each)
            elif isinstance(packet, packets.Publish):
                self._given(packet)
            elif isinstance(packet, readers.Acknowledged):
                self._acknowledged(packet.packet_ids)
            elif isinstance(packet, packets.PacketAnswer):
                self._answered(packet.kind, packet.packet_id, packet.reason)
            else:
                self.has_more = True  # whoever waits for this goes on before what is behind it is heard
                return self._control(packet.first, packet.body)
        return result

    def _given(self, packet: packets.Publish) -> None:
        if packet.qos == 2:
            if packet.packet_id in self._kept:
                return
            self._kept.add(packet.packet_id)
        self.given(packet)

    def _acknowledged(self, numbers: Sequence[int]) -> None:
        known = [number for number in dict.fromkeys(numbers) if number in self._under_way]
        self._under_way.difference_update(known)
        self.answered(known, 0)

    def _answered(self, kind: int, number: int, reason: int) -> None:
        if kind == packets.PUBREL:
            self._kept.discard(number)
            self._say(packets.answer(packets.PUBCOMP, number))
        elif number not in self._under_way:
            return
        elif kind == packets.PUBREC and reason < FAILURE:
            self._say(packets.answer(packets.PUBREL, number))
        else:
            self._under_way.discard(number)
            self.answered((number,), reason)

    def _control(self, first: int, body: bytes) -> MQTTErrorCode:
        """As if paho had read it."""
        self._in_packet |= {
            "command": first,
            "remaining_length": len(body),
            "packet": bytearray(body),
            "pos": 0,
        }
        return self._packet_handle()
