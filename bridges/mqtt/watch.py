"""The socket of a paho client on an asyncio loop, in place of paho's own thread.

Wrinkle: when a connection breaks, uvloop closes its watch of the socket before anybody has read the error; to
watch for writing then raises `RuntimeError`, and the connection is lost.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from paho.mqtt.enums import MQTTErrorCode

from bridges.mqtt.bulk import PahoInBulk
from bridges.resets import was_reset

_LOOK_EVERY: Final = 1.0
_UNWATCHABLE: Final = (RuntimeError, OSError, ValueError)


class PahoWatch:
    """Reads, writes and looks after a client from `begin` to `end`. `lost` is called on the loop where that
    cannot go on.
    """

    def __init__(self, client: PahoInBulk, lost: Callable[[], None]) -> None:
        self._client = client
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<PahoWatch {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def begin(self, opened: Any) -> None:
        """Watch the client's socket. Callbacks of paho's that have to do with it are taken over."""
        self._socket = opened
        with contextlib.suppress(OSError):
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop.add_reader(opened, self._read)
        self._client.on_socket_close = self._closed
        self._client.on_socket_register_write = self._write_wanted
        self._client.on_socket_unregister_write = self._write_done
        if self._client.want_write():
            self._write_wanted()
        self._timer = self._loop.call_later(_LOOK_EVERY, self._look)

    def end(self) -> None:
        """Close the socket, whatever paho thinks of it. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        dropped, self._socket = self._socket, None
        if dropped is not None:
            self._unwatch(dropped)
            dropped.close()

    def _closed(self, *_given: object) -> None:
        """Before paho closes it."""
        if self._socket is not None:
            self._unwatch(self._socket)
            self._socket = None

    def _unwatch(self, watched: socket.socket) -> None:
        for stop in (self._loop.remove_reader, self._loop.remove_writer):
            with contextlib.suppress(*_UNWATCHABLE):
                stop(watched)

    def _write_wanted(self, *_given: object) -> None:
        self._loop.call_soon(self._write)

    def _write(self) -> None:
        """All that was said in this turn; only what the socket does not take waits for it to be watched."""
        if self._socket is None:
            return
        self._client.loop_write()
        if self._socket is None or not self._client.want_write():
            return
        try:
            self._loop.add_writer(self._socket, self._client.loop_write)
        except _UNWATCHABLE:
            self._loop.call_soon(self._lost)

    def _write_done(self, *_given: object) -> None:
        if self._socket is not None:
            with contextlib.suppress(*_UNWATCHABLE):
                self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        self._client.loop_read()
        if self._socket is not None and (self._client.has_more or self._pending() or was_reset(self._socket)):
            self._loop.call_soon(self._read)

    def _pending(self) -> int:
        """Bytes that TLS has decrypted already: the socket will not say that they are there."""
        return self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0

    def _look(self) -> None:
        if self._socket is not None and self._client.loop_misc() == MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._timer = self._loop.call_later(_LOOK_EVERY, self._look)
