"""What the audit's benchmark reads out of Spark's event log, and the chain that it makes up."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyarrow import Table, parquet
from shown_tables import found_and_shown

from benchmarks import tables
from benchmarks.advisory_logs import Chain, write_sites
from benchmarks.audit import Span, peer, stages

ROOT = Path(__file__).parents[2]


def task(stage: int, seconds: float, rows: int) -> dict[str, Any]:
    metrics = {
        "Executor Run Time": seconds * 1000,
        "Executor CPU Time": seconds * 1e9,
        "JVM GC Time": 0,
        "Disk Bytes Spilled": 0,
        "Input Metrics": {"Records Read": rows},
        "Shuffle Read Metrics": {"Total Records Read": 0},
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 2**20},
    }
    return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Metrics": metrics}


def job(stage: int, began_ms: int) -> dict[str, Any]:
    return {
        "Event": "SparkListenerJobStart",
        "Submission Time": began_ms,
        "Stage IDs": [stage],
        "Properties": {},
    }


def test_a_task_that_does_more_than_others_stands_out() -> None:
    events = [job(4, 1500), task(4, 1, 10), task(4, 1, 10), task(4, 9, 90), {"Event": "SparkListenerJobEnd"}]
    found = stages((json.dumps(event) for event in events), [Span("audit", 1, 2)])
    assert (found["audit"]["tasks"], found["audit"]["task_cpu_s"], found["audit"]["shuffled_mib"]) == (
        3,
        11.0,
        3,
    )
    (stage,) = found["audit"]["longest"]
    assert (stage["median_s"], stage["longest_s"], stage["median_rows"], stage["most_rows"]) == (1, 9, 10, 90)


def test_a_job_is_of_the_phase_in_which_it_began_whatever_thread_asked_for_it() -> None:
    events = [job(4, 1500), job(5, 1999), task(4, 1, 10), job(6, 2001), task(5, 2, 10), task(6, 4, 10)]
    spans = [Span("all columns", 1, 2), Span("audit", 2, 9)]
    found = stages((json.dumps(event) for event in events), spans)
    assert {phase: one["task_cpu_s"] for phase, one in found.items()} == {"all columns": 3.0, "audit": 4.0}


def test_one_region_has_half_of_the_stores(tmp_path: Path) -> None:
    write_sites(Chain(stores=40, regions=5), tmp_path / "sites.csv")
    lines = (tmp_path / "sites.csv").read_text().splitlines()
    assert sum(",region-0,leaf" in line for line in lines) == 20
    assert sum(line.endswith(",leaf") for line in lines) == 40
    assert {line.split(",")[1] for line in lines if line.endswith(",leaf")} == {
        f"region-{n}" for n in range(5)
    }


def test_the_peer_makes_its_sums_over_a_log_in_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "tree=acme" / "date=2026-03-14" / "region=north"
    folder.mkdir(parents=True)
    row = dict.fromkeys(("peer", "direction", "origin", "kind", "destination", "cause"))
    at = datetime(2026, 3, 14, 8, tzinfo=UTC)
    rows = [
        row | {"event": event, "at": at, "node": "york", "op": "add", "bytes": 40, "cause": "york:1"}
        for event in ("consumer", "advisory", "advisory")
    ]
    parquet.write_table(Table.from_pylist(rows), folder / "part-0.parquet")
    assert peer(str(tmp_path / "log")) == 3


def test_a_small_day_is_audited_and_what_was_planted_is_found(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    options = ["--rows", "600", "--stores", "40", "--regions", "5", "--plant", "3", "--master", "local[1]"]
    command = [sys.executable, "-m", "benchmarks.audit", *options]
    subprocess.run(
        [*command, "--directory", str(tmp_path), "--json", str(result)],
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    found = found_and_shown(result, tables.audit)
    assert (found["rows"], found["spilled"]) == (600 + 3, 3)
    assert "" not in found["spark"], "jobs that are of no phase"
    assert list(tmp_path.iterdir()) == [result]
