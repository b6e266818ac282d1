"""What the journal says, with literal times, of a real core."""

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.core.messages.queue_names import Spool
from broker.core.rows import QueueRow
from broker.node import Node
from broker.operator_log import OperatorLog, Seldom
from config.model import AdvisoryLog, Listener, Site
from sapwood.protocol.bundles import Header
from sapwood.protocol.destinations import queue
from treeconnector.relations import Relation


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Book:
    """A journal, its core and what it wrote."""

    def __init__(self, node: Node, records: list[logging.LogRecord]) -> None:
        self.core = node.core
        self.clock = Clock()
        self.journal = OperatorLog(node.core, self.clock)
        self._records = records

    def said(self) -> list[str]:
        """What was written since the last call."""
        found = [record.getMessage() for record in self._records]
        self._records.clear()
        return found

    def fields(self) -> dict[str, Any]:
        """Of the latest line."""
        return self._records[-1].__dict__

    def bury(self, reason: str, number: int = 1) -> None:
        custody, destination = self.core.custody, queue("sales")
        header = Header(id=bytes([number]) * 16, destination=destination, flags=1, count=2, size=4)
        stored = custody.store(header, b"body", 0.0)
        custody.bury(custody.add(stored, custody.queue_for(destination), "york", 0.0), reason)


@pytest.fixture
async def book(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Book]:
    site = Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    node = Node(site)
    await node.start()
    caplog.set_level(logging.DEBUG, "sapwood")
    caplog.clear()
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep()
    logging.getLogger("sapwood").addHandler(handler)
    yield Book(node, records)
    logging.getLogger("sapwood").removeHandler(handler)
    await node.stop()


@pytest.fixture
def york(book: Book) -> Iterator[Any]:
    neighbour = book.core.neighbourhood.add("york", Relation.CHILD)
    yield neighbour
    book.core.neighbours.pop("york")


def test_a_link_comes_goes_and_comes_back(book: Book, york: Any) -> None:
    york.link = book.core.link_maker.accept()
    book.journal.link("up", "york")
    assert book.said() == ["+ link york (child) is up"]
    book.clock.now += 60
    york.link, york.error = None, "no answer"
    book.journal.link("down", "york")
    fields = book.fields()
    assert (fields["link"], fields["state"], fields["reason"], fields["lasted_s"]) == (
        "york",
        "down",
        "no answer",
        60,
    )
    assert book.said() == ["- link york (child) is down after 60 s: no answer"]
    book.clock.now += 7
    york.error = ""
    book.journal.link("up", "york")
    assert book.said() == ["+ link york (child) is up, was down for 7 s"]


def test_a_link_is_blocked_and_runs_again(book: Book, york: Any) -> None:
    book.journal.link("up", "york")
    york.blocked = "3 bundles wait"
    book.journal.link("blocked", "york")
    york.blocked = ""
    book.clock.now += 5
    book.journal.link("up", "york")
    assert book.said()[1:] == [
        "! link york (child) is blocked: 3 bundles wait",
        "= link york (child) is blocked no more after 5 s",
    ]


def test_a_lost_state_is_told_once(book: Book, york: Any) -> None:
    book.journal.link("up", "york")
    york.detail.gaps, york.detail.gap_messages = 1, 4
    book.journal.link("down", "york")
    book.journal.link("up", "york")
    book.journal.link("down", "york")
    book.journal.link("up", "york")
    (gap,) = (line for line in book.said() if "state was lost" in line)
    assert "at least 4 bundles" in gap


def test_the_next_loss_is_told_by_itself_and_another_machine_as_that(book: Book, york: Any) -> None:
    """It was told with all that was lost before, and a standby for a parent as a loss of state."""
    york.store_id, york.detail.gaps, york.detail.gap_messages = b"one", 1, 4
    book.journal.link("up", "york")
    york.detail.gaps, york.detail.gap_messages = 2, 5
    book.journal.link("up", "york")
    york.store_id, york.detail.gaps, york.detail.gap_messages = b"two", 3, 7
    book.journal.link("up", "york")
    assert [line for line in book.said() if "epoch" in line] == [
        "! link york: state was lost at one end, a new epoch begins; at least 4 bundles are missing",
        "! link york: state was lost at one end, a new epoch begins; at least 1 bundle is missing",
        "! link york: its store is another one than before, a new epoch begins; at least 2 bundles are"
        " missing",
    ]


