import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from sapwood.protocol.destinations import Destination, Kind, domain, queue, topic
from sapwood.protocol.errors import FrameError, SequenceError
from treeconnector.frames import Advice
from treeconnector.held import LEVEL_WEIGHT, Applied, Held, Kept, Limits, anything_goes
from treeconnector.offers import digest_of, standing
from treeconnector.routes import Route, RoutingTable

ORDERS, RETURNS, PRICES, STORE = queue("orders"), queue("returns"), topic("prices/#"), domain("store-1")
ALL = (ORDERS, RETURNS, PRICES, STORE)


class Row(NamedTuple):
    kind: str
    name: str
    gateway: str
    live: int
    origin: str
    cause: str
    reads: int
    declined: int


def advice(op: str, key: Destination, cause: str = "c1", reads: int = 0) -> Advice:
    return Advice(op, key.kind, key.name, "store-1", cause, reads)


def route(key: Destination, live: bool = True, cause: str = "c1", reads: int = 0) -> Route:
    return Route(key, "store-1", live, "store-1", cause, reads)


class Branch:
    """What a branch holds of its child store-1, and what its table told of changes."""

    def __init__(self, limits: Limits = Limits(), legality: Callable[[Route], str] = anything_goes) -> None:  # noqa: B008
        self.table = RoutingTable()
        self.told: list[tuple[str, str, str]] = []
        self.table.watch(lambda key, cause, origin: self.told.append((str(key), cause, origin)))
        self.held = Held(self.table, "store-1", limits, legality)

    def say(self, *advices: Advice) -> Applied:
        return self.held.apply(advices, 0.0)

    def add(self, *keys: Destination) -> Applied:
        return self.say(*(advice("add", key) for key in keys))

    def live(self) -> dict[Destination, bool]:
        return {key: found.live for key, found in self.table.routes_of("store-1").items()}


def test_what_is_offered_is_in_the_table_and_to_be_kept() -> None:
    branch = Branch()
    applied = branch.held.apply(
        [advice("add", ORDERS), advice("dormant", RETURNS), advice("add", STORE, reads=2)], 7.0
    )
    expected = [route(ORDERS), route(RETURNS, live=False), route(STORE, reads=2)]
    assert list(branch.table.routes()) == expected
    assert applied == ([Kept(each, False) for each in expected], [], [], "")
    assert branch.held.count == 3
    assert branch.held.digest == digest_of(
        [(ORDERS, standing(True)), (RETURNS, standing(False)), (STORE, standing(True, 2))]
    )
    assert branch.held.heard_at == 7.0


def test_what_is_said_twice_changes_nothing() -> None:
    branch = Branch()
    branch.add(ORDERS)
    before = branch.held.digest
    assert not branch.add(ORDERS)
    assert not branch.say(advice("live", ORDERS, "c2"))
    assert not branch.say(advice("remove", RETURNS))
    assert (branch.held.count, branch.held.digest) == (1, before)
    assert branch.told == [("queue:orders", "c1", "store-1")]


def test_a_removal_carries_its_own_cause() -> None:
    branch = Branch()
    branch.add(ORDERS)
    assert branch.say(Advice("remove", Kind.QUEUE, "orders", "till-3", "r1")) == ([], [ORDERS], [], "")
    assert branch.told[-1] == ("queue:orders", "r1", "till-3")
    assert (branch.held.count, branch.held.digest, len(branch.table)) == (0, bytes(16), 0)


def test_the_last_word_on_a_key_counts() -> None:
    branch = Branch(Limits(routes=2))
    branch.add(ORDERS)
    applied = branch.say(
        advice("remove", ORDERS),
        advice("add", ORDERS, "c2"),
        advice("add", RETURNS),
        advice("add", PRICES),
        advice("remove", PRICES),
        advice("add", STORE),
        advice("remove", RETURNS),
    )
    assert applied.kept == [Kept(route(ORDERS, cause="c2"), False), Kept(route(STORE), False)]
    assert set(applied.gone) == {RETURNS, PRICES}
    assert applied.declined == []
    assert branch.live() == {ORDERS: True, STORE: True}


