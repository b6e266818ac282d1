"""How much is kept in memory for all connections together, and who waits or is cut off for it."""

import asyncio
import math

from broker.buffers import FEWEST, LOOKS, MOST, Behind, Buffers, most_within

MIB = 1024 * 1024


class Line:
    """A connection. `held` is what the test says."""

    def __init__(self, held: int = 0) -> None:
        self.held = held
        self.cut = 0

    def cut_off(self) -> None:
        self.cut += 1


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def looked_at(buffers: Buffers, *sizes: int) -> list[Line]:
    lines = [Line(size * MIB) for size in sizes]
    for line in lines:
        buffers.look(line)
    return lines


def test_the_largest_are_cut_off_once_and_until_there_is_room_again() -> None:
    closed: list[int] = []
    buffers = Buffers(100 * MIB, lambda: closed.append(1))
    lines = looked_at(buffers, 10, 45, 30, 5)
    assert [line.cut for line in lines] == [0, 0, 0, 0]
    lines[0].held = 40 * MIB
    buffers.look(lines[0])
    assert [line.cut for line in lines] == [0, 1, 0, 0]
    assert len(closed) == 1
    assert repr(buffers) == f"<Buffers {75 * MIB} of at most {100 * MIB} of 3 connections>"


def test_those_that_have_been_still_for_longest_are_cut_off_before_larger_ones() -> None:
    time = Time()
    buffers = Buffers(100 * MIB, clock=time)
    still, small = looked_at(buffers, 20, 0)
    time.now = 6.0
    (moving,) = looked_at(buffers, 60)
    moving.held = 90 * MIB
    buffers.look(moving)
    assert (still.cut, small.cut, moving.cut) == (1, 0, 1)
    again = looked_at(buffers, 20)[0]
    time.now = 12.0
    late = looked_at(buffers, 60)[0]
    late.held = 81 * MIB
    buffers.look(late)
    assert (again.cut, late.cut) == (1, 0)


def test_who_has_read_since_it_was_counted_is_counted_again() -> None:
    buffers = Buffers(100 * MIB)
    first, second = Line(60 * MIB), Line(60 * MIB)
    buffers.look(first)
    first.held = 0
    buffers.look(second)
    assert (first.cut, second.cut) == (0, 0)
    assert buffers.total == 60 * MIB


def test_who_has_gone_counts_no_more() -> None:
    buffers = Buffers(100 * MIB)
    first, second = Line(60 * MIB), Line(60 * MIB)
    buffers.look(first)
    buffers.gone(first)
    buffers.gone(first)
    buffers.look(second)
    assert second.cut == 0


def test_however_many_wait_at_their_share_all_of_them_stay_below_the_bound() -> None:
    buffers = Buffers(256 * MIB)
    assert buffers.share == 32 * MIB
    lines = [Line() for _ in range(1000)]
    for line in lines * 50:
        if line.held <= buffers.share:
            line.held += LOOKS
            buffers.look(line)
    assert buffers.total <= 256 * MIB
    assert not any(line.cut for line in lines)
    assert buffers.share >= LOOKS


async def test_who_is_behind_goes_on_once_it_has_read() -> None:
    buffers, went_on = Buffers(16 * MIB), asyncio.Event()
    line = Line(2 * MIB)
    behind = Behind(buffers, lambda: line.held, went_on.set)
    assert not behind.is_now()
    line.held = 3 * MIB
    assert behind.is_now()
    line.held = 2 * MIB
    assert behind.is_now(), "not before it has read half of it"
    await asyncio.sleep(0.05)
    assert not went_on.is_set()
    line.held = 0
    async with asyncio.timeout(60):
        await went_on.wait()
    assert not behind.is_now()


async def test_who_has_gone_does_not_go_on() -> None:
    went_on: list[int] = []
    line = Line(3 * MIB)
    behind = Behind(Buffers(16 * MIB), lambda: line.held, lambda: went_on.append(1))
    assert behind.is_now()
    behind.close()
    line.held = 0
    await asyncio.sleep(0.05)
    assert not went_on


def test_a_node_has_an_eighth_of_a_limited_memory_and_all_of_one_without_a_limit() -> None:
    assert most_within(math.inf) == MOST
    assert most_within(8 * MOST) == MOST
    assert most_within(1 << 30) == 1 << 27
    assert most_within(1 << 20) == FEWEST
