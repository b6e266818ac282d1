"""The handshake: who is let in, who is refused and with which words, and what is never told."""

import msgspec
import pytest

from sapwood.protocol import packets
from sapwood.protocol.errors import FrameError, LinkRefused, LocalError, Refusal, RemoteError, SequenceError
from treeconnector import frames, proofs
from treeconnector.frames import Hello, Position
from treeconnector.incoming import decode_packet
from treeconnector.link import Standing, State
from treeconnector.link_events import LinkEnded, LinkUp, PeerHello, Proven

OFFERS = Standing(Position(epoch=3, received=5, assigned=9, deleted=7), 12, b"d" * 16)


def hello_of(link, **changes):
    return msgspec.structs.replace(link.hello, **changes)


def test_both_come_up_and_learn_what_the_other_holds(links):
    theirs = Position(epoch=3, received=8, assigned=6, deleted=5)
    pair = links.pair(child_standing=OFFERS, parent_standing=Standing(theirs, 4, b"e" * 16)).up()
    up = pair.said("child", LinkUp)[0]
    assert (up.hello.name, up.held_count, up.held_digest, up.resumption.peer_received) == (
        "hq",
        4,
        b"e" * 16,
        8,
    )
    up = pair.said("parent", LinkUp)[0]
    assert (up.hello.name, up.held_count, up.held_digest, up.resumption.peer_received) == (
        "store-1",
        12,
        b"d" * 16,
        5,
    )
    assert pair.child.version == pair.parent.version == 1
    assert pair.resumption("child").position.session == pair.resumption("parent").position.session > 0


def test_order_of_the_handshake(links):
    pair = links.pair().up()
    kinds = {
        who: [type(frame).__name__ for packet in pair.line[who] for frame in decode_packet(packet, 65536)]
        for who in ("child", "parent")
    }
    assert kinds == {"child": ["Hello", "Prove"], "parent": ["Hello", "Prove"]}
    assert [type(event) for event in pair.events["parent"]] == [PeerHello, Proven, LinkUp]
    assert [type(event) for event in pair.events["child"]] == [PeerHello, LinkUp]


def test_links_without_a_secret(links):
    pair = links.pair(child_secret=None, parent_secret=None).up()
    assert decode_packet(pair.line["child"][1], 65536)[0].proof == b""


@pytest.mark.parametrize(
    ("child", "parent", "text"),
    [
        (b"wrong", b"secret", "store-1 does not have the secret"),
        (None, b"secret", "store-1 proves no secret, and one is required"),
        (b"secret", None, "store-1 proves a secret, and none is configured"),
    ],
)
def test_wrong_secret_is_refused_on_both_sides(links, child, parent, text):
    pair = links.pair(child_secret=child, parent_secret=parent, child_standing=OFFERS, parent_standing=OFFERS)
    pair.pump()
    for who, by_peer in (("parent", False), ("child", True)):
        end = pair.ended(who)
        assert isinstance(end.error, LinkRefused)
        assert (end.error.reason, end.by_peer) == (Refusal.SECRET, by_peer)
        assert text in end.error.text
        assert "at hq" in end.error.text


def test_nothing_is_told_to_a_child_without_the_secret(links):
    pair = links.pair(child_secret=b"wrong", parent_standing=OFFERS)
    pair.pump()
    assert not pair.said("parent", Proven)
    told = [frame for packet in pair.line["parent"] for frame in decode_packet(packet, 65536)]
    assert [type(frame) for frame in told] == [frames.Hello, frames.Refuse]


def test_a_parent_without_the_secret_is_refused_by_the_child(links):
    pair = links.pair(deciding=False)
    pair.step("child")
    pair.parent.accept(b"another")
    pair.step("parent")
    pair.child.accept(b"secret", links.nowhere)
    pair.child.data_to_send()
    false = proofs.make(b"another", proofs.Prover.PARENT, pair.child._handshake._transcript)
    events = pair.send("child", frames.Prove(proof=false, position=Position()))
    assert events[-1].error.reason == Refusal.SECRET
    assert "hq does not have the secret" in events[-1].text


