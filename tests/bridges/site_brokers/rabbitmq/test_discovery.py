"""Each way in which consumers come and go at a real RabbitMQ, and what the desk is told of it."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import quote

import paho.mqtt.client
import pytest
from rabbitmq_server import RabbitServer
from rabbitmq_site import drop

from bridges.amqp.errors import ManagementError
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.rabbitmq.consumers import Listed, QueueTable
from bridges.site_brokers.rabbitmq.discovery import AGAIN_AFTER, EXCHANGE, EventDiscovery
from bridges.site_brokers.rabbitmq.exchanges import Exchanges
from bridges.site_brokers.rabbitmq.management import Management


async def test_a_consumer_comes_and_goes(york, applications) -> None:
    channel = applications.consumer("till", durable=True)
    await york.desk.until_consumers("queue:till")
    channel.connection.close()
    await york.desk.until_consumers()
    assert york.bridge.status()["discovery"] == "events and lists"


async def test_making_a_queue_or_sending_to_it_is_no_interest(york, applications) -> None:
    applications.channel().queue_declare("till", durable=True)
    applications.publish("till", b"x")
    applications.consumer("other", durable=True)
    await york.desk.until_consumers("queue:other")


async def test_only_the_last_consumer_of_a_queue_that_goes_ends_it(york, applications) -> None:
    first, second = applications.consumer("till"), applications.consumer("till")
    await york.desk.until_consumers("queue:till")
    first.connection.close()
    applications.consumer("mark")
    await york.desk.until_consumers("queue:till", "queue:mark")
    second.connection.close()
    await york.desk.until_consumers("queue:mark")


async def test_a_killed_consumer_is_gone(york, applications) -> None:
    channel = applications.consumer("till", durable=True)
    await york.desk.until_consumers("queue:till")
    drop(channel)
    await york.desk.until_consumers()


async def test_a_closed_channel_takes_its_consumers_with_it(york, applications) -> None:
    channel = applications.consumer("till", durable=True)
    await york.desk.until_consumers("queue:till")
    channel.close()
    await york.desk.until_consumers()


async def test_a_cancelled_consumer_is_gone(york, applications) -> None:
    channel = applications.consumer("till", durable=True)
    await york.desk.until_consumers("queue:till")
    channel.basic_cancel(channel.consumer_tags[0])
    await york.desk.until_consumers()


async def test_a_deleted_queue_is_gone_with_its_bindings(york, applications) -> None:
    channel = applications.consumer("till", "prices.#", "offers.*.york", durable=True)
    await york.desk.until_consumers("queue:till", "topic:prices/#", "topic:offers/+/york")
    channel.queue_delete("till")
    await york.desk.until_consumers()


async def test_bindings_come_and_go(york, applications) -> None:
    channel = applications.consumer("till", "prices.#", durable=True)
    await york.desk.until_consumers("queue:till", "topic:prices/#")
    channel.queue_bind("till", "amq.topic", "#.milk")
    await york.desk.until_consumers("queue:till", "topic:prices/#", "topic:#/milk")
    channel.queue_unbind("till", "amq.topic", "prices.#")
    await york.desk.until_consumers("queue:till", "topic:#/milk")


async def test_a_binding_of_a_durable_queue_stays_while_nobody_consumes(york, applications) -> None:
    channel = applications.consumer("till", "prices.#", durable=True)
    await york.desk.until_consumers("queue:till", "topic:prices/#")
    channel.connection.close()
    await york.desk.until_consumers("topic:prices/#")


async def test_other_exchanges_are_left_aside(york, applications) -> None:
    channel = applications.consumer("till")
    channel.queue_bind("till", "amq.direct", "prices")
    channel.queue_bind("till", "amq.topic", "offers")
    await york.desk.until_consumers("queue:till", "topic:offers")


async def test_a_queue_behind_an_exchange_that_one_of_the_site_feeds_is_found(york, applications) -> None:
    channel = applications.channel()
    channel.exchange_declare("offers", "topic")
    channel.exchange_bind("offers", "amq.topic", "prices.#")
    channel.queue_declare("till", durable=True)
    channel.queue_bind("till", "offers", "*.tea")
    await york.desk.until_consumers("topic:prices/tea")
    await york.until_answered(york.deliver("topic:prices/milk", b"1"), york.deliver("topic:prices/tea", b"9"))
    assert [body for body, _ in applications.drain("till")] == [b"9"]
    channel.queue_unbind("till", "offers", "*.tea")
    await york.desk.until_consumers()
    channel.queue_bind("till", "offers", "prices.*")
    await york.desk.until_consumers("topic:prices/+")
    channel.exchange_delete("offers")
    await york.desk.until_consumers()


async def test_the_exchange_can_be_another(place, applications) -> None:
    applications.channel().exchange_declare("chain", "topic", durable=True)
    york = await place(exchange="chain").start()
    channel = applications.consumer("till", "not.this")
    channel.queue_bind("till", "chain", "prices.#")
    await york.desk.until_consumers("queue:till", "topic:prices/#")


async def test_a_private_queue_is_known_to_its_own_node_only(york, applications) -> None:
    channel = applications.channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(name, "amq.topic", "prices.#")
    await york.desk.until_consumers("topic:prices/#", f"queue:{name}@york")
    drop(channel)
    await york.desk.until_consumers()


async def test_consumers_that_were_there_before_the_node_are_found(place, applications) -> None:
    before = applications.consumer("till", "prices.#", durable=True)
    private = applications.consumer("mine", exclusive=True)
    york = await place().start()
    assert york.desk.completed == 1
    assert york.desk.destinations == {"queue:till", "topic:prices/#", "queue:mine@york"}
    drop(before)
    await york.desk.until_consumers("topic:prices/#", "queue:mine@york")
    drop(private)
    await york.desk.until_consumers("topic:prices/#")
    applications.channel().queue_delete("till")
    await york.desk.until_consumers()


async def test_other_virtual_hosts_are_left_aside(
    york, applications, rabbitmq: RabbitServer, vhost: str
) -> None:
    other = f"{vhost}-other"
    rabbitmq.add_vhost(other)
    with rabbitmq.connect(other) as connection:
        channel = connection.channel()
        channel.queue_declare("theirs")
        channel.basic_consume("theirs", lambda *delivery: None)
        applications.consumer("till")
        await york.desk.until_consumers("queue:till")
    rabbitmq.delete_vhost(other)


async def test_our_own_consumers_are_none(york, applications) -> None:
    applications.channel().queue_declare("orders", durable=True)
    york.want("queue:orders", "topic:sales/#")
    applications.publish("orders", b"1")
    await york.desk.until(lambda: york.desk.payloads == [b"1"])
    applications.consumer("mark")
    await york.desk.until_consumers("queue:mark")
    local = applications.consumer("orders", durable=True)
    await york.desk.until_consumers("queue:mark", "queue:orders")
    york.want("topic:sales/#")
    await york.desk.until(lambda: york.bridge.status()["taking_queues"] == [])
    local.connection.close()
    await york.desk.until_consumers("queue:mark")


def mqtt(server: RabbitServer, vhost: str, name: str, clean: bool) -> Any:
    version = paho.mqtt.client.CallbackAPIVersion.VERSION2
    client = paho.mqtt.client.Client(version, name, clean_session=clean)
    client.username_pw_set(f"{vhost}:guest", "guest")
    client.connect("127.0.0.1", server.mqtt)
    client.loop_start()
    return client


@pytest.mark.parametrize("clean", [True, False])
async def test_clients_of_the_mqtt_plugin_are_bindings(
    york, rabbitmq: RabbitServer, vhost: str, clean: bool
) -> None:
    client = mqtt(rabbitmq, vhost, f"till-{clean}", clean)
    client.subscribe("prices/+/york", 1)
    client.subscribe("offers/#", 0)
    await york.desk.until_consumers("topic:prices/+/york", "topic:offers/#")
    client.unsubscribe("offers/#")
    await york.desk.until_consumers("topic:prices/+/york")
    client.disconnect()
    client.loop_stop()
    await york.desk.until_consumers(*([] if clean else ["topic:prices/+/york"]))


async def test_a_restarted_broker_loses_what_was_not_durable(
    york, applications, rabbitmq: RabbitServer
) -> None:
    applications.consumer("durable", "prices.#", durable=True)
    applications.consumer("passing", "offers.#")
    await york.desk.until_consumers("queue:durable", "queue:passing", "topic:prices/#", "topic:offers/#")
    await asyncio.to_thread(rabbitmq.until_on_disk)
    await asyncio.to_thread(rabbitmq.kill)
    with pytest.raises(SiteBrokerError, match="lost"):
        await york.task
    await asyncio.to_thread(rabbitmq.start)
    await york.start()
    assert york.desk.destinations == {"topic:prices/#"}
    applications.close()
    applications.consumer("durable", durable=True)
    await york.desk.until_consumers("queue:durable", "topic:prices/#")


async def test_a_restarted_node_finds_all_again(york, applications) -> None:
    applications.consumer("till", "prices.#")
    await york.desk.until_consumers("queue:till", "topic:prices/#")
    await york.stop()
    york.desk.consumers.clear()
    await york.start()
    assert york.desk.destinations == {"queue:till", "topic:prices/#"}


async def test_all_is_listed_again_after_a_while(york) -> None:
    """What no event told of is noticed."""
    began = asyncio.get_running_loop().time()
    await york.desk.until(lambda: york.desk.completed == 2)
    assert asyncio.get_running_loop().time() - began > AGAIN_AFTER / 2


async def test_names_that_the_tree_cannot_have_are_left_aside_and_shown(york, applications) -> None:
    applications.consumer("who@where")
    applications.consumer("till")
    await york.desk.until_consumers("queue:till")
    assert york.bridge.status()["unspeakable"] == ["who@where"]


async def test_a_crowd_of_short_lived_consumers_ends_with_the_right_ones(york, applications) -> None:
    channel = applications.channel()
    channel.queue_declare("stays")
    for number in range(150):
        channel.queue_declare(f"q{number % 10}")
        channel.queue_bind(f"q{number % 10}", "amq.topic", f"a.{number}")
        tag = channel.basic_consume(f"q{number % 10}", lambda *delivery: None)
        channel.basic_cancel(tag)
        if number % 3 == 0:
            channel.queue_delete(f"q{number % 10}")
    for number in range(10):
        channel.queue_delete(f"q{number}")
    channel.basic_consume("stays", lambda *delivery: None)
    await york.desk.until_consumers("queue:stays")


class TestWithoutASource:
    async def test_without_management_events_alone_tell_what_is_new(self, place, applications) -> None:
        applications.consumer("before")
        york = await place(management="http://127.0.0.1:9").start()
        applications.consumer("after", "prices.#")
        await york.desk.until_consumers("queue:after", "topic:prices/#")
        status = york.bridge.status()
        assert status["discovery"] == "events, without a list of what was there before"
        assert "http://127.0.0.1:9 does not answer" in status["lacks"]["lists"]

    async def test_without_events_lists_are_looked_at_every_few_seconds(
        self, place, applications, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        rabbitmq.add_user("deaf", "monitoring")
        rabbitmq.permit(vhost, "deaf")
        york = await place(user="deaf", password=lambda: "deaf").start()
        assert york.bridge.status()["discovery"] == "lists, every 5 s"
        channel = applications.consumer("till", "prices.#")
        await york.desk.until_consumers("queue:till", "topic:prices/#")
        channel.connection.close()
        await york.desk.until_consumers()


async def test_a_bridge_that_hears_no_more_events_begins_anew(york, rabbitmq: RabbitServer) -> None:
    """Events come over a line of their own where the site's virtual host is not theirs."""
    async with asyncio.timeout(60):
        while not york.task.done():
            for each in await asyncio.to_thread(rabbitmq.api, "GET", "/connections"):
                if each.get("client_properties", {}).get("connection_name") == "sapwood york, hearing":
                    with contextlib.suppress(AssertionError):  # the list says for a while what is gone
                        await asyncio.to_thread(rabbitmq.api, "DELETE", f"/connections/{quote(each['name'])}")
            await asyncio.sleep(0.1)
    with pytest.raises(SiteBrokerError, match="CONNECTION_FORCED"):
        await york.task


