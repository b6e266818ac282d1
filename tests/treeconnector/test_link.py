"""A link that is up: bundles, acks, windows, pieces, snapshots, keep-alive, throttling, and its end."""

import gc
import tracemalloc

import msgspec
import pytest

from sapwood.protocol import packets
from sapwood.protocol.destinations import Destination, Kind, queue
from sapwood.protocol.errors import FrameError, LinkRefused, LocalError, Refusal, RemoteError, SequenceError
from sapwood.protocol.names import incarnation_text
from treeconnector import frames, permits
from treeconnector.address_frames import whereabouts
from treeconnector.frames import Advice, Position
from treeconnector.incoming import decode_packet
from treeconnector.link import Standing
from treeconnector.link_events import (
    Acked,
    Advised,
    BundleArrived,
    ChainChanged,
    LinkEnded,
    LinkUp,
    PeerAsks,
    PeerConflict,
    PeerDeclined,
    PeerGrants,
    PeerHas,
    PeerHolds,
    PeerInvalidates,
    PeerKnowsNobody,
    PeerLeft,
    PeerMoved,
    PeerPaused,
    PeerReleases,
    SnapshotEnded,
    SnapshotStarted,
    Throttled,
    VolatileArrived,
)


def add(name, op="add"):
    return Advice(op, Kind.QUEUE, name, "store-1")


def frames_in(packets):
    return [frame for packet in packets for frame in decode_packet(packet, 1 << 20)]


def kinds_in(packets):
    return [type(frame).__name__ for frame in frames_in(packets)]


# --- bundles and acks


def test_bundles_arrive_in_order_and_are_acknowledged(links):
    pair = links.pair().up()
    for number in (1, 2, 3):
        pair.child.say.bundle(number, links.header(), b"body %d" % number)
    pair.pump()
    arrived = pair.said("parent", BundleArrived)
    assert [(event.number, event.body) for event in arrived] == [(n, b"body %d" % n) for n in (1, 2, 3)]
    assert arrived[0].header.destination == queue("till")
    assert arrived[0].header_bytes == links.header()
    pair.parent.acknowledge(2)
    pair.parent.acknowledge(3)
    pair.pump()
    assert pair.said("child", Acked) == [Acked(3)]
    assert kinds_in(pair.line["parent"][-1:]) == ["Ack"]


def test_bundles_go_on_where_the_peer_stands(links):
    mine, theirs = Position(2, 4, 9, 6), Position(2, 7, 5, 4)
    pair = links.pair(child_standing=Standing(mine, 0, b""), parent_standing=Standing(theirs, 0, b"")).up()
    with pytest.raises(LocalError, match="cannot send bundle 7: the next is 8"):
        pair.child.say.bundle(7, links.header(), b"")
    for number in (8, 9):
        pair.child.say.bundle(number, links.header(), b"")
    pair.parent.say.bundle(5, links.header(), b"")
    pair.pump()
    assert [event.number for event in pair.said("parent", BundleArrived)] == [8, 9]
    assert [event.number for event in pair.said("child", BundleArrived)] == [5]


def test_after_lost_state_numbers_begin_with_one(links):
    mine, theirs = Position(2, 0, 9, 6), Position(2, 3, 0, 0)
    pair = links.pair(child_standing=Standing(mine, 0, b""), parent_standing=Standing(theirs, 0, b"")).up()
    assert (pair.resumption("child").epoch, pair.resumption("parent").gap) == (3, 3)
    pair.child.say.bundle(1, links.header(), b"")
    pair.pump()
    assert [event.number for event in pair.said("parent", BundleArrived)] == [1]


@pytest.mark.parametrize(
    ("number", "what"), [(1, "replayed"), (3, "left out"), (0, "zero"), (-1, "negative")]
)
def test_a_wrong_number_ends_the_link(links, number, what):
    pair = links.pair().up()
    pair.child.say.bundle(1, links.header(), b"")
    pair.pump()
    events = pair.send("parent", frames.Bundle(number, links.header(), b""))
    assert isinstance(events[-1].error, SequenceError), what
    assert f"bundle {number}: expected 2" in events[-1].text
    pair.step("parent")
    end = pair.ended("child")
    assert isinstance(end.error, LinkRefused)
    assert end.error.reason == Refusal.PROTOCOL
    assert f"store-1 sent bundle {number}: expected 2" in end.text