def test_a_reflected_proof_is_worth_nothing(links):
    """Who has no secret sends back what the child has proved."""
    pair = links.pair(deciding=False)
    pair.step("child")
    pair.parent.accept(b"unknown")
    pair.step("parent")
    pair.child.accept(b"secret", links.nowhere)
    (packet,) = pair.child.data_to_send()
    events = pair.deliver("child", packet)
    assert [type(event) for event in events] == [LinkEnded]
    assert events[0].error.reason == Refusal.SECRET


def test_a_mirror_is_refused(links):
    """The child's own hello comes back."""
    pair = links.pair()
    (packet,) = pair.child.data_to_send()
    assert pair.deliver("child", packet)[-1].error.reason is Refusal.CYCLE


def test_a_replayed_proof_is_worth_nothing(links):
    first = links.pair().up()
    second = links.pair(parent=links.link("hq", "root", dials=False, nonce=b"q" * 16))
    second.step("child")
    second.parent.data_to_send()
    assert second.deliver("parent", first.line["child"][1])[-1].error.reason == Refusal.SECRET


def test_a_changed_hello_spoils_the_proof(links):
    """Somebody between them takes the window down: the bytes are no longer those that are proved."""
    pair = links.pair()
    changed = hello_of(pair.child, window_bundles=1)
    pair.child.data_to_send()
    pair.send("parent", changed)
    pair.pump()
    assert pair.ended("parent").error.reason == Refusal.SECRET


@pytest.mark.parametrize(
    ("changes", "reason", "texts"),
    [
        ({"tree": "other"}, Refusal.TREE, ["store-1 belongs to tree other", "hq belongs to tree acme"]),
        (
            {"version": 9, "oldest": 7},
            Refusal.VERSION,
            ["store-1 speaks versions 7 to 9", "hq speaks versions 1 to 1"],
        ),
        ({"role": "root"}, Refusal.SECOND_ROOT, ["store-1, a root, dialled hq, a root"]),
        ({"name": "hq", "chain": ["hq"]}, Refusal.NAME, ["both ends are named hq"]),
        (
            {"incarnation": None, "role": "root"},
            Refusal.CYCLE,
            ["store-1 has dialled itself: give the address"],
        ),
        ({"store_id": None}, Refusal.CLONE, ["store-1 and hq have the same store id"]),
    ],
)
def test_hellos_that_do_not_fit(links, changes, reason, texts):
    pair = links.pair()
    changes |= {key: getattr(pair.parent.identity, key) for key, value in changes.items() if value is None}
    pair.child.data_to_send()
    events = pair.send("parent", hello_of(pair.child, **changes))
    assert [type(event) for event in events] == [LinkEnded]
    assert events[0].error.reason == reason
    pair.step("parent")
    end = pair.ended("child")
    assert end.by_peer
    for text in texts:
        assert text in end.error.text


def test_a_leaf_has_no_children(links):
    pair = links.pair(parent=links.link("store-2", "leaf", dials=False))
    pair.pump()
    assert pair.ended("child").error.reason == Refusal.ROLE
    assert "store-1, a leaf, dialled store-2, a leaf" in pair.ended("parent").text


def test_the_child_checks_the_parents_hello_too(links):
    pair = links.pair()
    pair.child.data_to_send()
    events = pair.send("child", hello_of(pair.parent, tree="other"))
    assert events[-1].error.reason == Refusal.TREE


