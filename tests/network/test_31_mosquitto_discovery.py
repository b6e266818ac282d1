"""The consumers of a Mosquitto are found by themselves, whatever happens to them, to it and to the node."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from harness import Network
from mosquitto_clients import Listener, joined, knows, publish
from mosquitto_server import DISCOVERY, MosquittoServer

from broker.cli.demo.processes import Status

Start = Callable[..., MosquittoServer]


@pytest_asyncio.fixture
async def york(network: Network, broker: Start) -> AsyncIterator[MosquittoServer]:
    """The broker of the root's site, and the root runs."""
    server = broker("york")
    network.add("york", site_broker={"uri": server.uri})
    await network.start()
    await joined(network, "york")
    yield server


def on_disk(network: Network) -> set[str]:
    """The filters of others that a node killed now will know."""
    file = network.data("york") / "site-broker" / "consumers.json"
    clients = json.loads(file.read_text())["clients"] if file.exists() else {}
    return {text for each in clients.values() for text in each["filters"]}


def is_joined(status: Status) -> bool:
    return bool(status["site_broker"].get("discovery") == "complete")


async def test_a_client_that_is_killed_reads_no_more(network: Network, york: MosquittoServer) -> None:
    with Listener(york.port, "-t", "a/b", "-t", "$share/g/queue/q", "-i", "till") as till:
        await knows(network, "york", "queue:q", "topic:a/b")
        till.kill()
        await knows(network, "york")


async def test_a_client_that_says_goodbye_or_unsubscribes_reads_no_more(
    network: Network, york: MosquittoServer
) -> None:
    with Listener(york.port, "-t", "a/b", "-t", "a/c", "-U", "a/c", "-i", "till with spaces") as till:
        await knows(network, "york", "topic:a/b")
        till.stop()
        await knows(network, "york")


async def test_an_id_that_is_taken_over_reads_what_its_new_owner_reads(
    network: Network, york: MosquittoServer
) -> None:
    with Listener(york.port, "-t", "old", "-i", "till"):
        await knows(network, "york", "topic:old")
        with Listener(york.port, "-t", "new", "-i", "till"):
            await network.until(
                "york",
                lambda status: "topic:new" in status["site_broker"]["consumers"],
                "told of the new owner",
            )


async def test_a_persistent_session_reads_while_its_client_is_away(
    network: Network, york: MosquittoServer
) -> None:
    options = ("-t", "a/b", "-q", "1", "-i", "till", "-c")
    with Listener(york.port, *options, version="311") as till:
        await knows(network, "york", "topic:a/b")
        till.stop()
        await asyncio.sleep(0.5)
        await knows(network, "york", "topic:a/b")
        await network.send("york", "topic:a/b", [b"while away"])
        await network.until_drained("york")
        till.start()
        (message,) = await till.until(1)
        assert message["payload"] == "while away"
    with Listener(york.port, "-t", "other", "-i", "till"):
        await knows(network, "york", "topic:other")


async def test_a_session_that_expires_reads_no_more(network: Network, york: MosquittoServer) -> None:
    with Listener(york.port, "-t", "a/b", "-i", "till", "-c", "-x", "2") as till:
        await knows(network, "york", "topic:a/b")
        till.stop()
        await knows(network, "york")


async def test_the_broker_is_killed_and_its_clients_come_back(
    network: Network, york: MosquittoServer
) -> None:
    with (
        Listener(york.port, "-t", "a/b", "-i", "stays") as stays,
        Listener(york.port, "-t", "a/c", "-i", "leaves") as leaves,
    ):
        await knows(network, "york", "topic:a/b", "topic:a/c")
        york.kill()
        stays.kill()
        leaves.kill()
        await network.send("york", "topic:a/b", [b"while the broker was away"])
        york.start()
        stays.start()
        (message,) = await stays.until(1)
        assert message["payload"] == "while the broker was away"
        await network.until("york", is_joined, "joined again")
        await network.send("york", "topic:a/c", [b"for nobody"])
        await knows(network, "york", "topic:a/b")


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_the_node_comes_back_and_finds_what_changed(
    network: Network, york: MosquittoServer, how: str
) -> None:
    with (
        Listener(york.port, "-t", "stays", "-i", "stays"),
        Listener(york.port, "-t", "leaves", "-i", "leaves") as leaves,
    ):
        await knows(network, "york", "topic:leaves", "topic:stays")
        await network.until("york", lambda _: on_disk(network) >= {"leaves", "stays"}, "sure to know them")
        if how == "killed":
            network.kill("york")
        else:
            assert await network.stop("york") == 0
        leaves.kill()
        await network.start("york")
        status = await network.until("york", is_joined, "joined")
        assert "topic:stays" in status["site_broker"]["consumers"]
        await knows(network, "york", "topic:stays")