def test_dormant_and_live_again() -> None:
    branch = Branch()
    branch.add(ORDERS)
    assert branch.say(advice("dormant", ORDERS, "c2")).kept == [Kept(route(ORDERS, False, "c2"), False)]
    assert branch.live() == {ORDERS: False}
    assert branch.say(advice("live", ORDERS, "c3")).kept == [Kept(route(ORDERS, True, "c3"), False)]
    assert branch.live() == {ORDERS: True}
    assert branch.held.digest == digest_of([(ORDERS, standing(True))])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            Advice("shout", Kind.QUEUE, "orders"),
            "store-1 advises 'shout': expected one of add, dormant, live, remove",
        ),
        (Advice("add", Kind.TOPIC, "x" * 4097), "a name of 4097 characters: 4096 at most"),
    ],
)
def test_what_is_no_advice_is_the_peers_fault_and_changes_nothing(said: Advice, expected: str) -> None:
    branch = Branch()
    with pytest.raises(FrameError, match=re.escape(expected)):
        branch.say(advice("add", ORDERS), said)
    assert (branch.held.count, len(branch.table)) == (0, 0)


# Declining


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (topic("a/b+"), "whole levels"),
        (topic("a/b/c/d"), "expected 3 at most"),
        (topic("x" * 21), "expected 1 to 20"),
        (topic(""), "expected 1 to 20"),
        (queue("a@b"), "is no queue name"),
        (domain("local"), "cannot be named 'local'"),
        (domain("LocaL"), "cannot be named 'LocaL'"),
    ],
)
def test_an_offer_over_a_limit_is_declined_by_name_and_counted(key: Destination, expected: str) -> None:
    branch = Branch(Limits(length=20, levels=3))
    applied = branch.add(key, ORDERS)
    assert applied.declined == [key]
    assert expected in applied.reason
    assert applied.kept == [Kept(route(key), True), Kept(route(ORDERS), False)]
    assert list(branch.table) == [ORDERS]
    assert list(branch.held.declined) == [key]
    assert (branch.held.count, branch.held.digest) == (
        2,
        digest_of([(key, standing(True)), (ORDERS, standing(True))]),
    )
    assert not branch.add(key)
    assert branch.say(advice("dormant", key)).declined == []
    assert branch.held.digest == digest_of([(key, standing(False)), (ORDERS, standing(True))])
    assert branch.say(advice("remove", key)).gone == [key]
    assert branch.held.digest == digest_of([(ORDERS, standing(True))])
    assert list(branch.held.declined) == []


def test_too_many_routes_are_declined_until_there_is_room() -> None:
    branch = Branch(Limits(routes=2))
    applied = branch.add(ORDERS, RETURNS, PRICES)
    assert applied.declined == [PRICES]
    assert applied.reason == "store-1 has 2 routes here, which is its limit: topic:prices/# is not used"
    assert branch.say(advice("dormant", RETURNS)).declined == []
    before = branch.held.digest
    applied = branch.say(advice("remove", ORDERS))
    assert (applied.gone, applied.kept) == ([ORDERS], [Kept(route(PRICES), False)])
    assert branch.live() == {RETURNS: False, PRICES: True}
    assert branch.held.count == 2
    assert branch.held.digest == digest_of([(RETURNS, standing(False)), (PRICES, standing(True))])
    assert branch.held.digest != before


def test_a_declined_offer_that_is_withdrawn_is_not_promoted() -> None:
    branch = Branch(Limits(routes=1))
    branch.add(ORDERS, RETURNS)
    branch.say(advice("remove", RETURNS))
    assert branch.say(advice("remove", ORDERS)) == ([], [ORDERS], [], "")
    assert (branch.held.count, len(branch.table)) == (0, 0)


def test_a_route_that_is_not_the_neighbours_to_offer_is_declined_and_comes_back_at_a_review() -> None:
    elsewhere = {STORE}
    branch = Branch(legality=lambda each: "is live elsewhere" if each.live and each.key in elsewhere else "")
    branch.add(ORDERS, STORE)
    assert list(branch.table) == [ORDERS]
    assert not branch.held.review()
    elsewhere.clear()
    assert branch.held.review() == ([Kept(route(STORE), False)], [], [], "")
    assert branch.live() == {ORDERS: True, STORE: True}


