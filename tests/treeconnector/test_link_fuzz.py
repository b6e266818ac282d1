"""Whatever a peer sends, in whatever state: events or one `LinkEnded`, no exception, and bounded memory."""

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from sapwood.protocol import packets
from sapwood.protocol.bundles import Header, encode_header
from sapwood.protocol.destinations import Kind, queue
from sapwood.protocol.errors import LocalError, Refusal, RemoteError
from treeconnector import frames, proofs
from treeconnector.frames import Advice, Position
from treeconnector.link import Event, Link, Standing, State
from treeconnector.link_events import LinkEnded

HEADER = encode_header(Header(id=b"\x07" * 16, destination=queue("till"), size=10))
SMALL = st.integers(-1, 12)
NUMBER = SMALL | st.sampled_from([1 << 31, 1 << 62, (1 << 64) - 1, -(1 << 63)])
TEXT = st.sampled_from(
    ["", "hq", "store-1", "queue:till", "topic:a/+", "local", "no name", "\x00\x1b", "x" * 5000]
)
BYTES = st.sampled_from([b"", HEADER, b"x", b"x" * 16, b"x" * 3000])
NAMES = st.lists(st.sampled_from(["hq", "store-1", "world", "no name"]), max_size=4)
ADVICE = st.builds(
    Advice,
    st.sampled_from(["add", "remove", "dormant", "live", "other"]),
    st.sampled_from(list(Kind)),
    TEXT,
    reads=NUMBER,
)
FRAME = st.one_of(
    st.builds(frames.Refuse, st.sampled_from([*Refusal, "?"]), TEXT),
    st.builds(frames.Pause, TEXT),
    st.builds(frames.Goodbye, TEXT),
    st.builds(frames.Ping, NUMBER),
    st.builds(frames.Pong, NUMBER),
    st.builds(frames.Advise, st.lists(ADVICE, max_size=4)),
    st.builds(frames.SnapshotBegin, NUMBER),
    st.builds(frames.SnapshotEnd, BYTES),
    st.builds(frames.Bundle, SMALL, BYTES, BYTES),
    st.builds(frames.Part, SMALL, st.sampled_from([b"", HEADER]), st.integers(-1, 9000), SMALL, BYTES),
    st.builds(frames.Volatile, BYTES, BYTES),
    st.builds(frames.Ack, NUMBER),
    st.builds(frames.Hold, TEXT),
    st.builds(frames.Release, TEXT),
    st.builds(frames.Chain, NAMES),
    st.builds(frames.Moved, TEXT),
    st.builds(frames.Declined, st.lists(st.builds(queue, TEXT), max_size=3), TEXT),
    st.builds(frames.Conflict, TEXT, TEXT),
    st.builds(frames.WhoHas, NAMES),
    st.builds(frames.IHave, st.lists(st.builds(frames.Whereabouts, TEXT, BYTES, NAMES), max_size=3)),
    st.builds(frames.Invalidate, st.lists(BYTES, max_size=3)),
    st.builds(frames.Nobody, NAMES, TEXT),
    st.builds(frames.Granted, st.binary(max_size=40), st.booleans()),
    st.builds(frames.Authorities, st.binary(max_size=40)),
    st.builds(frames.AskInterest, NAMES, NAMES),
    st.builds(frames.TellInterest, NAMES, NAMES, NAMES),
    st.builds(
        frames.Given,
        st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20)), max_size=3),
        st.booleans(),
        st.lists(st.binary(max_size=24), max_size=3),
    ),
    st.builds(
        frames.Prove,
        proof=BYTES,
        position=st.builds(Position, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER),
        held_count=NUMBER,
        held_digest=BYTES,
    ),
)
ENCODED = FRAME.map(frames.encode) | st.sampled_from([b"\x92\x4d\x01", b"\x92\x3d\x01"])
PACKET = st.lists(ENCODED, min_size=1, max_size=4).map(packets.packet) | st.binary(max_size=40)
STEPS = st.lists(st.tuples(PACKET, st.sampled_from([0.0, 0.0, 0.1, 3.0, 30.0])), min_size=1, max_size=8)


def in_state(links, state, dials):
    """A pair, one end of which (returned too) has come as far as `state`."""
    pair = links.pair(deciding=state == State.UP)
    name = "child" if dials else "parent"
    link = pair.child if dials else pair.parent
    if state == State.UP:
        pair.up()
        link.say.bundle(1, HEADER, b"")
        link.say.bundle(2, HEADER, b"")
        pair.step(name)
    elif state != State.GREETING:
        pair.step("child")
        pair.parent.accept(b"secret")
        if dials:
            pair.step("parent")
        if dials and state == State.PROVING:
            pair.child.accept(b"secret", links.nowhere)
        elif not dials and state == State.ADMITTING:
            pair.step("parent")
            pair.child.accept(b"secret", links.nowhere)
            pair.step("child")
        link.data_to_send()
    return pair, name, link


def holds_little(link: Link):
    """What a peer can make us keep: part of a bundle, and a few words in answer."""
    assert link.incoming.unfinished <= link._settings.max_message
    assert link._out._control_bytes < 10_000


STATES = [
    (State.GREETING, True),
    (State.GREETING, False),
    (State.CHOOSING, True),
    (State.PROVING, True),
    (State.PROVING, False),
    (State.ADMITTING, False),
    (State.UP, True),
    (State.UP, False),
]