def test_a_neighbour_without_room(book: Book, york: Any) -> None:
    york.link = book.core.link_maker.accept()
    york.peer_holds.add("queue:sales")
    book.journal.look()
    book.journal.look()
    york.peer_holds.clear()
    book.journal.look()
    assert book.said() == [
        "! link york: york takes nothing more for queue:sales",
        "= link york: has room again",
    ]


def test_dead_letters_are_counted_and_one_is_named(book: Book) -> None:
    book.bury("EXPIRED", 1)
    book.bury("ORIGIN: 'leeds' is not below york", 2)
    book.bury("EXPIRED", 3)
    book.journal.look()
    expired, origin = book._records
    assert expired.getMessage() == f"! 4 dead letters: EXPIRED; the latest: {'03' * 16} for queue:sales"
    assert (expired.__dict__["bundle"], expired.__dict__["link"]) == ("03" * 16, "york")
    assert origin.__dict__["reason"] == "ORIGIN"


def test_many_dead_letters_are_one_line_now_and_then(book: Book) -> None:
    for second in range(21):
        book.bury("EXPIRED", 1)
        book.journal.look()
        book.clock.now += 1
        if second == 0:
            assert len(book.said()) == 1
    assert [line.split(" dead")[0] for line in book.said()] == ["! 20", "! 20"]


def test_what_was_dead_before_the_start_is_old_news(book: Book) -> None:
    book.bury("EXPIRED")
    OperatorLog(book.core, book.clock).look()
    assert book.said() == []


def test_the_disk_is_full_and_has_room_again(book: Book) -> None:
    room, book.core.message_admission.disk_room = book.core.message_admission.disk_room, 0
    book.journal.look()
    book.journal.look()
    book.core.message_admission.disk_room = room
    book.journal.look()
    assert book.said() == [
        "! no messages are taken: the disk of node hq is nearly full: make space",
        "= messages are taken again",
    ]


def test_a_full_spool(book: Book) -> None:
    spools = book.core.custody.spools
    before, spools[Spool.UP] = spools[Spool.UP], 2**60
    book.journal.look()
    book.journal.look()
    spools[Spool.UP] = before
    book.journal.look()
    assert book.said() == [
        f"! the spool 'up' is full with {2**60} bytes: nothing more for it is taken",
        "= the spool 'up' has room again",
    ]


def test_queues_are_named_but_not_thousands(book: Book) -> None:
    book.journal.queues({"sales": QueueRow("sales", 0), "old": None})
    assert book.said() == ["+ queue sales is created", "- queue old is deleted"]
    book.journal.queues({f"q{number}": None for number in range(1000)})
    said = book.said()
    assert (len(said), said[-1]) == (21, "= and 980 queues more")


def test_refusals_and_declined_routes(book: Book) -> None:
    book.core.message_admission.refused["QUEUE_FULL"] += 3
    book.core.counters["declined"] += 2
    book.journal.look()
    book.journal.look()
    assert book.said() == [
        "! 3 messages of applications were not taken: QUEUE_FULL",
        "! 2 routes were declined: over a limit, or not the neighbour's",
    ]


def test_seldom_speaks_again_only_later_and_then_of_all() -> None:
    clock = Clock()
    seldom = Seldom(clock)
    assert seldom.due({"a": 1}) == {"a": 1}
    clock.now += 9.9
    assert seldom.due({"a": 5, "b": 2}) == {"b": 2}
    clock.now += 0.2
    assert seldom.due({"a": 6, "b": 2}) == {"a": 5}


async def test_names_that_have_gone_are_forgotten(book: Book) -> None:
    for number in range(50):
        name = f"store-{number}"
        made = book.core.neighbourhood.add(name, Relation.CHILD)
        made.refusals.add("PERMIT: no")
        book.journal.link("up", name)
        book.journal.look()
        book.core.neighbourhood.neighbour_gone(made, "left")
    book.journal.look()
    kept = book.journal._states, book.journal._gaps, book.journal._refusals_of_links._told
    assert [len(each) for each in kept] == [0, 0, 0]
