from itertools import pairwise
from typing import Any

import pytest

from sapwood.protocol.destinations import Destination, Kind, parse, queue
from sapwood.protocol.errors import InvalidName, RouteError
from treeconnector.routes import Route, RoutingTable
from treeconnector.static_routes import (
    MOST_IN_A_ROW,
    StaticKind,
    StaticRoute,
    StaticRoutes,
    chosen_default,
    static_route,
)

EXACT = static_route("exact", "till@york", "north")
ALIAS = static_route("alias", "till", "queue:checkout@york")
DEFAULT = static_route("default", "", "south")
DUMPSTER = static_route("dumpster", "", "lost")
ALL = (EXACT, ALIAS, DEFAULT, DUMPSTER)


def filled(*routes: StaticRoute) -> StaticRoutes:
    made = StaticRoutes()
    for route in routes:
        made.add(route)
    return made


def test_routes_are_read_from_words() -> None:
    assert StaticRoute(StaticKind.EXACT, queue("till", "york"), "north") == EXACT
    assert StaticRoute(StaticKind.ALIAS, queue("till"), "queue:checkout@york") == ALIAS
    assert DUMPSTER.to == static_route("dumpster", "", "queue:lost@local").to == "lost"
    assert str(EXACT) == "exact queue:till@york -> north"
    assert str(DEFAULT) == "default -> south"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("queue", "till", "north"), "'queue' routes are not set by hand: expected exact, alias"),
        (("default", "till", "north"), "a default route has no destination, but 'till'"),
        (("exact", "topic:prices", "north"), "'topic:prices' is a topic: expected a queue"),
        (("exact", "", "north"), "'' is no queue name"),
        (("exact", "till", "not a node"), "'not a node' is no node name"),
        (("alias", "till@", "checkout"), "'' is no node name"),
        (("dumpster", "", "lost@york"), "'lost@york' is no queue name"),
        (("default", "", "local"), "cannot be named 'local'"),
    ],
)
def test_what_is_no_route_is_said(words: tuple[str, str, str], text: str) -> None:
    with pytest.raises((RouteError, InvalidName), match=text):
        static_route(*words)


@pytest.mark.parametrize("text", ["queue:till", "queue:till@local"])
def test_a_cell_and_the_cell_at_local_are_one(text: str) -> None:
    assert parse(text) == queue("till")


def test_each_kind_comes_and_goes() -> None:
    routes = filled(*ALL)
    assert list(routes) == list(ALL)
    assert len(routes) == 4
    assert repr(routes) == "<StaticRoutes exact=1 aliases=1 defaults=1 dumpster=lost>"
    for route in ALL:
        assert route in routes
        routes.remove(route)
        assert route not in routes
    assert len(routes) == 0


@pytest.mark.parametrize("route", ALL)
def test_adding_twice_and_removing_what_is_not_there_are_errors(route: StaticRoute) -> None:
    routes = filled(route)
    with pytest.raises(RouteError, match="is there already"):
        routes.add(route)
    routes.remove(route)
    with pytest.raises(RouteError, match=f"there is no route {route}: of that kind there is none"):
        routes.remove(route)


def test_an_address_has_one_alias_and_a_node_one_dumpster() -> None:
    routes = filled(ALIAS, DUMPSTER)
    with pytest.raises(RouteError, match="queue:till is an alias of queue:checkout@york already"):
        routes.add(static_route("alias", "till", "other"))
    with pytest.raises(RouteError, match="the dumpster is 'lost' already"):
        routes.add(static_route("dumpster", "", "other"))


@pytest.mark.parametrize("names", ["aa", "aba", "abca"])
def test_aliases_never_lead_in_a_circle(names: str) -> None:
    *steps, last = [static_route("alias", one, other) for one, other in pairwise(names)]
    with pytest.raises(RouteError, match=r"in a circle: queue:\w -> "):
        filled(*steps).add(last)


def test_the_number_of_routes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treeconnector.static_routes.MOST", 1)
    with pytest.raises(RouteError, match="there are 1 static routes: remove some first"):
        filled(EXACT, ALIAS)


def test_removing_a_gateway_removes_its_routes_and_returns_them() -> None:
    table = RoutingTable()
    known = Route(queue("till"), "north")
    table.put(known)
    for words in (("exact", "a", "north"), ("exact", "a", "south"), ("default", "", "north")):
        table.static.add(static_route(*words))
    table.static.add(static_route("alias", "b", "north"))
    gone = table.remove_gateway("north")
    assert gone == [known, static_route("exact", "a", "north"), static_route("default", "", "north")]
    assert list(table.static) == [static_route("exact", "a", "south"), static_route("alias", "b", "north")]
    assert (table.static.uses("south"), table.static.uses("north")) == (True, False)


def test_of_several_defaults_the_destination_chooses_and_only_what_was_lost_moves() -> None:
    names = ["a", "b", "c"]
    keys = [Destination(Kind.QUEUE, f"q{number}") for number in range(300)]
    before = {key: chosen_default(key, names) for key in keys}
    assert before == {key: chosen_default(key, reversed(names)) for key in keys}
    assert {name: 60 < list(before.values()).count(name) < 140 for name in names} == dict.fromkeys(
        names, True
    )
    after = {key: chosen_default(key, ["a", "c"]) for key in keys}
    assert {before[key] for key in keys if before[key] != after[key]} == {"b"}


def test_what_is_no_static_route_is_not_there() -> None:
    strange: Any = "exact"
    assert strange not in filled(EXACT)
    assert StaticRoute(StaticKind.EXACT, None, "north") not in filled(EXACT)
    with pytest.raises(RouteError, match="is no route: exact and alias have a destination"):
        filled(StaticRoute(StaticKind.EXACT, None, "north"))


def test_a_new_alias_leads_over_so_many_others_and_those_that_were_set_before_stay() -> None:
    """Else 10,000 aliases, each before the next, would take hours to set."""
    chain = [
        static_route("alias", f"q{number + 1}", f"queue:q{number}") for number in range(MOST_IN_A_ROW + 2)
    ]
    made = filled(*chain[:-1])
    with pytest.raises(
        RouteError, match=f"queue:q{MOST_IN_A_ROW + 2} leads over {MOST_IN_A_ROW} other aliases"
    ):
        made.add(chain[-1])
    made.add(chain[-1], known=True)
    assert len(made.copy()) == len(chain)
