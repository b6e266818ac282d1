"""Waiting in tests: for what has to come, and whether others have their turns meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for it: on a machine that does other things too, that may take a while."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def counting_turns() -> AsyncIterator[Callable[[], int]]:
    """So many turns others had since."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    try:
        yield lambda: turns
    finally:
        task.cancel()
