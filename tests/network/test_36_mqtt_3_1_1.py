"""MQTT 3.1.1 at a node's door: cases from the specification, whose section is in each name, byte by byte."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mqtt_wire import (
    CONNACK,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    UNSUBACK,
    UNSUBSCRIBE,
    DoorNode,
    Wire311,
    door_node,
    fresh,
    packet,
    text,
)


def connected(door: DoorNode, name: str = "", *, clean: bool = True) -> Wire311:
    wire = Wire311(door.port)
    assert wire.connect(name or fresh("client"), clean=clean).body[1] == 0
    return wire


# --- 3.2.2.2 Session Present


def test_mqtt311_3_2_2_2_a_session_without_subscriptions_is_present_when_its_client_comes_back(
    door: DoorNode,
) -> None:
    name = fresh("till")
    with Wire311(door.port) as wire:
        assert wire.connect(name, clean=False).body == b"\x00\x00"
        wire.say(packet(14))
        wire.closed()
    with Wire311(door.port) as wire:
        assert wire.connect(name, clean=False).body == b"\x01\x00"


def test_mqtt311_3_1_2_4_a_clean_session_ends_the_one_before_and_is_not_kept(door: DoorNode) -> None:
    name, topic = fresh("till"), fresh("t")
    with connected(door, name, clean=False) as wire:
        assert wire.subscribe((topic, 1)) == b"\x01"
    with Wire311(door.port) as wire:
        assert wire.connect(name, clean=True).body == b"\x00\x00"
        wire.publish(topic, b"x", 1, 1)
        assert wire.confirmed(PUBACK) == 1
        wire.silent()
    with Wire311(door.port) as wire:
        assert wire.connect(name, clean=False).body == b"\x00\x00"


# --- 3.3.1.3 retain


def test_mqtt311_3_3_1_3_the_retain_flag_is_set_for_a_new_subscription_and_not_for_one_that_was_there(
    door: DoorNode,
) -> None:
    topic = fresh("prices")
    with connected(door) as reader, connected(door) as late:
        reader.subscribe((topic, 1))
        reader.publish(topic, b"46", 1, 1, retain=True)
        kinds = {(each.kind, each.flags & 1) for each in (reader.hear(), reader.hear()) if each is not None}
        assert kinds == {(PUBACK, 0), (3, 0)}
        late.subscribe((topic, 1))
        assert late.given()[:4] == (topic, b"46", 1, True)


def test_mqtt311_3_3_1_3_a_live_message_that_waited_for_its_reader_has_no_retain_flag(door: DoorNode) -> None:
    topic, name = fresh("prices"), fresh("till")
    with connected(door, name, clean=False) as wire:
        wire.subscribe((topic, 1))
    with connected(door) as office:
        office.publish(topic, b"46", 1, 1, retain=True)
        office.confirmed(PUBACK)
    with connected(door, name, clean=False) as wire:
        assert wire.given()[:4] == (topic, b"46", 1, False)


def test_mqtt311_3_3_1_3_an_empty_payload_clears_and_is_given_to_who_listens(door: DoorNode) -> None:
    topic = fresh("prices")
    with connected(door) as wire, connected(door) as late:
        wire.publish(topic, b"46", 1, 1, retain=True)
        wire.confirmed(PUBACK)
        wire.subscribe((topic, 0))
        assert wire.given()[:4] == (topic, b"46", 0, True)
        wire.publish(topic, b"", 0, retain=True)
        assert wire.given()[:4] == (topic, b"", 0, False)
        late.subscribe((topic, 1))
        late.silent()


def test_mqtt311_3_8_4_the_answer_to_a_subscription_comes_before_its_retained_messages(
    door: DoorNode,
) -> None:
    """The specification lets them come first; clients that wait for the answer alone would miss them."""
    topic = fresh("prices")
    with connected(door) as wire, connected(door) as late:
        for number in range(20):
            wire.publish(f"{topic}/{number}", b"46", retain=True)
        wire.silent()
        assert late.subscribe((f"{topic}/+", 0), (f"{topic}/#", 1)) == b"\x00\x01"
        missing = {f"{topic}/{number}" for number in range(20)}
        while missing:  # each filter brings its own copies, in any order
            missing.discard(late.given()[0])
        late.say(packet(12))
        while (found := late.hear()) is not None and found.kind == PUBLISH:
            assert found.flags & 1
        assert found is not None
        assert found.kind == PINGRESP


def test_mqtt311_3_8_4_to_subscribe_again_brings_the_retained_messages_again_and_loses_nothing(
    door: DoorNode,
) -> None:
    topic = fresh("prices")
    with connected(door) as wire, connected(door) as office:
        office.publish(topic, b"46", 1, 1, retain=True)
        office.confirmed(PUBACK)
        assert wire.subscribe((topic, 0)) == b"\x00"
        assert wire.given()[:4] == (topic, b"46", 0, True)
        assert wire.subscribe((topic, 1)) == b"\x01"
        found = wire.given()
        assert found[:4] == (topic, b"46", 1, True)
        wire.answer(PUBACK, found[5])
        wire.silent()


# --- 4.3.3 QoS 2


def test_mqtt311_4_3_3_a_message_is_given_with_the_smaller_qos_of_its_sender_and_its_reader(
    door: DoorNode,
) -> None:
    topic = fresh("t")
    with connected(door) as wire, connected(door) as office:
        assert wire.subscribe((topic, 2)) == b"\x02"
        for qos in (0, 1):
            office.publish(topic, b"%d" % qos, qos, 1)
            assert wire.given()[:3] == (topic, b"%d" % qos, qos)
        assert office.confirmed(PUBACK) == 1
        office.publish(topic, b"2", 2, 2)
        assert office.confirmed(PUBREC) == 2
        office.answer(PUBREL, 2)
        assert office.confirmed(PUBCOMP) == 2
        found = wire.given()
        assert found[:3] == (topic, b"2", 2)
        wire.answer(PUBREC, found[5])
        assert wire.expect(PUBREL) == (PUBREL, 2, found[5].to_bytes(2))
        wire.answer(PUBCOMP, found[5])
        wire.silent()


def test_mqtt311_4_3_3_a_message_that_comes_again_before_its_release_is_taken_once(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as wire, connected(door) as office:
        wire.subscribe((topic, 0))
        for dup in (False, True, True):
            office.publish(topic, b"once", 2, 7, dup=dup)
            assert office.confirmed(PUBREC) == 7
        office.answer(PUBREL, 7)
        assert office.confirmed(PUBCOMP) == 7
        assert wire.given()[1] == b"once"
        wire.silent()
        office.publish(topic, b"another", 2, 7)
        assert wire.given()[1] == b"another"


def test_mqtt311_4_8_a_message_in_front_of_a_packet_that_is_none_is_not_lost(door: DoorNode) -> None:
    topic, name = fresh("t"), fresh("till")
    message = text(topic) + (7).to_bytes(2) + b"once"
    with connected(door) as reader:
        reader.subscribe((topic, 1))
        with connected(door, name, clean=False) as office:
            office.say(packet(3, message, 4) + packet(15))
            office.closed()
        with connected(door, name, clean=False) as office:
            office.publish(topic, b"once", 2, 7, dup=True)
            assert office.confirmed(PUBREC) == 7
        assert reader.given()[1] == b"once"
        reader.silent()


def test_mqtt311_4_4_messages_and_releases_are_repeated_with_their_identifiers_when_a_client_comes_back(
    door: DoorNode,
) -> None:
    topic, name = fresh("t"), fresh("till")
    wire = connected(door, name, clean=False)
    wire.subscribe((topic, 2))
    with connected(door) as office:
        for number in (1, 2):
            office.publish(topic, b"%d" % number, 2, number)
            office.confirmed(PUBREC)
    first, second = wire.given(), wire.given()
    wire.answer(PUBREC, first[5])
    assert wire.confirmed(PUBREL) == first[5]
    wire.break_off()
    with connected(door, name, clean=False) as wire:
        assert wire.confirmed(PUBREL) == first[5]
        assert wire.given() == (topic, b"2", 2, False, True, second[5])
        wire.answer(PUBCOMP, first[5])
        wire.answer(PUBREC, second[5])
        assert wire.confirmed(PUBREL) == second[5]
        wire.answer(PUBCOMP, second[5])
        wire.silent()


# --- what will never be taken


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "a/#", "a/+/b", "/".join("a" * 200), "x" * 5000, ""])
@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt311_3_3_5_what_will_never_be_taken_is_answered_and_a_dead_letter(
    door: DoorNode, topic: str, qos: int
) -> None:
    before = sum(door.dead().values())
    with connected(door) as wire:
        wire.publish(topic, b"x", qos, 9)
        assert wire.confirmed(PUBACK if qos == 1 else PUBREC) == 9
        wire.silent()
    assert sum(door.dead().values()) == before + 1


def test_mqtt311_3_3_5_a_message_that_is_too_large_is_answered_and_a_dead_letter(door: DoorNode) -> None:
    def too_large() -> int:
        return sum(count for reason, count in door.dead().items() if reason.startswith("TOO_LARGE"))

    before = too_large()
    with connected(door) as wire, connected(door) as reader:
        topic = fresh("t")
        reader.subscribe((topic, 1))
        wire.publish(topic, bytes(16 * 1024 * 1024 + 1), 1, 1)
        wire.publish(topic, bytes(20 * 1024 * 1024), 1, 2)
        wire.publish(topic, b"small", 1, 3)
        assert [wire.confirmed(PUBACK) for _ in range(3)] == [1, 2, 3]
        assert reader.given()[1] == b"small"
    assert too_large() == before + 2


def test_mqtt311_4_7_2_a_filter_that_begins_with_a_wildcard_is_given_no_topic_that_begins_with_a_dollar(
    door: DoorNode,
) -> None:
    leaf = fresh("leaf")
    with connected(door) as wire, connected(door) as exact:
        wire.subscribe((f"+/{leaf}", 0), (f"+/{leaf}/#", 0))
        exact.subscribe((f"$machine/{leaf}", 0))
        exact.publish(f"$machine/{leaf}", b"x", 1, 1)
        kinds = {each.kind for each in (exact.hear(), exact.hear()) if each is not None}
        assert kinds == {PUBACK, 3}
        wire.silent()


# --- 3.1 and 3.14: wills and takeover


def test_mqtt311_3_1_2_5_a_will_is_published_with_its_qos_when_the_line_breaks(door: DoorNode) -> None:
    topic = fresh("gone")
    with connected(door) as reader:
        reader.subscribe((topic, 2))
        wire = Wire311(door.port)
        wire.connect(fresh("till"), will=(topic, b"lost", 2, False))
        wire.break_off()
        assert reader.given()[:4] == (topic, b"lost", 2, False)


def test_mqtt311_3_1_4_a_second_connection_of_a_client_ends_the_first_and_has_its_session(
    door: DoorNode,
) -> None:
    name, topic = fresh("till"), fresh("t")
    with connected(door, name, clean=False) as first, Wire311(door.port) as second:
        first.subscribe((topic, 1))
        assert second.connect(name, clean=False).body == b"\x01\x00"
        first.closed()
        second.publish(topic, b"x", 1, 1)
        kinds = {each.kind for each in (second.hear(), second.hear()) if each is not None}
        assert kinds == {PUBACK, 3}


def test_mqtt311_3_1_4_a_second_connect_is_a_fault(door: DoorNode) -> None:
    with connected(door) as wire:
        wire.say(packet(1, text("MQTT") + b"\x04\x02\x00\x00" + text("x")))
        wire.closed()


def test_mqtt311_3_1_3_1_a_client_without_a_name_must_be_clean(door: DoorNode) -> None:
    with Wire311(door.port) as wire:
        assert wire.connect("", clean=True).body == b"\x00\x00"
    with Wire311(door.port) as wire:
        assert wire.connect("", clean=False).body == b"\x00\x02"
        wire.closed()


def test_mqtt311_3_1_2_9_a_password_without_a_user_is_no_connect(door: DoorNode) -> None:
    with Wire311(door.port) as wire:
        wire.say(packet(1, text("MQTT") + b"\x04\x42\x00\x00" + text(fresh("till")) + text("secret")))
        wire.closed()


def test_mqtt311_3_11_an_unsubscribed_filter_is_given_nothing_more(door: DoorNode) -> None:
    topic = fresh("t")
    with connected(door) as wire:
        wire.subscribe((topic, 1))
        wire.say(packet(UNSUBSCRIBE, b"\x00\x05" + text(topic) + text("never/there"), 2))
        assert wire.expect(UNSUBACK).body == b"\x00\x05"
        wire.publish(topic, b"x", 1, 1)
        wire.confirmed(PUBACK)
        wire.silent()


def test_mqtt311_3_1_2_2_another_level_of_the_protocol_is_answered_and_ended(door: DoorNode) -> None:
    with Wire311(door.port) as wire:
        wire.say(packet(1, text("MQTT") + b"\x09\x02\x00\x00" + text("x")))
        assert wire.expect(CONNACK).body[-1] in (0x01, 0x00)
        wire.closed()


# --- kills


def test_mqtt311_4_1_the_state_of_a_session_outlives_kills_of_the_node(tmp_path: Path) -> None:
    """QoS 2 both ways, with a kill at each step: each message once, under one identifier."""
    with door_node(tmp_path) as door:
        reader = connected(door, "reader", clean=False)
        assert reader.subscribe(("t", 2)) == b"\x02"
        writer = connected(door, "writer", clean=False)
        writer.publish("t", b"one", 2, 1)
        assert writer.confirmed(PUBREC) == 1
        first = reader.given()
        assert first[:4] == ("t", b"one", 2, False)
        door.restart_after_kill()
        writer = connected(door, "writer", clean=False)
        writer.publish("t", b"one", 2, 1, dup=True)
        assert writer.confirmed(PUBREC) == 1
        writer.answer(PUBREL, 1)
        assert writer.confirmed(PUBCOMP) == 1
        reader = connected(door, "reader", clean=False)
        assert reader.given() == ("t", b"one", 2, False, True, first[5])
        reader.answer(PUBREC, first[5])
        assert reader.confirmed(PUBREL) == first[5]
        reader.silent()
        door.restart_after_kill()
        reader = connected(door, "reader", clean=False)
        assert reader.confirmed(PUBREL) == first[5]
        reader.answer(PUBCOMP, first[5])
        writer = connected(door, "writer", clean=False)
        writer.publish("t", b"two", 2, 1)
        assert writer.confirmed(PUBREC) == 1
        assert reader.given()[:3] == ("t", b"two", 2)
        reader.silent()
