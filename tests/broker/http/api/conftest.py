"""A real node, and a client of its API that checks every answer against the API's own description."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from nodes import running_node

from broker.node import Node
from config.model import AdvisoryLog, Delivery, Listener, Permits, Site, TreeConnector
from sapwood.client import Client, connect


class Caller:
    """Calls the API. `description`: the node's own; every answer is checked against it."""

    def __init__(self, session: aiohttp.ClientSession, base: str, description: dict[str, Any]) -> None:
        self.session = session
        self.base = base
        self.description = description
        self.seen: set[tuple[str, str, int]] = set()

    async def __call__(self, call: str, expected: int = 200, **options: Any) -> Any:
        """`call`: method and path, as `GET /api/queues?limit=3`. Returns the JSON."""
        method, path = call.split(" ", 1)
        async with self.session.request(method, self.base + path, **options) as answer:
            found = await answer.json()
            assert answer.status == expected, found
        self.check(method, path.partition("?")[0], expected, found)
        return found

    def check(self, method: str, path: str, status: int, found: Any) -> None:
        for known, operations in self.description["paths"].items():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known), path) and method.lower() in operations:
                media = operations[method.lower()]["responses"][str(status)]["content"]
                (schema,) = (each["schema"] for each in media.values())
                self.seen.add((method, known, status))
                whole = {**schema, "components": self.description["components"]}
                Draft202012Validator(whole).validate(found)
                return
        raise AssertionError(f"{method} {path} is not described")


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Node]:
    site = Site(
        name="hq",
        data=tmp_path,
        listener=Listener(port=0),
        advisory_log=AdvisoryLog(enabled=False),
        delivery=Delivery(hold_time=0.001, max_deliveries=1),
        permits=Permits(default="open"),
    )
    async with running_node(site) as node:
        yield node


@pytest.fixture
async def api(running: Node) -> AsyncIterator[Caller]:
    base = f"http://127.0.0.1:{running.port}"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{base}/api/openapi.json") as answer:
            description = await answer.json()
        yield Caller(session, base, description)


@pytest.fixture
async def york(running: Node, tmp_path: Path) -> AsyncIterator[Node]:
    """A leaf below the node, linked to it."""
    site = Site(
        name="york",
        data=tmp_path / "york",
        listener=Listener(port=0),
        advisory_log=AdvisoryLog(enabled=False),
        tree_connectors=(TreeConnector(nodetype="leaf", uri=f"ws://127.0.0.1:{running.port}/link"),),
    )
    node = Node(site)
    await node.start()
    async with asyncio.timeout(60):
        while not (
            running.core.context.children() and running.core.context.children()[0].up and node.core.parent
        ):
            await asyncio.sleep(0.01)
    yield node
    await node.stop()


@pytest.fixture
async def client(running: Node) -> AsyncIterator[Client]:
    async with connect(f"http://127.0.0.1:{running.port}", session="till-7-secret") as made:
        yield made
