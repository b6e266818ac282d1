"""Opening: it says of each body what unpacking says, and has no large message in memory for it."""

import gc
import sys
import tracemalloc

import hypothesis.strategies as st
import msgspec
import pytest
import zstandard
from hypothesis import given, settings

from sapwood.protocol.bundles import (
    LARGE,
    MAX_PROPERTIES,
    Flag,
    Header,
    Message,
    Opening,
    Properties,
    compress,
    encode_message,
    join,
    opened,
    unpack,
)
from sapwood.protocol.destinations import queue
from sapwood.protocol.errors import FrameError

MIB = 1024 * 1024
ID = bytes(range(16))


def header(**fields):
    return Header(id=ID, destination=queue("till"), **fields)


def said(read):
    """The properties, or that it cannot be read."""
    try:
        return read()
    except FrameError:
        return "unreadable"


def agree(packed, body):
    unpacked = said(lambda: [message.properties for message in unpack(packed, body)])
    assert said(lambda: opened(packed, body)) == unpacked
    return unpacked != "unreadable"


SMALL = [
    (b"\x91\xc4\x01x", 1), (b"\x91\xc4\x01x", 2), (b"\x91\xa1x", 1), (b"\x91\x01", 1),
    (b"\x90", 1), (b"\xc1", 1), (b"\x92\xc4\x01x\xa1x", 1), (b"", 1),
    (b"\x92\xc5\x00\x01x\x80", 1), (b"\x92\xc4\x01x\x81\xa7task-id\xa1\xff", 1),
    (b"\x92\xc4\x01x\x81\xa7headers\x81\xa1a" + b"\x91" * 60000, 1),
    (msgspec.msgpack.encode([b"", {"headers": {"x": [{}] * 300_000}}]), 1),
    (encode_message(Message(b"x" * 300_000, Properties(task_id="t"))) * 2, 2),
]  # fmt: skip


@pytest.mark.parametrize(("plain", "count"), SMALL)
def test_what_can_be_opened_is_what_can_be_unpacked(plain, count):
    agree(header(count=count, size=len(plain)), plain)


def payload_of(size):
    return b"\xc6" + size.to_bytes(4) + bytes(size)


LARGE_ONES = {
    "whole": (payload_of(MIB).join((b"\x92", b"\x81\xa7task-id\xa1t")), True),
    "no properties": (b"\x91" + payload_of(MIB), True),
    "empty payload": (b"\x92\xc4\x00\x81\xa7headers\x81\xa1a\xc5\xff\xff" + bytes(65535), True),
    "longer head": (b"\xdd\0\0\0\x02" + payload_of(MIB) + b"\x80", True),
    "more than it needs": (b"\x93" + payload_of(MIB) + b"\x80" + payload_of(MIB), True),
    "text": (b"\x91\xdb" + payload_of(MIB)[1:], False),
    "shorter than said": (b"\x91" + payload_of(MIB)[:-1], False),
    "longer than said": (b"\x91" + payload_of(MIB) + b"x", False),
    "much longer": (b"\x91" + payload_of(MIB) + bytes(MIB), False),
    "says 4 GiB": (b"\x91\xc6\xff\xff\xff\xff" + bytes(MIB), False),
    "properties missing": (b"\x92" + payload_of(MIB), False),
    "two": ((b"\x91" + payload_of(MIB)) * 2, False),
    "too many properties": (
        b"\x92" + payload_of(MIB) + msgspec.msgpack.encode({"headers": {"x": bytes(MAX_PROPERTIES)}}),
        False,
    ),
    "not text in properties": (b"\x92" + payload_of(MIB) + b"\x81\xa7task-id\xa1\xff", False),
}


@pytest.mark.parametrize("form", LARGE_ONES)
def test_a_large_message_is_opened_as_it_would_be_unpacked(form):
    plain, reads = LARGE_ONES[form]
    body, flag = compress(plain)
    assert flag
    assert agree(header(size=len(plain)), plain) is reads
    assert agree(header(size=len(plain), flags=flag), body) is reads


def test_a_large_body_that_is_not_what_it_says_cannot_be_opened():
    plain = encode_message(Message(bytes(MIB)))
    body, flag = compress(plain)
    packed = header(size=len(plain), flags=flag)
    assert not agree(packed, body[:-3])
    assert not agree(packed, b"nothing that decompresses")
    assert not agree(header(size=len(plain) + 1, flags=flag), body)
    assert not agree(header(size=len(plain) - 1), plain)
    unsaid = zstandard.ZstdCompressor(write_content_size=False).compress(plain)
    assert not agree(packed, unsaid)


@settings(max_examples=200)
@given(st.data())
def test_a_mutated_body_is_opened_as_it_would_be_unpacked(data):
    messages = [Message(b"ab", Properties(task_id="t", headers={"a": [1]})), Message(b"")]
    plain = bytearray(join([encode_message(message) for message in messages]))
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    agree(header(count=2, size=len(plain)), bytes(plain))


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans())
def test_a_mutated_large_body_is_opened_as_it_would_be_unpacked(data, packs):
    plain = encode_message(Message(b"x" * (LARGE + 1), Properties(task_id="t", headers={"a": [1]})))
    body, flag = compress(plain) if packs else (plain, 0)
    mutated = bytearray(body)
    ends = st.integers(0, 11) | st.integers(-24, -1)
    for _ in range(data.draw(st.integers(1, 3))):
        mutated[data.draw(ends)] = data.draw(st.integers(0, 255))
    agree(header(size=len(plain), flags=flag), bytes(mutated))


@pytest.mark.parametrize("level", [1, 19])
def test_a_bomb_is_opened_without_being_in_memory(level):
    plain = encode_message(Message(bytes(64 * MIB), Properties(reply_to="queue:answers")))
    body = zstandard.ZstdCompressor(level=level, write_content_size=True).compress(plain)
    packed = header(size=len(plain), flags=Flag.COMPRESSED)
    assert len(body) < 8192
    tracemalloc.start()
    try:
        opening = Opening(packed, body)
        assert [each.reply_to for each in opening.properties()] == ["queue:answers"]
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < MIB


def test_a_body_is_looked_into_once():
    opening = Opening(header(size=4), b"\x91\xc4\x01x")
    assert repr(opening) == f"<Opening of {header()}>"
    assert opening.properties() is opening.properties()
    assert repr(opening) == f"<Opening of {header()}, looked into>"
    wrong = Opening(header(size=4), b"\x91\xc4\x01")
    for _ in range(2):
        with pytest.raises(FrameError, match="says 4 bytes and has 3"):
            wrong.properties()


def test_a_body_that_cannot_be_read_is_not_kept_by_its_error():
    body = bytes([0xC1]) * 1000
    gc.disable()
    try:
        before = sys.getrefcount(body)
        opening = Opening(header(size=len(body)), body)
        for _ in range(3):
            with pytest.raises(FrameError, match="not 1 messages"):
                opening.properties()
        del opening
        assert sys.getrefcount(body) == before
    finally:
        gc.enable()
