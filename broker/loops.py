"""The event loop that whole programs run on."""

import asyncio
from collections.abc import Callable


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes it, for `asyncio.Runner`: uvloop's, or asyncio's own where that is not there."""
    try:
        import uvloop
    except ImportError:
        return None
    make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return make
