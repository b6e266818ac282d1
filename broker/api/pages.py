"""Long lists, a page at a time, without keeping others waiting.

Law: what is looked at is copied first (a list of references), since it changes while others have their turn;
after every `CHUNK` items they do have it.
"""

import asyncio
import heapq
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from broker.core.errors import BadRequest

CHUNK: Final = 2000
DEFAULT_LIMIT: Final = 100
MOST: Final = 1000
_LONGEST_CURSOR: Final = 8192

Item = TypeVar("Item")
Key = tuple[float | int | str, ...]


class Cut(NamedTuple):
    """Which page is wanted."""

    limit: int = DEFAULT_LIMIT
    after: str = ""


class ItemPage(NamedTuple, Generic[Item]):
    """`more`: how many follow. `next`: the cursor that leads to them, None = none follow."""

    items: list[Item]
    more: int
    next: str | None


async def chunks(items: Sequence[Item]) -> AsyncIterator[Sequence[Item]]:
    """Parts of a list; others have their turn after each."""
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]
        await asyncio.sleep(0)


async def page_of(
    items: Iterable[Item], key: Callable[[Item], Key], cut: Cut, wanted: Callable[[Item], bool] | None = None
) -> ItemPage[Item]:
    """The first `limit` of the wanted items by their key, of those whose key is above the cursor's.

    Keys are unique. Raises `BadRequest` for a cursor that is none.
    """
    above = key_of(cut.after)
    best: list[tuple[Key, Item]] = []
    found = 0
    async for part in chunks(items if isinstance(items, Sequence) else list(items)):
        fresh = _fresh(part, key, above, wanted)
        found += len(fresh)
        if best and len(best) == cut.limit:
            fresh = [entry for entry in fresh if entry[0] < best[-1][0]]
        best = heapq.nsmallest(cut.limit, [*best, *fresh], key=_own)
    return _page(best, found)


def _fresh(
    items: Iterable[Item],
    key: Callable[[Item], Key],
    above: Key | None,
    wanted: Callable[[Item], bool] | None,
) -> list[tuple[Key, Item]]:
    keyed = ((key(item), item) for item in items if wanted is None or wanted(item))
    return [entry for entry in keyed if _is_above(entry[0], above)]


def _own(entry: tuple[Key, Any]) -> Key:
    return entry[0]


def _page(best: list[tuple[Key, Item]], found: int) -> ItemPage[Item]:
    more = found - len(best)
    return ItemPage([item for _, item in best], more, cursor(best[-1][0]) if more and best else None)


def _is_above(key: Key, above: Key | None) -> bool:
    try:
        return above is None or key > above
    except TypeError:
        raise BadRequest("'after' belongs to another order: leave it out") from None


def cursor(key: Key) -> str:
    """A key as text for a URL."""
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def key_of(text: str) -> Key | None:
    """The inverse; None for ''. Raises `BadRequest`."""
    if not text:
        return None
    try:
        padded = text[:_LONGEST_CURSOR] + "=" * (-len(text) % 4)
        found: Any = msgspec.json.decode(urlsafe_b64decode(padded), type=list[float | int | str])
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise BadRequest("'after' is not what 'next' of an earlier page said: leave it out") from None
    return tuple(found)


def number_in(after: str) -> int:
    """The number that a cursor of numbered things names, 0 for none. Raises `BadRequest`."""
    key = key_of(after) or (0,)
    if len(key) == 1 and isinstance(key[0], int):
        return key[0]
    raise BadRequest("'after' is not what 'next' of an earlier page said: leave it out")


def place_in(after: str) -> tuple[int, int]:
    """The row and the position in it that a cursor of messages names. Raises `BadRequest`."""
    key = key_of(after) or (0, -1)
    if len(key) == 2 and isinstance(key[0], int) and isinstance(key[1], int):
        return key[0], key[1]
    raise BadRequest("'after' is not what 'next' of an earlier page said: leave it out")
