"""Tables as they are written: in an order of their own, however Spark dealt them out."""

from pathlib import Path

from audit_tables import table

from audit.output import LARGE, Output


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


def test_a_folder_in_which_no_audit_was_keeps_what_lies_there(tmp_path: Path) -> None:
    others = tmp_path / "tables" / "others" / "part-00000.parquet"
    others.parent.mkdir(parents=True)
    others.touch()
    Output(tmp_path).write("files", table(("node",), [("york",)]))
    assert others.exists()
