"""Messages that nobody elsewhere wants cross no line: of topics with scope `tree`, and of queues made here.

HQ, two regions, a store in each, as processes; some are killed, and some are of the version before.
"""

import asyncio

import pytest
from commands import told as done
from harness import Network, child_state, receiving, until_count

from broker.cli.demo.processes import Status
from sapwood import NobodyServes, Rpc

TOPIC = "topic:prices/tea"
QUEUE = "queue:orders"
STORES = {"york": "north", "bath": "south"}
OLDER = "import treeconnector.frames as frames\nframes.KNOWN = ()\n"
"""With this in its `sitecustomize` a node says that it knows of no questions for interest."""


async def grown(network: Network, older: str = "") -> None:
    network.add("hq")
    for store, region in STORES.items():
        network.add(region, "hq", role="branch", line=region == "north")
        network.add(store, region)
    if older:
        folder = network.folder / "older"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(OLDER, encoding="utf-8")
        network.environments[older] = {"PYTHONPATH": str(folder)}
    await network.start()


async def publish(network: Network, *payloads: bytes) -> None:
    await network.send("york", TOPIC, payloads, scope=1)


async def write(network: Network, *payloads: bytes) -> None:
    async with network.client("york") as client:
        await client.create("orders")
        await client.send_many(QUEUE, payloads)


def crossed(status: Status) -> int:
    """Messages that a node has had from its children since it started."""
    return sum(int(child["in"]) for child in status["children"])


def kept(status: Status) -> int:
    return sum(queue["messages"] for queue in status["queues"] if queue["name"] == QUEUE)


def told(network: Network, name: str, destination: str) -> int:
    """How many advisories a node has had about a destination."""
    kind, _, named = destination.partition(":")
    rows = network.advisories(name)
    return sum((row.kind, row.destination) == (kind, named) for row in rows)


async def until_kept(network: Network, name: str, count: int) -> None:
    await network.until(name, lambda status: kept(status) == count, f"keeping {count}")


async def until_unmatched(network: Network, count: int) -> None:
    await network.until(
        "york", lambda status: status["counters"]["unmatched"] == count, "told that nobody wants it"
    )


async def test_a_topic_crosses_the_lines_to_those_that_want_it(network: Network) -> None:
    await grown(network)
    await publish(network, b"in vain")
    await network.until(
        "york", lambda status: status["counters"]["unmatched"] == 1, "told that nobody wants it"
    )
    assert [crossed(await network.status(name)) for name in ("north", "hq")] == [0, 0]
    async with network.client("bath") as client, receiving(client, TOPIC) as got:
        await network.until_known("hq", TOPIC)
        await publish(network, b"1", b"2")
        await until_count(got, 2)
        assert [delivery.payload for delivery in got] == [b"1", b"2"]
    assert [crossed(await network.status(name)) for name in ("north", "hq")] == [2, 2]
    await network.until_known("hq", TOPIC, "remove")
    await publish(network, b"in vain again")
    await network.until(
        "york", lambda status: status["counters"]["unmatched"] == 2, "told that nobody wants it"
    )
    assert [crossed(await network.status(name)) for name in ("north", "hq")] == [2, 2]
    assert [told(network, name, TOPIC) for name in ("york", "north")] == [0, 0], "no store hears of another's"


async def test_who_reads_at_a_store_is_told_on_its_own_way_alone(network: Network) -> None:
    await grown(network)
    async with network.client("bath") as client, receiving(client, TOPIC):
        await network.until_known("hq", TOPIC)
        await publish(network, b"1")
        await network.until_known("south", TOPIC)
        assert [told(network, name, TOPIC) for name in ("york", "north", "bath")] == [0, 0, 0]


@pytest.mark.parametrize("older", ["north", "york"])
async def test_a_node_of_the_version_before_is_served_as_it_was(network: Network, older: str) -> None:
    await grown(network, older)
    await publish(network, b"1")
    expected = {"york": [1, 0], "north": [1, 1]}[older]
    await network.until("north", lambda status: crossed(status) == 1, "passed by the message")
    await write(network, b"2")
    await until_kept(network, "hq", 1)
    assert expected[1] + 1 == crossed(await network.status("hq"))
    assert await network.collect("bath", QUEUE, 1) == [b"2"]


