"""Answers to whoever may not look at a node or administrate it."""

import json

from aiohttp import web

from broker.http.guard import bearer, why_not


class WrongToken(web.Response):
    """The answer to a request with a token that is none of this node's: it is slow to come."""


def refusal(request: web.BaseRequest, token: str) -> web.Response | None:
    """The answer that says no; None if the request may. `token`: the configured one, '' = there is none."""
    why = why_not(request, token)
    if why is None:
        return None
    code, text = why
    body = json.dumps({"code": code, "text": f"{request.path[:200]}: {text}"})
    answer = WrongToken if token and bearer(request) else web.Response
    return answer(text=body, status=403, content_type="application/json")
