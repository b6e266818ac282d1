"""MQTT's and AMQP's properties, and ours between them."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties

from bridges.mqtt.texts import fits, is_plain, unescaped
from bridges.properties import MqttProperties, from_amqp, from_mqtt, to_amqp, to_mqtt
from sapwood.protocol.bundles import DEEPEST, Foreign, Message, Properties, decode_messages, encode_message


def same(name: str) -> str:
    return name


def over_the_tree(properties: Properties) -> Properties:
    (message,) = decode_messages(encode_message(Message(b"", properties)), 1)
    return message.properties


def mqtt_to_mqtt(given: MqttProperties, qos: int = 1) -> MqttProperties:
    return to_mqtt(over_the_tree(from_mqtt(given, qos, same)), same)


def amqp_to_amqp(**fields: Any) -> dict[str, Any]:
    properties, retained = from_amqp(BasicProperties(**fields), same)
    return to_amqp(over_the_tree(properties), retained, same)


FULL = MqttProperties(
    "application/json", "answers/1", b"\x00\xff", [("a", "1"), ("b", "2"), ("a", "3")], 60, True
)


def test_mqtt_to_mqtt_keeps_everything() -> None:
    found = mqtt_to_mqtt(FULL)
    assert found == FULL._replace(user=[("a", "1"), ("a", "3"), ("b", "2")])
    assert mqtt_to_mqtt(MqttProperties()) == MqttProperties()


@given(
    st.text(max_size=20).filter(is_plain),
    st.binary(max_size=20),
    st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5)), max_size=6),
    st.one_of(st.none(), st.integers(1, 1 << 30)),
)
def test_mqtt_to_mqtt_keeps_anything(
    content: str, correlation: bytes, user: list[tuple[str, str]], expiry: int | None
) -> None:
    found = mqtt_to_mqtt(MqttProperties(content, "", correlation, user, expiry))
    assert (found.content_type, found.correlation, found.expiry) == (content, correlation, expiry)
    kept = [unescaped(*pair) for pair in found.user]
    for name in "abc":
        assert [text for key, text in kept if key == name] == [text for key, text in user if key == name]
    assert all(fits(text) for pair in found.user for text in pair)


@pytest.mark.parametrize("text", ["a\nb", "\t", "\x7f", "\x9f", "\ufffe", "\U0010ffff", "\ud800", 'a\n"b"'])
def test_a_header_for_which_mqtt_ends_the_connection_comes_through_it(text: str) -> None:
    said = to_mqtt(Properties(headers={"trace": text, "a": "b"}), same)
    assert all(fits(each) for pair in said.user for each in pair)
    assert from_mqtt(said, 1, same).headers == {"trace": text, "a": "b"}


def test_what_mqtt_has_no_room_for_is_left_out_and_named() -> None:
    given = Properties(
        headers={"trace": "x" * 70_000, "a\nb": "c", "ok": "1", "nested": {"a": "x" * 70_000}},
        content_type="text/plain\n",
        reply_to="a\nb",
        message_id="a\nb",
        foreign=Foreign(correlation=bytes(70_000)),
    )
    said = to_mqtt(given, same)
    assert (said.content_type, said.response_topic, said.correlation) == ("", "", b"")
    assert [text for name, text in said.user if name == "sapwood-left-out"] == [
        "trace", '"a\\nb"', "nested", "content-type", "reply-to", "correlation-id",
    ]  # fmt: skip
    assert ("ok", "1") in said.user
    assert all(fits(text) for pair in said.user for text in pair)


def nested(levels: int, inside: Any) -> Any:
    return [nested(levels - 1, inside)] if levels else inside


def test_whatever_a_child_nests_in_a_header_is_said() -> None:
    """Both conversions raised here, and the bridge to the site's broker ended with them, again and again."""
    strange = {7: {None: 1, b"n": 2}, (1, 2): msgspec.msgpack.Ext(3, b"ext")}
    plain = msgspec.msgpack.encode({"a": strange, "deepest": nested(DEEPEST, "x"), "deeper": nested(99, "x")})
    headers = msgspec.msgpack.decode(plain, type=dict[str, Any])
    said = dict(to_mqtt(Properties(headers=headers), same).user)
    assert said["a"] == '{"7":{"":1,"n":2},"(1, 2)":"ZXh0"}'
    assert said["deepest"] == msgspec.json.encode(nested(DEEPEST, "x")).decode()
    assert said["deeper"] == msgspec.json.encode(nested(DEEPEST, None)).decode()
    given = to_amqp(Properties(headers=headers), False, same)
    assert given["headers"]["a"] == {"7": {"": 1, "n": 2}, "(1, 2)": b"ext"}
    assert given["headers"]["deepest"] == nested(DEEPEST, "x")
    assert given["headers"]["deeper"] == nested(DEEPEST, None)
    assert b"".join(BasicProperties(**given).encode())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1 << 63, -(1 << 63) - 1])
def test_a_number_that_amqp_or_rabbitmq_does_not_know_comes_as_text(value: float) -> None:
    """RabbitMQ ended the bridge's connection for the first three, again and again."""
    found = to_amqp(Properties(headers={"n": value, "list": [value]}, timestamp=-1), False, same)
    assert found["headers"] == {"n": str(value), "list": [str(value)]}
    assert "timestamp" not in found
    assert dict(to_mqtt(Properties(headers={"n": value}), same).user) == {"n": f'"{value}"'}


