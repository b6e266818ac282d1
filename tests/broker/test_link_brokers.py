"""The parent at a broker: how many answers are under way, and what shows of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.carriers.base import CarrierBroken
from bridges.carriers.brokered import listener
from bridges.carriers.brokered.carrier import BrokeredCarrier
from bridges.carriers.brokered.envelopes import Claim, Knock, encode
from bridges.carriers.brokered.line import Broker, BrokerLine, Ear
from broker import link_brokers
from broker.link_brokers import LinkBrokerListener
from config import model
from config.errors import ConfigurationError
from config.model import Link, Listener, Site

URI = "mqtt://127.0.0.1:1"


class Quiet(BrokerLine):
    max_message = 2**20

    def say(self, message: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


class Stuck(Broker):
    """A broker whose connections open when it is let go."""

    def __init__(self) -> None:
        self.uri = URI
        self.ear: Ear | None = None
        self.opening = 0
        self.most = 0
        self.opened: list[str] = []
        self.free = asyncio.Event()

    async def knock(self, child: str, half: str, knock: bytes, last_words: bytes, ear: Ear) -> BrokerLine:
        raise AssertionError

    async def answer(self, child: str, half: str, last_words: bytes, ear: Ear) -> BrokerLine:
        self.opening += 1
        self.most = max(self.most, self.opening)
        await self.free.wait()
        self.opening -= 1
        self.opened.append(child)
        return Quiet()

    async def listen(self, ear: Ear) -> BrokerLine:
        self.ear = ear
        return Quiet()


class FakeNode:
    def __init__(self) -> None:
        self.served: list[BrokeredCarrier] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.complaints: list[str] = []

    def spawn(self, work: Any) -> Any:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    async def serve(self, carrier: BrokeredCarrier) -> None:
        self.served.append(carrier)

    def turned_away(self, address: str, text: str) -> None:
        self.complaints.append(text)


def listening(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[LinkBrokerListener, Stuck, FakeNode]:
    monkeypatch.setattr(listener, "OBJECTIONS", 0.0)
    broker, node = Stuck(), FakeNode()
    monkeypatch.setattr(link_brokers, "broker_of", lambda site, one: broker)
    one = model.LinkBroker(uri=URI, **settings)
    site = Site(name="hq", listener=Listener(link_brokers=(one,)), link=Link(backoff_initial=0.001))
    made: Any = LinkBrokerListener(node, node, site, one)  # type: ignore[arg-type]
    return made, broker, node


async def until_listening(made: LinkBrokerListener, broker: Stuck) -> None:
    while broker.ear is None or made.state != "listening":
        await asyncio.sleep(0)


def knock(number: int) -> bytes:
    return encode(Knock(number.to_bytes(8, "big"), 65536))


async def test_answers_under_way_are_bounded_and_all_children_get_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, broker, node = listening(monkeypatch, proves_names=True)
    running = asyncio.create_task(made.run())
    await until_listening(made, broker)
    for number in range(5000):
        broker.ear.heard(f"store-{number}", knock(number))
    broker.ear.heard("store-0", knock(0))
    while broker.most < 16:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert broker.most == 16
    assert made.status() | {"error": ""} == {
        "uri": URI,
        "state": "listening",
        "links": 0,
        "failures": 0,
        "error": "",
        "ignored": 0,
        "refused": 5000 - 4096,
        "strangers": 0,
    }
    broker.free.set()
    await asyncio.gather(*node.tasks)
    assert broker.opened == [f"store-{number}" for number in range(4096)]
    assert broker.most == 16
    assert [carrier.shown.place for carrier in node.served] == broker.opened
    assert all(carrier.shown.vouched for carrier in node.served)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_child_that_knocks_all_the_time_gets_so_many_connections_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, broker, node = listening(monkeypatch)
    broker.free.set()
    end = asyncio.Event()

    async def serve(carrier: BrokeredCarrier) -> None:
        node.served.append(carrier)
        carrier.strangers = 2
        await end.wait()

    monkeypatch.setattr(node, "serve", serve)
    running = asyncio.create_task(made.run())
    await until_listening(made, broker)
    for number in range(50):
        broker.ear.heard("york", knock(number))
        while made.links + made.refused <= number:
            await asyncio.sleep(0)
    broker.ear.heard("leeds", knock(99))
    while len(node.served) < 9:
        await asyncio.sleep(0)
    assert (len(node.served), made.links, made.refused) == (9, 9, 42)
    end.set()
    await asyncio.gather(*node.tasks)
    assert (made.links, made.strangers) == (0, 18)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_it_listens_again_when_the_connection_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    made, broker, _ = listening(monkeypatch)
    running = asyncio.create_task(made.run())
    for _ in range(3):
        await until_listening(made, broker)
        ear, broker.ear = broker.ear, None
        assert ear is not None
        ear.lost(CarrierBroken("the broker went away"))
    await until_listening(made, broker)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_where_another_parent_is_a_node_hears_nobody_and_says_who_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, broker, node = listening(monkeypatch)
    monkeypatch.setattr(listener, "OBJECTIONS", 60.0)
    running = asyncio.create_task(made.run())
    while broker.ear is None:
        await asyncio.sleep(0)
    broker.ear.heard("york", knock(1))
    broker.ear.heard("", encode(Claim("north", bytes(8), held=True)))
    while made.state != "waiting":
        await asyncio.sleep(0)
    assert "node 'north' takes the children of this tree" in made.error
    assert (node.tasks, made.links) == ([], 0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_child_of_another_version_is_complained_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made, broker, node = listening(monkeypatch)
    running = asyncio.create_task(made.run())
    await until_listening(made, broker)
    broker.ear.heard("york", encode(Knock(b"h" * 8, 65536, 2)))
    await asyncio.gather(*node.tasks)
    assert ["'york' speaks version 2" in text for text in node.complaints] == [True]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_password_that_is_not_there_is_said_before_the_node_starts() -> None:
    one = model.LinkBroker(uri=URI, user="hq", secret_env="NOT_SET")
    site = Site(name="hq", listener=Listener(link_brokers=(one,)))
    with pytest.raises(
        ConfigurationError, match=f"password at {URI}: the environment variable NOT_SET is not"
    ):
        LinkBrokerListener(SimpleNamespace(), SimpleNamespace(), site, one)  # type: ignore[arg-type]
