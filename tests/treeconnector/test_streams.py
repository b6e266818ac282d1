"""Streams on a link: order, credit, ends, and what a peer may not do."""

import tracemalloc

import pytest

from sapwood.protocol import packets
from sapwood.protocol.errors import LocalError
from treeconnector import frames
from treeconnector.link import LinkSettings
from treeconnector.link_events import (
    StreamAccepted,
    StreamArrived,
    StreamAsked,
    StreamBroken,
    StreamFinished,
    Throttled,
)
from treeconnector.stream_pool import StreamPool
from treeconnector.streams import FREE, LEAST_CREDIT, LINK_BYTES, MOST_FRAMES, PIECE, WIDE, WINDOW

CHANNEL = b"c" * 16


@pytest.fixture
def pair(links):
    return links.pair().up()


def open_stream(pair) -> int:
    """One from the parent to its child, which takes it."""
    number = pair.parent.say.open_stream("store-1", "till-web", "hq", CHANNEL, 1)
    pair.pump()
    pair.child.say.accept_stream(number)
    pair.pump()
    return number


def carry(pair, *, passing: bool = True) -> None:
    """Until neither end has anything to say, streams included. `passing`: the child passes on what comes."""
    moved = True
    while moved:
        pair.pump()
        moved = False
        for source, target in ((pair.parent, "child"), (pair.child, "parent")):
            for packet in source.streams_to_send():
                moved = True
                for event in pair.deliver(target, packet):
                    if passing and isinstance(event, StreamArrived):
                        getattr(pair, target).say.stream_passed(event.stream, len(event.data))


def came(pair, who: str) -> bytes:
    return b"".join(event.data for event in pair.said(who, StreamArrived))


def test_a_stream_is_asked_for_and_accepted(pair):
    number = open_stream(pair)
    assert pair.said("child", StreamAsked) == [StreamAsked(number, "store-1", "till-web", "hq", CHANNEL, 1)]
    assert pair.said("parent", StreamAccepted) == [StreamAccepted(number)]


def test_each_end_has_numbers_of_its_own(pair):
    ours = [pair.parent.say.open_stream("store-1", "a", "hq", CHANNEL, 1) for _ in range(3)]
    theirs = [pair.child.say.open_stream("hq", "a", "store-1", CHANNEL, 1) for _ in range(3)]
    assert (ours, theirs) == ([2, 4, 6], [1, 3, 5])


def test_bytes_arrive_in_order_both_ways_and_each_direction_ends_by_itself(pair):
    number = open_stream(pair)
    data = bytes(range(256)) * 12_000
    for start in range(0, len(data), 50_000):
        pair.parent.say.send_stream(number, data[start : start + 50_000])
    pair.parent.say.finish_stream(number)
    carry(pair)
    assert came(pair, "child") == data
    assert pair.said("child", StreamFinished) == [StreamFinished(number)]
    pair.child.say.send_stream(number, b"answer")
    carry(pair)
    assert came(pair, "parent") == b"answer"
    assert pair.parent.streams.open
    pair.child.say.finish_stream(number)
    carry(pair)
    assert not pair.parent.streams.open
    assert not pair.child.streams.open


def test_what_is_not_passed_on_is_bounded_and_stops_the_sender_alone(pair):
    slow, quick = open_stream(pair), open_stream(pair)
    pair.parent.say.send_stream(slow, bytes(3 * WINDOW))
    carry(pair, passing=False)
    assert len(came(pair, "child")) == WINDOW
    pair.events["child"].clear()
    pair.parent.say.send_stream(quick, bytes(100))
    carry(pair, passing=False)
    assert [event.stream for event in pair.said("child", StreamArrived)] == [quick]


def test_all_streams_together_get_a_piece_each_and_no_more_than_the_link_lends(pair):
    numbers = [open_stream(pair) for _ in range(60)]
    for number in numbers:
        pair.parent.say.send_stream(number, bytes(2 * WINDOW))
    carry(pair, passing=False)
    assert LINK_BYTES < len(came(pair, "child")) <= LINK_BYTES + PIECE * len(numbers)
    late = open_stream(pair)
    pair.events["child"].clear()
    pair.parent.say.send_stream(late, bytes(2 * PIECE))
    carry(pair, passing=False)
    assert len(came(pair, "child")) == PIECE


