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
        """200 when the node takes messages, else 503."""
        ready = self._node.ready
        return web.Response(status=200 if ready else 503, text="ready\n" if ready else "not ready\n")
