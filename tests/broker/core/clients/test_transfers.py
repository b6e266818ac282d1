"""What sessions fetch: who is handed what, when, and under which id."""

from typing import Any

import pytest

from broker.core.errors import NotFound
from broker.core.sessions import sessions
from broker.core.sessions.sessions import Connection
from sapwood.protocol.bundles import Message
from simulation.forest import Forest
from simulation.site import Site


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


class Fetching:
    """A connection of a session that fetches."""

    def __init__(self, forest: Forest, site: Site, token: str, *queues: str) -> None:
        self.forest = forest
        self.switch: Any = site.core.switch
        self.connection = Connection(lambda frame: None, "test", "http")
        self.woken = 0
        self.switch.login(self.connection, token)
        for queue in queues:
            self.switch.create(self.connection, queue)
            self.switch.subscribe(self.connection, queue)
        forest.settle()

    def fetch(self, ack_to: int = -1) -> list[tuple[int, bytes]]:
        found = self.switch.transfer(self.connection, ack_to)
        self.forest.settle()
        return [(each.number, each.message.payload) for each in found]

    def wait(self, ack_to: int = -1) -> Any:
        return self.switch.wait(self.connection, ack_to, self._wake)

    def collect(self, waiter: Any) -> list[bytes]:
        """The answer of a blocked transfer that was woken."""
        found = self.switch.transfer(self.connection, waiter.ack_to, waiter)
        self.forest.settle()
        return [each.message.payload for each in found]

    def _wake(self) -> None:
        self.woken += 1

    def ack(self, number: int, rejected: str = "") -> None:
        self.switch.acknowledge(self.connection, number, lambda error: None, rejected=rejected)
        self.forest.settle()

    def close(self) -> None:
        self.switch.close(self.connection)
        self.forest.settle()


def send(forest: Forest, *payloads: bytes, queue: str = "q") -> None:
    """Each message is a bundle of its own."""
    writer = Fetching(forest, forest.sites["hq"], "writer")
    for payload in payloads:
        writer.switch.send(writer.connection, queue, Message(payload), lambda error: None)
        forest.settle()
    writer.close()


def test_nothing_is_set_aside_for_who_does_not_ask(forest: Forest, hq: Site) -> None:
    idle, asking = Fetching(forest, hq, "idle", "q"), Fetching(forest, hq, "asking", "q")
    send(forest, b"1", b"2", b"3", b"4")
    assert [payload for _, payload in asking.fetch()] == [b"1", b"2", b"3", b"4"]
    assert idle.fetch() == []


def test_one_message_wakes_one_transfer_and_no_more(forest: Forest, hq: Site) -> None:
    readers = [Fetching(forest, hq, f"reader-{number}", "q") for number in range(5)]
    for reader in readers:
        reader.wait()
    send(forest, b"1")
    assert sum(reader.woken for reader in readers) == 1
    send(forest, b"2", b"3")
    assert sum(reader.woken for reader in readers) == 3
    assert max(reader.woken for reader in readers) == 1


def test_a_transfer_that_asks_for_other_ids_is_not_woken_in_vain(forest: Forest, hq: Site) -> None:
    far, near = Fetching(forest, hq, "one", "q"), Fetching(forest, hq, "one")
    far.wait(10**12)
    near.wait(-1)
    send(forest, b"1")
    assert (far.woken, near.woken) == (0, 1)
    assert far.fetch(10**12) == []
    assert [payload for _, payload in near.fetch()] == [b"1"]


@pytest.mark.parametrize("together", [True, False])
def test_two_blocked_transfers_of_a_session_are_both_woken_and_a_message_goes_to_one(
    forest: Forest, hq: Site, together: bool
) -> None:
    one, two = Fetching(forest, hq, "one", "q"), Fetching(forest, hq, "one")
    first, second = one.wait(), two.wait()
    if together:
        forest.producer("hq", "writer").send("queue:q", b"1", b"2")
        forest.settle()
    else:
        send(forest, b"1", b"2")
    assert (one.woken, two.woken) == (1, 1)
    assert (one.collect(first), two.collect(second)) == ([b"1"], [b"2"])


