"""Client connections of the node's port, and which session each is bound to.

An `HttpLine` is one connection: made when it opens, bound by login, told when it goes. Whoever waits for
a line watches it. Requests that aiohttp reads find theirs by the transport.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from bridges.tls import shown_by
from broker.core.errors import TOO_MANY, BadRequest, Busy, NotLoggedIn
from broker.core.sessions.rights import Rights
from broker.core.sessions.sessions import Connection
from broker.entrance.entrance import Caller
from broker.http.ports import NodePort
from broker.intake import Guest
from broker.intake.addresses import shown
from sapwood.protocol.session_frames import NodeFrame

if TYPE_CHECKING:
    from aiohttp import web


class HttpLine:
    """One connection. `lost` is called once, when it goes. `connection` is None before login.

    `guest`: its place among all connections, None where nobody counts them.
    """

    __slots__ = ("_node", "_when_gone", "bound", "gone", "guest", "transport")

    def __init__(self, node: NodePort, transport: asyncio.BaseTransport, guest: Guest | None = None) -> None:
        self._node = node
        self.guest = guest
        self.transport = transport
        self.bound: Connection | None = None
        self.gone = False
        self._when_gone: set[Callable[[], None]] = set()

    def __repr__(self) -> str:
        return f"<HttpLine {self.bound!r}{' gone' if self.gone else ''}>"

    @property
    def address(self) -> str:
        """Where it comes from, for people."""
        return shown(self.transport.get_extra_info("peername"))

    @property
    def connection(self) -> Connection:
        """The session's connection. Raises `NotLoggedIn`."""
        if self.bound is None:
            raise NotLoggedIn("log in first on this connection: GET /login/TOKEN, HTTP/1.1 with keep-alive")
        return self.bound

    def caller(self, account: str, secret: str, *, near: bool) -> Caller:
        """Who asks to log in."""
        certificate = shown_by(self.transport.get_extra_info("peercert"))
        return Caller("http", self.address, near, account, secret, certificate)

    def login(self, token: str, rights: Rights) -> None:
        """Bind the connection to the session `token`. Raises `SwitchError`."""
        if self.guest is not None and not self.guest.may_log_in:
            raise Busy(TOO_MANY)
        connection = self.bound
        if connection is None:
            connection = Connection(nothing_is_pushed, self.address, "http", rights, self._end)
        elif connection.rights is not rights:
            raise BadRequest("this connection is logged in as somebody else already: open one for each")
        self._node.switch.login(connection, token)
        self.bound = connection
        if self.guest is not None:
            self.guest.prove()

    def _end(self, _why: str) -> None:
        """The connection is to go."""
        self.lost()
        cast("asyncio.Transport", self.transport).abort()

    def watch(self, call: Callable[[], None]) -> None:
        """Be called when the connection goes."""
        self._when_gone.add(call)

    def unwatch(self, call: Callable[[], None]) -> None:
        self._when_gone.discard(call)

    def lost(self) -> None:
        if self.gone:
            return
        self.gone = True
        if self.guest is not None:
            self.guest.leave()
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
        self._lines: dict[object, HttpLine] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def __repr__(self) -> str:
        bound = sum(line.bound is not None for line in self._lines.values())
        return f"<Bindings of {len(self._lines)} connections, {bound} logged in>"

    def open(self, transport: asyncio.BaseTransport, guest: Guest | None = None) -> HttpLine:
        line = self._lines[transport] = HttpLine(self._node, transport, guest)
        return line

    def guest(self, request: "web.BaseRequest") -> Guest | None:
        """The place of a request's connection among all, None where nobody counts them."""
        found = self._lines.get(request.transport) if request.transport else None
        return found.guest if found is not None else None

    def close(self, line: HttpLine) -> None:
        """The connection has gone. Calling it again does nothing."""
        self._lines.pop(line.transport, None)
        line.lost()

    def find(self, request: "web.BaseRequest") -> HttpLine:
        """The line of a request that aiohttp has read. Raises `NotLoggedIn` if it is bound to no session."""
        line = self.line(request)
        _ = line.connection
        return line

    def line(self, request: "web.BaseRequest") -> HttpLine:
        """The line of a request, bound or not. Raises `NotLoggedIn` if it has gone."""
        found = self._lines.get(request.transport) if request.transport else None
        if found is None:
            raise NotLoggedIn("the connection is closed")
        return found


def nothing_is_pushed(_frame: NodeFrame) -> None:
    """These connections fetch their messages."""
