"""One request each: publish, receive, acknowledge, at a real node; and the documented lines in a shell."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import pytest
from aiohttp import web

from broker.entrance.passwords import hashed
from broker.entrance.policy import EntrancePolicy
from broker.http import stateless
from broker.node import Node
from config.accounts import Account
from config.model import AdvisoryLog, Http, Listener, Site
from sapwood import connect

PAGE = (Path(__file__).parents[3] / "docs" / "without-a-library.md").read_text("utf-8")
PATIENCE = 60
WORD = "a long password"


def proof_of(name: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{WORD}'.encode()).decode()}"}


class Asker:
    """Requests to one node. `ask` returns (status, the JSON)."""

    def __init__(self, node: Node, http: aiohttp.ClientSession) -> None:
        self.node = node
        self.http = http

    async def ask(self, method: str, path: str, body: bytes | None = None, **more: Any) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.node.port}{path}"
        async with asyncio.timeout(PATIENCE), self.http.request(method, url, data=body, **more) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    async def received(self, path: str, **more: Any) -> list[dict[str, Any]]:
        status, answer = await self.ask("GET", f"/api/receive/{path}", **more)
        assert status == 200, answer
        return list(answer["messages"])


@pytest.fixture
async def site(tmp_path: Path) -> Site:
    log = AdvisoryLog(enabled=False)
    return Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=log)


@pytest.fixture
async def at(site: Site) -> AsyncIterator[Asker]:
    node = Node(site)
    await node.start()
    async with aiohttp.ClientSession() as http:
        yield Asker(node, http)
    await node.stop()


async def test_a_message_goes_in_by_one_request_and_out_by_two(at: Asker) -> None:
    path = "/api/publish/queue:stock/prices?reply_to=queue:answers&correlation_id=7&message_id=a&expires_in=9"
    said = {"Content-Type": "text/csv"}
    assert await at.ask("POST", path, b"1004;46", headers=said) == (
        200,
        {"destination": "queue:stock/prices"},
    )
    assert (await at.ask("GET", "/api/receive/stock/prices"))[0] == 404
    (message,) = await at.received("queue:stock/prices?create=1&wait=30")
    receipt = message.pop("receipt")
    assert message == {
        "payload": "1004;46",
        "encoding": "utf-8",
        "redelivered": False,
        "correlation_id": 7,
        "reply_to": "queue:answers",
        "message_id": "a",
        "content_type": "text/csv",
        "headers": {},
    }
    assert await at.received("stock/prices") == []
    assert await at.ask("POST", f"/api/ack/{receipt}") == (200, {"acknowledged": receipt})
    assert (await at.ask("POST", f"/api/ack/{receipt}"))[0] == 404
    assert (await at.ask("POST", "/api/publish/queue:stock/prices?expires_in=0.0001", b"late"))[0] == 200
    await asyncio.sleep(0.01)
    assert await at.received("stock/prices") == []
    assert not at.node.running.core.switch.sessions


async def test_headers_come_with_the_message_and_what_is_none_is_refused(at: Asker) -> None:
    said = quote('{"kind": "refund", "lines": [1, 2]}')
    assert (await at.ask("POST", f"/api/publish/queue:sales?headers={said}", b"x"))[0] == 200
    (found,) = await at.received("sales?create=1&wait=30")
    assert found["headers"] == {"kind": "refund", "lines": [1, 2]}
    largest = {"lowest": -(2**63), "highest": 2**64 - 1}
    said = quote(msgspec.json.encode(largest).decode())
    assert (await at.ask("POST", f"/api/publish/queue:sales?headers={said}", b"x"))[0] == 200
    (found,) = await at.received("sales?wait=30")
    assert found["headers"] == largest
    too_large = f'{{"lines": [{2**64}]}}'
    for wrong in ("[1]", "{", "1", too_large, '{"a": "\\ud800"}', '{"a": 1e999}'):
        status, answer = await at.ask("POST", f"/api/publish/queue:sales?headers={quote(wrong)}", b"x")
        assert (status, answer["code"]) == (400, "BAD_REQUEST"), wrong[:80]


async def test_who_waits_is_woken_and_bytes_come_as_base64(at: Asker) -> None:
    waiting = asyncio.create_task(at.received("q?create=1&wait=60"))
    while not at.node.running.core.switch.sessions:
        await asyncio.sleep(0.01)
    assert (await at.ask("POST", "/api/publish/q", b"\xff"))[0] == 200
    (message,) = await waiting
    assert (message["payload"], message["encoding"]) == ("/w==", "base64")


async def test_what_is_not_acknowledged_comes_back_marked(at: Asker) -> None:
    for payload in (b"1", b"2", b"3"):
        await at.ask("POST", "/api/publish/q", payload)
    first = await at.received("q?create=1&count=2&lease=0.1")
    assert [each["payload"] for each in first] == ["1", "2"]
    again = await at.received("q?count=3&wait=60")
    while len(again) < 3:
        again += await at.received(f"q?count={3 - len(again)}&wait=60")
    told = {each["payload"]: each["redelivered"] for each in again}
    assert told == {"1": True, "2": True, "3": False}
    assert (await at.ask("POST", f"/api/ack/{first[0]['receipt']}"))[0] == 404
    for each in again:
        assert (await at.ask("POST", f"/api/ack/{each['receipt']}"))[0] == 200
    assert await at.received("q") == []


async def test_what_was_published_or_lent_is_there_after_a_start(at: Asker, site: Site) -> None:
    await at.ask("POST", "/api/publish/q", b"kept")
    await at.received("q?create=1")
    await at.node.stop()
    at.node = Node(site)
    await at.node.start()
    (message,) = await at.received("q?wait=60")
    assert (message["payload"], message["redelivered"]) == ("kept", True)


async def test_whoever_goes_before_the_answer_leaves_the_message_to_others(at: Asker) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", at.node.port)
    writer.write(b"GET /api/receive/q?create=1&wait=3000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while not at.node.running.core.switch.sessions:
        await asyncio.sleep(0.01)
    writer.close()
    while at.node.running.core.switch.sessions:
        await asyncio.sleep(0.01)
    await at.ask("POST", "/api/publish/q", b"1")
    (message,) = await at.received("q?wait=60")
    assert (message["payload"], message["redelivered"]) == ("1", False)


async def test_a_retained_message_is_kept_for_whoever_subscribes_later(at: Asker) -> None:
    assert (await at.ask("POST", "/api/publish/topic:prices/milk?retained=1", b"46"))[0] == 200
    async with asyncio.timeout(PATIENCE), connect(f"http://127.0.0.1:{at.node.port}") as client:
        async for delivery in client.subscribe("topic:prices/#"):
            assert delivery.payload == b"46"
            break


async def test_what_is_wrong_is_told(at: Asker) -> None:
    wrong = {
        "/api/publish/queue:a@b@c": "BAD_REQUEST",
        "/api/publish/topic:a/%23": "BAD_REQUEST",
        "/api/publish/q?correlation_id=x": "BAD_REQUEST",
        "/api/publish/q?priority=1": "BAD_REQUEST",
        "/api/ack/nothing": "NOT_FOUND",
    }
    assert {path: (await at.ask("POST", path, b"x"))[1]["code"] for path in wrong} == wrong
    assert (await at.ask("GET", "/api/receive/q?count=101"))[1]["code"] == "BAD_REQUEST"


async def test_pages_of_others_are_refused(at: Asker) -> None:
    status, said = await at.ask("POST", "/api/publish/q", b"x", headers={"Origin": "http://evil.example"})
    assert (status, said["code"]) == (403, "REFUSED")


async def test_leases_have_bounds(at: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateless, "MOST_OF_ONE", 1)
    for _ in range(2):
        await at.ask("POST", "/api/publish/q", b"x")
    (message,) = await at.received("q?create=1")
    status, said = await at.ask("GET", "/api/receive/q")
    assert (status, said["code"]) == (503, "BUSY")
    await at.ask("POST", f"/api/ack/{message['receipt']}")
    assert len(await at.received("q")) == 1


class TestWithAccounts:
    """Each request proves who asks."""

    @pytest.fixture
    async def site(self, site: Site, tmp_path: Path) -> Site:
        for name, text in (("password", hashed(WORD)), ("token", "operator")):
            (tmp_path / name).write_text(text, "utf-8")
            (tmp_path / name).chmod(0o600)

        def account(name: str, queue: str) -> Account:
            pattern = (f"queue:{queue}",)
            return Account(name=name, password_file=tmp_path / "password", consume=pattern, send=pattern)

        accounts = (account("till", "sales"), account("desk", "sales"), account("shelf", "prices"))
        return replace(site, accounts=accounts, http=Http(token_file=tmp_path / "token"))

    async def test_without_proof_nothing_is_read_and_nothing_done(self, at: Asker) -> None:
        for path, body in (("publish/sales", b"x" * 1_000_000), ("ack/x-1", None)):
            status, said = await at.ask("POST", f"/api/{path}", body)
            assert (status, said["code"]) == (403, "NOT_LOGGED_IN")
        status, said = await at.ask("GET", "/api/receive/sales?wait=60")
        assert (status, said["code"]) == (403, "NOT_LOGGED_IN")

    async def test_an_account_does_what_its_permits_say_and_its_receipts_are_its_own(self, at: Asker) -> None:
        till, desk, shelf = ({"headers": proof_of(name)} for name in ("till", "desk", "shelf"))
        large = b"x" * 1_000_000
        assert (await at.ask("POST", "/api/publish/sales", large, **till))[0] == 200
        assert (await at.ask("POST", "/api/publish/sales", b"x", **shelf))[1]["code"] == "REFUSED"
        path = "/api/publish/sales?reply_to=queue:prices"
        assert (await at.ask("POST", path, b"x", **till))[1]["code"] == "REFUSED"
        (message,) = await at.received("sales?create=1&wait=60", **till)
        assert message["payload"] == large.decode()
        assert (await at.ask("GET", "/api/receive/sales", **shelf))[1]["code"] == "REFUSED"
        assert (await at.ask("POST", f"/api/ack/{message['receipt']}", **desk))[0] == 404
        assert (await at.ask("POST", f"/api/ack/{message['receipt']}", **till))[0] == 200

    async def test_an_account_that_is_closed_before_the_body_came_publishes_nothing(
        self, at: Asker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits, read = asyncio.Event(), web.Request.read

        async def reads(request: web.Request) -> bytes:
            waits.set()
            return await read(request)

        monkeypatch.setattr(web.Request, "read", reads)
        reader, writer = await asyncio.open_connection("127.0.0.1", at.node.port)
        head = (
            "POST /api/publish/sales HTTP/1.1",
            "Host: localhost",
            f"Authorization: {proof_of('till')['Authorization']}",
            "Content-Length: 2",
            "Connection: close",
        )
        writer.write("\r\n".join((*head, "", "x")).encode())
        async with asyncio.timeout(PATIENCE):
            await waits.wait()
            at.node.report.access.entrance.configure(EntrancePolicy())
            writer.write(b"y")
            answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 403"), answer
        assert b"NOT_LOGGED_IN" in answer
        assert "queue:sales" not in at.node.core.custody.queues

    async def test_the_token_of_the_administration_may_do_everything(self, at: Asker) -> None:
        token = {"Authorization": "Bearer operator"}
        assert (await at.ask("POST", "/api/publish/any", b"x", headers=token))[0] == 200
        (message,) = await at.received("any?create=1&wait=60", headers=token)
        assert (await at.ask("POST", f"/api/ack/{message['receipt']}", headers=token))[0] == 200


async def test_the_documented_lines_do_what_the_page_says(at: Asker) -> None:
    lines = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    lines = lines.replace("127.0.0.1:7600", f"127.0.0.1:{at.node.port}").replace(
        "create=1", "create=1&lease=0.1"
    )
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euc", lines, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    told, wrong = await asyncio.wait_for(shell.communicate(), PATIENCE)
    assert (shell.returncode, wrong) == (0, b"")
    published, retained, received, done = msgspec.json.decode(b"[" + told.replace(b"}{", b"},{") + b"]")
    assert (published, retained) == (
        {"destination": "queue:stock/prices"},
        {"destination": "topic:sales/york"},
    )
    assert received["messages"][0]["payload"] == '{"article": 1004, "pence": 46}'
    assert done["acknowledged"]
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert [*msgspec.json.decode(shown)["messages"][0]] == [*received["messages"][0]]
    assert await at.received("stock/prices") == []
