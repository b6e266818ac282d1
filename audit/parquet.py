"""Reads advisory logs in Parquet; `tree` and `region`, and any other column, may stand in the files' path.

Wrinkle: Spark can read a damaged file as far as it goes, but does not tell. Rows are compared with the files'
footers, which cost nearly nothing to read; only if their sums differ, or a query fails, is each file looked
at by itself.

Wrinkle: a copy outside its folders lacks what stands in the path. So what `tree` and `region` say does not
count when two rows are compared, and of files that hold the same the one is used whose path says most.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as arrow
from py4j.protocol import Py4JError
from pyarrow import Table
from pyarrow.parquet import read_metadata
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit import files, session
from audit.clocks import clock, planned, replanned
from audit.direct import SOURCE, Direct, direct
from audit.lines import USABLE, fate
from audit.listing import LogFile, partitions
from audit.queries import query, rows
from audit.rollup import merged, sums
from audit.schema import CHECKED, COMPARED, EVENTS, LOG, NEWEST, checked
from audit.session import fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINES: Final = arrow.schema([("file", arrow.string()), ("lines", arrow.int64())])
_AT_ONCE: Final = 4
"""Files whose footers are read at the same time."""


class Tables(NamedTuple):
    """`events` has `schema.EVENTS`, on Spark; `files` `accounts.FILES`; `rolled` is the `rollup` of the
    events. `direct`: where they can be read so."""

    events: DataFrame
    rolled: Table
    files: Table
    direct: Direct | None = None


class _Damaged(Exception):
    """Fewer rows were read than there are, and nobody has asked yet of which file."""


class _Log(NamedTuple):
    """The files of a log, with the lines that each has by its footer. `kept`: what could be read of those
    that are `damaged`. `asked`: these are known.

    Wrinkle: how far Spark reads a damaged file depends on the columns and rows that a query wants. So what
    can be read of it is read once, and kept.
    """

    spark: "SparkSession"
    listing: Sequence[LogFile]
    footers: Table
    asked: bool = False
    damaged: frozenset[str] = frozenset()
    kept: DataFrame | None = None

    def lines(self) -> dict[str, int]:
        """Of each file, by its footer."""
        return dict(zip(*self.footers.select(["file", "lines"]).to_pydict().values(), strict=True))

    def rows(self, listing: Sequence[LogFile]) -> DataFrame:
        """All rows of these files."""
        if self.kept is None:
            return _open(self.spark, listing)
        wanted = self.damaged & {file.uri for file in listing}
        kept = self.kept.where(files.spelt("file").isin(sorted(wanted)))
        whole = [file for file in listing if file.uri not in wanted]
        return _open(self.spark, whole).unionByName(kept) if whole else kept


def read(spark: "SparkSession", listing: Sequence[LogFile]) -> Tables:
    """Read files of Parquet."""
    log = _Log(spark, listing, _footers(spark, listing))
    try:
        return _read(log)
    except (_Damaged, Py4JError, PySparkException) as error:
        apart = _apart(log)
        if not (apart.damaged or isinstance(error, _Damaged)):
            raise
    return _read(apart)


def _read(log: _Log) -> Tables:
    """Raises `_Damaged`.

    Wrinkle: where all rows are good and all clocks right, as they mostly are, no later pass asks again.
    """
    twins = _twins(log)
    used = [file for file in log.listing if file.uri not in twins]
    frame = log.rows(used)
    due = sum(count for file, count in log.lines().items() if file not in twins)
    if not log.asked and (found := _directly(log, frame, used, due, twins)):
        return found
    summed = _summed(frame, used)
    told = _sums(summed)
    if told["read"] != due and not log.asked:
        raise _Damaged
    whole = told["good"] == due
    fates = _all_good(log.footers) if whole and not told["newer"] else _fates(log.rows(log.listing))
    once, again, summed = _once(frame if whole else frame.where(fate() == "rows"), summed, used)
    summed = query("from summed where good", summed=summed)
    since = planned(summed) if told["ahead"] else None
    rolled = merged(replanned(summed, since) if since else summed)
    events = _events(once, since, clocked=told["clocks"] > 0)
    return Tables(events, rolled, files.report(_account(log, fates, twins), again))


def _directly(
    log: _Log, frame: DataFrame, used: Sequence[LogFile], due: int, twins: Mapping[str, str]
) -> Tables | None:
    """The same, if all rows are good, of this version, there once, and all clocks right."""
    files_here = direct(log.spark, used)
    if files_here is None:
        return None
    try:
        summed = _judged(files_here.by_file(sums(SOURCE)))
    except (Py4JError, PySparkException):
        return None
    told = _sums(summed)
    if told["read"] != due or told["good"] != due or told["newer"] or told["clocks"]:
        return None
    if len(_once(frame, summed, used)[1]):
        return None
    counted = _account(log, _all_good(log.footers), twins)
    return Tables(_events(frame, None, clocked=False), merged(summed), files.report(counted), files_here)


def _account(log: _Log, fates: Table, twins: Mapping[str, str]) -> Table:
    listed = files.listed(log.listing)
    return query(_ACCOUNT, listed=listed, footers=log.footers, fates=fates, twins=_as_table(twins))


def _as_table(twins: Mapping[str, str]) -> Table:
    return Table.from_pydict({"file": list(twins), "twin": list(twins.values())}, _TWINS)


_TWINS: Final = arrow.schema([("file", arrow.string()), ("twin", arrow.string())])
_ACCOUNT: Final = """select file, format, bytes, coalesce(lines, 0) as lines, coalesce("rows", 0) as "rows",
        0::bigint as blank, 0::bigint as half, 0::bigint as malformed, coalesce(unknown, 0) as unknown,
        coalesce(untimed, 0) as untimed, coalesce(lines - coalesce(read, 0), 0) as unread,
        coalesce(newer, 0) as newer, twin,
        case when lines is null then 'nothing in it, or no Parquet file: nothing could be read'
            when lines != coalesce(read, 0) then 'damaged, or columns of other types: read as far as it goes'
            end as fault
    from listed left join footers using (file) left join fates using (file) left join twins using (file)"""


def _apart(log: _Log) -> _Log:
    """With the damaged files apart. Wrinkle: some damage ends every query that reads many rows at once; and a
    frame that was planned once stays as it was planned."""
    looked = F.pmod(F.xxhash64(*COMPARED), F.lit(2)) == 0
    counts = _by_file(_open(log.spark, log.listing), (F.count_if(looked) + F.count_if(~looked)).alias("read"))
    try:
        read = fetch(counts)
    except (Py4JError, PySparkException):
        with session.row_by_row(log.spark):
            read = fetch(counts.select("*"))
    short = query(
        "select file from footers left join read using (file) where lines != coalesce(read, 0)",
        footers=log.footers,
        read=read,
    )
    damaged = frozenset(short.column(0).to_pylist())
    with session.row_by_row(log.spark):
        some = [file for file in log.listing if file.uri in damaged]
        kept = _open(log.spark, some).localCheckpoint() if some else None
    return log._replace(asked=True, damaged=damaged, kept=kept)


def _sums(summed: Table) -> dict[str, int]:
    """(good, newer, clocks, ahead, read): rows that can be used; of these, those of a newer schema, with a
    wrong clock, and with one that is ahead; and how many rows were read."""
    found = query(
        """select coalesce(sum("rows") filter (good), 0) as good,
            coalesce(sum("rows") filter (good and newer > 0), 0) as newer,
            coalesce(sum("rows") filter (good and clock is not null), 0) as clocks,
            coalesce(sum("rows") filter (good and clock = 'ahead'), 0) as ahead,
            coalesce(sum("rows"), 0) as read from summed""",
        summed=summed,
    )
    return {name: int(count) for name, count in rows(found)[0].items()}


def _footers(spark: "SparkSession", listing: Sequence[LogFile]) -> Table:
    """(file, lines). Those of this machine are read here, without a job of Spark's; Spark is asked for the
    others, and for what could not be read here."""
    near = [file for file in listing if file.path.startswith("file:///")]
    with ThreadPoolExecutor(_AT_ONCE, "footers") as pool:
        counts = zip(near, pool.map(_lines_of, near), strict=True)
        told = {file: count for file, count in counts if count is not None}
    some = {file.uri: count for file, count in told.items() if count}  # Spark tells of no file without a row
    read_here = Table.from_pydict({"file": list(some), "lines": list(some.values())}, _LINES)
    others = [file for file in listing if file not in told]
    return arrow.concat_tables([read_here, *_footers_by_spark(spark, others)]) if others else read_here


def _footers_by_spark(spark: "SparkSession", listing: Sequence[LogFile]) -> list[Table]:
    """Wrinkle: a row is counted by its file's size where no other file has it; to look at the file's name
    costs several times as much."""
    alike, unlike = _by_size(listing)
    count = F.count(F.lit(1)).alias("lines")
    parts = [fetch(_by_file(_open(spark, alike), count).select("file", "lines"))] if alike else []
    if unlike:
        counted = fetch(_open(spark, unlike).groupBy("size").agg(count))
        known = files.listed(unlike)
        parts.append(
            query("select file, lines from known join counted on bytes = size", known=known, counted=counted)
        )
    return parts


def _lines_of(file: LogFile) -> int | None:
    """Of a file of this machine, as its footer tells; None if that cannot be read here."""
    try:
        return int(read_metadata(file.path.removeprefix("file://")).num_rows)
    except (arrow.ArrowException, OSError):
        return None


def _by_size(listing: Sequence[LogFile]) -> tuple[list[LogFile], list[LogFile]]:
    """The files that have the size of another, and those that have not."""
    sizes = Counter(file.bytes for file in listing)
    alike = [file for file in listing if sizes[file.bytes] > 1]
    return alike, [file for file in listing if sizes[file.bytes] == 1]


def _open(spark: "SparkSession", listing: Sequence[LogFile]) -> DataFrame:
    """All rows, with their file as Spark spells it, and when it was written. Columns of the log that a file
    lacks are null; `name=value` folders count.

    Wrinkle: Spark leaves out a file that has not the same such folders as the others it reads with it; and a
    reader keeps what it was told once, so that each has its own.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in listing:
        groups.setdefault(partitions(file.path), []).append(file.pattern)
    parts = [
        spark.read.schema(LOG).options(**({"basePath": base[0]} if base else {})).parquet(*paths)
        for base, paths in groups.items()
    ]
    more = (
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_modification_time").alias("written"),
        F.col("_metadata.file_size").alias("size"),
    )
    named = [part.select(*LOG.names, *more) for part in parts]
    numbers = {name: F.expr(checked(name)) for name in CHECKED}
    whole = named[0]
    for part in named[1:]:
        whole = whole.unionByName(part)
    return whole.withColumns(numbers)


