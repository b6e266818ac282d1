"""Very many who come, go or wait at once: all get what is theirs, and others are answered meanwhile."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest
from intake_peers import Raw, Target, answers_meanwhile, frame_head, session_of
from mqtt_wire import length

from sapwood.protocol import bundles, packets
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import topic
from sapwood.protocol.session_frames import ClientFrame, Send, Subscribe, encode

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAYLOAD = b"one of very many"
Crowd = Callable[[Target], Coroutine[Any, Any, None]]


def string(text: bytes) -> bytes:
    return len(text).to_bytes(2) + text


def connect(name: bytes, will: bytes = b"") -> bytes:
    """`will`: of QoS 1, to `wills/NAME`."""
    flags = b"\x0e" if will else b"\x02"
    said = string(b"MQTT") + b"\x04" + flags + b"\x00\x00" + string(name)
    said += string(b"wills/" + name) + string(will) if will else b""
    return b"\x10" + length(len(said)) + said


async def client(target: Target, name: bytes, will: bytes = b"") -> Raw:
    raw = await Raw.to(target.mqtt)
    await raw.say(connect(name, will))
    assert await raw.hear() == b"\x20\x02\x00\x00"
    return raw


async def subscribe(raw: Raw, wanted: bytes) -> None:
    said = b"\x00\x01" + string(wanted) + b"\x00"
    await raw.say(b"\x82" + length(len(said)) + said)
    assert await raw.hear() == b"\x90\x03\x00\x01\x00"


async def many(count: int, one: Callable[[int], Awaitable[None]], at_once: int = 100) -> None:
    room = asyncio.Semaphore(at_once)

    async def admitted(number: int) -> None:
        async with room:
            await one(number)

    await asyncio.gather(*map(admitted, range(count)))


async def wills(target: Target) -> None:
    """All of hundreds of clients die at once, of which each has left a will of 16 KiB."""
    reader, count = await client(target, b"heir"), 500
    await subscribe(reader, b"wills/#")
    dying: list[Raw] = []

    async def one(number: int) -> None:
        dying.append(await client(target, b"%03d" % number, bytes(16_384)))

    await many(count, one)
    for each in dying:
        each.break_off(hard=True)
    left = {b"wills/%03d" % number for number in range(count)}
    heard = b""
    while left:
        heard += await reader.hear(1 << 20)
        while len(heard) >= 16_384 + 2 + 9 + 4:
            left.remove(heard[6:15])
            heard = heard[4 + 2 + 9 + 16_384 :]
    assert heard == b""
    reader.break_off()


async def takeovers(target: Target) -> None:
    """Each of hundreds comes under the same name, which ends the one before; the last one stays."""

    async def one(_: int) -> None:
        raw = await Raw.to(target.mqtt)
        await raw.say(connect(b"same", b"x"))
        await raw.closed()
        raw.break_off()

    crowd = asyncio.create_task(many(800, one, at_once=800))
    while not crowd.done():
        last = await client(target, b"same")
        last.break_off()
    await crowd


async def logins(target: Target) -> None:
    """One connection makes thousands of sessions, one after the other, and does not wait."""
    raw, count = await Raw.to(target.port), 5000
    said = b"".join(b"GET /login/%b HTTP/1.1\r\n\r\n" % secrets.token_hex(4).encode() for _ in range(count))
    speaking = asyncio.create_task(raw.say(said))
    heard = 0
    while heard < count:
        heard += (await raw.hear(1 << 20)).count(b"HTTP/1.1 ")
    await speaking
    raw.break_off()


async def say(raw: Raw, frames: Sequence[ClientFrame]) -> None:
    for first in range(0, len(frames), 500):
        packet = packets.packet([encode(each) for each in frames[first : first + 500]])
        await raw.say(frame_head(len(packet)) + packet)


async def members(target: Target) -> None:
    """Thousands share a subscription, and take one message each; then all go at once."""
    reader, writer, count = await session_of(target), await session_of(target), 8000
    numbers = range(1, count + 1)
    await say(reader, [Subscribe(each, each, topic("t"), 1, "d", group="group") for each in numbers])
    body = bundles.encode_message(Message(PAYLOAD))
    await say(writer, [Send(each, topic("t"), 1, body) for each in range(1, 2 * count)])
    count_left, heard = count, b""
    while count_left:
        heard += await reader.hear(1 << 20)
        count_left -= heard.count(PAYLOAD)
        heard = heard[heard.rfind(PAYLOAD) + 1 :]
    assert count_left == 0
    reader.break_off()
    writer.break_off()
    await target.until(lambda status: not status["sessions"], "alone again")


@pytest.mark.parametrize("crowd", [wills, takeovers, logins, members])
async def test_others_are_answered_while_very_many_come_and_go(target: Target, crowd: Crowd) -> None:
    assert await answers_meanwhile(target, crowd(target), pause=0.02)
