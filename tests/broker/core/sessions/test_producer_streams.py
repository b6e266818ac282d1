"""What a node has not taken of a named producer, and says again until the producer must have heard it."""

import gc
import weakref
from collections.abc import Callable

import pytest

from broker.core import housekeeping
from broker.core.clock import PART
from broker.core.rows import RejectedRow
from broker.core.sessions import producer_streams as rejections
from broker.core.sessions.producer_streams import ProducerStream
from broker.core.sessions.sessions import Connection
from broker.core.settings import QueuePolicy
from sapwood.protocol.session_frames import VERSION, Forget, Login, Welcome
from simulation.clients import Producer
from simulation.forest import Forest
from simulation.site import Site

WEEK = 7 * 86_400.0


@pytest.fixture
def hq(forest: Forest) -> Site:
    """Its queue `full` takes two messages."""
    return forest.add("hq", policies=(QueuePolicy(pattern="full", max_messages=2),))


class Deaf(Producer):
    """Can be made to miss what the node says."""

    deaf = False

    def arrived(self, frame: object) -> None:
        if not self.deaf or isinstance(frame, Welcome):
            super().arrived(frame)


@pytest.fixture
def producer(forest: Forest, hq: Site) -> Deaf:
    made: Deaf = forest._client(Deaf(hq, "till"))
    return made


def ranges(site: Site) -> list[tuple[int, int]]:
    rows: list[RejectedRow] = site.disk.rows(RejectedRow)
    return [(row.first, row.last) for row in rows]


def overfill(forest: Forest, producer: Deaf) -> None:
    """Numbers 1 and 2 are taken, 3 to 5 are not, 6 is."""
    producer.send("queue:full", b"1", b"2")
    forest.settle()
    producer.deaf = True
    producer.send("queue:full", b"3", b"4")
    producer.send("queue:full", b"5")
    producer.send("queue:other", b"6")


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_a_rejection_that_was_not_heard_comes_with_the_next_welcome(
    forest: Forest, hq: Site, producer: Deaf, crash: bool, committed: bool
) -> None:
    overfill(forest, producer)
    if committed:
        forest.settle()
        assert ranges(hq) == [(3, 5)]
    if crash:
        hq.crash()
        hq.boot()
    else:
        producer.disconnect()
    producer.deaf = False
    producer.connect()
    forest.settle()
    assert [payload for _, payload in producer.confirmed] == [b"1", b"2", b"6"]
    assert producer.under_way == {}
    assert hq.waiting() == 3


def test_it_is_forgotten_when_the_producer_goes_on_behind_it(
    forest: Forest, hq: Site, producer: Deaf
) -> None:
    overfill(forest, producer)
    forest.settle()
    producer.disconnect()
    producer.connect()
    forest.settle()
    assert ranges(hq) == [(3, 5)], "told, and perhaps not heard"
    producer.send("queue:other", b"7")
    forest.settle()
    assert ranges(hq) == []
    producer.disconnect()
    said: list[object] = []
    producer.arrived = said.append  # type: ignore[method-assign, assignment]
    producer.connect()
    store = said[0].store  # type: ignore[attr-defined]
    knows = dict.fromkeys(("refuses", "returns", "deletes", "plain", "forgets"), True)
    assert said == [Welcome("hq", "till", 7, 16 * 1024 * 1024, store=store, **knows)]
    assert len(store) == 8


def test_it_is_not_forgotten_by_what_was_sent_before_it_was_told(
    forest: Forest, hq: Site, producer: Deaf
) -> None:
    overfill(forest, producer)
    producer.send("queue:other", b"7")
    forest.settle()
    assert ranges(hq) == [(3, 5)]


def test_a_stream_does_not_keep_the_connections_that_have_gone(forest: Forest, hq: Site) -> None:
    """Each client that breaks off leaves one for a week."""
    other = Deaf(hq, "till")
    other.connect()
    other.send("queue:other", b"1")
    forest.settle()
    other.disconnect()
    forest.settle()
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert len(hq.core.switch.producers.streams) == 1
    assert gone() is None