def test_a_later_version_is_understood(links):
    """One version apart: fields that we do not know, at the end of a hello, a position and a proof."""
    pair = links.pair(deciding=False)
    values = list(msgspec.structs.astuple(hello_of(pair.child, version=2)))
    packet = packets.packet([msgspec.msgpack.encode([1, *values, "new", {"field": 1}])])
    assert isinstance(pair.deliver("parent", packet)[0], PeerHello)
    pair.parent.accept(b"secret")
    (parent_packet,) = pair.parent.data_to_send()
    proof = proofs.make(b"secret", proofs.Prover.CHILD, proofs.Transcript(packet, parent_packet))
    later = msgspec.msgpack.encode([2, proof, [3, 0, 0, 0, 0, 0, "new"], 1, b"d", "new"])
    unknown = msgspec.msgpack.encode([77, {"what": ["we", "cannot", "know"]}])
    events = pair.deliver("parent", packets.packet([unknown, later]))
    assert [type(event) for event in events] == [Proven]
    assert pair.parent.version == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "no name"},
        {"name": "local", "chain": ["local"]},
        {"name": "Local", "chain": ["Local"]},
        {"above": ["LOCAL"]},
        {"above": [f"hq-{number}" for number in range(257)]},
        {"tree": "-"},
        {"role": "trunk"},
        {"store_id": b"short"},
        {"incarnation": b"x" * 17},
        {"nonce": b"x" * 15},
        {"nonce": b"x" * 65},
        {"start": -1},
        {"max_frame": 1000},
        {"max_message": 0},
        {"window_bundles": 0},
        {"window_bytes": -5},
        {"version": 0, "oldest": 0},
        {"oldest": 2},
        {"version": 1 << 63},
        {"reads": 0},
        {"chain": []},
        {"chain": ["other", "store-1"]},
        {"chain": ["store-1", "uk", "uk"]},
        {"chain": ["store-1", *(f"n{i}" for i in range(64))]},
        {"chain": ["store-1", "no name"]},
        {"addresses": ["ws://x"] * 33},
        {"addresses": ["x" * 513]},
        {"zone": "z" * 256},
    ],
)
def test_hellos_that_cannot_be(links, changes):
    pair = links.pair()
    pair.child.data_to_send()
    events = pair.send("parent", hello_of(pair.child, **changes))
    assert [type(event) for event in events] == [LinkEnded]
    assert isinstance(events[0].error, FrameError)
    pair.step("parent")
    assert pair.ended("child").error.reason == Refusal.PROTOCOL
    assert "sent a" in pair.ended("child").text


def test_our_own_hello_is_held_to_the_same(links):
    with pytest.raises(LocalError, match="zone has 300 characters"):
        links.link("store-1", "leaf", dials=True, zone="z" * 300)
    with pytest.raises(LocalError, match="max_frame is 1024: expected 32768 or more"):
        links.link("hq", "root", dials=False, settings=links.replace(links.settings, max_frame=1024))


def test_a_hello_travels_alone(links):
    pair = links.pair()
    pair.child.data_to_send()
    events = pair.send("parent", hello_of(pair.child), frames.Ping(1))
    assert "expected a Hello, alone" in events[-1].text


def test_a_hello_of_more_than_64_kib(links):
    pair = links.pair()
    events = pair.send("parent", hello_of(pair.child, zone="z" * 65536))
    assert isinstance(events[-1].error, FrameError)
    assert "65536 at most" in events[-1].text


@pytest.mark.parametrize("position", [Position(received=-1), Position(epoch=1 << 62), Position(deleted=1)])
def test_impossible_positions_end_the_link(links, position):
    pair = links.pair(child_standing=Standing(position, 0, b""))
    pair.pump()
    assert isinstance(pair.ended("parent").error, FrameError)


def test_a_digest_is_small(links):
    pair = links.pair(child_standing=Standing(Position(), 0, b"x" * 65))
    pair.pump()
    assert isinstance(pair.ended("parent").error, FrameError)


def test_frames_are_the_smaller_of_both(links):
    small = links.link("store-1", "leaf", dials=True, settings=links.replace(links.settings, max_frame=32768))
    pair = links.pair(child=small).up()
    pair.parent.say.bundle(1, links.header(), b"x" * 50_000)
    assert max(map(len, pair.parent.data_to_send())) <= 32768
    too_large = packets.packet([frames.encode(frames.Volatile(links.header(), b"x" * 40_000))])
    assert isinstance(pair.deliver("parent", too_large)[-1].error, FrameError)


def test_silence_in_the_handshake(links):
    pair = links.pair(deciding=False)
    assert pair.parent.next_deadline() == 20
    pair.tick(19.9)
    assert pair.parent.state == State.GREETING
    pair.tick(20)
    assert "no handshake within 20 s: waiting for ?" in pair.ended("parent").text
    assert pair.parent.next_deadline() is None


def test_a_node_that_does_not_decide(links):
    pair = links.pair(deciding=False)
    pair.step("child")
    pair.tick(20)
    pair.pump()
    assert "hq has not decided" in pair.ended("parent").text


def test_refusing_at_each_moment(links):
    for moment in range(4):
        pair = links.pair()
        for _ in range(moment):
            pair.step("child")
            pair.step("parent")
        pair.note("parent", pair.parent.refuse(Refusal.CYCLE, "hq is\nabove itself"))
        pair.pump()
        end = pair.ended("child")
        assert (end.error.reason, end.error.text, end.by_peer) == (Refusal.CYCLE, "hq is above itself", True)
        assert pair.ended("parent").error.reason == Refusal.CYCLE
        assert pair.parent.refuse(Refusal.CYCLE, "again") == []


