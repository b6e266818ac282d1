"""Retained messages: the latest of each topic, found by pattern.

Law: bounded in number and bytes (`MOST`, `MOST_BYTES`, bodies as they are kept): the one that was renewed
longest ago goes first. After a start that order is the order of the topics' names. Of one origin there are at
most `SHARE` and `SHARE_BYTES` where it has to be bounded (`has_room`).

Wrinkle: time goes on for a kept message. In its header, in memory and on disk, `expires_first` and
`expires_last` are no remainder but the time of the node's clock, in ms, at which it is over; 0 = never.
`as_of` makes them one.

The names stand in a tree by level, so that a pattern walks only where it can match.
"""

from collections import Counter
from typing import Final

import msgspec

from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header
from sapwood.protocol.destinations import topic
from treeconnector.patterns import MANY, ONE, has_wildcard

MOST: Final = 100_000
MOST_BYTES: Final = 256 * 1024 * 1024
SHARE: Final = MOST // 10
SHARE_BYTES: Final = MOST_BYTES // 10

Kept = tuple[Header, bytes]


def last_of(header: Header, body: bytes) -> bundles.Message:
    """The message of a kept bundle, with the time that its header leaves it. Raises `FrameError`."""
    done = bundles.mask_bits(header.done)
    message = bundles.unpack(header, body)[(~done & (done + 1)).bit_length() - 1]
    if not header.expires_first:
        return message
    properties = msgspec.structs.replace(message.properties, expires_in=header.expires_first)
    return bundles.Message(message.payload, properties)


def kept_of(header: Header, body: bytes, since: float) -> Kept | None:
    """The last message that is open, in a bundle where it has the same id: with its index, and with nothing
    in the queues of the others, which are marked as dealt with. None: it clears. Raises `FrameError`.

    `since`: the clock when the bundle came.
    """
    messages = bundles.unpack(header, body)
    every = (1 << header.count) - 1
    index = (every & ~bundles.mask_bits(header.done)).bit_length() - 1
    if index < 0 or not messages[index].payload:
        return None
    nothing = bundles.encode_message(bundles.Message(b""))
    plain = nothing * index + bundles.encode_message(messages[index]) + nothing * (header.count - index - 1)
    small, compressed = bundles.compress(plain)
    over = _over(messages, index, header.expires_first, since)
    kept = Header(
        id=header.id,
        destination=topic(header.destination.name),
        scope=header.scope,
        flags=(header.flags & ~(Flag.COMPRESSED | Flag.KEPT)) | compressed,
        count=header.count,
        size=len(plain),
        origin_store=header.origin_store,
        origin=header.origin,
        expires_first=over,
        expires_last=over,
        done=bundles.mask_bytes(every & ~(1 << index)),
        start=header.start,
    )
    return kept, small


def _over(messages: list[bundles.Message], index: int, remains: int, since: float) -> int:
    """When one of the messages expires, in ms of the clock; 0 = never. `remains`: for the first of them."""
    times = [message.properties.expires_in for message in messages]
    if times[index] <= 0 or not remains:
        return 0
    gone = min(time for time in times if time > 0) - remains
    return max(int(since * 1000) + times[index] - gone, 1)


def as_of(header: Header, now: float) -> Header | None:
    """The header of a kept message as any other's, with the time that is left; None if that is over."""
    if not header.expires_first:
        return header
    left = header.expires_first - int(now * 1000)
    return msgspec.structs.replace(header, expires_first=left, expires_last=left) if left > 0 else None


class _Level:
    """`topic`: the name that ends here, '' if none does."""

    __slots__ = ("children", "topic")

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.topic = ""


class Retained:
    """A bundle for each topic, of which one message is open."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        self._root = _Level()
        self.size = 0
        self._of: Counter[str] = Counter()
        self._size_of: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Retained {len(self)} messages of {self.size} bytes>"

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, topic: str) -> bool:
        return topic in self._kept

    def put(self, topic: str, header: Header, body: bytes) -> list[str]:
        """Keep it in the place of what was there; return the topics whose messages went for want of room."""
        if not self.drop(topic):
            self._name(topic)
        self._kept[topic] = header, body
        self.size += len(body)
        self._of[header.origin] += 1
        self._size_of[header.origin] += len(body)
        gone = []
        while len(self._kept) > MOST or self.size > MOST_BYTES:
            oldest = next(iter(self._kept))
            self.forget(oldest)
            gone.append(oldest)
        return gone

    def drop(self, topic: str) -> bool:
        """Take the message out, its name stays for the next one. Whether there was any."""
        before = self._kept.pop(topic, None)
        if before is None:
            return False
        header, body = before
        self.size -= len(body)
        self._of[header.origin] -= 1
        self._size_of[header.origin] -= len(body)
        return True

    def has_room(self, topic: str, origin: str) -> bool:
        """May one more topic of an origin be kept that is not to crowd out the others'?"""
        return topic in self._kept or (self._of[origin] < SHARE and self._size_of[origin] < SHARE_BYTES)

    def forget(self, topic: str) -> bool:
        """There is no message for this topic any more. Whether there was any."""
        if not self.drop(topic):
            return False
        path = [self._root]
        levels = topic.split("/")
        for level in levels:
            path.append(path[-1].children[level])
        path[-1].topic = ""
        for above, level in zip(reversed(path[:-1]), reversed(levels), strict=True):
            if above.children[level].topic or above.children[level].children:
                break
            del above.children[level]
        return True

    def _name(self, topic: str) -> None:
        at = self._root
        for level in topic.split("/"):
            at = at.children.setdefault(level, _Level())
        at.topic = topic

    def matching(self, pattern: str) -> list[Kept]:
        """What a new subscriber to `pattern` is to have, by topic."""
        if not has_wildcard(pattern):
            kept = self._kept.get(pattern)
            return [kept] if kept is not None else []
        return [self._kept[name] for name in sorted(self._names(pattern.split("/")))]

    def _names(self, levels: list[str]) -> set[str]:
        """Each queue of the tree is met once for each level of the pattern, at most."""
        found: set[str] = set()
        met: set[tuple[int, int]] = set()
        to_do = [(self._root, 0)]
        while to_do:
            at, index = to_do.pop()
            if (id(at), index) in met:
                continue
            met.add((id(at), index))
            if index == len(levels):
                if at.topic:
                    found.add(at.topic)
            else:
                to_do += _steps(at, levels[index], index)
        wild = levels[0] in (ONE, MANY)
        return {name for name in found if not name.startswith("$")} if wild else found


def _steps(at: _Level, level: str, index: int) -> list[tuple[_Level, int]]:
    if level == MANY:
        return [(at, index + 1), *((child, index) for child in at.children.values())]
    if level == ONE:
        return [(child, index + 1) for child in at.children.values()]
    child = at.children.get(level)
    return [(child, index + 1)] if child is not None else []
