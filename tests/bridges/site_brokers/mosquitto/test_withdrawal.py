"""What the tree gave to be retained is taken out, and nothing else; tried with a broker in memory."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.properties import MqttProperties
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.mosquitto.connection import Filter, Post, Received
from bridges.site_brokers.mosquitto.loop_detection import digest
from bridges.site_brokers.mosquitto.memory import Memory
from bridges.site_brokers.mosquitto.withdrawal import ROUND, Withdrawal


class Broker:
    """Retains, and tells the door of what it is subscribed to. `before_clearing`: done just before that."""

    def __init__(self, folder: Path, **retained: bytes) -> None:
        self.memory = Memory(folder)
        self.retained = dict(retained)
        self.memory.retained.update({name: digest(name, payload) for name, payload in retained.items()})
        self.wanted: set[str] = set()
        self.subscribed: set[str] = set()
        self.before_clearing: Callable[[], None] = lambda: None
        self.saved = 0
        door: Any = SimpleNamespace(subscribe=self.subscribe, unsubscribe=self.unsubscribe)
        desk: Any = SimpleNamespace(outdated=self.outdated)
        self.withdrawal = Withdrawal(door, self.said, self.memory, desk, self.save)

    def save(self) -> None:
        self.saved += 1

    def outdated(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self.wanted]

    async def subscribe(self, filters: list[Filter]) -> list[int]:
        for each in filters:
            self.subscribed.add(each.text)
            if each.text in self.retained:
                self.tell(each.text, self.retained[each.text], True)
        return [1] * len(filters)

    async def unsubscribe(self, texts: list[str]) -> None:
        self.subscribed.difference_update(texts)

    def tell(self, topic: str, payload: bytes, retained: bool) -> None:
        self.withdrawal.heard(Received(topic, payload, 1, retained, False, 1, MqttProperties(), ()))

    def publish(self, topic: str, payload: bytes) -> None:
        """To be retained."""
        self.retained[topic] = payload
        if not payload:
            del self.retained[topic]
        if topic in self.subscribed or topic == ROUND:
            self.tell(topic, payload, True)

    def said(self, post: Post) -> None:
        if not post.payload:
            self.before_clearing()
        self.publish(post.topic, post.payload)
        self.retained.pop(ROUND, None)
        post.done(0)

    async def reviewed(self, pattern: str) -> None:
        self.withdrawal.review(pattern)
        assert self.withdrawal._work is not None
        await self.withdrawal._work


async def test_what_nobody_reads_any_more_goes_and_the_rest_stays(tmp_path: Path) -> None:
    broker = Broker(tmp_path, **{"a/1": b"one", "a/2": b"two", "b": b"three"})
    broker.wanted.add("a/2")
    await broker.reviewed("a/#")
    assert broker.retained == {"a/2": b"two", "b": b"three"}
    assert set(broker.memory.retained) == {"a/2", "b"}
    assert (broker.subscribed, broker.saved) == (set(), 1)
    await broker.reviewed("#")
    assert broker.retained == {"a/2": b"two"}


async def test_an_applications_own_stays_and_is_remembered_no_more(tmp_path: Path) -> None:
    broker = Broker(tmp_path, a=b"of the tree", gone=b"of the tree")
    broker.retained = {"a": b"of an application"}
    await broker.reviewed("#")
    assert broker.retained == {"a": b"of an application"}
    assert broker.memory.retained == {}


async def test_who_came_at_the_last_moment_finds_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path, a=b"old")
    asked: list[list[str]] = []

    def outdated(names: Iterable[str]) -> list[str]:
        asked.append(list(names))
        return asked[-1] if len(asked) == 1 else []

    broker.withdrawal._desk.outdated = outdated  # type: ignore[method-assign]
    await broker.reviewed("#")
    assert broker.retained == {"a": b"old"}
    assert asked == [["a"], ["a"]]


@pytest.mark.parametrize(("after", "left"), [(False, b"meanwhile"), (True, b"even later")])
async def test_what_an_application_retains_at_that_very_moment_is_put_back(
    tmp_path: Path, after: bool, left: bytes
) -> None:
    broker = Broker(tmp_path, a=b"of the tree")

    def meanwhile() -> None:
        broker.before_clearing = lambda: None
        broker.publish("a", b"meanwhile")
        if after:
            asyncio.get_running_loop().call_soon(broker.publish, "a", b"even later")

    broker.before_clearing = meanwhile
    await broker.reviewed("#")
    assert broker.retained == {"a": left}


async def test_a_lost_connection_ends_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path, a=b"1")

    async def lost(filters: list[Filter]) -> list[int]:
        raise SiteBrokerError("lost")

    broker.withdrawal.door.subscribe = lost  # type: ignore[method-assign,assignment]
    await broker.reviewed("#")
    assert broker.memory.retained
