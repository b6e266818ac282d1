"""Messages are counted by the route that they use, where they leave a node; what none used has no count."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from broker.core.policies import usage
from broker.core.policies.usage import RouteUsage
from sapwood.protocol.destinations import Destination, Kind, domain, parse, queue, topic
from sapwood.protocol.names import LOCAL
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.routes import Route, RoutingTable


def made(*routes: str | Destination) -> tuple[RouteUsage, RoutingTable]:
    table = RoutingTable()
    for text in routes:
        table.add(Route(parse(text) if isinstance(text, str) else text, "store"))
    return RouteUsage(table), table


def found(counted: RouteUsage) -> dict[str, int]:
    return {str(key): count for key, count in counted.used.items()}


def watched(site: Site) -> RouteUsage:
    counted = RouteUsage(site.core.table)
    site.core.policies.add([counted])
    return counted


@pytest.fixture
def pair(forest: Forest) -> tuple[RouteUsage, RouteUsage]:
    """Of hq, and of york below it."""
    forest.add("hq")
    forest.add("york", "hq", "leaf")
    forest.dial_all()
    forest.settle(1.0)
    return watched(forest["hq"]), watched(forest["york"])


def test_every_pattern_that_a_topic_matches_is_used() -> None:
    counted, _ = made("topic:offers/#", "topic:offers/+", "topic:offers/spring", "topic:prices/#")
    counted.routed(parse("topic:offers/spring"), "store", 3)
    counted.routed(parse("topic:offers/autumn"), "store", 1)
    assert found(counted) == {"topic:offers/#": 4, "topic:offers/+": 4, "topic:offers/spring": 3}


def test_a_reader_of_one_pattern_uses_its_route_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of thousands that match a topic counted for all of them: a message was minutes of work."""
    table = RoutingTable()
    for pattern in ("#", "offers/#", "offers/+", "offers/spring"):
        table.add(Route(topic(pattern), LOCAL))
    monkeypatch.setattr(RoutingTable, "match", None)
    counted = RouteUsage(table)
    for pattern in ("offers/#", "offers/+", "offers/+", "gone/#"):
        counted.routed(parse("topic:offers/spring"), LOCAL, 2, pattern)
    assert found(counted) == {"topic:offers/#": 2, "topic:offers/+": 4}


def test_queues_and_nodes_are_routes_and_what_goes_another_way_uses_none() -> None:
    counted, _ = made(queue("sales"), domain("york"), "topic:offers/#")
    for destination in ("queue:sales", "queue:sales", "queue:till@york", "queue:prices", "topic:weather"):
        counted.routed(parse(destination), "store", 2)
        counted.routed(parse(destination), "hq", 2)
    assert found(counted) == {"queue:sales": 4, "domain:york": 2}


def test_what_a_route_was_used_for_stays_when_it_goes() -> None:
    counted, table = made("queue:sales", "topic:offers/#", domain("york"))
    for _ in range(2):
        for destination in ("queue:sales", "topic:offers/spring", "queue:till@york"):
            counted.routed(parse(destination), "store", 2)
        table.remove_gateway("store")
    assert found(counted) == {"queue:sales": 2, "topic:offers/#": 2, "domain:york": 2}


def test_of_too_many_routes_it_is_known_that_there_were_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_MOST_USED", 2)
    counted, table = made()
    for number in range(3):
        assert counted.whole
        table.add(Route(queue(f"reply-{number}"), "store"))
        for _ in range(2):
            counted.routed(parse(f"queue:reply-{number}"), "store", 1)
    assert (found(counted), counted.whole) == ({"queue:reply-0": 2, "queue:reply-1": 2}, False)


Two = tuple[RouteUsage, RouteUsage]


def test_a_route_that_comes_is_used_by_what_waits_for_it(forest: Forest, pair: Two) -> None:
    """Also by what came before the node was started again."""
    forest.producer("hq").send("queue:sales", b"1", b"2", b"3")
    forest.producer("york").send("queue:sales", b"4")
    forest.settle(1.0)
    forest["hq"].crash()
    forest["hq"].boot()
    hq, york = watched(forest["hq"]), pair[1]
    forest.heal(2)
    assert (found(hq), found(york)) == ({}, {}), "what goes up by default uses no route"
    reader = forest.consumer("york", "queue:sales")
    forest.settle(2.0)
    assert sorted(reader.payloads) == [b"1", b"2", b"3", b"4"]
    assert found(hq) == found(york) == {"queue:sales": 4}


def test_a_message_for_a_cell_uses_the_node_s_route_and_then_the_cell_s(forest: Forest, pair: Two) -> None:
    reader = forest.consumer("york", "queue:till")
    forest.settle(1.0)
    forest.producer("hq").send("queue:till@york", b"1")
    forest.settle(1.0)
    assert reader.payloads == [b"1"]
    assert (found(pair[0]), found(pair[1])) == ({"domain:york": 1}, {"queue:till": 1})


def test_what_is_retained_uses_the_routes_of_those_who_come_later(forest: Forest, pair: Two) -> None:
    forest.producer("hq").send("topic:offers/a", b"1", retained=True)
    forest.settle(1.0)
    readers = [
        forest.consumer(site, f"topic:{pattern}", pattern)
        for site, pattern in (("york", "offers/#"), ("hq", "+/a"), ("hq", "+/b"))
    ]
    forest.settle(1.0)
    assert [reader.payloads for reader in readers] == [[b"1"], [b"1"], []]
    assert found(pair[0]) == {"topic:offers/#": 1, "topic:+/a": 1}
    assert found(pair[1]) == {"topic:offers/#": 1}


