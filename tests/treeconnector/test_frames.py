"""The codec: what goes in comes out, and no bytes whatever do harm."""

import tracemalloc

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from sapwood.protocol import packets as joining
from sapwood.protocol.destinations import Destination, Kind, queue
from sapwood.protocol.errors import FrameError
from sapwood.protocol.packets import packet, packets, pieces
from treeconnector import frames
from treeconnector.frames import Advice, Position, Unknown, encode
from treeconnector.incoming import decode_packet

HELLO = frames.Hello(
    version=1,
    oldest=1,
    tree="acme",
    name="store-1",
    role="leaf",
    store_id=b"s" * 16,
    start=3,
    incarnation=b"i" * 16,
    nonce=b"n" * 16,
    max_frame=65536,
    max_message=1 << 20,
    window_bundles=64,
    window_bytes=1 << 23,
    chain=["store-1", "uk"],
    addresses=["wss://store-1:7600/link"],
    zone="uk",
)
EXAMPLES = [
    HELLO,
    frames.Prove(proof=b"p" * 32, position=Position(1, 2, 3, 2, 5, 6), held_count=7, held_digest=b"d"),
    frames.Refuse("role", "no"),
    frames.Pause("p"),
    frames.Goodbye(),
    frames.Ping(1),
    frames.Pong(1),
    frames.Advise([Advice("add", Kind.TOPIC, "a/+", "store-1", "c1", 0)]),
    frames.SnapshotBegin(2),
    frames.SnapshotEnd(b"d"),
    frames.Bundle(1, b"h", b"body"),
    frames.Part(1, b"h", 10, 0, b"d"),
    frames.Volatile(b"h", b"b"),
    frames.Ack(9),
    frames.Hold("queue:a"),
    frames.Release(""),
    frames.Chain(["hq-1"], ["hq-2"]),
    frames.Chain(["hq"]),
    frames.Moved("store-2"),
    frames.Declined([queue("a"), Destination(Kind.QUEUE, "b", "n")], "why"),
    frames.Conflict("store-2", "twice"),
    frames.WhoHas(["store-2", "0123abcd-0123-4567-89ab-0123456789ab"]),
    frames.IHave([frames.Whereabouts("store-2", b"i" * 16, ["wss://store-2:7600/link"])]),
    frames.Invalidate([b"i" * 16]),
    frames.Nobody(["store-2"], "no such node"),
    frames.Granted(b"data", True),
    frames.Mesh([frames.Member("hq-2", ["wss://hq-2:7600/link"])]),
    frames.Mesh([], ["hq-3"]),
    frames.Authorities(b"certificates"),
    frames.Given([(b"b" * 16, b"d" * 16), (b"c" * 16, b"")]),
    frames.Given([(b"b" * 16, b"d" * 16), (b"c" * 16, b"")], True, [b"d" * 20]),
    frames.Given([(b"b" * 16, b"d" * 16), (b"c" * 16, b"")], False, [b"d" * 20], [b"\x06"]),
    frames.Given([(b"b" * 16, b"d" * 16), (b"c" * 16, b"")], False, [b"d" * 20], [b"\x06"], [2]),
    frames.AskInterest(["prices/milk"], ["prices/tea"]),
    frames.TellInterest(["prices/milk"], ["prices/tea"], ["prices/oil"]),
    frames.StreamOpen(1, "store-1", "till-web", "hq", b"c" * 16, 2),
    frames.StreamOpened(1),
    frames.StreamData(1, b"data"),
    frames.StreamCredit(1, 16384),
    frames.StreamEnd(1),
    frames.StreamReset(1, "refused", "why"),
]


def test_every_frame_has_an_example():
    assert {type(frame) for frame in EXAMPLES} == set(frames.AnyFrame.__args__)


@pytest.mark.parametrize("frame", EXAMPLES, ids=lambda frame: type(frame).__name__)
def test_what_goes_in_comes_out(frame):
    assert decode_packet(packet([encode(frame)]), 65536) == [frame]


def test_wire_format_is_what_it_was():
    """Neighbours of another version depend on these bytes."""
    assert packet([encode(frames.Ack(9)), encode(frames.Hold(""))]).hex() == "92920e09920fa0"
    tags = {type(frame).__name__: msgspec.msgpack.decode(encode(frame))[0] for frame in EXAMPLES}
    assert list(tags.values()) == [*range(1, 21), *range(70, 74), 80, *range(90, 95), *range(100, 106)]


@pytest.mark.parametrize("count", [1, 15, 16, 1000, 65535, 65536])
def test_packets_of_any_count(count):
    made = packets([encode(frames.Ping(1))] * count, 1 << 20)
    assert sum(len(decode_packet(each, 1 << 20)) for each in made) == count
    assert len(made) == (2 if count > 65535 else 1)


def test_packets_keep_order_and_size():
    encoded = [encode(frames.Bundle(n, b"h", b"x" * (n * 37 % 900))) for n in range(300)]
    made = packets(encoded, 1000)
    assert max(map(len, made)) <= 1000
    assert [frame.number for each in made for frame in decode_packet(each, 1000)] == list(range(300))


def test_an_oversized_packet_is_not_even_read():
    with pytest.raises(FrameError, match="a packet of 101 bytes: 100 at most"):
        decode_packet(b"\xc1" * 101, 100)


def test_later_fields_are_ignored():
    later = msgspec.msgpack.encode([*msgspec.msgpack.decode(encode(frames.Ack(3))), "new", [1]])
    assert decode_packet(packet([later]), 100) == [frames.Ack(3)]


