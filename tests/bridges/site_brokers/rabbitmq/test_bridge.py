"""The bridge at a real RabbitMQ, with a desk that writes down: what is given, taken, refused."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pika
import pytest
import pytest_asyncio
from mosquitto_clients import Listener
from rabbitmq_server import RabbitServer
from rabbitmq_site import PATIENCE, At

from bridges.site_brokers.base import BrokerDelivery, SiteBrokerError, SiteBrokerRefused, Taken
from bridges.site_brokers.rabbitmq import discovery, replies
from bridges.site_brokers.rabbitmq.taking import PREFETCH
from config.model import SiteExchange
from sapwood.protocol.bundles import Foreign, Message, Properties
from sapwood.protocol.destinations import topic


class TestGiving:
    async def test_a_message_goes_into_its_queue_and_is_confirmed(self, york, applications) -> None:
        applications.channel().queue_declare("till", durable=True)
        number = york.deliver("queue:till", b"one", message_id="m1", expires_in=60_000)
        await york.until_answered(number)
        assert york.desk.confirmed == [number]
        ((body, properties),) = applications.drain("till")
        assert (body, properties.message_id, properties.delivery_mode) == (b"one", "m1", 2)
        assert properties.expiration == "60000"

    async def test_a_message_goes_through_the_topic_exchange(self, york, applications) -> None:
        channel = applications.channel()
        channel.queue_declare("all", durable=True)
        channel.queue_bind("all", "amq.topic", "prices.*.milk")
        numbers = [
            york.deliver(f"topic:prices/{place}/milk", place.encode()) for place in ("uk", "fr", "de/north")
        ]
        await york.until_answered(*numbers)
        assert york.desk.refused == {}
        assert [body for body, _ in applications.drain("all")] == [b"uk", b"fr"]

    async def test_headers_of_strangers_crash_no_queue(self, york, applications) -> None:
        """RabbitMQ 3.10 believes what `x-death` says, and a queue that crashes loses what expired in it."""
        late = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-message-ttl": 100}
        channel = applications.channel()
        channel.queue_declare("till", durable=True, arguments=late)
        channel.queue_declare("late", durable=True)
        found = []
        odd = [["a", "b"], [[1], None], [{"queue": "till", "reason": "expired", "count": "many"}]]
        for number, deaths in enumerate(odd):
            york.deliver("queue:till", b"%d" % number, headers={"x-death": deaths})

        def have_come() -> bool:
            found.extend(body for body, _ in applications.drain("late"))
            return len(found) == 3

        await york.desk.until(have_come)
        assert found == [b"0", b"1", b"2"]

    async def test_what_a_client_of_the_mqtt_plugin_published_ends_no_other_one(
        self, york, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        """RabbitMQ 3.10 wants a byte in the headers that its plugin writes, and AMQP clients know none."""
        who = ("-u", f"{vhost}:guest", "-P", "guest", "-i", f"till-{vhost}")
        with Listener(rabbitmq.mqtt, "-t", "a/#", "-q", "1", *who, version="311") as till:
            york.deliver("topic:a/1", b"1", headers={"x-mqtt-publish-qos": 1, "x-mqtt-dup": False})
            york.deliver("topic:a/2", b"2")
            await till.until(2)
            assert till.payloads() == ["1", "2"]

    async def test_what_has_no_queue_is_refused_and_blocks_nothing(self, york, applications) -> None:
        applications.channel().queue_declare("till", durable=True)
        gone, there = york.deliver("queue:nobody", b"x"), york.deliver("queue:till", b"y")
        await york.until_answered(gone, there)
        assert york.desk.confirmed == [there]
        assert york.desk.refused[gone].startswith("QUEUE_DOES_NOT_EXIST: ")

    async def test_what_is_for_a_queue_that_vanished_is_routed_again(
        self, york, applications, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The reader is told to have gone, and what it was given is not refused."""
        channel = applications.channel()
        channel.queue_declare("passing", auto_delete=True)
        tag = channel.basic_consume("passing", lambda *message: None)
        await york.desk.until_consumers("queue:passing")
        monkeypatch.setattr(york.bridge._visit._census, "event", lambda kind, headers: None)
        channel.basic_cancel(tag)
        york.deliver("queue:passing", b"late")
        await york.desk.until_consumers()
        assert york.desk.refused == {}

    async def test_a_queue_that_is_declared_is_read_whatever_the_broker_tells(self, place) -> None:
        york = await place(consumers=("queue:passing",)).start()
        number = york.deliver("queue:passing", b"late")
        await york.until_answered(number)
        assert york.desk.refused[number].startswith("QUEUE_DOES_NOT_EXIST: ")

    async def test_what_is_too_large_for_a_queue_or_the_broker_is_refused(self, york, applications) -> None:
        small = {"x-max-length-bytes": 10, "x-overflow": "reject-publish"}
        applications.channel().queue_declare("small", durable=True, arguments=small)
        applications.publish("small", b"0123456789")
        full = york.deliver("queue:small", b"x" * 20)
        long = york.deliver("topic:" + "/".join(["level"] * 60), b"x")
        await york.until_answered(full, long)
        assert york.desk.refused[full].startswith("REFUSED_BY_BROKER: queue 'small'")
        assert york.desk.refused[long].startswith("DESTINATION: ")

    async def test_what_we_may_not_publish_is_refused_with_the_brokers_words(
        self, place, applications, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        rabbitmq.add_user("weak", "monitoring")
        rabbitmq.permit(vhost, "weak", write=r"^(sapwood\..*|amq\.default)$")
        applications.channel().queue_declare("till", durable=True)
        york = await place(user="weak", password=lambda: "weak").start()
        refused, given = york.deliver("topic:prices", b"x"), york.deliver("queue:till", b"y")
        await york.until_answered(refused, given)
        assert york.desk.confirmed == [given]
        assert "access to exchange 'amq.topic'" in york.desk.refused[refused]


async def test_a_new_password_counts_at_once_for_lists_and_for_the_next_connection(
    place, rabbitmq: RabbitServer, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("AGAIN_AFTER", "EVERY"):
        monkeypatch.setattr(discovery, pause, 0.1)
    secrets = ["old"]
    rabbitmq.api("PUT", "/users/turning", {"password": "old", "tags": "monitoring"})
    for each in (vhost, "/"):
        rabbitmq.permit(each, "turning")
    york = await place(user="turning", password=lambda: secrets[-1]).start()
    rabbitmq.api("PUT", "/users/turning", {"password": "new", "tags": "monitoring"})
    lacks = york.bridge._visit._discovery.lacks
    await york.desk.until(lambda: "[401]" in lacks.get("lists", ""), "refused a list")
    secrets.append("new")
    await york.desk.until(lambda: "lists" not in lacks, "given a list again")
    await york.stop()
    assert (await york.start()).desk.broker.startswith("RabbitMQ ")


class TestTaking:
    async def test_a_wanted_queue_is_taken_from(self, york, applications) -> None:
        applications.channel().queue_declare("orders", durable=True)
        applications.publish(
            "orders", b"before", properties=pika.BasicProperties(message_id="m", headers={"a": 1})
        )
        york.want("queue:orders", "queue:not there")
        applications.publish("orders", b"after")
        await york.desk.until(lambda: york.desk.payloads == [b"before", b"after"])
        first = york.desk.taken[0]
        assert (str(first.destination), first.message.properties.headers) == ("queue:orders", {"a": 1})
        assert first.key != ""
        assert not first.again
        await york.stop()
        assert applications.drain("orders") == []

    async def test_a_text_of_amqp_1_0_arrives_as_a_text_and_its_sender_is_answered(
        self, york, applications
    ) -> None:
        applications.channel().queue_declare("orders", durable=True)
        applications.channel().queue_declare("answers", durable=True)
        york.want("queue:orders")
        said = pika.BasicProperties(type="amqp-1.0", reply_to="/queues/answers", headers={"a": 1})
        applications.publish("orders", b"\x00Sw\xa1\x05hello", properties=said)
        await york.desk.until(lambda: york.desk.payloads == [b"hello"])
        asked = york.desk.taken[0].message.properties
        assert (asked.reply_to, asked.headers, asked.foreign) == ("answers@york", {"a": 1}, Foreign(qos=0))
        number = york.deliver("queue:answers", b"here")
        await york.until_answered(number)
        assert [body for body, _ in applications.drain("answers")] == [b"here"]

    async def test_a_queue_that_is_made_later_is_taken_from(self, york, applications) -> None:
        york.want("queue:orders")
        applications.channel().queue_declare("orders", durable=True)
        applications.publish("orders", b"1")
        await york.desk.until(lambda: york.desk.payloads == [b"1"])

    async def test_what_nobody_wants_any_more_stays(self, york, applications) -> None:
        applications.channel().queue_declare("orders", durable=True)
        york.want("queue:orders")
        applications.publish("orders", b"1")
        await york.desk.until(lambda: york.desk.payloads == [b"1"])
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == ["orders"])
        york.want()
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == [])
        applications.publish("orders", b"2")
        stayed: list[bytes] = []

        def has_stayed() -> bool:  # the broker may have sent it before it heard of the end
            stayed.extend(body for body, _ in applications.drain("orders"))
            return bool(stayed)

        await york.desk.until(has_stayed)
        assert stayed == [b"2"]
        assert york.desk.payloads == [b"1"]

    async def test_nothing_is_acknowledged_before_the_commit(self, york, applications) -> None:
        applications.channel().queue_declare("orders", durable=True)
        york.desk.holding = True
        york.want("queue:orders")
        await asyncio.to_thread(applications.publish_many, "orders", PREFETCH + 20)
        await york.desk.until(lambda: len(york.desk.taken) == PREFETCH)
        assert [body for body, _ in applications.drain("orders")] == [
            b"%d" % n for n in range(PREFETCH, PREFETCH + 20)
        ]
        await york.stop()
        found = [body for body, _ in applications.drain("orders")]
        assert found == [b"%d" % number for number in range(PREFETCH)]

    async def test_what_was_not_acknowledged_comes_again_marked(self, york, applications) -> None:
        applications.channel().queue_declare("orders", durable=True)
        york.desk.holding = True
        york.want("queue:orders")
        applications.publish("orders", b"1", properties=pika.BasicProperties(message_id="m1"))
        await york.desk.until(lambda: york.desk.payloads == [b"1"])
        await york.stop()
        york.desk.holding = False
        await york.start()
        await york.desk.until(lambda: york.desk.payloads == [b"1", b"1"])
        first, second = york.desk.taken
        assert (first.again, second.again, first.key == second.key) == (False, True, True)
        york.desk.held[0]()
        await york.stop()
        assert applications.drain("orders") == []

    async def test_a_local_consumer_comes_first(self, york, applications) -> None:
        """Even before it is known that there is one."""
        channel = applications.channel()
        channel.queue_declare("orders", durable=True)
        york.want("queue:orders")
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == ["orders"])
        got: list[bytes] = []
        channel.basic_consume("orders", lambda ch, method, properties, body: got.append(body), auto_ack=True)
        for number in range(50):
            applications.publish("orders", b"%d" % number)
        async with asyncio.timeout(60):
            while len(got) < 50:
                channel.connection.process_data_events(0.05)
        assert york.desk.payloads == []

    async def test_a_deleted_queue_ends_taking_until_it_is_there_again(self, york, applications) -> None:
        channel = applications.channel()
        channel.queue_declare("orders", durable=True)
        york.want("queue:orders")
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == ["orders"])
        channel.queue_delete("orders")
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == [])
        channel.queue_declare("orders", durable=True)
        applications.publish("orders", b"1")
        await york.desk.until(lambda: york.desk.payloads == [b"1"])

    async def test_queues_that_would_vanish_with_us_are_left_alone(self, york, applications) -> None:
        channel = applications.channel()
        channel.queue_declare("passing", auto_delete=True)
        channel.queue_declare("mine", exclusive=True)
        channel.queue_declare("orders")
        await york.desk.until(lambda: york.bridge.status()["queues_known"] == 3)
        york.want("queue:passing", "queue:mine", "queue:orders")
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == ["orders"])

    async def test_a_message_that_cannot_be_read_takes_no_other_with_it(self, york, applications) -> None:
        york.want("topic:h/#")
        await until_bound(york, 1)
        channel = applications.channel()
        deep: list[object] = []
        for _ in range(200):
            deep = [deep]
        for number in range(30):
            properties = pika.BasicProperties(
                delivery_mode=2, headers={"deep": deep} if number == 9 else None
            )
            channel.basic_publish(
                "amq.topic", "h.x" if number != 5 else b"h.\xff", b"%d" % number, properties
            )
        await york.desk.until(lambda: len(york.desk.payloads) == 30)
        assert york.desk.payloads == [b"%d" % number for number in range(30)]
        assert [taken.message.payload for taken in york.desk.taken if taken.odd] == [b"5"]
        await york.stop()
        assert applications.drain("sapwood.topics") == []

    async def test_a_mistake_of_ours_ends_the_connection_and_acknowledges_nothing(
        self, york, applications, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        applications.channel().queue_declare("orders", durable=True)
        mistakes = iter([ZeroDivisionError()])
        take = york.desk.take

        def broken(batch: Sequence[Taken], done: Callable[[], None]) -> None:
            for mistake in mistakes:
                raise mistake
            take(batch, done)

        monkeypatch.setattr(york.desk, "take", broken)
        york.want("queue:orders")
        for number in range(20):
            applications.publish("orders", b"%d" % number)
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(york.task, 60)
        assert york.desk.payloads == []
        assert len(applications.drain("orders")) == 20

    async def test_a_queue_that_may_not_be_read_is_shown_and_blocks_no_other(
        self, place, applications, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        rabbitmq.add_user("blind", "monitoring")
        rabbitmq.permit(vhost, "blind", read=r"^(sapwood\..*|amq\.topic|orders)$")
        for queue in ("accounts", "orders"):
            applications.channel().queue_declare(queue, durable=True)
            applications.publish(queue, queue.encode())
        york = await place(user="blind", password=lambda: "blind").start()
        york.want("queue:accounts", "queue:orders")
        await york.desk.until(lambda: york.desk.payloads == [b"orders"])
        assert "access to queue 'accounts'" in york.bridge.status()["troubles"]["queue:accounts"]


class TestTopics:
    async def test_what_is_wanted_is_taken_and_nothing_else(self, york, applications) -> None:
        york.want("topic:sales/+/york", "topic:alarms/#")
        await until_bound(york, 2)
        for key in ("sales.1.york", "sales.1.leeds", "alarms", "alarms.fire.7"):
            applications.publish(key, key.encode(), "amq.topic")
        await york.desk.until(lambda: len(york.desk.taken) >= 3)
        found = [str(taken.destination) for taken in york.desk.taken]
        assert found == ["topic:sales/1/york", "topic:alarms", "topic:alarms/fire/7"]

    async def test_what_the_bridge_gave_it_does_not_take_back(self, york, applications) -> None:
        york.want("topic:sales/#")
        await until_bound(york, 1)
        number = york.deliver("topic:sales/1", b"from the tree")
        await york.until_answered(number)
        applications.publish("sales.2", b"from here", "amq.topic")
        await york.desk.until(lambda: york.desk.payloads != [])
        assert york.desk.payloads == [b"from here"]

    async def test_what_an_application_sends_on_with_its_headers_is_taken(self, york, applications) -> None:
        york.want("topic:sales/#")
        channel = applications.channel()
        channel.queue_declare("copy", durable=True)
        channel.queue_bind("copy", "amq.topic", "sales.1")
        await until_bound(york, 1)
        await york.until_answered(york.deliver("topic:sales/1", b"x"))
        ((body, properties),) = applications.drain("copy")
        applications.publish("sales.total", body, "amq.topic", properties)
        await york.desk.until(lambda: york.desk.payloads == [b"x"])
        assert "x-sapwood" not in york.desk.taken[0].message.properties.headers

    async def test_what_is_published_while_the_node_is_away_waits_for_it(self, york, applications) -> None:
        york.want("topic:sales/#")
        await until_bound(york, 1)
        await york.stop()
        applications.publish("sales.1", b"meanwhile", "amq.topic")
        await york.start()
        await york.desk.until(lambda: york.desk.payloads == [b"meanwhile"])

    async def test_a_filter_that_went_while_the_node_was_away_is_unbound(
        self, york, applications, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        york.want("topic:sales/#", "topic:alarms/#")
        await until_bound(york, 2)
        await york.stop()
        york.want("topic:alarms/#")
        await york.start()
        path = f"/exchanges/{vhost}/amq.topic/bindings/source"
        await york.desk.until(
            lambda: [each["routing_key"] for each in rabbitmq.api("GET", path)] == ["alarms.#"]
        )

    async def test_our_queue_is_made_anew_when_somebody_deletes_it(
        self, york, applications, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whatever waited in it is lost, and is said to be."""
        york.want("topic:sales/#")
        await until_bound(york, 1)
        assert "had gone" not in caplog.text
        applications.channel().queue_delete("sapwood.topics")

        def arrives() -> bool:
            applications.publish("sales.1", b"again", "amq.topic")
            return b"again" in york.desk.payloads

        await york.desk.until(arrives)
        assert "queue 'sapwood.topics' of this node had gone, and is made anew" in caplog.text
        await york.stop()
        applications.channel().queue_delete("sapwood.topics")
        caplog.clear()
        await york.start()
        await york.desk.until(lambda: "had gone, and is made anew" in caplog.text)

    async def test_our_queue_is_bound_anew_when_somebody_unbinds_it(self, york, applications) -> None:
        york.want("topic:sales/#")
        await until_bound(york, 1)
        applications.channel().queue_unbind("sapwood.topics", "amq.topic", "sales.#")

        def arrives() -> bool:
            applications.publish("sales.1", b"again", "amq.topic")
            return b"again" in york.desk.payloads

        await york.desk.until(arrives)

    async def test_our_queue_is_bound_anew_when_an_exchange_is_deleted_and_made_again(
        self, place, applications
    ) -> None:
        channel = applications.channel()
        channel.exchange_declare("sales", "topic")
        york = await place(exchange="sales").start()
        york.want("topic:tea")
        await until_bound(york, 1)
        channel.exchange_delete("sales")
        await york.desk.until(lambda: "topic tea" in york.bridge.status()["troubles"])
        channel.exchange_declare("sales", "topic")
        await york.desk.until(lambda: not york.bridge.status()["troubles"])
        applications.publish("tea", b"again", "sales")
        await york.desk.until(lambda: york.desk.payloads == [b"again"])

    async def test_queues_that_are_deleted_leave_no_channel_open(self, york, applications) -> None:
        keeper = applications.channel()
        keeper.queue_declare("orders")
        york.want("queue:orders")
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == ["orders"])
        channels = york.bridge._visit._taking._channels
        before = len(channels)
        keeper.queue_delete("orders")
        await york.desk.until(lambda: len(channels) < before)


class TestSeveralExchanges:
    """amq.topic has all topics but those below sales/, which are of an exchange of their own."""

    @pytest_asyncio.fixture
    async def york(self, place, applications) -> At:
        applications.channel().exchange_declare("sales", "topic", durable=True)
        return await place(exchanges=(SiteExchange(name="sales", prefix="sales/"),)).start()

    async def test_the_readers_of_each_are_found_and_given_its_topics(self, york, applications) -> None:
        before = applications.channel()
        for name, exchange in (("till", "sales"), ("desk", "amq.topic")):
            before.queue_declare(name, durable=True)
            before.queue_bind(name, exchange, "tea.#")
        await york.desk.until_consumers("topic:sales/tea/#", "topic:tea/#")
        numbers = [york.deliver(f"topic:{name}", name.encode()) for name in ("sales/tea/1", "tea/2")]
        await york.until_answered(*numbers)
        assert [body for body, _ in applications.drain("till")] == [b"sales/tea/1"]
        assert [body for body, _ in applications.drain("desk")] == [b"tea/2"]
        before.queue_unbind("till", "sales", "tea.#")
        await york.desk.until_consumers("topic:tea/#")

    async def test_one_may_have_a_space_in_its_name(self, place, applications) -> None:
        """As EasyNetQ writes them: a type, and the assembly that has it."""
        name = "Shop.Sales, Shop"
        channel = applications.channel()
        channel.exchange_declare(name, "topic", durable=True)
        channel.queue_declare("till", durable=True)
        channel.queue_bind("till", name, "tea.#")
        york = place(exchanges=(SiteExchange(name=name, prefix="sales/"),))
        york.want("topic:sales/tea/#")
        await york.start()
        await york.desk.until_consumers("topic:sales/tea/#")
        await until_bound(york, 1)
        await york.until_answered(york.deliver("topic:sales/tea/1", b"down"))
        applications.publish("tea.2", b"up", name)
        await york.desk.until(lambda: len(york.desk.taken) == 1)
        assert york.desk.taken[0].destination == topic("sales/tea/2")
        assert [body for body, _ in applications.drain("till")] == [b"down", b"up"]

    async def test_readers_that_were_there_before_the_node_are_found(self, york, applications) -> None:
        channel = applications.channel()
        channel.queue_declare("till", durable=True)
        await york.stop()
        channel.queue_bind("till", "sales", "tea.*")
        await york.start()
        assert york.desk.destinations == {"topic:sales/tea/+"}

    async def test_an_exchange_that_feeds_one_of_them_is_told_and_its_messages_are_dead_letters(
        self, york, applications
    ) -> None:
        """Bound through another one, while the node runs. Nobody can tell of which topic they are."""
        york.want("topic:sales/tea/#", "topic:tea/#")
        await until_bound(york, 2)
        channel = applications.channel()
        for name in ("intake", "gate"):
            channel.exchange_declare(name, "topic", durable=True)
        channel.exchange_bind("sales", "gate", "tea.#")
        channel.exchange_bind("gate", "intake", "#")
        lacks = york.bridge._visit._discovery.lacks
        await york.desk.until(lambda: "'sales' to 'intake'" in lacks.get("exchanges", ""), "told")
        for exchange in ("intake", "sales"):
            applications.publish("tea.1", exchange.encode(), exchange)
        await york.desk.until(lambda: len(york.desk.taken) == 2)
        found = {taken.message.payload: taken for taken in york.desk.taken}
        assert found[b"intake"].odd.startswith(
            "DESTINATION: it was published to exchange 'intake', and 'sales'"
        )
        assert (str(found[b"sales"].destination), found[b"sales"].odd) == ("topic:sales/tea/1", "")
        channel.exchange_unbind("sales", "gate", "tea.#")
        await york.desk.until(lambda: "exchanges" not in lacks, "told that it is over")

    async def test_each_is_taken_from_under_its_names_and_nothing_comes_back(
        self, york, applications
    ) -> None:
        york.want("topic:#")
        await until_bound(york, 2)
        await york.until_answered(york.deliver("topic:sales/tea", b"from the tree"))
        for exchange in ("sales", "amq.topic"):
            applications.publish("tea", exchange.encode(), exchange)
        await york.desk.until(lambda: len(york.desk.taken) == 2)
        found = {(str(taken.destination), taken.message.payload) for taken in york.desk.taken}
        assert found == {("topic:sales/tea", b"sales"), ("topic:tea", b"amq.topic")}

    async def test_what_is_retained_is_given_under_the_key_of_its_exchange(self, york, applications) -> None:
        channel = applications.channel()
        channel.queue_declare("till", durable=True)
        channel.queue_bind("till", "sales", "tea.#")
        await york.desk.until_consumers("topic:sales/tea/#")
        (consumer,) = york.desk.consumers
        message = Message(b"12", Properties())
        york.bridge.deliver(
            [BrokerDelivery(-1, topic("sales/tea/1"), message, True, True, False, alone=consumer)]
        )
        await york.desk.until(lambda: channel.queue_declare("till", passive=True).method.message_count == 1)
        ((body, properties),) = applications.drain("till")
        assert (body, properties.headers["sapwood-topic"]) == (b"12", "tea.1")

    async def test_an_exchange_that_is_no_longer_of_the_site_is_unbound(
        self, york, place, applications, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        york.want("topic:tea", "topic:sales/tea")
        await until_bound(york, 2)
        await york.stop()
        alone = place()
        alone.want("topic:tea")
        await alone.start()
        await york.desk.until(lambda: rabbitmq.api("GET", f"/exchanges/{vhost}/sales/bindings/source") == [])
        (left,) = rabbitmq.api("GET", f"/exchanges/{vhost}/amq.topic/bindings/source")
        assert left["routing_key"] == "tea"

    @pytest.mark.parametrize(
        ("before", "after", "topics"),
        [
            ("", "sales/", ["sales/1", "sales/2", "sales/3"]),
            ("sales/", "", ["sales/1", "sales/2", "3"]),
            ("sales/", "all/sales/", ["sales/1", "sales/2", "all/sales/3"]),
        ],
    )
    async def test_what_waited_when_the_list_changed_has_the_topics_of_the_list_before(
        self, place, applications, before: str, after: str, topics: list[str]
    ) -> None:
        """`before`, `after`: the prefix of the exchange sales; '': it is not in the list."""
        applications.channel().exchange_declare("sales", "topic", durable=True)

        def at(prefix: str) -> At:
            listed = (SiteExchange(name="sales", prefix=prefix),) if prefix else ()
            made = place(exchanges=listed)
            made.want("topic:#")
            return made

        def publish(number: int, prefix: str) -> None:
            key = f"{number}" if prefix else f"sales.{number}"
            applications.publish(key, b"%d" % number, "sales" if prefix else "amq.topic")

        york = await at(before).start()
        await until_bound(york, 2 if before else 1)
        publish(0, before)
        await york.desk.until(lambda: len(york.desk.taken) == 1, "given one")
        await york.stop()
        for number in (1, 2):
            publish(number, before)
        york = at(after)
        york.desk.holding = True
        await york.start()
        await york.desk.until(lambda: len(york.desk.taken) == 2, "given what waited")
        await york.stop()
        york = await at(after).start()
        await until_bound(york, 2 if after else 1)
        await york.desk.until(lambda: len(york.desk.taken) == 2, "given again what was not committed")
        applications.publish("3", b"3", "sales" if after else "amq.topic")
        await york.desk.until(lambda: len(york.desk.taken) == 3, "given what is new")
        assert [taken.destination.name for taken in york.desk.taken] == topics
        assert not any(taken.odd for taken in york.desk.taken)

    async def test_a_filter_that_may_not_be_bound_keeps_no_other_back(
        self, place, applications, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        """The broker ends the channel on which it was asked for."""
        rabbitmq.add_user("choosy", "monitoring")
        rabbitmq.permit(vhost, "choosy")
        rights = {"exchange": "amq.topic", "write": ".*", "read": r"^sales\."}
        rabbitmq.api("PUT", f"/topic-permissions/{vhost}/choosy", rights)
        york = await place(user="choosy", password=lambda: "choosy").start()
        york.want("topic:secret", *(f"topic:sales/{number}" for number in range(250)))
        await until_bound(york, 250)
        for number in (0, 99, 100, 249):
            applications.publish(f"sales.{number}", b"%d" % number, "amq.topic")
        applications.publish("secret", b"x", "amq.topic")
        await york.desk.until(lambda: len(york.desk.payloads) == 4)
        assert york.desk.payloads == [b"0", b"99", b"100", b"249"]
        (text,) = york.bridge.status()["troubles"].values()
        assert "access to topic 'secret'" in text

    async def test_what_an_older_version_bound_is_unbound(
        self, york, rabbitmq: RabbitServer, vhost: str
    ) -> None:
        york.want("topic:tea", "topic:milk")
        await until_bound(york, 2)
        await york.stop()
        file = york.setup.directory / "rabbitmq-topics.json"
        file.write_text(json.dumps(["milk", "tea"]), encoding="utf-8")
        york.want("topic:tea")
        await york.start()
        path = f"/exchanges/{vhost}/amq.topic/bindings/source"
        await york.desk.until(lambda: [each["routing_key"] for each in rabbitmq.api("GET", path)] == ["tea"])


async def until_bound(york, count: int) -> None:
    """Wait until as many filters are bound."""
    bindings = york.bridge._visit._taker._bindings
    await york.desk.until(lambda: len(bindings._bound) == count, f"bound by {count}")


async def test_the_queue_of_topics_is_taken_as_it_was_made(
    york, applications, rabbitmq: RabbitServer
) -> None:
    """As where the type that queues have by default has changed since; queues for answers name their own."""
    quorum = {"x-queue-type": "quorum"}
    applications.channel().queue_declare("sapwood.topics", durable=True, arguments=quorum)
    york.want("topic:tea")
    await until_bound(york, 1)
    applications.publish("tea", b"1", "amq.topic")
    await york.desk.until(lambda: york.desk.payloads == [b"1"])
    assert york.bridge.status()["troubles"] == {}
    applications.channel().queue_declare("stock", durable=True)
    await york.until_answered(york.deliver("queue:stock", b"?", reply_to="q@hq"))
    answers = rabbitmq.api("GET", f"/queues/{applications.vhost}/sapwood.reply.q@hq?columns=arguments")
    assert answers["arguments"]["x-queue-type"] == "classic"


@pytest.mark.parametrize(
    ("wanted", "name", "exchange"),
    [("queue:orders", "orders", ""), ("topic:orders", "sapwood.topics", "amq.topic")],
)
async def test_what_a_full_node_was_given_too_often_is_not_dropped_by_a_quorum_queue(
    york, applications, wanted: str, name: str, exchange: str
) -> None:
    """RabbitMQ gives it again with each connection, and 4.0 twenty times by default."""
    limited = {"x-queue-type": "quorum", "x-delivery-limit": 1}
    applications.channel().queue_declare(name, durable=True, arguments=limited)
    york.want(wanted)
    if exchange:
        await applications.until_bound("orders")
    york.desk.holding = True
    applications.publish("orders", b"1", exchange)
    await york.desk.until(lambda: york.desk.payloads == [b"1"])
    york.desk.full = {name}
    for _ in range(2):
        await york.stop()
        await york.start()
        await york.desk.until(lambda: f"queue:{name}" in york.bridge.status()["troubles"])
    york.desk.full, york.desk.holding = set(), False
    await york.desk.until(lambda: york.desk.payloads == [b"1", b"1"])
    await york.desk.until(lambda: york.bridge.status()["troubles"] == {})


class TestOneNode:
    async def test_a_second_node_is_refused_by_name(self, place) -> None:
        await place("york").start()
        with pytest.raises(SiteBrokerRefused, match="belongs to node 'york' of tree 'acme' already"):
            await place("leeds").start()

    async def test_a_copy_of_the_node_is_refused(self, place) -> None:
        await place("york", store="one").start()
        with pytest.raises(SiteBrokerRefused, match="another process of this very node"):
            await place("york", store="one").start()

    async def test_who_comes_after_the_first_has_gone_is_welcome(self, place) -> None:
        first = await place("york").start()
        await first.stop()
        assert (await place("leeds").start()).desk.broker.startswith("RabbitMQ ")

    async def test_a_holder_that_does_not_answer_is_waited_for(self, place, applications) -> None:
        applications.channel().queue_declare("sapwood.claim", exclusive=True, arguments={"x-max-length": 100})
        with pytest.raises(SiteBrokerError, match="does not answer") as told:
            await place("york").start()
        assert not isinstance(told.value, SiteBrokerRefused)


class TestReplies:
    async def test_a_request_says_where_to_answer(self, york, applications) -> None:
        channel = applications.channel()
        mine = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_declare("stock", durable=True)
        york.want("queue:stock")
        applications.publish("stock", b"how many?", properties=pika.BasicProperties(reply_to=mine))
        await york.desk.until(lambda: york.desk.payloads == [b"how many?"])
        assert york.desk.taken[0].message.properties.reply_to == f"{mine}@york"
        await york.desk.until_consumers(f"queue:{mine}@york")
        await york.until_answered(york.deliver(f"queue:{mine}", b"seven"))
        assert channel.basic_get(mine, auto_ack=True)[2] == b"seven"

    async def test_a_request_from_elsewhere_is_answered(self, york, applications) -> None:
        applications.channel().queue_declare("stock", durable=True)
        await york.until_answered(york.deliver("queue:stock", b"how many?", reply_to="amq.gen-1@leeds"))
        ((_, properties),) = applications.drain("stock")
        applications.publish(properties.reply_to, b"seven")
        await york.desk.until(lambda: york.desk.payloads == [b"seven"])
        assert str(york.desk.taken[0].destination) == "queue:amq.gen-1@leeds"

    async def test_an_answer_that_came_while_the_node_was_away_is_fetched(
        self, york, place, applications
    ) -> None:
        applications.channel().queue_declare("stock", durable=True)
        await york.until_answered(york.deliver("queue:stock", b"how many?", reply_to="topic:answers/7"))
        await york.stop()
        ((_, properties),) = applications.drain("stock")
        applications.publish(properties.reply_to, b"seven")
        again = await place().start()
        await again.desk.until(lambda: again.desk.payloads == [b"seven"])
        assert str(again.desk.taken[0].destination) == "topic:answers/7"


async def test_a_flood_of_names_leaves_a_bounded_number_of_queues_at_the_broker(
    york, applications, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that came late is taken before its queue is deleted."""
    monkeypatch.setattr(replies, "MOST", 5)
    monkeypatch.setattr(replies, "MOST_LEFT", 40)
    applications.channel().queue_declare("stock", durable=True)

    async def ask(numbers: range) -> None:
        for number in numbers:
            await york.until_answered(york.deliver("queue:stock", b"?", reply_to=f"q{number}@mallory"))

    await ask(range(10))
    await york.desk.until(
        lambda: york.bridge._visit._taker._taps.keys() == york.bridge._visit._replies.queues
    )
    applications.publish("sapwood.reply.q0@mallory", b"late")
    await ask(range(10, 100))
    await york.desk.until(lambda: york.desk.payloads == [b"late"])
    await york.desk.until(lambda: not york.bridge._visit._replies.too_many)
    await york.desk.until(lambda: 0 < _replies_there(applications, 100) <= 5 + 20 + 1)


def _replies_there(applications, names: int) -> int:
    """How many of the queues for answers the broker has; it may not have dealt with each deletion yet."""
    channel, there = applications.channel(), 0
    for number in range(names):
        try:
            channel.queue_declare(f"sapwood.reply.q{number}@mallory", passive=True)
            there += 1
        except pika.exceptions.ChannelClosedByBroker:
            channel = applications.channel()
    channel.close()
    return there


async def test_an_answer_comes_to_the_channel_that_waits_for_it(york, applications) -> None:
    """Direct reply-to: RabbitMQ gives the channel a name of its own."""
    channel = applications.channel()
    channel.queue_declare("stock", durable=True)
    got: list[bytes] = []
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *given: got.append(given[3]), auto_ack=True)
    york.want("queue:stock")
    channel.basic_publish("", "stock", b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    await york.desk.until(lambda: york.desk.payloads == [b"?"])
    address = york.desk.taken[0].message.properties.reply_to
    assert f"queue:{address}" in york.desk.destinations
    completed = york.desk.completed
    await york.desk.until(lambda: york.desk.completed > completed)
    assert f"queue:{address}" in york.desk.destinations
    number = york.deliver(f"queue:{address.removesuffix('@york')}", b"seven")
    await york.until_answered(number)
    assert york.desk.refused == {}
    async with asyncio.timeout(60):
        while not got:
            channel.connection.process_data_events(0.05)
    assert got == [b"seven"]


async def test_a_broker_that_is_not_there_is_an_error_that_says_so(place, rabbitmq: RabbitServer) -> None:
    york = place()
    await asyncio.to_thread(rabbitmq.kill)
    with pytest.raises(SiteBrokerError, match="is RabbitMQ running there"):
        await york.start()
    assert york.bridge.status() == {"discovery": "none: not connected"}


async def test_a_node_that_starts_again_while_the_broker_is_short_of_memory_takes_and_hears(
    york, applications, rabbitmq: RabbitServer, caplog: pytest.LogCaptureFixture
) -> None:
    """RabbitMQ reads nothing of the line that it blocks, so it does not notice that this has ended.

    A check ends all the same, and says so.
    """
    applications.channel().queue_declare("stock", durable=True)
    applications.publish("stock", b"1")
    applications.close()
    limit = "set_vm_memory_high_watermark"
    try:
        await asyncio.to_thread(rabbitmq.control, "rabbitmqctl", limit, "0.0001")
        york.deliver("queue:stock", b"2")
        await york.desk.until(lambda: york.bridge.status()["blocked"] != "")
        assert "the site's broker takes no messages now: low on memory" in caplog.text
        async with asyncio.timeout(PATIENCE):
            (found,) = await york.bridge.inspect()
        assert "the broker takes no messages now (low on memory)" in found.text
        await york.stop()
        await york.start()
        york.want("queue:stock")
        await york.desk.until(lambda: york.desk.payloads == [b"1"])
    finally:
        await asyncio.to_thread(rabbitmq.control, "rabbitmqctl", limit, "0.4")
