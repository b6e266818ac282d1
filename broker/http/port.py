"""The open port: its listening sockets, the connections on them, and who looks after those.

Wrinkle: aiohttp closes idle connections. A logged-in connection is never closed for idleness, so it is told
to keep all; dead ones are found by probing (see `probes`).
Wrinkle: no access log: a path may hold a session's token, and that is in no log.
Wrinkle: the application is made when the first connection needs it. Nobody ever asks most leaves for a page.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from broker.http.encrypted import Encrypted, Failed
from broker.http.front import Front
from broker.http.verbs import Verbs
from broker.intake import Acceptor, Admission, Guest, Narrow, open_listeners

_FOR_EVER: Final = 366 * 86_400.0
_LOOK_EVERY: Final = 10.0
TO_FINISH: Final = 2.0
"""Seconds that requests have when the port closes."""
_NEVER_REACHED: Final = 60.0


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
    """All that is served beside the verbs: an aiohttp application, made by `build` when first needed.

    Wrinkle: aiohttp can end requests that are late when it closes, but stumbles over one that ends by itself
    in that very moment, and logs an error. So they are ended here, before it would.
    """

    def __init__(self, build: Callable[[], web.Application]) -> None:
        self._build = build
        self._under_way: set[asyncio.Task[object]] = set()
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
        application = self._build()
        application.middlewares.insert(0, self._remember)
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=_request_log(),
            keepalive_timeout=_FOR_EVER,
            shutdown_timeout=_NEVER_REACHED,
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

    @web.middleware
    async def _remember(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A request is under way until its answer has left, which is after this."""
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await handler(request)

    async def cleanup(self) -> None:
        if self._making is not None:
            await self._making
        if self._runner is None:
            return
        ending = asyncio.ensure_future(self._runner.cleanup())
        while not (await asyncio.wait((ending,), timeout=TO_FINISH))[0]:
            for task in list(self._under_way):
                task.cancel()
        await ending


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
        self.servers: list[Acceptor] = []

    def __repr__(self) -> str:
        return f"<Port {', '.join(f'{host}:{port}' for host, port in self.addresses)}>"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        names = [listener.getsockname() for server in self.servers for listener in server.sockets]
        return [(name[0], name[1]) for name in names]

    def front(self, guest: Guest) -> asyncio.BaseProtocol:
        """What stands on a new connection."""
        pages = self._pages
        front = Front(self._verbs, pages.protocol, self._fronts, pages.are_ready, guest)
        if self._context is not None:
            return Encrypted(front, self._context, self._refused, guest)
        return Narrow(front, guest)

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
    admission: Admission | None = None,
) -> Port:
    """Serve the verbs, and the application that `build` makes, on an address. Raises `OSError`.

    Port 0: any free one; see `Port.addresses`. `refused(address, text)`: who could not connect with TLS.
    `admission`: who may connect; without one, as many as a node has by default.
    """
    opened = Port(Pages(build), verbs, context, refused)
    try:
        admission = Admission() if admission is None else admission
        opened.servers.append(Acceptor(open_listeners(host, port), admission, opened.front))
    except BaseException:
        await opened.cleanup()
        raise
    return opened
