"""The management API of a real RabbitMQ, and of somebody who is none."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pika
import pytest
from aiohttp import web
from rabbitmq_server import RabbitServer
from rabbitmq_site import PATIENCE

from bridges.amqp.errors import ManagementError
from bridges.site_brokers.rabbitmq.management import Management


def guest() -> str:
    return "guest"


async def test_queues_and_bindings_are_listed_page_by_page(
    rabbitmq: RabbitServer, vhost: str, applications
) -> None:
    channel = applications.channel()
    names = [f"q{number:04}" for number in range(620)]
    for name in names:
        channel.queue_declare(name)
    channel.queue_declare("durable", durable=True)
    channel.queue_declare("passing", auto_delete=True)
    channel.queue_declare("mine", exclusive=True)
    channel.queue_bind("durable", "amq.topic", "a.#")
    channel.queue_bind("durable", "amq.direct", "b")
    management = Management(rabbitmq.management_uri, "guest", guest)
    found = {listed.name: listed for listed in await management.queues(vhost)}
    assert set(found) == {*names, "durable", "passing", "mine"}
    assert found["durable"][:4] == ("durable", True, False, False)
    assert found["passing"][:4] == ("passing", False, False, True)
    assert found["mine"].private
    assert await management.bindings(vhost, "amq.topic") == ([("durable", "a.#")], set())


async def test_bindings_through_other_exchanges_are_listed_as_if_they_were_direct(
    rabbitmq: RabbitServer, vhost: str, applications
) -> None:
    channel = applications.channel()
    for name, kind in (("all", "fanout"), ("some", "topic"), ("one", "direct")):
        channel.exchange_declare(name, kind)
    for name in ("q", "r", "s", "t"):
        channel.queue_declare(name)
    channel.exchange_bind("all", "amq.topic", "a.#")
    channel.exchange_bind("some", "all", "ignored")
    channel.exchange_bind("all", "some", "#")
    channel.exchange_bind("one", "amq.topic", "b.#")
    channel.queue_bind("q", "all", "")
    channel.queue_bind("r", "some", "*.tea")
    channel.queue_bind("s", "one", "b.tea")
    channel.queue_bind("t", "one", "c.tea")
    found, behind = await Management(rabbitmq.management_uri, "guest", guest).bindings(vhost, "amq.topic")
    assert set(found) == {("q", "a.#"), ("r", "a.tea"), ("s", "b.tea")}
    assert behind == {"all", "some", "one"}


async def test_an_exchange_that_is_not_there_has_no_bindings(rabbitmq: RabbitServer, vhost: str) -> None:
    """The list of queues, which is asked for with it, holds all the same."""
    management = Management(rabbitmq.management_uri, "guest", guest)
    assert await management.bindings(vhost, "deleted") == ([], set())
    assert await management.sources(vhost, "deleted") == set()


async def test_who_is_not_let_in_is_told_so(rabbitmq: RabbitServer, vhost: str) -> None:
    with pytest.raises(ManagementError, match="does not let user 'guest' in") as refused:
        await Management(rabbitmq.management_uri, "guest", lambda: "wrong").queues(vhost)
    assert refused.value.status == 401


async def test_nobody_there() -> None:
    with pytest.raises(ManagementError, match="does not answer") as refused:
        await Management("http://127.0.0.1:9", "guest", guest).queues("/")
    assert refused.value.status == 0


@asynccontextmanager
async def answering(answer: Callable[[web.Request], str]) -> AsyncIterator[Management]:
    async def say(request: web.Request) -> web.Response:
        return web.Response(text=answer(request))

    app = web.Application()
    app.router.add_get("/{path:.*}", say)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    port = listening._server.sockets[0].getsockname()[1]
    try:
        yield Management(f"http://127.0.0.1:{port}", "guest", guest)
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)


@pytest.mark.parametrize("answer", ["no JSON", "[]", '{"items": [{"name": 7}]}', '{"items": 3}'])
async def test_an_odd_answer_is_an_error(answer: str) -> None:
    async with answering(lambda request: answer) as management:
        with pytest.raises(ManagementError, match="what no RabbitMQ answers"):
            await management.queues("/")


@pytest.mark.parametrize("each", [500, 0])
async def test_a_list_without_an_end_is_given_up(each: int) -> None:
    """Whether its pages are full or empty."""
    asked: list[str] = []
    items = [{"name": f"q{number}"} for number in range(each)]

    def page(request: web.Request) -> str:
        asked.append(request.query["page"])
        return json.dumps({"items": items, "page_count": 1_000_000_000})

    async with answering(page) as management:
        with pytest.raises(ManagementError, match="lists more than 100000 queues"):
            await management.queues("/")
    assert len(asked) == 201


async def test_connections_are_known_by_the_names_that_they_gave_themselves(
    rabbitmq: RabbitServer, vhost: str
) -> None:
    management = Management(rabbitmq.management_uri, "guest", guest)
    named = rabbitmq.parameters(vhost)
    named.client_properties = {"connection_name": "Shovel to-hq"}
    with rabbitmq.connect(vhost), pika.BlockingConnection(named):
        async with asyncio.timeout(PATIENCE):
            while len(rabbitmq.api("GET", f"/vhosts/{vhost}/connections")) < 2:
                await asyncio.sleep(0.1)
        assert await management.connections(vhost) == {"Shovel to-hq"}
