"""Samples of a real node: rates from its counters, longer steps from shorter ones."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nodes import running_node

from broker.history.ring import Ring, Row
from broker.history.sampler import FILE, Sampler, levels
from broker.history.series import NAMES
from broker.node import Node
from config.alarms import METRICS
from config.model import AdvisoryLog, Listener, Site
from sapwood import connect

NOON = 1_800_000_000.0  # a multiple of 900


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    site = Site(
        name="york",
        data=tmp_path / "data",
        listener=Listener(port=0),
        advisory_log=AdvisoryLog(enabled=False),
    )
    async with running_node(site) as made:
        yield made


def sampler_of(node: Node, folder: Path, clock: Clock) -> Sampler:
    return Sampler(node.report, folder, 10.0, clock=clock, running=clock)


async def test_what_applications_do_is_in_the_next_sample(node: Node, tmp_path: Path) -> None:
    clock = Clock(NOON)
    sampler = sampler_of(node, tmp_path, clock)
    told: list[dict[str, float]] = []
    sampler.watchers.append(lambda values: told.append(dict(values)))
    await sampler.sample()
    async with connect(f"http://127.0.0.1:{node.port}", session="till", timeout=60) as client:
        for number in range(30):
            await client.send("queue:sales", str(number).encode())
        clock.now += 10
        await sampler.sample()
    first, second = told
    assert set(second) == set(NAMES)
    assert math.isnan(first["entered"])
    assert (second["entered"], second["waiting"], second["sessions"]) == (3.0, 30.0, 1.0)
    assert second["commit"] > 0
    assert second["disk_free"] > 0
    assert math.isnan(second["parent_down"])
    course = sampler.course(1.0)
    assert (course.step, [row.at for row in course.rows]) == (10.0, [NOON, NOON + 10])
    assert course.rows[-1].values[NAMES.index("waiting")] == 30.0
    sampler.close()


async def test_longer_steps_are_folded_also_over_a_restart(node: Node, tmp_path: Path) -> None:
    clock = Clock(NOON)
    for _ in range(2):
        sampler = sampler_of(node, tmp_path, clock)
        for _ in range(60):
            node.core.counters["in"] += 50
            await sampler.sample()
            clock.now += 10
        sampler.close()
    sampler = sampler_of(node, tmp_path, clock)
    await sampler.sample()
    day = sampler.course(24.0)
    assert [row.at for row in day.rows] == [NOON + 180 * number for number in range(7)]
    assert [round(row.values[NAMES.index("in")], 3) for row in day.rows[:6]] == [5.0] * 6
    week = sampler.course(168.0)
    assert week.step == 1800.0  # so that there are not too many points
    assert [row.at for row in week.rows] == [NOON]
    sampler.close()


async def test_the_worst_of_a_step_is_kept_of_what_a_mean_would_hide(node: Node, tmp_path: Path) -> None:
    clock = Clock(NOON)
    sampler = sampler_of(node, tmp_path, clock)
    core = node.core
    for number in range(19):
        core.message_admission.disk_room = 0 if number == 7 else 2**30
        await sampler.sample()
        clock.now += 10
    row, now = sampler.course(24.0).rows
    assert now.values[NAMES.index("refusing")] == 0.0
    assert row.values[NAMES.index("refusing")] == 1.0
    sampler.close()


async def test_a_clock_that_goes_back_spoils_nothing(node: Node, tmp_path: Path) -> None:
    clock = Clock(5.0)  # a site boots in 1970
    sampler = sampler_of(node, tmp_path, clock)
    for now in (5.0, 15.0, NOON, NOON + 10, NOON - 500, NOON - 490):
        clock.now = now
        await sampler.sample()
    course = sampler.course(1.0)
    assert [row.at for row in course.rows] == [NOON - 500, NOON - 490]
    clock.now = NOON + 20
    await sampler.sample()
    course = sampler.course(1.0)
    assert [row.at - NOON for row in course.rows] == [-500, -490, 0, 10, 20]
    sampler.close()


async def test_a_disk_that_takes_nothing_costs_the_samples_and_no_more(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "away"
    sampler = sampler_of(node, folder, Clock(NOON))
    told: list[float] = []
    sampler.watchers.append(lambda values: told.append(values["waiting"]))
    await sampler.sample()
    assert told == [0.0]
    (warning,) = sampler.warnings()
    assert str(folder / FILE) in warning.replace(".history.ring.part", FILE)
    folder.mkdir()
    await sampler.sample()
    assert sampler.warnings() == []
    assert len((sampler.course(1.0)).rows) == 1
    sampler.close()


async def test_a_disk_that_does_not_answer_holds_nobody_up_who_is_told(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the very thing that an alarm is to tell of."""
    answers, add = threading.Event(), Ring.add

    def waits(ring: Ring, level: int, row: Row) -> None:
        assert answers.wait(60.0)
        add(ring, level, row)

    monkeypatch.setattr(Ring, "add", waits)
    sampler = Sampler(node.report, tmp_path, 0.01)
    told: list[float] = []
    sampler.watchers.append(lambda values: told.append(values["refusing"]))
    for _ in range(3):
        await sampler.sample()
    assert told == [0.0, 0.0, 0.0]
    answers.set()
    while not sampler.course(1.0).rows:
        await asyncio.sleep(0.01)
    sampler.close()


async def test_what_happens_before_the_first_sample_is_told_by_it(node: Node, tmp_path: Path) -> None:
    """Messages that expire right after a start become dead letters then."""
    clock = Clock(NOON)
    sampler = sampler_of(node, tmp_path, clock)
    told: list[dict[str, float]] = []
    sampler.watchers.append(lambda values: told.append(dict(values)))
    node.core.custody.buried["EXPIRED"] += 20
    clock.now += 10
    await sampler.sample()
    assert (told[0]["died"], told[0]["refused"]) == (2.0, 0.0)
    assert told[0]["cpu"] < 2.0
    sampler.close()


def test_a_series_takes_a_few_kilobytes() -> None:
    rows = sum(level.rows for level in levels(10.0))
    assert rows * 4 < 8 * 1024
    for shorter, longer in zip(levels(10.0)[1:], levels(10.0)[2:], strict=False):
        assert longer.step % shorter.step == 0
    assert levels(10.0)[0].span >= 3600
    assert levels(10.0)[1].span >= 24 * 3600
    assert levels(10.0)[2].span >= 7 * 24 * 3600


def test_alarms_may_name_every_series_and_no_other() -> None:
    assert NAMES == METRICS
