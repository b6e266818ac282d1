"""A stream of the node's state for pages and programs that stay: `GET /api/live`, one JSON object a line.

    GET /api/live?parts=status,tree&interval=1
    {"at": 1795251305123, "skipped": 0, "status": {…}, "tree": {…}}

`at`: milliseconds since 1970. `skipped`: updates that this reader missed so far because it read too slowly.
`parts`: which objects: `status` (the default), `tree`, `queues` (those with most messages), as the API has
them. `interval`: seconds between updates.

Law: nothing piles up. There is one update under way for each reader; the next is made when that one has
left, from the state of then. A reader that takes nothing for long is cut off. What several readers see is
made once. A stream ends with its client or with the node.
"""

import asyncio
import contextlib
import inspect
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from broker.api import queues, tree
from broker.api.pages import MOST, Cut
from broker.core.errors import BadRequest, Busy
from broker.http.answers import encode, error_of
from broker.http.api.following import stream
from broker.http.ports import NodePort
from broker.http.refusals import cut_when_refused, refusal
from broker.http.settings import HttpSettings

MOST_READERS: Final = 64
SHORTEST_INTERVAL: Final = 0.2
LONGEST_INTERVAL: Final = 60.0
_CHILDREN: Final = 5 * MOST
Parts = Mapping[str, Callable[[], Any | Awaitable[Any]]]


def node_parts(node: NodePort) -> Parts:
    """What a node tells. An application may be built before the node runs."""
    return {
        "status": node.status,
        "tree": lambda: tree.own(node.running, Cut(_CHILDREN)),
        "queues": lambda: queues.listed(node.running, "", "messages", Cut(MOST)),
    }


class _Part:
    """One object of the stream, encoded at most once in `SHORTEST_INTERVAL`, however many read it."""

    def __init__(self, make: Callable[[], Any | Awaitable[Any]]) -> None:
        self._make = make
        self._body = b""
        self._made_at = -math.inf
        self._making = asyncio.Lock()

    async def body(self) -> bytes:
        async with self._making:
            now = asyncio.get_running_loop().time()
            if now - self._made_at >= SHORTEST_INTERVAL:
                made = self._make()
                self._body = encode(await made if inspect.isawaitable(made) else made)
                self._made_at = now
        return self._body


class LiveEndpoint:
    """Handler of `GET /api/live`. `parts`: by name, what makes each object, or something to await."""

    def __init__(self, settings: HttpSettings, parts: Parts) -> None:
        self._settings = settings
        self._parts = {name: _Part(make) for name, make in parts.items()}
        self._readers = 0
        self._ending = asyncio.Event()

    def __repr__(self) -> str:
        return f"<LiveEndpoint of {', '.join(self._parts)}: {self._readers} readers>"

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/api/live", self.live, allow_head=False)
        app.on_shutdown.append(self._end)

    async def _end(self, _app: web.Application) -> None:
        """The node stops: nobody waits for an update any more."""
        self._ending.set()

    async def live(self, request: web.Request) -> web.StreamResponse:
        if (answer := refusal(request, self._settings.operators)) is not None:
            return answer
        names = [name for name in request.query.get("parts", "status").split(",") if name]
        unknown = [name for name in names if name not in self._parts]
        if unknown or not names:
            known = ", ".join(self._parts)
            return error_of(BadRequest(f"parts: {unknown[:5]} is not among {known}"))
        interval = _interval(request.query.get("interval", "1"))
        if interval is None:
            return error_of(BadRequest("interval: expected seconds, as 1 or 0.5"))
        if self._readers >= MOST_READERS:
            return error_of(Busy(f"{MOST_READERS} others are reading this stream: close one"))
        self._readers += 1
        try:
            with cut_when_refused(request, self._settings.operators):
                return await stream(self._updates(names, interval), request)
        finally:
            self._readers -= 1

    async def _updates(self, names: list[str], interval: float) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        due, skipped, ends = loop.time(), 0, False
        while not ends:
            yield await self._update(names, skipped)
            missed = max(0, math.floor((loop.time() - due) / interval))
            skipped += missed
            due += (missed + 1) * interval
            ends = await self._ends_within(due - loop.time())

    async def _update(self, names: list[str], skipped: int) -> bytes:
        parts = [b',"%b":%b' % (name.encode(), await self._parts[name].body()) for name in names]
        return b'{"at":%d,"skipped":%d%b}\n' % (time.time() * 1000, skipped, b"".join(parts))

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await self._ending.wait()
        return self._ending.is_set()


def _interval(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return min(max(seconds, SHORTEST_INTERVAL), LONGEST_INTERVAL) if math.isfinite(seconds) else None
