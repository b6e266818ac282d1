"""What the bridge has open at a broker at once: queues that it takes from, messages without an answer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pika
import pytest
from waiting import counting_turns

from bridges.site_brokers.rabbitmq import taking
from bridges.site_brokers.rabbitmq.bindings import TOPICS
from bridges.site_brokers.rabbitmq.exchanges import Exchanges
from bridges.site_brokers.rabbitmq.publishing import WINDOW, WINDOW_BYTES, Outgoing, Publisher
from bridges.site_brokers.rabbitmq.taking import Taker


class Channels:
    """A connection that opens channels, and a channel that says yes to everything and answers nothing."""

    is_open = True

    def __init__(self) -> None:
        self.opened = 0
        self.published: list[int] = []
        self.declared: list[str] = []
        self.ended = SimpleNamespace(add_done_callback=lambda call: None)
        self.on_cancelled: Callable[[str], None] | None = None

    async def channel(self, **options: Any) -> "Channels":
        self.opened += 1
        return self

    async def declare(self, name: str, *, durable: bool, arguments: Any) -> None:
        self.declared.append(name)

    async def prefetch(self, count: int) -> None:
        """Granted."""

    async def consume(self, name: str, came: Any, priority: int, **_: Any) -> str:
        return name

    async def count(self, name: str) -> tuple[int, bool]:
        return 1, False

    def publish(self, exchange: str, key: str, body: bytes, properties: Any, mandatory: bool) -> None:
        self.published.append(len(body))


async def test_of_very_many_queues_so_many_are_taken_from_and_the_others_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_QUEUES", 3)
    broker = Channels()
    taker = Taker(
        cast("Any", broker),
        cast("Any", broker),
        Exchanges("amq.topic"),
        tmp_path,
        *[cast("Any", lambda *given: True)] * 4,
    )
    assert await taker._enter(frozenset(f"q{number}" for number in range(20)))
    assert len(taker._taps) == broker.opened == 4  # one more, for the queue of topics
    assert list(taker.not_taken.reasons.values()) == ["more than 3 queues at once are not taken from"]


class Absent(Channels):
    """Has no queue that an application would have made. `on_count`: called when it is asked for one."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.on_count: Callable[[str], None] = lambda name: None

    async def count(self, name: str) -> tuple[int | None, bool]:
        self.steps.append(name)
        self.on_count(name)
        return None, False

    async def consume(self, name: str, came: Any, priority: int, **_: Any) -> str:
        self.steps.append(name)
        return name


async def test_a_reply_waits_for_no_queue_that_is_not_there(tmp_path: Path) -> None:
    """Nor is one looked for again and again, unless it is made, while we were asking for it as well."""
    broker, queues, reply = Absent(), frozenset({"a", "b", "c"}), "sapwood.reply.x@york"
    given = [cast("Any", lambda *given: True)] * 4
    taker = Taker(cast("Any", broker), cast("Any", broker), Exchanges("amq.topic"), tmp_path, *given)
    taker._queues = queues

    def asked(name: str) -> None:
        if name == "a":
            taker.want_replies(frozenset({reply}))
        if name == "b":
            taker.look(["b"])

    broker.on_count = asked
    assert await taker._enter(queues)
    assert broker.steps == ["a", reply, "b", "c"]
    assert await taker._enter(queues)
    assert broker.steps[4:] == ["b"]


async def test_the_queue_of_topics_has_its_place_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_QUEUES", 3)
    broker = Channels()
    given = [cast("Any", lambda *given: True)] * 4
    taker = Taker(cast("Any", broker), cast("Any", broker), Exchanges("amq.topic"), tmp_path, *given)
    assert await taker._enter(frozenset({*(f"a{number}" for number in range(20)), TOPICS}))
    assert list(taker._taps) == [TOPICS, "a0", "a1", "a10"]


