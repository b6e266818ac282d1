"""The audit while logs arrive: each alert once, each row counted once, also after a restart."""

import gzip
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any

import pytest
from history_rows import kept_rows
from pyspark.sql.functions import lit, raise_error

import audit.feeder
from audit import cli
from audit.alerts import Alerts, Destination, Webhook
from audit.cli import _Ended
from audit.deployment import Tree
from audit.errors import AuditError, UsageError
from audit.feeder import Feeder
from audit.follow import Follower, Following
from audit.history import Counts
from audit.listing import list_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"
DEMO = DATA / "demo"


def row(node: str, event: str, op: str, at: str, **more: Any) -> str:
    return (
        json.dumps({"event": event, "at": at, "tree": "demo", "node": node, "op": op, "schema": 1} | more)
        + "\n"
    )


SPILLED = row("durham", "advisory", "add", "2026-03-14T08:00:01Z", kind="queue", destination="prices-york",
              peer="north", direction="down", origin="york", cause="york:1", bytes=30)  # fmt: skip
DOWN = row("hq", "link", "down", "2026-03-14T08:00:02Z", peer="south", direction="up")
JOINED = DOWN.rstrip() + DOWN
FUTURE = row("bath", "consumer", "add", "2999-01-01T00:00:00Z", kind="queue", destination="q")


