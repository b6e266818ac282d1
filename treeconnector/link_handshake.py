"""How a link comes up: hello, hello, proof, proof; and how it is refused on the way.

Law: the parent shows nothing of its state to a child that has not proved itself, so its standing is taken
only by `admit`. That is also the moment until which an older link of the same child may still commit.
"""

from typing import Final

from sapwood.protocol.errors import FrameError, LinkRefused, LocalError, Refusal
from treeconnector import frames, hellos, positions, proofs
from treeconnector.frames import Hello
from treeconnector.incoming import Incoming
from treeconnector.link_events import Event, LinkUp, PeerHello, Proven
from treeconnector.link_machine import LinkMachine
from treeconnector.link_settings import Standing, clean
from treeconnector.link_states import State

_MAX_DIGEST: Final = 64


class Handshake(LinkMachine):
    """A link that can come up: see `link.Link`."""

    def _on_hello(self, frame: Hello, events: list[Event]) -> None:
        hellos.check(frame)
        self.peer = frame
        objection = hellos.objection(self.hello, frame, dials=self.dials)
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
            self._out.raw(frames.encode(self.hello))

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
        """After `Proven`, at the parent: the link is up. Returns `LinkUp`."""
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
        self._was_heard = True
        events.append(LinkUp(self.peer, agreed, theirs.held_count, theirs.held_digest))

    def _on_refuse(self, frame: frames.Refuse, events: list[Event]) -> None:
        text = clean(frame.text)
        try:
            reason = Refusal(frame.reason)
        except ValueError:
            reason, text = Refusal.PROTOCOL, f"{text} ({clean(frame.reason)})"
        self._out.close(None, keep_control=False)
        self._finish(LinkRefused(reason, text), text, events, by_peer=True)
