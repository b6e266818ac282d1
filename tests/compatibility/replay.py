"""A site of a recorded conversation, played by the present core amid the bytes of its old neighbours.

All that arrived at the site then arrives again, in the same order and at the same times. The core draws other
random values, so an old neighbour's proof and the session numbers in it, which follow from both hellos, are
computed again, by the rule of the version that was recorded. An application acknowledges by present ids.
"""

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
from recording import LINKS, QUICK, Recording, bytes_of, say_last_words

from broker.core.sessions.sessions import Connection
from sapwood.protocol.session_frames import Acknowledge, decode_client_packet, encode_packet
from simulation.site import Site
from treeconnector.link import Link
from treeconnector.permits import Grant
from treeconnector.relations import Relation

HELLO, PROVE, POSITION, SESSION = 1, 2, 2, 4
DELIVER, FIRST, COUNT = 26, 3, 4
MESH_SECRET = b"what the nodes of a mesh prove to each other"
LABELS = b"sapwood link 1: the child proves\0", b"sapwood link 1: the parent proves\0"


def digest_of(child: bytes, parent: bytes) -> bytes:
    return hashlib.sha256(len(child).to_bytes(8, "big") + child + parent).digest()


def session_of(child: bytes, parent: bytes) -> int:
    digest = hashlib.sha256(b"sapwood session" + digest_of(child, parent)).digest()
    return (int.from_bytes(digest[:8], "big") >> 2) or 1


class Line:
    """A recorded connection of the site: both hellos as they were, and as they are now."""

    def __init__(self, child: str, parent: str, dials: bool) -> None:
        self.child, self.parent, self.dials = child, parent, dials
        self.link: Link | None = None
        self.then: list[bytes] = [b"", b""]
        self.now: list[bytes] = [b"", b""]
        self.said: list[bytes] = []
        self.recorded: list[bytes] = []

    @property
    def mine(self) -> int:
        """0 = the child, which dials."""
        return 0 if self.dials else 1


