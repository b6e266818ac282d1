"""How each parser is tried on bytes: as the node, the client library or the command line use it."""

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pika
from mutation import MOST

from bridges import certificates, properties
from bridges.amqp.connection import _UNSPEAKABLE as UNSPEAKABLE
from bridges.amqp.frames import ContentReader
from bridges.certificates import CertificateError
from bridges.dns import multicast, records
from bridges.mqtt.readers import PacketReader
from bridges.mqtt.texts import unescaped
from bridges.site_brokers.mosquitto import log_lines, session_takeover
from broker.advisory_log import read_log
from broker.api import pages
from broker.cli.errors import CommandError
from broker.cli.http import node_url
from broker.core.errors import BadRequest
from broker.http import heads
from config import uris, values
from config.kinds import Fault, Kind
from sapwood import rpc_messages
from sapwood.address import session_uri
from sapwood.errors import BadReply, ConnectFailed, ServiceError
from sapwood.protocol import bundles, session_frames
from sapwood.protocol.bundles import Header, Message
from sapwood.protocol.destinations import parse
from sapwood.protocol.errors import InvalidName, PatternError
from sapwood.protocol.session_frames import (
    Deliver,
)
from treeconnector import frames, hellos, patterns, permits
from treeconnector.incoming import decode_packet

Errors = tuple[type[Exception], ...]


class Pieces(NamedTuple):
    """How a stream comes: whole, or in pieces of so many bytes."""

    data: bytes
    size: int

    @classmethod
    def of(cls, data: bytes) -> "Pieces":
        """The first byte says it."""
        return cls(data[1:], (data[0] if data else 0) or len(data) + 1)

    def __iter__(self) -> Any:
        return (self.data[at : at + self.size] for at in range(0, len(self.data), self.size))


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def read_packet(data: bytes) -> None:
    for frame in decode_packet(data, MOST):
        if isinstance(frame, frames.Hello):
            hellos.check(frame)


def read_bundle(data: bytes) -> None:
    """Two bytes say how long the header is."""
    size = int.from_bytes(data[:2], "big")
    header = bundles.decode_header(data[2 : 2 + size])
    for message in bundles.unpack(header, data[2 + size :]):
        properties.to_mqtt(message.properties, str)
        with contextlib.suppress(*UNSPEAKABLE):  # a publisher refuses the message then
            pika.BasicProperties(**properties.to_amqp(message.properties, False, str)).encode()


def read_deliver(data: bytes) -> None:
    """As the client library takes it."""
    for frame in session_frames.decode_node_packet(data):
        if isinstance(frame, Deliver):
            header = Header(
                id=frame.bundle, destination=frame.destination, count=frame.count, size=frame.size
            )
            bundles.unpack(header, frame.body)


def read_head(data: bytes) -> None:
    head = heads.read_head(data)
    heads.verb_of(head.target)
    heads.mended(data + heads.END)
    heads.with_length(head.fields, 5)
    heads.without_length(head.fields)
    heads.parts_of(heads.path_of(head.target))


def read_chunks(data: bytes) -> None:
    chunks, rest = heads.Chunks(10_000), bytearray()
    for piece in Pieces.of(data):
        rest += piece
        if chunks.take(rest):
            return
    assert len(chunks.body) <= 10_000


def read_mqtt(data: bytes) -> None:
    reader = PacketReader(16_384)
    for piece in Pieces.of(data):
        for _ in reader.feed(piece):
            pass


def read_amqp(data: bytes) -> None:
    reader = ContentReader(16_384)
    for piece in Pieces.of(data):
        for _ in reader.feed(piece):
            pass


