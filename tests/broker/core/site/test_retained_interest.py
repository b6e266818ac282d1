"""A retained message is kept while its change would be heard, and comes again when it is asked for."""

from itertools import pairwise

import pytest
from memory_broker import Broker

from broker.core.neighbours import advertising
from broker.core.routing.greetings import AT_ONCE
from broker.core.rows import MetaRow, RetainedRow
from broker.core.settings import QueuePolicy
from broker.core.site import retained_interest
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Kind
from sapwood.protocol.session_frames import Unsubscribe
from simulation.clients import Producer, SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site


def tree(forest: Forest, **settings: object) -> None:
    for name, parent, role in (("hq", "", "root"), ("north", "hq", "branch"), ("york", "north", "leaf")):
        forest.add(name, parent, role, **settings)
    forest.dial_all()
    forest.settle(3.0)


def leaves(reader: SimulatedConsumer) -> None:
    reader.say(Unsubscribe(3, 7))
    reader.disconnect()


def kept(forest: Forest, *names: str) -> list[int]:
    """How many retained messages each has, in memory and on disk."""
    for name in names:
        assert len(forest[name].disk.rows(RetainedRow)) == len(forest[name].core.topics.retained)
    return [len(forest[name].core.topics.retained) for name in names]


def test_what_comes_from_above_goes_with_the_last_reader_and_comes_again(forest: Forest) -> None:
    tree(forest)
    producer = forest.producer("hq")
    producer.send("topic:price/tea", b"9", retained=True)
    reader = forest.consumer("york", "topic:price/#")
    forest.settle(1.0)
    assert kept(forest, "hq", "north", "york") == [1, 1, 1]
    leaves(reader)
    forest.settle(10.0)
    assert kept(forest, "hq", "north", "york") == [1, 0, 0]
    producer.send("topic:price/tea", b"", retained=True)
    producer.send("topic:price/milk", b"1", retained=True)
    late = forest.consumer("york", "topic:price/#")
    forest.settle(1.0)
    assert late.payloads == [b"1"]


def test_what_may_be_a_repetition_comes_again_too(forest: Forest) -> None:
    """A broker repeats what it had no answer to. The mark is of that delivery, and not of the value."""
    tree(forest)
    broker = Broker(forest, "hq")
    forest["hq"].core.retained_interest.broker_retains = False
    broker.sends("topic:price/tea", b"9", retained=True, again=True)
    first = forest.consumer("york", "topic:price/#", "first")
    forest.settle(1.0)
    leaves(first)
    forest.settle(20.0)
    assert kept(forest, "hq", "north", "york") == [1, 0, 0]
    late = forest.consumer("york", "topic:price/#", "late")
    forest.settle(1.0)
    assert late.payloads == first.payloads == [b"9"]


@pytest.mark.parametrize("lost", [("up",), ("up", "down")])
def test_a_withdrawal_that_a_line_loses_and_an_interest_that_is_back_before_the_line(
    forest: Forest, lost: tuple[str, ...]
) -> None:
    """Offers are as they were, and yet the parent has to give all anew."""
    tree(forest)
    producer = forest.producer("hq")
    producer.send("topic:price/tea", b"9", retained=True)
    first = forest.consumer("york", "topic:price/#", "first")
    forest.settle(1.0)
    leaves(first)
    wire = forest.wire_of("york")
    assert wire is not None
    for _ in range(1000):
        if not forest["york"].core.topics.retained:
            break
        forest.pass_time(0.01)
        forest["york"].run()
    late = forest.consumer("york", "topic:price/#", "late")
    forest["york"].run()
    forest.cut(wire, lost)
    forest.heal(60.0)
    assert late.payloads == [b"9"]