def test_optional_frames_of_a_later_version_become_unknown():
    later = [msgspec.msgpack.encode([tag, "what", b"ever"]) for tag in (64, 100, 1 << 40)]
    found = decode_packet(packet([encode(frames.Ack(3)), *later]), 1000)
    assert found == [frames.Ack(3), Unknown(64), Unknown(100), Unknown(1 << 40)]


ODD = {
    "nothing": b"",
    "no array": b"\x81\x01\x02",
    "a string": b"\xa3abc",
    "truncated array": b"\x93\x92\x0e\x01",
    "trailing": b"\x90\x90",
    "no tag": b"\x91\x90",
    "unknown mandatory": b"\x91\x92\x3f\x01",
    "negative tag": b"\x91\x92\xff\x01",
    "text tag": b"\x91\x92\xa1a\x01",
    "true as tag": b"\x91\x92\xc3\x01",
    "too few fields": b"\x91\x91\x0b",
    "float": b"\x91\x92\x06\xcb\x40" + b"\0" * 7,
    "number as text": b"\x91\x92\x06\xa11",
    "bad utf-8": b"\x91\x92\x04\xa2\xff\xff",
    "surrogate": b"\x91\x92\x04\xa3\xed\xa0\x80",
    "reserved byte": b"\x91\xc1",
    "huge array": b"\xdd\xff\xff\xff\xff",
    "huge array in a frame": b"\x91\x92\x08\xdd\xff\xff\xff\xff",
    "huge array as a frame": b"\x91\xdd\xff\xff\xff\xff\x40",
    "huge map as a frame": b"\x91\x92\x40\xdf\xff\xff\xff\xff",
    "huge text": b"\x91\x92\x04\xdb\xff\xff\xff\xff",
    "huge binary": b"\x91\x94\x0b\x01\xc4\x00\xc6\xff\xff\xff\xff",
    "deep": b"\x91" * 60000,
    "deep after known fields": b"\x91\x93\x06\x01" + b"\x91" * 60000,
    "deep in an optional frame": b"\x91\x92\x40" + b"\x91" * 60000 + b"\x01",
    "deep maps in an optional frame": b"\x91\x92\x40" + b"\x81\x01" * 30000 + b"\x01",
    "unknown kind": packet([msgspec.msgpack.encode([8, [["add", "cell", "x"]]])]),
    "an advice that grew": packet([msgspec.msgpack.encode([8, [["add", "queue", "x", "o", "c", 0, 9]]])]),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_odd_bytes_are_a_frame_error(data):
    tracemalloc.start()
    try:
        with pytest.raises(FrameError):
            decode_packet(data, 65536)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def decodes_or_says_why(data):
    try:
        found = decode_packet(data, 65536)
    except FrameError:
        return
    assert all(isinstance(frame, (*frames.AnyFrame.__args__, Unknown)) for frame in found)


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_garbage(data):
    decodes_or_says_why(data)


SCALARS = [None, True, -1, 0, 64, (1 << 64) - 1, 0.5, "", "queue", b"", b"x" * 16]
VALUES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers(0, 9), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(-2, 70), st.lists(VALUES, max_size=8)), max_size=5))
def test_well_formed_nonsense(items):
    decodes_or_says_why(packet([msgspec.msgpack.encode([tag, *values]) for tag, values in items]))


@settings(max_examples=200)
@given(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=5), st.data())
def test_mutated_frames(chosen, data):
    whole = bytearray(packet([encode(frame) for frame in chosen]))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    decodes_or_says_why(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


def test_a_packet_of_very_many_frames_is_several_that_are_read_in_a_moment():
    encoded = [frames.encode(frames.Ping(number)) for number in range(50_000)]
    (whole,) = packets(encoded, 1 << 20)
    found = list(pieces(whole))
    assert len(found) == 50
    read = [frame for piece in found for frame in decode_packet(piece, 1 << 20)]
    assert read == [frames.Ping(number) for number in range(50_000)]


def test_no_more_of_a_packet_is_made_than_is_read(monkeypatch):
    (whole,) = packets([frames.encode(frames.Ping(number)) for number in range(50_000)], 1 << 20)
    made = []
    monkeypatch.setattr(joining, "packets", lambda encoded, most: made.append(encoded) or [b"".join(encoded)])
    first = next(pieces(whole))
    assert [len(each) for each in made] == [1000]
    assert first == b"".join(made[0])


def test_a_packet_of_large_frames_is_divided_by_its_bytes_and_a_small_one_is_left():
    large = [frames.encode(frames.Bundle(number, b"h", bytes(20_000))) for number in range(20)]
    (whole,) = packets(large, 1 << 20)
    assert [len(decode_packet(piece, 1 << 20)) for piece in pieces(whole)] == [1] * 20
    for small in (
        packets(large[:2], 1 << 20)[0],
        b"",
        b"\x91",
        bytes(100_000),
        b"\xdd" + b"\xff" * 99_999,
    ):
        assert list(pieces(small)) == [small]


@pytest.mark.parametrize(
    "frame",
    [
        frames.Advise([Advice("add", Kind.QUEUE, "x")] * 501),
        frames.Declined([Destination(Kind.QUEUE, "x")] * 501, ""),
    ],
)
def test_lists_that_are_too_long_are_not_read(frame):
    with pytest.raises(FrameError, match="length <= 500"):
        decode_packet(packet([frames.encode(frame)]), 1 << 20)
