"""A link between a child, which dials, and its parent, which accepts: the protocol as a state machine.

It rides on any carrier. Packets and times go in (`receive`, `handle_timer`), packets and events come out
(`data_to_send`, the returned lists); the node decides (`accept`, `admit`, `refuse`). What is legal when
stands in `link_states`; `docs/link.md` tells the story.

Law: a link dies whole. `Ended` comes exactly once; afterwards everything is ignored, and `data_to_send`
gives the last words. What the peer does wrong ends the link with a `RemoteError` and tells the peer why;
what this node does wrong raises a `LocalError` and changes nothing.

Surprises: a hello travels alone in its packet, because the proofs cover that packet byte for byte. Nothing
is told about routes or numbers to a child that has not proved itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from treeconnector import bundles, frames, hellos, positions, proofs
from treeconnector.destinations import Destination
from treeconnector.errors import (
    FrameError,
    InvalidName,
    LinkRefused,
    LocalError,
    Refusal,
    RemoteError,
    SequenceError,
)
from treeconnector.frames import Advice, Frame, Hello, Position
from treeconnector.identity import Identity
from treeconnector.incoming import Incoming, declined_keys, destination_text
from treeconnector.link_events import (
    Acked,
    Advised,
    BundleArrived,
    ChainChanged,
    Ended,
    Event,
    PeerConflict,
    PeerDeclined,
    PeerHello,
    PeerHolds,
    PeerLeft,
    PeerMoved,
    PeerPaused,
    PeerReleases,
    Proven,
    SnapshotEnded,
    SnapshotStarted,
    Throttled,
    Up,
    VolatileArrived,
)
from treeconnector.link_states import RECEIVABLE_BY_CHILD, RECEIVABLE_BY_PARENT, State
from treeconnector.names import node_name
from treeconnector.outgoing import Outgoing, Snapshot
from treeconnector.pacing import KeepAlive, Pace

__all__ = [
    "Acked",
    "Advised",
    "BundleArrived",
    "ChainChanged",
    "Ended",
    "Event",
    "Link",
    "LinkSettings",
    "PeerConflict",
    "PeerDeclined",
    "PeerHello",
    "PeerHolds",
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
    "Up",
    "VolatileArrived",
]

MAX_TEXT: Final = 1000
_MAX_DIGEST: Final = 64
_BUNDLES: Final = frozenset((frames.Bundle, frames.Part, frames.Volatile))
_PULL: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Sizes in bytes, times in seconds. `window_*`: how much the peer may send unacknowledged.

    `keep_alive`: silence after which the peer is asked; `dead_after`: silence after that which ends the
    link. `max_frames_per_second`: of control frames; who sends more is read more slowly.
    """

    max_frame: int = frames.DEFAULT_MAX_FRAME
    max_message: int = 16 * 1024 * 1024
    window_bundles: int = 64
    window_bytes: int = 8 * 1024 * 1024
    keep_alive: float = 10.0
    dead_after: float = 10.0
    handshake_timeout: float = 10.0
    max_frames_per_second: float = 20_000


@dataclass(frozen=True, slots=True)
class Standing:
    """Where this node stands, as it is on disk: its position, and what it holds of the peer's offers."""

    position: Position
    held_count: int
    held_digest: bytes


