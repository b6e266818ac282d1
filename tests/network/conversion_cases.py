"""What an application says of a message, and what others hear: the table of `bridges.properties` by cases.

Law: a case is what is said, what is heard with MQTT 5, and what is heard with AMQP. With MQTT 3.1.1 the
quality of service is heard, and nothing else.
"""

from typing import Any

Said = dict[str, Any]

FROM_MQTT_5: dict[str, tuple[Said, Said, Said]] = {
    "nothing": ({}, {"qos": 1}, {"delivery_mode": 2}),
    "qos 0": ({"qos": 0}, {"qos": 0}, {"delivery_mode": 1}),
    "qos 2": ({"qos": 2}, {"qos": 2}, {"delivery_mode": 2, "headers": {"sapwood-qos": 2}}),
    "content type": (
        {"ContentType": "text/plain"},
        {"qos": 1, "ContentType": "text/plain"},
        {"delivery_mode": 2, "content_type": "text/plain"},
    ),
    "correlation data that is text": (
        {"CorrelationData": b"order/7"},
        {"qos": 1, "CorrelationData": b"order/7"},
        {"delivery_mode": 2, "correlation_id": "order/7"},
    ),
    "correlation data that is a number": (
        {"CorrelationData": b"4711"},
        {"qos": 1, "CorrelationData": b"4711"},
        {"delivery_mode": 2, "correlation_id": "4711"},
    ),
    "correlation data that is neither": (
        {"CorrelationData": b"\x00\xff"},
        {"qos": 1, "CorrelationData": b"\x00\xff"},
        {"delivery_mode": 2, "correlation_id": b"\x00\xff"},
    ),
    "correlation data beyond 255 bytes": (
        {"CorrelationData": b"x" * 300},
        {"qos": 1, "CorrelationData": b"x" * 300},
        {"delivery_mode": 2},
    ),
    "user properties": (
        {"UserProperty": [("a", "1"), ("b", "ß"), ("a", "2")]},
        {"qos": 1, "UserProperty": [("a", "1"), ("a", "2"), ("b", "ß")]},
        {"delivery_mode": 2, "headers": {"a": ["1", "2"], "b": "ß"}},
    ),
    "payload format": (
        {"PayloadFormatIndicator": 1},
        {"qos": 1, "PayloadFormatIndicator": 1},
        {"delivery_mode": 2, "headers": {"sapwood-utf8": True}},
    ),
    "payload format that is said to be unspecified": (
        {"PayloadFormatIndicator": 0},
        {"qos": 1, "PayloadFormatIndicator": 0},
        {"delivery_mode": 2, "headers": {"sapwood-utf8": False}},
    ),
    "response topic that is a queue": (
        {"ResponseTopic": "queue/answers"},
        {"qos": 1, "ResponseTopic": "node/york/answers"},
        {"delivery_mode": 2, "reply_to": "sapwood.reply.answers@york"},
    ),
    "response topic": (
        {"ResponseTopic": "answers/till"},
        {"qos": 1, "ResponseTopic": "answers/till"},
        {"delivery_mode": 2, "reply_to": "sapwood.reply.topic:answers/till"},
    ),
    "what has a place in AMQP only": (
        {
            "UserProperty": [
                ("sapwood-message-id", "m-1"),
                ("sapwood-timestamp", "1790000000"),
                ("sapwood-priority", "7"),
                ("sapwood-content-encoding", "gzip"),
                ("sapwood-type", "order"),
                ("sapwood-app-id", "till"),
                ("sapwood-user-id", "ann"),
            ]
        },
        {
            "qos": 1,
            "UserProperty": [
                ("sapwood-app-id", "till"),
                ("sapwood-content-encoding", "gzip"),
                ("sapwood-message-id", "m-1"),
                ("sapwood-priority", "7"),
                ("sapwood-timestamp", "1790000000"),
                ("sapwood-type", "order"),
                ("sapwood-user-id", "ann"),
            ],
        },
        {
            "delivery_mode": 2,
            "message_id": "m-1",
            "timestamp": 1_790_000_000,
            "priority": 7,
            "content_encoding": "gzip",
            "type": "order",
            "app_id": "till",
            "headers": {"sapwood-user-id": "ann"},
        },
    ),
    "a word of the last hop": (
        {"UserProperty": [("sapwood-again", "true")]},
        {"qos": 1},
        {"delivery_mode": 2},
    ),
}
FROM_AMQP: dict[str, tuple[Said, Said, Said]] = {
    "delivery mode 1": ({"delivery_mode": 1}, {"qos": 1}, {"delivery_mode": 1}),
    "delivery mode 2": ({}, {"qos": 1}, {"delivery_mode": 2}),
    "content type": (
        {"content_type": "text/plain"},
        {"qos": 1, "ContentType": "text/plain"},
        {"delivery_mode": 2, "content_type": "text/plain"},
    ),
    "headers": (
        {"headers": {"text": "ß", "number": -(2**40), "flag": True, "half": 0.5, "none": None}},
        {
            "qos": 1,
            "UserProperty": [
                ("flag", "true"),
                ("half", "0.5"),
                ("none", "null"),
                ("number", "-1099511627776"),
                ("text", "ß"),
            ],
        },
        {
            "delivery_mode": 2,
            "headers": {"text": "ß", "number": -(2**40), "flag": True, "half": 0.5, "none": None},
        },
    ),
    "headers in headers": (
        {"headers": {"list": ["a", "b"], "mixed": [1, "b"], "table": {"a": {"b": 1}}}},
        {
            "qos": 1,
            "UserProperty": [("list", "a"), ("list", "b"), ("mixed", '[1,"b"]'), ("table", '{"a":{"b":1}}')],
        },
        {
            "delivery_mode": 2,
            "headers": {"list": ["a", "b"], "mixed": [1, "b"], "table": {"a": {"b": 1}}},
        },
    ),
    "correlation id": (
        {"correlation_id": "007"},
        {"qos": 1, "CorrelationData": b"007"},
        {"delivery_mode": 2, "correlation_id": "007"},
    ),
    "message id": (
        {"message_id": "m-1"},
        {"qos": 1, "UserProperty": [("sapwood-message-id", "m-1")]},
        {"delivery_mode": 2, "message_id": "m-1"},
    ),
    "timestamp": (
        {"timestamp": 1_790_000_000},
        {"qos": 1, "UserProperty": [("sapwood-timestamp", "1790000000")]},
        {"delivery_mode": 2, "timestamp": 1_790_000_000},
    ),
    "priority": (
        {"priority": 7},
        {"qos": 1, "UserProperty": [("sapwood-priority", "7")]},
        {"delivery_mode": 2, "priority": 7},
    ),
    "content encoding": (
        {"content_encoding": "gzip"},
        {"qos": 1, "UserProperty": [("sapwood-content-encoding", "gzip")]},
        {"delivery_mode": 2, "content_encoding": "gzip"},
    ),
    "type": (
        {"type": "order"},
        {"qos": 1, "UserProperty": [("sapwood-type", "order")]},
        {"delivery_mode": 2, "type": "order"},
    ),
    "app id": (
        {"app_id": "till"},
        {"qos": 1, "UserProperty": [("sapwood-app-id", "till")]},
        {"delivery_mode": 2, "app_id": "till"},
    ),
    "user id": (
        {"user_id": "guest"},
        {"qos": 1, "UserProperty": [("sapwood-user-id", "guest")]},
        {"delivery_mode": 2, "headers": {"sapwood-user-id": "guest"}},
    ),
    "reply to": (
        {"reply_to": "answers"},
        {"qos": 1, "ResponseTopic": "node/leeds/answers"},
        {"delivery_mode": 2, "reply_to": "sapwood.reply.answers@leeds"},
    ),
    "qos 2 of MQTT": (
        {"headers": {"sapwood-qos": 2}},
        {"qos": 2},
        {"delivery_mode": 2, "headers": {"sapwood-qos": 2}},
    ),
    "payload format of MQTT": (
        {"headers": {"sapwood-utf8": True}},
        {"qos": 1, "PayloadFormatIndicator": 1},
        {"delivery_mode": 2, "headers": {"sapwood-utf8": True}},
    ),
    "payload format of MQTT that is said to be unspecified": (
        {"headers": {"sapwood-utf8": False}},
        {"qos": 1, "PayloadFormatIndicator": 0},
        {"delivery_mode": 2, "headers": {"sapwood-utf8": False}},
    ),
}
FROM_MQTT_3_1_1: dict[str, tuple[Said, Said, Said]] = {
    "qos 0": ({"qos": 0}, {"qos": 0}, {"delivery_mode": 1}),
    "qos 1": ({"qos": 1}, {"qos": 1}, {"delivery_mode": 2}),
    "qos 2": ({"qos": 2}, {"qos": 2}, {"delivery_mode": 2, "headers": {"sapwood-qos": 2}}),
}

FULL_MQTT: Said = {
    "ContentType": "application/json",
    "ResponseTopic": "answers/till",
    "CorrelationData": b"n-7",
    "UserProperty": [("a", "1"), ("b", "ß")],
    "PayloadFormatIndicator": 1,
}
FULL_AMQP: Said = {
    "content_type": "application/json",
    "content_encoding": "gzip",
    "headers": {"a": "1", "b": "ß"},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "4711",
    "message_id": "m-1",
    "timestamp": 1_790_000_000,
    "type": "order",
    "app_id": "till",
}
