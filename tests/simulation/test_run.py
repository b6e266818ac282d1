"""Whole simulations: what they write, that a seed decides everything, and that messages come."""

import gc
import hashlib
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset
import pytest

from broker.advisory_log import LogRow
from config.fleet import read_sites
from sapwood.protocol.errors import SapwoodError
from simulation.deployment import deployment, generated
from simulation.run import Simulation, Task, simulate
from simulation.summary import as_text
from simulation.workload import Workload, parse_workload, read_workload

BUSY = """\
workload:
  start: 2026-03-01T00:00:00Z
  hours: {opens: "08:00", closes: "20:00", spread: 5m}
  consumers:
    - {role: leaf, destination: "queue:{node}-{number}", count: 3}
    - {role: leaf, destination: "topic:prices/#", reads: true, always: true}
    - {role: root, destination: "queue:sales", reads: true, always: true}
  churn: {every: 6h, away: 30s}
  lines: [{role: leaf, latency: 50ms, bandwidth: 50KB, loss: 0.01}]
  flapping: [{role: leaf, share: 0.5, every: 2h, down: 1m}]
  restarts: [{role: leaf, share: 0.5, every: 5h, down: 30s}]
  outages: [{node: region-1, after: 12h, down: 5m}]
  messages:
    - {role: root, destination: "topic:prices/uk", every: 30m}
    - {role: leaf, destination: "queue:sales", every: 10m, count: 3}
"""
QUIET = """\
workload:
  consumers: [{role: leaf, destination: "queue:{node}-{number}", count: 5}]
"""
CHAIN = generated(6, regions=2)


def read(folder: Path) -> list[dict[str, Any]]:
    table = pyarrow.dataset.dataset(folder, partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: row["at"])


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*.parquet")):
        found.update(f"{file.relative_to(folder)}\n".encode())
        found.update(file.read_bytes())
    return found.hexdigest()


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("busy")
    return out, simulate(Task(CHAIN, parse_workload(BUSY), hours=24, seed=7), out)


def test_a_quiet_day_costs_exactly_what_its_consumers_do(tmp_path: Path) -> None:
    found = simulate(Task(CHAIN, parse_workload(QUIET)), tmp_path)
    assert found["consumer_events"] == 2 * 5 * 6
    assert found["advisories"]["received"] == 2 * 5 * 6 * 2
    assert found["advisories"]["by_op"] == {"add": 60, "remove": 60}
    assert found["advisories"]["by_depth"] == {"0": 60, "1": 60}
    assert found["advisories"]["domain"] == 6 * 2 + 2
    assert found["links"] == {"up": 16, "down": 0, "blocked": 0}
    assert found["routes"] == {"root": 9, "branch": 2 + 6, "leaf": 6}


def test_the_log_has_the_contracts_columns(busy: tuple[Path, dict[str, Any]]) -> None:
    out, found = busy
    rows = read(out / "advisories")
    assert len(rows) == found["log_rows"]
    assert set(rows[0]) == {*LogRow.__struct_fields__, "date"}
    for row in rows:
        text = {**row, "at": row["at"].isoformat()}
        msgspec.convert({name: text[name] for name in LogRow.__struct_fields__}, LogRow, strict=True)
        assert str(row["date"]) == row["at"].date().isoformat()
    assert {row["event"] for row in rows} == {"consumer", "advisory", "link", "node"}
    assert {row["region"] for row in rows} == {None, "region-1", "region-2"}


def test_the_summary_is_what_the_log_says(busy: tuple[Path, dict[str, Any]]) -> None:
    out, found = busy
    rows = read(out / "advisories")
    advisories = [row for row in rows if row["event"] == "advisory"]
    assert found["advisories"]["bytes"] == sum(row["bytes"] for row in advisories)
    assert found["advisories"]["domain"] == sum(row["kind"] == "domain" for row in advisories)
    assert found["advisories"]["received"] == sum(row["kind"] != "domain" for row in advisories)
    assert found["consumer_events"] == sum(row["event"] == "consumer" for row in rows)
    assert found["links"]["down"] == sum(row["event"] == "link" and row["op"] == "down" for row in rows) > 0
    kept = msgspec.json.decode((out / "summary.json").read_bytes())
    assert kept | {"cost": found["cost"]} == found
    assert "cost" not in kept, "the same seed gives the same file"
    assert [row.name for row in read_sites(out / "sites.csv")] == [place.name for place in CHAIN.places]


def test_messages_come_in_spite_of_everything(busy: tuple[Path, dict[str, Any]]) -> None:
    _, found = busy
    sent = found["messages"]
    assert sent["sent"] > 500
    assert sent["delivered"] > sent["sent"] / 2
    assert sent["dead"] == 0
    assert sent["p50_s"] <= sent["p99_s"]
    assert found["spools"]["peak"] > 0


def test_the_text_says_the_same(busy: tuple[Path, dict[str, Any]]) -> None:
    text = as_text(busy[1])
    assert "1 root" in text
    assert f"{busy[1]['messages']['delivered']:,}" in text


def test_it_is_told_how_many_links_there_are_before_time_passes() -> None:
    told: list[tuple[str, float]] = []
    Simulation(Task(CHAIN, Workload(), hours=1)).run(lambda what, share: told.append((what, share)))
    links = [share for what, share in told if what == "linking nodes"]
    assert links == sorted(links)
    assert (links[0] < 1, links[-1]) == (True, 1)
    assert told[-1][0] == "simulating"


