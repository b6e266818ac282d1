"""A machine that is replaced, with an empty database, takes over what the site's Mosquitto kept for it."""

import shutil
from collections.abc import Callable

from harness import Network
from mosquitto_clients import Listener, joined, knows, publish, takes
from mosquitto_server import MosquittoServer

Start = Callable[..., MosquittoServer]


async def sites(network: Network, broker: Start) -> tuple[MosquittoServer, MosquittoServer]:
    """HQ and a store that proves its name, so that another machine may take its place."""
    hq, york = broker("hq"), broker("york")
    (network.folder / "secret").write_text("a shared secret", encoding="utf-8")
    network.add("hq", site_broker={"uri": hq.uri}, children=[{"name": "york", "secret_file": "secret"}])
    way = {"nodetype": "leaf", "uri": f"ws://127.0.0.1:{network.ports['hq']}/link", "secret_file": "secret"}
    network.add("york", site_broker={"uri": york.uri}, tree_connectors=[way])
    await network.start()
    await joined(network, "hq", "york")
    return hq, york


async def test_what_the_broker_kept_for_the_machine_before_is_taken(network: Network, broker: Start) -> None:
    hq, york = await sites(network, broker)
    readers = ("-t", "up/#", "-t", "$share/g/queue/orders", "-q", "1")
    with (
        Listener(hq.port, *readers, "-i", "office") as office,
        Listener(hq.port, "-t", "old/#", "-q", "1", "-i", "leaves") as leaves,
    ):
        for text in ("up/#", "queue/orders", "old/#"):
            await takes(network, "york", text)
        network.kill("york")
        leaves.stop()
        await knows(network, "hq", "queue:orders", "topic:up/#")
        for topic in ("up/sales", "queue/orders", "old/news"):
            publish(york.port, topic, b"while nobody was there")
        shutil.rmtree(network.data("york"))
        await network.start("york")
        await office.until(2)
        assert sorted(each["topic"] for each in office.got()) == ["queue/orders", "up/sales"]
        await joined(network, "york")
        publish(york.port, "up/sales", b"afterwards")
        await office.until(3)


async def test_what_the_tree_retained_there_is_known_again_and_does_not_go_up_as_new(
    network: Network, broker: Start
) -> None:
    hq, york = await sites(network, broker)
    publish(hq.port, "prices/tea", b"old", "-r")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "till") as till:
        await till.until(1)
        network.kill("york")
        shutil.rmtree(network.data("york"))
        publish(hq.port, "prices/tea", b"new", "-r")
        with Listener(hq.port, "-t", "prices/#", "-q", "1", "-i", "office") as office:
            await office.until(1)
            await network.start("york")
            await takes(network, "york", "prices/#")
            publish(york.port, "prices/end", b"end")
            await office.until(2)
            assert office.payloads() == ["new", "end"]
