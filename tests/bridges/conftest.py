"""What the tests of the RabbitMQ bridge have in common: connections, bridges and applications that end with
the test.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications, At

from bridges.amqp.connection import Connection
from bridges.amqp.server import Server
from bridges.site_brokers.base import Setup
from config.model import SiteBroker

Connect = Callable[[], Awaitable[Connection]]
Place = Callable[..., At]


@pytest_asyncio.fixture
async def connect(rabbitmq: RabbitServer, vhost: str) -> AsyncIterator[Connect]:
    """Opens connections of ours to the test's virtual host."""
    opened: list[Connection] = []

    async def open_one() -> Connection:
        connection = await Connection.open(Server(rabbitmq.uri(vhost), timeout=30))
        opened.append(connection)
        return connection

    yield open_one
    await asyncio.gather(*(connection.close() for connection in opened))


@pytest.fixture
def applications(rabbitmq: RabbitServer, vhost: str) -> Iterator[Applications]:
    made = Applications(rabbitmq, vhost)
    yield made
    made.close()


@pytest_asyncio.fixture
async def place(rabbitmq: RabbitServer, vhost: str, tmp_path: Path) -> AsyncIterator[Place]:
    """Makes bridges beside the test's virtual host. Keywords are settings of the site broker."""
    made: list[At] = []

    def make(
        node: str = "york", store: str = "", password: Callable[[], str] | None = None, **settings: Any
    ) -> At:
        directory = tmp_path / node
        directory.mkdir(exist_ok=True)
        site = SiteBroker(uri=rabbitmq.uri(vhost), management=rabbitmq.management_uri)
        setup = Setup(
            tree="acme",
            node=node,
            store=store or f"store of {node}",
            directory=directory,
            settings=replace(site, **settings),
            password=password,
            tls=None,
            timeout=30.0,
            max_message=1 << 20,
            max_consumers=1000,
        )
        made.append(At(setup))
        return made[-1]

    yield make
    await asyncio.gather(*(each.stop() for each in made))


@pytest_asyncio.fixture
async def york(place: Place) -> At:
    """A bridge that runs."""
    return await place().start()
