"""The database of a real Mosquitto, and files that are none."""

import signal
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from mosquitto_server import MosquittoServer
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from bridges.site_brokers.mosquitto.database import DatabaseError, subscriptions


def test_sessions_that_outlive_their_connections_are_found(tmp_path: Path) -> None:
    server = MosquittoServer(tmp_path / "broker", "allow_anonymous true", "persistence true")
    server.start()
    try:
        for name, clean in (("has space", False), ("another", False), ("passing", True)):
            _subscribe(server, name, clean, "prices/#", "a/ b")
        file = server.folder / "mosquitto.db"
        assert server.process is not None
        server.process.send_signal(signal.SIGUSR1)
        wanted = {"has space": ["a/ b", "prices/#"], "another": ["a/ b", "prices/#"]}
        deadline = time.monotonic() + 60
        while (
            not file.exists()
            or {name: sorted(texts) for name, texts in subscriptions(file, 100).items()} != wanted
        ):
            assert time.monotonic() < deadline, "not saved in time"
            time.sleep(0.05)
        assert sum(map(len, subscriptions(file, 3).values())) == 3
        whole = file.read_bytes()
        for length in range(24, len(whole), 7):
            (tmp_path / "part.db").write_bytes(whole[:length])
            found = subscriptions(tmp_path / "part.db", 100)
            assert all(set(texts) <= set(wanted[name]) for name, texts in found.items())
    finally:
        server.kill()


def _subscribe(server: MosquittoServer, name: str, clean: bool, *filters: str) -> None:
    done: list[Any] = []
    client = paho.Client(
        CallbackAPIVersion.VERSION2, name, clean_session=clean, protocol=MQTTProtocolVersion.MQTTv311
    )
    client.on_connect = lambda *_: client.subscribe([(text, 1) for text in filters])
    client.on_subscribe = lambda *_: done.append("")
    client.connect("127.0.0.1", server.port)
    deadline = time.monotonic() + 60
    while not done:
        assert time.monotonic() < deadline, "not subscribed"
        client.loop(0.1)
    client.disconnect()
    while client.loop(0.1) == paho.MQTT_ERR_SUCCESS:
        assert time.monotonic() < deadline, "not disconnected"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is no database"),
        (b"\x00\xb5\x00mosquitto db" + bytes(4) + b"\x00\x00\x00\x63", "has format 99"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_database_says_so(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "mosquitto.db"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DatabaseError, match=why):
        subscriptions(file, 10)
