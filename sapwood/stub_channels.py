"""The channels of a generated module's command line: each is a file, or standard input or output (`-`).

An input that is a channel sends what a file has, and then ends; what comes back is not kept. An output that
is one is written to a file until it ends. Nothing is sent there.
"""

import os
import socket
import sys
import threading
from contextlib import closing, suppress
from typing import BinaryIO, Final, Self

from sapwood.channels.ends import AppChannel, Placed, make_now, take_now
from sapwood.channels.urls import ChannelUrls
from sapwood.errors import ClientError

STANDARD: Final = "-"
_PIECE: Final = 64 * 1024


class FileFailed(ClientError):
    """The bytes of a channel did not all come, or did not all go."""


class Sent:
    """A file on its way. `urls` go with the call; leave it when the call was answered."""

    def __init__(self, client: Placed, name: str, path: str) -> None:
        self._name, self._path = name, path
        self._file = _opened(path, "rb")
        try:
            self._made, self.urls = make_now(client)
        except BaseException:
            _closed(self._file)
            raise
        self._error: OSError | None = None
        self._sent = 0
        # A daemon: a terminal that is read does not hold up a call that failed.
        self._thread = threading.Thread(target=self._run, name=f"sapwood {name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the other side's end. Raises `FileFailed`."""
        if kind is not None:
            with suppress(OSError):
                self._made.socket.shutdown(socket.SHUT_RDWR)
            return
        self._thread.join()
        if self._error is not None:
            said = self._error.strerror or self._error
            raise FileFailed(f"{self._name}: {said}, when {self._sent} bytes of {self._path} were sent")

    def _run(self) -> None:
        try:
            with closing(self._made):
                while part := os.read(self._file.fileno(), _PIECE):
                    self._made.socket.sendall(part)
                    self._sent += len(part)
                self._made.socket.shutdown(socket.SHUT_WR)
                while self._made.socket.recv(_PIECE):
                    pass
        except OSError as error:
            self._error = error
        finally:
            _closed(self._file)


def received(client: Placed, name: str, urls: ChannelUrls, path: str) -> tuple[int, str]:
    """Write what a channel brings to a file: how many bytes these were, and the channel's way.

    Raises `ChannelFailed` and `FileFailed`.
    """
    with take_now(client, urls) as channel:  # a file that is there stays where there is no channel
        file, written = _opened(path, "wb"), 0
        try:
            channel.socket.shutdown(socket.SHUT_WR)
            while part := _next(channel, name, written):
                file.write(part)
                written += len(part)
            file.flush()
            return written, channel.way
        finally:
            _closed(file)


def _next(channel: AppChannel, name: str, written: int) -> bytes:
    try:
        return channel.socket.recv(_PIECE)
    except OSError as error:
        raise FileFailed(f"{name}: {error.strerror}, when {written} bytes had come") from None


def _opened(path: str, mode: str) -> BinaryIO:
    """Raises `FileFailed` and OSError. Wrinkle: Python has None for a standard stream that is closed."""
    if path != STANDARD:
        return open(path, mode)  # type: ignore[return-value]
    stream = sys.stdin if mode == "rb" else sys.stdout
    if stream is None:
        raise FileFailed(f"standard {'input' if mode == 'rb' else 'output'} is closed: name a file")
    return stream.buffer


def _closed(file: BinaryIO) -> None:
    if file not in [each.buffer for each in (sys.stdin, sys.stdout) if each is not None]:
        file.close()
