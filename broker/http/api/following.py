"""`GET /api/follow`: events as lines of JSON, until the client goes or the node ends."""

import asyncio
from contextlib import aclosing
from typing import Final

from aiohttp import web

from broker.administration.follow import Wanted
from broker.http.api.operations import NDJSON, Call
from broker.http.ports import NodePort

_PATIENCE: Final = 30.0


async def follow(node: NodePort, call: Call) -> web.StreamResponse:
    """Stream. Who takes nothing for long is cut off. Raises `SwitchError` before anything is said."""
    values = call.values
    wanted = Wanted(
        destination=values["destination"],
        session=values["session"],
        task=values["task"],
        correlation_id=values["correlation_id"],
        payload=values["payload"],
    )
    request = call.request
    async with aclosing(node.administration.following.events(wanted)) as events:
        first = await anext(events)
        response = web.StreamResponse(headers={"Content-Type": NDJSON, "Cache-Control": "no-store"})
        try:
            await response.prepare(request)
            await response.write(first)
            async for line in events:
                if request.transport is None or request.transport.is_closing():
                    break
                async with asyncio.timeout(_PATIENCE):
                    await response.write(line)
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
    return response
