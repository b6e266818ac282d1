"""Right inputs of each parser, and what spoils one field of them and lets the rest fit."""

import zlib
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import dns.message
import msgspec
import pika.frame as amqp
from mutation import packed
from pika import BasicProperties, spec

from bridges import certificates
from bridges.dns import multicast
from bridges.dns.records import NamedParent
from broker.advisory_log import LogRow
from broker.enrolment import tokens
from config.reference import reference_xml, reference_yaml
from sapwood.protocol import bundles, packets, session_frames
from sapwood.protocol.bundles import Flag, Header, Message, Properties
from sapwood.protocol.destinations import Kind as Sort
from sapwood.protocol.destinations import queue, topic
from sapwood.protocol.session_frames import (
    VERSION,
    Acknowledge,
    Create,
    Deliver,
    Login,
    Send,
    Subscribe,
    Welcome,
)
from treeconnector import frames, permits
from treeconnector.frames import Advice, Position

ROOT: Final = Path(__file__).parents[2]
HELLO: Final = frames.Hello(
    version=1,
    oldest=1,
    tree="test",
    name="york",
    role="leaf",
    store_id=b"s" * 16,
    start=1,
    incarnation=b"i" * 16,
    nonce=b"n" * 32,
    max_frame=65_536,
    max_message=1 << 20,
    window_bundles=8,
    window_bytes=1 << 20,
    chain=["york"],
    addresses=["ws://york:7600/link"],
    mesh=[frames.Member("leeds", ["ws://leeds:7600/link"])],
)
PLAIN: Final = bundles.join(
    [
        bundles.encode_message(Message(b"tea", Properties(correlation_id=7, reply_to="answers@york"))),
        bundles.encode_message(
            Message(
                b"x" * 400, Properties(headers={"a": [1, "b", {"c": None}]}, foreign=bundles.Foreign(qos=2))
            )
        ),
    ]
)
HEADER: Final = Header(
    id=b"\x07" * 16, destination=queue("till"), flags=Flag.PERSISTENT, count=2, size=len(PLAIN), origin="york"
)
ENCODED: Final = bundles.encode_header(HEADER)
COMPRESSED: Final = bundles.encode_header(
    msgspec.structs.replace(HEADER, flags=Flag.PERSISTENT | Flag.COMPRESSED, count=6, size=len(PLAIN) * 3)
)
GRANT: Final = permits.Grant("hq", "york", ["prices/#"], ["queue:orders", "stock@hq"], ["york-*"])
FRAMES: Final[tuple[frames.Frame, ...]] = (
    HELLO,
    frames.Prove(proof=b"p" * 32, position=Position(1, 2, 3, 1, 5, 6), held_count=1, held_digest=b"d" * 16),
    frames.Ping(3),
    frames.Advise([Advice("add", Sort.QUEUE, "till", "york", "c-1"), Advice("add", Sort.TOPIC, "a/+/#")]),
    frames.SnapshotBegin(1),
    frames.SnapshotEnd(b"d" * 16),
    frames.Bundle(1, ENCODED, PLAIN),
    frames.Part(1, ENCODED, len(ENCODED) + len(PLAIN), 0, PLAIN[:100]),
    frames.Volatile(ENCODED, PLAIN),
    frames.Ack(1),
    frames.Hold("queue:till"),
    frames.Release("queue:till"),
    frames.Declined([queue("a"), topic("a/#")], "too many"),
    frames.WhoHas(["york", "0" * 36]),
    frames.IHave([frames.Whereabouts("york", b"i" * 16, ["ws://york:7600"])]),
    frames.Invalidate([b"i" * 16]),
    frames.Nobody(["york"], "unknown"),
    frames.Mesh([frames.Member("leeds", [])], ["bath"]),
    frames.Given([(b"b" * 16, b"d" * 16)]),
    frames.Granted(permits.pack([GRANT])),
    frames.Moved("york"),
    frames.Conflict("york", "twice"),
    frames.Chain(["york", "hq"]),
    frames.Refuse("busy", "later"),
    frames.Pause("stops"),
    frames.Goodbye(""),
    frames.AskInterest(["prices/tea"], ["prices/oil"]),
    frames.TellInterest(["prices/tea"], ["prices/oil"], ["prices/salt"]),
    frames.StreamOpen(1, "hq", "log", "york", b"c" * 16, 1),
    frames.StreamOpened(2),
    frames.StreamData(1, b"bytes"),
    frames.StreamCredit(1, 16_384),
    frames.StreamEnd(1),
    frames.StreamReset(1, "refused", "no"),
)
STREAMED: Final = FRAMES[-6:]
PACKETS: Final = tuple(packets.packet([frames.encode(frame)]) for frame in FRAMES)
TALK: Final = (
    msgspec.msgpack.encode(PACKETS[2:8]),
    msgspec.msgpack.encode(PACKETS[8:16]),
    msgspec.msgpack.encode(PACKETS[16:20]),
    msgspec.msgpack.encode(
        [packets.packet([frames.encode(each)]) for each in (FRAMES[6], frames.Ack(1), FRAMES[9])]
    ),
    msgspec.msgpack.encode(
        [packets.packet([frames.encode(each) for each in STREAMED if each != STREAMED[1]])]
    ),
    msgspec.msgpack.encode(
        [packets.packet([frames.encode(each)]) for each in (*STREAMED[::2], STREAMED[0], *STREAMED[2:])]
    ),
    *(msgspec.msgpack.encode([packet]) for packet in PACKETS),
)


