"""The demo itself, as a user runs it: nine real nodes, a killed store, a cut line, nothing lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.network
DEMO = [sys.executable, "-P", "-m", "broker.cli", "demo"]


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


def test_every_message_arrives_once_and_every_consumer_costs_what_the_rules_say(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*DEMO, "--json"], env=environment(tmp_path), capture_output=True, text=True, timeout=90
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    total = report["total"]
    assert report["well"]
    assert (total["sent"], total["to_deliver"], total["delivered"]) == (4248, 4488, 4488)
    assert (total["lost"], total["duplicated"], total["not_sent"]) == (0, 0, 0)
    cost = {(row["node"], row["destination"]): (row["added"], row["closed"]) for row in report["consumers"]}
    for store in ("york", "durham", "lancaster", "bath", "exeter", "winchester"):
        assert cost[store, f"queue:prices-{store}"] == (2, 2)
    assert cost["hq", "queue:sales"] == (8, 8)
    assert [cost[store, "topic:offers/north"][0] for store in ("york", "durham", "lancaster")] == [2, 1, 1]
    for event in ("york is killed", "line between region north and HQ is cut", "the line is mended"):
        assert event in ran.stderr
    assert nodes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_the_demo_is_stopped_no_node_is_left(tmp_path: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        DEMO, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
    )
    try:
        wait_until(lambda: len(nodes_of(tmp_path)) == 9)
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=30)
    finally:
        demo.kill()
    assert demo.returncode == (1 if number != signal.SIGKILL else -signal.SIGKILL)
    assert b"Traceback" not in errors
    wait_until(lambda: nodes_of(tmp_path) == [])


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Poll; a helper because processes come and go in their own time."""
    import time

    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
