"""The way of a message or a task through the tree: `GET /api/trace/message/{id}`, `…/task/{task}`."""

from aiohttp import web

from broker.core.errors import SwitchError
from broker.http.guard import refusal
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings


class TraceEndpoint:
    """`GET /api/trace/message/{id}` and `/api/trace/task/{task}`."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/trace/message/{id}", self.message)
        router.add_get("/api/trace/task/{task}", self.task)

    async def message(self, request: web.Request) -> web.StreamResponse:
        """Each hop of one message's way."""
        refused = refusal(request, self._settings.token)
        if refused is not None:
            return refused
        try:
            return web.json_response(await self._node.tracing.message(request.match_info["id"]))
        except SwitchError as error:
            return web.json_response({"code": error.code, "text": error.text}, status=400)

    async def task(self, request: web.Request) -> web.StreamResponse:
        """All requests and replies of a task, at all nodes that had to do with it."""
        refused = refusal(request, self._settings.token)
        if refused is not None:
            return refused
        try:
            return web.json_response(await self._node.tracing.task(request.match_info["task"]))
        except SwitchError as error:
            return web.json_response({"code": error.code, "text": error.text}, status=400)