def test_what_a_blocked_transfer_was_woken_for_wakes_another_when_it_is_over(
    forest: Forest, hq: Site
) -> None:
    one, two = Fetching(forest, hq, "one", "q"), Fetching(forest, hq, "one")
    first, second = one.wait(), two.wait()
    send(forest, b"1")
    assert (one.woken, two.woken) == (1, 0)
    one.switch.cancel(first)
    assert two.woken == 1
    assert two.collect(second) == [b"1"]


def test_all_of_a_queue_is_told_though_nothing_is_acknowledged(forest: Forest, hq: Site) -> None:
    reader, producer = Fetching(forest, hq, "reader", "q"), forest.producer("hq", "writer")
    payloads = [b"%d" % number for number in range(3000)]
    for start in range(0, 3000, 100):
        producer.send("queue:q", *payloads[start : start + 100])
        forest.settle()
    found: list[tuple[int, bytes]] = []
    while more := reader.fetch(found[-1][0] if found else -1):
        found += more
    assert [payload for _, payload in found] == payloads


def test_a_session_with_too_much_unacknowledged_is_told_so_and_goes_on_when_it_acknowledges(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_UNACKED", 3)
    reader = Fetching(forest, hq, "reader", "q")
    send(forest, b"1", b"2", b"3", b"4")
    found = reader.fetch()
    assert len(found) == 3
    assert reader.switch.is_full(reader.connection)
    assert reader.fetch(found[-1][0]) == []
    reader.ack(found[0][0])
    assert not reader.switch.is_full(reader.connection)
    assert [payload for _, payload in reader.fetch(found[-1][0])] == [b"4"]


def test_the_rest_of_a_bundle_is_told_though_other_ids_were_given_in_between(
    forest: Forest, hq: Site
) -> None:
    """Its ids were reserved with its first part's: below what the session has seen by then."""
    reader = Fetching(forest, hq, "reader", "q", "other")
    producer = forest.producer("hq", "writer")
    producer.send("queue:q", *[b"%d" % number for number in range(200)])
    for _ in range(5):
        producer.send("queue:q", *[b"more"] * 250)
    forest.settle()
    first = reader.fetch()
    assert len(first) == 1000
    send(forest, b"last", queue="other")
    for number, _ in first[:500]:
        reader.ack(number)
    highest = max(number for number, _ in first)
    seen = {number for number, _ in first}
    while found := reader.fetch(highest):
        assert not seen & {number for number, _ in found}
        seen |= {number for number, _ in found}
        highest = max(highest, *(number for number, _ in found))
    assert len(seen) == 200 + 5 * 250 + 1


def test_an_id_stays_over_a_crash_and_is_told_whatever_ack_to_is(forest: Forest, hq: Site) -> None:
    reader = Fetching(forest, hq, "reader", "q")
    send(forest, b"1", b"2")
    found = reader.fetch()
    forest.settle(1.0)
    hq.crash()
    hq.boot()
    reader = Fetching(forest, hq, "reader", "q")
    assert reader.fetch(10**12) == found
    send(forest, b"3")
    ((number, _),) = reader.fetch(found[-1][0])
    assert number > found[-1][0]


def test_what_no_answer_told_does_not_count_as_delivered(forest: Forest, hq: Site) -> None:
    send(forest, b"1")
    for number in range(30):
        reader = Fetching(forest, hq, f"reader-{number}", "q")
        reader.wait()
        reader.close()
    assert hq.dead() == []
    assert [payload for _, payload in Fetching(forest, hq, "last", "q").fetch()] == [b"1"]


def test_a_credit_that_is_made_larger_wakes_who_waits(forest: Forest, hq: Site) -> None:
    reader = Fetching(forest, hq, "reader", "q")
    reader.switch.subscribe(reader.connection, "q", 1)
    send(forest, b"1", b"2")
    ((one, _),) = reader.fetch()
    waiter = reader.wait(one)
    reader.switch.subscribe(reader.connection, "q", 2)
    forest.settle()
    assert reader.woken == 1
    assert reader.collect(waiter) == [b"2"]


def test_a_session_that_is_back_acknowledges_what_it_had_and_nobody_elses(forest: Forest, hq: Site) -> None:
    reader = Fetching(forest, hq, "reader", "q")
    send(forest, b"1", b"2")
    (one, _), (two, _) = reader.fetch()
    reader.close()
    stranger = Fetching(forest, hq, "stranger", "other")
    with pytest.raises(NotFound):
        stranger.ack(one)
    back = Fetching(forest, hq, "reader", "q")
    back.ack(one)
    with pytest.raises(NotFound):
        back.ack(one)
    other = Fetching(forest, hq, "another", "q")
    assert other.fetch() == [(two, b"2")]
    with pytest.raises(NotFound):
        back.ack(two)
    assert hq.waiting() == 1


def test_a_session_rejects_what_it_has_had_and_nothing_else(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told that all was well, and the message was given to it again."""
    monkeypatch.setattr(sessions, "MOST_UNACKED", 2)
    reader = Fetching(forest, hq, "reader", "q", "other")
    send(forest, b"1", b"2")
    (one, _), (two, _) = reader.fetch()
    send(forest, b"3", queue="other")
    waiter = reader.wait(two)
    reader.ack(two, "odd")
    assert reader.woken == 1
    assert reader.collect(waiter) == [b"3"]
    with pytest.raises(NotFound):
        reader.ack(two, "odd")
    reader.close()
    back = Fetching(forest, hq, "reader", "q")
    back.ack(one, "odd")
    with pytest.raises(NotFound):
        back.ack(one, "odd")
    assert back.fetch() == []
    assert [(why, message.payload) for why, message in hq.dead()] == [
        ("REJECTED: odd", b"2"),
        ("REJECTED: odd", b"1"),
    ]


def test_a_transient_queue_takes_what_others_have_of_it(forest: Forest, hq: Site) -> None:
    owner, guest = Fetching(forest, hq, "owner"), Fetching(forest, hq, "guest")
    name = owner.switch.create(owner.connection, "")
    guest.switch.subscribe(guest.connection, name)
    send(forest, b"1", queue=name)
    ((number, _),) = guest.fetch()
    owner.close()
    assert hq.waiting() == 0
    assert guest.fetch() == []
    with pytest.raises(NotFound):
        guest.ack(number)
    assert hq.dead() == []


@pytest.mark.parametrize("fetched_before", [False, True])
def test_a_body_that_an_older_version_left_unreadable_is_a_dead_letter(
    forest: Forest, hq: Site, fetched_before: bool
) -> None:
    """It did not open what it kept. What is behind it comes, and the session goes on."""
    till = Fetching(forest, hq, "till", "sales")
    producer = forest.producer("hq")
    for payload in (b"1", b"2"):
        producer.send("queue:sales", payload)
        forest.settle()
    if fetched_before:
        assert [payload for _, payload in till.fetch()] == [b"1", b"2"]
    session = till.connection.session
    assert session is not None
    held = [given.entry for given in session.unacked.all()]
    first = next(iter([*held, *hq.core.custody.queues["queue:sales"].waiting])).stored
    first.body, first.messages = bytes(len(first.body or b"")), None
    assert [payload for _, payload in till.fetch()] == [b"2"]
    assert [payload for _, payload in till.fetch()] == [b"2"]
    assert [letter.note.partition(":")[0] for letter in hq.core.custody.dead.waiting] == ["UNREADABLE"]
    assert hq.core.custody.buried["UNREADABLE"] == 1
