"""Which session an HTTP connection is bound to, and what happens when it goes.

A transport is the identity. aiohttp tells a handler nothing about a connection that closes between two
requests, so at login a `_Watcher` takes the place of aiohttp's protocol on the transport, passes everything
on to it, and sees the end.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from aiohttp import web

from broker.core.errors import NotLoggedIn
from broker.core.sessions import Connection
from broker.http.guard import address
from broker.http.leniency import Forwarding
from broker.http.ports import NodePort
from treeconnector.session_frames import NodeFrame


class _Watcher(Forwarding):
    """Sees the end of a connection."""

    def __init__(self, inner: asyncio.Protocol, lost: Callable[[], None]) -> None:
        super().__init__(inner)
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost()


class Binding:
    """A connection that is logged in. `lost` is called once, when it goes."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.gone = False
        self._when_gone: set[Callable[[], None]] = set()

    def watch(self, call: Callable[[], None]) -> None:
        self._when_gone.add(call)

    def unwatch(self, call: Callable[[], None]) -> None:
        self._when_gone.discard(call)

    def lost(self) -> None:
        self.gone = True
        for call in list(self._when_gone):
            call()


class Bindings:
    """All connections that are logged in, by their transport."""

    def __init__(self, node: NodePort) -> None:
        self._node = node
        self._bound: dict[asyncio.Transport, Binding] = {}

    def __len__(self) -> int:
        return len(self._bound)

    def __repr__(self) -> str:
        return f"<Bindings of {len(self._bound)} connections>"

    def find(self, request: web.BaseRequest) -> Binding:
        """The binding of the request's connection. Raises `NotLoggedIn`."""
        binding = self._bound.get(request.transport) if request.transport else None
        if binding is None:
            raise NotLoggedIn("log in first on this connection: GET /login/TOKEN, HTTP/1.1 with keep-alive")
        return binding

    def login(self, request: web.BaseRequest, token: str, secret: str) -> None:
        """Bind the request's connection to the session `token`. Raises `SwitchError`."""
        transport = request.transport
        if transport is None:
            raise NotLoggedIn("the connection is closed")
        known = self._bound.get(transport)
        connection = known.connection if known else Connection(_nothing_is_pushed, address(request), "http")
        self._node.switch.login(connection, token, secret)
        if known is None:
            self._bound[transport] = Binding(connection)
            inner = cast("asyncio.Protocol", transport.get_protocol())
            transport.set_protocol(_Watcher(inner, lambda: self._lost(transport)))

    def _lost(self, transport: asyncio.Transport) -> None:
        binding = self._bound.pop(transport, None)
        if binding:
            binding.lost()
            self._node.switch.close(binding.connection)
            self._node.wake()


def _nothing_is_pushed(_frame: NodeFrame) -> None:
    """These connections fetch their messages."""
