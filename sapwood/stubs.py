"""The ground on which generated modules stand: functions with their types, calls, dispatch, declared errors.

`sapwood idl python` writes modules that import this one. Values go as JSON, by name:

    struct   {"aisle": 3, "pieces": 12}     a field that is none may be left out
    variant  {"case": "sold", "value": 3}   without "value" where the case has none
    pair     ["note-7", 12]
    dict     {"4711": 12}                   keys are texts in JSON
    channel  {"urls": ["sapwood://york/channel-…"], "secret": "…"}, as `sapwood.channels` makes and takes it
    error    its name in capitals as the code, its value as the data

Law: a value that has not its type leaves neither side. A caller gets a `ValueError` before anything is sent;
a server's wrong answer is an `InternalError`; a wrong reply is a `BadReply`.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Generic, TypeAlias, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct, field

from sapwood.channels.urls import ChannelUrls
from sapwood.errors import BadReply, ServiceError
from sapwood.interfaces import Interface
from sapwood.rpc import Rpc
from sapwood.rpc_messages import BAD_PARAMETERS, FAILED, UNWRITABLE
from sapwood.sync import SyncRpc

__all__ = [
    "Caller",
    "Channel",
    "DeclaredError",
    "Function",
    "Int64",
    "Interface",
    "InternalError",
    "Rpc",
    "Struct",
    "SyncCaller",
    "SyncRpc",
    "Unimplemented",
    "field",
    "handlers",
]

UNIMPLEMENTED: Final = "UNIMPLEMENTED"
_WRONG: Final = (*UNWRITABLE, msgspec.ValidationError)
_FOREIGN: Final = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
_log = logging.getLogger("sapwood.rpc")
_encoder = msgspec.json.Encoder()
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])

Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number of 64 bits with sign."""

Channel: TypeAlias = ChannelUrls
"""A channel on its way. `channels.make` makes one; `channels.take` gives whoever gets it the other end."""

In = TypeVar("In", bound=Struct)
Out = TypeVar("Out", bound=Struct)


class DeclaredError(ServiceError):
    """Root of the errors that interfaces declare. Handlers raise them, and so do generated clients.

    `name`: as its interface writes it. `value`: of its `type`; None without one.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    type: ClassVar[Any] = None

    def __init__(self, value: Any = None) -> None:
        said = self.about if value is None else f"{self.about.rstrip('.')}: {value}"
        super().__init__(self.name.upper(), said, value)
        self.value = value


class InternalError(ServiceError):
    """The service failed in a way that its interface does not declare."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(FAILED, message, data)


class Unimplemented(ServiceError):
    """The service does not have this function yet: its skeleton answers so."""

    def __init__(self, function: str) -> None:
        super().__init__(UNIMPLEMENTED, f"{function!r} is not implemented")


