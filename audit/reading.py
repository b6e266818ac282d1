"""Takes advisory logs in, and accounts for every file and every line.

`read` returns the events that can be used, and tables that say what became of everything else. Nothing that
comes in stops it: a file that ends in the middle is read as far as it goes, a line that is no row is counted.

Law: a file that is there twice, under whatever name, packed or not, counts once; the second one is named. If
files of one node overlap, as a copy does that was taken while the log grew, the rows that both have count
once. That is so of `lines` and of `parquet`, each for itself.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyarrow import Table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit import files, lines, parquet
from audit.clocks import clocks
from audit.importers import DIALECTS
from audit.listing import JSON_LINES, PARQUET, Listing, LogFile
from audit.rollup import rollup
from audit.schema import COMPARED, EVENTS, FILES
from audit.session import fetch
from audit.told import node_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_LINES = "left out: Parquet, where another broker's lines of JSON are expected"


class Intake(NamedTuple):
    """A log that was read. `events` has `schema.EVENTS`, on Spark; `files` `schema.FILES`; `rolled` is the
    `rollup` of the events, and `at_node`, the hash of its node; `clocks` is (node, unset, ahead, backwards,
    largest_step_back_s); `ignored` names files that are nobody's log."""

    events: DataFrame
    rolled: Table
    files: Table
    clocks: Table
    ignored: tuple[str, ...]


class _Part(NamedTuple):
    """The same of lines, or of Parquet, all on Spark."""

    events: DataFrame
    rolled: DataFrame
    files: DataFrame
    clocks: DataFrame


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
        whole = _Part(events, rolled, told, clocks(rolled, None))
        parts.append(_apart(whole, parts[0]) if parts else whole)
    if not parts:
        parts.append(_nothing(spark, spark.createDataFrame([], FILES)))
    whole = parts[0]
    for part in parts[1:]:
        whole = _Part(*(ours.unionByName(theirs) for ours, theirs in zip(whole, part, strict=True)))
    rolled = whole.rolled.withColumn("at_node", node_hash("node"))
    return Intake(whole.events, fetch(rolled), fetch(whole.files), fetch(whole.clocks), listing.ignored)


def _lines(spark: "SparkSession", texts: list[LogFile], source: str) -> _Part:
    dialect = DIALECTS[source] if source else lines.OWN
    found = lines.read(spark, texts, dialect)
    rolled = rollup(found.events).localCheckpoint()
    return _Part(found.events, rolled, found.files, clocks(rolled, found.ordered))


def _apart(tables: _Part, texts: _Part) -> _Part:
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
    return _Part(events, rolled, files.less(tables.files, again), clocks(rolled, None))


def _nothing(spark: "SparkSession", told: DataFrame) -> _Part:
    events = spark.createDataFrame([], EVENTS)
    rolled = rollup(events)
    return _Part(events, rolled, told, clocks(rolled, None))