def test_what_came_before_a_fault_in_one_packet_counts(links):
    pair = links.pair().up()
    events = pair.send("parent", *(frames.Bundle(n, links.header(), b"") for n in (1, 2, 4)))
    assert [type(event) for event in events] == [BundleArrived, BundleArrived, LinkEnded]


@pytest.mark.parametrize("received", [3, 5, -1])
def test_an_ack_of_what_was_not_sent_ends_the_link(links, received):
    pair = links.pair().up()
    for number in (1, 2):
        pair.child.say.bundle(number, links.header(), b"")
    pair.step("child")
    assert isinstance(pair.send("child", frames.Ack(received))[-1].error, SequenceError)


def test_an_ack_that_goes_back_ends_the_link(links):
    pair = links.pair().up()
    for number in (1, 2):
        pair.child.say.bundle(number, links.header(), b"")
    pair.step("child")
    assert pair.send("child", frames.Ack(2)) == [Acked(2)]
    assert pair.send("child", frames.Ack(2)) == []
    assert "an ack of 1: expected 2 to 2" in pair.send("child", frames.Ack(1))[-1].text


def test_a_bundle_that_waits_here_cannot_be_acknowledged(links):
    pair = links.pair().up()
    pair.child.say.bundle(1, links.header(), b"")
    assert isinstance(pair.send("child", frames.Ack(1))[-1].error, SequenceError)


def test_acknowledging_what_has_not_arrived_is_our_mistake(links):
    pair = links.pair().up()
    with pytest.raises(LocalError, match="only 0 has arrived"):
        pair.parent.acknowledge(1)


def test_volatile_bundles_have_no_number(links):
    pair = links.pair().up()
    pair.child.say.volatile(links.header(), b"small")
    pair.child.say.volatile(links.header(), b"x" * 200_000)
    pair.child.say.bundle(1, links.header(), b"")
    pair.pump()
    assert [event.body for event in pair.said("parent", VolatileArrived)] == [b"small", b"x" * 200_000]
    assert len(pair.said("parent", BundleArrived)) == 1


def test_a_header_that_is_none_ends_the_link(links):
    for header in (b"", b"\x01\x93\xa1\xff", b"\x01" + b"\x91" * 3000, b"\x00"):
        pair = links.pair().up()
        assert isinstance(pair.send("parent", frames.Bundle(1, header, b""))[-1].error, FrameError)


# --- the window


def test_no_more_than_the_peers_window_is_under_way(links):
    pair = links.pair().up()
    for number in range(1, 12):
        pair.child.say.bundle(number, links.header(), b"")
    pair.pump()
    assert len(pair.said("parent", BundleArrived)) == 8
    assert pair.child.buffered_bytes > 0
    pair.parent.acknowledge(2)
    pair.pump()
    assert len(pair.said("parent", BundleArrived)) == 10
    pair.parent.acknowledge(10)
    pair.pump()
    assert len(pair.said("parent", BundleArrived)) == 11
    assert pair.child.buffered_bytes == 0


def test_the_window_counts_bytes_too(links):
    pair = links.pair().up()
    for number in range(1, 5):
        pair.child.say.bundle(number, links.header(), b"x" * 300_000)
    pair.pump()
    assert len(pair.said("parent", BundleArrived)) == 2
    pair.parent.acknowledge(2)
    pair.pump()
    assert len(pair.said("parent", BundleArrived)) == 4


def test_a_peer_that_ignores_the_window_ends_the_link(links):
    pair = links.pair().up()
    said = [frames.Bundle(number, links.header(), b"") for number in range(1, 10)]
    events = pair.send("parent", *said)
    assert [type(event) for event in events] == [BundleArrived] * 8 + [LinkEnded]
    assert "the window is 8 bundles" in events[-1].text


def test_a_blocked_bundle_does_not_stop_control_frames(links):
    pair = links.pair().up()
    for number in range(1, 12):
        pair.child.say.bundle(number, links.header(), b"")
    pair.pump()
    pair.child.say.hold("queue:till")
    pair.pump()
    assert pair.said("parent", PeerHolds) == [PeerHolds("queue:till")]


# --- pieces


