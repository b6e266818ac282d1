"""What one end of a link receives: the frames of packets; numbers, window, pieces, snapshot.

Law: numbers are consecutive; a gap, a repetition or a change of order is a `SequenceError`. The peer never
has more under way than this end's window: a bundle may come while fewer than `window_bundles` and fewer
than `window_bytes` are unacknowledged. What is buffered here is at most one unfinished bundle.
"""

from typing import Final

import msgspec

from sapwood.protocol.bundles import UNREADABLE, decode_header
from sapwood.protocol.destinations import Destination, parse
from sapwood.protocol.errors import FrameError, InvalidName, LocalError, PatternError, SequenceError
from treeconnector import link_events as events
from treeconnector.frames import (
    FIRST_OPTIONAL,
    MAX_ADVICES_IN_FRAME,
    VERSION,
    Advise,
    AnyFrame,
    Bundle,
    Declined,
    Granted,
    Part,
    SnapshotBegin,
    SnapshotEnd,
    Unknown,
    Volatile,
    raw_decoder,
)
from treeconnector.parts import VOLATILE, Assembly
from treeconnector.permits import MAX_GRANTS_BYTES, unpack
from treeconnector.positions import MAX_NUMBER

MAX_NAME: Final = 4096
MAX_CAUSE: Final = 512
_OPERATIONS: Final = frozenset(("add", "remove", "dormant", "live"))

_packet_decoder = msgspec.msgpack.Decoder(list[AnyFrame])
_frame_decoder = msgspec.msgpack.Decoder(AnyFrame)
_tag_decoder = msgspec.msgpack.Decoder(int)


class Incoming:
    """`received`: highest number that arrived whole. `acknowledged`: highest that this end committed."""

    __slots__ = (
        "_assembly",
        "_grants",
        "_max_message",
        "_sizes",
        "_snapshot_left",
        "_unacknowledged",
        "_window_bundles",
        "_window_bytes",
        "acknowledged",
        "received",
    )

    def __init__(self, received: int, max_message: int, window_bundles: int, window_bytes: int) -> None:
        self.received = received
        self.acknowledged = received
        self._max_message = max_message
        self._window_bundles = window_bundles
        self._window_bytes = window_bytes
        self._sizes: list[int] = []
        self._unacknowledged = 0
        self._assembly: Assembly | None = None
        self._snapshot_left: int | None = None
        self._grants = bytearray()

    def __repr__(self) -> str:
        return f"<Incoming received={self.received} acknowledged={self.acknowledged}>"

    @property
    def owes_much(self) -> bool:
        """Has the peer used an eighth of its window since it was told last what is committed here?"""
        return 8 * self._unacknowledged >= self._window_bytes or 8 * len(self._sizes) >= self._window_bundles

    @property
    def unfinished(self) -> int:
        """Bytes that are kept of a bundle of which not all has come."""
        return self._assembly.arrived if self._assembly is not None else 0

    def acknowledge(self, received: int) -> bool:
        """This end has committed through `received`. Returns whether that is news."""
        if received > self.received:
            raise LocalError(f"cannot acknowledge {received}: only {self.received} has arrived")
        if received <= self.acknowledged:
            return False
        committed = received - self.acknowledged
        self._unacknowledged -= sum(self._sizes[:committed])
        del self._sizes[:committed]
        self.acknowledged = received
        return True

    # --- bundles

    def bundle(self, frame: Bundle) -> events.BundleArrived:
        """The next bundle, whole; in one step, since every message comes through here."""
        number, size = frame.number, len(frame.header) + len(frame.body)
        if (
            number != self.received + 1
            or self._assembly is not None
            or size > self._max_message
            or len(self._sizes) >= self._window_bundles
            or self._unacknowledged >= self._window_bytes
        ):
            self._expect(number, size)
        event = events.BundleArrived(number, decode_header(frame.header), frame.header, frame.body)
        self.received = number
        self._sizes.append(size)
        self._unacknowledged += size
        return event

    def volatile(self, frame: Volatile) -> events.VolatileArrived:
        self._check_size(VOLATILE, len(frame.header) + len(frame.body))
        return events.VolatileArrived(decode_header(frame.header), frame.header, frame.body)

    def part(self, frame: Part) -> events.BundleArrived | events.VolatileArrived | None:
        """Take a piece; return the bundle when it is whole."""
        assembly = self._assembly or Assembly(self._max_message)
        if assembly.begins(frame) and frame.number != VOLATILE:
            self._expect(frame.number, frame.total)
        whole = assembly.add(frame)
        self._assembly = assembly if whole is None else None
        if whole is None:
            return None
        if whole.number == VOLATILE:
            return events.VolatileArrived(decode_header(whole.header), whole.header, whole.body)
        return self._arrived(whole.number, whole.header, whole.body, frame.total)

    def forget(self) -> None:
        """The link has ended: what is here of unfinished things will never be whole."""
        self._assembly = None
        self._grants = bytearray()

    def _expect(self, number: int, size: int) -> None:
        if number != self.received + 1:
            raise SequenceError(f"bundle {number}: expected {self.received + 1}")
        self._check_size(number, size)
        if len(self._sizes) >= self._window_bundles or self._unacknowledged >= self._window_bytes:
            raise SequenceError(
                f"bundle {number} while {len(self._sizes)} of {self._unacknowledged} bytes are open:"
                f" the window is {self._window_bundles} bundles or {self._window_bytes} bytes"
            )

    def _check_size(self, number: int, size: int) -> None:
        if self._assembly is not None:
            raise SequenceError(f"another bundle between the pieces of one: {self._assembly!r}")
        if size > self._max_message:
            raise FrameError(f"bundle {number} of {size} bytes: this end takes {self._max_message} at most")

    def _arrived(self, number: int, header: bytes, body: bytes, size: int) -> events.BundleArrived:
        event = events.BundleArrived(number, decode_header(header), header, body)
        self.received = number
        self._sizes.append(size)
        self._unacknowledged += size
        return event

    # --- advices

    def snapshot_begin(self, frame: SnapshotBegin) -> events.SnapshotStarted:
        if self._snapshot_left is not None:
            raise SequenceError("a snapshot within a snapshot")
        if not 0 <= frame.count < MAX_NUMBER:
            raise FrameError(f"a snapshot of {frame.count} advices")
        self._snapshot_left = frame.count
        return events.SnapshotStarted(frame.count)

    def snapshot_end(self, frame: SnapshotEnd) -> events.SnapshotEnded:
        if self._snapshot_left is None:
            raise SequenceError("the end of a snapshot that never began")
        if self._snapshot_left:
            raise SequenceError(f"the end of a snapshot that lacks {self._snapshot_left} advices")
        self._snapshot_left = None
        return events.SnapshotEnded(frame.digest)

    def advise(self, frame: Advise) -> events.Advised:
        count = len(frame.advices)
        if count > MAX_ADVICES_IN_FRAME:
            raise FrameError(f"{count} advices in a frame: {MAX_ADVICES_IN_FRAME} at most")
        for advice in frame.advices:
            if advice.op not in _OPERATIONS:
                raise FrameError(f"an advice to {advice.op[:20]!r}: expected one of {sorted(_OPERATIONS)}")
            if len(advice.name) > MAX_NAME or len(advice.origin) + len(advice.cause) > MAX_CAUSE:
                raise FrameError(
                    f"an advice with a name of {len(advice.name)} characters: {MAX_NAME} at most"
                )
            if not 0 <= advice.reads < MAX_NUMBER:
                raise FrameError(f"an advice that reads version {advice.reads}")
        if self._snapshot_left is not None:
            self._snapshot_left -= count
            if self._snapshot_left < 0:
                raise SequenceError("a snapshot with more advices than it said")
        return events.Advised(frame.advices)

    # --- grants

    def granted(self, frame: Granted) -> events.PeerGrants | None:
        """Take a piece; return the grants when they are whole."""
        self._grants += frame.data
        if len(self._grants) > MAX_GRANTS_BYTES:
            raise FrameError(f"grants of more than {MAX_GRANTS_BYTES} bytes")
        if frame.more:
            return None
        data, self._grants = bytes(self._grants), bytearray()
        try:
            return events.PeerGrants(unpack(data))
        except (PatternError, InvalidName) as error:
            raise FrameError(f"grants that cannot be: {error}") from None


