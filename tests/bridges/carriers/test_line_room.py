"""A line's room, by a clock of our own: it is in memory, and has a rate, a way and a queue before it."""

import contextlib
import socket
import struct
import sys
from collections import deque
from typing import Final

import pytest

from bridges.carriers.line_room import LEAST, LineRoom, room_of

_SEGMENT: Final = 1448
_UNSENT: Final = 4 * 1024


class SlowLine:
    """All that is sent waits in an endless queue, leaves it at a rate, and has come when a turn is over.

    `others`: bytes in the queue that are not ours; they come as fast as they leave. `most`: bytes that TCP
    has under way; of the rest the system takes `_UNSENT`.
    """

    def __init__(self, rate: float, turn: float) -> None:
        self.rate, self.turn, self.others, self.most = rate, turn, 0, 2**40
        self.now = self.free_at = 0.0
        self.sent = self.acked = 0
        self.waits: list[float] = []
        self._way: deque[tuple[float, int]] = deque()

    def send(self, size: int) -> None:
        self.free_at = max(self.now + self.others / self.rate, self.free_at)
        self.waits.append(self.free_at - self.now)
        self.sent += size
        for segment in [_SEGMENT] * (size // _SEGMENT) + [size % _SEGMENT]:
            self.free_at += segment / self.rate
            self._way.append((self.free_at + self.turn, segment))

    @property
    def unsent(self) -> int:
        while self._way and self._way[0][0] <= self.now:
            self.acked += self._way.popleft()[1]
        return max(self.sent - self.acked - self.most, 0)

    def getsockopt(self, _level: int, _name: int, _size: int) -> bytes:
        unsent = self.unsent
        rtt = self.turn + max(self.free_at - self.now, self.others / self.rate)
        micro, least = int(rtt * 1e6), int(self.turn * 1e6)
        return struct.pack("=68xI48xQ16xII48xQQ", micro, self.acked, unsent, least, self.sent - unsent, 0)


def poured(line: SlowLine, room: LineRoom, seconds: float, late: float = 0.0) -> float:
    """Send all that it takes for a time; of the rate so much was used. `late`: every look is."""
    end, before = line.now + seconds, line.sent
    line.waits.clear()
    while line.now < end:
        while line.now < end and (size := room.ask(line.now)):
            line.send(min(size, 16 * 1024))
            line.now += max(line.unsent - _UNSENT, 0) / line.rate
        line.now += room.pause + late
    return (line.sent - before) / seconds / line.rate


LINES = pytest.mark.parametrize(
    ("mbit", "turn"),
    [(1, 0.03), (10, 0.0005), (10, 0.02), (100, 0.0005), (100, 0.02), (100, 0.1), (500, 0.005)],
)


def made(mbit: float, turn: float) -> tuple[SlowLine, LineRoom]:
    line = SlowLine(mbit * 1e6 / 8, turn)
    return line, LineRoom(line, 0.0)


@LINES
def test_a_line_is_full_and_its_queue_is_short(mbit: float, turn: float) -> None:
    line, room = made(mbit, turn)
    poured(line, room, 100 * turn + 2)
    assert poured(line, room, 5) > 0.85
    assert max(line.waits) < 0.006 + 0.3 * turn + 1.5 * LEAST / line.rate


def test_a_line_that_gets_slower_has_a_short_queue_again() -> None:
    line, room = made(100, 0.02)
    poured(line, room, 5)
    line.rate /= 10
    poured(line, room, 5)
    assert poured(line, room, 5) > 0.9
    assert max(line.waits) < 0.02


def test_who_looks_late_fills_the_line_all_the_same() -> None:
    line, room = made(100, 0.0005)
    poured(line, room, 5, late=0.02)
    assert poured(line, room, 5, late=0.02) > 0.7


def test_who_looked_late_for_a_while_leaves_the_queue_short_again() -> None:
    """TCP has less under way than what was thought to be needed then, so the room is never all used."""
    line, room = made(100, 0.0005)
    line.most = 150_000
    poured(line, room, 2, late=0.05)
    poured(line, room, 2)
    assert poured(line, room, 5) > 0.85
    assert max(line.waits) < 0.006


def test_a_line_that_only_processors_bound_is_not_held_back() -> None:
    line, room = made(8000, 0.00005)
    for _ in range(100):
        line.now += 0.001
        line.send(room.ask(line.now))
    rooms = [room.ask(line.now)]
    line.send(10_000_000)
    rooms.append(room.ask(line.now))
    assert min(rooms) > 500_000


def test_others_who_fill_the_line_do_not_have_all_of_it() -> None:
    """Their queue is 200 ms; ours is little of it."""
    line, room = made(10, 0.02)
    poured(line, room, 5)
    line.others = int(0.2 * line.rate)
    shares = [poured(line, room, 1) for _ in range(60)]
    assert sum(shares) / len(shares) > 0.3
    line.others = 0
    poured(line, room, 20)
    assert poured(line, room, 5) > 0.9
    assert max(line.waits) < 0.02


def test_what_is_no_tcp_line_has_no_room_of_its_own() -> None:
    near, far = socket.socketpair()
    with near, far:
        assert room_of(near, 0.0) is None
    assert room_of(None, 0.0) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_a_tcp_line_tells_what_is_under_way() -> None:
    """Bytes that nobody reads fill the other side's system, and then stay with ours."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            room = room_of(near, 0.0)
            assert room is not None
            near.setblocking(False)
            assert room.ask(0.0) > 0
            with contextlib.suppress(BlockingIOError):
                while near.send(bytes(65536)):
                    pass
            assert room.ask(0.001) == 0
