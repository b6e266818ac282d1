"""MQTT 3.1.1 as a benchmark's client needs it: QoS 1 both ways, as fast as Python writes bytes.

paho would be the bottleneck of every broker. What it says and understands is the least: no will, no QoS 2.
"""

import asyncio
from collections.abc import Callable

from bridges.mqtt import packets

_MOST_IDS = 65_535


class RawMqtt(asyncio.Protocol):
    """One connection. `arrived` gets the payloads of what came at once; `acknowledged` counts PUBACKs."""

    def __init__(self, arrived: Callable[[list[bytes]], None] = lambda payloads: None) -> None:
        self._arrived = arrived
        self._buffer = bytearray()
        self._moved = asyncio.Event()
        self._opened: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._next = 0
        self.acknowledged = self.sent = 0
        self.error = ""

    def __repr__(self) -> str:
        return f"<RawMqtt sent={self.sent} acknowledged={self.acknowledged}>"

    @classmethod
    async def open(
        cls, port: int, name: str, arrived: Callable[[list[bytes]], None] | None = None
    ) -> "RawMqtt":
        """Connect with a clean session."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: cls(arrived) if arrived else cls(), "127.0.0.1", port)
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + _text(name)
        made.write(b"\x10" + bytes((len(body),)) + body)
        await made._opened
        made._opened = loop.create_future()
        return made

    async def subscribe(self, pattern: str) -> None:
        body = b"\x00\x01" + _text(pattern) + b"\x01"
        self.write(b"\x82" + bytes((len(body),)) + body)
        await self._opened

    def publish(self, topic: bytes, payload: bytes) -> bytes:
        """The bytes of one QoS 1 message; counts as sent."""
        self._next = self._next % _MOST_IDS + 1
        self.sent += 1
        return packets.publish(topic, payload, 1, self._next, retain=False, again=False)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def drain(self, unacknowledged: int) -> None:
        """Until no more than so many are unacknowledged."""
        await self._writable.wait()
        while self.sent - self.acknowledged > unacknowledged:
            if self.error:
                raise RuntimeError(self.error)
            self._moved.clear()
            await self._moved.wait()

    def close(self) -> None:
        self._transport.write(b"\xe0\x00")
        self._transport.close()

    # --- the line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        self.error = f"the broker closed the connection: {error}"
        self._moved.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        buffer, at, payloads, answers = self._buffer, 0, [], []
        while True:
            length = shift = 0
            place = at + 1
            while place < len(buffer):
                length |= (buffer[place] & 0x7F) << shift
                shift += 7
                place += 1
                if not buffer[place - 1] & 0x80:
                    break
            else:
                break
            if place + length > len(buffer):
                break
            kind = buffer[at] >> 4
            if kind == 3:
                begin = place + 2 + int.from_bytes(buffer[place : place + 2])
                if buffer[at] & 6:
                    answers.append(b"\x40\x02" + buffer[begin : begin + 2])
                    begin += 2
                payloads.append(bytes(buffer[begin : place + length]))
            elif kind == packets.PUBACK:
                self.acknowledged += 1
            elif kind in (2, 9) and not self._opened.done():
                self._opened.set_result(bytes(buffer[place : place + length]))
            at = place + length
        del buffer[:at]
        if payloads:
            self._arrived(payloads)
            self._transport.write(b"".join(answers))
        self._moved.set()


def _text(text: str) -> bytes:
    return len(text).to_bytes(2) + text.encode()
