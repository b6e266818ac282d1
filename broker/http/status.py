"""How the node is: for people and programs (`/api/status`), and for supervisors (`/healthz`, `/readyz`)."""

import msgspec
from aiohttp import web

from broker.http.guard import refusal
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings

_encoder = msgspec.json.Encoder(enc_hook=str)


class StatusEndpoint:
    """Handlers of the three."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings

    async def status(self, request: web.Request) -> web.StreamResponse:
        """Everything the node says of itself, as JSON. Needs the token, but over loopback."""
        refused = refusal(request, self._settings.token)
        if refused is not None:
            return refused
        return web.Response(body=_encoder.encode(self._node.status()), content_type="application/json")

    async def health(self, _request: web.Request) -> web.StreamResponse:
        """200 as long as the event loop turns."""
        return web.Response(text="ok\n")

    async def readiness(self, _request: web.Request) -> web.StreamResponse:
        """200 when the node takes messages, else 503."""
        ready = self._node.ready
        return web.Response(status=200 if ready else 503, text="ready\n" if ready else "not ready\n")
