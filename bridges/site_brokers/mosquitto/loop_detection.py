"""Messages that we have said ourselves and may hear again.

*No local* (MQTT 5, or the bridge mode of 3.1.1) keeps a broker from sending back what came from us. Two
things it does not cover: a retained message of ours, when we subscribe later; and brokers of 3.1.1 that know
no bridges. Both are known again by a digest; the first also after a restart, for as long as it is retained.

Where the broker is bridged to another one, at which a node is too, a message may go round through the bridge
and the tree. Each time it comes as a new one, so all that shows is that the same is given again and again.
"""

import hashlib
from collections import Counter, deque
from typing import Final

_MOST_SAID: Final = 10_000
_MOST_RETAINED: Final = 100_000
OFTEN: Final = 100
_WITHIN: Final = 60.0
"""Seconds."""
_MOST_GIVEN: Final = 10_000


def digest(topic: str, payload: bytes) -> str:
    return hashlib.blake2b(f"{topic}\0".encode() + payload, digest_size=8).hexdigest()


class Rounds:
    """Counts what is given to a broker that is bridged to another: by a digest, for a minute."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<Rounds given={len(self._given)}>"

    def given(self, topic: str, payload: bytes, now: float) -> bool:
        """Is this so often the same that it may go round?"""
        if now - self._since > _WITHIN or len(self._given) >= _MOST_GIVEN:
            self._given.clear()
            self._since = now
        said = digest(topic, payload)
        self._given[said] += 1
        return self._given[said] == OFTEN


class LoopDetection:
    """`retained`: by topic, the digest of what is retained there and came from the tree. `count`: heard."""

    def __init__(self, retained: dict[str, str]) -> None:
        self._retained = retained
        self._said: Counter[str] = Counter()
        self._order: deque[str] = deque()
        self.count = 0

    def __repr__(self) -> str:
        return f"<LoopDetection retained={len(self._retained)} said={len(self._order)} heard={self.count}>"

    def retained(self, topic: str, said: str) -> None:
        """We say this, to be retained; '' = nothing is retained any more."""
        self._retained.pop(topic, None)
        if said:
            self._retained[topic] = said
        while len(self._retained) > _MOST_RETAINED:
            del self._retained[next(iter(self._retained))]

    def said(self, topic: str, payload: bytes) -> None:
        """We say this to a broker that may send it back, once."""
        said = digest(topic, payload)
        self._said[said] += 1
        self._order.append(said)
        if len(self._order) > _MOST_SAID:
            self._forget(self._order.popleft())

    def _forget(self, said: str) -> None:
        self._said[said] -= 1
        if self._said[said] <= 0:
            del self._said[said]

    def is_one(self, topic: str, payload: bytes, greeting: bool) -> bool:
        """Have we said this ourselves? `greeting`: it may come because it is retained, not because somebody
        published it now. Something else that is retained takes its place."""
        if not (self._said or (greeting and self._retained)):
            return False
        said = digest(topic, payload)
        if self._said.get(said):
            self._order.remove(said)
            self._forget(said)
            self.count += 1
            return True
        if not greeting or topic not in self._retained:
            return False
        if self._retained[topic] == said:
            self.count += 1
            return True
        del self._retained[topic]
        return False
