"""The shortest part of a history that still fails."""

import pytest

from simulation.shrinking import shortest


@pytest.mark.parametrize("needed", [{3}, {0, 99}, {10, 11, 12}, {5, 40, 41, 77}])
def test_only_what_is_needed_is_left(needed: set[int]) -> None:
    assert shortest(range(100), lambda part: needed <= set(part)) == sorted(needed)


def test_order_matters() -> None:
    def fails(part: list[str]) -> bool:
        return "crash" in part and "boot" in part[part.index("crash") :]

    assert shortest(["boot", "send", "crash", "send", "boot", "crash"], fails) == ["crash", "boot"]


def test_it_ends_where_it_must() -> None:
    calls = 0

    def fails(part: list[int]) -> bool:
        nonlocal calls
        calls += 1
        return len(part) % 2 == 0

    assert len(shortest(range(64), fails, attempts=10)) < 64
    assert calls <= 10
