"""What costs and brings nothing: flapping consumers and links, storms, resyncs, unused routes, cut-off
subtrees."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from audit.told import CONSUMER_KINDS, held, of_routes, said

FLAPS: Final = 3
"""Comings of one consumer, or downs of one link, within an hour, from which it flaps."""
STORM_FACTOR: Final = 10.0
STORM_LEAST: Final = 100
"""A storm: an hour with so many times a node's own median, and at least so many advisories."""
ENDING_S: Final = 600
"""Seconds after the loss of its parent within which a node that stops was not cut off."""
_ENDING_US: Final = ENDING_S * 1_000_000


def flapping_consumers(hours: DataFrame, flaps: int = FLAPS) -> DataFrame:
    """(node, kind, destination, came, went, worst_hour, most_in_an_hour): consumers that come and go.

    `hours`: by `volume.consumer_hours`.
    """
    worst = F.max_by("hour", F.least("came", "went")).alias("worst_hour")
    most = F.max(F.least("came", "went")).alias("most_in_an_hour")
    return (
        hours.groupBy("node", "kind", "destination")
        .agg(F.sum("came").alias("came"), F.sum("went").alias("went"), worst, most)
        .where(F.col("most_in_an_hour") >= flaps)
        .orderBy(F.desc("most_in_an_hour"), "node", "kind", "destination")
    )


def storms(cube: DataFrame, factor: float = STORM_FACTOR, least: int = STORM_LEAST) -> DataFrame:
    """(node, hour, advisories, baseline, times): hours far above the node's own median of hours with any."""
    hourly = (
        cube.where(F.col("hour").isNotNull())
        .groupBy("node", "hour")
        .agg(F.sum("advisories").alias("advisories"))
    )
    usual = hourly.groupBy("node").agg(F.percentile("advisories", 0.5).alias("baseline"))
    times = F.round(F.col("advisories") / F.col("baseline"), 1)
    return (
        hourly.join(usual, "node")
        .withColumn("times", times)
        .where((F.col("advisories") >= least) & (F.col("times") >= factor))
        .select("node", "hour", "advisories", "baseline", "times")
        .orderBy(F.desc("advisories"), "node", "hour")
    )


def links(rolled: DataFrame, flaps: int = FLAPS) -> DataFrame:
    """Links by how they held: (node, peer, direction, ups, downs, blocked, most_downs_in_an_hour, flaps)."""
    hourly = (
        rolled.where(F.col("event") == "link")
        .groupBy("node", "peer", "direction", "hour")
        .agg(
            *(
                F.sum(F.when(F.col("op") == op, F.col("rows")).otherwise(0)).alias(name)
                for op, name in (("up", "ups"), ("down", "downs"), ("blocked", "blocked"))
            )
        )
    )
    return (
        hourly.groupBy("node", "peer", "direction")
        .agg(
            *(F.sum(name).alias(name) for name in ("ups", "downs", "blocked")),
            F.max("downs").alias("most_downs_in_an_hour"),
        )
        .withColumn("flaps", F.col("most_downs_in_an_hour") >= flaps)
        .orderBy(F.desc("downs"), "node", "peer", "direction")
    )


def resyncs(cube: DataFrame) -> DataFrame:
    """What restoring cost where: (node, peer, direction, advisories, bytes, consumer_advisories), most
    first."""
    consumer = F.when(F.col("kind").isin(*CONSUMER_KINDS), F.col("advisories")).otherwise(0)
    return (
        cube.where(F.col("restored"))
        .groupBy("node", "peer", "direction")
        .agg(
            F.sum("advisories").alias("advisories"),
            F.sum("bytes").alias("bytes"),
            F.sum(consumer).alias("consumer_advisories"),
        )
        .orderBy(F.desc("bytes"), "node", "peer", "direction")
    )


