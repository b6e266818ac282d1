"""What one node says of messages: by id to everybody, by task to those it concerns, never a token."""

import json
from typing import Any

import pytest

from broker.core.errors import BadRequest
from broker.core.sessions.masking import masked
from sapwood.protocol.bundles import Message, Properties, encode_message
from sapwood.protocol.destinations import parse
from sapwood.protocol.session_frames import Send


def send(grove: Any, site: str, destination: str, **properties: Any) -> None:
    producer = grove.forest.producer(site, name=f"secret-producer-{len(grove.forest.clients)}")
    body = encode_message(Message(b"secret payload", Properties(**properties)))
    producer.say(Send(1, parse(destination), 1, body))
    grove.forest.settle(1.0)


def said(grove: Any, node: str, asker: str = "", **arguments: Any) -> dict[str, Any]:
    result: dict[str, Any] = grove.tracing[node]._command(asker or node, arguments)
    return result


def sent_to_york(grove: Any, **properties: Any) -> str:
    """A message from hq for a reader in york; its id."""
    reader = grove.forest.consumer("york", "queue:prices", name="secret-reader-token")
    grove.forest.settle()
    send(grove, "hq", "queue:prices", **properties)
    return f"{reader.receipts[0].bundle.hex()}-0"


async def test_each_node_says_where_it_came_from_and_went(grove: Any) -> None:
    message = sent_to_york(grove)
    ways = {node: said(grove, node, messages=[message])["messages"].get(message) for node in grove.cells}
    assert ways["south"] is None
    assert {node: (way["came"], way["went"]) for node, way in ways.items() if way} == {
        "hq": ([], ["north"]),
        "north": (["hq"], ["york"]),
        "york": (["north"], []),
    }
    assert {way["origin"] for way in ways.values() if way} == {"hq"}
    kinds = [each["kind"] for each in ways["york"]["events"] if each["kind"] != "committed"]
    assert kinds == ["arrived", "delivered", "dealt_with"]


async def test_nothing_secret_is_said(grove: Any) -> None:
    message = sent_to_york(grove, task_id="t")
    for node in grove.cells:
        text = json.dumps(said(grove, node, messages=[message], task="t"))
        assert "secret-" not in text
        assert "payload" not in text
    york = said(grove, "york", messages=[message])["messages"][message]["events"]
    assert york[-1]["session"] == masked("secret-reader-token")


async def test_what_was_noted_is_said_with_the_event(grove: Any) -> None:
    message = sent_to_york(grove, task_id="t", correlation_id=0, reply_to="r@hq")
    first = said(grove, "hq", messages=[message])["messages"][message]["events"][0]
    assert (first["kind"], first["task_id"], first["correlation_id"], first["reply_to"]) == (
        "entered",
        "t",
        0,
        "r@hq",
    )


async def test_what_waits_is_found_after_a_restart_that_forgot(grove: Any) -> None:
    """The ring is memory; the message is on disk."""
    send(grove, "hq", "queue:nobody")
    (bundle,) = {each.bundle for each in grove.forest["hq"].core.trace.after(-1)}
    site = grove.forest["hq"]
    site.crash()
    site.boot()
    command = type(grove.tracing["hq"]._command)(grove.hosts["hq"])
    message = f"{bundle.hex()}-0"
    (event,) = command("hq", {"messages": [message]})["messages"][message]["events"]
    assert (event["kind"], event["place"]) == ("kept", "queue:nobody")
    assert command("hq", {"messages": [f"{bundle.hex()}-1", f"{'00' * 16}-0"]})["messages"] == {}


async def test_a_tasks_messages_are_told_to_those_above(grove: Any) -> None:
    message = sent_to_york(grove, task_id="t")
    assert said(grove, "hq", "hq", task="t")["task_messages"] == [message]
    assert said(grove, "hq", "hq", task="other")["task_messages"] == []


async def test_others_are_told_of_what_was_for_them_only(grove: Any) -> None:
    """A task's name can be guessed."""
    send(grove, "hq", "queue:prices", task_id="t")
    send(grove, "hq", "queue:reply@south", task_id="t")
    assert len(said(grove, "hq", "hq", task="t")["task_messages"]) == 2
    assert len(said(grove, "hq", "south", task="t")["task_messages"]) == 1
    assert said(grove, "hq", "york", task="t")["task_messages"] == []


async def test_who_knows_a_request_is_told_what_it_set_off_and_not_where_that_is_answered(
    grove: Any,
) -> None:
    """What a session did that was given the request; not what others do under the task's name."""
    grove.forest.consumer("york", "queue:prices", name="service")
    grove.forest.settle()
    send(grove, "south", "queue:prices", task_id="t", reply_to="mine@south")
    send(grove, "york", "queue:elsewhere", task_id="t")
    (request,) = said(grove, "south", task="t")["task_messages"]
    service = grove.forest.producer("york", name="service")
    nested = encode_message(Message(b"?", Properties(task_id="t", reply_to="theirs@york")))
    service.say(Send(1, parse("queue:stock"), 1, nested))
    grove.forest.settle(1.0)
    assert len(said(grove, "york", "hq", task="t")["task_messages"]) == 2
    assert said(grove, "york", "south", task="t")["task_messages"] == []
    assert said(grove, "york", "south", messages=[request], task="other")["task_messages"] == []
    (found,) = said(grove, "york", "south", messages=[request], task="t")["task_messages"]
    for asker, told in (("south", False), ("hq", True), ("york", True)):
        text = json.dumps(said(grove, "york", asker, messages=[found]))
        assert ("theirs@york" in text) is told, asker
    assert "mine@south" in json.dumps(said(grove, "south", messages=[request]))


@pytest.mark.parametrize(
    "arguments",
    [{"messages": "x"}, {"messages": ["x"]}, {"messages": [5]}, {"messages": ["0-0"] * 101}, {"task": 5}],
)
async def test_what_is_no_question_is_refused(grove: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        grove.tracing["hq"]._command("hq", arguments)


async def test_neighbours_that_are_away_are_told(grove: Any) -> None:
    grove.cut("york")
    assert said(grove, "north")["down"] == {"york": "its link to north has been down for 0 s"}


async def test_the_stories_across_the_tree(grove: Any) -> None:
    message = sent_to_york(grove, task_id="t")
    for node in ("hq", "north", "york", "south"):
        told = await grove.tracing[node].message(message)
        assert [hop["node"] for hop in told["hops"]] == ["hq", "north", "york"], node
    task = await grove.tracing["hq"].task("t")
    assert {entry["node"] for entry in task["events"]} == {"hq", "north", "york"}


async def test_polled_events_are_messages_and_acks(grove: Any) -> None:
    message = sent_to_york(grove, correlation_id=7)
    hq, york = grove.tracing["hq"].events(-1), grove.tracing["york"].events(-1)
    assert [(each["kind"], each["queue"], each.get("correlation_id")) for _, each in hq] == [
        ("message", "prices", 7)
    ]
    assert hq[0][1]["input"] == masked("secret-producer-1")
    assert [each["kind"] for _, each in york] == ["message", "ack"]
    assert {each["output"] for _, each in york} == {masked("secret-reader-token")}
    assert {each["message_id"] for _, each in (*hq, *york)} == {message}
    assert york[1][1]["processing_time"] >= 0
    assert [number for number, _ in grove.tracing["york"].events(york[0][0])] == [york[1][0]]
    assert grove.tracing["york"].events(york[-1][0]) == []
