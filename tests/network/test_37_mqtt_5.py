"""MQTT 5 at a node's door: cases from the specification, whose section is in each name, byte by byte."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mqtt_wire import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PATIENCE,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    DoorNode,
    Wire5,
    Wire311,
    door_node,
    fresh,
    packet,
    text,
)

EXPIRY = b"\x11"
FOR_EVER = EXPIRY + b"\xff\xff\xff\xff"


def connected(door: DoorNode, name: str = "", **options: Any) -> Wire5:
    wire = Wire5(door.port)
    assert wire.connect(name or fresh("client"), **options)[1] == 0
    return wire


def published(wire: Wire5, topic: str, payload: bytes, qos: int = 1, **options: Any) -> int:
    """Until it is answered: the reason."""
    wire.publish(topic, payload, qos, 77, **options)
    number, reason = wire.confirmed(PUBACK if qos == 1 else PUBREC)
    assert number == 77
    if qos == 2 and reason < 0x80:
        wire.answer(PUBREL, 77)
        assert wire.confirmed(PUBCOMP) == (77, 0)
    return reason


# --- 3.1 CONNECT, 3.2 CONNACK


def test_mqtt5_3_1_2_11_2_a_session_is_kept_for_its_expiry_and_no_longer(door: DoorNode) -> None:
    name, topic = fresh("till"), fresh("t")
    with Wire5(door.port) as wire:
        assert wire.connect(name, clean=False, said=EXPIRY + b"\x00\x00\x00\x01")[:2] == (False, 0)
        wire.subscribe((topic, 1))
    door.until(lambda: topic not in str(door.ask("status")["subscriptions"]), "rid of its subscription")
    with Wire5(door.port) as wire:
        assert wire.connect(name, clean=False)[:2] == (False, 0)


def test_mqtt5_3_1_2_11_2_a_session_goes_on_and_without_an_expiry_ends_with_its_connection(
    door: DoorNode,
) -> None:
    name, topic = fresh("till"), fresh("t")
    with connected(door, name, said=FOR_EVER) as wire:
        assert wire.subscribe((topic, 1)) == b"\x01"
    with connected(door) as office:
        assert published(office, topic, b"1") == 0
    with Wire5(door.port) as wire:
        assert wire.connect(name, clean=False)[:2] == (True, 0)
        assert wire.given().payload == b"1"
    with Wire5(door.port) as wire:
        assert wire.connect(name, clean=False)[:2] == (False, 0)


def test_mqtt5_3_2_2_3_2_the_expiry_that_is_used_is_told_where_it_is_another(door: DoorNode) -> None:
    with Wire5(door.port) as wire:
        _, _, said = wire.connect(fresh("till"), said=FOR_EVER)
        assert 0 < said[0x11] < 0xFFFFFFFF


def test_mqtt5_3_14_2_2_2_a_disconnect_changes_the_expiry_but_does_not_begin_one(door: DoorNode) -> None:
    name = fresh("till")
    with connected(door, name, said=FOR_EVER) as wire:
        wire.say(packet(DISCONNECT, b"\x00\x05" + EXPIRY + bytes(4)))
        wire.closed()
    with Wire5(door.port) as wire:
        assert wire.connect(name, clean=False)[:2] == (False, 0)
        wire.say(packet(DISCONNECT, b"\x00\x05" + FOR_EVER))
        assert wire.told() == 0x82


def test_mqtt5_3_2_2_3_7_a_client_without_a_name_is_given_one(door: DoorNode) -> None:
    with Wire5(door.port) as wire:
        _, reason, said = wire.connect("", clean=False)
        assert (reason, said[0x12][:5]) == (0, b"auto-")


def test_mqtt5_3_1_2_11_9_extended_authentication_is_refused(door: DoorNode) -> None:
    with Wire5(door.port) as wire:
        assert wire.connect(fresh("till"), said=b"\x15" + text("SCRAM-SHA-1"))[1] == 0x8C
        wire.closed()


def test_mqtt5_3_1_2_11_10_data_of_an_authentication_without_its_method_is_a_protocol_error(
    door: DoorNode,
) -> None:
    with Wire5(door.port) as wire:
        assert wire.connect(fresh("till"), said=b"\x16" + text("secret"))[1] == 0x82
        wire.closed()


def test_mqtt5_3_15_auth_without_a_method_is_a_protocol_error(door: DoorNode) -> None:
    with connected(door) as wire:
        wire.say(packet(AUTH))
        assert wire.told() == 0x82


def test_mqtt5_3_1_0_a_second_connect_is_a_protocol_error(door: DoorNode) -> None:
    with connected(door) as wire:
        wire.say(packet(CONNECT, text("MQTT") + b"\x05\x02\x00\x00\x00" + text("x")))
        assert wire.told() == 0x82


def test_mqtt5_3_1_4_who_is_taken_over_is_told_so(door: DoorNode) -> None:
    name = fresh("till")
    with connected(door, name) as first, connected(door, name):
        assert first.told() == 0x8E


def test_mqtt5_3_1_4_what_was_given_to_who_was_taken_over_does_not_count_as_tried(door: DoorNode) -> None:
    """More often than `max_deliveries`: two programs that share a client id by mistake, perhaps."""
    name, topic, before = fresh("till"), fresh("t"), door.dead()
    with connected(door, name, said=FOR_EVER) as first:
        first.subscribe((topic, 1))
        with connected(door) as other:
            assert published(other, topic, b"kept") == 0
        assert first.given().payload == b"kept"
        for _ in range(12):
            taker = connected(door, name, clean=False, said=FOR_EVER)
            found = taker.given()
            assert (found.payload, found.dup) == (b"kept", True)
        taker.answer(PUBACK, found.number)
        taker.silent()
    assert door.dead() == before


@pytest.mark.parametrize("last", [packet(DISCONNECT), packet(PUBACK, b"\0\0")], ids=["DISCONNECT", "no MQTT"])
def test_mqtt5_4_4_what_a_client_acknowledges_as_it_ends_is_not_given_again(
    door: DoorNode, last: bytes
) -> None:
    """In one piece with its DISCONNECT, as a program writes that was started for so many messages; or with
    what is no MQTT.
    """
    name, topic = fresh("till"), fresh("t")
    with connected(door, name, said=FOR_EVER) as wire, connected(door) as other:
        wire.subscribe((topic, 1))
        for payload in (b"1", b"2"):
            assert published(other, topic, payload) == 0
        given = [wire.given() for _ in range(2)]
        wire.say(*(packet(PUBACK, each.number.to_bytes(2)) for each in given[:1]), last)
        while wire.hear() is not None:
            pass
    with connected(door, name, clean=False, said=FOR_EVER) as wire:
        assert wire.given().payload == b"2"
        wire.silent()


def test_mqtt5_3_1_2_10_a_silent_client_is_told_so(door: DoorNode) -> None:
    with connected(door, keep_alive=1) as wire:
        assert wire.told() == 0x8D


def test_mqtt5_3_2_2_3_14_a_client_is_told_for_how_long_it_may_be_silent(tmp_path: Path) -> None:
    with door_node(tmp_path, mqtt={"max_keep_alive": 2}) as door:
        for asked in (0, 120):
            with Wire5(door.port) as wire:
                assert wire.connect(fresh("till"), keep_alive=asked)[2][0x13] == 2
                assert wire.told() == 0x8D
        for asked in (1, 2):
            with Wire5(door.port) as wire:
                assert 0x13 not in wire.connect(fresh("till"), keep_alive=asked)[2]
        with Wire311(door.port) as older:
            assert older.connect(fresh("till"), keep_alive=120).body == b"\x00\x00"


@pytest.mark.parametrize("said", [b"\x17\x00", b"\x27\x00\x00\x00\x14"])
def test_mqtt5_3_1_2_11_7_and_3_4_2_2_2_a_refusal_has_no_text_for_who_takes_none(
    door: DoorNode, said: bytes
) -> None:
    """Nor where its packet would be larger than its client takes."""
    with connected(door) as plain:
        plain.publish("$SYS/x", b"x", 1, 7)
        assert len(plain.expect(PUBACK).body) > 20
    with connected(door, said=said) as wire:
        wire.publish("$SYS/x", b"x", 1, 7)
        assert wire.expect(PUBACK).body == b"\x00\x07\x90"


def test_mqtt5_4_13_a_client_that_is_still_writing_hears_why_it_is_sent_away(door: DoorNode) -> None:
    """Its machine drops what it has not read if the node's socket is closed with its bytes unread."""
    with connected(door) as wire:
        wire.say(packet(PUBLISH, text("t") + b"\x03\x23\x00\x00"), packet(PINGREQ) * 4_000_000)
        assert wire.told() == 0x94


