"""The check of circles finds what it should, and nothing else."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from circles import ALLOWED, circles, faults, read

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


def test_a_circle_may_shrink_and_not_grow_and_no_new_one_may_come() -> None:
    allowed = read("# why\na\nb # here\nc\n\nx\ny\n")
    assert allowed == [{"a", "b", "c"}, {"x", "y"}]
    assert faults(circles(TWO), allowed) == []
    assert faults(circles(TWO), allowed[:1]) == [
        "a new circle: x, y: break it (who needs what of whom?)",
    ]
    grown = TWO | {"c": ["a", "z"]}
    assert faults(circles(grown), allowed) == [
        "the circle of a has grown by z: break it (who needs what of whom?)",
    ]
    shrunk = TWO | {"a": ["b", "x"], "b": ["a"]}
    assert faults(circles(shrunk), allowed) == ["c is in no circle any more: take it out of allowed.txt"]
    assert len(faults([], allowed)) == 5, "a list that outlives its circles is a fault"


def test_two_allowed_circles_may_not_become_one() -> None:
    joined = TWO | {"y": ["x", "a"]}
    assert len(faults(circles(joined), read("a\nb\nc\n\nx\ny"))) == 1


def test_the_list_names_modules_that_are_there() -> None:
    root = Path(__file__).parents[2]
    for circle in read(ALLOWED.read_text()):
        for module in circle:
            path = root / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), module
