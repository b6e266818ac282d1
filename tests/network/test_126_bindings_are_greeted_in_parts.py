"""A queue that is bound at a RabbitMQ gets very many retained messages: each once, in order, in parts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pika
import pytest
import pytest_asyncio
from harness import PATIENCE, Network
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications

pytestmark = pytest.mark.asyncio(loop_scope="module")
MANY = 10_500
PRICES = [b"%05d" % number for number in range(MANY)]


class Site(NamedTuple):
    """york with a RabbitMQ, whose parent has retained `PRICES`. `bound`: the queues of a test."""

    network: Network
    rabbitmq: RabbitServer
    applications: Applications
    bound: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory, rabbitmq: RabbitServer) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("bindings")
    rabbitmq.start()
    vhost = f"york-{folder.name}"
    rabbitmq.add_vhost(vhost)
    at = {"uri": rabbitmq.uri(vhost), "management": rabbitmq.management_uri}
    async with Network(folder) as network:
        network.add("hq")
        network.add("york", "hq", site_broker=at | {"consumers": ["topic:prices/#"]})
        await network.start()
        await running(network)
        async with network.client("hq", timeout=PATIENCE) as client:
            for price in PRICES:
                await client.publish(f"topic:prices/{price.decode()}", price, retained=True)
        await network.until("york", lambda status: status["retained"] == MANY, f"keeping {MANY} retained")
        for node in ("hq", "york"):  # what is still under way to york would come to a queue that is bound now
            await network.until_drained(node)
        yield Site(network, rabbitmq, Applications(rabbitmq, vhost), [])
    rabbitmq.delete_vhost(vhost)


@pytest_asyncio.fixture(loop_scope="module")
async def york(site: Site) -> AsyncIterator[Site]:
    """One site for all tests; no queue of an earlier test is there any more."""
    await running(site.network)
    yield site
    channel = site.applications.channel()
    while site.bound:
        channel.queue_delete(site.bound.pop())
    site.applications.close()


async def running(network: Network) -> None:
    await network.until("york", lambda status: status["site_broker"]["state"] == "running", "with its broker")


def bind(york: Site, queue: str) -> Any:
    channel = york.applications.channel()
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, "amq.topic", "prices.#")
    york.bound.append(queue)
    return channel


async def until_counted(channel: Any, queue: str, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while channel.queue_declare(queue, passive=True).method.message_count < count:
            await asyncio.sleep(0.02)


async def test_each_comes_once_and_in_order_to_each_binding(york: Site) -> None:
    first, second = bind(york, "first"), bind(york, "second")
    await until_counted(first, "first", MANY)
    await until_counted(second, "second", MANY)
    for queue in ("first", "second"):
        got = york.applications.drain(queue)
        assert [body for body, _ in got] == PRICES
        assert not any("sapwood-again" in (properties.headers or {}) for _, properties in got)


async def test_one_that_goes_in_the_middle_takes_nothing_from_the_others(york: Site) -> None:
    going, staying = bind(york, "going"), bind(york, "staying")
    await until_counted(going, "going", 1)
    going.queue_delete("going")
    await until_counted(staying, "staying", MANY)
    assert [body for body, _ in york.applications.drain("staying")] == PRICES
    status = await york.network.status("york")
    assert status["site_broker"]["state"] == "running"
    assert status["dead"]["messages"] == 0


async def test_it_goes_on_after_a_kill_and_a_lost_connection(york: Site) -> None:
    """All come, in order, and those that may have come before say so."""
    till = bind(york, "till")
    await until_counted(till, "till", 1)
    york.network.kill("york")
    await york.network.start("york")
    await until_counted(till, "till", MANY // 2)
    with contextlib.suppress(pika.exceptions.AMQPError):
        york.rabbitmq.stop()
    york.rabbitmq.start()
    await running(york.network)
    async with asyncio.timeout(PATIENCE):
        got: list[tuple[bytes, Any]] = []
        while len({body for body, _ in got}) < MANY:
            got += york.applications.drain("till")
            await asyncio.sleep(0.1)
    bodies = [body for body, _ in got]
    seen: set[bytes] = set()
    fresh = [body for body in bodies if body not in seen and not seen.add(body)]  # type: ignore[func-returns-value]
    assert fresh == PRICES
    unsaid = [body for body, properties in got if "sapwood-again" not in (properties.headers or {})]
    assert len(unsaid) == len(set(unsaid))