def test_mqtt5_3_1_2_2_an_unknown_version_is_answered(door: DoorNode) -> None:
    with Wire5(door.port) as wire:
        wire.say(packet(CONNECT, text("MQTT") + b"\x06\x02\x00\x00\x00" + text("x")))
        assert wire.expect(CONNACK).body[:2] == b"\x00\x84"
        wire.closed()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x7f\x00", 0x81),
        (b"\x23\x00\x01", 0x81),
        (b"\x21\x00\x00", 0x82),
        (b"\x21\x00\x01\x21\x00\x01", 0x82),
        (b"\x17\x02", 0x82),
        (b"\x27\x00\x00\x00\x00", 0x82),
        (b"\x11\x00", 0x81),
    ],
    ids=["unknown", "misplaced", "receive 0", "twice", "no truth", "packet 0", "cut"],
)
def test_mqtt5_2_2_2_2_a_property_that_cannot_be_ends_the_connection(
    door: DoorNode, said: bytes, reason: int
) -> None:
    with Wire5(door.port) as wire:
        body = text("MQTT") + b"\x05\x02\x00\x00" + bytes((len(said),)) + said + text("x")
        wire.say(packet(CONNECT, body))
        assert wire.expect(CONNACK).body[:2] == bytes((0, reason))
        wire.closed()


