"""A reader leaves while another one of its queue is elsewhere.

Its route ends with the first message that its node gives back, and all later ones go straight to the other
reader, in order.

All nodes have the settings that a user gets; `linger` is ten seconds.
"""

from collections.abc import Callable

import pika
import pytest
from harness import Network
from mosquitto_clients import Listener
from rabbitmq_site import Reader
from test_44_requests_are_answered import Sites, sites, tree, until_taken

__all__ = ["sites", "tree"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
KEPT = pika.BasicProperties(delivery_mode=2)
LATER = 40
Came = Callable[[], list[str]]


def rerouted(status: dict[str, dict[str, int]]) -> int:
    return status["counters"]["rerouted"]


async def in_order_to_the_other(sites: Sites, work: str, left: str, came: Came) -> None:
    """Send one by one until the route to who left is given back, then many: none of these makes a detour."""
    network, channel = sites.network, sites.hq.channel()
    channel.confirm_delivery()

    def ended() -> bool:
        return any(row.destination == work and row.peer == left for row in network.advisories("hq", "remove"))

    number = 0
    while not ended():
        channel.basic_publish("", work, b"early", KEPT)
        number += 1
        await network.until(
            "hq", lambda _, sent=number: came().count("early") == sent, f"rid of message {number}"
        )
    ways = [rerouted(await network.status(name)) for name in ("hq", left)]
    for later in range(LATER):
        channel.basic_publish("", work, b"%d" % later, KEPT)
    await network.until("hq", lambda _: len(came()) >= number + LATER, "rid of all")
    assert came()[number:] == [str(later) for later in range(LATER)]
    assert [rerouted(await network.status(name)) for name in ("hq", left)] == ways


async def both_known(network: Network, work: str) -> None:
    def told(_: object) -> bool:
        return {row.peer for row in network.advisories("hq") if row.destination == work} == {
            "york",
            "leeds",
        }

    await network.until("hq", told, "told of both readers")
    await until_taken(network, "hq", work)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_reader_at_a_mosquitto_leaves_and_one_at_a_rabbitmq_stays(sites: Sites, how: str) -> None:
    work = f"work-{how}"  # the tree is that of all these tests, and its advisories are told of each name
    sites.hq.channel().queue_declare(work, durable=True)
    with Listener(sites.york.port, "-t", f"$share/g/queue/{work}", "-q", "1", "-i", "till") as york:
        leeds = Reader(sites.leeds.channel(), work, durable=True)
        await both_known(sites.network, work)
        getattr(york, how)()

        def came() -> list[str]:
            leeds.channel.connection.process_data_events(0)
            return [body.decode() for body in leeds.bodies]

        await in_order_to_the_other(sites, work, "york", came)


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_a_reader_at_a_rabbitmq_leaves_and_one_at_a_mosquitto_stays(sites: Sites, how: str) -> None:
    work = f"work-{how}"  # the tree is that of all these tests, and its advisories are told of each name
    sites.hq.channel().queue_declare(work, durable=True)
    with Listener(sites.york.port, "-t", f"$share/g/queue/{work}", "-q", "1", "-i", "till") as york:
        leeds = Reader(sites.leeds.channel(), work, durable=True)
        await both_known(sites.network, work)
        if how == "close":
            leeds.channel.close()
        else:
            leeds.channel.basic_cancel(leeds.channel.consumer_tags[0])
        await in_order_to_the_other(sites, work, "leeds", york.payloads)