def test_a_packet_holds_a_piece_and_streams_take_turns(pair):
    numbers = [open_stream(pair) for _ in range(3)]
    for number in numbers:
        pair.parent.say.send_stream(number, bytes(4 * PIECE))
    order = []
    for _ in range(6):
        (packet,) = pair.parent.streams_to_send()
        assert len(packet) < PIECE + 64
        order += [event.stream for event in pair.deliver("child", packet)]
    assert order == numbers * 2


def test_bytes_that_the_next_packet_holds_whole_are_not_cut_to_fill_this_one(pair):
    number = open_stream(pair)
    for size in (30_000, 20_000, 60_000):
        pair.parent.say.send_stream(number, bytes(size))
    pair.pump()
    arrived = []
    while packet := pair.parent.streams_to_send(40_000):
        events = pair.deliver("child", packet[0])
        arrived.append([len(event.data) for event in events if isinstance(event, StreamArrived)])
    assert arrived == [[30_000], [20_000, 20_000], [40_000]]


def test_bundles_and_control_frames_are_said_first(pair):
    number = open_stream(pair)
    pair.parent.say.send_stream(number, b"later")
    pair.parent.say.hold("queue:a")
    before = len(pair.line["parent"])
    pair.step("parent")
    assert len(pair.line["parent"]) == before + 1
    assert not came(pair, "child")
    carry(pair)
    assert came(pair, "child") == b"later"


def test_credit_that_is_not_given_yet_is_no_output(pair):
    number = open_stream(pair)
    pair.parent.say.send_stream(number, bytes(WINDOW))
    carry(pair, passing=False)
    told = []
    pair.child.when_there_is_output(lambda: told.append(number))
    pair.child.say.stream_passed(number, 1)
    assert not told
    pair.child.say.stream_passed(number, PIECE)
    assert told


def test_a_reset_ends_both_directions_at_once(pair):
    number = open_stream(pair)
    pair.parent.say.send_stream(number, bytes(5 * PIECE))
    pair.child.say.reset_stream(number, "reset", "enough\x00")
    pair.child.say.reset_stream(number, "reset", "twice")
    carry(pair)
    assert pair.said("parent", StreamBroken) == [StreamBroken(number, "reset", "enough ")]
    assert not pair.parent.streams.open
    pair.parent.say.send_stream(number, b"nobody")
    pair.parent.say.finish_stream(number)
    pair.parent.say.stream_passed(number, 5)
    assert pair.parent.streams_to_send() == []


def test_what_was_under_way_when_a_stream_was_reset_is_ignored(pair):
    number = open_stream(pair)
    pair.child.say.reset_stream(number, "reset", "enough")
    late = (
        frames.StreamData(number, b"late"),
        frames.StreamCredit(number, 5),
        frames.StreamEnd(number),
        frames.StreamReset(number, "", ""),
    )
    assert pair.send("child", *late) == []


def test_streams_end_with_their_link(pair):
    number = open_stream(pair)
    pair.parent.say.send_stream(number, bytes(WINDOW))
    pair.parent.transport_closed()
    assert pair.parent.streams_to_send() == []
    assert not pair.parent.streams.open
    assert not pair.parent.streams.has_room


def test_none_is_opened_towards_a_peer_that_knows_none(links):
    pair = links.pair(parent=links.link("hq", "root", dials=False, settings=LinkSettings(streams=0))).up()
    assert not pair.child.streams.has_room
    with pytest.raises(LocalError, match="takes no more streams"):
        pair.child.say.open_stream("hq", "a", "store-1", CHANNEL, 1)
    assert pair.parent.streams.has_room


def ask(
    number: int, to: str = "hq", name: str = "a", channel: bytes = CHANNEL, hops: int = 1
) -> frames.Frame:
    return frames.StreamOpen(number, to, name, "store-1", channel, hops)


