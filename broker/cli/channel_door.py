"""Channels of a command: each is a WebSocket of the node that is asked, to what another node offers."""

import asyncio
from typing import Final, Self

import aiohttp

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.http import TIMEOUT, node_url
from broker.cli.node_api import NodeApi, part
from broker.cli.tls import Tls
from sapwood.channels.pipes import PipeBroken
from sapwood.channels.probes import probe
from sapwood.channels.websocket_pipe import OPEN, TAKES, WIDE_MESSAGE, WebSocketPipe
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name

_LONGEST: Final = 40.0


class ChannelDoor:
    """To what `node` offers as `name`. Raises `CommandError`: no names, or the node that is asked says no."""

    def __init__(self, api: NodeApi, node: str, name: str) -> None:
        try:
            node_name(node), node_name(name)
        except InvalidName as error:
            raise CommandError(str(error), WRONG_USE) from None
        api.get("/api/channels", limit=1)  # is a node there, and may we ask it?
        self.node, self.name = node, name
        self._url = f"{node_url(api.url)}/channel/{part(node)}/{part(name)}"
        self._headers = {TAKES: str(WIDE_MESSAGE)}
        if api.token:
            self._headers["Authorization"] = f"Bearer {api.token}"
        self._tls = api.tls or Tls()
        self._session: aiohttp.ClientSession

    def __repr__(self) -> str:
        return f"<ChannelDoor to {self}>"

    def __str__(self) -> str:
        return f"{self.node}:{self.name}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ssl=self._tls.context() if self._url.startswith("https:") else True
            ),
            headers=self._headers,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def reach(self) -> WebSocketPipe:
        """A channel that is open. Raises `PipeBroken`: why there is none."""
        try:
            async with asyncio.timeout(_LONGEST):
                return await self._reach()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise PipeBroken(str(error) or "no answer") from None

    async def _reach(self) -> WebSocketPipe:
        try:
            opened = await self._session.ws_connect(self._url, max_msg_size=WIDE_MESSAGE + 1, compress=0)
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