def test_messages_that_a_permit_forbids_are_refused_and_not_lost_to_a_node_that_is_down(
    tmp_path: Path,
) -> None:
    sites = tmp_path / "sites.csv"
    sites.write_text("name,parent,role,consume,send\nhq,,root,,\nyork,hq,leaf,,queue:sales\n")
    workload = """workload:
  consumers: [{role: root, destination: "queue:sales", reads: true, always: true}]
  messages:
    - {role: leaf, destination: "queue:sales", every: 1m, always: true}
    - {role: leaf, destination: "queue:secret", every: 1m, always: true}
"""
    found = Simulation(Task(deployment(str(sites)), parse_workload(workload), hours=1)).run()
    sent = found["messages"]
    assert sent["refused"] > 10
    assert (sent["sent"], sent["not_sent"]) == (sent["delivered"], 0)
    assert f"{sent['refused']:,} refused by their node, 0 not sent" in as_text(found)


def test_nothing_in_the_air_is_lost_when_all_is_well() -> None:
    quiet = "\n".join(line for line in BUSY.splitlines() if "flapping" not in line and "restarts" not in line)
    quiet = quiet.replace("  outages: [{node: region-1, after: 12h, down: 5m}]\n", "")
    simulation = Simulation(Task(CHAIN, parse_workload(quiet), hours=23))
    found = simulation.run()["messages"]
    world = simulation.world
    sales = sum(machine.application.sent for machine in world.machines.values() if machine.role == "leaf")  # type: ignore[union-attr]
    prices = world["hq"].application.sent  # type: ignore[union-attr]
    assert sales > 300
    assert prices > 10
    assert found["delivered"] == sales + 6 * prices
    assert (found["waiting"], found["dead"], found["not_sent"]) == (0, 0, 0)


SCRIPT = """\
import sys
from pathlib import Path
from simulation.deployment import generated
from simulation.run import Task, simulate
from simulation.workload import read_workload
workload, seed, out = sys.argv[1:]
simulate(Task(generated(6, regions=2), read_workload(Path(workload)), 24, int(seed)), Path(out))
"""


def test_a_seed_gives_the_same_bytes_in_every_process(
    busy: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """However the interpreter orders its sets."""
    workload = tmp_path / "workload.yaml"
    workload.write_text(BUSY)
    for salt in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": salt}
        arguments = [sys.executable, "-c", SCRIPT, str(workload), "7", str(tmp_path / salt)]
        subprocess.run(arguments, check=True, env=environment, timeout=120)
        assert digest(tmp_path / salt / "advisories") == digest(busy[0] / "advisories")
        summaries = (folder / "summary.json" for folder in (tmp_path / salt, busy[0]))
        assert len({summary.read_bytes() for summary in summaries}) == 1


def test_another_seed_gives_another_day(busy: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    simulate(Task(CHAIN, parse_workload(BUSY), hours=24, seed=8), tmp_path)
    assert digest(tmp_path / "advisories") != digest(busy[0] / "advisories")


def test_the_retail_chains_morning() -> None:
    retail = Path(__file__).parents[2] / "examples" / "retail"
    task = Task(deployment(str(retail / "stores.csv")), read_workload(retail / "workload.yaml"), hours=9)
    simulation = Simulation(task)
    found = simulation.run()
    assert found["consumer_events"] >= 6 * 25
    assert found["messages"]["delivered"] > 1000


def test_the_start_of_a_chain_tells_how_many_of_its_machines_have_started() -> None:
    """Nearly all of them are of the lowest level, and it is the start of a large chain that takes long."""
    told: list[tuple[str, float]] = []
    task = Task(generated(7, regions=2), Workload(), hours=0.1)
    Simulation(task).run(lambda what, share: told.append((what, share)))
    starting = [share for what, share in told if what == "starting nodes"]
    assert starting == [number / 10 for number in range(1, 11)]


def test_a_log_is_not_written_over_another(tmp_path: Path) -> None:
    task = Task(generated(1, regions=1), Workload(), hours=0.1)
    simulate(task, tmp_path)
    with pytest.raises(SapwoodError, match="holds a log already: expected a new folder"):
        simulate(task, tmp_path)


def test_a_region_that_is_back_is_told_nothing_that_it_knows() -> None:
    """All its stores reconnect at once; what they offer is known by its digest."""
    workload = QUIET + "  outages: [{node: region-1, after: 12h, down: 10m}]\n"
    found = Simulation(Task(CHAIN, parse_workload(workload))).run()
    assert found["links"]["down"] == 1 + 3
    assert found["links"]["up"] == 16 + 2 * (1 + 3)
    assert found["advisories"]["by_op"] == {"add": 60, "remove": 60}
    assert found["advisories"]["domain"] == 6 * 2 + 2


def test_a_node_at_rest_takes_less_than_50_kib() -> None:
    Simulation(Task(generated(1), Workload(), hours=0.01)).run()  # what is loaded once
    tracemalloc.start()
    try:
        simulation = Simulation(Task(generated(20, regions=2), Workload(), hours=0.01))
        simulation.run()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(simulation.world.machines) < 50 * 1024
