"""A message's way, and all that a task made, are followed from node to node; who does not answer is named."""

import asyncio
from typing import Any

from commands import sapwood, told
from harness import PATIENCE, Network, collect

from sapwood.inbox import Delivery

WAY = ["hq", "north", "york"]


async def story(network: Network, node: str, *arguments: str) -> dict[str, Any]:
    """What `sapwood trace … --json` says at a node."""
    found: dict[str, Any] = await told(network, node, "trace", *arguments)
    return found


async def tree(network: Network) -> None:
    """hq, two regions, and york below north."""
    network.add("hq")
    for region in ("north", "south"):
        network.add(region, "hq", role="branch")
    network.add("york", "north")
    await network.start()


async def one_message(network: Network) -> Delivery:
    """From hq to a reader in york."""
    async with network.client("york") as york, network.client("hq") as hq:
        reading = asyncio.create_task(collect(york, "queue:prices", 1))
        await network.until_known("hq", "queue:prices")
        await hq.send("queue:prices", b"1.99", correlation_id=7)
        (delivery,) = await reading
    return delivery


async def until_complete(network: Network, node: str, message: str) -> dict[str, Any]:
    """The story once the last acknowledgements of it are in, too."""
    async with asyncio.timeout(PATIENCE):
        while True:
            told = await story(network, node, message)
            if told["complete"] and all(hop["acknowledged"] or not hop["to"] for hop in told["hops"]):
                return told


async def test_a_message_is_followed_by_all_nodes_and_who_does_not_answer_is_named(network: Network) -> None:
    await tree(network)
    message = (await one_message(network)).message_id
    each_hop_has_times_that_increase(await until_complete(network, "hq", message))
    for node in ("north", "york", "south"):  # south has not seen the message; york is not above anybody
        assert [hop["node"] for hop in (await story(network, node, message))["hops"]] == WAY, node
    await people_get_a_table(network, message)
    await a_node_that_is_down_is_named(network, message)


def each_hop_has_times_that_increase(told: dict[str, Any]) -> None:
    assert [hop["node"] for hop in told["hops"]] == WAY
    assert [hop["came"] for hop in told["hops"]] == ["", "hq", "north"]
    assert [hop["to"] for hop in told["hops"]] == [["north"], ["york"], []]
    hq, north, york = (hop["ms"] for hop in told["hops"])
    for hop in (hq, north):
        assert hop["arrived"] <= hop["committed"] <= hop["sent"] < hop["acknowledged"]
    assert hq["sent"] <= north["arrived"] <= hq["acknowledged"]
    assert north["sent"] <= york["arrived"] <= north["acknowledged"]
    assert hq["arrived"] < north["arrived"] < york["arrived"] <= york["delivered"] < york["dealt_with"]
    assert (told["unreachable"], told["unknown_at"], told["refused"]) == ([], [], [])


async def people_get_a_table(network: Network, message: str) -> None:
    code, output, _ = await sapwood("trace", message, "--url", network.url("hq"))
    assert code == 0
    assert f"message {message} for queue:prices · entered at hq · complete" in output
    firsts = [line.split()[0] for line in output.splitlines() if line.strip()]
    assert [word for word in firsts if word in WAY] == WAY
    code, output, errors = await sapwood("trace", f"{'00' * 16}-0", "--url", network.url("hq"))
    assert (code, output) == (1, "")
    assert "no node that was asked knows message" in errors


async def a_node_that_is_down_is_named(network: Network, message: str) -> None:
    network.kill("york")
    await network.until_child("north", "york", "down")
    told = await story(network, "hq", message)
    assert [hop["node"] for hop in told["hops"]] == ["hq", "north"]
    assert (told["unreachable"], told["complete"]) == (["york"], False)
    assert "its link to north has been down" in told["why"]["york"]
    code, output, _ = await sapwood("trace", message, "--url", network.url("hq"))
    assert code == 0
    assert "no answer from york" in output
    assert "not complete" in output


async def test_a_request_and_its_reply_across_nodes_are_one_timeline(network: Network) -> None:
    """The service asks another one, at a third node, before it answers; the caller's node is asked for it."""
    await tree(network)
    for number, nodes in enumerate(
        (("hq", "york", "south"), ("york", "hq", "south"), ("south", "york", "hq"))
    ):
        await one_timeline(network, f"order-{number}", *nodes)


async def one_timeline(network: Network, order: str, asking: str, answering: str, third: str) -> None:
    """`order`: the task; its queues have names of their own."""
    prices, stock = f"prices-{order}", f"stock-{order}"
    async with (
        network.client(asking) as caller,
        network.client(answering) as service,
        network.client(third) as other,
    ):
        serving = [
            asyncio.create_task(serve_with_nested_call(service, prices, stock)),
            asyncio.create_task(serve(other, stock)),
        ]
        await network.until_known("north" if answering == "hq" else "hq", f"queue:{prices}")
        await network.until_known("north" if third == "hq" else "hq", f"queue:{stock}")
        replies = await caller.create()
        await caller.send(f"queue:{prices}", b"?", correlation_id=1, reply_to=replies, task_id=order)
        (reply,) = await collect(caller, f"queue:{replies}", 1)
        assert reply.payload == b"reply"
        await asyncio.gather(*serving)
    told = await until_dealt_with(network, asking, order, 4)
    assert len(told["messages"]) == 4
    times = [event["ms"] for event in told["events"]]
    assert times == sorted(times)
    entered = [(event["node"], event["queue"]) for event in told["events"] if event["kind"] == "entered"]
    assert [node for node, _ in entered] == [asking, answering, third, answering]
    assert [queue for _, queue in entered][:2] == [prices, stock]
    dealt_with = [event["node"] for event in told["events"] if event["kind"] == "dealt_with"]
    assert sorted(dealt_with) == sorted((asking, third, answering, answering))
    assert {event["correlation_id"] for event in told["events"]} == {1, 2}
    code, output, _ = await sapwood("trace", "--task", order, "--url", network.url(asking))
    assert code == 0
    assert f"task {order} · 4 messages" in output


async def until_dealt_with(network: Network, node: str, task: str, count: int) -> dict[str, Any]:
    """The story of a task once so many of its messages are dealt with: an acknowledgement takes its time."""
    async with asyncio.timeout(PATIENCE):
        while True:
            told = await story(network, node, "--task", task)
            if sum(event["kind"] == "dealt_with" for event in told["events"]) >= count:
                return told


async def serve(client: Any, queue: str) -> None:
    """Answer one request."""
    await client.create(queue)
    async for request in client.subscribe(f"queue:{queue}"):
        said = request.properties
        await client.send(
            f"queue:{said.reply_to}", b"reply", correlation_id=said.correlation_id, task_id=said.task_id
        )
        request.ack()
        return


async def serve_with_nested_call(client: Any, queue: str, other: str) -> None:
    """Answer one request after a call of another service, for the same task."""
    await client.create(queue)
    async for request in client.subscribe(f"queue:{queue}"):
        said = request.properties
        replies = await client.create()
        await client.send(f"queue:{other}", b"?", correlation_id=2, reply_to=replies, task_id=said.task_id)
        await collect(client, f"queue:{replies}", 1)
        await client.send(
            f"queue:{said.reply_to}", b"reply", correlation_id=said.correlation_id, task_id=said.task_id
        )
        request.ack()
        return
