"""What a node remembers of bundles: each step on the way, in order, bounded, and no message's content."""

from collections.abc import Sequence

import pytest

from broker.core.clock import Clock
from broker.core.messages import trace
from broker.core.messages.trace import NAMES, Note, Trace, notes_of
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Header, Message, Properties
from sapwood.protocol.destinations import parse, queue
from sapwood.protocol.session_frames import VERSION, Create, Login, Send, Subscribe
from simulation.clients import SimulatedClient
from simulation.forest import Forest
from simulation.site import Site


def steps(site: Site) -> list[tuple[str, str, int]]:
    """(what, with whom, how many messages), oldest first."""
    return [(NAMES[each.kind], each.who, each.messages) for each in site.core.trace.after(-1)]


def test_each_node_remembers_its_part_of_the_way(chain: Forest) -> None:
    reader, producer = chain.consumer("york", "queue:prices"), chain.producer("hq")
    chain.settle()
    producer.send("queue:prices", b"1", b"2", b"3")
    chain.settle(1.0)
    assert reader.payloads == [b"1", b"2", b"3"]
    ahead = [("committed", "", 3), ("sent", "north", 3), ("acknowledged", "north", 3)]
    assert steps(chain["hq"]) == [("entered", "producer", 3), *ahead]
    assert steps(chain["north"]) == [
        ("arrived", "hq", 3),
        ("committed", "", 3),
        ("sent", "york", 3),
        ("acknowledged", "york", 3),
    ]
    assert [step[:2] for step in steps(chain["york"]) if step[0] != "committed"] == [
        ("arrived", "north"),
        ("delivered", "consumer"),
        *[("dealt_with", "consumer")] * 3,
    ]
    assert {each.bundle for site in chain.sites.values() for each in site.core.trace.after(-1)} == {
        reader.receipts[0].bundle
    }


def test_a_bundle_that_is_readdressed_later_was_for_its_destination_of_then(chain: Forest) -> None:
    hq = chain["hq"]
    chain.producer("hq").send("queue:prices", b"1")
    chain.settle(1.0)
    hq.core.static_routing.add("alias", "prices", "queue:costs")
    chain.settle(1.0)
    assert hq.core.custody.queue_for(queue("costs")).messages == 1
    found = [(NAMES[each.kind], each.destination) for each in hq.core.trace.after(-1)]
    assert found == [("entered", queue("prices")), ("committed", queue("prices"))]


def test_times_are_running_time_and_processing_is_measured_from_the_delivery(chain: Forest) -> None:
    reader, producer = chain.consumer("hq", "queue:prices", auto=False), chain.producer("hq")
    producer.send("queue:prices", b"1")
    chain.settle()
    began = chain["hq"].now
    chain.pass_time(2.5)
    reader.acknowledge(1)
    chain.settle()
    found = {NAMES[each.kind]: each for each in chain["hq"].core.trace.after(-1)}
    assert found["delivered"].at == pytest.approx(began)
    assert found["dealt_with"].at == pytest.approx(began + 2.5)
    assert found["dealt_with"].extra == pytest.approx(2.5)


def test_what_comes_back_and_what_dies_is_told(chain: Forest) -> None:
    """A reader that goes gives back; after so many deliveries a message is buried, with the reason."""
    for number in range(10):
        chain.consumer("hq", "queue:prices", name=f"reader-{number}", auto=False)
        if not number:
            chain.producer("hq").send("queue:prices", b"poison")
        chain.settle()
        chain.clients[-1 if number else 0].disconnect()
        chain.settle()
    found = [NAMES[each.kind] for each in chain["hq"].core.trace.after(-1)]
    assert found.count("returned") == 10
    last = chain["hq"].core.trace.after(-1)[-1]
    assert (NAMES[last.kind], last.extra, last.messages) == ("dead", "TOO_MANY_DELIVERIES", 1)


def test_what_expires_is_told(chain: Forest) -> None:
    chain.producer("hq").send("queue:prices", b"1", expires_in=500)
    chain.settle(3.0)
    last = chain["hq"].core.trace.after(-1)[-1]
    assert (NAMES[last.kind], last.extra) == ("dead", "EXPIRED")


def test_what_is_refused_is_told_once_a_second(forest: Forest) -> None:
    forest.add("hq", queue_quota=1)
    producer = forest.producer("hq")
    producer.send("queue:prices", b"1")
    forest.settle()
    for _ in range(5):
        producer.send("queue:prices", b"2")
    forest.pass_time(1.5)
    producer.send("queue:prices", b"3")
    refused = [each for each in forest["hq"].core.trace.after(-1) if each.kind == trace.REFUSED]
    assert [(each.who, each.extra, each.messages) for each in refused] == [("producer", "QUEUE_FULL", 1)] * 2
    assert len(producer.rejected) == 6


def test_a_part_of_a_bundle_is_told_as_that_part(chain: Forest) -> None:
    reader, producer = (
        chain.consumer("hq", "queue:prices", credit=2, auto=False),
        chain.producer("hq"),
    )
    producer.send("queue:prices", b"0", b"1", b"2")
    chain.settle()
    reader.acknowledge(2)
    chain.settle()
    given = [each for each in chain["hq"].core.trace.after(-1) if each.kind == trace.DELIVERED]
    assert [list(each.positions()) for each in given] == [[0, 1], [2]]
    assert [[each.covers(position) for position in range(3)] for each in given] == [
        [True, True, False],
        [False, False, True],
    ]


