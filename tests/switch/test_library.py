"""The library at a real node: it ends what it has made, and hears how far a topic's message goes."""

import asyncio
import sqlite3
from typing import Any

import pytest

from sapwood import Reach, RequestFailed, connect, sync


def url(node: Any) -> str:
    return f"http://127.0.0.1:{node.port}"


async def test_a_creator_deletes_its_queue_with_all_its_messages(here: Any) -> None:
    async with connect(url(here)) as client:
        await client.create("stale")
        await client.send("queue:stale", b"x")
        assert here.messages("stale") == 1
        reader = client.subscribe("queue:stale")
        await reader.ready()
        await client.delete("stale")
        assert here.messages("stale") == 0
        assert "stale" not in here.session("looks").well("/list/stale")
        with pytest.raises(RequestFailed, match="NOT_FOUND"):
            await client.delete("stale")
        with pytest.raises(RequestFailed, match="the subscription to queue:stale"):
            async for _ in reader:
                pass


def test_without_asyncio_it_is_the_same_and_no_session_deletes_anothers(here: Any) -> None:
    with sync.connect(url(here)) as client, sync.connect(url(here)) as other:
        fresh = client.create()
        with pytest.raises(RequestFailed, match="another session's"):
            other.delete(fresh)
        client.delete(fresh)
        with pytest.raises(RequestFailed, match="NOT_FOUND"):
            client.delete(fresh)


async def test_a_send_to_a_topic_says_how_many_match_and_how_far_it_goes(here: Any) -> None:
    async with connect(url(here)) as client:
        assert await client.send("topic:reach/milk", b"1") == Reach(0, 0, 0, 0)
        reader = client.subscribe("topic:reach/+")
        await reader.ready()
        assert await client.send("topic:reach/milk", b"1") == Reach(1, 0, 0, 0)
        assert await client.send("topic:reach/milk", b"1", scope=1) == Reach(1, 0, 0, 1)
        assert await client.send("queue:reach", b"1") is None
    with sync.connect(url(here)) as client_without:
        assert client_without.send("topic:reach/milk", b"1") == Reach(0, 0, 0, 0)


async def test_only_a_producer_that_may_come_back_is_remembered(make: Any) -> None:
    node = make()
    async with connect(url(node)) as client:
        await client.send("queue:sales", b"1")
    async with connect(url(node), session="till", producer="receipts") as client:
        await client.send("queue:sales", b"2")
    assert await asyncio.to_thread(node.stop) == 0
    with sqlite3.connect(node.file.parent / "data-hq" / "node.db") as database:
        names = [name for (name,) in database.execute("SELECT producer FROM producer")]
    database.close()
    assert names == ["till/receipts"]
