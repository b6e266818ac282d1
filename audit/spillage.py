"""Which advisories reached a node that can never use them.

Law: a consumer's advisory is *needed* at the ancestors of the consumer's node and below it, and *spilled*
anywhere else; the cores of a mesh count as one root. Domain routes come with nodes, not with consumers: they
are judged apart, as `domain`. A healthy tree spills exactly 0.

What cannot be judged is said, never guessed: `unknown` where the origin is missing, or it or the node is not
in the deployment, as a root is that has joined the root's mesh since; `moved` where the log's own links say
that the origin, or the node, stood elsewhere at a time, and the advisory was needed there.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit.deployment import Tree, relations
from audit.rollup import RESYNC
from audit.told import CONSUMER_KINDS

NEEDED: Final = "needed"
SPILLED: Final = "spilled"
MOVED: Final = "moved"
UNKNOWN: Final = "unknown"
DOMAIN: Final = "domain"

OWN: Final = "came back to its own node"
SECOND_ROOT: Final = "second root"
RESENT: Final = "re-sent although known"
STALE: Final = "stale cause"
PEER: Final = "peer of a leaf"
SIBLING: Final = "sibling branch"
SAME_REGION: Final = "elsewhere in the region"
OTHER_REGION: Final = "another region"


def pairs(rolled: DataFrame) -> DataFrame:
    """(node, origin, kind, direction, rooted, advisories, bytes): all advisories, summed. `rolled`: by
    `rollup`."""
    advisories = rolled.where(F.col("event") == "advisory")
    return advisories.groupBy("node", "origin", "kind", "direction", "rooted").agg(
        F.sum("rows").alias("advisories"), F.sum("bytes").alias("bytes")
    )


def strange_links(rolled: DataFrame, tree: Tree) -> DataFrame:
    """Links that the log saw up and the deployment does not have: (child, parent, times, first, last).

    Of a link in a mesh `child` and `parent` are the two nodes, once for the log of each.
    """
    up = rolled.where((F.col("event") == "link") & (F.col("op") == "up") & F.col("direction").isNotNull())
    below, beside = F.col("direction") == "up", F.col("direction") == "mesh"
    seen = up.groupBy(
        F.when(below, F.col("peer")).otherwise(F.col("node")).alias("child"),
        F.when(below, F.col("node")).otherwise(F.col("peer")).alias("parent"),
        beside.alias("beside"),
    ).agg(F.sum("rows").alias("times"), F.min("first").alias("first"), F.max("last").alias("last"))
    place = tree.nodes.select("node", "place", F.col("parent").alias("proper"))
    above = F.broadcast(tree.nodes.select(F.col("node").alias("parent"), F.col("place").alias("above")))
    known = seen.join(F.broadcast(place.withColumnRenamed("node", "child")), "child", "left")
    known = known.join(above, "parent", "left")
    due = F.when(F.col("beside"), F.col("place")).otherwise(F.col("proper"))
    proper = F.coalesce(due == F.col("above"), F.lit(False))
    return known.where(~proper).select("child", "parent", "times", "first", "last").orderBy("child", "parent")


def former_relations(tree: Tree, strange: DataFrame) -> DataFrame:
    """(node, other): as `relations`, through links that the deployment does not have (any more)."""
    here = tree.ancestors.select("node", "ancestor")
    links = strange.select("child", "parent")
    for end in links.columns:
        standing = tree.nodes.select(F.col("node").alias(end), F.col("place").alias("stands"))
        joined = links.join(F.broadcast(standing), end, "left")
        links = joined.withColumn(end, F.coalesce("stands", end)).drop("stands")
    lower = here.join(F.broadcast(links), F.col("ancestor") == F.col("child"))
    lower = lower.select("node", "parent")
    upper = tree.ancestors.select(F.col("node").alias("parent"), F.col("ancestor").alias("other"))
    up = lower.join(upper, "parent").select("node", "other").distinct()
    return up.unionByName(up.select(F.col("other").alias("node"), F.col("node").alias("other"))).distinct()


def judge(pairs: DataFrame, tree: Tree, strange: DataFrame) -> DataFrame:
    """The pairs with `verdict` and, where spilled, `place_reason`: where the node stands to the origin."""
    nodes = tree.nodes.select("node", "place", "parent", "region", "role", "below")
    here = F.broadcast(nodes.select("node", "place", "parent", "region", "role"))
    there = F.broadcast(
        tree.nodes.select(
            F.col("node").alias("origin"),
            F.col("place").alias("origin_place"),
            F.col("parent").alias("origin_parent"),
            F.col("region").alias("origin_region"),
        )
    )
    placed = pairs.join(here, "node", "left").join(there, "origin", "left")
    near = _flag(placed, relations(tree), "near")
    once = _flag(near, former_relations(tree, strange), "once").join(_joined(tree, strange), "node", "left")
    return once.withColumn("verdict", _verdict()).withColumn(
        "place_reason", F.when(F.col("verdict") == SPILLED, _place_reason(tree.root))
    )


def _joined(tree: Tree, strange: DataFrame) -> DataFrame:
    """(node, joined): who dialled the root, or was dialled by it: of the roots that the deployment does not
    know, those that are of its mesh."""
    known = strange.where(F.col("parent").isin(*tree.roots)).select(F.col("child").alias("node"))
    return F.broadcast(known.distinct().withColumn("joined", F.lit(True)))


def _flag(placed: DataFrame, related: DataFrame, name: str) -> DataFrame:
    marked = related.select(
        F.col("node").alias("place"), F.col("other").alias("origin_place"), F.lit(True).alias(name)
    )
    return placed.join(marked, ["place", "origin_place"], "left").withColumn(
        name, F.coalesce(name, F.lit(False))
    )


def _verdict() -> Column:
    own = F.col("node") == F.col("origin")
    stray_root = F.col("rooted") & F.col("place").isNull() & F.col("joined").isNull()
    return (
        F.when(~F.coalesce(F.col("kind").isin(*CONSUMER_KINDS), F.lit(False)), DOMAIN)
        .when(stray_root, SPILLED)
        .when(F.col("place").isNull() | F.col("origin_place").isNull(), UNKNOWN)
        .when(own, SPILLED)
        .when(F.col("near"), NEEDED)
        .when(F.col("once"), MOVED)
        .otherwise(SPILLED)
    )


def _place_reason(root: str) -> Column:
    siblings = F.col("parent") == F.col("origin_parent")
    return (
        F.when(F.col("place").isNull() | (F.col("rooted") & (F.col("place") != root)), SECOND_ROOT)
        .when(F.col("node") == F.col("origin"), OWN)
        .when(siblings & (F.col("role") == "leaf"), PEER)
        .when(siblings, SIBLING)
        .when(F.col("region") == F.col("origin_region"), SAME_REGION)
        .otherwise(OTHER_REGION)
    )


def summary(judged: DataFrame) -> DataFrame:
    """(verdict, kind, direction, advisories, bytes)."""
    return _sums(judged, "verdict", "kind", "direction").orderBy("verdict", "kind", "direction")


def regions(judged: DataFrame) -> DataFrame:
    """Spilled advisories from region to region: (origin_region, region, advisories, bytes); null is the
    root."""
    spilled = judged.where(F.col("verdict") == SPILLED)
    return _sums(spilled, "origin_region", "region").orderBy("origin_region", "region")


def advise_down(judged: DataFrame) -> DataFrame:
    """Needed, but spared where branches advise less: (advise_down, region, advisories, bytes).

    `topics` spares the queues that are told downward, `none` the topics as well.
    """
    down = judged.where((F.col("verdict") == NEEDED) & (F.col("direction") == "down"))
    topics = _sums(down.where(F.col("kind") == "queue"), "region").withColumn("advise_down", F.lit("topics"))
    none = _sums(down, "region").withColumn("advise_down", F.lit("none"))
    return (
        topics.unionByName(none)
        .select("advise_down", "region", "advisories", "bytes")
        .orderBy("advise_down", "region")
    )


def _sums(frame: DataFrame, *keys: str) -> DataFrame:
    return frame.groupBy(*keys).agg(F.sum("advisories").alias("advisories"), F.sum("bytes").alias("bytes"))


def spilled_rows(events: DataFrame, judged: DataFrame) -> DataFrame:
    """Every spilled advisory with its `reason`: the columns of the log that place it, one row each."""
    keys = ("node", "origin", "kind", "direction")
    bad = judged.where(F.col("verdict") == SPILLED).select(
        *(F.col(key).alias(f"bad_{key}") for key in keys), "rooted", "place_reason"
    )
    advisories = events.where(F.col("event") == "advisory").withColumn(
        "was_root", F.coalesce(F.col("role") == "root", F.lit(False))
    )
    same = F.col("was_root") == F.col("rooted")
    for key in keys:
        same = same & F.col(key).eqNullSafe(F.col(f"bad_{key}"))
    rows = advisories.join(F.broadcast(bad), same)
    return _with_reason(rows, events).select(
        "at",
        "node",
        "region",
        "role",
        "op",
        "kind",
        "destination",
        "peer",
        "direction",
        "cause",
        "origin",
        "bytes",
        "reason",
        "file",
    )


def _with_reason(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Repetition comes before the place that an advisory reached; so does age where a child told, which then
    holds a route of long ago. To tell a child of what is elsewhere is wrong at any age.
    """
    here = Window.partitionBy("node", "origin", "kind", "destination", "peer").orderBy("at")
    before = F.lag("op").over(here)
    resent = (F.col("op") == "add") & before.isin("add", "live")
    gone = (
        events.where((F.col("event") == "consumer") & F.col("clock").isNull())
        .groupBy(F.col("node").alias("origin"), "kind", "destination")
        .agg(F.max_by("op", "at").alias("last_op"), F.max("at").alias("last_at"))
    )
    aged = rows.withColumn("resent", F.coalesce(resent, F.lit(False))).join(
        gone, ["origin", "kind", "destination"], "left"
    )
    stale = (
        (F.col("op") == "add")
        & (F.col("direction") == "up")
        & (F.coalesce("cause", F.lit("")) != RESYNC)
        & (F.col("last_op") == "remove")
        & (F.col("at") > F.col("last_at"))
    )
    return aged.withColumn(
        "reason",
        F.when(F.col("place_reason").isin(SECOND_ROOT, OWN), F.col("place_reason"))
        .when(F.col("resent"), RESENT)
        .when(F.coalesce(stale, F.lit(False)), STALE)
        .otherwise(F.col("place_reason")),
    )


def reasons(spilled_rows: DataFrame) -> DataFrame:
    """(reason, node, region, role, advisories, bytes, first, last), most first."""
    return (
        spilled_rows.groupBy("reason", "node", "region", "role")
        .agg(
            F.count(F.lit(1)).alias("advisories"),
            F.sum("bytes").alias("bytes"),
            F.min("at").alias("first"),
            F.max("at").alias("last"),
        )
        .orderBy(F.desc("advisories"), "node", "reason", "region", "role")
    )
