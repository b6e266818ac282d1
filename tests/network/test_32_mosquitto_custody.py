"""Nothing acknowledged is lost: brokers and nodes are killed in turn under load; and one node at a broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from harness import PATIENCE, Network, receiving, until_count
from mosquitto_clients import Listener, joined, publish, publish_lines, takes
from mosquitto_server import DISCOVERY, MosquittoServer

from bridges.site_brokers.mosquitto.inspection import KEPT
from sapwood.inbox import Delivery

Start = Callable[..., MosquittoServer]
COUNT = 300
SAFE = tuple(dict.fromkeys((*DISCOVERY, *KEPT)))
"""A Mosquitto that keeps on disk what it has taken: what it loses itself is none of ours."""


async def test_brokers_and_nodes_are_killed_under_load_and_nothing_is_lost(
    network: Network, broker: Start
) -> None:
    hq, york = broker("hq", *SAFE), broker("york", *SAFE)
    network.add("hq", site_broker={"uri": hq.uri})
    network.add("york", "hq", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "hq", "york")
    with Listener(hq.port, "-t", "sales", "-q", "1", "-c", "-i", "office", "-x", "3600") as office:
        await network.until_known("york", "topic:sales")
        await takes(network, "york", "sales")
        sent: list[str] = []

        async def load() -> None:
            for first in range(0, COUNT, 10):
                lines = [f"{number}".encode() for number in range(first, first + 10)]
                while True:
                    try:
                        await asyncio.to_thread(publish_lines, york.port, "sales", lines)
                        break
                    except Exception:
                        await asyncio.sleep(0.2)
                sent.extend(line.decode() for line in lines)

        loading = asyncio.create_task(load())
        await office.until(20)
        network.kill("york")
        await network.start("york")
        await joined(network, "york")
        network.kill("hq")
        await network.start("hq")
        await joined(network, "hq")
        await loading
        for server in (hq, york):
            server.kill()
            server.start()
        office.kill()
        office.start()
        await joined(network, "hq", "york")
        await asyncio.to_thread(publish, york.port, "sales", b"end")
        await network.until_drained("york")
        await network.until_drained("hq")
        await until_all(office, {*sent, "end"})


async def until_all(listener: Listener, wanted: set[str]) -> None:
    """Wait until it has these, in any order and some of them twice, and nothing else."""
    try:
        async with asyncio.timeout(PATIENCE):
            while missing := wanted.difference(listener.payloads()):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{len(missing)} are lost: {sorted(missing)[:10]}") from None
    assert {*listener.payloads()} == wanted


@asynccontextmanager
async def ordering(network: Network, york: MosquittoServer) -> AsyncIterator["asyncio.Future[Delivery]"]:
    """A node at a broker, with an application that waits for the first message of `queue:orders`."""
    network.add("york", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "york")
    async with network.client("york") as reader:
        await reader.create("orders")
        subscription = reader.subscribe("queue:orders")
        getting = asyncio.ensure_future(anext(subscription))
        await takes(network, "york", "queue/orders")
        yield getting
        getting.cancel()
        await asyncio.gather(getting, return_exceptions=True)
        subscription.close()


async def test_what_the_node_had_committed_is_not_stored_again_when_the_broker_repeats_it(
    network: Network, broker: Start
) -> None:
    york = broker("york")
    async with ordering(network, york) as getting:
        publish_lines(york.port, "queue/orders", [b"1", b"2", b"3"])
        first = await asyncio.wait_for(getting, PATIENCE)
        assert first.payload == b"1"
    network.kill("york")
    await network.start("york")
    await joined(network, "york")
    got = await network.collect("york", "queue:orders", 3)
    assert sorted(got) == [b"1", b"2", b"3"]


async def test_what_waits_at_the_broker_for_a_queue_is_taken_whoever_wants_it_now(
    network: Network, broker: Start
) -> None:
    """The broker gave it to nobody else: who reads the queue there has come too late for it."""
    york = broker("york")
    async with ordering(network, york):
        network.kill("york")
    await asyncio.to_thread(publish_lines, york.port, "queue/orders", [b"%d" % each for each in range(50)])
    with Listener(york.port, "-t", "$share/g/queue/orders", "-q", "1", "-i", "late") as late:
        await network.start("york")
        await joined(network, "york")
        got = await late.until(50)
        assert sorted(int(message["payload"]) for message in got) == list(range(50))


async def test_a_broker_that_comes_back_as_it_was_some_time_ago_is_asked_for_everything_again(
    network: Network, broker: Start
) -> None:
    """Mosquitto saves every half hour: killed, it has our session of then, without what came since."""
    york = broker("york")
    network.add("york", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "york")
    async with network.client("york") as reader, receiving(reader, "topic:early") as early:
        await takes(network, "york", "early")
        york.save()
        async with receiving(reader, "topic:late") as late:
            await takes(network, "york", "late")
            york.kill()
            await network.until(
                "york", lambda status: status["site_broker"]["state"] != "running", "without its broker"
            )
            york.start()
            await joined(network, "york")
            for name in ("early", "late"):
                await takes(network, "york", name)
                await asyncio.to_thread(publish, york.port, name, name.encode())
            await until_count(early, 1)
            await until_count(late, 1)


async def test_a_second_node_at_the_same_broker_refuses_to_start(network: Network, broker: Start) -> None:
    server = broker("york")
    network.add("york", site_broker={"uri": server.uri})
    network.add("bath", site_broker={"uri": server.uri})
    await network.start("york")
    await joined(network, "york")
    second = await network.launch("bath")
    async with asyncio.timeout(PATIENCE):
        while second.running:
            await asyncio.sleep(0.05)
    assert "node 'york' of tree 'test' has this broker already" in second.last_words()
    assert (await network.status("york"))["site_broker"]["state"] == "running"
    network.kill("york")
    await network.start("bath")
    await joined(network, "bath")
