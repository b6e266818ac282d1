"""What `sapwood status` makes of what a node says."""

import pytest

from broker.cli import node_api
from broker.cli.node_api import NodeApi
from broker.cli.status import duration, show_status, size, summary

FOUND = {
    "name": "york", "tree": "acme", "role": "leaf", "chain": ["york", "north", "hq"], "start": 3, "pid": 7,
    "uptime_s": 3725.4, "ready": True, "sessions": 2,
    "store": {"used_bytes": 5 * 2**20, "disk_free": 3 * 2**30},
    "dead": {"messages": 4, "reasons": {"EXPIRED": 4}},
    "parent": {"name": "north", "state": "running", "since_s": 61.0, "waiting": 12},
    "children": [],
    "queues": [
        {"name": "queue:prices", "messages": 3, "bytes": 300, "oldest_s": 1.5, "readers": 1,
         "targets": ["local"]}
    ],
}  # fmt: skip


def test_a_node_in_a_few_lines() -> None:
    text = "\n".join(summary(FOUND))
    for part in ("york · leaf of tree acme · york < north < hq", "up 1h 2m", "5.0 MiB used", "4 EXPIRED"):
        assert part in text


def test_a_node_that_refuses_says_why() -> None:
    assert "NOT READY disk full" in "\n".join(summary(FOUND | {"ready": False, "refusing": "disk full"}))


def test_what_a_node_warns_of_is_shown() -> None:
    assert summary(FOUND | {"warnings": ["DEBUG MODE"]})[-1] == "! DEBUG MODE"


def test_where_children_may_dial_beside_the_port_is_shown() -> None:
    brokers = [
        {"uri": "mqtt://b", "state": "listening", "links": 3, "error": ""},
        {"uri": "amqp://b", "state": "waiting", "links": 0, "error": "it cannot be reached"},
    ]
    assert summary(FOUND | {"link_brokers": brokers})[3:5] == [
        "children at mqtt://b: listening, 3 links",
        "children at amqp://b: waiting, 0 links · it cannot be reached",
    ]


def test_of_a_sites_broker_it_says_what_is_wrong_there() -> None:
    broker = {
        "uri": "amqp://b", "state": "running", "broker": "RabbitMQ 4.0.5", "taken": 0, "discovery": "events",
        "blocked": "low on memory", "lacks": {"policies": "policy 'all' sets message-ttl"},
        "held": 1200, "held_for": ["queue:low"], "other_ways": {"queue:sales": "node 'york' gave it"},
        "troubles": {f"queue:{n}": "ACCESS_REFUSED" for n in "abcd"},
    }  # fmt: skip
    assert summary(FOUND | {"site_broker": broker})[4:-1] == [
        "consumers there: events",
        "! the site broker takes no messages now: low on memory",
        "! the site broker lacks something: policy 'all' sets message-ttl",
        "! 1200 messages taken from it find no room here: queue:low",
        "! queue:sales comes another way than the tree's, too: node 'york' gave it",
        "! queue:a is not taken from it: ACCESS_REFUSED",
        "! queue:b is not taken from it: ACCESS_REFUSED",
        "! queue:c is not taken from it: ACCESS_REFUSED",
    ]


def test_an_older_node_that_says_little_is_shown_all_the_same() -> None:
    assert summary({"name": "hq"})


def test_links_and_queues_are_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(node_api, "ask", lambda *_args, **_options: FOUND)
    show_status(NodeApi("http://127.0.0.1:1"), as_json=False)
    text = capsys.readouterr().out
    for part in ("north", "running", "1m 1s", "12", "queue:prices", "local"):
        assert part in text
    show_status(NodeApi("http://127.0.0.1:1"), as_json=True)
    assert '"name":"york"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (3600, "1h"), (90061, "1d 1h"), (60, "1m")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**40 * 3, "3.0 TiB")]
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert size(count) == text
