"""What a node makes of bundles that neighbours hand over, and how long it knows them again."""

import msgspec
import pytest

from broker.core.messages import deduplication
from broker.core.rows import SeenRow
from sapwood.protocol.bundles import (
    Flag,
    Header,
    Message,
    compress,
    decode_header,
    encode_header,
    encode_message,
    unpack,
)
from sapwood.protocol.destinations import Destination, Kind, queue
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.advisories import Limits
from treeconnector.frames import Advice


@pytest.fixture
def hq(forest: Forest) -> Site:
    hq = forest.add("hq")
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle()
    return hq


def test_a_bundle_that_would_unpack_to_more_than_a_message_may_have_is_buried(
    forest: Forest, hq: Site
) -> None:
    limit = hq.core.settings.max_message
    flags = Flag.PERSISTENT | Flag.COMPRESSED
    for size in (limit, limit + 1):
        header = Header(id=b"i" * 16, destination=queue("sales"), flags=flags, size=size, origin="york")
        hq.core.arrivals.from_neighbour(hq.core.neighbours["york"], header, b"small")
    forest.settle()
    notes = [letter.note for letter in hq.core.custody.dead.waiting]
    assert [note.partition(":")[0] for note in notes] == ["UNREADABLE", "TOO_LARGE"]


@pytest.mark.parametrize(
    "destination",
    [
        Destination(Kind.QUEUE, "a\x01b"),
        Destination(Kind.QUEUE, "a" * 300),
        Destination(Kind.QUEUE, "a@b"),
        Destination(Kind.QUEUE, "a", "no:node"),
        Destination(Kind.TOPIC, "a/#"),
        Destination(Kind.TOPIC, "a", "york\n"),
    ],
)
def test_a_destination_that_is_none_is_buried_and_the_node_starts_again(
    forest: Forest, hq: Site, destination: Destination
) -> None:
    """Its place would be named after it, and the next start reads that name."""
    header = Header(id=b"i" * 16, destination=destination, flags=Flag.PERSISTENT, origin="york")
    hq.core.arrivals.from_neighbour(hq.core.neighbours["york"], header, b"")
    forest.settle()
    hq.crash()
    hq.boot()
    assert [letter.note.partition(":")[0] for letter in hq.core.custody.dead.waiting] == ["DESTINATION"]


def test_a_neighbour_that_goes_on_after_its_limit_is_told_so(forest: Forest, hq: Site) -> None:
    """Not by the link's own rules, but it is a refusal all the same, with the reason at both ends."""
    hq.core.neighbours["york"].held._limits = Limits(routes=1, declined=1)
    york = forest["york"]
    link = york.core.neighbours["hq"].link
    assert link is not None
    for number in range(3):
        link.say.advise([Advice("add", Kind.QUEUE, f"q{number}{part}", "york", "test") for part in "ab"])
        forest.settle()
    assert not hq.core.neighbours["york"].up
    assert any("goes on after" in text for text in york.errors), york.errors


def test_only_the_latest_are_known_again(forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication, "_MOST_SEEN", 3)
    producer, reader = forest.producer("hq"), forest.consumer("hq", "queue:sales")
    for number in range(5):
        producer.send("queue:sales", b"%d" % number)
        forest.settle()
    bundles = [receipt.bundle + b"hq" for receipt in reader.receipts]
    forest.settle(2.0)
    assert [bundle in hq.core.arrivals.seen for bundle in bundles] == [False, False, True, True, True]
    assert {row.bundle for row in hq.disk.rows(SeenRow)} == set(bundles[2:])


def test_a_child_that_claims_the_name_of_a_linked_one_gets_nothing_of_it(forest: Forest, hq: Site) -> None:
    forest.add("evil", "hq")
    forest.dial_all()
    forest.settle()
    link = forest["evil"].core.neighbours["hq"].link
    assert link is not None
    forest.pass_time(0.1)
    link.say.advise([Advice("add", Kind.DOMAIN, "york", "york", "test")])
    forest.settle()
    producer = forest.producer("hq")
    for number in range(20):
        producer.send("queue:till@york", b"%d" % number)
        forest.settle()
    reader = forest.consumer("york", "queue:till@york")
    forest.settle()
    assert len(reader.payloads) == 20
    assert forest["evil"].waiting() == 0