async def test_a_queue_of_events_that_is_unbound_is_bound_anew(york, applications) -> None:
    """As where the plugin of the event exchange is switched off and on."""
    events = york.bridge._visit._discovery.events
    await events._channel.unbind(events._queue, EXCHANGE, "consumer.created")
    await york.bridge._visit._discovery.begin()
    applications.consumer("orders")
    await york.desk.until_consumers("queue:orders")


def test_a_flood_of_events_is_bounded_in_memory() -> None:
    census = QueueTable("york", "v", Exchanges("amq.topic"), 100)
    for number in range(10_000):
        at = {"vhost": "v", "queue": f"q{number}", "channel": f"<{number}>", "name": f"q{number}"}
        census.event("queue.created", at)
        census.event("consumer.created", at)
        bound = {"source_name": "amq.topic", "destination_kind": "queue", "destination_name": "q1"}
        census.event("binding.created", {"vhost": "v", "routing_key": f"k{number}", **bound})
    assert census.stale
    sizes = [len(census.queues), len(census.doubtful), len(census.arrived), len(census.queues["q1"].keys)]
    assert max(sizes) <= 100
    assert len(census._channels) <= 100


class SlowProber:
    """A broker whose answers take their time: `meanwhile` happens between one and its arrival."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.meanwhile: list[Callable[[], None]] = []

    async def count(self, queue: str) -> tuple[int | None, bool]:
        answer = self.answers.pop(0)
        if self.meanwhile:
            self.meanwhile.pop()()
        return answer, False


def slow_discovery(
    prober: SlowProber, ours: Callable[[str], int | None]
) -> tuple[EventDiscovery, QueueTable]:
    census = QueueTable("york", "shop", Exchanges("amq.topic"), 100)
    census.event("queue.created", {"vhost": "shop", "name": "till", "durable": True})
    ignore: Callable[..., None] = lambda *told: None  # noqa: E731
    return EventDiscovery(census, prober, None, ours, ignore, ignore, ignore), census  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [0, None])
async def test_an_event_that_comes_before_an_older_answer_is_asked_about_again(answer: int | None) -> None:
    prober = SlowProber(answer, 1)
    discovery, census = slow_discovery(prober, lambda name: 0)
    event = {"vhost": "shop", "queue": "till", "channel": "<1>"}
    prober.meanwhile.append(lambda: census.event("consumer.created", event))
    await discovery._ask()
    assert census.consumers() == []
    assert discovery.news.is_set()
    await discovery._ask()
    assert [str(each.destination) for each in census.consumers()] == ["queue:till"]


async def test_a_count_during_which_ours_came_or_went_says_nothing_of_others() -> None:
    """Or our own consumer, whose cancellation was under way, stands as an application's."""
    prober = SlowProber(1, 0)
    ours = 1
    discovery, census = slow_discovery(prober, lambda name: ours)

    def leave() -> None:
        nonlocal ours
        ours = 0

    prober.meanwhile.append(leave)
    await discovery._ask()
    assert census.consumers() == []
    await discovery._until(0.0)
    await discovery._ask()
    assert census.consumers() == []
    assert prober.answers == []


class LateManagement:
    """It answers the first list with an error, the others with one queue and its bindings."""

    def __init__(self) -> None:
        self.asked = 0

    async def queues(self, vhost: str) -> list[Listed]:
        self.asked += 1
        if self.asked == 1:
            raise ManagementError("it starts later than the broker")
        return [Listed("till", True, False)]

    async def harm(self, vhost: str) -> None:
        return None

    async def bindings(self, vhost: str, exchange: str) -> tuple[list[tuple[str, str]], set[str]]:
        keys = ["news", "prices.#"][: self.asked - 1]
        return [("till", key) for key in keys], set()


async def test_those_of_a_list_that_comes_late_are_not_new_and_those_of_the_next_are() -> None:
    discovery, _ = slow_discovery(SlowProber(*[0] * 9), lambda name: 0)
    told: list[str] = []
    discovery._management = cast("Management", LateManagement())
    discovery._tell = lambda came, went: told.extend(f"came {each.destination}" for each in came)
    discovery._complete = lambda every: told.append(f"{len(every)} in all")
    for _ in range(3):
        await discovery.begin()
    assert told == ["0 in all", "1 in all", "came topic:prices/#", "2 in all"]


async def test_a_binding_that_comes_while_all_is_listed_is_told_by_itself() -> None:
    """For that it is greeted: whoever is only in the list may have been there for long."""
    discovery, census = slow_discovery(SlowProber(0, 0, 0, 0), lambda name: 0)
    told: list[str] = []
    discovery._tell = lambda came, went: told.extend(f"came {each.destination}" for each in came)
    discovery._complete = lambda every: told.append(f"{len(every)} in all")
    bound = {"source_name": "amq.topic", "destination_kind": "queue", "destination_name": "till"}
    census.event("binding.created", {"vhost": "shop", "routing_key": "news", **bound})
    await discovery.begin()
    census.event("binding.created", {"vhost": "shop", "routing_key": "prices.#", **bound})
    await discovery.begin()
    assert told == ["1 in all", "came topic:prices/#", "2 in all"]