WRONG = {
    "an even number from the dialler": ([ask(2)], "a number of its own above 0"),
    "a number again": ([ask(3), ask(3)], "a number of its own above 3"),
    "a lower number": ([ask(3), ask(1)], "a number of its own above 3"),
    "a negative number": ([ask(-1)], "a number of its own"),
    "no node": ([ask(1, to="no node")], "a stream that cannot be"),
    "no name": ([ask(1, name="")], "a stream that cannot be"),
    "a channel that is none": ([ask(1, channel=b"short")], "a stream of channel"),
    "too many hops": ([ask(1, hops=65)], "after 65 hops"),
    "more than the credit": ([ask(1), frames.StreamData(1, bytes(PIECE + 1))], "expected 16384 at most"),
    "nothing": ([ask(1), frames.StreamData(1, b"")], "no bytes on stream 1"),
    "bytes behind the end": ([ask(1), frames.StreamEnd(1), frames.StreamData(1, b"a")], "expected 0 at most"),
    "two ends": ([ask(1), frames.StreamEnd(1), frames.StreamEnd(1)], "ends twice"),
    "bytes for one that never was": ([frames.StreamData(7, b"a")], "stream 7, which never was"),
    "bytes for one that we never opened": ([frames.StreamData(8, b"a")], "stream 8, which never was"),
    "credit for one that never was": ([frames.StreamCredit(7, 5)], "stream 7, which never was"),
    "a reset of one that never was": ([frames.StreamReset(7, "", "")], "stream 7, which never was"),
    "its own opened by itself": ([ask(1), frames.StreamOpened(1)], "by the other end, once"),
    "no credit": ([ask(1), frames.StreamCredit(1, 0)], "credit of 0 bytes"),
    "credit without end": ([ask(1), *[frames.StreamCredit(1, 64 * WINDOW)] * 2], "credit of"),
}


@pytest.mark.parametrize("case", WRONG)
def test_who_breaks_the_rules_loses_the_link(pair, case):
    said, text = WRONG[case]
    pair.send("parent", *said)
    assert text in pair.ended("parent").text


def test_a_peer_that_opens_more_than_it_may_loses_the_link(links):
    settings = LinkSettings(streams=3)
    pair = links.pair(parent=links.link("hq", "root", dials=False, settings=settings)).up()
    pair.send("parent", ask(1), ask(3), ask(5))
    assert pair.parent.is_up
    pair.send("parent", ask(7))
    assert "stream 7 beside 3 others: 3 at most" in pair.ended("parent").text


def test_an_honest_end_may_open_as_many_again_as_are_over(pair):
    for _ in range(3 * 2048):
        number = pair.parent.say.open_stream("store-1", "a", "hq", CHANNEL, 1)
        pair.pump()
        pair.child.say.reset_stream(number, "refused", "no")
        pair.pump()
    assert pair.child.is_up
    assert pair.parent.is_up


def test_a_flood_of_small_frames_is_read_more_slowly_and_large_ones_are_paced_by_credit(pair):
    number = open_stream(pair)
    for _ in range(200):
        pair.parent.say.send_stream(number, bytes(PIECE))
        carry(pair)
    assert not pair.said("child", Throttled)
    small = [frames.StreamData(number, b"x")] * 1000
    for _ in range(3):
        pair.send("child", *small)
    assert pair.said("child", Throttled)


def test_whoever_drives_a_link_is_told_that_credit_has_come(pair):
    number = open_stream(pair)
    pair.parent.say.send_stream(number, bytes(2 * WINDOW))
    carry(pair, passing=False)
    woken = []
    pair.parent.when_there_is_output(lambda: woken.append(1))
    pair.send("parent", frames.StreamCredit(number, PIECE))
    assert woken
    assert pair.parent.streams_to_send()


