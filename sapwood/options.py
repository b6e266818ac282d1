"""Options of messages and of clients: types for editors, and checks at the call.

Law: nothing is sent that a node would not read. A wrong option raises `TypeError`, a value that is out of
range `ValueError`, and each says what was expected; the message is not sent then, and others are not touched.
"""

import math
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from os.path import isfile
from typing import Any, Final, NamedTuple, TypedDict, Unpack

import msgspec

from sapwood.protocol.bundles import MOST_NUMBER, Foreign, Properties
from sapwood.protocol.destinations import Destination, Kind, parse

_LARGEST: Final = (1 << 64) - 1
_foreign_decoder = msgspec.msgpack.Decoder(Foreign)


class PropertyOptions(TypedDict, total=False):
    """Properties of a message (see `sapwood.protocol.bundles.Properties`).

    `expires_in`: milliseconds, or a `timedelta`. `timestamp`: seconds since 1970, or a `datetime`; a fraction
    is cut off. `correlation_id`: a whole number; bytes or a text are `foreign=Foreign(correlation=b"…")`.
    """

    correlation_id: int | None
    reply_to: str
    task_id: str
    expires_in: float | timedelta
    message_id: str
    content_type: str
    timestamp: float | datetime
    priority: int
    interface: str
    interface_version: str
    headers: Mapping[str, Any]
    foreign: Foreign | None


class SendOptions(PropertyOptions, total=False):
    """`persistent`: False = it may be lost. `scope` of a topic: 0 vertical, 1 tree, -1 as the node has it.

    `tell`: where nobody in the tree serves the queue, a notice comes to `reply_to` at once (see
    `Delivery.notice`) and the message is not kept.
    """

    persistent: bool
    retained: bool
    scope: int
    tell: bool


class ClientOptions(TypedDict, total=False):
    """See `Client`."""

    secret: str | None
    account: str
    password: str | None
    producer: str | None
    timeout: float
    window_messages: int
    window_bytes: int
    keep_alive: float
    tls: ssl.SSLContext | None
    ca: str | None
    certificate: str | None
    key: str | None
    on_connected: Callable[[str], object] | None
    on_lost: Callable[[Exception], object] | None


class NodePlace(NamedTuple):
    """Where a node is, and how an application proves itself there: an account, or '' and the secret."""

    uri: str
    account: str = ""
    secret: str = ""
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def __repr__(self) -> str:
        return f"<NodePlace {self.uri} {self.account}>"


def context_of(
    ca: str | None, certificate: str | None, key: str | None, password: Callable[[], str] | None = None
) -> ssl.SSLContext | None:
    """None: the system's authorities, nothing of our own. `password`: of the key; None: it is asked for."""
    if not (ca or certificate):
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key, password)
    except ssl.SSLError:
        raise
    except OSError:
        for file in filter(None, (ca, certificate, key)):
            with open(file, "rb"):
                pass  # the error of the library for TLS does not name the file
        raise
    return context


class TlsFiles:
    """The context of each connection. Its files are read again: they may have been renewed since."""

    def __init__(self, ca: str | None, certificate: str | None, key: str | None) -> None:
        """Raises `OSError` for files that cannot be read."""
        self._files = ca, certificate, key
        self._context = context_of(*self._files)

    def __repr__(self) -> str:
        return f"<TlsFiles {' '.join(filter(None, self._files))}>"

    def context(self) -> ssl.SSLContext | None:
        """As the files say; the one before, while they cannot be read, or are not of one another. A pipe is
        read once.
        """
        if all(map(isfile, filter(None, self._files))):
            with suppress(OSError):
                self._context = context_of(*self._files, password=str)  # nobody is asked for one again
        return self._context


class Reach(NamedTuple):
    """How far a topic's message goes from the node that took it.

    `readers`: subscriptions there that match; `onward`: neighbours that it goes on to; `passed_by`: children
    that ask for it and do not get it, as `scope` (0 vertical, 1 tree) does not reach them.
    """

    readers: int
    onward: int
    passed_by: int
    scope: int


def payload_of(given: object) -> bytes:
    """The bytes of a payload; a text is UTF-8."""
    if isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return _utf8("payload", given)
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise _wrong("payload", given, "bytes, or a text (json.dumps makes one)")


def payloads_of(given: Iterable[object]) -> list[bytes]:
    """The bytes of several payloads, of which a text is none: it would be one for each character."""
    if isinstance(given, str):
        raise _wrong("payloads", given, "several payloads, in a list for example")
    payloads = list(given)
    if set(map(type, payloads)) - {bytes}:
        return [payload_of(payload) for payload in payloads]
    return payloads  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def _named(given: str) -> Destination:
    """The same few come with each message."""
    return parse(text("destination", given))


