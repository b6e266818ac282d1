"""What a regular tree costs, in plain arithmetic: for the growth curve, and to see the laws at a glance.

A regular tree is a root, regions below it, and the same number of stores below each region.
"""

from typing import Final

SIZES: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def for_a_store(stores: int, a_region: int) -> dict[str, int]:
    """Advisories when one consumer of a fresh destination comes at a store, by scheme."""
    regions = -(-stores // a_region)
    siblings = min(stores, a_region) - 1
    others = stores + regions
    return {
        "this tree": 2,
        "connectors, TTL 2": 1 + 1 + siblings,
        "connectors, TTL 3": 1 + 1 + siblings + regions - 1,
        "connectors, TTL 4; leaf nodes; full mesh": others,
    }


def growth(a_region: int, sizes: tuple[int, ...] = SIZES) -> dict[str, list[tuple[int, int]]]:
    """By scheme: (stores, advisories when one consumer comes at each store)."""
    curves: dict[str, list[tuple[int, int]]] = {}
    for stores in sizes:
        for scheme, each in for_a_store(stores, a_region).items():
            curves.setdefault(scheme, []).append((stores, stores * each))
    return curves
