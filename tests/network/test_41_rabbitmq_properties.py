"""Property by property from one RabbitMQ through the tree to another: what a plain application set, another
one reads.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from rabbitmq_chain import Chain

WHEN = datetime(2026, 1, 2, 3, 4, 5)
CASES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "delivery mode 1": {"delivery_mode": 1},
    "delivery mode 2": {"delivery_mode": 2},
    "content type": {"content_type": "application/json"},
    "content encoding": {"content_encoding": "gzip"},
    "headers": {"headers": {"text": "ß", "number": -(2**40), "flag": True, "half": 0.5, "nothing": None}},
    "nested headers": {"headers": {"list": [1, "x", [2]], "table": {"a": {"b": 1}}}},
    "bytes in headers": {"headers": {"raw": b"\x00\xff"}},
    "time in headers": {"headers": {"when": WHEN}},
    "priority": {"priority": 7},
    "correlation id": {"correlation_id": "order/7"},
    "number as correlation id": {"correlation_id": "4711"},
    "number with zeros as correlation id": {"correlation_id": "007"},
    "message id": {"message_id": "f81d4fae-7dec"},
    "timestamp": {"timestamp": 1_790_000_000},
    "type": {"type": "order.created"},
    "app id": {"app_id": "till"},
}
CHANGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "user id": ({"user_id": "guest"}, {"headers": {"sapwood-user-id": "guest"}}),
    "decimals": ({"headers": {"price": Decimal("1.09")}}, {"headers": {"price": "1.09"}}),
    "reply to": ({"reply_to": "answers"}, {"reply_to": "sapwood.reply.answers@hq"}),
}
KINDS = ("delivery_mode", "content_type", "content_encoding", "headers", "priority", "correlation_id")
KINDS += ("reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id")


def comparable(properties: pika.BasicProperties) -> dict[str, Any]:
    found = {name: value for name in KINDS if (value := getattr(properties, name)) is not None}
    headers = {name: naive(value) for name, value in (properties.headers or {}).items()}
    headers.pop("x-sapwood")
    return {"delivery_mode": 1, **found, "headers": headers}


def naive(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


@pytest.mark.parametrize("through", ["queue", "topic"])
async def test_each_property_arrives_as_it_was_set(chain: Chain, through: str) -> None:
    """All in one run of the tree: a start of the nodes costs more than all of them."""
    await chain.start("hq", "north", "york")
    if through == "queue":
        reader = chain.reader("york", "till", durable=True)
        chain.at["hq"].channel().queue_declare("till", durable=True)
        exchange, key = "", "till"
        await chain.until_wanted("hq", "queue:till")
    else:
        reader = chain.reader("york", "", "prices.#", exclusive=True)
        exchange, key = "amq.topic", "prices.milk"
        await chain.until_wanted("hq", "topic:prices/#")
        await chain.at["hq"].until_bound("prices.#")
    cases = {**{name: (given, given) for name, given in CASES.items()}, **CHANGED}
    for name, (given, _) in cases.items():
        chain.at["hq"].publish(key, name.encode(), exchange, pika.BasicProperties(**given))
    await reader.until(len(cases))
    got = {body.decode(): comparable(properties) for body, properties in reader.got}
    expected = {name: {"delivery_mode": 1, "headers": {}, **wanted} for name, (_, wanted) in cases.items()}
    assert got == expected


async def test_what_remains_of_an_expiry_arrives(chain: Chain) -> None:
    await chain.start("hq", "north", "york")
    reader = chain.reader("york", "till", durable=True)
    chain.at["hq"].channel().queue_declare("till", durable=True)
    await chain.until_wanted("hq", "queue:till")
    chain.at["hq"].publish("till", b"x", properties=pika.BasicProperties(expiration="3600000"))
    await reader.until(1)
    assert 3_000_000 < int(reader.got[0][1].expiration) <= 3_600_000


async def test_a_large_message_crosses_the_tree(chain: Chain) -> None:
    await chain.start("hq", "north", "york")
    reader = chain.reader("york", "till", durable=True)
    chain.at["hq"].channel().queue_declare("till", durable=True)
    await chain.until_wanted("hq", "queue:till")
    body = bytes(range(256)) * 2048
    chain.at["hq"].publish("till", body)
    assert await reader.until(1) == [body]
