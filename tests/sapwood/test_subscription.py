"""Subscriptions: deliveries, batches, acknowledgements in ranges, and what a lost line does to them."""

import asyncio
from typing import Any

import pytest
import zstandard

from sapwood import RequestTimeout, Rpc, connect
from sapwood.protocol.bundles import Flag, Message, encode_message
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.session_frames import Failed, Subscribe, Unsubscribe


async def subscribed(client: Any, **options: Any) -> Any:
    return await client.subscribe("queue:q", **options).ready()


async def test_deliveries_carry_payload_ids_and_destination(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client, credit=7, durable="d")
        await played.deliver(subscription.number, 40, [b"a", b"b"], position=3, origin="store-1")
        first, second = await anext(subscription), await anext(subscription)
        assert (first.payload, first.transfer_id, first.redelivered) == (b"a", 40, False)
        assert first.destination == Destination(Kind.QUEUE, "q")
        assert first.message_id == f"{b'b'.hex() * 16}-3"
        assert second.message_id.endswith("-4")
        assert second.origin == "store-1"
        assert "Delivery 41" in repr(second)
    (asked,) = (frame for frame in played.frames if type(frame).__name__ == "Subscribe")
    assert (asked.credit, asked.durable) == (7, "d")


async def test_acks_go_out_as_ranges(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 10, [b"%d" % n for n in range(10)])
        deliveries = [await anext(subscription) for _ in range(10)]
        for index in (0, 1, 2, 9, 5, 4):
            deliveries[index].ack()
        await played.until(lambda: played.acknowledged)
    assert played.acknowledged == [(10, 12), (14, 15), (19, 19)]


async def test_without_ack_nothing_is_acknowledged(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 1, [b"x"])
        await anext(subscription)
    assert played.acknowledged == []


async def test_auto_ack_acknowledges_what_the_next_is_asked_for_after(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client, auto_ack=True)
        await played.deliver(subscription.number, 1, [b"x", b"y"])
        await anext(subscription)
        assert (await anext(subscription)).payload == b"y"
    assert played.acknowledged == [(1, 1)]


async def test_batches(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 5, [b"x", b"y"])
        async for batch in subscription.batches():
            assert batch.payloads == [b"x", b"y"]
            assert len(batch) == 2
            batch.ack()
            break
        await played.until(lambda: played.acknowledged)
    assert played.acknowledged == [(5, 6)]


async def test_messages_for_others_are_skipped_and_not_acknowledged(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 5, [b"0", b"1", b"2", b"3"], skip=bytes([0b0101]))
        async for batch in subscription.batches():
            assert batch.payloads == [b"1", b"3"]
            assert list(batch.transfer_ids) == [6, 8]
            batch.ack()
            break
        await played.until(lambda: played.acknowledged)
    assert played.acknowledged == [(6, 6), (8, 8)]


async def test_compressed_bodies(played: Any) -> None:
    plain = b"".join(encode_message(Message(b"a" * 100)) for _ in range(50))
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        from sapwood.protocol.session_frames import Deliver

        body = zstandard.compress(plain)
        flags = Flag.COMPRESSED
        await played.say(
            Deliver(
                subscription.number, subscription.destination, 1, 50, b"b" * 16, 0, flags, len(plain), body
            )
        )
        async for batch in subscription.batches():
            assert batch.payloads == [b"a" * 100] * 50
            break


async def test_after_a_lost_line_it_is_renewed_and_nothing_is_handed_out_twice(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 1, [b"0", b"1", b"2", b"3"])
        deliveries = [await anext(subscription) for _ in range(3)]
        deliveries[0].ack()
        await played.until(lambda: played.acknowledged)
        played.subscriptions.clear()
        await played.cut()
        await played.until(lambda: played.subscriptions)
        await played.deliver(subscription.number, 1, [b"0", b"1", b"2", b"3"], redelivered=True)
        await played.deliver(subscription.number, 5, [b"4"], bundle=b"c" * 16)
        assert [(await anext(subscription)).payload for _ in range(2)] == [b"3", b"4"]
        await played.until(lambda: played.acknowledged == [(1, 1), (1, 1)])
        deliveries[1].ack()
        await played.until(lambda: played.acknowledged[-1] == (2, 2))


async def test_what_was_waiting_when_the_line_broke_is_given_again(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 1, [b"0"])
        while "1 waiting" not in repr(subscription):
            await asyncio.sleep(0)
        played.subscriptions.clear()
        await played.cut()
        await played.until(lambda: played.subscriptions)
        await played.deliver(subscription.number, 1, [b"0"], redelivered=True)
        delivery = await anext(subscription)
        assert delivery.redelivered
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(subscription)


async def test_acks_made_while_the_line_is_down_go_first(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 1, [b"0"])
        delivery = await anext(subscription)
        played.refusal = Failed(0, "BUSY", "starting")
        await played.cut()
        await played.until(lambda: len(played.logins) == 2)
        delivery.ack()
        played.refusal = None
        await played.until(lambda: played.acknowledged)
        order = [type(frame).__name__ for frame in played.frames]
        assert order.index("Acknowledge") < len(order) - 1 - order[::-1].index("Subscribe")


