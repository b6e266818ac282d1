"""Six real brokers, six nodes, three carriers: all goes where it should, and nothing is lost when they die.

Applications are `mosquitto_sub`, `mosquitto_pub`, and plain paho-mqtt and pika programs. One tree serves the
whole file; see `real_tree` for who is where. The last test kills everything but the tests.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack
from pathlib import Path

import pika
import pytest
import pytest_asyncio
from mosquitto_clients import Listener, publish
from paho.mqtt.enums import MQTTProtocolVersion
from programs import (
    Account,
    AmqpConsumer,
    AmqpProducer,
    Consumer,
    MqttConsumer,
    MqttProducer,
    Producer,
    until_came,
)
from rabbitmq_site import Applications, Reader
from real_tree import DEPTHS, PARENTS, RealTree

pytestmark = pytest.mark.asyncio(loop_scope="module")
VICTIMS = (
    ("broker", "york"),
    ("broker", "north"),
    ("broker", "hq"),
    ("node", "york"),
    ("node", "north"),
    ("node", "hq"),
    ("node", "leeds"),
)
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tree(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealTree]:
    folder: Path = tmp_path_factory.mktemp("real")
    async with RealTree(folder) as made:
        yield made


async def test_the_nodes_and_the_links_themselves_cost_no_advisory(tree: RealTree) -> None:
    """Not even links that ride on brokers which nodes look at for consumers."""
    assert [row for name in PARENTS for row in tree.network.advisories(name)] == []


@pytest.mark.parametrize("store", [name for name, depth in DEPTHS.items() if depth == 2])
async def test_a_consumer_in_a_store_costs_its_depth(tree: RealTree, store: str) -> None:
    name = f"cost/{store}"
    above = {PARENTS[store]: 1, "hq": 1}
    port = tree.mosquitto(store).port
    with (
        Listener(port, "-t", name, "-i", f"first-{store}"),
        Listener(port, "-t", name, "-i", f"second-{store}"),
    ):
        await tree.network.until_known("hq", f"topic:{name}")
        assert tree.cost("topic", name) == above
    await tree.network.until(
        "hq", lambda _: tree.cost("topic", name, "remove").get("hq", 0) > 0, f"told that {name} has gone"
    )
    assert tree.cost("topic", name) == above
    assert tree.cost("topic", name, "remove") == above


async def test_hq_to_store_and_store_to_hq(tree: RealTree) -> None:
    hq, york = tree.rabbit("hq"), tree.mosquitto("york")
    office = Applications(hq, "/")
    try:
        reports = Reader(office.channel(), "reports", durable=True)
        office.channel().queue_declare("labels", durable=True)
        with Listener(york.port, "-t", "$share/tills/queue/labels", "-q", "1", "-i", "printer") as printer:
            await tree.until_taking("york", "queue/reports")
            await tree.until_taking("hq", "labels")
            for number in range(20):
                office.publish("labels", f"label {number}".encode())
                publish(york.port, "queue/reports", f"report {number}".encode())
            await printer.until(20)
            assert await reports.until(20) == [f"report {number}".encode() for number in range(20)]
            assert printer.payloads() == [f"label {number}" for number in range(20)]
            for name in set(PARENTS) - {"hq"}:
                await tree.network.until_known(name, "queue:reports")
            assert tree.cost("queue", "labels") == {"north": 1, "hq": 1}
            assert tree.cost("queue", "reports") == dict.fromkeys(set(PARENTS) - {"hq"}, 1)
    finally:
        office.close()


async def test_a_topic_of_the_region_reaches_its_stores_and_hq_and_nobody_else(tree: RealTree) -> None:
    office = Applications(tree.rabbit("hq"), "/")
    readers = {
        name: Listener(tree.mosquitto(name).port, "-t", "weather/#", "-q", "1", "-i", f"weather-{name}")
        for name in ("york", "leeds", "bath")
    }
    try:
        with ExitStack() as stack:
            for reader in readers.values():
                stack.enter_context(reader)
            map_room = Reader(office.channel(), "", "weather.#", exclusive=True)
            for name in ("north", "bath"):
                await tree.until_taking(name, "weather/#")
            await tree.network.until_known("north", "topic:weather/#")
            await tree.network.until(
                "north", lambda _: len(rows(tree, "north", "weather/#")) == 3, "told by both stores and hq"
            )
            publish(tree.mosquitto("north").port, "weather/north/rain", b"soon")
            for name in ("york", "leeds"):
                assert (await readers[name].until(1))[0]["topic"] == "weather/north/rain"
            assert await map_room.until(1) == [b"soon"]
            publish(tree.mosquitto("bath").port, "weather/bath", b"dry")
            await readers["bath"].until(1)
            assert await map_room.until(2) == [b"soon", b"dry"]
            assert [reader.payloads() for reader in readers.values()] == [["soon"], ["soon"], ["dry"]]
    finally:
        office.close()


def rows(tree: RealTree, node: str, destination: str) -> list[str]:
    """Which neighbours told a node of a destination."""
    return [str(row.peer) for row in tree.network.advisories(node) if row.destination == destination]


async def test_who_reads_everything_is_not_given_what_links_carry(tree: RealTree) -> None:
    """The link of york rides on the broker of north, of which york wants everything."""
    with Listener(tree.mosquitto("york").port, "-t", "#", "-q", "1", "-i", "everything") as everything:
        await tree.until_taking("north", "#")
        before = (await tree.network.status("north"))["site_broker"]["taken"]
        for number in range(10):
            publish(tree.mosquitto("north").port, "news", f"{number}".encode())
        got = await everything.until(10)
        assert [message["payload"] for message in got if message["topic"] == "news"] == list(
            map(str, range(10))
        )
        assert {message["topic"] for message in everything.got()} == {"news"}
        assert (await tree.network.status("north"))["site_broker"]["taken"] == before + 10


async def test_a_queue_that_two_stores_read_gives_each_message_to_one(tree: RealTree) -> None:
    hq = tree.rabbit("hq")
    office = Applications(hq, "/")
    sent = [f"job {number}" for number in range(100)]
    try:
        channel = office.channel()
        channel.queue_declare("jobs", durable=True)
        with (
            Listener(
                tree.mosquitto("leeds").port, "-t", "$share/g/queue/jobs", "-q", "1", "-i", "one"
            ) as one,
            Listener(tree.mosquitto("bath").port, "-t", "$share/g/queue/jobs", "-q", "1", "-i", "two") as two,
        ):
            await tree.network.until(
                "hq", lambda _: set(rows(tree, "hq", "jobs")) == {"north", "south"}, "told by both regions"
            )
            await tree.until_taking("hq", "jobs")
            for number, job in enumerate(sent, 1):
                channel.basic_publish("", "jobs", job.encode(), PERSISTENT)
                if number % 4 == 0:  # what comes together goes to one of them, as a bundle
                    await until_both_have(one, two, number)
            for name in PARENTS:
                await tree.network.until_drained(name)
            assert sorted(one.payloads() + two.payloads()) == sorted(sent)
            assert one.payloads()
            assert two.payloads()
    finally:
        office.close()


async def until_both_have(one: Listener, two: Listener, count: int) -> None:
    async with asyncio.timeout(180):
        while len(one.payloads()) + len(two.payloads()) < count:
            await asyncio.sleep(0.01)


class Flow:
    """One producer, and who reads what it sends. `shared`: each message goes to one of them, else to all."""

    def __init__(self, name: str, producer: Producer, consumers: dict[str, Consumer], shared: bool) -> None:
        self.name, self.producer, self.shared = name, producer, shared
        self.consumers = consumers

    def killed(self, node: str) -> None:
        """The node of a site is about to be killed."""
        if node in self.consumers:
            self.consumers[node].kills.append(time.monotonic())

    def groups(self) -> Iterable[tuple[str, tuple[Consumer, ...]]]:
        if self.shared:
            yield " and ".join(self.consumers), tuple(self.consumers.values())
        else:
            yield from ((name, (consumer,)) for name, consumer in self.consumers.items())

    async def run(self, enough: asyncio.Event, seed: int) -> None:
        chance, number = random.Random(seed), 0
        while not enough.is_set():
            for _ in range(chance.randint(1, 10)):
                await self.producer.send(f"{self.name} {number}")
                number += 1
            await asyncio.sleep(chance.uniform(0, 0.15))
        await self.producer.finish()


def flows(tree: RealTree, stack: ExitStack) -> list[Flow]:
    """HQ to a store, a store to HQ, a topic of the region, and a queue that two stores share."""
    enter, hq = stack.enter_context, tree.rabbit("hq")
    york, leeds, bath, north = map(tree.mosquitto, ("york", "leeds", "bath", "north"))
    old = MQTTProtocolVersion.MQTTv311
    orders = {"hq": enter(AmqpConsumer(hq, "orders"))}
    offers = {
        "york": enter(MqttConsumer(york, "offers-york", "offers/#")),
        "leeds": enter(MqttConsumer(leeds, "offers-leeds", "offers/#", version=old)),
        "hq": enter(AmqpConsumer(hq, "all-offers", "offers.#")),
    }
    prices = {"york": enter(MqttConsumer(york, "prices-york", "$share/tills/queue/prices"))}
    work = {
        "leeds": enter(MqttConsumer(leeds, "work-leeds", "$share/g/queue/work")),
        "bath": enter(MqttConsumer(bath, "work-bath", "$share/g/queue/work")),
    }
    return [
        Flow("orders", enter(MqttProducer(leeds, "orders-leeds", "queue/orders")), dict(orders), True),
        Flow("offers", enter(MqttProducer(north, "offers-north", "offers/today")), dict(offers), False),
        Flow("prices", enter(AmqpProducer(hq, "prices")), dict(prices), True),
        Flow("work", enter(AmqpProducer(hq, "work")), dict(work), True),
    ]


async def until_flowing(tree: RealTree) -> None:
    """Wait until each node takes what its flow is."""
    await tree.until_taking("leeds", "queue/orders")
    await tree.until_taking("north", "offers/#")
    await tree.network.until(
        "north", lambda _: len(rows(tree, "north", "offers/#")) == 3, "told by both stores and hq"
    )
    for queue in ("prices", "work"):
        await tree.until_taking("hq", queue)


async def kill_in_turn(tree: RealTree, running: list[Flow]) -> None:
    before = 0
    for kind, name in VICTIMS:
        await asyncio.sleep(0.5)
        if kind == "node":
            for flow in running:
                flow.killed(name)
        await (tree.kill_broker(name) if kind == "broker" else tree.kill_node(name))
        await tree.until_joined(*PARENTS)
        sent = sum(len(flow.producer.acknowledged) for flow in running)
        print(f"{kind} of {name} killed and back: {sent - before} acknowledged meanwhile")
        before = sent
    await asyncio.sleep(0.5)


async def test_brokers_and_nodes_are_killed_in_turn_under_load_and_nothing_acknowledged_is_lost(
    tree: RealTree,
) -> None:
    with ExitStack() as stack:
        running = flows(tree, stack)
        await until_flowing(tree)
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as loading:
            for seed, flow in enumerate(running):
                loading.create_task(flow.run(enough, seed))
            await kill_in_turn(tree, running)
            enough.set()
        for flow in running:
            for _, consumers in flow.groups():
                await until_came(flow.producer, *consumers)
        for name in PARENTS:
            await tree.network.until_drained(name)
        accounts = []
        for flow in running:
            for where, consumers in flow.groups():
                accounts.append(Account.of(flow.producer, *consumers))
                print(f"{flow.name} at {where}: {accounts[-1]}")
        for account in accounts:
            assert account.sent > 20 * len(VICTIMS)
            assert account.lost == []
            assert account.unexplained == []
        told = {row.destination for name in PARENTS for row in tree.network.advisories(name)}
        assert not {name for name in told if name and name.startswith("sapwood")}
        dead = {name: (await tree.network.status(name))["dead"]["messages"] for name in PARENTS}
        assert dead == dict.fromkeys(PARENTS, 0)
