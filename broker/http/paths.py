"""Names, numbers and times in the paths of the link-level protocol."""

import math
from typing import Final

from broker.core.errors import BadRequest
from sapwood.protocol.bundles import MOST_NUMBER

_LEAST_ID: Final = -(2**63)
_LARGEST_ID: Final = 2**64 - 1
_MOST_DIGITS: Final = 20


def name_of(parts: list[str]) -> str:
    """All that follows the verb; a name may be written with bare slashes."""
    return "/".join(parts[1:])


def queue(parts: list[str]) -> str:
    """The queue's name that follows the verb, read as `/send/` reads it."""
    name = name_of(parts)
    if name.startswith("topic:"):
        raise BadRequest(
            f"{name[:80]!r} is a topic's name: expected a queue's (topics: streaming session only)"
        )
    return name.removeprefix("queue:")


def exactly(parts: list[str], form: str, count: int) -> list[str]:
    if len(parts) != count + 1:
        raise BadRequest(f"expected {form}")
    return parts[1:]


def to(parts: list[str]) -> tuple[str, str, str]:
    """Name, correlation id and reply queue of `/send/…`. Where names have bare slashes, the id is the one
    part behind the name's first that is a number. Raises `BadRequest` where several could be."""
    if len(parts) == 3:
        return parts[1], parts[2], ""
    ids = [place for place in range(2, len(parts)) if parts[place].removeprefix("-").isdigit()]
    if len(ids) > 1:
        raise BadRequest(
            "several parts may be the correlation id: write slashes in names as %2F, 6 as queue:6"
        )
    for place in ids:
        return "/".join(parts[1:place]), parts[place], "/".join(parts[place + 1 :])
    raise BadRequest("expected /send/NAME/CORRELATION_ID or /send/NAME/CORRELATION_ID/REPLY_TO")


def whole(text: str) -> int:
    """A whole number of 64 bits, with or without sign. Raises `BadRequest`."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        number = int(text)
        if _LEAST_ID <= number <= _LARGEST_ID:
            return number
    raise BadRequest(f"{text[:40]!r} is no whole number of 64 bits")


def credit(text: str) -> int:
    """A number of messages. Raises `BadRequest`."""
    if (found := whole(text)) < 1:
        raise BadRequest(f"a credit of {found}: expected 1 or more")
    return found


def lifetime(text: str) -> int:
    """A time in seconds, as whole milliseconds, no less of them and 1 at least. Raises `BadRequest`."""
    return max(math.ceil(seconds(text, MOST_NUMBER / 1000) * 1000), 1)


def seconds(text: str, longest: float) -> float:
    """A time in seconds, as a decimal, cut to `longest`. Raises `BadRequest`."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise BadRequest(f"{text[:40]!r} is no number of seconds: expected a decimal, 0 or more")
    return min(found, longest)
