"""Writing to an MQTT client, as fast as it reads.

Law: who has much unread is given more once it has read; till then it waits on disk (`broker.buffers`).
Answers to a client's own packets do not wait: who reads none of them is cut off in the end.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.buffers import LOOKS, Behind
from broker.core.sessions.sessions import Connection
from broker.host import Host

_LAST_WORDS: Final = 10.0
_LISTENS: Final = 5.0


class Outlet:
    """One connection's way out. `kept`: bytes that it has sent and that are not dealt with.

    `flooded`: called once, in the next turn of the loop.
    """

    def __init__(
        self,
        host: Host,
        transport: asyncio.Transport,
        connection: Connection,
        kept: Callable[[], int],
        flooded: Callable[[], None],
    ) -> None:
        self._host = host
        self._transport = transport
        self._connection = connection
        self._kept = kept
        self._flooded = flooded
        self._behind = Behind(host.buffers, transport.get_write_buffer_size, self._go_on)
        self._over = False

    def __repr__(self) -> str:
        return f"<Outlet with {self._transport.get_write_buffer_size()} bytes unread>"

    @property
    def held(self) -> int:
        return self._transport.get_write_buffer_size() + self._kept()

    def cut_off(self) -> None:
        self._over = True  # what comes in this turn of the loop is not written any more
        asyncio.get_running_loop().call_soon(self._flooded)

    def close(self, *, told: bool) -> None:
        """End it. One that is told why may be writing still. A socket that is closed with bytes unread makes
        its machine drop what it has not read, the reason too; so its bytes are passed over until it closes.
        """
        self._over = True
        self._behind.close()
        loop, transport = asyncio.get_running_loop(), self._transport
        if told and not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
            loop.call_later(_LISTENS, transport.abort)
            return
        transport.close()
        if transport.get_write_buffer_size():
            loop.call_later(_LAST_WORDS, transport.abort)

    def gone(self) -> None:
        """The line is: nothing more is written."""
        self._over = self._connection.behind = True
        self._behind.close()
        self._host.buffers.gone(self)

    def pause_reading(self) -> None:
        if not self._over:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._over:
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._over or not data:
            return
        self._transport.write(data)
        self._connection.bytes_out += len(data)
        if self._transport.get_write_buffer_size() > LOOKS:
            self._host.buffers.look(self)

    def look(self) -> None:
        """Something has come."""
        if not self._over and self._kept() > LOOKS:
            self._host.buffers.look(self)

    def wait_for_reader(self) -> None:
        """After a delivery: is there so much unread that it is given nothing for now?"""
        self._connection.behind = self._behind.is_now()

    def _go_on(self) -> None:
        self._connection.behind = False
        self._host.core.advance(self._host.now())
        self._host.core.switch.go_on(self._connection)
        self._host.wake()
