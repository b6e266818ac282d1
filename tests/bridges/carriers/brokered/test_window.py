"""How much is under way, and that nothing is lost: against a model in which envelopes take their time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.carriers.brokered.window import MAX_ENVELOPES, IncomingWindow, OutgoingWindow
from sapwood.protocol.errors import SequenceError

LIMIT, BATCH = 1000, 100


def put(outgoing: OutgoingWindow, *packets: bytes) -> None:
    outgoing.put(packets, sum(map(len, packets)))


def test_packets_gather_while_the_window_is_full() -> None:
    outgoing = OutgoingWindow(LIMIT, BATCH)
    for i in range(MAX_ENVELOPES):
        put(outgoing, b"%d" % i)
        assert outgoing.next_envelope() == (i + 1, [b"%d" % i])
    put(outgoing, b"a", b"b")
    put(outgoing, b"c")
    assert outgoing.next_envelope() is None
    assert not outgoing.idle
    outgoing.taken(1)
    assert outgoing.next_envelope() == (MAX_ENVELOPES + 1, [b"a", b"b", b"c"])
    assert outgoing.next_envelope() is None
    assert outgoing.idle


def test_an_envelope_of_many_small_packets_is_no_larger_than_one_of_a_large_packet() -> None:
    outgoing = OutgoingWindow(LIMIT, BATCH)
    put(outgoing, *[b"x"] * 40)
    sizes = []
    while (envelope := outgoing.next_envelope()) is not None:
        sizes.append(len(envelope[1]))
    assert sum(sizes) == 40
    assert max(sizes) * (1 + 5) <= BATCH + 5


def test_room_comes_back_only_when_the_other_node_has_taken_it() -> None:
    outgoing = OutgoingWindow(LIMIT, BATCH)
    put(outgoing, b"a" * 60, b"b" * 60)
    assert outgoing.room == LIMIT - 120
    outgoing.next_envelope()
    outgoing.next_envelope()
    assert outgoing.room == LIMIT - 120
    outgoing.taken(1)
    assert outgoing.room == LIMIT - 60
    outgoing.taken(1)
    outgoing.taken(2)
    assert outgoing.room == LIMIT


def test_nobody_takes_what_was_never_sent() -> None:
    outgoing = OutgoingWindow(LIMIT, BATCH)
    put(outgoing, b"a")
    outgoing.next_envelope()
    with pytest.raises(SequenceError, match="took number 2, and 1 is the latest sent"):
        outgoing.taken(2)


def test_a_gap_is_an_error_and_what_came_before_is_none() -> None:
    incoming = IncomingWindow(LIMIT, BATCH)
    assert incoming.follows(1)
    incoming.arrived(1, [b"a"])
    assert not incoming.follows(1)
    assert incoming.follows(2)
    with pytest.raises(SequenceError, match="a gap: 2 envelopes before number 4 never came"):
        incoming.follows(4)


def test_a_window_that_is_not_kept_is_an_error() -> None:
    with pytest.raises(SequenceError, match="a packet of more than the 100 bytes"):
        IncomingWindow(LIMIT, BATCH).arrived(1, [b"x" * (BATCH + 1)])
    flooded = IncomingWindow(LIMIT, BATCH)
    with pytest.raises(SequenceError, match="more than its window of 1000 bytes and 64 envelopes"):
        flood(flooded, b"x" * BATCH)
    assert flooded.number < 30
    flooded = IncomingWindow(LIMIT, BATCH)
    with pytest.raises(SequenceError, match="more than its window"):
        flood(flooded, b"")
    assert flooded.number < 3 * MAX_ENVELOPES


def flood(incoming: IncomingWindow, packet: bytes) -> None:
    for number in range(1, 1000):
        incoming.arrived(number, [packet])


@given(st.lists(st.one_of(st.integers(0, BATCH), st.sampled_from(["send", "take", "tell"])), max_size=400))
def test_whatever_happens_when_all_arrives_once_and_nobody_waits_for_ever(steps: list[int | str]) -> None:
    outgoing, incoming = OutgoingWindow(LIMIT, BATCH), IncomingWindow(LIMIT, BATCH)
    sent: list[bytes] = []
    got: list[bytes] = []
    under_way: list[tuple[int, list[bytes]]] = []
    told: list[int] = []

    def send() -> None:
        while (envelope := outgoing.next_envelope()) is not None:
            under_way.append(envelope)

    def take() -> None:
        for number, packets in under_way:
            assert incoming.follows(number)
            incoming.arrived(number, packets)
        under_way.clear()
        got.extend(incoming.take())
        told.append(incoming.to_tell())

    def tell() -> None:
        for number in told:
            outgoing.taken(number)
        told.clear()

    for step in steps:
        if isinstance(step, int) and outgoing.room > 0:
            packet = b"%d." % len(sent) + b"x" * step
            sent.append(packet[:BATCH])
            put(outgoing, packet[:BATCH])
        elif not isinstance(step, int):
            {"send": send, "take": take, "tell": tell}[step]()
        assert len(under_way) <= MAX_ENVELOPES
    for _ in range(len(sent) + 1):
        send()
        take()
        tell()
    assert got == sent
    assert outgoing.idle
    assert outgoing.room > 0