def alerts_in(out: Path) -> list[dict[str, Any]]:
    files = sorted((out / "alerts").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def counted(spark: "SparkSession", out: Path) -> Counter[tuple[str, str]]:
    if not list((out / "counts").glob("batch=*")):
        return Counter()
    rows = spark.read.parquet(str(out / "counts")).groupBy("node", "event").sum("rows").collect()
    return Counter({(each.node, each.event): each[2] for each in rows})


def test_following_finds_what_arrives_and_a_restart_counts_nothing_twice(
    spark: "SparkSession", demo_tree: Tree, tmp_path: Path
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    shutil.copytree(DEMO, logs)
    growing = logs / "durham.advisories.jsonl"
    written = sum(len(file.read_bytes().splitlines()) for file in logs.iterdir())
    follower = Follower(spark, demo_tree, Following(logs, out, window="1 minute", late="1 minute", storm=12))
    try:
        follower.step()
        told = sorted((alert["alert"], alert["node"], alert["peer"]) for alert in alerts_in(out))
        assert told == [("link down", "hq", "north"), ("link down", "north", "york")], (
            "the demo kills and cuts once"
        )
        with growing.open("a") as log:
            log.write(SPILLED + JOINED + DOWN[:30])
        follower.step()
        late = follower.late
    finally:
        follower.stop()
    growing_after = growing.read_text() + DOWN[30:] + FUTURE + "rubbish\n"
    growing.write_text(growing_after)
    rotated = growing.with_name("durham.advisories-000001.jsonl.gz")
    rotated.write_bytes(gzip.compress(growing.read_bytes()))
    growing.unlink()
    follower = Follower(spark, demo_tree, Following(logs, out, window="1 minute", late="1 minute"))
    try:
        follower.step()
        assert follower.step() == 0
    finally:
        follower.stop()
    found = Counter((alert["alert"], alert["node"]) for alert in alerts_in(out))
    assert found == {
        ("link down", "hq"): 2,
        ("link down", "north"): 1,
        ("spilled", "durham"): 1,
        ("unreadable", None): 1,
        ("unreadable", "hq"): 1,
    }
    assert len({alert["id"] for alert in alerts_in(out)}) == 6
    assert not list(follower.feeder.pieces.glob("*.jsonl")), "both queries have taken all of them for good"
    # The row of the year 2999 counts as arriving now, and so closes the windows of all rows of the demo.
    assert sum(counted(spark, out).values()) == written
    assert late + follower.late == 2, "both rows of March came when the watermark was in November"


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_follower_that_is_killed_between_history_and_checkpoint_counts_each_row_once(
    spark: "SparkSession", demo_tree: Tree, tmp_path: Path, form: str
) -> None:
    logs, out, root = tmp_path / "logs", tmp_path / "out", tmp_path / "kept"
    shutil.copytree(DEMO, logs)
    written = Counter(
        (line["node"], line["event"])
        for file in logs.iterdir()
        for line in map(json.loads, file.read_text().splitlines())
    )
    with (logs / "bath.advisories.jsonl").open("a") as log:
        log.write(FUTURE)  # it counts as arriving now, and so closes the windows of all others
        log.write(FUTURE.replace('"demo"', '"other"'))
    killed = subprocess.run([sys.executable, __file__, str(logs), str(out), str(root), form], check=False)
    assert killed.returncode == -signal.SIGKILL
    before = Counter(in_history(root))
    assert before, "it was killed after the history had its first batch"
    how = Following(logs, out, "1 minute", "1 minute", tree="demo", history=(str(root), form))
    follower = Follower(spark, demo_tree, how)
    try:
        follower.step()
        follower.step()
    finally:
        follower.stop()
    assert in_history(root) == written
    assert not list((out / "counts").glob("batch=*")), "the history has them"


def in_history(root: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for node, event, rows in kept_rows(root, "select node, event, rows from sapwood_counts"):
        found[node, event] += rows
    return found


def test_pieces_of_a_feed_that_is_repeated_have_the_same_names(tmp_path: Path) -> None:
    logs, state = tmp_path / "logs", tmp_path / "state"
    shutil.copytree(DEMO, logs)
    first = Feeder(logs, state)
    assert first.feed() == sum(len(file.read_bytes()) for file in logs.iterdir())
    names = {piece.name: piece.read_bytes() for piece in first.pieces.iterdir()}
    (state / "offsets.json").unlink()  # as a crash leaves it, after the pieces and before the offsets
    again = Feeder(logs, state)
    again.feed()
    assert {piece.name: piece.read_bytes() for piece in again.pieces.iterdir()} == names
    assert Feeder(logs, state).feed() == 0


def test_a_piece_stays_until_it_is_known_that_it_was_fed(tmp_path: Path) -> None:
    """It says after a crash how much of its log was read."""
    logs, state = tmp_path / "logs", tmp_path / "state"
    shutil.copytree(DEMO, logs)
    Feeder(logs, state).feed()
    names = {piece.name for piece in (state / "pieces").iterdir()}
    offsets = (state / "offsets.json").read_text()
    (state / "offsets.json").unlink()
    Feeder(logs, state).forget(names)
    assert {piece.name for piece in (state / "pieces").iterdir()} == names
    (state / "offsets.json").write_text(offsets)
    Feeder(logs, state).forget(names)
    assert not list((state / "pieces").iterdir())


def pieces_of(feeder: Feeder) -> bytes:
    """What was fed, log by log, in order."""
    return b"".join(piece.read_bytes() for piece in sorted(feeder.pieces.glob("*.jsonl")))


def test_a_piece_that_a_crash_left_is_not_made_again_though_the_log_has_grown(tmp_path: Path) -> None:
    """Spark has read it, and reads no name twice."""
    logs, state = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    (logs / "york.jsonl").write_bytes(b'{"n": 1}\n')
    Feeder(logs, state).feed()
    (state / "offsets.json").unlink()
    (logs / "york.jsonl").write_bytes(b'{"n": 1}\n{"n": 2}\n')
    feeder = Feeder(logs, state)
    feeder.feed()
    assert pieces_of(feeder) == b'{"n": 1}\n{"n": 2}\n'
    assert len(list(feeder.pieces.glob("*.jsonl"))) == 2


def test_pieces_are_on_disk_before_it_is_written_that_they_were_fed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a piece would else be empty or missing, and its rows never counted."""
    logs, state = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    (logs / "york.jsonl").write_bytes(b'{"n": 1}\n')
    done: list[str] = []

    def fsync(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    def replace(_: Path, target: Path) -> None:
        done.append(f"{target.name} is there")

    feeder = Feeder(logs, state)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    feeder.feed()
    piece = next(name for name in done if name.endswith(".part")).removeprefix(".").removesuffix(".part")
    assert piece.endswith("-000000000000000.jsonl")
    assert done == [f".{piece}.part", f"{piece} is there", "pieces", "offsets.part", "offsets.json is there"]


def test_an_empty_piece_that_a_power_cut_left_is_made_again(tmp_path: Path) -> None:
    logs, state = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    (logs / "york.jsonl").write_bytes(b'{"n": 1}\n')
    Feeder(logs, state).feed()
    (state / "offsets.json").unlink()
    next((state / "pieces").glob("*.jsonl")).write_bytes(b"")
    feeder = Feeder(logs, state)
    feeder.feed()
    assert pieces_of(feeder) == b'{"n": 1}\n'


def test_a_log_that_is_rotated_meanwhile_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "york.jsonl").write_bytes(b'{"n": 1}\n')
    feeder = Feeder(tmp_path / "logs", tmp_path / "state")
    stat = Path.stat

    def gone(self: Path, **options: bool) -> os.stat_result:
        if self.name == "york.jsonl":
            raise FileNotFoundError(2, "No such file or directory")
        return stat(self, **options)

    for module in ("listing", "feeder"):  # rotated before it is listed, and after
        with monkeypatch.context() as patched:
            if module == "feeder":
                patched.setattr(Feeder, "_logs", lambda _: iter([tmp_path / "logs" / "york.jsonl"]))
            patched.setattr(Path, "stat", gone)
            patched.setattr(Path, "exists", lambda _: True)
            assert feeder.feed() == 0
    assert feeder.faults == {}
    assert feeder.feed() == 9


def test_a_log_that_cannot_be_opened_is_told_and_holds_up_no_other(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "york.jsonl").write_bytes(b'{"n": 1}\n')
    broken = logs / "durham.jsonl.gz"
    broken.symlink_to(broken.name)  # its disk gives an error: a link that leads round in a circle does
    feeder = Feeder(logs, tmp_path / "state")
    assert feeder.feed() == 9
    assert feeder.faults == {str(broken): "cannot be read: Too many levels of symbolic links"}
    broken.unlink()
    broken.write_bytes(gzip.compress(b'{"n": 2}\n'))
    assert feeder.feed() == 9, "once it can be read it is"
    assert feeder.faults == {}
    broken.unlink()
    broken.symlink_to(broken.name)
    with pytest.raises(UsageError, match=r"durham.*cannot be read"):
        list_local([str(logs)])  # an audit of all that is there has no other time


def test_a_log_that_is_away_for_a_month_is_forgotten_and_none_that_comes_back_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, state, days = tmp_path / "logs", tmp_path / "state", [20_000]
    monkeypatch.setattr(audit.feeder.time, "time", lambda: days[0] * 86_400.0)
    logs.mkdir()
    (logs / "york.jsonl").write_bytes(b'{"n": 1}\n')
    (logs / "bath.jsonl").write_bytes(b'{"n": 2}\n')
    assert Feeder(logs, state).feed() == 18
    (logs / "bath.jsonl").rename(tmp_path / "bath.jsonl")
    days[0] += audit.feeder.REMEMBERED
    assert Feeder(logs, state).feed() == 0
    (tmp_path / "bath.jsonl").rename(logs / "bath.jsonl")
    assert Feeder(logs, state).feed() == 0, "it was away, and is known"
    logs.rename(tmp_path / "away")
    logs.mkdir()
    days[0] += 2 * audit.feeder.REMEMBERED
    assert Feeder(logs, state).feed() == 0
    assert len(json.loads((state / "offsets.json").read_text())) == 2, "the folder had gone, not its logs"
    logs.rmdir()
    (tmp_path / "away").rename(logs)
    (logs / "bath.jsonl").unlink()
    assert Feeder(logs, state).feed() == 0
    assert len(json.loads((state / "offsets.json").read_text())) == 1


def test_offsets_of_an_earlier_version_are_understood(tmp_path: Path) -> None:
    logs, state = tmp_path / "logs", tmp_path / "state"
    shutil.copytree(DEMO, logs)
    Feeder(logs, state).feed()
    kept = json.loads((state / "offsets.json").read_text())
    (state / "offsets.json").write_text(json.dumps({name: read for name, (read, _) in kept.items()}))
    assert Feeder(logs, state).feed() == 0
    assert json.loads((state / "offsets.json").read_text()) == kept


def test_a_cut_log_is_followed_as_far_as_it_goes_and_further_once_it_is_whole(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(DEMO, logs)
    whole = (DEMO / "hq.advisories.jsonl").read_bytes()
    others = sum(len(file.read_bytes()) for file in logs.iterdir())
    cut = logs / "copies" / "hq.jsonl.gz"
    cut.parent.mkdir()
    cut.write_bytes(gzip.compress(whole)[:-40])
    (logs / "no.jsonl.gz").write_bytes(b"no gzip")
    feeder = Feeder(logs, tmp_path / "state")
    fed = feeder.feed() - others
    assert 0 < fed < len(whole)
    assert {Path(name).name for name in feeder.faults} == {"hq.jsonl.gz", "no.jsonl.gz"}
    assert all("cut or damaged" in fault for fault in feeder.faults.values())
    cut.write_bytes(gzip.compress(whole[:1000]) + gzip.compress(whole[1000:]))
    assert fed + feeder.feed() == len(whole)
    assert [Path(name).name for name in feeder.faults] == ["no.jsonl.gz"]


@pytest.mark.parametrize("name", ["long.jsonl", "long.jsonl.gz"])
def test_a_line_that_is_too_long_is_told_and_what_follows_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit.feeder, "PIECE", 1000)
    lines = b'{"n": 1}\n{"n": "' + b"x" * 5500 + b'"}\n{"n": 3}\n'
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    feeder = Feeder(tmp_path / "logs", tmp_path / "state")
    assert feeder.feed() == len(lines)
    assert feeder.feed() == 0
    told = pieces_of(feeder).splitlines()
    assert (told[0], told[-1], len(told)) == (b'{"n": 1}', b'{"n": 3}', 3)
    assert set(told[1][:-2]) == {ord("x")}, "the end of the line, which is no row"
    assert ["of more than 1,000 bytes" in fault for fault in feeder.faults.values()] == [True]


def test_parquet_is_not_followed_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "day.parquet").write_bytes(b"PAR1")
    feeder = Feeder(tmp_path / "logs", tmp_path / "state")
    assert feeder.feed() == 0
    assert ["Parquet is not followed" in fault for fault in feeder.faults.values()] == [True]


def test_a_signal_to_the_whole_group_ends_quietly(tmp_path: Path) -> None:
    """As a supervisor does that ends all processes of a service at once: Spark's own is among them."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    shutil.copytree(DEMO, logs)
    (logs / "day.parquet").write_bytes(b"PAR1")
    command = [sys.executable, "-m", "audit", "--follow", str(logs), "--deployment", str(DATA / "stores.csv")]
    with subprocess.Popen(
        [*command, "--out", str(out), "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as follower:
        try:
            assert follower.stdout is not None
            assert "following" in follower.stdout.readline()
            _begun(out, follower)
            os.killpg(follower.pid, signal.SIGTERM)
            said, complaints = follower.communicate(timeout=300)
        finally:
            follower.kill()
    assert follower.returncode == 0, complaints
    assert "rows came too late" in said
    assert "day.parquet: Parquet is not followed" in complaints
    assert not any(word in complaints for word in ("Traceback", "Py4J", "Exception", "ERROR")), complaints
    told = [alert["alert"] for alert in alerts_in(out)]
    assert sorted(told) == ["link down", "link down", "not followed"], "the batch under way was ended"


def test_a_follower_that_cannot_begin_says_why_and_ends(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    shutil.copytree(DEMO, logs)
    (out / "follow").mkdir(parents=True)
    (out / "follow" / "counts").write_text("no folder")
    command = [sys.executable, "-m", "audit", "--follow", str(logs), "--deployment", str(DATA / "stores.csv")]
    done = subprocess.run(
        [*command, "--out", str(out), "--master", "local[2]"], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 1
    assert "sapwood: Spark failed: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_batch_that_fails_ends_the_follower_with_its_reason(
    spark: "SparkSession", demo_tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark itself dies of the long text of such an error: the follower ended well, or never."""

    def full(self: Follower, frame: Any, batch: int) -> None:
        frame.select(raise_error(lit("no space left"))).collect()

    monkeypatch.setattr(Follower, "_alert", full)
    shutil.copytree(DEMO, tmp_path / "logs")
    follower = Follower(spark, demo_tree, Following(tmp_path / "logs", tmp_path / "out"))
    try:
        with pytest.raises(AuditError, match=r"alerts stopped: .*no space left"):
            follower.run(lambda: False, pause=0.2)
    finally:
        follower.stop()


def test_a_second_follower_at_one_folder_is_refused(
    spark: "SparkSession", demo_tree: Tree, tmp_path: Path
) -> None:
    """Both would cut the same pieces, and each would delete those of the other."""
    (tmp_path / "logs").mkdir()
    how = Following(tmp_path / "logs", tmp_path / "out")
    follower = Follower(spark, demo_tree, how)
    try:
        with pytest.raises(AuditError, match="another follower is at work there"):
            Follower(spark, demo_tree, how)
    finally:
        follower.stop()
    Follower(spark, demo_tree, how).stop()


def _begun(out: Path, follower: "subprocess.Popen[str]") -> None:
    """Wait until Spark has written of both queries which pieces their first batch takes."""
    until = time.monotonic() + 120
    while not all((out / "follow" / name / "offsets" / "0").exists() for name in ("alerts", "counts")):
        assert follower.poll() is None
        assert time.monotonic() < until, "no batch began"
        time.sleep(0.05)


def test_both_signals_are_remembered_not_obeyed() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            ended = _Ended()
            ended.listen()
            assert not ended.told
            signal.raise_signal(number)
            assert ended.told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Receiver(HTTPServer):
    """Answers like a node and like a webhook, and keeps what it was asked."""

    asked: list[tuple[str, str, dict[str, str], bytes]]
    status = 200
    refused = ""
    """The path or the body of what it refuses with 400; then it closes the connection without a word."""
    answer = b""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.asked.append((self.command, self.path, dict(self.headers), body))
            refused = server.refused and server.refused in (self.path, body.decode())
            self.send_response(400 if refused else server.status)
            self.send_header("Content-Length", str(len(server.answer)))
            self.end_headers()
            self.wfile.write(server.answer)
            self.close_connection = self.close_connection or bool(refused)

        do_GET = do_POST  # noqa: N815 - the name is http.server's

        def log_message(self, *_: Any) -> None:
            pass

    class Threaded(ThreadingMixIn, Receiver):
        daemon_threads = True

    server = Threaded(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_alerts_go_to_a_webhook_and_to_a_queue_of_the_tree(receiver: Receiver, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{receiver.server_port}"
    ways = (
        Webhook(f"{url}/hook?key=1"),
        Destination(f"queue:alerts/audit@{url}", "secret"),
        Destination(f"topic:alerts@{url}"),
    )
    Alerts(tmp_path, ways).take("rows", 7, [{"id": -5, "alert": "spilled"}])
    paths = [(method, path) for method, path, _, _ in receiver.asked]
    assert paths == [
        ("POST", "/hook?key=1"),
        ("GET", "/login/sapwood-audit"), ("POST", "/send/alerts%2Faudit/-5"),
        ("GET", "/login/sapwood-audit"), ("POST", "/send/topic:alerts/-5"),
    ]  # fmt: skip
    assert receiver.asked[0][2]["Idempotency-Key"] == "-5"
    assert receiver.asked[1][2]["Authorization"] == "Bearer secret"
    assert json.loads(receiver.asked[2][3]) == {"id": -5, "alert": "spilled"}


def test_an_alert_that_nobody_takes_is_in_its_file_and_counted(receiver: Receiver, tmp_path: Path) -> None:
    receiver.status = 503
    alerts = Alerts(tmp_path, (Webhook(f"http://127.0.0.1:{receiver.server_port}/"),))
    alerts.take("rows", 1, [{"id": 1}, {"id": 2}])
    alerts.take("rows", 1, [{"id": 1}, {"id": 2}])
    assert (tmp_path / "rows-000000001.jsonl").read_text() == '{"id":1}\n{"id":2}\n'
    assert alerts.undelivered == 4
    assert "503" in alerts.last_error


TEN: list[dict[str, Any]] = [{"id": number} for number in range(10)]


@pytest.mark.parametrize("answer", [b"", b"x" * 200_000], ids=["short", "long"])
def test_an_alert_that_is_refused_is_one_and_the_others_are_taken(
    receiver: Receiver, answer: bytes, tmp_path: Path
) -> None:
    receiver.refused, receiver.answer = '{"id":3}', answer
    url = f"http://127.0.0.1:{receiver.server_port}"
    for way in (Webhook(url), Destination(f"queue:alerts@{url}")):
        receiver.asked.clear()
        alerts = Alerts(tmp_path, (way,))
        alerts.take("rows", 1, TEN)
        assert [json.loads(body) for *_, body in receiver.asked if body] == TEN
        assert alerts.undelivered == 1
        assert "400" in alerts.last_error


def test_a_login_that_is_refused_is_asked_once_a_batch(receiver: Receiver, tmp_path: Path) -> None:
    receiver.refused = "/login/sapwood-audit"
    alerts = Alerts(tmp_path, (Destination(f"queue:alerts@http://127.0.0.1:{receiver.server_port}"),))
    alerts.take("rows", 1, TEN)
    assert (len(receiver.asked), alerts.undelivered) == (1, 10)


def test_a_connection_that_fails_ends_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def connect(self: http.client.HTTPConnection) -> None:
        tried.append(self.host)
        raise TimeoutError("timed out")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
    alerts = Alerts(tmp_path, (Webhook("http://dead"), Destination("topic:a@http://dead")))
    alerts.take("rows", 1, TEN)
    assert (tried, alerts.undelivered, alerts.last_error) == (["dead", "dead"], 20, "timed out")


@pytest.mark.parametrize(
    "url", ["http://h:99999/", "http://h:x/", "http://h/\u00fc", "http://[h/", "http://h/a b"]
)
def test_an_address_that_no_request_can_be_made_of_is_refused_at_once(url: str) -> None:
    """Not when the first alert comes: that would end the stream."""
    with pytest.raises(UsageError, match="webhook"):
        Webhook(url)


@pytest.mark.parametrize(
    "text", ["alerts", "queue:@http://h", "exact:a@http://h", "queue:a", "queue:a@http:///x"]
)
def test_a_destination_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="alert-to"):
        Destination(text)


def _follow_and_die(logs: str, out: str, root: str, form: str) -> None:
    """Follow until the history has the first batch, and be killed before Spark knows that it was taken."""
    take = Counts.take

    def take_and_die(kept: Counts, batch: int, folder: Path) -> None:
        take(kept, batch, folder)
        os.kill(os.getpid(), signal.SIGKILL)

    Counts.take = take_and_die  # type: ignore[method-assign]
    words = ["--follow", logs, "--out", out, "--deployment", str(DATA / "stores.csv"), "--master", "local[2]"]
    words += ["--window", "1 minute", "--late", "1 minute", "--tree", "demo"]
    cli.main([*words, "--history", root, "--history-format", form])


if __name__ == "__main__":
    _follow_and_die(*sys.argv[1:])
