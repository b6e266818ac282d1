"""Sessions and their connections, and the queues that end with them."""

import re
import time
from typing import Any

from plain import PATIENCE, ids, payloads

TRANSIENT = re.compile(r"[A-Za-z0-9._~-]{8,}@hq")


def test_subscribe_on_one_connection_transfer_on_another_acknowledge_on_a_third(here: Any) -> None:
    first, second, third = here.session("three"), here.session("three"), here.session("three")
    first.read("three")
    third.send("three", b"hello", 9)
    ((number, message),) = second.transfer(-1, PATIENCE)
    assert (message["payload"], message["correlation_id"]) == ("hello", 9)
    third.ack(number)
    assert first.transfer(-1, 0) == []
    assert second.ask(f"/ack/{number}").note.startswith("NOT_FOUND")


def test_a_transfer_that_waits_sees_a_subscription_made_on_another_connection(here: Any) -> None:
    waiting, other = here.session("joins"), here.session("joins")
    waiting.begin_transfer()
    other.create("joins")
    other.send("joins", b"x")
    other.subscribe("joins")
    assert payloads(waiting.mail()) == ["x"]


def test_the_session_lives_as_long_as_any_connection(here: Any) -> None:
    first, second = here.session("lives"), here.session("lives")
    name = first.create()
    first.subscribe(name)
    first.close()
    second.send(name, b"still here")
    ((number, _),) = second.transfer(-1, PATIENCE)
    second.ack(number)


def test_with_the_last_connection_transient_queues_go_with_all_their_messages(here: Any) -> None:
    owner, writer = here.session("owner"), here.session("writer")
    name = owner.create()
    owner.subscribe(name)
    for number in range(10):
        writer.send(name, b"%d" % number)
    found = owner.transfer(-1, PATIENCE)
    owner.ack(found[0][0])
    buried = here.status()["dead"]["messages"]
    owner.close()
    status = here.until(lambda status: all(name not in queue["name"] for queue in status["queues"]), "gone")
    assert status["dead"]["messages"] == buried
    assert writer.ask(f"/subscribe/{name}").status == 404
    back = here.session("owner")
    assert back.transfer(-1, 0) == []
    assert back.ask(f"/ack/{found[1][0]}").note.startswith("NOT_FOUND")


def test_a_transient_queue_goes_though_another_session_has_its_messages(here: Any) -> None:
    owner, guest = here.session("owner"), here.session("guest")
    name = owner.create()
    guest.subscribe(name)
    owner.send(name, b"for the guest")
    ((number, _),) = guest.transfer(-1, PATIENCE)
    guest.begin_transfer(number, 0.5)
    owner.close()
    assert guest.mail() == []
    here.until(lambda status: all(name not in queue["name"] for queue in status["queues"]), "gone")
    assert guest.ask(f"/ack/{number}").note.startswith("NOT_FOUND")
    assert guest.transfer(-1, 0) == []
    guest.close()
    assert here.session("third").ask(f"/subscribe/{name}").status == 404


def test_fresh_names_are_unique_need_no_escaping_and_carry_their_node(here: Any) -> None:
    link = here.session("fresh")
    names = [link.create() for _ in range(200)]
    assert len(set(names)) == 200
    assert all(TRANSIENT.fullmatch(name) for name in names)
    assert link.well("/create/") not in names
    assert link.create(names[0]) == names[0]
    link.subscribe(names[0])
    link.send(names[0], b"by its bare name")
    link.send(names[0].replace("@", "%40"), b"encoded")
    found = link.transfer(-1, PATIENCE)
    assert "by its bare name" in payloads(found)


def test_to_create_twice_is_no_error_and_loses_nothing(here: Any) -> None:
    one, other = here.session("one"), here.session("other")
    assert one.create("twice") == "twice"
    one.send("twice", b"kept")
    assert one.create("twice") == other.create("twice") == "twice"
    other.subscribe("twice")
    other.subscribe("twice")
    assert payloads(other.transfer(-1, PATIENCE)) == ["kept"]


def test_a_connection_belongs_to_one_session(here: Any) -> None:
    link = here.session("mine")
    assert link.login("mine") is link
    assert link.ask("/login/yours").status == 400
    assert link.create("q") == "q"


def test_a_session_of_one_name_in_two_connections_logs_in_twice_and_ends_once(here: Any) -> None:
    link = here.session("twice-in")
    link.login("twice-in")
    name = link.create()
    link.close()
    here.until(lambda status: all(name not in queue["name"] for queue in status["queues"]), "gone")


def test_an_idle_connection_stays(make: Any) -> None:
    """Not timed: that no clock ends it is shown by what the node was told about its own patience."""
    node = make()
    link = node.session("idle")
    link.read("idle")
    time.sleep(2.0)
    link.send("idle", b"x")
    assert payloads(link.transfer(-1, PATIENCE)) == ["x"]


def test_a_client_that_dies_while_its_transfer_waits_is_noticed(here: Any) -> None:
    before = here.status()["sessions"]
    link = here.session("dies")
    link.read("dies")
    link.begin_transfer(-1, 3000)
    here.until(lambda status: status["sessions"] == before + 1, "logged in")
    link.reset()
    here.until(lambda status: status["sessions"] == before, "gone")


def test_a_woken_transfer_whose_client_died_leaves_its_mail_to_the_sessions_others(here: Any) -> None:
    reader, dying, writer = here.session("pair"), here.session("pair"), here.session("writer")
    reader.read("pair")
    dying.begin_transfer(-1, 3000)
    dying.reset()
    writer.send("pair", b"x")
    assert payloads(reader.transfer(-1, PATIENCE)) == ["x"]


def test_half_a_request_is_nothing(here: Any) -> None:
    link, watcher = here.session("half"), here.session("watcher")
    watcher.read("half")
    link.send_raw(b"POST /send/half/1 HTTP/1.1\r\nContent-Length: 100\r\n\r\nonly this")
    link.close()
    assert watcher.transfer(-1, 0.2) == []


def test_ids_of_one_session_are_above_each_other_over_all_its_queues(here: Any) -> None:
    link = here.session("order")
    for name in ("order-a", "order-b", "order-c"):
        link.read(name)
    seen: list[int] = []
    for turn in range(12):
        link.send(f"order-{'abc'[turn % 3]}", b"%d" % turn)
        found = link.transfer(seen[-1] if seen else -1, PATIENCE)
        assert payloads(found) == [str(turn)]
        seen += ids(found)
    assert seen == sorted(set(seen))
