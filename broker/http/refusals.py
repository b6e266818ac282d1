"""Answers to whoever may not look at a node or administrate it, and the end of what it has open.

Law: a right that the file takes away ends at once. Answers that last stand in `cut_when_refused`.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from broker.entrance.operators import Operators
from broker.http.guard import bearer, why_not
from config.operators import Role


class WrongToken(web.Response):
    """The answer to a request with a token that is none of this node's: it is slow to come."""


def refusal(request: web.BaseRequest, operators: Operators, role: Role = "viewer") -> web.Response | None:
    """The answer that says no; None if the request may. `role`: the least that is needed."""
    why = why_not(request, operators, role)
    if why is None:
        return None
    code, text = why
    body = json.dumps({"code": code, "text": f"{request.path[:200]}: {text}"})
    wrong = code == "TOKEN_NEEDED" and operators.ask_all and bearer(request)
    answer = WrongToken if wrong else web.Response
    return answer(text=body, status=403, content_type="application/json")


@contextmanager
def cut_when_refused(
    request: web.BaseRequest,
    operators: Operators,
    role: Role = "viewer",
    cut: Callable[[], object] | None = None,
) -> Iterator[None]:
    """As long as this lasts, a change of the file that takes away the right to ask calls `cut`.

    Without one the connection is lost, with whatever has not been read, and the task that answers ends.
    """
    task = asyncio.current_task()

    def lose() -> None:
        if request.transport is not None:
            request.transport.abort()
        if task is not None:
            task.cancel()

    def look() -> None:
        if why_not(request, operators, role) is not None:
            (cut or lose)()

    with operators.when_changed(look):
        look()  # the file may have changed since the answer began
        yield
