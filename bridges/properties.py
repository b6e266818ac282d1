"""All that a message carries beside its payload: MQTT's and AMQP's words for it, and ours between them.

Law: `sapwood.protocol.bundles.Properties` is the form in the tree. A property that both protocols have keeps
its place; what one of them lacks is a user property (MQTT) or a header (AMQP) there, of a name that begins
with `sapwood-`, and finds its place again when it comes back from there. So MQTT to MQTT and AMQP to AMQP is
the identity, but for what this table says ("mode" is the delivery mode):

| in the tree          | MQTT 5                      | AMQP 0-9-1           | lost                          |
| -------------------- | --------------------------- | -------------------- | ----------------------------- |
| bundle: persistent   | QoS 1 and 2; QoS 0 is not   | always               |                               |
| qos 0, 1, 2          | QoS                         | mode 1, 2, 2 *       |                               |
| bundle: retained     | retain flag, and            | `sapwood-retained` * | RabbitMQ retains nothing      |
|                      | `sapwood-from-tree` (5)     |                      |                               |
| content_type         | content type                | content-type         |                               |
| content_encoding     | `sapwood-content-encoding`  | content-encoding     |                               |
| utf8                 | payload format indicator    | `sapwood-utf8`       |                               |
| headers              | user properties, in order   | headers              | MQTT: types (JSON text)       |
|                      | (a repeated name is a list; |                      | order among repeated names;   |
|                      | control characters: (+))    |                      | what is beyond 65,535 bytes   |
|                      |                             |                      | AMQP: `CC`, `BCC`, `x-mqtt-…`;|
|                      |                             |                      | `x-death` that is none: text  |
|                      |                             |                      | names in tables: as text      |
|                      |                             |                      | levels of tables beyond 32    |
| correlation_id (a    | correlation data, in        | correlation-id       |                               |
| number), correlation | decimal; any bytes          |                      | AMQP: beyond 255 bytes        |
| reply_to             | response topic              | reply-to             | AMQP: beyond 255 bytes        |
| expires_in           | expiry, whole seconds, up   | expiration           | MQTT: fractions of a second;  |
|                      |                             |                      | AMQP: beyond 49.7 days        |
| message_id           | `sapwood-message-id`        | message-id           |                               |
| timestamp            | `sapwood-timestamp`         | timestamp            |                               |
| priority             | `sapwood-priority`          | priority             | MQTT delivers in order        |
| type, app_id         | `sapwood-type`, `-app-id`   | type, app-id         |                               |
| user_id              | `sapwood-user-id`           | `sapwood-user-id`    | RabbitMQ checks it: not given |
| bundle: maybe twice, | `sapwood-again` (5 only)    | `sapwood-again`      | what an application says of   |
| given again          |                             |                      | that itself                   |
| task_id, interface,  | `sapwood-task-id`, …        | `sapwood-task-id`, … |                               |
| interface_version    |                             |                      |                               |

(*) QoS 2 is `sapwood-qos` beside delivery mode 2. (+) A header with characters for which an MQTT broker would
end the connection is `sapwood-json-NAME`, with a text of JSON. A property that MQTT has no room for is left
out, and `sapwood-left-out` names it. Topic aliases, subscription identifiers and cluster-id belong to one
connection or are deprecated: they are not carried. MQTT 3.1.1 has payload, topic, QoS and retain flag only: a
client of 3.1.1 gets nothing else, and what one sends has nothing else.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from bridges.mqtt.properties import Name
from bridges.mqtt.properties import Properties as PacketProperties
from bridges.mqtt.texts import MAX_BYTES, escaped, fits, is_plain, json_name, unescaped
from sapwood.protocol.bundles import DEEPEST, Foreign, Properties

PREFIX: Final = "sapwood-"
_FURTHER_QUEUES: Final = frozenset(("CC", "BCC"))
"""By these RabbitMQ gives a message to further queues: whoever may send to one queue would send to all."""
_OF_ITS_PLUGIN: Final = frozenset(("x-mqtt-publish-qos", "x-mqtt-dup"))
"""RabbitMQ's plugin for MQTT says these, and ends a client's connection where they are of another type."""
_DEATHS: Final = "x-death"
"""RabbitMQ believes it: where it is not as RabbitMQ writes it, the queue that dead-letters the message
crashes, and loses messages. A text is no harm."""
_NOT_GIVEN: Final = _FURTHER_QUEUES | _OF_ITS_PLUGIN
_DEATH: Final = {"queue": str, "reason": str, "exchange": str, "count": int, "routing-keys": list}
RETAINED: Final = "sapwood-retained"
AGAIN: Final = "sapwood-again"
"""Whoever gets a message with this may have had it before. It is the last hop's word, and is not taken on."""
FROM_TREE: Final = "sapwood-from-tree"
"""A message that a node gave an MQTT broker to retain says so, with a digest: a node with a new database
knows it."""
LEFT_OUT: Final = "sapwood-left-out"
_SHORT: Final = 255
_MAX_EXPIRATION: Final = 0xFFFF_FFFF
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,19}")
_TEXTS: Final = ("message_id",)
_FOREIGN: Final = ("content_encoding", "type", "app_id", "user_id")
_NONE: Final = Foreign()
_OURS: Final = ("task_id", "interface", "interface_version")
_NUMBERS: Final = ("timestamp", "priority")
_MAX_PRIORITY: Final = 255
_MAX_EXPIRY: Final = 0xFFFF_FFFF