def framed(header: bytes, body: bytes) -> bytes:
    return (len(header) & 0xFFFF).to_bytes(2, "big") + header + body


def bundle_spoil(random: Any, data: bytes) -> bytes:
    """Spoil a field of the header, or a message, and let the sizes fit."""
    size = int.from_bytes(data[:2], "big")
    header, body = data[2 : 2 + size], data[2 + size :]
    if random.random() < 0.4:
        return framed(header[:1] + packed(random, header[1:]), body)
    messages = msgspec.msgpack.encode([])
    try:
        messages = msgspec.msgpack.encode(msgspec.msgpack.decode(b"\x92" + body))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return framed(header, packed(random, body))
    plain = packed(random, messages)[1:]
    told = msgspec.structs.replace(HEADER, size=len(plain))
    if random.random() < 0.3:
        plain, flag = bundles.compress(plain * random.choice((1, 20)))
        told = msgspec.structs.replace(told, flags=Flag.PERSISTENT | flag)
    return framed(bundles.encode_header(told), plain)


def talk_spoil(random: Any, data: bytes) -> bytes:
    """Spoil one of several packets of a link, or their order."""
    return _spoiled(random, data, PACKETS)


def session_spoil(random: Any, data: bytes) -> bytes:
    """The same of a session."""
    return _spoiled(random, data, SAID)


def _spoiled(random: Any, data: bytes, packets: Sequence[bytes]) -> bytes:
    try:
        said = msgspec.msgpack.decode(data, type=list[bytes])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data
    if said and random.random() < 0.7:
        at = random.randrange(len(said))
        said[at] = packed(random, said[at])
    else:
        said.insert(random.randint(0, len(said)), random.choice(packets))
    return msgspec.msgpack.encode(said)


