"""Where programs of operators open channels: `GET /channel/NODE/NAME`, a WebSocket that
`broker.forwards.websocket_pipe` describes. It is for whoever may administrate this node.
"""

import asyncio
from functools import partial
from typing import Final, cast

from aiohttp import web

from broker.core.errors import TOO_MANY
from broker.forwards.forwards import OPENING
from broker.forwards.local_end import LocalEnd
from broker.forwards.pipes import reset
from broker.forwards.websocket_pipe import MAX_MESSAGE, OPEN, WebSocketPipe
from broker.http.guard import address, asker, from_a_web_page
from broker.http.link_endpoint import Endpoint, Guests, not_upgraded, parting
from broker.http.ports import NodePort
from broker.http.refusals import cut_when_refused, refusal
from broker.http.settings import HttpSettings
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name

MOST: Final = 1024
"""WebSockets that are open; each keeps a message, and what its library has read ahead."""


class ChannelEndpoint(Endpoint):
    """Handler of `GET /channel/NODE/NAME`."""

    def __init__(self, node: NodePort, settings: HttpSettings, guests: Guests) -> None:
        super().__init__(node, settings, guests)
        self._open: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<ChannelEndpoint open={len(self._open)}>"

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/channel/{node}/{name}", self.handle, allow_head=False)
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
            compress=False, max_msg_size=MAX_MESSAGE + 1, decode_text=True
        )
        if not opened.can_prepare(request):
            return not_upgraded(request, "channels are WebSockets: `sapwood forward` opens them")
        if len(self._open) >= MOST:
            text = f"{MOST} channels are open here: close one"
            return parting(request, web.json_response({"code": "BUSY", "text": text}, status=503))
        guest = self._guests(request)
        if guest is not None:
            if not guest.may_log_in:
                return parting(request, web.json_response({"code": "BUSY", "text": TOO_MANY}, status=503))
            guest.prove()
        await opened.prepare(request)
        pipe = WebSocketPipe(opened)
        task = asyncio.ensure_future(self._serve(request, pipe))
        self._open.add(task)
        try:
            cut = partial(task.cancel, "the node's file lets nobody with this token open channels any more")
            with cut_when_refused(request, self._settings.operators, "operator", cut):
                await asyncio.wait([task])
        finally:
            task.cancel()
            self._open.discard(task)
            line = cast("asyncio.WriteTransport | None", request.transport)
            if pipe.is_broken and line is not None and line.get_write_buffer_size():
                reset(line)  # whoever is there does not read: what waits for it is kept no longer
        return opened

    def _refusal(self, request: web.Request) -> web.Response | None:
        if from_a_web_page(request):
            return web.Response(status=403, text="channels are for programs, not for web pages\n")
        if (answer := refusal(request, self._settings.operators, "operator")) is not None:
            return answer
        try:
            for part in ("node", "name"):
                node_name(request.match_info[part])
        except InvalidName as error:
            return web.json_response({"code": "BAD_REQUEST", "text": str(error)}, status=400)
        return None

    async def _serve(self, request: web.Request, pipe: WebSocketPipe) -> None:
        node, name = request.match_info["node"], request.match_info["name"]
        end = self._node.running.access.forwards.reach(node, name, self._who(request))
        if isinstance(end, str):
            await pipe.abort(end)
        elif not await end.until_open(OPENING):
            await pipe.abort(end.why)
        else:
            self._note(request, end)
            await pipe.say(OPEN)
            await end.run(pipe)

    def _who(self, request: web.Request) -> str:
        return f"{asker(request, self._settings.operators).name} at {address(request)}"

    def _note(self, request: web.Request, end: LocalEnd) -> None:
        """The trail keeps by whom it was opened; the channel's number is the same at all nodes of its way."""
        number = end.channel.number.hex() if end.channel is not None else ""
        who = asker(request, self._settings.operators)
        said = {**request.match_info, "channel": number}
        self._node.running.access.forwards.trail.add(
            who.name, who.role, address(request), "GET /channel/{node}/{name}", said
        )
