"""Takes advisory logs in, and accounts for every file and every line.

`read` returns the events that can be used, and tables that say what became of everything else. Nothing that
comes in stops it: a file that ends in the middle is read as far as it goes, a line that is no row is counted.

Wrinkle: a file that is there twice, under whatever name, packed or not, counts once; the second one is
named. If files of one node overlap, as a copy does that was taken while the log grew, the lines that both
have count once.

Wrinkle: Spark can read a damaged file as far as it goes, but does not tell. A gzip file says at its end how
many bytes it holds: what was read is compared with that. Of Parquet, rows are compared with the files'
footers, which cost nearly nothing to read; only if their sums differ is each file looked at by itself.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from audit.listing import JSON_LINES, PARQUET, Listing, LogFile, partition_base
from audit.rollup import rollup
from audit.schema import EVENTS, FILES, LOG, NEWEST, OPERATIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_WRAP: Final = 2**32
_JSON: Final = ", ".join(
    f"{field.name} {'string' if field.name == 'at' else field.dataType.simpleString()}" for field in LOG
)
_TWIN: Final = "left out: holds the same as "
JUMP: Final = "INTERVAL 1 SECOND"
"""How far a clock may be set back before that is counted."""


COUNTS: Final = ("lines", "rows", "blank", "half", "malformed", "unknown", "untimed", "newer")


class Intake(NamedTuple):
    """What was read. `events` has `schema.EVENTS`, `files` `schema.FILES`; `rolled` is the `rollup` of the
    events; `clocks` is (node, unset, ahead, backwards, largest_step_back_s); `ignored` names files that are
    nobody's log."""

    events: DataFrame
    rolled: DataFrame
    files: DataFrame
    clocks: DataFrame
    ignored: tuple[str, ...]


def read(spark: "SparkSession", listing: Listing) -> Intake:
    """Read all files of a listing."""
    lines = [file for file in listing.files if file.format == JSON_LINES]
    tables = [file for file in listing.files if file.format == PARQUET]
    judged = [_read_lines(spark, lines)] if lines else []
    judged += [_read_parquet(spark, tables)] if tables else []
    if not judged:
        judged = [_nothing(spark)]
    events, rolled, files, clocks = judged[0]
    for more in judged[1:]:
        events, rolled = events.unionByName(more.events), rolled.unionByName(more.rolled)
        files, clocks = files.unionByName(more.files), clocks.unionByName(more.clocks)
    return Intake(events, rolled, files, clocks, listing.ignored)


def _file(path: str = "_metadata.file_path") -> "Column":
    """The file of a row, spelt as `LogFile.uri` does."""
    return F.regexp_replace(path, "^file:/+", "file:/")


class _Read(NamedTuple):
    events: DataFrame
    rolled: DataFrame
    files: DataFrame
    clocks: DataFrame


def totals(files: DataFrame) -> DataFrame:
    """One row: how many files, how many with a fault, and the sums of all counts of `schema.FILES`."""
    return files.agg(
        F.count(F.lit(1)).alias("files"),
        F.count("fault").alias("faults"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTS),
    )


def _nothing(spark: "SparkSession") -> _Read:
    events = spark.createDataFrame([], EVENTS)
    rolled = rollup(events)
    return _Read(events, rolled, spark.createDataFrame([], FILES), _clocks(rolled, None))


# --- lines of JSON


