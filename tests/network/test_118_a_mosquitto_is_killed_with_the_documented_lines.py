"""A Mosquitto with the lines of docs/mosquitto.md, and no others, is killed while applications publish.

Mosquitto answers what it has read and then writes it down, one round of its loop for all: so it keeps all
but what it answered in its last round. An application that waits for each answer has one message there.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mosquitto_server import MosquittoServer
from mqtt_wire import PUBACK, Wire, Wire311

DOCUMENT = Path(__file__).parents[2] / "docs" / "mosquitto.md"
ROUNDS = 5
AT_LEAST = 40


def documented() -> tuple[str, ...]:
    """The lines that the document asks for."""
    text = DOCUMENT.read_text(encoding="utf-8")
    block = next(each for each in text.split("```")[1::2] if "autosave_on_changes" in each)
    return tuple(filter(None, block.splitlines()))


@pytest.fixture
def server(broker: Callable[..., MosquittoServer]) -> Iterator[MosquittoServer]:
    yield broker("york", "allow_anonymous true", *documented())
    while Wire.opened:
        Wire.opened.pop().close()


def until_killed(server: MosquittoServer, first: int, under_way: int) -> list[int]:
    """Publish with so many messages unanswered, and kill the broker meanwhile: what it confirmed."""
    confirmed: list[int] = []
    enough = threading.Event()

    def publish() -> None:
        with Wire311(server.port) as wire:
            wire.connect("till")
            for number in range(first, first + under_way):
                wire.publish("sales", b"%d" % number, 1, number % 65_535 + 1)
            following = first + under_way
            while (answer := wire.hear()) is not None:
                assert answer.kind == PUBACK
                confirmed.append(following - under_way)
                if len(confirmed) == AT_LEAST:
                    enough.set()
                try:
                    wire.publish("sales", b"%d" % following, 1, following % 65_535 + 1)
                except ConnectionError:
                    return
                following += 1

    thread = threading.Thread(target=publish)
    thread.start()
    assert enough.wait(60)
    server.kill()
    thread.join(60)
    assert not thread.is_alive()
    return confirmed


def kept(server: MosquittoServer, end: int) -> set[int]:
    """Read all that the broker has for the office, whose session it keeps. `end`: a number of its own."""
    with Wire311(server.port) as office, Wire311(server.port) as other:
        office.connect("office", clean=False)
        other.connect("other")
        other.publish("sales", b"%d" % end, 1, 1)
        found: set[int] = set()
        while end not in found:
            _, payload, _, _, _, number = office.given()
            office.answer(PUBACK, number)
            found.add(int(payload))
        return found


def lost_of(server: MosquittoServer, under_way: int) -> list[list[int]]:
    """How much of what was confirmed each of some kills lost: each counted from the last one, which is 0."""
    with Wire311(server.port) as office:
        office.connect("office", clean=False)
        office.subscribe(("sales", 1))
    found, first = [], 0
    for _ in range(ROUNDS):
        confirmed = until_killed(server, first, under_way)
        server.start()
        first = confirmed[-1] + under_way + 1
        there = kept(server, first)
        first += 1
        found.append([len(confirmed) - 1 - at for at, each in enumerate(confirmed) if each not in there])
    return found


def test_who_waits_for_each_answer_loses_the_last_one_at_most(server: MosquittoServer) -> None:
    assert [each for each in lost_of(server, 1) if each not in ([], [0])] == []


def test_of_many_messages_under_way_only_the_last_that_were_answered_are_lost(
    server: MosquittoServer,
) -> None:
    """All before them are kept, and in no round more than were under way at once."""
    for lost in lost_of(server, 200):
        assert lost == list(range(len(lost)))[::-1]
        assert len(lost) <= 200
