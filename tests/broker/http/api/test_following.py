"""Following messages over HTTP: those that match, what happened to them, and no more than there is room."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from broker.api import following as followed
from broker.api.following import Follower, Wanted
from broker.core.sessions.masking import masked
from broker.node import Node
from sapwood.client import Client, connect


@asynccontextmanager
async def following(api: Any, query: str = "") -> AsyncIterator[aiohttp.StreamReader]:
    """A stream that has begun: what happens from now on is in it."""
    async with api.session.get(f"{api.base}/api/follow?{query}") as answer:
        assert answer.status == 200
        assert answer.content_type == "application/x-ndjson"
        assert await answer.content.readline() == b"\n"
        yield answer.content


async def events(api: Any, stream: aiohttp.StreamReader, count: int) -> list[dict[str, Any]]:
    """The next events, each as it is described."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            line = (await stream.readline()).strip()
            if line:
                found.append(json.loads(line))
                api.check("GET", "/api/follow", 200, found[-1])
    return found


async def test_a_message_is_followed_from_its_entry_to_its_end(api: Any, client: Client) -> None:
    await client.create("sales")
    async with following(api, "destination=queue:sales&payload=1") as stream:
        await client.send("queue:stock", b"other")
        await client.send("queue:sales", b"one", correlation_id=7, task_id="t", reply_to="back")
        subscription = await client.subscribe("queue:sales").ready()
        (await anext(subscription)).ack()
        found = await events(api, stream, 4)
    assert [event["event"] for event in found] == ["entered", "committed", "delivered", "dealt_with"]
    assert {event["destination"] for event in found} == {"queue:sales"}
    assert {event["payload"] for event in found} == {"one"}
    assert {event["session"] for event in found if event["event"] != "committed"} == {masked("till-7-secret")}
    assert {(event["correlation_id"], event["task_id"], event["reply_to"]) for event in found} == {
        (7, "t", "back")
    }
    assert len({event["id"] for event in found}) == 1


@pytest.mark.parametrize(
    "query",
    ["correlation_id=5", "task=t5", "session=till-8", "session=MASKED", "destination=five"],
)
async def test_only_what_matches_is_told(api: Any, client: Client, running: Node, query: str) -> None:
    query = query.replace("MASKED", masked("till-8"))
    async with (
        connect(f"http://127.0.0.1:{running.port}", session="till-8") as other,
        following(api, query) as stream,
    ):
        await client.send("queue:four", b"x", correlation_id=4, task_id="t4")
        await other.send("queue:five", b"x", correlation_id=5, task_id="t5")
        (first,) = await events(api, stream, 1)
    assert (first["event"], first["correlation_id"], first["task_id"]) == ("entered", 5, "t5")
    assert (first["payload"], first["session"]) == (None, masked("till-8"))


async def test_each_message_of_a_bundle_is_told(api: Any, client: Client) -> None:
    async with following(api, "destination=topic:prices/%2B&payload=1") as stream:
        await client.send_many("topic:prices/a", [b"%d" % number for number in range(100)])
        found = [event for event in await events(api, stream, 100) if event["event"] == "entered"]
    assert [event["payload"] for event in found] == [str(number) for number in range(100)]
    assert len({event["id"] for event in found}) == 100


async def test_who_goes_is_forgotten(api: Any, client: Client, running: Node) -> None:
    async with following(api):
        assert running.running.following.followers == 1
        assert len(running.core.arrivals.taps) == 1
    async with asyncio.timeout(60):
        while running.running.following.followers:
            await client.send("queue:sales", b"x")
    assert running.core.arrivals.taps == []


async def test_so_many_may_follow_and_no_more(api: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(followed, "MOST_FOLLOWERS", 1)
    async with following(api):
        assert (await api("GET /api/follow", 503))["code"] == "BUSY"


async def test_who_reads_slowly_is_told_how_much_it_missed(
    client: Client, running: Node, monkeypatch: Any
) -> None:
    monkeypatch.setattr(followed, "_LINES", 10)
    follower = Follower(running.driver, Wanted(destination="queue:sales"))
    await client.send_many("queue:sales", [b"x"] * 30)
    lines = follower.lines()
    first = json.loads(await anext(lines))
    assert first["event"] == "dropped"
    told = [json.loads(await anext(lines))["event"] for _ in range(10)]
    assert first["dropped"] >= 20
    assert told == ["entered"] * 10


async def test_what_a_follower_keeps_of_bundles_is_bounded(
    client: Client, running: Node, monkeypatch: Any
) -> None:
    monkeypatch.setattr(followed, "_KEPT_BYTES", 1000)
    follower = Follower(running.driver, Wanted(payload=True))
    running.core.arrivals.taps.append(follower.passes)
    for _ in range(20):
        await client.send("queue:sales", bytes(range(256)) * 2)
    assert 0 < follower._kept < 1600
    assert len(follower._bodies) < 4


async def test_what_a_follower_keeps_of_unpacked_bundles_is_bounded(
    client: Client, running: Node, monkeypatch: Any
) -> None:
    monkeypatch.setattr(followed, "_KEPT_BYTES", 100_000)
    follower = Follower(running.driver, Wanted(payload=True))
    running.core.arrivals.taps.append(follower.passes)
    for _ in range(20):
        await client.send("queue:sales", b"x" * 30_000)
        follower._look()
    assert len(follower._bodies) == 3
    assert sum(size for size, _ in follower._bodies.values()) == follower._kept <= 100_000


async def test_what_waits_for_a_slow_follower_is_bounded_in_bytes(
    client: Client, running: Node, monkeypatch: Any
) -> None:
    monkeypatch.setattr(followed, "_LINE_BYTES", 100_000)
    follower = Follower(running.driver, Wanted(destination="queue:sales", payload=True))
    running.core.arrivals.taps.append(follower.passes)
    for _ in range(20):
        await client.send("queue:sales", b"x" * 30_000)
    follower._look()
    assert len(follower._lines) == 4
    assert follower._line_bytes == sum(map(len, follower._lines)) < 130_000
    assert follower.dropped >= 16
    told = [event async for event in _lines(follower, 5)]
    assert told == ["dropped"] + 2 * ["entered", "committed"]
    assert follower._line_bytes == 0


async def _lines(follower: Follower, count: int) -> AsyncIterator[str]:
    """The next events by their names."""
    lines = follower.lines()
    for _ in range(count):
        yield json.loads(await anext(lines))["event"]
