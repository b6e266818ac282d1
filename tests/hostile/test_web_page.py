"""A hostile page in a real browser, of another origin or under a rebound name, drives no node.

The page tries all that a page can do without its visitor's doing: fetches, forms, images, scripts, beacons,
event streams and WebSockets, on every verb, every operation of `/api`, `/session` and `/link`.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from harness import Network
from page_browser import FLAGS, program
from playwright.async_api import Browser, Page, async_playwright

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
VERBS = (
    *(
        "/login/page",
        "/create/page",
        "/subscribe/orders",
        "/transfer/-1/0",
        "/ack/1",
        "/send/orders/5",
        "/trace/0",
    ),
    *("/api/status", "/api/queues", "/api/dead", "/metrics", "/dashboard/", "/"),
)
POSTS = (
    ("POST", "/send/orders/5", "hello"),
    ("POST", "/join", "{}"),
    ("POST", "/renew", "{}"),
)
REBOUND = "rebound.example"
"""A name that whoever has it lets mean this machine, once the page is there."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        flags = (*FLAGS, f"--host-resolver-rules=MAP *.example 127.0.0.1, MAP {REBOUND} 127.0.0.1")
        launched = await playwright.chromium.launch(executable_path=program(), args=flags)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A window of its own, which shares nothing with those before."""
    opened = await browser.new_page()
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="module")
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    """As of all tests here, in the loop of the browser."""
    async with Network(tmp_path) as made:
        yield made


async def served(node: str) -> tuple[web.AppRunner, int]:
    """The page, on a port of its own."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=PAGE.replace("{NODE}", node), content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, int(runner.addresses[0][1])


async def operations(network: Network, token: str) -> list[tuple[str, str, str]]:
    """Every operation of the node that changes something, with something in each place of its path."""
    paths = (await asked(network, "/api/openapi.json", token))["paths"]
    changing = [(method.upper(), path) for path in paths for method in paths[path] if method != "get"]
    assert len(changing) > 10
    return [(method, re.sub(r"\{\w+\}", "orders", path), '{"reason":"page"}') for method, path in changing]


def told(status: dict[str, Any]) -> dict[str, Any]:
    """What would differ if anybody had done anything."""
    return {
        "queues": sorted((queue["name"], queue["messages"]) for queue in status["queues"]),
        "sessions": status["sessions"],
        "subscriptions": status["subscriptions"],
        "children": [link["name"] for link in status["children"]],
        "dead": status["dead"],
    }


@pytest.mark.parametrize(
    ("host", "token"),
    [("127.0.0.1", ""), ("localhost", ""), (REBOUND, ""), ("127.0.0.1", "a token that no page has")],
)
async def test_a_page_of_another_origin_changes_nothing(
    network: Network, page: Page, host: str, token: str
) -> None:
    node = await quiet_node(network, token)
    before = told(await node_status(network, token))
    changing = await operations(network, token)
    runner, port = await served(f"http://{host}:{network.ports['hq']}")
    try:
        await page.goto(f"http://attacker.example:{port}/")
        done = dict(
            await page.evaluate("([verbs, posts]) => run(verbs, posts)", [VERBS, [*POSTS, *changing]])
        )
    finally:
        await runner.cleanup()
    assert len(done) > 150
    read = {name: said for name, said in done.items() if said.startswith("200") or said == "OPEN"}
    assert read == {}
    assert told(await node_status(network, token)) == before
    assert "Traceback" not in node.last_words(1000)


async def test_a_page_whose_own_name_comes_to_mean_the_node_changes_nothing(
    network: Network, page: Page
) -> None:
    """DNS rebinding: for the browser it is the same origin, so no preflight, and all answers may be read."""
    node = await quiet_node(network, "")
    before = told(await node_status(network, ""))
    changing = await operations(network, "")
    port = network.ports["hq"]
    await page.route(
        "**/attack", lambda route: route.fulfill(body=PAGE.replace("{NODE}", ""), content_type="text/html")
    )
    await page.goto(f"http://{REBOUND}:{port}/attack")
    await page.evaluate("() => { window.rebound = true; }")
    done = dict(await page.evaluate("([verbs, posts]) => run(verbs, posts)", [VERBS, [*POSTS, *changing]]))
    good = {name: said for name, said in done.items() if said.startswith("200") or said == "OPEN"}
    assert good == {}
    assert told(await node_status(network, "")) == before
    assert "Traceback" not in node.last_words(1000)


async def test_the_page_does_drive_a_server_that_lets_it(page: Page) -> None:
    """Else the tests above could not fail."""
    seen: set[tuple[str, str]] = set()

    async def let(request: web.Request) -> web.StreamResponse:
        seen.add((request.method, request.path))
        if request.headers.get("Upgrade", "").lower() == "websocket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.close()
            return socket
        allowed = {"Access-Control-Allow-Origin": request.headers.get("Origin", "*")}
        allowed |= {
            "Access-Control-Allow-Credentials": "true",
            "Access-Control-Allow-Headers": "content-type",
        }
        return web.Response(
            text="yes", headers=allowed | {"Access-Control-Allow-Methods": "POST, PUT, DELETE"}
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", let)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pages, port = await served(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        await page.goto(f"http://attacker.example:{port}/")
        posts = [("POST", "/api/posted", "{}"), ("DELETE", "/api/deleted", "{}")]
        done = dict(await page.evaluate("([verbs, posts]) => run(verbs, posts)", [["/send"], posts]))
    finally:
        await pages.cleanup()
        await runner.cleanup()
    wanted = ("fetch /send", "POST /api/posted", "POST json /api/posted", "DELETE /api/deleted")
    assert {name: done[name] for name in wanted} == dict.fromkeys(wanted, "200 yes")
    assert {done[f"socket {path}"] for path in ("/session", "/link", "/api/live")} == {"OPEN"}
    assert {("GET", "/send"), ("POST", "/api/posted"), ("DELETE", "/api/deleted")} <= seen


async def quiet_node(network: Network, token: str) -> Any:
    """HQ with one queue, in which three messages wait; nobody else."""
    more: dict[str, Any] = {}
    if token:
        file = network.folder / "token"
        file.write_text(token)
        file.chmod(0o600)
        more = {"http": {"token_file": str(file)}}
    node = network.add("hq", **more)
    await network.launch("hq")
    await node_status(network, token)
    async with network.client("hq") as client:
        await client.create("orders")
        await client.send_many("queue:orders", [b"1", b"2", b"3"])
    return node


async def node_status(network: Network, token: str) -> dict[str, Any]:
    """With the token; waits until the node answers and the one client has gone."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                found = await asked(network, "/api/status", token)
                if not found["sessions"]:
                    return found
            await asyncio.sleep(0.1)


async def asked(network: Network, path: str, token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{network.url('hq')}{path}") as answer,
    ):
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found
