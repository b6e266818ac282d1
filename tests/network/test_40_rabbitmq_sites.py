"""A tree whose sites use RabbitMQ: plain pika programs, unmodified brokers, real nodes.

See `rabbitmq_chain` for who is where.
"""

import asyncio

import pika
import pytest
from rabbitmq_chain import Chain
from rabbitmq_site import Reader

KEPT = pika.BasicProperties(delivery_mode=2)


async def test_hq_to_store_store_to_hq_and_a_topic_of_the_region(chain: Chain) -> None:
    await chain.start()
    till = chain.reader("york", "till", durable=True)
    orders = chain.reader("hq", "orders", durable=True)
    prices = [chain.reader(site, "", "prices.#", exclusive=True) for site in ("york", "leeds")]
    for queue, site in (("till", "hq"), ("orders", "york")):
        chain.at[site].channel().queue_declare(queue, durable=True)
        await chain.until_wanted(site, f"queue:{queue}")
    await chain.until_wanted("hq", "topic:prices/#")
    for number in range(20):
        chain.at["hq"].publish("till", b"%d" % number)
        chain.at["york"].publish("orders", b"%d" % number)
    await until_published(chain, "hq", "prices.milk", b"1.09", prices[0])
    assert await till.until(20) == [b"%d" % number for number in range(20)]
    assert await orders.until(20) == [b"%d" % number for number in range(20)]
    assert set(await prices[1].until(1)) == {b"1.09"}


async def until_published(chain: Chain, site: str, key: str, body: bytes, reader: Reader) -> None:
    """Publish to a topic until the reader has it: the first ones may come before the filter is bound."""
    async with asyncio.timeout(180):
        while body not in reader.bodies:
            chain.at[site].publish(key, body, "amq.topic")
            reader.channel.connection.process_data_events(0.2)
            await asyncio.sleep(0)


async def test_a_stores_consumer_costs_its_depth_in_advisories(chain: Chain) -> None:
    await chain.start()
    chain.reader("york", "till", durable=True)
    await chain.network.until_known("hq", "queue:till")
    chain.reader("york", "till", durable=True)
    chain.reader("york", "", exclusive=True)
    chain.reader("york", "mark", durable=True)
    await chain.network.until_known("hq", "queue:mark")
    told = [row.destination for site in chain.network.ports for row in chain.network.advisories(site)]
    assert sorted(told) == ["mark"] * 2 + ["till"] * 2


async def test_a_queue_with_readers_in_two_stores_and_local_ones_first(chain: Chain) -> None:
    await chain.start()
    york, leeds = (chain.reader(site, "work", durable=True) for site in ("york", "leeds"))
    chain.at["hq"].channel().queue_declare("work", durable=True)
    await chain.until_wanted("hq", "queue:work")
    for number in range(40):
        chain.at["hq"].publish("work", b"%d" % number)
    await chain.network.until_drained("hq")
    async with asyncio.timeout(180):
        while len(york.bodies) + len(leeds.bodies) < 40:
            for reader in (york, leeds):
                reader.channel.connection.process_data_events(0.02)
            await asyncio.sleep(0)
    assert sorted(york.bodies + leeds.bodies) == sorted(b"%d" % number for number in range(40))
    before = len(leeds.bodies)
    for number in range(40):
        chain.at["york"].publish("work", b"local %d" % number)
    assert len(await york.until(len(set(york.bodies)) + 40)) >= 40
    leeds.channel.connection.process_data_events(0.1)
    assert len(leeds.bodies) == before
    status = await chain.network.status("york")
    assert status["site_broker"]["taken"] == 0


async def test_a_request_is_answered_across_the_tree(chain: Chain) -> None:
    await chain.start()
    stock = chain.reader("hq", "stock", durable=True)
    asking = chain.at["york"].channel()
    asking.queue_declare("stock", durable=True)
    answers = Reader(asking, "", exclusive=True)
    await chain.until_wanted("york", "queue:stock")
    asked = pika.BasicProperties(delivery_mode=2, reply_to=answers.queue, correlation_id="question 7")
    chain.at["york"].publish("stock", b"how many?", properties=asked)
    await stock.until(1)
    (_, properties) = stock.got[0]
    chain.at["hq"].publish(properties.reply_to, b"seven", properties=properties)
    await answers.until(1)
    ((body, answered),) = answers.got
    assert (body, answered.correlation_id) == (b"seven", "question 7")


async def test_a_queue_that_only_a_sister_store_reads_is_taken_if_it_is_a_source(chain: Chain) -> None:
    chain.network.configure("york", "north", site_broker={"sources": ["queue:returns"]})
    await chain.start()
    chain.at["york"].channel().queue_declare("returns", durable=True)
    reader = chain.reader("leeds", "returns", durable=True)
    chain.at["york"].publish("returns", b"1")
    assert await reader.until(1) == [b"1"]
    local = chain.reader("york", "returns", durable=True)
    await chain.network.until_known("north", "queue:returns")
    await chain.network.until(
        "york", lambda status: status["site_broker"].get("taking_queues") == [], "leaving its readers alone"
    )
    chain.at["york"].publish("returns", b"2")
    assert await local.until(1) == [b"2"]


