"""Whether the present core says to an old neighbour what the old one said: frame by frame, field by field.

A frame may have grown at its end, and optional frames may come besides. Nobody promises when something is
acknowledged, or how advices and large bundles are parted among frames: of these the sum counts. Random values
count as the same where they stand in the same places.
"""

from collections import defaultdict
from typing import Any

import msgspec

FIRST_OPTIONAL = 64
HELLO, PROVE, PING, PONG, ADVISE, BUNDLE, PART, VOLATILE, ACK, GIVEN = 1, 2, 6, 7, 8, 11, 12, 13, 14, 92
NONCE, PROOF, NUMBERS, DATA = 9, 1, 2, 5
NO_HEADER = [b""]
ID = 0


def frames_of(packets: list[bytes]) -> list[list[Any]]:
    return [frame for packet in packets for frame in msgspec.msgpack.decode(packet)]


class Drawn:
    """Names for what is drawn at random, by the order in which it appears."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._given: dict[bytes, int] = {}

    def name(self, value: bytes) -> str:
        return self._names.setdefault(value, f"drawn {len(self._names)}")

    def header(self, data: bytes) -> list[Any]:
        fields = msgspec.msgpack.decode(data[1:]) if data else []
        return [data[:1], *([self.name(fields[ID]), *fields[1:]] if fields else [])]

    def frame(self, frame: list[Any]) -> list[Any]:
        """A frame without what follows from the nonces of this run."""
        tag = frame[0]
        if tag == HELLO:
            return [*frame[:NONCE], "nonce", *frame[NONCE + 1 :]]
        if tag == PROVE:
            position = [*frame[NUMBERS][:4], *frame[NUMBERS][6:]]
            return [tag, bool(frame[PROOF]), position, *frame[NUMBERS + 1 :]]
        if tag == BUNDLE:
            return [tag, frame[1], self.header(frame[2]), *frame[3:]]
        if tag == PART:
            return [tag, frame[1], self.header(frame[2]), frame[DATA]]
        if tag == VOLATILE:
            return [tag, self.header(frame[1]), *frame[2:]]
        if tag == GIVEN:
            names = self._given  # an optional frame more takes no name from a bundle
            return [tag, [[names.setdefault(each, len(names)), bool(digest)] for each, digest in frame[1]]]
        return frame


def sorted_by_kind(packets: list[bytes]) -> dict[int, list[Any]]:
    """By tag, in their order; of advices the last word on each, of acknowledgements the last. The parts of a
    bundle are one: a header that has grown leaves less room in the first.
    """
    drawn, found = Drawn(), defaultdict(list)
    words: dict[tuple[str, str], Any] = {}
    for frame in map(drawn.frame, frames_of(packets)):
        tag = frame[0]
        if tag == ADVISE:
            words.update({(each[1], each[2]): each for each in frame[1]})
        elif tag == ACK:
            found[tag] = [frame]
        elif tag == PART and frame[2] == NO_HEADER:
            assert found[tag][-1][1] == frame[1], "the parts of a bundle follow each other"
            found[tag][-1][-1] += frame[-1]
        elif tag not in (PING, PONG):
            found[tag].append(frame)
    found[ADVISE] = [words[key] for key in sorted(words)]
    return dict(found)


def grown(then: Any, now: Any) -> bool:
    """Is `now` what `then` was, with nothing but more fields at the end?"""
    if isinstance(then, list) and isinstance(now, list):
        return len(now) >= len(then) and all(map(grown, then, now))
    return bool(then == now)


def differences(then: list[bytes], now: list[bytes]) -> list[str]:
    """What the present core says otherwise, for people; nothing if it speaks as the old one did."""
    before, after = sorted_by_kind(then), sorted_by_kind(now)
    found = []
    for tag in sorted({*before, *after}):
        old, new = before.get(tag, []), after.get(tag, [])
        if not old and tag >= FIRST_OPTIONAL:
            continue
        if len(old) != len(new):
            found.append(f"frames {tag}: {len(old)} then, {len(new)} now: {old!r:.600} / {new!r:.600}")
        found += [
            f"frame {tag}: {each!r:.600} then, {other!r:.600} now"
            for each, other in zip(old, new, strict=False)
            if not grown(each, other)
        ]
    return found
