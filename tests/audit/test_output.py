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
