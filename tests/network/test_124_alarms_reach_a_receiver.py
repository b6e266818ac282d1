"""Alarms of real nodes at a real receiver: raised, told although node and receiver were away, and ended."""

import asyncio
import hashlib
import hmac
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands import refused, sapwood, told
from harness import PATIENCE, Network

from broker.alarms.watch import FILE
from broker.cli.demo.plan import free_ports

KEY, TOKEN, HIDDEN = "a key to sign with", "a token", "a-secret-part"


class Receiver(ThreadingHTTPServer):
    """Takes events whose signature is right."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Taker)
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    async def until(self, alarm: str, state: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in self.events:
                    if (event["alarm"], event["state"]) == (alarm, state):
                        return event
                await asyncio.sleep(0.05)


class Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signed = f"{self.headers['Sapwood-Timestamp']}.".encode() + body
        expected = "sha256=" + hmac.new(KEY.encode(), signed, hashlib.sha256).hexdigest()
        right = hmac.compare_digest(expected, self.headers["Sapwood-Signature"])
        if right and self.headers["Authorization"] == f"Bearer {TOKEN}" and self.path == f"/{HIDDEN}":
            self.server.events.append(json.loads(body))
            self.send_response(204)
        else:
            self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def port() -> int:
    (found,) = free_ports(1)
    return found


@pytest.fixture
def settings(tmp_path: Path, port: int) -> dict[str, Any]:
    for name, text in (("key", KEY), ("token", TOKEN), ("uri", f"http://127.0.0.1:{port}/{HIDDEN}")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    webhook = {"uri_file": "uri", "token_file": "token", "key_file": "key"}
    rules = [
        {"name": "backlog", "metric": "waiting", "above": 2, "lasting": 0, "queue": "sales"},
        {"name": "store-away", "metric": "links_down", "above": 0, "lasting": "1s", "severity": "critical"},
        {"name": "told-to-nobody", "metric": "sessions", "below": 1, "lasting": 0, "severity": "info"},
    ]
    return {"history": {"every": "1s"}, "alarms": {"rules": rules, "webhook": webhook}}


def is_kept(network: Network, rule: str) -> bool:
    """Is the event of an alarm where a node that is killed now will find it?"""
    file = network.data("hq") / FILE
    kept = json.loads(file.read_text()) if file.exists() else {}
    return any(event["alarm"] == rule for event in kept.get("waiting", ()))


async def test_alarms_are_told_once_the_receiver_is_there_and_end(
    network: Network, settings: dict[str, Any], port: int
) -> None:
    network.add("hq", **settings)
    network.add("york", "hq")
    await network.start()
    # The queue is one that nobody reads and that hq keeps.
    await network.send("hq", "queue:sales", [b"1", b"2", b"3"])
    await network.until("hq", lambda _: is_kept(network, "backlog"), "keeping an alarm on disk")
    network.kill("hq")
    # The event was not taken, the alarm not told: both are there after the kill.
    await network.start("hq")
    shown = await told(network, "hq", "alarms")
    assert shown["webhook"]["waiting"] >= 1
    status = await network.status("hq")
    assert "backlog" in names(status)
    receiver = Receiver(port)
    try:
        raised = await receiver.until("backlog", "raised")
        assert (raised["node"], raised["queue"], raised["value"]) == ("hq", "sales", 3.0)
        assert raised["condition"] == "waiting of queue sales above 2"
        network.kill("york")
        away = await receiver.until("store-away", "raised")
        assert away["severity"] == "critical"
        _, said, _ = await sapwood("status", "--url", network.url("hq"))
        assert "! alarm store-away (critical) since " in said
        await network.start("york")
        await receiver.until("store-away", "ended")
        assert len(await network.collect("hq", "queue:sales", 3)) == 3
        await receiver.until("backlog", "ended")
        assert "waits for the webhook" in (await sapwood("alarm", "test", "--url", network.url("hq")))[1]
        assert (await receiver.until("test", "test"))["text"] == "hq: this is a test of the webhook"
        assert len({event["id"] for event in receiver.events}) == len(receiver.events)
        assert "told-to-nobody" not in {event["alarm"] for event in receiver.events}
    finally:
        receiver.stop()
    said = json.dumps([shown, status]) + network.nodes["hq"].log.read_text()
    for secret in (KEY, TOKEN, HIDDEN):
        assert secret not in said
    assert "names no webhook" in await refused(network, "york", "alarm", "test")


async def test_changed_rules_and_another_receiver_count_at_once(
    network: Network, settings: dict[str, Any], port: int, tmp_path: Path
) -> None:
    network.add("hq", **settings)
    await network.start()
    hq = network.nodes["hq"]
    await network.send("hq", "queue:sales", [b"1", b"2", b"3"])
    await network.until("hq", lambda status: "backlog" in names(status), "an alarm of the backlog")
    rules = [{"name": "few", "metric": "waiting", "above": 1, "lasting": 0, "queue": "sales"}]
    (other,) = free_ports(1)
    (tmp_path / "uri").write_text(f"http://127.0.0.1:{other}/{HIDDEN}")
    site = json.loads(hq.file.read_text())
    site["broker"]["alarms"]["rules"] = rules
    hq.file.write_text(json.dumps(site))
    receiver = Receiver(other)
    try:
        hq.signal(signal.SIGHUP)
        await receiver.until("backlog", "raised")  # nobody had taken it
        await receiver.until("backlog", "ended")
        assert (await receiver.until("few", "raised"))["condition"] == "waiting of queue sales above 1"
        assert names(await network.status("hq")) == ["few"]
        site["broker"]["alarms"]["rules"] = [{"name": "few", "metric": "no-such"}]
        hq.file.write_text(json.dumps(site))
        assert "no-such" in await refused(network, "hq", "permits", "reload")
        assert names(await network.status("hq")) == ["few"]
    finally:
        receiver.stop()


def names(status: dict[str, Any]) -> list[str]:
    return [each["name"] for each in status["alarms"]]