def test_the_ring_is_bounded_and_may_be_off(forest: Forest) -> None:
    forest.add("small", trace_events=5)
    forest.add("off", trace_events=0)
    for name in ("small", "off"):
        producer = forest.producer(name)
        forest.consumer(name, "queue:prices")
        for number in range(10):
            producer.send("queue:prices", b"%d" % number)
            forest.settle()
    assert len(forest["small"].core.trace) == 5
    assert NAMES[forest["small"].core.trace.after(-1)[-1].kind] == "dealt_with"
    assert len(forest["off"].core.trace) == 0


def test_ids_ascend_by_message_and_go_on_above_those_of_an_earlier_start(chain: Forest) -> None:
    site = chain["hq"]
    producer = chain.producer("hq")
    producer.send("queue:prices", b"0", b"1", b"2")
    producer.send("queue:other", b"0")
    chain.settle()
    ids = [number for each in site.core.trace.after(-1) for number, _ in enumerate(each.positions(), each.id)]
    assert ids == sorted(set(ids))
    last = ids[-1]
    assert site.core.trace.after(last) == []
    assert [each.id for each in site.core.trace.after(last - 1)] == [last]
    chain.pass_time(0.1)
    site.crash()
    site.boot()
    assert site.core.trace.next_id > last


def test_a_wait_ends_when_messages_enter_and_only_once(chain: Forest) -> None:
    called: list[int] = []
    ring = chain["hq"].core.trace
    ring.wait(lambda: called.append(1))
    producer = chain.producer("hq")
    for _ in range(2):
        producer.send("queue:prices", b"1")
        chain.settle()
    assert called == [1]


def test_on_its_way_nothing_wakes_who_waits_for_events_of_sessions(chain: Forest) -> None:
    called: list[int] = []
    chain["north"].core.trace.wait(lambda: called.append(1))
    chain.consumer("york", "queue:prices")
    chain.settle()
    chain.producer("hq").send("queue:prices", b"1")
    chain.settle()
    assert len(chain["north"].core.trace) > 0
    assert called == []


# --- notes


def encoded(messages: list[Message]) -> bytes:
    return b"".join(map(bundles.encode_message, messages))


@pytest.mark.parametrize("size", [0, 1, 200, 255, 256, 300, 65_535, 65_536])
def test_messages_without_properties_are_known_by_their_length(size: int) -> None:
    bare = [Message(bytes(size)) for _ in range(10)]
    assert trace._all_bare([message.payload for message in bare], encoded(bare))
    said = [*bare[:9], Message(bytes(size), Properties(task_id="t"))]
    assert not trace._all_bare([message.payload for message in said], encoded(said))


@pytest.mark.parametrize("place", [0, 4, 9])
def test_a_note_is_taken_wherever_in_the_batch_it_stands(place: int) -> None:
    messages = [Message(b"x" * 300 * (index % 2)) for index in range(10)]
    messages[place] = Message(b"x", Properties(correlation_id=0, reply_to="r@hq"))
    assert notes_of(messages, encoded(messages)) == (Note(place, 0, "", "r@hq"),)


def test_notes_are_found_at_their_places_in_the_bundle(forest: Forest) -> None:
    """Two batches that become one bundle."""
    forest.add("hq")
    producer = forest.producer("hq")
    for task in ("first", "second"):
        messages = [Message(b"plain"), Message(b"1", Properties(task_id=task, correlation_id=5))]
        producer.say(Send(producer.number + 1, parse("queue:prices"), 2, encoded(messages)))
        producer.number += 2
    forest.settle()
    ring = forest["hq"].core.trace
    (entered,) = [each for each in ring.after(-1) if each.kind == trace.ENTERED]
    assert [note.position for _, note in ring.noted("second")] == [3]
    assert ring.note(entered.bundle, 1) == Note(1, 5, "first", "")
    assert ring.note(entered.bundle, 0) is None


def test_notes_are_bounded() -> None:
    ring = Trace(Clock(0.0), size=10)
    for number in range(100):
        header = Header(id=b"%016d" % number, destination=queue("q"), count=5)
        ring.entered(header, "session", tuple(Note(i, i, "task", "") for i in range(5)))
    assert len(list(ring.noted("task"))) == 20
    assert next(ring.noted("task"))[0] == b"%016d" % 96


# --- the node's own queues


def test_applications_cannot_have_or_send_to_the_nodes_own_queues(forest: Forest) -> None:
    forest.add("hq")
    producer = forest.producer("hq")
    for name in ("queue:System", "queue:System@hq", "queue:System.x@york"):
        producer.send(name, b"status")
    assert [reject.code for reject in producer.rejected] == ["REFUSED"] * 3
    client = Asking(forest["hq"], "app")
    client.connect()
    client.say(Create(1, "System"), Subscribe(2, 1, parse("queue:System"), 5), Create(3, "Systems"))
    assert [failed.code for failed in client.failures] == ["REFUSED"] * 2


class Asking(SimulatedClient):
    """Says what a test wants said."""

    def opened(self) -> None:
        self.say(Login(VERSION, self.name))


def test_a_bundle_whose_messages_go_to_a_consumer_each_is_looked_at_once(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time all of it was looked at anew."""
    forest.add("hq")
    count, looked = 50, list[int]()
    readers = [
        forest.consumer("hq", "topic:prices", f"r{number}", credit=1, durable="d", group="g", auto=False)
        for number in range(count)
    ]
    forest.settle()

    def counted(messages: Sequence[Message], body: bytes) -> tuple[Note, ...]:
        looked.append(len(messages))
        return notes_of(messages, body)

    monkeypatch.setattr(trace, "notes_of", counted)
    forest.producer("hq").send("topic:prices", *(b"%d" % number for number in range(count)))
    forest.settle(1.0)
    assert sorted(reader.payloads for reader in readers) == sorted(
        [b"%d" % number] for number in range(count)
    )
    assert looked == [count]