# --- 3.1.2.11.3 Receive Maximum


def test_mqtt5_3_1_2_11_3_no_more_messages_are_under_way_than_the_client_takes(door: DoorNode) -> None:
    """Over all its filters; a QoS 2 message counts until its PUBCOMP."""
    one, two = fresh("one"), fresh("two")
    with connected(door, said=b"\x21\x00\x02") as wire, connected(door) as office:
        wire.subscribe((one, 2), (two, 1))
        for number in range(3):
            assert published(office, one, b"%d" % number, 2) == 0
            assert published(office, two, b"%d" % number, 1) == 0
        first, second = wire.given(), wire.given()
        wire.silent()
        seen = [first, second]
        while len(seen) < 6:
            done = seen[len(seen) - 2]
            if done.qos == 2:
                wire.answer(PUBREC, done.number)
                assert wire.confirmed(PUBREL) == (done.number, 0)
                wire.silent()
                wire.answer(PUBCOMP, done.number)
            else:
                wire.answer(PUBACK, done.number)
            seen.append(wire.given())
            wire.silent()
        assert sorted((each.topic, each.payload) for each in seen) == sorted(
            (topic, b"%d" % number) for topic in (one, two) for number in range(3)
        )


# --- 3.1.2.11.4 Maximum Packet Size


def test_mqtt5_3_2_2_3_3_a_client_that_releases_none_of_its_messages_is_sent_away(door: DoorNode) -> None:
    """With the reason, once more are under way than the node said that it takes."""
    topic = fresh("t")
    with Wire5(door.port) as wire:
        most = wire.connect(fresh("till"))[2][0x21]
        for number in range(1, most + 1):
            wire.publish(topic, b"x", 2, number)
        for number in range(1, most + 1):
            assert wire.confirmed(PUBREC) == (number, 0)
        wire.say(packet(PUBREL, (1).to_bytes(2), 2))
        assert wire.confirmed(PUBCOMP) == (1, 0)
        wire.publish(topic, b"x", 2, 1)
        assert wire.confirmed(PUBREC) == (1, 0)
        wire.publish(topic, b"again", 2, 2)
        assert wire.confirmed(PUBREC) == (2, 0)
        wire.publish(topic, b"x", 2, most + 1)
        assert wire.told() == 0x93


def test_mqtt5_3_1_2_11_4_a_packet_that_the_client_does_not_take_is_a_dead_letter(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door, said=b"\x27\x00\x00\x00\x40") as wire, connected(door) as office:
        wire.subscribe((topic, 1))
        assert published(office, topic, bytes(100)) == 0
        assert published(office, topic, b"small") == 0
        assert wire.given().payload == b"small"
    assert any("TOO_LARGE" in reason and "takes 64" in reason for reason in door.dead())


def test_mqtt5_3_1_2_11_4_a_client_that_takes_no_connack_is_refused_with_one_that_it_takes(
    door: DoorNode,
) -> None:
    name = fresh("till")
    with connected(door, name, said=b"\x27\x00\x00\x00\x10") as wire:
        for most, code in ((5, b"\x20\x03\x00\x95\x00"), (4, b"")):
            with Wire5(door.port) as other:
                said = b"\x27" + most.to_bytes(4)
                other.say(packet(CONNECT, text("MQTT") + b"\x05\x02\x00\x00\x05" + said + text(name)))
                if code:
                    assert other.expect(CONNACK).body == code[2:]
                other.closed()
        wire.silent()


@pytest.mark.parametrize(("kind", "options"), [(SUBSCRIBE, b"\x01"), (UNSUBSCRIBE, b"")])
def test_mqtt5_3_1_2_11_4_a_client_that_does_not_take_the_answer_for_its_filters_is_told_so(
    door: DoorNode, kind: int, options: bytes
) -> None:
    filters = [(fresh("t"), 1) for _ in range(16)]
    with connected(door, said=b"\x27\x00\x00\x00\x14") as wire:
        assert wire.subscribe(*filters[:15]) == bytes([1]) * 15
        wire.say(packet(kind, b"\x00\x01\x00" + b"".join(text(name) + options for name, _ in filters), 2))
        assert wire.told() == 0x95


def test_mqtt5_3_2_2_3_6_a_packet_that_the_node_does_not_take_ends_the_connection_with_its_reason(
    door: DoorNode,
) -> None:
    with Wire5(door.port) as wire:
        _, _, said = wire.connect(fresh("till"))
        most = said[0x27]
        wire.say(b"\x30" + b"\xff\xff\xff\x7f")
        assert most < 0x7F * 128**3
        assert wire.told() == 0x95


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt5_3_4_2_1_a_message_with_more_properties_than_the_node_takes_is_refused_in_its_answer(
    door: DoorNode, qos: int
) -> None:
    """Else its client would come back with the same for ever."""
    with connected(door) as wire:
        user = (b"\x26" + text("a") + text("b" * 60_000)) * 5
        assert published(wire, fresh("t"), b"x", qos, said=user) == 0x83
        assert published(wire, fresh("t"), b"x", qos) < 0x80


