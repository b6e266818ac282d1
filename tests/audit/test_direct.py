"""Tasks that read Parquet by themselves give what Spark gives, and leave it what is not as it should be."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from pyarrow import Table, parquet

from audit import direct, passes, period
from audit.errors import AuditError
from audit.listing import list_local
from audit.passes import Passes
from audit.reading import Intake, read
from audit.run import Request, audit
from audit.schema import LOG, arrow_schema
from benchmarks.advisory_logs import Chain, write_log, write_sites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANTED = 3
CHAIN = Chain(stores=40, regions=4, planted=PLANTED)


@pytest.fixture(scope="module")
def chain(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of which routes are told anew, and so of nodes that seem adrift; and its sites."""
    folder = tmp_path_factory.mktemp("chain")
    write_log(spark, CHAIN, 9000, folder / "log")
    write_sites(CHAIN, folder / "sites.csv")
    return folder


@pytest.fixture(autouse=True)
def small_logs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "LEAST", 0)
    monkeypatch.setattr(direct, "A_FILE", 0)


def taken(spark: "SparkSession", folder: Path) -> Intake:
    return read(spark, list_local([str(folder)]))


def found(table: Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def test_every_table_is_the_same_whoever_reads(
    spark: "SparkSession", chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tables(out: Path) -> dict[str, list[str]]:
        audit(spark, Request([str(chain / "log")], str(chain / "sites.csv"), out, every_event=True))
        files = sorted((out / "tables").glob("*/*.parquet"))
        return {path.parent.name: found(parquet.read_table(path)) for path in files}

    assert taken(spark, chain / "log").direct is not None
    here = tables(tmp_path / "direct")
    monkeypatch.setattr(direct, "LEAST", 2**40)
    assert taken(spark, chain / "log").direct is None
    assert tables(tmp_path / "spark") == here
    assert len(here["spilled"]) == PLANTED


def test_sums_of_a_log_are_put_together_of_those_of_its_tasks(
    spark: "SparkSession", chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = taken(spark, chain / "log")
    log, plain = Passes(spark, intake), Passes(spark, intake._replace(direct=None))
    assert intake.direct is not None
    assert len(intake.direct.tasks) > 1
    few = Table.from_pydict({"node": ["hq", "region-1"]})
    for sums in (Passes.consumer_hours, Passes.told, lambda log: log.said_by_hour(few)):
        one, other = sums(log), sums(plain)
        names = [name for name in one.column_names if name not in ("at_node", "route", "consumer")]
        assert found(one.select(names)) == found(other.select(names))
        assert one.schema.types == other.schema.types
    whole = log.told()
    monkeypatch.setattr(passes, "FIT", 0)
    less = log.told()
    assert sum(less.column("added").drop_null().to_pylist()) > 0
    assert len(less.filter(less.column("consumer").is_valid())) == len(
        set(whole.column("consumer").to_pylist())
    )


ROW = {
    "event": "consumer", "at": datetime(2026, 3, 14, 8, tzinfo=UTC), "tree": "acme", "node": "bath",
    "role": "leaf", "op": "add", "kind": "queue", "destination": "till", "cause": "bath:1", "origin": "bath",
    "bytes": 40, "schema": 2, "series": 1, "seq": 1,
}  # fmt: skip


def write(path: Path, *rows: dict[str, Any], schema: arrow.Schema | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(Table.from_pylist([*rows], schema or arrow_schema(LOG)), path)


def with_type(name: str, kind: arrow.DataType) -> arrow.Schema:
    schema = arrow_schema(LOG)
    return schema.set(schema.get_field_index(name), arrow.field(name, kind))


def renamed(name: str, other: str) -> arrow.Schema:
    fields = arrow_schema(LOG)
    return arrow.schema([field.with_name(other) if field.name == name else field for field in fields])


def without(*names: str) -> arrow.Schema:
    return arrow.schema([field for field in arrow_schema(LOG) if field.name not in names])


def test_columns_that_a_file_lacks_or_its_path_has_are_known(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "tree=acme" / "a.parquet", ROW, schema=without("tree", "series", "seq"))
    write(tmp_path / "tree=acme" / "b.parquet", ROW | {"node": "it's"}, schema=without("tree"))
    intake = taken(spark, tmp_path)
    assert intake.direct is not None
    here = found(intake.rolled.drop_columns(["at_node", "of_tree_least", "of_tree_most"]))
    assert intake.rolled.column("of_tree_least").null_count == 0
    came = Passes(spark, intake).consumer_hours()
    assert sorted(came.column("node").to_pylist()) == ["bath", "it's"]
    monkeypatch.setattr(direct, "LEAST", 2**40)
    there = taken(spark, tmp_path)
    assert here == found(there.rolled.drop_columns(["at_node", "of_tree_least", "of_tree_most"]))
    assert found(intake.files) == found(there.files)


def damaged(folder: Path) -> None:
    write(folder / "a.parquet", *(ROW | {"seq": n, "cause": f"bath:{n}"} for n in range(2000)))
    data = bytearray((folder / "a.parquet").read_bytes())
    data[200:400] = b"\xff" * 200
    (folder / "a.parquet").write_bytes(data)


def twice(folder: Path) -> None:
    for name in ("a", "bb"):
        write(folder / f"{name}.parquet", ROW, ROW | {"cause": name})


UNUSUAL: dict[str, Callable[[Path], None]] = {
    "a row that cannot be used": lambda at: write(at / "a.parquet", ROW, ROW | {"op": "jump"}),
    "a row of a newer schema": lambda at: write(at / "a.parquet", ROW | {"schema": 3}),
    "a clock that was never set": lambda at: write(
        at / "a.parquet", ROW | {"at": datetime(1970, 1, 2, tzinfo=UTC)}
    ),
    "a clock ahead of its file": lambda at: write(
        at / "a.parquet", ROW | {"at": datetime(2999, 1, 1, tzinfo=UTC)}
    ),
    "a row that two files have": twice,
    "a column of another type": lambda at: write(
        at / "a.parquet", ROW, schema=with_type("bytes", arrow.float64())
    ),
    "a column spelt otherwise": lambda at: write(
        at / "a.parquet", {**ROW, "SEQ": 1}, schema=renamed("seq", "SEQ")
    ),
    "a folder that is a pattern": lambda at: write(at / "[a]" / "a.parquet", ROW),
    "a path with a column of the rows": lambda at: write(
        at / "node=bath" / "a.parquet", ROW, schema=without("node")
    ),
    "a file and its path with a column": lambda at: write(at / "tree=acme" / "a.parquet", ROW),
    "numbers that no node writes": lambda at: write(
        at / "a.parquet", ROW, *(ROW | {"seq": 2**63 - n, "bytes": 2**63 - n} for n in (1, 2, 3))
    ),
    "a damaged file": damaged,
}  # fmt: skip


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_not_as_it_should_be_is_read_by_spark(
    spark: "SparkSession", tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    UNUSUAL[what](tmp_path)
    intake = taken(spark, tmp_path)
    assert intake.direct is None
    if what == "numbers that no node writes":
        assert (intake.files["rows"].to_pylist(), intake.files["unknown"].to_pylist()) == ([1], [3])
    monkeypatch.setattr(direct, "LEAST", 2**40)
    there = taken(spark, tmp_path)
    assert found(intake.rolled) == found(there.rolled)
    assert found(intake.files) == found(there.files)


@pytest.mark.parametrize("least", [0, 2**40], ids=["direct", "by Spark"])
def test_parquet_that_goes_between_two_passes_is_no_smaller_audit(
    spark: "SparkSession", chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    """Spark says nothing of it: some tables had its rows, and others not."""
    monkeypatch.setattr(direct, "LEAST", least)
    logs = shutil.copytree(chain / "log", tmp_path / "log")
    within = period.within

    def taken_away(intake: Intake, bounds: Any) -> Intake:
        next(logs.rglob("*.parquet")).unlink()
        return within(intake, bounds)

    monkeypatch.setattr(period, "within", taken_away)
    with pytest.raises(AuditError, match="taken away or written anew while it was read"):
        audit(spark, Request([str(logs)], str(chain / "sites.csv"), tmp_path / "out"))
    assert not (tmp_path / "out" / "report.html").exists()


def test_rows_of_another_time_are_left_out_by_spark(spark: "SparkSession", chain: Path) -> None:
    from audit.period import within

    intake = taken(spark, chain / "log")
    noon = datetime(2026, 3, 14, 12, tzinfo=UTC)
    assert within(intake, (None, None)).direct is intake.direct
    assert within(intake, (noon, None)).direct is None