async def test_very_many_are_put_in_order_some_at_a_time() -> None:
    names = frozenset(f"q{number:05}" for number in range(20_000))
    async with counting_turns() as turns:
        assert list(await taking._in_order(names | {TOPICS})) == [TOPICS, *sorted(names)]
        assert turns() >= 20


class Deleting(Channels):
    """Deletes each queue in the moment in which it grants a consumer of it, or its end."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0
        self.deletes = True

    async def consume(self, name: str, came: Any, priority: int, **_: Any) -> str:
        if self.deletes:
            self._delete(name)
        return name

    async def cancel(self, tag: str, **_: Any) -> None:
        self._delete(tag)

    def _delete(self, name: str) -> None:
        assert self.on_cancelled is not None
        self.on_cancelled(name)

    async def close(self) -> None:
        self.closed += 1


async def test_a_queue_that_is_deleted_as_it_is_begun_is_begun_anew_once_it_is_there(tmp_path: Path) -> None:
    broker = Deleting()
    given = [cast("Any", lambda *given: True)] * 4
    taker = Taker(cast("Any", broker), cast("Any", broker), Exchanges("amq.topic"), tmp_path, *given)
    assert await taker._enter(frozenset({"orders"}))
    assert (taker.taking, taker.ours("orders")) == ([], 0)
    broker.deletes = False
    await taker._enter(frozenset({"orders"}))
    assert taker.taking == ["orders"]


async def test_a_queue_that_is_deleted_as_it_is_left_is_forgotten(tmp_path: Path) -> None:
    broker = Deleting()
    given = [cast("Any", lambda *given: True)] * 4
    taker = Taker(cast("Any", broker), cast("Any", broker), Exchanges("amq.topic"), tmp_path, *given)
    broker.deletes = False
    await taker._enter(frozenset({"orders"}))
    await taker._leave(frozenset())
    assert (taker._taps, taker.ours("orders")) == ({}, 0)


class CountedTaps(dict[str, Any]):
    """Taps that know how many of them were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self.looked_at += 1
            yield name


async def test_what_is_wanted_costs_as_much_as_there_is_of_it(tmp_path: Path) -> None:
    broker = Channels()
    given = [cast("Any", lambda *given: True)] * 4
    taker = Taker(cast("Any", broker), cast("Any", broker), Exchanges("amq.topic"), tmp_path, *given)
    taker._taps = taps = CountedTaps()
    assert not await taker._enter(frozenset(f"q{number}" for number in range(500)))
    assert not await taker._enter(frozenset(f"q{number}" for number in range(1000)))
    assert len(taps) == 1000
    assert taps.looked_at <= 2000


async def test_queues_for_answers_are_made_where_they_are_not_there_yet_and_take_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looked for them before the request made them would find them seconds later."""
    monkeypatch.setattr(taking, "MOST_QUEUES", 3)
    broker = Channels()
    given = [cast("Any", lambda *given: True)] * 4
    taker = Taker(cast("Any", broker), cast("Any", broker), Exchanges("amq.topic"), tmp_path, *given)
    answers = {f"sapwood.reply.{number}@leeds" for number in range(5)}
    taker.want_replies(answers)
    assert not await taker._enter(frozenset({"q0", "q1"}))
    assert set(broker.declared) == answers
    assert taker.taking == ["q0", "q1"]


@pytest.mark.parametrize("size", [1, 100_000])
async def test_no_more_messages_or_bytes_than_the_window_wait_for_an_answer(size: int) -> None:
    broker = Channels()
    publisher = Publisher(cast("Any", broker), "york")
    publisher._channel = cast("Any", broker)
    for number in range(2 * WINDOW):
        publisher.give(
            Outgoing("", f"q{number}", bytes(size), pika.BasicProperties(), True, lambda why: None)
        )
    assert len(publisher) == 2 * WINDOW
    if size == 1:
        assert len(broker.published) == WINDOW
    else:
        assert WINDOW_BYTES - size < sum(broker.published) < WINDOW_BYTES + size
