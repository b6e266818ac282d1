"""Tables of sites and logs that tests of the audit make."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.schema import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sites(*rows: str) -> list[tuple[str, str | None, str, str | None, str | None]]:
    """'name parent role' as rows of a table of sites without meshes; '-' is no parent."""
    cells = (row.split() for row in rows)
    return [(name, None if parent == "-" else parent, role, None, None) for name, parent, role in cells]


def regular_sites(branches: int, leaves: int) -> list[tuple[str, str | None, str, str | None, str | None]]:
    """A root, branches below it, leaves below each."""
    names = [f"branch-{b}" for b in range(branches)]
    return sites(
        "root - root",
        *(f"{name} root branch" for name in names),
        *(f"{name}-leaf-{leaf} {name} leaf" for name in names for leaf in range(leaves)),
    )


def events(spark: "SparkSession", rows: Sequence[dict[str, object]]) -> "DataFrame":
    """Rows of the log as they are after reading; what is not given is null."""
    blank = dict.fromkeys(EVENTS.names) | {"tree": "acme", "schema": 1, "file": "file:/log"}
    return spark.createDataFrame([tuple({**blank, **row}.values()) for row in rows], EVENTS)
