"""What clients of one node do to it, and it for them: odd numbers, readers that go, bodies that lie."""

import pytest

from broker.core.errors import BadRequest
from broker.core.rows import CopyRow, MetaRow
from broker.core.settings import Overflow, QueuePolicy
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import Destination, Kind, queue
from sapwood.protocol.errors import FrameError
from sapwood.protocol.session_frames import Send, Subscribe
from simulation.clients import SimulatedConsumer
from simulation.forest import QUICK, Forest
from simulation.site import Site


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


def pair(forest: Forest) -> Site:
    """HQ, with york linked to it."""
    hq = forest.add("hq")
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle()
    return hq


def body(count: int) -> bytes:
    return bundles.encode_message(Message(b"x")) * count


# --- sends


@pytest.mark.parametrize(
    ("first", "count"),
    [(1, -1), (1, 0), (1, 257), (0, 1), (-7, 3), (1 << 63, 1), ((1 << 64) - 1, 1), (1, 1 << 40)],
)
def test_a_number_that_no_disk_and_no_later_hop_takes_ends_the_session(
    forest: Forest, hq: Site, first: int, count: int
) -> None:
    producer = forest.producer("hq")
    with pytest.raises(FrameError, match="expected 1 to"):
        producer.say(Send(first, queue("sales"), count, body(min(max(count, 0), 300))))
    forest.settle()
    assert hq.waiting() == 0
    producer.send("queue:sales", b"good")
    forest.settle()
    assert producer.confirmed == [(queue("sales"), b"good")]
    hq.crash()
    hq.boot()
    assert hq.waiting() == 1


@pytest.mark.parametrize("unreadable", [b"", b"\xc1", body(2), b"\x92\xc4\x01x\x81\xa9timestamp\xa3now"])
def test_a_body_that_cannot_be_read_is_refused_alone(forest: Forest, hq: Site, unreadable: bytes) -> None:
    """It ended the session, and the client came back with the same again and again."""
    producer = forest.producer("hq")
    producer.number = 1
    producer.say(Send(1, queue("sales"), 1, unreadable))
    producer.send("queue:sales", b"good")
    forest.settle()
    (reject,) = producer.rejected
    assert (reject.first, reject.last, reject.code) == (1, 1, "BAD_REQUEST")
    assert "not 1 messages" in reject.text
    assert producer.confirmed == [(queue("sales"), b"good")]
    assert hq.waiting() == 1


@pytest.mark.parametrize(
    "destination",
    [Destination(Kind.TOPIC, "a/#"), Destination(Kind.QUEUE, "a@b"), Destination(Kind.QUEUE, "a", "../b")],
)
def test_a_destination_that_is_none_is_rejected_and_not_confirmed(
    forest: Forest, hq: Site, destination: Destination
) -> None:
    producer = forest.producer("hq")
    producer.say(Send(1, destination, 2, body(2)))
    assert [(reject.first, reject.last, reject.code) for reject in producer.rejected] == [
        (1, 2, "BAD_REQUEST")
    ]
    forest.settle()
    assert (hq.waiting(), producer.confirmed, producer.failures) == (0, [], [])


# --- readers that go


@pytest.mark.parametrize(
    ("limit", "topic", "why"),
    [
        ({"max_levels": 3}, "a/b/c/d", "4 levels: expected 3 at most"),
        ({"max_filter_length": 10}, "a/much/too/long", "15 characters: expected 1 to 10"),
    ],
)
def test_a_node_s_limits_for_topics_bind_its_own_clients(
    forest: Forest, limit: dict[str, int], topic: str, why: str
) -> None:
    forest.add("small", **limit)
    producer = forest.producer("small")
    producer.say(Subscribe(1, 7, Destination(Kind.TOPIC, topic), 1, ""))
    (failed,) = producer.failures
    assert (failed.code, why in failed.text) == ("BAD_REQUEST", True)
    producer.send(f"topic:{topic}", b"one")
    producer.send("topic:a/b/c", b"two")
    forest.settle(1.0)
    (reject,) = producer.rejected
    assert (reject.code, why in reject.text) == ("BAD_REQUEST", True)
    assert [payload for _, payload in producer.confirmed] == [b"two"]
    assert producer.connection is not None
    with pytest.raises(BadRequest, match="expected"):
        forest["small"].core.switch.send(
            producer.connection, f"topic:{topic}", Message(b"three"), lambda error: None
        )


def test_readers_of_one_connection_go_together(forest: Forest, hq: Site) -> None:
    """None is given what another one leaves: however many they are, it was given once."""
    producer = forest.producer("hq")
    producer.send("queue:sales", *[b"%d" % number for number in range(20)])
    forest.settle()
    reader = forest.consumer("hq", "queue:sales", auto=False, credit=1)
    for number in range(100, 120):
        reader.say(Subscribe(number, number, queue("sales"), 1))
    forest.settle()
    assert len(reader.receipts) == 20
    reader.disconnect()
    again = forest.consumer("hq", "queue:sales", "again")
    forest.settle()
    assert len(again.payloads) == 20
    assert hq.dead() == []


