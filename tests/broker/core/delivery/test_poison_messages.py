"""Which message a reader fails on: what went with it is no dead letter, and is given to the end."""

import random

import pytest

from broker.core.delivery.poison_messages import PATIENCE
from sapwood.protocol.session_frames import RefuseDelivery
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site

QUEUE = "queue:orders"


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


def _sent(forest: Forest, together: bool) -> list[bytes]:
    """Five that no reader survives among twenty orders, in one bundle or each in its own."""
    payloads = [b"order %d" % number for number in range(20)] + [b"poison %d" % number for number in range(5)]
    random.Random(5).shuffle(payloads)
    producer = forest.producer("hq")
    if together:
        producer.send(QUEUE, *payloads)
    else:
        for payload in payloads:
            producer.send(QUEUE, payload)
            forest.settle()
    forest.settle()
    return payloads


def _work(forest: Forest, reader: SimulatedConsumer, careful: bool) -> list[bytes]:
    """Until nothing comes, or a message kills it. `careful`: it acknowledges one by one."""
    worked: list[bytes] = []
    while reader.open:
        given = [receipt.payload for receipt in reader.open]
        fatal = next((place for place, payload in enumerate(given) if b"poison" in payload), len(given))
        if careful or fatal == len(given):
            worked += given[:fatal]
            reader.acknowledge(fatal)
            forest.settle()
        if fatal < len(given):
            break
    reader.disconnect()
    forest.settle()
    return worked


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize("credit", [1, 7, 2000])
@pytest.mark.parametrize("together", [False, True])
def test_only_what_no_reader_survives_is_buried(
    forest: Forest, hq: Site, together: bool, credit: int, careful: bool
) -> None:
    payloads = _sent(forest, together)
    worked: list[bytes] = []
    for _ in range(200):
        if not hq.waiting():
            break
        reader = forest.consumer("hq", QUEUE, auto=False, credit=credit)
        forest.settle()
        worked += _work(forest, reader, careful)
    assert sorted(message.payload for _, message in hq.dead()) == sorted(
        payload for payload in payloads if b"poison" in payload
    )
    assert {note for note, _ in hq.dead()} == {"TOO_MANY_DELIVERIES"}
    assert sorted(worked) == sorted(payload for payload in payloads if b"order" in payload)


def test_a_reader_that_gathers_many_before_it_answers_gets_them(forest: Forest, hq: Site) -> None:
    payloads = _sent(forest, together=False)
    for _ in range(3):
        lost = forest.consumer("hq", QUEUE, auto=False)
        forest.settle()
        lost.disconnect()
        forest.settle()
    reader = forest.consumer("hq", QUEUE, auto=False)
    forest.settle()
    assert len(reader.receipts) == 1
    forest.settle(2 * PATIENCE)
    assert reader.payloads == payloads
    reader.disconnect()
    forest.settle()
    assert hq.dead() == []


def test_who_has_others_in_work_is_waited_for_and_not_for_ever(forest: Forest, hq: Site) -> None:
    """The second reader never answers the message that it has."""
    producer = forest.producer("hq")
    producer.send(QUEUE, b"slow")
    forest.settle()
    busy = forest.consumer("hq", QUEUE, "busy", auto=False)
    forest.settle()
    producer.send(QUEUE, b"1", b"2", b"3")
    for _ in range(2):
        forest.consumer("hq", QUEUE, "other", auto=False)
        forest.settle()
    producer.send("queue:else", b"x")
    forest.settle(3 * PATIENCE)
    assert b"slow" in busy.payloads
    assert hq.dead() == []


def test_a_node_that_stops_is_no_fault_of_what_its_readers_had(forest: Forest, hq: Site) -> None:
    forest.producer("hq").send(QUEUE, b"order")
    forest.settle()
    for _ in range(20):
        reader = forest.consumer("hq", QUEUE, auto=False)
        forest.settle(1.0)
        assert reader.payloads == [b"order"]
        hq.crash()
        hq.boot()
        forest.settle(1.0)
        forest.clients.remove(reader)
    assert hq.dead() == []


def test_what_a_reader_gives_up_is_a_dead_letter_and_the_rest_goes_on(forest: Forest, hq: Site) -> None:
    forest.producer("hq").send(QUEUE, b"1", b"2", b"3")
    forest.settle()
    reader = forest.consumer("hq", QUEUE, auto=False, credit=2)
    forest.settle()
    second = reader.receipts[1]
    reader.say(RefuseDelivery(second.transfer, second.transfer, "not a number"))
    forest.settle()
    assert [(note, message.payload) for note, message in hq.dead()] == [("REJECTED: not a number", b"2")]
    assert reader.payloads == [b"1", b"2", b"3"]
    reader.open = [receipt for receipt in reader.open if receipt is not second]
    reader.acknowledge(2)
    forest.settle()
    assert hq.waiting() == 0
    reader.say(RefuseDelivery(second.transfer, second.transfer, "again"))
    forest.settle()
    assert len(hq.dead()) == 1
