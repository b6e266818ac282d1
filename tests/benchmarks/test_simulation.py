"""The simulation's benchmark works, at the smallest sizes. Nothing here is timed."""

from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import simulation, tables


def test_it_measures_growth_and_a_day(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "found.json"
    arguments = ["--growth", "20", "--stores", "10", "--interests", "2", "--json", str(file)]
    assert simulation.main(arguments, said.append) == 0
    found = found_and_shown(file, tables.simulation)
    assert [(row["stores"], row["interests"]) for row in found["growth"]] == [(20, 0), (20, 2)]
    assert found["day"]["advisories"] == 2 * 2 * 10 * 2
    assert "20 stores at rest" in said[1]
    assert "10 stores for a day" in said[-1]


def test_a_wrong_count_fails() -> None:
    with pytest.raises(SystemExit, match="5 advisories: expected 4"):
        simulation._expect(5, 4)
