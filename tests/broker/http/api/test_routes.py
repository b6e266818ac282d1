"""Routes, cells, links and ways over the API; every answer is checked against its description."""

import asyncio
from typing import Any

import pytest

from sapwood.client import connect
from treeconnector.destinations import queue

ALIAS = {"kind": "alias", "destination": "till", "gateway": "checkout@york"}


async def test_a_route_is_set_shown_and_removed(api: Any) -> None:
    done = await api("POST /api/routes", json=ALIAS)
    said = {"node": "hq", "kind": "alias", "destination": "queue:till", "gateway": "queue:checkout@york"}
    assert done == said
    shown = await api("GET /api/routes?kind=alias")
    assert [(each["destination"], each["gateway"], each["via"]) for each in shown["routes"]] == [
        ("till", "checkout@york", "local")
    ]
    assert shown["counts"]["alias/local"] == 1
    assert (await api("POST /api/routes", 409, json=ALIAS))["text"].endswith("expected a new one")
    assert await api("DELETE /api/routes", json=ALIAS) == said
    assert "there is no route" in (await api("DELETE /api/routes", 404, json=ALIAS))["text"]


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"kind": "exact", "destination": "till", "gateway": "bath"}, 404, "no neighbour 'bath'"),
        ({"kind": "default", "destination": "till", "gateway": "york"}, 400, "has no destination"),
        ({"kind": "queue", "destination": "till", "gateway": "york"}, 400, "queue"),
        ({}, 400, "not set by hand"),
        ({**ALIAS, "node": "no node"}, 404, "is no node name"),
        ({**ALIAS, "node": "nowhere"}, 504, "nobody here knows a node 'nowhere'"),
    ],
)
async def test_mistakes_are_told(api: Any, change: dict[str, str], status: int, text: str) -> None:
    assert text in (await api("POST /api/routes", status, json=change))["text"]


async def test_another_node_is_asked(api: Any, york: Any) -> None:
    change = {**ALIAS, "destination": "a", "gateway": "b", "node": "york"}
    assert (await api("POST /api/routes", json=change))["node"] == "york"
    assert len(york.core.table.static) == 1
    shown = await api("GET /api/routes?node=york&limit=1")
    assert (shown["routes"][0]["kind"], shown["more"]) == ("alias", len(york.core.table) + 1)
    following = await api(f"GET /api/routes?node=york&after={shown['next']}")
    assert [each["kind"] for each in following["routes"]][:1] == ["default"]
    assert (await api("DELETE /api/routes", json=change))["kind"] == "alias"
    assert (await api("GET /api/routes?node=york&after=nonsense", 400))["code"] == "BAD_REQUEST"
    cells = await api("GET /api/cells?node=york")
    assert [each["name"] for each in cells["cells"]] == ["System", "RoutingMgr", "lm"]
    links = await api("GET /api/links?node=york")
    assert [(each["name"], each["relation"]) for each in links["links"]] == [("hq", "parent")]
    assert [each["name"] for each in (await api("GET /api/links"))["links"]] == ["york"]


async def test_two_cells_of_one_name_are_reported(api: Any, york: Any, running: Any) -> None:
    async with connect(f"http://127.0.0.1:{york.port}") as there:
        await there.create("till")
        await there.subscribe("queue:till").ready()
        async with connect(f"http://127.0.0.1:{running.port}") as here, asyncio.timeout(20):
            await here.create("till")
            await here.subscribe("queue:till").ready()
            while not running.core.table.route(queue("till"), "york"):
                await asyncio.sleep(0.01)
            cells = (await api("GET /api/cells"))["cells"]
    (till,) = [cell for cell in cells if cell["name"] == "till"]
    assert (till["readers"], till["also"]) == (1, ["york"])


async def test_ping_and_traceroute(api: Any, york: Any) -> None:
    pong = await api("GET /api/ping?address=System@york")
    assert (pong["node"], pong["here"]) == ("york", True)
    route = await api("GET /api/traceroute?address=till@york")
    assert [(hop["node"], hop["how"]) for hop in route["hops"]] == [("hq", "domain"), ("york", "local")]
    assert route["complete"]
    assert (await api("GET /api/ping?address=", 400))["code"] == "BAD_REQUEST"
    assert "knows no way" in (await api("GET /api/ping?address=nobody", 504))["text"]