def test_a_bundle_of_which_nothing_is_left_does_not_stay(forest: Forest, hq: Site) -> None:
    header = Header(
        id=b"i" * 16, destination=queue("sales"), flags=1, count=9, origin="york", done=b"\xff\x01"
    )
    hq.core.arrivals.from_neighbour(hq.core.neighbours["york"], header, b"")
    forest.settle()
    assert not hq.core.custody.dead.waiting
    assert hq.waiting() == 0
    assert not hq.disk.bundles


def _header(body: bytes, **changes: object) -> Header:
    fields = {"id": b"i" * 16, "destination": queue("sales"), "flags": Flag.PERSISTENT, "size": len(body)}
    return Header(**(fields | {"origin": "york"} | changes))  # type: ignore[arg-type]


GOOD = encode_message(Message(b"good"))
_squeezed, _flag = compress(GOOD * 64)
POISON = {
    "no messages at all": (b"\xff" * 8, {}),
    "fewer than it says": (GOOD, {"count": 2}),
    "more than it says": (GOOD * 2, {"count": 1}),
    "another size than it says": (GOOD, {"size": 1}),
    "a payload that is a number": (msgspec.msgpack.encode([7, {}]), {}),
    "a property of another type": (msgspec.msgpack.encode([b"x", {"reply-to": 7}]), {}),
    "a text that is none": (b"\x92\xc4\x01x\x81\xa8reply-to\xa1\xff", {}),
    "not compressed as it says": (GOOD, {"flags": Flag.PERSISTENT | Flag.COMPRESSED}),
    "compressed, and cut": (
        _squeezed[:-5],
        {"flags": Flag.PERSISTENT | _flag, "count": 64, "size": len(GOOD) * 64},
    ),
}


@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("comes_from", ["york", "hq", "c2"])
def test_what_cannot_be_read_is_refused_by_the_first_node_that_gets_it(
    forest: Forest, comes_from: str, poison: str
) -> None:
    """From a child, a parent, a node of the mesh: nobody has permits here. The link goes on."""
    if comes_from == "c2":
        forest.add_mesh("c1", "c2")
        here, reads = "c1", "c2"
    else:
        forest.add("hq")
        forest.add("york", "hq", "leaf")
        here, reads = ("hq", "york") if comes_from == "york" else ("york", "york")
    forest.heal(3)
    reader = forest.consumer(reads, "queue:sales", auto=False)
    forest.settle(1.0)
    body, changes = POISON[poison]
    node = forest[here].core
    node.arrivals.from_neighbour(node.neighbours[comes_from], _header(body, **changes), body)
    forest.producer(comes_from).send("queue:sales", b"behind it")
    forest.settle(1.0)
    assert reader.payloads == [b"behind it"]
    assert [letter.note.partition(":")[0] for letter in node.custody.dead.waiting] == ["UNREADABLE"]
    assert node.custody.buried["UNREADABLE"] >= 1
    assert node.counters["refused"] == 1
    assert node.neighbours[comes_from].up


def test_what_a_later_version_has_added_goes_through_as_it_came(forest: Forest, hq: Site) -> None:
    """A header with one more field, a message with one more, a property that nobody knows here."""
    body = msgspec.msgpack.encode([b"new", {"reply-to": "back", "colour": [1, 2]}, "more"])
    header = _header(body)
    encoded = b"\x02" + msgspec.msgpack.encode(
        [*msgspec.msgpack.decode(encode_header(header)[1:]), {"later": 1}]
    )
    below = forest.add("leeds", "hq", "leaf").core
    forest.heal(2)
    reader = forest.consumer("leeds", "queue:sales", auto=False)
    forest.settle(1.0)
    assert decode_header(encoded) == header
    kept: list[tuple[bytes, bytes | None]] = []
    below.arrivals.taps.append(lambda stored: kept.append((stored.head, stored.body)))
    hq.core.arrivals.from_neighbour(hq.core.neighbours["york"], header, body, encoded)
    forest.settle(1.0)
    assert reader.payloads == [b"new"]
    assert kept == [(encoded, body)]
    assert unpack(header, body)[0].properties.reply_to == "back"