async def test_what_nobody_else_wants_is_not_taken(chain: Chain) -> None:
    await chain.start()
    local = chain.reader("york", "local", "news.#", durable=True)
    chain.at["york"].publish("news.york", b"1", "amq.topic")
    chain.at["york"].channel().queue_declare("nobody's", durable=True)
    chain.at["york"].publish("nobody's", b"2")
    await local.until(1)
    orders = chain.reader("hq", "orders", durable=True)
    chain.at["york"].channel().queue_declare("orders", durable=True)
    chain.at["york"].publish("orders", b"3")
    await orders.until(1)
    status = await chain.network.status("york")
    assert status["site_broker"]["taken"] == 1


async def test_a_second_node_at_one_broker_does_not_start(chain: Chain) -> None:
    network = chain.network
    await chain.start()
    uri = chain.server.uri(chain.at["york"].vhost)
    network.add("other", site_broker={"uri": uri, "management": chain.server.management_uri})
    process = await network.launch("other")
    assert await process.exited() != 0
    assert "belongs to node 'york' of tree 'test' already" in process.last_words()
    await chain.until_running("york")


async def test_what_the_broker_refuses_is_a_dead_letter_with_its_words(chain: Chain) -> None:
    await chain.start()
    small = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel = chain.at["york"].channel()
    channel.queue_declare("small", durable=True, arguments=small)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("small", lambda *delivery: None)
    chain.at["york"].publish("small", b"consumed and not answered")
    chain.at["york"].publish("small", b"fills the queue")
    await chain.network.until_known("hq", "queue:small")
    await chain.network.send("hq", "queue:small", [b"too much"])
    await chain.network.until("york", lambda status: status["dead"]["messages"] == 1, "refused")
    other = chain.reader("york", "other", durable=True)
    await chain.network.until_known("hq", "queue:other")
    await chain.network.send("hq", "queue:other", [b"next"])
    assert await other.until(1) == [b"next"]


@pytest.mark.parametrize("victim", ["broker", "york", "north", "hq"])
async def test_nothing_confirmed_is_lost_when_this_is_killed_under_load(chain: Chain, victim: str) -> None:
    """Persistent messages of a publisher with confirms, from hq into a durable queue in york."""
    network = chain.network
    await chain.start()
    chain.reader("york", "till", durable=True)  # it takes what it gets with it when it is closed
    source = chain.at["hq"].channel()
    source.queue_declare("till", durable=True)
    await chain.until_wanted("hq", "queue:till")
    if victim == "broker":
        await asyncio.to_thread(chain.server.until_on_disk)
    source.confirm_delivery()
    for number in range(600):
        source.basic_publish("", "till", b"%d" % number, KEPT)
        if number == 200:
            await kill(chain, victim)
            if victim == "broker":
                break
    if victim == "broker":
        await asyncio.to_thread(chain.server.start)
        source = chain.at["hq"].channel()
        source.confirm_delivery()
        for number in range(201, 600):
            source.basic_publish("", "till", b"%d" % number, KEPT)
    else:
        await network.start(victim)
    chain.at["york"].close()
    again = chain.reader("york", "till", durable=True)
    await again.until(600)
    bodies = again.bodies
    assert {int(body) for body in bodies} == set(range(600))
    print(f"{victim} killed: {len(bodies) - 600} of 600 messages came twice")


async def kill(chain: Chain, victim: str) -> None:
    if victim == "broker":
        await asyncio.to_thread(chain.server.kill)
    else:
        chain.network.kill(victim)


async def test_each_consumer_that_comes_later_is_given_what_is_retained(chain: Chain) -> None:
    """RabbitMQ retains nothing: the node gives it to the queue of whoever comes, and to nobody else."""
    await chain.start()
    first = chain.reader("york", "", "prices.#", exclusive=True)
    await chain.until_wanted("hq", "topic:prices/#")
    await chain.at["hq"].until_bound("prices.#")
    kept = pika.BasicProperties(delivery_mode=2, headers={"sapwood-retained": True})
    chain.at["hq"].publish("prices.tea", b"9", "amq.topic", kept)
    assert await first.until(1) == [b"9"]
    for key in ("prices.#", "prices.tea", "prices.*"):
        later = chain.reader("york", "", key, exclusive=True)
        assert await later.until(1) == [b"9"]
        ((_, properties),) = later.got
        assert properties.headers["sapwood-retained"]
        assert properties.headers["sapwood-topic"] == "prices.tea"
    chain.at["hq"].publish("prices.tea", b"10", "amq.topic", kept)
    assert await first.until(2) == [b"9", b"10"]
    assert set(await later.until(2)) == {b"9", b"10"}


async def test_a_stream_made_anew_while_its_node_was_killed_is_read_whole(chain: Chain) -> None:
    """The node's own offset is beyond the end of the other stream of that name."""
    await chain.start()
    journal = chain.reader("hq", "journal", durable=True)
    site = chain.at["york"]
    of_a_stream = {"x-queue-type": "stream"}
    site.channel().queue_declare("journal", durable=True, arguments=of_a_stream)
    await chain.until_wanted("york", "queue:journal")
    for number in range(10):
        site.publish("journal", b"old %d" % number)
    await journal.until(10)
    chain.network.kill("york")
    site.channel().queue_delete("journal")
    site.channel().queue_declare("journal", durable=True, arguments=of_a_stream)
    for number in range(5):
        site.publish("journal", b"new %d" % number)
    await chain.start("york")
    expected = [b"old %d" % number for number in range(10)] + [b"new %d" % number for number in range(5)]
    assert await journal.until(15) == expected
