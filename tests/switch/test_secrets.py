"""Who may log in, and where a token may be read."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from plain import Link

TOKEN = "very-secret-token"


def test_a_configured_secret_is_needed_beside_the_token(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_TEST_SECRET", "word")
    node = make(http={"session_secret_env": "SAPWOOD_TEST_SECRET"})
    link = node.link()
    assert link.ask("/login/till").status == 403
    assert link.ask("/login/till", None, "Authorization: Bearer wrong").status == 403
    assert link.ask("/login/till", None, "Authorization: Basic word").status == 403
    assert link.ask("/create/q").status == 403
    assert link.ask("/login/till", None, "Authorization: Bearer word").status == 200
    assert link.create("q") == "q"


def test_from_elsewhere_the_dump_is_for_a_login_with_every_right_and_names_no_secret(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_TEST_SECRET", "a-secret-word")
    node = make(http={"session_secret_env": "SAPWOOD_TEST_SECRET"})
    link, far = node.link(), "X-Forwarded-For: 192.0.2.7"
    assert "settings" not in json.loads(link.well("/", None, far))
    link.login(TOKEN, far, "Authorization: Bearer a-secret-word").create("orders")
    text = link.well("/", None, far)
    dump = json.loads(text)
    assert {"settings", "versions", "session_list", "queues", "parent", "children"} <= set(dump)
    assert "queue:orders" in [queue["name"] for queue in dump["queues"]]
    assert "SAPWOOD_TEST_SECRET" in dump["settings"]
    assert "a-secret-word" not in text
    assert TOKEN not in text


def own_address() -> str:
    """An address of this machine that is no loopback one; '' if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def test_without_proof_nobody_from_elsewhere_logs_in(make: Any) -> None:
    address = own_address()
    node = make(listener={"host": "0.0.0.0"}, applications="local")
    node.session("near").create("q")
    forwarded = node.link()
    assert forwarded.ask("/login/far", None, "X-Forwarded-For: 192.0.2.7").status == 403
    assert forwarded.ask("/login/far", None, "Forwarded: for=192.0.2.7").status == 403
    assert address, "this machine has no address but the loopback one"
    link = Link.__new__(Link)
    link.socket, link.data = socket.create_connection((address, node.port), 10), b""
    with link:
        answer = link.ask("/login/far")
        assert (answer.status, b"of its own machine only" in answer.body) == (403, True)
        assert link.ask("/create/q").status == 403


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_token_is_in_no_log(make: Any, form: str) -> None:
    node = make(log={"level": "debug", "format": form})
    link = node.session(TOKEN)
    link.read("q")
    link.send("q", b"x")
    link.ask("/ack/77")
    link.ask("/ack/x")
    link.begin_transfer()
    link.reset()
    for data in (
        f"GET /login/{TOKEN}\x7f HTTP/1.1\r\n\r\n",
        f"GET /login/{TOKEN} HTTP/9.9\r\n\r\n",
        f"PUT /login/{TOKEN} HTTP/1.1\r\n\r\n",
        f"GET /login/{TOKEN}?x HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        f"GET /nothing/{TOKEN} HTTP/1.1\r\n\r\n",
    ):
        odd = node.link()
        odd.send_raw(data.encode())
        odd.answer()
        odd.reset()
    node.until(lambda status: status["sessions"] == 0, "gone")
    sessions = node.link().well("/api/sessions")
    status = node.link().well("/api/status")
    metrics = node.link().well("/metrics")
    assert node.stop() == 0
    logged = Path(node.log).read_text()
    advisories = "".join(path.read_text() for path in node.file.parent.glob("data-*/advisories/*.ndjson"))
    for where in (logged, sessions, status, metrics, advisories):
        assert TOKEN not in where
    assert logged
