import pytest

from sapwood.protocol.destinations import Destination, domain, queue, topic
from treeconnector import advertiser
from treeconnector.advertiser import AT_ONCE, Advertiser, Down, Up
from treeconnector.frames import Advice
from treeconnector.offers import digest_of, standing
from treeconnector.relations import Relation
from treeconnector.routes import LOCAL, Route, RoutingTable

ORDERS, PRICES = queue("orders"), topic("prices/#")


class Branch:
    """The table of a branch below 'hq', with what it tells up and down."""

    def __init__(self, linger: float = 0.0, advise: str = "all") -> None:
        self.table = RoutingTable()
        self.table.relate("hq", Relation.PARENT)
        self.up = Advertiser(self.table, Up(), "branch", linger)
        self.down = Advertiser(self.table, Down(advise), "branch", linger)

    def put(
        self, key: Destination, gateway: str, live: bool = True, cause: str = "c", reads: int = 0
    ) -> None:
        origin = "branch" if gateway == LOCAL else f"origin-of-{cause}"
        self.table.put(Route(key, gateway, live, origin, cause, reads))


def said(advices: list[Advice]) -> list[tuple[str, str]]:
    return [(advice.op, str(advice.key)) for advice in advices]


@pytest.mark.parametrize(
    ("gateway", "up", "down"),
    [(LOCAL, True, True), ("store-1", True, False), ("hq", False, True)],
)
def test_what_is_told_to_whom(gateway: str, up: bool, down: bool) -> None:
    branch = Branch()
    branch.put(ORDERS, gateway)
    expected = [("add", "queue:orders")]
    assert said(branch.up.take(0.0)) == expected * up
    assert said(branch.down.take(0.0)) == expected * down
    assert (branch.up.offers(ORDERS), branch.down.offers(ORDERS)) == (up, down)


@pytest.mark.parametrize(
    ("advise", "expected"),
    [("all", ["queue:orders", "topic:prices/#"]), ("topics", ["topic:prices/#"]), ("none", [])],
)
def test_how_much_is_told_down_is_a_choice_and_domains_go_only_up(advise: str, expected: list[str]) -> None:
    branch = Branch(advise=advise)
    for key in (ORDERS, PRICES, domain("branch")):
        branch.put(key, LOCAL)
    assert [key for _, key in said(branch.down.take(0.0))] == expected
    assert len(branch.up.take(0.0)) == 3
    assert (branch.up.count, branch.up.domains) == (3, 1)


def test_one_add_for_the_first_route_and_one_remove_for_the_last() -> None:
    branch = Branch()
    branch.put(ORDERS, "store-1", cause="c1")
    branch.put(ORDERS, "store-2", cause="c2")
    branch.put(ORDERS, "hq", cause="c3")
    assert branch.up.take(0.0) == [Advice("add", "queue", "orders", "origin-of-c1", "c1")]
    branch.table.drop(ORDERS, "store-1", "r1", "store-1")
    assert branch.up.take(0.0) == []
    branch.table.drop(ORDERS, "store-2", "r2", "store-2")
    branch.table.drop(ORDERS, "hq", "r3", "hq")
    assert branch.up.take(0.0) == [Advice("remove", "queue", "orders", "store-2", "r2")]
    assert branch.up.digest == digest_of([])


def test_an_add_is_owed_to_a_route_that_is_still_there() -> None:
    branch = Branch()
    branch.put(ORDERS, "store-1", cause="c1")
    branch.put(ORDERS, "store-2", cause="c2")
    branch.table.drop(ORDERS, "store-1", "r1", "store-1")
    assert branch.up.take(0.0) == [Advice("add", "queue", "orders", "origin-of-c2", "c2")]


def test_what_comes_and_goes_between_two_takes_is_not_told() -> None:
    branch = Branch()
    branch.put(ORDERS, LOCAL)
    branch.table.drop(ORDERS, LOCAL)
    assert branch.up.next_deadline() is None
    assert branch.up.take(0.0) == []
    branch.put(ORDERS, LOCAL)
    branch.up.take(0.0)
    branch.table.drop(ORDERS, LOCAL)
    branch.put(ORDERS, "store-1", cause="c2")
    assert branch.up.next_deadline() is None
    assert branch.up.take(0.0) == []
    branch.put(ORDERS, "store-1", live=False)
    branch.put(ORDERS, "store-1", live=True)
    assert branch.up.take(0.0) == []


def test_a_removal_lingers_and_a_return_in_time_costs_nothing() -> None:
    branch = Branch(linger=10.0)
    branch.put(ORDERS, LOCAL)
    assert branch.up.next_deadline() == AT_ONCE
    assert len(branch.up.take(100.0)) == 1
    branch.table.drop(ORDERS, LOCAL, "r1", "branch")
    assert branch.up.next_deadline() == AT_ONCE
    assert branch.up.take(101.0) == []
    assert branch.up.next_deadline() == 111.0
    assert branch.up.offers(ORDERS)
    assert said(branch.up.snapshot()) == [("add", "queue:orders")]
    branch.put(ORDERS, LOCAL)
    assert branch.up.next_deadline() is None
    branch.table.drop(ORDERS, LOCAL, "r2", "branch")
    assert branch.up.take(105.0) == []
    assert branch.up.take(114.9) == []
    assert branch.up.take(115.0) == [Advice("remove", "queue", "orders", "branch", "r2")]
    assert not branch.up.offers(ORDERS)
    assert branch.up.next_deadline() is None


