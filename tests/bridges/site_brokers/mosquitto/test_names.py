"""How queues, topics and nodes are spelled at an MQTT broker."""

import pytest

from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.mosquitto.names import Names, Unspellable
from config.model import SiteBroker
from sapwood.protocol.destinations import Destination, Kind, parse

NAMES = Names(SiteBroker(uri="mqtt://localhost"), "york")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("prices/#", "topic:prices/#"),
        ("#", "topic:#"),
        ("$share/g/queue/orders", "queue:orders"),
        ("$share/g/queue/orders/late", "queue:orders/late"),
        ("$share/g/prices/+", "topic:prices/+"),
        ("queue/orders", None),
        ("$share/g/queue/+", None),
        ("node/york/answers", None),
        ("$SYS/#", None),
        ("$sapwood/bridge/who", None),
        ("sapwood/acme/link/york/down", None),
        ("sapwood/acme/link/+/up/knock", None),
        ("sapwood/acme/linked", "topic:sapwood/acme/linked"),
        ("$share/g", None),
        ("a/b+", None),
    ],
)
def test_a_filter_reads_a_queue_a_topic_or_nothing_of_ours(text: str, key: str | None) -> None:
    assert NAMES.consumed(text) == (parse(key) if key else None)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("prices/tea", "topic:prices/tea"),
        ("queue/orders", "queue:orders"),
        ("node/hq/answers", "queue:answers@hq"),
        ("node/hq", None),
        ("queue/", None),
        ("$SYS/broker/version", None),
    ],
)
def test_a_topic_names_a_destination(text: str, key: str | None) -> None:
    assert NAMES.destination(text) == (parse(key) if key else None)


def test_what_goes_to_the_broker_is_spelled_for_it() -> None:
    assert NAMES.topic(parse("queue:orders")) == "queue/orders"
    assert NAMES.filter(parse("topic:a/#/b")) == "a/#"
    assert NAMES.to_nodes == "node/+/#"
    for text in (
        "topic:$SYS/#",
        "topic:$share/g/queue/orders",
        "topic:queue/orders",
        "topic:node/#",
        "queue:a+b",
    ):
        with pytest.raises(Unspellable):
            NAMES.filter(parse(text))
    for text in ("queue:a+b", "topic:$SYS/x"):
        with pytest.raises(Unspellable, match="UNROUTABLE"):
            NAMES.topic(parse(text))
    with pytest.raises(Unspellable, match="control characters"):
        NAMES.topic(Destination(Kind.TOPIC, "a\nb"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a/" * 150 + "b", "levels"),
        ("$share/g/queue/+", "is a pattern"),
        ("$share/g/queue/a/#", "is a pattern"),
        ("a/b+", "b+"),
        ("queue/+", ""),
        ("node/york/#", ""),
        ("$SYS/#", ""),
        ("$share/g/$SYS/#", ""),
        ("sapwood/acme/link/york/down", ""),
        ("prices/#", ""),
    ],
)
def test_a_filter_that_makes_no_consumer_says_why_if_it_was_meant_to(text: str, why: str) -> None:
    assert (why in NAMES.why_left_out(text)) if why else not NAMES.why_left_out(text)


@pytest.mark.parametrize(
    ("topic", "reply_to", "back"),
    [
        ("queue/answers", "answers@york", "queue/answers"),
        ("node/hq/answers", "answers@hq", "node/hq/answers"),
        ("answers/till-1", "topic:answers/till-1", "answers/till-1"),
        ("$SYS/x", "", ""),
        ("node/hq/amq.rabbitmq.reply-to.a/b%2B%23=", "amq.rabbitmq.reply-to.a/b+#=@hq", None),
        ("node/york/a%252Bb%2B", "a%2Bb+@york", None),
    ],
)
def test_answers_find_their_way_back(topic: str, reply_to: str, back: str | None) -> None:
    assert NAMES.reply_from(topic) == reply_to
    assert NAMES.reply_to(reply_to) == (topic if back is None else back)


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("answers/1", "topic:answers/1"),
        ("queue/answers", "queue:answers@york"),
        ("node/york/answers", "queue:answers@york"),
        ("node/hq/answers", None),
        ("$SYS/x", None),
    ],
)
def test_who_asks_waits_at_this_broker_or_elsewhere(topic: str, key: str | None) -> None:
    assert NAMES.asked_at(topic) == (parse(key) if key else None)


def test_prefixes_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(SiteBrokerError, match="one begins with the other"):
        Names(SiteBroker(uri="mqtt://localhost", queue_prefix="a/", node_prefix="a/b/"), "york")
