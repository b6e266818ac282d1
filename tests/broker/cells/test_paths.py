"""Ping and traceroute over a forest of cores, and commands that change something."""

import asyncio
from typing import Any

import pytest

from broker.cells import cells
from broker.cells.cells import CellCommand
from broker.cells.errors import NoAnswer
from broker.cells.paths import Paths
from broker.core.errors import BadRequest


@pytest.fixture
async def paths(grove: Any) -> dict[str, Paths]:
    return {name: Paths(host, grove.cells[name]) for name, host in grove.hosts.items()}


def way(route: Any) -> list[tuple[str, str]]:
    return [(hop.node, hop.said.how) for hop in route.hops if hop.said]


async def test_every_node_is_reached_from_every_other_hop_by_hop(grove: Any, paths: dict[str, Paths]) -> None:
    route = await paths["york"].traceroute("System@south")
    assert way(route) == [("york", "default"), ("north", "default"), ("hq", "domain"), ("south", "local")]
    assert (route.complete, route.why, route.address) == (True, "", "queue:System@south")
    assert all(hop.ms is not None and hop.ms >= 0 for hop in route.hops)
    assert repr(paths["york"]) == "<Paths of york>"


async def test_a_well_known_cell_is_followed_by_its_queue_routes(grove: Any, paths: dict[str, Paths]) -> None:
    grove.forest.consumer("york", "queue:till")
    grove.forest.settle()
    assert way(await paths["south"].traceroute("till"))[1:] == [
        ("hq", "queue"),
        ("north", "queue"),
        ("york", "local"),
    ]
    pong, took = await paths["south"].ping("till")
    assert (pong.node, pong.cell, pong.here) == ("york", "till", True)
    assert took > 0


async def test_an_alias_on_the_way_changes_the_address(grove: Any, paths: dict[str, Paths]) -> None:
    grove.forest["hq"].core.static_routing.add("alias", "till", "checkout@york")
    route = await paths["south"].traceroute("till")
    assert [hop.said.address for hop in route.hops if hop.said] == [
        "queue:till",
        "queue:checkout@york",
        "queue:checkout@york",
        "queue:checkout@york",
    ]
    assert route.complete


@pytest.mark.parametrize("cell", ["System", "RoutingMgr", "lm"])
async def test_each_of_a_nodes_cells_answers_a_ping(cell: str, paths: dict[str, Paths]) -> None:
    pong, _ = await paths["york"].ping(f"{cell}@south")
    assert (pong.node, pong.cell, pong.here) == ("south", cell, True)


async def test_a_cell_that_nobody_reads_is_not_there_though_its_node_is(paths: dict[str, Paths]) -> None:
    pong, _ = await paths["york"].ping("till@south")
    assert (pong.node, pong.here) == ("south", False)
    pong, _ = await paths["york"].ping("till@york")
    assert (pong.node, pong.here) == ("york", False)


async def test_where_no_way_goes_on_the_node_and_the_reason_are_said(
    grove: Any, paths: dict[str, Paths]
) -> None:
    route = await paths["south"].traceroute("nobody")
    assert [hop.node for hop in route.hops] == ["south", "hq"]
    assert (route.complete, route.why) == (False, "hq knows no way: it waits there")
    with pytest.raises(NoAnswer, match="hq knows no way"):
        await paths["south"].ping("nobody")
    grove.forest["hq"].core.static_routing.add("dumpster", "", "lost")
    assert "goes into the dumpster there" in (await paths["south"].traceroute("nobody")).why


async def test_a_link_that_is_down_ends_the_way_by_name(grove: Any, paths: dict[str, Paths]) -> None:
    grove.cut("york")
    route = await paths["hq"].traceroute("System@york")
    assert [hop.node for hop in route.hops] == ["hq", "north", "york"]
    assert route.hops[1].said is not None
    assert route.hops[1].said.down == ["york"]
    assert not route.complete
    assert route.why == route.hops[2].error == "the link from north to york is down"


async def test_a_ping_across_a_link_that_is_down_says_so_and_does_not_wait(
    grove: Any, paths: dict[str, Paths], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cells.paths.ANSWER_WITHIN", 3600.0)
    monkeypatch.setattr("broker.cells.paths._SOON", 0.001)
    grove.cut("york")
    for name in ("hq", "south"):
        with pytest.raises(NoAnswer, match="the link from north to york is down"):
            await paths[name].ping("till@york")
        await asyncio.sleep(0)
        assert "asking=0" in repr(grove.cells[name])


async def test_a_circle_is_seen(grove: Any, paths: dict[str, Paths]) -> None:
    grove.forest["hq"].core.static_routing.add("exact", "till@nowhere", "south")
    route = await paths["hq"].traceroute("till@nowhere")
    assert [hop.node for hop in route.hops] == ["hq", "south"]
    assert route.why == "it comes back to hq: it goes in a circle until a route changes"


@pytest.mark.parametrize("text", ["", "topic:prices", "till@", "till@no node", "x" * 500])
async def test_what_is_no_address_is_refused(text: str, paths: dict[str, Paths]) -> None:
    with pytest.raises(BadRequest):
        await paths["hq"].ping(text)
    with pytest.raises(BadRequest):
        await paths["hq"].traceroute(text)


async def test_a_neighbour_that_answers_nonsense_ends_the_way(grove: Any, paths: dict[str, Paths]) -> None:
    grove.cells["north"].commands["hop"] = CellCommand(lambda asker, arguments: {"node": 7}, open=True)
    route = await paths["york"].traceroute("System@hq")
    assert "north: its answer is not understood" in route.why
    assert not route.complete


async def test_what_changes_something_is_done_once_however_often_it_is_asked(
    grove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is lost, so the question comes again."""
    done: list[str] = []
    york, hq = grove.cells["york"], grove.cells["hq"]
    york.commands["do"] = CellCommand(lambda asker, arguments: done.append(asker) or "done", changes=True)
    lost = []
    said = york._say

    def lose_the_first(*words: Any) -> None:
        if lost:
            said(*words)
        lost.append(words)

    monkeypatch.setattr("broker.cells.cells._AGAIN_FIRST", 0.001)
    monkeypatch.setattr(york, "_say", lose_the_first)
    assert await hq.ask("york", "do") == "done"
    assert done == ["hq"]
    assert len(lost) >= 2


async def test_what_changes_something_is_answered_to_who_is_above_only(grove: Any) -> None:
    from broker.cells.errors import RefusedByCell

    done: list[str] = []
    grove.cells["hq"].commands["do"] = CellCommand(lambda asker, arguments: done.append(asker), changes=True)
    with pytest.raises(RefusedByCell, match="ancestors only"):
        await grove.cells["york"].ask("hq", "do")
    assert not done


async def test_what_is_remembered_of_answers_is_bounded_in_bytes(
    grove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_REMEMBERED_BYTES", 10_000)
    york = grove.cells["york"]
    york.commands["do"] = CellCommand(lambda asker, arguments: "x" * 3000, changes=True)
    for _ in range(10):
        assert len(await grove.cells["hq"].ask("york", "do")) == 3000
    assert sum(map(len, york._done.values())) == york._done_bytes <= 10_000
    assert len(york._done) == 3