def _events(frame: DataFrame, since: datetime | None, *, clocked: bool) -> DataFrame:
    wrong = F.expr(clock(since) if clocked else "cast(null as string)")
    return frame.withColumns({"clock": wrong, "file": files.spelt("file")}).select(*EVENTS.names)


def _summed(frame: DataFrame, listing: Sequence[LogFile]) -> Table:
    """The `rollup` of rows by file, also of those that cannot be used, and which are `good`."""
    source = F.xxhash64("file") if _by_size(listing)[0] else F.col("size")
    keyed = frame.withColumns({"clock": F.expr(clock()), SOURCE: source})
    return _judged(sums(SOURCE).by_spark(keyed))


def _judged(summed: DataFrame) -> Table:
    good = f'{USABLE} and "first" is not null as good'
    return query(f"select *, {good} from summed", summed=fetch(summed))  # noqa: S608


def _by_file(frame: DataFrame, *sums: Column) -> DataFrame:
    """Wrinkle: a file's name is made readable once a file, not once a row."""
    return frame.groupBy("file").agg(*sums).withColumn("file", files.spelt("file"))


def _all_good(footers: Table) -> Table:
    """What `_fates` says where every line of every file is a row."""
    return query(
        """select file, lines as read, lines as "rows", 0 as unknown, 0 as untimed, 0 as newer
        from footers""",
        footers=footers,
    )