def test_a_reader_that_makes_progress_is_never_at_fault(forest: Forest, hq: Site) -> None:
    producer = forest.producer("hq")
    producer.send("queue:sales", *[b"%d" % number for number in range(30)])
    forest.settle()
    found: list[bytes] = []
    for _ in range(30):
        reader = forest.consumer("hq", "queue:sales", auto=False)
        forest.settle()
        found.append(reader.receipts[0].payload)
        reader.acknowledge(1)
        reader.disconnect()
        forest.settle()
    assert found == [b"%d" % number for number in range(30)]
    assert hq.dead() == []


def test_only_the_message_that_comes_back_again_and_again_is_buried(forest: Forest, hq: Site) -> None:
    producer = forest.producer("hq")
    producer.send("queue:sales", b"poison", *[b"%d" % number for number in range(5)])
    forest.settle()
    for _ in range(QUICK.max_deliveries):
        reader = forest.consumer("hq", "queue:sales", auto=False)
        forest.settle()
        reader.disconnect()
        forest.settle()
    assert [(note, message.payload) for note, message in hq.dead()] == [("TOO_MANY_DELIVERIES", b"poison")]
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"%d" % number for number in range(5)]
    assert hq.waiting() == 0


def test_a_durable_name_with_another_pattern_leaves_no_route_of_the_first(forest: Forest, hq: Site) -> None:
    forest.consumer("hq", "topic:a/b", "till", durable="prices").disconnect()
    forest.consumer("hq", "topic:c/d", "till", durable="prices")
    names = {key.name for key in hq.core.table.routes_of("local") if key.kind == Kind.TOPIC}
    assert names == {"c/d"}
    other = forest.producer("hq", "till")
    other.say(Subscribe(5, 8, Destination(Kind.TOPIC, "e/f"), 10, "prices"))
    assert [failure.code for failure in other.failures] == ["BAD_REQUEST"]


def test_two_sessions_never_share_a_subscription(forest: Forest, hq: Site) -> None:
    shop = forest.consumer("hq", "topic:a", "shop/till", durable="one")
    other = forest.consumer("hq", "topic:a", "shop", durable="till/one")
    forest.producer("hq").send("topic:a", b"to both")
    forest.settle()
    assert (shop.payloads, other.payloads) == ([b"to both"], [b"to both"])


def test_a_token_with_a_line_end_is_refused(forest: Forest, hq: Site) -> None:
    client = forest.producer("hq")
    client.disconnect()
    client.name = "a\nb"
    client.connect()
    assert [failure.code for failure in client.failures] == ["BAD_REQUEST"]


# --- what is not persistent


def test_what_is_not_persistent_never_gets_a_number(forest: Forest) -> None:
    """Its reader goes while it waits. A number without a row on disk would stop the link after a start."""
    pair(forest)
    up = forest.consumer("hq", "queue:sales", auto=False)
    forest.settle()
    here = forest.consumer("york", "queue:sales", "here", auto=False, credit=1)
    producer = forest.producer("york")
    producer.send("queue:sales", b"given", persistent=False)
    producer.send("queue:sales", b"waits", persistent=False)
    forest.settle()
    here.disconnect()
    forest.settle()
    york = forest["york"]
    assert york.core.neighbours["hq"].assigned == 0
    assert sorted(up.payloads) == [b"given", b"waits"]
    assert not york.disk.rows(CopyRow)


def test_nobody_reads_what_is_not_persistent(forest: Forest, hq: Site) -> None:
    forest.consumer("hq", "topic:a", "till", durable="one").disconnect()
    forest.producer("hq").send("topic:a", b"gone", persistent=False)
    forest.settle()
    assert hq.waiting() == 0
    assert hq.core.counters["volatile_dropped"] == 1


# --- bodies that lie


def poison(**changes: object) -> Header:
    fields: dict[str, object] = {
        "id": b"i" * 16,
        "destination": queue("sales"),
        "flags": Flag.PERSISTENT,
        "count": 3,
        "size": 4,
        "origin": "york",
    }
    return Header(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{}, {"flags": Flag.PERSISTENT | Flag.COMPRESSED}, {"expires_first": 1}])
def test_a_body_that_is_none_is_buried_and_holds_up_nobody(
    forest: Forest, changes: dict[str, object]
) -> None:
    hq = pair(forest)
    reader = forest.consumer("hq", "queue:sales", credit=2)
    neighbour = hq.core.neighbours["york"]
    hq.core.arrivals.from_neighbour(neighbour, poison(**changes), b"\xff\xff\xff\xff")
    producer = forest.producer("york")
    producer.send("queue:sales", b"behind it")
    forest.settle(1.0)
    assert reader.payloads == [b"behind it"]
    assert [letter.note.partition(":")[0] for letter in hq.core.custody.dead.waiting] == ["UNREADABLE"]


