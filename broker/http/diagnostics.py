"""`GET /`: what stands here. A browser that asks for HTML is sent to the dashboard, a program gets JSON."""

from typing import Any, Final

import msgspec
from aiohttp import web

from broker.http.guard import may_administrate
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings

_WHERE: Final = {"documentation": "/docs", "dashboard": "/dashboard", "status": "/api/status"}
_FIGURES: Final = ("name", "tree", "role", "version", "start", "uptime_s", "sessions", "queues", "dead")


class Diagnostics:
    """Handler of `GET /`. Figures for whoever may see the status, the way on for everybody."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if _wants_html(request.headers.get("Accept", "")):
            return web.Response(status=302, headers={"Location": "/dashboard"})
        found: dict[str, Any] = {"node": "sapwood", "ready": self._node.ready, **_WHERE}
        if may_administrate(request, self._settings.token):
            status = self._node.status()
            found |= {name: _figure(status[name]) for name in _FIGURES if name in status}
        return web.Response(body=msgspec.json.encode(found) + b"\n", content_type="application/json")


def _figure(value: Any) -> Any:
    """Of a list, how many there are."""
    return len(value) if isinstance(value, (list, tuple, dict)) else value


def _wants_html(accept: str) -> bool:
    """Browsers name it; `*/*` is what programs say."""
    return any(
        kind.partition(";")[0].strip() in ("text/html", "application/xhtml+xml") for kind in accept.split(",")
    )
