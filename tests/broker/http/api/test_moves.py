"""An operator creates queues and moves messages over the API of a real node."""

import random
from typing import Any

import pytest

from broker.api import moves
from broker.core.messages.queue_names import SYSTEM
from broker.core.settings import QueuePolicy
from broker.node import Node
from sapwood.client import Client
from sapwood.protocol.destinations import Kind, queue


async def ids_of(api: Any, name: str) -> dict[str, str]:
    """Payload and id of a queue's messages, in their order."""
    found = await api(f"GET /api/queues/{name}/messages?limit=1000")
    return {each["preview"]: each["id"] for each in found["messages"]}


async def test_a_queue_is_created_with_its_setting_and_keeps_what_comes(api: Any, client: Client) -> None:
    assert await api("POST /api/queues/sales?home=1") == {"queue": "queue:sales", "home": True, "made": True}
    assert (await api("POST /api/queues/sales@hq"))["made"] is False
    await client.send("queue:sales", b"x")
    detail = await api("GET /api/queues/sales")
    assert (detail["created"], detail["home"], detail["messages"]) == (True, True, 1)
    for wrong in ("sales@york", "topic:sales@hq"):
        assert (await api(f"POST /api/queues/{wrong}", 400))["code"] == "BAD_REQUEST"
    await api(f"POST /api/queues/{SYSTEM}", 409)


async def test_chosen_messages_are_moved_and_the_others_stay(api: Any, client: Client) -> None:
    await client.create("a")
    await client.create("b")
    for number in range(5):
        await client.send("queue:a", b"%d" % number, correlation_id=number)
    ids = await ids_of(api, "a")
    answer = await api("POST /api/queues/a/move", json={"ids": [ids["1"], ids["3"]], "to": "b"})
    assert answer == {"moved": 2, "to": "queue:b", "why": ""}
    assert [list(await ids_of(api, name)) for name in ("a", "b")] == [["0", "2", "4"], ["1", "3"]]
    moved = await api("GET /api/queues/b/messages")
    assert [each["correlation_id"] for each in moved["messages"]] == [1, 3]
    assert (await api("POST /api/queues/a/move", 404, json={"ids": [ids["1"]], "to": "b"}))[
        "code"
    ] == "NOT_FOUND"


async def test_all_of_a_long_queue_is_moved_and_what_comes_meanwhile_is_not_moved_again(
    api: Any, client: Client
) -> None:
    await client.create("a")
    await client.create("b")
    for number in range(3):
        await client.send_many("queue:a", [b"%d" % each for each in range(number * 300, number * 300 + 300)])
    assert (await api("POST /api/queues/a/move", json={"all": True}))[
        "moved"
    ] == 900  # behind themselves, once
    assert (await api("POST /api/queues/a/move", json={"all": True, "to": "b"}))["moved"] == 900
    found = await api("GET /api/queues/b/messages?limit=1000")
    assert [each["preview"] for each in found["messages"]] == [str(number) for number in range(900)]


async def test_requeued_messages_wait_behind_all_others(api: Any, client: Client) -> None:
    await client.create("a")
    for number in range(3):
        await client.send("queue:a", b"%d" % number)
    ids = await ids_of(api, "a")
    assert await api("POST /api/queues/a/move", json={"ids": [ids["0"]]}) == {
        "moved": 1,
        "to": "queue:a",
        "why": "",
    }
    assert list(await ids_of(api, "a")) == ["1", "2", "0"]


async def test_what_is_wrong_with_a_move_is_said(api: Any, client: Client, running: Node) -> None:
    await client.create("a")
    await client.create("b")
    await client.send("queue:a", b"0")
    ids = list((await ids_of(api, "a")).values())
    for body, said in (
        ({}, "ids"),
        ({"all": True, "ids": ids}, "either"),
        ({"all": True, "to": "topic:x@hq"}, "no queue"),
        ({"ids": ["x"], "to": "b"}, "message id"),
        ({"all": True, "where": "b"}, "where"),
    ):
        error = await api("POST /api/queues/a/move", 400, json=body)
        assert said in error["text"], body
    await api("POST /api/queues/a/move", 409, json={"all": True, "to": SYSTEM})
    await api("POST /api/queues/nothing/move", 404, json={"all": True, "to": "b"})
    assert list(await ids_of(api, "a")) == ["0"]
    operations = {change.operation for change in running.running.trail.latest()}
    assert "POST /api/queues/{name}/move" in operations


async def test_where_a_later_part_finds_no_room_the_answer_says_how_many_have_moved(
    api: Any, client: Client, running: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "PART", 2)
    await client.create("a")
    await client.create("b")
    for number in range(5):
        await client.send("queue:a", b"%d" % number)
    running.core.custody.queue_for(queue("b")).policy = QueuePolicy(Kind.QUEUE, "b", max_messages=4)
    answer = await api("POST /api/queues/a/move", json={"all": True, "to": "b"})
    assert (answer["moved"], answer["why"].partition(":")[0]) == (4, "QUEUE_FULL")
    assert [list(await ids_of(api, name)) for name in ("a", "b")] == [["4"], ["0", "1", "2", "3"]]
    refused = await api("POST /api/queues/a/move", 429, json={"all": True, "to": "b"})
    assert refused["code"] == "QUEUE_FULL"


@pytest.fixture
def parts(running: Node, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each commit of a move has, as it goes on."""
    found: list[int] = []
    move = running.core.moving.move

    def counted(chosen: Any, to: Any) -> Any:
        found.append(len(chosen))
        return move(chosen, to)

    monkeypatch.setattr(running.core, "moving", type("Counted", (), {"move": staticmethod(counted)}))
    return found


async def test_one_commit_has_so_many_bytes_and_no_more(
    api: Any, client: Client, parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "MOST_BYTES", 2000)
    await client.create("a")
    await client.create("b")
    for number in range(5):
        await client.send("queue:a", random.Random(number).randbytes(1500))
    assert (await api("POST /api/queues/a/move", json={"all": True, "to": "b"}))["moved"] == 5
    assert max(parts) == 2


async def test_no_commit_is_waited_for_with_nothing_in_it(api: Any, client: Client, parts: list[int]) -> None:
    await client.create("a")
    await client.create("b")
    await client.send("queue:a", b"0")
    assert (await api("POST /api/queues/a/move", json={"all": True, "to": "b"}))["moved"] == 1
    assert (await api("POST /api/queues/a/move", json={"all": True, "to": "b"}))["moved"] == 0
    assert parts == [1]


async def test_the_trace_says_what_a_moved_message_is_called_now(api: Any, client: Client) -> None:
    await client.create("a")
    await client.create("b")
    await client.send("queue:a", b"0")
    (old,) = (await ids_of(api, "a")).values()
    await api("POST /api/queues/a/move", json={"ids": [old], "to": "b"})
    (new,) = (await ids_of(api, "b")).values()
    said = await api(f"GET /api/trace/message/{old}")
    assert f"moved to queue:b as {new.partition('-')[0]}" in str(said)
