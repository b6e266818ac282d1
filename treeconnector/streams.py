"""The streams of one link, at one end: numbers, credit both ways, and what waits to be sent.

A *stream* is bytes in both directions, in order, to something that a node offers. A channel is a stream on
each link of its way. Nothing of it is stored.

Law: a peer never has more under way on a stream than it was given credit for: `PIECE` from the start, and
what `StreamCredit` adds. Credit is given again when the bytes have been *passed on*. So a node keeps at most
`WINDOW` bytes of one stream and direction; of all of a link together a `PIECE` of each, and `LINK_BYTES`; of
all links a `PIECE` of each, and what their `StreamPool` has. They are kept as bytes, however small the frames
are in which they come, or as a view of twice as many at most. Who breaks this, or invents numbers, loses
the link.

Law: bytes are pulled, a piece at a time, streams in turn, when the link has nothing else to say. So no bundle
waits for more than a packet.

Wrinkle: both ends may reset a stream while the other still speaks of it. Numbers only grow, so what comes for
one that is over is told from what never was: the first is ignored, and paced.
"""

from collections import OrderedDict, deque
from collections.abc import Sized
from typing import Final, cast

from sapwood.protocol.errors import FrameError, InvalidName, LocalError, SequenceError
from sapwood.protocol.names import node_name
from sapwood.protocol.packets import Bytes
from treeconnector import link_events as events
from treeconnector.frames import (
    Frame,
    StreamCredit,
    StreamData,
    StreamEnd,
    StreamOpen,
    StreamOpened,
    StreamReset,
)
from treeconnector.link_settings import clean
from treeconnector.positions import MAX_NUMBER
from treeconnector.stream_packets import packet_in_parts
from treeconnector.stream_pool import StreamPool

PIECE: Final = 16 * 1024
WIDE: Final = 480 * 1024
"""Most bytes of streams in one packet; and on a line that took the one before, half as wide, at once. A
carrier sets aside a little more for a packet, so that it is read to where it stays.
"""
WINDOW: Final = 2 * 1024 * 1024
LINK_BYTES: Final = 16 * 1024 * 1024
MOST_FRAMES: Final = 512
"""Frames in one packet: what they take beside their data is less than a quarter of the smallest packet."""
MAX_HOPS: Final = 64
CHANNEL_BYTES: Final = 16
MAX_REASON: Final = 32
FREE: Final = 1024
"""Data of so many bytes are paced by credit, smaller ones by the number of frames."""
LEAST_CREDIT: Final = PIECE // 2
"""Credit that is given again is at least so much."""
_MAX_CREDIT: Final = 64 * WINDOW
_SMALL: Final = PIECE // 4
"""Bytes that are kept by themselves are at least so many; smaller ones are put together."""


class Stream:
    """One stream. `credit`: bytes that may be sent; `granted`: that may come; `unread`: that came, and have
    not been passed on; `lent`: of both together what is beyond a `PIECE`. `ending`: nothing follows what
    waits; `end_sent`: the peer was told so; `end_came`: the peer has said so.
    """

    __slots__ = (
        "credit",
        "end_came",
        "end_sent",
        "ending",
        "granted",
        "lent",
        "opened",
        "ours",
        "unread",
        "waiting",
    )

    def __init__(self, *, ours: bool) -> None:
        self.ours = ours
        self.opened = False
        self.credit = self.granted = PIECE
        self.unread = self.lent = 0
        self.waiting: deque[Bytes] = deque()
        self.ending = self.end_sent = self.end_came = False

    def __repr__(self) -> str:
        return f"<Stream credit={self.credit} granted={self.granted} unread={self.unread}>"

    @property
    def can_send(self) -> bool:
        return self.credit > 0 if self.waiting else self.ending and not self.end_sent

    @property
    def is_over(self) -> bool:
        return self.end_sent and self.end_came


_NONE_READY: Final[OrderedDict[int, None]] = OrderedDict()
_NONE_OWED: Final[dict[int, int]] = {}


