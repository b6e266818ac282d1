"""A binding at a broker that retains nothing is given what is retained: in parts, each once, in order."""

from collections.abc import Callable

import pytest
from memory_broker import Broker

from broker.core.routing.greetings import AT_ONCE
from broker.core.rows import MetaRow
from broker.core.site import site_greetings
from sapwood.protocol.destinations import topic
from simulation.forest import Forest
from treeconnector.edge import BrokerConsumer, BrokerDelivery

MANY = 4 * AT_ONCE
LATE = BrokerConsumer(topic("prices/#"), "late")
OTHER = BrokerConsumer(topic("prices/+"), "other")


class Patient(Broker):
    """Answers when it is told to. `most`: how many greetings it had unanswered at once."""

    def __init__(self, forest: Forest, at: str) -> None:
        self.most = self._answered = 0
        super().__init__(forest, at)

    def for_site(self, deliveries: list[BrokerDelivery]) -> None:
        super().for_site(deliveries)
        self.most = max(self.most, sum(each.alone is not None for each in self.given[self._answered :]))

    def answer(self) -> None:
        """All that has come until now."""
        new, self._answered = self.given[self._answered :], len(self.given)
        self.site.confirm([each.id for each in new])
        self.forest.settle(5.0)

    def answer_all(self) -> None:
        while len(self.given) > self._answered:
            self.answer()

    def comes(self, consumer: BrokerConsumer) -> None:
        self.site.came(consumer, alone=consumer)
        self.forest.settle(5.0)

    def of(self, consumer: BrokerConsumer) -> list[bytes]:
        """The messages in that binding's queue: those for it alone, and all that went to the exchange."""
        return [each.message.payload for each in self.given if each.alone in (None, consumer)]


@pytest.fixture
def broker(forest: Forest) -> Patient:
    forest.add("york")
    producer = forest.producer("york", "shop")
    for number in range(MANY):
        producer.send(f"topic:prices/{number:05d}", b"old %05d" % number, retained=True)
        if number % 100 == 0:
            forest.settle()
    forest.settle()
    return Patient(forest, "york")


def olds(count: int = MANY, begin: int = 0) -> list[bytes]:
    return [b"old %05d" % number for number in range(begin, count)]


def rows(forest: Forest) -> list[str]:
    return [row.name for row in forest["york"].disk.rows(MetaRow) if row.name.startswith("site greeting:")]


def test_a_binding_is_given_them_in_order_and_the_next_part_follows_the_answers(
    forest: Forest, broker: Patient
) -> None:
    broker.comes(LATE)
    assert broker.of(LATE) == olds(len(broker.given))
    assert 0 < len(broker.given) <= AT_ONCE
    forest.settle(5.0)
    assert len(broker.given) <= AT_ONCE, "a broker that does not answer is given no more"
    assert len(rows(forest)) == 1
    broker.answer_all()
    assert broker.of(LATE) == olds()
    assert broker.most <= AT_ONCE
    assert not any(each.again for each in broker.given)
    assert rows(forest) == []
    assert not broker.site.greetings


def test_several_bindings_have_their_parts_in_turn_and_no_more_is_under_way(
    forest: Forest, broker: Patient
) -> None:
    broker.comes(LATE)
    broker.comes(OTHER)
    broker.answer_all()
    assert broker.of(LATE) == broker.of(OTHER) == olds()
    first = next(index for index, each in enumerate(broker.given) if each.alone == OTHER)
    assert first <= AT_ONCE
    assert broker.most <= AT_ONCE


def test_one_who_leaves_in_the_middle_gets_no_more_and_others_go_on(forest: Forest, broker: Patient) -> None:
    broker.comes(LATE)
    broker.comes(OTHER)
    broker.site.went(LATE)
    broker.answer_all()
    assert len(broker.of(LATE)) <= AT_ONCE
    assert broker.of(OTHER) == olds()
    assert rows(forest) == []


@pytest.mark.parametrize("retained", [False, True])
def test_a_message_in_the_middle_is_neither_lost_nor_overtaken_nor_doubled(
    forest: Forest, broker: Patient, retained: bool
) -> None:
    broker.comes(LATE)
    last = MANY - 1
    producer = forest.producer("york", "other")
    producer.send(f"topic:prices/{last:05d}", b"new", retained=retained)
    producer.send("topic:prices/00000", b"late", retained=retained)
    forest.settle(5.0)
    broker.answer_all()
    came = broker.of(LATE)
    assert sorted(came) == sorted([*olds(MANY - retained), b"new", b"late"])
    assert came.index(b"late") > came.index(b"old 00000")
    if not retained:
        assert came.index(b"new") > came.index(b"old %05d" % last)


def test_a_message_that_is_retained_while_others_wait_before_it_comes_once(
    forest: Forest, broker: Patient
) -> None:
    """The broker has been away: both wait, and the retained one has taken the place of the old one."""
    broker.comes(LATE)
    broker.answer()
    broker.site.lost()
    producer = forest.producer("york", "other")
    for payload, retained in ((b"plain", False), (b"new", True)):
        producer.send(f"topic:prices/{MANY - 1:05d}", payload, retained=retained)
    forest.settle(5.0)
    broker.site.connected()
    forest.settle(5.0)
    broker.answer_all()
    came = broker.of(LATE)
    assert (came.count(b"new"), came.count(b"plain")) == (1, 1)
    assert came.index(b"plain") < came.index(b"new")
    assert set(came) == {*olds(MANY - 1), b"plain", b"new"}


def lose(forest: Forest, broker: Patient) -> None:
    broker.site.lost()
    broker.site.connected()


def kill(forest: Forest, broker: Patient) -> None:
    forest["york"].crash()
    forest["york"].boot()
    broker.attach()
    broker.site.complete([LATE])


@pytest.mark.parametrize("happens", [lose, kill])
def test_it_goes_on_where_the_broker_has_everything_and_says_what_may_come_twice(
    forest: Forest, broker: Patient, happens: Callable[[Forest, Patient], None]
) -> None:
    broker.comes(LATE)
    has = len(broker.given)
    broker.answer()
    before = broker.of(LATE)
    happens(forest, broker)
    forest.settle(5.0)
    broker.answer_all()
    after = [each for each in broker.given[len(before) :] if each.alone == LATE]
    assert all(each.again for each in after)
    assert before == olds(len(before))
    assert [each.message.payload for each in after] == olds(begin=has)
    assert rows(forest) == []


def test_a_binding_that_has_gone_while_the_node_was_away_is_forgotten(
    forest: Forest, broker: Patient
) -> None:
    broker.comes(LATE)
    broker.answer()
    forest["york"].crash()
    forest["york"].boot()
    broker.attach()
    broker.site.complete([OTHER])
    forest.settle(5.0)
    assert rows(forest) == []


def test_where_too_much_is_to_be_remembered_what_may_come_twice_says_so(
    forest: Forest, broker: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_greetings, "_MOST_TOLD", 0)
    broker.comes(LATE)
    forest.producer("york", "other").send(f"topic:prices/{MANY - 1:05d}", b"new", retained=True)
    forest.settle(5.0)
    broker.answer_all()
    assert all(each.again for each in broker.given if each.alone and each.message.payload == b"new")
    assert set(broker.of(LATE)) == {*olds(MANY - 1), b"new"}
