"""Bundles: headers that only grow, bodies that join, and nothing that a peer can make of them to do harm."""

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from sapwood.protocol import bundles
from sapwood.protocol.bundles import (
    MAX_HEADER,
    Flag,
    Header,
    Message,
    Properties,
    check_properties,
    compress,
    decode_header,
    decode_messages,
    encode_header,
    encode_message,
    join,
    mask_bits,
    mask_bytes,
    part_of,
    plain_body,
    unpack,
)
from sapwood.protocol.destinations import queue, topic
from sapwood.protocol.errors import FrameError, TooMuchInside

ID = bytes(range(16))


def header(**fields):
    return Header(id=ID, **{"destination": queue("till"), **fields})


def fields_of(**changes):
    """An encoded header made by hand, as a peer could."""
    values = {
        "id": ID,
        "destination": ["queue", "till", ""],
        "scope": 0,
        "flags": 0,
        "count": 1,
        "size": 0,
        "origin_store": b"",
        "origin": "",
        "expires_first": 0,
        "expires_last": 0,
        "reroutes": 0,
        "done": b"",
        "start": 0,
        "replaces": b"",
        **changes,
    }
    return b"\x01" + msgspec.msgpack.encode(list(values.values()))


def test_a_header_comes_back():
    one = header(
        destination=topic("a/b"), flags=Flag.PERSISTENT | Flag.RETAINED, count=9, size=5, origin_store=b"o",
        origin="store-1", expires_first=1, expires_last=2, reroutes=3, done=b"\x01\x01", start=7,
        replaces=b"r",
    )  # fmt: skip
    assert decode_header(encode_header(one)) == one
    assert one.persistent
    assert not header().persistent
    assert str(one) == f"bundle {ID.hex()} of 9 for topic:a/b"


def test_header_format_is_what_it_was():
    """Bundles are read years later."""
    assert encode_header(header()) == fields_of()
    assert decode_header(b"\x01\x92" + msgspec.msgpack.encode(ID) + b"\x92\xa5queue\xa4till") == header()


def test_a_later_header_is_read_and_an_earlier_is_not():
    later = b"\x02" + msgspec.msgpack.encode([*msgspec.msgpack.decode(fields_of()[1:]), "new", [1]])
    assert decode_header(later) == header()
    with pytest.raises(FrameError, match="bundle version 0"):
        decode_header(b"\x00" + fields_of()[1:])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x01\x90",
        b"\x01\xc1",
        b"\x01" + b"\x91" * 3000,
        b"\x01\xdd\xff\xff\xff\xff",
        b"\x01" * (MAX_HEADER + 1),
        fields_of(id=b"short"),
        fields_of(count=0),
        fields_of(count=257),
        fields_of(done=b"\x01\x01"),
        fields_of(count=9, done=b"\x00\x02"),
        fields_of(size=-1),
        fields_of(reroutes=-1),
        fields_of(expires_first=-1),
        fields_of(expires_last=-1),
        fields_of(expires_last=1 << 53),
        fields_of(reroutes=(1 << 64) - 1),
        fields_of(flags=-1),
        fields_of(flags=1 << 60),
        fields_of(scope=256),
        fields_of(scope=-1),
        fields_of(destination=["domain", "store-1"]),
        fields_of(destination=["cell", "x"]),
        fields_of(destination=["queue", "x" * 4097]),
        fields_of(size="5"),
    ],
)
def test_headers_that_cannot_be(data):
    with pytest.raises(FrameError):
        decode_header(data)


@pytest.mark.parametrize("bits", [0, 1, 0b101, 1 << 255])
def test_masks(bits):
    assert mask_bits(mask_bytes(bits)) == bits
    assert mask_bytes(0) == b""


@pytest.mark.parametrize("count", [0, 1, 15, 16, 256, 65_535, 65_536])
def test_messages_are_encoded_together_as_each_alone(count):
    one = Message(b"x", Properties(content_type="text"))
    assert bundles.encode_messages([one] * count) == encode_message(one) * count


@settings(max_examples=100)
@given(st.lists(st.tuples(st.binary(max_size=300), st.text(max_size=20)), min_size=1, max_size=20))
def test_messages_join_without_decoding(pairs):
    messages = [Message(payload, Properties(content_type=text)) for payload, text in pairs]
    plain = join([encode_message(message) for message in messages])
    body, flag = compress(plain)
    packed = header(count=len(messages), size=len(plain), flags=flag)
    assert unpack(packed, body) == messages
    assert len(body) <= len(plain)


def test_compression_only_where_it_pays():
    assert compress(b"x" * 100) == (b"x" * 100, 0)
    assert compress(bytes(range(256)))[1] == 0
    body, flag = compress(b"x" * 10_000)
    assert flag == Flag.COMPRESSED
    assert len(body) < 100


def test_a_body_that_lies_about_its_size():
    body, flag = compress(b"x" * 100_000)
    for size in (10, 99_999, 100_001, 1 << 40):
        with pytest.raises(FrameError, match="says"):
            plain_body(header(size=size, flags=flag), body)
    with pytest.raises(FrameError, match="says 5 bytes and has 6"):
        plain_body(header(size=5), b"123456")


@pytest.mark.parametrize("body", [b"", b"\x28\xb5\x2f\xfd", b"garbage", compress(b"x" * 1000)[0][:-3]])
def test_a_body_that_does_not_decompress(body):
    with pytest.raises(FrameError):
        plain_body(header(size=1000, flags=Flag.COMPRESSED), body)


def test_a_bomb_without_a_size_is_not_unpacked():
    import zstandard

    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * 50_000_000)
    with pytest.raises(FrameError):
        plain_body(header(size=1000, flags=Flag.COMPRESSED), bomb)