# --- 3.3 PUBLISH


def test_mqtt5_3_3_2_3_all_properties_of_a_message_reach_its_reader(door: DoorNode) -> None:
    topic = fresh("t")
    sent = (
        b"\x01\x01\x03" + text("text/plain") + b"\x08" + text("answers/1") + b"\x09" + text(b"\x00\xff")
        + b"\x26" + text("a") + text("1") + b"\x26" + text("a") + text("2") + b"\x26" + text("b") + text("")
    )  # fmt: skip
    with connected(door) as wire:
        wire.subscribe((topic, 1))
        wire.publish(topic, b"x", 0, said=sent)
        assert wire.given().said == {
            0x01: 1,
            0x03: b"text/plain",
            0x08: b"answers/1",
            0x09: b"\x00\xff",
            0x26: [(b"a", b"1"), (b"a", b"2"), (b"b", b"")],
        }


@pytest.mark.parametrize("said", [b"\x01\x00", b"\x01\x01", b""])
def test_mqtt5_3_3_2_3_2_the_payload_format_is_sent_unaltered(door: DoorNode, said: bytes) -> None:
    topic = fresh("t")
    with connected(door) as wire:
        wire.subscribe((topic, 1))
        wire.publish(topic, b"x", 0, said=said)
        assert wire.given().said == ({0x01: said[1]} if said else {})


def test_mqtt5_3_3_2_3_3_the_expiry_that_is_left_is_told_and_an_expired_message_is_not_given(
    door: DoorNode,
) -> None:
    topic, name = fresh("t"), fresh("till")
    with connected(door, name, said=FOR_EVER) as wire:
        wire.subscribe((topic, 1))
    with connected(door) as office:
        assert published(office, topic, b"soon", said=b"\x02\x00\x00\x00\x01") == 0
        assert published(office, topic, b"late", said=b"\x02\x00\x00\x10\x00") == 0
    door.until(lambda: any("EXPIRED" in reason for reason in door.dead()), "burying it")
    with connected(door, name, clean=False) as wire:
        found = wire.given()
        assert found.payload == b"late"
        assert 1 <= found.said[0x02] < 0x1000


def test_mqtt5_3_3_2_3_3_a_retained_message_has_the_time_that_is_left_also_over_a_kill_and_then_goes(
    tmp_path: Path,
) -> None:
    def lefts(door: DoorNode, pattern: str = "clock/kept") -> dict[str, int]:
        """Seconds that each retained message has left, for a new subscription: "clock/kept" is the last."""
        found: dict[str, int] = {}
        with connected(door) as wire:
            wire.subscribe((pattern, 0))
            while "clock/kept" not in found:
                given = wire.given()
                found[given.topic] = given.said[0x02]
        return found

    with door_node(tmp_path) as door:
        with connected(door) as office:
            published(office, "clock/brief", b"x", retain=True, said=b"\x02\x00\x00\x00\x05")
            published(office, "clock/kept", b"x", retain=True, said=b"\x02\x00\x00\x03\xe8")
        first = lefts(door)["clock/kept"]
        assert first <= 1000
        door.restart_after_kill()
        # Nobody is given one that is about to expire: that copy would become a dead letter.
        door.until(lambda: lefts(door)["clock/kept"] < first - 6, "older")
        assert list(lefts(door, "clock/+")) == ["clock/kept"]
        assert "EXPIRED" not in door.dead()


@pytest.mark.parametrize("stop", ["kill", "end"])
def test_mqtt5_3_1_2_4_a_clean_session_has_no_part_in_one_from_before_a_restart(
    tmp_path: Path, stop: str
) -> None:
    """Retained messages come to its subscriptions, and what the one before had not acknowledged does not."""
    with door_node(tmp_path) as door:
        with connected(door, "till") as wire, connected(door, "office") as office:
            published(office, "kept", b"kept", retain=True)
            wire.subscribe(("kept", 1), ("news", 1))
            assert wire.given().payload == b"kept"
            published(office, "news", b"of the session before")
            assert wire.given().payload == b"of the session before"
            if stop == "kill":
                door.restart_after_kill()
            else:
                asyncio.run(door.process.stop())
                door.start()
        with connected(door, "till") as wire:
            wire.subscribe(("kept", 1), ("news", 1))
            assert wire.given().payload == b"kept"
            wire.silent()


def test_mqtt5_3_3_2_3_4_a_topic_alias_stands_for_its_topic_and_can_be_set_anew(door: DoorNode) -> None:
    one, two = fresh("one"), fresh("two")
    with connected(door) as wire, connected(door) as reader:
        reader.subscribe((one, 0), (two, 0))
        wire.publish(one, b"1", said=b"\x23\x00\x01")
        wire.publish("", b"2", said=b"\x23\x00\x01")
        wire.publish(two, b"3", said=b"\x23\x00\x01")
        wire.publish("", b"4", said=b"\x23\x00\x01")
        found = [reader.given() for _ in range(4)]
        assert sorted((each.topic, each.payload) for each in found) == sorted(
            [(one, b"1"), (one, b"2"), (two, b"3"), (two, b"4")]
        )


