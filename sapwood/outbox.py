"""What a client has sent and the node has not confirmed: numbers, frames, window, rejections. No I/O.

Law: a number is given once, when a frame is sealed, and the frame's bytes are kept until the node's
confirmation covers them, so that after a lost connection the same bytes go out under the same numbers.
Messages that are not sealed can be withdrawn; frames are sealed when a connection takes them.
Rejections become known to the caller only when they are final, that is confirmed: what is sent again
after a lost connection may be taken then.

Messages of one destination that are published before the event loop comes round share a frame, also when
they alternate with others: order is kept per destination. While much is under way a frame waits for more
until the node has confirmed some of that, as small packets of TCP wait by Nagle's algorithm: a frame for each
few messages would cost the nodes on the way several times as much.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from sapwood.errors import Rejection
from sapwood.protocol.bundles import MAX_BYTES, MAX_MESSAGES, Properties
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.session_frames import Matched, Send, encode

_MUCH: Final = 2 * MAX_MESSAGES
"""Messages under way, of which the node confirms some in any case."""
_encoder = msgspec.msgpack.Encoder()


class FrameRoute(NamedTuple):
    """The common part of the messages of one frame."""

    destination: Destination
    persistent: bool = True
    retained: bool = False
    scope: int = -1
    tell: bool = False


class Call:
    """A caller that waits for some messages. `settled` is called once, when the last is confirmed.

    `is_sent`: some of them were given a number, and cannot be taken back any more. `asks`: the node is to say
    where a topic's messages go; `matched`: what it said.
    """

    __slots__ = ("_open", "_sealed", "asks", "is_sent", "matched", "rejections")

    def __init__(self, *, asks: bool = False) -> None:
        self._open = 0
        self._sealed = False
        self.asks = asks
        self.matched: Matched | None = None
        self.is_sent = False
        self.rejections: list[Rejection] = []

    def add(self) -> None:
        """One more frame holds messages of this call."""
        self._open += 1

    def end(self) -> None:
        """No further frames follow."""
        self._sealed = True
        if not self._open:
            self.settled()

    def take_back(self) -> None:
        """A frame of this call is not sent."""
        self._open -= 1

    def confirm(self) -> None:
        """A frame of this call is confirmed."""
        self._open -= 1
        if not self._open and self._sealed:
            self.settled()

    def settled(self) -> None:
        """To be overridden by who waits."""

    def failed(self, error: Exception) -> None:
        """The client is over. To be overridden by who waits."""


class _Share(NamedTuple):
    """Messages `first` to `last` of a frame belong to `call`."""

    first: int
    last: int
    call: Call


class _Sent(NamedTuple):
    """A frame that is not confirmed. `size`: bytes of the body, for the window."""

    first: int
    last: int
    size: int
    frame: bytes
    shares: tuple[_Share, ...]


class _Batch:
    """Encoded messages of one route that wait to be sealed, or one body of `count` messages.

    `calls`: (index of the message, call); of a body the one at index 0 has all of it.
    """

    __slots__ = ("calls", "count", "messages", "route", "size")

    def __init__(self, route: FrameRoute) -> None:
        self.route = route
        self.messages: list[bytes] = []
        self.count = 0
        self.size = 0
        self.calls: list[tuple[int, Call]] = []

    @property
    def is_body(self) -> bool:
        return self.count != len(self.messages)

    def add(self, message: bytes, count: int, call: Call | None) -> None:
        if call:
            call.add()
            self.calls.append((self.count, call))
        self.messages.append(message)
        self.count += count
        self.size += len(message)

    def shares(self, first: int) -> "tuple[_Share, ...]":
        length = self.count if self.is_body else 1
        return tuple(_Share(first + at, first + at + length - 1, call) for at, call in self.calls)

    def without(self, call: Call) -> "_Batch":
        """The same but for what belongs to `call`."""
        left = _Batch(self.route)
        calls = dict(self.calls)
        if not self.is_body:
            for index, message in enumerate(self.messages):
                owner = calls.get(index)
                if owner is not call:
                    left.messages.append(message)
                    left.calls += [(left.count, owner)] if owner else []
                    left.count += 1
                    left.size += len(message)
        return left


class Outbox:
    """Feed it with `add` and `add_body`; take `frames_to_send`; tell it `confirm` and `reject`."""

    def __init__(self, window_messages: int, window_bytes: int) -> None:
        self.window_messages = window_messages
        self.window_bytes = window_bytes
        self.messages = 0
        self.size = 0
        self.total = 0
        self.next_number = 1
        self.settled_through = 0
        self.rejections: list[Rejection] = []
        self._open: dict[FrameRoute, _Batch] = {}
        self._since = 1  # the next number when the oldest of these was begun
        self._full: list[_Batch] = []
        self._unsent: list[bytes] = []
        self._sent: deque[_Sent] = deque()
        self._pending: list[Rejection] = []

    def __repr__(self) -> str:
        return f"<Outbox next {self.next_number}, {self.messages} unconfirmed of {self.size} bytes>"

    @property
    def has_room(self) -> bool:
        return self.messages < self.window_messages and self.size < self.window_bytes

    # --- sending

    def add(self, route: FrameRoute, message: bytes, call: Call | None = None) -> None:
        """Put one encoded message into its route's open frame."""
        batch = self._open.get(route)
        size = len(message)
        if batch is None or (batch.messages and batch.size + size > MAX_BYTES):
            self._end(route)
            if not self._open:
                self._since = self.next_number
            batch = self._open[route] = _Batch(route)
        batch.add(message, 1, call)
        self._grow(1, size)
        if batch.count == MAX_MESSAGES:
            self._end(route)

    def add_body(self, route: FrameRoute, body: bytes, count: int, call: Call | None = None) -> None:
        """Put a body of `count` messages into a frame of its own, after what is open for the route."""
        self._end(route)
        batch = _Batch(route)
        batch.add(body, count, call)
        self._full.append(batch)
        self._grow(count, len(body))

    def _end(self, route: FrameRoute) -> None:
        """Nothing more is put into what is open for a route."""
        if batch := self._open.pop(route, None):
            self._full.append(batch)

    def withdraw(self, call: Call) -> bool:
        """It is given up: its messages that are not sealed are not sent. Were those all?"""
        kept = []
        for batch in (*self._full, *self._open.values()):
            if any(owner is call for _, owner in batch.calls):
                left = batch.without(call)
                for _ in range(len(batch.calls) - len(left.calls)):
                    call.take_back()
                self._grow(left.count - batch.count, left.size - batch.size)
                batch = left
            if batch.count:
                kept.append(batch)
        self._full, self._open = kept, {}
        return not call.is_sent

    def _grow(self, count: int, size: int) -> None:
        self.messages += count
        self.size += size
        self.total += size

    @property
    def has_unsent(self) -> bool:
        """Does a frame wait to be taken?"""
        return bool(self._open or self._full or self._unsent)

    def frames_to_send(self) -> list[bytes]:
        """The encoded frames that have not been taken yet. While much is under way that is older than the
        oldest frame that is not full, the full ones only: however many, they keep no other back for good.
        """
        if self._since - 1 - self.settled_through < _MUCH:
            self.seal()
        else:
            self._seal_full()
        frames, self._unsent = self._unsent, []
        return frames

    def seal(self) -> int:
        """Number everything that was added; return the last number."""
        self._full += self._open.values()
        self._open.clear()
        self._seal_full()
        return self.next_number - 1

    def _seal_full(self) -> None:
        batches, self._full = self._full, []
        for batch in batches:
            self._frame(batch)

    def fail(self, error: Exception) -> None:
        """The client is over: tell every call that still waits."""
        self.seal()
        for sent in self._sent:
            for share in sent.shares:
                share.call.failed(error)

    def _frame(self, batch: _Batch) -> None:
        first, route, count = self.next_number, batch.route, batch.count
        body = b"".join(batch.messages)
        asks = False
        for _, call in batch.calls:
            call.is_sent = True
            asks = asks or call.asks
        self.next_number = first + count
        frame = encode(
            Send(
                first,
                route.destination,
                count,
                body,
                route.persistent,
                route.retained,
                route.scope,
                route.tell,
                asks and route.destination.kind == Kind.TOPIC,
            )
        )
        self._sent.append(_Sent(first, first + count - 1, len(body), frame, batch.shares(first)))
        self._unsent.append(frame)

    # --- what the node says

    def begin(self, last: int, rejected: Sequence[Rejection] = ()) -> bool:
        """A connection is open; the node has dealt with all up to `last`, and has not taken what it names in
        `rejected`, which may not have been heard here. What it lacks is to be sent again.

        Returns False if the node has more of this producer than was sent here: somebody else uses its name.
        """
        if self.next_number == 1 and not self._sent:
            self.next_number = last + 1
            self.settled_through = last
        if last >= self.next_number:
            return False
        self._pending = [rejection for rejection in rejected if rejection.last > self.settled_through]
        self._settle(last)
        self._unsent = [sent.frame for sent in self._sent]
        return True

    def confirm(self, through: int) -> None:
        """Everything up to `through` is dealt with: on disk, or rejected."""
        self._settle(through)

    def matched(self, said: Matched) -> None:
        """Where the messages of a frame go."""
        sent = next((each for each in self._sent if each.last >= said.first), None)
        for share in sent.shares if sent is not None else ():
            share.call.matched = said

    def reject(self, rejection: Rejection) -> None:
        """Some sends are not taken. Known to their callers once everything before is settled."""
        self._pending.append(rejection)
        if rejection.first <= self.settled_through + 1:
            self._settle(rejection.last)

    def _settle(self, through: int) -> None:
        self.settled_through = through = max(self.settled_through, self._over_rejected(through))
        while self._sent and self._sent[0].last <= through:
            sent = self._sent.popleft()
            self.messages -= sent.last - sent.first + 1
            self.size -= sent.size
            self._tell(sent)
        if self._pending:
            self._pending = [rejection for rejection in self._pending if rejection.last > through]

    def _over_rejected(self, through: int) -> int:
        """Numbers directly after `through` that are rejected are settled as well."""
        for rejection in sorted(self._pending):
            if rejection.first <= through + 1:
                through = max(through, rejection.last)
        return through

    def _tell(self, sent: _Sent) -> None:
        rejected = _within(self._pending, sent.first, sent.last) if self._pending else []
        for share in sent.shares:
            share.call.rejections += _within(rejected, share.first, share.last)
            share.call.confirm()
        if rejected:
            self.rejections += _unclaimed(rejected, sent.shares)


