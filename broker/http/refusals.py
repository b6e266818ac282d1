"""Answers to whoever may not look at a node or administrate it, and the end of what it has open.

Law: a right that the file takes away ends at once, and one that a token gives ends with it. Answers that last
stand in `cut_when_refused`.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from broker.core.errors import BadRequest
from broker.entrance.operators import Operators
from broker.http.guard import asker, bearer, why_not
from broker.http.verbs import too_large
from config.operators import Role

_LOOK_EVERY: Final = 60.0
_PACKINGS: Final = frozenset(("br", "compress", "deflate", "gzip", "x-compress", "x-gzip", "zstd"))
"""Some clients write 'utf-8' into the header; such a body is plain."""
_LOOK_AGAIN: Final = 0.1
"""Seconds between looks at the clock: it may be set, and a token ends by it."""


class WrongToken(web.Response):
    """The answer to a request with a token that is none of this node's: it is slow to come.

    `why`: for the log, '' = it is none of those that the node knows.
    """

    why = ""


def refusal(request: web.BaseRequest, operators: Operators, role: Role = "viewer") -> web.Response | None:
    """The answer that says no; None if the request may. `role`: the least that is needed."""
    why = why_not(request, operators, role)
    if why is None:
        return None
    code, text = why
    body = json.dumps({"code": code, "text": f"{request.path[:200]}: {text}"})
    wrong = code == "TOKEN_NEEDED" and operators.ask_all and bearer(request)
    answer = (WrongToken if wrong else web.Response)(text=body, status=403, content_type="application/json")
    if isinstance(answer, WrongToken):
        answer.why = operators.why_nobody(bearer(request))
    return answer


async def plain_body(request: web.Request, most: int) -> bytes:
    """The body of a request. Raises `SwitchError` if it is packed, or has more than `most` bytes.

    Nobody's body is unpacked: two megabytes may hold gigabytes.
    """
    packed = request.headers.get("Content-Encoding", "")
    if not _PACKINGS.isdisjoint(each.strip().lower() for each in packed.split(",")):
        raise BadRequest(f"Content-Encoding: {packed[:40]}: expected a body that is not packed")
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(most + 1, most) from None


@contextmanager
def cut_when_refused(
    request: web.BaseRequest,
    operators: Operators,
    role: Role = "viewer",
    cut: Callable[[], object] | None = None,
) -> Iterator[None]:
    """As long as this lasts, a change of the file that takes away the right to ask calls `cut`; so does the
    end of the token.

    Without one the connection is lost, with whatever has not been read, and the task that answers ends.
    """
    task = asyncio.current_task()

    def lose() -> None:
        if request.transport is not None:
            request.transport.abort()
        if task is not None:
            task.cancel()

    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        if timer is not None:
            timer.cancel()
        if why_not(request, operators, role) is not None:
            (cut or lose)()
        elif (until := asker(request, operators).until) < math.inf:
            timer = loop.call_later(min(max(until - time.time(), _LOOK_AGAIN), _LOOK_EVERY), look)

    with operators.when_changed(look):
        try:
            look()  # the file may have changed since the answer began
            yield
        finally:
            if timer is not None:
                timer.cancel()
