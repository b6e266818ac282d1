"""Shares of the loop: how often the others have their turns, and what is paid for."""

import asyncio

import pytest
from waiting import counting_turns

from broker import shares
from broker.shares import GATHERS, MOST, PAYS, SLICE, TURNS, LoopShare, Shares


class Processor:
    """A clock of the processor that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def nobody() -> None:
    """Asks nobody for a commit."""


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was rested."""
    found: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        found.append(seconds)
        await real(0)

    monkeypatch.setattr(shares.asyncio, "sleep", sleep)
    return found


async def test_the_others_have_several_turns_between_two_slices(slept: list[float]) -> None:
    async with counting_turns() as turns:
        slept.clear()
        await LoopShare(Shares(Processor()), nobody).give_way()
    assert turns() >= TURNS
    assert set(slept) == {0}


async def test_what_took_no_more_than_its_slices_is_not_paid_for(slept: list[float]) -> None:
    processor = Processor()
    share = LoopShare(Shares(processor), nobody)
    processor.now += 2 * SLICE
    await share.give_way()
    assert slept == [0] * TURNS


async def test_what_took_far_more_is_paid_for_once(slept: list[float]) -> None:
    processor = Processor()
    share = LoopShare(Shares(processor), nobody)
    processor.now += 2 * SLICE + 0.05
    await share.give_way()
    assert slept[-1] == pytest.approx(PAYS * 0.05, rel=0.1)
    slept.clear()
    await share.give_way()
    assert slept == [0] * TURNS


def test_many_pay_together_and_never_more_than_a_second() -> None:
    account = Shares(Processor())
    assert account.owe(0.05, 10.0) == pytest.approx(PAYS * 0.05)
    assert account.owe(0.05, 10.0) == pytest.approx(2 * PAYS * 0.05)
    assert account.owe(50.0, 10.0) == MOST
    assert account.owe(0.01, 20.0) == pytest.approx(PAYS * 0.01)


def test_a_share_is_over_when_its_slice_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5.0
    monkeypatch.setattr(shares.time, "perf_counter", lambda: now)
    share = LoopShare(Shares(Processor()), nobody)
    now += 0.9 * SLICE
    assert not share.is_over
    now += 0.2 * SLICE
    assert share.is_over
    share.begin()
    assert not share.is_over


async def test_whoever_is_called_back_goes_on_after_the_turns_of_the_others() -> None:
    had = asyncio.get_running_loop().create_future()
    async with counting_turns() as turns:
        LoopShare(Shares(Processor()), nobody).give_way_and(lambda: had.set_result(turns()))
        assert await had >= TURNS


async def test_whoever_is_called_back_pays_too() -> None:
    processor, loop = Processor(), asyncio.get_running_loop()
    share = LoopShare(Shares(processor), nobody)
    processor.now += 2 * SLICE + 0.05
    began, done = loop.time(), loop.create_future()
    share.give_way_and(lambda: done.set_result(loop.time()))
    assert await done - began >= 0.9 * PAYS * 0.05


async def test_a_commit_is_asked_for_when_much_has_gathered_and_not_at_each_slice(slept: list[float]) -> None:
    """Whoever it is of: many who each take little would else hold up what nobody asks for."""
    processor, asked = Processor(), [0]
    account = Shares(processor)

    def commit() -> None:
        asked.append(len(slept))
        account.looked_at()

    many = [LoopShare(account, commit) for _ in range(5)]
    slices = int(2.5 * GATHERS / SLICE)
    for number in range(slices):
        share = many[number % len(many)]
        share.begin()
        processor.now += SLICE
        await share.give_way()
    assert len(slept) == slices * TURNS
    assert len(asked) == 1 + 2
    account.looked_at()
    many[0].begin()
    processor.now += SLICE
    await many[0].give_way()
    assert len(asked) == 1 + 2


async def test_the_processor_of_others_between_two_slices_is_nothing_of_its_own(slept: list[float]) -> None:
    processor, asked = Processor(), []

    async def other() -> None:
        while True:
            processor.now += GATHERS
            await asyncio.sleep(0)

    share = LoopShare(Shares(processor), lambda: asked.append(processor.now))
    task = asyncio.create_task(other())
    for _ in range(3):
        processor.now += SLICE
        await share.give_way()
    task.cancel()
    assert asked == []


async def test_a_commit_is_asked_for_before_whoever_sent_it_rests_and_when_nothing_is_under_way(
    slept: list[float],
) -> None:
    """Also of what came in between, and counted on the end of this work."""
    processor, asked = Processor(), []
    account = Shares(processor)
    share = LoopShare(account, lambda: asked.append((len(slept), account.under_way)))
    processor.now += 2 * SLICE + 0.001
    await share.give_way()
    assert asked == [(TURNS, 0)]
    assert len(slept) == TURNS + 1


async def test_it_is_under_way_as_long_as_others_have_their_turns_and_not_while_it_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processor = Processor()
    account = Shares(processor)
    share = LoopShare(account, nobody)
    real, found = asyncio.sleep, []

    async def sleep(seconds: float) -> None:
        found.append((bool(seconds), account.under_way))
        await real(0)

    monkeypatch.setattr(shares.asyncio, "sleep", sleep)
    processor.now += 1.0
    await share.give_way()
    assert found == [(False, 1)] * TURNS + [(True, 0)]
    task = asyncio.create_task(share.give_way())
    await real(0)
    assert account.under_way == 1
    task.cancel()
    await asyncio.wait([task])
    assert account.under_way == 0
