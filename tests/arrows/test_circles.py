"""The check of circles finds what it should, and nothing else."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from circles import circles, faults

LINE = {"a": ["b"], "b": ["c"], "c": []}
TWO = {"a": ["b", "x"], "b": ["c"], "c": ["a"], "x": ["y"], "y": ["x"], "z": ["a"]}


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        (LINE, []),
        (TWO, [{"a", "b", "c"}, {"x", "y"}]),
        ({"a": ["a"]}, [{"a"}]),
        ({"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["b"]}, [{"a", "b", "c", "d"}]),
        ({"a": ["elsewhere"]}, []),
        ({str(n): [str(n + 1)] for n in range(5000)} | {"5000": ["0"]}, [set(map(str, range(5001)))]),
    ],
    ids=["a line", "two", "itself", "two that touch", "a module of others", "a long one"],
)
def test_circles_are_found(imports: dict[str, list[str]], expected: list[set[str]]) -> None:
    assert circles(imports) == expected


def test_each_circle_is_a_fault_that_names_its_modules() -> None:
    assert faults(circles(LINE)) == []
    assert faults(circles(TWO)) == [
        "a circle: a, b, c: break it (who needs what of whom?)",
        "a circle: x, y: break it (who needs what of whom?)",
    ]