async def test_a_queue_keeps_its_messages_where_it_was_made_until_it_is_read_elsewhere(
    network: Network,
) -> None:
    await grown(network)
    await write(network, b"1", b"2")
    await until_kept(network, "york", 2)
    for name in ("york", "north", "hq"):
        network.kill(name)
        await network.start(name)
        await until_kept(network, "york", 2)
    assert [crossed(await network.status(name)) for name in ("north", "hq")] == [0, 0]
    assert await network.collect("bath", QUEUE, 2) == [b"1", b"2"]


async def test_a_node_that_is_killed_while_its_queue_moves_loses_nothing(network: Network) -> None:
    await grown(network)
    payloads = [b"%d" % number for number in range(500)]
    await write(network, *payloads)
    async with network.client("bath") as client:
        await client.create("orders")
        subscription = client.subscribe(QUEUE, credit=20)
        got: set[bytes] = set()
        for name in ("york", "north", "hq"):
            for _ in range(20):
                delivery = await subscription.next(60.0)
                assert delivery is not None
                got.add(delivery.payload)
                delivery.ack()
            network.kill(name)
            await network.start(name)
        while len(got) < len(payloads):
            delivery = await subscription.next(60.0)
            assert delivery is not None, f"{len(got)} of {len(payloads)} came"
            got.add(delivery.payload)
            delivery.ack()


async def test_a_reader_that_comes_while_the_line_is_cut_has_all_that_was_kept(network: Network) -> None:
    await grown(network)
    await write(network, b"1")
    await until_kept(network, "york", 1)
    await network.line("north").cut()
    await network.until("hq", lambda status: child_state(status, "north") != "running", "without north")
    async with network.client("bath") as client, receiving(client, QUEUE) as got:
        await write(network, b"2")
        await until_kept(network, "york", 2)
        await network.line("north").restore()
        await until_count(got, 2)
        assert sorted(delivery.payload for delivery in got) == [b"1", b"2"]


async def test_a_caller_hears_that_nobody_serves_a_created_queue_and_its_messages_stay(
    network: Network,
) -> None:
    await grown(network)
    await write(network, b"1", b"2")
    async with network.client("york") as client, Rpc(client) as rpc:
        for _ in range(2):
            with pytest.raises(NobodyServes, match="says node 'york'"):
                await rpc.call("orders", "work", timeout=None)
    await until_kept(network, "york", 2)
    assert [crossed(await network.status(name)) for name in ("north", "hq")] == [0, 0]
    assert await network.collect("bath", QUEUE, 2) == [b"1", b"2"]


@pytest.mark.parametrize("at", ["north", "hq"])
async def test_a_route_that_is_set_above_takes_what_is_kept_below(network: Network, at: str) -> None:
    await grown(network)
    await write(network, b"1")
    await network.until("york", lambda status: kept(status) == 1, "keeping one")
    await done(network, "hq", "route", "add", "dumpster", "lost")
    async with network.client("bath") as client, receiving(client, "queue:parcels") as got:
        await done(network, "hq", "route", "add", "alias", "orders", "parcels@bath", "--node", at)
        await until_count(got, 1)
        await write(network, b"2")
        await until_count(got, 2)
        assert [delivery.payload for delivery in got] == [b"1", b"2"]
    await until_kept(network, "york", 0)


async def test_a_default_that_is_set_at_hq_takes_what_is_kept_below(network: Network) -> None:
    await grown(network)
    async with network.client("south") as client:
        await client.create("orders")
    await write(network, b"1")
    await until_kept(network, "york", 1)
    await done(network, "hq", "route", "add", "default", "south")
    await until_kept(network, "south", 1)
    await until_kept(network, "york", 0)


async def test_of_what_is_not_persistent_nothing_crosses_once_nobody_is_known_to_read_it(
    network: Network,
) -> None:
    await grown(network)
    async with network.client("york") as client:
        await client.create("orders")
        deadline = asyncio.get_running_loop().time() + 60
        while (await network.status("york"))["counters"]["volatile_dropped"] == 0:
            await client.send(QUEUE, b"x", persistent=False)
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)
        before = crossed(await network.status("north"))
        for _ in range(20):
            await client.send(QUEUE, b"x", persistent=False)
        await network.until(
            "york", lambda status: status["counters"]["volatile_dropped"] >= 21, "dropping what nobody reads"
        )
        assert crossed(await network.status("north")) == before
