"""The look-up against a brute-force oracle that reads DESIGN.md's order as it stands there."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from broker.core.lookup import Lookup, LookupResult
from broker.core.node import NodeCore
from sapwood.protocol.destinations import Destination, Kind, domain, queue
from sapwood.protocol.errors import RouteError
from simulation.forest import Forest
from treeconnector.relations import Relation
from treeconnector.routes import LOCAL, Route
from treeconnector.static_routes import StaticKind, StaticRoute, chosen_default

ME, PARENT, CHILDREN = "me", "hq", ("north", "south", "west")
NEIGHBOURS = (PARENT, *CHILDREN)
BELOW = ("york", "bath")
NAMES = ("a", "b", "c")
ADDRESSES = [queue(name, node) for name in NAMES for node in ("", ME, PARENT, "north", *BELOW, "nobody")]
TEXTS = list(map(str, ADDRESSES))
FREE = [address for address in ADDRESSES if address.node != ME]


class State(NamedTuple):
    """One node's whole knowledge. `up`: neighbours; `learned`: (key, gateway, live)."""

    has_parent: bool
    up: frozenset[str]
    local: frozenset[str]
    learned: frozenset[tuple[Destination, str, bool]]
    static: tuple[StaticRoute, ...]
    zone: str
    zones: dict[str, str]


def learned() -> Any:
    keys = st.sampled_from([*map(queue, NAMES), *map(domain, (*BELOW, "north"))])
    return st.frozensets(st.tuples(keys, st.sampled_from(CHILDREN), st.booleans()), max_size=8)


def static() -> Any:
    exact = st.builds(
        StaticRoute, st.just(StaticKind.EXACT), st.sampled_from(FREE), st.sampled_from(NEIGHBOURS)
    )
    alias = st.builds(
        StaticRoute, st.just(StaticKind.ALIAS), st.sampled_from(ADDRESSES), st.sampled_from(TEXTS)
    )
    default = st.builds(StaticRoute, st.just(StaticKind.DEFAULT), st.none(), st.sampled_from(CHILDREN))
    dumpster = st.builds(StaticRoute, st.just(StaticKind.DUMPSTER), st.none(), st.just("lost"))
    return st.lists(st.one_of(exact, alias, default, dumpster), max_size=8).map(tuple)


STATES = st.builds(
    State,
    st.booleans(),
    st.frozensets(st.sampled_from(NEIGHBOURS)),
    st.frozensets(st.sampled_from(NAMES), max_size=1),
    learned(),
    static(),
    st.sampled_from(("", "uk")),
    st.fixed_dictionaries({name: st.sampled_from(("", "uk", "fr")) for name in NEIGHBOURS}),
)


def core_in(state: State) -> tuple[NodeCore, list[StaticRoute]]:
    """A real core that knows all that, and the static routes that it took."""
    core = Forest().add(ME).core
    for name in NEIGHBOURS[not state.has_parent :]:
        neighbour = core.neighbourhood.add(name, Relation.PARENT if name == PARENT else Relation.CHILD)
        neighbour.link = core.link_maker.accept() if name in state.up else None
        neighbour.detail.zone = state.zones[name]
    core.lookup.zone = state.zone
    for name in state.local:
        core.table.put(Route(queue(name), LOCAL))
    for key, gateway, live in state.learned:
        core.table.put(Route(key, gateway, live))
    took = []
    for route in state.static:
        if route.to in core.neighbours or route.kind in (StaticKind.ALIAS, StaticKind.DUMPSTER):
            try:
                core.table.static.add(route)
            except RouteError:
                continue
            took.append(route)
    return core, took


