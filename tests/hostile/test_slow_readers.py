"""Whoever stops reading while much wants to go to it makes the node keep a bounded part of it only."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from intake_peers import (
    KNOWN,
    MIB,
    MUCH,
    OF_ALL,
    PATIENCE,
    Kind,
    Raw,
    Target,
    frame_head,
    most_resident,
    running,
    upgraded,
)
from mqtt_wire import length

from broker.cli.demo.processes import Status
from sapwood.client import connect
from sapwood.protocol import packets
from sapwood.protocol.destinations import topic
from sapwood.protocol.session_frames import VERSION, Login, Subscribe, encode
from sapwood.subscription import Subscription

LEVELS = 9
FILTERS = ["/".join("+" if bits >> at & 1 else "a" for at in range(LEVELS)) for bits in range(1 << LEVELS)]
"""All of them match `TOPIC`, so that a message goes to one reader so many times."""
TOPIC = "/".join("a" * LEVELS)
MESSAGE = secrets.token_bytes(MIB)
MANY, MESSAGES = 60, 40
BESIDE = 96 * MIB
"""What the node takes to do its work meanwhile, and what a connection's buffers in the system hold."""


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running(tmp_path) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log


async def publish(target: Target, count: int, size: int = MIB) -> None:
    """To the topic that all filters match; so that nothing is kept on disk for who has gone."""
    async with connect(f"http://127.0.0.1:{target.port}", session="writer") as client:
        for _ in range(count):
            await client.send(topic(TOPIC), MESSAGE[:size], persistent=False)


async def session_that_stops(target: Target) -> Raw:
    raw = await upgraded(target.port, "/session")
    asks = [Subscribe(number, number, topic(each), 1_000_000) for number, each in enumerate(FILTERS, 1)]
    for frame in (Login(VERSION, "reader", ""), *asks):
        packet = packets.packet([encode(frame)])
        await raw.say(frame_head(len(packet)) + packet)
    return raw


async def mqtt_client_that_stops(target: Target) -> Raw:
    raw = await Raw.to(target.mqtt)
    await raw.say(b"\x10\x12\x00\x04MQTT\x04\x02\x00\x00\x00\x06reader")
    assert await raw.hear() == b"\x20\x02\x00\x00"
    for number, each in enumerate(FILTERS, 1):
        body = number.to_bytes(2) + len(each).to_bytes(2) + each.encode() + b"\x01"
        await raw.say(b"\x82" + length(len(body)) + body)
    return raw


@pytest.mark.parametrize("stops", [session_that_stops, mqtt_client_that_stops])
async def test_an_application_that_stops_reading(
    target: Target, stops: Callable[[Target], Awaitable[Raw]]
) -> None:
    """One message of 1 MiB is to go to it 512 times, all in one turn of the loop; then two more are."""
    raw = await stops(target)
    await target.until(lambda status: sum(status["routes"].values()) >= len(FILTERS), "asked for everything")
    before = most_resident(target)
    await publish(target, 3)
    assert most_resident(target) <= before + OF_ALL + BESIDE
    assert (await target.status())["ready"]
    raw.break_off()


async def durable_session_that_stops(target: Target, number: int) -> Raw:
    raw = await upgraded(target.port, "/session")
    asks = Subscribe(1, 1, topic("news"), 1_000_000, "kept")
    packet = packets.packet([encode(Login(VERSION, f"slow-{number}", "")), encode(asks)])
    await raw.say(frame_head(len(packet)) + packet)
    return raw


async def durable_mqtt_client_that_stops(target: Target, number: int) -> Raw:
    """A kept session, and QoS 1."""
    raw, name = await Raw.to(target.mqtt), f"slow-{number}".encode()
    said = b"\x00\x04MQTT\x04\x00\x00\x00" + len(name).to_bytes(2) + name
    await raw.say(b"\x10" + length(len(said)) + said)
    assert await raw.hear() == b"\x20\x02\x00\x00"
    await raw.say(b"\x82\x09\x00\x01\x00\x04news\x01")
    return raw


async def test_many_that_stop_reading_cost_no_more_together_and_lose_nothing(target: Target) -> None:
    """To each of 60 are to go 40 MiB. Who reads beside them has all of it, and so has one of them later."""
    kinds = [durable_session_that_stops, durable_session_that_stops, durable_mqtt_client_that_stops]
    raws = [await kinds[number % len(kinds)](target, number) for number in range(MANY)]
    async with connect(f"http://127.0.0.1:{target.port}", session="good") as good:
        reading = good.subscribe(topic("news"), credit=20, auto_ack=True)
        await target.until(lambda status: has_readers(status, MANY + 1), "read by all")
        before = most_resident(target)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(said(target), heard(reading))
        assert most_resident(target) <= before + 2 * OF_ALL, "of what is half on its way all is kept"
    for raw in raws:
        raw.break_off()
    await target.until(lambda status: status["intake"]["connections"] <= 1, "alone again")
    async with (
        connect(f"http://127.0.0.1:{target.port}", session="slow-0") as late,
        asyncio.timeout(PATIENCE),
    ):
        await heard(late.subscribe(topic("news"), durable="kept", credit=20, auto_ack=True))


async def said(target: Target) -> None:
    """So many messages, each of them different."""
    async with connect(f"http://127.0.0.1:{target.port}", session="writer") as client:
        for number in range(MESSAGES):
            await client.send(topic("news"), number.to_bytes(4) + MESSAGE)


async def heard(reading: Subscription) -> None:
    numbers = set[int]()
    async for message in reading:
        numbers.add(int.from_bytes(message.payload[:4]))
        if len(numbers) == MESSAGES:
            return


def has_readers(status: Status, count: int) -> bool:
    return len(status["subscriptions"]) + int(status["subscriptions_more"]) >= count


@pytest.mark.parametrize("kind", KNOWN)
async def test_many_in_the_middle_of_a_large_message_cost_no_more_together(
    target: Target, kind: Kind
) -> None:
    """Each of 60 that have logged in sends nearly all of one of 15 MiB. Some are cut off."""
    before = most_resident(target)
    raws = [await kind(target) for _ in range(MANY)]
    for raw in raws:
        with contextlib.suppress(ConnectionError):
            await raw.say(memoryview(bytes(MUCH - 16)))
    status = await target.until(lambda status: status["intake"]["turned_away"].get("buffers", 0) > 0, "full")
    assert most_resident(target) <= before + 2 * OF_ALL
    assert status["ready"]
    for raw in raws:
        raw.break_off()


async def test_a_follower_that_stops_reading(target: Target) -> None:
    """Each of its events is nearly 64 KiB: 144 MB want to go to it."""
    raw = await Raw.to(target.port)
    await raw.say(b"GET /api/follow?payload=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await raw.until(b"\r\n\r\n")
    await publish(target, 20, 60_000)
    before = most_resident(target)
    await publish(target, 2400, 60_000)
    assert most_resident(target) <= before + BESIDE
    raw.break_off()


async def test_a_reader_of_the_dashboard_that_stops_reading(target: Target) -> None:
    raws = [await Raw.to(target.port) for _ in range(64)]
    before = most_resident(target)
    for raw in raws:
        await raw.say(b"GET /api/live?parts=status,tree,queues&interval=0.2 HTTP/1.1\r\nHost: h\r\n\r\n")
    await asyncio.sleep(3)
    assert most_resident(target) <= before + BESIDE
    for raw in raws:
        raw.break_off()