def test_no_header_gives_a_message_to_further_queues_of_rabbitmq() -> None:
    """Whoever may send to one queue would send to all that are there."""
    headers = {"CC": ["payroll"], "BCC": ["payroll"], "cc": "x"}
    assert to_amqp(Properties(headers=headers), False, same)["headers"] == {"cc": "x"}


def test_what_rabbitmq_says_of_deaths_is_given_on_and_what_others_say_is_text() -> None:
    when = datetime(2026, 11, 28, tzinfo=UTC)
    death = {
        "queue": "q",
        "reason": "expired",
        "exchange": "",
        "count": 2,
        "routing-keys": ["q"],
        "time": when,
    }
    headers = {"x-death": [death]}
    properties, _ = from_amqp(BasicProperties(headers=headers), same)
    assert to_amqp(properties, False, same)["headers"] == headers
    for odd in (["a", "b"], [None], {"a": 1}, 7, [{**death, "count": "2"}], [{**death, "routing-keys": [1]}]):
        given = to_amqp(Properties(headers={"x-death": odd}), False, same)["headers"]
        assert isinstance(given["x-death"], str)


def test_an_expiry_beyond_what_rabbitmq_takes_is_none() -> None:
    assert to_amqp(Properties(expires_in=0xFFFF_FFFF), False, same)["expiration"] == "4294967295"
    assert "expiration" not in to_amqp(Properties(expires_in=0x1_0000_0000), False, same)


def test_that_it_may_be_a_repetition_is_said_at_each_delivery_anew() -> None:
    properties = Properties(headers={"a": "1"})
    said = to_mqtt(properties, same, again=True)
    assert list(said.user) == [("a", "1"), ("sapwood-again", "true")]
    assert from_mqtt(said, 1, same) == properties
    given = to_amqp(properties, False, same, again=True)
    assert given["headers"] == {"a": "1", "sapwood-again": True}
    assert from_amqp(BasicProperties(**given), same)[0].headers == {"a": "1"}


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_quality_of_service_is_kept(qos: int) -> None:
    foreign = over_the_tree(from_mqtt(MqttProperties(), qos, same)).foreign
    assert (foreign.qos if foreign else 1) == qos


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"0", 0),
        (b"-7", -7),
        (b"18446744073709551615", (1 << 64) - 1),
        (b"007", None),
        (b"99999999999999999999", None),
    ],
)
def test_a_correlation_is_a_number_only_if_it_comes_out_as_it_was(data: bytes, number: int | None) -> None:
    found = from_mqtt(MqttProperties(correlation=data), 1, same)
    assert found.correlation_id == number
    assert to_mqtt(found, same).correlation == data


AMQP = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"n": 1, "t": True, "nested": {"list": [1, "x"]}, "none": None, "raw": b"\xff"},
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "abc-1",
    "reply_to": "answers",
    "expiration": "1500",
    "message_id": "m-1",
    "timestamp": 1_700_000_000,
    "type": "order",
    "app_id": "till",
}


def test_amqp_to_amqp_keeps_everything() -> None:
    assert amqp_to_amqp(**AMQP) == AMQP
    assert amqp_to_amqp(delivery_mode=1) == {"delivery_mode": 1}


def test_amqp_loses_decimals_and_the_user_as_a_field() -> None:
    found = amqp_to_amqp(headers={"d": Decimal("1.50"), "at": datetime(2026, 1, 1)}, user_id="guest")
    assert found["headers"] == {
        "d": "1.50",
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "sapwood-user-id": "guest",
    }
    assert "user_id" not in found


def test_amqp_to_mqtt_and_back_has_a_place_for_all_but_types_of_headers() -> None:
    properties, _ = from_amqp(BasicProperties(**AMQP), same)
    mqtt = to_mqtt(properties, same)
    assert (mqtt.content_type, mqtt.response_topic, mqtt.correlation, mqtt.expiry) == (
        "text/plain",
        "answers",
        b"abc-1",
        2,
    )
    user = dict(mqtt.user)
    assert user["n"] == "1"
    assert user["nested"] == '{"list":[1,"x"]}'
    assert user["sapwood-message-id"] == "m-1"
    back = to_amqp(from_mqtt(mqtt, 1, same), False, same)
    assert {name: value for name, value in back.items() if name not in ("headers", "expiration")} == {
        name: value for name, value in AMQP.items() if name not in ("headers", "expiration")
    }


def test_mqtt_to_amqp_and_back_has_a_place_for_everything() -> None:
    fields = to_amqp(from_mqtt(FULL, 2, same), True, same)
    assert fields["correlation_id"] == b"\x00\xff"
    properties, retained = from_amqp(BasicProperties(**fields), same)
    assert retained
    assert properties.foreign is not None
    assert properties.foreign.qos == 2
    assert to_mqtt(properties, same) == FULL._replace(user=[("a", "1"), ("a", "3"), ("b", "2")])


def test_what_is_too_long_for_amqp_has_no_place_there() -> None:
    properties = Properties(message_id="x" * 256, reply_to="y" * 256)
    assert to_amqp(properties, False, same) == {"delivery_mode": 2}


def test_a_user_property_of_ours_that_makes_no_sense_stays_a_user_property() -> None:
    found = from_mqtt(MqttProperties(user=[("sapwood-priority", "high")]), 1, same)
    assert (found.priority, found.headers) == (0, {"sapwood-priority": "high"})
