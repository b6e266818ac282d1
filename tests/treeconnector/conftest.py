"""Two ends of a link, joined by memory: time is a number, the line is a list, and the node says yes."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sapwood.protocol import packets
from sapwood.protocol.bundles import Header, encode_header
from sapwood.protocol.destinations import queue
from treeconnector import frames
from treeconnector.frames import Position
from treeconnector.identity import Identity
from treeconnector.link import Event, Link, LinkSettings, Standing
from treeconnector.link_events import LinkEnded, LinkUp, PeerHello, Proven

SETTINGS = LinkSettings(
    max_frame=64 * 1024,
    max_message=1024 * 1024,
    window_bundles=8,
    window_bytes=512 * 1024,
    keep_alive=10,
    dead_after=5,
    handshake_timeout=20,
    max_frames_per_second=1000,
)
NOWHERE = Standing(Position(), 0, b"")


def identity(name: str, role: str, tree: str = "acme") -> Identity:
    number = sum(name.encode())
    return Identity(tree, name, role, bytes([number % 251] * 16), 1, bytes([number % 241] * 16))


def new_link(
    name: str, role: str, *, dials: bool, settings: LinkSettings = SETTINGS, tree: str = "acme", **more: Any
) -> Link:
    more = {"chain": [name], "nonce": (b"c" if dials else b"p") * 16, **more}
    return Link(identity(name, role, tree), settings, dials=dials, now=0.0, **more)


def header(size: int = 10, name: str = "till") -> bytes:
    return encode_header(Header(id=b"\x07" * 16, destination=queue(name), size=size))


@dataclass
class LinkPair:
    """`events` holds what each end has said, `line` what each end has sent, packet by packet."""

    child: Link = field(default_factory=lambda: new_link("store-1", "leaf", dials=True))
    parent: Link = field(default_factory=lambda: new_link("hq", "root", dials=False))
    now: float = 0.0
    child_secret: bytes | None = b"secret"
    parent_secret: bytes | None = b"secret"
    child_standing: Standing = NOWHERE
    parent_standing: Standing = NOWHERE
    deciding: bool = True
    events: dict[str, list[Event]] = field(default_factory=lambda: {"child": [], "parent": []})
    line: dict[str, list[bytes]] = field(default_factory=lambda: {"child": [], "parent": []})

    def up(self) -> "LinkPair":
        """Run the handshake; both ends must come up."""
        self.pump()
        assert self.child.is_up, self.events
        assert self.parent.is_up, self.events
        return self

    def pump(self, budget: int = 256 * 1024) -> None:
        """Carry packets until neither end has anything to say."""
        while self.step("child", budget) or self.step("parent", budget):
            pass

    def step(self, sender: str, budget: int = 256 * 1024) -> bool:
        """Carry what one end has to say now."""
        source, target = (self.child, "parent") if sender == "child" else (self.parent, "child")
        packets = source.data_to_send(budget)
        self.line[sender] += packets
        for packet in packets:
            self.deliver(target, packet)
        return bool(packets)

    def deliver(self, target: str, packet: bytes) -> list[Event]:
        link = self.child if target == "child" else self.parent
        return self.note(target, link.receive(packet, self.now))

    def send(self, target: str, *said: frames.Frame) -> list[Event]:
        """Deliver handmade frames in one packet; returns what the target says."""
        return self.deliver(target, packets.packet([frames.encode(each) for each in said]))

    def note(self, target: str, events: list[Event]) -> list[Event]:
        self.events[target] += events
        if self.deciding:
            for event in events:
                self._decide(target, event)
        return events

    def _decide(self, target: str, event: Event) -> None:
        if isinstance(event, PeerHello) and target == "child":
            self.child.accept(self.child_secret, self.child_standing)
        elif isinstance(event, PeerHello):
            self.parent.accept(self.parent_secret)
        elif isinstance(event, Proven):
            self.note("parent", self.parent.admit(self.parent_standing))

    def tick(self, now: float) -> None:
        """Move the clock of both ends, and let their timers run."""
        self.now = now
        self.note("child", self.child.handle_timer(now))
        self.note("parent", self.parent.handle_timer(now))

    def said(self, who: str, kind: type[Event]) -> list[Any]:
        return [event for event in self.events[who] if type(event) is kind]

    def ended(self, who: str) -> LinkEnded:
        """The one `LinkEnded` of an end; it came last."""
        found = self.said(who, LinkEnded)
        assert len(found) == 1, self.events[who]
        assert self.events[who][-1] is found[0]
        return found[0]

    def resumption(self, who: str) -> Any:
        return self.said(who, LinkUp)[0].resumption


@dataclass
class Harness:
    """What tests need to make links; handed out as one fixture, since test modules import nothing shared."""

    pair = LinkPair
    link = staticmethod(new_link)
    identity = staticmethod(identity)
    header = staticmethod(header)
    settings = SETTINGS
    nowhere = NOWHERE
    replace = staticmethod(replace)


@pytest.fixture(scope="session")
def links() -> Harness:
    return Harness()
