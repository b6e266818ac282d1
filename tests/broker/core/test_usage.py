"""Messages are counted by the route that they use, not by their topic."""

from types import SimpleNamespace
from typing import Any

from broker.core import usage
from broker.core.usage import RouteUsage
from treeconnector.destinations import Destination, domain, parse, queue
from treeconnector.routes import Route, RoutingTable


def bundle(destination: str, count: int) -> Any:
    return SimpleNamespace(header=SimpleNamespace(destination=parse(destination), count=count))


def made(*routes: str | Destination) -> RouteUsage:
    table = RoutingTable()
    for text in routes:
        table.add(Route(parse(text) if isinstance(text, str) else text, "store"))
    return RouteUsage(table)


def found(counted: RouteUsage) -> dict[str, int]:
    return {str(key): count for key, count in counted.take().items()}


def test_every_pattern_that_a_topic_matches_is_used() -> None:
    counted = made("topic:offers/#", "topic:offers/+", "topic:offers/spring", "topic:prices/#")
    counted.saw(bundle("topic:offers/spring", 3))
    counted.saw(bundle("topic:offers/autumn", 1))
    assert found(counted) == {"topic:offers/#": 4, "topic:offers/+": 4, "topic:offers/spring": 3}


def test_queues_and_nodes_are_routes_and_what_has_none_counts_for_nobody() -> None:
    counted = made(queue("sales"), domain("york"))
    for destination in ("queue:sales", "queue:sales", "queue:till@york", "queue:prices", "topic:weather"):
        counted.saw(bundle(destination, 2))
    assert found(counted) == {"queue:sales": 4, "domain:york": 2}


def test_what_was_taken_is_counted_once() -> None:
    counted = made("queue:sales")
    counted.saw(bundle("queue:sales", 2))
    assert found(counted) == {"queue:sales": 2}
    assert found(counted) == {}


def test_many_topics_take_no_more_memory_than_some(monkeypatch: Any) -> None:
    monkeypatch.setattr(usage, "_MOST_SEEN", 10)
    counted = made("topic:offers/#")
    for number in range(105):
        counted.saw(bundle(f"topic:offers/{number}", 1))
    assert "seen=5 used=1" in repr(counted)
    assert found(counted) == {"topic:offers/#": 105}
