"""An aiohttp application serves all but the verbs, on the connections that the port hands over.

Wrinkle: aiohttp closes idle connections. A logged-in connection is never closed for idleness, so it is told
to keep all; dead ones are found by probing (see `probes`).
Wrinkle: aiohttp unpacks bodies as they come, also those that nobody reads. It is told not to (`plain_body`).
Wrinkle: no access log: a path may hold a session's token, and that is in no log.
"""

import asyncio
import logging
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

_FOR_EVER: Final = 366 * 86_400.0
TO_FINISH: Final = 2.0
"""Seconds that requests have when the port closes."""
_NEVER_REACHED: Final = 60.0


class _NoPaths(logging.Filter):
    """aiohttp quotes requests that it cannot read; with them a token would be in the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True


def _request_log() -> logging.Logger:
    logger = logging.getLogger("sapwood.http.requests")
    if not logger.filters:
        logger.addFilter(_NoPaths())
    return logger


@web.middleware
async def tell_of_memory(request: web.Request, handler: Any) -> web.StreamResponse:
    """Wrinkle: aiohttp answers 500 to whatever a handler raises, and goes on."""
    try:
        response: web.StreamResponse = await handler(request)
    except MemoryError as error:
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"no memory for {request.path[:80]}", "exception": error}
        )
        raise
    return response


class Application:
    """Runs an application of aiohttp.

    Wrinkle: aiohttp can end requests that are late when it closes, but stumbles over one that ends by itself
    in that very moment, and logs an error. So they are ended here, before it would.
    """

    def __init__(self, application: web.Application) -> None:
        self._under_way: set[asyncio.Task[object]] = set()
        application.middlewares.insert(0, self._remember)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=_request_log(),
            keepalive_timeout=_FOR_EVER,
            auto_decompress=False,
            shutdown_timeout=_NEVER_REACHED,
        )

    def __repr__(self) -> str:
        return f"<Application with {len(self._under_way)} requests>"

    async def setup(self) -> None:
        await self._runner.setup()

    def protocol(self) -> asyncio.Protocol:
        """The reader of one more connection."""
        assert self._runner.server is not None
        return self._runner.server()

    @web.middleware
    async def _remember(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A request is under way until its answer has left, which is after this."""
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await handler(request)
        except ConnectionError:
            if request.transport is not None and not request.transport.is_closing():
                raise
            return web.Response(status=400)  # who asked has gone: aiohttp would log a mistake of ours

    async def cleanup(self) -> None:
        ending = asyncio.ensure_future(self._runner.cleanup())
        while not (await asyncio.wait((ending,), timeout=TO_FINISH))[0]:
            for task in list(self._under_way):
                task.cancel()
        await ending
