"""The audit follows the logs of real nodes, is killed in the middle of a batch, and counts nothing twice.

Its alerts go to a webhook, which keeps the first waiting while the audit is killed, and into the tree itself.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from harness import Network, receiving
from pyarrow import dataset

from broker.advisory_log import read_log

SITES = "name,parent,role\nhq,,root\nyork,hq,leaf\ndurham,hq,leaf\ncloser,hq,leaf\n"
PATIENCE = 300.0
"""Seconds for whatever Spark does: it takes five on a machine that has nothing else to do."""


class Webhook(ThreadingHTTPServer):
    """Takes alerts. `hold`: the next one waits for its answer until `release`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taker)
        self.alerts: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.asked, self.release = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/alerts"

    def handle_error(self, *_: Any) -> None:
        """Who asked was killed."""


class Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.alerts.append(json.loads(body))
        self.server.keys.append(self.headers["Idempotency-Key"])
        self.server.asked.set()
        self.server.release.wait()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


@contextlib.contextmanager
def following(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`sapwood audit --follow` in a process group of its own, with its Java; gone at the end."""
    what = ["--follow", str(folder / "data"), "--deployment", str(folder / "sites.csv")]
    what += ["--out", str(folder / "out"), "--window", "1 second", "--late", "1 second", *options]
    command = [sys.executable, "-P", "-m", "audit", *what, "--master", "local[2]"]
    with (
        (folder / "follow.log").open("a") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def row(node: str, event: str, op: str, **more: Any) -> str:
    at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"event": event, "at": at, "tree": "test", "node": node, "op": op, "schema": 1} | more)


def counted(out: Path) -> Counter[tuple[str, str]]:
    """Rows by node and event, of all windows that were closed."""
    files = [str(path) for path in (out / "counts").glob("batch=*/*.parquet")]
    rows = dataset.dataset(files).to_table().to_pylist() if files else []
    found: Counter[tuple[str, str]] = Counter()
    for each in rows:
        found[each["node"], each["event"]] += each["rows"]
    return found


def written(out: Path) -> list[dict[str, Any]]:
    """The alerts in their files."""
    files = sorted((out / "alerts").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


async def a_day_of_the_tree(network: Network) -> Counter[tuple[str, str]]:
    """What york has logged when it stops; durham has received what it can never use."""
    network.add("hq")
    network.add("york", "hq")
    await network.start()
    async with network.client("york") as client, receiving(client, "topic:offers/#", durable="till") as got:
        await network.until_known("hq", "topic:offers/#")
        await network.send("hq", "topic:offers/spring", [b"1", b"2", b"3"])
        async with asyncio.timeout(PATIENCE):
            while len(got) < 3:
                await asyncio.sleep(0.05)
    assert await network.stop("york") == 0
    logs = network.folder / "data" / "durham" / "advisories"
    logs.mkdir(parents=True)
    spilled = row("durham", "advisory", "add", kind="queue", destination="prices", peer="hq",
                  direction="down", origin="york", cause="york:1", bytes=30)  # fmt: skip
    (logs / "durham.advisories.jsonl").write_text(spilled + "\n")
    (network.folder / "sites.csv").write_text(SITES)
    rows = Counter((each.node, each.event) for each in read_log(network.data("york") / "advisories"))
    return rows + Counter({("durham", "advisory"): 1})


async def until_counted(folder: Path, expected: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """A window is closed by rows that come after it: so somebody goes on writing."""
    log = folder / "data" / "closer.advisories.jsonl"
    async with asyncio.timeout(PATIENCE):
        while True:
            found = counted(folder / "out")
            found = Counter({key: count for key, count in found.items() if key in expected})
            if found >= expected:
                return found
            with log.open("a") as file:
                file.write(row("closer", "node", "start") + "\n")
            await asyncio.sleep(0.5)


@pytest.mark.timeout(900)
async def test_an_audit_that_is_killed_in_a_batch_goes_on_and_counts_nothing_twice(
    network: Network, webhook: Webhook
) -> None:
    expected = await a_day_of_the_tree(network)
    folder = network.folder
    used = next((network.data("york") / "advisories").glob("york.usage-*.jsonl")).read_text()
    assert '"kind":"topic","destination":"offers/#","messages":3' in used

    receivers = ("--webhook", webhook.url, "--alert-to", f"queue:alerts@{network.url('hq')}")
    with following(folder, *receivers) as first:
        assert await asyncio.to_thread(webhook.asked.wait, PATIENCE), (folder / "follow.log").read_text()
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    told = {(alert["alert"], alert["node"]) for alert in written(folder / "out")}
    assert told == {("spilled", "durham"), ("link down", "hq")}
    under_way = webhook.keys[0]

    webhook.release.set()
    with following(folder, *receivers) as second:
        alerts = await network.collect("hq", "queue:alerts", 2, PATIENCE)
        assert await until_counted(folder, expected) == expected
        second.send_signal(signal.SIGTERM)
        said, _ = await asyncio.to_thread(second.communicate)
    assert second.returncode == 0, (folder / "follow.log").read_text()
    assert "0 alerts not delivered" in said
    assert {(alert["alert"], alert["node"]) for alert in map(json.loads, alerts)} == told
    assert len(written(folder / "out")) == 2
    assert set(webhook.keys) == {str(alert["id"]) for alert in written(folder / "out")}
    assert webhook.keys.count(under_way) > 1, "what was under way is told again, with the same id"
