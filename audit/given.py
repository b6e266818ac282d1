"""Tables that are given beside the logs: the use of routes, and figures over time."""

from typing import TYPE_CHECKING, Any, Final

from pyarrow import Table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit.errors import UsageError
from audit.listing import Listing
from audit.schema import structure
from audit.session import fetch, reason
from audit.sites import Far

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USAGE: Final = structure("node string, kind string, destination string, messages long")
COUNTED: Final = structure(
    "node string, kind string, destination string, messages long, since timestamp, whole boolean"
)
FIGURES: Final = structure("node string, figure string, at timestamp, value long")


def far(spark: "SparkSession") -> Far:
    """Reads a table of sites from wherever Spark reaches."""
    return lambda path: fetch(
        spark.read.parquet(path) if path.rstrip("/").endswith(".parquet") else spark.read.text(path)
    )


def usage(spark: "SparkSession", listing: Listing, path: str) -> Table | None:
    """Messages by route (`COUNTED`): of the table that was given, else of the files that lie beside the
    logs."""
    if path:
        given = read_table(spark, path, COUNTED if _form(path) == "json" else USAGE)
        whole = spark.createDataFrame([], COUNTED).unionByName(given, allowMissingColumns=True)
        return fetch(whole)
    if listing.usage:
        return fetch(spark.read.schema(COUNTED).json([file.pattern for file in listing.usage]))
    return None


def figures(spark: "SparkSession", path: str) -> Table | None:
    """(node, figure, at, value)."""
    if not path:
        return None
    return fetch(read_table(spark, path, FIGURES).withColumn("value", F.col("value").cast("double")))


def read_table(spark: "SparkSession", path: str, schema: Any) -> DataFrame:
    """A table that was given beside the logs: Parquet, JSON lines, or CSV with a header. Columns are known by
    their names; what is no such value is null."""
    form = _form(path)
    try:
        reader = spark.read.option("header", True).format(form)
        if form == "json":
            reader = reader.schema(structure(", ".join(f"{name} string" for name in schema.names)))
        given = reader.load(path)
    except Exception as error:
        raise UsageError(f"{path}: cannot be read: {reason(error)}") from None
    missing = [name for name in schema.names if name not in given.columns]
    if missing:
        raise UsageError(
            f"{path}: no column {', '.join(missing)}: expected a table with {', '.join(schema.names)}"
        )
    return given.select(*(F.col(field.name).try_cast(field.dataType) for field in schema))


def _form(path: str) -> str:
    if path.rstrip("/").endswith(".parquet"):
        return "parquet"
    return "json" if path.removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")) else "csv"