@pytest.mark.parametrize(
    ("plain", "count"),
    [(b"", 1), (b"\x91\xc4\x01x", 2), (b"\x91\xc4\x01x" * 2, 1), (b"\xc1", 1), (b"\x91\xa1x", 1)],
)
def test_bodies_that_are_not_so_many_messages(plain, count):
    with pytest.raises(FrameError, match=f"not {count} messages"):
        decode_messages(plain, count)


@pytest.mark.parametrize("data", [fields_of()[:-12] + b"\xa1\xff" + b"\0" * 5, fields_of() + b""])
def test_headers_are_read_or_refused(data):
    reads_or_says_why(lambda: decode_header(data))


@pytest.mark.parametrize(
    "read",
    [
        lambda: decode_header(b"\x01\x92" + msgspec.msgpack.encode(ID) + b"\x92\xa5queue\xa1\xff"),
        lambda: decode_header(b"\x01\x9f" + fields_of()[2:] + b"\x91" * 3000),
        lambda: decode_messages(b"\x92\xc4\x01x\x81\xa7task-id\xa1\xff", 1),
        lambda: decode_messages(b"\x92\xc4\x01x\x81\xa7headers\x81\xa1a" + b"\x91" * 60000, 1),
    ],
)
def test_bytes_that_msgspec_answers_in_its_own_way(read):
    with pytest.raises(FrameError):
        read()


def reads_or_says_why(read):
    try:
        read()
    except FrameError:
        return


@settings(max_examples=300)
@given(st.data())
def test_mutated_headers(data):
    whole = bytearray(
        encode_header(header(destination=topic("a/b"), count=9, origin="store-1", done=b"\x01"))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    reads_or_says_why(lambda: decode_header(bytes(whole[: data.draw(st.integers(0, len(whole)))])))


@settings(max_examples=200)
@given(st.binary(max_size=200), st.integers(1, 256))
def test_garbage_bodies(data, count):
    reads_or_says_why(lambda: decode_messages(data, count))


def test_properties_that_would_be_far_larger_in_memory_are_not_decoded():
    bomb = msgspec.msgpack.encode([b"", {"headers": {"x": [{}] * 300_000}}])
    with pytest.raises(TooMuchInside, match=r"properties of 300[0-9]{3} bytes in 1 messages: 262144 at most"):
        decode_messages(bomb, 1)
    large = encode_message(Message(bytes(3_000_000)))
    assert decode_messages(large, 1) == [Message(bytes(3_000_000))]
    with pytest.raises(FrameError, match="not 2 messages"):
        decode_messages(large, 2)


def test_the_size_is_known_before_anything_is_unpacked(monkeypatch):
    body, flag = compress(b"x" * 100_000)
    packed = header(size=100_000, flags=flag)

    class NeverAsked:
        def decompress(self, *_arguments, **_named):
            raise AssertionError("it was unpacked")

    monkeypatch.setattr(bundles, "_decompressor", NeverAsked())
    with pytest.raises(TooMuchInside, match="100000 bytes unpacked, 99999 at most"):
        unpack(packed, body, 99_999)
    with pytest.raises(FrameError, match="says 99999 bytes"):
        plain_body(header(size=99_999, flags=flag), body)
    with pytest.raises(TooMuchInside, match="1099511627776 bytes unpacked"):
        plain_body(header(size=1 << 40, flags=flag), body)


def test_properties_that_no_node_would_read_do_not_enter():
    fine = Message(bytes(1_000_000), Properties(headers={"x": bytes(200_000)}))
    check_properties(fine, encode_message(fine))
    large = Message(b"", Properties(headers={"x": bytes(270_000)}))
    with pytest.raises(TooMuchInside, match="262144 at most"):
        check_properties(large, encode_message(large))


# --- a part of a bundle


def some_of(payloads, bits, *times, **fields):
    """A bundle of these payloads, and a part of it. `times`: what is left of each, in ms."""
    made = [
        Message(payload, Properties(expires_in=times[at] if times else 0))
        for at, payload in enumerate(payloads)
    ]
    plain = join(list(map(encode_message, made)))
    body, compressed = compress(plain)
    whole = header(count=len(made), size=len(plain), flags=Flag.PERSISTENT | compressed, **fields)
    return part_of(whole, body, bits)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20), st.data())
def test_a_part_has_its_messages_at_their_places_and_nothing_of_the_others(payloads, data):
    bits = data.draw(st.integers(1, (1 << len(payloads)) - 1))
    made, body = some_of(payloads, bits)
    found = [message.payload for message in unpack(made, body)]
    everything = (1 << len(payloads)) - 1
    assert mask_bits(made.done) == everything & ~bits
    for at, payload in enumerate(payloads):
        assert found[at] == (payload if bits >> at & 1 or bits == everything else b"")


def test_a_part_takes_the_room_of_its_messages():
    payloads = [number.to_bytes(8, "big") * 125 for number in range(256)]
    made, body = some_of(payloads, 1 << 7)
    assert len(body) <= made.size < 1000 + 16 + 3 * 255


@pytest.mark.parametrize(
    ("bits", "first", "last"), [(0b001, 100, 100), (0b010, 900, 900), (0b011, 100, 900), (0b110, 900, 0)]
)
def test_a_part_expires_with_its_own_messages(bits, first, last):
    """Of what had 300, 1100 and no end of milliseconds when it entered, 200 ms ago."""
    made, _ = some_of([b"a", b"b", b"c"], bits, 300, 1100, 0, expires_first=100)
    assert (made.expires_first, made.expires_last) == (first, last)


def test_a_part_of_what_cannot_be_read_is_none():
    with pytest.raises(FrameError):
        part_of(header(count=3, size=4), b"\xc1\xc1\xc1\xc1", 1)
