"""What-if against every row counted on real brokers and in the simulation, and against counting hop by hop
on an irregular tree."""

from collections import deque
from typing import Any

import pytest
from audit_tables import regular_sites, rows, sites, table, tree_of
from pyarrow import Table

from audit import population, regular, whatif
from audit.comparison import beside_the_laws, counted
from audit.deployment import Tree

Costs = dict[tuple[str, str], tuple[int, int]]

IRREGULAR = sites(
    "top - root",
    "a top branch",
    "b top branch",
    "c top leaf",
    "d top branch",
    "aa a branch",
    "ab a leaf",
    "ac a leaf",
    "aaa aa leaf",
    "aab aa branch",
    "aaba aab leaf",
    "aabb aab leaf",
    "aabc aab branch",
    "aabca aabc leaf",
    "ba b leaf",
    "bb b branch",
    "bba bb leaf",
)


@pytest.fixture(scope="module")
def regular_costs() -> dict[tuple[int, int], Costs]:
    """By (branches, leaves a branch): what one consumer costs, by place that stands for its like and
    scheme."""
    shapes = {(row["branches"], row["leaves_a_branch"]) for row in counted()}
    made = {}
    for branches, leaves in sorted(shapes):
        tree = tree_of(regular_sites(branches, leaves))
        assert len(tree.places) == 1 + branches + branches * leaves
        made[branches, leaves] = costs_of(whatif.per_consumer(tree))
    return made


@pytest.fixture(scope="module")
def tree() -> Tree:
    return tree_of(IRREGULAR)


@pytest.fixture(scope="module")
def per_consumer(tree: Tree) -> Table:
    return whatif.per_consumer(tree, range(1, 8), (2, 3))


def costs_of(per_consumer: Table) -> Costs:
    return {(row.sight, row.scheme): (row.added, row.closed) for row in rows(per_consumer)}


def neighbours() -> dict[str, set[str]]:
    near: dict[str, set[str]] = {name: set() for name, *_ in IRREGULAR}
    for name, parent, *_ in IRREGULAR:
        if parent:
            near[name].add(parent)
            near[parent].add(name)
    return near


