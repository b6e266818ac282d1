"""Channels of a command: each is a WebSocket of the node that is asked, to what another node offers."""

import asyncio
from typing import Final

from websockets.exceptions import InvalidStatus

from bridges.carriers.base import CarrierError
from bridges.carriers.websocket import dial
from bridges.tls import TlsError, TlsSettings
from broker.cli.channel_line import ChannelLine, Opened
from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.http import TIMEOUT, node_url, refused
from broker.cli.node_api import NodeApi, part
from broker.cli.tls import Tls
from sapwood.channels.pipes import PipeBroken
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
        tls = api.tls or Tls()
        self._tls = TlsSettings(tls.ca, tls.certificate, tls.key)

    def __repr__(self) -> str:
        return f"<ChannelDoor to {self}>"

    def __str__(self) -> str:
        return f"{self.node}:{self.name}"

    async def reach(self) -> WebSocketPipe:
        """A channel that is open. Raises `PipeBroken`: why there is none."""
        try:
            async with asyncio.timeout(_LONGEST):
                return await self._reach()
        except (TimeoutError, CarrierError, TlsError) as error:
            raise PipeBroken(self._why(error)) from None

    def _why(self, error: Exception) -> str:
        """A status with the node's words, and without those that links have for it."""
        if isinstance(error.__cause__, InvalidStatus):
            said = error.__cause__.response
            return str(refused(said.status_code, bytes(said.body or b""), said.reason_phrase, self._url, ""))
        return str(error) or "no answer"

    async def _reach(self) -> WebSocketPipe:
        line = await dial(
            ChannelLine,
            self._url.replace("http", "ws", 1),
            self._headers,
            tls=self._tls,
            timeout=TIMEOUT,
            max_packet=WIDE_MESSAGE,
        )
        far = WebSocketPipe(Opened(line))
        try:
            said = await far.hear()
        except PipeBroken:
            await far.close()
            raise
        except asyncio.CancelledError:
            line.abort()
            raise
        if said != OPEN:
            await far.abort("not understood")
            raise PipeBroken(f"expected {OPEN!r}, found {said[:40]!r}: is the node of another version?")
        return far
