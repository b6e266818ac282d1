"""Answers to whoever may not look at a node or administrate it."""

import json

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
