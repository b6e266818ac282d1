"""Takes advisory logs in, and accounts for every file and every line.

`read` returns the events that can be used, and tables that say what became of everything else. Nothing that
comes in stops it: a file that ends in the middle is read as far as it goes, a line that is no row is counted.

Law: a file that is there twice, under whatever name, packed or not, counts once; the second one is named. If
files of one node overlap, as a copy does that was taken while the log grew, the rows that both have count
once. That is so of `lines` and of `parquet`, each for itself.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit import files, lines, parquet
from audit.clocks import clocks
from audit.importers import DIALECTS
from audit.listing import JSON_LINES, PARQUET, Listing, LogFile
from audit.rollup import rollup
from audit.schema import COMPARED, EVENTS, FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = files.COUNTS
_NO_LINES = "left out: Parquet, where another broker's lines of JSON are expected"


class Intake(NamedTuple):
    """What was read. `events` has `schema.EVENTS`, `files` `schema.FILES`; `rolled` is the `rollup` of the
    events; `clocks` is (node, unset, ahead, backwards, largest_step_back_s); `ignored` names files that are
    nobody's log."""

    events: DataFrame
    rolled: DataFrame
    files: DataFrame
    clocks: DataFrame
    ignored: tuple[str, ...]


def read(spark: "SparkSession", listing: Listing, source: str = "") -> Intake:
    """Read all files of a listing. `source`: the broker that wrote them, of `importers.DIALECTS`; '' = they
    are advisory logs."""
    texts = [file for file in listing.files if file.format == JSON_LINES]
    tables = [file for file in listing.files if file.format == PARQUET]
    parts = [_lines(spark, texts, source)] if texts else []
    if tables and source:
        parts.append(_nothing(spark, files.left_out(spark, tables, _NO_LINES)))
    elif tables:
        events, rolled, told = parquet.read(spark, tables)
        whole = Intake(events, rolled, told, clocks(rolled, None), ())
        parts.append(_apart(whole, parts[0]) if parts else whole)
    if not parts:
        parts.append(_nothing(spark, spark.createDataFrame([], FILES)))
    whole = parts[0]
    for part in parts[1:]:
        whole = Intake(
            whole.events.unionByName(part.events),
            whole.rolled.unionByName(part.rolled),
            whole.files.unionByName(part.files),
            whole.clocks.unionByName(part.clocks),
            (),
        )
    return whole._replace(ignored=listing.ignored)


def _lines(spark: "SparkSession", texts: list[LogFile], source: str) -> Intake:
    dialect = DIALECTS[source] if source else lines.OWN
    found = lines.read(spark, texts, dialect)
    rolled = rollup(found.events).localCheckpoint()
    return Intake(found.events, rolled, found.files, clocks(rolled, found.ordered), ())


def _apart(tables: Intake, texts: Intake) -> Intake:
    """Leave out of Parquet the rows that lines of JSON have too; only times are looked at of which both
    tell."""
    spans = [
        part.rolled.groupBy("node", F.lit(kind).alias("file")).agg(
            F.min("first").alias("since"), F.max("last").alias("until")
        )
        for part, kind in ((tables, PARQUET), (texts, JSON_LINES))
    ]
    times = files.overlapping(spans[0].unionByName(spans[1])).localCheckpoint()
    if times.isEmpty():
        return tables
    suspects, others = (files.of_times(part.events, times) for part in (tables, texts))
    said = F.xxhash64(*COMPARED).alias("mark")
    known = others.select("node", said).distinct()
    marked = tables.events.withColumn("mark", said)
    twice = suspects.withColumn("mark", said).join(known, ["node", "mark"], "left_semi")
    again = twice.groupBy("file").agg(F.count(F.lit(1)).alias("again")).localCheckpoint()
    if again.isEmpty():
        return tables
    events = marked.join(known, ["node", "mark"], "left_anti").select(*EVENTS.names)
    rolled = rollup(events).localCheckpoint()
    return Intake(events, rolled, files.less(tables.files, again), clocks(rolled, None), ())


def _nothing(spark: "SparkSession", told: DataFrame) -> Intake:
    events = spark.createDataFrame([], EVENTS)
    rolled = rollup(events)
    return Intake(events, rolled, told, clocks(rolled, None), ())


def totals(told: DataFrame) -> DataFrame:
    """One row: how many files, how many with a fault, and the sums of all counts of `schema.FILES`."""
    return told.agg(
        F.count(F.lit(1)).alias("files"),
        F.count("fault").alias("faults"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTS),
    )