async def test_consumers_from_before_the_node_came_are_missed_and_said_or_declared(
    network: Network, broker: Start
) -> None:
    server = broker("york")
    network.add("york", site_broker={"uri": server.uri, "consumers": ["topic:declared"]})
    with (
        Listener(server.port, "-t", "unknown", "-i", "unknown") as unknown,
        Listener(server.port, "-t", "declared", "-i", "declared") as declared,
    ):
        await network.start()
        await knows(network, "york", "topic:declared")
        await network.send("york", "topic:declared", [b"1"])
        await declared.until(1)
        await network.until(
            "york",
            lambda status: status["site_broker"]["discovery"] == "2 subscriptions unknown",
            "missing somebody",
            60.0,
        )
        unknown.kill()
        unknown.start()
        await knows(network, "york", "topic:declared", "topic:unknown")


async def test_a_broker_that_tells_nothing_has_the_consumers_of_the_file(
    network: Network, broker: Start
) -> None:
    server = broker("york", "allow_anonymous true")
    network.add("york", site_broker={"uri": server.uri, "consumers": ["queue:orders"]})
    await network.start()
    await network.until(
        "york",
        lambda status: "does not tell" in status["site_broker"].get("discovery", ""),
        "aware that it is told nothing",
    )
    with Listener(server.port, "-t", "$share/g/queue/orders", "-t", "topic", "-q", "1", "-i", "till") as till:
        await network.send("york", "queue:orders", [b"1"])
        await till.until(1)
        await knows(network, "york", "queue:orders")


async def test_a_flood_of_clients_is_bounded_and_leaves_nothing(network: Network, broker: Start) -> None:
    server = broker("york")
    network.add("york", site_broker={"uri": server.uri}, limits={"max_routes_per_link": 50})
    await network.start()
    await joined(network, "york")
    filters = [part for number in range(200) for part in ("-t", f"f/{number}")]
    with Listener(server.port, *filters, "-i", "flood"):
        status = await network.until(
            "york", lambda status: status["site_broker"]["left_out_filters"] >= 150, "flooded"
        )
        assert status["site_broker"]["subscriptions"] == 50
    await knows(network, "york")
    publish(server.port, "x", b"still there")


async def test_queue_messages_for_a_reader_who_is_not_there_go_elsewhere(
    network: Network, broker: Start
) -> None:
    server = broker("york", *DISCOVERY)
    network.add("york", site_broker={"uri": server.uri})
    await network.start()
    await joined(network, "york")
    with Listener(server.port, "-t", "$share/g/queue/orders", "-q", "1", "-i", "till") as till:
        await knows(network, "york", "queue:orders")
        till.kill()
        await network.send("york", "queue:orders", [str(number).encode() for number in range(100)])
        await knows(network, "york")
    got = len(till.got())
    status = await network.status("york")
    waiting = sum(queue["messages"] for queue in status["queues"])
    assert waiting + got >= 100 - got


async def test_a_reader_that_has_left_delays_nobody_elsewhere(network: Network, broker: Start) -> None:
    """However long a route lingers: the first message that comes back ends it, and none follows it."""
    linger = {"advisories": {"linger": "600s"}}
    network.add("hq", **linger)
    servers = {name: broker(name) for name in ("york", "leeds")}
    for name, server in servers.items():
        network.add(name, "hq", site_broker={"uri": server.uri}, **linger)
    await network.start()
    await joined(network, *servers)
    orders = ("-t", "$share/g/queue/orders", "-q", "1", "-i", "till")
    with Listener(servers["york"].port, *orders) as gone, Listener(servers["leeds"].port, *orders) as there:
        for name in servers:
            await knows(network, name, "queue:orders")
        await network.until("hq", lambda _: len(told(network, "add")) == 2, "told of both readers")
        gone.stop()
        await knows(network, "york")
        for number in range(20):  # about half of them are sent to york, one by one
            await network.send("hq", "queue:orders", [b"%d" % number])
        await there.until(20)
        await network.until("hq", lambda _: len(told(network, "remove")) == 1, "told that york's has gone")
        later = [str(number) for number in range(20, 120)]
        await network.send("hq", "queue:orders", [text.encode() for text in later])
        await there.until(120)
        assert there.payloads()[20:] == later
        assert not gone.got()


def told(network: Network, op: str) -> list[str]:
    """The stores from which HQ has heard this of the readers of `queue:orders`."""
    rows = network.advisories("hq", op)
    return [row.peer for row in rows if (row.kind, row.destination) == ("queue", "orders")]
