"""Every link's state, time and end. `link` has what changes with frames, and what the node says."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

import msgspec

from sapwood.protocol import bundles
from sapwood.protocol.errors import FrameError, LinkRefused, LocalError, Refusal, RemoteError, SequenceError
from sapwood.protocol.packets import MOMENT
from sapwood.protocol.packets import packet as joined_packet
from sapwood.protocol.packets import pieces as pieces_of
from treeconnector import frames, hellos
from treeconnector.frame_events import event_of
from treeconnector.frames import Frame, Hello, Member
from treeconnector.identity import Identity
from treeconnector.incoming import Incoming, decode_packet
from treeconnector.link_events import (
    Advised,
    BundleArrived,
    Event,
    LinkEnded,
    PeerAsksInterest,
    Throttled,
    VolatileArrived,
)
from treeconnector.link_handshake import Handshake
from treeconnector.link_settings import LinkSettings, clean, hello_of
from treeconnector.link_states import RECEIVABLE_BY_CHILD, RECEIVABLE_BY_PARENT, State
from treeconnector.outgoing import Outgoing
from treeconnector.pacing import KeepAlive, Pace
from treeconnector.streams import PIECE, Streams

Handler = Callable[[Any, Any, list[Event]], None]
_BUNDLES: Final = frozenset((frames.Bundle, frames.Part, frames.Volatile))
_UNPACKED_AS_A_FRAME: Final = 16 * 1024
"""A bundle that is unpacked much larger than it comes costs as frames do that are read as slowly."""
_PULL: Final = 256 * 1024


class LinkMachine:
    """A link without its frames: see `link.Link`, which is what there is to use. `hello`: our own."""

    _handlers: ClassVar[dict[type[msgspec.Struct], Handler]] = {}

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
        mesh: Sequence[Member] = (),
        above: Sequence[str] = (),
        nonce: bytes,
        reads: int = bundles.VERSION,
    ) -> None:
        self.identity = identity
        self.dials = dials
        self.peer: Hello | None = None
        self.version = 0
        self.end_text = ""
        self.end_error: RemoteError | LinkRefused | None = None
        self.throttled_until = 0.0
        self.heard_at = now
        self.bytes_in = self.bytes_out = 0
        self._settings = settings
        self.hello = hello_of(identity, settings, chain, addresses, zone, mesh, above, nonce, reads)
        self._handshake = Handshake(self.hello, dials=dials)
        self._state = State.GREETING
        self._table = RECEIVABLE_BY_CHILD if dials else RECEIVABLE_BY_PARENT
        self._legal = self._table[State.GREETING]
        self._limit = hellos.MAX_HELLO
        self._handshake_ends = now + settings.handshake_timeout
        self._keep_alive = KeepAlive(settings.keep_alive, settings.dead_after, now)
        self._was_heard = False
        self._pace = Pace(settings.max_frames_per_second, now)
        self._pings = 0
        self._control_frames = 0
        self._out = Outgoing(settings.max_frame)
        self.streams = Streams(settings.streams, settings.pool, dials=dials)
        self._in = Incoming(0, settings.max_message, settings.window_bundles, settings.window_bytes)
        if dials:
            self._out.control(self.hello)

    @property
    def has_secret(self) -> bool:
        """Do both ends prove a secret to each other?"""
        return self._handshake.secret is not None

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
    def refusal(self) -> Refusal | None:
        """Why one of the two refused it, if one has."""
        return self.end_error.reason if isinstance(self.end_error, LinkRefused) else None

    @property
    def peer_name(self) -> str:
        return self.peer.name if self.peer else "?"

    def both_know(self, word: str) -> bool:
        """Have both ends said in their hellos that they understand these optional frames?"""
        return self.peer is not None and word in self.peer.knows and word in self.hello.knows

    @property
    def control_bytes(self) -> int:
        """Bytes of control frames that have not left yet; whoever drives the link bounds them."""
        return self._out.control_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait to be pulled, nearly: 0 exactly when there are none."""
        return self._out.buffered_bytes

    def when_there_is_output(self, call: Callable[[], object]) -> None:
        """Call it whenever there may be something to pull; cheap, and often."""
        self._out.wake = call

    @property
    def largest_bundle(self) -> int:
        """Largest header + body that the peer takes, bytes; 0 before its hello."""
        return self.peer.max_message if self.peer else 0

    def next_deadline(self) -> float | None:
        """When `handle_timer` has something to do, if nothing happens before."""
        if self._state is State.ENDED:
            return None
        return self._alive().deadline if self._state is State.UP else self._handshake_ends

    # --- bytes and time

    def pieces(self, packet: bytes) -> Iterable[bytes]:
        """A packet as what may be received one after the other in its place, each of it in a moment."""
        if len(packet) <= MOMENT or len(packet) > self._limit:
            return (packet,)  # small; or too large, which `receive` says
        return pieces_of(packet)

    def receive(self, packet: bytes, now: float) -> list[Event]:
        """Take one packet from the carrier. Never raises: what is wrong with it ends the link."""
        events: list[Event] = []
        if self._state is State.ENDED:
            return events
        self.heard_at = now
        self._was_heard = True
        self.bytes_in += len(packet)
        try:
            self._take(packet, events)
        except RemoteError as error:
            self._broken(error, events)
        if self.streams.open and self.streams.has_news:
            self._out.wake()
        if self._control_frames:
            self._slow_down(now, events)
        return events

    def _take(self, packet: bytes, events: list[Event]) -> None:
        found = decode_packet(packet, self._limit)
        if not found:
            raise FrameError("a packet without frames")
        if self._state is State.GREETING:
            if len(found) > 1:
                raise FrameError(f"a packet of {len(found)} frames: expected a Hello, alone")
            self._handshake.peer_packet = packet
        for frame in found:
            kind = type(frame)
            then = self._legal.get(kind)
            if then is None:
                if self._state is State.ENDED:
                    return
                raise SequenceError(self._illegal(kind))
            if isinstance(frame, frames.Bundle):
                arrived = self._in.bundle(frame)
                self._control_frames += arrived.header.size // _UNPACKED_AS_A_FRAME
                events.append(arrived)
                continue
            if kind not in _BUNDLES and not self.streams.moves_much(frame):
                self._control_frames += 1
            if then is not self._state:
                self._enter(then)
            if kind in self._handlers:
                self._handlers[kind](self, frame, events)
            elif (event := event_of(frame, self._in, self.streams, self.peer_name)) is not None:
                self._charge(event)
                events.append(event)

    def _charge(self, event: Event) -> None:
        """Some events cost what several frames do."""
        if isinstance(event, Advised):
            self._control_frames += len(event.advices)
        elif isinstance(event, PeerAsksInterest):
            self._control_frames += len(event.topics) + len(event.ended)
        elif isinstance(event, BundleArrived | VolatileArrived):
            self._control_frames += event.header.size // _UNPACKED_AS_A_FRAME

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
            self._alive().heard(until)
            events.append(Throttled(until))

    def handle_timer(self, now: float) -> list[Event]:
        """To be called at `next_deadline()`; at any other time it does nothing."""
        events: list[Event] = []
        if self._state is State.UP:
            if self._alive().is_dead(now):
                silence = now - self.heard_at
                text = f"{self.peer_name} has been silent for {silence:.1f} s and does not answer"
                self._end(RemoteError(text), text, events)
            elif self._alive().must_ask(now):
                self.probe(now)
        elif self._state is not State.ENDED and now >= self._handshake_ends:
            events += self.refuse(Refusal.BUSY, self._too_late())
        return events

    def _too_late(self) -> str:
        ours = self._state in (State.CHOOSING, State.ADMITTING)
        who = f"{self.identity.name} has not decided" if ours else f"waiting for {self.peer_name}"
        return f"no handshake within {self._settings.handshake_timeout:g} s: {who} while {self._state}"

    def _alive(self) -> KeepAlive:
        """The keep-alive, as the packets have it that have come since it was asked last."""
        if self._was_heard:
            self._was_heard = False
            self._keep_alive.heard(self.heard_at)
        return self._keep_alive

    def not_heard(self, until: float) -> None:
        """Nothing was read here until then: that was no silence of the peer's."""
        self._alive().heard(until)

    def probe(self, now: float) -> None:
        """Ask now whether the peer is alive: `heard_at` will tell."""
        if self._state is State.UP:
            self._pings += 1
            self._out.control(frames.Ping(self._pings))
            self._alive().asked(now)

    def data_to_send(self, budget: int = _PULL) -> list[bytes]:
        """Packets for the carrier, of about `budget` bytes together; [] if there is nothing to send."""
        for frame in self.streams.credits():
            self._out.control(frame)
        packets = self._out.pull(budget)
        self.bytes_out += sum(map(len, packets))
        return packets

    def streams_to_send(self, most: int = PIECE) -> list[bytes]:
        """One packet of streams' bytes, or []. Caller's duty: `data_to_send` gives nothing, and all that it
        gave has left, so that nothing waits for more than this packet.
        """
        found = self.streams.pull(self._room(most)) if self._state is State.UP else []
        if not found:
            return found
        joined = joined_packet(found)
        self.bytes_out += len(joined)
        return [joined]

    def _room(self, most: int) -> int:
        """Where the carrier takes smaller packets there are never more than `PIECE`."""
        return most if self._out.max_frame >= frames.DEFAULT_MAX_FRAME else min(most, PIECE)

    def transport_closed(self, text: str = "the transport closed") -> list[Event]:
        """The carrier has gone, whoever closed it."""
        events: list[Event] = []
        if self._state is not State.ENDED:
            self._out.close(None, keep_control=False)
            self._finish(None, text, events, by_peer=True)
        return events

    def _require(self, kind: type[Frame]) -> bool:
        """May this end send such a frame now? False: the link has ended and it does not matter."""
        if self._state is State.ENDED:
            return False
        theirs = RECEIVABLE_BY_PARENT if self.dials else RECEIVABLE_BY_CHILD
        if self._state is not State.UP or kind not in theirs[State.UP]:
            raise LocalError(f"cannot send a {kind.__name__} frame: {self!r}")
        return True

    # --- the end

    def _finish(
        self, error: RemoteError | LinkRefused | None, text: str, events: list[Event], *, by_peer: bool
    ) -> None:
        self._enter(State.ENDED)
        self.streams.forget()
        self._in.forget()  # whoever keeps an ended link, be it a cycle of references, keeps no megabytes
        self.end_text, self.end_error = text, error
        events.append(LinkEnded(error, text, by_peer))

    def _end(self, error: RemoteError | LinkRefused, text: str, events: list[Event]) -> None:
        """End it from this side, saying why."""
        reason = error.reason if isinstance(error, LinkRefused) else Refusal.PROTOCOL
        self._out.close(frames.Refuse(reason, text), keep_control=False)
        self._finish(error, text, events, by_peer=False)

    def _broken(self, error: RemoteError, events: list[Event]) -> None:
        """The peer broke the protocol."""
        if self._state is State.ENDED and events and isinstance(events[-1], LinkEnded):
            return
        text = clean(f"{self.peer_name if self.peer else 'the peer'} sent {error}")
        self._end(type(error)(text), text, events)

    def refuse(self, reason: Refusal, text: str) -> list[Event]:
        """Say no, at any time; the link ends."""
        events: list[Event] = []
        if self._state is not State.ENDED:
            text = clean(text)
            self._end(LinkRefused(reason, text), text, events)
        return events

    def pause(self, text: str = "") -> list[Event]:
        """This node stops for a while. Before the link is up, the peer is just told that we are busy."""
        if self._state in (State.UP, State.ENDED):
            return self._leave(frames.Pause(clean(text)), text)
        return self.refuse(Refusal.BUSY, text or f"{self.identity.name} stops")

    def goodbye(self, text: str = "") -> list[Event]:
        """This node leaves the tree, or the peer is to: routes are withdrawn. Only while the link is up."""
        if self._state is not State.ENDED:
            self._require(frames.Goodbye)
        return self._leave(frames.Goodbye(clean(text)), text)

    def _leave(self, frame: Frame, text: str) -> list[Event]:
        events: list[Event] = []
        if self._state is not State.ENDED:
            self._out.close(frame, keep_control=True)
            self._finish(None, text, events, by_peer=False)
        return events

    def _over(self, event: Event, text: str, events: list[Event]) -> None:
        self._out.close(None, keep_control=False)
        events.append(event)
        self._finish(None, text, events, by_peer=True)
