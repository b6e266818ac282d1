"""SUBSCRIBE packets and the retained messages that they ask for."""

from collections.abc import Callable
from typing import Any

import pytest

from bridges.mqtt.packets import Publish, Subscribe
from bridges.mqtt.properties import Name
from bridges.mqtt.readers import Alike, ServerReader
from broker.core.clients.kept_sessions import NEVER
from broker.mqtt.reading import _runs
from broker.mqtt.reasons import Reason
from broker.mqtt.subscribing import Subscribing


def subscribe(client: Any, *filters: tuple[str, int]) -> list[int]:
    packet = Subscribing(client.reading, Subscribe(1, filters), client.most_packet)
    assert packet.go_on(lambda: False)
    return packet.codes


@pytest.fixture
def reader(door_client: Callable[[], Any]) -> Any:
    """Two retained messages are there."""
    client = door_client()
    for topic in ("a", "b"):
        client.publishing.take(Publish(topic, b"kept", 0, True, False, 0))
        client.publishing.flush()
    client.heard()
    return client


def test_a_filter_that_a_packet_repeats_is_given_the_retained_messages_once(reader: Any) -> None:
    assert subscribe(reader, *[("#", 0), ("#", 1)] * 50) == [0, 1] * 50
    assert reader.heard().count(b"kept") <= 4
    assert subscribe(reader, *[("#", 1)] * 50) == [1] * 50
    assert reader.heard().count(b"kept") == 2


def test_a_filter_that_is_subscribed_to_again_is_given_the_retained_messages_again(reader: Any) -> None:
    for _ in range(3):
        assert subscribe(reader, ("#", 0)) == [0]
        assert reader.heard().count(b"kept") == 2


def test_an_identifier_of_a_message_that_comes_again_with_a_lower_qos_is_released(
    door_client: Callable[[], Any],
) -> None:
    """It was given with QoS 2 over an earlier connection: the client may know the identifier."""
    before = door_client()
    kept = before.core.kept_sessions.keep(before.session, NEVER)
    list(before.reading.go_on(kept))
    assert subscribe(before, ("a", 2)) == [2]
    before.publishing.take(Publish("a", b"once", 2, False, False, 9))
    before.publishing.flush()
    assert b"\x00\x01once" in before.heard()
    assert "given 1" in kept.values
    assert subscribe(before, ("a", 1)) == [1]
    before.heard()
    before.core.switch.close(before.connection)
    again = door_client()
    list(again.reading.go_on(kept))
    said = again.heard()
    assert said.startswith(b"\x62\x02\x00\x01")
    assert b"\x00\x02once" in said
    again.reading.completed(1)
    assert "given 1" not in kept.values


def test_who_comes_back_at_once_is_told_nothing_that_a_kill_may_take_back(
    door_client: Callable[[], Any],
) -> None:
    """Neither that a message is released, nor its identifier: both may be not on disk yet."""
    before = door_client()
    kept = before.core.kept_sessions.keep(before.session, NEVER)
    list(before.reading.go_on(kept))
    assert subscribe(before, ("a", 2)) == [2]
    for number in (8, 9):
        before.publishing.take(Publish("a", b"once", 2, False, False, number))
        before.publishing.flush()
    assert before.heard().count(b"once") == 2
    before.reading.received(1, 0)
    before.core.switch.close(before.connection)
    again = door_client()
    list(again.reading.go_on(kept))
    assert again.written == b""
    said = again.heard()
    assert said.startswith(b"\x62\x02\x00\x01")
    assert b"\x00\x02once" in said


@pytest.mark.parametrize("is_5", [False, True])
@pytest.mark.parametrize("most_packet", [1 << 32, 300])
def test_messages_that_are_written_together_are_the_same_as_each_alone(
    door_client: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, is_5: bool, most_packet: int
) -> None:
    """Some have properties, are of another QoS or too large for their client."""
    rows = {
        "new": [Publish("new", b"%d" % number, 1, False, False, number) for number in range(1, 9)],
        "plain": [Publish("t", b"%d" % number, 1, False, False, number) for number in range(1, 9)],
        "other": [
            Publish("t", b"%d" % number, number % 2 + 1, False, False, number) for number in range(1, 9)
        ],
        "large": [Publish("t", b"x" * number, 1, False, False, number) for number in (3, 400, 5)],
    }
    if is_5:
        said = {Name.CONTENT_TYPE: "text/plain"}
        rows["mixed"] = [
            Publish("t", b"%d" % number, 1, False, False, number, "", said if number == 4 else {})
            for number in range(1, 9)
        ]
    heard = dict[str, list[bytes]]()
    for together in (True, False):
        client = door_client()
        client.is_5, client.most_packet = is_5, most_packet if is_5 else 1 << 32
        client.reading.begin(5)
        assert client.reading.subscribe("#", 1, 7) == 1
        if not together:
            monkeypatch.setattr(type(client.reading), "_row", lambda *_: b"")
        for name, row in rows.items():
            client.publishing.take_alike(row)
            client.publishing.flush()
            given = client.heard()
            reader = ServerReader(1 << 20, 5 if is_5 else 4)
            published = [
                each
                for packet in reader.feed(given)
                for each in (packet.publishes if isinstance(packet, Alike) else (packet,))
                if isinstance(each, Publish)
            ]
            heard.setdefault(name, []).append(given)
            client.reading.acknowledged(tuple(each.packet_id for each in published))
        client.heard()
        client.core.switch.close(client.connection)
    for name, (row_written, alone) in heard.items():
        assert row_written == alone, name


def test_a_packet_that_its_client_does_not_take_gives_its_topic_no_alias(
    door_client: Callable[[], Any],
) -> None:
    """The client would not know what the next one's alias stands for."""
    client = door_client()
    client.is_5, client.most_packet = True, 60
    client.reading.begin(5)
    assert client.reading.subscribe("#", 1, 0) == 1
    said = []
    for size in (60, 60 - 2 - 6 - 3, 3, 3):
        client.publishing.take(Publish("till", b"x" * size, 1, False, False, 1))
        client.publishing.flush()
        said.append(client.heard())
    assert [len(each) for each in said[:2]] == [4, 4 + 60], "the second fits without an alias"
    assert b"\x00\x04till\x00\x02\x00x" in said[1]
    assert b"\x00\x04till\x00\x03\x03\x23\x00\x01xxx" in said[2]
    assert b"\x00\x00\x00\x04\x03\x23\x00\x01xxx" in said[3]


def test_acknowledgements_in_a_row_are_one() -> None:
    assert list(_runs([])) == []
    assert list(_runs([7])) == [(7, 7)]
    assert list(_runs([3, 1, 2, 9, 5, 6, 11])) == [(1, 3), (5, 6), (9, 9), (11, 11)]


def test_a_filter_is_given_more_at_once_than_a_share_of_a_group_or_a_queue(
    door_client: Callable[[], Any],
) -> None:
    """Others that read these have their part."""
    client = door_client()
    credits = {}
    for spelled in ("t/#", "$share/g/t", "$share/g/queue/orders"):
        assert subscribe(client, (spelled, 1)) == [1]
        credits[spelled] = client.connection.consumers[-1].credit
    assert credits == {"t/#": 1000, "$share/g/t": 100, "$share/g/queue/orders": 100}


def test_a_pattern_reads_no_queues(door_client: Callable[[], Any]) -> None:
    filters = [(f"$share/g/queue/{name}", 1) for name in ("+", "#", "orders/#", "orders")]
    assert subscribe(door_client(), *filters) == [Reason.WRONG_FILTER] * 3 + [1]
