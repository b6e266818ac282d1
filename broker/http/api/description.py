"""The OpenAPI 3.1 description of the API, made of its operations and of the types of its answers."""

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import msgspec

from broker.api.operation import JSON, Error, Operation, Parameter

_WHERE: Final = "#/components/schemas/{name}"
_SUFFIX: Final = re.compile(rb'(\w)Answer"')
"""Of types that are called so because the core has the plain name; clients know them by that."""
_TEXT: Final = """\
State, administration and messages of one Sapwood node. Times are in seconds, sizes in bytes.

Where the node has a token every call needs it. Without one they are answered over a direct connection from
this machine only, under one of its names. They are refused to web pages of other origins. Lists have bounds:
`next` of an answer goes into `after` for the page that follows. Bodies are not packed (`Content-Encoding`).

Requests that are none of these calls are answered in plain text: 400, 404, 405 and 417, 413 and 414 and 431
where the body, the first line or the head is too long."""
_REFUSED: Final = (
    "The token is needed, the page is of another origin, or the Host is no name of this machine."
)
_COMMON: Final = {400: "A parameter or the body is not what was expected.", 403: _REFUSED}


Schemas = dict[Any, dict[str, Any]]
"""By type: what stands for it, which is a reference where it has a name."""


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole description."""
    asked = (each for operation in operations for each in (operation.answer, operation.body))
    types = [*dict.fromkeys((*(each for each in asked if each is not None), Error))]
    made = msgspec.json.encode(msgspec.json.schema_components(types, ref_template=_WHERE))
    found, schemas = msgspec.json.decode(_SUFFIX.sub(rb'\1"', made))
    of = dict(zip(types, found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sapwood node", "version": node_version(), "description": _TEXT},
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "account": {"type": "http", "scheme": "basic"},
            },
            "schemas": schemas,
        },
    }


def _operation(operation: Operation, of: Schemas) -> dict[str, Any]:
    errors = sorted({**_COMMON, **operation.errors}.items())
    found: dict[str, Any] = {
        "operationId": operation_id(operation),
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {
            "200": _answer(operation, of),
            **{str(status): _error(text, of) for status, text in errors},
        },
    }
    if operation.accounts:
        found["security"] = [{}, {"token": []}, {"account": []}]
    if operation.parameters:
        found["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.takes:
        found["requestBody"] = {"description": "The message.", "content": {operation.takes: {"schema": {}}}}
    elif operation.body is not None:
        whole = any(each.required for each in msgspec.structs.fields(operation.body))
        found["requestBody"] = {"required": whole, "content": {JSON: {"schema": of[operation.body]}}}
    return found


def operation_id(operation: Operation) -> str:
    words = re.findall(r"[A-Za-z]+", operation.path.removeprefix("/api"))
    return "_".join([operation.method.lower(), *words])


def _answer(operation: Operation, of: Schemas) -> dict[str, Any]:
    schema = {"type": "string"} if operation.answer is None else of[operation.answer]
    return {"description": "Done.", "content": {operation.media: {"schema": schema}}}


def _error(text: str, of: Schemas) -> dict[str, Any]:
    return {"description": text, "content": {JSON: {"schema": of[Error]}}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "path" if parameter.in_path else "query",
        "required": parameter.in_path,
        "description": parameter.text,
        "schema": parameter.schema(),
    }


def node_version() -> str:
    try:
        return version("sapwood-node")
    except PackageNotFoundError:
        return "unknown"
