"""The benchmark of a session's requests works, at the smallest sizes. Nothing here is timed."""

from pathlib import Path

from shown_tables import assert_are_tables, found_and_shown

from benchmarks import sessions, tables


def test_each_size_has_its_row(tmp_path: Path) -> None:
    said, result = list[str](), tmp_path / "result.json"
    assert sessions.main(["--sizes", "0", "120", "--json", str(result)], say=said.append) == 0
    assert_are_tables(said[0])
    assert [row[0] for row in found_and_shown(result, tables.sessions)["rows"]] == [0, 120]


def test_a_figure_of_each_kind_was_measured() -> None:
    assert all(figure > 0 for figure in sessions.row(120))
