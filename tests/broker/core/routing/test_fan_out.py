"""One message to very many subscriptions: each has it once and in order, and no step makes many copies."""

import pytest
from steps import Steps

from broker.core.messages.queue_names import FAN_OUT
from broker.core.routing.fan_out import AT_ONCE
from sapwood.protocol.session_frames import EndSubscription
from simulation.clients import Producer, SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site

COUNT = 5 * AT_ONCE + 7


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq", reattach_time=60.0)


@pytest.fixture
def readers(forest: Forest, hq: Site) -> list[SimulatedConsumer]:
    """Of so many sessions, whose subscriptions are durable."""
    found = [
        forest.consumer("hq", "topic:news/+", name=f"r{number:04}", durable="d") for number in range(COUNT)
    ]
    forest.settle(1.0)
    return found


def waiting(hq: Site) -> int:
    queue = hq.core.custody.queues.get(FAN_OUT)
    return queue.messages if queue is not None else 0


def send(forest: Forest, *payloads: bytes, topic: str = "news/tea", **options: bool) -> Producer:
    writer = forest.producer("hq", "writer")
    for each in payloads:
        writer.send(f"topic:{topic}", each, **options)
        forest["hq"].core.switch.producers.seal()
        forest["hq"].core.batching.seal()
    return writer


def test_no_step_makes_more_copies_than_its_part(
    forest: Forest, hq: Site, readers: list[SimulatedConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    writer = send(forest, b"1", b"2", b"3")
    forest.settle(1.0)
    assert 0 < steps.most_made <= AT_ONCE + 3, "each message waits as one entry itself"
    assert len(writer.confirmed) == 3
    assert all(each.payloads == [b"1", b"2", b"3"] for each in readers)
    assert waiting(hq) == 0


def test_a_crash_in_the_middle_neither_loses_nor_doubles(
    forest: Forest, hq: Site, readers: list[SimulatedConsumer]
) -> None:
    for each in readers:
        each.auto = False
    send(forest, b"1", b"2")
    for _ in range(4):
        assert hq.run()
    assert waiting(hq) == 2
    hq.crash()
    hq.boot()
    given = sum(each.queue.messages for each in hq.core.topics.subscriptions.values())
    assert 0 < given < COUNT, "copies of the first message alone are on disk, and not all of them"
    assert waiting(hq) == 2
    forest.settle(1.0)
    assert {each.queue.messages for each in hq.core.topics.subscriptions.values()} == {2}
    assert waiting(hq) == 0


def test_others_do_not_wait_for_it(forest: Forest, hq: Site, readers: list[SimulatedConsumer]) -> None:
    other = forest.consumer("hq", "topic:other", name="other")
    forest.settle(1.0)
    send(forest, b"1")
    forest.producer("hq", "another").send("topic:other", b"quick")
    while not other.payloads:
        assert hq.run()
    assert waiting(hq) == 1
    forest.settle(1.0)
    assert all(each.payloads == [b"1"] for each in readers)


@pytest.mark.parametrize("retained", [False, True])
def test_subscriptions_that_begin_and_end_meanwhile(
    forest: Forest, hq: Site, readers: list[SimulatedConsumer], retained: bool
) -> None:
    send(forest, b"1", retained=retained)
    hq.run()
    late = forest.consumer("hq", "topic:news/+", name="z late")
    gone = readers[-1]
    gone.say(EndSubscription(3, "d"))
    assert waiting(hq) == 1
    forest.settle(1.0)
    assert late.payloads == [b"1"] * retained
    assert gone.payloads == []
    assert all(each.payloads == [b"1"] for each in readers[:-1])


def test_what_is_not_persistent_is_given_in_parts_as_well(
    forest: Forest, hq: Site, readers: list[SimulatedConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    send(forest, b"1", b"2", persistent=False)
    forest.settle(1.0)
    assert 0 < steps.most_made <= AT_ONCE + 2
    assert all(each.payloads == [b"1", b"2"] for each in readers)


def test_many_messages_at_once_to_many_each(
    forest: Forest, hq: Site, readers: list[SimulatedConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them alone goes to few enough."""
    for each in readers[AT_ONCE // 2 :]:
        each.disconnect()
        hq.core.switch.interest.end(hq.core.topics.subscriptions[f"{each.name}/d"])
    forest.settle(20.0)
    steps, writer = Steps(monkeypatch), forest.producer("hq", "writer")
    for number in range(20):
        writer.send(f"topic:news/{number}", b"%d" % number)
    hq.core.batching.seal()
    forest.settle(1.0)
    assert 0 < steps.most_made <= AT_ONCE + 20
    left = readers[: AT_ONCE // 2]
    assert all(sorted(each.payloads) == sorted(b"%d" % number for number in range(20)) for each in left)


def test_the_one_who_sends_is_left_out_where_it_is_deaf(
    forest: Forest, hq: Site, readers: list[SimulatedConsumer]
) -> None:
    deaf = hq.core.topics.subscriptions[f"{readers[-1].name}/d"]
    deaf.deaf, deaf.session = True, "writer"
    send(forest, b"1")
    forest.settle(1.0)
    assert readers[-1].payloads == []
    assert all(each.payloads == [b"1"] for each in readers[:-1])