def _within(rejections: list[Rejection], first: int, last: int) -> list[Rejection]:
    """The parts of the rejections that lie in [first, last]."""
    return [
        rejection._replace(first=max(first, rejection.first), last=min(last, rejection.last))
        for rejection in rejections
        if rejection.first <= last and rejection.last >= first
    ]


def _unclaimed(rejections: list[Rejection], shares: Sequence[_Share]) -> list[Rejection]:
    """The rejected messages that no call waits for: they were published."""
    if not shares:
        return rejections
    claimed = {number for share in shares for number in range(share.first, share.last + 1)}
    return [
        rejection._replace(first=number, last=number)
        for rejection in rejections
        for number in range(rejection.first, rejection.last + 1)
        if number not in claimed
    ]


def encode_message(payload: bytes, properties: Properties | None) -> bytes:
    """A message as it stands in a body (see `bundles`)."""
    return _encoder.encode((payload, properties) if properties else (payload,))


def bodies(payloads: Sequence[bytes], properties: Properties | None) -> Iterator[tuple[bytes, int]]:
    """Cut messages into bodies that fit a frame each: (body, count). A single message may be larger."""
    for start in range(0, len(payloads), MAX_MESSAGES):
        part = payloads[start : start + MAX_MESSAGES]
        if not properties:
            body = _plain_body(part)
            if len(body) <= MAX_BYTES:
                yield body, len(part)
                continue
        yield from _cut([encode_message(payload, properties) for payload in part])


def _plain_body(payloads: Sequence[bytes]) -> bytes:
    """All messages of a frame in one go: without properties a message is a constant head and its payload."""
    lengths = set(map(len, payloads))
    if len(lengths) == 1:
        head = _head(lengths.pop())
        return head + head.join(payloads)
    heads = {length: _head(length) for length in lengths}
    return b"".join([part for payload in payloads for part in (heads[len(payload)], payload)])


def _head(length: int) -> bytes:
    """MessagePack of an array of one, and of the beginning of `length` bytes."""
    if length < 1 << 8:
        return b"\x91\xc4" + length.to_bytes(1, "big")
    if length < 1 << 16:
        return b"\x91\xc5" + length.to_bytes(2, "big")
    return b"\x91\xc6" + length.to_bytes(4, "big")


def _cut(messages: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    """Encoded messages as bodies of at most `MAX_BYTES`."""
    start = size = 0
    for index, message in enumerate(messages):
        if index > start and size + len(message) > MAX_BYTES:
            yield b"".join(messages[start:index]), index - start
            start, size = index, 0
        size += len(message)
    yield b"".join(messages[start:]), len(messages) - start