def cut_off(events: DataFrame, rolled: DataFrame, nodes: DataFrame) -> DataFrame:
    """Nodes that had lost their parent, with how many are below. Of `events` only links matter, and starts
    and stops of nodes.

    (node, parent, below, downs, seconds, longest_s, since): `since` is when the link went, where it was still
    down, and the node not stopped, when the logs end; these seconds count up to that end. Where the parent is
    a mesh, a node is cut off while it has lost its links to all of it.

    Law: a node that has stopped in good order is not cut off. If it stops within `ENDING_S` after it has lost
    its parent, both went, or it went itself: that does not count at all. If later, it was cut off until then.
    """
    timed = events.where(F.col("clock").isNull())
    links = timed.where((F.col("event") == "link") & F.col("op").isin("up", "down"))
    ends = rolled.where(F.col("clock").isNull()).agg(F.max("last").alias("end"))
    places = F.broadcast(nodes.select("node", "place"))
    placed = _seen_above(links).join(places, "node", "left").withColumn("parent", F.coalesce("place", "node"))
    spans = _spans(placed).join(F.broadcast(ends)).join(_stops(timed), "peer", "left")
    below = F.broadcast(nodes.select(F.col("node").alias("peer"), "below"))
    return (
        _without_endings(spans)
        .groupBy("peer", "parent")
        .agg(
            F.count(F.lit(1)).alias("downs"),
            (F.sum("us") / 1e6).alias("seconds"),
            (F.max("us") / 1e6).alias("longest_s"),
            F.max(F.when(F.col("open"), F.col("at"))).alias("since"),
        )
        .join(below, "peer", "left")
        .select(F.col("peer").alias("node"), "parent", "below", "downs", "seconds", "longest_s", "since")
        .orderBy(F.desc("seconds"), "node", "parent")
    )


def _seen_above(links: DataFrame) -> DataFrame:
    """(node, peer, op, at): links with children, as `node` wrote them down. Wrinkle: a node that was killed
    wrote no `down`. So where the child lost a link after that had come up here for the last time, its row
    counts."""
    above = links.where(F.col("direction") == "up").select("node", "peer", "op", "at")
    below = links.where(F.col("direction") == "down")
    below = below.select(F.col("peer").alias("node"), F.col("node").alias("peer"), "op", "at")
    lost = _last(below, "node", "peer").where(F.col("op") == "down")
    up = _last(above, "node", "peer").where(F.col("op") == "up").withColumnRenamed("at", "up_at").drop("op")
    unwritten = lost.join(up, ["node", "peer"]).where(F.col("at") > F.col("up_at"))
    return above.unionByName(unwritten.select("node", "peer", "op", "at"))


def _last(events: DataFrame, *keys: str) -> DataFrame:
    """(`keys`, op, at): what was said last of each."""
    return events.groupBy(*keys).agg(F.max_by("op", "at").alias("op"), F.max("at").alias("at"))


def _spans(placed: DataFrame) -> DataFrame:
    """(parent, peer, at, next, last_up): from when a child had no link with its parent until when, or until
    it had one with another; null = to the end. `last_up`: when it last got one."""
    child, came = Window.partitionBy("parent", "peer"), F.when(F.col("op") == "up", F.col("at"))
    later = Window.partitionBy("peer").orderBy("at", "node").rowsBetween(1, Window.unboundedFollowing)
    steps = _lines_up(placed).withColumns(
        {
            "next": F.least(F.lead("at").over(child.orderBy("at", "node")), F.min(came).over(later)),
            "last_up": F.max(came).over(child),
        }
    )
    alone = (F.col("op") == "down") & (F.col("lines") <= 0)
    return steps.where(alone).select("parent", "peer", "at", "next", "last_up")


def _without_endings(spans: DataFrame) -> DataFrame:
    """The spans with how many `us` they lasted, and whether they are `open` when the logs end; without those
    in which the child only stopped.

    Wrinkle: the child's log may be older than the parent's. So a stop does not count if the link came up
    after it.
    """
    earliest = F.coalesce("last_up", F.timestamp_micros(F.unix_micros("at") - _ENDING_US))
    ends_it = F.col("next").isNull() & (F.col("stopped") > earliest)
    lasting = spans.withColumn("stopped", F.when(ends_it, F.col("stopped"))).withColumns(
        {
            "us": F.unix_micros(F.coalesce("next", "stopped", "end")) - F.unix_micros("at"),
            "open": F.coalesce("next", "stopped").isNull(),
        }
    )
    return lasting.where(F.col("stopped").isNull() | (F.col("us") > _ENDING_US))


