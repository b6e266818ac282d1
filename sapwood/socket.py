"""The client's connection: WebSocket packets with aiohttp, which is imported when the first is opened.

`receive` returns every packet that has arrived. `send` waits while the line takes no more. All errors are
`ConnectFailed`.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from sapwood.errors import ConnectFailed
from sapwood.protocol.session_frames import MAX_PACKET
from sapwood.traffic import traffic

if TYPE_CHECKING:
    import aiohttp

CLOSE_TIMEOUT: Final = 3.0
# Every request of ours says where the protocol is described.
_HEADERS: Final = {"Link": '</docs>; rel="help"', "User-Agent": "sapwood"}


async def open_socket(uri: str, context: ssl.SSLContext | None, timeout: float) -> "Socket":
    """Open a WebSocket within `timeout` seconds. Raises `ConnectFailed`."""
    import aiohttp

    connector = aiohttp.TCPConnector(ssl=context or True, limit=1, use_dns_cache=False)
    session = aiohttp.ClientSession(
        connector=connector, trust_env=False, timeout=aiohttp.ClientTimeout(total=None), headers=_HEADERS
    )
    try:
        async with asyncio.timeout(timeout):
            opened = await session.ws_connect(
                uri,
                max_msg_size=MAX_PACKET + 1,
                compress=0,
                decode_text=False,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT),
            )
    except BaseException as error:
        await session.close()
        if isinstance(error, aiohttp.ClientError | OSError | TimeoutError | ValueError):
            raise ConnectFailed(_explain(error, uri, timeout)) from error
        raise
    return Socket(uri, opened, session)


class Socket:
    """One open connection."""

    def __init__(
        self, uri: str, opened: "aiohttp.ClientWebSocketResponse[Any]", session: "aiohttp.ClientSession"
    ) -> None:
        import aiohttp

        self.uri = uri
        self._opened = opened
        self._session = session
        self._binary = aiohttp.WSMsgType.BINARY
        self._errors = (aiohttp.ClientError, OSError, RuntimeError)
        queue = getattr(getattr(opened, "_reader", None), "_buffer", ())
        self._queue: Collection[Any] = queue if isinstance(queue, deque) else ()
        self._over = ""
        self._heard = False

    async def receive(self) -> list[bytes]:
        """At least one packet. Raises `ConnectFailed` when the connection has ended."""
        packets: list[bytes] = []
        while not self._over:
            message = await self._opened.receive()
            if message.type is not self._binary:
                self._over = str(message.extra or f"WebSocket code {self._opened.close_code}")
            else:
                packets.append(message.data)
                self._heard = True
                if not self._queue:
                    return packets
        if packets:
            return packets
        raise ConnectFailed(f"the connection to {self.uri} ended: {self._over}")

    async def send(self, packet: bytes) -> None:
        try:
            await self._opened.send_bytes(packet)
        except self._errors as error:
            raise ConnectFailed(f"the connection to {self.uri} broke: {error}") from error

    async def is_silent(self, seconds: float) -> bool:
        """Wait so long. Has nothing come, no part of a long packet either, nor has one gone on its way?"""
        line = self._opened.get_extra_info("socket")
        self._heard, before = False, traffic(line)
        await asyncio.sleep(seconds)
        return not (self._heard or before.goes_on(traffic(line)))

    async def close(self) -> None:
        """End it. A transport that is closed lasts until the far end has read all, which may be never; so
        what has not gone out by then is given up.
        """
        line = _same(self._opened.get_extra_info("socket"))
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._opened.close()
        except (TimeoutError, *self._errors):
            pass
        finally:
            if line:
                with contextlib.suppress(OSError), line:
                    line.shutdown(socket.SHUT_RDWR)
            await self._session.close()


def _same(line: Any) -> socket.socket | None:
    """The connection of a transport, whose own socket cannot be shut down. None: it is closed, or there are
    no more files.
    """
    with contextlib.suppress(OSError):
        return socket.socket(fileno=os.dup(line.fileno())) if line is not None else None
    return None


def _explain(error: BaseException, uri: str, timeout: float) -> str:
    import aiohttp

    match error:
        case TimeoutError():
            return f"{uri} did not answer within {timeout:g} s"
        case aiohttp.WSServerHandshakeError():
            return f"{uri} answered HTTP {error.status}: is it a Sapwood node, and is the path /session?"
        case aiohttp.ClientConnectorCertificateError():
            why = str(getattr(error.certificate_error, "verify_message", "") or error.certificate_error)
            if "expired" in why or "not yet valid" in why:
                return f"the certificate of {uri} is not good at this time ({why}): is the clock right?"
            return f"the certificate of {uri} is not trusted ({why}): name its authority (`ca`, --ca)"
        case aiohttp.ClientConnectorSSLError():
            return f"TLS with {uri} failed ({error.os_error.strerror}): does its port speak http and ws only?"
        case aiohttp.ServerDisconnectedError() if uri.startswith("ws:"):
            return f"{uri} ended the connection: is a node there, and does its port speak https and wss?"
        case aiohttp.ClientConnectorError():
            return f"{uri} cannot be reached ({_of_system(error.os_error)}): is the node running there?"
        case _:
            return f"{uri} cannot be reached: {error or type(error).__name__}"


def _of_system(error: OSError) -> str:
    """In the system's words; asyncio puts its own in their place."""
    if error.errno and str(error.strerror).startswith("Connect call failed"):
        return os.strerror(error.errno)
    return error.strerror or str(error)
