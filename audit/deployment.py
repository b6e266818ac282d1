"""The tree, from a table of sites: who is above whom, how deep, how many are below.

A table is CSV with a header (comma, semicolon or tab; rows that begin with `#` do not count) or Parquet,
with the columns `name`, `parent` and `role`, and where there are meshes `mesh`; others are ignored. That is
the table that `sapwood config fleet` reads.

Law: the nodes of a mesh are one *place*, named like the first of them; every other node is a place of its
own. Trees are made of places. A mesh are the rows with the same word in the column `mesh`, and those of role
`core` without a parent; `parent` may name several nodes of one mesh, with spaces between.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.errors import UsageError
from audit.schema import NODES, SITES
from audit.session import reason
from audit.sites import column_name, heading, refuse_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_LEVELS: Final = 64
MOST_ROOTS: Final = 32
NAMED: Final = 10
FEW: Final = 200_000
"""Sites up to which the tree is in one piece: joins of it with itself then need no shuffle, which would take
longer than they."""


class Tree(NamedTuple):
    """`nodes` has `schema.NODES`; `ancestors` is (node, ancestor, hops), places both, with every place 0 hops
    from itself; `root` is the name of the root's place, `roots` its nodes; `places` is how many places there
    are, `members` how many nodes."""

    nodes: DataFrame
    ancestors: DataFrame
    root: str
    places: int
    roots: tuple[str, ...]
    members: int

    @property
    def meshed(self) -> bool:
        """Is there any mesh?"""
        return self.members > self.places


def read_sites(spark: "SparkSession", path: str) -> DataFrame:
    """Read a table of sites. Raises `UsageError` if it is none."""
    try:
        packed = path.rstrip("/").endswith(".parquet")
        table = spark.read.parquet(path) if packed else _read_csv(spark, path)
    except UsageError:
        raise
    except Exception as error:  # Spark has many, and no common class for a missing file
        raise UsageError(f"{path}: cannot be read as a table of sites: {reason(error)}") from None
    named = {column_name(column): column for column in table.columns}
    refuse_columns(path, named)
    chosen = [F.trim(F.col(f"`{named[name]}`")) if name in named else F.lit("") for name in SITES.names]
    cells = [
        F.nullif(cell.cast("string"), F.lit("")).alias(name)
        for name, cell in zip(SITES.names, chosen, strict=True)
    ]
    return table.select(*cells).where(F.col("name").isNotNull())


def _read_csv(spark: "SparkSession", path: str) -> DataFrame:
    text = spark.read.text(path).where(~F.col("value").rlike(r"^\s*(#|$)"))
    first = text.head()
    if first is None:
        raise UsageError(f"{path}: is empty: expected a table of sites with name, parent and role")
    separator, columns = heading(first[0])
    schema = ", ".join(f"`{column or index}` string" for index, column in enumerate(columns))
    rows = text.where(F.col("value") != first[0]).select(
        F.from_csv("value", F.lit(schema), {"sep": separator, "mode": "PERMISSIVE"}).alias("row")
    )
    return rows.select("row.*")


def load_tree(spark: "SparkSession", path: str) -> Tree:
    """The tree of a table of sites. Raises `UsageError` that names the table and what is wrong with it."""
    sites = read_sites(spark, path)
    try:
        return make_tree(sites)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def make_tree(sites: DataFrame) -> Tree:
    """Make the tree. Raises `UsageError` that names what keeps `sites` from being one.

    Its frames are worked out here and kept: they are small beside a log, and used by every analysis.

    Wrinkle: by checkpoints, not by `cache`. A plan over a cached frame carries the plan of what is cached,
    as often as it is used; with one a level that grows until no memory holds the plan.
    """
    sites = sites.localCheckpoint()
    roots = _roots(sites)
    standing = _standing(sites, roots[0])
    places = _placed(sites, standing).localCheckpoint()
    members = places.count()
    few = members <= FEW
    places = _settled(places, few)
    _refuse_broken_meshes(sites, standing, places)
    ancestors = _settled(_ancestors(places, roots[0]), few)
    nodes = _settled(_nodes(places, ancestors), few)
    count = nodes.select("place").distinct().count()
    return Tree(nodes, ancestors, roots[0], count, roots, members)


def _standing(sites: DataFrame, root: str) -> DataFrame:
    """(member, stands): the nodes of meshes, with the place of each."""
    words = sites.where(F.col("mesh").isNotNull()).groupBy(F.col("mesh").alias("word"))
    firsts = words.agg(F.min("name").alias("first"))
    joined = sites.join(F.broadcast(firsts), F.col("mesh") == F.col("word"), "left")
    place = F.when(F.col("parent").isNull(), F.lit(root)).otherwise(F.col("first"))
    found = joined.select(F.col("name").alias("member"), place.alias("stands"))
    return found.where(F.col("stands").isNotNull()).localCheckpoint()


def _placed(sites: DataFrame, standing: DataFrame) -> DataFrame:
    """(node, parent, role, place): `parent` is the place of the first parent that a row names."""
    own, above = F.broadcast(standing), F.broadcast(standing.toDF("above", "stands_above"))
    first = sites.withColumn("first", _named_parents()[0])
    joined = first.join(own, F.col("name") == F.col("member"), "left")
    return joined.join(above, F.col("first") == F.col("above"), "left").select(
        F.col("name").alias("node"),
        F.coalesce("stands_above", "first").alias("parent"),
        F.lower(F.coalesce("role", F.lit(""))).alias("role"),
        F.coalesce("stands", "name").alias("place"),
    )


def _named_parents() -> Column:
    return F.split(F.col("parent"), r"\s+")


def _refuse_broken_meshes(sites: DataFrame, standing: DataFrame, places: DataFrame) -> None:
    """All parents that a row names are one place, and the nodes of a mesh have the same."""
    several = sites.where(F.size(_named_parents()) > 1)
    named = several.select("name", F.explode(_named_parents()).alias("member"))
    stands = named.join(standing, "member", "left").groupBy("name")
    split = stands.agg(F.count_distinct(F.coalesce("stands", "member")).alias("n")).where(F.col("n") > 1)
    found = split.orderBy("name").limit(NAMED).collect()
    if found:
        names = _list(row["name"] for row in found)
        raise UsageError(f"{names}: several parents that are not one mesh: give them one word in column mesh")
    above = places.groupBy("place").agg(F.count_distinct(F.coalesce("parent", F.lit(""))).alias("n"))
    broken = above.where(F.col("n") > 1).orderBy("place").limit(NAMED).collect()
    if broken:
        names = _list(row.place for row in broken)
        raise UsageError(f"{names}: a mesh whose nodes have different parents: they need the same")


def _settled(frame: DataFrame, few: bool) -> DataFrame:
    return (frame.coalesce(1) if few else frame).localCheckpoint()


def _roots(sites: DataFrame) -> tuple[str, ...]:
    """The nodes of the root, the first of which names its place."""
    twice = sites.groupBy("name").count().where(F.col("count") > 1).limit(NAMED).collect()
    if twice:
        raise UsageError(f"{_list(row.name for row in twice)}: named twice: every node needs its own name")
    tops = sites.where(F.col("parent").isNull()).select("name", "role", "mesh").orderBy("name")
    rows = tops.limit(MOST_ROOTS + 1).collect()
    if not rows:
        raise UsageError("the table of sites has no root: exactly one row has no parent (or one mesh)")
    cores = all((row.role or "").lower() == "core" for row in rows)
    one_mesh = rows[0].mesh is not None and len({row.mesh for row in rows}) == 1
    if (len(rows) > 1 and not (cores or one_mesh)) or len(rows) > MOST_ROOTS:
        names = _list(row.name for row in rows[:NAMED])
        raise UsageError(f"{names}: several rows without a parent: a tree has one root (or one mesh of them)")
    return tuple(row.name for row in rows)


def _list(names: object) -> str:
    return ", ".join(repr(str(name)) for name in names)  # type: ignore[attr-defined]


def _ancestors(places: DataFrame, root: str) -> DataFrame:
    """(node, ancestor, hops): one join a level, until all have arrived at the root."""
    speakers = places.where((F.col("place") != root) & (F.col("node") == F.col("place")))
    links = speakers.select(F.col("place").alias("child"), "parent")
    level = places.select(F.col("place").alias("node"), F.col("place").alias("ancestor")).distinct()
    found = level.select("*", F.lit(0).alias("hops"))
    for hops in range(1, MOST_LEVELS + 2):
        level = (
            level.join(links, level["ancestor"] == links["child"])
            .select("node", F.col("parent").alias("ancestor"))
            .localCheckpoint()
        )
        round_trip = F.count_if(F.col("node") == F.col("ancestor"))
        left, circles = level.agg(F.count(F.lit(1)), round_trip).collect()[0]
        if not left:
            break
        if circles or hops > MOST_LEVELS:
            names = _list(row.node for row in level.select("node").orderBy("node").limit(NAMED).collect())
            raise UsageError(f"{names}: a circle, or more than {MOST_LEVELS} levels from the root")
        found = found.unionByName(level.select("*", F.lit(hops).alias("hops")))
    found = found.localCheckpoint()
    _refuse_orphans(found, root)
    return found


def _refuse_orphans(ancestors: DataFrame, root: str) -> None:
    arrived = ancestors.where(F.col("ancestor") == root).select("node")
    orphans = (
        ancestors.where(F.col("hops") == 0)
        .join(arrived, "node", "left_anti")
        .select("node")
        .orderBy("node")
        .limit(NAMED)
        .collect()
    )
    if orphans:
        names = _list(row.node for row in orphans)
        raise UsageError(
            f"{names}: no way up to the root {root!r}: a parent is missing from the table of sites"
        )


def _nodes(places: DataFrame, ancestors: DataFrame) -> DataFrame:
    depths = ancestors.groupBy(F.col("node").alias("place")).agg(F.max("hops").alias("depth"))
    below = ancestors.groupBy(F.col("ancestor").alias("place")).agg((F.count(F.lit(1)) - 1).alias("below"))
    regions = (
        ancestors.join(depths, ancestors["node"] == depths["place"])
        .where(F.col("hops") == F.col("depth") - 1)
        .select("place", F.col("ancestor").alias("region"))
    )
    return (
        places.join(depths, "place")
        .join(below, "place", "left")
        .join(regions, "place", "left")
        .withColumn("below", F.coalesce("below", F.lit(0)))
        .withColumn("depth", F.col("depth").cast("int"))
        .select(*NODES.names)
    )


def relations(tree: Tree) -> DataFrame:
    """(node, other): places of which one is an ancestor of the other, or both are one place. Both ways
    round."""
    up = tree.ancestors.select("node", F.col("ancestor").alias("other"))
    down = tree.ancestors.where(F.col("hops") > 0).select(
        F.col("ancestor").alias("node"), F.col("node").alias("other")
    )
    return up.unionByName(down)
