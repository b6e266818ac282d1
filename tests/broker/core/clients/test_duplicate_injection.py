"""Debug mode gives some messages twice, the same ones for the same seed, and changes nothing else."""

from typing import Any

import pytest

from broker.core.clients.duplicate_injection import Dice, DuplicatingSwitch
from broker.core.errors import NotFound
from broker.core.sessions.sessions import Connection
from sapwood.inbox import Memory, unpack_delivery
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import queue
from sapwood.protocol.session_frames import Deliver
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site


class Reader(SimulatedConsumer):
    """Unpacks as the client library does; `given` are the payloads in the order in which they came."""

    def __init__(self, forest: Forest, destination: str) -> None:
        super().__init__(forest["hq"], destination, "reader")
        self.given: list[bytes] = []
        self._memory = Memory()
        forest._client(self)

    def arrived(self, frame: Any) -> None:
        super().arrived(frame)
        if isinstance(frame, Deliver):
            batch = unpack_delivery(frame, self._memory, lambda *_: None).batch
            assert batch is not None
            assert batch.redelivered is frame.again
            self.given += batch.payloads


def doubling(forest: Forest, rate: float = 0.3, seed: int = 7, name: str = "hq") -> Site:
    return forest.add(name, deliver_twice=rate, seed=seed)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def doubled(reader: Reader) -> list[bytes]:
    """What came a second time; nothing may come a third."""
    seen: dict[bytes, int] = {}
    for payload in reader.given:
        seen[payload] = seen.get(payload, 0) + 1
    assert max(seen.values()) <= 2
    return [payload for payload, times in seen.items() if times == 2]


def streamed(seed: int, frames: int) -> list[bytes]:
    """100 messages to a reader, in so many frames: those that it was given twice."""
    forest = Forest()
    hq = doubling(forest, seed=seed)
    reader, producer = Reader(forest, "queue:sales"), forest.producer("hq")
    forest.settle()
    payloads = numbers(100)
    for start in range(0, 100, 100 // frames):
        producer.send("queue:sales", *payloads[start : start + 100 // frames])
        forest.settle()
    assert sorted(set(reader.given), key=int) == payloads
    assert isinstance(hq.core.switch, DuplicatingSwitch)
    assert hq.core.switch.doubled == len(doubled(reader))
    assert hq.core.counters["delivered"] == 100
    assert hq.waiting() == 0
    return sorted(doubled(reader), key=int)


def test_the_seed_says_which_messages_come_twice_however_they_are_sent() -> None:
    found = streamed(7, 1)
    assert 15 <= len(found) <= 45
    assert streamed(7, 1) == streamed(7, 10) == found
    assert streamed(8, 1) != found


@pytest.mark.parametrize(("rate", "count"), [(0.0, 0), (1.0, 20)])
def test_none_or_all(forest: Forest, rate: float, count: int) -> None:
    hq = doubling(forest, rate)
    reader, producer = Reader(forest, "topic:a/#"), forest.producer("hq")
    forest.settle()
    producer.send("topic:a/b", *numbers(20))
    forest.settle()
    assert len(doubled(reader)) == count
    assert bool(hq.core.switch.warnings) is bool(count)
    assert hq.waiting() == 0


def test_what_is_given_twice_is_given_back_once_when_its_reader_goes(forest: Forest) -> None:
    hq = doubling(forest, 1.0)
    producer = forest.producer("hq")
    reader = forest.consumer("hq", "queue:sales", auto=False)
    producer.send("queue:sales", *numbers(10))
    forest.settle()
    assert len(reader.payloads) == 20
    reader.disconnect()
    forest.settle()
    assert hq.waiting() == 10
    hq.crash()
    hq.boot()
    assert hq.waiting() == 10


# --- transfers


class Plain:
    """A session that transfers."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.switch = site.core.switch
        self.connection = Connection(lambda frame: None, "127.0.0.1")
        self.switch.login(self.connection, "till-7")
        self.switch.create(self.connection, "sales")
        self.switch.subscribe(self.connection, "sales")
        self.outcomes: list[object] = []

    def send(self, count: int) -> None:
        for number in numbers(count):
            message = Message(number, Properties(correlation_id=1))
            self.switch.send(self.connection, "sales", message, self.outcomes.append)

    def transfer(self, ack_to: int) -> list[tuple[int, bytes]]:
        found = self.switch.transfer(self.connection, ack_to)
        return [(each.number, each.message.payload) for each in found]

    def acknowledge(self, *numbers: int) -> None:
        for number in numbers:
            self.switch.acknowledge(self.connection, number, self.outcomes.append)


def test_a_transfer_gives_again_with_the_next_one_whatever_was_acknowledged(forest: Forest) -> None:
    hq = doubling(forest, 1.0)
    plain = Plain(hq)
    plain.send(5)
    forest.settle()
    first = plain.transfer(-1)
    assert [payload for _, payload in first] == numbers(5)
    ids = [number for number, _ in first]
    plain.acknowledge(*ids[:2])
    forest.settle()
    assert plain.transfer(ids[-1]) == first
    plain.acknowledge(*ids)
    forest.settle()
    assert plain.outcomes == [None] * 12
    assert plain.transfer(ids[-1]) == []
    assert hq.waiting() == 0
    with pytest.raises(NotFound):
        plain.acknowledge(ids[-1] + 1)


def test_what_a_transfer_gives_anyway_is_not_given_a_third_time(forest: Forest) -> None:
    plain = Plain(doubling(forest, 1.0))
    plain.send(3)
    forest.settle()
    first = plain.transfer(-1)
    assert plain.transfer(-1) == first
    assert plain.transfer(first[-1][0]) == []


def test_a_normal_node_gives_once(forest: Forest) -> None:
    plain = Plain(forest.add("hq"))
    plain.send(3)
    forest.settle()
    first = plain.transfer(-1)
    plain.acknowledge(first[0][0])
    with pytest.raises(NotFound):
        plain.acknowledge(first[0][0])
    assert plain.transfer(first[-1][0]) == []


def test_dice_fall_alike_for_each_queue_by_itself() -> None:
    alone, mixed = Dice(0.5, 1), Dice(0.5, 1)
    want = [alone.falls(queue("a")) for _ in range(50)]
    got = []
    for _ in range(50):
        got.append(mixed.falls(queue("a")))
        mixed.falls(queue("b"))
    assert got == want
    assert repr(alone) == "<Dice rate=0.5 seed=1>"


def test_what_is_due_a_second_time_goes_with_its_session(forest: Forest) -> None:
    hq = forest.add("hq", deliver_twice=1.0)
    line = Connection(lambda frame: None, "test")
    switch = hq.core.switch
    assert isinstance(switch, DuplicatingSwitch)
    switch.login(line, "till")
    switch.transfer(line, 0)
    assert len(switch._seconds) == 1
    switch.close(line)
    assert not switch._seconds
