"""Tables as they are written: in an order of their own, however Spark dealt them out."""

import re
from pathlib import Path

import pytest
from audit_tables import table

from audit.errors import AuditError
from audit.findings import find
from audit.first_screen import sites_map
from audit.output import CSV_ROWS, LARGE, Output
from audit.verdict import judge


def test_summaries_of_large_tables_have_one_order(tmp_path: Path) -> None:
    keys = LARGE["judged"]
    rows = [
        (f"n{n % 7}", f"o{n % 11}", "queue", "up" if n % 2 else None, n % 3 == 0, n)
        for n in range(7 * 11 * 2)
    ]
    columns = (*keys, "advisories")
    written = set()
    for column in ("advisories", "node", "origin"):
        dealt = sorted(rows, key=lambda row: str(row[columns.index(column)]), reverse=True)
        Output(tmp_path).write("judged", table(columns, dealt))
        written.add((tmp_path / "csv" / "judged.csv").read_text())
    (text,) = written
    assert text.splitlines()[1].startswith("n0,o0,queue,,")


def test_what_is_said_of_a_table_is_said_of_all_its_rows(tmp_path: Path) -> None:
    """However few of them a page and a CSV show."""
    output, many = Output(tmp_path), CSV_ROWS + 7
    names = [f"store-{n:05}" for n in range(many)]
    silent = ("node", "region", "role", "heard")
    output.write("silent", table(silent, [(name, "north", "leaf", "then") for name in names]))
    output.write("holes", table(("node", "first", "last", "missing", "after"), [
        (name, 1, n, n, "file:/log") for n, name in enumerate(names, 1)]))  # fmt: skip
    output.write("files", table(("file", "fault"), [(name, "cut") for name in names]))
    output.write("intake", table(("half", "malformed", "unknown", "untimed", "unread"), [(0, 0, 0, 0, 0)]))
    output.write("nodes", table(("node", "region", "role", "parent", "depth"), [
        (name, "north", "leaf", "north", 2) for name in names]))  # fmt: skip
    worst = table(("node", "advisories", "bytes"), [(name, n, n) for n, name in enumerate(names)])
    output.write("volume_by_node", worst)
    verdict = judge(output.tables, 2 * many)
    assert (verdict.silent, verdict.heard, verdict.cut) == (many, many, many)
    assert verdict.missing == many * (many + 1) // 2
    assert f"missing in {many:,} places, most at {names[-1]}" in "".join(
        one.what for one in find(output.tables)
    )
    page = sites_map(output.tables)
    assert f"The 5,000 worst of {many:,} are shown" in page
    assert f'"{names[-1]}"' in page
    assert len((tmp_path / "csv" / "silent.csv").read_text().splitlines()) == CSV_ROWS + 2


def test_of_an_earlier_run_no_table_stays_that_this_one_has_not(tmp_path: Path) -> None:
    """Else a history takes it for one of this day."""
    before = Output(tmp_path)
    for name in ("files", "repeated_adds"):
        before.write(name, table(("node",), [("york",)]))
    (tmp_path / "report.html").write_text("of the run before")
    output = Output(tmp_path)
    assert (tmp_path / "csv" / "repeated_adds.csv").exists(), "a run that reads no log takes nothing away"
    for name in ("files", "logs"):
        output.write(name, table(("node",), [("bath",)]))
    assert sorted(path.name for path in (tmp_path / "csv").iterdir()) == ["files.csv", "logs.csv"]
    found = sorted(path.name for path in (tmp_path / "tables").iterdir() if path.is_dir())
    assert found == ["files", "logs"]
    assert not (tmp_path / "report.html").exists()


def test_what_cannot_be_written_is_told_with_its_folder(tmp_path: Path) -> None:
    """The disk's own words name no file, nor do those of Arrow."""
    output = Output(tmp_path)
    (tmp_path / "csv" / "files.csv").mkdir()
    with pytest.raises(AuditError, match=f"{re.escape(str(tmp_path))}: cannot be written to: Is a directory"):
        output.write("files", table(("node",), [("york",)]))


def test_a_folder_in_which_no_audit_was_keeps_what_lies_there(tmp_path: Path) -> None:
    others = tmp_path / "tables" / "others" / "part-00000.parquet"
    others.parent.mkdir(parents=True)
    others.touch()
    Output(tmp_path).write("files", table(("node",), [("york",)]))
    assert others.exists()