def test_a_producer_that_is_over_is_forgotten_here_and_on_disk(
    forest: Forest, hq: Site, producer: Deaf
) -> None:
    overfill(forest, producer)
    forest.settle()
    assert ranges(hq) == [(3, 5)]
    producer.say(Forget())
    producer.say(Forget())
    producer.disconnect()
    forest.settle()
    assert hq.core.switch.producers.streams == {}
    assert ranges(hq) == []
    hq.crash()
    hq.boot()
    assert hq.core.switch.producers.streams == {}


def test_a_connection_without_a_producer_has_none_to_be_forgotten(forest: Forest, hq: Site) -> None:
    connection = Connection(lambda frame: None, "here", "session")
    hq.core.switch.receive(connection, [Login(VERSION, "till"), Forget()])
    forest.settle()
    assert hq.core.switch.producers.streams == {}


def test_a_welcome_waits_for_what_the_producer_has_sent_already(
    forest: Forest, hq: Site, producer: Deaf
) -> None:
    """Who comes new under the name would number its messages as those that are not on disk yet."""
    producer.send("queue:other", b"1")
    producer.disconnect()
    other = Deaf(hq, "till")
    said: list[object] = []
    other.arrived = said.append  # type: ignore[method-assign, assignment]
    other.connect()
    assert said == []
    forest.settle()
    assert [each.last for each in said if isinstance(each, Welcome)] == [1]


def test_the_latest_are_remembered(
    forest: Forest, hq: Site, producer: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejections, "MOST", 3)
    producer.send("queue:full", b"1", b"2")
    forest.settle()
    for _ in range(5):
        producer.send("queue:full", b"no")
        producer.send("queue:other", b"yes")
    forest.settle()
    assert ranges(hq) == [(7, 7), (9, 9), (11, 11)]
    assert [reject.first for reject in producer.rejected] == [3, 5, 7, 9, 11]


def test_they_go_with_their_stream(forest: Forest, hq: Site, producer: Deaf) -> None:
    overfill(forest, producer)
    forest.settle()
    hq.crash()
    forest.pass_time(0)
    hq.boot()
    forest.now += WEEK + 1
    forest.settle(2.0)
    assert ranges(hq) == []
    assert hq.core.switch.producers.streams == {}


def test_a_connection_sends_as_one_producer(forest: Forest, hq: Site, producer: Deaf) -> None:
    """Else what one has sent would be confirmed to the other."""
    producer.say(Login(1, "till", producer="another"))
    assert [failure.code for failure in producer.failures] == ["BAD_REQUEST"]
    producer.send("queue:other", b"1")
    forest.settle()
    assert hq.core.switch.producers.stream("till", "till").committed == 1
    assert len(producer.confirmed) == 1


def test_of_very_many_producers_those_that_sent_longest_ago_are_forgotten(
    forest: Forest, hq: Site, producer: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "MOST_PRODUCERS", 3)
    streams = hq.core.switch.producers.streams
    for number in range(6):
        hq.core.switch.producers.stream("session", str(number))
        forest.pass_time(1.0)
    forest.settle(3.0)
    assert sorted(streams)[-3:] == ["session/3", "session/4", "session/5"]
    assert len(streams) == 3


def test_very_many_producers_are_forgotten_a_part_at_a_time(
    forest: Forest, hq: Site, producer: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has sent since is the youngest, whenever it was made."""
    monkeypatch.setattr(housekeeping, "MOST_PRODUCERS", 3)
    sending, forgotten = hq.core.switch.producers, list[int]()
    monkeypatch.setattr(hq.core.switch.producers, "forget", _counting(sending.forget, forgotten))
    for number in range(3 * PART + 3):
        sending.stream("session", str(number))
    producer.send("queue:other", b"1")
    before = -1
    while len(sending.streams) != before:
        before = len(sending.streams)
        forgotten.clear()
        forest.pass_time(1.0)
        assert len(forgotten) <= PART
        forest.settle(0.1)
    assert list(sending.streams)[-1] == "till/till"
    assert len(sending.streams) == 3


def _counting(done: Callable[..., None], counted: list[int]) -> Callable[..., None]:
    def forget(stream: ProducerStream) -> None:
        counted.append(1)
        done(stream)

    return forget
