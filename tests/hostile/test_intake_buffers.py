"""Connections that break in the middle of much: their memory goes with them, and nobody is any wiser."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from intake_peers import (
    ALLOWED,
    AT_ONCE,
    KNOWN,
    MIB,
    OF_EACH,
    STRANGERS,
    Kind,
    Raw,
    Target,
    break_off_many,
    expect_resident,
    running,
)

_SOME = memoryview(bytes(MIB // 4))
_MOST = memoryview(bytes(14 * MIB))


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running(tmp_path) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log
        assert "Error" not in made.log


async def some(raw: Raw, _number: int) -> None:
    await raw.say(_SOME)


async def some_or_most(raw: Raw, number: int) -> None:
    """Every tenth of those who are let in has said nearly all of it."""
    await raw.say(_MOST if number % 10 == 0 else _SOME)


@pytest.mark.parametrize("kind", [*STRANGERS, *KNOWN], ids=lambda kind: kind.__name__)
async def test_what_was_read_goes_with_its_connection(target: Target, kind: Kind) -> None:
    say = some_or_most if kind in KNOWN else some
    await break_off_many(target, kind, 2 * AT_ONCE, say)
    before = target.resident
    await break_off_many(target, kind, OF_EACH, say)
    await expect_resident(target, before + ALLOWED)
    assert (await target.status())["ready"]


@pytest.mark.parametrize("kind", STRANGERS, ids=lambda kind: kind.__name__)
async def test_strangers_together_take_little(target: Target, kind: Kind) -> None:
    """All at once, and none of them goes: 64 KiB each, and what a connection costs in any case."""
    count = 200
    await break_off_many(target, kind, AT_ONCE, some)
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
