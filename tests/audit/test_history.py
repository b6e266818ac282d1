"""A history of days: each is added once, a run that was broken off is in no view, and a new run replaces the
old one."""

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyarrow import Table, parquet

from audit import cli
from audit.errors import AuditError, UsageError
from audit.history import Day
from audit.options import parser, period
from audit.storage import ParquetFiles, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = [date(2026, 3, day) for day in (1, 2)]


def tables(folder: Path, advisories: int) -> Path:
    """The tables that an audit leaves, of which two are enough."""
    found = {
        "volume_by_node": Table.from_pylist([{"node": "hq", "advisories": advisories}]),
        "trees": Table.from_pylist([{"tree": "other", "rows": 1}]),
    }
    for name, table in found.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, folder / name / "part-00000.parquet")
    return folder


def summary(**given: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("nodes", "files", "rows", "advisories", "bytes"), 1)
    return {
        **counts,
        "tree": "acme",
        "verdicts": {"spilled": 0, "needed": 1},
        "judged": {"whole": True},
    } | given


def rows(root: Path, text: str = "select * from sapwood_volume_by_node") -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute((root / "views.duckdb.sql").read_text())
        return connection.sql(text).fetchall()


def test_each_day_is_beside_the_others_with_its_run(tmp_path: Path) -> None:
    runs = [
        Day(str(tmp_path / "kept"), day).append(tables(tmp_path / "found", 10 * n), summary())
        for n, day in enumerate(DAYS, 1)
    ]
    select = "select tree, day, run, advisories from sapwood_volume_by_node order by day"
    assert rows(tmp_path / "kept", select) == [
        ("acme", DAYS[0], runs[0], 10),
        ("acme", DAYS[1], runs[1], 20),
    ]
    assert rows(tmp_path / "kept", "select count(*), bool_and(whole) from sapwood_runs") == [(2, True)]


def test_a_day_is_known_by_its_date_and_its_tree(tmp_path: Path) -> None:
    root = str(tmp_path / "kept")
    run = Day(root, DAYS[0]).append(tables(tmp_path / "found", 1), summary())
    assert Day(root, DAYS[0]).done == Day(root, DAYS[0], "acme").done == [run]
    assert Day(root, DAYS[1]).done == Day(root, DAYS[0], "other").done == []


def test_a_new_run_replaces_the_old_one_and_leaves_no_file_of_it(tmp_path: Path) -> None:
    root = tmp_path / "kept"
    old = Day(str(root), DAYS[0]).append(tables(tmp_path / "found", 1), summary())
    new = Day(str(root), DAYS[0]).append(tables(tmp_path / "found", 2), summary())
    assert rows(root, "select run, advisories from sapwood_volume_by_node") == [(new, 2)]
    assert not list(root.rglob(f"{old}*"))


def test_a_run_that_was_broken_off_is_in_no_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full just before the run is called whole."""
    root = tmp_path / "kept"
    whole = Day(str(root), DAYS[0]).append(tables(tmp_path / "found", 1), summary())
    put = ParquetFiles.put

    def full(files: ParquetFiles, name: str, *others: Any) -> None:
        if name == "runs":
            raise OSError(28, "No space left on device")
        put(files, name, *others)

    monkeypatch.setattr(ParquetFiles, "put", full)
    with pytest.raises(AuditError, match="No space left"):
        Day(str(root), DAYS[0]).append(tables(tmp_path / "found", 2), summary())
    assert len(list(root.rglob("volume_by_node/*/*/*.parquet"))) == 2
    assert rows(root, "select run, advisories from sapwood_volume_by_node") == [(whole, 1)]


def test_a_file_that_has_no_room_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that is started again and again would fill the disk with them."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        Place(str(tmp_path)).put("runs/one", b"data")
    assert os.listdir(tmp_path / "runs") == []


def test_a_name_with_a_slash_or_a_quote_is_a_name(tmp_path: Path) -> None:
    root = tmp_path / "it's kept"
    Day(str(root), DAYS[0]).append(tables(tmp_path / "found", 1), summary(tree="acme/../x y"))
    assert rows(root, "select tree from sapwood_runs") == [("acme/../x y",)]
    assert {path.name for path in (root / "runs").iterdir()} == {"tree=acme%2F..%2Fx%20y"}


def test_spark_reads_the_same_views(spark: "SparkSession", tmp_path: Path) -> None:
    for n, day in enumerate((*DAYS, DAYS[0]), 1):
        Day(str(tmp_path / "kept"), day).append(tables(tmp_path / "found", n), summary())
    for statement in (tmp_path / "kept" / "views.spark.sql").read_text().split(";\n"):
        if statement.strip():
            spark.sql(statement)
    found = spark.sql("select day, advisories from sapwood_volume_by_node order by day").collect()
    assert [(str(row["day"]), row["advisories"]) for row in found] == [("2026-03-01", 3), ("2026-03-02", 2)]


def test_a_place_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be reached"):
        Day("nothing://there", DAYS[0])
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match="cannot be written to"):
        Day(str(tmp_path / "file"), DAYS[0]).append(tables(tmp_path / "found", 1), summary())


def test_a_day_that_is_there_starts_no_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Day(str(tmp_path / "kept"), DAYS[0]).append(tables(tmp_path / "found", 1), summary())
    (tmp_path / "sites.csv").write_text("name,parent,role\nhq,,root\n")
    (tmp_path / "log.jsonl").touch()
    asked = [str(tmp_path / "log.jsonl"), "--deployment", str(tmp_path / "sites.csv"), "--day", "2026-03-01"]
    assert cli.main([*asked, "--history", str(tmp_path / "kept"), "--master", "spark://nowhere:7077"]) == 0
    assert f"2026-03-01 is in {tmp_path / 'kept'} already, run {run}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--since", "then"], "--since then: expected a time"),
        (["--since", "2026-03-02", "--until", "2026-03-01"], "expected the earlier first"),
        (["--day", "2026-02-30"], "--day 2026-02-30: expected a date"),
        (["--day", "2026-03-01", "--since", "2026-03-01"], "expected one of them"),
        (["--history", "kept", "--until", "2026-03-01"], "expected one of them"),
        (["--history", "kept", "--day", str(datetime.now(UTC).date())], "it is not over before 24 UTC"),
        (["--history", "kept", "--day", "9998-01-01"], "it is not over before 24 UTC"),
    ],
)
def test_times_that_are_none_are_refused_before_spark_starts(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sites.csv").write_text("name,parent,role\nhq,,root\n")
    (tmp_path / "log.jsonl").touch()
    asked = [str(tmp_path / "log.jsonl"), "--deployment", str(tmp_path / "sites.csv"), *options]
    assert cli.main(asked) == 2
    assert said in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["log.jsonl", "sites.csv"]


@pytest.mark.parametrize("name", ["sapwood-audit.service", "airflow_dag.py"])
def test_the_examples_of_a_schedule_ask_for_what_there_is(name: str) -> None:
    text = (Path(__file__).parents[2] / "examples" / "audit" / name).read_text()
    words = (
        text.partition("sapwood audit ")[2]
        .replace('"', " ")
        .replace("{{ macros.ds_add(ds, -1) }}", "2026-03-14")
    )
    command = (
        words.replace("\\\n", " ").partition("\nNice")[0].partition("),")[0].replace("{{ ds }}", "x").split()
    )
    options = parser().parse_args([word for word in command if word not in (",", ")")])
    assert options.history.endswith("/audits")
    since, until = period(options)
    assert since is not None
    assert until == since + timedelta(days=1)