def test_a_review_takes_away_what_is_legal_no_more_and_the_digest_stays() -> None:
    forbidden: set[Destination] = set()
    branch = Branch(legality=lambda each: "is not allowed" if each.key in forbidden else "")
    branch.add(ORDERS, PRICES)
    branch.say(advice("dormant", PRICES))
    before = branch.held.digest
    forbidden.add(PRICES)
    dormant = route(PRICES)._replace(live=False)
    assert branch.held.review() == ([Kept(dormant, True)], [], [PRICES], "is not allowed")
    assert not branch.held.review()
    assert (branch.live(), list(branch.held.declined)) == ({ORDERS: True}, [PRICES])
    assert (branch.held.count, branch.held.digest) == (2, before)
    forbidden.clear()
    assert branch.held.review() == ([Kept(dormant, False)], [], [], "")
    assert branch.live() == {ORDERS: True, PRICES: False}
    assert branch.held.digest == before


def test_routes_that_are_long_together_are_declined_until_there_is_room() -> None:
    short, long = queue("a"), topic("/".join("abcdefgh"))
    branch = Branch(Limits(weight=10 * LEVEL_WEIGHT))
    applied = branch.add(ORDERS, short, long)
    assert applied.declined == [long]
    assert applied.reason == f"the 2 routes of store-1 are too long together: {long} is not used"
    assert branch.say(advice("remove", ORDERS)).kept == [Kept(route(long), False)]
    assert branch.live() == {short: True, long: True}
    assert branch.add(PRICES).declined == [PRICES]
    branch.say(advice("remove", PRICES), advice("remove", long))
    assert not branch.add(PRICES).declined


def test_declined_offers_are_bounded_in_bytes_too() -> None:
    branch = Branch(Limits(length=10, declined_weight=5 * LEVEL_WEIGHT))
    for number in range(2):
        branch.add(topic(f"{number}{'a' * 400}"))
    with pytest.raises(FrameError, match="goes on after 2 of its offers were declined"):
        branch.add(ORDERS)


def test_a_route_that_becomes_illegal_leaves_the_table() -> None:
    elsewhere: set[Destination] = set()
    branch = Branch(legality=lambda each: "is live elsewhere" if each.live and each.key in elsewhere else "")
    branch.say(advice("dormant", STORE))
    elsewhere.add(STORE)
    applied = branch.say(advice("live", STORE, "c2"))
    assert applied == ([Kept(route(STORE, cause="c2"), True)], [], [STORE], "is live elsewhere")
    assert len(branch.table) == 0
    assert branch.held.digest == digest_of([(STORE, standing(True))])


def test_declined_offers_are_bounded() -> None:
    branch = Branch(Limits(routes=0, declined=2))
    branch.add(ORDERS, RETURNS, PRICES)
    with pytest.raises(FrameError, match="after 3 of its offers were declined: 2 at most are remembered"):
        branch.add(STORE)


# Snapshots


def test_a_snapshot_sweeps_what_it_does_not_name_and_nothing_flaps() -> None:
    branch = Branch()
    branch.add(ORDERS, RETURNS, PRICES)
    branch.told.clear()
    branch.held.begin_snapshot()
    assert branch.held.in_snapshot
    branch.say(advice("add", PRICES, "resync"), advice("add", STORE, "resync"))
    assert branch.live() == {ORDERS: True, RETURNS: True, PRICES: True, STORE: True}
    branch.say(advice("dormant", RETURNS, "resync"))
    applied = branch.held.end_snapshot()
    assert applied == ([], [ORDERS], [], "")
    assert branch.live() == {RETURNS: False, PRICES: True, STORE: True}
    assert branch.told == [
        ("domain:store-1", "resync", "store-1"),
        ("queue:returns", "resync", "store-1"),
        ("queue:orders", "resync", "store-1"),
    ]
    assert not branch.held.in_snapshot


def test_an_interrupted_snapshot_sweeps_nothing() -> None:
    branch = Branch()
    branch.add(ORDERS, RETURNS)
    branch.held.begin_snapshot()
    branch.add(PRICES)
    branch.held.abandon_snapshot()
    with pytest.raises(SequenceError, match="store-1 ends a snapshot: expected it to begin one first"):
        branch.held.end_snapshot()
    assert set(branch.live()) == {ORDERS, RETURNS, PRICES}
    branch.held.begin_snapshot()
    branch.add(ORDERS)
    branch.held.begin_snapshot()
    branch.add(RETURNS)
    assert set(branch.held.end_snapshot().gone) == {ORDERS, PRICES}


