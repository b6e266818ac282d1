"""Every place where bytes from outside become values, with right inputs, and the errors that it may raise.

Law: what is here takes any bytes and returns, or raises one of its `errors`; nothing else, and soon. A parser
without errors has an answer to everything.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from mutation import MOST, Mutator, Spoil, json_text, packed
from readings import (
    Errors,
    in_file,
    in_log,
    read_amqp,
    read_bundle,
    read_certificates,
    read_chunks,
    read_deliver,
    read_dns,
    read_from_mqtt,
    read_head,
    read_mosquitto_line,
    read_mqtt,
    read_multicast,
    read_packet,
    read_rpc,
    read_words,
    text_of,
)
from worlds import CORE, SWITCH, World, play_link

from bridges import certificates
from bridges.amqp.errors import NotAmqp
from bridges.carriers.brokered import envelopes
from bridges.mqtt import packets as mqtt
from bridges.site_brokers.mosquitto import database, session_takeover
from broker.advisory_log import LogError
from broker.core.errors import BadRequest
from broker.enrolment import tokens
from broker.enrolment.errors import TokenError
from broker.http import heads
from config import convert, credentials, xml, yaml
from config.errors import ConfigurationError
from config.fleet import read_sites
from examples import (
    AMQP,
    CHUNKED,
    COMPRESSED,
    CONVERTED,
    DATABASE,
    ENCODED,
    GRANT,
    HEADS,
    HEARD,
    KEY,
    LOG,
    MQTT,
    MULTICAST,
    PACKETS,
    PLAIN,
    SAID,
    SITE_WORDS,
    SITE_XML,
    SITE_YAML,
    TABLE,
    TALK,
    TOKEN,
    WORKLOAD,
    XML_WORDS,
    bundle_spoil,
    framed,
    session_spoil,
    talk_spoil,
    token_spoil,
)
from sapwood.protocol import bundles, session_frames
from sapwood.protocol.errors import FrameError, InvalidName, PatternError
from simulation.workload import parse_workload
from treeconnector import permits


@dataclass(frozen=True)
class Parser:
    """`read` is tried. `share`: of a short run's inputs, since some take a thousand times as long as others.

    `world`: where `read` goes on from one input to the next, and a fault may need those before it.
    """

    name: str
    read: Callable[[bytes], object]
    errors: Errors
    examples: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    spoil: Spoil | None = None
    most: int = MOST
    share: float = 1.0
    world: World | None = None

    def mutator(self) -> Mutator:
        return Mutator(self.examples, self.words, self.spoil, self.most)


CONFIGURATION: Final[Errors] = (ConfigurationError,)
PARSERS: Final = (
    Parser("packet", read_packet, (FrameError,), PACKETS, spoil=packed),
    Parser("link", play_link, (), TALK, spoil=talk_spoil, share=0.1),
    Parser("core", CORE.play, (), TALK, spoil=talk_spoil, share=0.02, world=CORE),
    Parser(
        "header",
        bundles.decode_header,
        (FrameError,),
        (ENCODED, COMPRESSED),
        spoil=lambda r, d: d[:1] + packed(r, d[1:]),
    ),
    Parser(
        "bundle",
        read_bundle,
        (FrameError,),
        (framed(ENCODED, PLAIN), framed(COMPRESSED, bundles.compress(PLAIN * 3)[0])),
        spoil=bundle_spoil,
        share=0.3,
    ),
    Parser(
        "envelope",
        envelopes.decode,
        (FrameError,),
        tuple(
            map(
                envelopes.encode,
                (
                    envelopes.Knock(b"k" * 8, 65_536),
                    envelopes.Answer(b"n" * 16, 65_536),
                    envelopes.Packets(b"n" * 16, 1, [b"p"]),
                    envelopes.Taken(b"n" * 16, 1),
                    envelopes.End(b"n" * 16, 2, "over"),
                    envelopes.Gone(b"n" * 16),
                ),
            )
        ),
        spoil=packed,
    ),
    Parser("grants", permits.unpack, (PatternError, InvalidName), (permits.pack([GRANT]),), spoil=packed),
    Parser("session", session_frames.decode_client_packet, (FrameError,), SAID, spoil=packed),
    Parser("delivery", read_deliver, (FrameError,), HEARD, spoil=packed),
    Parser(
        "switch",
        SWITCH.play,
        (),
        (msgspec.msgpack.encode(SAID), *(msgspec.msgpack.encode([SAID[0], each]) for each in SAID)),
        spoil=session_spoil,
        share=0.1,
        world=SWITCH,
    ),
    Parser(
        "http",
        read_head,
        (heads.Malformed, BadRequest),
        HEADS,
        words=(b"Content-Length: ", b"Transfer-Encoding: chunked", b"HTTP/1.1", b"%2F", b"://"),
        most=heads.MAX_HEAD,
        share=0.5,
    ),
    Parser(
        "chunks",
        read_chunks,
        (heads.Malformed,),
        CHUNKED,
        words=(b"0\r\n\r\n", b"ffffffffffffff\r\n", b";a=b"),
    ),
    Parser(
        "mqtt",
        read_mqtt,
        (mqtt.PacketError, mqtt.WrongLevel),
        MQTT,
        words=(b"MQTT", b"MQIsdp", b"\xff\xff\xff\x7f", b"\x00\x00"),
    ),
    Parser("amqp", read_amqp, (NotAmqp,), AMQP, words=(b"\xce", b"\x00\x3c\x00\x3c", b"F\x00\x00", b"A\x00")),
    Parser("xml", xml.read, CONFIGURATION, SITE_XML, words=(*XML_WORDS, *SITE_WORDS), share=0.1),
    Parser("yaml", yaml.read, CONFIGURATION, SITE_YAML, words=SITE_WORDS, share=0.05),
    Parser("workload", parse_workload, CONFIGURATION, WORKLOAD, words=SITE_WORDS, share=0.05),
    Parser(
        "convert",
        lambda data: convert.convert(data, "f", name="york", tree="t"),
        CONFIGURATION,
        CONVERTED,
        words=(*XML_WORDS, b"start_type once", b"cleansession true"),
        share=0.1,
    ),
    Parser(
        "table",
        in_file("sites.csv", read_sites),
        CONFIGURATION,
        TABLE,
        words=(b'"', b";", b"\t"),
        share=0.02,
    ),
    Parser(
        "secrets",
        in_file("children", credentials.read_table),
        CONFIGURATION,
        (b"york secret words\n# none\nleeds\tother\n",),
        share=0.1,
    ),
    Parser("log", in_log(".jsonl"), (LogError,), (LOG * 3, LOG), spoil=json_text, share=0.1),
    Parser("packed log", in_log("-000001.jsonl.gz"), (LogError,), (gzip.compress(LOG * 30),), share=0.1),
    Parser(
        "database",
        in_file("m.db", lambda file: database.subscriptions(file, 100)),
        (database.DatabaseError,),
        (DATABASE,),
        share=0.1,
    ),
    Parser(
        "mosquitto",
        read_mosquitto_line,
        (),
        (
            b"$SYS/broker/log/M/subscribe|1700000000: till 1 prices/#",
            b"$SYS/broker/log/M/unsubscribe|1: till prices/#",
            b"$SYS/broker/log/N|1: New client connected from 1.2.3.4:5 as till (p2, c1, k60, u'x').",
            b"$SYS/broker/log/N|1: Client till closed its connection.",
            b"a|" + session_takeover.written({"prices/#": 1}),
        ),
        words=(b": ", b"Client ", b" 1 ", b" (p2, c1, k60)"),
        share=0.3,
    ),
    Parser(
        "properties",
        read_from_mqtt,
        (),
        (b'text/plain\nsapwood-message-id\nm\nsapwood-json-a\n"b"\nreply',),
        words=(b"sapwood-priority\n", b"sapwood-json-a\n[", b"[" * 2000),
    ),
    Parser(
        "words",
        read_words,
        (),
        (
            b"prices/+/#",
            b"a.*.#",
            b"queue:till@york",
            b"topic:a/b",
            b"store/{name}/#",
            b"#@uk-*",
            b"wss://hq:7600/link",
            b"2h30m",
            b"0.5",
            b"WzEsMl0",
        ),
        words=(b"%25", b"{name}", b"://", b"@", b"[" * 2000, b"W1tb" * 400),
        most=5000,
        share=0.1,
    ),
    Parser("multicast", read_multicast, (), MULTICAST, share=0.1),
    Parser(
        "dns",
        read_dns,
        (),
        (b"10 5 7600 hq.example\ntarget=hq.example:7600|carrier=wss|path=/link|lease=60|beat=a|node=hq",),
        words=(b"lease=", b"incarnation=", b"|", b"\n"),
        share=0.3,
    ),
    Parser(
        "rpc",
        read_rpc,
        (),
        (
            b'{"interface":"stock","version":1,"method":"find","parameters":{"a":[1]}}',
            b'{"result":{"a":1}}',
            b'{"error":{"code":"A","message":"b"}}',
        ),
        spoil=json_text,
    ),
    Parser(
        "token",
        lambda data: tokens.read_token(text_of(data)),
        (TokenError,),
        (TOKEN.encode(),),
        spoil=token_spoil,
    ),
    Parser(
        "certificate",
        read_certificates,
        (),
        (
            certificates.make_request(KEY, "york", "t"),
            certificates.Authority.certify(KEY, "york", "t", 1.7e9),
        ),
        words=(b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n"),
        share=0.02,
    ),
)
