"""The pass over the log that most tables are made from: it is summed by hour, node, neighbour and origin.

Wrinkle: `named` is in no sum. But so every value is looked at here that is looked at later; else a query in
the middle of an audit would be the first to find one that is damaged.

Wrinkle: what a row costs here is above all the width of its key. So the hour and everything of few known
values are one number while rows are summed, and are told apart again afterwards.
"""

from functools import reduce
from typing import Final

from pyarrow import Table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.queries import query
from audit.schema import NEWEST, OPERATIONS

RESYNC: Final = "resync"
"""The cause of an add that restores state."""
HOUR: Final = 3_600_000_000
"""Microseconds."""
FIRST_DAY, LAST_DAY = "0001-01-01", "9999-01-01"
"""What is not between these is no time that one can reckon with."""
_KNOWN: Final = {
    "event": ("advisory", *(event for event in OPERATIONS if event != "advisory")),
    "op": tuple(dict.fromkeys(operation for some in OPERATIONS.values() for operation in some)),
    "kind": ("queue", "topic", "domain"),
    "direction": ("up", "down", "mesh"),
    "clock": ("unset", "ahead"),
}
_OTHER: Final = 1
_BASE: Final = 16
"""Of `sort`, which holds a digit for each column of `_KNOWN`: 0 for null, 1 for what is not known, else the
value's place from 2. Then one for each of `_FLAGS`, 1 if it is so."""
_FLAGS: Final = ("rooted", "restored", "old", "newer", "timed", "named")
_PLACES: Final = ("node", "peer", "origin")
_OPEN: Final = ("kind", "direction")
"""Of these, what is not known is kept: of others the row cannot be used."""
NUMBERS: Final = (
    "numbered",
    *(f"{column}_{end}" for column in ("seq", "series", "of_tree") for end in ("least", "most")),
)
KEYS: Final = ("event", "op", "kind", "direction", *_PLACES, "rooted", "restored", "clock", "hour")


def hour_of(time: str) -> Column:
    """The hour of a time, UTC. Wrinkle: `date_trunc` reckons in time zones, row by row; this only divides."""
    return F.timestamp_micros(F.expr(f"unix_micros(`{time}`) - pmod(unix_micros(`{time}`), {HOUR})"))


def timed(time: Column | None = None) -> Column:
    """Is `time`, or else `at`, one?"""
    first, last = (F.lit(day).cast("timestamp") for day in (FIRST_DAY, LAST_DAY))
    return F.coalesce((F.col("at") if time is None else time).between(first, last), F.lit(False))


def rollup(events: DataFrame, *more: str) -> DataFrame:
    """(`KEYS`, at_node, schema, `more`, rows, bytes, newer, first, last, `NUMBERS`) of events as
    `schema.EVENTS` has them. `at_node`: the hash of the node.

    `rooted`: the node wrote them as a root. `restored`: told by a resync. `schema`: 0 where there is none,
    and of a newer one the next after `NEWEST`. `newer`: rows of a newer schema. `hour` is there also where
    the clock cannot be true. `first`, `last`: null where `at` is no time. `NUMBERS`: how many rows have a
    number, its least and most; the least and most series; and of the hashes of the trees' names.
    """
    time = F.when(timed(), F.col("at"))
    keyed = events.select(
        _sort(time).alias("sort"),
        *(F.when(_digit(name) == _OTHER, F.col(name)).alias(name) for name in _OPEN),
        *_PLACES,
        *more,
        time.alias("time"),
        "bytes",
        "series",
        "seq",
        F.when(F.col("tree").isNotNull(), F.xxhash64("tree")).alias("of_tree"),
    )
    sums = keyed.groupBy("sort", *_OPEN, *_PLACES, *more).agg(
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.count("seq").alias("numbered"),
        *(
            least_or_most(column).alias(f"{column}_{name}")
            for column in ("seq", "series", "of_tree")
            for name, least_or_most in (("least", F.min), ("most", F.max))
        ),
    )
    return _told_apart(sums, *more)


def _sort(time: Column) -> Column:
    """The hour, in microseconds, and below it a digit for each column of few values."""
    flags = (
        F.col("role") == "root",
        F.col("cause") == RESYNC,
        F.coalesce("schema", F.lit(0)) < 1,
        F.col("schema") > NEWEST,
        time.isNotNull(),
        F.octet_length("destination") >= 0,
    )
    digits = [_digit(name, _BASE**place) for place, name in enumerate(_KNOWN)]
    digits += [F.when(flag, _place(name)).otherwise(0) for flag, name in zip(flags, _FLAGS, strict=True)]
    micros = F.coalesce(F.unix_micros(time), F.lit(0))
    return reduce(Column.__add__, digits, micros - F.pmod(micros, F.lit(HOUR)))


def _place(flag: str) -> int:
    return int(_BASE ** len(_KNOWN) * 2 ** _FLAGS.index(flag))


def _digit(name: str, unit: int = 1) -> Column:
    value = F.col(name)
    digit = F.when(value.isNull(), 0)
    for place, known in enumerate(_KNOWN[name], _OTHER + 1):
        digit = digit.when(value == known, place * unit)
    return digit.otherwise(_OTHER * unit)


def _told_apart(sums: DataFrame, *more: str) -> DataFrame:
    rest = sums.withColumn("rest", F.pmod("sort", F.lit(HOUR)))
    texts = {name: _text(name, place) for place, name in enumerate(_KNOWN)}
    flags = {name: F.col("rest").bitwiseAND(_place(name)) != 0 for name in _FLAGS}
    hour = F.when(flags["timed"], F.timestamp_micros(F.col("sort") - F.col("rest")))
    schema = F.when(flags["newer"], NEWEST + 1).when(flags["old"], 0).otherwise(NEWEST)
    found = {
        **texts,
        **flags,
        "hour": hour,
        "schema": schema,
        "newer": F.when(flags["newer"], F.col("rows")).otherwise(0),
        "at_node": F.xxhash64("node"),
    }
    names = (*KEYS, "at_node", "schema", *more, "rows", "bytes", "newer", "first", "last", *NUMBERS)
    return rest.select(*(found[name].alias(name) if name in found else F.col(name) for name in names))


def merged(rolled: Table) -> Table:
    """The sums of a table without those of `more`."""
    return query(
        """select event, op, kind, direction, node, at_node, peer, origin, rooted, restored, clock, hour,
            schema, sum("rows") as "rows", sum(bytes) as bytes, sum(newer) as newer, min(first) as first,
            max(last) as last, sum(numbered) as numbered, min(columns('.*_least')), max(columns('.*_most'))
        from rolled group by all""",
        rolled=rolled,
    )


def _text(name: str, place: int) -> Column:
    """The text that a digit of `sort` stands for, or the text that was kept."""
    digit = F.floor(F.col("rest") / _BASE**place) % _BASE
    text = F.col(name) if name in _OPEN else F.lit(None).cast("string")
    for index, known in enumerate(_KNOWN[name], _OTHER + 1):
        text = F.when(digit == index, F.lit(known)).otherwise(text)
    return text
