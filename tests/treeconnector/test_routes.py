import random

import pytest

from sapwood.protocol.destinations import Destination, Kind, domain, queue, topic
from sapwood.protocol.errors import RouteError
from treeconnector import routes
from treeconnector.patterns import matches
from treeconnector.relations import Relation
from treeconnector.routes import LOCAL, Route, RoutingTable

ORDERS = queue("orders")


class Watched:
    """A table, and what its watcher was told."""

    def __init__(self) -> None:
        self.table = RoutingTable()
        self.told: list[tuple[Destination, str, str]] = []
        self.table.watch(lambda *change: self.told.append(change))


def test_put_may_be_repeated_and_tells_only_changes() -> None:
    watched = Watched()
    table = watched.table
    assert table.put(Route(ORDERS, "uk", True, "store-1", "c1"))
    assert not table.put(Route(ORDERS, "uk", True, "store-1", "c1"))
    assert table.put(Route(ORDERS, "uk", False, "store-1", "c2"))
    assert table.drop(ORDERS, "uk", "c3", "store-2") == Route(ORDERS, "uk", False, "store-1", "c2")
    assert table.drop(ORDERS, "uk") is None
    assert watched.told == [(ORDERS, "c1", "store-1"), (ORDERS, "c2", "store-1"), (ORDERS, "c3", "store-2")]


def test_operators_are_told_of_their_mistakes() -> None:
    table = RoutingTable()
    assert table.add(Route(ORDERS, "uk")) is True
    assert table.add(Route(ORDERS, "uk", live=False)) is False
    with pytest.raises(RouteError, match="queue:orders through 'uk' is there already"):
        table.add(Route(ORDERS, "uk", live=False))
    with pytest.raises(RouteError, match="no route queue:orders through 'fr': that key goes through uk"):
        table.remove(ORDERS, "fr")
    with pytest.raises(RouteError, match="no route queue:orders through 'fr': expected one to make live"):
        table.set_live(ORDERS, "fr", True)
    assert table.remove(ORDERS, "uk").gateway == "uk"
    with pytest.raises(RouteError, match="that key goes through no gateway"):
        table.remove(ORDERS, "uk")


def test_set_live_says_whether_anything_changed_and_why() -> None:
    watched = Watched()
    watched.table.put(Route(ORDERS, "uk", True, "store-1", "c1"))
    assert watched.table.set_live(ORDERS, "uk", False, "link-down")
    assert not watched.table.set_live(ORDERS, "uk", False, "link-down")
    assert watched.table.set_live(ORDERS, "uk", True)
    assert watched.told[1:] == [(ORDERS, "link-down", "store-1"), (ORDERS, "c1", "store-1")]
    assert watched.table.gateways(ORDERS)["uk"] == Route(ORDERS, "uk", True, "store-1", "c1")


def test_an_unwatched_table_is_silent() -> None:
    told: list[Destination] = []
    table = RoutingTable()

    def watcher(key: Destination, _cause: str, _origin: str) -> None:
        told.append(key)

    table.watch(watcher)
    table.put(Route(ORDERS, "uk"))
    table.unwatch(watcher)
    table.put(Route(ORDERS, "fr"))
    assert told == [ORDERS]


def test_views_by_key_and_by_gateway() -> None:
    table = RoutingTable()
    for gateway in ("uk", "fr", LOCAL):
        table.put(Route(ORDERS, gateway))
    table.put(Route(domain("fr"), "fr", reads=3))
    assert list(table.gateways(ORDERS)) == ["uk", "fr", LOCAL]
    assert table.gateways(queue("x")) == {}
    assert table.routes_of("fr") == {
        ORDERS: Route(ORDERS, "fr"),
        domain("fr"): Route(domain("fr"), "fr", reads=3),
    }
    assert table.routes_of("de") == {}
    assert table.route(ORDERS, "uk") == Route(ORDERS, "uk")
    assert table.route(ORDERS, "de") is None
    assert ORDERS in table
    assert queue("x") not in table
    assert list(table) == [ORDERS, domain("fr")]
    assert len(list(table.routes())) == len(table) == 4
    assert table.counts() == {
        (Kind.QUEUE, "uk"): 1,
        (Kind.QUEUE, "fr"): 1,
        (Kind.QUEUE, LOCAL): 1,
        (Kind.DOMAIN, "fr"): 1,
    }
    assert table.same_key(queue("orders")) is ORDERS
    assert [route.key for route in table.remove_gateway("fr", "goodbye")] == [ORDERS, domain("fr")]
    assert table.remove_gateway("fr") == []
    assert list(table) == [ORDERS]


