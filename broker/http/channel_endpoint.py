"""Where channels begin: `GET /channel/NODE/NAME`, a WebSocket as `sapwood.channels.websocket_pipe` says.

It is for whoever may administrate this node. Channels that applications make (`GET /channel`) have names of
their own form, and are for applications.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast

from aiohttp import web

from broker.core.errors import TOO_MANY, Busy, SwitchError
from broker.forwards.application_channels import is_of_application
from broker.forwards.forwards import OPENING
from broker.forwards.local_end import LocalEnd
from broker.http.answers import error_of
from broker.http.guard import address, asker, from_a_web_page
from broker.http.link_endpoint import Endpoint, Guests, not_upgraded, parting
from broker.http.offer_endpoint import ChannelUser, application, offered
from broker.http.ports import NodePort
from broker.http.refusals import cut_when_refused, refusal
from broker.http.settings import HttpSettings
from broker.http.verbs import STATUS
from broker.intake import Guest
from sapwood.channels.pipes import reset
from sapwood.channels.websocket_pipe import MAX_MESSAGE, OPEN, TAKES, WIDE_MESSAGE, Line, WebSocketPipe
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name

MOST: Final = 1024
"""WebSockets that are open; each keeps a message, and what its library has read ahead. Applications take half
of them, so that operators still come in.
"""
_SIZE: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_NOT_ANY_MORE: Final = "the node's file lets nobody with this token open channels any more"
Cut: TypeAlias = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""As long as it lasts, a change of the file that takes the right away calls what it is given."""


class ChannelEndpoint(Endpoint):
    """Handler of `GET /channel/NODE/NAME`."""

    def __init__(self, node: NodePort, settings: HttpSettings, guests: Guests) -> None:
        super().__init__(node, settings, guests)
        self._open: set[asyncio.Task[None]] = set()
        self._places = 0

    def __repr__(self) -> str:
        return f"<ChannelEndpoint open={len(self._open)}>"

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/channel/{node}/{name}", self.handle, allow_head=False)
        app.router.add_get("/channel", self.handle, allow_head=False)
        app.on_shutdown.append(self._end)

    async def _end(self, _app: web.Application) -> None:
        """The node stops: whoever is at the other end of a channel is told so."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        answer = self._refusal(request)
        if answer is not None:
            return parting(request, answer)
        opened: web.WebSocketResponse = web.WebSocketResponse(
            compress=False, max_msg_size=MAX_MESSAGE + 1, decode_text=True, autoping=False
        )
        if not opened.can_prepare(request):
            return not_upgraded(request, "channels are WebSockets: `sapwood forward` opens them")
        guest = self._guests(request)
        if guest is not None and not guest.may_log_in:
            return parting(request, error_of(Busy(TOO_MANY)))
        if _is_for_operators(request):
            return await self._for_operator(request, opened, guest)
        return await self._for_application(request, opened, guest)

    async def _for_operator(
        self, request: web.Request, opened: web.WebSocketResponse, guest: Guest | None
    ) -> web.StreamResponse:
        cut: Cut = partial(cut_when_refused, request, self._settings.operators, "operator")
        who = asker(request, self._settings.operators)
        work = partial(self._take, request, who.name, who.role, "")
        return await self._run(request, opened, guest, work, cut)

    async def _for_application(
        self, request: web.Request, opened: web.WebSocketResponse, guest: Guest | None
    ) -> web.StreamResponse:
        cuts: list[Callable[[], object]] = []
        ended: list[str] = []

        @contextmanager
        def cut(call: Callable[[], object]) -> Iterator[None]:
            cuts.append(call)
            if ended:  # while the WebSocket was opened
                call()
            yield

        def may_not(why: str) -> None:
            ended.append(why)
            for call in cuts:
                call()

        try:
            async with application(self._node, request, may_not) as who:
                work = partial(self._make, who)
                if "node" in request.match_info:
                    why = who.why_not_take(**request.match_info)
                    work = partial(self._take, request, who.name, "application", why)
                return await self._run(request, opened, guest, work, cut)
        except SwitchError as error:
            return parting(request, error_of(error, STATUS))

    async def _run(
        self,
        request: web.Request,
        opened: web.WebSocketResponse,
        guest: Guest | None,
        work: Callable[[WebSocketPipe], Coroutine[Any, Any, None]],
        cut: Cut,
    ) -> web.StreamResponse:
        """Serve whoever has proved who it is, until that is over or it may not go on."""
        most = MOST if _is_for_operators(request) else MOST // 2
        if self._places >= most:
            return parting(request, error_of(Busy(f"{most} channels are open here: close one")))
        self._places += 1
        try:
            return await self._serve(request, opened, guest, work, cut)
        finally:
            self._places -= 1

    async def _serve(
        self,
        request: web.Request,
        opened: web.WebSocketResponse,
        guest: Guest | None,
        work: Callable[[WebSocketPipe], Coroutine[Any, Any, None]],
        cut: Cut,
    ) -> web.StreamResponse:
        if guest is not None:
            guest.prove()
        writer = await opened.prepare(request)
        line = cast("asyncio.WriteTransport | None", request.transport)
        pipe = WebSocketPipe(opened, most=_most(request), line=Line(line, writer) if line else None)
        task = asyncio.ensure_future(work(pipe))
        self._open.add(task)
        try:
            with cut(partial(task.cancel, _NOT_ANY_MORE)):
                await asyncio.wait([task])
        finally:
            task.cancel()
            self._open.discard(task)
            if pipe.is_broken and line is not None and line.get_write_buffer_size():
                reset(line)  # whoever is there does not read: what waits for it is kept no longer
        return opened

    def _refusal(self, request: web.Request) -> web.Response | None:
        if from_a_web_page(request):
            return web.Response(status=403, text="channels are for programs, not for web pages\n")
        for_operators = _is_for_operators(request)
        if for_operators and (answer := refusal(request, self._settings.operators, "operator")) is not None:
            return answer
        try:
            for part in request.match_info.values():
                node_name(part)
        except InvalidName as error:
            return error_of(error)
        return None

    async def _make(self, who: ChannelUser, pipe: WebSocketPipe) -> None:
        await offered(self._node, pipe, who)

    async def _take(self, request: web.Request, who: str, role: str, why: str, pipe: WebSocketPipe) -> None:
        node, name = request.match_info["node"], request.match_info["name"]
        forwards = self._node.running.access.forwards
        if not _is_for_operators(request):
            why = why or forwards.applications.why_not_take(node)
        end = why or forwards.reach(node, name, f"{who} at {address(request)}")
        if isinstance(end, str):
            await pipe.abort(end)
        elif not await end.until_open(OPENING):
            await pipe.abort(end.why)
        else:
            self._note(request, end, who, role)
            await pipe.say(OPEN)
            await end.run(pipe)

    def _note(self, request: web.Request, end: LocalEnd, who: str, role: str) -> None:
        """The trail keeps by whom it was opened; the channel's number is the same at all nodes of its way."""
        number = end.channel.number.hex() if end.channel is not None else ""
        said = {**request.match_info, "channel": number}
        self._node.running.access.forwards.trail.add(
            who, role, address(request), "GET /channel/{node}/{name}", said
        )


def _most(request: web.Request) -> int:
    """Bytes of a message that whoever connected takes."""
    said = request.headers.get(TAKES, "")
    return min(max(int(said), MAX_MESSAGE), WIDE_MESSAGE) if _SIZE.fullmatch(said) else MAX_MESSAGE


def _is_for_operators(request: web.Request) -> bool:
    """Applications make channels, and take those that others of them have made."""
    name = request.match_info.get("name")
    return name is not None and not is_of_application(name)