def _stops(timed: DataFrame) -> DataFrame:
    """(peer, stopped): nodes whose last word is that they stop."""
    stopped = _last(timed.where(F.col("event") == "node"), "node").where(F.col("op") == "stop")
    return stopped.select(F.col("node").alias("peer"), F.col("at").alias("stopped"))


def _lines_up(placed: DataFrame) -> DataFrame:
    """With `lines`: how many links the child has with nodes of `parent` after each of these events. One that
    is first seen to go down was up before."""
    line = Window.partitionBy("parent", "peer", "node").orderBy("at")
    child = Window.partitionBy("parent", "peer")
    until_now = child.orderBy("at", "node").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    up, before = (F.col("op") == "up").cast("int"), F.lag("op").over(line)
    was_up = F.coalesce(before == "up", F.col("op") == "down").cast("int")
    first = (before.isNull() & (F.col("op") == "down")).cast("int")
    steps = placed.withColumns({"step": up - was_up, "first": first})
    return steps.withColumn("lines", F.sum("first").over(child) + F.sum("step").over(until_now))


def held_routes(events: DataFrame) -> DataFrame:
    """Routes that each node had at any time of its log: (node, kind, destination, peer, gone); no peer =
    local, `gone`: when it went, null = it stood at the log's end."""
    told, local = (F.col("event") == "advisory") & of_routes(), F.col("event") == "consumer"
    peer = F.when(told, F.col("peer")).alias("peer")
    rows = events.where(told | local).select("node", "kind", "destination", peer, said().alias("said"))
    route = "node", "kind", "destination", "peer"
    last = rows.groupBy(*route).agg(F.max("said").alias("said"))
    return last.select(
        *route, F.when(held() == 0, F.timestamp_micros(F.floor(F.col("said") / 2))).alias("gone")
    )


def unused_routes(routes: DataFrame, usage: DataFrame) -> DataFrame:
    """Routes held that no message used, by node: (node, held, unused, share, examples).

    `routes`: by `held_routes`. `usage`: (node, kind, destination, messages, since, whole), what each node saw
    in the window that begins with its first `since`; a destination that it does not list saw none. Only nodes
    that `usage` knows are judged, on the routes that did not go before that; of one whose list is not
    `whole`, nobody knows.
    """
    seen = usage.groupBy("node", "kind", "destination").agg(F.sum("messages").alias("messages"))
    counted = usage.groupBy("node").agg(F.min("since").alias("since"), F.bool_and("whole").alias("whole"))
    window = F.col("gone").isNull() | F.col("since").isNull() | (F.col("gone") >= F.col("since"))
    keyed = (
        routes.join(counted, "node")
        .where(window)
        .select("node", "kind", "destination", F.coalesce("whole", F.lit(True)).alias("whole"))
        .distinct()
        .join(seen, ["node", "kind", "destination"], "left")
    )
    unused = F.col("whole") & (F.coalesce("messages", F.lit(0)) == 0)
    examples = F.slice(
        F.sort_array(F.collect_set(F.when(unused, F.concat_ws(":", "kind", "destination")))), 1, 3
    )
    return (
        keyed.groupBy("node")
        .agg(
            F.count(F.lit(1)).alias("held"),
            F.when(F.first("whole"), F.count_if(unused)).alias("unused"),
            F.array_join(examples, " ").alias("examples"),
        )
        .withColumn("share", F.round(F.col("unused") / F.col("held"), 3))
        .select("node", "held", "unused", "share", "examples")
        .orderBy(F.desc("unused"), "node")
    )


def strangers(rolled: DataFrame, nodes: DataFrame) -> DataFrame:
    """Nodes that wrote a log and are not in the deployment: (node, rows)."""
    writers = rolled.groupBy("node").agg(F.sum("rows").alias("rows"))
    return writers.join(F.broadcast(nodes.select("node")), "node", "left_anti").orderBy("node")


def silent(rolled: DataFrame, nodes: DataFrame) -> DataFrame:
    """Nodes of the deployment of which no log was read: (node, region, role)."""
    writers = rolled.select("node").distinct()
    return nodes.join(writers, "node", "left_anti").select("node", "region", "role").orderBy("node")
