"""The pass over the log that most tables are made from: it is summed by hour, node, neighbour and origin.

Wrinkle: `named` is in no sum. But so every value is looked at here that is looked at later; else a query in
the middle of an audit would be the first to find one that is damaged.

Wrinkle: what a row costs here is above all the width of its key. So the hour and everything of few known
values are one number while rows are summed, and are told apart again afterwards.
"""

from typing import Final

from pyarrow import Table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.queries import query
from audit.schema import NEWEST, OPERATIONS
from audit.sums import Sums

RESYNC: Final = "resync"
"""The cause of an add that restores state."""
HOUR: Final = 3_600_000_000
"""Microseconds."""
FIRST_DAY, LAST_DAY = -62_135_596_800_000_000, 253_370_764_800_000_000
"""The first of year 1 and of year 9999, in microseconds. What is not between these is no time that one can
reckon with."""
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


def hour_of(micros: str) -> str:
    """The hour of a time, UTC, as a text; both in microseconds. Wrinkle: `date_trunc` reckons in time zones,
    row by row; this only divides."""
    return f"({micros} - pmod({micros}, {HOUR}))"


def is_time(time: str = "log.at") -> str:
    """Is it one? As a text."""
    return f"coalesce(unix_micros({time}) between {FIRST_DAY} and {LAST_DAY}, false)"


def timed() -> Column:
    """Is `at` a time?"""
    return F.expr(is_time("at"))


def rollup(events: DataFrame, *more: str) -> DataFrame:
    """`sums` of events as `schema.EVENTS` has them."""
    return sums(*more).by_spark(events)


def sums(*more: str) -> Sums:
    """(`KEYS`, at_node, schema, `more`, rows, bytes, newer, first, last, `NUMBERS`). `at_node`: the hash of
    the node.

    `rooted`: the node wrote them as a root. `restored`: told by a resync. `schema`: 0 where there is none,
    and of a newer one the next after `NEWEST`. `newer`: rows of a newer schema. `hour` is there also where
    the clock cannot be true. `first`, `last`: null where `at` is no time. `NUMBERS`: how many rows have a
    number, its least and most; the least and most series; and of the hashes of the trees' names.
    """
    columns = {
        "sort": _sort(),
        **{name: f"case when {_digit(name)} = {_OTHER} then {name} end" for name in _OPEN},
        **{name: name for name in (*_PLACES, *more, "bytes", "series", "seq")},
        "time": f"case when {is_time()} then log.at end",
        "of_tree": "case when tree is not null then xxhash64(tree) end",
    }
    found = {
        "rows": "count(1)",
        "bytes": "cast(coalesce(sum(bytes), 0) as bigint)",
        "first": "min(time)",
        "last": "max(time)",
        "numbered": "count(seq)",
        **{
            f"{column}_{name}": f"{least_or_most}({column})"
            for column in ("seq", "series", "of_tree")
            for name, least_or_most in (("least", "min"), ("most", "max"))
        },
    }
    return Sums(columns, ("sort", *_OPEN, *_PLACES, *more), found, then=_told_apart(*more))


def _sort() -> str:
    """The hour, in microseconds, and below it a digit for each column of few values."""
    flags = (
        "role = 'root'",
        f"cause = '{RESYNC}'",
        "coalesce(schema, 0) < 1",
        f"schema > {NEWEST}",
        is_time(),
        "destination >= ''",
    )
    digits = [_digit(name, _BASE**place) for place, name in enumerate(_KNOWN)]
    bits = (
        f"case when {flag} then {_place(name)} else 0 end" for flag, name in zip(flags, _FLAGS, strict=True)
    )
    micros = f"case when {is_time()} then unix_micros(log.at) else 0 end"
    return " + ".join((hour_of(micros), *digits, *bits))


def _place(flag: str) -> int:
    return int(_BASE ** len(_KNOWN) * 2 ** _FLAGS.index(flag))


def _digit(name: str, unit: int = 1) -> str:
    known = (
        f"when {name} = '{value}' then {place * unit}" for place, value in enumerate(_KNOWN[name], _OTHER + 1)
    )
    return f"case when {name} is null then 0 {' '.join(known)} else {_OTHER * unit} end"


def _told_apart(*more: str) -> dict[str, str]:
    flags = {name: f"(pmod(sort, {HOUR}) & {_place(name)}) != 0" for name in _FLAGS}
    newer = flags["newer"]
    hour = f"case when {flags['timed']} then timestamp_micros(sort - pmod(sort, {HOUR})) end"
    found = {
        **{name: _text(name, place) for place, name in enumerate(_KNOWN)},
        **flags,
        "hour": hour,
        "schema": f"case when {newer} then {NEWEST + 1} when {flags['old']} then 0 else {NEWEST} end",
        "newer": f"case when {newer} then rows else 0 end",
        "at_node": "xxhash64(node)",
    }
    names = (*KEYS, "at_node", "schema", *more, "rows", "bytes", "newer", "first", "last", *NUMBERS)
    return {name: found.get(name, name) for name in names}


def merged(rolled: Table) -> Table:
    """The sums of a table without those of `more`."""
    return query(
        """select event, op, kind, direction, node, at_node, peer, origin, rooted, restored, clock, hour,
            schema, sum("rows") as "rows", sum(bytes) as bytes, sum(newer) as newer, min(first) as first,
            max(last) as last, sum(numbered) as numbered, min(columns('.*_least')), max(columns('.*_most'))
        from rolled group by all""",
        rolled=rolled,
    )


def _text(name: str, place: int) -> str:
    """The text that a digit of `sort` stands for, or the text that was kept."""
    kept = name if name in _OPEN else "cast(null as string)"
    known = (f"when {digit} then '{text}'" for digit, text in enumerate(_KNOWN[name], _OTHER + 1))
    return f"case shiftright(pmod(sort, {HOUR}), {4 * place}) & {_BASE - 1} {' '.join(known)} else {kept} end"
