"""The driver of a node: what it does when one of its own steps goes wrong."""

import asyncio
import errno
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from broker import shares
from broker.core.commit import CommitBatch
from broker.core.rows import MetaRow, Transaction
from broker.node import Node
from config.model import AdvisoryLog, Limits, Listener, Site, Spool
from sapwood.client import connect
from sapwood.errors import SendRejected, Unconfirmed
from sapwood.protocol.bundles import Message, encode_message
from sapwood.protocol.destinations import queue
from sapwood.protocol.errors import StoreError
from sapwood.protocol.session_frames import VERSION, Confirm, Login, Send, decode_node_packet, encode_packet


def _site(folder: Path) -> Site:
    return Site(name="hq", data=folder, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))


async def test_a_mistake_of_ours_stops_the_node_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(_site(tmp_path))
    await node.start()
    client = await connect(f"http://127.0.0.1:{node.port}").open()
    await client.send("queue:sales", b"confirmed")

    def mistake(turn: CommitBatch) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr(node.core, "committed", mistake)
    await client.publish("queue:sales", b"not confirmed")
    await asyncio.wait_for(node.driver.stopped.wait(), 60)
    assert "mistake in Sapwood (KeyError('a mistake'))" in str(node.driver.failure)
    assert not node.ready
    await node.stop()
    monkeypatch.undo()
    with pytest.raises(Unconfirmed):
        await client.flush(timeout=0.05)
    await client.close(wait=False)
    again = Node(_site(tmp_path))
    await again.start()
    async with connect(f"http://127.0.0.1:{again.port}") as reader:
        await reader.create("sales")
        subscription = reader.subscribe("queue:sales")
        assert (await asyncio.wait_for(anext(subscription), 60)).payload == b"confirmed"
    await again.stop()


async def test_a_node_that_refuses_for_a_full_spool_is_not_ready_and_says_why(tmp_path: Path) -> None:
    node = Node(replace(_site(tmp_path), limits=Limits(spool=Spool(max_bytes_up=1000))))
    await node.start()
    assert (node.ready, (await node.status())["refusing"]) == (True, "")
    async with connect(f"http://127.0.0.1:{node.port}") as client:
        await client.send("queue:sales", secrets.token_bytes(2000))
        assert not node.ready
        assert "the spool 'up' of node hq is full" in (await node.status())["refusing"]
        await client.create("sales")
        async for delivery in client.subscribe("queue:sales"):
            delivery.ack()
            break
        await asyncio.wait_for(_until_ready(node), 120)
    await node.stop()


async def _until_ready(node: Node) -> None:
    while not node.ready:
        await asyncio.sleep(0.01)


async def test_a_disk_that_takes_nothing_though_it_says_that_it_has_room_keeps_the_node_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a thin volume does: each look opened the node, each commit that failed closed it, with a line."""
    node, no_space = Node(_site(tmp_path)), True
    await node.start()

    def find_no_space(_step: str) -> None:
        if no_space:
            raise OSError(errno.ENOSPC, "No space left on device")

    async with connect(f"http://127.0.0.1:{node.port}") as client:
        await client.send("queue:sales", b"confirmed")
        node.driver.store.hook = find_no_space
        await client.publish("queue:sales", b"waits for the disk")
        while node.ready:
            await asyncio.sleep(0)
        node.driver._look_at_room()
        assert "nearly full" in (await node.status())["refusing"]
        no_space = False
        await client.flush()
        node.driver._look_at_room()
        assert node.ready
    assert caplog.text.count("the disk is full: node hq takes nothing before there is space") == 1
    await node.stop()


async def test_a_quota_that_leaves_no_room_for_the_ballast_closes_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk says that it has room, and the node opened after each commit."""
    quota = 1

    def fallocate(descriptor: int, start: int, length: int) -> None:
        if length > quota:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    node = Node(_site(tmp_path))
    await node.start()
    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    node.driver.store._ballast.drop()
    node.driver._look_at_room()
    assert "nearly full" in (await node.status())["refusing"]
    quota = 1 << 30
    node.driver._look_at_room()
    assert node.ready
    await node.stop()


