"""How a link comes up: hello, hello, proof, proof; and how it is refused on the way.

Law: the parent shows nothing of its state to a child that has not proved itself, so its standing is taken
only by `admit`. That is also the moment until which an older link of the same child may still commit.
"""

from typing import Final

from sapwood.protocol import packets
from sapwood.protocol.errors import FrameError, LocalError, Refusal
from treeconnector import frames, hellos, positions, proofs
from treeconnector.frames import Hello
from treeconnector.link_events import LinkUp
from treeconnector.link_settings import Standing, clean

_MAX_DIGEST: Final = 64


class Handshake:
    """All that the two ends of one link have shown each other, until it is up. `hello`: our own; `peer`: the
    other's, once it has come.

    `peer_packet`: the packet with the peer's hello. `secret`: of the link, None = none is
    required. `standing`: the child's own, which goes out with its proof.
    """

    __slots__ = ("_dials", "_packet", "_theirs", "hello", "peer", "peer_packet", "secret", "standing")

    def __init__(self, hello: Hello, *, dials: bool) -> None:
        self.hello = self.peer = hello
        self.peer_packet = b""
        self.secret: bytes | None = None
        self.standing: Standing | None = None
        self._dials = dials
        self._packet = packets.packet([frames.encode(hello)])
        self._theirs: frames.Prove | None = None

    def __repr__(self) -> str:
        return f"<Handshake of {self.hello.name} proved={self._theirs is not None}>"

    def objection(self, peer: Hello) -> tuple[Refusal, str] | None:
        """Why there can be no link with this peer. Raises `FrameError` for a hello that cannot be."""
        hellos.check(peer)
        self.peer = peer
        return hellos.objection(self.hello, peer, dials=self._dials)

    def accept(self, secret: bytes | None, standing: Standing | None, peer: str) -> None:
        """Let the peer prove itself. Raises `LocalError`."""
        if secret is not None and not secret:
            raise LocalError(f"the secret of the link to {peer} is empty: give None if there is none")
        if (standing is not None) != self._dials:
            raise LocalError("the child gives its standing to accept, the parent to admit")
        self.secret, self.standing = secret, standing

    @property
    def _transcript(self) -> proofs.Transcript:
        mine, theirs = self._packet, self.peer_packet
        return proofs.Transcript(mine, theirs) if self._dials else proofs.Transcript(theirs, mine)

    def proof(self, standing: Standing) -> frames.Prove:
        """Our own."""
        prover = proofs.Prover.CHILD if self._dials else proofs.Prover.PARENT
        return frames.Prove(
            proof=proofs.make(self.secret, prover, self._transcript),
            position=standing.position,
            held_count=standing.held_count,
            held_digest=standing.held_digest,
        )

    def fault(self, frame: frames.Prove) -> str:
        """Why the peer's proof is none, '' if it is one. Raises `FrameError` for nonsense beside it."""
        prover = proofs.Prover.PARENT if self._dials else proofs.Prover.CHILD
        fault = proofs.fault(self.secret, frame.proof, prover, self._transcript)
        if not fault:
            positions.check(frame.position)
            if not 0 <= frame.held_count < positions.MAX_NUMBER or len(frame.held_digest) > _MAX_DIGEST:
                raise FrameError(
                    f"a proof that holds {frame.held_count} routes: expected 0 or more, and a digest"
                )
            self._theirs = frame
        return fault

    def up(self, standing: Standing) -> LinkUp:
        """Both have proved themselves: where they go on."""
        assert self._theirs is not None
        agreed = positions.agree(standing.position, self._theirs.position, self._transcript.session)
        return LinkUp(self.peer, agreed, self._theirs.held_count, self._theirs.held_digest, self.hello)


def refusal_of(frame: frames.Refuse) -> tuple[Refusal, str]:
    """The peer's reason and text; a reason of a later version becomes part of the text."""
    text = clean(frame.text)
    try:
        return Refusal(frame.reason), text
    except ValueError:
        return Refusal.PROTOCOL, f"{text} ({clean(frame.reason)})"
