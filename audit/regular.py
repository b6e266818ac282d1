"""What a regular tree costs, in plain arithmetic: for the growth curve, and to see the laws at a glance.

A regular tree is a root, regions below it, and the same number of stores below each region. The laws are
those of `whatif`, which works them out for any tree; here they are written down a second time, so that each
checks the other.
"""

from typing import Final

SIZES: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SCHEMES: Final = (
    "tree",
    "federation, one way",
    "leaf nodes, isolated",
    "connectors, filtered by hand",
    "connectors, TTL 2",
    "federation, both ways, max-hops 2",
    "connectors, TTL 3",
    "connectors, TTL 4",
    "leaf nodes",
    "full mesh",
)
UNREACHED: Final = ("leaf nodes, isolated",)
"""Of these the root does not learn of a store's consumer."""


def one_consumer(regions: int, a_region: int) -> dict[str, tuple[int, int]]:
    """Advisories when one consumer of a fresh destination comes at a store, and when it goes, by scheme."""
    around = (1, 1 + (a_region - 1), regions - 1, (regions - 1) * a_region, 0)
    others = regions + regions * a_region

    def connectors(ttl: int) -> tuple[int, int]:
        within = sum(around[:ttl])
        return within, 2 * within + around[ttl]

    same = {
        "tree": 2,
        "federation, one way": 2,
        "leaf nodes, isolated": 1,
        "federation, both ways, max-hops 2": sum(around[:2]),
        "leaf nodes": others,
        "full mesh": others,
    }
    found = {scheme: (count, count) for scheme, count in same.items()}
    found["connectors, filtered by hand"] = 2, 4
    found |= {f"connectors, TTL {ttl}": connectors(ttl) for ttl in (2, 3, 4)}
    return {scheme: found[scheme] for scheme in SCHEMES}


def growth(a_region: int, sizes: tuple[int, ...] = SIZES) -> dict[str, list[tuple[int, int]]]:
    """By scheme: (stores, advisories when one consumer comes at each store). Schemes that cost the same are
    one curve."""
    curves: dict[str, list[tuple[int, int]]] = {}
    for stores in sizes:
        costs = one_consumer(-(-stores // a_region), min(stores, a_region))
        each = {
            "this tree": costs["tree"][0],
            "connectors, TTL 2": costs["connectors, TTL 2"][0],
            "connectors, TTL 3": costs["connectors, TTL 3"][0],
            "connectors, TTL 4; leaf nodes; full mesh": stores + -(-stores // a_region),
        }
        for scheme, count in each.items():
            curves.setdefault(scheme, []).append((stores, stores * count))
    return curves
