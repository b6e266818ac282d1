"""As much of the NATS client protocol as a benchmark needs, and as little per message as Python can.

`nats-py` spends about 30 us of CPU on a message at either end, and would be measured instead of the servers.
Protocol: https://docs.nats.io/reference/reference-protocols/nats-protocol
"""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'


class RawNats(asyncio.Protocol):
    """One connection. `on_messages(list of (payload, reply subject))` is called for each read that had any.

    A status message of the server (headers, but no reply subject) is not a message.
    """

    def __init__(self, on_messages: Callable[[list[tuple[bytes, bytes]]], None]) -> None:
        self._on_messages = on_messages
        self._transport: Any = None
        self._rest = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self.error = ""

    def __repr__(self) -> str:
        return f"<RawNats {len(self._rest)} bytes unread {self.error}>"

    async def open(self, url: str) -> "RawNats":
        where = urlsplit(url)
        await asyncio.get_running_loop().create_connection(
            lambda: self, where.hostname or "127.0.0.1", where.port or 4222
        )
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(_CONNECT)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def drain(self) -> None:
        await self._writable.wait()

    def close(self) -> None:
        self._transport.close()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        found: list[tuple[bytes, bytes]] = []
        start = 0
        while (end := data.find(b"\r\n", start)) >= 0:
            if data.startswith((b"MSG", b"HMSG"), start):
                words = data[start:end].split()
                size = int(words[-1])
                if len(data) < end + 2 + size + 2:
                    break
                headers = int(words[-2]) if words[0] == b"HMSG" else 0
                reply = words[3] if len(words) == (6 if headers else 5) else b""
                if reply or not headers:
                    found.append((data[end + 2 + headers : end + 2 + size], reply))
                start = end + 2 + size + 2
                continue
            self._control(data[start:end])
            start = end + 2
        self._rest = data[start:]
        if found:
            self._on_messages(found)

    def _control(self, line: bytes) -> None:
        if line == b"PING":
            self.write(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            self.error = line.decode()