def test_a_topic_that_is_offered_again_is_told_with_its_removal_to_who_may_have_missed_both() -> None:
    branch = Branch()
    for key in (PRICES, ORDERS, topic("tea")):
        branch.put(key, LOCAL)
    branch.up.take(100.0)
    for at, key in ((200.0, PRICES), (300.0, ORDERS), (400.0, topic("tea"))):
        branch.table.drop(key, LOCAL, "r", "branch")
        assert said(branch.up.take(at)) == [("remove", str(key))]
    assert branch.up.returned(0.0) == []
    branch.put(PRICES, LOCAL)
    branch.put(ORDERS, LOCAL)
    branch.up.take(500.0)
    assert said(branch.up.returned(200.0)) == [("remove", "topic:prices/#"), ("add", "topic:prices/#")]
    assert branch.up.returned(200.1) == []
    branch.table.drop(PRICES, LOCAL, "r", "branch")
    branch.up.take(600.0)
    assert branch.up.returned(0.0) == []


def test_of_very_many_topics_that_came_and_went_the_latest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advertiser, "MOST_RETURNED", 2)
    branch = Branch()
    keys = [topic(name) for name in "abc"]
    for _ in range(2):
        for key in keys:
            branch.put(key, LOCAL)
        branch.up.take(1.0)
        for key in keys:
            branch.table.drop(key, LOCAL, "r", "branch")
        branch.up.take(2.0)
    for key in keys:
        branch.put(key, LOCAL)
    branch.up.take(3.0)
    assert [name for op, name in said(branch.up.returned(0.0)) if op == "add"] == ["topic:b", "topic:c"]


def test_each_key_lingers_for_its_own_time() -> None:
    branch = Branch(linger=10.0)
    for key in (ORDERS, PRICES):
        branch.put(key, LOCAL)
    branch.up.take(0.0)
    branch.table.drop(ORDERS, LOCAL)
    branch.up.take(1.0)
    branch.table.drop(PRICES, LOCAL)
    branch.up.take(5.0)
    assert said(branch.up.take(11.0)) == [("remove", "queue:orders")]
    assert branch.up.next_deadline() == 15.0
    assert said(branch.up.take(15.0)) == [("remove", "topic:prices/#")]


def test_dormant_and_live_are_told_at_once_with_the_cause_of_the_change() -> None:
    branch = Branch(linger=10.0)
    for key in (ORDERS, queue("returns")):
        branch.put(key, "store-1", cause="c1")
        branch.put(key, "hq")
    branch.put(queue("returns"), "store-2", cause="c2")
    branch.up.take(0.0)
    for key in (ORDERS, queue("returns")):
        branch.table.set_live(key, "store-1", False, "link-down")
    assert branch.up.take(0.0) == [Advice("dormant", "queue", "orders", "origin-of-c1", "link-down")]
    assert branch.up.digest == digest_of([(ORDERS, standing(False)), (queue("returns"), standing(True))])
    assert sorted(said(branch.up.snapshot())) == [("add", "queue:returns"), ("dormant", "queue:orders")]
    branch.table.set_live(ORDERS, "store-1", True, "link-up")
    assert branch.up.take(0.0) == [Advice("live", "queue", "orders", "origin-of-c1", "link-up")]


def test_a_key_that_appears_dormant_is_told_as_such() -> None:
    branch = Branch()
    branch.put(ORDERS, "store-1", live=False, cause="c1")
    assert branch.up.take(0.0) == [Advice("dormant", "queue", "orders", "origin-of-c1", "c1")]


def test_down_a_live_parent_outweighs_a_dormant_local_route() -> None:
    branch = Branch()
    branch.put(ORDERS, LOCAL, live=False, cause="c1")
    branch.put(ORDERS, "hq", cause="c2")
    assert branch.down.take(0.0) == [Advice("add", "queue", "orders", "origin-of-c2", "c2")]


def test_a_node_that_reads_more_is_told_again() -> None:
    branch = Branch()
    branch.put(domain("store-1"), "store-1", reads=1)
    assert [advice.reads for advice in branch.up.take(0.0)] == [1]
    branch.put(domain("store-1"), "store-1", reads=2)
    assert [(advice.op, advice.reads) for advice in branch.up.take(0.0)] == [("add", 2)]
    assert branch.up.digest == digest_of([(domain("store-1"), standing(True, 2))])
    assert branch.up.count == 1


def test_what_was_in_the_table_before_counts_as_told() -> None:
    table = RoutingTable()
    table.relate("hq", Relation.PARENT)
    table.put(Route(ORDERS, LOCAL))
    table.put(Route(PRICES, "hq"))
    up = Advertiser(table, Up(), "branch")
    assert up.take(0.0) == []
    assert up.digest == digest_of([(ORDERS, standing(True))])
    assert said(up.snapshot()) == [("add", "queue:orders")]


def test_a_snapshot_is_what_was_told_and_says_resync() -> None:
    branch = Branch()
    branch.put(ORDERS, LOCAL, cause="c1")
    branch.up.take(0.0)
    branch.put(PRICES, LOCAL, cause="c2")
    assert branch.up.snapshot() == [Advice("add", "queue", "orders", "branch", "resync")]
    assert said(branch.up.take(0.0)) == [("add", "topic:prices/#")]


def test_a_closed_advertiser_hears_nothing_more() -> None:
    branch = Branch()
    branch.up.close()
    branch.put(ORDERS, LOCAL)
    assert branch.up.next_deadline() is None
    assert branch.down.next_deadline() == AT_ONCE


def test_repr_shows_counts() -> None:
    branch = Branch(linger=1.0)
    branch.put(ORDERS, LOCAL)
    branch.up.take(0.0)
    branch.table.drop(ORDERS, LOCAL)
    branch.put(PRICES, LOCAL)
    assert repr(branch.up) == "<Advertiser up offered=1 changed=1 leaving=1>"
    assert repr(branch.down) == "<Advertiser down offered=0 changed=1 leaving=0>"
