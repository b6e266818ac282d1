"""What is taken first, where much is to be taken."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pika
import pytest

from bridges.amqp.errors import PRECONDITION_FAILED, ChannelLost
from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.rabbitmq import taking
from bridges.site_brokers.rabbitmq.exchanges import Exchanges
from bridges.site_brokers.rabbitmq.replies import MOST, Replies
from bridges.site_brokers.rabbitmq.taking import Taker
from bridges.site_brokers.rabbitmq.taps import Tap
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import parse
from treeconnector.edge import Taken


async def test_queues_are_taken_from_while_filters_are_being_bound(york, applications) -> None:
    """Thousands of them take seconds, in which somebody waits for an answer."""
    bound = asyncio.Event()
    york.bridge._visit._taker._bindings.settle = lambda keys: bound.wait()
    for name in ("stock", "orders"):
        applications.channel().queue_declare(name, durable=True)
    york.want("topic:prices/#", "queue:orders")
    await york.until_answered(york.deliver("queue:stock", b"how many?", reply_to="answers@leeds"))
    ((_, properties),) = applications.drain("stock")
    applications.publish(properties.reply_to, b"seven")
    await york.desk.until(lambda: york.desk.payloads == [b"seven"])
    applications.publish("orders", b"tea")
    await york.desk.until(lambda: york.desk.payloads == [b"seven", b"tea"])
    assert not bound.is_set()


async def test_a_queue_that_is_not_there_is_not_asked_for_and_taken_from_once_it_is_made(
    york, applications
) -> None:
    """RabbitMQ's log has an error for each such question, and all that is read elsewhere is wanted here."""
    prober, asked = york.bridge._visit._prober, []
    count = prober.count

    async def counted(name: str) -> object:
        asked.append(name)
        return await count(name)

    prober.count = counted
    applications.channel().queue_declare("there", durable=True)
    york.want("queue:elsewhere", "queue:there")
    applications.publish("there", b"1")
    await york.desk.until(lambda: york.desk.payloads == [b"1"])
    assert "elsewhere" not in asked
    applications.channel().queue_declare("elsewhere", durable=True)
    applications.publish("elsewhere", b"2")
    await york.desk.until(lambda: york.desk.payloads == [b"1", b"2"])


async def test_a_broker_that_waits_for_no_answer_any_more_is_left_with_all_that_it_gives_again(
    york, applications
) -> None:
    """As RabbitMQ does after half an hour; a node without room would gather the same again and again."""
    applications.channel().queue_declare("orders", durable=True)
    applications.publish("orders", b"1")
    york.desk.holding = True
    york.want("queue:orders")
    await york.desk.until(lambda: york.desk.payloads == [b"1"])
    channel = york.bridge._visit._taker._taps["orders"].channel
    channel.end(ChannelLost(PRECONDITION_FAILED, "delivery acknowledgement on channel 4 timed out"))
    with pytest.raises(SiteBrokerError, match="queue 'orders': delivery acknowledgement on"):
        async with asyncio.timeout(60):
            await york.task


