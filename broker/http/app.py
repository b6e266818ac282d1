"""The application on the node's one port, and the port itself.

Wrinkle: aiohttp closes idle connections. A logged-in connection is never closed for idleness, so the
server is told to keep all; dead ones are found by TCP's own probes.
Wrinkle: no access log: a path may hold a session's token, and that is in no log.
"""

import asyncio
import logging
import socket
import ssl
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from broker.http.administration import AdministrationEndpoint
from broker.http.documentation import add_link, documentation
from broker.http.leniency import Lenient
from broker.http.link_endpoint import LinkEndpoint
from broker.http.metrics import MetricsEndpoint
from broker.http.ports import NodePort
from broker.http.session_endpoint import SessionEndpoint
from broker.http.settings import HttpSettings
from broker.http.status import StatusEndpoint
from broker.http.verbs import Verbs

_FOR_EVER: Final = 366 * 86_400.0
_PROBE_AFTER: Final = 30
_PROBE_EVERY: Final = 10
_PROBES: Final = 3
_BACKLOG: Final = 1024


def build_app(node: NodePort, settings: HttpSettings | None = None) -> web.Application:
    """The application of `node`: links, sessions, verbs, status, documentation."""
    settings = settings or HttpSettings()
    app = web.Application(client_max_size=settings.max_message + 1)
    app.on_response_prepare.append(add_link)
    status = StatusEndpoint(node, settings)
    router = app.router
    router.add_get("/link", LinkEndpoint(node, settings).handle, allow_head=False)
    router.add_get("/session", SessionEndpoint(node, settings).handle, allow_head=False)
    Verbs(node, settings).add_to(router)
    router.add_get("/api/status", status.status)
    AdministrationEndpoint(node, settings).add_to(router)
    router.add_get("/metrics", MetricsEndpoint(node, settings).metrics)
    router.add_get("/healthz", status.health)
    router.add_get("/readyz", status.readiness)
    router.add_get("/docs", documentation)
    router.add_get("/", documentation)
    return app


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


class Port:
    """The open port. `addresses`: (host, port) of each listening socket."""

    def __init__(self, runner: web.AppRunner, servers: list[asyncio.Server]) -> None:
        self._runner = runner
        self._servers = servers

    def __repr__(self) -> str:
        return f"<Port {', '.join(f'{host}:{port}' for host, port in self.addresses)}>"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        names = [listener.getsockname() for server in self._servers for listener in server.sockets]
        return [(name[0], name[1]) for name in names]

    def pause(self) -> None:
        """Take no new connections; those that are open go on."""
        for server in self._servers:
            server.close()

    async def cleanup(self) -> None:
        """Close the port and all its connections."""
        self.pause()
        await self._runner.cleanup()


async def listen(app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None) -> Port:
    """Serve `app` on an address (port 0: any free one; see `Port.addresses`). Raises `OSError`."""
    runner = web.AppRunner(
        app, access_log=None, logger=_request_log(), keepalive_timeout=_FOR_EVER, shutdown_timeout=2.0
    )
    await runner.setup()
    servers: list[asyncio.Server] = []
    opened = Port(runner, servers)
    make = runner.server
    assert make is not None
    loop = asyncio.get_running_loop()
    listeners: list[socket.socket] = []
    try:
        listeners = _listeners(host, port)
        for listener in listeners:
            server = await loop.create_server(
                lambda: Lenient(make()), sock=listener, ssl=context, backlog=_BACKLOG
            )
            servers.append(server)
    except BaseException:
        await opened.cleanup()
        for listener in listeners:
            listener.close()
        raise
    return opened


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
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", _PROBE_AFTER),
            ("TCP_KEEPINTVL", _PROBE_EVERY),
            ("TCP_KEEPCNT", _PROBES),
        ):
            if hasattr(socket, name):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
    except BaseException:
        listener.close()
        raise
    return listener
