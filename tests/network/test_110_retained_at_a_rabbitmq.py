"""A RabbitMQ retains nothing: its node keeps what an application there retains.

It does so whoever wants it for the topics under `sources`, and for others while somebody wants them.
"""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pika
import pytest_asyncio
from harness import Network
from mosquitto_clients import Listener, joined
from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications

RETAINED = pika.BasicProperties(delivery_mode=2, headers={"sapwood-retained": True})
BEYOND_THE_FOLLOWED = 1001


class Pair(NamedTuple):
    """hq with a RabbitMQ, york below it with a Mosquitto."""

    network: Network
    hq: Applications
    york: MosquittoServer


@pytest_asyncio.fixture
async def sites(
    network: Network, broker: Callable[..., MosquittoServer], rabbitmq: RabbitServer
) -> AsyncIterator[Pair]:
    rabbitmq.start()
    york, vhost = broker("york"), f"hq-{network.folder.name}"
    rabbitmq.add_vhost(vhost)
    at = {"uri": rabbitmq.uri(vhost), "management": rabbitmq.management_uri, "sources": ["topic:prices/#"]}
    network.add("hq", site_broker=at)
    network.add("york", "hq", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "york")
    await with_broker(network)
    office = Applications(rabbitmq, vhost)
    await office.until_bound("prices.#")
    yield Pair(network, office, york)
    office.close()
    rabbitmq.delete_vhost(vhost)


async def with_broker(network: Network) -> None:
    await network.until("hq", lambda status: status["site_broker"]["state"] == "running", "with its broker")


async def keeps(network: Network, count: int) -> None:
    await network.until("hq", lambda status: status["retained"] == count, f"keeping {count} retained")


def retain(hq: Applications, **values: str) -> None:
    for name, value in values.items():
        hq.publish(f"prices.{name}", value.encode(), "amq.topic", RETAINED)


async def test_who_comes_later_is_given_the_last_value_or_none(sites: Pair) -> None:
    """Retained, changed and cleared while nobody wants it, and while the node is away."""
    network, hq, york = sites
    retain(hq, tea="9", milk="1", rum="5")
    await keeps(network, 3)
    retain(hq, milk="2", rum="")
    await keeps(network, 2)
    network.kill("hq")
    retain(hq, tea="10", gin="7")
    await network.start("hq")
    await with_broker(network)
    await keeps(network, 3)
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "first") as first:
        await first.until(3)
        assert sorted(first.payloads()) == ["10", "2", "7"]
    await network.until(
        "york",
        lambda status: not status["site_broker"]["retained_from_tree"],
        "rid of what nobody there hears of",
    )
    retain(hq, gin="8", tea="")
    await keeps(network, 2)
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "second") as second:
        await takes_from_above(network)
        await second.until(2)
        assert sorted(second.payloads()) == ["2", "8"]


async def takes_from_above(network: Network) -> None:
    await network.until("hq", lambda status: "topic:prices/#" in status["site_broker"]["wanted"], "asked")


async def test_more_topics_are_kept_than_a_node_follows_by_itself(sites: Pair) -> None:
    network, hq, york = sites
    channel = hq.channel()
    channel.confirm_delivery()
    for number in range(BEYOND_THE_FOLLOWED):
        channel.basic_publish("amq.topic", f"prices.{number}", b"old", RETAINED)
    await keeps(network, BEYOND_THE_FOLLOWED)
    channel.basic_publish("amq.topic", "prices.1000", b"new", RETAINED)
    with Listener(york.port, "-t", "prices/1000", "-q", "1", "-i", "till") as till:
        await till.until_the_last_is("new")  # the old one comes first where hq has not got the new one yet
