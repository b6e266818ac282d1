"""Connections that break in the middle of much: their memory goes with them, and nobody is any wiser."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from intake_peers import ALLOWED, KNOWN, MIB, STRANGERS, Kind, Target, expect_resident, running

OF_EACH = 1000
AT_ONCE = 20
_SOME = memoryview(bytes(MIB // 4))
_MOST = memoryview(bytes(14 * MIB))


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running(tmp_path) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log
        assert "Error" not in made.log


async def break_off_many(target: Target, kind: Kind, count: int, *, whole: bool) -> None:
    """Every tenth of those who are let in has said nearly all of it; the line ends in both ways."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            raw = await kind(target)
            with contextlib.suppress(ConnectionError):
                await raw.say(_MOST if whole and number % 10 == 0 else _SOME)
            raw.break_off(hard=number % 2 == 0)

    await asyncio.gather(*(one(number) for number in range(count)))
    await target.until(lambda status: status["intake"]["connections"] <= 2, "alone again")


@pytest.mark.parametrize("kind", [*STRANGERS, *KNOWN], ids=lambda kind: kind.__name__)
async def test_what_was_read_goes_with_its_connection(target: Target, kind: Kind) -> None:
    whole = kind in KNOWN
    await break_off_many(target, kind, 2 * AT_ONCE, whole=whole)
    before = target.resident
    await break_off_many(target, kind, OF_EACH, whole=whole)
    await expect_resident(target, before + ALLOWED)
    assert (await target.status())["ready"]


@pytest.mark.parametrize("kind", STRANGERS, ids=lambda kind: kind.__name__)
async def test_strangers_together_take_little(target: Target, kind: Kind) -> None:
    """All at once, and none of them goes: 64 KiB each, and what a connection costs in any case."""
    count = 200
    await break_off_many(target, kind, AT_ONCE, whole=False)
    before = target.resident
    raws = await asyncio.gather(*(kind(target) for _ in range(count)))
    for raw in raws:
        with contextlib.suppress(ConnectionError):
            await raw.say(_SOME)
    await asyncio.sleep(1)
    taken = target.resident - before
    for raw in raws:
        raw.break_off()
    assert taken <= count * (64 + 32) * 1024
