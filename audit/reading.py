"""Takes advisory logs in, and accounts for every file and every line.

`read` returns the events that can be used, and tables that say what became of everything else. Nothing that
comes in stops it: a file that ends in the middle is read as far as it goes, a line that is no row is counted.

Law: a file that is there twice, under whatever name, packed or not, counts once; the second one is named. If
files of one node overlap, as a copy does that was taken while the log grew, the rows that both have count
once. That is so of `lines` and of `parquet`, each for itself.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as arrow
from pyarrow import Table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit import files, lines, parquet
from audit.accounts import FILES
from audit.clocks import clocks
from audit.importers import DIALECTS
from audit.listing import JSON_LINES, OTHERWISE, PARQUET, Listing, LogFile
from audit.queries import query
from audit.rollup import rollup
from audit.schema import COMPARED, EVENTS, arrow_schema
from audit.session import fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from audit.direct import Direct

_PACKED: Final = "left out: packed otherwise than with gzip: expected .jsonl, .jsonl.gz or .parquet"
_NO_LINES: Final = "left out: Parquet, where another broker's lines of JSON are expected"


class Intake(NamedTuple):
    """A log that was read. `events` has `schema.EVENTS`, on Spark; `files` `accounts.FILES`; `rolled` is the
    `rollup` of the events; `clocks` is (node, unset, ahead, backwards, largest_step_back_s); `ignored` names
    files that are nobody's log. `direct`: the same rows, where tasks can read the files by themselves."""

    events: DataFrame
    rolled: Table
    files: Table
    clocks: Table
    ignored: tuple[str, ...] = ()
    direct: "Direct | None" = None


def read(spark: "SparkSession", listing: Listing, source: str = "") -> Intake:
    """Read all files of a listing. `source`: the broker that wrote them, of `importers.DIALECTS`; '' = they
    are advisory logs."""
    texts = [file for file in listing.files if file.format == JSON_LINES]
    tables = [file for file in listing.files if file.format == PARQUET]
    parts = [_lines(spark, texts, source)] if texts else []
    if tables and source:
        parts.append(_nothing(spark, files.left_out(tables, _NO_LINES)))
    elif tables:
        events, rolled, told, direct = parquet.read(spark, tables)
        whole = Intake(events, rolled, told, clocks(rolled), direct=direct)
        parts.append(_apart(whole._replace(direct=None), parts[0]) if parts else whole)
    whole = parts[0] if parts else _nothing(spark, FILES.empty_table())
    for part in parts[1:]:
        pairs = zip(whole[1:4], part[1:4], strict=True)
        sums = (arrow.concat_tables(both, promote_options="permissive") for both in pairs)
        whole = Intake(whole.events.unionByName(part.events), *sums)
    others = files.left_out([file for file in listing.files if file.format == OTHERWISE], _PACKED)
    told = arrow.concat_tables([whole.files, others], promote_options="permissive")
    return whole._replace(files=told, ignored=listing.ignored)


def narrowed(intake: Intake, kept: Column, count: str, out: Table) -> Intake:
    """The intake with only the rows that are `kept`. `out`: (file, gone) of the others, which are in the
    column `count` of `files` from now on."""
    events = intake.events.where(kept)
    rolled = fetch(rollup(events))
    steps = query(
        """select node, backwards, (largest_step_back_s * 1e6)::bigint as step from clocks
        semi join rolled using (node)""",
        clocks=intake.clocks,
        rolled=rolled,
    )
    told = query(_LESS.replace("COUNT", count), told=intake.files, other=out)
    clocked = clocks(rolled, steps)
    return intake._replace(events=events, rolled=rolled, files=told, clocks=clocked, direct=None)


def renamed(intake: Intake, names: Mapping[str, str]) -> Intake:
    """The intake with files named by where they come from. `names`: how their names begin, and should."""
    for here, there in names.items():
        file, length = F.col("file"), len(here)
        shown = F.when(
            F.startswith(file, F.lit(here)), F.concat(F.lit(there), F.substring(file, length + 1, 2**31 - 1))
        )
        told = query(_RENAMED, told=intake.files, here=here, there=there)
        events = intake.events.withColumn("file", F.coalesce(shown, file))
        intake = intake._replace(events=events, files=told)
    return intake


_RENAMED: Final = """select told.* replace (
        case when starts_with(file, $here) then $there || file[length($here) + 1:] else file end as file,
        replace(fault, $here, $there) as fault)
    from told"""

_LESS: Final = """select told.* replace (
        "rows" - coalesce(gone, 0) as "rows", "COUNT" + coalesce(gone, 0) as "COUNT")
    from told left join other using (file)"""


def _lines(spark: "SparkSession", texts: list[LogFile], source: str) -> Intake:
    events, rolled, told, steps = lines.read(spark, texts, DIALECTS[source] if source else lines.OWN)
    return Intake(events, rolled, told, clocks(rolled, steps))


def _apart(tables: Intake, texts: Intake) -> Intake:
    """Leave out of Parquet the rows that lines of JSON have too; only times are looked at of which both
    tell."""
    spans = query(
        """select node, 'tables' as file, min(first) as since, max(last) as until from tables group by node
        union all select node, 'texts', min(first), max(last) from texts group by node""",
        tables=tables.rolled,
        texts=texts.rolled,
    )
    times = files.overlapping(spans)
    if not len(times):
        return tables
    suspects, others = (files.of_times(part.events, times) for part in (tables, texts))
    said = F.xxhash64(*COMPARED).alias("mark")
    known = others.select("node", said).distinct()
    marked = tables.events.withColumn("mark", said)
    twice = suspects.withColumn("mark", said).join(known, ["node", "mark"], "left_semi")
    again = fetch(twice.groupBy("file").agg(F.count(F.lit(1)).alias("again")))
    if not len(again):
        return tables
    events = marked.join(known, ["node", "mark"], "left_anti").select(*EVENTS.names)
    rolled = fetch(rollup(events))
    return Intake(events, rolled, files.less(tables.files, again), clocks(rolled))


def _nothing(spark: "SparkSession", told: Table) -> Intake:
    rolled = arrow_schema(rollup(spark.createDataFrame([], EVENTS)).schema).empty_table()
    return Intake(spark.createDataFrame([], EVENTS), rolled, told, clocks(rolled))
