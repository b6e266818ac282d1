"""The open port: its listening sockets, the connections on them, and who looks after those.

Wrinkle: aiohttp closes idle connections. A logged-in connection is never closed for idleness, so it is told
to keep all; dead ones are found by probing (see `probes`).
Wrinkle: no access log: a path may hold a session's token, and that is in no log.
Wrinkle: the application is made when the first connection needs it. Nobody ever asks most leaves for a page.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from broker.http.encrypted import Encrypted, Failed
from broker.http.front import Front
from broker.http.probes import probe
from broker.http.verbs import Verbs

_FOR_EVER: Final = 366 * 86_400.0
_BACKLOG: Final = 4096
_LOOK_EVERY: Final = 10.0


class _NoPaths(logging.Filter):
    """aiohttp quotes requests that it cannot read; with them a token would be in the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True


def _request_log() -> logging.Logger:
    logger = logging.getLogger("sapwood.http.requests")
    if not logger.filters:
        logger.addFilter(_NoPaths())
    return logger


class Pages:
    """All that is served beside the verbs: an aiohttp application, made by `build` when first needed."""

    def __init__(self, build: Callable[[], web.Application]) -> None:
        self._build = build
        self._runner: web.AppRunner | None = None
        self._making: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Pages {'made' if self._runner else 'not needed yet'}>"

    def are_ready(self, call: Callable[[], None]) -> bool:
        """Whether connections may be handed over. If not, `call` is called when they may."""
        if self._runner is not None:
            return True
        self._waiting.append(call)
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        return False

    async def _make(self) -> None:
        runner = web.AppRunner(
            self._build(),
            access_log=None,
            logger=_request_log(),
            keepalive_timeout=_FOR_EVER,
            shutdown_timeout=2.0,
        )
        await runner.setup()
        self._runner = runner
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def protocol(self) -> asyncio.Protocol:
        """What reads one more connection. Only when they are ready."""
        assert self._runner is not None
        assert self._runner.server is not None
        return self._runner.server()

    async def cleanup(self) -> None:
        if self._making is not None:
            await self._making
        if self._runner is not None:
            await self._runner.cleanup()


class Port:
    """The open port. `addresses`: (host, port) of each listening socket."""

    def __init__(self, pages: Pages, verbs: Verbs, context: ssl.SSLContext | None, refused: Failed) -> None:
        self._pages = pages
        self._verbs = verbs
        self._context = context
        self._refused = refused
        self._fronts: set[Front] = set()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(_LOOK_EVERY, self._look_after)
        self.servers: list[asyncio.Server] = []

    def __repr__(self) -> str:
        return f"<Port {', '.join(f'{host}:{port}' for host, port in self.addresses)}>"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        names = [listener.getsockname() for server in self.servers for listener in server.sockets]
        return [(name[0], name[1]) for name in names]

    def front(self) -> asyncio.BaseProtocol:
        """What stands on a new connection."""
        pages = self._pages
        front = Front(self._verbs, pages.protocol, self._fronts, pages.are_ready)
        return Encrypted(front, self._context, self._refused) if self._context is not None else front

    def _look_after(self) -> None:
        self._timer = self._loop.call_later(_LOOK_EVERY, self._look_after)
        now = time.monotonic()
        for front in list(self._fronts):
            front.look_after(now)

    def pause(self) -> None:
        """Take no new connections; those that are open go on."""
        for server in self.servers:
            server.close()

    async def cleanup(self) -> None:
        """Close the port and all its connections."""
        self._timer.cancel()
        self.pause()
        for front in list(self._fronts):
            front.close()
        await self._pages.cleanup()


async def open_port(
    verbs: Verbs,
    build: Callable[[], web.Application],
    host: str,
    port: int,
    context: ssl.SSLContext | None = None,
    refused: Failed = lambda _address, _text: None,
) -> Port:
    """Serve the verbs, and the application that `build` makes, on an address. Raises `OSError`.

    Port 0: any free one; see `Port.addresses`. `refused(address, text)`: who could not connect with TLS.
    """
    opened = Port(Pages(build), verbs, context, refused)
    loop = asyncio.get_running_loop()
    listeners: list[socket.socket] = []
    try:
        _raise_file_limit()
        listeners = _listeners(host, port)
        for listener in listeners:
            server = await loop.create_server(opened.front, sock=listener, backlog=_BACKLOG)
            opened.servers.append(server)
    except BaseException:
        await opened.cleanup()
        for listener in listeners:
            listener.close()
        raise
    return opened


def _raise_file_limit() -> None:
    """A connection is an open file: as many as this user may have."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _listeners(host: str, port: int) -> list[socket.socket]:
    """One listening socket for each address that `host` means, with probes for dead peers."""
    found = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )
    listeners: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
            listeners.append(_listener(family, address))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listener(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe(listener)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
    except BaseException:
        listener.close()
        raise
    return listener
