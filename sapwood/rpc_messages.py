"""Requests and replies on the wire: JSON in the payload, so that any client of a queue can take part.

    request  {"method": "level", "parameters": {"article": 4711}, "interface": "stock", "version": "1.2"}
    reply    {"result": 12}   or   {"error": {"code": "NO_SUCH_ARTICLE", "message": "…", "data": …}}

`interface` and `version` may be absent. The correlation id and the address of the reply are the message's
own. Law: unknown keys are ignored; keys are only added, and are optional.
"""

from typing import Any, Final

import msgspec

from sapwood.errors import BadReply, ServiceError

CONTENT_TYPE: Final = "application/json"
BAD_REQUEST: Final = "BAD_REQUEST"
UNKNOWN_INTERFACE: Final = "UNKNOWN_INTERFACE"
UNKNOWN_VERSION: Final = "UNKNOWN_VERSION"
UNKNOWN_METHOD: Final = "UNKNOWN_METHOD"
BAD_PARAMETERS: Final = "BAD_PARAMETERS"
BAD_RESULT: Final = "BAD_RESULT"
RESULT_TOO_LARGE: Final = "RESULT_TOO_LARGE"
FAILED: Final = "FAILED"
_UNREADABLE: Final = (msgspec.DecodeError, ValueError, RecursionError)
UNWRITABLE: Final = (msgspec.EncodeError, TypeError, ValueError, OverflowError, RecursionError)


class Request(msgspec.Struct, omit_defaults=True):
    """What is asked of a service."""

    method: str
    parameters: dict[str, Any] = {}
    interface: str = ""
    version: str = ""


class Fault(msgspec.Struct):
    """Why there is no result. `code` is for programs, `message` for people, `data` for both."""

    code: str
    message: str = ""
    data: Any = None


class _Result(msgspec.Struct):
    result: Any = None


class _Error(msgspec.Struct):
    error: Fault


class _Reply(msgspec.Struct):
    result: Any = msgspec.UNSET
    error: Fault | None = None


_encoder = msgspec.json.Encoder()
_request_decoder = msgspec.json.Decoder(Request)
_reply_decoder = msgspec.json.Decoder(_Reply)


def encode_request(request: Request) -> bytes:
    """Raises `TypeError` for parameters that JSON cannot say."""
    try:
        return _encoder.encode(request)
    except UNWRITABLE as error:
        raise TypeError(f"the parameters of {request.method!r} cannot be written as JSON: {error}") from None


def decode_request(payload: bytes) -> Request:
    """Raises `ServiceError` BAD_REQUEST: it is the answer."""
    try:
        return _request_decoder.decode(payload)
    except _UNREADABLE as error:
        raise ServiceError(BAD_REQUEST, f"not a request: {error}") from None


def encode_result(result: Any) -> bytes:
    """Raises `ServiceError` BAD_RESULT for what JSON cannot say."""
    try:
        return _encoder.encode(_Result(result))
    except UNWRITABLE as error:
        raise ServiceError(BAD_RESULT, f"the result cannot be written as JSON: {error}") from None


def encode_error(error: ServiceError) -> bytes:
    """What of its `data` JSON cannot say is left out."""
    try:
        return _encoder.encode(_Error(Fault(error.code, error.message, error.data)))
    except UNWRITABLE:
        return _encoder.encode(_Error(Fault(error.code, error.message)))


def decode_reply(payload: bytes) -> Any:
    """The result. Raises `ServiceError` for an error answer, `BadReply` for what is neither."""
    try:
        reply = _reply_decoder.decode(payload)
    except _UNREADABLE as error:
        raise BadReply(f"the reply is none: {error}") from None
    if reply.error is not None:
        raise ServiceError(reply.error.code, reply.error.message, reply.error.data)
    if reply.result is msgspec.UNSET:
        raise BadReply("the reply has neither a result nor an error")
    return reply.result
