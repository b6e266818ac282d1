"""MQTT messages that are never taken, of accounts that may send there and of those that may not."""

from collections.abc import Callable
from typing import Any

import pytest

from bridges.mqtt.packets import Publish
from broker.core.sessions.rights import Rights
from treeconnector.permits import Permit, application


def account(*send: str) -> Rights:
    return Rights("account till", "till/", Permit([application("hq", "till", (), send)]))


def dead(client: Any) -> int:
    client.forest.settle()
    return len(client.core.custody.dead.waiting)


@pytest.mark.parametrize(
    ("topic", "cut"),
    [("$SYS/up", ""), ("/".join("a" * 200), ""), ("a/#", ""), ("", ""), ("t", "large"), ("queue/q", "large")],
)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_account_that_may_not_send_makes_no_dead_letter(
    door_client: Callable[[Rights], Any], topic: str, cut: str, qos: int
) -> None:
    client = door_client(account("topic:mine/#"))
    client.publishing.take(Publish(topic, b"x", qos, False, False, 7 if qos else 0, cut=cut))
    client.publishing.flush()
    assert client.heard() == (b"", b"\x40\x02\x00\x07", b"\x50\x02\x00\x07")[qos]
    assert dead(client) == 0
    assert client.core.message_admission.refused["REFUSED"] == 1


@pytest.mark.parametrize(
    ("topic", "cut"), [("mine/" + "a/" * 200, ""), ("mine/b", "large"), ("queue/q", "large")]
)
def test_a_message_that_could_never_be_taken_is_a_dead_letter_of_an_account_that_may_send_there(
    door_client: Callable[[Rights], Any], topic: str, cut: str
) -> None:
    client = door_client(account("topic:mine/#", "queue:q"))
    client.publishing.take(Publish(topic, b"x", 1, False, False, 7, cut=cut))
    client.publishing.flush()
    assert client.heard() == b"\x40\x02\x00\x07"
    assert dead(client) == 1


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_that_is_too_large_is_not_taken_as_an_empty_one_behind_another_of_its_topic(
    door_client: Callable[..., Any], qos: int, retain: bool
) -> None:
    client = door_client()
    client.publishing.take(Publish("a", b"small", qos, retain, False, 6 if qos else 0))
    client.publishing.take(Publish("a", b"", qos, retain, False, 7 if qos else 0, cut="large"))
    client.publishing.take(Publish("a", b"next", qos, retain, False, 8 if qos else 0))
    client.publishing.flush()
    begin = (b"", b"\x40\x02\x00", b"\x50\x02\x00")[qos]
    assert client.heard() == (b"".join(begin + bytes((each,)) for each in (6, 7, 8)) if qos else b"")
    assert dead(client) == 1
