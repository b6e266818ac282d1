"""Logs of other people's brokers, made into advisory logs: so that a chain can audit what it runs today.

Each importer is a function from a DataFrame to a DataFrame of `schema.LOG`; `IMPORTERS` names them, with the
schema of what it reads: JSON lines. Deployments are tables of sites as always, with the brokers' own names.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame

from audit.errors import UsageError
from audit.importers import activemq, nats
from audit.listing import Listing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Importer(NamedTuple):
    """`convert` takes rows of `schema`, with a column `broken` for lines that are none."""

    schema: str
    convert: Callable[[DataFrame], DataFrame]


IMPORTERS: Final = {
    "activemq": Importer(activemq.SCHEMA, activemq.convert),
    "nats": Importer(nats.SCHEMA, nats.convert),
}


def import_log(spark: "SparkSession", kind: str, listing: Listing, target: str) -> int:
    """Read a log of that kind and write it to `target`, as Parquet. Returns how many lines were no rows of
    it."""
    importer = IMPORTERS[kind]
    paths = [file.pattern for file in listing.files]
    if not paths:
        raise UsageError(f"no files to import for {kind}: expected JSON lines, as docs/audit.md describes")
    schema = f"{importer.schema}, broken string"
    reader = spark.read.schema(schema).option("columnNameOfCorruptRecord", "broken")
    rows = reader.json(paths).localCheckpoint()
    importer.convert(rows.where("broken is null")).write.mode("overwrite").parquet(target)
    return rows.where("broken is not null").count()