def test_a_snapshot_sweeps_declined_offers_and_makes_room() -> None:
    branch = Branch(Limits(routes=2))
    branch.add(ORDERS, RETURNS, queue("a@b"))
    branch.held.begin_snapshot()
    assert branch.add(PRICES, STORE).declined == [PRICES, STORE]
    applied = branch.held.end_snapshot()
    assert set(applied.gone) == {ORDERS, RETURNS, queue("a@b")}
    assert {kept.route.key for kept in applied.kept} == {PRICES, STORE}
    assert branch.live() == {PRICES: True, STORE: True}
    assert branch.held.digest == digest_of([(PRICES, standing(True)), (STORE, standing(True))])
    assert list(branch.held.declined) == []


# The link's own state


def test_a_link_that_is_down_makes_queues_and_domains_dormant_and_not_the_digest() -> None:
    branch = Branch()
    branch.add(*ALL)
    branch.say(advice("dormant", RETURNS))
    before = branch.held.digest
    branch.told.clear()
    branch.held.set_dormant()
    assert branch.live() == {ORDERS: False, RETURNS: False, PRICES: True, STORE: False}
    assert branch.told == [
        ("queue:orders", "link-down", "store-1"),
        ("domain:store-1", "link-down", "store-1"),
    ]
    assert branch.held.digest == before
    assert repr(branch.held) == "<Held from store-1 count=4 declined=0 dormant>"
    branch.held.set_live()
    assert branch.live() == {ORDERS: True, RETURNS: False, PRICES: True, STORE: True}
    assert branch.told[-1] == ("domain:store-1", "link-up", "store-1")
    assert repr(branch.held) == "<Held from store-1 count=4 declined=0>"


def test_what_is_offered_to_a_dormant_link_waits_and_is_kept_as_offered() -> None:
    branch = Branch()
    branch.held.set_dormant()
    applied = branch.add(ORDERS, PRICES)
    assert branch.live() == {ORDERS: False, PRICES: True}
    assert applied.kept == [Kept(route(ORDERS), False), Kept(route(PRICES), False)]
    assert not branch.add(ORDERS)
    assert branch.held.digest == digest_of([(ORDERS, standing(True)), (PRICES, standing(True))])
    branch.held.set_live()
    assert branch.live() == {ORDERS: True, PRICES: True}


def test_a_neighbour_that_leaves_takes_everything_along() -> None:
    branch = Branch()
    branch.add(*ALL, queue("a@b"))
    branch.held.begin_snapshot()
    applied = branch.held.withdraw("goodbye")
    assert set(applied.gone) == {*ALL, queue("a@b")}
    assert (branch.held.count, branch.held.digest, len(branch.table)) == (0, bytes(16), 0)
    assert branch.told[-1][1] == "goodbye"
    assert not branch.held.in_snapshot


def test_a_restart_from_its_rows_is_as_if_nothing_had_happened() -> None:
    branch = Branch(Limits(routes=3))
    rows: dict[Destination, Row] = {}
    said = [
        advice("add", ORDERS),
        advice("dormant", RETURNS),
        advice("add", STORE, reads=2),
        advice("add", PRICES),
    ]
    for kept, declined in branch.say(*said).kept:
        rows[kept.key] = Row(
            str(kept.key.kind),
            kept.key.name,
            "store-1",
            int(kept.live),
            kept.origin,
            kept.cause,
            kept.reads,
            int(declined),
        )
    again = Branch(Limits(routes=3))
    again.held.restore(rows.values())
    assert again.held.digest == branch.held.digest
    assert (again.held.count, list(again.held.declined)) == (4, [PRICES])
    assert list(again.table.routes()) == list(branch.table.routes())
    assert not again.say(*said)
    assert again.say(advice("remove", ORDERS)).kept == [Kept(route(PRICES), False)]
    again.held.set_dormant()
    again.held.set_live()
    assert again.live() == {RETURNS: False, STORE: True, PRICES: True}
