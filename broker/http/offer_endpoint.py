"""How applications make channels: `GET /channel`, a WebSocket as `sapwood.channels.websocket_pipe` says.

The node says first, as a text in JSON, what the application may have: `node` and `name`, by which the
channel is taken through the tree, and `listen`, the addresses at which it may be taken directly. Without a
name that is all. Else `open` follows when somebody takes it.

An application proves itself as for a session, and has one for as long as that lasts: an account that is taken
away ends what it has made and taken.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from bridges.tls import shown_by
from broker.core.neighbours.channels import RESET
from broker.core.sessions.rights import Rights
from broker.core.sessions.sessions import Connection
from broker.entrance.entrance import Caller
from broker.forwards.application_channels import ApplicationChannels, Offer
from broker.forwards.local_end import LocalEnd
from broker.http.bindings import nothing_is_pushed
from broker.http.guard import address, credentials, is_here
from broker.http.ports import NodePort
from sapwood.channels.pipes import PipeBroken, until_first
from sapwood.channels.websocket_pipe import OPEN, WebSocketPipe

_NO_ROOM: Final = "so many channels wait here that there is room for no more"


class ChannelUser(NamedTuple):
    """An application that makes or takes a channel."""

    name: str
    address: str
    rights: Rights

    def __str__(self) -> str:
        return f"{self.name} at {self.address}"

    def why_not_take(self, node: str, name: str) -> str:
        """'' if it may. The certificate of a child is no way round the child's permit."""
        return self.rights.why_not_open(name, node)

    def may_offer(self, name: str, node: str) -> bool:
        """Through the tree, which is no way round the child's permit either."""
        return not self.rights.why_not_offer(name, node)


@asynccontextmanager
async def application(
    node: NodePort, request: web.Request, cut: Callable[[str], None]
) -> AsyncIterator[ChannelUser]:
    """The application that asks, which has a session meanwhile. `cut`: it may not go on.

    Raises `SwitchError`.
    """
    account, secret = credentials(request)
    certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
    shown = shown_by(certificate)
    caller = Caller("session", address(request), is_here(request), account, secret, shown)
    rights = await node.entrance.admitted(caller)
    connection = Connection(nothing_is_pushed, address(request), "stream", rights, cut)
    node.switch.login(connection, f"channel-{secrets.token_hex(8)}")
    try:
        yield ChannelUser(account or rights.who or "application", address(request), rights)
    finally:
        node.switch.close(connection)
        node.wake()


async def offered(node: NodePort, pipe: WebSocketPipe, who: ChannelUser) -> None:
    """Offer a channel until it is over, or the application has gone."""
    forwards = node.running.access.forwards
    applications = forwards.applications
    settings = applications.settings
    if not applications.has_room:
        await pipe.abort(_NO_ROOM)
        return
    name, here = f"channel-{secrets.token_hex(16)}" if settings.offered_to else "", node.running.name
    if name and not who.may_offer(name, here):
        name = ""
    said = {"node": here, "name": name, "listen": settings.listen}
    try:
        await pipe.say(msgspec.json.encode(said).decode())
        if name:
            end = await _taken(pipe, applications, applications.offer(name, str(who)))
            await pipe.say(OPEN)
            forwards.ends.tell(forwards.ends.channels.opened, end)
            await end.run(pipe)
        else:
            await pipe.hear()
            await pipe.abort("nothing was asked")
    except PipeBroken:
        await pipe.abort("it is over")


async def _taken(pipe: WebSocketPipe, applications: ApplicationChannels, offer: Offer) -> LocalEnd:
    """The end of an offer when somebody takes it. Raises `PipeBroken`: the application has gone."""

    async def taken() -> None:
        await asyncio.wait([offer.end])

    async def gone() -> None:
        await pipe.hear()
        raise PipeBroken("nothing may be said before it is taken")

    try:
        await until_first(taken(), gone())
        return offer.end.result()
    except BaseException:
        if offer.end.done():
            offer.end.result().end(RESET, f"{offer.via} has gone")
        raise
    finally:
        applications.withdraw(offer)
