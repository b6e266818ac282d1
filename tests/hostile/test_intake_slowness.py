"""A byte each few seconds: whoever has not said enough when the time is over is cut off, wherever he stands.

The times are the node's own: 30 s for a request's head and for the beginning of a body, 10 s for a CONNECT, a
login and a hello; it looks every 10 s. All wait side by side.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio
from intake_peers import (
    PATIENCE,
    Raw,
    Target,
    body_of_a_page,
    body_of_a_send,
    body_of_a_verb,
    frame_head,
    running,
    upgraded,
)
from mqtt_wire import length

EACH = 5.0
LATEST = 30.0 + 10.0
MARGIN = 30.0
"""A machine that is busy is no fault of the node's; the wait for ever is a day."""
MANY = 100_000
Began = Callable[[Target], Awaitable[Raw]]


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running(tmp_path) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log


async def nothing(target: Target) -> Raw:
    return await Raw.to(target.port)


async def head_of_a_verb(target: Target) -> Raw:
    raw = await Raw.to(target.port)
    await raw.say(b"GET /login/x HTTP/1.1\r\nX: ")
    return raw


async def second_head(target: Target) -> Raw:
    """It has logged in, and begins with another request."""
    raw = await Raw.to(target.port)
    await raw.say(b"GET /login/%b HTTP/1.1\r\n\r\n" % secrets.token_hex(4).encode())
    assert b" 200 " in await raw.until(b"\r\n\r\n")
    await raw.say(b"GET /receive/empty/9/0 HTTP/1.1\r\nX: ")
    return raw


async def head_of_an_upgrade(target: Target) -> Raw:
    raw = await Raw.to(target.port)
    await raw.say(b"GET /session HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nX: ")
    return raw


async def frame_of_a_login(target: Target) -> Raw:
    raw = await upgraded(target.port, "/session")
    await raw.say(frame_head(MANY // 10))
    return raw


async def frame_of_a_hello(target: Target) -> Raw:
    raw = await upgraded(target.port, "/link")
    await raw.say(frame_head(MANY // 10))
    return raw


async def connect_of_mqtt(target: Target) -> Raw:
    raw = await Raw.to(target.mqtt)
    await raw.say(b"\x10" + length(MANY // 10) + b"\x00\x04MQTT")
    return raw


async def nothing_to_mqtt(target: Target) -> Raw:
    return await Raw.to(target.mqtt)


SLOW: tuple[Began, ...] = (
    nothing,
    head_of_a_verb,
    second_head,
    body_of_a_verb,
    body_of_a_page,
    body_of_a_send,
    head_of_an_upgrade,
    frame_of_a_login,
    frame_of_a_hello,
    connect_of_mqtt,
    nothing_to_mqtt,
)


async def trickle(target: Target, begin: Began) -> float:
    """Say a byte each few seconds until the node closes; how many seconds that took."""
    raw = await begin(target)
    began, silent = time.monotonic(), begin in (nothing, nothing_to_mqtt)
    closed = asyncio.create_task(raw.closed())
    while not closed.done() and time.monotonic() < began + LATEST + MARGIN:
        if not silent:
            with contextlib.suppress(ConnectionError):
                await raw.say(b"a")
        await asyncio.wait([closed], timeout=EACH)
    took = time.monotonic() - began
    done = closed.done()
    closed.cancel()
    await asyncio.gather(closed, return_exceptions=True)
    raw.break_off()
    assert done, f"{begin.__name__} is still there after {took:.0f} s"
    return took


async def send_without_haste(target: Target) -> None:
    """Twice as fast as is asked, for longer than anybody else has: it is served."""
    raw = await Raw.to(target.port)
    await raw.say(b"GET /login/%b HTTP/1.1\r\n\r\n" % secrets.token_hex(4).encode())
    assert b" 200 " in await raw.until(b"\r\n\r\n")
    await raw.say(b"POST /send/q/1 HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % MANY)
    said, began = 0, time.monotonic()
    while said < MANY:
        await asyncio.sleep(0.5)
        due = min(int(2048 * (time.monotonic() - began)), MANY)
        await raw.say(bytes(due - said))
        said = due
    assert b" 200 " in await raw.until(b"\r\n\r\n")
    raw.break_off()


async def test_a_byte_now_and_then_keeps_nobody_there(target: Target) -> None:
    assert PATIENCE > LATEST
    async with asyncio.TaskGroup() as group:
        slow = {begin.__name__: group.create_task(trickle(target, begin)) for begin in SLOW}
        group.create_task(send_without_haste(target))
    took = {name: task.result() for name, task in slow.items()}
    assert max(took.values()) < LATEST + MARGIN, took
    status = await target.until(lambda status: status["intake"]["connections"] <= 2, "alone again")
    assert status["ready"]