def test_mqtt5_3_3_2_3_4_a_message_that_is_refused_for_its_properties_sets_its_alias(door: DoorNode) -> None:
    """Else what comes next with it would go to the topic that it stood for before."""
    one, two, many = fresh("one"), fresh("two"), b"\x26\x00\x01n" + text(b"v" * 65_000)
    with connected(door) as wire, connected(door) as reader:
        reader.subscribe((one, 0), (two, 0))
        assert published(wire, one, b"1", said=b"\x23\x00\x01") == 0
        assert published(wire, two, b"large", said=4 * many + b"\x23\x00\x01" + many) == 0x83
        assert published(wire, "", b"large", said=5 * many + b"\x23\x00\x01") == 0x83
        assert published(wire, "", b"2", said=b"\x23\x00\x01") == 0
        found = [reader.given() for _ in range(2)]
        assert [(each.topic, each.payload) for each in found] == [(one, b"1"), (two, b"2")]


@pytest.mark.parametrize(("alias", "reason"), [(0, 0x94), (65, 0x94), (9, 0x82)])
def test_mqtt5_3_3_2_3_4_a_topic_alias_that_is_none_ends_the_connection(
    door: DoorNode, alias: int, reason: int
) -> None:
    with connected(door) as wire:
        wire.publish("", b"x", said=b"\x23" + alias.to_bytes(2))
        assert wire.told() == reason


def test_mqtt5_3_3_2_3_4_an_alias_ends_with_its_connection(door: DoorNode) -> None:
    name, topic = fresh("till"), fresh("t")
    with connected(door, name, said=FOR_EVER) as wire:
        assert published(wire, topic, b"1", said=b"\x23\x00\x01") == 0
    with connected(door, name, clean=False, said=FOR_EVER) as wire:
        wire.publish("", b"x", said=b"\x23\x00\x01")
        assert wire.told() == 0x82


def test_mqtt5_3_1_2_11_5_the_node_gives_topics_aliases_as_many_as_its_client_takes(door: DoorNode) -> None:
    one, two = fresh("one"), fresh("two")
    with connected(door, said=b"\x22\x00\x01") as wire:
        wire.subscribe((one, 0), (two, 0))
        for topic in (one, one, two):
            wire.publish(topic, b"x")
            found = wire.given()
            seen = (found.topic, found.said.get(0x23))
            assert seen in ((one, 1), ("", 1), (two, None))
        assert seen == (two, None)


def test_mqtt5_3_3_4_a_client_that_names_a_subscription_identifier_is_sent_away(door: DoorNode) -> None:
    with connected(door) as wire:
        wire.publish("t", b"x", said=b"\x0b\x01")
        assert wire.told() == 0x82


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "a/#", "a/+/b", "/".join("a" * 200), "x" * 5000])
@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt5_3_4_2_1_what_will_never_be_taken_is_answered_with_its_reason(
    door: DoorNode, topic: str, qos: int
) -> None:
    before = sum(door.dead().values())
    with connected(door) as wire:
        assert published(wire, topic, b"x", qos) in (0x90, 0x83)
        assert published(wire, "fine", b"x", qos) == 0
    assert sum(door.dead().values()) == before


def test_mqtt5_3_4_2_1_a_message_above_the_maximum_is_answered_with_its_reason(door: DoorNode) -> None:
    with connected(door) as wire:
        assert published(wire, "t", bytes(16 * 1024 * 1024 + 1)) == 0x83
        wire.silent()


# --- 3.8 SUBSCRIBE


