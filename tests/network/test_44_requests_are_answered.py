"""A request is answered across the tree, whichever broker asks and whichever answers.

One tree serves all tests that ask at `sites`; each has queues, topics and programs of its own names.

`REQUESTS=1000 pytest -s …` asks so many of each form, and prints how long they took.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pika
import pytest
import pytest_asyncio
from callers import DIRECT, AmqpRequester, AmqpResponder, MqttRequester, MqttResponder
from harness import Network
from mosquitto_clients import joined, publish
from mosquitto_server import DISCOVERY, MosquittoServer
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications

pytestmark = pytest.mark.asyncio(loop_scope="module")
EACH = int(os.environ.get("REQUESTS", "50"))
FORMS = ("own", "polled", "exclusive", "direct")


class Sites(NamedTuple):
    """hq and leeds with a RabbitMQ, york with a Mosquitto; both stores below hq."""

    network: Network
    hq: Applications
    leeds: Applications
    york: MosquittoServer


_numbers = itertools.count(1)


@pytest.fixture
def own() -> str:
    """The end of all names of a test, so that nothing which an earlier one has left is its own."""
    return f"-{next(_numbers)}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tree(tmp_path_factory: pytest.TempPathFactory, rabbitmq: RabbitServer) -> AsyncIterator[Sites]:
    folder: Path = tmp_path_factory.mktemp("requests")
    rabbitmq.start()
    vhosts = {site: f"{site}-{folder.name}" for site in ("hq", "leeds")}
    york = MosquittoServer(folder / "broker-york", *DISCOVERY)
    york.start()
    try:
        async with Network(folder) as network:
            for site, vhost in vhosts.items():
                rabbitmq.add_vhost(vhost)
                parent = "" if site == "hq" else "hq"
                at = {"uri": rabbitmq.uri(vhost), "management": rabbitmq.management_uri}
                network.add(site, parent, site_broker=at)
            network.add("york", "hq", site_broker={"uri": york.uri})
            await network.start()
            await joined(network, "york")
            for site in vhosts:
                await network.until(site, is_running, "with its broker")
            yield Sites(network, *(Applications(rabbitmq, vhost) for vhost in vhosts.values()), york)
    finally:
        york.kill()
        for vhost in vhosts.values():
            rabbitmq.delete_vhost(vhost)


@pytest.fixture
def sites(tree: Sites) -> Iterator[Sites]:
    """The tree; no application of an earlier test is connected any more."""
    yield tree
    for applications in (tree.hq, tree.leeds):
        applications.close()


def is_running(status: dict[str, Any]) -> bool:
    return bool(status["site_broker"]["state"] == "running")


async def until_taken(network: Network, name: str, *wanted: str) -> None:
    """Wait until the node takes these from its broker: names of queues, or filters."""

    def holds(status: dict[str, Any]) -> bool:
        site = status["site_broker"]
        topics = [each.removeprefix("topic:") for each in site["wanted"]]
        return {*site.get("taking_queues", topics), *topics, *site.get("taking", ())} >= {*wanted}

    await network.until(name, holds, f"taking {wanted}")


async def asked(name: str, ask: Callable[..., float], to: str, *arguments: str) -> None:
    """So many requests, one after the other, each of which is answered."""
    took = sorted([await asyncio.to_thread(ask, to, number, *arguments) for number in range(EACH)])
    median, slow, slowest = (round(took[at] * 1000) for at in (EACH // 2, EACH * 99 // 100, -1))
    print(f"{name}: {EACH} answered, median {median} ms, 99 of 100 in {slow} ms, the last in {slowest} ms")


# Where an application wants the answer: a topic; a queue; a queue's topic that it reads without a group.
PLACES = {
    "topics": ("answers{own}/{number}", "{place}"),
    "queues": ("queue/answers{own}-{number}", "$share/g/{place}"),
    "topics of queues": ("queue/answers{own}-{number}", "{place}"),
}


@pytest.mark.parametrize("place", PLACES)
async def test_a_store_with_mosquitto_asks_hq_with_rabbitmq(sites: Sites, own: str, place: str) -> None:
    named, read = PLACES[place]
    with (
        AmqpResponder(sites.hq, f"stock{own}", f"ask.stock{own}"),
        MqttRequester(
            sites.york,
            f"till{own}",
            lambda number: named.format(own=own, number=number),
            lambda wanted: read.format(place=wanted),
        ) as till,
    ):
        queue, topic = f"queue/stock{own}", f"ask/stock{own}"
        await until_taken(sites.network, "york", queue, topic)
        for asked_at in (queue, topic):
            await asked(f"{place}, of {asked_at}", till.ask, asked_at)


@pytest.mark.parametrize("form", FORMS)
async def test_hq_with_rabbitmq_asks_a_store_with_mosquitto(sites: Sites, own: str, form: str) -> None:
    queue = f"prices{own}"
    with (
        MqttResponder(sites.york, queue, f"$share/g/queue/{queue}") as prices,
        MqttResponder(sites.york, f"tea{own}", f"ask/tea{own}") as tea,
    ):
        sites.hq.channel().queue_declare(queue, durable=True)
        await until_taken(sites.network, "hq", queue)
        await sites.hq.until_bound(f"ask.tea{own}")
        requester = AmqpRequester(sites.hq, form)
        await asked(f"{form}, of a queue", requester.ask, queue)
        await asked(f"{form}, of a topic", requester.ask, f"ask.tea{own}", "amq.topic")
        assert prices.unanswerable == tea.unanswerable == []


@pytest.mark.parametrize("form", FORMS)
async def test_hq_and_a_store_both_with_rabbitmq_ask_each_other(sites: Sites, own: str, form: str) -> None:
    prices, stock = f"prices{own}", f"stock{own}"
    with AmqpResponder(sites.leeds, prices), AmqpResponder(sites.hq, stock):
        for at, name, queue in ((sites.hq, "hq", prices), (sites.leeds, "leeds", stock)):
            at.channel().queue_declare(queue, durable=True)
            await until_taken(sites.network, name, queue)
            await asked(f"{name}, {form}", AmqpRequester(at, form).ask, queue)


@pytest.mark.parametrize("place", ["answers", "queue/answers"])
async def test_a_broker_that_tells_of_no_subscription_asks_and_is_answered(
    tmp_path: Path, broker: Callable[..., MosquittoServer], place: str
) -> None:
    hq, york = broker("hq"), broker("york", "allow_anonymous true")
    async with Network(tmp_path) as network:
        network.add("hq", site_broker={"uri": hq.uri})
        network.add("north", "hq", role="branch")
        network.add("york", "north", site_broker={"uri": york.uri})
        await network.start()
        await joined(network, "hq")
        await network.until("york", is_running, "with its broker")
        with (
            MqttResponder(hq, "stock", "$share/g/queue/stock"),
            MqttRequester(york, "till", lambda number: f"{place}-{number}") as till,
        ):
            await until_taken(network, "york", "queue/stock")
            await asked(place, till.ask, "queue/stock")


async def dead(network: Network, name: str) -> dict[str, int]:
    """How many messages a node has buried, by reason."""
    found: dict[str, int] = {}
    for text, count in (await network.status(name))["dead"]["reasons"].items():
        reason = text.partition(":")[0]
        found[reason] = found.get(reason, 0) + count
    return found


async def until_buried(network: Network, name: str, before: dict[str, int], *reasons: str) -> None:
    """Wait until one message more than before is a dead letter for each of these reasons; no other is."""
    wanted = before | {reason: before.get(reason, 0) + 1 for reason in reasons}
    async with asyncio.timeout(180):
        while await dead(network, name) != wanted:
            await asyncio.sleep(0.05)


async def test_what_cannot_be_answered_is_a_dead_letter(sites: Sites, own: str) -> None:
    """A place that the tree cannot name; one that a protocol cannot spell; an asker who has gone."""
    network, stock, queue = sites.network, f"queue/stock{own}", f"slow{own}"
    at_hq, at_york = await dead(network, "hq"), await dead(network, "york")
    with AmqpResponder(sites.hq, f"stock{own}"):
        await until_taken(network, "york", stock)
        publish(sites.york.port, stock, b"1", "-D", "publish", "response-topic", "$SYS/answers")
        await until_buried(network, "york", at_york, "UNANSWERABLE")
        long = "answers/" + "x" * 300
        publish(sites.york.port, stock, b"2", "-D", "publish", "response-topic", long)
        await until_buried(network, "hq", at_hq, "UNANSWERABLE")
    with MqttResponder(sites.york, f"prices{own}", f"$share/g/queue/{queue}") as slow:
        slow.paho.on_message = lambda _client, _data, message: kept.append(message)
        kept: list[Any] = []
        asking = sites.hq.channel()
        asking.queue_declare(queue, durable=True)
        await until_taken(network, "hq", queue)
        asking.basic_consume(DIRECT, lambda *_: None, auto_ack=True)
        asking.basic_publish("", queue, b"3", pika.BasicProperties(reply_to=DIRECT, delivery_mode=2))
        async with asyncio.timeout(180):
            while not kept:
                await asyncio.sleep(0.02)
        asking.close()
        slow.paho.publish(kept[0].properties.ResponseTopic, b"too late", qos=1)
        await until_buried(network, "hq", at_hq, "UNANSWERABLE", "QUEUE_DOES_NOT_EXIST")
