"""A run of the benchmarks writes the page of figures, here at toy size. Nothing is held against a limit."""

import re
from pathlib import Path

import pytest
from shown_tables import assert_are_tables

from benchmarks import all as all_of_them
from benchmarks import latency, pages

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def test_the_page_has_a_place_for_each_and_figures_in_it() -> None:
    for part in all_of_them.PARTS:
        shown = pages.put_in(PAGE, part.name)
        assert f"`python -m benchmarks.{part.benchmark}" in shown, part.name
        assert re.search(r"^\| .*\d.* \|$", shown, re.MULTILINE), part.name


TOYS = [part for part in all_of_them.PARTS if part.toy is not None]


@pytest.mark.parametrize("part", TOYS, ids=[part.name for part in TOYS])
def test_each_puts_its_table_in_its_place(tmp_path: Path, part: all_of_them.Part) -> None:
    page = tmp_path / "page.md"
    begin, end = pages.marks(part.name)
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    said: list[str] = []
    options = ["--toy", "--only", part.name, "--write", str(page), "--directory", str(tmp_path)]
    assert all_of_them.main(options, say=said.append) == 0, said
    shown = pages.put_in(page, part.name)
    assert said == [shown]
    assert shown.startswith(f"`python -m benchmarks.{part.benchmark}")
    assert_are_tables(shown)
    assert "old" not in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
    assert list(tmp_path.iterdir()) == [page]


def test_a_page_without_a_place_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match=r"no place for latency: write <!-- latency: begin -->"):
        pages.put(page, "latency", "| a |")
    assert page.read_text() == "nothing\n"


def _row(number: int, system: str, late: float, way: str = "up") -> latency.Row:
    return {"round": number, "way": way, "system": system, "p50_ms": late, "p99_ms": late, "cpu_us": late}


def test_a_ratio_is_of_two_runs_of_one_round() -> None:
    ours = [_row(number, "sapwood", late) for number, late in enumerate((2.0, 40.0, 3.0))]
    theirs = [_row(number, "jetstream", late) for number, late in enumerate((1.0, 10.0, 1.0))]
    failed = {"round": 2, "way": "up", "system": "jetstream-sync", "error": "it did not start"}
    (found,) = latency.ratios([*ours, *theirs, failed])
    assert (found["system"], found["beside"], found["p50_ms"]) == ("sapwood", "jetstream", [2.0, 3.0, 4.0])
    assert [row["p50_ms"] for row in latency.medians([*ours, *theirs, failed])] == [3.0, 1.0]
