"""Where a node says that it can be dialled, to whoever asks on the same network."""

import errno
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.dns.records import NamedParent
from broker.location.lan import LanAnswers
from config.model import Listener, Site


def answers(listener: Listener, *addresses: str) -> LanAnswers:
    core: Any = SimpleNamespace(logical_addresses=SimpleNamespace(addresses=list(addresses)))
    return LanAnswers(Site(name="hq", tree="acme", listener=listener), core)


def test_a_node_that_listens_everywhere_names_the_address_on_the_way_to_the_asker() -> None:
    found = answers(Listener(host="0.0.0.0"), "ws://some-host:7600/link").parents("127.0.0.1")
    assert found == [NamedParent("ws://127.0.0.1:7600/link", tree="acme", node="hq")]


def test_what_a_node_announces_is_told_as_it_is() -> None:
    listener = Listener(host="0.0.0.0", public_uri="wss://hq.example.com:7600/link")
    found = answers(listener, "wss://hq.example.com:7600/link", "wss://line-2:7601/link").parents("127.0.0.1")
    assert [each.uri for each in found] == ["wss://hq.example.com:7600/link", "wss://line-2:7601/link"]


def test_a_broker_is_told_to_nobody() -> None:
    own = "wss://hq.example.com:7600/link"
    found = answers(
        Listener(host="0.0.0.0", public_uri=own), own, "mqtts://broker:8883", "amqp://broker:5672"
    )
    assert [each.uri for each in found.parents("127.0.0.1")] == [own]


def test_a_node_that_listens_at_one_address_names_that() -> None:
    found = answers(Listener(host="127.0.0.1"), "ws://127.0.0.1:7600/link").parents("127.0.0.1")
    assert [each.uri for each in found] == ["ws://127.0.0.1:7600/link"]


def test_a_node_without_descriptors_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", none_left)
    assert answers(Listener(host="0.0.0.0"), "ws://some-host:7600/link").parents("127.0.0.1") == []