def test_a_large_bundle_goes_in_pieces_with_control_frames_between(links):
    pair = links.pair().up()
    body = bytes(range(256)) * 1200
    pair.child.say.bundle(1, links.header(), body)
    pair.step("child", 100_000)
    assert not pair.said("parent", BundleArrived)
    pair.child.say.advise([add("news")])
    pair.child.probe(0.0)
    pair.pump(100_000)
    assert [event.body for event in pair.said("parent", BundleArrived)] == [body]
    kinds = kinds_in(pair.line["child"])
    assert kinds == ["Hello", "Prove", "Part", "Part", "Advise", "Ping", "Part", "Part", "Part"]
    assert max(map(len, pair.line["child"])) <= 65536
    parts = [frame for frame in frames_in(pair.line["child"]) if isinstance(frame, frames.Part)]
    assert [part.offset for part in parts[:2]] == [0, len(parts[0].header) + len(parts[0].data)]
    assert pair.child.buffered_bytes == 0


def test_an_ended_link_keeps_nothing_of_half_a_bundle(links):
    """Whoever still refers to it, as its events do, must not keep megabytes."""
    pair = links.pair().up()
    pair.child.say.bundle(1, links.header(), bytes(1_000_000))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for packet in pair.child.data_to_send(800_000):
            pair.parent.receive(packet, 0.0)
        assert tracemalloc.get_traced_memory()[0] - before > 700_000
        pair.parent.transport_closed()
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


def test_sizes_around_the_limit_of_a_packet(links):
    pair = links.pair().up()
    for number, size in enumerate(range(65536 - 200, 65536 + 20), 1):
        pair.child.say.bundle(number, links.header(), b"x" * size)
        pair.pump()
        pair.parent.acknowledge(number)
        pair.pump()
    assert [len(event.body) for event in pair.said("parent", BundleArrived)] == list(range(65336, 65556))
    assert max(map(len, pair.line["child"])) <= 65536


def test_the_largest_bundle_and_one_byte_more(links):
    pair = links.pair().up()
    header = links.header()
    with pytest.raises(LocalError, match="hq takes 1048576"):
        pair.child.say.bundle(1, header, b"x" * (1024 * 1024 - len(header) + 1))
    pair.child.say.bundle(1, header, b"x" * (1024 * 1024 - len(header)))
    pair.pump()
    assert pair.said("parent", BundleArrived)
    with pytest.raises(LocalError, match="headers of 8192"):
        pair.child.say.bundle(2, b"x" * 8193, b"")


PIECES = {
    "over the limit": [frames.Part(1, b"H", 1024 * 1024 + 1, 0, b"x")],
    "no beginning": [frames.Part(1, b"", 100, 50, b"x")],
    "no header": [frames.Part(1, b"", 100, 0, b"x")],
    "wrong number": [frames.Part(2, b"H", 100, 0, b"x")],
    "negative total": [frames.Part(1, b"H", -100, 0, b"x")],
    "zero total": [frames.Part(1, b"H", 0, 0, b"x")],
    "more than its total": [frames.Part(1, b"H", 3, 0, b"xxxx")],
    "nothing in it": [frames.Part(1, b"H", 100, 0, b"")],
    "a gap": [frames.Part(1, b"H", 100, 0, b"x"), frames.Part(1, b"", 100, 3, b"x")],
    "twice": [frames.Part(1, b"H", 100, 0, b"x"), frames.Part(1, b"H", 100, 0, b"x")],
    "another number": [frames.Part(1, b"H", 100, 0, b"x"), frames.Part(2, b"", 100, 2, b"x")],
    "another total": [frames.Part(1, b"H", 100, 0, b"x"), frames.Part(1, b"", 99, 2, b"x")],
    "second header": [frames.Part(1, b"H", 100, 0, b"x"), frames.Part(1, b"H", 100, 2, b"x")],
    "a bundle between": [frames.Part(1, b"H", 100, 0, b"x"), frames.Bundle(1, b"H", b"")],
    "a volatile between": [frames.Part(1, b"H", 100, 0, b"x"), frames.Volatile(b"H", b"")],
    "whole, and no header": [frames.Part(1, b"H", 2, 0, b"x")],
}


