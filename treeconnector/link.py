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
from typing import Any, Final

from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError, InvalidName, LocalError, SequenceError
from treeconnector import address_frames, frames, hellos
from treeconnector.frames import Advice, Frame, Member, Whereabouts
from treeconnector.identity import BUNDLE_ID_BYTES
from treeconnector.incoming import declined_keys, destination_text
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
    Proven,
    SnapshotEnded,
    SnapshotStarted,
    Throttled,
    VolatileArrived,
)
from treeconnector.link_handshake import Handshake
from treeconnector.link_machine import UNPACKED_AS_A_FRAME
from treeconnector.link_settings import LinkSettings, Standing, checked_name, clean
from treeconnector.link_states import State
from treeconnector.outgoing import Snapshot
from treeconnector.permits import Grant, pack, pieces

MAX_AUTHORITIES: Final = 24 * 1024
_DIGEST: Final = 16
_DIGEST_BACK: Final = 20
_MAX_WHICH: Final = bundles.MAX_MESSAGES // 8
_MAX_DIGEST_BACK: Final = _DIGEST_BACK + _MAX_WHICH

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
    "Proven",
    "SnapshotEnded",
    "SnapshotStarted",
    "Standing",
    "State",
    "Throttled",
    "VolatileArrived",
]


class Link(Handshake):
    """One end of a link. `chain`: names from this node up to the root, this one first. `nonce`: 16 to 64
    random bytes, for this link alone. Raises `LocalError` if the peer could not accept such a hello.

    `dials`: this is the child. `peer`: the peer's hello, once it is known; believe it from `Proven` or
    `LinkUp` on. `end_text`: why it ended, `end_error`: what was wrong, if anything. `throttled_until`: read
    nothing before. `heard_at`: time of the last packet. `bytes_in`, `bytes_out`: of all packets so far.
    """

    # --- frames while up, and the two that end it

    def _on_volatile(self, frame: frames.Volatile, events: list[Event]) -> None:
        events.append(self._in.volatile(frame))
        self._charge(events[-1])

    def _on_part(self, frame: frames.Part, events: list[Event]) -> None:
        whole = self._in.part(frame)
        if whole is not None:
            events.append(whole)
            self._charge(whole)

    def _charge(self, arrived: Event) -> None:
        assert isinstance(arrived, BundleArrived | VolatileArrived)
        self._control_frames += arrived.header.size // UNPACKED_AS_A_FRAME

    def _on_ack(self, frame: frames.Ack, events: list[Event]) -> None:
        if self._out.acknowledged(frame.received):
            self._control_frames -= 1
            events.append(Acked(frame.received))

    def _on_ping(self, frame: frames.Ping, events: list[Event]) -> None:
        self._out.pong(frame.number)

    def _on_pong(self, frame: frames.Pong, events: list[Event]) -> None:
        if not 0 < frame.number <= self._pings:
            raise SequenceError(f"a Pong for ping {frame.number}: expected one of 1 to {self._pings}")

    def _on_advise(self, frame: frames.Advise, events: list[Event]) -> None:
        self._control_frames += len(frame.advices)  # each may cost what a frame does
        events.append(self._in.advise(frame))

    def _on_snapshot_begin(self, frame: frames.SnapshotBegin, events: list[Event]) -> None:
        events.append(self._in.snapshot_begin(frame))

    def _on_snapshot_end(self, frame: frames.SnapshotEnd, events: list[Event]) -> None:
        events.append(self._in.snapshot_end(frame))

    def _on_hold(self, frame: frames.Hold, events: list[Event]) -> None:
        events.append(PeerHolds(destination_text(frame.destination)))

    def _on_release(self, frame: frames.Release, events: list[Event]) -> None:
        events.append(PeerReleases(destination_text(frame.destination)))

    def _on_chain(self, frame: frames.Chain, events: list[Event]) -> None:
        try:
            hellos.check_chain(frame.chain, self.peer_name)
            hellos.check_above(frame.above)
        except InvalidName as error:
            raise FrameError(f"a chain: {error}") from None
        events.append(ChainChanged(frame.chain, frame.above))

    def _on_moved(self, frame: frames.Moved, events: list[Event]) -> None:
        events.append(PeerMoved(checked_name(frame.name)))

    def _on_conflict(self, frame: frames.Conflict, events: list[Event]) -> None:
        events.append(PeerConflict(checked_name(frame.name), clean(frame.text)))

    def _on_declined(self, frame: frames.Declined, events: list[Event]) -> None:
        events.append(PeerDeclined(declined_keys(frame), clean(frame.text)))

    def _on_who_has(self, frame: frames.WhoHas, events: list[Event]) -> None:
        events.append(PeerAsks(address_frames.checked_keys(frame.keys)))

    def _on_i_have(self, frame: frames.IHave, events: list[Event]) -> None:
        events.append(PeerHas(address_frames.checked_found(frame.found)))

    def _on_invalidate(self, frame: frames.Invalidate, events: list[Event]) -> None:
        events.append(PeerInvalidates(address_frames.checked_incarnations(frame.incarnations)))

    def _on_nobody(self, frame: frames.Nobody, events: list[Event]) -> None:
        events.append(PeerKnowsNobody(address_frames.checked_keys(frame.keys), clean(frame.text)))

    def _on_mesh(self, frame: frames.Mesh, events: list[Event]) -> None:
        hellos.check_mesh(frame.members, self.peer_name)
        hellos.check_mesh([Member(name, []) for name in frame.left], self.peer_name)
        events.append(MeshChanged(frame.members, frame.left))

    def _on_authorities(self, frame: frames.Authorities, events: list[Event]) -> None:
        if len(frame.certificates) > MAX_AUTHORITIES:
            raise FrameError(f"authorities of more than {MAX_AUTHORITIES} bytes")
        events.append(PeerAuthorities(frame.certificates))

    def _on_given(self, frame: frames.Given, events: list[Event]) -> None:
        sizes = {(len(bundle), len(digest)) for bundle, digest in frame.bundles}
        sound = sizes <= {(BUNDLE_ID_BYTES, 0), (BUNDLE_ID_BYTES, _DIGEST)}
        sound = sound and all(_DIGEST_BACK <= len(each) <= _MAX_DIGEST_BACK for each in frame.back)
        sound = sound and all(len(each) <= _MAX_WHICH for each in frame.which)
        if not sound or len(frame.bundles) > frames.MAX_GIVEN_IN_FRAME:
            raise FrameError("bundles that were given: expected ids and digests of 16 bytes, 500 at most")
        back, which = iter(frame.back), iter(frame.which)
        given = [
            (bundle, digest, next(which, b"")) if digest else (bundle, next(back, b""), b"")
            for bundle, digest in frame.bundles
        ]
        events.append(PeerGave(given, frame.known))

    def _on_granted(self, frame: frames.Granted, events: list[Event]) -> None:
        rules = self._in.granted(frame)
        if rules is not None:
            events.append(PeerGrants(rules))

    def _on_unknown(self, frame: frames.Unknown, events: list[Event]) -> None:
        """An optional frame of a later version."""

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

    def send_given(self, given: Sequence[tuple[bytes, bytes, bytes]], *, known: bool = False) -> None:
        """To a node of our mesh: at most 500 bundles that children may give back (16 bytes), or have (20
        to 52); of the first a bit for each message that they may, or nothing for all. `known`: it is no news,
        and told since the link is new.
        """
        if self._require(frames.Given):
            plain = [(bundle, mark if len(mark) == _DIGEST else b"") for bundle, mark, _ in given]
            back = [mark for _, mark, _ in given if len(mark) >= _DIGEST_BACK]
            which = [which for _, mark, which in given if len(mark) == _DIGEST]
            self._out.control(frames.Given(plain, known, back, which))

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

    def _after_routes(self, make: Callable[[Any], Frame], items: Sequence[Any]) -> None:
        for encoded in address_frames.split(make, items, self._limit):
            self._out.after_routes(encoded)

    def grant(self, grants: Sequence[Grant]) -> None:
        """Parent only. All that limits what the peer may do; none at all: nothing does."""
        if self._require(frames.Granted):
            for data, more in pieces(pack(grants), self._out.max_frame):
                self._out.control(frames.Granted(data, more))

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
    frames.Advise: Link._on_advise,
    frames.SnapshotBegin: Link._on_snapshot_begin,
    frames.SnapshotEnd: Link._on_snapshot_end,
    frames.Part: Link._on_part,
    frames.Volatile: Link._on_volatile,
    frames.Ack: Link._on_ack,
    frames.Hold: Link._on_hold,
    frames.Release: Link._on_release,
    frames.Chain: Link._on_chain,
    frames.Moved: Link._on_moved,
    frames.Declined: Link._on_declined,
    frames.Conflict: Link._on_conflict,
    frames.WhoHas: Link._on_who_has,
    frames.IHave: Link._on_i_have,
    frames.Invalidate: Link._on_invalidate,
    frames.Nobody: Link._on_nobody,
    frames.Mesh: Link._on_mesh,
    frames.Authorities: Link._on_authorities,
    frames.Given: Link._on_given,
    frames.Granted: Link._on_granted,
    frames.Unknown: Link._on_unknown,
}
