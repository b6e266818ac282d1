"""How a joining node proves that it has the secret of its invitation, of which the parent keeps only a hash.

As in SCRAM (RFC 5802): what the parent keeps does not suffice to join, should its database be read, and what
is sent proves the secret for one certificate request only. A secret is 16 random bytes, so one round of
HMAC is enough.
"""

import hashlib
import hmac
from typing import Final

_CLIENT: Final = b"sapwood invitation"
_JOIN: Final = b"sapwood join 1\0"
_RENEW: Final = b"sapwood renew 1\0"
PROOF_BYTES: Final = 32


def stored_of(secret: bytes) -> bytes:
    """What the parent keeps of a secret."""
    return hashlib.sha256(_client_key(secret)).digest()


def prove(secret: bytes, invitation: bytes, request: bytes) -> bytes:
    """The proof for a certificate request (DER) under the invitation of that id."""
    key = _client_key(secret)
    return _xor(key, _bound(hashlib.sha256(key).digest(), invitation, request))


def is_proven(proof: bytes, stored: bytes, invitation: bytes, request: bytes) -> bool:
    """Whether a proof was made with the secret that `stored` is of, for this very request."""
    if len(proof) != PROOF_BYTES:
        return False
    key = _xor(proof, _bound(stored, invitation, request))
    return hmac.compare_digest(hashlib.sha256(key).digest(), stored)


def renewal_text(tree: str, name: str, request: bytes) -> bytes:
    """What a node signs with its present key to have a certificate for the key of a request (DER)."""
    return b"\0".join((_RENEW, tree.encode(), name.encode(), request))


def _client_key(secret: bytes) -> bytes:
    return hmac.digest(secret, _CLIENT, "sha256")


def _bound(stored: bytes, invitation: bytes, request: bytes) -> bytes:
    return hmac.digest(stored, _JOIN + invitation + hashlib.sha256(request).digest(), "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