async def test_of_queues_for_answers_the_last_used_is_consumed_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A list has brought back a thousand that nobody asked for lately; others were used meanwhile."""
    opened: list[str] = []

    async def open_one(taker: Taker, name: str, _read: object) -> bool:
        opened.append(name)
        taker._taps[name] = SimpleNamespace(queue=name, leaving=False)
        if len(opened) == taking._AT_ONCE:
            replies.spell("now@leeds")
        return True

    monkeypatch.setattr(Taker, "_open", open_one)
    taker = Taker(None, None, Exchanges("amq.topic"), tmp_path, *[lambda *_: None] * 4)
    replies = taker.replies = Replies("york", taker.want_replies)
    replies.listed({f"sapwood.reply.old-{number}@leeds": True for number in range(MOST)})
    replies.spell("just now@leeds")
    while len(opened) < len(replies.queues):
        await taker._enter(frozenset())
    assert opened[0] == "sapwood.reply.just now@leeds"
    assert opened[taking._AT_ONCE] == "sapwood.reply.now@leeds"
    assert set(opened) == replies.queues


def test_what_was_taken_of_a_queue_that_is_deleted_is_acknowledged_to_nobody() -> None:
    """Its channel is being closed, and pika would raise in the middle of a commit."""
    channel = cast("Any", SimpleNamespace(is_open=True))
    settled: list[Any] = []
    tap = Tap("stock", channel, lambda message: None, settled.append)
    message = Incoming(1, "", "stock", False, pika.BasicProperties(), b"tea")
    tap.handed(message)
    tap.is_gone = True
    tap.settle([message])
    assert tap.is_idle
    assert settled == []


def test_what_is_taken_before_others_is_acknowledged_without_them() -> None:
    """It came again with them each half an hour, and was doubled."""
    said: list[tuple[int, bool]] = []
    settled: list[int] = []

    def acknowledge(tag: int, *, multiple: bool = False) -> None:
        said.append((tag, multiple))

    channel = cast("Any", SimpleNamespace(is_open=True, acknowledge=acknowledge))
    tap = Tap("sapwood.topics", channel, lambda message: None, lambda last: settled.append(last.tag))
    one, two, three, four, five = [
        Incoming(tag, "amq.topic", "a", False, pika.BasicProperties(), b"") for tag in range(1, 6)
    ]
    for message in (one, two, three, four):
        tap.handed(message)
    tap.settle([one, three])
    assert (said, settled) == ([(1, True), (3, False)], [1])
    tap.settle([two])
    assert (said[2:], settled[1:]) == ([(2, True)], [3])
    tap.handed(five)
    tap.settle([five])
    assert (said[3:], settled[2:]) == ([(5, False)], [])
    tap.settle([four])
    assert (said[4:], settled[2:]) == ([(4, True)], [5])
    assert tap.is_idle


def test_what_came_of_several_topics_together_is_settled_by_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker = Taker(None, None, Exchanges("amq.topic"), tmp_path, *[lambda *_: None] * 4)
    handed: list[list[bytes]] = []
    monkeypatch.setattr(
        taker, "_take", lambda batch, _: handed.append([one.message.payload for one in batch])
    )

    def read(came: Incoming) -> Taken:
        return Taken(parse(f"topic:{came.key}"), Message(came.body))

    taps = [Tap(name, cast("Any", None), read, print) for name in ("sapwood.topics", "stock")]
    for tag, (place, name) in enumerate(((0, "a"), (0, "a"), (1, "a"), (0, "b"), (1, "b"), (0, "a")), 1):
        body = b"%d" % tag
        taker._gathered.append((taps[place], Incoming(tag, "", name, False, pika.BasicProperties(), body)))
    taker._hand_all_over()
    assert handed == [[b"1", b"2"], [b"3", b"5"], [b"4"], [b"6"]]


async def test_while_ever_new_names_are_asked_for_old_ones_are_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each has a channel, and a connection has 2,047: with more of them it ended."""
    opened, most = 0, 0

    async def open_one(taker: Taker, name: str, _read: object) -> bool:
        nonlocal opened, most
        opened += 1
        taker._taps[name] = SimpleNamespace(queue=name, leaving=False)
        most = max(most, len(taker._taps))
        await asyncio.sleep(0)
        replies.spell(f"{opened}@leeds")
        return True

    async def stop(taker: Taker, tap: Tap) -> None:
        await asyncio.sleep(0)
        taker._taps.pop(tap.queue)

    monkeypatch.setattr(Taker, "_open", open_one)
    monkeypatch.setattr(Taker, "_stop", stop)
    taker = Taker(None, None, Exchanges("amq.topic"), tmp_path, *[lambda *_: None] * 4)
    replies = taker.replies = Replies("york", taker.want_replies)
    replies.adopt(f"sapwood.reply.old-{number}@leeds" for number in range(taking._AT_ONCE))
    running = asyncio.create_task(taker.run())
    while opened < 3 * MOST and not running.done():
        await asyncio.sleep(0)
    running.cancel()
    assert most <= MOST + 2 * taking._AT_ONCE
