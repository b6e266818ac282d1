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

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

from sapwood.protocol import bundles
from sapwood.protocol.errors import FrameError, LinkRefused, LocalError, Refusal, RemoteError, SequenceError
from sapwood.protocol.packets import MOMENT, Bytes
from sapwood.protocol.packets import pieces as pieces_of
from treeconnector import frames, hellos
from treeconnector.frame_events import UNPACKED_AS_A_FRAME, cost_of, event_of
from treeconnector.frames import Frame, Hello, Member
from treeconnector.identity import Identity
from treeconnector.incoming import Incoming, decode_packet
from treeconnector.link_events import (
    Acked,
    Event,
    LinkEnded,
    PeerHello,
    PeerLeft,
    PeerPaused,
    Proven,
    Throttled,
)
from treeconnector.link_handshake import Handshake, refusal_of
from treeconnector.link_sender import LinkSender
from treeconnector.link_settings import LinkSettings, Standing, clean, hello_of
from treeconnector.link_states import Phase, State
from treeconnector.outgoing import Outgoing
from treeconnector.pacing import KeepAlive, Pace
from treeconnector.streams import PIECE, Streams

__all__ = ["UNKNOWN", "Event", "Link", "LinkSettings", "Standing", "State"]

_BUNDLES: Final = frozenset((frames.Bundle, frames.Part, frames.Volatile))
_PULL: Final = 256 * 1024
UNKNOWN: Final = "?"


