"""ActiveMQ Classic: the advisories of `ActiveMQ.Advisory.Consumer.>` at each broker, as JSON lines.

One line an advisory, written by whoever listens at that broker:

    {"broker": "york", "at": 1763715305250, "destination": "ActiveMQ.Advisory.Consumer.Queue.prices",
     "originBrokerId": "ID:york-1", "originBrokerName": "york",
     "ConsumerInfo": {"consumerId": "ID:till-1:1:1:1", "networkSubscription": false, "brokerPath": []}}

and, when the consumer has gone, `RemoveInfo` with its `objectId` in place of `ConsumerInfo`. `broker` and
`at` (milliseconds since 1970, or ISO 8601) are added by the listener; the rest is what the message's
properties and its data structure say.

Law: a consumer that is no network subscription is a consumer of that broker. A network subscription is what a
network connector made there because of a consumer elsewhere: that broker has received an advisory. Its way is
its `brokerPath`: the first broker is the origin, the last one told it.

Law: only a coming says whether it is a network subscription, and its way. A removal whose coming was not
read, as at the beginning of a log, may be either: it is no consumer, but an advisory of unknown origin.

Wrinkle: paths have ids. The names come from all lines that are used, each of which has one broker's id beside
its name: a broker whose consumers travel has told of its own.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.lines import Dialect
from audit.rollup import timed
from audit.schema import as_log

SCHEMA: Final = (
    "broker string, at string, destination string, originBrokerId string, originBrokerName string,"
    " ConsumerInfo struct<consumerId: string, networkSubscription: boolean, brokerPath: array<string>>,"
    " RemoveInfo struct<objectId: string>"
)
BYTES: Final = 564
"""What one advisory takes on the wire, as measured; the messages do not say."""
_LATEST: Final = 253_000_000_000_000
"""Milliseconds since 1970 above which a time is none: Spark ends where it cannot reckon with them."""
_TOPICS: Final = r"^ActiveMQ\.Advisory\.Consumer\.(Queue|Topic)\.(.+)$"


def _columns() -> list[Column]:
    return [
        F.coalesce("row.broker", "row.originBrokerName").alias("node"),
        _time().alias("at"),
        F.lower(F.regexp_extract("row.destination", _TOPICS, 1)).alias("kind"),
        F.regexp_extract("row.destination", _TOPICS, 2).alias("destination"),
        F.coalesce("row.ConsumerInfo.consumerId", "row.RemoveInfo.objectId").alias("consumer"),
        F.when(F.col("row.ConsumerInfo").isNotNull(), "add").otherwise("remove").alias("op"),
        F.col("row.ConsumerInfo.networkSubscription").alias("network"),
        F.col("row.ConsumerInfo.brokerPath").alias("path"),
        F.col("row.originBrokerId").alias("broker_id"),
        F.col("row.originBrokerName").alias("broker_name"),
    ]


def _fate() -> Column:
    known = (F.col("kind") != "") & F.col("consumer").isNotNull() & F.col("node").isNotNull()
    unknown = ~F.coalesce(known, F.lit(False))
    return F.when(unknown, "unknown").when(timed(), "rows").otherwise("untimed")


def _convert(came: DataFrame) -> DataFrame:
    return _rows(_with_ways(came, _names(came)))


def _time() -> Column:
    milliseconds = F.expr("try_cast(row.at AS bigint)")
    told = F.when(milliseconds.between(-_LATEST, _LATEST), F.timestamp_millis(milliseconds))
    return F.coalesce(told, F.try_to_timestamp("row.at"))


def _names(came: DataFrame) -> DataFrame:
    """(id, name) of every broker that a line names."""
    both = came.where(F.col("broker_id").isNotNull() & F.col("broker_name").isNotNull())
    return both.groupBy(F.col("broker_id").alias("id")).agg(F.min("broker_name").alias("name"))


def _with_ways(came: DataFrame, names: DataFrame) -> DataFrame:
    """Add `event`, `origin` and `peer`; a removal has the way of the coming that it ends, if it was read."""
    adds = came.where(F.col("op") == "add")
    ways = adds.groupBy("node", "consumer").agg(
        F.max(F.coalesce("network", F.lit(False))).alias("was_network"), F.max_by("path", "at").alias("way")
    )
    placed = came.join(ways, ["node", "consumer"], "left")
    first = F.broadcast(names.select(F.col("id").alias("first"), F.col("name").alias("first_name")))
    last = F.broadcast(names.select(F.col("id").alias("last"), F.col("name").alias("last_name")))
    ends = placed.withColumn("first", F.try_element_at("way", F.lit(1))).withColumn(
        "last", F.try_element_at("way", F.lit(-1))
    )
    named = ends.join(first, "first", "left").join(last, "last", "left")
    network, own = F.col("was_network"), ~F.col("was_network")
    return named.select(
        "node",
        "at",
        "kind",
        "destination",
        "op",
        "file",
        "written",
        F.when(own, "consumer").otherwise("advisory").alias("event"),
        F.when(network, F.col("last_name")).alias("peer"),
        F.when(network, F.col("first_name")).when(own, F.col("node")).alias("origin"),
    )


def _rows(rows: DataFrame) -> DataFrame:
    named = F.concat_ws(":", "origin", "kind", "destination", "op")
    cause = F.when(F.col("origin").isNotNull(), named)
    size = F.when(F.col("event") == "advisory", F.lit(BYTES))
    given = rows.withColumn("cause", cause).withColumn("bytes", size).withColumn("schema", F.lit(1))
    given = given.withColumn("tree", F.lit("activemq"))
    return as_log(given, "file", "written")


DIALECT: Final = Dialect(SCHEMA, _columns, _fate, _convert)