def distances(start: str) -> dict[str, int]:
    near, found, queue = neighbours(), {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for name in near[here] - found.keys():
            found[name] = found[here] + 1
            queue.append(name)
    return found


def above(name: str) -> list[str]:
    parents = {row[0]: row[1] for row in IRREGULAR}
    way = []
    while parent := parents[name]:
        way.append(parent)
        name = parent
    return way


@pytest.mark.parametrize("row", counted(), ids=lambda row: f"{row['scheme']} of {row['brokers']}")
def test_the_laws_give_every_row_that_was_counted(
    row: dict[str, int | str], regular_costs: dict[tuple[int, int], Costs]
) -> None:
    shape = (row["branches"], row["leaves_a_branch"])
    first_leaf = min(name for name, scheme in regular_costs[shape] if "leaf" in name)  # type: ignore[index]
    added, closed = regular_costs[shape][first_leaf, row["scheme"]]  # type: ignore[index]
    assert (added * row["consumers"], closed * row["consumers"]) == (row["added"], row["closed"])  # type: ignore[operator]
    assert added * row["consumers"] == row["held"]  # type: ignore[operator]


def test_hops_are_those_that_one_counts_by_walking(tree: Tree, per_consumer: Table) -> None:
    costs = costs_of(per_consumer)
    for name in {name for name, _ in costs}:
        hops = list(distances(name).values())
        for ttl in range(1, 8):
            added = sum(1 for hop in hops if 1 <= hop <= ttl)
            closed = 2 * added + hops.count(ttl + 1)
            assert costs[name, f"connectors, TTL {ttl}"] == (added, closed), name


def test_a_leaf_stands_for_its_sibling_leaves_only(tree: Tree) -> None:
    places = {row.number: row.place for row in rows(tree.places)}
    sights = {places[row.number]: places[row.seen] for row in rows(whatif.sights(tree))}
    assert {name for name, sight in sights.items() if name != sight} == {
        "ac",
        "aabb",
        "d",
    }  # d: a branch that nobody has joined yet
    assert sights["ac"] == "ab"
    assert sights["aabb"] == "aaba"


def test_siblings_that_are_seen_alike_are_told_by_the_role_that_each_has() -> None:
    """One of them stands for all in the laws, not in the table."""
    tree = tree_of(sites("hq - root", "till hq leaf", "york hq depot", "bath hq depot"))
    found = {
        (row.role, row.nodes)
        for row in rows(whatif.by_role(whatif.per_consumer(tree), tree))
        if row.scheme == "tree"
    }
    assert found == {("root", 1), ("leaf", 1), ("depot", 2)}


def test_what_is_not_told_below_is_told_above_and_in_the_mesh() -> None:
    """A region of two below a root of two, and a store: each of the region tells both, and its twin."""
    meshed = [("hq-1", None, "root", "hq"), ("hq-2", None, "root", "hq")]
    meshed += [
        ("uk-1", "hq-1", "branch", "uk"),
        ("uk-2", "hq-1", "branch", "uk"),
        ("york", "uk-1", "leaf", None),
    ]
    tree = tree_of(meshed)
    costs = costs_of(whatif.per_consumer(tree))
    assert {place: costs[place, "tree, advise_down: none"][0] for place in ("hq-1", "uk-1", "york")} == {
        "hq-1": 1,
        "uk-1": 2 + 1,
        "york": 2 + 4,
    }
    assert {place: costs[place, "tree"][0] for place in ("hq-1", "uk-1", "york")} == {
        "hq-1": 1 + 2 + 2,
        "uk-1": 2 + 1 + 1,
        "york": 2 + 4,
    }


SIZES = {("queue", "add"): 50.0, ("queue", "remove"): 30.0}
READERS = {
    "own-of-a-leaf": ["aaba"],
    "own-of-a-branch": ["aa"],
    "own-of-the-root": ["top"],
    "two-leaves": ["aaa", "bba"],
    "siblings": ["aaba", "aabb"],
    "branch-and-below": ["a", "aabc", "aabca"],
    "two-branches": ["aab", "b"],
    "root-and-leaf": ["top", "ba"],
    "everybody": [name for name, *_ in IRREGULAR],
}


def tree_by_hand(readers: list[str]) -> int:
    """Each node but the root tells its parent if anybody at or below it reads; a parent tells what is read
    above."""
    total = 0
    for name, parent, *_ in IRREGULAR:
        if parent:
            total += any(reader == name or name in above(reader) for reader in readers)
            total += any(ancestor in readers for ancestor in above(name))
    return total


def leaf_nodes_by_hand(readers: list[str]) -> int:
    """Each line carries interest in each direction in which somebody stands behind it."""
    total = 0
    for name, parent, *_ in IRREGULAR:
        if parent:
            inside = {reader for reader in readers if reader == name or name in above(reader)}
            total += bool(inside) + bool(set(readers) - inside)
    return total


def test_a_population_costs_what_one_counts_line_by_line(tree: Tree, per_consumer: Table) -> None:
    read = [(reader, "queue", name) for name, readers in READERS.items() for reader in readers]
    wanted = population.interests(tree, table(("node", "kind", "destination"), read))
    found = {row.scheme: row for row in rows(population.cost(tree, wanted, per_consumer, SIZES))}
    assert found["tree"].added == found["tree"].closed == sum(map(tree_by_hand, READERS.values()))
    assert found["tree"].bytes_added == found["tree"].added * 50.0
    assert found["tree"].bytes_closed == found["tree"].closed * 30.0
    near = {name: sum(hop == 1 for hop in distances(name).values()) for name, *_ in IRREGULAR}
    first = sum(sum(near[one] for one in readers) / len(readers) for readers in READERS.values())
    one_hop = found["connectors, TTL 1"]
    assert one_hop.again == one_hop.added - round(first)
    assert one_hop.bytes_again == one_hop.again * 473.0
    assert one_hop.bytes_added == round(first) * 564.0 + one_hop.bytes_again
    assert one_hop.bytes_closed == one_hop.closed * 285.0
    assert found["leaf nodes"].bytes_closed == found["leaf nodes"].closed * 21.0
    assert found["federation, one way"].bytes_added is None, "nobody has measured it"
    filtered = found["connectors, filtered by hand"]
    one_way = sum(len(above(one)) for readers in READERS.values() for one in readers)
    assert (filtered.added, filtered.closed, filtered.root_knows) == (one_way, 2 * one_way, True)
    assert found["leaf nodes"].added == sum(map(leaf_nodes_by_hand, READERS.values()))
    ups = sum(
        len({*readers, *(up for one in readers for up in above(one))} - {"top"})
        for readers in READERS.values()
    )
    assert found["federation, one way"].added == ups
    assert found["tree, advise_down: none"].added == found["tree, advise_down: none"].closed == ups
    assert found["tree, advise_down: none"].crossed == found["tree"].crossed
    for ttl in (1, 2, 3, 7):
        hops = [hop for readers in READERS.values() for one in readers for hop in distances(one).values()]
        added = sum(1 for hop in hops if 1 <= hop <= ttl)
        row = found[f"connectors, TTL {ttl}"]
        assert (row.added, row.closed) == (added, 2 * added + hops.count(ttl + 1))
    assert found["full mesh"].added == len(read) * (len(IRREGULAR) - 1)
    assert found["static bridges"].added == 0
    assert found["static bridges"].crossed == len(READERS) * (len(IRREGULAR) - 1)
    assert {found[name].crossed for name in ("tree", "leaf nodes", "full mesh")} == {ups}
    assert found["connectors, TTL 1"].crossed is None


@pytest.mark.parametrize("shared", [False, True])
def test_topics_alone_are_told_down_where_the_operator_says_so(
    tree: Tree, per_consumer: Table, shared: bool
) -> None:
    """Each kind costs what it costs by itself, in advisories and in bytes of its own."""
    readers = ["a", "aabc", "aabca", "b"] if shared else ["aab"]

    def found(*kinds: str) -> dict[str, Any]:
        read = [(reader, kind, kind) for kind in kinds for reader in readers]
        wanted = population.interests(tree, table(("node", "kind", "destination"), read))
        sizes = {("queue", "add"): 10.0, ("topic", "add"): 1000.0, ("topic", "remove"): 7.0}
        return {row.scheme: row for row in rows(population.cost(tree, wanted, per_consumer, sizes))}

    queue, topic, both = found("queue"), found("topic"), found("queue", "topic")
    all_down, up = tree_by_hand(readers), both["tree, advise_down: none"].added // 2
    assert queue["tree"].added == topic["tree"].added == all_down > up
    assert queue["tree, advise_down: topics"].added == up
    assert topic["tree, advise_down: topics"].added == all_down
    mixed = both["tree, advise_down: topics"]
    assert mixed.added == mixed.closed == up + all_down
    assert mixed.bytes_added == 10 * up + 1000 * all_down
    assert mixed.bytes_topics == 1000 * all_down
    connectors = both["connectors, TTL 1"]
    first = queue["connectors, TTL 1"].added - queue["connectors, TTL 1"].again
    assert connectors.bytes_topics == 500 * topic["connectors, TTL 1"].added, "a further one as the first"
    queues = 564 * first + 473 * queue["connectors, TTL 1"].again
    assert connectors.bytes_added == connectors.bytes_topics + queues
    assert mixed.bytes_closed == 40 * up + 7 * all_down, "of a queue that goes nothing was measured"


def test_a_further_consumer_is_counted_apart_where_it_is_told(tree: Tree, per_consumer: Table) -> None:
    """Of two siblings the second is news to nobody above them in this tree, and to all again elsewhere."""
    for readers in (["aaba"], ["aaba", "aabb"]):
        read = [(reader, "queue", "offers") for reader in readers]
        wanted = population.interests(tree, table(("node", "kind", "destination"), read))
        found = {row.scheme: row for row in rows(population.cost(tree, wanted, per_consumer, SIZES))}
        further = {
            name: found[name].again for name in ("tree", "connectors, TTL 2", "full mesh", "leaf nodes")
        }
        if len(readers) == 1:
            assert set(further.values()) == {0}
    alone = tree_by_hand(["aaba"])
    assert further["tree"] == tree_by_hand(readers) - alone
    assert further["leaf nodes"] == leaf_nodes_by_hand(readers) - (len(IRREGULAR) - 1)
    assert further["full mesh"] == len(IRREGULAR) - 1
    assert further["connectors, TTL 2"] == sum(1 <= hop <= 2 for hop in distances("aabb").values())


def test_the_hand_filtered_connector_costs_the_same_however_many_stores_there_are() -> None:
    for stores in (2, 40):
        costs = costs_of(whatif.per_consumer(tree_of(regular_sites(3, stores))))
        assert costs["branch-0-leaf-0", "connectors, filtered by hand"] == (2, 4)


def test_who_does_not_reach_the_root_is_said(tree: Tree, per_consumer: Table) -> None:
    wanted = population.interests_by_role(
        tree, [("leaf", "own", 2, "queue"), ("branch", "offers", 1, "queue")]
    )
    found = {row.scheme: row.root_knows for row in rows(population.cost(tree, wanted, per_consumer))}
    assert {scheme for scheme, knows in found.items() if knows is False} == {
        "connectors, TTL 1",
        "connectors, TTL 2",
        "connectors, TTL 3",
        "connectors, TTL 4",
        "leaf nodes, isolated",
        "federation, both ways, max-hops 2",
        "federation, both ways, max-hops 3",
    }
    assert found["static bridges"] is None


def test_rules_by_role_are_the_same_as_naming_everybody(tree: Tree, per_consumer: Table) -> None:
    leaves = [name for name, _, role, *_ in IRREGULAR if role == "leaf"]
    named = [(leaf, "queue", f"{leaf}-{number}") for leaf in leaves for number in range(3)]
    named += [(leaf, "topic", f"offers-{number}") for leaf in leaves for number in range(2)]
    explicit = population.interests(tree, table(("node", "kind", "destination"), named))
    ruled = population.interests_by_role(tree, [("leaf", "own", 3, "queue"), ("leaf", "offers", 2, "topic")])
    first, second = (rows(population.cost(tree, one, per_consumer)) for one in (explicit, ruled))
    assert first == second


def test_the_arithmetic_of_a_regular_tree_is_the_what_if_of_its_table(
    regular_costs: dict[tuple[int, int], Costs],
) -> None:
    """Also for 1,000 stores in one region and 2,200 in 25, which the report shows."""
    assert {(1, 1000), (25, 88)} < set(regular_costs)
    for shape, costs in regular_costs.items():
        leaf = min(name for name, _ in costs if "leaf" in name)
        found = regular.one_consumer(*shape)
        assert found == {scheme: costs[leaf, scheme] for scheme in found}, shape


def test_the_report_sets_the_law_beside_every_count() -> None:
    rows = beside_the_laws()
    assert {row["how"] for row in rows} == {"simulated", "measured"}
    assert [(row["added"], row["closed"]) for row in rows] == [
        (row["law_added"], row["law_closed"]) for row in rows
    ]


def test_the_growth_curve_goes_through_the_law() -> None:
    curves = regular.growth(10, (40,))
    assert curves == {
        "this tree": [(40, 80)],
        "connectors, TTL 2": [(40, 440)],
        "connectors, TTL 3": [(40, 560)],
        "connectors, TTL 4; leaf nodes; full mesh": [(40, 1760)],
    }


def kept(*tables: Table) -> int:
    """Bytes that these take together; what several columns share counts once."""
    chunks = (chunk for each in tables for column in each.columns for chunk in column.chunks)
    buffers = {buffer.address: buffer.size for chunk in chunks for buffer in chunk.buffers() if buffer}
    return sum(buffers.values())


def test_a_hundred_thousand_stores_are_a_few_joins() -> None:
    """A million take the same joins; `benchmarks.what_if` runs them."""
    regions, a_region = 100, 1000
    above = sites("root - root", *(f"region-{n} root branch" for n in range(regions)))
    tree = tree_of(
        above + [(f"store-{n}", f"region-{n % regions}", "leaf", None) for n in range(regions * a_region)]
    )
    wanted = population.interests_by_role(tree, [("leaf", "own", 25, "queue")])
    costs = whatif.per_consumer(tree)
    found = {row.scheme: (row.added, row.closed) for row in rows(population.cost(tree, wanted, costs))}
    assert kept(tree.nodes, tree.places, tree.ancestors, wanted) < 100 * regions * a_region
    consumers = 25 * regions * a_region
    for scheme, (added, closed) in regular.one_consumer(regions, a_region).items():
        assert found[scheme] == (consumers * added, consumers * closed), scheme