def test_a_stream_is_over_at_both_ends_only_when_all_of_it_was_passed_on(pair):
    number = open_stream(pair)
    pair.parent.say.send_stream(number, b"data")
    pair.parent.say.finish_stream(number)
    pair.child.say.finish_stream(number)
    carry(pair, passing=False)
    assert not pair.parent.streams.open
    assert pair.child.streams.open
    pair.child.say.stream_passed(number, 4)
    assert not pair.child.streams.open


def test_bytes_that_come_in_tiny_frames_are_kept_as_bytes(pair):
    number = open_stream(pair)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(WINDOW // 8):
        pair.parent.say.send_stream(number, b"x")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < WINDOW


def test_frames_for_a_stream_that_is_over_are_paced_however_much_they_say_that_they_move(pair):
    number = open_stream(pair)
    pair.child.say.reset_stream(number, "reset", "enough")
    for _ in range(25):
        pair.send("child", *[frames.StreamCredit(number, WINDOW)] * 1000)
    assert pair.said("child", Throttled)


def test_bytes_for_a_stream_that_is_over_are_paced_by_their_number(pair):
    number = open_stream(pair)
    pair.child.say.reset_stream(number, "reset", "enough")
    late = packets.packet([frames.encode(frames.StreamData(number, bytes(FREE)))] * 50)
    for _ in range(500):
        pair.deliver("child", late)
    assert pair.said("child", Throttled)


def test_small_credits_are_paced_as_other_frames_are(pair):
    number = open_stream(pair)
    pair.parent.say.send_stream(number, bytes(PIECE))
    for _ in range(25):
        pair.send("parent", *[frames.StreamCredit(number, LEAST_CREDIT - 1)] * 300)
    assert pair.said("parent", Throttled)


def test_nothing_is_kept_of_streams_that_were_opened_and_reset(pair):
    for number in range(1, 2001, 2):
        pair.send("parent", ask(number))
        pair.parent.say.accept_stream(number)
        pair.parent.say.send_stream(number, b"waits for a line that is free")
        pair.send("parent", frames.StreamReset(number, "", ""))
    assert not pair.parent.streams.open
    assert not pair.parent.streams.is_ready


def test_all_links_of_a_node_lend_no_more_than_its_pool(links):
    pool = StreamPool(3 * WINDOW)
    settings = LinkSettings(pool=pool)
    ends = [links.link("hq", "root", dials=False, settings=settings) for _ in range(8)]
    pairs = [links.pair(parent=end).up() for end in ends]
    for pair in pairs:
        number = pair.child.say.open_stream("hq", "a", "store-1", CHANNEL, 1)
        pair.pump()
        pair.parent.say.accept_stream(number)
        pair.child.say.send_stream(number, bytes(2 * WINDOW))
        carry(pair, passing=False)
    each = [len(came(pair, "parent")) for pair in pairs]
    assert min(each) == PIECE
    assert 2 * WINDOW < sum(each) <= 3 * WINDOW + 8 * PIECE
    assert pool.lent <= pool.most
    for pair in pairs:
        pair.parent.transport_closed()
    assert pool.lent == 0


@pytest.mark.parametrize("most", [32 * 1024, 64 * 1024, 1024 * 1024])
def test_a_wide_packet_has_more_bytes_and_fits_a_packet_however_many_streams_are_in_it(links, most):
    child = links.link("store-1", "leaf", dials=True, settings=LinkSettings(max_frame=most))
    parent = links.link("hq", "root", dials=False, settings=LinkSettings(max_frame=1024 * 1024))
    pair = links.pair(child=child, parent=parent).up()
    number = open_stream(pair)
    pair.parent.say.send_stream(number, b"x" * WINDOW)
    (packet,) = pair.parent.streams_to_send(WIDE)
    assert min(WIDE, most * 3 // 4) <= len(packet) <= most
    pair.deliver("child", packet)
    for _ in range(MOST_FRAMES + 100):
        pair.parent.say.send_stream(open_stream(pair), b"y" * 200)
    (packet,) = pair.parent.streams_to_send(WIDE)
    assert len(packet) <= most
    carry(pair)
    assert came(pair, "child").count(b"y") == 200 * (MOST_FRAMES + 100)