def destination_text(text: str) -> str:
    """A destination of Hold or Release, '' or as `parse` reads it; `FrameError` if it is neither."""
    if len(text) > MAX_NAME:
        raise FrameError(f"a hold or release with {len(text)} characters: {MAX_NAME} at most")
    if text:
        try:
            parse(text)
        except InvalidName as error:
            raise FrameError(f"a hold or release: {error}") from None
    return text


def declined_keys(frame: Declined) -> list[Destination]:
    """The keys of a Declined frame, after a look at their size."""
    if len(frame.keys) > MAX_ADVICES_IN_FRAME or any(len(key.name) > MAX_NAME for key in frame.keys):
        raise FrameError(f"{len(frame.keys)} declined keys, or one with a name above {MAX_NAME} characters")
    return frame.keys


def decode_packet(data: bytes, max_frame: int) -> list[AnyFrame | Unknown]:
    """Read a packet. Raises `FrameError` if it is too large or is none."""
    if len(data) > max_frame:
        raise FrameError(f"a packet of {len(data)} bytes: {max_frame} at most were agreed")
    try:
        return _packet_decoder.decode(data)  # type: ignore[return-value]  # list is invariant
    except UNREADABLE:
        return _decode_one_by_one(data)


def _decode_one_by_one(data: bytes) -> list[AnyFrame | Unknown]:
    """The slow way, for a packet that may hold frames of a later version."""
    try:
        items = raw_decoder.decode(data)
    except UNREADABLE as error:
        raise FrameError(f"not a packet of frames: {error}") from None
    return [_decode_one(bytes(item)) for item in items]


def _decode_one(item: bytes) -> AnyFrame | Unknown:
    try:
        frame: AnyFrame = _frame_decoder.decode(item)
        return frame
    except UNREADABLE as error:
        tag = _tag_of(item)
        if tag >= FIRST_OPTIONAL:
            return Unknown(tag)
        raise FrameError(f"not a frame of version {VERSION}: {error}") from None


def _tag_of(item: bytes) -> int:
    """The frame's tag, -1 if it has none. Nothing behind it is looked into."""
    try:
        fields = raw_decoder.decode(item)
        return _tag_decoder.decode(fields[0]) if fields else -1
    except UNREADABLE:
        return -1
