"""A request is answered across the tree, whichever broker asks and whichever answers.

`REQUESTS=1000 pytest -s …` asks so many of each form, and prints how long they took.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pika
import pytest
import pytest_asyncio
from callers import DIRECT, AmqpRequester, AmqpResponder, MqttRequester, MqttResponder
from harness import Network
from mosquitto_clients import joined, publish
from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications

EACH = int(os.environ.get("REQUESTS", "50"))
FORMS = ("own", "polled", "exclusive", "direct")


class Sites(NamedTuple):
    """hq and leeds with a RabbitMQ, york with a Mosquitto; both stores below hq."""

    network: Network
    hq: Applications
    leeds: Applications
    york: MosquittoServer


@pytest_asyncio.fixture
async def sites(
    network: Network, broker: Callable[..., MosquittoServer], rabbitmq: RabbitServer
) -> AsyncIterator[Sites]:
    rabbitmq.start()
    york = broker("york")
    vhosts = {site: f"{site}-{network.folder.name}" for site in ("hq", "leeds")}
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
    made = Sites(network, *(Applications(rabbitmq, vhost) for vhost in vhosts.values()), york)
    yield made
    for applications in (made.hq, made.leeds):
        applications.close()
    for vhost in vhosts.values():
        rabbitmq.delete_vhost(vhost)


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
    "topics": (lambda number: f"answers/{number}", lambda place: place),
    "queues": (lambda number: f"queue/answers-{number}", lambda place: f"$share/g/{place}"),
    "topics of queues": (lambda number: f"queue/answers-{number}", lambda place: place),
}


@pytest.mark.parametrize("place", PLACES)
async def test_a_store_with_mosquitto_asks_hq_with_rabbitmq(sites: Sites, place: str) -> None:
    with (
        AmqpResponder(sites.hq, "stock", "ask.stock"),
        MqttRequester(sites.york, "till", *PLACES[place]) as till,
    ):
        await until_taken(sites.network, "york", "queue/stock", "ask/stock")
        for asked_at in ("queue/stock", "ask/stock"):
            await asked(f"{place}, of {asked_at}", till.ask, asked_at)


@pytest.mark.parametrize("form", FORMS)
async def test_hq_with_rabbitmq_asks_a_store_with_mosquitto(sites: Sites, form: str) -> None:
    with (
        MqttResponder(sites.york, "prices", "$share/g/queue/prices") as prices,
        MqttResponder(sites.york, "tea", "ask/tea") as tea,
    ):
        sites.hq.channel().queue_declare("prices", durable=True)
        await until_taken(sites.network, "hq", "prices")
        await sites.hq.until_bound("ask.tea")
        requester = AmqpRequester(sites.hq, form)
        await asked(f"{form}, of a queue", requester.ask, "prices")
        await asked(f"{form}, of a topic", requester.ask, "ask.tea", "amq.topic")
        assert prices.unanswerable == tea.unanswerable == []


@pytest.mark.parametrize("form", FORMS)
async def test_hq_and_a_store_both_with_rabbitmq_ask_each_other(sites: Sites, form: str) -> None:
    with AmqpResponder(sites.leeds, "prices"), AmqpResponder(sites.hq, "stock"):
        for at, name, queue in ((sites.hq, "hq", "prices"), (sites.leeds, "leeds", "stock")):
            at.channel().queue_declare(queue, durable=True)
            await until_taken(sites.network, name, queue)
            await asked(f"{name}, {form}", AmqpRequester(at, form).ask, queue)


@pytest.mark.parametrize("place", ["answers", "queue/answers"])
async def test_a_broker_that_tells_of_no_subscription_asks_and_is_answered(
    network: Network, broker: Callable[..., MosquittoServer], place: str
) -> None:
    hq, york = broker("hq"), broker("york", "allow_anonymous true")
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


async def until_dead(network: Network, name: str, *reasons: str) -> None:
    """Wait until so many messages are dead letters, for these reasons."""

    def holds(status: dict[str, Any]) -> bool:
        return sorted(text.partition(":")[0] for text in status["dead"]["reasons"]) == sorted(reasons)

    await network.until(name, holds, f"burying for {reasons}")


async def test_what_cannot_be_answered_is_a_dead_letter(sites: Sites) -> None:
    """A place that the tree cannot name; one that a protocol cannot spell; an asker who has gone."""
    network = sites.network
    with AmqpResponder(sites.hq, "stock"):
        await until_taken(network, "york", "queue/stock")
        publish(sites.york.port, "queue/stock", b"1", "-D", "publish", "response-topic", "$SYS/answers")
        await until_dead(network, "york", "UNANSWERABLE")
        long = "answers/" + "x" * 300
        publish(sites.york.port, "queue/stock", b"2", "-D", "publish", "response-topic", long)
        await until_dead(network, "hq", "UNANSWERABLE")
    with MqttResponder(sites.york, "prices", "$share/g/queue/slow") as slow:
        slow.paho.on_message = lambda _client, _data, message: kept.append(message)
        kept: list[Any] = []
        asking = sites.hq.channel()
        asking.queue_declare("slow", durable=True)
        await until_taken(network, "hq", "slow")
        asking.basic_consume(DIRECT, lambda *_: None, auto_ack=True)
        asking.basic_publish("", "slow", b"3", pika.BasicProperties(reply_to=DIRECT, delivery_mode=2))
        async with asyncio.timeout(180):
            while not kept:
                await asyncio.sleep(0.02)
        asking.close()
        slow.paho.publish(kept[0].properties.ResponseTopic, b"too late", qos=1)
        await until_dead(network, "hq", "UNANSWERABLE", "QUEUE_DOES_NOT_EXIST")