def _fates(frame: DataFrame) -> Table:
    judged = frame.withColumn("fate", fate())
    return fetch(
        _by_file(
            judged,
            F.count(F.lit(1)).alias("read"),
            *(F.count_if(F.col("fate") == one).alias(one) for one in ("rows", "unknown", "untimed")),
            F.count_if((F.col("fate") == "rows") & (F.col("schema") > NEWEST)).alias("newer"),
        )
    )


def _once(frame: DataFrame, summed: Table, listing: Sequence[LogFile]) -> tuple[DataFrame, Table, Table]:
    """Leave out rows that another file of the same node has too; only times of which two files tell are
    looked at, of which the sums know. And (file, again), and the sums of what is left."""
    spans = query(
        """select node, source as file, min(first) as since, max(last) as until from summed where good
        group by node, source""",
        summed=summed,
    )
    times = files.overlapping(spans)
    if not len(times):
        return frame, files.NONE_AGAIN, summed
    mark = F.xxhash64(*COMPARED).alias("mark")
    suspects = files.of_times(files.skipping(frame, times), times)
    repetitions = files.repetitions(suspects.select("node", mark, "file")).localCheckpoint()
    if repetitions.isEmpty():
        return frame, files.NONE_AGAIN, summed
    once, repeats = files.without(frame.withColumn("mark", mark), repetitions)
    again = fetch(repeats.withColumn("file", files.spelt("file")))
    return once, again, _summed(once, listing)


def _twins(log: _Log) -> dict[str, str]:
    """Files that hold the same as another, and which; only files of one size and as many lines can."""
    lines = log.lines()
    pairs = Counter((file.bytes, lines.get(file.uri)) for file in log.listing)
    alike = [file for file in log.listing if pairs[file.bytes, lines.get(file.uri)] > 1]
    if not alike:
        return {}
    prints = fetch(
        _by_file(
            log.rows(alike).withColumn("mark", F.xxhash64(*COMPARED)),
            F.bit_xor("mark").alias("print_a"),
            F.sum(F.pmod("mark", F.lit(2**31))).alias("print_b"),
        )
    )
    found = rows(query("from prints join footers using (file)", prints=prints, footers=log.footers))
    first: dict[tuple[int, int, int], str] = {}
    twins: dict[str, str] = {}
    for row in sorted(found, key=lambda row: _most_said(row["file"])):
        before = first.setdefault((row["lines"], row["print_a"], row["print_b"]), row["file"])
        if before != row["file"]:
            twins[row["file"]] = before
    return twins


def _most_said(file: str) -> tuple[int, str]:
    return -sum("=" in folder for folder in file.split("/")[:-1]), file
