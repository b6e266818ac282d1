"""Both kinds of brokers, and a parent that answers at one, for tests of links over them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer

from bridges.carriers.amqp import AmqpBroker
from bridges.carriers.brokered.carrier import BrokeredCarrier, connect
from bridges.carriers.brokered.envelopes import Knock
from bridges.carriers.brokered.line import Broker, BrokerAccess
from bridges.carriers.brokered.listener import Listener, answer
from bridges.carriers.mqtt import MqttBroker

PATIENCE = 180.0
TREE = "acme"
Server = MosquittoServer | RabbitServer
Ends = tuple[BrokeredCarrier, BrokeredCarrier]


def broker_at(server: Server, tree: str = TREE, **access: str) -> Broker:
    """The server as a node sees it; `access`: user, password, vhost."""
    where = BrokerAccess("127.0.0.1", server.port, **access)
    return MqttBroker(where, tree, 65536) if isinstance(server, MosquittoServer) else AmqpBroker(where, tree)


class Parent:
    """Answers whoever knocks. `carriers`: that came of it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.carriers: list[BrokeredCarrier] = []
        self.listener = Listener(broker, name, self._knocked)
        self._broker = broker
        self._answers: set[asyncio.Task[None]] = set()

    def _knocked(self, child: str, knock: Knock) -> None:
        self._answers.add(asyncio.create_task(self._answer(child, knock)))

    async def _answer(self, child: str, knock: Knock) -> None:
        self.carriers.append(await answer(self._broker, child, knock))

    async def close(self) -> None:
        await asyncio.gather(*self._answers, return_exceptions=True)
        await asyncio.gather(*(carrier.close() for carrier in self.carriers))


@asynccontextmanager
async def parent_at(broker: Broker, name: str = "hq") -> AsyncIterator[Parent]:
    parent = Parent(broker, name)
    listening = asyncio.Event()
    task = asyncio.create_task(parent.listener.run(listening.set))
    async with asyncio.timeout(PATIENCE):
        await listening.wait()
    try:
        yield parent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await parent.close()


@asynccontextmanager
async def linked(
    broker: Broker, child: str = "york"
) -> AsyncIterator[tuple[BrokeredCarrier, BrokeredCarrier]]:
    """A child's carrier and its parent's."""
    async with parent_at(broker) as parent:
        near = await connect(broker, child, timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while not parent.carriers:
                await asyncio.sleep(0.01)
        try:
            yield near, parent.carriers[0]
        finally:
            await near.close()
