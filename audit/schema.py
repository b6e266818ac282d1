"""The schemas of what comes in. The advisory log's is the contract of docs/advisory-log.md, schema 2."""

from typing import Final

import pyarrow as arrow
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

NEWEST: Final = 2
"""The newest `schema` that this audit knows. A newer one has more columns; those known keep their meaning."""

_TYPES: Final = {
    "string": StringType(),
    "timestamp": TimestampType(),
    "int": IntegerType(),
    "long": LongType(),
    "boolean": BooleanType(),
}


def structure(text: str) -> StructType:
    """'name type, …' as a schema; every column may be null."""
    fields = (one.split() for one in text.split(","))
    return StructType([StructField(name, _TYPES[kind]) for name, kind in fields])


def arrow_schema(structure: StructType) -> arrow.Schema:
    """The same schema, of an Arrow table; times are in UTC, by the microsecond."""
    types = {
        "string": arrow.string(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
        "int": arrow.int32(),
        "bigint": arrow.int64(),
        "boolean": arrow.bool_(),
    }
    return arrow.schema([(field.name, types[field.dataType.simpleString()]) for field in structure])


LOG: Final = structure(
    "event string, at timestamp, tree string, node string, role string, depth int, region string, op string,"
    " kind string, destination string, peer string, direction string, cause string, origin string,"
    " bytes long, schema int, series long, seq long"
)
"""One row an event, as nodes and the simulation write it; logs of schema 1 have no `series` and `seq`."""


_MOST: Final = {"bytes": 2**32, "series": 2**53, "seq": 2**53}


def checked(column: str, of: str = "") -> str:
    """`event` or `bytes` of a row, as a text of `sums`; null where one of its numbers is none that a node
    writes. So it is no row: a single such number, of a damaged disk, would be more than all sums hold. `of`:
    how the columns' names begin."""
    known = (f"coalesce({of}{name} between 0 and {most}, true)" for name, most in _MOST.items())
    return f"case when {' and '.join(known)} then {of}{column} end"


CHECKED: Final = ("event", "bytes")
COMPARED: Final = tuple(name for name in LOG.names if name not in ("tree", "region", "depth"))
"""What is read of a row, and what two rows are compared by. Of a copy of Parquet outside its folders tree and
region are not known."""


def as_log(frame: DataFrame, *more: str) -> DataFrame:
    """The frame with exactly the columns of the log, and `more`; those of the log that it lacks are null."""
    given = set(frame.columns)
    return frame.select(
        *more,
        *(
            (F.col(field.name) if field.name in given else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in LOG
        ),
    )


EVENTS: Final = StructType(
    [*LOG.fields, StructField("file", StringType()), StructField("clock", StringType())]
)
"""A row that was taken in. `clock`: null where `at` can be true; 'unset' before the year 2000, 'ahead' more
than a day after its file was last written. What has a clock counts everywhere but in time series."""

OPERATIONS: Final = {
    "consumer": ("add", "remove"),
    "advisory": ("add", "remove", "dormant", "live"),
    "link": ("up", "down", "blocked"),
    "node": ("start", "stop"),
}
"""Which `op` belongs to which `event`; anything else is counted as unknown and not used."""