async def test_no_ballast_is_laid_while_a_commit_waits_for_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit waits in a thread; to lay the file stopped the loop, and with it each link."""
    node = Node(_site(tmp_path))
    await node.start()
    laid = tmp_path / "node.ballast"
    node.driver.store._ballast.drop()
    monkeypatch.setattr(type(node.driver.committer), "lasts", 2.0)
    node.driver._look_at_room()
    assert not laid.exists()
    assert node.ready
    monkeypatch.undo()
    node.driver._look_at_room()
    assert laid.exists()
    await node.stop()


async def test_a_disk_that_does_not_answer_closes_the_node_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(_site(tmp_path))
    await node.start()
    monkeypatch.setattr(type(node.driver.committer), "stands", property(lambda _: True))
    node.driver._look_at_room()
    async with connect(f"http://127.0.0.1:{node.port}") as client:
        with pytest.raises(SendRejected, match="QUEUE_FULL: the disk of node hq does not answer"):
            await client.send("queue:sales", b"not taken")
    assert not node.ready
    assert (await node.status())["refusing"] == "the disk of node hq does not answer"
    node.driver._journal.look()
    assert "no messages are taken: the disk of node hq does not answer" in caplog.text
    monkeypatch.undo()
    node.driver._look_at_room()
    assert node.ready
    await node.stop()


async def test_what_came_together_is_committed_together_though_others_have_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here after each frame of a packet; a commit takes one turn of the loop, so none hides another."""
    monkeypatch.setattr(shares.LoopShare, "is_over", True)
    monkeypatch.setattr(shares, "GATHERS", 1e9)
    node = Node(_site(tmp_path))
    await node.start()
    commits = _commit_within_a_turn(node, monkeypatch)
    body = encode_message(Message(b"1"))
    sends = [Send(number, queue(f"sales-{number}"), 1, body) for number in range(1, 501)]
    url = f"http://127.0.0.1:{node.port}/session"
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        await socket.send_bytes(encode_packet([Login(VERSION, "till", producer="till")]))
        await socket.receive_bytes()
        await socket.send_bytes(encode_packet(sends))
        while Confirm(500) not in decode_node_packet(await socket.receive_bytes()):
            pass
    assert len(commits) < 50
    assert sum(place.messages for place in node.core.custody.queues.values()) == 500
    await node.stop()


async def test_what_is_asked_for_during_a_commit_follows_it_when_nobodys_work_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(_site(tmp_path))
    await node.start()
    await asyncio.sleep(0.05)
    turns: list[int] = []
    whole = node.core.is_urgent
    monkeypatch.setattr(node.core, "is_urgent", lambda: turns.append(1) or whole())  # type: ignore[func-returns-value]
    done: list[Callable[[StoreError | None], None]] = []
    monkeypatch.setattr(node.driver.committer, "submit", lambda _, after, at_once: done.append(after))
    for under_way, expected in ((1, 0), (0, 1)):
        node.core.custody.transaction.put(MetaRow("asked", str(under_way).encode()))
        node.driver._turn(True)
        turns.clear()
        node.nudge()
        node.shares.under_way = under_way
        done.pop()(None)
        await asyncio.sleep(0)
        assert len(turns) == expected
        node.shares.under_way = 0
    monkeypatch.undo()
    await node.stop()


def _commit_within_a_turn(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[Transaction]:
    """The node's store is its memory, and each transaction is done in the loop's next turn. Returns them."""
    submitted: list[Transaction] = []

    def submit(transaction: Transaction, done: Callable[[StoreError | None], None], *, at_once: bool) -> None:
        assert at_once
        submitted.append(transaction)
        asyncio.get_running_loop().call_soon(done, None)

    monkeypatch.setattr(node.driver.committer, "submit", submit)
    return submitted


async def test_what_nobody_waits_for_has_its_turn_when_nobodys_work_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(_site(tmp_path))
    await node.start()
    turns: list[int] = []
    whole = node.core.is_urgent
    asked = lambda: turns.append(node.shares.under_way) or whole()  # type: ignore[func-returns-value]  # noqa: E731
    monkeypatch.setattr(node.core, "is_urgent", asked)
    await asyncio.sleep(0.05)
    work = asyncio.create_task(shares.LoopShare(node.shares, node.wake).give_way())
    await asyncio.sleep(0)
    turns.clear()
    node.nudge()
    await asyncio.sleep(0)
    assert (node.shares.under_way, turns) == (1, [])
    node.wake()
    await asyncio.sleep(0)
    assert turns == [1]
    await work
    node.nudge()
    await asyncio.sleep(0)
    assert turns[-1] == 0
    await node.stop()
