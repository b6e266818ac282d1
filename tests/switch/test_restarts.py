"""What survives a restart and a SIGKILL: queues, messages, ids."""

import shutil
import time
from typing import Any

import pytest
from plain import PATIENCE, again, ids, payloads


def end(node: Any, how: str) -> None:
    if how == "killed":
        node.kill()
    else:
        assert node.stop() == 0


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_persistent_queues_and_their_messages_survive(make: Any, how: str) -> None:
    node = make()
    link = node.session("one")
    assert link.create("kept") == "kept"
    link.send("kept", b"\xff\x00", 2**64 - 1, "back")
    end(node, how)
    node.start()
    link = node.session("two")
    link.subscribe("kept")
    ((_, message),) = link.transfer(-1, PATIENCE)
    assert message == {
        "payload": "/wA=",
        "encoding": "base64",
        "correlation_id": 2**64 - 1,
        "reply_to": "back",
    }


def test_a_created_queue_is_on_disk_when_its_creation_is_answered(make: Any) -> None:
    node = make()
    for turn in range(5):
        node.session("maker").create(f"made-{turn}")
        node.kill()
        node.start()
        link = node.session("reader")
        for number in range(turn + 1):
            link.subscribe(f"made-{number}")


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_transient_queues_and_their_messages_do_not(make: Any, how: str) -> None:
    node = make()
    link = node.session("one")
    name = link.create()
    link.send(name, b"for nobody")
    link.send("durable", b"for somebody")
    end(node, how)
    node.start()
    status = node.status()
    assert [queue["messages"] for queue in status["queues"] if name in queue["name"]] == []
    assert sum(queue["messages"] for queue in status["queues"]) == 1
    assert node.session("one").ask(f"/subscribe/{name}").status == 404


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_ids_go_on_above_all_that_were_given_before(make: Any, how: str) -> None:
    node = make()
    highest = 0
    for turn in range(4):
        link = node.session("reader")
        for name in ("a", "b"):
            link.read(name)
            link.send(name, b"%d" % turn)
        found = link.transfer(highest, PATIENCE)
        while len(found) < 2:
            found = link.transfer(highest, PATIENCE)
        assert min(ids(found)) > highest
        highest = max(ids(found))
        for number in ids(found):
            link.ack(number)
        end(node, how)
        node.start()


@pytest.mark.parametrize("database", ["put back", "empty"])
def test_ids_of_a_database_that_is_gone_are_given_to_no_other_message(make: Any, database: str) -> None:
    """A client that had messages of then goes on: it misses none, and its acknowledgements end none."""
    node = make()
    data, backup = node.file.parent / "data-hq", node.file.parent / "backup"
    end(node, "stopped")
    shutil.copytree(data, backup)
    node.start()
    link = node.session("till")
    link.read("q")
    for number in range(3):
        link.send("q", b"%d" % number)
    while len(found := link.transfer(-1, PATIENCE)) < 3:
        pass
    node.kill()
    shutil.rmtree(data)
    if database == "put back":
        shutil.copytree(backup, data)
    while time.time_ns() // 1000 <= max(ids(found)):  # each quick start reserves ids for a second
        time.sleep(0.01)
    node.start()
    link, writer = node.session("till"), node.session("writer")
    link.read("q")
    for number in range(3, 6):
        writer.send("q", b"%d" % number)
    for number in ids(found):
        assert link.ask(f"/ack/{number}").note.startswith("NOT_FOUND")
    fresh: list[Any] = []
    while len(fresh) < 3:
        fresh += link.transfer(max(ids(found + fresh)), PATIENCE)
    assert payloads(fresh) == ["3", "4", "5"]


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_what_was_not_acknowledged_is_given_again_with_its_id_and_what_was_is_not(
    make: Any, how: str
) -> None:
    node = make()
    link = node.session("reader")
    link.read("q")
    for number in range(3):
        link.send("q", b"%d" % number)
    found = link.transfer(-1, PATIENCE)
    while len(found) < 3:
        found = link.transfer(-1, PATIENCE)
    link.ack(found[0][0])
    link.send("elsewhere", b"a commit later")
    end(node, how)
    node.start()
    link = node.session("reader")
    link.subscribe("q")
    assert link.transfer(10**18, PATIENCE) == again(found[1:])
    link.ack(found[1][0])
    assert payloads(link.transfer(-1, 0)) == ["2"]


def test_whatever_an_answer_told_is_marked_after_a_kill_and_what_nobody_saw_is_not(make: Any) -> None:
    """Killed as soon as the answer is there: nothing else had to be committed meanwhile."""
    node = make()
    for turn in range(2):
        writer, name = node.session("writer"), f"q{turn}"
        writer.create(name)
        for number in range(20):
            writer.send(name, b"%d" % number)
            writer.send(f"unseen{turn}", b"%d" % number)
        link = node.session("reader")
        link.subscribe(name)
        first = link.transfer(-1, PATIENCE)
        node.kill()
        assert not [message for _, message in first if "redelivered" in message]
        node.start()
        link = node.session("reader")
        link.subscribe(name)
        told = link.transfer(-1, PATIENCE)
        assert told == again(first)
        for number in ids(told):
            link.ack(number)
        link.read(f"unseen{turn}")
        unseen = link.transfer(-1, PATIENCE)
        assert len(unseen) == 20
        assert not [message for _, message in unseen if "redelivered" in message]
        for number in ids(unseen):
            link.ack(number)


def test_an_acknowledgement_that_was_answered_holds(make: Any) -> None:
    node = make()
    for turn in range(5):
        link = node.session("reader")
        link.read("q")
        assert link.transfer(-1, 0.05) == []
        link.send("q", b"%d" % turn)
        ((number, _),) = link.transfer(-1, PATIENCE)
        link.ack(number)
        node.kill()
        node.start()