def test_mqtt5_3_8_3_1_no_local_messages_do_not_come_back_to_who_sent_them(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as wire, connected(door) as other:
        assert wire.subscribe((topic, 0x04 | 1)) == b"\x01"
        assert published(wire, topic, b"mine") == 0
        assert published(other, topic, b"yours") == 0
        assert wire.given().payload == b"yours"
        wire.silent()


def test_mqtt5_3_8_3_1_retain_as_published_keeps_the_flag(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as plain, connected(door) as exact, connected(door) as office:
        plain.subscribe((topic, 1))
        exact.subscribe((topic, 0x08 | 1))
        published(office, topic, b"kept", retain=True)
        assert (plain.given().retain, exact.given().retain) == (False, True)
        published(office, topic, b"not kept")
        assert (plain.given().retain, exact.given().retain) == (False, False)


def test_mqtt5_3_3_1_3_retain_handling_says_when_retained_messages_come(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as wire:
        published(wire, topic, b"kept", retain=True)
        assert wire.subscribe((topic, 0x20 | 1)) == b"\x01"
        wire.silent()
        assert wire.subscribe((topic, 0x10 | 1)) == b"\x01"
        wire.silent()
        assert wire.subscribe((topic, 1)) == b"\x01"
        found = wire.given()
        assert (found.payload, found.retain) == (b"kept", True)
        wire.say(packet(UNSUBSCRIBE, b"\x00\x05\x00" + text(topic), 2))
        assert wire.expect(UNSUBACK).body == b"\x00\x05\x00\x00"
        assert wire.subscribe((topic, 0x10 | 1)) == b"\x01"
        assert wire.given().payload == b"kept"


@pytest.mark.parametrize("qos", [0, 1])
def test_mqtt5_3_3_1_3_a_message_published_before_a_subscription_is_a_retained_one_for_it(
    door: DoorNode, qos: int
) -> None:
    """Nobody waits for an answer in between: all of it comes in one segment."""
    never, anew, always = (fresh(each) for each in ("never", "anew", "always"))
    number = b"\x00\x07" if qos else b""
    with connected(door) as wire:
        said = [
            packet(PUBLISH, text(each) + number + b"\x00x", qos << 1 | 1) for each in (never, anew, always)
        ]
        for handling, topic in ((0x20, never), (0x10, anew), (0, always), (0, always)):
            said.append(packet(SUBSCRIBE, b"\x00\x01\x00" + text(topic) + bytes((handling,)), 2))
        wire.say(b"".join(said))
        got = [wire.hear() for _ in range((3 if qos else 0) + 4 + 3)]
        given = [(each.flags, each.body[2:-2]) for each in got if each is not None and each.kind == PUBLISH]
        assert given == [(1, anew.encode()), (1, always.encode()), (1, always.encode())]
        wire.silent()


def test_mqtt5_3_8_2_1_2_a_subscription_identifier_comes_with_each_message_also_after_a_kill(
    tmp_path: Path,
) -> None:
    with door_node(tmp_path) as door:
        with connected(door, "till", said=FOR_EVER) as wire, connected(door) as office:
            wire.subscribe(("a/#", 0x08 | 2), said=b"\x0b\x80\x01")
            wire.subscribe(("b", 1))
            published(office, "a/1", b"x")
            assert wire.given().said == {0x0B: 128}
            published(office, "b", b"x")
            assert wire.given().said == {}
        door.restart_after_kill()
        with connected(door, "till", clean=False, said=FOR_EVER) as wire:
            wire.publish("a/2", b"y", 0, retain=True)
            found = wire.given()
            while found.payload != b"y":
                found = wire.given()
            assert (found.topic, found.retain, found.said) == ("a/2", True, {0x0B: 128})


def test_mqtt5_3_3_4_of_overlapping_filters_each_has_its_copy_with_its_identifier(door: DoorNode) -> None:
    """One copy with both identifiers is allowed as well; here it is a copy for each filter."""
    topic = fresh("t")
    with connected(door) as wire, connected(door) as office:
        wire.subscribe((topic, 1), said=b"\x0b\x02")
        wire.subscribe((topic + "/#", 2), said=b"\x0b\x03")
        wire.subscribe((topic + "/#", 2), said=b"\x0b\x04")
        assert published(office, topic, b"x", 2) == 0
        got = [wire.given() for _ in range(2)]
        assert {(each.qos, each.said[0x0B]) for each in got} == {(1, 2), (2, 4)}
        wire.silent()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x00\x01\x02\x0b\x00" + text("a") + b"\x00", 0x82),
        (b"\x00\x01\x00" + text("a") + b"\x03", 0x82),
        (b"\x00\x01\x00" + text("a") + b"\x30", 0x82),
        (b"\x00\x01\x00" + text("a") + b"\x40", 0x81),
        (b"\x00\x01\x00" + text("$share/g/queue/a") + b"\x05", 0x82),
    ],
    ids=["identifier 0", "QoS 3", "handling 3", "reserved", "shared and no local"],
)
def test_mqtt5_3_8_3_1_options_that_cannot_be_end_the_connection(
    door: DoorNode, body: bytes, reason: int
) -> None:
    with connected(door) as wire:
        wire.say(packet(SUBSCRIBE, body, 2))
        assert wire.told() == reason


@pytest.mark.parametrize("kind", [SUBSCRIBE, UNSUBSCRIBE])
def test_mqtt5_3_8_3_and_3_10_3_a_packet_without_a_filter_is_a_protocol_error(
    door: DoorNode, kind: int
) -> None:
    with connected(door) as wire:
        wire.say(packet(kind, b"\x00\x01\x00", 2))
        assert wire.told() == 0x82


@pytest.mark.parametrize(("kind", "filters"), [(SUBSCRIBE, bytes(3)), (UNSUBSCRIBE, bytes(2))])
def test_mqtt5_4_7_3_an_empty_filter_is_malformed(door: DoorNode, kind: int, filters: bytes) -> None:
    with connected(door) as wire:
        wire.say(packet(kind, b"\x00\x01\x00" + filters, 2))
        assert wire.told() == 0x81
    with Wire311(door.port) as older:
        older.connect(fresh("till"))
        older.say(packet(kind, b"\x00\x01" + filters, 2))
        older.closed()


def test_mqtt5_3_9_3_and_3_11_3_each_filter_has_its_reason(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as wire:
        assert wire.subscribe((topic, 2), ("a/#/b", 1), ("$share/g/queue/q", 2)) == b"\x02\x8f\x01"
        wire.say(packet(UNSUBSCRIBE, b"\x00\x05\x00" + text(topic) + text("never/there"), 2))
        assert wire.expect(UNSUBACK).body == b"\x00\x05\x00\x00\x11"


# --- 4.8.2 shared subscriptions


def test_mqtt5_4_8_2_a_message_goes_to_one_of_a_group_and_to_each_group(door: DoorNode) -> None:
    """The retained message goes to none of them."""
    topic = fresh("t")
    with connected(door) as one, connected(door) as two, connected(door) as other, connected(door) as office:
        published(office, topic, b"kept", retain=True)
        for wire, group in ((one, "g"), (two, "g"), (other, "h")):
            assert wire.subscribe((f"$share/{group}/{topic}", 2)) == b"\x01"
        for number in range(6):
            published(office, topic, b"%d" % number)
        every = [other.given().payload for _ in range(6)]
        assert every == [b"%d" % number for number in range(6)]
        other.silent()
        found = sorted(wire.given().payload for wire in (one, two, one, two, one, two))
        assert found == every
        one.silent()
        two.silent()


def test_mqtt5_4_8_2_what_one_of_a_group_leaves_goes_to_the_others(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as stays, connected(door) as office:
        leaves = connected(door)
        leaves.subscribe((f"$share/g/{topic}", 1))
        for number in range(3):
            published(office, topic, b"%d" % number)
            leaves.given()
        stays.subscribe((f"$share/g/{topic}", 1))
        leaves.break_off()
        assert [stays.given().payload for _ in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("filters", ["$share/g", "$share//t", "$share/+/t", "$share/g/", "$share/g/a#"])
def test_mqtt5_4_8_2_a_shared_filter_that_is_none_is_refused(door: DoorNode, filters: str) -> None:
    with connected(door) as wire:
        assert wire.subscribe((filters, 1)) == b"\x8f"


def test_mqtt5_4_8_2_no_local_on_a_shared_filter_of_topics_is_a_protocol_error(door: DoorNode) -> None:
    with connected(door) as wire:
        wire.say(packet(SUBSCRIBE, b"\x00\x01\x00" + text("$share/g/t") + b"\x05", 2))
        assert wire.told() == 0x82


def test_mqtt5_4_8_2_a_group_lasts_as_long_as_its_sessions_also_over_a_kill(tmp_path: Path) -> None:
    with door_node(tmp_path) as door:
        with connected(door, "till", said=FOR_EVER) as wire, connected(door) as passing:
            wire.subscribe(("$share/g/t/#", 1))
            passing.subscribe(("$share/g/t/#", 1), ("$share/h/t/#", 1))
        with connected(door) as office:
            published(office, "t/1", b"before")
        door.restart_after_kill()
        with connected(door) as office:
            published(office, "t/1", b"after")
        with connected(door, "till", clean=False, said=FOR_EVER) as wire:
            assert [wire.given().payload for _ in range(2)] == [b"before", b"after"]
            wire.say(packet(UNSUBSCRIBE, b"\x00\x05\x00" + text("$share/g/t/#"), 2))
            assert wire.expect(UNSUBACK).body == b"\x00\x05\x00\x00"
            published(wire, "t/1", b"nobody's")
            wire.silent()
            assert "t/#" not in str(door.ask("status")["subscriptions"])


# --- 4.3.3 QoS 2 and its reasons


def test_mqtt5_3_6_2_1_an_identifier_that_nobody_knows_is_answered_with_its_reason(door: DoorNode) -> None:
    with connected(door) as wire:
        wire.answer(PUBREL, 9)
        assert wire.confirmed(PUBCOMP) == (9, 0x92)
        wire.answer(PUBREC, 9)
        assert wire.confirmed(PUBREL) == (9, 0x92)


def test_mqtt5_4_3_3_a_refusal_of_the_reader_ends_the_delivery(door: DoorNode) -> None:
    topic, name = fresh("t"), fresh("till")
    with connected(door, name, said=FOR_EVER) as wire:
        wire.subscribe((topic, 2))
        wire.publish(topic, b"x", 2, 1)
        heard = {found.kind: found for found in (wire.hear(), wire.hear()) if found is not None}
        assert set(heard) == {PUBLISH, PUBREC}
        wire.answer(PUBREC, 1, 0x97)
        wire.silent()
    with connected(door, name, clean=False, said=FOR_EVER) as wire:
        wire.silent()


# --- 3.1.2.5 and 3.1.3.2 wills


def test_mqtt5_3_1_3_2_2_a_will_waits_for_its_delay_and_is_not_sent_if_the_client_comes_back(
    door: DoorNode,
) -> None:
    topic, name = fresh("gone"), fresh("till")
    delay = b"\x18\x00\x00\x00\x02"
    with connected(door) as reader:
        reader.subscribe((topic, 1))
        first = Wire5(door.port)
        first.connect(name, said=FOR_EVER, will=(topic, b"first", 1, False, delay + b"\x03" + text("t")))
        first.break_off()
        again = Wire5(door.port)
        again.connect(name, clean=False, said=FOR_EVER, will=(topic, b"second", 1, False, delay))
        again.break_off()
        assert reader.given().payload == b"second"


def test_mqtt5_3_1_3_2_2_a_will_goes_at_once_where_the_session_ends(door: DoorNode) -> None:
    topic, name = fresh("gone"), fresh("till")
    delay = b"\x18\x00\x01\x00\x00"
    with connected(door) as reader:
        reader.subscribe((topic, 1))
        for _ in range(2):
            wire = Wire5(door.port)
            wire.connect(name, will=(topic, b"no session", 1, False, delay))
            wire.break_off()
            assert reader.given().payload == b"no session"
        wire = Wire5(door.port)
        wire.connect(name, said=FOR_EVER, will=(topic, b"ended", 1, False, delay))
        wire.break_off()
        with connected(door, name):
            assert reader.given().payload == b"ended"


def test_mqtt5_3_1_2_5_only_a_normal_disconnect_takes_the_will_back(door: DoorNode) -> None:
    topic = fresh("gone")
    with connected(door) as reader:
        reader.subscribe((topic, 1))
        for reason in (0x00, 0x04, 0x80, 0x93):
            wire = Wire5(door.port)
            wire.connect(fresh("till"), will=(topic, b"%d" % reason, 1, False, b""))
            wire.say(packet(DISCONNECT, bytes((reason,))))
            wire.closed()
        assert [reader.given().payload for _ in range(3)] == [b"4", b"128", b"147"]
        reader.silent()


def test_mqtt5_3_14_2_1_a_node_that_stops_says_so_and_sends_no_will(
    tmp_path: Path,
) -> None:
    with door_node(tmp_path) as door:
        with connected(door, "reader", said=FOR_EVER) as reader, Wire5(door.port) as wire:
            reader.subscribe(("gone", 1))
            wire.connect("till", will=("gone", b"lost", 1, False, b""))
            door.process.signal(signal.SIGTERM)
            assert wire.told() == 0x8B
            assert reader.told() == 0x8B
        asyncio.run(door.process.exited(PATIENCE))
        door.start()
        with connected(door, "reader", clean=False, said=FOR_EVER) as reader:
            reader.silent()


def test_mqtt5_3_1_3_2_2_a_delayed_will_outlives_a_kill_of_the_node(tmp_path: Path) -> None:
    with door_node(tmp_path) as door:
        wire = Wire5(door.port)
        wire.connect("till", said=FOR_EVER, will=("gone", b"lost", 1, False, b"\x18\x00\x00\x00\x05"))
        wire.subscribe(("gone", 1 | 4), ("other", 1))
        with connected(door, "reader", said=FOR_EVER) as reader:
            reader.subscribe(("gone", 1))
            wire.break_off()
            published(reader, "other", b"x")  # the break is on disk before the kill
            door.until(lambda: door.ask("status")["mqtt"]["clients"] == 1, "rid of it")
            published(reader, "other", b"x")
        door.restart_after_kill()
        with connected(door, "reader", clean=False, said=FOR_EVER) as reader:
            assert reader.given().payload == b"lost"
        with connected(door, "till", clean=False, said=FOR_EVER) as wire:
            assert [wire.given().payload for _ in range(2)] == [b"x", b"x"]
            wire.silent()


# --- 4.10 request and response


def test_mqtt5_4_10_a_request_is_answered_at_its_response_topic(door: DoorNode) -> None:
    question, answer = fresh("question"), fresh("answer")
    with connected(door) as asks, connected(door) as answers:
        answers.subscribe((question, 1))
        asks.subscribe((answer, 1))
        asks.publish(question, b"?", 0, said=b"\x08" + text(answer) + b"\x09" + text(b"7"))
        found = answers.given()
        answers.publish(found.said[0x08].decode(), b"!", 0, said=b"\x09" + text(found.said[0x09]))
        got = asks.given()
        assert (got.topic, got.payload, got.said[0x09]) == (answer, b"!", b"7")


def test_mqtt5_and_3_1_1_clients_share_topics(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as newer, Wire311(door.port) as older:
        older.connect(fresh("older"))
        older.subscribe((topic, 1))
        newer.subscribe((topic, 1))
        newer.publish(topic, b"from 5", 0, said=b"\x03" + text("x"))
        assert older.given()[:3] == (topic, b"from 5", 0)
        assert newer.given().payload == b"from 5"
        older.publish(topic, b"from 3.1.1", 0)
        assert newer.given().said == {}
