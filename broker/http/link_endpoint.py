"""Where children dial: a WebSocket at /link is a carrier, and the node does the rest."""

from collections.abc import Callable, Sequence
from functools import partial

from aiohttp import web

from bridges.carriers import websocket_accept
from bridges.carriers.base import CarrierBroken
from broker.http.guard import address, from_a_web_page
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings
from broker.intake import Guest

Guests = Callable[[web.BaseRequest], Guest | None]


class Endpoint:
    """A path where another protocol follows."""

    def __init__(self, node: NodePort, settings: HttpSettings, guests: Guests) -> None:
        self._node = node
        self._settings = settings
        self._guests = guests


class LinkEndpoint(Endpoint):
    """Handler of `GET /link`."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            self._node.wires.turned_away(address(request), (refusal.text or "").strip())
            return parting(request, refusal)
        try:
            carrier = await accepted(request, self._settings.max_frame, self._guests(request), is_link=True)
        except CarrierBroken as error:
            transport = request.transport
            if transport is not None and not transport.is_closing():  # else it has gone
                text = f"asked {request.path} without a WebSocket upgrade"
                self._node.wires.turned_away(address(request), text)
            return not_upgraded(request, error)
        try:
            await self._node.wires.serve(carrier)
        finally:
            await carrier.close()
        return carrier.response

    def _refusal(self, request: web.Request) -> web.Response | None:
        """Why this caller gets no link here, whoever it is."""
        if not self._settings.children:
            return web.Response(status=403, text="this node is a leaf: it takes no children\n")
        if from_a_web_page(request):
            return web.Response(status=403, text="links are for nodes, not for web pages\n")
        if self._settings.certificates and not websocket_accept.peer_certificate(request):
            text = "a child shows a certificate here, and it showed none (its tls: certificate, key)\n"
            return web.Response(status=401, text=text, headers={"WWW-Authenticate": "Certificate"})
        return None


async def accepted(
    request: web.BaseRequest,
    max_packet: int,
    guest: Guest | None,
    *,
    is_link: bool,
    protocols: Sequence[str] = (),
) -> websocket_accept.AcceptedWebSocket:
    """A carrier on which little is read before its `proven` is called. Raises `CarrierBroken`."""
    if guest is None:
        return await websocket_accept.accept(request, max_packet=max_packet, protocols=protocols)
    return await websocket_accept.accept(
        request,
        max_packet=max_packet,
        when_proven=partial(guest.prove, is_link=is_link),
        refusal=lambda: guest.refusal,
        is_stranger=lambda: not guest.proved,
        protocols=protocols,
    )


def not_upgraded(request: web.BaseRequest, why: CarrierBroken | str) -> web.Response:
    """The answer to whoever asks for a WebSocket in a way that no WebSocket follows."""
    return parting(request, web.Response(status=426, text=f"{why}\n", headers={"Upgrade": "websocket"}))


def parting(request: web.BaseRequest, response: web.Response) -> web.Response:
    """Where another protocol was asked for and does not follow, nothing does: nobody looks at it any more."""
    if "Upgrade" in request.headers:
        response.force_close()
    return response
