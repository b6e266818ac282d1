"""NATS: snapshots of each server's `/leafz?subs=1`, with the server's own name added as `server`.

    curl -s localhost:8222/leafz?subs=1 | jq -c '. + {server: "york"}' >> leafz.jsonl

Law: what a server has from a leaf connection is what the other end has told it. A subject that a snapshot
has, and the one before it from the same server had not, was added between them; one that is gone was
removed. So what came and went between two snapshots is not seen, and times are those of the snapshots.

Law: a subject's origin is the one server that tells it and is told it by nobody. Where several are, as with
readers at several sites, the origin is not known, and the advisory cannot be judged.

Wrinkle: subjects that begin with `$` are the servers' own. A queue group shows like any other interest.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit.lines import Dialect
from audit.rollup import timed
from audit.schema import as_log

SCHEMA: Final = (
    "server string, server_id string, now string,"
    " leafs array<struct<name: string, is_spoke: boolean, account: string, subscriptions_list:"
    " array<string>>>"
)
BYTES: Final = 39
"""What one interest takes on the wire, as measured; the snapshots do not say."""


def _columns() -> list[Column]:
    return [
        F.coalesce("row.server", "row.server_id").alias("node"),
        F.try_to_timestamp("row.now").alias("at"),
        F.col("row.leafs").alias("leafs"),
    ]


def _fate() -> Column:
    unknown = F.col("node").isNull() | F.col("leafs").isNull()
    return F.when(unknown, "unknown").when(timed(), "rows").otherwise("untimed")


def _convert(snapshots: DataFrame) -> DataFrame:
    in_time = Window.partitionBy("node").orderBy("at", "file")
    taken = snapshots.withColumn("turn", F.row_number().over(in_time))
    told = _told(taken)
    changes = _changes(told, taken.select("node", "turn", "at", "file", "written"))
    return _rows(changes.join(_origins(told), "destination", "left"))


def _told(taken: DataFrame) -> DataFrame:
    """(node, turn, peer, direction, destination): what each snapshot has.

    Wrinkle: columns that a list stands in are copied with each of its subjects; so it has one to itself.
    """
    leafs = taken.select("node", "turn", F.explode("leafs").alias("leaf"))
    way = F.when(F.col("leaf.is_spoke"), "down").otherwise("up").alias("direction")
    peer, listed = F.col("leaf.name").alias("peer"), F.col("leaf.subscriptions_list").alias("subjects")
    ends = leafs.select("node", "turn", peer, way, listed)
    subjects = ends.select("node", "turn", "peer", "direction", F.explode("subjects").alias("destination"))
    return subjects.where(~F.startswith("destination", F.lit("$"))).distinct()


def _changes(told: DataFrame, turns: DataFrame) -> DataFrame:
    """What was not there a snapshot before was added; what is not there a snapshot later, is removed then."""
    key = ["node", "peer", "direction", "destination"]
    before = told.select(*key, (F.col("turn") + 1).alias("turn"))
    added = told.join(before, [*key, "turn"], "left_anti").withColumn("op", F.lit("add"))
    gone = before.join(told, [*key, "turn"], "left_anti").withColumn("op", F.lit("remove"))
    return added.unionByName(gone).join(turns, ["node", "turn"])


def _origins(told: DataFrame) -> DataFrame:
    """(destination, origin), where one server alone tells what nobody tells it."""
    tellers = told.select("destination", F.col("peer").alias("node")).distinct()
    hearers = told.select("destination", "node").distinct()
    first = tellers.join(hearers, ["destination", "node"], "left_anti")
    counted = first.groupBy("destination").agg(F.count(F.lit(1)).alias("n"), F.first("node").alias("origin"))
    return counted.where(F.col("n") == 1).select("destination", "origin")


def _rows(changes: DataFrame) -> DataFrame:
    given = changes.select(
        "*",
        F.lit("advisory").alias("event"),
        F.lit("nats").alias("tree"),
        F.lit("topic").alias("kind"),
        F.concat_ws(":", "origin", "destination", "op").alias("cause"),
        F.lit(BYTES).cast("long").alias("bytes"),
        F.lit(1).alias("schema"),
    )
    return as_log(given, "file", "written")


LONGEST: Final = 64 * 1024 * 1024
"""A snapshot names every subject of every leaf connection."""
DIALECT: Final = Dialect(SCHEMA, _columns, _fate, _convert, LONGEST)
