"""Routes, cells, links and ways over the API; every answer is checked against its description."""

import asyncio
from typing import Any

import pytest

from sapwood.client import connect
from sapwood.protocol.destinations import queue

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
    (up,) = links["links"]
    assert (up["name"], up["relation"], up["proof"]) == ("hq", "parent", "nothing")
    assert up["over"] == york.site.connector.uri
    assert [each["name"] for each in (await api("GET /api/links"))["links"]] == ["york"]


async def test_two_cells_of_one_name_are_reported(api: Any, york: Any, running: Any) -> None:
    async with connect(f"http://127.0.0.1:{york.port}") as there:
        await there.create("till")
        await there.subscribe("queue:till").ready()
        async with connect(f"http://127.0.0.1:{running.port}") as here, asyncio.timeout(60):
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


async def test_names_and_incarnations(api: Any, york: Any, running: Any) -> None:
    known = await api("GET /api/addresses")
    own, other = running.core.logical_addresses.own, york.core.logical_addresses.own
    assert (known["node"], known["incarnation"], known["most"]) == ("hq", own, 1000)
    assert known["addresses"] == [f"ws://127.0.0.1:{running.port}/link"]
    (there,) = known["known"]
    assert (there["name"], there["incarnation"], there["via"]) == ("york", other, "york")
    assert there["left_s"] is None
    assert there["addresses"] == [f"ws://127.0.0.1:{york.port}/link"]
    assert (await api("GET /api/addresses?search=bath"))["known"] == []
    assert (await api("GET /api/addresses?node=york"))["known"][0]["incarnation"] == own
    assert (await api("GET /api/links"))["links"][0]["incarnation"] == other
    for key, name in (("york", "york"), (other, "york"), (own, "hq")):
        assert (await api(f"GET /api/who-has?key={key}"))["name"] == name
    unknown = await api("GET /api/who-has?key=bath", 504)
    assert unknown["text"] == "unknown node bath: hq knows of none"
    assert (await api("GET /api/who-has?key=no+name", 400))["code"] == "BAD_REQUEST"


async def test_an_incarnation_is_pinged_and_the_way_to_it_shown(api: Any, york: Any) -> None:
    other = york.core.logical_addresses.own
    assert (await api(f"GET /api/ping?address=System@{other.upper()}"))["node"] == "york"
    route = await api(f"GET /api/traceroute?address=till@{other}")
    assert [(hop["node"], hop["how"]) for hop in route["hops"]] == [("hq", "domain"), ("york", "local")]
    over = "01234567-89ab-cdef-0123-456789abcdef"
    assert "unknown incarnation" in (await api(f"GET /api/ping?address=till@{over}", 504))["text"]
    assert "unknown incarnation" in (await api(f"GET /api/traceroute?address=till@{over}", 504))["text"]


async def test_other_addresses_are_announced(api: Any, york: Any, running: Any) -> None:
    uri = "wss://second-line.example:7600/link"
    assert (await api("POST /api/announce", json={"addresses": [uri]}))["addresses"] == [uri]
    async with asyncio.timeout(60):
        while york.core.neighbours["hq"].detail.addresses != [uri]:
            await asyncio.sleep(0.01)
    for wrong in ("tcp://hq:1", "srv://example.com", "wss://" + "x" * 600):
        assert (await api("POST /api/announce", 400, json={"addresses": [wrong]}))["code"] == "BAD_REQUEST"
    assert (await api("POST /api/announce", 400, json={"addresses": [uri] * 33}))["code"] == "BAD_REQUEST"