Spell = Callable[[str], str]
"""Reads or writes the name that a reply goes to, '' if it has no place there."""


class MqttProperties(NamedTuple):
    """The properties of an MQTT 5 PUBLISH. `expiry`: seconds, None = never; `utf8`: None = not said."""

    content_type: str = ""
    response_topic: str = ""
    correlation: bytes = b""
    user: Sequence[tuple[str, str]] = ()
    expiry: int | None = None
    utf8: bool | None = None


NO_PROPERTIES: Final = MqttProperties()


def of_packet(said: PacketProperties) -> MqttProperties:
    """As they stood in a PUBLISH."""
    utf8 = said.get(Name.PAYLOAD_FORMAT)
    return MqttProperties(
        said.get(Name.CONTENT_TYPE, ""),
        said.get(Name.RESPONSE_TOPIC, ""),
        said.get(Name.CORRELATION_DATA, b""),
        tuple(said.get(Name.USER_PROPERTY, ())),
        said.get(Name.MESSAGE_EXPIRY),
        None if utf8 is None else utf8 == 1,
    )


def for_packet(given: MqttProperties) -> dict[Name, Any]:
    """As they are to stand in a PUBLISH."""
    said: dict[Name, Any] = {}
    if given.utf8 is not None:
        said[Name.PAYLOAD_FORMAT] = int(given.utf8)
    if given.expiry is not None:
        said[Name.MESSAGE_EXPIRY] = given.expiry
    if given.content_type:
        said[Name.CONTENT_TYPE] = given.content_type
    if given.response_topic:
        said[Name.RESPONSE_TOPIC] = given.response_topic
    if given.correlation:
        said[Name.CORRELATION_DATA] = given.correlation
    if given.user:
        said[Name.USER_PROPERTY] = list(given.user)
    return said


def _key(name: str) -> str:
    return PREFIX + name.replace("_", "-")


_FIELDS: Final = {_key(name): name for name in (*_TEXTS, *_OURS, *_NUMBERS, *_FOREIGN)}


_OUR_HEADERS: Final = tuple((_key(name), name) for name in _OURS)
_NAMED: Final = ("message_id", "type", "app_id", "content_encoding", "content_type")
_PLAIN: Final = Properties()


# --- MQTT


def from_mqtt(given: MqttProperties, qos: int, reply: Spell) -> Properties:
    """The properties that an MQTT client sent. `reply` reads a response topic."""
    if given is NO_PROPERTIES:  # as most messages have them
        return Properties(foreign=None if qos == _NONE.qos else Foreign(qos=qos))
    number, other = _correlation(given.correlation)
    headers: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for name, text in given.user:
        if name in (AGAIN, FROM_TREE):
            continue
        field = _FIELDS.get(name)
        value = _value(field, text) if field else None
        if field and value is not None:
            fields[field] = value
        else:
            _append(headers, *unescaped(name, text))
    return Properties(
        correlation_id=number,
        reply_to=reply(given.response_topic) if given.response_topic else "",
        expires_in=0 if given.expiry is None else max(given.expiry * 1000, 1),
        content_type=given.content_type,
        headers=headers,
        foreign=_foreign(fields, correlation=other, qos=qos, utf8=given.utf8),
        **fields,
    )


