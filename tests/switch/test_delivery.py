"""Who is given which message, how often, under which id."""

import json
from typing import Any

import pytest
from plain import PATIENCE, Link, again, ids, payloads


def reading(node: Any, token: str, name: str) -> Link:
    link: Link = node.session(token)
    link.read(name)
    return link


def test_transfer_acknowledges_nothing(here: Any) -> None:
    link = reading(here, "keeps", "keeps")
    for number in range(3):
        link.send("keeps", b"%d" % number)
    found = link.transfer(-1, PATIENCE)
    assert payloads(found) == ["0", "1", "2"]
    assert not [message for _, message in found if "redelivered" in message]
    assert link.transfer(-1, 0) == again(found)
    assert link.transfer(found[0][0], 0) == again(found[1:])
    assert link.transfer(found[2][0], 0) == []
    link.ack(found[1][0])
    assert link.transfer(-1, 0) == again([found[0], found[2]])
    link.ack(found[2][0])
    link.ack(found[0][0])
    assert link.transfer(-1, 0) == []
    assert here.messages("keeps") == 0


def test_ids_of_messages_are_not_those_of_the_tree(here: Any) -> None:
    link = reading(here, "apart", "apart")
    link.send("apart", b"x")
    ((number, _),) = link.transfer(-1, PATIENCE)
    listed = json.loads(link.well("/api/queues/apart/messages"))["messages"]
    assert len(listed) == 1
    assert str(listed[0]["id"]) != str(number)


def test_what_a_dead_reader_had_is_given_again_with_the_same_id_below_ack_to(here: Any) -> None:
    first = reading(here, "first", "again")
    second = reading(here, "second", "later")
    first.send("again", b"x", 5, "back")
    ((number, message),) = first.transfer(-1, PATIENCE)
    second.send("later", b"y")
    ((later, _),) = second.transfer(-1, PATIENCE)
    assert later > number
    second.subscribe("again")
    second.begin_transfer(later)
    first.reset()
    assert second.mail() == again([(number, message)])
    assert second.transfer(later, 0) == []
    assert ids(second.transfer(-1, 0)) == [number, later]
    second.ack(number)
    second.ack(later)


def test_it_is_given_again_to_the_same_client_that_came_back(here: Any) -> None:
    link = reading(here, "phoenix", "phoenix")
    link.send("phoenix", b"x")
    found = link.transfer(-1, PATIENCE)
    link.close()
    here.until(
        lambda status: all(not q["readers"] for q in status["queues"] if "phoenix" in q["name"]), "left"
    )
    link = reading(here, "phoenix", "phoenix")
    assert link.transfer(10**18, PATIENCE) == again(found)
    link.ack(found[0][0])


def test_who_came_back_may_acknowledge_what_it_had(here: Any) -> None:
    link = reading(here, "returns", "returns")
    link.send("returns", b"done already")
    link.send("returns", b"not yet")
    found = link.transfer(-1, PATIENCE)
    while len(found) < 2:
        found = link.transfer(-1, PATIENCE)
    link.close()
    here.until(
        lambda status: all(not q["readers"] for q in status["queues"] if "returns" in q["name"]), "left"
    )
    stranger = here.session("stranger")
    assert stranger.ask(f"/ack/{found[0][0]}").note.startswith("NOT_FOUND")
    link = reading(here, "returns", "returns")
    link.ack(found[0][0])
    assert link.ask(f"/ack/{found[0][0]}").note.startswith("NOT_FOUND")
    assert payloads(link.transfer(-1, PATIENCE)) == ["not yet"]
    link.ack(found[1][0])


def test_an_answer_that_nobody_read_is_given_again_to_the_sessions_others(here: Any) -> None:
    """A message below `ack_to` is told once; if that answer is lost with its connection, it is told again."""
    former = reading(here, "former", "unread")
    former.send("unread", b"x")
    ((number, _),) = former.transfer(-1, PATIENCE)
    stays, goes = reading(here, "latter", "unread"), here.session("latter")
    former.close()
    assert ids(goes.transfer(10**18, PATIENCE)) == [number]
    stays.begin_transfer(10**18)
    goes.reset()
    assert ids(stays.mail()) == [number]
    stays.ack(number)


def test_another_session_cannot_acknowledge_what_this_one_has(here: Any) -> None:
    link, other = reading(here, "holder", "held"), reading(here, "thief", "held")
    link.send("held", b"x")
    ((number, _),) = link.transfer(-1, PATIENCE)
    assert other.ask(f"/ack/{number}").note.startswith("NOT_FOUND")
    link.ack(number)


def test_subscribers_share_a_queue(here: Any) -> None:
    links = [reading(here, f"worker-{number}", "shared") for number in range(4)]
    for link in links:
        link.begin_transfer()
    writer = here.session("writer")
    got = []
    for number in range(4):
        writer.send("shared", b"%d" % number)
    for link in links:
        got += [(link, number, text["payload"]) for number, text in link.mail()]
    assert sorted(text for _, _, text in got) == ["0", "1", "2", "3"]
    assert len({id(link) for link, _, _ in got}) == 4
    for link, number, _ in got:
        link.ack(number)


