"""The port with a real node behind it: the client library and plain sockets side by side."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from broker.node import Node
from sapwood import RequestFailed, connect
from sapwood.protocol.destinations import Kind


@pytest.fixture
async def plain(running: Node) -> AsyncIterator[Any]:
    """A plain client that is logged in."""
    clients: list[asyncio.StreamWriter] = []

    async def ask(path: str, body: bytes | None = None, line: list[Any] | None = None) -> tuple[int, bytes]:
        reader, writer = line or await asyncio.open_connection("127.0.0.1", running.port)
        clients.append(writer)
        verb = "GET" if body is None else "POST"
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        writer.write(f"{verb} {path} HTTP/1.1\r\n".encode() + length + b"\r\n" + (body or b""))
        async with asyncio.timeout(60):
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            return int(head.split(b" ")[1]), await reader.readexactly(size)

    yield ask
    for writer in clients:
        writer.close()


async def dial(node: Node, ask: Any, token: str) -> list[Any]:
    line = list(await asyncio.open_connection("127.0.0.1", node.port))
    assert await ask(f"/login/{token}", line=line) == (200, b"")
    return line


def uri(node: Node) -> str:
    return f"http://127.0.0.1:{node.port}"


@pytest.mark.parametrize("jump", [864_000.0, -630_720_000.0])
async def test_a_clock_that_jumps_leaves_the_time_since_the_start(
    running: Node, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + jump)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{uri(running)}/api/status") as answer:
            told = [(await answer.json())["uptime_s"]]
        async with session.get(f"{uri(running)}/metrics") as answer:
            lines = (await answer.text()).splitlines()
    told += [float(line.split()[1]) for line in lines if line.startswith("sapwood_uptime_seconds ")]
    assert len(told) == 2
    assert all(0 <= seconds < 86_400 for seconds in told)


async def test_everything_sent_is_received_once_and_in_order(running: Node) -> None:
    payloads = [b"%d" % number for number in range(5000)]
    async with connect(uri(running), session="writer") as writer, connect(uri(running)) as reader:
        await writer.create("sales")
        subscription = await reader.subscribe("queue:sales", credit=1000).ready()
        sending = asyncio.create_task(writer.send_many("queue:sales", payloads))
        found: list[bytes] = []
        async for batch in subscription.batches():
            found += batch.payloads
            batch.ack()
            if len(found) == len(payloads):
                break
        await sending
    assert found == payloads


async def test_what_one_reader_leaves_another_gets(running: Node) -> None:
    async with connect(uri(running)) as writer:
        await writer.create("sales")
        await writer.send("queue:sales", b"one", correlation_id=7)
        async with connect(uri(running)) as first:
            assert (await anext(first.subscribe("queue:sales"))).payload == b"one"
        async with connect(uri(running)) as second:
            delivery = await anext(second.subscribe("queue:sales"))
            assert (delivery.payload, delivery.redelivered) == (b"one", True)
            assert delivery.properties.correlation_id == 7


async def test_a_queue_that_is_not_there(running: Node) -> None:
    async with connect(uri(running)) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.subscribe("queue:sales@elsewhere").ready()
    assert caught.value.code == "NOT_FOUND"


def routed_queues(node: Node) -> list[tuple[Kind, str]]:
    return [key for key in node.core.table.counts() if key[0] == Kind.QUEUE]


async def test_a_queue_that_nobody_made_is_not_read_though_messages_wait_for_it(running: Node) -> None:
    async with connect(uri(running)) as client:
        await client.send("queue:sales", b"early")
        with pytest.raises(RequestFailed) as caught:
            await client.subscribe("queue:sales").ready()
        assert caught.value.code == "NOT_FOUND"
        assert not routed_queues(running)
        await client.create("sales")
        assert (await anext(client.subscribe("queue:sales"))).payload == b"early"


async def test_who_lost_its_line_comes_back_to_its_transient_queue_which_is_its_own_again(
    running: Node,
) -> None:
    async with connect(uri(running)) as client:
        mailbox = await client.create()
    async with connect(uri(running), session="back") as client:
        replies = await client.subscribe(f"queue:{mailbox}").ready()
        await client.send(f"queue:{mailbox}", b"late")
        assert (await anext(replies)).payload == b"late"
        assert not routed_queues(running)
        assert running.core.switch.sessions["back"].transient == {mailbox.partition("@")[0]}
    while running.core.switch.sessions:
        await asyncio.sleep(0.01)
    assert not [place for place in running.core.custody.queues.values() if place.messages]


async def test_a_reply_finds_its_transient_queue(running: Node) -> None:
    async with connect(uri(running)) as server, connect(uri(running)) as client:
        await server.create("stock")
        questions = await server.subscribe("queue:stock", auto_ack=True).ready()
        mailbox = await client.create()
        replies = await client.subscribe(f"queue:{mailbox}", auto_ack=True).ready()
        await client.send("queue:stock", b"how many?", reply_to=mailbox, correlation_id=1)
        question = await anext(questions)
        reply_to, number = question.properties.reply_to, question.properties.correlation_id
        await server.send(f"queue:{reply_to}", b"three", correlation_id=number)
        answer = await anext(replies)
        assert (answer.payload, answer.properties.correlation_id) == (b"three", 1)


async def test_plain_clients_and_streaming_clients_share_queues(running: Node, plain: Any) -> None:
    line = await dial(running, plain, "till-7")
    assert await plain("/create/sales", line=line) == (200, b"sales")
    assert await plain("/subscribe/sales", line=line) == (200, b"")
    async with connect(uri(running)) as client:
        await client.send("queue:sales", b"from the stream", correlation_id=5)
    status, body = await plain("/transfer/-1/10", line=line)
    ((number, message),) = json.loads(body)["messages"]
    assert (status, message) == (200, {"payload": "from the stream", "correlation_id": 5})
    assert await plain(f"/ack/{number}", line=line) == (200, b"")
    assert await plain(f"/ack/{number}", line=line) == (200, b""), "again, as deployed clients need it"
    assert await plain("/transfer/-1/0", line=line) == (200, b'{"messages":[]}')


async def test_what_a_plain_client_can_do_nothing_with_is_a_dead_letter(running: Node) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as one_line:

        async def ask(verb: str, path: str, **options: Any) -> str:
            async with one_line.request(verb, uri(running) + path, **options) as answer:
                assert answer.status == 200
                return await answer.text()

        for path in ("/login/till-7", "/create/sales", "/subscribe/sales"):
            await ask("GET", path)
        await ask("POST", "/send/sales/1", data=b"no sale")
        (((number, _),),) = json.loads(await ask("GET", "/transfer/-1/10")).values()
        await ask("GET", f"/ack/{number}", headers={"Sapwood-Reject": "k%C3%A4se: no sale"})
        assert json.loads(await ask("GET", "/transfer/-1/0")) == {"messages": []}
        dead = json.loads(await ask("GET", "/api/status"))["dead"]["reasons"]
    assert list(dead) == ["REJECTED: käse: no sale"]


async def test_a_plain_client_may_bound_what_it_has_at_once(running: Node) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as one_line:

        async def ask(path: str, most: str = "") -> tuple[int, str]:
            headers = {"Sapwood-Credit": most} if most else {}
            async with one_line.get(uri(running) + path, headers=headers) as answer:
                return answer.status, await answer.text()

        async def had(seconds: int) -> list[int]:
            return [number for number, _ in json.loads((await ask(f"/transfer/-1/{seconds}"))[1])["messages"]]

        async with connect(uri(running)) as client:
            await client.create("sales")
            for _ in range(3):
                await client.send("queue:sales", b"x")
        assert await ask("/login/till-7") == (200, "")
        assert await ask("/subscribe/sales", "0") == (400, "BAD_REQUEST: a credit of 0: expected 1 or more")
        assert await ask("/subscribe/sales", "1") == (200, "")
        (first,) = await had(0)
        assert await had(0) == [first]
        assert await ask(f"/ack/{first}") == (200, "")
        (second,) = await had(60)
        assert await ask("/subscribe/sales") == (200, "")
        assert await had(0) == [second, second + 1]


async def test_a_blocked_transfer_is_woken(running: Node, plain: Any) -> None:
    reader, writer = await dial(running, plain, "reader"), await dial(running, plain, "writer")
    _, name = await plain("/create", line=reader)
    await plain(f"/subscribe/{name.decode()}", line=reader)
    waiting = asyncio.create_task(plain("/transfer/-1/3000", line=reader))
    while not running.switch.sessions["reader"].mail.waiters:
        await asyncio.sleep(0.001)
    assert await plain(f"/send/{name.decode()}/9/back", b"late", writer) == (200, b"")
    async with asyncio.timeout(60):
        _, body = await waiting
    ((_, message),) = json.loads(body)["messages"]
    assert message == {"payload": "late", "correlation_id": 9, "reply_to": "back"}


async def test_a_sessions_end_takes_its_transient_queues(running: Node, plain: Any) -> None:
    line = await dial(running, plain, "till-7")
    await plain("/create", line=line)
    assert "till-7" in running.switch.sessions
    line[1].close()
    async with asyncio.timeout(60):
        while running.switch.sessions:
            await asyncio.sleep(0.001)


async def test_a_durable_subscription_ends_for_good(running: Node) -> None:
    async with connect(uri(running), session="till-7") as client:
        await client.subscribe("topic:prices", durable="daily").ready()
        await client.end_subscription("daily")
        with pytest.raises(RequestFailed) as caught:
            await client.end_subscription("daily")
        assert caught.value.code == "NOT_FOUND"
    assert not running.core.topics.subscriptions


async def test_a_reader_is_told_that_its_queue_was_deleted(running: Node) -> None:
    async with connect(uri(running)) as client:
        await client.create("sales")
        subscription = await client.subscribe("queue:sales").ready()
        running.core.removal.delete_queue("sales")
        with pytest.raises(RequestFailed) as caught:
            await anext(subscription)
        assert caught.value.code == "QUEUE_DELETED"


async def test_a_publish_is_answered_with_how_many_matched_and_how_far_it_went(running: Node) -> None:
    async def note(session: aiohttp.ClientSession, path: str) -> str | None:
        async with session.post(f"{uri(running)}{path}", data=b"x") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
            return answer.headers.get("Sapwood-Note")

    one_line = aiohttp.TCPConnector(limit=1)
    async with connect(uri(running)) as reader, aiohttp.ClientSession(connector=one_line) as session:
        await reader.subscribe("topic:prices/#").ready()
        async with session.get(f"{uri(running)}/login/publisher") as answer:
            assert answer.status == 200
        matched = "MATCHED: {} readers here, 0 neighbours onward, 0 children passed by, scope vertical"
        assert await note(session, "/send/topic:prices%2Fmilk/1") == matched.format(1)
        assert await note(session, "/send/topic:stock/2") == matched.format(0)
        assert await note(session, "/send/stock/3") is None