FOLDER: Final = Path(tempfile.mkdtemp(prefix="sapwood-hostile-", dir="/dev/shm"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def written(data: bytes) -> object:
        file = FOLDER / name
        file.touch(0o600)
        file.write_bytes(data)
        return read(file)

    return written


def in_log(suffix: str) -> Callable[[bytes], object]:
    folder = FOLDER / f"logs{suffix}"
    folder.mkdir(exist_ok=True)

    def read(data: bytes) -> object:
        (folder / f"york.advisories{suffix}").write_bytes(data)
        return list(read_log(folder, "york"))

    return read


KINDS: Final[tuple[Kind[Any], ...]] = tuple(
    kind for module in (uris, values) for kind in vars(module).values() if isinstance(kind, Kind)
)


def read_words(data: bytes) -> None:
    """What a line of text may be, each by itself: patterns, destinations, rules, settings."""
    text = text_of(data)
    tried: tuple[tuple[Callable[[str], object], Errors], ...] = (
        (lambda text: patterns.to_amqp(patterns.check_pattern(text)), (PatternError,)),
        (lambda text: patterns.to_mqtt(patterns.from_mqtt(text)), (PatternError,)),
        (lambda text: patterns.to_amqp(patterns.from_amqp(text)), (PatternError,)),
        (lambda text: patterns.to_amqp(patterns.topic_from_amqp(text)), (PatternError,)),
        (parse, (InvalidName,)),
        (permits.read_rule, (PatternError,)),
        (lambda text: permits.read_rule(text, cells=False), (PatternError,)),
        (pages.key_of, (BadRequest,)),
        (session_uri, (ConnectFailed,)),
        (node_url, (CommandError,)),
        (lambda text: unescaped("sapwood-json-a", text), ()),
        *((kind.parse, (Fault,)) for kind in KINDS),
    )
    for read, errors in tried:
        try:
            read(text)
        except errors:
            continue


def read_multicast(data: bytes) -> None:
    """As an answer to a question of ours, and as a question of somebody else."""
    asker = multicast.Asker()
    asker.datagram_received(asker._question.to_wire()[:2] + data[2:], ("192.0.2.1", 5353))
    assert len(asker.in_turn()) <= multicast.MOST_WAYS_OF_ONE
    assert len(asker.notes.all()) <= records.MOST_NOTES + 1
    answer = multicast.answer_to(data, lambda: [records.NamedParent("ws://hq:7600/link", node="hq")])
    assert len(answer) <= multicast.LARGEST_PACKET


def read_dns(data: bytes) -> None:
    """One record a line: SRV as 'priority weight port host', TXT as the rest."""
    services, texts = [], []
    for line in data.split(b"\n"):
        words = line.split(b" ", 3)
        if len(words) == 4 and all(word.isdigit() and len(word) < 6 for word in words[:3]):
            numbers = [int(word) % 65_536 for word in words[:3]]
            services.append(records.Service(*numbers, text_of(words[3]).encode(errors="replace").decode()))
        else:
            texts.append(
                [line[at : at + 255] for at in range(0, len(line), 255)]
                if b"|" not in line
                else line.split(b"|")
            )
    notes = records.Notes()
    found = records.places(services, texts, notes)
    assert len(found) <= records.MOST
    assert len(notes.all()) <= records.MOST_NOTES + 1
    for place in found:
        uris.ANNOUNCED_URI.parse(place.uri)


def read_rpc(data: bytes) -> None:
    for read in (rpc_messages.decode_request, rpc_messages.decode_reply):
        try:
            read(data)
        except (ServiceError, BadReply):
            continue


def read_certificates(data: bytes) -> None:
    reads: tuple[Callable[[bytes], object], ...] = (
        certificates.read_request,
        certificates.facts,
        certificates.split,
        certificates.fingerprint,
    )
    for read in reads:
        try:
            read(data)
        except CertificateError:
            continue


def read_mosquitto_line(data: bytes) -> None:
    topic_name, _, payload = data.partition(b"|")
    log_lines.read(text_of(topic_name), payload, {"till"}, None)
    log_lines.colons(payload, "till")
    session_takeover.read(payload)


def read_from_mqtt(data: bytes) -> None:
    """Properties as a broker gives them: texts of MQTT, in any number."""
    texts = [text.encode(errors="replace").decode() for text in text_of(data).split("\n")]
    user = list(zip(texts[2::2], texts[3::2], strict=False))
    given = properties.MqttProperties(texts[0], texts[-1], data[:300], user, len(texts), True)
    made = properties.from_mqtt(given, 1, str)
    bundles.encode_message(Message(b"", made))
