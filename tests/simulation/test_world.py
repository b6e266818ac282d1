"""The virtual network: lines that take time, are cut, and come back; nodes that are killed."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from broker.core.settings import CoreSettings
from sapwood.protocol.destinations import parse
from simulation.advisory_log import Row
from simulation.applications import Application
from simulation.deployment import deployment, generated
from simulation.invariants import check_routes
from simulation.lines import LineSettings
from simulation.machine import Speed
from simulation.world import World, WorldSettings, populate
from treeconnector.link import LinkSettings

DEPLOYMENT = generated(6, regions=2)
SLOW = LineSettings(latency=0.1, bandwidth=2000)


def world(line: LineSettings = LineSettings(), seed: int = 1, **rules: object) -> tuple[World, list[Row]]:  # noqa: B008
    rows: list[Row] = []
    core = CoreSettings(**{"linger": 0.0, "dormant_after": 30.0} | rules)  # type: ignore[arg-type]
    settings = WorldSettings(core=core, links=LinkSettings(keep_alive=10.0, dead_after=2.0))
    made = World(settings, seed, rows.append)
    for place in DEPLOYMENT.places:
        made.boot(made.add(place.name, place.parent, place.role, line))
    made.run(60.0)
    assert made.all_up
    return made, rows


def want(made: World, node: str, destination: str = "queue:prices") -> None:
    made.interest(made[node], "add", destination)
    made.stir(made[node])


def test_an_advisory_takes_one_latency_a_hop() -> None:
    made, rows = world(LineSettings(latency=0.5))
    rows.clear()
    start = made.clock()
    want(made, "store-1")
    made.run(made.now + 5)
    took = {row.node: (row.at - start) / 1e6 for row in rows if row.event == "advisory"}
    assert took == {"region-1": 0.5, "hq": 1.0}


def test_a_slow_disk_and_a_slow_processor_take_their_time_at_each_hop() -> None:
    made, rows = world(LineSettings(latency=0.5))
    made["region-1"].speed = Speed(commit=0.001, packet=2.0)
    made["hq"].speed = Speed(commit=0.001, packet=0.25)
    rows.clear()
    start = made.clock()
    want(made, "store-1")
    made.run(made.now + 10)
    took = {row.node: (row.at - start) / 1e6 for row in rows if row.event == "advisory"}
    assert took == {"region-1": 2.5, "hq": 3.25}


def test_packets_wait_behind_those_that_came_before() -> None:
    made, rows = world()
    made["region-1"].speed = Speed(packet=1.0)
    rows.clear()
    start = made.clock()
    stores = [machine.name for machine in made.machines.values() if machine.parent == "region-1"]
    for store in stores:
        want(made, store)
    made.run(made.now + 10)
    heard = sorted(
        (row.at - start) / 1e6 for row in rows if row.node == "region-1" and row.event == "advisory"
    )
    assert heard == pytest.approx([1.02, 2.02, 3.02])


def test_a_message_waits_for_the_commit_of_a_slow_disk() -> None:
    def took(commit: float) -> float:
        made, _ = world()
        made["hq"].speed = Speed(commit=commit)
        times: list[float] = []
        serials = count()
        for name in ("hq", "store-1"):
            application = Application(made[name], serials, lambda *_: times.append(made.now))
            made[name].application = application
            application.connect()
        application.read(parse("queue:prices"))
        made.stir(made["store-1"])
        made.run(made.now + 5)
        begun = made.now
        sender = made["hq"].application
        assert sender is not None
        sender.send(parse("queue:prices"), 1, 100, 0.0)
        made.stir(made["hq"])
        made.run(made.now + 60)
        return times[0] - begun

    assert took(3.0) - took(0.001) == pytest.approx(3.0, abs=0.1)


def test_a_slow_line_takes_its_time_for_every_byte() -> None:
    made, rows = world(SLOW)
    rows.clear()
    start, before = made.clock(), made.bytes
    for number in range(100):
        want(made, "store-1", f"queue:{'long' * 20}-{number}")
    made.run(made.now + 60)
    (last,) = [max(row.at for row in rows if row.node == "region-1")]
    sent = (made.bytes - before) / 2
    assert (last - start) / 1e6 == pytest.approx(sent / SLOW.bandwidth, rel=0.1)
    check_routes(list(made.machines.values()))


def test_a_short_cut_delays_and_ends_no_link() -> None:
    made, rows = world()
    rows.clear()
    made.cut(made["store-1"], 1.5)
    want(made, "store-1")
    made.run(made.now + 1.4)
    assert not [row for row in rows if row.event == "advisory"]
    made.run(made.now + 5)
    assert [row.node for row in rows if row.event == "advisory"] == ["region-1", "hq"]
    assert not [row for row in rows if row.event == "link"]


def test_a_long_cut_ends_the_link_and_its_routes_sleep_until_it_is_back() -> None:
    made, rows = world()
    want(made, "store-1")
    made.run(made.now + 5)
    rows.clear()
    made.cut(made["store-1"], 120.0)
    made.run(made.now + 100.0)
    assert not made.all_up
    ops = {(row.node, row.op) for row in rows if row.event == "advisory" and row.kind == "queue"}
    assert ops == {("hq", "dormant")}
    assert not made["region-1"].core.table.gateways(parse("queue:prices"))["store-1"].live
    made.run(made.now + 120.0)
    assert made.all_up
    check_routes(list(made.machines.values()))
    links = [row.op for row in rows if row.event == "link" and row.node == "region-1"]
    assert links == ["down", "up"]


def test_a_killed_branch_comes_back_with_its_routes_and_costs_no_advisory() -> None:
    made, rows = world()
    for store in ("store-1", "store-2", "store-6"):
        want(made, store)
    made.run(made.now + 5)
    rows.clear()
    made.crash(made["region-1"], 10.0)
    made.run(made.now + 60.0)
    assert made.all_up
    assert not [row for row in rows if row.event == "advisory"]
    starts = [row for row in rows if row.event == "node"]
    assert [(row.node, row.op, row.region) for row in starts] == [("region-1", "start", "region-1")]
    check_routes(list(made.machines.values()))


def test_a_killed_node_loses_what_it_had_not_committed() -> None:
    made, _ = world(reattach_time=5.0)
    want(made, "store-1", "queue:committed")
    made.run(made.now + 1)
    want(made, "store-1", "queue:lost")
    made.crash(made["store-1"], 1.0)
    made.run(made.now + 2)
    table = made["store-1"].core.table
    assert parse("queue:committed") in table
    assert parse("queue:lost") not in table


@pytest.mark.parametrize(
    "strike", [lambda made: made.cut(made["region-2"], 30), lambda made: made.crash(made["hq"], 30)]
)
def test_what_changes_meanwhile_is_known_everywhere_in_the_end(strike: Callable[[World], None]) -> None:
    made, _ = world(LineSettings(latency=0.05, loss=0.2))
    strike(made)
    want(made, "store-6", "queue:new")
    want(made, "region-1", "topic:news")
    made.run(made.now + 300)
    check_routes(list(made.machines.values()))
    assert made["hq"].core.table.gateways(parse("queue:new")).keys() == {"region-2"}


def test_loss_only_delays() -> None:
    made, rows = world(LineSettings(loss=0.9))
    rows.clear()
    want(made, "store-1")
    made.run(made.now + 10)
    assert [row.node for row in rows if row.event == "advisory"] == ["region-1", "hq"]


def meshed(seed: int = 1) -> tuple[World, list[Row]]:
    """Two roots, a region of two nodes, two stores; all linked with all that are above and beside them."""
    rows: list[Row] = []
    core = CoreSettings(linger=0.0, dormant_after=30.0)
    settings = WorldSettings(core=core, links=LinkSettings(keep_alive=10.0, dead_after=2.0))
    made = World(settings, seed, rows.append)
    populate(made, generated(2, regions=1, cores=2, region_cores=2), lambda role: LineSettings())
    for machine in made.machines.values():
        made.boot(machine)
    made.run(120.0)
    assert made.all_up
    return made, rows


def told(rows: list[Row]) -> set[tuple[str, str | None, str | None]]:
    """(node, peer, direction) of the advisories of consumers."""
    return {(row.node, row.peer, row.direction) for row in rows if row.event == "advisory" if row.origin}


def test_each_node_of_a_mesh_is_told_by_each_node_below_it() -> None:
    made, rows = meshed()
    assert {row.direction for row in rows if row.event == "link"} == {"up", "down", "mesh"}
    rows.clear()
    want(made, "store-1")
    made.run(made.now + 5)
    regions, roots = ("region-1-a", "region-1-b"), ("hq-a", "hq-b")
    assert told(rows) == {
        *((region, "store-1", "up") for region in regions),
        *((root, region, "up") for root in roots for region in regions),
    }
    rows.clear()
    want(made, "hq-b", "queue:desk")
    made.run(made.now + 5)
    assert told(rows) == {
        ("hq-a", "hq-b", "mesh"),
        *((region, "hq-b", "down") for region in regions),
        *((store, region, "down") for store in ("store-1", "store-2") for region in regions),
    }
    check_routes(list(made.machines.values()))


def test_while_one_root_is_down_the_other_is_told_and_what_comes_back_hears_it() -> None:
    made, rows = meshed()
    made.crash(made["hq-a"], 100.0)
    want(made, "store-2")
    made.run(made.now + 50)
    assert "hq-b" in {row.node for row in rows if row.event == "advisory" and row.origin == "store-2"}
    assert not made.is_linked(made["region-1-a"])
    made.run(made.now + 300)
    assert made.all_up
    check_routes(list(made.machines.values()))


@pytest.mark.parametrize(
    "strike",
    [lambda made: made.sever(made["hq-a"], made["hq-b"], 60.0), lambda made: made.cut(made["hq-b"], 60.0)],
)
def test_a_cut_between_two_roots_ends_their_link_alone(strike: Callable[[World], None]) -> None:
    made, rows = meshed()
    rows.clear()
    strike(made)
    made.run(made.now + 59)
    assert {(row.node, row.peer, row.op) for row in rows if row.event == "link"} == {
        ("hq-a", "hq-b", "down"),
        ("hq-b", "hq-a", "down"),
    }
    made.run(made.now + 120)
    assert made.all_up
    check_routes(list(made.machines.values()))


def test_the_same_seed_gives_the_same_rows_and_another_one_others() -> None:
    def story(seed: int) -> list[Row]:
        made, rows = world(LineSettings(loss=0.5), seed)
        made.crash(made["region-1"], 10.0)
        made.cut(made["store-6"], 50.0)
        want(made, "store-2")
        made.run(made.now + 200)
        return rows

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_nodes_log_their_place_in_the_tree() -> None:
    """All start at once: a store whose region has not met the root yet does not know its place."""
    made, rows = world()
    assert {(row.node, row.region) for row in rows if row.role == "leaf"} == {
        (name, None) for name in made.machines if made[name].role == "leaf"
    }
    want(made, "store-6")
    want(made, "region-2", "topic:news")
    made.run(made.now + 5)
    last = {row.node: (row.role, row.depth, row.region) for row in rows}
    assert last["hq"] == ("root", 0, None)
    assert last["region-2"] == ("branch", 1, "region-2")
    assert last["store-6"] == ("leaf", 2, "region-2")


def test_what_waits_for_a_store_costs_little_time_and_comes_when_it_is_back() -> None:
    made, _ = world()
    delivered: list[float] = []
    serials = count()
    for name in ("hq", "store-1"):
        application = Application(made[name], serials, lambda _, number, seconds: delivered.append(seconds))
        made[name].application = application
        made[name].application.connect()  # type: ignore[union-attr]
    made["store-1"].application.read(parse("queue:prices"))  # type: ignore[union-attr]
    made.stir(made["store-1"])
    made.run(made.now + 5)
    made.cut(made["store-1"], 36_000)
    made.run(made.now + 60)
    made["hq"].application.send(parse("queue:prices"), 3, 100, expires=0)  # type: ignore[union-attr]
    made["hq"].application.send(parse("queue:prices"), 5, 100, expires=3600)  # type: ignore[union-attr]
    made.stir(made["hq"])
    before = made.happened
    made.run(made.now + 30_000)
    assert made.happened - before < 36_000 / 10
    assert made["region-1"].kept_bytes > 0
    made.run(made.now + 7_000)
    assert len(delivered) == 3
    assert all(35_900 <= seconds < 36_100 for seconds in delivered)
    assert sum(machine.core.custody.dead.messages for machine in made.machines.values()) == 5
    assert made["region-1"].peak_bytes > 400


def test_a_branch_of_a_table_with_nothing_below_it_is_let_in_as_its_row_says(tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("name,parent,role\nhq,,root\nnorth,hq,branch\nyork,hq,leaf\n")
    made = World(WorldSettings(), 1, lambda row: None)
    populate(made, deployment(str(table)), lambda role: LineSettings())
    for machine in made.machines.values():
        made.boot(machine)
    made.run(5.0)
    assert made.all_up


def test_who_is_refused_dials_with_growing_pauses() -> None:
    made = World(WorldSettings(), 1, lambda row: None)
    line = LineSettings()
    made.boot(made.add("hq", "", "root", line, role_of=lambda child: "leaf"))
    made.boot(made.add("north", "hq", "branch", line))
    made.run(600.0)
    refused = made.bytes
    made.run(3600.0)
    assert not made.all_up
    assert made.machines["north"].failures == {"hq": 16}
    assert made.bytes - refused < 100_000
