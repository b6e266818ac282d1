"""Retained messages for new readers: all of them, in order, a part in each turn, whatever comes meanwhile."""

from collections.abc import Iterator

import pytest

from broker.core.routing.greetings import AT_ONCE, Greetings
from broker.core.rows import MetaRow, SubscriptionRow
from sapwood.protocol.bundles import Flag
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site

MANY = 4 * AT_ONCE


class Steps(list[int]):
    """How many retained messages were given in each turn of any node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__([0])
        tell, run = Greetings._tell, Site.run

        def counted(*given: object) -> int:
            self[-1] += 1
            return tell(*given)  # type: ignore[arg-type]

        def begun(site: Site) -> bool:
            self.append(0)
            return run(site)

        monkeypatch.setattr(Greetings, "_tell", counted)
        monkeypatch.setattr(Site, "run", begun)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


@pytest.fixture
def hq(forest: Forest) -> Site:
    site = forest.add("hq")
    producer = forest.producer("hq", "shop")
    for number in range(MANY):
        producer.send(f"topic:prices/{number:05d}", b"old %05d" % number, retained=True)
        if number % 100 == 0:
            forest.settle()
    forest.settle()
    return site


def olds(count: int = MANY) -> list[bytes]:
    return [b"old %05d" % number for number in range(count)]


def test_a_new_subscription_gets_them_in_order_a_part_in_each_turn(
    forest: Forest, hq: Site, steps: Steps
) -> None:
    reader = forest.consumer("hq", "topic:prices/#", credit=10 * MANY)
    assert 0 < sum(steps) <= AT_ONCE, "the first of them are given at once"
    forest.settle(2.0)
    assert reader.payloads == olds()
    assert max(steps) <= AT_ONCE
    assert not hq.core.topics.greetings


def test_a_child_gets_them_a_part_in_each_turn(forest: Forest, hq: Site, steps: Steps) -> None:
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    reader = forest.consumer("york", "topic:prices/#", credit=10 * MANY)
    forest.settle(5.0)
    assert reader.payloads == olds()
    assert max(steps) <= AT_ONCE


def test_very_many_patterns_of_one_child_are_no_longer_step(forest: Forest, hq: Site, steps: Steps) -> None:
    """Each alone is small, and all come in one packet."""
    forest.add("york", "hq")
    readers = [forest.consumer("york", f"topic:prices/{n:05d}", f"r{n}") for n in range(2 * AT_ONCE)]
    forest.settle()
    forest.dial_all()
    forest.settle(5.0)
    assert [reader.payloads for reader in readers] == [[each] for each in olds(2 * AT_ONCE)]
    assert max(steps) <= AT_ONCE


@pytest.mark.parametrize("retained", [False, True])
def test_a_message_in_the_middle_is_neither_lost_nor_overtaken(
    forest: Forest, hq: Site, retained: bool
) -> None:
    """The retained one comes before it, or not at all, once it has taken its place."""
    reader = forest.consumer("hq", "topic:prices/#", credit=10 * MANY)
    last = f"{MANY - 1:05d}"
    assert len(reader.payloads) < MANY
    forest.producer("hq", "other").send(f"topic:prices/{last}", b"new", retained=retained)
    forest.producer("hq", "third").send("topic:prices/00000", b"late", retained=retained)
    forest.settle(2.0)
    old = b"old " + last.encode()
    assert reader.payloads.count(b"new") == reader.payloads.count(b"late") == 1
    assert reader.payloads.index(b"late") > reader.payloads.index(b"old 00000")
    if retained:
        assert old not in reader.payloads
    else:
        assert reader.payloads.index(old) < reader.payloads.index(b"new")
    assert sorted(reader.payloads) == sorted([*olds(MANY - retained), b"new", b"late"])


def test_a_topic_that_is_cleared_in_the_middle_is_not_given_any_more(forest: Forest, hq: Site) -> None:
    reader = forest.consumer("hq", "topic:prices/#", credit=10 * MANY)
    forest.producer("hq", "other").send(f"topic:prices/{MANY - 1:05d}", b"", retained=True)
    forest.settle(2.0)
    assert sorted(reader.payloads) == [b"", *olds(MANY - 1)]


def test_one_who_leaves_in_the_middle_gets_no_more(forest: Forest, hq: Site, steps: Steps) -> None:
    forest.consumer("hq", "topic:prices/#").disconnect()
    forest.settle(2.0)
    assert sum(steps) <= AT_ONCE
    assert not hq.core.topics.greetings


def marks(site: Site) -> list[str]:
    return [row.name for row in site.disk.rows(MetaRow) if row.name.startswith("greeting:")]


def started_anew(forest: Forest, hq: Site) -> Iterator[None]:
    forest.settle()
    assert marks(hq)
    hq.crash()
    yield
    hq.boot()
    forest.settle(3.0)
    assert not marks(hq)


def test_a_durable_subscription_has_all_of_them_after_a_kill_in_the_middle(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = forest.consumer("hq", "topic:prices/#", durable="d", credit=10 * MANY, auto=False)
    for _ in started_anew(forest, hq):
        reader.gone()
    again = SimulatedConsumer(hq, "topic:prices/#", "consumer", durable="d", credit=10 * MANY)
    forest.clients.append(again)
    again.connect()
    forest.settle(3.0)
    assert set(again.payloads) == set(olds())
    twice = [each for each in again.receipts if each.again]
    assert not twice
    doubted = [each for each in again.receipts if each.flags & Flag.MAYBE_DUPLICATE]
    assert doubted, "a start cannot know what was given out of its turn"


def test_a_durable_subscription_has_all_of_them_after_a_kill_before_its_turn(
    forest: Forest, hq: Site
) -> None:
    forest.consumer("hq", "topic:prices/#", "other")
    reader = forest.consumer("hq", "topic:prices/#", durable="d", credit=10 * MANY, auto=False)
    while not list(hq.disk.rows(SubscriptionRow)):
        forest.step()
    hq.crash()
    reader.gone()
    hq.boot()
    forest.settle(3.0)
    again = SimulatedConsumer(hq, "topic:prices/#", "consumer", durable="d", credit=10 * MANY)
    forest.clients.append(again)
    again.connect()
    forest.settle(3.0)
    assert set(again.payloads) == set(olds())
    assert not marks(hq)


def test_a_child_has_all_of_them_after_a_kill_in_the_middle(forest: Forest, hq: Site) -> None:
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    reader = forest.consumer("york", "topic:prices/#", credit=10 * MANY)
    for _ in range(20):
        if marks(hq):
            break
        forest.step()
    for _ in started_anew(forest, hq):
        pass
    forest.heal(5.0)
    assert set(reader.payloads) == set(olds())
    assert len(reader.payloads) == MANY


def test_expired_ones_are_not_given(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq", "shop")
    producer.send("topic:a", b"short", retained=True, expires_in=1000)
    producer.send("topic:b", b"long", retained=True)
    forest.settle(2.0)
    reader = forest.consumer("hq", "topic:#")
    forest.settle(1.0)
    assert reader.payloads == [b"long"]
    assert len(hq.core.topics.retained) == 1


@pytest.mark.parametrize("roots", [("hq",), ("hq-a", "hq-b")])
def test_who_comes_with_another_filter_gets_it_once_and_nobody_else_gets_it_again(
    forest: Forest, roots: tuple[str, ...]
) -> None:
    """Each node on the way gives what it keeps, and then hears from below of what it has."""
    if len(roots) == 1:
        forest.add("hq")
    else:
        forest.add_mesh(*roots)
    forest.grow(("north", roots[0], "branch"), ("york", "north"), seconds=1.0)
    forest.heal(5.0)
    forest.producer("york", "till").send("topic:prices/milk", b"90", retained=True)
    forest.settle()
    places = ["north", roots[-1], roots[0], roots[0], "north"]
    filters = ["prices/#", "prices/milk", "+/milk", "#", "prices/+"]
    readers: list[SimulatedConsumer] = []
    for place, pattern in zip(places, filters, strict=True):
        readers.append(forest.consumer(place, f"topic:{pattern}", f"reader of {pattern}"))
        forest.settle(1.0)
        assert [reader.payloads for reader in readers] == [[b"90"]] * len(readers)
    readers[1].disconnect()
    forest.heal(30.0)
    late = forest.consumer(roots[-1], "topic:prices/milk", "late")
    forest.settle(1.0)
    assert late.payloads == [b"90"]
