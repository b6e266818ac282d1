"""Client connections of the node's port, and which session each is bound to.

A `Line` is one connection: made when it opens, bound by login, told when it goes. Whoever waits on behalf of
a line watches it. Requests that aiohttp reads find theirs by the transport.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web

from broker.core.errors import NotLoggedIn
from broker.core.sessions import Connection
from broker.http.ports import NodePort
from treeconnector.session_frames import NodeFrame


class Line:
    """One connection. `lost` is called once, when it goes. `connection` is None before login."""

    __slots__ = ("_node", "_when_gone", "bound", "gone", "transport")

    def __init__(self, node: NodePort, transport: asyncio.BaseTransport) -> None:
        self._node = node
        self.transport = transport
        self.bound: Connection | None = None
        self.gone = False
        self._when_gone: set[Callable[[], None]] = set()

    def __repr__(self) -> str:
        return f"<Line {self.bound!r}{' gone' if self.gone else ''}>"

    @property
    def connection(self) -> Connection:
        """The session's connection. Raises `NotLoggedIn`."""
        if self.bound is None:
            raise NotLoggedIn("log in first on this connection: GET /login/TOKEN, HTTP/1.1 with keep-alive")
        return self.bound

    def login(self, token: str, secret: str) -> None:
        """Bind the connection to the session `token`. Raises `SwitchError`."""
        connection = self.bound or Connection(_nothing_is_pushed, address_of(self.transport), "http")
        self._node.switch.login(connection, token, secret)
        self.bound = connection

    def watch(self, call: Callable[[], None]) -> None:
        """Be called when the connection goes."""
        self._when_gone.add(call)

    def unwatch(self, call: Callable[[], None]) -> None:
        self._when_gone.discard(call)

    def lost(self) -> None:
        if self.gone:
            return
        self.gone = True
        for call in list(self._when_gone):
            call()
        self._when_gone.clear()
        if self.bound is not None:
            self._node.switch.close(self.bound)
            self._node.wake()


class Bindings:
    """All open lines, by their transport."""

    def __init__(self, node: NodePort) -> None:
        self._node = node
        self._lines: dict[object, Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def __repr__(self) -> str:
        bound = sum(line.bound is not None for line in self._lines.values())
        return f"<Bindings of {len(self._lines)} connections, {bound} logged in>"

    def open(self, transport: asyncio.BaseTransport) -> Line:
        line = self._lines[transport] = Line(self._node, transport)
        return line

    def close(self, line: Line) -> None:
        """The connection has gone. Calling it again does nothing."""
        self._lines.pop(line.transport, None)
        line.lost()

    def find(self, request: web.BaseRequest) -> Line:
        """The line of a request that aiohttp has read. Raises `NotLoggedIn` if it is bound to no session."""
        line = self.line(request)
        _ = line.connection
        return line

    def line(self, request: web.BaseRequest) -> Line:
        """The line of a request, bound or not. Raises `NotLoggedIn` if it has gone."""
        found = self._lines.get(request.transport) if request.transport else None
        if found is None:
            raise NotLoggedIn("the connection is closed")
        return found


def address_of(transport: asyncio.BaseTransport) -> str:
    """Where a connection comes from, for people."""
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) > 1 else str(name or "unknown")


def _nothing_is_pushed(_frame: NodeFrame) -> None:
    """These connections fetch their messages."""
