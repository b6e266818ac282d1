"""What one end of a link has told the other about routes, as counts and a digest that both can compare.

Law: the digest is the sum, modulo 2**128, of a 16-byte BLAKE2b of each offer, as 16 bytes big-endian;
nothing offered is 16 zero bytes. An offer is hashed as the text `kind:length:name:live:reads` (length of the
name in characters, live as 1 or 0): `queue:6:orders:1:0`. So it depends on no order, and an add or remove
changes it without looking at the rest. It covers what was *offered*: also what the receiver declined, and
without what the receiver makes of it (a link that is down makes routes dormant at its own end only).
It finds lost advisories, not attackers: a peer that wants to lie about its own offers can do so anyway.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from sapwood.protocol.destinations import Destination, Kind

DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * DIGEST_BYTES)


class OfferStanding(NamedTuple):
    """The state in which a key is offered. `reads`: as in `Advice`, 0 but for domain routes."""

    live: bool = True
    reads: int = 0


@lru_cache(maxsize=64)
def standing(live: bool, reads: int = 0) -> OfferStanding:
    """A shared `OfferStanding`: there are a handful of different ones, and one is kept for each offer."""
    return OfferStanding(live, reads)


@lru_cache(maxsize=4096)
def _number(kind: str, name: str, live: bool, reads: int) -> int:
    text = f"{kind}:{len(name)}:{name}:{live:d}:{reads}"
    return int.from_bytes(
        blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest(), "big"
    )


def digest_of(offers: Iterable[tuple[Destination, OfferStanding]]) -> bytes:
    """The digest of all these offers."""
    tally = Tally()
    for key, offered in offers:
        tally.add(key, offered)
    return tally.digest


class Tally:
    """Count and digest of a changing set of offers. `domains`: how many of them are domain routes."""

    __slots__ = ("_sum", "count", "domains")

    def __init__(self) -> None:
        self.count = 0
        self.domains = 0
        self._sum = 0

    def __repr__(self) -> str:
        return f"<Tally count={self.count} digest={self.digest.hex()}>"

    @property
    def digest(self) -> bytes:
        return (self._sum % _MODULUS).to_bytes(DIGEST_BYTES, "big")

    def add(self, key: Destination, offered: OfferStanding) -> None:
        self._change(key, offered, 1)

    def remove(self, key: Destination, offered: OfferStanding) -> None:
        """Caller's duty: exactly this was added."""
        self._change(key, offered, -1)

    def _change(self, key: Destination, offered: OfferStanding, sign: int) -> None:
        self.count += sign
        if key.kind == Kind.DOMAIN:
            self.domains += sign
        number = _number(key.kind, key.name, offered.live, offered.reads)
        self._sum = (self._sum + sign * number) % _MODULUS