class Link:
    """One end of a link. `chain`: names from this node up to the root, this one first. `nonce`: 16 to 64
    random bytes, for this link alone. Raises `LocalError` if the peer could not accept such a hello.

    `dials`: this is the child. `peer`: the peer's hello, once it is known; believe it from `Proven` or `Up`
    on. `end_text`: why it ended. `throttled_until`: read nothing before. `heard_at`: time of the last packet.
    """

    def __init__(
        self,
        identity: Identity,
        settings: LinkSettings,
        *,
        dials: bool,
        chain: Sequence[str],
        now: float,
        addresses: Sequence[str] = (),
        zone: str = "",
        nonce: bytes,
        reads: int = bundles.VERSION,
    ) -> None:
        self.identity = identity
        self.dials = dials
        self.peer: Hello | None = None
        self.version = 0
        self.end_text = ""
        self.throttled_until = 0.0
        self.heard_at = now
        self._settings = settings
        self._hello = _hello_of(identity, settings, chain, addresses, zone, nonce, reads)
        self._hello_packet = frames.packet([frames.encode(self._hello)])
        self._peer_packet = b""
        self._secret: bytes | None = None
        self._standing: Standing | None = None
        self._theirs: frames.Prove | None = None
        self._state = State.GREETING
        self._table = RECEIVABLE_BY_CHILD if dials else RECEIVABLE_BY_PARENT
        self._legal = self._table[State.GREETING]
        self._limit = hellos.MAX_HELLO
        self._handshake_ends = now + settings.handshake_timeout
        self._keep_alive = KeepAlive(settings.keep_alive, settings.dead_after, now)
        self._pace = Pace(settings.max_frames_per_second, now)
        self._pings = 0
        self._control_frames = 0
        self._out = Outgoing(settings.max_frame)
        self._in = Incoming(0, settings.max_message, settings.window_bundles, settings.window_bytes)
        if dials:
            self._out.control(self._hello)

    def __repr__(self) -> str:
        side = "child" if self.dials else "parent"
        return (
            f"<Link {self.identity.name} ({side}) - {self.peer_name} {self._state} sent={self._out.sent}"
            f" acked={self._out.acked} waiting={self._out.waiting} received={self._in.received}"
            f" acknowledged={self._in.acknowledged}>"
        )

    # --- what it is

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_up(self) -> bool:
        return self._state is State.UP

    @property
    def peer_name(self) -> str:
        return self.peer.name if self.peer else "?"

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait to be pulled, nearly: 0 exactly when there are none."""
        return self._out.buffered_bytes

    @property
    def largest_bundle(self) -> int:
        """Largest header + body that the peer takes, bytes; 0 before its hello."""
        return self.peer.max_message if self.peer else 0

    def next_deadline(self) -> float | None:
        """When `handle_timer` has something to do, if nothing happens before."""
        if self._state is State.ENDED:
            return None
        return self._keep_alive.deadline if self._state is State.UP else self._handshake_ends

    # --- bytes and time

    def receive(self, packet: bytes, now: float) -> list[Event]:
        """Take one packet from the carrier. Never raises: what is wrong with it ends the link."""
        events: list[Event] = []
        if self._state is State.ENDED:
            return events
        self.heard_at = now
        self._keep_alive.heard(now)
        try:
            self._take(packet, events)
        except RemoteError as error:
            self._broken(error, events)
        if self._control_frames:
            self._slow_down(now, events)
        return events

    def _take(self, packet: bytes, events: list[Event]) -> None:
        found = frames.decode_packet(packet, self._limit)
        if not found:
            raise FrameError("a packet without frames")
        if self._state is State.GREETING:
            if len(found) > 1:
                raise FrameError(f"a packet of {len(found)} frames: expected a Hello, alone")
            self._peer_packet = packet
        for frame in found:
            kind = type(frame)
            then = self._legal.get(kind)
            if then is None:
                if self._state is State.ENDED:
                    return
                raise SequenceError(self._illegal(kind))
            if kind not in _BUNDLES:
                self._control_frames += 1
            if then is not self._state:
                self._enter(then)
            _HANDLERS[kind](self, frame, events)

    def _illegal(self, kind: type[Any]) -> str:
        expected = ", ".join(sorted(each.__name__ for each in self._legal if each is not frames.Unknown))
        return f"a {kind.__name__} frame while {self._state}: expected {expected}"

    def _enter(self, state: State) -> None:
        self._state = state
        self._legal = self._table[state]

    def _slow_down(self, now: float, events: list[Event]) -> None:
        until = self._pace.charge(self._control_frames, now)
        self._control_frames = 0
        if until is not None and self._state is not State.ENDED:
            self.throttled_until = until
            self._keep_alive.heard(until)
            events.append(Throttled(until))

    def handle_timer(self, now: float) -> list[Event]:
        """To be called at `next_deadline()`; at any other time it does nothing."""
        events: list[Event] = []
        if self._state is State.UP:
            if self._keep_alive.is_dead(now):
                silence = now - self.heard_at
                text = f"{self.peer_name} has been silent for {silence:.1f} s and does not answer"
                self._end(RemoteError(text), text, events)
            elif self._keep_alive.must_ask(now):
                self.probe(now)
        elif self._state is not State.ENDED and now >= self._handshake_ends:
            events += self.refuse(Refusal.BUSY, self._too_late())
        return events

    def _too_late(self) -> str:
        ours = self._state in (State.CHOOSING, State.ADMITTING)
        who = f"{self.identity.name} has not decided" if ours else f"waiting for {self.peer_name}"
        return f"no handshake within {self._settings.handshake_timeout:g} s: {who} while {self._state}"

    def probe(self, now: float) -> None:
        """Ask now whether the peer is alive: `heard_at` will tell."""
        if self._state is State.UP:
            self._pings += 1
            self._out.control(frames.Ping(self._pings))
            self._keep_alive.asked(now)

    def data_to_send(self, budget: int = _PULL) -> list[bytes]:
        """Packets for the carrier, of about `budget` bytes together; [] if there is nothing to send."""
        return self._out.pull(budget)

    def transport_closed(self, text: str = "the transport closed") -> list[Event]:
        """The carrier has gone, whoever closed it."""
        events: list[Event] = []
        if self._state is not State.ENDED:
            self._out.close(None, keep_control=False)
            self._finish(None, text, events, by_peer=True)
        return events

    # --- the end

    def _finish(
        self, error: RemoteError | LinkRefused | None, text: str, events: list[Event], *, by_peer: bool
    ) -> None:
        self._enter(State.ENDED)
        self.end_text = text
        events.append(Ended(error, text, by_peer))

    def _end(self, error: RemoteError | LinkRefused, text: str, events: list[Event]) -> None:
        """End it from this side, saying why."""
        reason = error.reason if isinstance(error, LinkRefused) else Refusal.PROTOCOL
        self._out.close(frames.Refuse(reason, text), keep_control=False)
        self._finish(error, text, events, by_peer=False)

    def _broken(self, error: RemoteError, events: list[Event]) -> None:
        """The peer broke the protocol."""
        if self._state is State.ENDED and events and isinstance(events[-1], Ended):
            return
        text = _clean(f"{self.peer_name if self.peer else 'the peer'} sent {error}")
        self._end(type(error)(text), text, events)

    def refuse(self, reason: Refusal, text: str) -> list[Event]:
        """Say no, at any time; the link ends."""
        events: list[Event] = []
        if self._state is not State.ENDED:
            text = _clean(text)
            self._end(LinkRefused(reason, text), text, events)
        return events

    def pause(self, text: str = "") -> list[Event]:
        """This node stops for a while. Before the link is up, the peer is just told that we are busy."""
        if self._state in (State.UP, State.ENDED):
            return self._leave(frames.Pause(_clean(text)), text)
        return self.refuse(Refusal.BUSY, text or f"{self.identity.name} stops")

    def goodbye(self, text: str = "") -> list[Event]:
        """This node leaves the tree, or the peer is to: routes are withdrawn. Only while the link is up."""
        if self._state is not State.ENDED:
            self._require(frames.Goodbye)
        return self._leave(frames.Goodbye(_clean(text)), text)

    def _leave(self, frame: Frame, text: str) -> list[Event]:
        events: list[Event] = []
        if self._state is not State.ENDED:
            self._out.close(frame, keep_control=True)
            self._finish(None, text, events, by_peer=False)
        return events

    # --- the handshake

    def _on_hello(self, frame: Hello, events: list[Event]) -> None:
        hellos.check(frame)
        self.peer = frame
        objection = hellos.objection(self._hello, frame, dials=self.dials)
        if objection:
            events += self.refuse(*objection)
            return
        self.version, self._limit = hellos.terms(self._hello, frame)
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
        if secret is not None and not secret:
            raise LocalError(
                f"the secret of the link to {self.peer_name} is empty: give None if there is none"
            )
        if (standing is not None) != self.dials:
            raise LocalError("the child gives its standing to accept, the parent to admit")
        self._secret = secret
        self._enter(State.PROVING)
        if standing is not None:
            self._standing = standing
            self._out.control(self._prove(standing))
        else:
            self._out.raw(frames.encode(self._hello))

    @property
    def _transcript(self) -> proofs.Transcript:
        mine, theirs = self._hello_packet, self._peer_packet
        return proofs.Transcript(mine, theirs) if self.dials else proofs.Transcript(theirs, mine)

    def _prove(self, standing: Standing) -> frames.Prove:
        prover = proofs.Prover.CHILD if self.dials else proofs.Prover.PARENT
        return frames.Prove(
            proof=proofs.make(self._secret, prover, self._transcript),
            position=standing.position,
            held_count=standing.held_count,
            held_digest=standing.held_digest,
        )

    def _on_prove(self, frame: frames.Prove, events: list[Event]) -> None:
        assert self.peer is not None
        prover = proofs.Prover.PARENT if self.dials else proofs.Prover.CHILD
        fault = proofs.fault(self._secret, frame.proof, prover, self._transcript)
        if fault:
            events += self.refuse(Refusal.SECRET, f"{self.peer.name} {fault}, at {self.identity.name}")
            return
        positions.check(frame.position)
        if not 0 <= frame.held_count < positions.MAX_NUMBER or len(frame.held_digest) > _MAX_DIGEST:
            raise FrameError(
                f"a proof that holds {frame.held_count} routes: expected 0 or more, and a digest"
            )
        self._theirs = frame
        if self.dials:
            assert self._standing is not None
            self._up(self._standing, events)
        else:
            events.append(Proven(self.peer))

    def admit(self, standing: Standing) -> list[Event]:
        """After `Proven`, at the parent: the link is up. Returns `Up`."""
        events: list[Event] = []
        if self._state is State.ENDED:
            return events
        if self._state is not State.ADMITTING:
            raise LocalError(f"cannot admit: {self!r}")
        self._out.control(self._prove(standing))
        self._enter(State.UP)
        self._up(standing, events)
        return events

    def _up(self, standing: Standing, events: list[Event]) -> None:
        assert self.peer is not None
        assert self._theirs is not None
        theirs, settings = self._theirs, self._settings
        agreed = positions.agree(standing.position, theirs.position, self._transcript.session)
        self._in = Incoming(
            agreed.position.received, settings.max_message, settings.window_bundles, settings.window_bytes
        )
        self._out.open_window(agreed.peer_received, self.peer.window_bundles, self.peer.window_bytes)
        self._keep_alive.heard(self.heard_at)
        events.append(Up(self.peer, agreed, theirs.held_count, theirs.held_digest))

    # --- frames while up, and the two that end it

    def _on_bundle(self, frame: frames.Bundle, events: list[Event]) -> None:
        events.append(self._in.bundle(frame))

    def _on_volatile(self, frame: frames.Volatile, events: list[Event]) -> None:
        events.append(self._in.volatile(frame))

    def _on_part(self, frame: frames.Part, events: list[Event]) -> None:
        whole = self._in.part(frame)
        if whole is not None:
            events.append(whole)

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
        except InvalidName as error:
            raise FrameError(f"a chain: {error}") from None
        events.append(ChainChanged(frame.chain))

    def _on_moved(self, frame: frames.Moved, events: list[Event]) -> None:
        events.append(PeerMoved(_name(frame.name)))

    def _on_conflict(self, frame: frames.Conflict, events: list[Event]) -> None:
        events.append(PeerConflict(_name(frame.name), _clean(frame.text)))

    def _on_declined(self, frame: frames.Declined, events: list[Event]) -> None:
        events.append(PeerDeclined(declined_keys(frame), _clean(frame.text)))

    def _on_unknown(self, frame: frames.Unknown, events: list[Event]) -> None:
        """An optional frame of a later version."""

    def _on_pause(self, frame: frames.Pause, events: list[Event]) -> None:
        text = _clean(frame.text)
        self._over(PeerPaused(text), f"{self.peer_name} pauses: {text}", events)

    def _on_goodbye(self, frame: frames.Goodbye, events: list[Event]) -> None:
        text = _clean(frame.text)
        self._over(PeerLeft(text), f"{self.peer_name} says goodbye: {text}", events)

    def _over(self, event: Event, text: str, events: list[Event]) -> None:
        self._out.close(None, keep_control=False)
        events.append(event)
        self._finish(None, text, events, by_peer=True)

    def _on_refuse(self, frame: frames.Refuse, events: list[Event]) -> None:
        text = _clean(frame.text)
        try:
            reason = Refusal(frame.reason)
        except ValueError:
            reason, text = Refusal.PROTOCOL, f"{text} ({_clean(frame.reason)})"
        self._out.close(None, keep_control=False)
        self._finish(LinkRefused(reason, text), text, events, by_peer=True)

    # --- what the node says while the link is up

    def _require(self, kind: type[Frame]) -> bool:
        """May this end send such a frame now? False: the link has ended and it does not matter."""
        if self._state is State.ENDED:
            return False
        theirs = RECEIVABLE_BY_PARENT if self.dials else RECEIVABLE_BY_CHILD
        if self._state is not State.UP or kind not in theirs[State.UP]:
            raise LocalError(f"cannot send a {kind.__name__} frame: {self!r}")
        return True

    def advise(self, advices: Sequence[Advice]) -> None:
        """Tell the peer. During a snapshot it is held, the last word on each key, until the end of it."""
        if self._require(frames.Advise):
            self._out.advise(advices)

    def snapshot(self, advices: Sequence[Advice], digest: bytes) -> None:
        """Tell the peer all that we offer: one consistent cut, not changed afterwards, and its digest."""
        if self._require(frames.SnapshotBegin):
            self._out.snapshot(Snapshot(advices, digest))

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

    def hold(self, destination: str) -> None:
        """Ask the peer to keep what is for `destination` (text; '' = everything)."""
        if self._require(frames.Hold):
            self._out.control(frames.Hold(destination))

    def release(self, destination: str) -> None:
        if self._require(frames.Release):
            self._out.control(frames.Release(destination))

    def send_chain(self, chain: Sequence[str]) -> None:
        """Parent only. Names from this node up to the root, this one first."""
        if self._require(frames.Chain):
            self._out.control(frames.Chain(list(chain)))

    def moved(self, name: str) -> None:
        """Parent only. `name`, which is below the peer, is live elsewhere."""
        if self._require(frames.Moved):
            self._out.control(frames.Moved(name))

    def conflict(self, name: str, text: str) -> None:
        """Parent only. `name` is live from two children; the later link to it is to be refused."""
        if self._require(frames.Conflict):
            self._out.control(frames.Conflict(name, _clean(text)))

    def decline(self, keys: Sequence[Destination], text: str) -> None:
        """These advices are over a limit, or not the peer's to make."""
        if self._require(frames.Declined):
            self._out.decline(keys, _clean(text))


