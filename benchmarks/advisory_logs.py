"""Advisory logs of any size, written by Spark itself in SQL: a day of a chain, as its nodes would write it.

A chain of stores in regions, the first region with half of the stores (skew). Consumers come and go at the
stores from 08:00 to 20:00, each in its turn; each time is three rows, all by the rules: one at the store, one
at its region a little later, one at the root later still. Laid out as the simulation does: by tree, date and
region, each file in the order of time. The cost is the same for each row, however many.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

A_TASK: Final = 4_000_000
"""Rows that one task writes."""
_DAY: Final = "2026-03-14"
_OPENS, _OPEN_FOR = 8 * 3_600_000_000, 12 * 3_600_000_000
_DESTINATIONS: Final = 25
_ROW: Final = (
    "event string, at timestamp, node string, role string, depth int, region string, op string, kind string,"
    " destination string, peer string, direction string, cause string, origin string, bytes long, schema int"
)


class Chain(NamedTuple):
    """How many stores, in how many regions; `planted`: sideways advisories, which no healthy tree has."""

    stores: int
    regions: int
    planted: int = 0

    def region_of(self, store: int) -> int:
        return 0 if store < self.stores // 2 or self.regions == 1 else 1 + store % (self.regions - 1)


def write_sites(chain: Chain, path: Path) -> None:
    """Write the chain's table of sites."""
    lines = ["name,parent,role", "hq,,root", *(f"region-{n},hq,branch" for n in range(chain.regions))]
    lines += [f"store-{n},region-{chain.region_of(n)},leaf" for n in range(chain.stores)]
    path.write_text("\n".join(lines) + "\n")


def write_log(spark: "SparkSession", chain: Chain, rows: int, path: Path) -> int:
    """Write a log of about so many rows; return how many there are."""
    events = rows // 3
    happened = _events(spark, chain, events)
    written = _rows(happened)
    if chain.planted:
        last = F.lit(f"region-{chain.regions - 1}")
        stray = _events(spark, chain, events).where(F.col("near") != last).limit(chain.planted)
        told = _advisory(
            {"node": last, "role": "branch", "depth": 1, "peer": F.lit("hq"), "direction": "down"}, 9
        )
        written = written.unionByName(
            stray.withColumn("near", last).select(told.alias("row")).select("row.*")
        )
    whole = written.select("*", F.lit("acme").alias("tree"), F.to_date("at").alias("date"))
    ordered = whole.sortWithinPartitions("tree", "date", "region", "at")
    ordered.write.mode("overwrite").partitionBy("tree", "date", "region").parquet(str(path))
    return 3 * events + chain.planted


def _events(spark: "SparkSession", chain: Chain, events: int) -> "DataFrame":
    """(origin, near, at, op, destination, cause, delay), one row a consumer that comes or goes."""
    tasks = max(2, 3 * events // A_TASK)
    consumers = F.lit(chain.stores * _DESTINATIONS)
    others = F.lit(max(1, chain.regions - 1))
    lonely = (F.col("store") < chain.stores // 2) | F.lit(chain.regions == 1)
    micros = F.col("id") * F.lit(_OPEN_FOR) / F.lit(max(1, events)) + F.lit(_OPENS)
    return (
        spark.range(0, events, 1, tasks)
        .withColumn("consumer", F.pmod("id", consumers))
        .withColumn("store", F.pmod("consumer", F.lit(chain.stores)))
        .select(
            F.concat(F.lit("store-"), "store").alias("origin"),
            F.concat(
                F.lit("region-"), F.when(lonely, 0).otherwise(1 + F.pmod("store", others)).cast("int")
            ).alias("near"),
            F.timestamp_micros(F.unix_micros(F.lit(_DAY).cast("timestamp")) + micros.cast("long")).alias(
                "at"
            ),
            F.when(F.floor(F.col("id") / consumers) % 2 == 0, "add").otherwise("remove").alias("op"),
            F.concat(F.lit("till-"), F.floor(F.col("consumer") / chain.stores)).alias("destination"),
            F.concat_ws(":", "store", "id").alias("cause"),
            (3000 + F.pmod(F.xxhash64("id", F.lit(3)), F.lit(60_000))).alias("delay"),
        )
    )


def _rows(happened: "DataFrame") -> "DataFrame":
    at_store = _struct(
        "consumer", {"node": F.col("origin"), "role": "leaf", "depth": 2, "region": F.col("near")}, 0
    )
    at_region = _advisory(
        {"node": F.col("near"), "role": "branch", "depth": 1, "peer": F.col("origin"), "direction": "up"}, 1
    )
    at_root = _advisory(
        {"node": "hq", "role": "root", "depth": 0, "region": None, "peer": F.col("near"), "direction": "up"},
        2,
    )
    return happened.select(F.inline(F.array(at_store, at_region, at_root)))


def _advisory(values: Mapping[str, object], hops: int) -> "Column":
    return _struct("advisory", {"region": F.col("near"), "bytes": 48} | dict(values), hops)


def _struct(event: str, values: Mapping[str, object], hops: int) -> "Column":
    """One row of the log, but for tree and date. `hops`: how many delays after the event it was written."""
    shared = {
        "event": event,
        "at": F.timestamp_micros(F.unix_micros("at") + hops * F.col("delay")),
        "kind": "queue",
        "schema": 1,
        **{name: F.col(name) for name in ("op", "destination", "cause", "origin")},
    }
    given = {**shared, **values}
    cells = []
    for name, kind in (field.split() for field in _ROW.split(", ")):
        value = given.get(name)
        column = value if not (value is None or isinstance(value, str | int)) else F.lit(value)
        cells.append(column.cast(kind).alias(name))  # type: ignore[attr-defined]
    return F.struct(*cells)
