"""Whether the node is well, for supervisors: `/healthz`, `/readyz`."""

from aiohttp import web

from broker.http.ports import NodePort


class StatusEndpoint:
    """Handlers of the two."""

    def __init__(self, node: NodePort) -> None:
        self._node = node

    async def health(self, _request: web.Request) -> web.StreamResponse:
        """200 as long as the event loop turns."""
        return web.Response(text="ok\n")

    async def readiness(self, _request: web.Request) -> web.StreamResponse:
        """200 when the node takes messages, else 503; so does a satellite that no core is linked with."""
        if not self._node.ready:
            return web.Response(status=503, text="not ready\n")
        if self._node.disconnected:
            return web.Response(status=503, text="disconnected\n")
        return web.Response(text="ready\n")
