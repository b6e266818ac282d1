"""`GET /`: the node's state. A browser that asks for HTML is sent to the dashboard, a program gets JSON."""

import platform
from typing import Any, Final

import msgspec
from aiohttp import web

from broker.http.api.description import node_version
from broker.http.guard import may_administrate
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings

_WHERE: Final = {"documentation": "/docs", "dashboard": "/dashboard", "status": "/api/status"}


class Diagnostics:
    """Handler of `GET /`. A dump for callers that may see the status; else where to look on."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if _wants_html(request.headers.get("Accept", "")):
            return web.Response(status=302, headers={"Location": "/dashboard"})
        found: dict[str, Any] = {"node": "sapwood", "ready": self._node.ready, **_WHERE}
        if may_administrate(request, self._settings.token):
            found |= {"version": node_version(), "python": platform.python_version()}
            found |= {"system": platform.platform(), **await self._node.status()}
        return web.Response(body=msgspec.json.encode(found) + b"\n", content_type="application/json")


def _wants_html(accept: str) -> bool:
    """Browsers name it; `*/*` is what programs say."""
    return any(
        kind.partition(";")[0].strip() in ("text/html", "application/xhtml+xml") for kind in accept.split(",")
    )
