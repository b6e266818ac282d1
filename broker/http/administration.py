"""What an operator tells a node: leave the tree, forget a child. Needs the token, but over loopback."""

from aiohttp import web

from broker.core.errors import SwitchError
from broker.http.guard import from_a_web_page, may_administrate
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings


class AdministrationEndpoint:
    """Handlers of `POST /api/node/…`. Answers are JSON; errors have a `text`."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._node = node
        self._settings = settings

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_post("/api/node/leave", self.leave)
        router.add_post("/api/node/forget/{name}", self.forget)

    def _refusal(self, request: web.Request) -> web.Response | None:
        if may_administrate(request, self._settings.token) and not from_a_web_page(request):
            return None
        text = (
            "administration needs the header 'Authorization: Bearer TOKEN', or a connection from this machine"
        )
        return web.json_response({"text": text}, status=403)

    async def leave(self, request: web.Request) -> web.StreamResponse:
        """Leave the tree for good; the node hands over what it has, says goodbye and stops."""
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            return web.json_response(await self._node.leave())
        except SwitchError as error:
            return web.json_response({"text": error.text}, status=409)

    async def forget(self, request: web.Request) -> web.StreamResponse:
        """Say goodbye in place of a child that will not come back."""
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            return web.json_response(self._node.forget(request.match_info["name"]))
        except SwitchError as error:
            return web.json_response({"text": error.text}, status=404 if error.code == "NOT_FOUND" else 409)
