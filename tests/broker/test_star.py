"""dCache's words: cores and satellites. Each of its rules, as it is checked on a star in memory."""

from dataclasses import replace
from typing import Literal

import pytest

from broker.core.settings import CoreSettings
from broker.settings import core_settings
from config.model import Site
from config.rules import check
from sapwood.protocol.destinations import domain, queue, topic
from simulation.forest import QUICK, Forest
from treeconnector.relations import Relation

CORES = ("core-a", "core-b")
SATELLITES = ("sat-1", "sat-2")


def settings(scheme: Literal["core", "satellite"]) -> CoreSettings:
    """What a file with that scheme makes of a node, in the times of the tests."""
    found = core_settings(check(Site(name="n", scheme=scheme)))
    return replace(QUICK, advise_down=found.advise_down, policies=found.policies)


@pytest.fixture
def star() -> Forest:
    made = Forest(settings("core"))
    made.add_mesh(*CORES)
    made.settings = settings("satellite")
    for name in SATELLITES:
        made.add(name, "core-a", "leaf")
    made.heal(4)
    return made


def test_a_satellite_without_a_core_is_disconnected_and_no_root() -> None:
    assert check(Site(name="n", scheme="satellite")).role == "leaf"
    forest = Forest(settings("satellite"))
    forest.add("n", "nowhere", "leaf")
    forest.producer("n").send("topic:t", b"1")
    forest.settle(1)
    assert forest["n"].core.context.lacks_parent
    assert forest["n"].waiting() == 1


def test_satellites_link_with_all_cores_and_the_smaller_core_dials(star: Forest) -> None:
    for name in SATELLITES:
        neighbours = star[name].core.neighbours.values()
        assert {each.name: each.relation for each in neighbours} == dict.fromkeys(CORES, Relation.PARENT)
    wire = star.wire_of("core-a", "core-b")
    assert wire is not None
    assert star.wire_of("core-b", "core-a") is None


def test_a_default_route_appears_with_each_core_link_and_one_that_is_down_is_skipped(star: Forest) -> None:
    satellite = star["sat-1"].core
    assert set(satellite.context.parents) == set(CORES)
    ways = {satellite.lookup.way(queue(f"q{number}")).gateways for number in range(20)}
    assert ways == {("core-a",), ("core-b",)}
    star["core-a"].crash()
    star.settle(1)
    assert {satellite.lookup.way(queue(f"q{number}")).gateways for number in range(20)} == {("core-b",)}
    core = star["core-b"].core
    link = core.neighbours["sat-1"].link
    assert link is not None
    core.admission.handle(link, link.goodbye("leaves"))
    star.settle()
    assert set(satellite.context.parents) == {"core-a"}


def test_consumers_in_a_satellite_are_known_in_all_cores_and_not_in_other_satellites(star: Forest) -> None:
    star.consumer("sat-1", "queue:q")
    star.consumer("sat-1", "topic:t", "other")
    star.settle(1)
    for key in (queue("q"), topic("t"), domain("sat-1")):
        assert all("sat-1" in star[name].core.table.gateways(key) for name in CORES)
        assert key not in star["sat-2"].core.table


def test_queue_consumers_in_a_core_are_known_in_the_satellites_topic_routes_are_not(star: Forest) -> None:
    star.consumer("core-a", "queue:q")
    star.consumer("core-a", "topic:t", "other")
    star.settle(1)
    for name in SATELLITES:
        assert set(star[name].core.table.gateways(queue("q"))) == {"core-a"}
        assert topic("t") not in star[name].core.table
    assert topic("t") in star["core-b"].core.table


def test_satellites_reach_each_other_by_the_default_route_in_two_hops(star: Forest) -> None:
    reader = star.consumer("sat-2", "queue:q")
    star.settle(1)
    star.producer("sat-1").send("queue:q", b"1")
    star.settle(1)
    assert reader.payloads == [b"1"]
    assert sum(star[name].core.counters["out"] for name in (*CORES, *SATELLITES)) == 2


def test_a_topic_goes_along_all_topic_routes_and_one_default_route(star: Forest) -> None:
    readers = [star.consumer(name, "topic:t", name) for name in (*CORES, *SATELLITES)]
    star.settle(1)
    star.producer("sat-1").send("topic:t", b"1")
    star.settle(1)
    assert [reader.payloads for reader in readers] == [[b"1"]] * 4
    out = star["sat-1"].core.counters["out"]
    assert out == 1
    assert sum(star[name].core.counters["out"] for name in CORES) == 2


def test_queue_routes_are_shared_and_local_delivery_comes_first(star: Forest) -> None:
    first, second = (star.consumer(name, "queue:q", name, credit=1, auto=False) for name in SATELLITES)
    star.settle(1)
    producer = star.producer("core-a")
    for number in range(6):
        producer.send("queue:q", b"%d" % number)
        star["core-a"].run()
    star.settle(1)
    assert {star[name].core.counters["in"] for name in SATELLITES} == {3}
    local = star.consumer("sat-1", "queue:r", "r")
    star.consumer("sat-2", "queue:r", "other")
    star.settle(1)
    star.producer("sat-1", "p").send("queue:r", b"1", b"2")
    star.settle(1)
    assert local.payloads == [b"1", b"2"]
    assert first.receipts
    assert second.receipts


def test_a_dozen_cores_without_satellites() -> None:
    names = [f"core-{number:02}" for number in range(12)]
    forest = Forest(settings("core"))
    forest.add_mesh(*names)
    forest.heal(4)
    assert len(forest.wires) == 66
    reader = forest.consumer("core-07", "queue:q")
    readers = [forest.consumer(name, "topic:t", f"t-{name}") for name in names]
    forest.settle(1)
    forest.producer("core-03").send("queue:q", b"1")
    forest.producer("core-03", "p").send("topic:t", b"2")
    forest.settle(1)
    assert reader.payloads == [b"1"]
    assert [each.payloads for each in readers] == [[b"2"]] * 12
