"""Nodes beside real Mosquittos: applications are `mosquitto_sub` and `mosquitto_pub` only."""

from collections.abc import Callable

from harness import Network, receiving, until_count
from mosquitto_clients import Listener, joined, publish, takes
from mosquitto_server import DISCOVERY, MosquittoServer


async def test_topics_and_queues_go_both_ways_and_a_consumer_costs_its_depth(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "till") as till:
        await takes(network, "hq", "prices/#")
        publish(hq.port, "prices/tea", b"9")
        (message,) = await till.until(1)
        assert (message["topic"], message["payload"], message["qos"]) == ("prices/tea", "9", 1)
        publish(york.port, "prices/tea", b"own")
        await till.until(2)
        with Listener(hq.port, "-t", "sales/+", "-q", "1", "-i", "office") as office:
            await takes(network, "york", "sales/+")
            publish(york.port, "sales/york", b"100")
            await office.until(1)
        assert till.payloads() == ["9", "own"]
    assert [row.op for row in network.advisories("hq")] == ["add"]
    with Listener(hq.port, "-t", "$share/g/queue/orders", "-q", "1", "-i", "orders") as orders:
        await takes(network, "york", "queue/orders")
        publish(york.port, "queue/orders", b"one")
        (message,) = await orders.until(1)
        assert message["topic"] == "queue/orders"
        for name in ("hq", "north", "york"):  # before the reader goes: it may go before the answer
            await network.until_drained(name)
    for name in ("hq", "north", "york"):
        assert await network.stop(name) == 0