@pytest.mark.parametrize("restarted", ["", "before it came", "after it came"])
def test_an_interest_that_went_and_came_while_a_child_was_away(forest: Forest, restarted: str) -> None:
    """The child has given what it retains to the one before, and is told of a new one."""
    tree(forest)
    north = forest["north"]
    forest.producer("york").send("topic:up/a", b"1", retained=True)
    first = forest.consumer("hq", "topic:up/#", "first")
    forest.settle(1.0)
    assert kept(forest, "hq", "north", "york") == [1, 1, 1]
    forest.cut_off.append({"york", "north"})
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    leaves(first)
    forest.settle(200.0)
    assert kept(forest, "hq", "north", "york") == [0, 0, 1]
    if restarted == "before it came":
        _restart(forest, north)
    late = forest.consumer("hq", "topic:up/#", "late")
    forest.settle(100.0)
    if restarted == "after it came":
        _restart(forest, north)
    forest.cut_off.clear()
    forest.heal(10.0)
    assert late.payloads == [b"1"]
    assert kept(forest, "hq", "north", "york") == [1, 1, 1]
    heard = forest["york"].core.advertising.heard["down"]
    _restart(forest, north)
    forest.heal(10.0)
    assert forest["york"].core.advertising.heard["down"] == heard, "who was there is told nothing again"
    assert late.payloads == [b"1"]


def _restart(forest: Forest, site: Site) -> None:
    site.crash()
    site.boot()
    forest.dial_all()
    forest.settle(100.0)


def test_of_topics_that_went_while_a_child_was_away_the_latest_are_known_after_a_start(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advertising, "MOST_RETURNED", 2)
    tree(forest)
    readers = [forest.consumer("hq", f"topic:t/{number}", f"r{number}") for number in range(4)]
    forest.settle(1.0)
    forest["york"].crash()
    for reader in readers:
        leaves(reader)
        forest.settle(20.0)
    rows = [row.name for row in forest["north"].disk.rows(MetaRow) if row.name.startswith("withdrawn:")]
    assert sorted(rows) == ["withdrawn:t/2", "withdrawn:t/3"]


def test_while_an_interest_lingers_what_it_brought_stays_and_is_renewed(forest: Forest) -> None:
    """The parent has not been told that it ended, so it would not give anything anew."""
    tree(forest, linger=30.0)
    producer = forest.producer("hq")
    producer.send("topic:price/tea", b"9", retained=True)
    reader = forest.consumer("york", "topic:price/#")
    forest.settle(1.0)
    leaves(reader)
    forest.settle(10.0)
    producer.send("topic:price/tea", b"10", retained=True)
    producer.send("topic:price/milk", b"1", retained=True)
    forest.settle(1.0)
    late = forest.consumer("york", "topic:price/#")
    forest.settle(1.0)
    assert sorted(late.payloads) == [b"1", b"10"]
    leaves(late)
    forest.settle(60.0)
    assert kept(forest, "north", "york") == [0, 0]


def many(forest: Forest, most: int, stays: str = "topic:price/") -> None:
    """So many are retained, and come to a reader at york, who leaves; the last interest has just ended."""
    tree(forest)
    producer = forest.producer("hq")
    for number in range(most):
        producer.send(f"topic:price/{number:05d}", b"old", retained=True)
        if number % 100 == 0:
            forest.settle()
    forest.consumer("york", stays, "stays")
    reader = forest.consumer("york", "topic:price/#", "first", credit=10_000)
    forest.settle(2.0)
    assert kept(forest, "york") == [most]
    leaves(reader)
    for _ in range(1000):
        if len(forest["york"].core.topics.retained) < most:
            return
        forest.pass_time(0.2)
        forest.step()
    raise AssertionError("nothing goes")


def test_very_many_go_a_part_in_each_turn(forest: Forest) -> None:
    most = 4 * AT_ONCE
    many(forest, most)
    left = [most]
    while left[-1]:
        left.append(len(forest["york"].core.topics.retained))
        forest.pass_time(0.01)
        forest["york"].run()
    assert max(before - after for before, after in pairwise(left)) <= AT_ONCE
    forest.settle(1.0)
    assert kept(forest, "york") == [0]


def test_who_comes_while_they_go_has_what_is_true_now(forest: Forest) -> None:
    """Neither what was cleared while nobody heard of it, nor less than there is."""
    most = 4 * AT_ONCE
    many(forest, most)
    assert len(forest["york"].core.topics.retained) > AT_ONCE, "most are still there"
    producer = forest.clients[0]
    assert isinstance(producer, Producer)
    producer.send(f"topic:price/{most - 1:05d}", b"", retained=True)
    producer.send(f"topic:price/{most - 2:05d}", b"new", retained=True)
    late = forest.consumer("york", "topic:price/#", "late", credit=10_000)
    forest.settle(5.0)
    assert sorted(late.payloads) == [b"new", *[b"old"] * (most - 2)]
    assert kept(forest, "york") == [most - 1]


