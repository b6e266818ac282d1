"""Retained messages: the latest of each topic, found by pattern.

Law: bounded in number and bytes (`MOST`, `MOST_BYTES`, bodies as they are kept): the one that was renewed
longest ago goes first. After a start that order is the order of the topics' names. Of one origin there are at
most `SHARE` and `SHARE_BYTES` where it has to be bounded (`has_room`).

Wrinkle: time goes on for a kept message. In its header, in memory and on disk, `expires_first` and
`expires_last` are no remainder but the time of the node's clock, in ms, at which it is over; 0 = never.
`as_of` makes them one.

The names stand in a tree by level, so that a pattern walks only where it can match. A walk is cut into pages:
each says behind which place the next one begins, and is right whatever came and went between the two.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from broker.core.clock import PART
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header
from sapwood.protocol.destinations import topic
from treeconnector.patterns import MANY, ONE, has_wildcard

MOST: Final = 100_000
MOST_BYTES: Final = 256 * 1024 * 1024
SHARE: Final = MOST // 10
SHARE_BYTES: Final = MOST_BYTES // 10
_MAKER: Final = 12
"""Bytes of an id that say who made it, and in which start."""

Kept = tuple[Header, bytes]
Place = tuple[str, ...]
"""Levels of a topic, or of what topics begin with. A page of names is in the order of these."""


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


def value_of(header: Header) -> bytes:
    """A name for the one message of a kept bundle, the same at every node."""
    done = bundles.mask_bits(header.done)
    return header.id + bytes(((~done & (done + 1)).bit_length() - 1,))


def as_of(header: Header, now: float) -> Header | None:
    """The header of a kept message as any other's, with the time that is left; None if that is over."""
    if not header.expires_first:
        return header
    left = header.expires_first - int(now * 1000)
    return msgspec.structs.replace(header, expires_first=left, expires_last=left) if left > 0 else None


class _Level:
    """`topic`: the name that ends here, '' if none does. `order`: the names of the children, sorted."""

    __slots__ = ("children", "order", "topic")

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.order: list[str] = []
        self.topic = ""

    def child(self, level: str) -> "_Level":
        found = self.children.get(level)
        if found is None:
            found = self.children[level] = _Level()
            insort(self.order, level)
        return found

    def remove(self, level: str) -> None:
        del self.children[level]
        del self.order[bisect_left(self.order, level)]


class _LevelWalk:
    """How a pattern goes through the tree: which of its levels may come next, as bits."""

    __slots__ = ("_hides", "_many", "_named", "_ones", "begin", "end")

    def __init__(self, pattern: str) -> None:
        levels = pattern.split("/")
        self.end = 1 << len(levels)
        self._hides = levels[0] in (ONE, MANY)
        self._many = self._ones = 0
        self._named: Counter[str] = Counter()
        for index, level in enumerate(levels):
            if level == MANY:
                self._many |= 1 << index
            elif level == ONE:
                self._ones |= 1 << index
            else:
                self._named[level] |= 1 << index
        self.begin = self._closed(1)

    def step(self, bits: int, level: str, depth: int) -> int:
        if not depth and self._hides and level.startswith("$"):
            return 0
        here = bits & (self._ones | self._named.get(level, 0))
        return self._closed(here << 1 | bits & self._many)

    def _closed(self, bits: int) -> int:
        """With the levels behind each '#', which may stand for none."""
        while (more := bits | (bits & self._many) << 1) != bits:
            bits = more
        return bits

    def names(self, at: _Level, bits: int) -> list[str]:
        """The children that may match, in order."""
        if bits & (self._many | self._ones):
            return at.order
        return sorted(level for level in at.children.keys() & self._named.keys() if self._named[level] & bits)

    def frames(self, root: _Level, after: Place) -> "list[_Frame]":
        """The way to what comes behind a place, which may be gone by now."""
        at, bits, found = root, self.begin, []
        for depth, level in enumerate(after):
            names = self.names(at, bits)
            found.append(_Frame(at, bits, names, bisect_right(names, level)))
            bits, child = self.step(bits, level, depth), at.children.get(level)
            if child is None or not bits:
                return found
            at = child
        return [*found, _Frame(at, bits, self.names(at, bits), 0)]


class _Frame(NamedTuple):
    """A level where a walk is: `next` is the index, in `names`, of the child that it comes to next."""

    at: _Level
    bits: int
    names: list[str]
    next: int


class NamePage(NamedTuple):
    """Names of topics, behind which place the next page begins (None: this is the last one), and how many
    places the walk came by.
    """

    names: list[str]
    after: Place | None
    visited: int


class Retained:
    """A bundle for each topic, of which one message is open."""

    __slots__ = ("_kept", "_of", "_root", "_size_of", "size")

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
            above.remove(level)
        return True

    def _name(self, topic: str) -> None:
        at = self._root
        for level in topic.split("/"):
            at = at.child(level)
        at.topic = topic

    def get(self, topic: str) -> Kept | None:
        return self._kept.get(topic)

    def knows(self, header: Header) -> bool:
        """Does it come with a new filter, and is it the topic's last one already, or one that its maker made
        before that? Then all who ask for it here have it, or are given the last one by their own filter.
        """
        kept = self._kept.get(header.destination.name)
        if kept is None or not header.flags & Flag.KEPT:
            return False
        came, last = value_of(header), value_of(kept[0])
        same_maker = header.origin == kept[0].origin and came[:_MAKER] == last[:_MAKER]
        return same_maker and came <= last

    def headers(self) -> Iterator[tuple[str, Header]]:
        return ((name, header) for name, (header, _) in self._kept.items())

    def page(self, pattern: str, after: Place = (), most: int = PART) -> NamePage:
        """The topics that match, in order, behind a place; the walk comes by `most` places."""
        if not has_wildcard(pattern):
            there = pattern in self._kept and tuple(pattern.split("/")) > after
            return NamePage([pattern] if there else [], None, 1)
        walk, found, visited, last = _LevelWalk(pattern), list[str](), 0, after
        frames = walk.frames(self._root, after)
        path = list(after[: len(frames) - 1])
        while frames:
            at, bits, names, index = frames[-1]
            if index == len(names):
                frames.pop()
                del path[-1:]
                continue
            if visited == most:
                return NamePage(found, last, visited)
            visited += 1
            level = names[index]
            last = (*path, level)
            frames[-1] = _Frame(at, bits, names, index + 1)
            further = walk.step(bits, level, len(path))
            if not further:
                continue
            child = at.children[level]
            if further & walk.end and child.topic:
                found.append(child.topic)
            frames.append(_Frame(child, further, walk.names(child, further), 0))
            path.append(level)
        return NamePage(found, None, visited)
