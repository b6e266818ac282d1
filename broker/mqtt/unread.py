"""Writing to an MQTT client, as fast as it reads.

Law: who has much unread is given more once it has read; till then it waits on disk. Who leaves far too much
unread, answers to its own packets included, is sent away.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.core.sessions.sessions import Connection
from broker.host import Host
from broker.mqtt.reading import MqttReading

_ENOUGH_UNREAD: Final = 4 * 1024 * 1024
_MAX_UNREAD: Final = 64 * 1024 * 1024
_LOOK_AGAIN: Final = 0.05


class Outlet:
    """One connection's way out. `flooded`: called once, in the next turn of the loop."""

    def __init__(
        self, host: Host, transport: asyncio.Transport, connection: Connection, flooded: Callable[[], None]
    ) -> None:
        self._host = host
        self._transport = transport
        self._connection = connection
        self._flooded = flooded
        self._loop = asyncio.get_running_loop()
        self._is_behind = self._floods = self._over = False

    def __repr__(self) -> str:
        return f"<Outlet with {self._transport.get_write_buffer_size()} bytes unread>"

    def close(self) -> None:
        self._over = True

    def write(self, data: bytes) -> None:
        if self._over or not data or self._floods:
            return
        self._transport.write(data)
        self._connection.bytes_out += len(data)
        if self._transport.get_write_buffer_size() > _MAX_UNREAD:
            self._floods = True  # what comes in this turn of the loop is not written any more
            self._loop.call_soon(self._flooded)

    def wait_for_reader(self, reading: MqttReading) -> None:
        """After a delivery: is there so much unread that it is given nothing for now?"""
        if self._transport.get_write_buffer_size() > _ENOUGH_UNREAD:
            reading.pause(self._connection)
            if not self._is_behind:
                self._is_behind = True
                self._loop.call_later(_LOOK_AGAIN, self._look_at_reader, reading)

    def _look_at_reader(self, reading: MqttReading) -> None:
        if self._over:
            return
        if self._transport.get_write_buffer_size() > _ENOUGH_UNREAD // 2:
            self._loop.call_later(_LOOK_AGAIN, self._look_at_reader, reading)
            return
        self._is_behind = False
        host = self._host
        host.core.advance(host.now())
        for queue in reading.resume(self._connection):
            host.core.forwarder.dispatch(queue)
        host.wake()