def destination_of(given: object) -> Destination:
    """Where a message goes, or is read. Raises `TypeError` or `ValueError`."""
    if isinstance(given, str):
        return _named(given)
    if not isinstance(given, Destination):
        raise _wrong("destination", given, "'queue:NAME', 'queue:NAME@NODE' or 'topic:PATTERN'")
    if given.kind not in tuple(Kind):
        raise ValueError(f"kind={given.kind!r} of a destination: expected {', '.join(Kind)}")
    return Destination(given.kind, text("name", given.name), text("node", given.node))


def flag(name: str, given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise _wrong(name, given, "True or False")


def scope_of(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise _wrong("scope", given, "0 (vertical), 1 (tree) or -1 (as the node has it)")
    if given not in (-1, 0, 1):
        raise ValueError(f"scope={given}: expected 0 (vertical), 1 (tree) or -1 (as the node has it)")
    return int(given)


def properties_of(**given: Unpack[PropertyOptions]) -> Properties:
    """Checked and converted. Raises `TypeError` or `ValueError`."""
    return Properties(**{name: _checked(name, value) for name, value in given.items()})


def checked_options(given: SendOptions) -> dict[str, Any]:
    """All that a message can be sent with. Raises `TypeError` or `ValueError`."""
    return {name: _SENDING.get(name, _checked)(name, value) for name, value in given.items()}


def check_notice(where: Destination, tell: bool, reply_to: str | None) -> None:
    """Whether a notice that nobody serves `where` has a place to go to. Raises `ValueError`."""
    if tell and (where.kind != Kind.QUEUE or not reply_to):
        raise ValueError(f"{where} with `tell`: expected a queue, and a `reply_to` where the notice goes")


def seconds(name: str, given: object) -> float | None:
    """A time to wait: None = for ever."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise _wrong(name, given, "seconds, or None")
    if not given >= 0:
        raise ValueError(f"{name}={given}: expected 0 or more seconds")
    return float(given)


def whole(least: int, **given: object) -> None:
    """Whole numbers of a client's options."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(name, value, "a whole number")
        _within(name, value, least, _LARGEST)


def at_least(least: float, **given: object) -> None:
    """Numbers of a client's options."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(name, value, "a number")
        if not value >= least:
            raise ValueError(f"{name}={value}: expected {least:g} or more")


def _checked(name: str, value: object) -> Any:
    check = _CHECKS.get(name)
    if check is None:
        known = sorted({*_CHECKS, *_SENDING})
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise TypeError(f"there is no option {name!r}: {hint}")
    return check(name, value)


def text(name: str, value: object) -> str:
    """A text of Unicode. Raises `TypeError` or `ValueError`."""
    if not isinstance(value, str):
        raise _wrong(name, value, "a text")
    _utf8(name, value)
    return value


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name}: {error.reason} at character {error.start}: expected Unicode text"
        ) from None


def _correlation_id(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, value, 'a whole number (bytes: foreign=Foreign(correlation=b"…"))')
    return _within(name, value, -(1 << 63), _LARGEST)


def _priority(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, value, "a whole number from 0 to 255")
    return _within(name, value, 0, 255)


def _expires_in(name: str, value: object) -> int:
    if isinstance(value, timedelta):
        value = value.total_seconds() * 1000
    return _whole(name, value, "milliseconds, or a timedelta", math.ceil, MOST_NUMBER)


def _timestamp(name: str, value: object) -> int:
    if isinstance(value, datetime):
        value = value.timestamp()
    return _whole(name, value, "seconds since 1970, or a datetime", math.floor)


def _whole(
    name: str, value: object, expected: str, rounded: Callable[[float], int], most: int = _LARGEST
) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name, value, expected)
    if not math.isfinite(value):
        raise ValueError(f"{name}={value}: expected {expected}")
    return _within(name, rounded(value), 0, most)


def _within(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{name}={value}: expected {least} to {most}")
    return value


def _headers(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _wrong(name, value, "a mapping with names of text")
    headers = dict(value)
    try:
        msgspec.msgpack.encode(headers)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}: expected what MessagePack can say") from None
    return headers


def _foreign(name: str, value: object) -> Foreign | None:
    if value is None:
        return None
    if not isinstance(value, Foreign):
        raise _wrong(name, value, "sapwood.protocol.bundles.Foreign")
    try:
        return _foreign_decoder.decode(msgspec.msgpack.encode(value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: {error}") from None


def _wrong(name: str, value: object, expected: str) -> TypeError:
    return TypeError(f"{name}={value!r:.80} is of type {type(value).__name__}: expected {expected}")


_CHECKS: Final[dict[str, Callable[[str, object], Any]]] = {
    "correlation_id": _correlation_id,
    "reply_to": text,
    "task_id": text,
    "expires_in": _expires_in,
    "message_id": text,
    "content_type": text,
    "timestamp": _timestamp,
    "priority": _priority,
    "interface": text,
    "interface_version": text,
    "headers": _headers,
    "foreign": _foreign,
}
_SENDING: Final[dict[str, Callable[[str, object], Any]]] = {
    "persistent": flag,
    "retained": flag,
    "tell": flag,
    "scope": lambda _, value: scope_of(value),
}
