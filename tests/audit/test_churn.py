"""The comings and goings of a small chain under each network, worked out by hand."""

import pytest
from audit_tables import sites, tree_of
from pyarrow import Table

from audit import churn, whatif

STORES = [f"{region}{number}" for region in "ab" for number in range(10)]
CHAIN = tree_of(
    sites("hq - root", "a hq branch", "b hq branch", *(f"{store} {store[0]} leaf" for store in STORES))
)
COSTS = whatif.per_consumer(CHAIN, range(1, 5))
COUNTED = {"advisories": 10, "spilled": 1, "bytes": 400}


def compared(*consumers: tuple[str, str, int, int]) -> dict[str, tuple[int, int]]:
    names = ("node", "destination", "came", "went")
    rows = [dict(zip(names, consumer, strict=True)) | {"kind": "topic"} for consumer in consumers]
    found = churn.same_churn(CHAIN, Table.from_pylist(rows), COSTS, COUNTED).to_pylist()
    return {row["scheme"]: (row["advisories"], row["spilled"]) for row in found}


@pytest.mark.parametrize(
    ("scheme", "advisories", "spilled"),
    [
        ("tree", 10, 1),  # as counted
        ("federation, one way", 3 * 2 + 2 * 2, 0),
        ("connectors, filtered by hand", 3 * 2 + 2 * 4, 0),
        ("connectors, TTL 2", 3 * 11 + 2 * (2 * 11 + 1), 3 * 9 + 2 * (2 * 9 + 1)),
        ("leaf nodes", (3 + 2) * 22, (3 + 2) * 20),
        ("full mesh", (3 + 2) * 22, (3 + 2) * 20),
    ],
)
def test_one_consumer_that_comes_three_times_and_goes_twice(
    scheme: str, advisories: int, spilled: int
) -> None:
    assert compared(("a0", "x", 3, 2))[scheme] == (advisories, spilled)


def test_a_second_reader_is_no_spill_where_it_is_told_again() -> None:
    """Connectors tell those above once more, who can use it; nobody beside them hears."""
    found = compared(("a1", "y", 1, 0), ("b1", "y", 3, 0))
    assert found["connectors, filtered by hand"] == (2 * 2 * 2, 0)
    assert found["connectors, TTL 2"] == (2 * 2 * 11, 2 * 2 * 9)


def test_bytes_are_of_what_was_measured_of_each() -> None:
    """A topic that comes three times and goes twice: a connector's frames, and those of leaf nodes."""
    row = {"node": "a0", "kind": "topic", "destination": "x", "came": 3, "went": 2}
    rows = churn.same_churn(CHAIN, Table.from_pylist([row]), COSTS, COUNTED).to_pylist()
    found = {row["scheme"]: row["bytes"] for row in rows}
    assert found["connectors, TTL 2"] == 3 * 11 * 500 + 2 * 23 * 285
    assert found["leaf nodes"] == 3 * 22 * 39 + 2 * 22 * 21
    assert found["federation, one way"] is None
    assert found["tree"] == COUNTED["bytes"]


def test_a_plan_is_compared_by_what_comes() -> None:
    rows = [
        {"scheme": "tree", "added": 2, "bytes_added": 80.0, "root_knows": True},
        {"scheme": "leaf nodes", "added": 22, "bytes_added": 858.0, "root_knows": True},
    ]
    found = {row["scheme"]: (row["advisories"], row["spilled"]) for row in churn.when_all_come(rows)}
    assert found == {"tree": (2, 0), "leaf nodes": (22, 20)}
    assert churn.when_all_come([]) == []