def test_what_another_interest_hears_stays_while_the_others_go(forest: Forest) -> None:
    most = 4 * AT_ONCE
    many(forest, most, stays=f"topic:price/{most - 1:05d}")
    late = forest.consumer("york", "topic:other", "late")
    forest.settle(2.0)
    assert kept(forest, "york") == [1]
    assert late.payloads == []


@pytest.mark.parametrize(("scope", "left"), [(Scope.VERTICAL, 0), (Scope.TREE, 1)])
def test_what_comes_from_below_goes_when_nobody_above_asks_unless_it_comes_anyway(
    forest: Forest, scope: Scope, left: int
) -> None:
    tree(forest, policies=(QueuePolicy(Kind.TOPIC, "up/#", scope),))
    producer = forest.producer("york")
    producer.send("topic:up/a", b"1", retained=True)
    reader = forest.consumer("hq", "topic:up/#")
    forest.settle(1.0)
    assert set(reader.payloads) == {b"1"}
    leaves(reader)
    forest.settle(10.0)
    assert kept(forest, "hq", "north", "york") == [left, left, 1]
    producer.send("topic:up/a", b"", retained=True)
    forest.settle(1.0)
    late = forest.consumer("hq", "topic:up/#")
    forest.settle(1.0)
    assert late.payloads == []


def test_another_interest_in_the_same_topic_keeps_it(forest: Forest) -> None:
    tree(forest)
    forest.producer("hq").send("topic:price/tea", b"9", retained=True)
    forest.consumer("north", "topic:price/tea")
    reader = forest.consumer("york", "topic:price/#")
    forest.settle(1.0)
    leaves(reader)
    forest.settle(10.0)
    assert kept(forest, "hq", "north", "york") == [1, 1, 0]


def test_what_a_broker_retains_itself_is_kept_while_it_is_taken_there(forest: Forest) -> None:
    tree(forest)
    broker = Broker(forest, "york")
    reader = forest.consumer("hq", "topic:up/#")
    forest.settle(1.0)
    assert broker.site.wanted
    broker.sends("topic:up/a", b"1", retained=True)
    assert kept(forest, "hq", "north", "york") == [1, 1, 1]
    leaves(reader)
    forest.settle(10.0)
    assert kept(forest, "hq", "north", "york") == [0, 0, 0]
    assert not [
        row for row in forest["york"].disk.rows(MetaRow) if row.name.startswith(retained_interest.FROM_SITE)
    ]


def test_the_topics_of_a_broker_that_retains_nothing_are_followed(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained_interest, "_MOST_FOLLOWED", 2)
    tree(forest)
    forest["york"].core.retained_interest.broker_retains = False
    broker = Broker(forest, "york")
    reader = forest.consumer("hq", "topic:up/#")
    forest.settle(1.0)
    assert broker.site.wanted
    for name in "abc":
        broker.sends(f"topic:up/{name}", b"1", retained=True)
    leaves(reader)
    forest.settle(10.0)
    assert {str(key) for key in broker.site.wanted} == {"topic:up/a", "topic:up/b"}
    forest["york"].crash()
    forest["york"].boot()
    forest["york"].core.retained_interest.broker_retains = False
    forest.heal(3.0)
    assert {str(key) for key in broker.site.wanted} == {"topic:up/a", "topic:up/b"}
    broker.sends("topic:up/a", b"", retained=True)
    assert {str(key) for key in broker.site.wanted} == {"topic:up/b"}
    late = forest.consumer("hq", "topic:up/#")
    forest.settle(1.0)
    assert late.payloads == [b"1"]
    forest["york"].core.site.end()
    forest.settle(1.0)
    assert kept(forest, "york") == [0]


def test_what_the_broker_has_is_outdated_when_nobody_there_reads_it(forest: Forest) -> None:
    tree(forest)
    broker = Broker(forest, "york")
    producer = forest.producer("hq")
    producer.send("topic:price/tea", b"9", retained=True)
    broker.consumers("topic:price/#")
    broker.confirm()
    assert broker.site.outdated(["price/tea", "price/milk"]) == ["price/milk"]
    broker.consumers()
    assert broker.site.outdated(["price/tea"]) == ["price/tea"]
    broker.given.clear()
    broker.consumers("topic:price/#")
    assert broker.payloads() == [b"9"]
