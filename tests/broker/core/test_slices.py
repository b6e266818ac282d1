"""Delivery that unpacks is sliced: no burst of large messages for readers here keeps the others waiting."""

from itertools import pairwise
from typing import Any

import pytest

from broker.core.delivery.delivery import AT_ONCE, PAYS, SPEED
from broker.core.sessions.sessions import Connection
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import queue
from sapwood.protocol.session_frames import Deliver, Subscribe
from simulation.forest import Forest
from simulation.site import Site

MIB = 1024 * 1024


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


def send(forest: Forest, hq: Site, *sizes: int, name: str = "q") -> None:
    """Each message is a bundle of its own, and of nothing: some bytes in the store."""
    writer = Connection(lambda frame: None, "test", "http")
    hq.core.switch.login(writer, "writer")
    hq.core.switch.create(writer, name)
    for size in sizes:
        hq.core.switch.send(writer, name, Message(bytes(size)), lambda error: None)
        forest.settle()


class Listening:
    """A reader on a connection of such a kind: when each bundle came."""

    def __init__(self, forest: Forest, hq: Site, kind: str, name: str = "q") -> None:
        self.came: list[tuple[float, int]] = []
        self.hq = hq
        connection = Connection(self._came, "test", kind)
        hq.core.switch.login(connection, f"reader of {name}")
        hq.core.switch.receive(connection, [Subscribe(1, 1, queue(name), 100)])

    def _came(self, frame: Any) -> None:
        if isinstance(frame, Deliver):
            self.came.append((self.hq.core.clock.now, frame.size))


def pass_time(forest: Forest, seconds: float) -> None:
    for _ in range(int(seconds / 0.005)):
        forest.pass_time(0.005)
        forest.settle()


def test_a_place_gives_no_more_at_once_than_is_unpacked_in_a_moment(forest: Forest, hq: Site) -> None:
    send(forest, hq, *[200_000] * 12)
    reader = Listening(forest, hq, "mqtt")
    forest.settle()
    pass_time(forest, 1.0)
    sums: dict[float, int] = {}
    for at, size in reader.came:
        sums[at] = sums.get(at, 0) + size
    assert len(reader.came) == 12
    assert max(sums.values()) < AT_ONCE + 200_100


def test_large_bundles_are_paid_for_whatever_queue_they_wait_in(forest: Forest, hq: Site) -> None:
    send(forest, hq, *[4 * MIB] * 3)
    send(forest, hq, *[4 * MIB] * 3, name="other")
    readers = [Listening(forest, hq, "mqtt"), Listening(forest, hq, "mqtt", "other")]
    forest.settle()
    pass_time(forest, 3.0)
    times = sorted(at for reader in readers for at, _ in reader.came)
    assert len(times) == 6
    assert min(b - a for a, b in pairwise(times)) >= 0.99 * PAYS * 4 * MIB / SPEED


def test_a_bundle_that_goes_on_as_it_is_waits_for_nothing(forest: Forest, hq: Site) -> None:
    send(forest, hq, *[4 * MIB] * 6)
    reader = Listening(forest, hq, "stream")
    forest.settle()
    assert len(reader.came) == 6


def test_what_is_small_does_not_wait_for_what_is_large(forest: Forest, hq: Site) -> None:
    send(forest, hq, *[8 * MIB] * 4)
    send(forest, hq, 10, 10, name="other")
    large, small = Listening(forest, hq, "mqtt"), Listening(forest, hq, "mqtt", "other")
    forest.settle()
    pass_time(forest, 3.0)
    assert len(large.came) == 4
    assert [at for at, _ in small.came] == pytest.approx([large.came[0][0]] * 2, abs=0.02)


def test_what_is_fetched_is_bounded_by_what_it_is_unpacked(forest: Forest, hq: Site) -> None:
    send(forest, hq, *[MIB] * 20)
    connection = Connection(lambda frame: None, "test", "http")
    session = hq.core.switch.login(connection, "reader")
    hq.core.switch.subscribe(connection, "q")
    numbers: list[int] = []
    while found := hq.core.switch.transfer(connection, numbers[-1] if numbers else -1):
        assert sum(len(each.message.payload) for each in found) <= 4 * MIB
        assert sum(given.weight for given in session.mail.untold.values()) <= 9 * MIB
        numbers += [each.number for each in found]
        forest.settle()
    assert len(numbers) == 20


def test_of_what_was_unpacked_only_the_latest_few_stay_in_memory(forest: Forest, hq: Site) -> None:
    send(forest, hq, *[10_000] * 50)
    send(forest, hq, *[MIB] * 2)
    connection = Connection(lambda frame: None, "test", "http")
    session = hq.core.switch.login(connection, "reader")
    hq.core.switch.subscribe(connection, "q")
    while hq.core.switch.transfer(
        connection, max((given.last for given in session.unacked.all()), default=-1)
    ):
        forest.settle()
    unpacked = [
        given.entry.stored for given in session.unacked.all() if given.entry.stored.messages is not None
    ]
    assert len(session.unacked) == 52
    assert 1 <= len(unpacked) <= 16
    assert max(stored.header.size for stored in unpacked) < 20_000
