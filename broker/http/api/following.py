"""Answers that are a stream: lines of JSON, until the client goes or the node ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from aiohttp import web

from broker.api.operation import NDJSON

PATIENCE: Final = 30.0


async def stream(lines: AsyncGenerator[bytes, None], request: web.Request) -> web.StreamResponse:
    """Stream. Who takes nothing for long is cut off. Raises `SwitchError` before anything is said."""
    async with aclosing(lines) as events:
        first = await anext(events)
        response = web.StreamResponse(headers={"Content-Type": NDJSON, "Cache-Control": "no-store"})
        try:
            async with asyncio.timeout(PATIENCE):
                await response.prepare(request)
                await response.write(first)
            async for line in events:
                if request.transport is None or request.transport.is_closing():
                    break
                async with asyncio.timeout(PATIENCE):
                    await response.write(line)
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
    return response