@pytest.mark.parametrize("said", PIECES.values(), ids=PIECES)
def test_pieces_that_do_not_fit_end_the_link(links, said):
    pair = links.pair().up()
    events = pair.send("parent", *said)
    assert [type(event) for event in events] == [LinkEnded]
    assert isinstance(events[0].error, RemoteError)


def test_a_half_sent_bundle_does_not_survive_its_link(links):
    pair = links.pair().up()
    pair.child.say.bundle(1, links.header(), b"x" * 300_000)
    pair.step("child", 70_000)
    pair.note("child", pair.child.pause("restart"))
    pair.pump()
    assert not pair.said("parent", BundleArrived)
    assert pair.said("parent", PeerPaused) == [PeerPaused("restart")]
    assert pair.ended("parent").error is None


# --- advices and snapshots


def test_advices_take_effect_before_every_bundle_sent_after_them(links):
    pair = links.pair().up()
    pair.child.say.bundle(1, links.header(), b"")
    pair.child.say.advise([add("a")])
    pair.child.say.bundle(2, links.header(), b"")
    pair.pump()
    order = [event for event in pair.events["parent"] if isinstance(event, Advised | BundleArrived)]
    assert order.index(Advised([add("a")])) < [getattr(event, "number", 0) for event in order].index(2)


def test_many_advices_go_in_frames_of_500_that_fit_a_packet(links):
    pair = links.pair().up()
    pair.child.say.advise([add(f"q{n}") for n in range(1200)])
    pair.child.say.advise([add("x" * 1000 + str(n)) for n in range(200)])
    pair.pump()
    said = pair.said("parent", Advised)
    assert [len(event.advices) for event in said] == [500, 500, 200, 50, 50, 50, 50]
    assert [advice.name for event in said[:3] for advice in event.advices] == [f"q{n}" for n in range(1200)]
    assert max(map(len, pair.line["child"])) <= 65536


def test_a_snapshot_comes_whole_before_later_advices_and_bundles(links):
    pair = links.pair().up()
    pair.child.say.snapshot([add(f"q{n}") for n in range(1100)], b"digest")
    pair.child.say.bundle(1, links.header(), b"")
    pair.step("child", 10_000)
    pair.child.say.advise([add("late"), add("q7", "remove"), add("brief")])
    pair.child.say.advise([add("q8", "dormant"), add("brief", "remove"), add("late", "dormant")])
    pair.child.say.bundle(2, links.header(), b"")
    pair.pump(10_000)
    events = [event for event in pair.events["parent"] if type(event) is not Throttled]
    start, end = events.index(SnapshotStarted(1100)), events.index(SnapshotEnded(b"digest"))
    assert sum(len(event.advices) for event in events[start + 1 : end]) == 1100
    assert events[end + 1] == Advised([add("q7", "remove"), add("q8", "dormant"), add("late", "dormant")])
    assert [event.number for event in events[end + 2 :]] == [1, 2]
    assert pair.child.buffered_bytes == 0


def test_of_a_topic_that_goes_and_comes_during_a_snapshot_both_are_told(links):
    """The other end is to give anew what is retained."""
    pair = links.pair().up()
    tea, rum = Advice("add", "topic", "tea", "york", "1"), Advice("add", "topic", "rum", "york", "1")
    pair.child.say.snapshot([tea], b"digest")
    for each in (tea, rum):
        pair.child.say.advise([each._replace(op="remove"), each])
    pair.pump()
    end = pair.events["parent"].index(SnapshotEnded(b"digest"))
    assert pair.events["parent"][end + 1] == Advised([tea._replace(op="remove"), tea, rum])


def test_advices_flow_again_after_a_snapshot(links):
    pair = links.pair().up()
    pair.child.say.snapshot([], b"")
    pair.pump()
    pair.child.say.advise([add("a")])
    pair.pump()
    assert [type(event) for event in pair.events["parent"][-3:]] == [SnapshotStarted, SnapshotEnded, Advised]


def test_both_directions_have_a_snapshot_of_their_own(links):
    pair = links.pair().up()
    pair.child.say.snapshot([add("a")], b"c")
    pair.parent.say.snapshot([add("b")], b"p")
    pair.parent.say.advise([add("b", "remove")])
    pair.pump()
    assert pair.said("child", SnapshotEnded) == [SnapshotEnded(b"p")]
    assert pair.said("child", Advised) == [Advised([add("b")]), Advised([add("b", "remove")])]
    assert pair.said("parent", Advised) == [Advised([add("a")])]


