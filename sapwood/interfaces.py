"""What a service can do: methods by name, in one version of an interface.

A request names its method, and, where several are served on one queue, its interface; a version that it asks
for is served by the same one, and by a later one that only grew: 1.4 serves 1.2, and 2.0 does not. What
cannot be served is answered with an error that names what is.

Parameters are bound to the handler's signature, and values are checked and converted by its annotations
(`msgspec.convert`: dataclasses, dates, enumerations), so a handler gets what it says or is not called.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, get_type_hints

import msgspec

from sapwood.errors import ServiceError
from sapwood.options import text
from sapwood.rpc_messages import (
    BAD_PARAMETERS,
    UNKNOWN_INTERFACE,
    UNKNOWN_METHOD,
    UNKNOWN_VERSION,
    Request,
)

Handler = Callable[..., Any]
Handlers = Mapping[str, Handler] | object
_SIMPLE: Final = frozenset((Any, inspect.Parameter.empty))


class Method:
    """One handler: a coroutine function, or a plain function, which then runs in a thread."""

    def __init__(self, name: str, function: Handler) -> None:
        self.name = name
        self.function = function
        self.signature = inspect.signature(function)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an asynchronous __call__
        )
        self._hints = _hints(function)

    def __repr__(self) -> str:
        return f"<Method {self}>"

    def __str__(self) -> str:
        return f"{self.name}{self.signature}"

    def bind(self, parameters: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments of a call. Raises `ServiceError` BAD_PARAMETERS."""
        try:
            bound = self.signature.bind(**parameters)
        except TypeError as error:
            raise ServiceError(BAD_PARAMETERS, f"{self}: {error}") from None
        for name, hint in self._hints.items():
            if name in bound.arguments:
                bound.arguments[name] = self._converted(name, bound.arguments[name], hint)
        return bound

    def _converted(self, name: str, value: Any, hint: Any) -> Any:
        try:
            return msgspec.convert(value, hint)
        except (msgspec.ValidationError, TypeError, RecursionError) as error:
            raise ServiceError(BAD_PARAMETERS, f"{self}: {name}: {error}") from None


def _hints(function: Handler) -> dict[str, Any]:
    """Annotations of the named parameters; `*args` and `**others` take what comes."""
    plain = {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    target = function if hasattr(function, "__annotations__") else type(function).__call__
    try:
        hints = get_type_hints(target)
    except Exception:  # an annotation that only a type checker can read
        return {}
    return {name: hint for name, hint in hints.items() if name in plain and hint not in _SIMPLE}


class Interface:
    """`handlers`: a mapping of names to functions, or an object whose public methods are served.

    `name`, `version`: '' = anything that is asked for.
    """

    def __init__(self, handlers: Handlers, name: str = "", version: str = "") -> None:
        self.name = text("interface", name)
        self.version = text("version", version)
        self.methods = {method: Method(method, function) for method, function in _public(handlers).items()}
        if not self.methods:
            raise ValueError(f"{handlers!r} has nothing to serve: expected named functions or public methods")

    def __repr__(self) -> str:
        return f"<Interface {self} {', '.join(self.methods)}>"

    def __str__(self) -> str:
        return f"{self.name or 'any'} {self.version}".rstrip()

    def serves(self, version: str) -> bool:
        """Is this the version asked for, or a later one that only grew?"""
        if not version or not self.version or version == self.version:
            return True
        asked, here = _numbers(version), _numbers(self.version)
        return bool(asked and here) and asked[0] == here[0] and asked <= here


def _numbers(version: str) -> list[int]:
    parts = version.split(".")
    good = len(version) <= 64 and all(part.isascii() and part.isdigit() for part in parts)
    return [int(part) for part in parts] if good else []


def _public(handlers: Handlers) -> dict[str, Handler]:
    if isinstance(handlers, Mapping):
        return dict(handlers)
    names = (name for name in dir(handlers) if not name.startswith("_"))
    found = {name: getattr(handlers, name) for name in names}
    return {name: value for name, value in found.items() if callable(value)}


HELP: Final = "help"
"""A method of every service that does not have one of its own: it tells the others."""


def told(interfaces: Sequence[Interface]) -> list[dict[str, str]]:
    """The methods of a service, for people and programs: how each is called, and its documentation."""
    return [
        {
            "method": method.name,
            "signature": str(method),
            "interface": interface.name,
            "version": interface.version,
            "text": (inspect.getdoc(method.function) or "").partition("\n\n")[0],
        }
        for interface in interfaces
        for method in interface.methods.values()
    ]


def find(interfaces: Sequence[Interface], request: Request) -> Method:
    """The method that a request asks for. Raises `ServiceError` that names what is served."""
    if request.method == HELP and not any(HELP in each.methods for each in interfaces):
        return Method(HELP, partial(told, interfaces))
    served = "; ".join(map(str, interfaces))
    if request.interface:
        named = [item for item in interfaces if item.name in ("", request.interface)]
    else:
        named = list(interfaces) if len({item.name for item in interfaces}) == 1 else []
    if not named:
        raise ServiceError(UNKNOWN_INTERFACE, f"no interface {request.interface!r} here: {served}")
    able = [item for item in named if item.serves(request.version)]
    if not able:
        raise ServiceError(
            UNKNOWN_VERSION, f"no version {request.version!r} of {request.interface!r} here: {served}"
        )
    for item in able:
        if request.method in item.methods:
            return item.methods[request.method]
    known = ", ".join(sorted({name for item in able for name in item.methods}))
    raise ServiceError(UNKNOWN_METHOD, f"no method {request.method!r} here: {known}")
