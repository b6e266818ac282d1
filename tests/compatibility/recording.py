"""Conversations between nodes, written down as they happen: who was told what, and what each answered.

A `Recorder` is a forest that keeps a list of events of all its sites: starts, lines, packets, all that
applications said and heard, commits and the time. `replay` gives one site of such a list to the present core:
all that its neighbours and applications said then, in that order. Of the neighbours only the bytes are there.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

import simulation.forest
from sapwood.protocol import session_frames
from simulation.clients import SimulatedClient
from simulation.forest import LINKS, QUICK, Forest
from simulation.site import Site
from simulation.wire import Way, Wire
from treeconnector.permits import Grant


def say_last_words(site: Site, words: str) -> None:
    core = site.core
    core.advance(site.now)
    for link in list(core.links.peers):
        core.admission.handle(link, link.pause("stops") if words == "pause" else link.goodbye("leaves"))


def text_of(data: bytes) -> str:
    return data.hex()


def bytes_of(text: str) -> bytes:
    return bytes.fromhex(text)


class RecordedWire(Wire):
    """A line that tells its recorder what arrives on it."""

    def __init__(self, child: Site, parent: Site, *, mesh: bool = False) -> None:
        super().__init__(child, parent, mesh=mesh)
        assert isinstance(child.world, Recorder)
        self.recorder = child.world
        self.number = self.recorder.dialled(child.name, parent.name, mesh)

    def deliver(self, way: Way, target: Site, count: int = 1 << 30) -> bool:
        moved = False
        while way.packets and count and target.running:
            self.recorder.note("packet", target.name, self.number, text_of(way.packets[0]))
            moved, count = super().deliver(way, target, 1), count - 1
        return moved


class RecordedSite(Site):
    """A site that tells its recorder what it does of itself."""

    def __init__(self, world: "Recorder", *arguments: Any, **options: Any) -> None:
        super().__init__(world, *arguments, **options)
        self.secret = world.secret.encode() or None
        grants = world.grants.get(self.name)
        if grants is not None:
            self.grant_of = lambda child: Grant(self.name, child, *map(tuple, grants[child]))

    def boot(self) -> Any:
        core = super().boot()
        core.admission.configure(lambda name, dials, certified, role: self.secret)
        self._note("boot", text_of(core.identity.incarnation))
        return core

    def run(self) -> bool:
        """A turn is noted also where nothing is committed: changes have their effect with it."""
        self._note("turn")
        return super().run()

    def tick(self) -> bool:
        self._note("tick")
        return super().tick()

    def crash(self) -> None:
        self._note("crash")
        super().crash()

    def _note(self, kind: str, *details: Any) -> None:
        assert isinstance(self.world, Recorder)
        self.world.note(kind, self.name, *details)


class Recorder(Forest):
    """A forest of which everything is written down. `secret`: of all links, '' = none."""

    def __init__(self, secret: str = "") -> None:
        super().__init__()
        self.secret = secret
        self.events: list[list[Any]] = []
        self.described: dict[str, dict[str, Any]] = {}
        self.grants: dict[str, dict[str, list[list[str]]]] = {}
        self._connections = 0
        self._wires = 0
        self._said_time = 0.0

    def note(self, kind: str, *details: Any) -> None:
        if self.now != self._said_time:
            self._said_time = self.now
            self.events.append(["time", "", self.now])
        self.events.append([kind, *details])

    def add(self, name: str, parent: str = "", role: str = "", **changes: Any) -> Site:
        """As of `Forest`. `grants`: for each child which patterns it may consume and which it may send."""
        grants = changes.pop("grants", None)
        if grants is not None:
            self.grants[name] = grants
        role = role or ("leaf" if parent else "root")
        mesh = list(changes.get("mesh", ()))
        links = asdict(changes["links"]) if "links" in changes else {}
        settings = {key: value for key, value in changes.items() if key not in ("mesh", "links")}
        ordinary, simulation.forest.Site = simulation.forest.Site, RecordedSite  # type: ignore[misc]
        try:
            site = super().add(name, parent, role, **changes)
        finally:
            simulation.forest.Site = ordinary  # type: ignore[misc]
        self.described[name] = {
            "parent": parent,
            "role": role,
            "mesh": mesh,
            "settings": settings,
            "links": links,
            "grants": grants,
            "store": text_of(site.disk.store_id),
        }
        return site

    def _dial(self, child: str, parent: str, *, mesh: bool) -> Wire | None:
        ordinary, simulation.forest.Wire = simulation.forest.Wire, RecordedWire  # type: ignore[misc]
        try:
            return super()._dial(child, parent, mesh=mesh)
        finally:
            simulation.forest.Wire = ordinary  # type: ignore[misc]

    def dialled(self, child: str, parent: str, mesh: bool) -> int:
        self._wires += 1
        self.note("dial", "", self._wires, child, parent, mesh)
        return self._wires

    def cut(self, wire: Wire, lost: Any = ("up", "down")) -> None:
        """Packets on their way arrive or not, and both ends notice: in the order of `Forest.cut`."""
        assert isinstance(wire, RecordedWire)
        for name, (source, _, way) in zip(("up", "down"), wire.sides(), strict=True):
            if name in lost:
                for packet in way.packets:
                    self.note("gone", source.name, wire.number, text_of(packet))
        ends = [(site.name, site.running) for site in (wire.child, wire.parent)]
        super().cut(wire, lost)
        for name, running in ends:
            if running:
                self.note("lost", name, wire.number)

    def last_words(self, name: str, words: str) -> None:
        """The node says `pause` or `goodbye` on all its links."""
        self.note("words", name, words)
        say_last_words(self[name], words)

    def _client(self, client: Any) -> Any:
        self._connections += 1
        number = self._connections
        say, arrived, disconnect = client.say, client.arrived, client.disconnect

        def said(*frames: Any) -> None:
            self.note("say", client.site.name, number, text_of(session_frames.encode_packet(frames)))
            say(*frames)

        def heard(frame: Any) -> None:
            self.note("heard", client.site.name, number, text_of(session_frames.encode_packet([frame])))
            arrived(frame)

        def closed() -> None:
            self.note("close", client.site.name, number)
            disconnect()

        client.say, client.arrived, client.disconnect = said, heard, closed
        self.note("open", client.site.name, number, client.name)
        made: SimulatedClient = super()._client(client)
        return made

    def write(self, file: Path) -> None:
        """As compressed lines of JSON, one an event: most of the bytes stand there several times."""
        head = json.dumps({"secret": self.secret, "sites": self.described})
        lines = [head, *(json.dumps(event) for event in self.events)]
        file.write_bytes(zstandard.compress("\n".join(lines).encode(), 19))


class Recording(NamedTuple):
    """What a file of `Recorder.write` holds."""

    secret: bytes | None
    sites: dict[str, dict[str, Any]]
    events: list[list[Any]]


def load(file: Path) -> Recording:
    head, *events = map(json.loads, zstandard.decompress(file.read_bytes()).splitlines())
    return Recording(head["secret"].encode() or None, head["sites"], events)


Play = Callable[[Recorder], None]
__all__ = ["LINKS", "QUICK", "Play", "Recorder", "Recording", "bytes_of", "load", "text_of"]
