"""Messages are counted by the route that they use, not by their topic."""

from types import SimpleNamespace
from typing import Any

from broker.core import usage
from broker.core.usage import RouteUsage
from simulation.forest import Forest
from treeconnector.destinations import Destination, domain, parse, queue, topic
from treeconnector.routes import Route, RoutingTable


def bundle(destination: str, count: int) -> Any:
    return SimpleNamespace(header=SimpleNamespace(destination=parse(destination), count=count))


def made(*routes: str | Destination, table: RoutingTable | None = None) -> RouteUsage:
    table = RoutingTable() if table is None else table
    for text in routes:
        table.add(Route(parse(text) if isinstance(text, str) else text, "store"))
    nothing: Any = SimpleNamespace(places={}, directed={})
    return RouteUsage(table, nothing)


def found(counted: RouteUsage) -> dict[str, int]:
    return {str(key): count for key, count in counted.settle().items()}


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


def test_what_was_seen_is_counted_once() -> None:
    counted = made("queue:sales")
    counted.saw(bundle("queue:sales", 2))
    assert found(counted) == {"queue:sales": 2}
    assert found(counted) == {"queue:sales": 2}


def test_what_a_route_was_used_for_stays_when_it_goes() -> None:
    table = RoutingTable()
    counted = made("queue:sales", "topic:offers/#", "topic:offers/spring", domain("york"), table=table)
    for destination in ("queue:sales", "topic:offers/spring", "queue:till@york"):
        counted.saw(bundle(destination, 2))
    table.remove_gateway("store")
    all_of_it = {"queue:sales": 2, "topic:offers/#": 2, "topic:offers/spring": 2, "domain:york": 2}
    for destination in ("queue:sales", "topic:offers/spring", "queue:till@york"):
        counted.saw(bundle(destination, 3))
    assert found(counted) == all_of_it


def test_a_route_is_not_used_by_what_went_elsewhere_before_it_came() -> None:
    table = RoutingTable()
    counted = made("topic:offers/#", table=table)
    for destination in ("queue:sales", "topic:offers/spring"):
        counted.saw(bundle(destination, 2))
    for key in (queue("sales"), topic("offers/+")):
        table.add(Route(key, "store"))
    assert found(counted) == {"topic:offers/#": 2}


def test_a_second_gateway_and_a_line_that_falls_change_no_count() -> None:
    table = RoutingTable()
    counted = made("queue:sales", table=table)
    counted.saw(bundle("queue:sales", 2))
    table.add(Route(queue("sales"), "other"))
    table.set_live(queue("sales"), "store", False)
    table.remove(queue("sales"), "other")
    assert found(counted) == {"queue:sales": 2}


def test_a_route_that_comes_is_used_by_what_waits_for_it(forest: Forest) -> None:
    """Also by what came before the node was started again."""
    forest.add("hq")
    forest.add("york", "hq", "leaf")
    forest.dial_all()
    forest.settle(1.0)
    producer = forest.producer("hq")
    for number in range(3):
        producer.send("queue:sales", b"%d" % number)
    producer.send("queue:till@durham", b"for later")
    forest.settle(1.0)
    forest["hq"].crash()
    core = forest["hq"].boot()
    counted = RouteUsage(core.table, core.custody)
    core.arrivals.taps.append(counted.saw)
    forest.heal(2)
    assert found(counted) == {}
    reader = forest.consumer("york", "queue:sales")
    forest.add("durham", "hq", "leaf")
    forest.dial_all()
    forest.settle(2.0)
    assert reader.payloads == [b"0", b"1", b"2"]
    assert found(counted) == {"queue:sales": 3, "domain:durham": 1}
    forest.producer("hq", "another").send("queue:sales", b"at once")
    forest.settle(1.0)
    reader.disconnect()
    forest.settle(60.0)
    assert queue("sales") not in core.table
    assert found(counted) == {"queue:sales": 4, "domain:durham": 1}


def test_more_routes_than_there_is_room_for_are_counted_together(monkeypatch: Any) -> None:
    monkeypatch.setattr(usage, "_MOST_USED", 2)
    table = RoutingTable()
    counted = made(table=table)
    for number in range(5):
        key = queue(f"reply-{number}")
        table.add(Route(key, "store"))
        counted.saw(bundle(str(key), 1))
        table.remove(key, "store")
    assert (found(counted), counted.more) == ({"queue:reply-0": 1, "queue:reply-1": 1}, 3)


def test_many_topics_take_no_more_memory_than_some(monkeypatch: Any) -> None:
    monkeypatch.setattr(usage, "_MOST_SEEN", 10)
    counted = made("topic:offers/#")
    for number in range(105):
        counted.saw(bundle(f"topic:offers/{number}", 1))
    assert "seen=5 used=1" in repr(counted)
    assert found(counted) == {"topic:offers/#": 105}
