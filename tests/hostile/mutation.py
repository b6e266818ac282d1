"""Makes wrong inputs of right ones: bits, bytes and lengths, words and nesting, and fields of decoded values.

Law: the same seed gives the same inputs, on every machine.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from random import Random
from typing import Any, Final

import msgspec

MOST: Final = 64 * 1024
"""Bytes of an input, unless its parser takes fewer."""
NUMBERS: Final = (
    0,
    1,
    -1,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    2**31,
    2**32,
    2**53,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
)
BYTES: Final = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\r\n",
    b"\n",
    b" ",
    b":",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\x1b[2J",
)
TEXTS: Final = (
    *("", "a", "local", "#", "+/#", "a/+/#", "{name}", "%", "%00", "%zz", "..", "@", "a@b", "System@hq"),
    *("\x00", "\x1b[31m", "\ud800", "\u202e", "é" * 100, "x" * 300, "9" * 5000, "1e999", "-0", "NaN", "true"),
    *("queue:a", "topic:a/b", "domain:hq", "ws://h", "srv://h", "0" * 36, "/".join("a" * 40)),
)
VALUES: Final[tuple[Any, ...]] = (None, True, False, 0.5, 1e308, [], {}, b"", b"\x00" * 16, *NUMBERS[:12])
_SMALL: Final = 200

Spoil = Callable[[Random, bytes], bytes]


class Mutator:
    """`examples`: right inputs, of which larger ones are drawn more seldom: they take as much longer.

    `words`: of the format. `spoil`: knows the structure of an input.
    """

    def __init__(
        self,
        examples: Sequence[bytes],
        words: Sequence[bytes] = (),
        spoil: Spoil | None = None,
        most: int = MOST,
    ) -> None:
        self.examples: list[bytes] = []
        self._weights: list[float] = []
        self.learn(examples)
        self._words = (*words, *BYTES)
        self._spoil = spoil
        self._most = most

    def learn(self, examples: Iterable[bytes]) -> None:
        """Make inputs of these, too."""
        self.examples += examples
        self._weights = list(accumulate(1 / (_SMALL + len(example)) for example in self.examples))

    def next(self, random: Random) -> bytes:
        """A wrong input; seldom a right one."""
        return self.spoilt(random, random.choices(self.examples, cum_weights=self._weights)[0])

    def spoilt(self, random: Random, data: bytes) -> bytes:
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            if self._spoil is not None and random.random() < 0.6:
                data = self._spoil(random, data)
            else:
                data = self._one(random, data)
            data = data[: self._most]
        return data

    def _one(self, random: Random, data: bytes) -> bytes:
        """One change of bytes."""
        at = random.randint(0, len(data))
        end = min(len(data), at + random.choice((1, 1, 2, 4, 8, 64, 1000)))
        match random.randrange(9):
            case 0:
                return data[:at] + bytes([random.randrange(256)]) + data[end:]
            case 1 if at < len(data):
                return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            case 2:
                return data[:at] + data[end:]
            case 3:
                return data[:at] + data[at:end] * random.choice((2, 2, 3, 50)) + data[end:]
            case 4:
                return data[:at] + random.choice(self._words) * random.choice((1, 1, 1, 2, 300)) + data[at:]
            case 5:
                other = random.choice(self.examples)
                return data[:at] + other[random.randint(0, len(other)) :]
            case 6:
                return data[:at]
            case 7:
                return data[:at] + random.choice(self._words) + data[end:]
            case _:
                number = random.choice(NUMBERS) % 2 ** (8 * (size := random.choice((1, 2, 4, 8))))
                return data[:at] + number.to_bytes(size, random.choice(("big", "little"))) + data[at + size :]


# --- what knows a structure


def packed(random: Random, data: bytes) -> bytes:
    """MessagePack with another value somewhere; as it is, if it is none."""
    try:
        return msgspec.msgpack.encode(altered(random, msgspec.msgpack.decode(data)))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError):
        return data + b"\xc0"


def json_text(random: Random, data: bytes) -> bytes:
    """JSON with another value somewhere; as it is, if it is none."""
    try:
        return json.dumps(altered(random, json.loads(data)), default=repr).encode()
    except (ValueError, TypeError, RecursionError):
        return data + b"]"


def behind(size: int, spoil: Spoil) -> Spoil:
    """For what begins with `size` bytes that stay as they are."""
    return lambda random, data: data[:size] + spoil(random, data[size:])


def altered(random: Random, value: Any) -> Any:
    """The same value but for one place in it."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        match random.randrange(8):
            case 0:
                return {other: value[other] for other in value if other != key}
            case 1:
                return value | {random.choice(TEXTS): value[key]}
            case _:
                return value | {key: altered(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.9:
        at = random.randrange(len(value))
        match random.randrange(8):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return (
                    value[:at]
                    + [value[at]] * random.choice((2, 3, 600 if len(value) < 20 else 4))
                    + value[at + 1 :]
                )
            case 2:
                return [*value, random.choice(value)]
            case _:
                return [*value[:at], altered(random, value[at]), *value[at + 1 :]]
    return _other(random, value)


def _other(random: Random, value: Any) -> Any:
    """Something else in place of a whole value."""
    if isinstance(value, bool) or random.random() < 0.15:
        return nested(random) if random.random() < 0.1 else random.choice((*VALUES, *TEXTS))
    if isinstance(value, int):
        return random.choice((*NUMBERS, value + 1, value - 1, value * 2))
    if isinstance(value, str):
        return random.choice((*TEXTS, value + random.choice(TEXTS), value[: len(value) // 2], value * 3))
    if isinstance(value, bytes):
        return random.choice(
            (b"", value[:-1], value + b"\x00", bytes(len(value)), value * 2, random.randbytes(16))
        )
    return random.choice((*VALUES, *TEXTS))


def nested(random: Random) -> Any:
    """A value in very many others."""
    made: Any = 1
    for _ in range(random.choice((10, 40, 900))):
        made = [made] if random.random() < 0.5 else {"a": made}
    return made
