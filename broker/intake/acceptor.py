"""Takes connections from listening sockets, as far as the node's admission lets them in.

An event loop's own server takes whatever comes, and where no more files can be opened it either spins or
closes connections without a word. Here who comes is asked in, or waits in the kernel's queue, or is closed at
once; no files left is said in the log, and the oldest stranger makes room.
"""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from broker.intake.admission import Admission, Guest

Serve = Callable[[Guest], asyncio.BaseProtocol]
_AT_ONCE: Final = 64
_PAUSE: Final = 0.1
_NO_FILES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """Takes from `listeners`, which it closes in the end. `serve`: makes the protocol of a connection."""

    def __init__(self, listeners: Sequence[socket.socket], admission: Admission, serve: Serve) -> None:
        self.sockets = tuple(listeners)
        self._admission = admission
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._closed = False
        for listener in self.sockets:
            listener.setblocking(False)
            self._loop.add_reader(listener.fileno(), self._ready, listener)

    def __repr__(self) -> str:
        return f"<Acceptor of {len(self.sockets)} sockets{' closed' if self._closed else ''}>"

    def close(self) -> None:
        """Take no more. What was taken goes on."""
        if self._closed:
            return
        self._closed = True
        for timer in self._resting.values():
            timer.cancel()
        for listener in self.sockets:
            self._loop.remove_reader(listener.fileno())
            listener.close()

    def _ready(self, listener: socket.socket) -> None:
        """Somebody waits to be taken."""
        for _ in range(_AT_ONCE):
            if self._admission.must_wait:
                self._rest(listener)
                return
            try:
                connection, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._failed(listener, error)
                return
            self._take(connection, str(address[0]))

    def _take(self, connection: socket.socket, address: str) -> None:
        guest = self._admission.admit(address)
        if guest is None:
            connection.close()
            return
        task = self._loop.create_task(self._open(connection, guest))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket, guest: Guest) -> None:
        try:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport, _ = await self._loop.connect_accepted_socket(lambda: self._serve(guest), connection)
        except OSError:  # it went before it was there
            guest.leave()
            connection.close()
            return
        except BaseException:
            guest.leave()
            connection.close()
            raise
        guest.end = transport.abort
        if guest.gone:
            transport.abort()

    def _failed(self, listener: socket.socket, error: OSError) -> None:
        """The kernel gives none. Without files the oldest stranger goes; all else passes."""
        text = f"connections cannot be accepted: {os.strerror(error.errno or 0)}"
        if error.errno in _NO_FILES:
            self._admission.complain("files", f"{text}; strangers make room (raise the limit of open files)")
            self._admission.make_room("files")
        else:
            self._admission.complain(f"errno {error.errno}", text)
        self._rest(listener)

    def _rest(self, listener: socket.socket) -> None:
        """Look again in a moment: who waits stays in the kernel's queue till then."""
        self._loop.remove_reader(listener.fileno())
        self._resting[listener] = self._loop.call_later(_PAUSE, self._go_on, listener)

    def _go_on(self, listener: socket.socket) -> None:
        del self._resting[listener]
        self._loop.add_reader(listener.fileno(), self._ready, listener)
        self._ready(listener)
