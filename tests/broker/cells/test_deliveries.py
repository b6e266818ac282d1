"""The receivers that are told are those that then get it, and no names go to who may not know."""

from typing import Any

import pytest

from broker.cells.deliveries import SCOPES, Deliveries
from broker.core.errors import BadRequest


@pytest.fixture
def checks(grove: Any) -> dict[str, Deliveries]:
    """hq over north and south, york below north; readers at york, south and hq."""
    forest = grove.forest
    for name, topic in (
        ("york", "prices/#"),
        ("south", "prices/milk"),
        ("hq", "stock/#"),
        ("north", "stock/a"),
    ):
        forest.consumer(name, f"topic:{topic}", f"reads at {name}")
    forest.settle(1.0)
    return {name: Deliveries(grove.hosts[name], cells) for name, cells in grove.cells.items()}


@pytest.mark.parametrize("scope", ["vertical", "tree"])
@pytest.mark.parametrize("topic", ["prices/milk", "stock/a", "stock/b", "weather"])
@pytest.mark.parametrize("at", ["hq", "north", "south", "york"])
async def test_what_is_said_is_what_happens(
    grove: Any, checks: dict[str, Deliveries], at: str, topic: str, scope: str
) -> None:
    found = await checks[at].check(topic, SCOPES[scope])
    said = {each.node: each.said.readers for each in found if each.said is not None}
    hidden = any(each.said.lines for each in found if each.said is not None)
    forest = grove.forest
    forest.producer(at, "publishes").send(f"topic:{topic}", b"x", scope=SCOPES[scope])
    forest.settle(1.0)
    got = {each.site.name for each in forest.clients if getattr(each, "payloads", ())}
    told = {name for name, readers in said.items() if readers}
    assert told <= got
    assert hidden or told == got


async def test_a_sibling_that_is_passed_by_is_counted_and_the_parent_that_is_not_told_is_named(
    checks: dict[str, Deliveries],
) -> None:
    (north,) = await checks["north"].check("weather", SCOPES["vertical"])
    assert north.said is not None
    assert (north.said.unasked, north.said.readers) == ("hq", 0)
    york, north, hq = await checks["york"].check("stock/b", SCOPES["vertical"])
    assert [each.node for each in (york, north, hq)] == ["york", "north", "hq"]
    assert hq.said is not None
    assert hq.said.readers == 1


@pytest.mark.parametrize(("scope", "passed"), [("vertical", 1), ("tree", 0)])
async def test_the_children_of_a_mesh_are_passed_by_once_or_not_at_all(
    meshed: Any, scope: str, passed: int
) -> None:
    """Two roots over a mesh with a store, and over south; each root reads too."""
    for name in ("hq-1", "hq-2", "south"):
        meshed.forest.consumer(name, "topic:prices/milk", f"reads at {name}")
    meshed.forest.settle(1.0)
    checks = {name: Deliveries(meshed.hosts[name], cells) for name, cells in meshed.cells.items()}
    found = [each.said for each in await checks["york"].check("prices/milk", SCOPES[scope])]
    said = [each for each in found if each is not None]
    assert sum(each.readers for each in said) == 2
    assert sum(each.passed_by for each in said) == passed
    assert sum(each.lines for each in said) == 1 - passed


async def test_names_below_are_told_to_nodes_above_only(checks: dict[str, Deliveries]) -> None:
    _south, hq = await checks["south"].check("prices/milk", SCOPES["tree"])
    assert hq.said is not None
    assert (hq.said.down, hq.said.lines) == ([], 1)
    found = await checks["hq"].check("prices/milk", SCOPES[""])
    assert [each.node for each in found] == ["hq", "north", "south", "york"]


@pytest.mark.parametrize("wrong", ["queue:till", "a/#", ""])
async def test_what_is_no_topic_is_refused(checks: dict[str, Deliveries], wrong: str) -> None:
    with pytest.raises(BadRequest):
        await checks["hq"].check(wrong, -1)
