"""Waits that end when the caller says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def within(seconds: float | None, late: Callable[[float], Exception]) -> AsyncIterator[None]:
    """The body has so many seconds, None = as long as it takes; then it raises what `late` makes of them."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise late(seconds or 0.0) from None