def parse_lines(lines: DataFrame) -> DataFrame:
    """(value, file, …) to (…, the columns of the log, fate, length, mark). Works on streams too.

    `fate`: 'rows', 'blank', 'half', 'malformed', 'unknown' or 'untimed'; only 'rows' may be used. `mark`:
    a hash of the line.
    """
    parsed = lines.withColumn(
        "row",
        F.from_json(
            "value",
            f"{_JSON}, broken string",
            {
                "mode": "PERMISSIVE",
                "columnNameOfCorruptRecord": "broken",
            },
        ),
    )
    broken = F.col("row.broken").isNotNull() | F.col("row").isNull()
    text = F.trim("value")
    spoilt = (
        F.when(text == "", "blank")
        .when(broken & (F.startswith(text, F.lit("{")) != F.endswith(text, F.lit("}"))), "half")
        .when(broken | F.col("row.event").isNull(), "malformed")
    )
    columns = [F.col(f"row.{field.name}").alias(field.name) for field in LOG if field.name != "at"]
    kept = [name for name in lines.columns if name != "value"]
    return parsed.select(
        *kept,
        spoilt.alias("spoilt"),
        F.try_to_timestamp("row.at").alias("at"),
        *columns,
        F.octet_length("value").cast("long").alias("length"),
        F.xxhash64("value").alias("mark"),
    ).select("*", F.coalesce("spoilt", _fate()).alias("fate"))


def _fate() -> "Column":
    """What becomes of a row that has the right form."""
    event, operation = F.col("event"), F.col("op")
    known = F.lit(False)
    for name, operations in OPERATIONS.items():
        known = known | ((event == name) & operation.isin(*operations))
    usable = (
        F.coalesce(known, F.lit(False)) & (F.coalesce("schema", F.lit(0)) >= 1) & F.col("node").isNotNull()
    )
    return F.when(~usable, "unknown").when(F.col("at").isNull(), "untimed").otherwise("rows")


def _read_lines(spark: "SparkSession", files: Sequence[LogFile]) -> _Read:
    text = spark.read.option("lineSep", "\n").text([file.pattern for file in files])
    named = text.select(
        "value",
        _file().alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.col("_metadata.file_modification_time").alias("written"),
    )
    parsed = parse_lines(named.withColumn("place", F.monotonically_increasing_id()))
    parsed = parsed.localCheckpoint()
    found = _line_counts(parsed)
    listed = _listed(spark, files)
    report = listed.join(found, "file", "left").select("*", _line_fault().alias("fault"))
    report = _twins(report).localCheckpoint()
    used = parsed.where(F.col("fate") == "rows").join(
        F.broadcast(report.where(F.col("twin").isNull()).select("file")), "file", "left_semi"
    )
    once = _without_overlap(used)
    events = once.withColumn("clock", _clock(F.col("written"))).select(*EVENTS.names).localCheckpoint()
    rolled = rollup(events).localCheckpoint()
    return _Read(events, rolled, report.select(*FILES.names), _clocks(rolled, used))


def _line_counts(parsed: DataFrame) -> DataFrame:
    fates = ("rows", "blank", "half", "malformed", "unknown", "untimed")
    return parsed.groupBy("file").agg(
        F.count(F.lit(1)).alias("lines"),
        *(F.count_if(F.col("fate") == fate).alias(fate) for fate in fates),
        F.count_if((F.col("fate") == "rows") & (F.col("schema") > NEWEST)).alias("newer"),
        F.sum(F.col("length") + 1).alias("held"),
        F.bit_xor("mark").alias("print_a"),
        F.sum(F.pmod("mark", F.lit(2**31))).alias("print_b"),
    )


def _listed(spark: "SparkSession", files: Sequence[LogFile]) -> DataFrame:
    rows = [(file.uri, file.format, file.bytes, file.told_bytes) for file in files]
    return spark.createDataFrame(rows, "file string, format string, bytes long, told long")


def _line_fault() -> "Column":
    """Why a file was not read to its end. The last line's newline may be missing: one byte does not
    matter."""
    packed = F.endswith("file", F.lit(".gz"))
    missing = F.pmod(F.col("held") - F.col("told"), F.lit(_WRAP)) > 1
    return (
        F.when(F.col("bytes") == 0, None)
        .when(
            packed & F.col("lines").isNull(), "no gzip file, or cut at its beginning: nothing could be read"
        )
        .when(packed & (F.col("told").isNull() | missing), "cut or damaged: read as far as it goes")
        .when(F.col("lines").isNull(), "nothing could be read")
    )