async def test_what_the_bridge_delivers_it_does_not_take_back(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    with (
        Listener(
            york.port, "-t", "prices/#", "-t", "prices/+", "-q", "1", "-i", "till", version="311"
        ) as till,
        Listener(hq.port, "-t", "prices/#", "-q", "1", "-i", "office") as office,
    ):
        await takes(network, "hq", "prices/+")
        await takes(network, "york", "prices/#")
        for number in range(20):
            publish(hq.port, "prices/tea", f"down {number}".encode())
            publish(york.port, "prices/tea", f"up {number}".encode(), version="311")
        await office.until(40)
        await till.until(40)
        publish(york.port, "prices/end", b"end", qos=2)
        await office.until(41)
        assert sorted(office.payloads()) == sorted(
            [*(f"{way} {number}" for number in range(20) for way in ("up", "down")), "end"]
        )
        assert office.got()[-1]["qos"] == 1


async def test_retained_messages_reach_who_joins_later_and_do_not_come_back(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    publish(hq.port, "prices/tea", b"9", "-r")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "first") as first:
        (message,) = await first.until(1)
        assert message["payload"] == "9"
        with Listener(york.port, "-t", "prices/tea", "-q", "1", "-i", "later") as later:
            (message,) = await later.until(1)
            assert (message["payload"], message["retain"]) == ("9", 1)
        with Listener(hq.port, "-t", "prices/#", "-q", "1", "-i", "office") as office:
            await takes(network, "york", "prices/#")
            publish(york.port, "prices/coffee", b"5", "-r")
            await office.until(2)
            assert sorted(office.payloads()) == ["5", "9"]
            with Listener(hq.port, "-t", "prices/coffee", "-q", "1", "-i", "other") as other:
                (message,) = await other.until(1)
                assert (message["payload"], message["retain"]) == ("5", 1)
        assert sorted(first.payloads()) == ["5", "9"]


async def test_a_local_consumer_of_a_queue_comes_before_the_tree(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    with Listener(hq.port, "-t", "$share/g/queue/orders", "-q", "1", "-i", "far") as far:
        await takes(network, "york", "queue/orders")
        publish(york.port, "queue/orders", b"for hq")
        await far.until(1)
        with Listener(york.port, "-t", "$share/g/queue/orders", "-q", "1", "-i", "near") as near:
            await network.until(
                "york",
                lambda status: (
                    "queue:orders" in status["site_broker"]["consumers"]
                    and "queue/orders" not in status["site_broker"].get("taking", ())
                ),
                "told of the near one",
            )
            publish(york.port, "queue/orders", b"for york")
            await near.until(1)
        await network.until(
            "york", lambda status: not status["site_broker"]["consumers"], "told that the near one went"
        )
        await takes(network, "york", "queue/orders")
        publish(york.port, "queue/orders", b"for hq again")
        await far.until(2)
        assert far.payloads() == ["for hq", "for hq again"]
        assert near.payloads() == ["for york"]


async def test_an_answer_finds_its_way_and_all_properties_cross(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    with (
        Listener(hq.port, "-t", "$share/g/queue/ask", "-q", "2", "-i", "server") as server,
        Listener(york.port, "-t", "$share/g/queue/answers", "-q", "1", "-i", "client") as client,
    ):
        await takes(network, "york", "queue/ask")
        await network.until(
            "york", lambda status: "queue:answers" in status["site_broker"]["consumers"], "told"
        )
        options = [
            *("-D", "publish", "content-type", "text/plain"),
            *("-D", "publish", "response-topic", "queue/answers"),
            *("-D", "publish", "correlation-data", "n-7"),
            *("-D", "publish", "user-property", "a", "1"),
            *("-D", "publish", "user-property", "b", "2"),
            *("-D", "publish", "user-property", "a", "3"),
            *("-D", "publish", "message-expiry-interval", "3600"),
            *("-D", "publish", "payload-format-indicator", "1"),
        ]
        publish(york.port, "queue/ask", b"how much?", *options, qos=2)
        (message,) = await server.until(1)
        said = message["properties"]
        assert message["qos"] == 2
        assert said["content-type"] == "text/plain"
        assert said["response-topic"] == "node/york/answers"
        assert said["correlation-data"] == "n-7"
        assert 3500 < said["message-expiry-interval"] <= 3600
        assert said["payload-format-indicator"] == 1
        assert said["user-properties"] == {"a": "3", "b": "2"} or said["user-properties"]
        publish(hq.port, said["response-topic"], b"nine", "-D", "publish", "correlation-data", "n-7")
        (answer,) = await client.until(1)
        assert (answer["topic"], answer["payload"]) == ("queue/answers", "nine")
        assert answer["properties"]["correlation-data"] == "n-7"


async def test_a_message_that_the_broker_refuses_is_a_dead_letter_and_holds_up_nobody(
    network: Network, broker: Callable[..., MosquittoServer]
) -> None:
    york = broker("york", *DISCOVERY, "message_size_limit 1000")
    network.add("hq")
    network.add("york", "hq", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "york")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "till") as till:
        await network.until_known("hq", "topic:prices/#")
        await network.send("hq", "topic:prices/a", [b"1", bytes(5000), b"2"])
        await till.until(2)
        assert till.payloads() == ["1", "2"]
        status = await network.until(
            "york", lambda status: status["dead"]["messages"] == 1, "left with a letter"
        )
        (reason,) = status["dead"]["reasons"]
        assert reason == "TOO_LARGE: reason code 149 of the site's broker for prices/a"
    await network.until_drained("york")


async def test_names_are_filtered_and_renamed_by_rules(
    network: Network, broker: Callable[..., MosquittoServer]
) -> None:
    york = broker("york")
    rules = [
        {"pattern": "topic:till/#", "direction": "both", "tree_prefix": "stores/york/"},
        {"pattern": "topic:prices/#", "direction": "in"},
    ]
    network.add("hq")
    network.add("york", "hq", site_broker={"uri": york.uri, "rules": rules})
    await network.start()
    await joined(network, "york")
    async with network.client("hq") as office, receiving(office, "topic:#") as got:
        with Listener(york.port, "-t", "#", "-q", "1", "-i", "till") as till:
            await network.until_known("hq", "topic:stores/york/till/#")
            await network.until_known("hq", "topic:prices/#")
            await takes(network, "york", "till/#")
            publish(york.port, "till/1", b"up")
            publish(york.port, "prices/tea", b"stays")
            await office.send("topic:stores/york/till/2", b"down")
            await office.send("topic:prices/tea", b"price")
            await office.send("topic:elsewhere", b"nothing")
            await till.until(4)
            found = sorted((message["topic"], message["payload"]) for message in till.got())
            assert found == [
                ("prices/tea", "price"),
                ("prices/tea", "stays"),
                ("till/1", "up"),
                ("till/2", "down"),
            ]
            await until_count(got, 4)
            assert {(str(each.destination), each.payload) for each in got if each.payload == b"up"} == {
                ("topic:stores/york/till/1", b"up")
            }