def test_a_reader_that_is_busy_keeps_nothing_from_the_others(here: Any) -> None:
    busy, idle = reading(here, "busy", "jobs"), reading(here, "idle", "jobs")
    writer = here.session("writer")
    writer.send("jobs", b"long")
    ((first, _),) = busy.transfer(-1, PATIENCE)
    for number in range(5):
        writer.send("jobs", b"%d" % number)
    found = idle.transfer(-1, PATIENCE)
    assert payloads(found) == ["0", "1", "2", "3", "4"]
    for number, _ in found:
        idle.ack(number)
    busy.ack(first)


def test_what_was_never_fetched_is_given_to_another_as_new(make: Any) -> None:
    node = make(delivery={"max_deliveries": 2})
    writer = node.session("writer")
    writer.create("untouched")
    writer.send("untouched", b"x")
    for number in range(5):
        link = node.session(f"looks-in-{number}")
        link.subscribe("untouched")
        link.close()
        node.until(lambda status: status["sessions"] == 1, "gone")
    link = node.session("reads")
    link.subscribe("untouched")
    assert payloads(link.transfer(-1, PATIENCE)) == ["x"]


def test_after_so_many_deliveries_a_message_is_dead(make: Any) -> None:
    node = make(delivery={"max_deliveries": 3})
    writer = node.session("writer")
    writer.create("poison")
    writer.send("poison", b"poison")
    writer.send("poison", b"good")
    numbers = []
    for turn in range(3):
        link = node.session(f"victim-{turn}")
        link.subscribe("poison")
        found = link.transfer(-1, PATIENCE)
        numbers.append(found[0][0])
        assert found[0][1]["payload"] == "poison"
        if len(found) > 1:
            link.ack(found[1][0])
        link.reset()
        node.until(lambda status: status["sessions"] == 1, "gone")
    assert len(set(numbers)) == 1
    status = node.until(lambda status: status["dead"]["messages"] == 1, "dead")
    assert status["dead"]["reasons"] == {"TOO_MANY_DELIVERIES": 1}
    assert "poison" not in payloads(reading(node, "after", "poison").transfer(-1, 0.2))


def test_a_queue_that_nobody_created_may_be_written_to_and_is_read_later(here: Any) -> None:
    writer = here.session("writer")
    writer.send("unborn", b"early", 3)
    reader = reading(here, "reader", "unborn")
    ((number, message),) = reader.transfer(-1, PATIENCE)
    assert (message["payload"], message["correlation_id"]) == ("early", 3)
    reader.ack(number)


def test_what_nobody_takes_within_the_hold_time_is_dead(make: Any) -> None:
    node = make(delivery={"hold_time": "1s"})
    link = node.session("writer")
    link.create("created")
    link.send("created", b"stays")
    link.send("nobody", b"goes")
    link.send("nobody@hq", b"goes too")
    status = node.until(lambda status: status["dead"]["messages"] == 2, "dead")
    assert status["dead"]["reasons"] == {"QUEUE_DOES_NOT_EXIST": 2}
    assert node.messages("created") == 1


def test_creating_is_not_interest_and_subscribing_is(make: Any) -> None:
    """A message at HQ goes down to where its queue is read, not to where it was only created."""
    hq = make("hq", advisories={"linger": "0s"}, permits="open")
    york = make(
        "york",
        tree_connectors=[{"nodetype": "leaf", "uri": f"ws://127.0.0.1:{hq.port}/link"}],
        advisories={"linger": "0s"},
    )
    york.until(lambda status: status["parent"] and status["parent"]["state"] == "running", "linked")
    reader, writer = york.session("reader"), hq.session("writer")
    reader.create("prices")
    writer.send("prices", b"x")
    assert reader.transfer(-1, 0.3) == []
    assert hq.messages("prices") == 1
    assert york.messages("prices") == 0
    reader.subscribe("prices")
    ((number, message),) = reader.transfer(-1, PATIENCE)
    assert message["payload"] == "x"
    reader.ack(number)
    mailbox = reader.create()
    reader.subscribe(mailbox)
    told = [
        row for row in json.loads(writer.well("/api/advisories"))["advisories"] if mailbox[:-5] in str(row)
    ]
    assert told == []
    writer.send(mailbox, b"a reply", 7)
    ((_, message),) = reader.transfer(number, PATIENCE)
    assert (message["payload"], message["correlation_id"]) == ("a reply", 7)


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
def test_payloads_of_any_bytes_and_size(here: Any, size: int) -> None:
    link = reading(here, f"bytes-{size}", f"bytes-{size}")
    text = ("äöü€" * size)[:size]
    link.send(f"bytes-{size}", text.encode())
    ((number, message),) = link.transfer(-1, PATIENCE)
    assert message["payload"] == text
    link.ack(number)


def test_a_large_backlog_comes_in_parts(here: Any) -> None:
    link = reading(here, "parts", "parts")
    for number in range(12):
        link.send("parts", bytes([65 + number]) * 1_000_000)
    found: list[tuple[int, dict[str, Any]]] = []
    while len(found) < 12:
        more = link.transfer(found[-1][0] if found else -1, PATIENCE)
        assert 1 <= len(more) < 12
        found += more
    assert [text[0] for text in payloads(found)] == list("ABCDEFGHIJKL")
    for number, _ in found:
        link.ack(number)
