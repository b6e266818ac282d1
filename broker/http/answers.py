"""Answers in JSON: values that were asked for, and errors."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from broker.core.errors import SwitchError
from sapwood.protocol.errors import SapwoodError

_STATUS: Final = {
    "NOT_FOUND": 404,
    "BAD_REQUEST": 400,
    "GIVEN": 409,
    "REFUSED": 409,
    "TOO_LARGE": 413,
    "QUEUE_FULL": 429,
    "BUSY": 503,
    "UNREACHABLE": 504,
}
encode: Final = msgspec.json.Encoder(enc_hook=str).encode


def answer_of(value: Any) -> web.Response:
    """The value that was asked for. Nobody on the way keeps it."""
    headers = {"Cache-Control": "no-store"}
    return web.Response(body=encode(value), content_type="application/json", headers=headers)


def error_of(error: SapwoodError, statuses: Mapping[str, int] = _STATUS) -> web.Response:
    code, text = (error.code, error.text) if isinstance(error, SwitchError) else ("BAD_REQUEST", str(error))
    return web.json_response(
        {"code": code, "text": text.removeprefix(f"{code}: ")}, status=statuses.get(code, 409)
    )
