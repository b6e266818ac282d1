"""`GET /`: the node's state. A browser that asks for HTML is sent to the dashboard, a program gets JSON."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from aiohttp import web

from broker.api import sessions
from broker.api.pages import MOST, Cut
from broker.core.errors import NotLoggedIn
from broker.http.answers import encode
from broker.http.api.description import node_version
from broker.http.bindings import Bindings
from broker.http.guard import from_a_web_page, why_not
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings

_WHERE: Final = {"documentation": "/docs", "dashboard": "/dashboard", "status": "/api/status"}
_PARTS: Final = (
    "aiohttp", "cryptography", "msgspec", "paho-mqtt", "pika", "pyjwt", "uvloop", "websockets", "zstandard",
)  # fmt: skip


class Diagnostics:
    """Handler of `GET /`. A dump for whoever may see the status, or has logged in on this connection with
    every right; else where to look on.
    """

    def __init__(self, node: NodePort, settings: HttpSettings, bindings: Bindings) -> None:
        self._node = node
        self._settings = settings
        self._bindings = bindings

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if _wants_html(request.headers.get("Accept", "")):
            return web.Response(status=302, headers={"Location": "/dashboard"})
        found: dict[str, Any] = {"node": "sapwood", "ready": self._node.ready, **_WHERE}
        if why_not(request, self._settings.operators) is None or self._is_logged_in(request):
            found |= await self._dump()
        return web.Response(body=encode(found) + b"\n", content_type="application/json")

    def _is_logged_in(self, request: web.Request) -> bool:
        """As an application that may do everything."""
        try:
            rights = self._bindings.find(request).connection.rights
        except NotLoggedIn:
            return False
        return rights is not None and not rights.limited and not from_a_web_page(request)

    async def _dump(self) -> dict[str, Any]:
        """All that a report of a fault needs; tokens are masked, and the file names no secret."""
        listed = await sessions.listed(self._node.running, Cut(MOST))
        return {
            "version": node_version(),
            "python": platform.python_version(),
            "system": platform.platform(),
            "versions": {name: found for name in _PARTS if (found := _version(name))},
            "settings": self._node.settings,
            **await self._node.status(),
            "session_list": listed.sessions,
            "session_list_more": listed.more,
        }


def _version(name: str) -> str:
    """Of a distribution, '' = it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _wants_html(accept: str) -> bool:
    """Browsers name it; `*/*` is what programs say."""
    return any(
        kind.partition(";")[0].strip() in ("text/html", "application/xhtml+xml") for kind in accept.split(",")
    )