def test_repr_shows_counts() -> None:
    table = RoutingTable()
    assert repr(table) == "<RoutingTable keys=0 routes=0 gateways=0 parents=none>"
    table.relate("hq", Relation.PARENT)
    table.put(Route(ORDERS, "hq"))
    table.put(Route(ORDERS, LOCAL))
    assert repr(table) == "<RoutingTable keys=1 routes=2 gateways=2 parents=hq>"


def test_a_gateway_changes_sides_only_while_no_route_depends_on_it() -> None:
    table = RoutingTable()
    table.relate("hq", Relation.PARENT)
    table.put(Route(ORDERS, "hq"))
    table.relate("hq", Relation.PARENT)
    with pytest.raises(RouteError, match="'hq' cannot become a child while the table has 1 routes of it"):
        table.relate("hq", Relation.CHILD)
    table.put(Route(ORDERS, "uk"))
    with pytest.raises(RouteError, match="'uk' cannot become a parent while the table has 1 routes"):
        table.relate("uk", Relation.PARENT)
    table.relate("hq-2", Relation.PARENT)
    table.relate("fr", Relation.MESH)
    assert (table.parents, table.mesh, table.apart) == (("hq", "hq-2"), ("fr",), ("hq", "hq-2", "fr"))
    table.remove_gateway("hq")
    table.relate("hq", Relation.CHILD)
    table.relate("fr", Relation.PARENT)
    assert (table.parents, table.mesh, table.apart) == (("fr", "hq-2"), (), ("fr", "hq-2"))


def test_against_a_plain_dictionary() -> None:
    """Random changes; every view, and every match with its cache, agrees with the simplest model."""
    rng = random.Random(11)
    table, model = RoutingTable(cached_topics=3), dict[tuple[Destination, str], Route]()
    patterns = ["a", "a/b", "a/+", "a/#", "#", "#/b", "a/#/b", "$x/#"]
    keys = [*map(topic, patterns), queue("a"), domain("n")]
    topics = ["a", "a/b", "b", "a/c/b", "$x/b", "c"]
    for step in range(3000):
        key, gateway = rng.choice(keys), rng.choice(["uk", "fr", "de", LOCAL])
        match rng.randrange(4):
            case 0 | 1:
                route = Route(key, gateway, rng.random() < 0.5)
                assert table.put(route) == (model.get((key, gateway)) != route)
                model[key, gateway] = route
            case 2:
                assert table.drop(key, gateway) == model.pop((key, gateway), None)
            case _ if (key, gateway) in model:
                live = rng.random() < 0.5
                table.set_live(key, gateway, live)
                model[key, gateway] = model[key, gateway]._replace(live=live)
        own = [route for route in model.values() if route.key == key]
        assert table.gateways(key) == {route.gateway: route for route in own}
        assert table.spread(key) == (len(own), sum(route.live for route in own))
        assert table.routes_of(gateway) == {k: route for (k, g), route in model.items() if g == gateway}
        name = rng.choice(topics)
        found = [(k, g) for k, g in model if k.kind == Kind.TOPIC and matches(k.name, name)]
        matched = table.match(name)
        assert matched.gateways == {g for _, g in found}, step
        assert matched.local == tuple(sorted(k.name for k, g in found if g == LOCAL))
        assert len(table) == len(model)


def test_a_topic_is_looked_up_once_and_forgotten_when_routes_change(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RoutingTable(cached_topics=2)
    looked_up: list[str] = []
    match = RoutingTable._match
    monkeypatch.setattr(
        RoutingTable, "_match", lambda self, name: looked_up.append(name) or match(self, name)
    )
    table.put(Route(topic("a/#"), "uk"))
    for _ in range(3):
        assert table.match("a/b").gateways == {"uk"}
        assert table.match("none").gateways == set()
    table.put(Route(queue("a"), "uk"))
    table.match("a/b")
    assert looked_up == ["a/b", "none"]
    table.put(Route(topic("#"), "fr"))
    assert table.match("a/b").gateways == {"uk", "fr"}
    assert looked_up == ["a/b", "none", "a/b"]
    for index in range(100):
        table.match(f"a/{index}")
    assert len(table._recent) + len(table._earlier) <= 4


def test_of_topics_that_match_very_many_routes_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "CACHED_KEYS", 1000)
    table = RoutingTable()
    for number in range(100):
        table.add(Route(topic(f"{'+/' * number}#"), LOCAL))
    for number in range(200):
        name = f"{'a/' * 120}{number}"
        assert len(table.match(name).keys) == 100
        assert table.match(name) is table.match(name)
    remembered = [*table._recent.values(), *table._earlier.values()]
    assert sum(len(matched.keys) for matched in remembered) <= 2 * 1000
