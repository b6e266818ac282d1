"""The stream of the node's state: what a line holds, who is refused, what happens to slow readers."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from broker.entrance.operators import Operators
from broker.http import live
from broker.http.api import following
from broker.http.live import LiveEndpoint
from broker.http.settings import HttpSettings

Client = TestClient[web.Request, web.Application]


class Made:
    """Counts how often each part is made."""

    def __init__(self, size: int = 1) -> None:
        self.count = 0
        self.size = size

    def __call__(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count, "filling": "x" * self.size}


def build(token: str = "", size: int = 1) -> tuple[web.Application, Made, LiveEndpoint]:
    app, status = web.Application(), Made(size)
    endpoint = LiveEndpoint(
        HttpSettings(operators=Operators(token)), {"status": status, "tree": lambda: {"children": []}}
    )
    endpoint.add_to(app)
    return app, status, endpoint


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    app, _, _ = build()
    async with TestClient(TestServer(app)) as made:
        yield made


async def line(answer: ClientResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await asyncio.wait_for(answer.content.readline(), 120))
    return found


async def test_each_line_is_an_object_with_the_parts_that_were_asked_for(client: Client) -> None:
    async with client.get("/api/live", params={"parts": "status,tree", "interval": "0.2"}) as answer:
        assert answer.content_type == "application/x-ndjson"
        first, second = await line(answer), await line(answer)
    assert list(first) == ["at", "skipped", "status", "tree"]
    assert first["status"]["count"] == 1
    assert second["status"]["count"] == 2
    assert second["at"] > first["at"] > 1_600_000_000_000


async def test_status_is_what_is_told_without_parts(client: Client) -> None:
    async with client.get("/api/live") as answer:
        assert list(await line(answer)) == ["at", "skipped", "status"]


@pytest.mark.parametrize("query", ["parts=secrets", "parts=", "interval=soon", "interval=nan"])
async def test_what_is_not_understood_is_refused(client: Client, query: str) -> None:
    async with client.get(f"/api/live?{query}") as answer:
        assert answer.status == 400
        assert (await answer.json())["code"] == "BAD_REQUEST"


async def test_pages_of_other_sites_are_refused(client: Client) -> None:
    async with client.get("/api/live", headers={"Sec-Fetch-Site": "cross-site"}) as answer:
        assert answer.status == 403


async def test_from_elsewhere_the_token_is_needed() -> None:
    app, _, _ = build(token="s3cret")
    async with TestClient(TestServer(app)) as client:
        proxied = {"X-Forwarded-For": "192.0.2.1"}
        async with client.get("/api/live", headers=proxied) as refused:
            assert refused.status == 403
        async with client.get("/api/live", headers=proxied | {"Authorization": "Bearer s3cret"}) as answer:
            assert "status" in await line(answer)


async def test_what_many_read_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SHORTEST_INTERVAL", 3600.0)
    app, status, _ = build()
    async with TestClient(TestServer(app)) as client:
        answers = [await client.get("/api/live") for _ in range(5)]
        assert {(await line(answer))["status"]["count"] for answer in answers} == {1}
        for answer in answers:
            answer.close()
    assert status.count == 1


async def test_there_is_an_end_to_the_number_of_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_READERS", 1)
    app, _, endpoint = build()
    async with TestClient(TestServer(app)) as client:
        async with client.get("/api/live", params={"interval": "0.2"}) as answer:
            await line(answer)
            async with client.get("/api/live") as refused:
                assert refused.status == 503
                assert (await refused.json())["code"] == "BUSY"
        while "1 readers" in repr(endpoint):
            await asyncio.sleep(0.01)
        async with client.get("/api/live") as answer:
            assert answer.status == 200


async def test_a_slow_reader_gets_skipped_updates_and_nothing_piles_up() -> None:
    app, status, _ = build(size=30_000_000)
    async with TestClient(TestServer(app)) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET /api/live?interval=0.2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while status.count == 0:
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.1)  # five updates fall due, and the first has not been read
        assert status.count == 1
        found = b""
        while b'"status":{"count":2' not in found:
            found = found[-200:] + await asyncio.wait_for(reader.read(2**20), 120)
        skipped = int(found.partition(b'"skipped":')[2].split(b",")[0])
        assert skipped >= 4
        writer.close()


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PATIENCE", 0.1)
    app, _, endpoint = build(size=30_000_000)
    async with TestClient(TestServer(app)) as client:
        _, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while "1 readers" not in repr(endpoint):
            await asyncio.sleep(0.01)
        while "1 readers" in repr(endpoint):
            await asyncio.sleep(0.01)
        writer.close()


async def test_the_stream_ends_when_the_node_stops() -> None:
    app, _, _ = build()
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/api/live", params={"interval": "60"})
        await line(answer)
        await app.shutdown()
        assert await asyncio.wait_for(answer.content.read(), 120) == b""
