"""Reads lines of JSON: of the advisory log, or of what another broker wrote (`importers`).

Law: nothing that comes in stops it. A line that is no row is counted by what is wrong with it; a file that
ends in the middle is read as far as it goes, and named.

Wrinkle: Spark can read a damaged file as far as it goes, but does not tell, nor of a line that it left out.
What was read is compared with the size of the file; a gzip file says at its end how many bytes it holds.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit import files
from audit.clocks import clock
from audit.listing import LogFile, still_there
from audit.rollup import timed
from audit.schema import COMPARED, EVENTS, LOG, NEWEST, OPERATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRAP: Final = 2**32
_PREFIX: Final = 3
"""Bytes that a file may seem to lack: its byte order mark, which is in no line."""
LONGEST: Final = 8 * 1024 * 1024
"""Bytes of a line from which it is left out: one that no memory holds must not end the audit."""
_LIMIT: Final = "mapreduce.input.linerecordreader.line.maxlength"
_TWO_ROWS: Final = r'\}\{"[^,:\]}\s]'
_JSON: Final = ", ".join(
    f"{field.name} {'string' if field.name == 'at' else field.dataType.simpleString()}" for field in LOG
)


class Dialect(NamedTuple):
    """What lines hold.

    `schema`: the columns of a line, as Spark writes them. `columns` makes of `row`, which has these, what is
    kept of a line; `node` and `at`, a time, are among it. `fate` says of these columns 'rows', 'unknown' or
    'untimed'. `convert` makes rows with the columns of the log, `file` and `written` of all lines that are
    used. `longest`: bytes of a line from which it is left out. `compared`: the columns by which two lines are
    the same, however they are spelt; without them, their text.
    """

    schema: str
    columns: Callable[[], list[Column]]
    fate: Callable[[], Column]
    convert: Callable[[DataFrame], DataFrame]
    longest: int = LONGEST
    compared: tuple[str, ...] = ()


def _own_columns() -> list[Column]:
    others = [F.col(f"row.{field.name}").alias(field.name) for field in LOG if field.name != "at"]
    return [F.try_to_timestamp("row.at").alias("at"), *others]


def fate(time: Column | None = None) -> Column:
    """What becomes of a row of the log that has the right form; or of a sum of such rows by `rollup`, with
    `time` one of their times."""
    event, operation = F.col("event"), F.col("op")
    known = F.lit(False)
    for name, operations in OPERATIONS.items():
        known = known | ((event == name) & operation.isin(*operations))
    usable = (
        F.coalesce(known, F.lit(False)) & (F.coalesce("schema", F.lit(0)) >= 1) & F.col("node").isNotNull()
    )
    return F.when(~usable, "unknown").when(timed(time), "rows").otherwise("untimed")


def _own_fate() -> Column:
    return F.when(F.col("event").isNull(), "malformed").otherwise(fate())


OWN: Final = Dialect(_JSON, _own_columns, _own_fate, lambda rows: rows, compared=COMPARED)
"""The advisory log itself."""


def parse(lines: DataFrame, dialect: Dialect = OWN) -> DataFrame:
    """(value, file, …) to (…, the dialect's columns, fate, length, mark). Works on streams too.

    `fate`: 'rows', 'blank', 'half', 'malformed', 'unknown' or 'untimed'; only 'rows' may be used. `mark`:
    a hash of what the line says; of one that says more than is known here, of its text.
    """
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"}
    parsed = lines.withColumn("row", F.from_json("value", f"{dialect.schema}, broken string", how))
    broken = F.col("row.broken").isNotNull() | F.col("row").isNull()
    text = F.btrim("value", F.lit(" \t\r"))
    spoilt = (
        F.when(text == "", "blank")
        .when(broken & (F.startswith(text, F.lit("{")) != F.endswith(text, F.lit("}"))), "half")
        .when(broken | _joined(text), "malformed")
    )
    kept = [name for name in lines.columns if name != "value"]
    judged = parsed.select(
        *kept,
        spoilt.alias("spoilt"),
        *dialect.columns(),
        F.octet_length("value").cast("long").alias("length"),
        F.xxhash64("value").alias("mark"),
    ).select("*", F.coalesce("spoilt", dialect.fate()).alias("fate"))
    if not dialect.compared:
        return judged
    known = (F.col("fate") == "rows") & (F.col("schema") <= NEWEST)
    return judged.withColumn("mark", F.when(known, F.xxhash64(*dialect.compared)).otherwise(F.col("mark")))


def _joined(text: Column) -> Column:
    """Are there two rows on the line, the newline between them lost? Spark reads the first alone.

    Wrinkle: a string that ends in `}{` looks alike, but something other than a name stands after it.
    """
    return F.contains(text, F.lit('}{"')) & F.rlike(text, F.lit(_TWO_ROWS))


class Lines(NamedTuple):
    """`events` has `schema.EVENTS`, `files` `schema.FILES`; `ordered` is the rows with their place in their
    file."""

    events: DataFrame
    files: DataFrame
    ordered: DataFrame


def read(spark: "SparkSession", listing: Sequence[LogFile], dialect: Dialect = OWN) -> Lines:
    """Read files of lines."""
    reader = spark.read.option("lineSep", "\n").option(_LIMIT, dialect.longest)
    text = reader.text(still_there(listing))
    named = text.select(
        "value",
        files.spelt().alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.col("_metadata.file_modification_time").alias("written"),
    )
    parsed = parse(named.withColumn("place", F.monotonically_increasing_id()), dialect).localCheckpoint()
    found = files.listed(spark, listing).join(_counts(parsed), "file", "left")
    counted = _twins(found.withColumn("fault", _fault(dialect.longest))).localCheckpoint()
    used = parsed.where(F.col("fate") == "rows").join(
        F.broadcast(counted.where(F.col("twin").isNull()).select("file")), "file", "left_semi"
    )
    once, again = _once(used)
    events = dialect.convert(once).withColumn("clock", clock(F.col("written")))
    return Lines(
        events.select(*EVENTS.names).localCheckpoint(),
        files.report(counted, again).localCheckpoint(),
        used,
    )


def _once(used: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Leave out lines that another file of the same node has too; only times of which two files tell are
    looked at."""
    spans = used.groupBy("node", "file").agg(F.min("at").alias("since"), F.max("at").alias("until"))
    suspects = files.of_times(used, files.overlapping(spans))
    repetitions = files.repetitions(suspects.select("node", "mark", "file")).localCheckpoint()
    return (used, None) if repetitions.isEmpty() else files.without(used, repetitions)


def _counts(parsed: DataFrame) -> DataFrame:
    fates = ("rows", "blank", "half", "malformed", "unknown", "untimed")
    newer = F.col("schema") > NEWEST if "schema" in parsed.columns else F.lit(False)
    return parsed.groupBy("file").agg(
        F.count(F.lit(1)).alias("lines"),
        *(F.count_if(F.col("fate") == fate).alias(fate) for fate in fates),
        F.count_if((F.col("fate") == "rows") & newer).alias("newer"),
        F.sum(F.col("length") + 1).alias("held"),
        F.bit_xor("mark").alias("print_a"),
        F.sum(F.pmod("mark", F.lit(2**31))).alias("print_b"),
    )


def _fault(longest: int) -> Column:
    """Why a file was not read to its end. The last line's newline may be missing; a file that is written to
    may hold more by now."""
    packed = F.endswith("file", F.lit(".gz"))
    missing = F.pmod(F.col("held") - F.col("told") + _PREFIX, F.lit(_WRAP)) > _PREFIX + 1
    left = f"a line of more than {longest:,} bytes, or cut while it was read: left out"
    return (
        F.when((F.col("bytes") == 0) | (F.col("told") == 0) & F.col("lines").isNull(), None)
        .when(packed & F.col("lines").isNull(), "no gzip file, or damaged: nothing could be read")
        .when(packed & (F.col("told").isNull() | missing), "cut or damaged: read as far as it goes")
        .when(F.col("lines").isNull(), "nothing could be read")
        .when(~packed & (F.col("bytes") - F.col("held") > _PREFIX), left)
    )


def _twins(counted: DataFrame) -> DataFrame:
    """Add `twin`: the first file, by name, that holds the same; that one is used."""
    same = Window.partitionBy("lines", "print_a", "print_b").orderBy("file")
    first = F.first("file").over(same.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    return counted.withColumn("twin", F.when(F.col("lines").isNotNull() & (first != F.col("file")), first))