def _twins(report: DataFrame) -> DataFrame:
    """Name for each file the first one, by name, that holds the same; that one is used."""
    same = Window.partitionBy("lines", "print_a", "print_b").orderBy("file")
    first = F.first("file").over(same.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    twin = F.when(F.col("lines").isNotNull() & (first != F.col("file")), first)
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in FILES.names[3:-1]]
    fault = F.coalesce(F.concat(F.lit(_TWIN), F.col("twin")), F.col("fault"))
    return report.withColumn("twin", twin).select(
        "file", "format", "bytes", *counts, fault.alias("fault"), "twin"
    )


def _without_overlap(used: DataFrame) -> DataFrame:
    """Leave out lines that another file of the same node has too; only nodes whose files overlap are looked
    at."""
    spans = used.groupBy("node", "file").agg(F.min("at").alias("since"), F.max("at").alias("until"))
    before = Window.partitionBy("node").orderBy("since", "file").rowsBetween(Window.unboundedPreceding, -1)
    overlapping = (
        spans.withColumn("reached", F.max("until").over(before))
        .where(F.col("reached") >= F.col("since"))
        .select("node")
        .distinct()
    )
    suspects = used.join(F.broadcast(overlapping), "node", "left_semi")
    clean = used.join(F.broadcast(overlapping), "node", "left_anti")
    first = F.min("file").over(Window.partitionBy("node", "mark"))
    kept = suspects.withColumn("first", first).where(F.col("file") == F.col("first")).drop("first")
    return clean.unionByName(kept)


# --- Parquet


def _read_parquet(spark: "SparkSession", files: Sequence[LogFile]) -> _Read:
    footers = _by_file(_parquet(spark, files), F.count(F.lit(1)).alias("lines")).localCheckpoint()
    twins = _parquet_twins(spark, files, footers)
    known = spark.createDataFrame([(file, twin) for file, twin in twins.items()], "file string, twin string")
    lines = footers.join(known, "file", "left").localCheckpoint()
    used = [file for file in files if file.uri not in twins]
    whole = _parquet(spark, used)
    good = whole.where(_fate() == "rows").withColumn("clock", _clock(None))
    rolled = rollup(good).localCheckpoint()
    told = lines.where(F.col("twin").isNull())
    good_at_sight = _sum(rolled, "rows") == _sum(told, "lines") and not _sum(rolled, "newer")
    fates = _all_good(lines) if good_at_sight else _fates_by_file(_parquet(spark, files))
    report = _listed(spark, files).join(lines, "file", "left").join(fates, "file", "left")
    events = good.withColumn("file", _file("file"))
    return _Read(events.select(*EVENTS.names), rolled, _parquet_report(report), _clocks(rolled, None))


def _sum(rows: DataFrame, column: str) -> int:
    return int(rows.agg(F.coalesce(F.sum(column), F.lit(0))).collect()[0][0])


def _by_file(rows: DataFrame, *sums: "Column") -> DataFrame:
    """Wrinkle: a file's name is made readable once a file, not once a row."""
    return rows.groupBy("file").agg(*sums).withColumn("file", _file("file"))


_FATES: Final = ("rows", "unknown", "untimed")


def _all_good(lines: DataFrame) -> DataFrame:
    """What `_fates_by_file` says where every line of every file is a row."""
    nothing = (F.lit(0).cast("long").alias(name) for name in ("unknown", "untimed", "newer"))
    return lines.select("file", F.col("lines").alias("read"), F.col("lines").alias("rows"), *nothing)


def _fates_by_file(whole: DataFrame) -> DataFrame:
    judged = whole.withColumn("fate", _fate())
    return _by_file(
        judged,
        F.count(F.lit(1)).alias("read"),
        *(F.count_if(F.col("fate") == fate).alias(fate) for fate in _FATES),
        F.count_if((F.col("fate") == "rows") & (F.col("schema") > NEWEST)).alias("newer"),
    )


