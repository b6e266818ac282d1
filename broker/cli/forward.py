"""`sapwood forward`: a port of this machine that leads to a service of a node in the tree, until Ctrl-C."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.http import TIMEOUT, node_url
from broker.cli.node_api import NodeApi, part
from broker.cli.output import note, print_json
from broker.cli.tls import Tls
from broker.forwards.pipes import PipeBroken, TcpPipe, join
from broker.forwards.websocket_pipe import MAX_MESSAGE, OPEN, WebSocketPipe
from broker.http.probes import probe
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name

HOST: Final = "127.0.0.1"
MOST: Final = 1024
"""Connections at a time."""
_LONGEST: Final = 40.0
_AGAIN: Final = 1.0


def forward(api: NodeApi, port: int, target: str, *, as_json: bool) -> None:
    """Listen until Ctrl-C. Raises `CommandError`."""
    node, colon, name = target.partition(":")
    try:
        if not colon:
            raise InvalidName(f"{target[:80]!r}: expected NODE:NAME, such as york:till-web")
        node_name(node), node_name(name)
    except InvalidName as error:
        raise CommandError(str(error), WRONG_USE) from None
    api.get("/api/channels", limit=1)  # is a node there, and may we ask it?
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_Forward(api, node, name, as_json=as_json).run(port))


class _Forward:
    def __init__(self, api: NodeApi, node: str, name: str, *, as_json: bool) -> None:
        self._url = f"{node_url(api.url)}/channel/{part(node)}/{part(name)}"
        self._token = api.token
        self._tls = api.tls or Tls()
        self._node, self._name = node, name
        self._json = as_json
        self._open = 0
        self._session: aiohttp.ClientSession

    async def run(self, port: int) -> None:
        async with self._sessions() as self._session:
            try:
                listener = socket.create_server((HOST, port))
            except OSError as error:
                raise CommandError(f"cannot listen on {HOST}:{port}: {error.strerror or error}") from None
            with listener:
                self._say(listener.getsockname()[1])
                await self._accept(listener)

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    line, _ = await asyncio.get_running_loop().sock_accept(listener)
                except OSError as error:  # such as too many open files
                    note(f"! no connection is taken: {error.strerror or error}")
                    await asyncio.sleep(_AGAIN)
                else:
                    group.create_task(self._serve(TcpPipe(line)))

    @contextlib.asynccontextmanager
    async def _sessions(self) -> AsyncIterator[aiohttp.ClientSession]:
        context = self._tls.context() if self._url.startswith("https:") else True
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context),
            headers=headers,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT),
        ) as session:
            yield session

    def _say(self, port: int) -> None:
        if self._json:
            print_json({"host": HOST, "port": port, "node": self._node, "name": self._name})
        else:
            print(f"{HOST}:{port} leads to {self._name} of {self._node}, Ctrl-C ends it", flush=True)

    async def _serve(self, near: TcpPipe) -> None:
        """One connection. Whatever goes wrong ends it with a reset, and is said."""
        if self._open >= MOST:
            note(f"! {MOST} connections are open: none more now")
            await near.abort("busy")
            return
        self._open += 1
        try:
            async with asyncio.timeout(_LONGEST) as opening:
                far = await self._reach()
                opening.reschedule(None)
            await join(near, far)
        except (PipeBroken, TimeoutError, aiohttp.ClientError, OSError, ssl.SSLError) as error:
            note(f"! {self._node}:{self._name}: {error or 'no answer'}")
            await near.abort(str(error))
        finally:
            self._open -= 1

    async def _reach(self) -> WebSocketPipe:
        """A channel that is open."""
        try:
            opened = await self._session.ws_connect(self._url, max_msg_size=MAX_MESSAGE + 1, compress=0)
        except aiohttp.WSServerHandshakeError as error:
            raise PipeBroken(f"{self._url} answered HTTP {error.status}") from None
        probe(opened.get_extra_info("socket"))
        far = WebSocketPipe(opened)
        try:
            said = await far.hear()
        except PipeBroken:
            await far.close()
            raise
        if said != OPEN:
            await far.abort("not understood")
            raise PipeBroken(f"expected {OPEN!r}, found {said[:40]!r}: is the node of another version?")
        return far
