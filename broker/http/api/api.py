"""Serves the operations: who may ask, what is read, what is answered when something is wrong.

An application may be built before the node runs.
"""

from typing import Any

from aiohttp import web

from broker.api.asking import carry_out
from broker.api.operation import JSON, NDJSON, Operation
from broker.api.table import OPERATIONS
from broker.core.errors import SwitchError
from broker.http.answers import answer_of, encode, error_of
from broker.http.api.description import describe
from broker.http.api.following import stream
from broker.http.guard import address, asker
from broker.http.ports import NodePort
from broker.http.refusals import cut_when_refused, plain_body, refusal
from broker.http.settings import HttpSettings


class Api:
    """All operations of `/api`, but those that are only described."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings
        self._description = b""

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/openapi.json", self.description, allow_head=False)
        for operation in OPERATIONS:
            if operation.work is not None:
                handler = self._handler(operation)
                path = operation.path.replace("}", ":[^/]+}")  # aiohttp's own lets no name have braces
                router.add_route(operation.method, path, handler)
                if operation.method == "GET" and operation.media == JSON:
                    router.add_head(path, handler)

    async def description(self, request: web.Request) -> web.StreamResponse:
        """The OpenAPI description, made when somebody first asks."""
        refused = refusal(request, self._settings.operators)
        if refused is not None:
            return refused
        if not self._description:
            self._description = encode(describe(OPERATIONS))
        return web.Response(body=self._description, content_type="application/json")

    def _handler(self, operation: Operation) -> Any:
        operators, most = self._settings.operators, self._settings.max_message

        async def handle(request: web.Request) -> web.StreamResponse:
            data = b""
            refused = refusal(request, operators, operation.least_role)
            try:
                if refused is None and operation.body is not None:
                    data = await plain_body(request, most)  # may take long: the file may have changed by then
                    refused = refusal(request, operators, operation.least_role)
                if refused is not None:
                    return refused
                who = asker(request, operators)
                values = operation.read(request.match_info, request.query, data)
                answer = await carry_out(self._node.running, operation, values, who, address(request))
                if operation.media == NDJSON:
                    with cut_when_refused(request, operators, operation.least_role):
                        return await stream(answer, request)
            except SwitchError as error:
                return error_of(error)
            return answer_of(answer)

        return handle