@pytest.mark.parametrize(("state", "dials"), STATES)
@settings(max_examples=25)
@given(steps=STEPS)
def test_anything_from_the_peer(links, state, dials, steps):
    pair, name, link = in_state(links, state, dials)
    assert link.state == state
    pair.deciding = True
    said: list[Event] = []
    for packet, delay in steps:
        pair.now += delay
        said += pair.deliver(name, packet)
        said += pair.note(name, link.handle_timer(pair.now))
        holds_little(link)
        assert (link.state == State.ENDED) == (link.next_deadline() is None)
    ends = [event for event in said if isinstance(event, LinkEnded)]
    assert len(ends) == (link.state == State.ENDED)
    assert not ends or said[-1] is ends[0]
    assert all(isinstance(event, Event) for event in said)
    link.data_to_send()
    assert link.state != State.ENDED or link.data_to_send() == []


HELLO_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "version": NUMBER,
        "oldest": NUMBER,
        "tree": TEXT,
        "name": TEXT,
        "role": st.sampled_from(["leaf", "branch", "root", "trunk"]),
        "store_id": BYTES,
        "start": NUMBER,
        "incarnation": BYTES,
        "nonce": BYTES,
        "max_frame": NUMBER,
        "max_message": NUMBER,
        "window_bundles": NUMBER,
        "window_bytes": NUMBER,
        "chain": NAMES,
        "addresses": st.lists(TEXT, max_size=40),
        "zone": TEXT,
        "reads": NUMBER,
    },
)


@settings(max_examples=60)
@given(changes=HELLO_FIELDS, dials=st.booleans())
def test_any_hello(links, changes, dials):
    pair = links.pair(deciding=False)
    link, other = (pair.child, pair.parent) if dials else (pair.parent, pair.child)
    hello = msgspec.structs.replace(other.hello, **changes)
    events = pair.send("child" if dials else "parent", hello)
    assert len(events) == 1
    assert link.state == (State.ENDED if isinstance(events[0], LinkEnded) else State.CHOOSING)


@settings(max_examples=60)
@given(data=st.data())
def test_a_proven_peer_with_any_position(links, data):
    """Who knows the secret may still lie about numbers: the link comes up, or ends."""
    number = st.integers(-1, 5) | st.sampled_from([1 << 61, 1 << 62, 1 << 63])
    theirs = data.draw(st.builds(Position, number, number, number, number, number, number))
    mine = Position(2, 3, 4, 1, 9, 9)
    pair = links.pair(deciding=False)
    pair.step("child")
    pair.parent.accept(b"secret")
    pair.parent.data_to_send()
    transcript = proofs.Transcript(pair.child._handshake._packet, pair.parent._handshake._packet)
    proof = proofs.make(b"secret", proofs.Prover.CHILD, transcript)
    events = pair.send("parent", frames.Prove(proof=proof, position=theirs))
    if pair.parent.state == State.ENDED:
        assert isinstance(events[-1].error, RemoteError)
        return
    (up,) = pair.parent.admit(Standing(mine, 0, b""))
    assert mine.deleted <= up.resumption.peer_received <= mine.assigned or up.resumption.new_epoch
    assert all(0 <= value < 1 << 63 for value in msgspec.structs.astuple(up.resumption.position))


CALLS = {
    "accept": lambda link: link.accept(b"secret"),
    "admit": lambda link: link.admit(Standing(Position(), 0, b"")),
    "bundle": lambda link: link.say.bundle(link._out.next_number, HEADER, b""),
    "wrong bundle": lambda link: link.say.bundle(99, HEADER, b""),
    "large bundle": lambda link: link.say.bundle(link._out.next_number, HEADER, b"x" * 100_000),
    "volatile": lambda link: link.say.volatile(HEADER, b"x" * 70_000),
    "advise": lambda link: link.say.advise([Advice("add", Kind.QUEUE, "a")]),
    "snapshot": lambda link: link.say.snapshot([Advice("add", Kind.QUEUE, "a")], b"d"),
    "acknowledge": lambda link: link.acknowledge(1),
    "hold": lambda link: link.say.hold("queue:a"),
    "chain": lambda link: link.say.chain(["hq"]),
    "refuse": lambda link: link.refuse(Refusal.BUSY, "busy"),
    "pause": lambda link: link.pause("pause"),
    "goodbye": lambda link: link.goodbye("bye"),
    "pull": None,
    "timer": lambda link: link.handle_timer(1.0),
    "probe": lambda link: link.probe(1.0),
    "closed": lambda link: link.transport_closed(),
}


@settings(max_examples=80)
@given(state=st.sampled_from(STATES), calls=st.lists(st.sampled_from(sorted(CALLS)), max_size=8))
def test_anything_from_our_own_node(links, state, calls):
    """Misuse is a `LocalError` and leaves the link as it was; what it sends, the peer understands."""
    pair, name, link = in_state(links, *state)
    said: list[Event] = []
    for call in calls:
        before = link.state
        try:
            if call == "pull":
                pair.step(name, 1000)
            else:
                said += [event for event in CALLS[call](link) or [] if isinstance(event, Event)]
        except LocalError:
            assert link.state == before
    assert sum(isinstance(event, LinkEnded) for event in said) == (link.state == State.ENDED)
    if state[0] == State.UP:
        while pair.step(name):
            pass
        ends = pair.said("parent" if name == "child" else "child", LinkEnded)
        assert not any(isinstance(end.error, RemoteError) for end in ends), ends
