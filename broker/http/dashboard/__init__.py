"""The operator's pages: static files of this package, served as they are under `/dashboard/`.

Law: only the files that are listed at the start are served, by their exact names, so that no path leads out
of the folder. Nothing is fetched from elsewhere, no script or style stands in a page, and no data becomes
HTML: the policy below makes browsers refuse all three.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

from aiohttp import web

_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_START: Final = "index.html"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, as it is sent. `tag`: changes with its content."""

    body: bytes
    content_type: str
    tag: str


@cache
def load_pages() -> Mapping[str, StaticFile]:
    """All files of the dashboard by their paths below `/dashboard/`. Read once, whoever asks."""
    return MappingProxyType(dict(_found(files("broker.http.dashboard") / "static", "")))


def _found(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    pages: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            pages += _found(entry, f"{prefix}{entry.name}/")
        elif content_type := _TYPES.get("." + entry.name.rpartition(".")[2]):
            body = entry.read_bytes()
            tag = hashlib.sha256(body).hexdigest()[:16]
            pages.append((prefix + entry.name, StaticFile(body, content_type, tag)))
    return pages


class Dashboard:
    """Handlers of `GET /dashboard` and `GET /dashboard/…`. The files hold no secrets and need no token."""

    def __init__(self) -> None:
        self._pages = load_pages()

    def __repr__(self) -> str:
        return f"<Dashboard of {len(self._pages)} files>"

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/dashboard", self.enter)
        router.add_get("/dashboard/{path:.*}", self.page)

    async def enter(self, _request: web.Request) -> web.StreamResponse:
        """The pages name each other relative to the folder, so that a proxy may put them elsewhere."""
        return web.Response(status=302, headers={"Location": "dashboard/"})

    async def page(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"] or _START
        page = self._pages.get(path)
        if page is None:
            return web.Response(status=404, text="the dashboard has no such page: see /dashboard/\n")
        headers = {**_HEADERS, "ETag": f'"{page.tag}"'}
        if any(tag.value == page.tag for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=page.body, content_type=page.content_type, charset="utf-8", headers=headers)
