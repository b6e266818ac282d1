"""Where children dial: a WebSocket at /link is a carrier, and the node does the rest."""

from aiohttp import web

from bridges import ws
from bridges.carrier import CarrierBroken
from broker.http.guard import address, from_a_web_page
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings


class LinkEndpoint:
    """Handler of `GET /link`."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings

    async def handle(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            self._node.wires.turned_away(address(request), (refusal.text or "").strip())
            return refusal
        try:
            carrier = await ws.accept(request, max_packet=self._settings.max_frame)
        except CarrierBroken as error:
            self._node.wires.turned_away(
                address(request), f"asked {request.path} without a WebSocket upgrade"
            )
            return web.Response(status=426, text=f"{error}\n", headers={"Upgrade": "websocket"})
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
        if self._settings.certificates and not ws.peer_certificate(request):
            text = "a child shows a certificate here, and it showed none (its tls: certificate, key)\n"
            return web.Response(status=401, text=text, headers={"WWW-Authenticate": "Certificate"})
        return None