SENT: Final = bundles.encode_message(Message(b"tea", Properties(reply_to="answers", expires_in=1000)))
SAID: Final = tuple(
    session_frames.encode_packet([frame])
    for frame in (
        Login(VERSION, "till-1", "secret", "producer"),
        Create(1, "orders", home=True),
        Subscribe(2, 1, queue("orders"), 100),
        Subscribe(3, 2, topic("prices/+/#"), 100, "durable"),
        Send(1, queue("orders"), 1, SENT),
        Send(2, topic("prices/tea"), 1, SENT, retained=True, scope=1, tell=True),
        Acknowledge([(1, 1), (2, 5)]),
        session_frames.SessionPing(1),
        session_frames.Unsubscribe(4, 1),
        session_frames.EndSubscription(5, "durable"),
    )
)
HEARD: Final = tuple(
    session_frames.encode_packet([frame])
    for frame in (
        Welcome("hq", "till-1", 3, 1 << 20, [session_frames.Reject(1, 2, "QUEUE_FULL", "full")]),
        session_frames.Done(1, "orders"),
        session_frames.Failed(0, "REFUSED", "no"),
        session_frames.Confirm(3),
        Deliver(1, queue("orders"), 1, 1, b"b" * 16, 0, 1, len(SENT), SENT, skip=b"\x01"),
        session_frames.SessionPong(1),
        session_frames.ReadingEnded(1, "NOT_FOUND", "gone"),
    )
)
HEADS: Final = (
    b"GET /login/till%201 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x",
    b"POST /send/q\xc3\xbc/5?x HTTP/1.1\r\nContent-Length: 12\r\nConnection: keep-alive\r\nX-Reply-To: a",
    b"GET http://h:1/transfer/-1/0 HTTP/1.0\r\nconnection: Keep-Alive, Upgrade\r\nUpgrade: websocket",
    b"PUT /api/status HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nCookie: a=b; c=d",
)
CHUNKED: Final = (
    b"\x00" + b"5\r\nhello\r\n3;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
    b"\x03" + b"1\r\na\r\n0\r\n\r\nrest",
)


