"""Messages that a consumer gives back, and does not give up: they are given again, here or to another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.protocol.session_frames import Acknowledge, RefuseDelivery
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


def reading(forest: Forest, hq: Site, name: str, credit: int = 100) -> SimulatedConsumer:
    made = SimulatedConsumer(hq, "queue:orders", name, credit=credit, auto=False)
    forest.clients.append(made)
    made.connect()
    forest.settle()
    return made


def send(forest: Forest, *payloads: bytes) -> None:
    forest.producer("hq").send("queue:orders", *payloads)
    forest.settle()


def give_back(forest: Forest, consumer: SimulatedConsumer, transfer: int) -> None:
    consumer.say(RefuseDelivery(transfer, transfer, "", True))
    forest.settle()


def test_one_of_a_bundle_is_given_again_alone(forest: Forest, hq: Site) -> None:
    reader = reading(forest, hq, "a")
    send(forest, b"1", b"2", b"3")
    give_back(forest, reader, reader.receipts[1].transfer)
    assert reader.payloads == [b"1", b"2", b"3", b"2"]
    assert [receipt.redelivered for receipt in reader.receipts] == [False, False, False, True]
    reader.say(Acknowledge([(receipt.transfer, receipt.transfer) for receipt in reader.receipts]))
    forest.settle()
    assert hq.waiting() == 0
    reader.disconnect()
    assert reading(forest, hq, "b").payloads == []


def test_what_was_dealt_with_beside_one_that_is_given_back_is_forgotten(forest: Forest, hq: Site) -> None:
    reader = reading(forest, hq, "a")
    send(forest, b"1", b"2", b"3")
    first, second, third = (receipt.transfer for receipt in reader.receipts)
    reader.say(Acknowledge([(first, first)]))
    give_back(forest, reader, second)
    session = hq.core.switch.sessions["a"]
    reader.say(Acknowledge([(second, second), (third, third)]))
    forest.settle()
    assert (hq.waiting(), len(session.unacked)) == (0, 0)


def test_another_reader_is_given_it_where_this_one_has_no_room(forest: Forest, hq: Site) -> None:
    reader = reading(forest, hq, "a", credit=1)
    send(forest, b"1", b"2")
    other = reading(forest, hq, "b")
    assert (reader.payloads, other.payloads) == ([b"1"], [b"2"])
    reader.say(RefuseDelivery(reader.receipts[0].transfer, reader.receipts[0].transfer, "", True))
    forest.settle()
    assert len(reader.receipts) + len(other.receipts) == 3
    assert (reader.receipts + other.receipts)[-1].payload in (b"1", b"2")


def test_a_message_that_is_given_back_each_time_is_a_dead_letter(forest: Forest, hq: Site) -> None:
    reader = reading(forest, hq, "a")
    send(forest, b"good", b"poison")
    reader.acknowledge(1)
    most = hq.core.settings.max_deliveries
    for _ in range(most):
        give_back(forest, reader, reader.receipts[-1].transfer)
    assert reader.payloads == [b"good", *[b"poison"] * most]
    ((reason, letter),) = hq.dead()
    assert (reason, letter.payload) == ("TOO_MANY_DELIVERIES", b"poison")


def test_what_is_dealt_with_or_unknown_is_not_given_back(forest: Forest, hq: Site) -> None:
    reader = reading(forest, hq, "a")
    send(forest, b"1")
    (receipt,) = reader.receipts
    reader.say(
        Acknowledge([(receipt.transfer, receipt.transfer)]),
        RefuseDelivery(receipt.transfer, 1 << 40, "", True),
    )
    forest.settle()
    assert reader.payloads == [b"1"]
    assert hq.waiting() == 0


def test_it_is_given_again_after_a_crash(forest: Forest, hq: Site) -> None:
    reader = reading(forest, hq, "a")
    send(forest, b"1", b"2")
    give_back(forest, reader, reader.receipts[0].transfer)
    hq.crash()
    hq.boot()
    assert sorted(reading(forest, hq, "b").payloads) == [b"1", b"2"]


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=40))
def test_whatever_is_given_back_each_is_dealt_with_once(done: list[tuple[int, bool]]) -> None:
    forest = Forest()
    hq = forest.add("hq")
    reader = reading(forest, hq, "a")
    sent = [b"%d" % number for number in range(8)]
    send(forest, *sent)
    for index, back in done:
        receipt = reader.receipts[index % len(reader.receipts)]
        if back:
            give_back(forest, reader, receipt.transfer)
        else:
            reader.say(Acknowledge([(receipt.transfer, receipt.transfer)]))
            forest.settle()
    (consumer,) = hq.core.switch.sessions["a"].consumers
    assert consumer.outstanding <= hq.waiting()
    last = {receipt.payload: receipt.transfer for receipt in reader.receipts}
    reader.auto, reader.open = True, []
    reader.say(Acknowledge([(transfer, transfer) for transfer in last.values()]))
    forest.settle(60)
    assert (hq.waiting(), consumer.outstanding) == (0, 0)
    assert set(reader.payloads) == set(sent)
    letters = [message.payload for _, message in hq.dead()]
    assert len(letters) == len(set(letters))
