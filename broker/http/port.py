"""The open port: its listening sockets, the connections on them, and who looks after those.

Wrinkle: the pages, and aiohttp with them, are loaded when the first connection needs them, in a thread, since
that takes a tenth of a second. Nobody ever asks most leaves for a page, and each has 13 MB less without.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from importlib import import_module
from typing import Final, Protocol, cast

from broker.http.encrypted import Encrypted, Failed
from broker.http.front import Front
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings
from broker.http.verbs import Verbs
from broker.intake import Acceptor, Admission, Guest, Narrow, open_listeners

_log = logging.getLogger("sapwood.node")
_LOOK_EVERY: Final = 10.0
_UNSERVED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 67\r\nConnection: close\r\n\r\n"
    b"this node cannot load what serves that: its log says why; start it\n"
)


class Served(Protocol):
    """`broker.http.pages.Application`, or what a test puts in its place."""

    async def setup(self) -> None: ...

    def protocol(self) -> asyncio.Protocol: ...

    async def cleanup(self) -> None: ...


class Pages:
    """All that is served beside the verbs, made by `build` when first needed.

    Where they cannot be made, who waits for them is told so, and they are tried again for the next one.
    """

    def __init__(self, build: Callable[[], Served]) -> None:
        self._build = build
        self._served: Served | None = None
        self._making: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []
        self._failed = False
        self._why = ""

    def __repr__(self) -> str:
        return f"<Pages {'made' if self._served else 'not needed yet'}>"

    def are_ready(self, call: Callable[[], None]) -> bool:
        """Whether connections may be handed over. If not, `call` is called when they may."""
        if self._served is not None or self._failed:
            return True
        self._waiting.append(call)
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        return False

    async def _make(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, import_module, "broker.http.app")
            served = self._build()
            await served.setup()
            self._served = served
        except Exception as error:
            self._say(error)
            self._failed = True
        waiting, self._waiting = self._waiting, []
        try:
            for call in waiting:
                call()
        finally:
            self._failed, self._making = False, None

    def _say(self, error: Exception) -> None:
        """Once for each reason: strangers may ask."""
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, MemoryError):
            context = {"message": "no memory for the pages", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        elif why != self._why:
            _log.error(
                "! neither status nor pages, links and sessions can be served: %s. Was the program"
                " replaced while it ran? Start the node again",
                why,
            )
        self._why = why

    def protocol(self) -> asyncio.Protocol:
        """The reader of one more connection. Only when they are ready."""
        return self._served.protocol() if self._served is not None else _Unserved()

    async def cleanup(self) -> None:
        if self._making is not None:
            await self._making
        if self._served is not None:
            await self._served.cleanup()


class _Unserved(asyncio.Protocol):
    """Of a connection whose request nobody can read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(_UNSERVED)
            self._transport.close()


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


async def listen(
    node: NodePort,
    host: str,
    port: int,
    context: ssl.SSLContext | None = None,
    refused: Failed = lambda _address, _text: None,
    settings: HttpSettings | None = None,
    admission: Admission | None = None,
) -> Port:
    """Serve `node` on an address (port 0: any free one; see `Port.addresses`). Raises `OSError`.

    `refused(address, text)`: who could not connect with TLS, and why. `admission`: who may connect; without
    one, as many as a node has by default.
    """
    settings = settings or HttpSettings()
    verbs = Verbs(node, settings)

    def build() -> Served:
        from broker.http.app import pages

        return pages(node, settings, verbs)

    opened = Port(Pages(build), verbs, context, refused)
    try:
        admission = Admission() if admission is None else admission
        opened.servers.append(Acceptor(open_listeners(host, port), admission, opened.front))
    except BaseException:
        await opened.cleanup()
        raise
    return opened