async def test_closing_it_unsubscribes_and_ends_the_iteration(played: Any) -> None:
    async with connect(played.uri) as client:
        async with client.subscribe("queue:q") as subscription:
            assert played.subscriptions
        await played.until(lambda: not played.subscriptions)
        assert [delivery async for delivery in subscription] == []
        assert subscription.closed


async def test_two_subscriptions_are_kept_apart(played: Any) -> None:
    async with connect(played.uri) as client:
        one, two = await subscribed(client), await subscribed(client)
        await played.deliver(two.number, 1, [b"two"])
        await played.deliver(one.number, 2, [b"one"])
        assert (await anext(one)).payload == b"one"
        assert (await anext(two)).payload == b"two"


@pytest.mark.parametrize(
    ("bad", "lost"),
    [
        (b"\xc1", (1, 3)),
        (b"\x92\x07\x80", (2, 2)),
        (b"\x92\xc4\x01x\x81\xa8reply-to\x07", (2, 2)),
        (b"\x92\xc4\x01x\x81\xa8reply-to\xa1\xff", (2, 2)),
    ],
)
async def test_what_cannot_be_read_is_given_up_and_the_subscription_goes_on(
    played: Any, bad: bytes, lost: tuple[int, int]
) -> None:
    good = encode_message(Message(b"good"))
    async with connect(played.uri) as client:
        subscription = await subscribed(client)
        await played.deliver(subscription.number, 1, [b"1", b"2", b"3"], body=good + bad + good)
        await played.deliver(subscription.number, 4, [b"behind"], bundle=b"c" * 16)
        expected = [(1, b"good"), (3, b"good")] if lost == (2, 2) else []
        for one in [*expected, (4, b"behind")]:
            delivery = await anext(subscription)
            assert (delivery.transfer_id, delivery.payload) == one
        delivery.reject("nobody knows this article")
        await played.until(lambda: len(played.refused) == 2)
    assert [(each.first, each.last) for each in played.refused] == [lost, (4, 4)]
    assert played.refused[0].reason.startswith("UNREADABLE: ")
    assert played.refused[1].reason == "nobody knows this article"


async def test_a_subscription_that_is_given_up_before_it_is_granted_is_closed(played: Any) -> None:
    async with connect(played.uri) as client:
        await client.create("q")
        played.deaf = True
        reader = client.subscribe("queue:q")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), reader:
                raise AssertionError("it was granted")
        assert reader.closed
        waits = client.subscribe("queue:q")
        with pytest.raises(RequestTimeout):
            await waits.ready(timeout=0.05)
        assert not waits.closed
        with pytest.raises(RequestTimeout):
            await waits.opened(timeout=0.05)
        assert waits.closed


async def test_a_batch_is_waited_for_as_long_as_it_is_said(played: Any) -> None:
    async with connect(played.uri) as client:
        prices = client.subscribe("queue:prices")
        assert await prices.next_batch(timeout=0.05) is None
        await played.until(lambda: played.subscriptions)
        (number,) = played.subscriptions
        await played.deliver(number, 1, [b"one", b"two"])
        batch = await prices.next_batch(timeout=60)
        assert batch is not None
        assert batch.payloads == [b"one", b"two"]
        prices.close()
        assert await prices.next_batch() is None


@pytest.mark.parametrize("use", ["call", "serve"])
async def test_a_call_or_server_that_is_given_up_before_it_reads_leaves_no_subscription(
    played: Any, use: str
) -> None:
    answer, asked = played.answer, []

    def deaf_to_subscriptions(frame: Any) -> list[Any]:
        if not isinstance(frame, Subscribe | Unsubscribe):
            return list(answer(frame))
        asked.append(type(frame))
        return []

    played.answer = deaf_to_subscriptions
    async with connect(played.uri) as client, Rpc(client) as rpc:
        work = (
            rpc.call("stock", "level", timeout=None)
            if use == "call"
            else rpc.serve("stock", {"level": lambda: 1}).run()
        )
        given_up = asyncio.create_task(work)
        await played.until(lambda: asked == [Subscribe])
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await played.until(lambda: asked == [Subscribe, Unsubscribe])


async def test_what_was_acknowledged_without_a_line_is_told_on_the_next(played: Any) -> None:
    async with connect(played.uri) as client:
        subscription = await client.subscribe("queue:q").ready()
        await played.deliver(subscription.number, 100, [b"one"])
        delivery = await subscription.next(60)
        played.refusal = Failed(0, "BUSY", "not now")
        await played.cut()
        while client.state != "not connected":
            await asyncio.sleep(0.01)
        delivery.ack()
        subscription.close()
        played.refusal = None
        await played.until(lambda: played.acknowledged == [(100, 100)])
