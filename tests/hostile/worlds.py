"""Parts of a node that a stranger talks to for a while: a link, a core with two children, a message switch.

Each takes several packets, in MessagePack, or one. Whatever they say, the part goes on, and
what it keeps of them is bounded.
"""

import msgspec

from broker.core.sessions.sessions import Connection
from sapwood.protocol.errors import FrameError
from sapwood.protocol.session_frames import VERSION, Login, decode_client_packet
from simulation.forest import Forest
from treeconnector.frames import Position
from treeconnector.identity import Identity
from treeconnector.link import Link, LinkSettings, Standing
from treeconnector.link_events import LinkEnded, PeerHello, Proven

MIB = 1 << 20
_NOWHERE = Standing(Position(), 0, b"")
_SETTINGS = LinkSettings(max_message=MIB, window_bundles=8, window_bytes=MIB // 2)


def said(data: bytes) -> list[bytes]:
    try:
        return msgspec.msgpack.decode(data, type=list[bytes])[:50]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return [data]


def _link(name: str, role: str, *, dials: bool) -> Link:
    identity = Identity("test", name, role, name.encode().ljust(16), 1, name.encode().ljust(16, b"i"))
    return Link(identity, _SETTINGS, dials=dials, chain=[name], now=0.0, nonce=name.encode().ljust(16, b"n"))


def _pair() -> tuple[Link, Link]:
    child, parent = _link("york", "leaf", dials=True), _link("hq", "root", dials=False)
    for _ in range(10):
        for source, target in ((child, parent), (parent, child)):
            for packet in source.data_to_send(MIB):
                for event in target.receive(packet, 0.0):
                    if isinstance(event, PeerHello):
                        target.accept(None, _NOWHERE) if target is child else target.accept(None)
                    elif isinstance(event, Proven):
                        target.admit(_NOWHERE)
    assert child.is_up
    assert parent.is_up
    return child, parent


def play_link(data: bytes) -> None:
    """A link that is up, from both sides; and one that nobody has greeted."""
    for link in (*_pair(), _link("hq", "root", dials=False)):
        ends = 0
        for packet in said(data):
            ends += sum(isinstance(event, LinkEnded) for event in link.receive(packet, 0.0))
            link.data_to_send(MIB)
        link.handle_timer(30.0)
        assert ends <= 1
        assert len(link._in._assembly._body) <= MIB


def play_core(data: bytes) -> None:
    """HQ, to which york says anything; leeds must not notice, and gets what is sent to it."""
    forest = Forest()
    forest.add("hq")
    forest.add("york", "hq")
    forest.add("leeds", "hq")
    for name in ("york", "leeds"):
        forest.dial(name)
    forest.settle()
    reader = forest.consumer("leeds", "queue:leeds")
    forest.settle()
    wire, hq = forest.wire_of("york"), forest["hq"]
    assert wire is not None
    for packet in said(data):
        if wire.up.target in hq.core.links.peers:
            hq.core.receive(wire.up.target, packet)
            hq.run()
    forest.settle(1.0)
    assert hq.core.links is not None
    leeds = forest.wire_of("leeds")
    assert leeds is not None, forest["leeds"].errors
    forest.producer("hq").send("queue:leeds", b"well")
    forest.settle(1.0)
    assert b"well" in reader.payloads, reader.payloads
    hq.crash()
    hq.boot()


def play_switch(data: bytes) -> None:
    """A switch with one client that says anything, and one that is served all the same."""
    forest = Forest()
    site = forest.add("hq")
    connection = Connection(lambda frame: None, "stranger")
    try:
        for packet in said(data):
            site.core.switch.receive(connection, decode_client_packet(packet))
            site.run()
    except FrameError:
        pass
    site.core.switch.close(connection)
    forest.settle(1.0)
    other = Connection(lambda frame: None, "other")
    site.core.switch.receive(other, [Login(VERSION, "other")])
    reader = forest.consumer("hq", "queue:well")
    forest.producer("hq").send("queue:well", b"well")
    forest.settle(1.0)
    assert b"well" in reader.payloads, reader.payloads
    site.crash()
    site.boot()