class Function(Generic[In, Out]):
    """A function of an interface, with its types.

    `name`: with its namespaces, as `history.movements`. `about` describes it, `inputs_about` its inputs, by
    their names on the wire.
    """

    def __init__(
        self,
        name: str,
        inputs: type[In],
        outputs: type[Out],
        *raises: type[DeclaredError],
        about: str = "",
        inputs_about: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.raises = {each.name.upper(): each for each in raises}
        self.about = about
        self.inputs_about = dict(inputs_about or {})
        self._inputs_decoder = msgspec.json.Decoder(inputs)
        self._outputs_decoder = msgspec.json.Decoder(outputs)

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    # --- the caller's side

    def parameters(self, inputs: In) -> dict[str, Any]:
        """The inputs as parameters of a call. Raises `ValueError`."""
        try:
            return _parts.decode(_written(inputs, self._inputs_decoder))
        except _WRONG as error:
            raise ValueError(f"{self.name}: {error}") from None

    def result(self, result: Any) -> Out:
        """The outputs that a reply says. Raises `BadReply`."""
        try:
            return msgspec.convert(result, self.outputs, str_keys=True)
        except msgspec.ValidationError as error:
            raise BadReply(f"the reply of {self.name!r} is not of its type: {error}") from None

    def error(self, error: ServiceError) -> ServiceError:
        """The error that an answer says: a declared one, an `InternalError`, or one of the library's."""
        kind = self.raises.get(error.code)
        if kind is None:
            return InternalError(error.message, error.data) if error.code == FAILED else error
        if kind.type is None:
            return kind()
        try:
            return kind(msgspec.convert(error.data, kind.type, str_keys=True))
        except msgspec.ValidationError as wrong:
            return InternalError(f"{self.name!r} raised {kind.name} with a wrong value: {wrong}", error.data)

    # --- the server's side

    def arguments(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The inputs that a request says, by their names in Python. Raises `ServiceError` BAD_PARAMETERS."""
        try:
            inputs = msgspec.convert(parameters, self.inputs, str_keys=True)
        except msgspec.ValidationError as error:
            raise ServiceError(BAD_PARAMETERS, f"{self.name}: {error}") from None
        return {name: getattr(inputs, name) for name in self.inputs.__struct_fields__}

    def answer(self, outputs: object) -> msgspec.Raw:
        """A handler's outputs, as they are sent. Raises `InternalError`."""
        if outputs is None and not self.outputs.__struct_fields__:
            outputs = self.outputs()
        if not isinstance(outputs, self.outputs):
            raise self._failed(f"returned {type(outputs).__name__}, not {self.outputs.__name__}")
        try:
            return msgspec.Raw(_written(outputs, self._outputs_decoder))
        except _WRONG as error:
            raise self._failed(f"returned a wrong value: {error}") from None

    def raised(self, error: DeclaredError) -> ServiceError:
        """The answer for an error: as it is, or an `InternalError` where this function may not raise it."""
        kind = self.raises.get(error.code)
        if kind is None or not isinstance(error, kind):
            return self._failed(f"raised {error.name}, which it does not declare: {error}")
        try:
            _written(error.value, msgspec.json.Decoder(kind.type))  # None is the type of None
        except _WRONG as wrong:
            return self._failed(f"raised {error.name} with a wrong value: {wrong}")
        return error

    def _failed(self, said: str) -> InternalError:
        _log.error("! %s %s", self.name, said)
        return InternalError(f"{self.name!r} {said}")


def _written(value: object, decoder: msgspec.json.Decoder[Any]) -> bytes:
    """A value as JSON, if it is read again as the same one. Raises one of `_WRONG`.

    Bytes, dates and others would be written as texts: they are not what was said.
    """
    written = _encoder.encode(value)
    if decoder.decode(written) != value:
        plain = msgspec.to_builtins(value, builtin_types=_FOREIGN, str_keys=True)
        msgspec.convert(plain, decoder.type, str_keys=True)
        raise TypeError("expected values of exactly these types: lists for arrays, tuples for pairs")
    return written


class _Callers:
    """How the functions of one version of an interface are asked, on one queue."""

    def __init__(self, queue: str, interface: str, version: str, timeout: float | None) -> None:
        self._queue = queue
        self._named: dict[str, Any] = {"interface": interface, "version": version, "timeout": timeout}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._named['interface']} on {self._queue}>"


class Caller(_Callers):
    """Calls with an `Rpc`. `timeout`: seconds; None = for ever, below 0 = the one of the `Rpc`."""

    def __init__(
        self, rpc: Rpc, queue: str, interface: str, version: str, timeout: float | None = -1.0
    ) -> None:
        super().__init__(queue, interface, version, timeout)
        self._rpc = rpc

    async def call(self, function: Function[In, Out], inputs: In) -> Out:
        """Raises `ValueError` for wrong inputs, the declared errors, and as `Rpc.call` does."""
        parameters = function.parameters(inputs)
        try:
            result = await self._rpc.request(self._queue, function.name, parameters, **self._named)
        except ServiceError as error:
            raise function.error(error) from None
        return function.result(result)


class SyncCaller(_Callers):
    """The same for programs without asyncio, with the `rpc` of a `sapwood.sync.Client`."""

    def __init__(
        self, rpc: SyncRpc, queue: str, interface: str, version: str, timeout: float | None = -1.0
    ) -> None:
        super().__init__(queue, interface, version, timeout)
        self._rpc = rpc

    def call(self, function: Function[In, Out], inputs: In) -> Out:
        """As `Caller.call`."""
        parameters = function.parameters(inputs)
        try:
            result = self._rpc.request(self._queue, function.name, parameters, **self._named)
        except ServiceError as error:
            raise function.error(error) from None
        return function.result(result)


Method: TypeAlias = Callable[..., Awaitable[Struct | None] | Struct | None]


def handlers(methods: Mapping[Function[Any, Any], Method]) -> dict[str, Callable[..., Any]]:
    """The functions of an `Interface` by name, checked and converted both ways.

    A coroutine function runs on the event loop, another in a thread.
    """
    return {function.name: _handler(function, method) for function, method in methods.items()}


def _handler(function: Function[Any, Any], method: Method) -> Callable[..., Any]:
    async def on_the_loop(**parameters: Any) -> msgspec.Raw:
        arguments = function.arguments(parameters)
        try:
            return function.answer(await method(**arguments))  # type: ignore[misc]
        except DeclaredError as error:
            raise function.raised(error) from None

    def in_a_thread(**parameters: Any) -> msgspec.Raw:
        arguments = function.arguments(parameters)
        try:
            return function.answer(method(**arguments))
        except DeclaredError as error:
            raise function.raised(error) from None

    return on_the_loop if inspect.iscoroutinefunction(method) else in_a_thread