def test_a_reason_of_a_later_version(links):
    pair = links.pair().up()
    end = pair.send("child", frames.Refuse("mercury-retrograde", "no"))[-1]
    assert (end.error.reason, end.error.text) == (Refusal.PROTOCOL, "no (mercury-retrograde)")


@pytest.mark.parametrize(
    "frame", [frames.Prove(proof=b"", position=Position()), frames.Goodbye(), frames.Ping(1)]
)
def test_nothing_before_its_time(links, frame):
    pair = links.pair()
    events = pair.send("parent", frame)
    assert isinstance(events[-1].error, SequenceError)
    assert "while greeting: expected Hello, Refuse" in events[-1].text


def test_an_unproven_peer_cannot_say_goodbye(links):
    pair = links.pair(deciding=False)
    pair.step("child")
    pair.parent.accept(b"secret")
    events = pair.send("parent", frames.Goodbye("forget me"))
    assert [type(event) for event in events] == [LinkEnded]
    assert isinstance(events[0].error, RemoteError)


def test_decisions_out_of_turn_are_our_mistake(links):
    pair = links.pair(deciding=False)
    with pytest.raises(LocalError, match="cannot accept"):
        pair.parent.accept(b"secret")
    with pytest.raises(LocalError, match="cannot admit"):
        pair.parent.admit(links.nowhere)
    pair.step("child")
    with pytest.raises(LocalError, match="empty"):
        pair.parent.accept(b"")
    with pytest.raises(LocalError, match="the parent to admit"):
        pair.parent.accept(b"secret", links.nowhere)
    for call in (
        lambda: pair.parent.say.bundle(1, links.header(), b""),
        lambda: pair.parent.say.volatile(links.header(), b""),
        lambda: pair.parent.say.advise([]),
        lambda: pair.parent.say.snapshot([], b""),
        lambda: pair.parent.acknowledge(1),
        lambda: pair.parent.say.hold(""),
        lambda: pair.parent.say.release(""),
        lambda: pair.parent.say.chain(["hq"]),
        lambda: pair.parent.say.moved("x"),
        lambda: pair.parent.say.conflict("x", ""),
        lambda: pair.parent.say.decline([], ""),
        lambda: pair.parent.goodbye(),
    ):
        with pytest.raises(LocalError, match="cannot send"):
            call()
    pair.parent.accept(b"secret")
    pair.deciding = True
    pair.up()


def test_a_pause_before_the_link_is_up_says_busy(links):
    pair = links.pair(deciding=False)
    pair.step("child")
    pair.note("parent", pair.parent.pause("hq restarts"))
    pair.pump()
    assert pair.ended("child").error.reason == Refusal.BUSY


def test_after_the_end_everything_is_ignored(links):
    pair = links.pair().up()
    pair.note("child", pair.child.goodbye("closing down"))
    child = pair.child
    child.accept(b"secret", links.nowhere)
    assert child.admit(links.nowhere) == []
    child.say.bundle(1, links.header(), b"")
    child.say.advise([])
    child.acknowledge(1)
    child.probe(1.0)
    assert child.receive(b"garbage", 1.0) == child.handle_timer(1.0) == child.transport_closed() == []
    assert child.goodbye() == child.pause() == []
    assert child.next_deadline() is None
    pair.pump()
    assert "goodbye: closing down" in pair.ended("parent").text
    assert child.data_to_send() == []


def test_a_transport_that_closes(links):
    pair = links.pair().up()
    pair.note("child", pair.child.transport_closed("reset by peer"))
    assert pair.ended("child") == LinkEnded(None, "reset by peer", True)
    assert pair.child.data_to_send() == []


def test_hello_is_a_frame_of_its_own(links):
    link = links.link(
        "store-1", "leaf", dials=True, addresses=["wss://store-1:7600/link"], zone="uk", reads=2
    )
    (packet,) = link.data_to_send()
    (hello,) = decode_packet(packet, 65536)
    assert isinstance(hello, Hello)
    assert (hello.addresses, hello.zone, hello.reads) == (["wss://store-1:7600/link"], "uk", 2)
