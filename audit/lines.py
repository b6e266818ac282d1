"""Reads lines of JSON: of the advisory log, or of what another broker wrote (`importers`).

Law: nothing that comes in stops it. A line that is no row is counted by what is wrong with it; a file that
ends in the middle is read as far as it goes, and named.

Wrinkle: Spark can read a damaged file as far as it goes, but does not tell, nor of a line that it left out.
What was read is compared with the size of the file; a gzip file says at its end how many bytes it holds.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyarrow import Table
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit import files
from audit.beside import work_beside
from audit.clocks import JUMP, clock
from audit.listing import LogFile, still_there
from audit.queries import query
from audit.rollup import is_time, merged, rollup
from audit.schema import CHECKED, COMPARED, EVENTS, LOG, NEWEST, OPERATIONS, checked
from audit.session import fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX: Final = 3
"""Bytes that a file may seem to lack: its byte order mark, which is in no line."""
LONGEST: Final = 8 * 1024 * 1024
"""Bytes of a line from which it is left out: one that no memory holds must not end the audit."""
_LIMIT: Final = "mapreduce.input.linerecordreader.line.maxlength"
_ANY_ROWS: Final = "array<struct<nothing: string>>"
_BESIDE: Final = ", \t\r\0"
"""What may stand beside a row on its line."""
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
    texts = {name: checked(name, "row.") if name in CHECKED else f"row.{name}" for name in LOG.names}
    others = [F.expr(text).alias(name) for name, text in texts.items() if name != "at"]
    return [F.try_to_timestamp("row.at").alias("at"), *others]


_KNOWN: Final = " or ".join(
    f"event = '{name}' and op in ({', '.join(map(repr, some))})" for name, some in OPERATIONS.items()
)
USABLE: Final = f"coalesce({_KNOWN}, false) and coalesce(schema, 0) >= 1 and node is not null"
"""Can a row be used, or a sum of such rows, if it has a time? As a text of `sums`."""


def fate() -> Column:
    """What becomes of a row of the log that has the right form."""
    return F.expr(
        f"case when not ({USABLE}) then 'unknown' when {is_time('at')} then 'rows' else 'untimed' end"
    )


def _own_fate() -> Column:
    return F.when(F.col("event").isNull(), "malformed").otherwise(fate())


OWN: Final = Dialect(_JSON, _own_columns, _own_fate, lambda rows: rows, compared=("tree", *COMPARED))
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
        .when(broken | _more(text), "malformed")
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


def _more(text: Column) -> Column:
    """Does more stand on a line behind its row, such as a second one, the newline between them lost? Spark
    reads the first alone. In brackets the line is a list of one, or it is not.

    Wrinkle: most rows have one `}`, at their end: to look for that costs little.
    """
    alone = F.from_json(F.concat(F.lit("["), F.btrim(text, F.lit(_BESIDE)), F.lit("]")), _ANY_ROWS)
    return (F.locate("}", text) < F.length(text)) & (F.coalesce(F.size(alone), F.lit(0)) != 1)


class Lines(NamedTuple):
    """`events` has `schema.EVENTS`, on Spark; `rolled` is the `rollup` of the events; `files`
    `accounts.FILES`; `steps` is (node, backwards, step), as `clocks.clocks` wants them."""

    events: DataFrame
    rolled: Table
    files: Table
    steps: Table


def read(spark: "SparkSession", listing: Sequence[LogFile], dialect: Dialect = OWN) -> Lines:
    """Read files of lines.

    Wrinkle: what is parsed is kept as soon as it is looked at for the first time, which is to count it. Its
    sums are made beside that, by file: so those of a file that is there twice can be left out of them.
    """
    reader = spark.read.option("lineSep", "\n").option(_LIMIT, dialect.longest)
    text = reader.text(still_there(listing))
    named = text.select(
        "value",
        files.spelt().alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.col("_metadata.file_modification_time").alias("written"),
    )
    parsed = parse(named.withColumn("place", F.monotonically_increasing_id()), dialect)
    parsed = parsed.localCheckpoint(eager=False)
    used = parsed.where(F.col("fate") == "rows")
    counts, sums = _both(_counts(parsed), rollup(_events(used, dialect), "file") if dialect is OWN else None)
    counted = query(
        _ACCOUNT, counts=counts, listed=files.listed(listing), prefix=_PREFIX, longest=dialect.longest
    )
    twins = query("select file from counted where twin is not null", counted=counted)
    if len(twins):
        used = used.join(F.broadcast(spark.createDataFrame(twins)), "file", "left_anti")
    told = query("from counts where fate = 'rows' and file not in (from twins)", counts=counts, twins=twins)
    once, again = _once(used, told)
    events = _events(once, dialect)
    if sums is None or len(again):
        events = events.localCheckpoint(eager=False)
        rolled = fetch(rollup(events))
    else:
        rolled = merged(query("from sums where file not in (from twins)", sums=sums, twins=twins))
    steps = query(
        "select node, sum(backwards)::bigint as backwards, max(step) as step from told group by node",
        told=told,
    )
    return Lines(events, rolled, files.report(counted, again), steps)


def _events(used: DataFrame, dialect: Dialect) -> DataFrame:
    return dialect.convert(used).withColumn("clock", F.expr(clock())).select(*EVENTS.names)


def _both(counts: DataFrame, sums: DataFrame | None) -> tuple[Table, Table | None]:
    """Work both out at the same time."""
    with work_beside() as pool:
        asked = pool.submit(fetch, sums) if sums is not None else None
        return fetch(counts), asked and asked.result()


def _once(used: DataFrame, told: Table) -> tuple[DataFrame, Table]:
    """Leave out lines that another file of the same node has too; only times of which two files tell are
    looked at."""
    times = files.overlapping(query("select node, file, since, until from told", told=told))
    if not len(times):
        return used, files.NONE_AGAIN
    suspects = files.of_times(used, times)
    repetitions = files.repetitions(suspects.select("node", "mark", "file")).localCheckpoint()
    if repetitions.isEmpty():
        return used, files.NONE_AGAIN
    once, again = files.without(used, repetitions)
    return once, fetch(again)


def _counts(parsed: DataFrame) -> DataFrame:
    """(file, node, fate, lines, newer, held, print_a, print_b, since, until, backwards, step): the lines of
    each node in each file, by what became of them. `held`: their bytes. `backwards`, `step`: how often a
    row is more than `JUMP` before the last one, and by how many microseconds at most."""
    newer = F.col("schema") > NEWEST if "schema" in parsed.columns else F.lit(False)
    narrow = parsed.select(
        "file", "node", "fate", "at", "block", "place", "length", "mark", newer.alias("newer")
    )
    in_file = Window.partitionBy("file", "node", "fate").orderBy("block", "place")
    step = F.lag(F.unix_micros("at")).over(in_file) - F.unix_micros("at")
    steps = narrow.withColumn("step", F.when(F.col("fate") == "rows", step))
    return steps.groupBy("file", "node", "fate").agg(
        F.count(F.lit(1)).alias("lines"),
        F.count_if(F.col("newer")).alias("newer"),
        F.sum(F.col("length") + 1).alias("held"),
        F.bit_xor("mark").alias("print_a"),
        F.sum(F.pmod("mark", F.lit(2**31))).alias("print_b"),
        F.min("at").alias("since"),
        F.max("at").alias("until"),
        F.count_if(F.col("step") > JUMP).alias("backwards"),
        F.max("step").alias("step"),
    )


_ACCOUNT: Final = """with found as (
        select file, sum(lines)::bigint as lines, sum(held)::bigint as held, bit_xor(print_a) as print_a,
            sum(print_b) as print_b,
            coalesce(sum(lines) filter (fate = 'rows'), 0) as "rows",
            coalesce(sum(lines) filter (fate = 'blank'), 0) as blank,
            coalesce(sum(lines) filter (fate = 'half'), 0) as half,
            coalesce(sum(lines) filter (fate = 'malformed'), 0) as malformed,
            coalesce(sum(lines) filter (fate = 'unknown'), 0) as unknown,
            coalesce(sum(lines) filter (fate = 'untimed'), 0) as untimed,
            coalesce(sum(newer) filter (fate = 'rows'), 0) as newer
        from counts group by file),
    judged as (
        select *, ends_with(file, '.gz') as packed, lines is null as nothing,
            (((held - told + $prefix) % 4294967296) + 4294967296) % 4294967296 > $prefix + 1 as missing
        from listed left join found using (file))
    select file, format, bytes, coalesce(lines, 0) as lines, coalesce("rows", 0)::bigint as "rows",
        coalesce(blank, 0)::bigint as blank, coalesce(half, 0)::bigint as half,
        coalesce(malformed, 0)::bigint as malformed, coalesce(unknown, 0)::bigint as unknown,
        coalesce(untimed, 0)::bigint as untimed, 0::bigint as unread, coalesce(newer, 0)::bigint as newer,
        case when bytes = 0 or (told = 0 and nothing) then null
            when packed and nothing then 'no gzip file, or damaged: nothing could be read'
            when packed and (told is null or missing) then 'cut or damaged: read as far as it goes'
            when nothing then 'nothing could be read'
            when not packed and bytes - held > $prefix then format(
                'a line of more than {:,} bytes, or cut while it was read: left out', $longest::bigint)
            end as fault,
        case when not nothing then nullif(
            first_value(file) over (partition by lines, print_a, print_b order by file), file) end as twin
    from judged"""
"""The account of each file. Its last line's newline may be missing; a file that is written to may hold more
by now. A gzip file tells at its end how many bytes it holds, modulo 2**32. `twin`: the first file, by name,
that holds the same; that one is used."""