class Replay:
    """One site of a recording. `lines`: by number, with all that was said; `heard`: by client."""

    def __init__(self, recording: Recording, name: str) -> None:
        self.recording, self.name = recording, name
        self.now = 0.0
        self.lines: dict[int, Line] = {}
        self.connections: dict[int, Connection] = {}
        self.heard: dict[int, list[Any]] = defaultdict(list)
        self.heard_then: dict[int, list[Any]] = defaultdict(list)
        self.sessions: dict[int, int] = {0: 0}
        self.site: Site
        self._drawn: Iterator[bytes] = self._draws()

    # --- the site

    def _draws(self) -> Iterator[bytes]:
        """What the site drew then: the id of its store, and an incarnation at each start."""
        yield bytes_of(self.recording.sites[self.name]["store"])
        yield from (bytes_of(event[2]) for event in self.recording.events if event[:2] == ["boot", self.name])

    def _make(self) -> None:
        said = self.recording.sites[self.name]
        grants = said["grants"]

        def grant_of(child: str) -> Grant | None:
            return None if grants is None else Grant(self.name, child, *map(tuple, grants[child]))

        self.site = Site(
            self,
            self.name,
            said["parent"],
            said["role"],
            replace(QUICK, **said["settings"]),
            replace(LINKS, **said["links"]),
            mesh=said["mesh"],
            grant_of=grant_of,
            random_bytes=lambda count: next(self._drawn),
        )

    def crashed(self, site: Site) -> None:
        """Of `World`: the recording says which lines break."""

    # --- the events

    def run(self) -> None:
        for index, (kind, site, *details) in enumerate(self.recording.events):
            if kind == "time":
                self.now = details[0]
            elif kind == "dial":
                self._dial(*details)
            elif kind == "packet":
                self._packet(site, index, *details)
            elif site == self.name:
                getattr(self, f"_{kind}")(*details)
            self._pull()

    def _boot(self, _incarnation: str) -> None:
        if not hasattr(self, "site"):
            self._make()
        core = self.site.boot()
        core.admission.configure(lambda name, dials, certified, role: self.recording.secret)

    def _turn(self) -> None:
        self.site.run()

    def _tick(self) -> None:
        self.site.tick()

    def _crash(self) -> None:
        self.site.crash()
        for line in self.lines.values():
            line.link = None

    def _words(self, words: str) -> None:
        say_last_words(self.site, words)

    def _dial(self, number: int, child: str, parent: str, mesh: bool) -> None:
        if self.name not in (child, parent):
            return
        line = self.lines[number] = Line(child, parent, self.name == child)
        core = self.site.core
        relation = Relation.MESH if mesh else Relation.PARENT
        line.link = (
            core.link_maker.dial(name=parent, relation=relation) if line.dials else core.link_maker.accept()
        )

    def _lost(self, number: int) -> None:
        line = self.lines[number]
        if line.link is not None:
            self._pull()
            self.site.core.advance(self.site.now)
            self.site.core.lost(line.link, "the line was cut")
            line.link = None

    def _gone(self, number: int, data: str) -> None:
        """Said by the site, and lost on the line."""
        self.lines[number].recorded.append(bytes_of(data))

    def _packet(self, target: str, index: int, number: int, data: str) -> None:
        line, packet = self.lines.get(number), bytes_of(data)
        if line is None:
            return
        theirs = 1 - line.mine
        if target != self.name:
            line.recorded.append(packet)
            self._hello(line.then, line.mine, packet)
            return
        self._hello(line.then, theirs, packet)
        packet = self._fitting(line, packet, theirs)
        self._hello(line.now, theirs, packet)
        if line.link is not None and line.link in self.site.core.links.peers:
            self.site.core.advance(self.site.now)
            self.site.core.receive(line.link, packet)

    @staticmethod
    def _hello(hellos: list[bytes], side: int, packet: bytes) -> None:
        if not hellos[side]:
            hellos[side] = packet

    def _fitting(self, line: Line, packet: bytes, theirs: int) -> bytes:
        """The neighbour's packet, with the proof that it would make for the present core's hello."""
        said = msgspec.msgpack.decode(packet)
        if not any(frame[0] == PROVE for frame in said) or not all(line.now):
            return packet
        self.sessions[session_of(*line.then)] = session_of(*line.now)
        for frame in said:
            if frame[0] == PROVE:
                frame[1] = self._proof(line, frame[1], LABELS[theirs])
                frame[POSITION][SESSION] = self.sessions[frame[POSITION][SESSION]]
        return msgspec.msgpack.encode(said)

    def _proof(self, line: Line, then: bytes, label: bytes) -> bytes:
        if not then:
            return b""
        for secret in (self.recording.secret, MESH_SECRET):
            if secret and hmac.digest(secret, label + digest_of(*line.then), "sha256") == then:
                return hmac.digest(secret, label + digest_of(*line.now), "sha256")
        return then  # a wrong secret stays one

    def _pull(self) -> None:
        """Take what the present core says."""
        for line in self.lines.values():
            if line.link is not None and self.site.running:
                for packet in line.link.data_to_send(1 << 18):
                    self._hello(line.now, line.mine, packet)
                    line.said.append(packet)

    # --- applications

    def _open(self, number: int, name: str) -> None:
        heard = self.heard[number]
        self.connections[number] = Connection(lambda frame: heard.append(_plain(frame)), name)

    def _say(self, number: int, data: str) -> None:
        self.site.core.advance(self.site.now)
        said = decode_client_packet(bytes_of(data))
        frames = [
            self._acknowledged(number, each) if isinstance(each, Acknowledge) else each for each in said
        ]
        self.site.core.switch.receive(self.connections[number], frames)

    def _acknowledged(self, number: int, frame: Acknowledge) -> Acknowledge:
        """The same deliveries by their present transfer ids: those of several readers come in any order."""
        both = zip(self.heard_then[number], self.heard[number], strict=False)
        now = {
            then[FIRST] + place: now[FIRST] + place
            for then, now in both
            if then[0] == now[0] == DELIVER
            for place in range(then[COUNT])
        }
        return Acknowledge([(now.get(first, first), now.get(last, last)) for first, last in frame.ranges])

    def _heard(self, number: int, data: str) -> None:
        self.heard_then[number].append(msgspec.msgpack.decode(bytes_of(data))[0])

    def _close(self, number: int) -> None:
        self.site.core.advance(self.site.now)
        self.site.core.switch.close(self.connections[number])


def _plain(frame: Any) -> Any:
    return msgspec.msgpack.decode(encode_packet([frame]))[0]
