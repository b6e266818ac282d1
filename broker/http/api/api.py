"""Serves the operations: who may ask, what is read, what is answered when something is wrong.

The node's administration is looked up at each request: an application may be built before the node has one.
"""

from typing import Any, Final

import msgspec
from aiohttp import web

from broker.core.errors import SwitchError
from broker.http.api.description import describe
from broker.http.api.operations import Handler, Operation
from broker.http.api.table import operations
from broker.http.guard import refusal
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings

_STATUS: Final = {
    "NOT_FOUND": 404,
    "BAD_REQUEST": 400,
    "GIVEN": 409,
    "REFUSED": 409,
    "BUSY": 503,
    "UNREACHABLE": 504,
}
_encoder = msgspec.json.Encoder(enc_hook=str)


class Api:
    """All operations of `/api`, but those that are only described."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._settings = settings
        self.operations = operations(node)
        self._description = b""

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/openapi.json", self.description, allow_head=False)
        for operation in self.operations:
            if operation.handler is not None:
                handler = self._handler(operation, operation.handler)
                router.add_route(operation.method, operation.path, handler)

    async def description(self, request: web.Request) -> web.StreamResponse:
        """The OpenAPI description, made when somebody first asks."""
        refused = refusal(request, self._settings.token)
        if refused is not None:
            return refused
        if not self._description:
            self._description = _encoder.encode(describe(self.operations))
        return web.Response(body=self._description, content_type="application/json")

    def _handler(self, operation: Operation, work: Handler) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            refused = refusal(request, self._settings.token)
            if refused is not None:
                return refused
            try:
                answer = await work(await operation.read(request))
            except SwitchError as error:
                return error_of(error)
            if isinstance(answer, web.StreamResponse):
                return answer
            return web.Response(
                body=_encoder.encode(answer),
                content_type="application/json",
                headers={"Cache-Control": "no-store"},
            )

        return handle


def error_of(error: SwitchError) -> web.Response:
    return web.json_response(
        {"code": error.code, "text": error.text.removeprefix(f"{error.code}: ")},
        status=_STATUS.get(error.code, 409),
    )
