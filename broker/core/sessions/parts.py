"""A frame of a client that is about very many messages, as frames that take a moment each.

An acknowledgement may be of all that a session has, and each bundle of it costs some ten microseconds: others
have their turns between the parts.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from broker.core.sessions.sessions import Session, Unacked
from sapwood.protocol.session_frames import Acknowledge, ClientFrame, RefuseDelivery

AT_ONCE: Final = 128
"""Bundles of one part, or messages where it is not known in how many bundles they are."""

Range = tuple[int, int]


def in_parts(session: Session | None, frame: ClientFrame) -> Iterator[ClientFrame]:
    """Each part is asked for when the one before it is dealt with."""
    match frame:
        case Acknowledge(ranges) if session is not None:
            yield from map(Acknowledge, _together(session.unacked, ranges))
        case RefuseDelivery(first, last) if session is not None and last - first >= AT_ONCE:
            for low, high in _cut(session.unacked, first, last):
                yield replace(frame, first=low, last=high)
        case _:
            yield frame


def _together(unacked: Unacked, ranges: list[Range]) -> Iterator[list[Range]]:
    part: list[Range] = []
    width = 0
    for first, last in ranges:
        for low, high in _cut(unacked, first, last):
            part.append((low, high))
            width += max(high - low, 0) + 1
            if width >= AT_ONCE:
                yield part
                part, width = [], 0
    if part:
        yield part


def _cut(unacked: Unacked, first: int, last: int) -> Iterator[Range]:
    if last - first < AT_ONCE:
        yield first, last
        return
    found = unacked.within(first, last)
    for start in range(0, len(found), AT_ONCE):
        some = found[start : start + AT_ONCE]
        yield max(first, some[0].first), min(last, some[-1].last)
