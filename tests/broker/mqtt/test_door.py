"""The door and what other parts and older versions left of its clients' sessions."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from broker.core.clients.kept_sessions import READS
from broker.core.routing.subscriptions import Subscription
from broker.mqtt.door import Door
from config.model import Site
from simulation.forest import Forest


@pytest.fixture
def door(forest: Forest) -> Door:
    """Of a node where two sessions have durable subscriptions that no kept session knows."""
    forest.consumer("hq", "topic:prices/#", "old", durable="1prices/#")
    forest.consumer("hq", "topic:prices/#", "other", durable="prices")
    forest.settle()
    host = SimpleNamespace(core=forest["hq"].core)
    nothing = cast("Any", None)
    return Door(cast("Any", host), Site(name="hq"), nothing, nothing, nothing)


def session_of(door: Door, name: str) -> str:
    (found,) = (each.session for each in door.host.core.topics.subscriptions.values() if each.name == name)
    return found


def test_a_subscription_of_an_older_version_is_read_on(door: Door) -> None:
    kept = door.resume(session_of(door, "1prices/#"))
    assert kept is not None
    ((name, value),) = kept.values.items()
    assert name == READS + "1prices/#"
    assert msgspec.msgpack.decode(value)[:2] == ["prices/#", 1]


def test_a_subscription_that_the_door_did_not_make_is_left_alone(door: Door) -> None:
    assert door.resume(session_of(door, "prices")) is None
    assert len(door.host.core.kept_sessions) == 0


def test_all_subscriptions_are_looked_through_once_and_not_for_each_client(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0

    class Counted(dict[str, Subscription]):
        def values(self) -> Any:
            nonlocal looked
            looked += 1
            return super().values()

    topics = door.host.core.topics
    monkeypatch.setattr(topics, "subscriptions", Counted(topics.subscriptions))
    for number in range(100):
        assert door.resume(f"mqtt/{number}") is None
    assert looked == 1


def test_a_session_that_has_ended_is_not_adopted_again(door: Door) -> None:
    session = session_of(door, "1prices/#")
    assert door.resume(session) is not None
    door.host.core.kept_sessions.end(session)
    assert door.resume(session) is None


def test_what_has_ended_since_is_not_adopted(door: Door) -> None:
    session = session_of(door, "1prices/#")
    assert door.resume("mqtt/another") is None
    found = door.host.core.topics.durable(session, "1prices/#")
    assert found is not None
    door.host.core.removal.end_subscription(found)
    assert not door.host.core.topics.durable(session, "1prices/#")
    assert door.resume(session) is None
