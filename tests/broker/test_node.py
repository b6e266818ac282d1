"""The driver of a node: what it does when one of its own steps goes wrong."""

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.commit import CommitBatch
from broker.node import Node
from config.model import AdvisoryLog, Limits, Listener, Site, Spool
from sapwood.client import connect
from sapwood.errors import Unconfirmed


def _site(folder: Path) -> Site:
    return Site(name="hq", data=folder, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))


async def test_a_mistake_of_ours_stops_the_node_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(_site(tmp_path))
    await node.start()
    client = await connect(f"http://127.0.0.1:{node.port}", timeout=0.5).open()
    await client.send("queue:sales", b"confirmed")

    def mistake(turn: CommitBatch) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr(node.core, "committed", mistake)
    await client.publish("queue:sales", b"not confirmed")
    await asyncio.wait_for(node.stopped.wait(), 5)
    assert "mistake in Sapwood (KeyError('a mistake'))" in str(node.failure)
    assert not node.ready
    await node.stop()
    with pytest.raises(Unconfirmed):
        await client.close()
    again = Node(_site(tmp_path))
    await again.start()
    async with connect(f"http://127.0.0.1:{again.port}") as reader:
        await reader.create("sales")
        subscription = reader.subscribe("queue:sales")
        assert (await asyncio.wait_for(anext(subscription), 5)).payload == b"confirmed"
    await again.stop()


async def test_a_node_that_refuses_for_a_full_spool_is_not_ready_and_says_why(tmp_path: Path) -> None:
    node = Node(replace(_site(tmp_path), limits=Limits(spool=Spool(max_bytes_up=1000))))
    await node.start()
    assert (node.ready, node.status()["refusing"]) == (True, "")
    async with connect(f"http://127.0.0.1:{node.port}") as client:
        await client.send("queue:sales", secrets.token_bytes(2000))
        assert not node.ready
        assert "the spool 'up' of node hq is full" in node.status()["refusing"]
        await client.create("sales")
        async for delivery in client.subscribe("queue:sales"):
            delivery.ack()
            break
        await asyncio.wait_for(_until_ready(node), 5)
    await node.stop()


async def _until_ready(node: Node) -> None:
    while not node.ready:
        await asyncio.sleep(0.01)