_HANDLERS: Final[dict[type[msgspec.Struct], Callable[[Link, Any, list[Event]], None]]] = {
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
    frames.Bundle: Link._on_bundle,
    frames.Part: Link._on_part,
    frames.Volatile: Link._on_volatile,
    frames.Ack: Link._on_ack,
    frames.Hold: Link._on_hold,
    frames.Release: Link._on_release,
    frames.Chain: Link._on_chain,
    frames.Moved: Link._on_moved,
    frames.Declined: Link._on_declined,
    frames.Conflict: Link._on_conflict,
    frames.Unknown: Link._on_unknown,
}


def _hello_of(
    identity: Identity,
    settings: LinkSettings,
    chain: Sequence[str],
    addresses: Sequence[str],
    zone: str,
    nonce: bytes,
    reads: int,
) -> Hello:
    """This end's hello. Raises `LocalError` if it is none that a peer would take."""
    hello = Hello(
        version=frames.VERSION,
        oldest=frames.OLDEST_VERSION,
        tree=identity.tree,
        name=identity.name,
        role=identity.role,
        store_id=identity.store_id,
        start=identity.start,
        incarnation=identity.incarnation,
        nonce=nonce,
        max_frame=settings.max_frame,
        max_message=settings.max_message,
        window_bundles=settings.window_bundles,
        window_bytes=settings.window_bytes,
        chain=list(chain),
        addresses=list(addresses),
        zone=zone,
        reads=reads,
    )
    try:
        hellos.check(hello)
    except FrameError as error:
        raise LocalError(f"a peer would refuse our hello: {error}") from None
    return hello


def _name(text: str) -> str:
    try:
        return node_name(text)
    except InvalidName as error:
        raise FrameError(f"a name that cannot be: {error}") from None


def _clean(text: str) -> str:
    """A text that may be logged and shown: cut, and without control characters."""
    return "".join(each if each.isprintable() else " " for each in text[:MAX_TEXT])