class Link:
    """One end of a link. `chain`: names from this node up to the root, this one first. `nonce`: 16 to 64
    random bytes, for this link alone. Raises `LocalError` if the peer could not accept such a hello.

    `dials`: this is the child. `peer_name`: as its hello says, `UNKNOWN` before; believe it from `Proven` or
    `LinkUp` on. `both_know`: words for optional frames. `has_secret`: both ends prove one. `end_text`: why it
    ended, `end_error`: what was wrong, if anything. `throttled_until`: read nothing before. `heard_at`: time
    of the last packet. `bytes_in`, `bytes_out`: of all packets so far.
    """

    _handlers: ClassVar[dict[type[Any], Callable[[Any, Any, list[Event]], None]]] = {}

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
        self.peer_name = UNKNOWN
        self.has_secret = False
        self.end_text = ""
        self.end_error: RemoteError | LinkRefused | None = None
        self.throttled_until = 0.0
        self.heard_at = now
        self.bytes_in, self.bytes_out, self._settings = 0, 0, settings
        hello = hello_of(identity, settings, chain, addresses, zone, mesh, above, nonce, reads)
        self._handshake: Handshake | None = Handshake(hello, dials=dials)
        self.both_know: tuple[str, ...] = ()
        self._phase, self._limit = Phase(dials=dials), hellos.MAX_HELLO
        self._handshake_ends = now + settings.handshake_timeout
        self._keep_alive = KeepAlive(settings.keep_alive, settings.dead_after, now)
        self._was_heard = False
        self._pace = Pace(settings.max_frames_per_second, now)
        self._pings = self._control_frames = self.version = 0
        self._out = Outgoing(settings.max_frame)
        self.streams = Streams(settings.streams, settings.pool, dials=dials)
        self.say = LinkSender(self._phase, self._out, self.streams)
        self.incoming = Incoming(0, settings.max_message, settings.window_bundles, settings.window_bytes)
        if dials:
            self._out.control(hello)

    def __repr__(self) -> str:
        side = "child" if self.dials else "parent"
        return (
            f"<Link {self.identity.name} ({side}) - {self.peer_name} {self._phase.state}"
            f" sent={self._out.sent} acked={self._out.acked} waiting={self._out.waiting}"
            f" received={self.incoming.received} acknowledged={self.incoming.acknowledged}>"
        )

    # --- what it is

    @property
    def state(self) -> State:
        return self._phase.state

    @property
    def is_up(self) -> bool:
        return self._phase.state is State.UP

    @property
    def refusal(self) -> Refusal | None:
        """Why one of the two refused it, if one has."""
        return self.end_error.reason if isinstance(self.end_error, LinkRefused) else None

    @property
    def hello(self) -> Hello:
        """Our own. It is there until the link is up: nobody needs it afterwards."""
        return self._greeting.hello

    @property
    def _greeting(self) -> Handshake:
        assert self._handshake is not None, f"the handshake is over: {self!r}"
        return self._handshake

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

    def next_deadline(self) -> float | None:
        """When `handle_timer` has something to do, if nothing happens before."""
        if self._phase.state is State.ENDED:
            return None
        return self._alive().deadline if self._phase.state is State.UP else self._handshake_ends

    # --- how it comes up

    def _on_hello(self, frame: frames.Hello, events: list[Event]) -> None:
        greeting = self._greeting
        objection, self.peer_name = greeting.objection(frame), frame.name
        if objection:
            events += self.refuse(*objection)
            return
        self.version, self._limit = hellos.terms(greeting.hello, frame)
        self.both_know = hellos.both_know(greeting.hello, frame)
        self.say.agree(frame, self._limit)
        events.append(PeerHello(frame))

    def accept(self, secret: bytes | None, standing: Standing | None = None) -> None:
        """After `PeerHello`: let the peer prove itself. `secret`: of this link, None = none is required.

        `standing`: the child gives it here, since it goes out with its proof; the parent gives it to `admit`.
        """
        if self._phase.state is State.ENDED:
            return
        if self._phase.state is not State.CHOOSING:
            raise LocalError(f"cannot accept: {self!r}")
        self._greeting.accept(secret, standing, self.peer_name)
        self.has_secret = secret is not None
        self._phase.enter(State.PROVING)
        if standing is not None:
            self._out.control(self._greeting.proof(standing))
        else:
            self._out.raw(frames.encode(self.hello))

    def _on_prove(self, frame: frames.Prove, events: list[Event]) -> None:
        greeting = self._greeting
        if fault := greeting.fault(frame):
            events += self.refuse(Refusal.SECRET, f"{self.peer_name} {fault}, at {self.identity.name}")
        elif greeting.standing is not None:
            self._up(greeting.standing, events)
        else:
            events.append(Proven(greeting.peer))

    def admit(self, standing: Standing) -> list[Event]:
        """After `Proven`, at the parent: the link is up. Returns `LinkUp`."""
        events: list[Event] = []
        if self._phase.state is State.ENDED:
            return events
        if self._phase.state is not State.ADMITTING:
            raise LocalError(f"cannot admit: {self!r}")
        self._out.control(self._greeting.proof(standing))
        self._phase.enter(State.UP)
        self._up(standing, events)
        return events

    def _up(self, standing: Standing, events: list[Event]) -> None:
        up, own = self._greeting.up(standing), self._settings
        self._handshake = None
        received = up.resumption.position.received
        self.incoming = Incoming(received, own.max_message, own.window_bundles, own.window_bytes)
        self._out.open_window(up.resumption.peer_received, up.hello.window_bundles, up.hello.window_bytes)
        self.streams.peer_takes = up.hello.streams
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

    def acknowledge(self, received: int) -> None:
        """Everything up to `received` is committed here. May be called often: the last one is sent."""
        if self._phase.may_send(frames.Ack) and self.incoming.acknowledge(received):
            self._out.ack(received)

    @property
    def owes_much(self) -> bool:
        """Has the peer used a good part of its window, so that it should hear of it at once?"""
        return self.incoming.owes_much

    # --- bytes and time

    def pieces(self, packet: bytes) -> Iterable[bytes]:
        """A packet as what may be received one after the other in its place, each of it in a moment."""
        if len(packet) <= MOMENT or len(packet) > self._limit:
            return (packet,)  # small; or too large, which `receive` says
        return pieces_of(packet)

    def receive(self, packet: bytes, now: float) -> list[Event]:
        """Take one packet from the carrier. Never raises: what is wrong with it ends the link."""
        events: list[Event] = []
        if self._phase.state is State.ENDED:
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
        if self._phase.state is State.GREETING:
            if len(found) > 1:
                raise FrameError(f"a packet of {len(found)} frames: expected a Hello, alone")
            self._greeting.peer_packet = packet
        for frame in found:
            kind = type(frame)
            then = self._phase.legal.get(kind)
            if then is None:
                if self._phase.state is State.ENDED:
                    return
                raise SequenceError(self._phase.illegal(kind))
            if isinstance(frame, frames.Bundle):
                arrived = self.incoming.bundle(frame)
                self._control_frames += arrived.header.size // UNPACKED_AS_A_FRAME
                events.append(arrived)
                continue
            if kind not in _BUNDLES and not self.streams.moves_much(frame):
                self._control_frames += 1
            if then is not self._phase.state:
                self._phase.enter(then)
            if kind in self._handlers:
                self._handlers[kind](self, frame, events)
            elif (event := event_of(frame, self.incoming, self.streams, self.peer_name)) is not None:
                self._control_frames += cost_of(event)
                events.append(event)

    def _slow_down(self, now: float, events: list[Event]) -> None:
        until = self._pace.charge(self._control_frames, now)
        self._control_frames = 0
        if until is not None and self._phase.state is not State.ENDED:
            self.throttled_until = until
            self._alive().heard(until)
            events.append(Throttled(until))

    def handle_timer(self, now: float) -> list[Event]:
        """To be called at `next_deadline()`; at any other time it does nothing."""
        events: list[Event] = []
        if self._phase.state is State.UP:
            if self._alive().is_dead(now):
                silence = now - self.heard_at
                text = f"{self.peer_name} has been silent for {silence:.1f} s and does not answer"
                self._end(RemoteError(text), text, events)
            elif self._alive().must_ask(now):
                self.probe(now)
        elif self._phase.state is not State.ENDED and now >= self._handshake_ends:
            events += self.refuse(Refusal.BUSY, self._too_late())
        return events

    def _too_late(self) -> str:
        ours = self._phase.state in (State.CHOOSING, State.ADMITTING)
        who = f"{self.identity.name} has not decided" if ours else f"waiting for {self.peer_name}"
        return f"no handshake within {self._settings.handshake_timeout:g} s: {who} while {self._phase.state}"

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
        if self._phase.state is State.UP:
            self._pings += 1
            self._out.control(frames.Ping(self._pings))
            self._alive().asked(now)

    def data_to_send(self, budget: int = _PULL) -> list[bytes]:
        """Packets for the carrier, of about `budget` bytes together; [] if there is nothing to send."""
        for frame in self.streams.credits() if self.streams.open else ():
            self._out.control(frame)
        if packets := self._out.pull(budget):
            self.bytes_out += sum(map(len, packets))
        return packets

    def streams_to_send(self, most: int = PIECE) -> list[bytes]:
        """One packet of streams' bytes, or []. Caller's duty: `data_to_send` gives nothing, and all that it
        gave has left, so that nothing waits for more than this packet.
        """
        return [b"".join(parts)] if self.streams.open and (parts := self.streams_in_parts(most)) else []

    def streams_in_parts(self, most: int) -> list[Bytes]:
        """The same packet, as what is to be written of it."""
        parts = self.streams.packet(min(most, self._out.max_frame * 3 // 4)) if self.is_up else []
        self.bytes_out += sum(map(len, parts))
        return parts

    def transport_closed(self, text: str = "the transport closed") -> list[Event]:
        """The carrier has gone, whoever closed it."""
        events: list[Event] = []
        if self._phase.state is not State.ENDED:
            self._out.close(None, keep_control=False)
            self._finish(None, text, events, by_peer=True)
        return events

    # --- the end

    def _finish(
        self, error: RemoteError | LinkRefused | None, text: str, events: list[Event], *, by_peer: bool
    ) -> None:
        self._phase.enter(State.ENDED)
        self.streams.forget()
        self.incoming.forget()  # whoever keeps an ended link, be it a cycle of references, keeps no megabytes
        self.end_text, self.end_error = text, error
        events.append(LinkEnded(error, text, by_peer))

    def _end(self, error: RemoteError | LinkRefused, text: str, events: list[Event]) -> None:
        """End it from this side, saying why."""
        reason = error.reason if isinstance(error, LinkRefused) else Refusal.PROTOCOL
        self._out.close(frames.Refuse(reason, text), keep_control=False)
        self._finish(error, text, events, by_peer=False)

    def _broken(self, error: RemoteError, events: list[Event]) -> None:
        """The peer broke the protocol."""
        if self._phase.state is State.ENDED and events and isinstance(events[-1], LinkEnded):
            return
        text = clean(f"{'the peer' if self.peer_name == UNKNOWN else self.peer_name} sent {error}")
        self._end(type(error)(text), text, events)

    def refuse(self, reason: Refusal, text: str) -> list[Event]:
        """Say no, at any time; the link ends."""
        events: list[Event] = []
        if self._phase.state is not State.ENDED:
            text = clean(text)
            self._end(LinkRefused(reason, text), text, events)
        return events

    def pause(self, text: str = "") -> list[Event]:
        """This node stops for a while. Before the link is up, the peer is just told that we are busy."""
        if self._phase.state in (State.UP, State.ENDED):
            return self._leave(frames.Pause(clean(text)), text)
        return self.refuse(Refusal.BUSY, text or f"{self.identity.name} stops")

    def goodbye(self, text: str = "") -> list[Event]:
        """This node leaves the tree, or the peer is to: routes are withdrawn. Only while the link is up."""
        if self._phase.state is not State.ENDED:
            self._phase.may_send(frames.Goodbye)
        return self._leave(frames.Goodbye(clean(text)), text)

    def _leave(self, frame: Frame, text: str) -> list[Event]:
        events: list[Event] = []
        if self._phase.state is not State.ENDED:
            self._out.close(frame, keep_control=True)
            self._finish(None, text, events, by_peer=False)
        return events

    def _over(self, event: Event, text: str, events: list[Event]) -> None:
        self._out.close(None, keep_control=False)
        events.append(event)
        self._finish(None, text, events, by_peer=True)


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
