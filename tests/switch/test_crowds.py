"""Many clients at once, and clients that are killed at any point."""

import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plain import PATIENCE, payloads

WORKER = Path(__file__).with_name("worker.py")
SESSIONS = 500


def test_500_sessions_with_three_connections_each(node: Any) -> None:
    """All transfers wait at once; each is woken by its own message, and acknowledged elsewhere."""
    links = [[node.session(f"s{number}") for _ in range(3)] for number in range(SESSIONS)]
    mailboxes = []
    for number, (reading, _, _) in enumerate(links):
        mailboxes.append(reading.create() if number % 2 else reading.create(f"q{number}"))
        reading.subscribe(mailboxes[-1])
    assert node.status()["sessions"] == SESSIONS
    for _, waiting, _ in links:
        waiting.begin_transfer(-1, 300)
    order = list(range(SESSIONS))
    random.Random(1).shuffle(order)
    for number in order:
        sender = links[(number * 7 + 1) % SESSIONS][0]
        sender.send(mailboxes[number], b"for %d" % number, number, mailboxes[number - 1])
        ((transfer, message),) = links[number][1].mail()
        assert message == {
            "payload": f"for {number}",
            "correlation_id": number,
            "reply_to": mailboxes[number - 1],
        }
        links[number][2].ack(transfer)
    for _, waiting, _ in links:
        assert waiting.transfer(-1, 0) == []
    for three in links:
        for link in three:
            link.close()
    node.until(lambda status: status["sessions"] == 0, "empty")
    node.until(
        lambda status: all("transient" not in queue["name"] for queue in status["queues"]),
        "without their queues",
    )


def test_hundreds_of_readers_of_one_queue_and_each_message_wakes_one(node: Any) -> None:
    links = []
    for number in range(300):
        link = node.session(f"r{number}")
        link.read("one")
        link.begin_transfer(-1, 300)
        links.append(link)
    writer = node.session("writer")
    for number in range(300):
        writer.send("one", b"%d" % number)
    found = [message for link in links for message in link.mail()]
    assert sorted(map(int, payloads(found))) == list(range(300))
    assert len({number for number, _ in found}) == 300
    assert node.messages("one") == 300


def test_hundreds_of_transfers_of_one_session(node: Any) -> None:
    links = [node.session("one") for _ in range(300)]
    links[0].read("q")
    for link in links:
        link.begin_transfer(-1, 300)
    writer = node.session("writer")
    for number in range(300):
        writer.send("q", b"%d" % number)
    found = {number for link in links for number, _ in link.mail()}
    assert found
    assert len(links[0].transfer(-1, 0)) == 300


@contextmanager
def workers(node: Any, folder: Path) -> Iterator["Workers"]:
    made = Workers(node, folder)
    try:
        yield made
    finally:
        for name in list(made.running):
            made.kill(name)


class Workers:
    def __init__(self, node: Any, folder: Path) -> None:
        self.node = node
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.names: list[str] = []

    def start(self, what: str, name: str) -> None:
        command = [sys.executable, str(WORKER), what, str(self.node.port), name, str(self.folder / name)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stderr=log)
        self.names.append(name)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def diary(self, name: str) -> list[list[str]]:
        path = self.folder / name
        return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []

    def until_ready(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.diary(name):
            assert self.running[name].poll() is None, (self.folder / f"{name}.log").read_text()
            assert time.monotonic() < deadline, f"{name} does not begin"
            time.sleep(0.01)


def test_clients_killed_at_any_point_and_nothing_is_lost_or_given_to_two(node: Any, tmp_path: Path) -> None:
    dice = random.Random(7)
    with workers(node, tmp_path) as crowd:
        for number in range(4):
            crowd.start("consume", f"consumer-{number}")
        for number in range(3):
            crowd.start("produce", f"producer-{number}")
        for name in crowd.names.copy():
            crowd.until_ready(name)
        for turn in range(12):
            time.sleep(dice.uniform(0.0, 0.2))
            name = dice.choice(sorted(crowd.running))
            crowd.kill(name)
            what = name.partition("-")[0]
            crowd.start("consume" if what == "consumer" else "produce", f"{what}-{turn + 10}")
            crowd.until_ready(crowd.names[-1])
        for name in [name for name in crowd.running if name.startswith("producer")]:
            crowd.kill(name)
        node.until(lambda status: all(queue["messages"] == 0 for queue in status["queues"]), "drained")
        living = [name for name in crowd.running if name.startswith("consumer")]
        account(crowd, living)


def account(crowd: Workers, living: list[str]) -> None:
    """What was sent and what was given, message by message."""
    tried: set[str] = set()
    sent: set[str] = set()
    given: dict[str, list[tuple[str, str]]] = defaultdict(list)
    dealt: dict[str, set[str]] = defaultdict(set)
    for name in crowd.names:
        for word, *rest in crowd.diary(name):
            match word:
                case "try":
                    tried.add(rest[0])
                case "sent":
                    sent.add(rest[0])
                case "got":
                    given[rest[1]].append((name, rest[0]))
                case "done":
                    dealt[rest[0]].add(name)
    assert sent
    assert set(given) <= tried
    for payload in sent:
        assert payload in given, f"{payload} was lost"
    for payload, takers in given.items():
        numbers = {number for _, number in takers}
        assert len(numbers) == 1, f"{payload} has several ids: {takers}"
        (number,) = numbers
        assert len({name for name, _ in takers}) == len(takers), f"{payload} was given twice to one: {takers}"
        assert sum(name in living for name, _ in takers) <= 1, f"{payload} was given to two: {takers}"
        assert len(dealt[number]) <= 1, f"{payload} was dealt with by two: {dealt[number]}"


def test_a_node_killed_under_its_clients_keeps_every_message_that_it_confirmed(
    make: Any, tmp_path: Path
) -> None:
    node = make()
    node.session("maker").create("work")
    confirmed: set[str] = set()
    for turn in range(4):
        with workers(node, tmp_path) as crowd:
            for number in range(3):
                crowd.start("produce", f"producer-{turn}{number}")
            for name in crowd.names:
                crowd.until_ready(name)
            time.sleep(0.15)
            node.kill()
        for name in crowd.names:
            confirmed |= {words[1] for words in crowd.diary(name) if words[0] == "sent"}
        node.start()
    link = node.session("reader")
    link.subscribe("work")
    found: list[tuple[int, dict[str, Any]]] = []
    while more := link.transfer(found[-1][0] if found else -1, 0.3):
        found += more
        for number, _ in more:
            link.ack(number)
    assert confirmed
    assert confirmed <= set(payloads(found))
    assert len(set(payloads(found))) == len(found)


def test_connections_that_come_and_go_leave_nothing(node: Any) -> None:
    """Logged in or not, in the middle of a request or waiting, closed or reset."""
    dice = random.Random(3)
    starts = (
        b"",
        b"GET /lo",
        b"GET /login/x HTTP/1.1\r\n\r\n",
        b"POST /send/q/1 HTTP/1.1\r\nContent-Length: 9\r\n\r\nx",
    )
    for number in range(400):
        link = node.link()
        if dice.random() < 0.7:
            link.login(f"x{number % 40}")
            link.begin("/create") if dice.random() < 0.5 else link.begin_transfer(-1, 100)
        else:
            link.send_raw(dice.choice(starts))
        link.reset() if dice.random() < 0.5 else link.close()
    node.until(lambda status: status["sessions"] == 0 and status["queues"] == [], "empty")
    assert node.session("last").create("q") == "q"
