"""The cases of the message switch's own tests: the bytes of each request, the form of each answer,
calls between a client and a server, and a switch that starts after them.
"""

import json
import socket
import threading
import time
from functools import partial
from typing import Any

import pytest
from plain import PATIENCE, Link

SHUTDOWN = "shutdown"


def exchange(port: int, *requests: bytes) -> list[tuple[bytes, bytes]]:
    """Status line and body of each answer, over one connection, with a length in each head."""
    found = []
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line, line.makefile("rb") as answers:
        for request in requests:
            line.sendall(request)
            status = answers.readline().strip()
            heads = dict(iter(lambda: tuple(answers.readline().strip().lower().split(b": ", 1)), (b"",)))
            found.append((status, answers.read(int(heads[b"content-length"]))))
    return found


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nContent-Length: 0\r\n\r\n".encode()


def post(path: str, body: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_the_requests_as_its_clients_write_them_and_the_answers_as_they_read_them(here: Any) -> None:
    answers = exchange(
        here.port,
        get("/login/hello"),
        get("/create/service"),
        get("/create"),
        get("/subscribe/service"),
        post("/send/service/1/reply_to", "hello"),
        post("/send/service/1", "hello"),
        get("/transfer/-1/5"),
        get("/ack/3"),
        get("/transfer/1000000000000000000/0"),
    )
    assert {status for status, _ in answers} == {b"HTTP/1.1 200 OK"}
    bodies = [body for _, body in answers]
    assert bodies[1] == b"service"
    assert bodies[2]
    assert [bodies[number] for number in (0, 3, 4, 5, 7)] == [b""] * 5
    (first, request), (second, response) = json.loads(bodies[6])["messages"]
    assert first < second
    assert request == {"payload": "hello", "correlation_id": 1, "reply_to": "reply_to"}
    assert response == {"payload": "hello", "correlation_id": 1}


def serve(link: Link, name: str) -> None:
    """Answer each request with its payload, until one says to end."""
    link.read(name)
    last = -1
    while True:
        for number, message in link.transfer(last, 5):
            last = number
            link.send(message["reply_to"], message["payload"].encode(), message["correlation_id"])
            link.ack(number)
            if message["payload"] == SHUTDOWN:
                return


def call(link: Link, name: str, payload: str, number: int, mailbox: str) -> str:
    link.create(name)
    link.send(name, payload.encode(), number, mailbox)
    while True:
        for found, message in link.transfer(-1, 5):
            link.ack(found)
            if message["correlation_id"] == number:
                return str(message["payload"])


def when_it_is_there(node: Any, token: str) -> Link:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return Link(node.port).login(token)
        except ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("late", [False, True], ids=["the switch is there", "the switch starts last"])
def test_a_client_calls_a_server_again_and_again_and_ends_it(make: Any, late: bool) -> None:
    node = make()
    if late:
        node.stop()

    def server() -> None:
        with when_it_is_there(node, "server") as link:
            serve(link, "service")

    thread = threading.Thread(target=server)
    thread.start()
    if late:
        node.start()
    with when_it_is_there(node, "client") as link:
        mailbox = link.create()
        link.subscribe(mailbox)
        for number in range(50):
            assert call(link, "service", f"hello {number}", number, mailbox) == f"hello {number}"
        assert call(link, "service", SHUTDOWN, 50, mailbox) == SHUTDOWN
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert node.messages("service") == 0


def serve_at_once(node: Any, name: str, count: int, together: threading.Barrier) -> None:
    """Answer so many requests, each in a thread of its own: none before all of them are in work."""

    def answer(number: int, message: dict[str, Any]) -> None:
        together.wait(PATIENCE)
        with Link(node.port).login("server") as link:
            link.send(message["reply_to"], message["payload"].encode(), message["correlation_id"])
            link.ack(number)

    with when_it_is_there(node, "server") as link:
        link.read(name)
        last, threads = -1, []
        while len(threads) < count:
            for number, message in link.transfer(last, 5):
                last = number
                threads.append(threading.Thread(target=answer, args=(number, message)))
                threads[-1].start()
        for thread in threads:
            thread.join(PATIENCE)


@pytest.mark.parametrize("late", [False, True], ids=["the switch is there", "the switch starts last"])
@pytest.mark.parametrize("apart", [False, True], ids=["one client", "many clients"])
def test_a_server_works_on_many_requests_at_once_and_each_caller_has_its_answer(
    make: Any, late: bool, apart: bool
) -> None:
    count = 8
    node = make()
    if late:
        node.stop()
    together = threading.Barrier(count)
    server = threading.Thread(target=serve_at_once, args=(node, "service", count, together))
    server.start()
    if late:
        node.start()
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        with when_it_is_there(node, f"client {number}") as link:
            mailbox = link.create()
            link.subscribe(mailbox)
            answers[number] = call(link, "service", f"hello {number}", number, mailbox)

    def ask_all() -> None:
        with when_it_is_there(node, "client") as link:
            mailbox = link.create()
            link.subscribe(mailbox)
            link.create("service")
            for number in range(count):
                link.send("service", f"hello {number}".encode(), number, mailbox)
            while len(answers) < count:
                for found, message in link.transfer(-1, 5):
                    answers[message["correlation_id"]] = message["payload"]
                    link.ack(found)

    calls = [partial(ask, number) for number in range(count)] if apart else [ask_all]
    clients = [threading.Thread(target=each) for each in calls]
    for client in clients:
        client.start()
    for thread in (*clients, server):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert answers == {number: f"hello {number}" for number in range(count)}
    assert node.messages("service") == 0
