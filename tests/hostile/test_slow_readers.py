"""Whoever stops reading while much wants to go to it makes the node keep a bounded part of it only."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from intake_peers import MIB, Raw, Target, frame_head, mqtt_length, running, upgraded

from sapwood.client import connect
from sapwood.protocol import packets
from sapwood.protocol.destinations import topic
from sapwood.protocol.session_frames import VERSION, Login, Subscribe, encode

LEVELS = 9
FILTERS = ["/".join("+" if bits >> at & 1 else "a" for at in range(LEVELS)) for bits in range(1 << LEVELS)]
"""All of them match `TOPIC`, so that a message goes to one reader so many times."""
TOPIC = "/".join("a" * LEVELS)
MESSAGE = secrets.token_bytes(MIB)
OF_A_SESSION = 256 * MIB
OF_MQTT = 64 * MIB
BESIDE = 96 * MIB
"""What the node takes to do its work meanwhile, and what a connection's buffers in the system hold."""


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running(tmp_path) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log


def most_resident(target: Target) -> int:
    """The most bytes of memory that the process has ever had."""
    for line in Path(f"/proc/{psutil.Process(target.process.pid).pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not tell the peak of a process")


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
        await raw.say(b"\x82" + mqtt_length(len(body)) + body)
    return raw


@pytest.mark.parametrize(
    ("stops", "most"),
    [(session_that_stops, OF_A_SESSION), (mqtt_client_that_stops, OF_MQTT)],
    ids=["session", "mqtt"],
)
async def test_an_application_that_stops_reading(target: Target, stops: object, most: int) -> None:
    """One message of 1 MiB is to go to it 512 times, all in one turn of the loop; then two more are."""
    raw = await stops(target)  # type: ignore[operator]
    await target.until(lambda status: sum(status["routes"].values()) >= len(FILTERS), "asked for everything")
    before = most_resident(target)
    await publish(target, 3)
    assert most_resident(target) <= before + most + BESIDE
    assert (await target.status())["ready"]
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
