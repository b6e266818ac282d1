"""`/trace` with a real node behind it, polled by plain sockets as deployed clients do; and `/api/trace`."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.node import Node


class Plain:
    """One connection that writes requests by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, path: str, body: bytes | None = None, *headers: str) -> tuple[int, bytes]:
        verb = "GET" if body is None else "POST"
        lines = [
            f"{verb} {path} HTTP/1.1",
            "Host: localhost",
            f"Content-Length: {len(body or b'')}",
            *headers,
        ]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        async with asyncio.timeout(60):
            head = await self.reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            return int(head.split(b" ")[1]), await self.reader.readexactly(size)

    async def json(self, path: str) -> Any:
        code, body = await self.ask(path)
        assert code == 200, body
        return json.loads(body)

    async def events(self, ack_to: int, timeout: float = 0) -> list[Any]:
        found: list[Any] = (await self.json(f"/trace/{ack_to}/{timeout}"))["events"]
        return found


@pytest.fixture
async def dial(running: Node) -> AsyncIterator[Any]:
    """Makes connections, logged in if a token is given."""
    lines: list[Plain] = []

    async def connect(token: str = "") -> Plain:
        line = Plain(*await asyncio.open_connection("127.0.0.1", running.port))
        lines.append(line)
        if token:
            assert await line.ask(f"/login/{token}") == (200, b"")
        return line

    yield connect
    for line in lines:
        line.writer.close()


async def one_message(line: Plain, number: int = 7) -> None:
    """Sent, transferred and acknowledged on one connection."""
    for path in ("/create/sales", "/subscribe/sales"):
        assert (await line.ask(path))[0] == 200
    assert (await line.ask(f"/send/sales/{number}", b"x"))[0] == 200
    ((transfer, _),) = (await line.json("/transfer/-1/10"))["messages"]
    assert (await line.ask(f"/ack/{transfer}"))[0] == 200


async def test_a_message_is_three_events_with_ids_that_ascend(dial: Any) -> None:
    line = await dial("token-of-mine")
    await one_message(line)
    events = await line.events(-1)
    assert [event["kind"] for _, event in events] == ["message", "message", "ack"]
    assert [number for number, _ in events] == sorted({number for number, _ in events})
    entered, given, acknowledged = (event for _, event in events)
    assert {event["queue"] for _, event in events} == {"sales"}
    assert {event["correlation_id"] for _, event in events} == {7}
    assert len({event["message_id"] for _, event in events}) == 1
    assert entered["input"] == given["output"] == acknowledged["output"] == acknowledged["input"]
    assert "output" not in entered
    assert "token-of-mine" not in json.dumps(events)
    assert entered["time"] <= given["time"] <= acknowledged["time"]
    assert acknowledged["processing_time"] >= 0


async def test_polling_goes_on_above_what_was_seen(dial: Any) -> None:
    line = await dial("t")
    await one_message(line)
    events = await line.events(-1)
    assert await line.events(events[0][0]) == events[1:]
    assert await line.events(events[-1][0]) == []
    assert await line.events(events[-1][0], timeout=0.01) == []


async def test_a_poller_of_the_message_switch_misses_nothing_and_sees_nothing_twice(dial: Any) -> None:
    """It asks for the last number and 1, and is to be given what is not below that."""
    line = await dial("t")
    await one_message(line)
    events = await line.events(-1)
    assert (await line.json("/trace"))["events"] == events
    seen, following = [], -1
    for _ in range(3):
        found = await line.events(following)
        assert all(number >= following for number, _ in found)
        seen += found[:1]
        following = found[0][0] + 1
    assert seen == events
    assert await line.events(following) == []


async def test_an_event_has_the_message_as_the_message_switch_writes_it(dial: Any) -> None:
    line = await dial("t")
    await line.ask("/create/sales")
    await line.ask("/subscribe/sales")
    assert (await line.ask("/send/sales/7/back", b"not to be shown"))[0] == 200
    ((transfer, _),) = (await line.json("/transfer/-1/10"))["messages"]
    await line.ask(f"/ack/{transfer}")
    events = [event for _, event in await line.events(-1)]
    forms = [event["message"] for event in events]
    number = forms[0][1]
    said = {"payload": "", "correlation_id": 7, "reply_to": "back"}
    assert forms == [["Message", number, said], ["Message", number, said], ["Ack", number]]
    assert 0 <= number < 2**53
    assert "not to be shown" not in str(events)


async def test_a_poll_waits_for_the_next_event(dial: Any) -> None:
    watcher, worker = await dial("watcher"), await dial("worker")
    waiting = asyncio.create_task(watcher.events(-1, timeout=60))
    await worker.ask("/create/sales")
    assert not waiting.done()
    await worker.ask("/send/sales/1", b"x")
    ((_, event),) = await waiting
    assert event["kind"] == "message"


async def test_a_poll_whose_connection_goes_leaves_nothing(running: Node, dial: Any) -> None:
    watcher, worker = await dial("watcher"), await dial("worker")
    waiting = asyncio.create_task(watcher.events(-1, timeout=60))
    await worker.ask("/create/sales")
    assert len(running.core.trace._waiting) == 1
    watcher.writer.close()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await waiting
    await worker.ask("/create/other")
    assert running.core.trace._waiting == []
    assert (await worker.ask("/send/sales/1", b"x"))[0] == 200


async def test_before_login_there_is_nothing_to_see(dial: Any) -> None:
    assert (await (await dial()).ask("/trace/-1/0"))[0] == 403


@pytest.mark.parametrize(
    "path", ["/trace/", "/trace/1", "/trace/x/0", "/trace/1/x", "/trace/1/-1", "/trace/1/2/3"]
)
async def test_what_is_no_poll_is_a_bad_request(dial: Any, path: str) -> None:
    assert (await (await dial("t")).ask(path))[0] == 400


async def test_web_pages_are_refused(dial: Any) -> None:
    line = await dial("t")
    assert (await line.ask("/trace/-1/0", None, "Origin: http://elsewhere.example"))[0] == 403
    story = f"/api/trace/message/{'00' * 16}-0"
    assert (await line.ask(story, None, "Origin: http://elsewhere.example"))[0] == 403


async def test_the_story_of_a_message(dial: Any) -> None:
    line = await dial("t")
    await one_message(line)
    message = (await line.events(-1))[0][1]["message_id"]
    story = await line.json(f"/api/trace/message/{message}")
    (hop,) = story["hops"]
    assert (story["id"], story["destination"], story["origin"], story["complete"]) == (
        message,
        "queue:sales",
        "hq",
        True,
    )
    assert [event["kind"] for event in hop["events"]] == ["entered", "committed", "delivered", "dealt_with"]
    times = [event["ms"] for event in hop["events"]]
    assert times == sorted(times)
    assert hop["events"][2]["transfer_id"] >= 1


async def test_what_nobody_knows_is_an_empty_story_and_no_id_is_an_error(dial: Any) -> None:
    line = await dial()
    unknown = await line.json(f"/api/trace/message/{'00' * 16}-0")
    assert (unknown["hops"], unknown["complete"]) == ([], False)
    code, body = await line.ask("/api/trace/message/hello")
    assert (code, json.loads(body)["code"]) == (400, "BAD_REQUEST")
    assert (await line.json("/api/trace/task/nothing"))["events"] == []
    assert (await line.ask(f"/api/trace/task/{'x' * 400}"))[0] == 400
