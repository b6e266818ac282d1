"""MQTT 3.1.1 and 5 on the wire, byte by byte as the standard has it, and with bytes that are no MQTT."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_by_one import one_by_one

from bridges.mqtt import packets, properties
from bridges.mqtt.fields import PacketError, variable
from bridges.mqtt.packets import (
    Auth,
    Connect,
    Control,
    Disconnect,
    PacketAnswer,
    PingRequest,
    Publish,
    Subscribe,
    Unsubscribe,
    Will,
    WrongLevel,
)
from bridges.mqtt.properties import Name
from bridges.mqtt.readers import PacketReader, ServerReader
from broker.mqtt.reasons import Reason

CONNECT = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04till"


def fed(reader: PacketReader, data: bytes) -> list[packets.Packet]:
    return list(one_by_one(reader, data))


def read(data: bytes, most: int = 1 << 20) -> list[packets.Packet]:
    return fed(PacketReader(most), data)


@pytest.mark.parametrize(
    ("data", "packet"),
    [
        (CONNECT, Connect("till", True, 60, None, None, None)),
        (
            b"\x10\x29\x00\x04MQTT\x04\xec\x00\x0a\x00\x04till\x00\x04gone\x00\x03bye\x00\x04user\x00\x06secret",
            Connect("till", False, 10, Will("gone", b"bye", 1, True), "user", b"secret"),
        ),
        (b"\x30\x07\x00\x03a/bhi", Publish("a/b", b"hi", 0, False, False, 0)),
        (b"\x3b\x09\x00\x03a/b\x00\x07hi", Publish("a/b", b"hi", 1, True, True, 7)),
        (b"\x34\x07\x00\x03a/b\x01\x00", Publish("a/b", b"", 2, False, False, 256)),
        (b"\x40\x02\x00\x07", PacketAnswer(packets.PUBACK, 7)),
        (b"\x62\x02\x00\x07", PacketAnswer(packets.PUBREL, 7)),
        (b"\x82\x0c\x00\x01\x00\x01a\x01\x00\x03b/#\x02", Subscribe(1, (("a", 1), ("b/#", 2)))),
        (b"\xa2\x05\x00\x02\x00\x01a", Unsubscribe(2, ("a",))),
        (b"\xc0\x00", PingRequest()),
        (b"\xe0\x00", Disconnect()),
    ],
    ids=repr,
)
def test_each_packet_is_read(data: bytes, packet: packets.Packet) -> None:
    assert read(data[:-1]) == []
    assert read(data) == [packet]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00\x00", "type 0"),
        (b"\x20\x02\x00\x00", "which no client sends"),
        (b"\xf0\x00", "which no client sends"),
        (b"\x11\x00", "with flags 0001"),
        (b"\x80\x05\x00\x01\x00\x01a", "with flags 0000"),
        (b"\x36\x07\x00\x03a/bhi", "a PUBLISH with flags 0110"),
        (b"\x38\x07\x00\x03a/bhi", "a PUBLISH with flags 1000"),
        (b"\x32\x07\x00\x03a/b\x00\x00", "identifier is 0"),
        (b"\x30\x04\x00\x09a/", "ends in the middle"),
        (b"\x30\x00", "ends in the middle"),
        (b"\x30\x01\x00", "ends in the middle"),
        (b"\x32\x06\x00\x03a/b\x00", "ends in the middle"),
        (b"\x40\x02\x00\x00", "identifier is 0"),
        (b"\x40\x01\x07", "ends in the middle"),
        (b"\x40\x03\x00\x07\x00", "longer than its fields"),
        (b"\x30\x04\x00\x02\xff\xff", "not UTF-8"),
        (b"\x30\x04\x00\x02a\x00", "U\\+0000"),
        (b"\x82\x02\x00\x01", "without filters"),
        (b"\xa2\x02\x00\x01", "without filters"),
        (b"\x10\x18\x00\x04MQTT\x04\x42\x00\x3c\x00\x04till\x00\x06secret", "a password and no user"),
        (b"\x82\x06\x00\x01\x00\x01a\x03", "QoS byte 3"),
        (b"\xc0\x01\x00", "longer than its fields"),
        (b"\x30\xff\xff\xff\xff\x01", "more than four bytes"),
        (b"\x30\xff\xff\xff\x7f", "268435455 bytes: this node takes 1048576 at most"),
        (b"\x10\x10\x00\x04HTTP\x04\x02\x00\x3c\x00\x04till", "the protocol is 'HTTP'"),
        (b"\x10\x10\x00\x04MQTT\x04\x03\x00\x3c\x00\x04till", "a CONNECT with flags"),
        (b"\x10\x10\x00\x04MQTT\x04\x0a\x00\x3c\x00\x04till", "a CONNECT with flags"),
    ],
)
def test_what_is_no_mqtt_is_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(PacketError, match=why):
        read(data)


@pytest.mark.parametrize(("level", "answer"), [(3, b"\x20\x02\x00\x01"), (6, b"\x20\x03\x00\x84\x00")])
def test_another_version_is_answered_in_its_own_words(level: int, answer: bytes) -> None:
    with pytest.raises(WrongLevel, match=f"level {level}: this node speaks 3.1.1 and 5") as raised:
        read(b"\x10\x10\x00\x04MQTT" + bytes([level]) + b"\x02\x00\x3c\x00\x04till")
    assert raised.value.answer == answer


@given(st.lists(st.sampled_from([CONNECT, b"\xc0\x00", b"\x30\x07\x00\x03a/bhi"]), min_size=1), st.data())
def test_it_does_not_matter_how_the_bytes_come(sent: list[bytes], data: st.DataObject) -> None:
    stream, reader, found = b"".join(sent), PacketReader(100), []
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        found += fed(reader, stream[:count])
        stream = stream[count:]
    assert found == read(b"".join(sent))


@given(st.binary(max_size=200), st.sampled_from([4, 5]))
def test_garbage_is_read_or_refused_and_nothing_else(data: bytes, level: int) -> None:
    reader = PacketReader(100)
    reader.level = level
    with contextlib.suppress(PacketError, WrongLevel):
        list(reader.feed(data))


@pytest.mark.parametrize("cuts", [1, 7, 100])
def test_of_a_publish_that_is_too_long_the_head_is_read_and_nothing_of_the_rest_is_kept(cuts: int) -> None:
    """The packet behind it is read as ever."""
    long = b"\x32\xac\x02\x00\x03a/b\x00\x07" + bytes(300 - 7)
    reader, found = PacketReader(100), []
    reader.cuts = True
    stream = long + b"\xc0\x00"
    for start in range(0, len(stream), cuts):
        found += fed(reader, stream[start : start + cuts])
        assert len(reader) <= 10
    why = "a packet of 300 bytes: this node takes 100 at most"
    assert found == [Publish("a/b", b"", 1, False, False, 7, why), PingRequest()]
    with pytest.raises(PacketError, match="300 bytes"):
        read(long, 100)


@given(
    st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=300),
    st.integers(0, 1),
    st.integers(1, 65535),
    st.booleans(),
    st.booleans(),
)
def test_what_is_published_reads_back(
    name: str, payload: bytes, qos: int, number: int, retain: bool, again: bool
) -> None:
    number, again = (number, again) if qos else (0, False)
    data = packets.publish(name.encode(), payload, qos, number, retain=retain, again=again)
    assert read(data) == [Publish(name, payload, qos, retain, again, number)]


def test_what_a_server_says() -> None:
    assert packets.connack(present=True, code=0) == b"\x20\x02\x01\x00"
    assert packets.suback(5, [1, 0x80]) == b"\x90\x04\x00\x05\x01\x80"
    assert packets.unsuback(5) == b"\xb0\x02\x00\x05"
    assert packets.answer(packets.PUBCOMP, 5) == b"\x70\x02\x00\x05"
    assert packets.publish(b"a", b"x" * 200, 0, 0, retain=False, again=False)[:3] == b"\x30\xcb\x01"


# --- 5


def read_5(data: bytes) -> list[packets.Packet]:
    reader = PacketReader(1 << 20)
    reader.level = 5
    return fed(reader, data)


@pytest.mark.parametrize(
    ("data", "packet"),
    [
        (b"\x30\x08\x00\x03a/b\x00hi", Publish("a/b", b"hi", 0, False, False, 0, properties={})),
        (
            b"\x30\x0a\x00\x03a/b\x02\x01\x01hi",
            Publish("a/b", b"hi", 0, False, False, 0, properties={Name.PAYLOAD_FORMAT: 1}),
        ),
        (b"\x40\x02\x00\x07", PacketAnswer(packets.PUBACK, 7)),
        (b"\x50\x03\x00\x07\x97", PacketAnswer(packets.PUBREC, 7, 0x97)),
        (b"\x62\x04\x00\x07\x92\x00", PacketAnswer(packets.PUBREL, 7, 0x92)),
        (b"\x82\x09\x00\x01\x02\x0b\x05\x00\x01a\x2e", Subscribe(1, (("a", 0x2E),), 5)),
        (b"\xa2\x06\x00\x02\x00\x00\x01a", Unsubscribe(2, ("a",))),
        (b"\xe0\x00", Disconnect()),
        (b"\xe0\x07\x04\x05\x11\x00\x00\x00\x09", Disconnect(4, 9)),
        (b"\xf0\x00", Auth()),
    ],
    ids=repr,
)
def test_each_packet_of_5_is_read(data: bytes, packet: packets.Packet) -> None:
    assert read_5(data[:-1]) == []
    assert read_5(data) == [packet]


def test_a_connect_of_5_says_the_level_of_all_behind_it() -> None:
    data = (
        b"\x10\x27\x00\x04MQTT\x05\x06\x00\x3c\x05\x11\x00\x00\x00\x09\x00\x04till"
        b"\x05\x18\x00\x00\x00\x07\x00\x01w\x00\x02up\xe0\x01\x04"
    )
    will = Will("w", b"up", 0, False, {Name.WILL_DELAY: 7})
    connect = Connect("till", True, 60, will, None, None, 5, {Name.SESSION_EXPIRY: 9})
    data = data[:1] + bytes((len(data) - 5,)) + data[2:]
    assert read(data) == [connect, Disconnect(4)]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x02\x7f\x00", 0x81),
        (b"\x04\x01\x00\x01\x01", 0x82),
        (b"\x02\x01\x02", 0x82),
        (b"\x09\x01\x01", 0x81),
    ],
    ids=["unknown", "twice", "no truth", "cut"],
)
def test_properties_that_cannot_be_are_refused_with_a_reason(said: bytes, reason: int) -> None:
    body = b"\x00\x01t" + said
    with pytest.raises(PacketError) as raised:
        read_5(b"\x30" + bytes((len(body),)) + body)
    assert raised.value.reason == reason


def test_properties_are_bounded_in_bytes() -> None:
    """Each byte of them would be many in memory."""
    user = b"\x26\x00\x01a\x00\x01b" * 40_000
    body = b"\x00\x01t" + variable(len(user)) + user
    with pytest.raises(PacketError, match="properties of 280000 bytes") as raised:
        read_5(b"\x30" + variable(len(body)) + body)
    assert raised.value.reason == 0x95
    body = b"\x00\x01t\x00\x07" + variable(len(user)) + user + b"x"
    why = "properties of 280000 bytes: this node takes 262144 at most"
    answered = [Publish("t", b"", 1, False, False, 7, cut=why)]
    assert read_5(b"\x32" + variable(len(body)) + body) == answered, "it can be told why in its answer"
    said = b"\x23\x00\x09" + user
    body = b"\x00\x01t\x00\x07" + variable(len(said)) + said
    (refused,) = read_5(b"\x32" + variable(len(body)) + body)
    assert isinstance(refused, Publish)
    assert refused.properties == {Name.TOPIC_ALIAS: 9}, "what comes next may rely on it"
    said = b"\x26\x00\x00\x00\x00" * 60_000 + b"\x23\x00\x09"
    body = b"\x00\x01t\x00\x07" + variable(len(said)) + said
    with pytest.raises(PacketError, match="properties of 300003 bytes"):
        read_5(b"\x32" + variable(len(body)) + body)
    few = b"\x26\x00\x01a\x00\x01b" * 2
    assert read_5(b"\x30\x12\x00\x01t\x0e" + few) == [
        Publish("t", b"", 0, False, False, 0, properties={Name.USER_PROPERTY: [("a", "b")] * 2})
    ]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            Name.PAYLOAD_FORMAT: st.integers(0, 1),
            Name.MESSAGE_EXPIRY: st.integers(0, 2**32 - 1),
            Name.CONTENT_TYPE: st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
            Name.CORRELATION_DATA: st.binary(),
            Name.TOPIC_ALIAS: st.integers(0, 65535),
            Name.USER_PROPERTY: st.lists(st.tuples(st.just("a"), st.just("b")), min_size=1),
        },
    )
)
def test_properties_that_are_written_read_back(said: dict[Name, object]) -> None:
    data = packets.publish(b"t", b"x", 0, 0, retain=False, again=False, said=properties.written(said))
    assert read_5(data) == [Publish("t", b"x", 0, False, False, 0, properties=said)]


@pytest.mark.parametrize(("first", "each"), [(0x82, b"\x00\x01a\x00"), (0xA2, b"\x00\x01a")])
def test_a_packet_has_so_many_filters_and_no_more(first: int, each: bytes) -> None:
    def packet(count: int) -> bytes:
        body = b"\x00\x01" + count * each
        return bytes([first]) + variable(len(body)) + body

    (read_whole,) = read(packet(packets.MOST_FILTERS))
    assert isinstance(read_whole, Subscribe | Unsubscribe)
    assert len(read_whole.filters) == packets.MOST_FILTERS
    with pytest.raises(PacketError, match="more than 4096 filters") as caught:
        read(packet(packets.MOST_FILTERS + 1))
    assert caught.value.reason == Reason.PACKET_TOO_LARGE


# --- what a server says


def heard(data: bytes, level: int = 5) -> list[packets.Packet | Control]:
    return list(one_by_one(ServerReader(1 << 20, level), data))


def delivery(said: bytes, first: int = 0x32) -> bytes:
    """A message with these properties."""
    body = b"\0\1t" + (b"\0\7" if first & 6 else b"") + variable(len(said)) + said + b"hi"
    return bytes((first,)) + variable(len(body)) + body


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (b"", {}),
        (b"\x0b\x07", {Name.SUBSCRIPTION_IDENTIFIER: [7]}),
        (b"\x0b\x07\x0b\x80\x01", {Name.SUBSCRIPTION_IDENTIFIER: [7, 128]}),
        (b"\x03\0\4text\x0b\x07", {Name.CONTENT_TYPE: "text", Name.SUBSCRIPTION_IDENTIFIER: [7]}),
        (b"\x26\0\1a" + b"\0\x20" + b"b" * 32, {Name.USER_PROPERTY: [("a", "b" * 32)]}),
    ],
)
def test_a_message_of_a_server_is_read_with_the_filters_that_it_came_for(said: bytes, read: object) -> None:
    for _ in range(2):  # short ones are remembered
        (message,) = heard(delivery(said))
        assert isinstance(message, Publish)
        assert (message.topic, message.payload, message.packet_id) == ("t", b"hi", 7)
        assert message.properties == read


def test_a_server_is_believed_what_a_client_is_not() -> None:
    user = b"\x26" + properties.text("a") + properties.text("b" * 65_000)
    (message,) = heard(delivery(user * 5))
    assert isinstance(message, Publish)
    assert len(message.properties[Name.USER_PROPERTY]) == 5
    (message,) = heard(delivery(b"\x01\x07", 0x38))
    assert isinstance(message, Publish)
    assert (message.qos, message.again, message.properties) == (0, True, {Name.PAYLOAD_FORMAT: 7})


def test_answers_of_a_server_are_read_and_the_rest_is_left_as_it_is() -> None:
    said = b"\x40\2\0\1\x50\3\0\2\x97\x62\2\0\3\x70\2\0\4\x90\4\0\5\0\1\xd0\0"
    assert heard(said) == [
        PacketAnswer(packets.PUBACK, 1),
        PacketAnswer(packets.PUBREC, 2, Reason.QUOTA_EXCEEDED),
        PacketAnswer(packets.PUBREL, 3),
        PacketAnswer(packets.PUBCOMP, 4),
        Control(0x90, b"\0\5\0\1"),
        Control(0xD0, b""),
    ]
    assert heard(b"\x32\7\0\1t\0\7hi", level=4) == [Publish("t", b"hi", 1, False, False, 7)]


@pytest.mark.parametrize("said", [b"\x36\2\0\0", b"\x30\1\0", b"\x32\5\0\1t\0\0", b"\x30\4\0\1t\5"])
def test_what_no_server_says_is_refused(said: bytes) -> None:
    with pytest.raises(PacketError):
        heard(said)


@given(st.binary(max_size=200), st.sampled_from([4, 5]), st.integers(1, 50))
def test_garbage_of_a_server_is_read_or_refused_however_it_comes(data: bytes, level: int, part: int) -> None:
    found: list[list[object]] = []
    for size in (part, len(data) or 1):
        reader = ServerReader(100, level)
        found.append([])
        with contextlib.suppress(PacketError):
            for start in range(0, len(data), size):
                found[-1] += list(one_by_one(reader, data[start : start + size]))
    assert found[0][: len(found[1])] == found[1] or found[1][: len(found[0])] == found[0]
