"""The frames about logical addresses: the limits of each, and how they are kept small.

Limits hold for everybody, whoever sends: what cannot be is a `FrameError`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sapwood.protocol.errors import FrameError, InvalidName
from sapwood.protocol.names import node_name, own_name
from sapwood.protocol.packets import PACKET_OVERHEAD
from treeconnector.frames import Frame, Whereabouts, encode
from treeconnector.hellos import MAX_ADDRESS, MAX_ADDRESSES

MAX_IN_FRAME: Final = 500
_ID_BYTES: Final = 16
_ADDRESS_BYTES: Final = 4096


def whereabouts(name: str, incarnation: bytes, addresses: Sequence[str]) -> Whereabouts:
    """What is told of a node: as many of its addresses, in their order, as have room in any frame."""
    kept: list[str] = []
    left = _ADDRESS_BYTES
    for address in addresses[:MAX_ADDRESSES]:
        left -= len(address.encode(errors="replace"))
        if left < 0:
            break
        kept.append(address)
    return Whereabouts(name, incarnation, kept)


def checked_keys(keys: list[str]) -> list[str]:
    """Names, and incarnations as text."""
    _check_count(len(keys))
    try:
        return [node_name(key) for key in keys]
    except InvalidName as error:
        raise FrameError(f"a question that cannot be: {error}") from None


def checked_found(found: list[Whereabouts]) -> list[Whereabouts]:
    _check_count(len(found))
    for each in found:
        try:
            own_name(each.name)
        except InvalidName as error:
            raise FrameError(f"whereabouts that cannot be: {error}") from None
        _check_incarnation(each.incarnation)
        if len(each.addresses) > MAX_ADDRESSES or any(len(text) > MAX_ADDRESS for text in each.addresses):
            raise FrameError(f"a node has at most {MAX_ADDRESSES} addresses of {MAX_ADDRESS} characters")
    return [whereabouts(each.name, each.incarnation, each.addresses) for each in found]


def checked_incarnations(incarnations: list[bytes]) -> list[bytes]:
    _check_count(len(incarnations))
    for each in incarnations:
        _check_incarnation(each)
    return incarnations


def _check_count(count: int) -> None:
    if count > MAX_IN_FRAME:
        raise FrameError(f"{count} addresses in a frame: {MAX_IN_FRAME} at most")


def _check_incarnation(incarnation: bytes) -> None:
    if len(incarnation) != _ID_BYTES:
        raise FrameError(f"an incarnation of {len(incarnation)} bytes: expected {_ID_BYTES}")


def split(make: Callable[[Any], Frame], items: Sequence[Any], max_frame: int) -> Iterator[bytes]:
    """As few frames as hold all items, encoded, each small enough for a packet."""
    for start in range(0, len(items), MAX_IN_FRAME):
        yield from _halved(make, list(items[start : start + MAX_IN_FRAME]), max_frame - PACKET_OVERHEAD)


def _halved(make: Callable[[Any], Frame], items: list[Any], most: int) -> Iterator[bytes]:
    encoded = encode(make(items))
    if len(encoded) <= most or len(items) == 1:
        yield encoded
        return
    middle = len(items) // 2
    yield from _halved(make, items[:middle], most)
    yield from _halved(make, items[middle:], most)