class Streams:
    """All of one link. `most`: the peer may have so many open, of its own; `peer_takes`: of ours, 0 before it
    is up and with a peer that knows no streams. `pool`: of all links of this node.
    """

    __slots__ = (
        *("_latest", "_lent", "_next", "_ours", "_owed", "_pool", "_ready", "_sent", "_theirs"),
        *("most", "open", "peer_takes"),
    )

    def __init__(self, most: int, pool: StreamPool, *, dials: bool) -> None:
        self.most = most
        self._pool = pool
        self.peer_takes = 0
        self.open: dict[int, Stream] = {}
        self._sent: dict[int, int] = {}
        self._next = 1 if dials else 2
        self._latest = 0
        self._ours = self._theirs = 0
        self._lent = 0
        self._ready, self._owed = _NONE_READY, _NONE_OWED  # shared until there is a stream

    def __repr__(self) -> str:
        return f"<Streams open={len(self.open)} ready={len(self._ready)}>"

    # --- what this end does

    @property
    def has_room(self) -> bool:
        """May this end open one more?"""
        return self._ours < self.peer_takes

    @property
    def is_ready(self) -> bool:
        """Is there anything that `packet` would take?"""
        return bool(self._ready)

    @property
    def has_news(self) -> bool:
        """Is there anything to be said of streams, their credit included?"""
        return bool(self._ready or self._owed)

    def begin(self) -> int:
        """The number of a new stream of ours. Raises `LocalError`: the peer takes no more."""
        if not self.has_room:
            raise LocalError(f"the peer takes no more streams: {self!r}")
        number, self._next = self._next, self._next + 2
        self._add(number, Stream(ours=True))
        self._ours += 1
        return number

    def _add(self, number: int, stream: Stream) -> None:
        if not self.open:
            self._ready, self._owed = OrderedDict(), {}
        self.open[number] = stream

    def accept(self, number: int) -> bool:
        """A stream of the peer's is open. Returns whether it is still there to be told so."""
        stream = self.open.get(number)
        if stream is None or stream.ours or stream.opened:
            return False
        stream.opened = True
        self._grant(number, stream)
        return True

    def send(self, number: int, data: Bytes) -> None:
        """Let these bytes follow. Caller's duty: no more than what it waits for is passed on."""
        stream = self.open.get(number)
        if stream is not None and not stream.ending and data:
            last = stream.waiting[-1] if stream.waiting else None
            if len(data) >= _SMALL:
                stream.waiting.append(data)
            elif isinstance(last, bytearray) and len(last) < PIECE:
                last += data
            else:
                stream.waiting.append(bytearray(data))
            self._look(number, stream)

    def finish(self, number: int) -> None:
        """Nothing more follows."""
        stream = self.open.get(number)
        if stream is not None and not stream.ending:
            stream.ending = True
            self._look(number, stream)

    def passed(self, number: int, size: int) -> None:
        """So many of the bytes that came have been passed on: give credit again, as far as there is room."""
        stream = self.open.get(number)
        if stream is None:
            return
        stream.unread -= size
        if not stream.end_came:
            self._grant(number, stream)
        elif stream.is_over and not stream.unread:
            self._forget(number, stream)
        else:
            self._lend(stream)

    def remove(self, number: int) -> bool:
        """It is over, whatever waits. Returns whether it was there."""
        stream = self.open.get(number)
        if stream is None:
            return False
        if not stream.is_over:
            self._count_less(stream)
        self._forget(number, stream)
        return True

    def _count_less(self, stream: Stream) -> None:
        if stream.ours:
            self._ours -= 1
        else:
            self._theirs -= 1

    def _forget(self, number: int, stream: Stream) -> None:
        del self.open[number]
        self._lent -= stream.lent
        self._pool.lent -= stream.lent
        self._owed.pop(number, None)
        self._ready.pop(number, None)

    def _grant(self, number: int, stream: Stream) -> None:
        self._lend(stream)
        held = stream.granted + stream.unread
        window = max(PIECE, min(WINDOW, LINK_BYTES // len(self.open)))
        left = max(min(LINK_BYTES - self._lent, self._pool.most - self._pool.lent), 0)
        room = min(window - held, max(PIECE - held, 0) + left)
        is_short = 2 * stream.granted <= window
        if is_short and 2 * room >= min(window, 2 * PIECE):
            stream.granted += room
            self._owed[number] = self._owed.get(number, 0) + room
            self._lend(stream)

    def _lend(self, stream: Stream) -> None:
        lent = max(stream.granted + stream.unread - PIECE, 0)
        self._lent += lent - stream.lent
        self._pool.lent += lent - stream.lent
        stream.lent = lent

    def _look(self, number: int, stream: Stream) -> None:
        if stream.can_send:
            self._ready[number] = None

    def forget(self) -> None:
        """The link has ended, and all of them with it."""
        self.peer_takes = 0
        self._pool.lent -= self._lent
        self._lent = 0
        self.open.clear()
        self._ready.clear()
        self._owed.clear()

    # --- what leaves

    def take_sent(self) -> dict[int, int]:
        """Bytes of each stream that were taken since this was asked last."""
        sent = self._sent
        if sent:
            self._sent = {}
        return sent

    def credits(self) -> list[Frame]:
        """The credit that is owed to the peer."""
        frames: list[Frame] = [StreamCredit(number, size) for number, size in self._owed.items()]
        self._owed.clear()
        return frames

    def packet(self, most: int) -> list[Bytes]:
        """The parts of the next packet, or []; of so many bytes of data at most."""
        taken = self._pull(most)
        return packet_in_parts(taken) if taken else []

    def _pull(self, most: int) -> list[Frame]:
        """The next frames, of so many bytes of data at most; streams in turn.

        Data that fits the next packet whole is not cut to fill this one: all nodes on the way would pass on
        two parts.
        """
        taken: list[Frame] = []
        room = most
        while self._ready and room > 0 and len(taken) < MOST_FRAMES:
            number, _ = self._ready.popitem(last=False)
            stream = self.open[number]
            if room < most - most // 8 and stream.waiting and room < len(stream.waiting[0]) <= most:
                self._ready[number] = None
                self._ready.move_to_end(number, last=False)
                break
            room -= self._take(number, stream, room, taken)
            if number in self.open:
                self._look(number, stream)
        return taken

    def _take(self, number: int, stream: Stream, room: int, taken: list[Frame]) -> int:
        """Returns the bytes of data, at least 1, so that a turn costs something."""
        if not stream.waiting:
            taken.append(StreamEnd(number))
            stream.end_sent = True
            self._half_over(number, stream)
            return 1
        data = stream.waiting.popleft()
        size = min(len(data), stream.credit, room)
        if size < len(data):
            view = memoryview(data)
            stream.waiting.appendleft(_kept(view[size:]))
            data = view[:size]
        taken.append(StreamData(number, data))
        stream.credit -= size
        self._sent[number] = self._sent.get(number, 0) + size
        return size

    def _half_over(self, number: int, stream: Stream) -> None:
        """One direction is over; with the other the stream is, but for bytes that are to be passed on."""
        if stream.is_over:
            self._count_less(stream)
            if not stream.unread:
                self._forget(number, stream)

    # --- what arrives

    def moves_much(self, frame: object) -> bool:
        """Is it a frame that is paced by credit? One of a stream that is over moves nothing."""
        match frame:
            case StreamData(number, data):
                return len(data) >= FREE and number in self.open
            case StreamCredit(number, size):
                return size >= LEAST_CREDIT and number in self.open
        return False

    def asked(self, frame: StreamOpen) -> events.Event:
        number = frame.stream
        if not self._latest < number < MAX_NUMBER or number % 2 == self._next % 2:
            raise SequenceError(f"stream {number}: expected a number of its own above {self._latest}")
        if self._theirs >= self.most:
            raise SequenceError(f"stream {number} beside {self._theirs} others: {self.most} at most")
        try:
            for name in (frame.to, frame.name, frame.origin):
                node_name(name)
        except InvalidName as error:
            raise FrameError(f"a stream that cannot be: {error}") from None
        if len(frame.channel) != CHANNEL_BYTES or not 0 <= frame.hops <= MAX_HOPS:
            raise FrameError(f"a stream of channel {frame.channel.hex()[:40]} after {frame.hops} hops")
        self._latest = number
        self._theirs += 1
        self._add(number, Stream(ours=False))
        return events.StreamAsked(number, frame.to, frame.name, frame.origin, frame.channel, frame.hops)

    def accepted(self, frame: StreamOpened) -> events.Event | None:
        stream = self._of(frame.stream)
        if stream is None:
            return None
        if not stream.ours or stream.opened:
            raise SequenceError(f"stream {frame.stream} is opened by the other end, once")
        stream.opened = True
        self._grant(frame.stream, stream)
        return events.StreamAccepted(frame.stream)

    def data(self, frame: StreamData) -> events.Event | None:
        stream, size = self._of(frame.stream), len(frame.data)
        if not size:
            raise FrameError(f"no bytes on stream {frame.stream}")
        if stream is None:
            return None
        if stream.end_came or size > stream.granted:
            raise SequenceError(
                f"{size} bytes on stream {frame.stream}: expected {0 if stream.end_came else stream.granted}"
                " at most"
            )
        stream.granted -= size
        stream.unread += size
        return events.StreamArrived(frame.stream, _kept(frame.data))

    def credit(self, frame: StreamCredit) -> None:
        stream = self._of(frame.stream)
        if not 0 < frame.size <= _MAX_CREDIT:
            raise FrameError(f"credit of {frame.size} bytes for stream {frame.stream}")
        if stream is None:
            return
        stream.credit += frame.size
        if stream.credit > _MAX_CREDIT:
            raise FrameError(f"credit of {stream.credit} bytes for stream {frame.stream}")
        self._look(frame.stream, stream)

    def ended(self, frame: StreamEnd) -> events.Event | None:
        stream = self._of(frame.stream)
        if stream is None:
            return None
        if stream.end_came:
            raise SequenceError(f"stream {frame.stream} ends twice")
        stream.end_came = True
        self._half_over(frame.stream, stream)
        return events.StreamFinished(frame.stream)

    def reset(self, frame: StreamReset) -> events.Event | None:
        if self._of(frame.stream) is None:
            return None
        self.remove(frame.stream)
        return events.StreamBroken(frame.stream, clean(frame.reason)[:MAX_REASON], clean(frame.text))

    def _of(self, number: int) -> Stream | None:
        """None: it is over. Raises `SequenceError` for one that never was."""
        stream = self.open.get(number)
        if stream is None:
            ours = number % 2 == self._next % 2
            if not 0 < number < (self._next if ours else self._latest + 1):
                raise SequenceError(f"stream {number}, which never was")
        return stream


def _kept(data: Bytes) -> Bytes:
    """As a view, if at least half of what it keeps in memory is seen of it."""
    if isinstance(data, memoryview) and 2 * len(data) < len(cast("Sized", data.obj)):
        return bytes(data)
    return data
