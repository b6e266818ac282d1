"""A link between a child, which dials, and its parent, which accepts: the protocol as a state machine.

It rides on any carrier. Packets and times go in (`receive`, `handle_timer`), packets and events come out
(`data_to_send`, the returned lists); the node decides (`accept`, `admit`, `refuse`). What is legal when
stands in `link_states`; `docs/link.md` tells the story.

Law: a link dies whole. `LinkEnded` comes exactly once; afterwards everything is ignored, and `data_to_send`
gives the last words. What the peer does wrong ends the link with a `RemoteError` and tells the peer why;
what this node does wrong raises a `LocalError` and changes nothing.

Surprises: a hello travels alone in its packet, because the proofs cover that packet byte for byte. Nothing
is told about routes or numbers to a child that has not proved itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import LinkRefused, LocalError, Refusal, SequenceError
from treeconnector import address_frames, frames, hellos
from treeconnector.frame_events import DIGEST, DIGEST_BACK
from treeconnector.frames import Advice, Frame, Member, Whereabouts
from treeconnector.incoming import Incoming
from treeconnector.link_events import (
    Acked,
    Advised,
    BundleArrived,
    ChainChanged,
    Event,
    LinkEnded,
    LinkUp,
    MeshChanged,
    PeerAsks,
    PeerAsksInterest,
    PeerAuthorities,
    PeerConflict,
    PeerDeclined,
    PeerGave,
    PeerGrants,
    PeerHas,
    PeerHello,
    PeerHolds,
    PeerInvalidates,
    PeerKnowsNobody,
    PeerLeft,
    PeerMoved,
    PeerPaused,
    PeerReleases,
    PeerTellsInterest,
    Proven,
    SnapshotEnded,
    SnapshotStarted,
    Throttled,
    VolatileArrived,
)
from treeconnector.link_handshake import refusal_of
from treeconnector.link_machine import LinkMachine
from treeconnector.link_settings import LinkSettings, Standing, clean
from treeconnector.link_states import State
from treeconnector.outgoing import Snapshot
from treeconnector.permits import Grant, pack, pieces

__all__ = [
    "Acked",
    "Advised",
    "BundleArrived",
    "ChainChanged",
    "Event",
    "Link",
    "LinkEnded",
    "LinkSettings",
    "LinkUp",
    "MeshChanged",
    "PeerAsks",
    "PeerAsksInterest",
    "PeerAuthorities",
    "PeerConflict",
    "PeerDeclined",
    "PeerGave",
    "PeerGrants",
    "PeerHas",
    "PeerHello",
    "PeerHolds",
    "PeerInvalidates",
    "PeerKnowsNobody",
    "PeerLeft",
    "PeerMoved",
    "PeerPaused",
    "PeerReleases",
    "PeerTellsInterest",
    "Proven",
    "SnapshotEnded",
    "SnapshotStarted",
    "Standing",
    "State",
    "Throttled",
    "VolatileArrived",
]


class Link(LinkMachine):
    """One end of a link. `chain`: names from this node up to the root, this one first. `nonce`: 16 to 64
    random bytes, for this link alone. Raises `LocalError` if the peer could not accept such a hello.

    `dials`: this is the child. `peer`: the peer's hello, once it is known; believe it from `Proven` or
    `LinkUp` on. `end_text`: why it ended, `end_error`: what was wrong, if anything. `throttled_until`: read
    nothing before. `heard_at`: time of the last packet. `bytes_in`, `bytes_out`: of all packets so far.
    """

    # --- how it comes up

    def _on_hello(self, frame: frames.Hello, events: list[Event]) -> None:
        objection = self._handshake.objection(frame)
        self.peer = frame
        if objection:
            events += self.refuse(*objection)
            return
        self.version, self._limit = hellos.terms(self.hello, frame)
        self._out.max_frame = self._limit
        events.append(PeerHello(frame))

    def accept(self, secret: bytes | None, standing: Standing | None = None) -> None:
        """After `PeerHello`: let the peer prove itself. `secret`: of this link, None = none is required.

        `standing`: the child gives it here, since it goes out with its proof; the parent gives it to `admit`.
        """
        if self._state is State.ENDED:
            return
        if self._state is not State.CHOOSING:
            raise LocalError(f"cannot accept: {self!r}")
        self._handshake.accept(secret, standing, self.peer_name)
        self._enter(State.PROVING)
        if standing is not None:
            self._out.control(self._handshake.proof(standing))
        else:
            self._out.raw(frames.encode(self.hello))

    def _on_prove(self, frame: frames.Prove, events: list[Event]) -> None:
        assert self.peer is not None
        if fault := self._handshake.fault(frame):
            events += self.refuse(Refusal.SECRET, f"{self.peer.name} {fault}, at {self.identity.name}")
        elif self._handshake.standing is not None:
            self._up(self._handshake.standing, events)
        else:
            events.append(Proven(self.peer))

    def admit(self, standing: Standing) -> list[Event]:
        """After `Proven`, at the parent: the link is up. Returns `LinkUp`."""
        events: list[Event] = []
        if self._state is State.ENDED:
            return events
        if self._state is not State.ADMITTING:
            raise LocalError(f"cannot admit: {self!r}")
        self._out.control(self._handshake.proof(standing))
        self._enter(State.UP)
        self._up(standing, events)
        return events

    def _up(self, standing: Standing, events: list[Event]) -> None:
        assert self.peer is not None
        up, settings = self._handshake.up(standing, self.peer), self._settings
        self._in = Incoming(
            up.resumption.position.received,
            settings.max_message,
            settings.window_bundles,
            settings.window_bytes,
        )
        self._out.open_window(up.resumption.peer_received, self.peer.window_bundles, self.peer.window_bytes)
        self.streams.peer_takes = self.peer.streams
        self._was_heard = True
        events.append(up)

    # --- frames that are for the link itself

    def _on_refuse(self, frame: frames.Refuse, events: list[Event]) -> None:
        reason, text = refusal_of(frame)
        self._out.close(None, keep_control=False)
        self._finish(LinkRefused(reason, text), text, events, by_peer=True)

    def _on_ack(self, frame: frames.Ack, events: list[Event]) -> None:
        if self._out.acknowledged(frame.received):
            self._control_frames -= 1
            events.append(Acked(frame.received))

    def _on_ping(self, frame: frames.Ping, events: list[Event]) -> None:
        self._out.pong(frame.number)

    def _on_pong(self, frame: frames.Pong, events: list[Event]) -> None:
        if not 0 < frame.number <= self._pings:
            raise SequenceError(f"a Pong for ping {frame.number}: expected one of 1 to {self._pings}")

    def _on_pause(self, frame: frames.Pause, events: list[Event]) -> None:
        text = clean(frame.text)
        self._over(PeerPaused(text), f"{self.peer_name} pauses: {text}", events)

    def _on_goodbye(self, frame: frames.Goodbye, events: list[Event]) -> None:
        text = clean(frame.text)
        self._over(PeerLeft(text), f"{self.peer_name} says goodbye: {text}", events)

    # --- what the node says while the link is up

    def advise(self, advices: Sequence[Advice]) -> None:
        """Tell the peer. During a snapshot it is held, the last word on each key, until the end of it."""
        if self._require(frames.Advise):
            self._out.advise(advices)

    def snapshot(self, advices: Sequence[Advice], digest: bytes) -> None:
        """Tell the peer all that we offer: one consistent cut, not changed afterwards, and its digest."""
        if self._require(frames.SnapshotBegin):
            self._out.snapshot(Snapshot(advices, digest))

    @property
    def is_telling(self) -> bool:
        """Is a snapshot on its way to the peer?"""
        return self._out.telling

    def send_bundle(self, number: int, header: bytes, body: bytes) -> None:
        """Send a bundle that is on disk with its number. It waits here until the peer's window opens."""
        if self._state is not State.UP and not self._require(frames.Bundle):
            return
        self._check_size(header, body)
        self._out.bundle(number, header, body)

    def send_volatile(self, header: bytes, body: bytes) -> None:
        """Send a bundle that is neither stored nor numbered. Caller's duty: mind `buffered_bytes`."""
        if self._require(frames.Volatile):
            self._check_size(header, body)
            self._out.volatile(header, body)

    def _check_size(self, header: bytes, body: bytes) -> None:
        size = len(header) + len(body)
        if size > self.largest_bundle or not 0 < len(header) <= bundles.MAX_HEADER:
            raise LocalError(
                f"a bundle of {size} bytes with a header of {len(header)}: {self.peer_name} takes"
                f" {self.largest_bundle} and headers of {bundles.MAX_HEADER} at most"
            )

    def acknowledge(self, received: int) -> None:
        """Everything up to `received` is committed here. May be called often: the last one is sent."""
        if self._require(frames.Ack) and self._in.acknowledge(received):
            self._out.ack(received)

    @property
    def owes_much(self) -> bool:
        """Has the peer used a good part of its window, so that it should hear of it at once?"""
        return self._in.owes_much

    def hold(self, destination: str) -> None:
        """Ask the peer to keep what is for `destination` (text; '' = everything)."""
        if self._require(frames.Hold):
            self._out.control(frames.Hold(destination))

    def release(self, destination: str) -> None:
        if self._require(frames.Release):
            self._out.control(frames.Release(destination))

    def send_chain(self, chain: Sequence[str], above: Sequence[str] = ()) -> None:
        """Parent only. Names from this node up to the root, this one first; and who else is above it."""
        if self._require(frames.Chain):
            self._out.control(frames.Chain(list(chain), list(above)))

    def send_mesh(self, members: Sequence[Member], left: Sequence[str] = ()) -> None:
        """The other nodes of our mesh, as we know them now, and who has left it for good."""
        if self._require(frames.Mesh):
            self._out.control(frames.Mesh(list(members), list(left)))

    def send_authorities(self, certificates: bytes) -> None:
        """Parent only. Of the nodes of our mesh, in PEM; `MAX_AUTHORITIES` bytes at most."""
        if self._require(frames.Authorities):
            self._out.control(frames.Authorities(certificates))

    def send_given(self, given: Sequence[tuple[bytes, bytes, bytes, int]], *, known: bool = False) -> None:
        """To a node of our mesh: at most 500 bundles that children may give back (16 bytes), or have (20
        to 52); of the first a bit for each message that they may, or nothing for all, and the reroutes that
        the bundle had then. `known`: it is no news, and told since the link is new.
        """
        if self._require(frames.Given):
            plain = [(bundle, mark if len(mark) == DIGEST else b"") for bundle, mark, *_ in given]
            back = [mark for _, mark, *_ in given if len(mark) >= DIGEST_BACK]
            which = [which for _, mark, which, _ in given if len(mark) == DIGEST]
            since = [since for _, mark, _, since in given if len(mark) == DIGEST]
            self._out.control(frames.Given(plain, known, back, which, since))

    def moved(self, name: str) -> None:
        """Parent only. `name`, which is below the peer, is live elsewhere."""
        if self._require(frames.Moved):
            self._out.control(frames.Moved(name))

    def conflict(self, name: str, text: str) -> None:
        """Parent only. `name` is live from two children; the later link to it is to be refused."""
        if self._require(frames.Conflict):
            self._out.control(frames.Conflict(name, clean(text)))

    def who_has(self, keys: Sequence[str]) -> None:
        """Ask for names and incarnations, each as text; `PeerHas` and `PeerKnowsNobody` answer."""
        if self._require(frames.WhoHas):
            self._after_routes(frames.WhoHas, keys)

    def i_have(self, found: Sequence[Whereabouts]) -> None:
        """Tell where nodes are. Overtakes no advice: who learns of a node below us has its route already."""
        if self._require(frames.IHave):
            self._after_routes(frames.IHave, found)

    def invalidate(self, incarnations: Sequence[bytes]) -> None:
        """Take back what `i_have` said on this link of these."""
        if self._require(frames.Invalidate):
            self._after_routes(frames.Invalidate, incarnations)

    def nobody(self, keys: Sequence[str], text: str) -> None:
        """Answer that nobody has these."""
        if self._require(frames.Nobody):
            self._after_routes(lambda part: frames.Nobody(part, clean(text)), keys)

    def ask_interest(self, said: Sequence[tuple[str, bool]]) -> None:
        """Child only, of a parent that knows `INTEREST`: ask for a topic (True), or no more (False).

        `PeerTellsInterest` answers.
        """
        if self._require(frames.AskInterest):
            self._say_of_topics(frames.AskInterest, (True, False), said)

    def tell_interest(self, said: Sequence[tuple[str, bool | None]]) -> None:
        """Parent only, of topics that the child asks for: wanted, not wanted, or not known now (None)."""
        if self._require(frames.TellInterest):
            self._say_of_topics(frames.TellInterest, (True, False, None), said)

    def _say_of_topics(
        self, make: Callable[..., Frame], lists: tuple[bool | None, ...], said: Sequence[tuple[str, Any]]
    ) -> None:
        """As few frames as hold all of these: a list of topics for each of the words."""

        def frame(part: Sequence[tuple[str, Any]]) -> Frame:
            return make(*([topic for topic, word in part if word is each] for each in lists))

        for encoded in address_frames.split(frame, said, self._limit):
            self._out.raw(encoded)

    def _after_routes(self, make: Callable[[Any], Frame], items: Sequence[Any]) -> None:
        for encoded in address_frames.split(make, items, self._limit):
            self._out.after_routes(encoded)

    def grant(self, grants: Sequence[Grant]) -> None:
        """Parent only. All that limits what the peer may do; none at all: nothing does."""
        if self._require(frames.Granted):
            for data, more in pieces(pack(grants), self._out.max_frame):
                self._out.control(frames.Granted(data, more))

    # --- streams

    def open_stream(self, to: str, name: str, origin: str, channel: bytes, hops: int) -> int:
        """Ask for a stream to what node `to` offers as `name`. Returns its number; see `streams.Streams`.

        Caller's duty: `streams.has_room`.
        """
        number = self.streams.begin()
        self._out.control(frames.StreamOpen(number, to, name, origin, channel, hops))
        return number

    def accept_stream(self, number: int) -> None:
        """What the peer asked for is there."""
        if self.streams.accept(number):
            self._out.control(frames.StreamOpened(number))

    def send_stream(self, number: int, data: bytes) -> None:
        """Let these bytes follow, behind all else that the link has to say."""
        self.streams.send(number, data)
        self._out.wake()

    def finish_stream(self, number: int) -> None:
        """Nothing more follows on it; what the peer sends still comes."""
        self.streams.finish(number)
        self._out.wake()

    def reset_stream(self, number: int, reason: str, text: str) -> None:
        """It is over in both directions, whatever waits."""
        if self._state is State.UP and self.streams.remove(number):
            self._out.control(frames.StreamReset(number, reason, clean(text)))

    def stream_passed(self, number: int, size: int) -> None:
        """So many bytes that came have been passed on, and as many more may come."""
        self.streams.passed(number, size)
        self._out.wake()

    # --- what is not taken

    def decline(self, keys: Sequence[Destination], text: str) -> None:
        """These advices or bundles are over a limit, or not the peer's to make."""
        if self._require(frames.Declined):
            self._out.decline(keys, clean(text))


Link._handlers = {
    frames.Hello: Link._on_hello,
    frames.Prove: Link._on_prove,
    frames.Refuse: Link._on_refuse,
    frames.Pause: Link._on_pause,
    frames.Goodbye: Link._on_goodbye,
    frames.Ping: Link._on_ping,
    frames.Pong: Link._on_pong,
    frames.Ack: Link._on_ack,
}