def test_one_snapshot_at_a_time(links):
    pair = links.pair().up()
    pair.child.say.snapshot([add("a")], b"")
    with pytest.raises(LocalError, match="still under way"):
        pair.child.say.snapshot([add("a")], b"")


def test_an_interrupted_snapshot_has_no_end(links):
    pair = links.pair().up()
    pair.child.say.snapshot([add(f"q{n}") for n in range(5000)], b"")
    pair.step("child", 1000)
    pair.note("child", pair.child.transport_closed())
    pair.note("parent", pair.parent.transport_closed())
    assert pair.said("parent", SnapshotStarted)
    assert not pair.said("parent", SnapshotEnded)
    assert pair.child.buffered_bytes == 0


SNAPSHOTS = {
    "an end without a beginning": [frames.SnapshotEnd(b"")],
    "two beginnings": [frames.SnapshotBegin(1), frames.SnapshotBegin(1)],
    "too few": [frames.SnapshotBegin(2), frames.Advise([add("a")]), frames.SnapshotEnd(b"")],
    "too many": [frames.SnapshotBegin(1), frames.Advise([add("a"), add("b")])],
    "negative": [frames.SnapshotBegin(-1)],
}


@pytest.mark.parametrize("said", SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_snapshots_that_do_not_add_up_end_the_link(links, said):
    pair = links.pair().up()
    assert isinstance(pair.send("parent", *said)[-1].error, RemoteError)


@pytest.mark.parametrize(
    "advices",
    [
        [Advice("subscribe", Kind.QUEUE, "a")],
        [Advice("add", Kind.QUEUE, "x" * 4097)],
        [Advice("add", Kind.QUEUE, "a", "o" * 600)],
        [Advice("add", Kind.QUEUE, "a", cause="c" * 600)],
        [Advice("add", Kind.DOMAIN, "a", reads=-1)],
        [Advice("add", Kind.QUEUE, "a")] * 501,
    ],
)
def test_advices_over_the_limits_end_the_link(links, advices):
    pair = links.pair().up()
    assert isinstance(pair.send("parent", frames.Advise(advices))[-1].error, FrameError)


def test_an_advice_too_large_for_a_frame_is_our_mistake(links):
    pair = links.pair().up()
    with pytest.raises(LocalError, match="does not fit"):
        pair.child.say.advise([add("x" * 70_000)])


# --- the other frames


def test_hold_release_decline(links):
    pair = links.pair().up()
    pair.parent.say.hold("")
    pair.parent.say.release("topic:a/+")
    pair.parent.say.decline([queue("a")], "no\x07more")
    pair.pump()
    assert pair.said("child", PeerHolds) == [PeerHolds("")]
    assert pair.said("child", PeerReleases) == [PeerReleases("topic:a/+")]
    assert pair.said("child", PeerDeclined) == [PeerDeclined([Destination(Kind.QUEUE, "a")], "no more")]


def test_names_incarnations_and_where_they_are(links):
    pair = links.pair().up()
    york = frames.Whereabouts("york", b"y" * 16, ["ws://york:7600/link"])
    key = incarnation_text(b"y" * 16)
    pair.child.say.who_has(["york", key])
    pair.child.say.i_have([york])
    pair.parent.say.nobody(["york"], "no\x07body")
    pair.parent.say.invalidate([b"y" * 16])
    pair.pump()
    assert pair.events["parent"][-2:] == [PeerAsks(["york", key]), PeerHas([york])]
    assert pair.events["child"][-2:] == [PeerKnowsNobody(["york"], "no body"), PeerInvalidates([b"y" * 16])]


def test_where_nodes_are_follows_the_routes_of_a_snapshot_and_is_cut_into_frames(links):
    pair = links.pair().up()
    found = [
        frames.Whereabouts(f"store-{n}", n.to_bytes(16, "big"), ["ws://" + "x" * 500]) for n in range(600)
    ]
    pair.child.say.snapshot([add("a")], b"d")
    pair.child.say.i_have(found)
    pair.pump()
    said = [event for event in pair.events["parent"] if isinstance(event, SnapshotEnded | PeerHas)]
    assert isinstance(said[0], SnapshotEnded)
    assert [each for event in said[1:] for each in event.found] == found
    assert max(map(len, pair.line["child"])) <= 65536


def test_a_node_with_very_long_addresses_still_fits_into_a_frame(links):
    pair = links.pair().up()
    many = ["ws://" + "\u20ac" * 500] * 32
    pair.parent.say.i_have([whereabouts("york", b"y" * 16, many)])
    pair.pump()
    assert [each.addresses for event in pair.said("child", PeerHas) for each in event.found] == [many[:2]]


def test_grants_go_in_pieces_and_come_whole(links):
    pair = links.pair().up()
    grants = [permits.Grant("hq", "store-1", nodes=tuple(f"till-{n:0>50}" for n in range(2000)))]
    pair.parent.say.grant(grants)
    pair.parent.say.grant([])
    pair.pump()
    told = pair.said("child", PeerGrants)
    assert [[rules.grant for rules in event.rules] for event in told] == [grants, []]
    assert max(map(len, pair.line["parent"])) <= 65536
    with pytest.raises(LocalError, match="cannot send"):
        pair.child.say.grant([])


def test_endless_grants_end_the_link(links):
    pair = links.pair().up()
    endless = frames.Granted(bytes(60_000), more=True)
    for _ in range(permits.MAX_GRANTS_BYTES // 60_000):
        assert not pair.send("child", endless)
    assert isinstance(pair.send("child", endless)[-1].error, FrameError)


def test_many_declined_keys_go_in_several_frames(links):
    pair = links.pair().up()
    keys = [queue("x" * 200 + str(n)) for n in range(1200)]
    pair.parent.say.decline(keys, "too many")
    pair.pump()
    assert [key for event in pair.said("child", PeerDeclined) for key in event.keys] == keys
    assert max(map(len, pair.line["parent"])) <= 65536


def test_what_a_parent_tells(links):
    pair = links.pair().up()
    pair.parent.say.chain(["hq", "world"])
    pair.parent.say.moved("store-9")
    pair.parent.say.conflict("store-9", "live twice")
    pair.pump()
    assert pair.events["child"][-3:] == [
        ChainChanged(["hq", "world"]),
        PeerMoved("store-9"),
        PeerConflict("store-9", "live twice"),
    ]


@pytest.mark.parametrize("frame", [frames.Chain(["store-1"]), frames.Moved("x"), frames.Conflict("x", "")])
def test_what_only_a_parent_may_tell(links, frame):
    pair = links.pair().up()
    for call in (
        lambda: pair.child.say.chain(["store-1"]),
        lambda: pair.child.say.moved("x"),
        lambda: pair.child.say.conflict("x", ""),
    ):
        with pytest.raises(LocalError, match="cannot send"):
            call()
    assert isinstance(pair.send("parent", frame)[-1].error, SequenceError)


@pytest.mark.parametrize(
    "frame",
    [
        frames.Chain([]),
        frames.Chain(["other"]),
        frames.Chain(["hq", "hq"]),
        frames.Chain(["hq", "no name"]),
        frames.Chain(["hq", *(f"n{number}" for number in range(64))]),
        frames.Chain(["hq"], [f"n{number}" for number in range(257)]),
        frames.Moved("no name"),
        frames.Conflict("local", ""),
        frames.Hold("till"),
        frames.Hold("topic:" + "a" * 4096),
        frames.Release("queue:a@b c"),
        frames.Authorities(bytes(24 * 1024 + 1)),
        frames.Given([(b"short", b"")]),
        frames.Given([(b"b" * 16, b"d" * 17)]),
        frames.Given([(b"b" * 16, b"")] * 501),
        frames.Given([(b"b" * 16, b"")], False, [b"d" * 16]),
        frames.Given([(b"b" * 16, b"")], False, [b"d" * 53]),
        frames.Given([(b"b" * 16, b"d" * 16)], False, [], [b"w" * 33]),
        frames.Given([(b"b" * 16, b"d" * 16)], False, [], [b""], [-1]),
        frames.Given([(b"b" * 16, b"d" * 16)], False, [], [b""], [1 << 32]),
        frames.TellInterest(["a/#"]),
        frames.TellInterest(["a"] * 300, ["b"] * 201),
        frames.Granted(b"\xc1"),
        frames.Granted(permits.pack([permits.Grant("hq", "store-1", ("a+",))])),
        frames.Granted(permits.pack([permits.Grant("hq", "no name")])),
        frames.Granted(permits.pack([permits.Grant("hq", "store-1")] * 65)),
        frames.Declined([queue("a")] * 501, ""),
        frames.WhoHas(["york"] * 501),
        frames.WhoHas(["no name"]),
        frames.IHave([frames.Whereabouts("york", b"short", [])]),
        frames.IHave([frames.Whereabouts("york", b"i" * 16, ["a" * 513])]),
        frames.IHave([frames.Whereabouts("york", b"i" * 16, ["a"] * 33)]),
        frames.IHave([frames.Whereabouts("0123abcd-0123-4567-89ab-0123456789ab", b"i" * 16, [])]),
        frames.Invalidate([b"short"]),
        frames.Nobody(["local"], ""),
        frames.Declined([queue("a" * 4097)], ""),
        frames.Pong(1),
    ],
)
def test_values_that_cannot_be_end_the_link(links, frame):
    pair = links.pair().up()
    assert isinstance(pair.send("child", frame)[-1].error, RemoteError)


def test_unknown_optional_frames_are_ignored_and_unknown_mandatory_ones_are_not(links):
    pair = links.pair().up()
    later = msgspec.msgpack.encode([64, "a", {"b": [1, 2]}])
    ack = frames.encode(frames.Ping(7))
    assert pair.deliver("parent", packets.packet([later, ack, later])) == []
    assert kinds_in(pair.parent.data_to_send()) == ["Pong"]
    assert isinstance(
        pair.deliver("parent", packets.packet([msgspec.msgpack.encode([63, 1])]))[-1].error, FrameError
    )


def test_known_frames_with_later_fields_are_read(links):
    pair = links.pair().up()
    values = [11, 1, links.header(), b"body", "later", {"more": 1}]
    events = pair.deliver("parent", packets.packet([msgspec.msgpack.encode(values)]))
    assert [type(event) for event in events] == [BundleArrived]


# --- time


def test_a_quiet_peer_is_asked_and_answers(links):
    pair = links.pair().up()
    assert pair.child.next_deadline() == 10
    pair.tick(9.9)
    assert pair.child.buffered_bytes == 0
    pair.tick(10)
    assert pair.child.next_deadline() == 15
    pair.now = 10.5
    pair.pump()
    assert pair.child.next_deadline() == pair.parent.next_deadline() == 20.5
    pair.tick(15)
    assert pair.child.is_up


def test_a_dead_peer_is_noticed(links):
    pair = links.pair().up()
    pair.tick(10)
    pair.child.data_to_send()
    pair.tick(14.9)
    assert pair.child.is_up
    pair.tick(15)
    end = pair.ended("child")
    assert type(end.error) is RemoteError
    assert end.text == "hq has been silent for 15.0 s and does not answer"


def test_pieces_are_a_sign_of_life(links):
    pair = links.pair().up()
    pair.tick(10)
    pair.now = 14
    assert pair.send("child", frames.Part(1, links.header(), 1000, 0, b"x")) == []
    assert pair.child.next_deadline() == 24
    pair.tick(16)
    assert pair.child.is_up


def test_probing(links):
    pair = links.pair().up()
    heard = pair.parent.heard_at
    pair.now = 3.0
    pair.parent.probe(3.0)
    assert pair.parent.next_deadline() == 8
    pair.parent.probe(4.0)
    assert pair.parent.next_deadline() == 8
    pair.pump()
    assert pair.parent.heard_at > heard


def test_only_the_last_ping_is_answered(links):
    pair = links.pair().up()
    pair.send("parent", *(frames.Ping(n) for n in range(900)))
    assert [frame.number for frame in frames_in(pair.parent.data_to_send())] == [899]


def test_too_many_control_frames_slow_the_peer_down_and_the_link_stays(links):
    pair = links.pair().up()
    pair.now = 100.0
    ping = frames.encode(frames.Ping(1))
    assert pair.deliver("parent", packets.packet([ping] * 1000)) == []
    assert pair.deliver("parent", packets.packet([ping] * 500)) == [Throttled(100.5)]
    assert pair.parent.throttled_until == 100.5
    assert pair.parent.next_deadline() == 110.5
    assert pair.deliver("parent", packets.packet([ping] * 20_000)) == [Throttled(101.0)]
    pair.now = 101.0
    pair.child.say.bundle(1, links.header(), b"")
    pair.pump()
    assert pair.said("parent", BundleArrived)
    pair.now = 103.0
    assert pair.deliver("parent", packets.packet([ping] * 1000)) == []


def test_bundles_and_acks_are_no_control_frames(links):
    many = links.replace(links.settings, window_bundles=5000, max_frames_per_second=5)
    pair = links.pair(
        child=links.link("store-1", "leaf", dials=True, settings=many),
        parent=links.link("hq", "root", dials=False, settings=many),
    ).up()
    pair.now = 50.0
    for number in range(1, 3001):
        pair.child.say.bundle(number, links.header(), b"")
        pair.pump()
        pair.parent.acknowledge(number)
        pair.pump()
    assert not pair.said("parent", Throttled)
    assert not pair.said("child", Throttled)


# --- the end


def test_pause_and_goodbye(links):
    for say, kind in (("pause", PeerPaused), ("goodbye", PeerLeft)):
        pair = links.pair().up()
        pair.child.say.bundle(1, links.header(), b"")
        pair.child.say.hold("")
        pair.note("child", getattr(pair.child, say)("see you"))
        pair.pump()
        assert pair.ended("child") == LinkEnded(None, "see you", False)
        assert [type(event) for event in pair.events["parent"]][-3:] == [PeerHolds, kind, LinkEnded]
        assert pair.ended("parent").by_peer
        assert pair.parent.buffered_bytes == pair.child.buffered_bytes == 0


def test_refused_while_up(links):
    pair = links.pair().up()
    pair.note("parent", pair.parent.refuse(Refusal.NAME, "store-1 is live elsewhere"))
    pair.pump()
    assert pair.ended("child").error.reason == Refusal.NAME
    assert pair.child.end_text == "store-1 is live elsewhere"


def test_texts_from_outside_are_cleaned_and_cut(links):
    pair = links.pair().up()
    text = pair.send("child", frames.Pause("\x1b[2J\r\n" + "x" * 5000))[0].text
    assert text.isprintable()
    assert len(text) == 1000


def test_an_empty_packet(links):
    pair = links.pair().up()
    assert "a packet without frames" in pair.deliver("parent", b"\x90")[-1].text


def test_buffered_bytes_is_nothing_exactly_when_there_is_nothing(links):
    pair = links.pair().up()
    link = pair.child
    pair.send("child", frames.Bundle(1, links.header(), b""))
    for act in (
        lambda: link.say.hold(""),
        lambda: link.acknowledge(1),
        lambda: link.probe(0.0),
        lambda: link.say.snapshot([], b""),
        lambda: link.say.advise([add("a")]),
        lambda: link.say.volatile(links.header(), b""),
        lambda: pair.send("child", frames.Ping(1)),
    ):
        assert link.buffered_bytes == 0
        act()
        assert link.buffered_bytes > 0
        assert link.data_to_send()
    assert link.buffered_bytes == 0
    assert link.data_to_send() == []


def test_the_budget_is_kept_nearly(links):
    pair = links.pair().up()
    for number in range(1, 9):
        pair.child.say.bundle(number, links.header(), b"x" * 60_000)
    packets = pair.child.data_to_send(130_000)
    assert 130_000 <= sum(map(len, packets)) < 130_000 + 65_536


def test_repr_says_who_and_where(links):
    pair = links.pair()
    assert repr(pair.child).startswith("<Link store-1 (child) - ? greeting sent=0")
    pair.up()
    pair.child.say.bundle(1, links.header(), b"")
    pair.child.say.bundle(2, links.header(), b"")
    pair.pump()
    pair.parent.acknowledge(1)
    pair.pump()
    assert repr(pair.child) == (
        "<Link store-1 (child) - hq up sent=2 acked=1 waiting=0 received=0 acknowledged=0>"
    )
    assert repr(pair.parent) == (
        "<Link hq (parent) - store-1 up sent=0 acked=0 waiting=0 received=2 acknowledged=1>"
    )
    assert pair.said("child", LinkUp)