def _parquet_report(report: DataFrame) -> DataFrame:
    fault = (
        F.when(F.col("twin").isNotNull(), F.concat(F.lit(_TWIN), "twin"))
        .when(F.col("lines").isNull(), "nothing in it, or no Parquet file: nothing could be read")
        .when(
            F.col("lines") != F.coalesce("read", F.lit(0)),
            "damaged, or columns of other types: read as far as it goes",
        )
    )
    for absent in ("blank", "half", "malformed"):
        report = report.withColumn(absent, F.lit(0).cast("long"))
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in FILES.names[3:-1]]
    return report.select("file", "format", "bytes", *counts, fault.alias("fault")).localCheckpoint()


def _parquet(spark: "SparkSession", files: Sequence[LogFile]) -> DataFrame:
    """All rows, with their file as Spark spells it. Columns of the log that a file lacks are null;
    `name=value` folders count."""
    by_base: dict[str, list[str]] = {}
    for file in files:
        by_base.setdefault(partition_base(file.path), []).append(file.pattern)
    reader = spark.read.schema(LOG)
    parts = [reader.option("basePath", base).parquet(*paths) for base, paths in by_base.items()]
    named = [part.select(*LOG.names, F.col("_metadata.file_path").alias("file")) for part in parts]
    whole = named[0]
    for part in named[1:]:
        whole = whole.unionByName(part)
    return whole


def _parquet_twins(spark: "SparkSession", files: Sequence[LogFile], footers: DataFrame) -> dict[str, str]:
    """Files that hold the same as one before them by name, and which; only files of one size can."""
    sizes = Counter(file.bytes for file in files)
    alike = [file for file in files if sizes[file.bytes] > 1]
    if not alike:
        return {}
    hashed = _parquet(spark, alike).withColumn("mark", F.xxhash64(*LOG.names))
    prints = _by_file(
        hashed,
        F.bit_xor("mark").alias("print_a"),
        F.sum(F.pmod("mark", F.lit(2**31))).alias("print_b"),
    )
    first: dict[tuple[int, int, int], str] = {}
    twins: dict[str, str] = {}
    for row in prints.join(footers, "file").orderBy("file").collect():
        before = first.setdefault((row.lines, row.print_a, row.print_b), row.file)
        if before != row.file:
            twins[row.file] = before
    return twins


# --- clocks


def _clock(written: "Column | None") -> "Column":
    """What is wrong with the clock of a row. `written`: when its file was last written; None = not known."""
    wrong = F.when(F.col("at") < F.lit("2000-01-01").cast("timestamp"), "unset")
    if written is not None:
        wrong = wrong.when(F.col("at") > written + F.expr("INTERVAL 1 DAY"), "ahead")
    return wrong


def _clocks(rolled: DataFrame, ordered: DataFrame | None) -> DataFrame:
    """(node, unset, ahead, backwards, largest_step_back_s), only nodes with any.

    `ordered`: rows of which the order in their files is known by `block` and `place`.
    """
    names = ("unset", "ahead")
    counts = (F.sum(F.when(F.col("clock") == name, F.col("rows")).otherwise(0)).alias(name) for name in names)
    wrong = rolled.where(F.col("clock").isNotNull()).groupBy("node").agg(*counts)
    if ordered is None:
        return wrong.select(
            "node",
            "unset",
            "ahead",
            F.lit(0).cast("long").alias("backwards"),
            F.lit(None).cast("double").alias("largest_step_back_s"),
        )
    in_file = Window.partitionBy("file", "node").orderBy("block", "place")
    steps = ordered.withColumn("before", F.lag("at").over(in_file))
    back = (
        steps.where(F.col("at") + F.expr(JUMP) < F.col("before"))
        .groupBy("node")
        .agg(
            F.count(F.lit(1)).alias("backwards"),
            F.max(F.unix_micros("before") - F.unix_micros("at")).alias("step"),
        )
    )
    return wrong.join(back, "node", "full").select(
        "node",
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("unset", "ahead", "backwards")),
        (F.col("step") / 1e6).alias("largest_step_back_s"),
    )
