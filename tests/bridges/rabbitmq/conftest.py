"""What the tests of the RabbitMQ bridge have in common: connections that end with the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio
from rabbitmq_server import RabbitServer

from bridges.rabbitmq.connection import Connection, Server

Connect = Callable[[], Awaitable[Connection]]


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