def string(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def mqtt_packet(first: int, body: bytes) -> bytes:
    return bytes([first, len(body)]) + body


MQTT: Final = tuple(
    bytes([piece]) + packet
    for packet in (
        mqtt_packet(
            0x10,
            string(b"MQTT") + b"\x04\xee\x00\x3c" + b"".join(map(string, (b"c", b"w", b"p", b"u", b"s"))),
        ),
        mqtt_packet(0x10, string(b"MQTT") + b"\x04\x02\x00\x00" + string(b"")),
        mqtt_packet(0x32, string(b"prices/tea") + b"\x00\x01payload"),
        mqtt_packet(
            0x82, b"\x00\x02" + string(b"prices/#") + b"\x01" + string(b"$share/g/queue/a") + b"\x00"
        ),
        mqtt_packet(0xA2, b"\x00\x03" + string(b"prices/#")),
        b"\x40\x02\x00\x01\x50\x02\x00\x01\x62\x02\x00\x01\x70\x02\x00\x01\xc0\x00\xe0\x00",
    )
    for piece in (0, 3)
)
AMQP: Final = tuple(
    bytes([piece]) + b"".join(frame.marshal() for frame in said)
    for said in (
        (
            amqp.Method(1, spec.Basic.Deliver("reader", 7, True, "prices", "a.b")),
            amqp.Header(1, 4, BasicProperties(headers={"a": 1, "b": [True, {"c": "d"}]}, message_id="m")),
            amqp.Body(1, b"te"),
            amqp.Body(1, b"a!"),
        ),
        (
            amqp.Method(1, spec.Basic.Deliver("r", 8, False, "", "k")),
            amqp.Header(1, 0, BasicProperties(priority=1)),
        ),
        (amqp.Method(2, spec.Basic.Ack(1, True)), amqp.Method(2, spec.Basic.Nack(2)), amqp.Heartbeat()),
    )
    for piece in (0, 3)
)
SITE_WORDS: Final = tuple(
    word.encode()
    for word in (
        *reference_yaml().replace(":", " ").split()[:400],
        "&a",
        "*a",
        "!!x",
        "<<",
        "|",
        ">",
        "- ",
        "? ",
    )
)
XML_WORDS: Final = (
    b"<!DOCTYPE a>",
    b"<!ENTITY a 'b'>",
    b"&amp;",
    b"&a;",
    b"<![CDATA[",
    b"]]>",
    b"<?a?>",
    b"/>",
    b"<a>",
)


def parts_of(text: str, begin: str, indent: int) -> tuple[bytes, ...]:
    """Each key of a file's only section by itself, behind `begin`, without comments: a reader takes a small
    file a hundred times as often as a large one.
    """
    lines = [line for line in text.split(begin, 1)[1].splitlines() if line.strip()[:1] not in ("", "#")]
    parts: list[list[str]] = []
    for line in lines:
        if line[indent : indent + 1].strip():
            parts.append([])
        parts[-1].append(line)
    return tuple("\n".join((begin, *part, "")).encode() for part in parts)


SITE_XML: Final = (
    b'<broker name="york" tree="acme"><listener port="7601"/><treeConnectors><treeConnector nodetype="leaf"'
    b' uri="wss://hq:7600/link"/></treeConnectors></broker>',
    reference_xml().encode(),
)
SITE_YAML: Final = (
    b"broker:\n  name: york\n  tree: acme\n  tree_connectors: [{nodetype: branch, uri: 'wss://hq:7600/link'}]\n"
    b"  permits: {consume: ['prices/#'], send: ['store/{name}/#', 'stock@hq']}\n",
    reference_yaml().encode(),
    *parts_of(reference_yaml(), "\nbroker:", 2),
)
ROW: Final = LogRow(
    event="advisory", at="2026-01-01T00:00:00.000000Z", tree="t", node="york", role="leaf", op="add"
)
LOG: Final = msgspec.json.encode(ROW) + b"\n"
DATABASE: Final = (
    b"\x00\xb5\x00mosquitto db" + (0).to_bytes(4, "big") + (6).to_bytes(4, "big")
    + (5).to_bytes(4, "big") + (10 + 5 + 8).to_bytes(4, "big")  # a chunk of kind 5 and its length
    + (0).to_bytes(4, "big") + (3).to_bytes(2, "big") + (8).to_bytes(2, "big") + b"\x01\x00\x00\x00"
    + b"tilprices/#"
)  # fmt: skip
CONVERTED: Final = (
    b"connection bridge\naddress hq:1883\ntopic prices/# in 1 a/ b/\nremote_username u\n",
    b'{"vhosts": [{"name": "/"}], "parameters": [{"component": "shovel", "name": "s", "vhost": "/", "value":'
    b' {"src-uri": "amqp://a", "dest-uri": "amqp://b", "src-queue": "q", "dest-queue": "q"}}]}',
    b'<broker xmlns="http://activemq.apache.org/schema/core" brokerName="york"><networkConnectors>'
    b'<networkConnector name="n" uri="static:(tcp://hq:61616)" duplex="true"/></networkConnectors></broker>',
)
_ASKED: Final = dns.message.make_query("_sapwood._tcp.local.", "PTR").to_wire()
_WAY: Final = NamedParent("ws://hq:7600/link", tree="acme", node="hq")
MULTICAST: Final = (_ASKED, multicast.answer_to(_ASKED, lambda: [_WAY]))
_STORES: Final = (ROOT / "examples/retail/stores.csv").read_bytes()
TABLE: Final = (_STORES, b"".join(_STORES.splitlines(keepends=True)[:4]))
_RETAIL: Final = (ROOT / "examples/retail/workload.yaml").read_text()
WORKLOAD: Final = (_RETAIL.encode(), *parts_of(_RETAIL, "\nworkload:", 2))
KEY: Final = certificates.make_key()
TOKEN: Final = tokens.write_token(
    tokens.Invitation("t", "york", "leaf", "hq", ("wss://hq",), b"f" * 32, b"i" * 8, b"s" * 16, 2_000_000_000)
)


def token_spoil(random: Any, data: bytes) -> bytes:
    """Spoil what is in a token, with a right checksum."""
    inside = packed(random, msgspec.msgpack.encode(tokens.read_token(TOKEN)))
    checked = inside + zlib.crc32(inside).to_bytes(4, "big")
    return b"sapwood1-" + urlsafe_b64encode(checked).rstrip(b"=")
