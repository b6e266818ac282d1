"""Callers where a channel is taken make room for others."""

import asyncio

import pytest

from sapwood.channels.callers import MOST, Callers, host_of


async def waits() -> None:
    await asyncio.Event().wait()


async def test_the_oldest_of_the_host_that_has_most_makes_room() -> None:
    callers, tasks = Callers(), [asyncio.ensure_future(waits()) for _ in range(MOST + 2)]
    callers.add("10.0.0.1", tasks[0])
    for task in tasks[1:]:
        callers.add("10.0.0.2", task)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert [index for index, task in enumerate(tasks) if task.cancelling()] == [1, 2]
    assert repr(callers) == f"<Callers {MOST}>"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert repr(callers) == "<Callers 0>"


async def test_whoever_has_the_channel_makes_room_for_nobody() -> None:
    callers, tasks = Callers(), [asyncio.ensure_future(waits()) for _ in range(MOST + 1)]
    callers.add("10.0.0.1", tasks[0])
    callers.discard(tasks[0])
    for task in tasks[1:]:
        callers.add("10.0.0.1", task)
    assert not any(task.cancelling() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("place", "host"),
    [
        (("10.0.0.1", 4000), "10.0.0.1"),
        (("2001:db8::1", 4000, 0, 0), "2001:db8::/64"),
        (("2001:db8::ffff:2", 4000, 0, 0), "2001:db8::/64"),
        (("fe80::1%eth0", 4000, 0, 2), "fe80::/64"),
        ("", ""),
    ],
)
def test_whoever_has_a_network_is_one_host(place: object, host: str) -> None:
    assert host_of(place) == host
