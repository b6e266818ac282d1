"""Destinations, properties and marks, without a broker."""

import pika
import pytest

from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import BrokerDelivery
from bridges.site_brokers.rabbitmq.exchanges import Exchanges
from bridges.site_brokers.rabbitmq.messages import (
    MARK,
    address_of,
    is_ours,
    mark,
    number_of,
    properties_of,
    taken_from_queue,
    taken_from_topic,
)
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import parse
from sapwood.protocol.errors import PatternError
from treeconnector.patterns import check_topic

USUAL = Exchanges("amq.topic")


def incoming(
    key: str, exchange: str = "amq.topic", redelivered: bool = False, **properties: object
) -> Incoming:
    return Incoming(1, exchange, key, redelivered, pika.BasicProperties(**properties), b"body")


def delivery(destination: str, **properties: object) -> BrokerDelivery:
    return BrokerDelivery(
        1, parse(destination), Message(b"body", Properties(**properties)), True, False, False
    )


def same(text: str) -> str:
    return text


def test_a_mark_holds_for_one_exchange_and_key() -> None:
    marked = pika.BasicProperties(headers={MARK: mark("york", 17, "amq.topic", "a.b")})
    assert number_of(marked) == 17
    assert is_ours(marked, "amq.topic", "a.b")
    assert not is_ours(marked, "amq.topic", "a.c")
    assert not is_ours(marked, "", "a.b")


@pytest.mark.parametrize(
    "headers", [None, {}, {MARK: 7}, {MARK: "york"}, {MARK: b"york/1/x"}, {MARK: "a/b/c"}]
)
def test_other_marks_are_none(headers: dict[str, object] | None) -> None:
    properties = pika.BasicProperties(headers=headers)
    assert (is_ours(properties, "", "q"), number_of(properties)) == (False, 0)


def test_a_topic_is_read_in_our_spelling() -> None:
    taken = taken_from_topic(incoming("sales.1/2.york"), USUAL, same)
    assert taken is not None
    assert str(taken.destination) == "topic:sales/1%2F2/york"


@pytest.mark.parametrize("key", ["a.*", "#", "a.#.b", "", "a.\0"])
def test_a_key_that_is_no_topic_becomes_no_topic(key: str) -> None:
    """So the node makes a dead letter of it, and says why."""
    taken = taken_from_topic(incoming(key), USUAL, same)
    assert taken is not None
    with pytest.raises(PatternError):
        check_topic(taken.destination.name)


def test_a_message_of_an_exchange_has_a_topic_of_it_and_none_of_another() -> None:
    exchanges = Exchanges("amq.topic", [("sales", "sales/")])
    taken = taken_from_topic(incoming("tea", "sales"), exchanges, same)
    assert taken is not None
    assert (str(taken.destination), taken.odd) == ("topic:sales/tea", "")
    taken = taken_from_topic(incoming("sales.tea"), exchanges, same)
    assert taken is not None
    assert taken.odd.startswith("DESTINATION: topics below 'sales/' are of exchange 'sales'")


def test_what_we_gave_does_not_come_back_but_what_was_sent_on_does() -> None:
    headers = {MARK: mark("york", 1, "amq.topic", "a"), "b": 2}
    assert taken_from_topic(incoming("a", headers=headers), USUAL, same) is None
    taken = taken_from_topic(incoming("b", headers=headers), USUAL, same)
    assert taken is not None
    assert taken.message.properties.headers == {"b": 2}


def test_only_a_message_id_makes_a_repetition_known() -> None:
    named = taken_from_queue("q", incoming("q", "", True, message_id="7", app_id="till"), same)
    again = taken_from_queue("q", incoming("q", "", True, message_id="7", app_id="till"), same)
    other = taken_from_queue("q", incoming("q", "", True, message_id="7", app_id="office"), same)
    assert named.again
    assert named.key == again.key != other.key
    assert taken_from_queue("q", incoming("q", ""), same).key == ""


def test_where_a_delivery_goes() -> None:
    assert address_of(delivery("queue:till"), Exchanges("chain")) == ("", "till")
    assert address_of(delivery("topic:a/b%2Fc/d"), Exchanges("chain")) == ("chain", "a.b/c.d")
    with pytest.raises(PatternError):
        address_of(delivery("topic:" + "x" * 300), Exchanges("chain"))


def test_properties_cross_as_they_are() -> None:
    given = properties_of(
        delivery(
            "queue:till",
            correlation_id=7,
            reply_to="answers@leeds",
            expires_in=1500,
            message_id="m",
            content_type="text/plain",
            timestamp=1_700_000_000,
            priority=5,
            headers={"a": [1, "x"]},
        ),
        lambda address: f"sapwood.reply.{address}",
    )
    assert given.reply_to == "sapwood.reply.answers@leeds"
    assert (given.correlation_id, given.expiration, given.priority) == ("7", "1500", 5)
    assert (given.message_id, given.content_type, given.timestamp) == ("m", "text/plain", 1_700_000_000)
    assert given.headers == {"a": [1, "x"]}
