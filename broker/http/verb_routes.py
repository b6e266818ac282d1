"""The verbs of the link-level protocol on connections that aiohttp reads."""

import asyncio

from aiohttp import web

from broker.http.heads import parts_of, path_of
from broker.http.verbs import METHODS, NOTE, VerbAnswer, VerbRequest, Verbs, answer_of, facts_of, said
from sapwood.protocol.errors import SapwoodError


class VerbRoutes:
    """Serves what `verbs` does."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def __repr__(self) -> str:
        return f"<VerbRoutes to {self._verbs!r}>"

    def add_to(self, router: web.UrlDispatcher) -> None:
        for verb, method in METHODS.items():
            for path in (f"/{verb}", f"/{verb}/{{rest:.*}}"):
                router.add_route(method, path, self._asked)

    async def _asked(self, request: web.Request) -> web.StreamResponse:
        future: asyncio.Future[VerbAnswer] = asyncio.get_running_loop().create_future()

        def reply(answer: VerbAnswer) -> None:
            if not future.done():
                future.set_result(answer)

        def lost() -> None:
            future.cancel()

        try:
            line = self._verbs.bindings.line(request)
            parts = parts_of(path_of(request.raw_path.encode(errors="surrogateescape")))
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            return _response(said(413, f"TOO_LARGE: {error.text}"))
        except SapwoodError as error:
            return _response(answer_of(error))
        line.watch(lost)
        try:
            self._verbs.perform(line, VerbRequest(request.method, parts, body, facts_of(request)), reply)
            return _response(await future)
        finally:
            line.unwatch(lost)


def _response(answer: VerbAnswer) -> web.Response:
    response = web.Response(status=answer.status, body=answer.body)
    if answer.content_type:
        response.headers["Content-Type"] = answer.content_type
    if answer.note:
        response.headers[NOTE] = answer.note
    return response
