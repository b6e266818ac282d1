"""Very many of the smallest things that a line brings: all are taken, and others are answered meanwhile."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable

import pytest
from intake_peers import (
    ASKED,
    Raw,
    Target,
    answers_meanwhile,
    frame_head,
    mqtt_over_a_websocket,
    session_of,
    upgraded,
)
from mqtt_wire import length

pytestmark = pytest.mark.asyncio(loop_scope="module")
COUNT = 200_000
ANSWERED = 20
"""Requests of somebody else meanwhile. Few were, when all that had come was taken at one go."""
PING, PONG = b"\x89\x83\0\0\0\0end", b"\x8a\x03end"
Flood = Callable[[Target], Awaitable[tuple[Raw, bytes, bytes]]]
"""A connection, what it says, and what it hears once all of that was taken."""


async def pings(target: Target) -> tuple[Raw, bytes, bytes]:
    return await session_of(target), b"\x89\x80\0\0\0\0" * COUNT + PING, PONG


async def pongs(target: Target) -> tuple[Raw, bytes, bytes]:
    """That nobody asked for."""
    return await session_of(target), b"\x8a\x80\0\0\0\0" * COUNT + PING, PONG


async def pings_of_a_channel(target: Target) -> tuple[Raw, bytes, bytes]:
    return await upgraded(target.port, "/channel"), b"\x89\x80\0\0\0\0" * COUNT + PING, PONG


async def parts(target: Target) -> tuple[Raw, bytes, bytes]:
    """Of one message, which has no end."""
    return await session_of(target), b"\x02\x80\0\0\0\0" + b"\x00\x81\0\0\0\0x" * COUNT + PING, PONG


async def bytes_of_mqtt(target: Target) -> tuple[Raw, bytes, bytes]:
    """Each in a WebSocket's frame of its own: one of these packets is as large as may be."""
    raw, publish = await mqtt_over_a_websocket(target), b"\x30" + length(COUNT + 3) + b"\x00\x01t"
    await raw.say(frame_head(len(publish)) + publish)
    return raw, (frame_head(1) + b"x") * COUNT + frame_head(2) + b"\xc0\x00", b"\xd0\x00"


async def chunks(target: Target) -> tuple[Raw, bytes, bytes]:
    """The body of a message, which is sent."""
    raw = await Raw.to(target.port)
    await raw.say(b"GET /login/%b HTTP/1.1\r\n\r\n" % secrets.token_hex(4).encode())
    await raw.until(b"\r\n\r\n")
    await raw.say(b"POST /send/q/1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    return raw, b"1\r\nx\r\n" * COUNT + b"0\r\n\r\n", b"HTTP/1.1 2"


async def chunks_of_a_page(target: Target) -> tuple[Raw, bytes, bytes]:
    """The body of a request that aiohttp answers, which has the connection already."""
    raw = await Raw.to(target.port)
    await raw.say(ASKED)
    await raw.until(b"\r\n\r\n")
    await raw.say(b"POST /api/publish HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    return raw, b"1\r\nx\r\n" * COUNT + b"0\r\n\r\n", b"HTTP/1.1 404"


@pytest.mark.parametrize(
    "flood", [pings, pings_of_a_channel, pongs, parts, bytes_of_mqtt, chunks, chunks_of_a_page]
)
async def test_others_are_answered_while_very_many_small_things_come(target: Target, flood: Flood) -> None:
    raw, said, heard = await flood(target)

    async def flooding() -> None:
        listening = asyncio.create_task(raw.until(heard))
        await raw.say(said)
        await listening

    assert await answers_meanwhile(target, flooding()) >= ANSWERED
    raw.break_off()