def test_a_retained_body_that_is_none_is_not_kept(forest: Forest) -> None:
    hq = pair(forest)
    header = poison(destination=Destination(Kind.TOPIC, "a"), flags=Flag.PERSISTENT | Flag.RETAINED)
    hq.core.arrivals.from_neighbour(hq.core.neighbours["york"], header, b"\xff\xff\xff\xff")
    assert len(hq.core.topics.retained) == 0


# --- limits


@pytest.mark.parametrize(
    ("overflow", "left"), [(Overflow.DROP_OLDEST, [b"3", b"4"]), (Overflow.DROP_NEW, [b"0", b"1"])]
)
def test_a_full_place_drops_what_its_policy_says_where_messages_enter(
    forest: Forest, overflow: Overflow, left: list[bytes]
) -> None:
    hq = forest.add("hq", policies=(QueuePolicy(pattern="sales", max_messages=2, overflow=overflow),))
    producer = forest.producer("hq")
    for number in range(5):
        producer.send("queue:sales", b"%d" % number)
        forest.settle()
    reader: SimulatedConsumer = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == left
    assert len(hq.dead()) == 3


def test_queues_that_nobody_uses_any_more_leave_nothing_behind(forest: Forest, hq: Site) -> None:
    custody = hq.core.custody
    before = len(custody.queues), len(custody.consumers), len(custody.directed)
    for number in range(10):
        forest.producer("hq", f"p{number}").send(f"queue:q{number}@hq", b"")
        forest.consumer("hq", f"queue:q{number}@hq", f"c{number}")
        forest.settle()
    reading = forest.clients[-1]
    assert len(custody.consumers) == 10
    for client in forest.clients[:-1]:
        client.disconnect()
    for number in range(9):
        assert not len(hq.core.removal.delete_queue(f"q{number}"))
    forest.settle(2.0)
    assert list(custody.consumers) == ["q9"]
    forest.producer("hq", "later").send("queue:q9", b"still read")
    forest.settle()
    assert reading.payloads == [b"", b"still read"]
    reading.disconnect()
    hq.core.removal.delete_queue("q9")
    forest.settle(2.0)
    assert (len(custody.queues), len(custody.consumers), len(custody.directed)) == before


def test_what_rests_wakes_together(forest: Forest) -> None:
    """A store begins to read what it had sent up: thousands of bundles, and not a timer for each."""
    hq = pair(forest)
    producer = forest.producer("york")
    for number in range(50):
        producer.send("queue:own", b"%d" % number)
        forest.settle()
    assert hq.waiting() == 50
    timers = repr(hq.core.clock)
    reader = forest.consumer("york", "queue:own")
    while not hq.core.custody.queues["queue:own"].resting:
        assert forest.step()
    more = int(repr(hq.core.clock).split("timers=")[1][:-1]) - int(timers.split("timers=")[1][:-1])
    assert more < 5
    forest.settle(5.0)
    assert sorted(reader.payloads, key=int) == [b"%d" % number for number in range(50)]


def test_transfer_ids_are_reserved_before_the_first_is_given(forest: Forest, hq: Site) -> None:
    forest.settle()
    reserved = next(int(row.value) for row in hq.disk.rows(MetaRow) if row.name == "transfer")
    assert reserved > hq.core.dispatcher.transfer_ids.next


# --- retained messages


def region(forest: Forest) -> None:
    forest.add("hq")
    forest.add("north", "hq", "branch")
    forest.add("york", "north")
    forest.add("durham", "north")
    for _ in range(3):
        forest.dial_all()
        forest.settle()


def test_a_retained_message_goes_where_it_would_have_gone_when_it_was_new(forest: Forest) -> None:
    """Up from york, and so not down into its sibling, nor back to york."""
    region(forest)
    forest.consumer("hq", "topic:t")
    forest.settle()
    forest.producer("york").send("topic:t", b"kept", retained=True)
    forest.settle()
    assert "t" in forest["north"].core.topics.retained
    sibling, own = forest.consumer("durham", "topic:t"), forest.consumer("york", "topic:t")
    forest.settle()
    assert (sibling.payloads, own.payloads) == ([], [b"kept"])


def test_a_retained_message_of_hq_goes_to_whoever_asks(forest: Forest) -> None:
    region(forest)
    forest.consumer("york", "topic:t")
    forest.settle()
    forest.producer("hq").send("topic:t", b"kept", retained=True)
    forest.settle()
    late = forest.consumer("durham", "topic:t")
    forest.settle()
    assert late.payloads == [b"kept"]


def test_a_retained_message_of_scope_tree_goes_to_siblings(forest: Forest) -> None:
    region(forest)
    forest.producer("york").send("topic:t", b"kept", retained=True, scope=1)
    forest.settle()
    sibling, own = forest.consumer("durham", "topic:t"), forest.consumer("york", "topic:t")
    forest.settle()
    assert (sibling.payloads, own.payloads) == ([b"kept"], [b"kept"])
