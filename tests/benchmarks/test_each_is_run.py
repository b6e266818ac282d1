"""Each benchmark is run by a test, at toy size: one that nobody runs is broken unseen."""

import re
from pathlib import Path

from benchmarks.all import PARTS

ROOT = Path(__file__).parents[2]
SOURCES = {path.stem: path.read_text() for path in (ROOT / "benchmarks").glob("*.py")}
TESTS = "\n".join(
    path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)
)


def benchmarks() -> list[str]:
    """Modules with a command line, but for the parts: those that others start by their name."""
    started = set(re.findall(r'(?<!prog=)"benchmarks\.(\w+)"', "\n".join(SOURCES.values())))
    return [name for name, text in SOURCES.items() if "ArgumentParser(" in text and name not in started]


def is_run(name: str) -> bool:
    """By its own test, by the test of the page of figures, or as a command."""
    called = re.search(rf"\b{name}(_of_them)?\.main\(", TESTS) or f'"benchmarks.{name}"' in TESTS
    return bool(called) or name in {part.name for part in PARTS}


def test_each_benchmark_is_run_by_a_test() -> None:
    found = benchmarks()
    assert {"latency", "mesh", "thousand", "what_if"} <= set(found)
    assert "node_process" not in found, "it is a part of others"
    assert [name for name in found if not is_run(name)] == []
