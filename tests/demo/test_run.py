"""The demo itself, as a user runs it: nine real nodes, a killed store, a cut line, nothing lost."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

pytestmark = pytest.mark.network
DEMO = [sys.executable, "-P", "-m", "broker.cli", "demo"]


class Performance(NamedTuple):
    """`folder`: where it had its files; `logs`: the advisory logs it kept; `said`: its standard error."""

    folder: Path
    logs: Path
    report: dict[str, Any]
    said: str


def nodes_of(folder: Path) -> list[psutil.Process]:
    """Processes that run a configuration of a demo in `folder`."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(str(folder) in argument for argument in process.info["cmdline"] or [])
    ]


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"TMPDIR": str(folder)}


@pytest.fixture(scope="module")
def performance(tmp_path_factory: pytest.TempPathFactory) -> Performance:
    """The demo from its beginning to its end, once."""
    folder, logs = tmp_path_factory.mktemp("demo"), tmp_path_factory.mktemp("logs")
    command = [*DEMO, "--json", "--logs", str(logs)]
    ran = subprocess.run(command, env=environment(folder), capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stderr
    return Performance(folder, logs, json.loads(ran.stdout), ran.stderr)


def test_every_message_arrives_once_and_every_consumer_costs_what_the_rules_say(
    performance: Performance,
) -> None:
    report = performance.report
    total = report["total"]
    assert report["well"]
    assert (total["sent"], total["to_deliver"], total["delivered"]) == (4248, 4488, 4488)
    assert (total["lost"], total["duplicated"], total["not_sent"]) == (0, 0, 0)
    cost = {(row["node"], row["destination"]): (row["added"], row["closed"]) for row in report["consumers"]}
    for store in ("york", "durham", "lancaster", "bath", "exeter", "winchester"):
        assert cost[store, f"queue:{store}/prices"] == (2, 2)
    assert cost["hq", "queue:sales"] == (8, 8)
    assert [cost[store, "topic:offers/north"][0] for store in ("york", "durham", "lancaster")] == [2, 1, 1]
    for event in ("york is killed", "line between region north and HQ is cut", "the line is mended"):
        assert event in performance.said
    assert nodes_of(performance.folder) == []
    assert list(performance.folder.iterdir()) == []


@pytest.mark.timeout(900)
def test_spark_confirms_the_table_of_this_very_performance_and_finds_nothing_spilled(
    performance: Performance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_classes: str
) -> None:
    logs, out = performance.logs, tmp_path / "audit"
    command = [sys.executable, "-P", "-m", "broker.cli", "audit", str(logs), "--json", "--strict"]
    command += ["--deployment", str(logs / "sites.csv"), "--out", str(out)]
    monkeypatch.setenv("XDG_CACHE_HOME", kept_classes)
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    verdicts = json.loads(ran.stdout)["verdicts"]
    assert (verdicts["spilled"], verdicts["moved"], verdicts["unknown"]) == (0, 0, 0)

    told = performance.report["consumers"]
    costs = {(row["node"], row["destination"]): (row["added"], row["closed"] or 0) for row in told}
    counted = {
        (row["node"], f"{row['kind']}:{row['destination']}"): (int(row["added"]), int(row["closed"]))
        for row in table(out, "consumers")
    }
    assert counted == costs
    unused = {row["node"]: row["unused"] for row in table(out, "unused_routes")}
    assert (unused["hq"], unused["north"]) == ("0", "0"), "offers went to all who stay subscribed"


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "csv" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_the_demo_is_stopped_no_node_is_left(tmp_path: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        DEMO, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
    )
    try:
        wait_until(lambda: len(nodes_of(tmp_path)) == 9)
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=120)
    finally:
        demo.kill()
    assert demo.returncode == (1 if number != signal.SIGKILL else -signal.SIGKILL)
    assert b"Traceback" not in errors
    wait_until(lambda: nodes_of(tmp_path) == [])


def test_a_demo_that_is_kept_tells_its_dashboard_and_goes_on_with_traffic(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as said:
        demo = subprocess.Popen(
            [*DEMO, "--keep"], env=environment(tmp_path), stdout=said, stderr=said, process_group=0
        )
    try:
        wait_until(lambda: "stop: Ctrl-C here" in (tmp_path / "said").read_text("utf-8"), 300)
        (url,) = re.findall(
            "^dashboard: (http://.*)/dashboard,", (tmp_path / "said").read_text("utf-8"), re.M
        )
        with urllib.request.urlopen(f"{url}/dashboard") as page:
            assert "text/html" in page.headers["Content-Type"]
        before = entered(url)
        wait_until(lambda: entered(url) > before)
        demo.send_signal(signal.SIGINT)
        demo.wait(120)
    finally:
        demo.kill()
    wait_until(lambda: nodes_of(tmp_path) == [])


def entered(url: str) -> int:
    """Messages that the applications of a node have sent."""
    with urllib.request.urlopen(f"{url}/api/status") as answer:
        return int(json.load(answer)["counters"]["entered"])


def wait_until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Poll; a helper because processes come and go in their own time."""
    import time

    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
