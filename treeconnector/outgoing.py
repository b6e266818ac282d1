"""What one end of a link has to send, in the order that the protocol demands.

Law: control frames first; then a snapshot, in batches, and the advices that were held behind it; then
bundles, as the peer's window allows. So an advice takes effect before every bundle sent after it, and
control frames go between the pieces of a large bundle. Everything is pulled: nothing leaves by itself.

Acks and pongs are kept as their last value only, since each covers those before it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import LocalError, SequenceError
from sapwood.protocol.packets import PACKET_OVERHEAD, packets
from treeconnector.frames import (
    MAX_ADVICES_IN_FRAME,
    Ack,
    Advice,
    Advise,
    Bundle,
    Declined,
    Frame,
    Pong,
    SnapshotBegin,
    SnapshotEnd,
    Volatile,
    encode,
)
from treeconnector.parts import VOLATILE, split

_SMALL: Final = 16
_ADVICE: Final = 64
_FRAME_OVERHEAD: Final = 40


class _Waiting(NamedTuple):
    """A bundle to send: encoded whole, or cut into pieces when its turn comes."""

    number: int
    size: int
    whole: bytes | None
    pieces: Iterator[bytes]


class Snapshot:
    """One consistent cut on its way, and what changed since, the last word on each key; but of a topic that
    went and came both, for the peer has to give what is retained anew.
    """

    __slots__ = ("_advices", "_digest", "_held", "_sent", "_started", "behind")

    def __init__(self, advices: Sequence[Advice], digest: bytes) -> None:
        self._advices = advices
        self._digest = digest
        self._sent = 0
        self._started = False
        self._held: dict[tuple[Kind, str], tuple[Advice, ...]] = {}
        self.behind: list[bytes] = []

    def __repr__(self) -> str:
        return f"<Snapshot sent={self._sent} of {len(self._advices)} held={len(self._held)}>"

    @property
    def remaining_bytes(self) -> int:
        """A guess, and never 0."""
        return _SMALL + _ADVICE * (len(self._advices) - self._sent + len(self._held))

    def hold(self, advices: Sequence[Advice]) -> None:
        for advice in advices:
            before = self._held.pop((advice.kind, advice.name), ())[:1]
            is_back = (
                advice.kind == Kind.TOPIC and advice.op != "remove" and before and before[0].op == "remove"
            )
            self._held[advice.kind, advice.name] = (*before, advice) if is_back else (advice,)

    def next(self, limit: int) -> list[bytes]:
        """The next frames, encoded; [] when all has been sent."""
        if not self._started:
            self._started = True
            return [encode(SnapshotBegin(len(self._advices)))]
        if self._sent < len(self._advices):
            batch = self._advices[self._sent : self._sent + MAX_ADVICES_IN_FRAME]
            self._sent += len(batch)
            return advise_frames(batch, limit)
        return []

    def end(self, limit: int) -> list[bytes]:
        """The end of the snapshot, and what was held `behind` it."""
        return [encode(SnapshotEnd(self._digest)), *advise_frames(self._increments(), limit), *self.behind]

    def _increments(self) -> list[Advice]:
        """The removal of what the snapshot did not name says nothing."""
        held = [advice for said in self._held.values() for advice in said]
        if not any(advice.op == "remove" for advice in held):
            return held
        named = {(advice.kind, advice.name) for advice in self._advices}
        return [each for each in held if each.op != "remove" or (each.kind, each.name) in named]


def _nobody() -> None:
    """Nobody wants to be woken."""


class Outgoing:
    """`sent`: highest number that has left whole. `acked`: highest that the peer has committed.

    `wake` is called whenever there may be something to pull.
    """

    __slots__ = (
        "_ack",
        "_bundle_bytes",
        "_control",
        "_control_bytes",
        "_current",
        "_pong",
        "_snapshot",
        "_unacked",
        "_unacked_bytes",
        "_waiting",
        "acked",
        "max_frame",
        "next_number",
        "sent",
        "wake",
        "window_bundles",
        "window_bytes",
    )

    def __init__(self, max_frame: int) -> None:
        self.max_frame = max_frame
        self.wake: Callable[[], object] = _nobody
        self.window_bundles = 0
        self.window_bytes = 0
        self.sent = self.acked = 0
        self.next_number = 1
        self._control: list[bytes] = []
        self._control_bytes = 0
        self._ack: int | None = None
        self._pong: int | None = None
        self._snapshot: Snapshot | None = None
        self._waiting: list[_Waiting] = []
        self._bundle_bytes = 0
        self._current: _Waiting | None = None
        self._unacked: list[int] = []
        self._unacked_bytes = 0

    def __repr__(self) -> str:
        return f"<Outgoing sent={self.sent} acked={self.acked} waiting={len(self._waiting)}>"

    def open_window(self, acked: int, window_bundles: int, window_bytes: int) -> None:
        """The link is up: bundles go on after `acked`, within the peer's window."""
        self.sent = self.acked = acked
        self.next_number = acked + 1
        self.window_bundles, self.window_bytes = window_bundles, window_bytes

    @property
    def waiting(self) -> int:
        """Bundles that have not left yet."""
        return len(self._waiting) + (self._current is not None)

    @property
    def control_bytes(self) -> int:
        """Bytes of control frames that have not left yet. No window bounds them."""
        behind = sum(map(len, self._snapshot.behind)) if self._snapshot else 0
        return self._control_bytes + behind

    @property
    def buffered_bytes(self) -> int:
        """Bytes that have not left yet, nearly: more than 0 while there is anything to send."""
        small = _SMALL * ((self._ack is not None) + (self._pong is not None))
        snapshot = self._snapshot.remaining_bytes if self._snapshot else 0
        return self._control_bytes + small + snapshot + self._bundle_bytes

    # --- in

    def control(self, frame: Frame) -> None:
        encoded = encode(frame)
        if len(encoded) > self.max_frame - PACKET_OVERHEAD:
            raise LocalError(
                f"a {type(frame).__name__} frame of {len(encoded)} bytes: {self.max_frame} at most"
            )
        self._queue([encoded])

    def raw(self, encoded: bytes) -> None:
        self._queue([encoded])

    def _queue(self, encoded: list[bytes]) -> None:
        self._control.extend(encoded)
        self.wake()
        self._control_bytes += sum(map(len, encoded))

    def ack(self, received: int) -> None:
        self._ack = received
        self.wake()

    def pong(self, number: int) -> None:
        self._pong = number
        self.wake()

    def advise(self, advices: Sequence[Advice]) -> None:
        if self._snapshot is not None:
            self._snapshot.hold(advices)
        else:
            self._queue(advise_frames(advices, self.max_frame))

    def after_routes(self, encoded: bytes) -> None:
        """A frame that must not overtake what was said of routes."""
        if self._snapshot is not None:
            self._snapshot.behind.append(encoded)
        else:
            self._queue([encoded])

    def decline(self, keys: Sequence[Destination], text: str) -> None:
        """As many frames as it takes."""
        for start in range(0, len(keys), MAX_ADVICES_IN_FRAME):
            self._decline(list(keys[start : start + MAX_ADVICES_IN_FRAME]), text)

    def _decline(self, keys: list[Destination], text: str) -> None:
        encoded = encode(Declined(keys, text))
        if len(encoded) > self.max_frame - PACKET_OVERHEAD and len(keys) > 1:
            middle = len(keys) // 2
            self._decline(keys[:middle], text)
            self._decline(keys[middle:], text)
        else:
            self._queue([encoded])

    def snapshot(self, snapshot: Snapshot) -> None:
        if self._snapshot is not None:
            raise LocalError(
                f"{self._snapshot!r} is still under way: one at a time, and one for a link is enough"
            )
        self._snapshot = snapshot
        self.wake()

    @property
    def telling(self) -> bool:
        return self._snapshot is not None

    def bundle(self, number: int, header: bytes, body: bytes) -> None:
        if number != self.next_number:
            raise LocalError(f"cannot send bundle {number}: the next is {self.next_number}")
        self.next_number += 1
        self._put(number, header, body)

    def volatile(self, header: bytes, body: bytes) -> None:
        self._put(VOLATILE, header, body)

    def _put(self, number: int, header: bytes, body: bytes) -> None:
        size = len(header) + len(body)
        self._bundle_bytes += size
        self.wake()
        if size + _FRAME_OVERHEAD > self.max_frame:
            self._waiting.append(_Waiting(number, size, None, split(number, header, body, self.max_frame)))
            return
        whole = encode(Bundle(number, header, body)) if number else encode(Volatile(header, body))
        self._waiting.append(_Waiting(number, size, whole, iter(())))

    def close(self, last_word: Frame | None, *, keep_control: bool) -> None:
        """Nothing more will be sent but `last_word`, after the control frames that wait if they are kept."""
        if not keep_control:
            self._control.clear()
            self._control_bytes = 0
            self._ack = self._pong = None
        self._snapshot = self._current = None
        self._waiting.clear()
        self._bundle_bytes = 0
        if last_word is not None:
            self._queue([encode(last_word)])

    # --- the window

    def acknowledged(self, received: int) -> bool:
        """The peer has committed through `received`. Returns whether that is news."""
        if not self.acked <= received <= self.sent:
            raise SequenceError(f"an ack of {received}: expected {self.acked} to {self.sent}")
        committed = received - self.acked
        self._unacked_bytes -= sum(self._unacked[:committed])
        del self._unacked[:committed]
        news = received > self.acked
        self.acked = received
        if self._waiting:
            self.wake()
        return news

    @property
    def _window_is_open(self) -> bool:
        return len(self._unacked) < self.window_bundles and self._unacked_bytes < self.window_bytes

    # --- out

    def pull(self, budget: int) -> list[bytes]:
        """Packets of about `budget` bytes together, as far as there is something to send."""
        taken: list[bytes] = []
        room = self._take_control(taken, budget)
        if self._snapshot is not None and room > 0:
            room = self._take_snapshot(self._snapshot, taken, room)
        if self._waiting or self._current is not None:
            self._take_bundles(taken, room)
        return packets(taken, self.max_frame) if taken else taken

    def _take_control(self, taken: list[bytes], room: int) -> int:
        leaves = 0
        for frame in self._control:
            if room <= 0:
                break
            taken.append(frame)
            leaves += 1
            room -= len(frame)
            self._control_bytes -= len(frame)
        del self._control[:leaves]
        if self._ack is not None and room > 0:
            taken.append(encode(Ack(self._ack)))
            self._ack = None
        if self._pong is not None and room > 0:
            taken.append(encode(Pong(self._pong)))
            self._pong = None
        return room

    def _take_snapshot(self, snapshot: Snapshot, taken: list[bytes], room: int) -> int:
        while room > 0:
            encoded = snapshot.next(self.max_frame)
            if not encoded:
                self._snapshot = None
                self._queue(snapshot.end(self.max_frame))
                return self._take_control(taken, room)
            taken.extend(encoded)
            room -= sum(map(len, encoded))
        return room

    def _take_bundles(self, taken: list[bytes], room: int) -> None:
        waiting, begun = self._waiting, 0
        while room > 0:
            if self._current is not None:
                room -= self._take_piece(self._current, taken)
            elif begun == len(waiting) or (waiting[begun].number and not self._window_is_open):
                break
            else:
                room -= self._take_next(waiting[begun], taken)
                begun += 1
        del waiting[:begun]

    def _take_next(self, waiting: _Waiting, taken: list[bytes]) -> int:
        if waiting.number:
            self._unacked.append(waiting.size)
            self._unacked_bytes += waiting.size
        if waiting.whole is None:
            self._current = waiting
            return 0
        taken.append(waiting.whole)
        self._gone(waiting)
        return len(waiting.whole)

    def _take_piece(self, waiting: _Waiting, taken: list[bytes]) -> int:
        piece = next(waiting.pieces, None)
        if piece is None:
            self._current = None
            self._gone(waiting)
            return 0
        taken.append(piece)
        return len(piece)

    def _gone(self, waiting: _Waiting) -> None:
        self._bundle_bytes -= waiting.size
        if waiting.number:
            self.sent = waiting.number


def advise_frames(advices: Sequence[Advice], max_frame: int) -> list[bytes]:
    """Encoded `Advise` frames with all of these in order, each small enough for a packet."""
    found: list[bytes] = []
    for start in range(0, len(advices), MAX_ADVICES_IN_FRAME):
        found.extend(_advise_frames(list(advices[start : start + MAX_ADVICES_IN_FRAME]), max_frame))
    return found


def _advise_frames(advices: list[Advice], max_frame: int) -> list[bytes]:
    encoded = encode(Advise(advices))
    if len(encoded) <= max_frame - PACKET_OVERHEAD:
        return [encoded]
    middle = len(advices) // 2
    if not middle:
        name = advices[0].name
        raise LocalError(f"an advice for {name[:60]!r} that does not fit into a frame of {max_frame} bytes")
    return _advise_frames(advices[:middle], max_frame) + _advise_frames(advices[middle:], max_frame)
