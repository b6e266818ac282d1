"""Passwords of accounts: hashed with scrypt, into one self-describing text, and compared with it.

    scrypt$16384$8$1$c2FsdA$aGFzaA      cost, block size, parallelism, salt and hash in base64

Law: a password stands in no file, no argument, no error and no log. What a hash asks for is bounded, so
that a file cannot make the node spend its memory or its time.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final, NamedTuple

from sapwood.protocol.errors import SapwoodError

_COST: Final = 2**14
_BLOCK: Final = 8
_LANES: Final = 1
_SALT: Final = 16
_BYTES: Final = 32
_LARGEST_COST: Final = 2**18
_MOST_MEMORY: Final = 256 * 1024 * 1024
SHORTEST: Final = 8
LONGEST: Final = 1024
"""Bytes of a password."""


class PasswordError(SapwoodError):
    """A text that is no hash of a password, or a password that cannot be hashed."""


class Hashed(NamedTuple):
    """A hash, read. Its own text is a secret: it is never shown."""

    cost: int
    block: int
    lanes: int
    salt: bytes
    digest: bytes

    def __repr__(self) -> str:
        return f"<Hashed with scrypt {self.cost}>"

    def is_of(self, password: str) -> bool:
        """Takes some hundredths of a second, in any thread."""
        given = password.encode(errors="replace")
        return len(given) <= LONGEST and hmac.compare_digest(_digest(given, self), self.digest)


def read(text: str, what: str) -> Hashed:
    """Raises `PasswordError`, which does not repeat the text: it may be the password itself."""
    try:
        word, cost, block, lanes, salt, digest = text.split("$")
        found = Hashed(int(cost), int(block), int(lanes), _unbase64(salt), _unbase64(digest))
    except ValueError:
        word, found = "", Hashed(0, 0, 0, b"", b"")
    power = found.cost > 1 and not found.cost & (found.cost - 1)
    memory = 128 * found.cost * found.block * max(found.lanes, 1)
    if (
        word != "scrypt"
        or not (power and found.cost <= _LARGEST_COST and found.block >= 1 and 1 <= found.lanes <= 16)
        or memory > _MOST_MEMORY
        or not (8 <= len(found.salt) <= 64 and 16 <= len(found.digest) <= 64)
    ):
        raise PasswordError(
            f"{what}: expected one line as `sapwood account hash` prints it, scrypt$…$…$…$…$…"
        )
    return found


def hashed(password: str) -> str:
    """The text that a node's file names. Raises `PasswordError`."""
    given = password.encode()
    if not SHORTEST <= len(given) <= LONGEST:
        raise PasswordError(f"a password of {len(given)} bytes: expected {SHORTEST} to {LONGEST}")
    made = Hashed(_COST, _BLOCK, _LANES, secrets.token_bytes(_SALT), bytes(_BYTES))
    return f"scrypt${_COST}${_BLOCK}${_LANES}${_base64(made.salt)}${_base64(_digest(given, made))}"


def of_nobody() -> Hashed:
    """What a password is compared with that is given for a name nobody has: it takes as long, and never
    fits.
    """
    return Hashed(_COST, _BLOCK, _LANES, secrets.token_bytes(_SALT), secrets.token_bytes(_BYTES))


def _digest(password: bytes, like: Hashed) -> bytes:
    return hashlib.scrypt(
        password,
        salt=like.salt,
        n=like.cost,
        r=like.block,
        p=like.lanes,
        maxmem=2 * _MOST_MEMORY,
        dklen=len(like.digest),
    )


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
