from sapwood.protocol.destinations import Destination, queue, topic
from treeconnector.interests import NOT_REATTACHED, Interests
from treeconnector.routes import LOCAL, Route, RoutingTable

ORDERS, PRICES, RETURNS = queue("orders"), topic("prices/#"), queue("returns")


class Store:
    """Interests of one node, and what the table said of changes."""

    def __init__(self) -> None:
        self.table = RoutingTable()
        self.told: list[tuple[Destination, str, str]] = []
        self.table.watch(lambda *change: self.told.append(change))
        self.interests = Interests(self.table, "store-1", reattach_time=60.0)


def test_the_first_consumer_puts_the_route_and_the_last_one_removes_it() -> None:
    store = Store()
    interests = store.interests
    assert interests.add(ORDERS, "a", "c1", 1.0) == Route(ORDERS, LOCAL, True, "store-1", "c1")
    assert interests.add(ORDERS, "b", "c2", 2.0) is None
    assert interests.add(ORDERS, "c", "c3", 3.0) is None
    assert [interests.remove(ORDERS, each, f"r-{each}", 4.0) for each in "bac"] == [False, False, True]
    assert store.told == [(ORDERS, "c1", "store-1"), (ORDERS, "r-c", "store-1")]
    assert len(store.table) == 0
    assert interests.changed_at == 4.0


def test_what_is_said_twice_changes_nothing() -> None:
    store = Store()
    interests = store.interests
    assert interests.remove(ORDERS, "a", "r0", 0.0) is False
    assert interests.add(ORDERS, "a", "c1", 0.0) is not None
    assert interests.add(ORDERS, "a", "c2", 0.0) is None
    assert interests.remove(ORDERS, "b", "r1", 0.0) is False
    interests.add(ORDERS, "b", "c3", 0.0)
    assert interests.remove(ORDERS, "x", "r2", 0.0) is False
    assert (interests.consumers(ORDERS), interests.consumers(PRICES)) == (2, 0)
    assert interests.remove(ORDERS, "a", "r3", 0.0) is False
    assert interests.remove(ORDERS, "a", "r4", 0.0) is False
    assert interests.remove(ORDERS, "b", "r5", 0.0) is True
    assert interests.remove(ORDERS, "b", "r6", 0.0) is False


def test_recovering_routes_stand_until_somebody_comes() -> None:
    store = Store()
    interests = store.interests
    interests.recover([ORDERS, PRICES], now=100.0)
    assert repr(interests) == "<Interests of store-1 keys=0 recovering=2>"
    assert set(store.table) == {ORDERS, PRICES}
    store.told.clear()
    assert interests.is_recovering(ORDERS)
    assert ORDERS in interests
    assert RETURNS not in interests
    assert interests.add(ORDERS, "a", "c1", 101.0) is None
    assert not interests.is_recovering(ORDERS)
    assert ORDERS in interests
    assert store.told == []
    assert interests.next_deadline() == 160.0
    assert interests.expire(159.9) == []
    assert interests.expire(160.0) == [PRICES]
    assert store.told == [(PRICES, NOT_REATTACHED, "store-1")]
    assert interests.next_deadline() is None
    assert interests.expire(1000.0) == []
    assert set(store.table) == {ORDERS}


def test_only_what_is_over_expires() -> None:
    store = Store()
    store.interests.recover([ORDERS], now=0.0)
    store.interests.recover([ORDERS, RETURNS], now=30.0)
    assert store.interests.expire(60.0) == [ORDERS]
    assert store.interests.next_deadline() == 90.0
    assert set(store.table) == {RETURNS}


def test_a_consumer_that_came_and_went_ends_the_recovery() -> None:
    store = Store()
    store.interests.recover([ORDERS], now=0.0)
    store.interests.add(ORDERS, "a", "c1", 1.0)
    assert store.interests.remove(ORDERS, "a", "r1", 2.0) is True
    assert len(store.table) == 0
    assert store.interests.expire(60.0) == []
