"""Every line of every file is accounted for, whatever was done to the files; nothing stops the reading."""

import gzip
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import pytest
from audit_tables import rows
from pyarrow import Table, parquet

from audit import lines
from audit.accounts import totals
from audit.errors import UsageError
from audit.lines import LONGEST
from audit.listing import format_of, list_local
from audit.parquet import _footers
from audit.queries import query
from audit.reading import Intake, read
from audit.schema import LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMO = Path(__file__).parent / "data" / "demo"
GOOD = {
    "event": "node",
    "at": "2026-03-14T08:00:00.000001Z",
    "tree": "acme",
    "node": "n",
    "role": "leaf",
    "op": "start",
    "schema": 1,
}


def line(**changes: Any) -> bytes:
    return json.dumps({**dict.fromkeys(LOG.names), **GOOD, **changes}).encode() + b"\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything is wrong that may be."""
    top = tmp_path_factory.mktemp("logs")
    odd = top / "a [b] {c}%20 é=x"
    odd.mkdir()
    york, hq = ((DEMO / f"{node}.advisories.jsonl").read_bytes() for node in ("york", "hq"))
    (odd / "york 1.jsonl").write_bytes(york)
    (top / "york-copy.jsonl").write_bytes(york)
    (top / "york-copy.jsonl.gz").write_bytes(gzip.compress(york))
    (top / "york-yesterday.jsonl").write_bytes(
        b"".join(york.splitlines(True)[:6]) + york.splitlines()[6][:50]
    )
    packed = gzip.compress(hq)
    (top / "hq-cut.jsonl.gz").write_bytes(packed[: len(packed) * 2 // 3])
    (top / "cut-at-once.jsonl.gz").write_bytes(packed[:5])
    (top / "not-packed.jsonl.gz").write_bytes(hq)
    (top / "empty.jsonl").write_bytes(b"")
    (top / "empty.jsonl.gz").write_bytes(gzip.compress(b""))
    (top / "no-newline.jsonl").write_bytes(line(node="whole").rstrip())
    (top / "rubbish.jsonl").write_bytes(
        b"\xff\xfe\n[1]\n\n"
        + line(depth="deep")
        + line(event="weather")
        + line(op="add")
        + line(schema=None)
        + line(at="soon")
        + line(schema=7, more=1)
        + line(node=None)
        + b'{"event":"node"'
    )
    (top / "clocks.jsonl").write_bytes(
        line(node="boot", at="1970-01-01T00:00:09Z")
        + line(node="boot")
        + line(node="future", at="2999-01-01T00:00:00Z")
        + line(node="back", at="2026-03-14T09:00:00Z")
        + line(node="back", at="2026-03-14T08:30:00Z", op="stop")
    )
    (top / "times.jsonl").write_bytes(line(at="+294247-01-10T04:00:54.775807Z") + line(node="early"))
    (top / "numbers.jsonl").write_bytes(
        line(bytes=2**63 - 1) * 2
        + line(bytes=-1)
        + line(seq=-1)
        + line(seq=2**63 - 1)
        + line(series=2**62)
        + line(node="sound", bytes=40, series=1795251300, seq=1)
    )
    (top / "long.jsonl").write_bytes(line(node="x" * LONGEST) + line(node="after"))
    (top / "marked.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + line(node="marked")))
    (top / "gone.jsonl").symlink_to(top / "rotated.jsonl")
    (top / "york.jsonl.zst").write_bytes(b"packed otherwise")
    (top / "notes.txt").write_text("nobody's log")
    (top / ".n.advisories-000001.jsonl.part").write_text("half compressed")
    return top


@pytest.fixture(scope="module")
def intake(spark: "SparkSession", folder: Path) -> Intake:
    """One log is rotated away after the files were listed."""
    (folder / "late.jsonl").write_bytes(line(node="late"))
    listing = list_local([str(folder)])
    (folder / "late.jsonl").unlink()
    return read(spark, listing)


@pytest.fixture(scope="module")
def by_name(intake: Intake) -> dict[str, Any]:
    return {row.file.rsplit("/", 1)[-1]: row for row in rows(intake.files)}


def test_every_file_is_told_and_what_is_no_log_too(
    by_name: dict[str, Any], folder: Path, intake: Intake
) -> None:
    logs = [path for path in folder.rglob("*") if path.is_file() and format_of(path.name)]
    assert set(by_name) == {*(quote(path.name) for path in logs), "late.jsonl"}
    assert len(by_name) == 18
    assert by_name["york.jsonl.zst"].fault.startswith("left out: packed otherwise than with gzip")
    assert {Path(name).name for name in intake.ignored} == {
        "notes.txt",
        ".n.advisories-000001.jsonl.part",
        "gone.jsonl",
    }


def test_every_line_is_in_one_count(by_name: dict[str, Any]) -> None:
    for row in by_name.values():
        used = row.rows + row.repeated
        assert row.lines == used + row.blank + row.half + row.malformed + row.unknown + row.untimed
    row = by_name["rubbish.jsonl"]
    counts = (row.lines, row.rows, row.blank, row.half, row.malformed, row.unknown, row.untimed, row.newer)
    assert counts == (11, 1, 1, 1, 3, 4, 1, 1)
    assert by_name["no-newline.jsonl"].rows == 1


def test_a_cut_gzip_file_is_read_as_far_as_it_goes_and_named(by_name: dict[str, Any]) -> None:
    cut = by_name["hq-cut.jsonl.gz"]
    assert 0 < cut.rows < len((DEMO / "hq.advisories.jsonl").read_bytes().splitlines())
    assert "cut or damaged" in cut.fault
    assert "nothing could be read" in by_name["cut-at-once.jsonl.gz"].fault
    assert "nothing could be read" in by_name["not-packed.jsonl.gz"].fault
    assert by_name["empty.jsonl"].fault is by_name["empty.jsonl.gz"].fault is None


def test_a_packed_log_that_zeros_destroyed_is_none_of_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    """Its last four bytes say that it holds nothing."""
    nothing, packed = gzip.compress(b""), gzip.compress(line())
    spoilt = {
        "zeros": bytes(1024 * 1024),
        "few-zeros": bytes(100),
        "header-and-zeros": packed[:10] + bytes(len(packed)),
        "damaged-beginning": b"x" + packed[1:] + nothing,
        "wrong-sum": nothing[:-8] + b"x" + nothing[-7:],
    }
    for name, data in {**spoilt, "empty": nothing, "two-empty": nothing * 2}.items():
        (tmp_path / f"{name}.jsonl.gz").write_bytes(data)
    (tmp_path / "good.jsonl").write_bytes(line())
    files = faulty(read(spark, list_local([str(tmp_path)])))
    assert {row.file.rsplit("/", 1)[-1] for row in files} == {f"{name}.jsonl.gz" for name in spoilt}
    assert all("nothing could be read" in row.fault for row in files)


def test_two_rows_on_one_line_are_malformed_and_what_only_looks_so_is_a_row(
    spark: "SparkSession", tmp_path: Path
) -> None:
    joined = line(node="a").rstrip() + line(node="b")
    half = line(node="a").rstrip() + line(node="b")[:30] + b"\n"
    alike = line(destination="}{", peer="{}{", node='}{"}{"') + line(cause="}{")
    spaced = b"".join(line(node="a").rstrip() + space + line(node="b") for space in (b" ", b"\r", b"\0\0"))
    (tmp_path / "x.jsonl").write_bytes(joined + half + alike + b"[" + joined.rstrip() + b"]\n" + spaced)
    (tmp_path / "compact.jsonl").write_bytes((alike + joined).replace(b", ", b",").replace(b": ", b":"))
    sums = rows(totals(read(spark, list_local([str(tmp_path / "x.jsonl")])).files))[0]
    assert (sums.lines, sums.rows, sums.malformed) == (8, 2, 6)
    sums = rows(totals(read(spark, list_local([str(tmp_path / "compact.jsonl")])).files))[0]
    assert (sums.lines, sums.rows, sums.malformed) == (3, 2, 1)


def test_what_stands_behind_a_row_on_its_line_makes_it_malformed_but_for_one_comma(
    spark: "SparkSession", tmp_path: Path
) -> None:
    one, other = line(node="a").strip(), line(node="b").strip()
    nested = one[:-1] + b', "later": [{"a": 1}, {"a": 2}]}'
    wrong = [one + b"," + other, one + b", " + other + b",", nested + b",\0" + other, one + b"x", one + b"}"]
    (tmp_path / "x.jsonl").write_bytes(b"\n".join([nested, one + b",", one + b"\0\0", *wrong]) + b"\n")
    sums = rows(totals(read(spark, list_local([str(tmp_path)])).files))[0]
    assert (sums.lines, sums.rows, sums.malformed) == (3 + len(wrong), 3, len(wrong))


def test_what_no_memory_and_no_calendar_holds_is_told_and_the_rest_is_read(by_name: dict[str, Any]) -> None:
    assert (by_name["long.jsonl"].rows, by_name["times.jsonl"].rows) == (1, 1)
    assert (by_name["numbers.jsonl"].rows, by_name["numbers.jsonl"].malformed) == (1, 6)
    assert "a line of more than" in by_name["long.jsonl"].fault
    assert by_name["times.jsonl"].untimed == 1
    assert (by_name["marked.jsonl.gz"].rows, by_name["marked.jsonl.gz"].fault) == (1, None)
    assert "nothing could be read" in by_name["late.jsonl"].fault


def test_a_file_that_is_there_twice_counts_once(by_name: dict[str, Any], intake: Intake) -> None:
    twins = {name for name, row in by_name.items() if row.fault and "holds the same" in row.fault}
    assert twins == {"york-copy.jsonl", "york-copy.jsonl.gz"}
    original = (DEMO / "york.advisories.jsonl").read_bytes().splitlines()
    assert intake.events.where("node = 'york'").count() == len(original)
    assert {(by_name[twin].rows, by_name[twin].repeated) for twin in twins} == {(0, len(original))}


def test_what_was_left_out_is_counted_and_the_rest_is_what_is_used(intake: Intake) -> None:
    sums = rows(totals(intake.files))[0]
    york = len((DEMO / "york.advisories.jsonl").read_bytes().splitlines())
    assert sums.rows == intake.events.count()
    assert sums.repeated == 2 * york + 6


def test_a_copy_of_a_growing_log_adds_nothing(by_name: dict[str, Any], intake: Intake) -> None:
    """The six rows that both have count once; the half line was counted as half."""
    row = by_name["york-yesterday.jsonl"]
    assert (row.rows, row.repeated, row.half) == (0, 6, 1)
    assert (
        intake.events.where("node = 'york'").distinct().count()
        == intake.events.where("node = 'york'").count()
    )


def test_clocks_that_jump_are_counted_and_their_rows_kept(intake: Intake) -> None:
    clocks = {row.node: row for row in rows(intake.clocks)}
    assert (clocks["boot"].unset, clocks["boot"].backwards) == (1, 0)
    assert clocks["future"].ahead == 1
    assert (clocks["back"].backwards, clocks["back"].largest_step_back_s) == (1, 1800.0)
    kept = {
        (row.node, row.clock) for row in intake.events.where("node in ('boot', 'future', 'back')").collect()
    }
    assert kept == {("boot", "unset"), ("boot", None), ("future", "ahead"), ("back", None)}


def test_footers_of_this_machine_are_read_without_spark(tmp_path: Path) -> None:
    """Of a file without a row nobody tells, as Spark does not."""
    for name, count in (("a b", 3), ("c", 5), ("none", 0)):
        parquet.write_table(Table.from_pydict({"node": ["n"] * count}), tmp_path / f"{name}.parquet")
    nobody: Any = None
    told = _footers(nobody, list_local([str(tmp_path)]).files)
    folder = f"file:{tmp_path}"
    assert told.to_pylist() == [
        {"file": f"{folder}/a%20b.parquet", "lines": 3},
        {"file": f"{folder}/c.parquet", "lines": 5},
    ]


def test_parquet_is_read_with_its_folders_and_damaged_files_are_named(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = spark.read.schema(LOG).json(str(DEMO)).coalesce(1)
    log.write.partitionBy("tree", "region").parquet(str(tmp_path / "log"))
    files = sorted((tmp_path / "log").rglob("*.parquet"))
    assert len(files) > 3
    (files[0].parent / "copy.parquet").write_bytes(files[0].read_bytes())
    (tmp_path / "log" / "a-copy-outside.parquet").write_bytes(files[1].read_bytes())
    (tmp_path / "log" / "cut.parquet").write_bytes(files[1].read_bytes()[:400])
    (tmp_path / "log" / "text.parquet").write_text("no Parquet")
    intake = read(spark, list_local([str(tmp_path / "log")]))
    assert intake.events.count() == log.count()
    assert {row.tree for row in intake.events.select("tree").distinct().collect()} == {"demo"}
    found = {row.region: row["count"] for row in intake.events.groupBy("region").count().collect()}
    assert found == {row.region: row["count"] for row in log.groupBy("region").count().collect()}
    faults = {row.file.rsplit("/", 1)[-1]: row.fault for row in faulty(intake)}
    assert len(faults) == 4
    assert faults["a-copy-outside.parquet"].endswith(files[1].name), "the one whose path says more is used"
    assert all("nothing could be read" in faults[name] for name in ("cut.parquet", "text.parquet"))


def test_rows_that_two_parquet_files_share_count_once(spark: "SparkSession", tmp_path: Path) -> None:
    """A copy of half of a log, packed anew and laid outside of the folders that say tree and region."""
    log = spark.read.schema(LOG).json(str(DEMO))
    log.coalesce(1).write.partitionBy("tree", "region").parquet(str(tmp_path / "log"))
    part = log.where("at < '2026-01-01' or node in ('york', 'hq')").drop("tree", "region")
    part.coalesce(1).write.parquet(str(tmp_path / "log" / "copy"))
    intake = read(spark, list_local([str(tmp_path / "log")]))
    sums = rows(totals(intake.files))[0]
    assert (sums.lines, sums.rows, sums.repeated) == (log.count() + part.count(), log.count(), part.count())
    assert intake.events.count() == counted(intake.rolled) == log.count()
    assert intake.events.exceptAll(intake.events.distinct()).count() == 0


def test_parquet_beside_folders_that_say_tree_and_region_is_read(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = spark.read.schema(LOG).json(str(DEMO)).coalesce(1)
    log.where("node = 'hq'").write.partitionBy("tree").parquet(str(tmp_path / "a"))
    log.where("node = 'york'").write.parquet(str(tmp_path / "b"))
    intake = read(spark, list_local([str(tmp_path)]))
    assert intake.events.count() == log.where("node in ('hq', 'york')").count()


def test_what_is_beyond_the_damage_of_a_file_is_used_from_another(
    spark: "SparkSession", tmp_path: Path
) -> None:
    whole = numbered(spark, tmp_path)
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    parquet.write_table(whole.slice(0, 200), path, row_group_size=100)
    parquet.write_table(whole.slice(150), other)
    damage(path, "destination")
    intake = read(spark, list_local([str(path), str(other)]))
    found = {row.cause for row in intake.events.where("file like '%b.parquet'").select(*LOG.names).collect()}
    assert found == {str(second) for second in range(150, 300)}


@pytest.mark.parametrize("column", ["at", "role", "destination", "bytes"])
def test_what_is_before_damage_in_any_column_is_used_by_all_and_the_rest_told(
    spark: "SparkSession", tmp_path: Path, column: str
) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(numbered(spark, tmp_path), path, row_group_size=100)
    damage(path, column, group=1)
    intake = read(spark, list_local([str(path)]))
    (file,) = rows(intake.files)
    assert "damaged" in file.fault
    assert (file.lines, file.rows, file.unread) == (300, 100, 200)
    assert counted(intake.rolled) == 100
    assert [intake.events.select(name).count() for name in LOG.names] == [100] * len(LOG)
    assert len(intake.events.where("destination > '2'").collect()) < 100, "whichever rows are asked for"


def test_damage_that_ends_a_query_ends_no_audit(spark: "SparkSession", tmp_path: Path) -> None:
    """Numbers of texts that there are not, found only when somebody wants the text; beside a whole file."""
    whole = numbered(spark, tmp_path)
    path = tmp_path / "a.parquet"
    for name in ("a", "b"):
        parquet.write_table(whole, tmp_path / f"{name}.parquet", compression="none", row_group_size=150)
    chunk, data = chunk_of(path, "destination", 1), bytearray(path.read_bytes())
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    data[end - 100 : end] = b"\xff" * 100
    path.write_bytes(data)
    intake = read(spark, list_local([str(tmp_path / f"{name}.parquet") for name in ("a", "b")]))
    damaged, good = sorted(rows(intake.files), key=lambda row: row.file)
    assert 0 < damaged.unread <= 150
    assert damaged.unread + damaged.rows + damaged.repeated == good.rows + good.repeated == 300
    assert damaged.rows + good.rows == intake.events.count() == 300
    assert {row.destination for row in intake.events.collect()} == {str(second) for second in range(300)}


def numbered(spark: "SparkSession", folder: Path) -> Any:
    """300 rows, one a second, whose cause and destination are the second's number."""
    log = [
        line(
            at=f"2026-03-14T08:{second // 60:02}:{second % 60:02}Z",
            cause=str(second),
            destination=str(second),
        )
        for second in range(300)
    ]
    (folder / "log").write_bytes(b"".join(log))
    return spark.read.schema(LOG).json(str(folder / "log")).coalesce(1).toArrow()


def counted(rolled: Table) -> int:
    return sum(row.rows for row in rows(rolled))


def faulty(intake: Intake) -> list[Any]:
    return [row for row in rows(intake.files) if row.fault is not None]


def chunk_of(path: Path, column: str, group: int) -> Any:
    metadata = parquet.ParquetFile(path).metadata
    return metadata.row_group(group).column(metadata.schema.names.index(column))


def damage(path: Path, column: str, group: int = 0) -> None:
    chunk, data = chunk_of(path, column, group), path.read_bytes()
    begin, size = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size
    path.write_bytes(data[:begin] + b"\xff" * size + data[begin + size :])


def test_a_log_that_is_there_in_other_words_counts_once(spark: "SparkSession", tmp_path: Path) -> None:
    """Moved over Windows, spelt by another program, and as Parquet of all that two nodes wrote."""
    york, hq = ((DEMO / f"{node}.advisories.jsonl").read_bytes() for node in ("york", "hq"))
    (tmp_path / "york.jsonl").write_bytes(york)
    (tmp_path / "york-from-windows.jsonl").write_bytes(york.replace(b"\n", b"\r\n"))
    spelt = [json.dumps(json.loads(each), indent=None, sort_keys=True) for each in york.splitlines()]
    (tmp_path / "york-spelt.jsonl").write_text("\n".join(spelt))
    (tmp_path / "both").write_bytes(york + hq)
    spark.read.schema(LOG).json(str(tmp_path / "both")).coalesce(1).write.parquet(str(tmp_path / "day"))
    intake = read(spark, list_local([str(tmp_path)]))
    sums, lines = rows(totals(intake.files))[0], len(york.splitlines())
    assert (sums.rows, sums.repeated) == (lines + len(hq.splitlines()), 3 * lines)
    found = rows(query('select node, sum("rows") as n from rolled group by node', rolled=intake.rolled))
    counted = intake.events.groupBy("node").count().collect()
    assert {tuple(row) for row in found} == {tuple(row) for row in counted}
    assert intake.events.drop("file", "clock").distinct().count() == intake.events.count() == sums.rows


def test_clocks_that_are_ahead_are_found_in_parquet_but_not_in_the_log_of_a_day_to_come(
    spark: "SparkSession", tmp_path: Path
) -> None:
    def write(name: str, years: dict[str, int]) -> dict[str | None, int]:
        lines = [line(node=node, at=f"{year}-03-14T08:00:00Z") for node, year in years.items()]
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(lines))
        log = spark.read.schema(LOG).json(str(tmp_path / f"{name}.jsonl"))
        log.coalesce(1).write.parquet(str(tmp_path / name))
        intake = read(spark, list_local([str(tmp_path / name)]))
        found = {row.node: row.ahead for row in rows(intake.clocks)}
        clocks = intake.events.where("clock = 'ahead'").select("node").collect()
        assert {row.node for row in clocks} == set(found)
        return found

    assert write("real", {"york": 2026, "bath": 2026, "exeter": 2090}) == {"exeter": 1}
    assert write("simulated", {"york": 2090, "bath": 2090, "exeter": 2090}) == {}
    assert write("both", {"york": 2090, "bath": 2090, "exeter": 2190}) == {"exeter": 1}


def test_no_log_at_all_is_an_empty_one(spark: "SparkSession") -> None:
    intake = read(spark, list_local([]))
    assert intake.events.count() == 0
    assert rows(totals(intake.files))[0].lines == 0


def test_a_path_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        list_local(["/nowhere/at/all"])


def test_an_interrupt_waits_for_no_job_that_a_cluster_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the session, and that the job."""
    ended, told = threading.Event(), []

    def fetch(frame: Any) -> None:
        if frame == "counts":
            raise KeyboardInterrupt
        ended.wait(30)
        told.append(frame)

    monkeypatch.setattr(lines, "fetch", fetch)
    with pytest.raises(KeyboardInterrupt):
        lines._both(cast("Any", "counts"), cast("Any", "sums"))
    assert not told
    ended.set()