def to_mqtt(properties: Properties, reply: Spell, again: bool = False) -> MqttProperties:
    """For an MQTT 5 client, which may have been given it before: `again`. `reply` spells a response topic."""
    if properties == _PLAIN and not again:
        return NO_PROPERTIES
    out: list[str] = []
    user = [pair for name, value in properties.headers.items() for pair in _user(name, value, out)]
    foreign = properties.foreign or _NONE
    for key, field in _FIELDS.items():
        value = getattr(foreign if field in _FOREIGN else properties, field)
        if value:
            user += _user(key, str(value), out)
    if again:
        user.append((AGAIN, "true"))
    correlation = _correlation_bytes(properties)
    answer = reply(properties.reply_to) if properties.reply_to else ""
    for name, possible in (
        ("content-type", fits(properties.content_type)),
        ("reply-to", fits(answer)),
        ("correlation-id", len(correlation) <= MAX_BYTES),
    ):
        out += [] if possible else [name]
    user += [(LEFT_OUT, name) for name in out]
    return MqttProperties(
        content_type="" if "content-type" in out else properties.content_type,
        response_topic="" if "reply-to" in out else answer,
        correlation=b"" if "correlation-id" in out else correlation,
        user=user,
        expiry=min(-(-properties.expires_in // 1000), _MAX_EXPIRY) if properties.expires_in > 0 else None,
        utf8=foreign.utf8,
    )


def size_of(given: MqttProperties) -> int:
    """How many bytes these take in a packet, about."""
    if given is NO_PROPERTIES:
        return 0
    texts = (given.content_type, given.response_topic, *(text for pair in given.user for text in pair))
    return len(given.correlation) + sum(len(text.encode()) + 3 for text in texts)


def _foreign(fields: dict[str, Any], **others: Any) -> Foreign | None:
    """The foreign ones, taken out of `fields`; None if all are as usual."""
    own = {name: fields.pop(name) for name in _FOREIGN if name in fields}
    made = Foreign(**own, **others)
    return None if made == _NONE else made


def _append(headers: dict[str, Any], name: str, text: str) -> None:
    before = headers.get(name)
    if before is None:
        headers[name] = text
    elif isinstance(before, list):
        before.append(text)
    else:
        headers[name] = [before, text]


def _texts(value: Any) -> Iterable[str]:
    """A header as user properties: one each for a list of texts, else text or JSON."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(item, str) for item in value):
        return [str(item) for item in value]
    return [value if isinstance(value, str) else msgspec.json.encode(_sayable(value)).decode()]


def _user(name: str, value: Any, out: list[str]) -> list[tuple[str, str]]:
    """A header as user properties; none if MQTT has no room for it, and its name is `out` then."""
    pairs = [(name, text) if is_plain(text) else (json_name(name), escaped(text)) for text in _texts(value)]
    if all(fits(text) for pair in pairs for text in pair):
        return pairs
    out.append(name[:_SHORT] if is_plain(name) else escaped(name[:_SHORT]))
    return []


def _value(field: str, text: str) -> Any:
    """A `sapwood-` user property's value; None if it is no such thing."""
    if field not in _NUMBERS:
        return text
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _sayable(value: Any, depth: int = 0) -> Any:
    """A header as both protocols have words for it: names in tables are text, and `DEEPEST` levels are kept.

    Law: no header fails. A bridge would be given the message again and again.
    """
    if isinstance(value, dict | list | tuple) and depth >= DEEPEST:
        return None
    if isinstance(value, dict):
        return {_text(name): _sayable(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(item, depth + 1) for item in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # RabbitMQ ends the connection for one, with INTERNAL_ERROR
    return value.data if isinstance(value, msgspec.msgpack.Ext) else value


def _correlation(data: bytes) -> tuple[int | None, bytes]:
    if _NUMBER.fullmatch(data) and -(1 << 63) <= int(data) < 1 << 64:
        return int(data), b""
    return None, data


def _correlation_bytes(properties: Properties) -> bytes:
    if properties.correlation_id is not None:
        return str(properties.correlation_id).encode()
    return (properties.foreign or _NONE).correlation


# --- AMQP


def from_amqp(given: Any, reply: Spell) -> tuple[Properties, bool]:
    """The properties that an AMQP client sent, and whether it is to be retained.

    `given` has the attributes of `pika.BasicProperties`. `reply` reads a reply queue.
    """
    headers = {_text(name): _plain(value) for name, value in (given.headers or {}).items()}
    retained = bool(headers.pop(RETAINED, False))
    headers.pop(AGAIN, None)
    number, other = _correlation(_bytes(given.correlation_id)) if given.correlation_id else (None, b"")
    fields: dict[str, Any] = {}
    for key, field in _OUR_HEADERS if headers else ():
        if isinstance(headers.get(key), str):
            fields[field] = headers.pop(key)
    fields |= {name: _text(text) for name in _NAMED if (text := getattr(given, name))}
    fields["user_id"] = _text(given.user_id) or str(headers.pop(_key("user_id"), ""))
    once = headers.pop(_key("qos"), 1) == 2
    foreign = _foreign(
        fields,
        correlation=other,
        qos=(2 if once else 1) if given.delivery_mode == 2 else 0,
        utf8=None if (utf8 := headers.pop(_key("utf8"), None)) is None else bool(utf8),
    )
    properties = Properties(
        correlation_id=number,
        reply_to=reply(_text(given.reply_to)) if given.reply_to else "",
        expires_in=_milliseconds(_text(given.expiration)) if given.expiration else 0,
        timestamp=int(given.timestamp or 0),
        priority=int(given.priority or 0),
        headers=headers,
        foreign=foreign,
        **fields,
    )
    return properties, retained


def to_amqp(properties: Properties, retained: bool, reply: Spell, again: bool = False) -> dict[str, Any]:
    """The arguments of `pika.BasicProperties` for an AMQP client. `reply` spells a reply queue.

    `again`: the client may have been given it before.
    """
    foreign = properties.foreign or _NONE
    headers: dict[str, Any] = {
        name: _sayable(value) for name, value in properties.headers.items() if name not in _NOT_GIVEN
    }
    if _DEATHS in headers and not _are_deaths(headers[_DEATHS]):
        headers[_DEATHS] = msgspec.json.encode(headers[_DEATHS]).decode()
    headers |= {_key(field): value for field in _OURS if (value := getattr(properties, field))}
    headers |= {_key("user_id"): foreign.user_id} if foreign.user_id else {}
    headers |= {RETAINED: True} if retained else {}
    headers |= {AGAIN: True} if again else {}
    headers |= {} if foreign.utf8 is None else {_key("utf8"): foreign.utf8}
    headers |= {_key("qos"): 2} if foreign.qos == 2 else {}
    correlation = _correlation_bytes(properties)
    fits = len(correlation) <= _SHORT
    given = {
        "headers": headers or None,
        "delivery_mode": 2 if foreign.qos else 1,
        "correlation_id": _readable(correlation) if correlation and fits else None,
        "reply_to": _short(reply(properties.reply_to)) if properties.reply_to else None,
        "expiration": _expiration(properties.expires_in),
        "timestamp": properties.timestamp if properties.timestamp > 0 else None,
        "priority": min(max(properties.priority, 0), _MAX_PRIORITY) or None,
    }
    for name in ("message_id", "content_type"):
        given[name] = _short(getattr(properties, name))
    for name in ("type", "app_id", "content_encoding"):
        given[name] = _short(getattr(foreign, name))
    return {name: value for name, value in given.items() if value is not None}


def _are_deaths(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list)
        and all(
            isinstance(each, dict)
            and all(type(each.get(name)) is kind for name, kind in _DEATH.items())
            and all(isinstance(key, str) for key in each["routing-keys"])
            and isinstance(each.get("time"), datetime)
            for each in value
        )
    )


def _plain(value: Any) -> Any:
    """A header's value as it can travel: the types of AMQP but decimals, which become text.

    Wrinkle: pika's integers are of a type of its own.
    """
    if isinstance(value, bool | str | float | bytes) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, dict):
        return {_text(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return bytes(value) if isinstance(value, bytearray) else str(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value or "").encode()


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _short(text: str) -> str | None:
    """A short string of AMQP; what is longer has no place there."""
    return text if text and len(text.encode()) <= _SHORT else None


def _readable(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _expiration(milliseconds: int) -> str | None:
    """RabbitMQ closes the channel on more than 32 bits, which are 49 days: such a message does not expire."""
    return str(milliseconds) if 0 < milliseconds <= _MAX_EXPIRATION else None


def _milliseconds(text: str) -> int:
    return max(int(text), 1) if re.fullmatch(r"[0-9]{1,15}", text) else 0