class Oracle:
    """Goes through everything, in the order of the law."""

    def __init__(self, state: State, took: list[StaticRoute]) -> None:
        self.state, self.took = state, took
        self.rows: dict[tuple[Destination, str], bool] = {}
        for key, gateway, live in state.learned:
            self.rows[key, gateway] = live
        self.neighbours = NEIGHBOURS[not state.has_parent :]

    def look_up(self, address: Destination) -> LookupResult:
        for _ in range(len(self.took) + 2):
            if address.node in ("", ME) and address.name in self.state.local:
                return LookupResult(address, "local", ())
            exact = [each.to for each in self.took if each[:2] == (StaticKind.EXACT, address)]
            if exact:
                return LookupResult(address, "exact", self.up_first(exact))
            alias = [each.to for each in self.took if each[:2] == (StaticKind.ALIAS, address)]
            if not alias:
                break
            name, _, node = alias[0].removeprefix("queue:").partition("@")
            address = queue(name, node)
        if address.node == ME:
            return LookupResult(address, "local", ())
        return self.beyond(address)

    def beyond(self, address: Destination) -> LookupResult:
        kind = "domain" if address.node else "queue"
        key = domain(address.node) if address.node else address
        if address.node in CHILDREN and address.node in self.state.up:
            return LookupResult(address, kind, (address.node,))
        routes = [(name, live) for (known, name), live in self.rows.items() if known == key]
        live = [name for name, is_live in routes if is_live]
        if live and address.node:
            return LookupResult(
                address, kind, (([name for name in live if name in self.state.up] or live)[0],)
            )
        if live:
            return LookupResult(address, kind, self.nearest(live))
        if routes:
            return LookupResult(address, kind, tuple(sorted(name for name, _ in routes)))
        defaults = {each.to for each in self.took if each.kind is StaticKind.DEFAULT}
        defaults |= {PARENT} if self.state.has_parent else set()
        if defaults:
            preferred = self.nearest(self.up_first(list(defaults)))
            return LookupResult(address, "default", (chosen_default(address, preferred),))
        dumpster = any(each.kind is StaticKind.DUMPSTER for each in self.took)
        return LookupResult(address, "dumpster" if dumpster else "none", ())

    def up_first(self, names: list[str]) -> tuple[str, ...]:
        return tuple(sorted([name for name in names if name in self.state.up] or names))

    def nearest(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the own zone that are up, if there are any; else all."""
        up = self.state.up
        near = [name for name in names if name in up and self.state.zones[name] == self.state.zone]
        return tuple(sorted(near if self.state.zone and near else names))


@given(STATES)
def test_every_address_goes_where_the_law_says(state: State) -> None:
    core, took = core_in(state)
    oracle = Oracle(state, took)
    for address in ADDRESSES:
        assert core.lookup.way(address) == oracle.look_up(address), (address, took)


@given(STATES)
def test_a_look_up_for_people_leaves_nothing_behind(state: State) -> None:
    core, _ = core_in(state)
    before = set(core.custody.queues)
    for address in ADDRESSES:
        core.lookup.way(address)
    assert set(core.custody.queues) == before


@given(STATES, st.sampled_from(NEIGHBOURS))
def test_removing_a_gateway_leaves_no_route_of_it(state: State, name: str) -> None:
    core, took = core_in(state)
    gone = core.table.remove_gateway(name)
    static_gone = [each for each in gone if isinstance(each, StaticRoute)]
    through = (StaticKind.EXACT, StaticKind.DEFAULT)
    assert sorted(map(str, static_gone)) == sorted(
        str(each) for each in took if each.kind in through and each.to == name
    )
    assert not core.table.routes_of(name)
    assert not core.table.static.uses(name)


def test_the_kinds_of_a_destination_are_queues_for_the_dumpster() -> None:
    core = Forest().add(ME).core
    lookup: Lookup = core.lookup
    topic_place = core.custody.queue_for(Destination(Kind.TOPIC, "prices", "york"))
    assert not lookup.is_unroutable(topic_place)
    assert lookup.is_unroutable(core.custody.queue_for(queue("a")))
    assert not lookup.is_unroutable(core.custody.queue_for(queue("a", ME)))
