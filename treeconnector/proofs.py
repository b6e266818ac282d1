"""How two neighbours prove that they know the link's secret, without sending it.

Law: a proof is HMAC-SHA256 over the prover's side and the exact bytes of the packets that carried both
hellos. The hellos hold a nonce of each side, so a proof is good for one handshake; the side's label makes a
child's proof useless as a parent's, so a proof cannot be reflected. All comparisons take constant time.

Wrinkle: the same bytes also make the handshake's `session`, see `positions`.
"""

import hashlib
import hmac
from enum import Enum
from typing import NamedTuple


class Prover(bytes, Enum):
    """Which side a proof is from; its label stands before the hellos."""

    CHILD = b"sapwood link 1: the child proves\0"
    PARENT = b"sapwood link 1: the parent proves\0"


class Transcript(NamedTuple):
    """The packets with both hellos, byte for byte."""

    child: bytes
    parent: bytes

    @property
    def digest(self) -> bytes:
        length = len(self.child).to_bytes(8, "big")
        return hashlib.sha256(length + self.child + self.parent).digest()

    @property
    def session(self) -> int:
        """1 to 2^62, the same at both ends; never seen before if either nonce is fresh."""
        digest = hashlib.sha256(b"sapwood session" + self.digest).digest()
        return (int.from_bytes(digest[:8], "big") >> 2) or 1


def make(secret: bytes | None, prover: Prover, transcript: Transcript) -> bytes:
    """The proof to send; empty where there is no secret."""
    if secret is None:
        return b""
    return hmac.digest(secret, prover.value + transcript.digest, "sha256")


def fault(secret: bytes | None, proof: bytes, prover: Prover, transcript: Transcript) -> str:
    """What is wrong with the peer's proof: '' if nothing, else a phrase with the peer as its subject."""
    if secret is None:
        return "proves a secret, and none is configured for it here" if proof else ""
    if not proof:
        return "proves no secret, and one is required of it here"
    if hmac.compare_digest(make(secret, prover, transcript), proof):
        return ""
    return "does not have the secret that is configured for it here"
