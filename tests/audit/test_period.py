"""An audit of a time: each row is in one of two days in a row, and no figure of a day has rows of another."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from audit.run import Request, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIDNIGHT = datetime(2026, 3, 15, tzinfo=UTC)
ADDS = (("14", "22:00"), ("14", "23:59"), ("15", "00:00"))


def log(folder: Path) -> None:
    """A store's consumers, told to the root, two on a day and one at midnight; and a row of an unset clock.
    The numbers of the root's rows have a hole in the first day."""
    lines: dict[str, list[dict[str, Any]]] = {"hq": [], "york": []}
    for number, (day, time) in enumerate(ADDS):
        told = {"op": "add", "kind": "queue", "destination": f"q{number}", "cause": f"york:{number}"}
        told |= {"at": f"2026-03-{day}T{time}:00Z", "origin": "york", "tree": "acme", "bytes": 40}
        lines["york"].append({"event": "consumer", "node": "york", "role": "leaf", **told})
        lines["hq"].append({"event": "advisory", "node": "hq", "role": "root", "peer": "york", **told})
    lines["york"].insert(0, {"event": "node", "op": "start", "at": "1970-01-01T00:00:05Z", "node": "york"})
    for node, rows in lines.items():
        numbers = (1, 3, 4) if node == "hq" else range(1, 9)
        text = (
            json.dumps({"schema": 2, "series": 1, "seq": seq, **row}) + "\n"
            for seq, row in zip(numbers, rows, strict=False)
        )
        (folder / f"{node}.jsonl").write_text("".join(text))
    (folder / "sites.csv").write_text("name,parent,role\nhq,,root\nyork,hq,leaf\n")


@pytest.mark.parametrize(
    ("period", "advisories", "outside", "missing"),
    [((None, MIDNIGHT), 2, 2, 1), ((MIDNIGHT, None), 1, 5, 0)],
    ids=["before", "after"],
)
def test_two_days_share_no_row_and_lose_none(
    spark: "SparkSession",
    tmp_path: Path,
    period: tuple[datetime | None, datetime | None],
    advisories: int,
    outside: int,
    missing: int,
) -> None:
    """The row of the unset clock is in the time without a beginning, and in no other."""
    log(tmp_path)
    given = [str(tmp_path / f"{node}.jsonl") for node in ("hq", "york")]
    request = Request(given, str(tmp_path / "sites.csv"), tmp_path / "out", period=period, named=True)
    found = audit(spark, request)
    assert (found["advisories"], found["outside"], found["tree"]) == (advisories, outside, "acme")
    assert found["rows"] + found["outside"] == found["lines"] == 7
    assert found["judged"]["rows_missing"] == missing
    assert found["verdicts"]["needed"] == advisories
