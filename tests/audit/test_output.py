"""Tables as they are written: in an order of their own, however Spark dealt them out."""

from pathlib import Path
from typing import TYPE_CHECKING

from audit.output import LARGE, Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_summaries_of_large_tables_have_one_order(spark: "SparkSession", tmp_path: Path) -> None:
    keys = LARGE["judged"]
    rows = [
        (f"n{n % 7}", f"o{n % 11}", "queue", "up" if n % 2 else None, n % 3 == 0, n)
        for n in range(7 * 11 * 2)
    ]
    columns = [*(f"{key} string" for key in keys[:4]), "rooted boolean", "advisories long"]
    table = spark.createDataFrame(rows, ", ".join(columns))
    written = set()
    for pieces, column in ((1, "advisories"), (4, "node"), (3, "origin")):
        dealt = table.repartition(pieces, column).sortWithinPartitions(column, ascending=False)
        Output(tmp_path, small=pieces == 4).keep("judged", dealt)
        written.add((tmp_path / "csv" / "judged.csv").read_text())
    (text,) = written
    assert text.splitlines()[1].startswith("n0,o0,queue,,")
