"""Messages of exactly 256 bytes that can be told apart, so that loss and duplication are seen.

Every payload carries its number in its first bytes, at a fixed place. JSON-like ones are a till's sales
lines, with the variety that such lines have; random ones cannot be compressed, as encrypted ones could not.
"""

import os
import random
from typing import Final

SIZE: Final = 256
DIGITS: Final = 9
_PREFIX: Final = b'{"sale":"'
_START: Final = len(_PREFIX)
_END: Final = _START + DIGITS
_STAMP_END: Final = _END + 16
_ARTICLES: Final = (
    "Milk 1 l", "Rye bread 750 g", "Free-range eggs 10", "Coffee beans 500 g", "Tomatoes on the vine",
    "Toothpaste mint", "Butter 250 g", "Orange juice 1.5 l", "Apples Elstar 2 kg", "Paper towels 4",
    "Dark chocolate 70 %", "Mineral water 6 x 1.5 l", "Basmati rice 1 kg", "Washing powder 2.7 kg",
)  # fmt: skip

_CARDS: Final = ("null", '"debit"', '"credit"', '"voucher"')
_NOTE: Final = "returned goods only with this receipt within fourteen days, thank you for your visit " * 2


def json_like(count: int, *, first: int = 0, seed: int = 7) -> list[bytes]:
    """`count` sales lines of 256 bytes, numbered from `first`."""
    chance = random.Random(seed)
    return [_sale(number, chance) for number in range(first, first + count)]


def _sale(number: int, chance: random.Random) -> bytes:
    cents = chance.randrange(49, 24_999)
    line = (
        f'{{"sale":"{number:0{DIGITS}d}","store":"store-{chance.randrange(2000):04d}",'
        f'"till":{chance.randrange(1, 9)},"at":"2026-03-{chance.randrange(1, 29):02d}T'
        f'{chance.randrange(7, 22):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}Z",'
        f'"ean":"{chance.randrange(10**12, 10**13)}","article":"{chance.choice(_ARTICLES)}",'
        f'"quantity":{chance.randrange(1, 13)},"price":{cents / 100:.2f},"currency":"EUR",'
        f'"vat":{chance.choice((0.07, 0.19))},"cashier":"c{chance.randrange(300):05d}",'
        f'"card":{chance.choice(_CARDS)},"note":"'
    )
    start = chance.randrange(len(_NOTE) // 2)
    return (line + _NOTE[start : start + SIZE - len(line) - 2] + '"}').encode()


def random_bytes(count: int, *, first: int = 0) -> list[bytes]:
    """`count` messages of 256 bytes, random but for their number."""
    room = SIZE - _END
    return [b"%s%09d%s" % (_PREFIX, number, os.urandom(room)) for number in range(first, first + count)]


def make(kind: str, count: int, *, first: int = 0) -> list[bytes]:
    """`kind`: 'json' or 'random'."""
    return json_like(count, first=first) if kind == "json" else random_bytes(count, first=first)


def numbers_of(payloads: list[bytes]) -> list[bytes]:
    """The number of each, still as digits: cheap enough for a consumer at full rate."""
    return [payload[_START:_END] for payload in payloads]


def stamped(payload: bytes, nanoseconds: int) -> bytes:
    """The payload with a time in it, for latencies; still 256 bytes."""
    return b"%s%016x%s" % (payload[:_END], nanoseconds, payload[_STAMP_END:])


def stamp_of(payload: bytes) -> int:
    """The time of `stamped`."""
    return int(payload[_END:_STAMP_END], 16)


def audit(seen: list[bytes], expected: int) -> dict[str, int]:
    """Of `expected` messages: how many never came, how many came again."""
    different = set(seen)
    return {
        "received": len(seen),
        "lost": expected - len(different),
        "duplicated": len(seen) - len(different),
    }