def _alias(forest: Forest) -> None:
    forest["hq"].core.static_routing.add("alias", "queue:orders", "queue:sales")


def _given_back(forest: Forest) -> None:
    letters = forest["hq"].core.dead_letters
    dead = list(forest["hq"].core.custody.dead.waiting)
    assert letters.give_back([(copy, copy.all) for copy in dead])


@pytest.mark.parametrize(
    ("destination", "until", "then"),
    [("orders", 0.0, _alias), ("sales", 0.5, _given_back)],
    ids=["alias", "dead letter"],
)
def test_so_do_messages_that_take_another_way_later(
    forest: Forest, pair: Two, destination: str, until: float, then: Callable[[Forest], None]
) -> None:
    expires = {"expires_in": int(until * 1000)} if until else {}
    forest.producer("hq").send(f"queue:{destination}", b"1", **expires)
    forest.settle(80.0)
    reader = forest.consumer("york", "queue:sales")
    forest.settle(1.0)
    assert (reader.payloads, found(pair[0])) == ([], {})
    then(forest)
    forest.settle(3.0)
    assert reader.payloads == [b"1"]
    assert found(pair[0]) == found(pair[1]) == {"queue:sales": 1}


def test_so_does_what_nobody_wants(forest: Forest, pair: Two) -> None:
    reader = forest.consumer("hq", "queue:dump")
    forest.settle(1.0)
    forest["hq"].core.static_routing.add("dumpster", "", "dump")
    forest.producer("hq").send("queue:nowhere", b"1")
    forest.settle(80.0)
    assert reader.payloads == [b"1"]
    assert found(pair[0]) == {"queue:dump": 1}


BELOW = {"hq": "", "north": "hq", "south": "hq", "york": "north", "durham": "north", "bath": "south"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("advise_down", ["all", "none"])
def test_a_route_counts_as_used_if_and_only_if_a_reader_behind_it_was_given_something(
    forest: Forest, advise_down: str, seed: int
) -> None:
    """Consumers come, go and share; reckoned by what they had, and from where."""
    for site, parent in BELOW.items():
        forest.add(site, parent, "branch" if parent == "hq" else "", advise_down=advise_down)
    forest.dial_all()
    forest.settle(2.0)
    counted = {site: watched(forest[site]) for site in BELOW}
    choose = random.Random(seed)
    expected: dict[str, Counter[Destination]] = {site: Counter() for site in BELOW}
    readers: list[SimulatedConsumer] = []
    taken: Counter[SimulatedConsumer] = Counter()
    for number in range(40):
        here = [reader for reader in readers if reader.connection is not None]
        if here and choose.random() < 0.2:
            gone = choose.choice(here)
            gone.unsubscribe()
            gone.disconnect()
            forest.settle(15.0)  # its routes linger
        elif choose.random() < 0.3:
            what = choose.choice(("queue:a", "queue:b", "topic:o/#", "topic:o/+", "topic:+/x", "topic:o/x"))
            readers.append(forest.consumer(choose.choice(list(BELOW)), what, f"reader-{len(readers)}"))
            forest.settle(1.0)
        origin = choose.choice(list(BELOW))
        options = {} if choose.random() < 0.8 else {"persistent": False}
        destination = choose.choice(("queue:a", "queue:b", "topic:o/x", "topic:o/y", "topic:p/x"))
        forest.producer(origin, f"producer-{number}").send(destination, b"%d" % number, **options)
        forest.settle(2.0)
        here = [reader for reader in readers if reader.connection is not None]
        for reader in readers:
            for receipt in reader.receipts[taken[reader] :]:
                begin = origin if receipt.payload == b"%d" % number else "hq"  # others have waited there
                up, down = _way(begin, reader.site.name)
                told = {each.site.name for each in here if each.destination == reader.destination}
                if advise_down == "none":
                    told = set()
                for site in down + [site for site in up if told.intersection(_above(site))]:
                    expected[site][reader.destination] += 1
            taken[reader] = len(reader.receipts)
    for site in BELOW:
        used = counted[site].used
        assert set(used) == set(expected[site]), site
        queues = [key for key in used if key.kind == Kind.QUEUE]
        assert {key: used[key] for key in queues} == {key: expected[site][key] for key in queues}, site
    assert any(expected.values())


def _way(origin: str, site: str) -> tuple[list[str], list[str]]:
    """From which sites a message goes up; and from which down, to another one or to its reader there."""
    up, down = [origin, *_above(origin)], [site, *_above(site)]
    turn = next(each for each in down if each in up)
    return up[: up.index(turn)], down[: down.index(turn) + 1]


def _above(site: str) -> list[str]:
    return [BELOW[site], *_above(BELOW[site])] if BELOW[site] else []


def test_long_names_have_no_count_once_they_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_BYTES", 3000)
    names = [f"topic:{letter}/{chr(233) * 500}" for letter in "abcd"]
    counted, _ = made(*names, "topic:short")
    for name in (*names, names[0], "topic:short"):
        counted.routed(parse(name), "store", 1)
    assert found(counted) == {names[0]: 2, names[1]: 1, "topic:short": 1}
    assert not counted.whole
    counted.used = {}
    counted.routed(parse(names[3]), "store", 1)
    assert found(counted) == {names[3]: 1}
