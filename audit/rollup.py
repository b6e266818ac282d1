"""The log, summed once: what most tables are made from.

Law: a log is gone through three times, here, by route (`capacity.routes`) and by cause
(`volume.consumer_events`), however many tables there are and however many rows. What is rare in a healthy
log, such as links that drop and advisories that spill, is fetched from it by itself, and only if the sums say
that it is there.

Wrinkle: what a row costs here is above all the texts of its key. Those of few known values are one number
while rows are summed, and texts again afterwards.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.schema import NEWEST, OPERATIONS

RESYNC: Final = "resync"
"""The cause of an add that restores state."""
HOUR: Final = 3_600_000_000
"""Microseconds."""
_KNOWN: Final = {
    "event": tuple(OPERATIONS),
    "op": tuple(dict.fromkeys(operation for some in OPERATIONS.values() for operation in some)),
    "kind": ("queue", "topic", "domain"),
    "direction": ("up", "down", "mesh"),
}
_OTHER: Final = 1
_BASE: Final = 16
"""Of `sort`, which holds a digit for each column of `_KNOWN`: 0 for null, 1 for what is not known, else the
value's place from 2."""
_PLACES: Final = ("node", "peer", "origin")
_FLAGS: Final = ("rooted", "restored", "clock", "hour")
KEYS: Final = (*_KNOWN, *_PLACES, *_FLAGS)


def hour_of(time: str) -> Column:
    """The hour of a time, UTC. Wrinkle: `date_trunc` reckons in time zones, row by row; this only divides."""
    return F.timestamp_micros(F.expr(f"unix_micros(`{time}`) - pmod(unix_micros(`{time}`), {HOUR})"))


def rollup(events: DataFrame, *more: str) -> DataFrame:
    """(`KEYS`, `more`, rows, bytes, newer, first, last) of events as `schema.EVENTS` has them.

    `rooted`: the node wrote them as a root. `restored`: told by a resync. `newer`: rows of a newer schema.
    `hour` is there also where the clock cannot be true.
    """
    digits = [_digit(name) * _BASE**place for place, name in enumerate(_KNOWN)]
    keyed = events.select(
        reduce(Column.__add__, digits).alias("sort"),
        *(F.when(_digit(name) == _OTHER, F.col(name)).alias(name) for name in _KNOWN),
        *_PLACES,
        F.coalesce(F.col("role") == "root", F.lit(False)).alias("rooted"),
        F.coalesce(F.col("cause") == RESYNC, F.lit(False)).alias("restored"),
        "clock",
        hour_of("at").alias("hour"),
        *more,
        "at",
        "bytes",
        (F.coalesce("schema", F.lit(NEWEST)) > NEWEST).cast("long").alias("newer"),
    )
    sums = keyed.groupBy("sort", *KEYS, *more).agg(
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        F.sum("newer").alias("newer"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
    )
    texts = [_text(name, place).alias(name) for place, name in enumerate(_KNOWN)]
    return sums.select(*texts, *_PLACES, *_FLAGS, *more, "rows", "bytes", "newer", "first", "last")


def merged(rolled: DataFrame) -> DataFrame:
    """The sums without those of `more`."""
    return rolled.groupBy(*KEYS).agg(
        *(F.sum(name).alias(name) for name in ("rows", "bytes", "newer")),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )


def _digit(name: str) -> Column:
    value = F.col(name)
    digit = F.when(value.isNull(), 0)
    for place, known in enumerate(_KNOWN[name], _OTHER + 1):
        digit = digit.when(value == known, place)
    return digit.otherwise(_OTHER)


def _text(name: str, place: int) -> Column:
    """The text that a digit of `sort` stands for, or the text that was kept."""
    digit = F.floor(F.col("sort") / _BASE**place) % _BASE
    text = F.col(name)
    for index, known in enumerate(_KNOWN[name], _OTHER + 1):
        text = F.when(digit == index, F.lit(known)).otherwise(text)
    return text
