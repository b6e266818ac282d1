"""How much one session may have in one queue of this node."""

from typing import Any

import pytest
from plain import PATIENCE, Link


def fill(link: Link, name: str, count: int) -> None:
    for number in range(count):
        link.send(name, b"%d" % number)


def full(link: Link, name: str) -> bool:
    """Refused with the word?"""
    answer = link.ask(f"/send/{name}/1", b"x")
    assert answer.status in (200, 429), answer
    assert (answer.status == 429) == answer.body.startswith(b"QUEUE_FULL")
    return answer.status == 429


def test_one_more_is_refused_and_others_are_not(make: Any) -> None:
    node = make(limits={"queue_quota": 3})
    link, other = node.session("greedy"), node.session("modest")
    second = node.session("greedy")
    link.create("a")
    fill(link, "a", 3)
    assert full(link, "a")
    assert full(second, "a")
    assert full(link, "a@hq")
    fill(link, "b", 3)
    assert full(link, "b")
    fill(other, "a", 3)
    assert full(other, "a")
    assert node.messages("a") == 6


def test_it_counts_what_is_still_there_message_by_message(make: Any) -> None:
    node = make(limits={"queue_quota": 5})
    link, reader = node.session("writer"), node.session("reader")
    reader.read("q")
    link.send_raw(b"".join(b"POST /send/q/%d HTTP/1.1\r\nContent-Length: 1\r\n\r\nx" % n for n in range(20)))
    assert sorted(link.answer().status for _ in range(20)) == [200] * 5 + [429] * 15
    found = reader.transfer(-1, PATIENCE)
    while len(found) < 5:
        found = reader.transfer(-1, PATIENCE)
    assert full(link, "q"), "what is given and not acknowledged is still there"
    for number, _ in found[:2]:
        reader.ack(number)
    fill(link, "q", 2)
    assert full(link, "q")
    reader.close()
    node.until(lambda status: status["sessions"] == 1, "gone")
    assert full(link, "q")


def test_many_connections_of_a_session_at_once(make: Any) -> None:
    node = make(limits={"queue_quota": 40})
    links = [node.session("crowd") for _ in range(30)]
    for _ in range(3):
        for link in links:
            link.begin("/send/q/1", b"x")
    found = sorted(link.answer().status for _ in range(3) for link in links)
    assert found == [200] * 40 + [429] * 50
    assert node.messages("q") == 40


def test_it_holds_over_a_restart(make: Any) -> None:
    node = make(limits={"queue_quota": 4})
    link, reader = node.session("writer"), node.session("reader")
    reader.read("q")
    fill(link, "q", 3)
    reader.ack(reader.transfer(-1, PATIENCE)[0][0])
    node.kill()
    node.start()
    link = node.session("writer")
    fill(link, "q", 2)
    assert full(link, "q")
    fill(node.session("other"), "q", 4)


def test_what_went_on_to_another_node_is_not_counted(make: Any) -> None:
    hq = make("hq", permits="open")
    york = make(
        "york",
        tree_connectors=[{"nodetype": "leaf", "uri": f"ws://127.0.0.1:{hq.port}/link"}],
        limits={"queue_quota": 2},
    )
    york.until(lambda status: status["parent"] and status["parent"]["state"] == "running", "linked")
    link = york.session("writer")
    for number in range(10):
        link.send("up", b"%d" % number)
        york.until(lambda status: all(q["messages"] == 0 for q in status["queues"]), "passed on")
    hq.until(lambda status: sum(q["messages"] for q in status["queues"]) == 10, "there")


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_queue_that_is_full_at_hq_refuses_the_producer_over_any_number_of_nodes(
    make: Any, hops: int
) -> None:
    """With a quota at the leaf and a bound at HQ; all else, and all that stands between, has its defaults."""
    quota, room, window = 10, 20, 64
    delivery = {"destinations": [{"pattern": "queue:orders", "max_messages": room}]}
    above = make("hq", permits="open", delivery=delivery)
    for number in range(hops):
        last = number == hops - 1
        connector = {"nodetype": "leaf" if last else "branch", "uri": f"ws://127.0.0.1:{above.port}/link"}
        more = {"limits": {"queue_quota": quota}} if last else {"permits": "open"}
        above = make("york" if last else f"branch-{number}", tree_connectors=[connector], **more)
        above.until(lambda status: status["parent"] and status["parent"]["state"] == "running", "linked")
    link, entered, refused = above.session("writer"), 0, 0
    while refused < 100:
        if full(link, "orders"):
            refused += 1
        else:
            entered, refused = entered + 1, 0
        assert entered <= room + quota + hops * 2 * window
    assert above.messages("orders") == quota
