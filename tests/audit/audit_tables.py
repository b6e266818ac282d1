"""Tables of sites and logs that tests of the audit make, and tables as rows; the tests' session as one of the
command line."""

import contextlib
import time
from collections import namedtuple
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyarrow import Table

from audit import session
from audit.deployment import Tree, make_tree
from audit.java import class_archive, java_home, only_read
from audit.schema import EVENTS
from audit.sites import SITES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Site = tuple[str, str | None, str, str | None]


def sites(*rows: str) -> list[Site]:
    """'name parent role' as rows of a table of sites without meshes; '-' is no parent."""
    cells = (row.split() for row in rows)
    return [(name, None if parent == "-" else parent, role, None) for name, parent, role in cells]


def regular_sites(branches: int, leaves: int) -> list[Site]:
    """A root, branches below it, leaves below each."""
    names = [f"branch-{b}" for b in range(branches)]
    return sites(
        "root - root",
        *(f"{name} root branch" for name in names),
        *(f"{name}-leaf-{leaf} {name} leaf" for name in names for leaf in range(leaves)),
    )


def tree_of(sites: Sequence[Site]) -> Tree:
    """The tree of these sites."""
    return make_tree(
        Table.from_pylist([dict(zip(SITES.names, (*site, None), strict=True)) for site in sites], SITES)
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table of these rows."""
    return Table.from_pydict({name: [row[place] for row in rows] for place, name in enumerate(columns)})


def rows(table: Table) -> list[Any]:
    """The rows of a table, each with its columns as attributes."""
    row = namedtuple("row", table.column_names)  # type: ignore[misc]
    return [row(*each.values()) for each in table.to_pylist()]


def events(spark: "SparkSession", rows: Sequence[dict[str, object]]) -> "DataFrame":
    """Rows of the log as they are after reading; what is not given is null."""
    blank = dict.fromkeys(EVENTS.names) | {"tree": "acme", "schema": 1, "file": "file:/log"}
    return spark.createDataFrame([tuple({**blank, **row}.values()) for row in rows], EVENTS)


def summed(events: "DataFrame") -> Table:
    """The `rollup` of a log, as the audit has it."""
    from audit.rollup import rollup

    return rollup(events).toArrow()


def classes() -> str:
    """Java's options for the archive of classes that an audit has left here; '' where there is none."""
    return only_read(class_archive(java_home(), session.installed(), time.time()))


class Begun(contextlib.nullcontext[Any]):
    """In the place of `session.Starting`: lends the tests' session."""

    def __init__(self, spark: "SparkSession") -> None:
        super().__init__(self)
        self.session = lambda: Lent(spark)


class Lent:
    """The tests' session, which nobody stops."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> object:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass
