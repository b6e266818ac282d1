"""Parts of a node that a stranger talks to for a while: a link, a core with two children, a message switch.

Each takes several packets, in MessagePack, or one. Whatever they say, the part goes on, and
what it keeps of them is bounded. A core and a switch go on from input to input: to make them costs a hundred
times as much as an input, and a fault may need several.
"""

import msgspec

from broker.core.sessions.sessions import Connection
from sapwood.protocol.errors import FrameError
from sapwood.protocol.session_frames import decode_client_packet
from simulation.forest import Forest
from treeconnector.frames import Position
from treeconnector.identity import Identity
from treeconnector.link import Link, LinkSettings, Standing
from treeconnector.link_events import LinkEnded, PeerHello, Proven

MIB = 1 << 20
OFTEN = 64
MANY = 512
_MOST_PACKETS = 10_000
_NOWHERE = Standing(Position(), 0, b"")
_SETTINGS = LinkSettings(max_message=MIB, window_bundles=8, window_bytes=MIB // 2)


def said(data: bytes) -> list[bytes]:
    try:
        return msgspec.msgpack.decode(data, type=list[bytes])[:_MOST_PACKETS]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return [data]


def _link(name: str, role: str, *, dials: bool) -> Link:
    identity = Identity("test", name, role, name.encode().ljust(16), 1, name.encode().ljust(16, b"i"))
    return Link(identity, _SETTINGS, dials=dials, chain=[name], now=0.0, nonce=name.encode().ljust(16, b"n"))


def _pair() -> tuple[Link, Link]:
    child, parent = _link("york", "leaf", dials=True), _link("hq", "root", dials=False)
    while not (child.is_up and parent.is_up):
        for source, target in ((child, parent), (parent, child)):
            for packet in source.data_to_send(MIB):
                for event in target.receive(packet, 0.0):
                    if isinstance(event, PeerHello):
                        target.accept(None, _NOWHERE) if target is child else target.accept(None)
                    elif isinstance(event, Proven):
                        target.admit(_NOWHERE)
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
        assert link.incoming.unfinished <= MIB


class World:
    """Something that is told one input after the other, as by a peer that goes on for hours.

    After `MANY` inputs, or a fault, a new one begins; in between it is looked at now and then. `said` is all
    that it was told since its begin: with it a fault comes again.
    """

    def __init__(self, many: int = MANY) -> None:
        self._many = many
        self._inputs = 0
        self.said: list[bytes] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} told {self._inputs} inputs>"

    def begin(self) -> None:
        """Made anew."""

    def hear(self, packet: bytes) -> None:
        """Be told one packet."""

    def check(self) -> None:
        """Raise AssertionError unless others are served all the same."""

    def end(self) -> None:
        """Stop, and start once more on what is on the disk."""

    def play(self, data: bytes) -> None:
        packets = said(data)
        try:
            self._play(packets)
        except BaseException:
            self._inputs = 0
            raise

    def alone(self, data: bytes) -> None:
        """One input to a new world, looked at after it, and stopped."""
        self._inputs = 0
        self.play(data)
        self._inputs = 0
        self.check()
        self.end()

    def _play(self, packets: list[bytes]) -> None:
        if not self._inputs:
            self.said = []
            self.begin()
        self._inputs += 1
        for packet in packets:
            self.said.append(packet)
            self.hear(packet)
        if self._inputs % OFTEN == 0:
            self.check()
        if self._inputs >= self._many:
            self._inputs = 0
            self.end()

    def history(self) -> bytes:
        return msgspec.msgpack.encode(self.said)


class CoreWorld(World):
    """HQ, to which york says anything; leeds must not notice, and gets what is sent to it."""

    def begin(self) -> None:
        self._forest = Forest()
        for name, parent in (("hq", ""), ("york", "hq"), ("leeds", "hq")):
            self._forest.add(name, parent)
        for name in ("york", "leeds"):
            self._forest.dial(name)
        self._forest.settle()
        self._reader = self._forest.consumer("leeds", "queue:leeds")
        self._producer = self._forest.producer("hq")
        self._forest.settle()
        self._sent = 0

    def hear(self, packet: bytes) -> None:
        wire = self._forest.wire_of("york")
        hq = self._forest["hq"]
        if wire is None or wire.up.target not in hq.core.links.peers:
            self._forest.reap()
            self._forest.dial("york")
            self._forest.settle()
            wire = self._forest.wire_of("york")
        if wire is not None and wire.up.target in hq.core.links.peers:
            hq.core.receive(wire.up.target, packet)
            hq.run()

    def check(self) -> None:
        self._forest.settle(1.0)
        leeds = self._forest.wire_of("leeds")
        assert leeds is not None, self._forest["leeds"].errors
        self._sent += 1
        self._producer.send("queue:leeds", b"well %d" % self._sent)
        self._forest.settle(1.0)
        assert b"well %d" % self._sent in self._reader.payloads, self._reader.payloads[-3:]

    def end(self) -> None:
        self.check()
        hq = self._forest["hq"]
        hq.crash()
        hq.boot()


class SwitchWorld(World):
    """A switch with clients that say anything, one after the other, and one that is served all the same."""

    def begin(self) -> None:
        self._forest = Forest()
        self._site = self._forest.add("hq")
        self._reader = self._forest.consumer("hq", "queue:well", "other")
        self._producer = self._forest.producer("hq", "another")
        self._forest.settle()
        self._connection = self._stranger()
        self._sent = 0

    def _stranger(self) -> Connection:
        return Connection(lambda frame: None, "stranger")

    def hear(self, packet: bytes) -> None:
        try:
            self._site.core.switch.receive(self._connection, decode_client_packet(packet))
            self._site.run()
        except FrameError:
            self._site.core.switch.close(self._connection)
            self._connection = self._stranger()

    def check(self) -> None:
        self._site.core.switch.close(self._connection)
        self._forest.settle(1.0)
        self._connection = self._stranger()
        self._sent += 1
        self._producer.send("queue:well", b"well %d" % self._sent)
        self._forest.settle(1.0)
        assert b"well %d" % self._sent in self._reader.payloads, self._reader.payloads[-3:]

    def end(self) -> None:
        self.check()
        self._site.crash()
        self._site.boot()


CORE = CoreWorld()
SWITCH = SwitchWorld()
