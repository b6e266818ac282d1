"""Our topic filters in the session that the broker keeps, and the copies that come where several match."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bridges.site_brokers.mosquitto.connection import Received
from treeconnector.patterns import matches
from treeconnector.trie import PatternTrie

_MOST_ID: Final = 268_435_455


class OwnFilters:
    """`ids`: by filter; it is the memory's own, and whoever changes it there says so (`reread`).
    `awaited`: filters that are wanted, until the broker has answered for them.

    Law: a message costs what matches it, and a change what has changed, however many filters there are.
    """

    def __init__(self, ids: dict[str, int]) -> None:
        self.ids = ids
        self.awaited: set[str] = set()
        self._texts: dict[int, str] = {}
        self._trie: PatternTrie[str] = PatternTrie()
        self._last = 0
        self.reread()

    def __repr__(self) -> str:
        return f"<OwnFilters {len(self.ids)}>"

    def __len__(self) -> int:
        return len(self.ids)

    def reread(self) -> None:
        """The memory has others now."""
        ids = dict(self.ids)
        self.ids.clear()
        self._texts, self._trie, self._last = {}, PatternTrie(), 0
        self.add(ids)

    def add(self, ids: Mapping[str, int]) -> None:
        for text, number in ids.items():
            self.remove(text)
            self.ids[text] = number
            self._texts[number] = text
            self._trie.add(text, text)
            self._last = max(self._last, number)

    def remove(self, text: str) -> None:
        number = self.ids.pop(text, None)
        if number is not None:
            self._trie.remove(text, text)
            self._texts.pop(number, None)

    def are_ours(self, numbers: Iterable[int]) -> bool:
        return all(number in self._texts for number in numbers)

    def matching(self, topic: str) -> Iterator[tuple[int, str]]:
        """Id and text of those that match."""
        return ((self.ids[text], text) for text in self._trie.match(topic))

    def awaits(self, topic: str) -> bool:
        """Would a message at this topic get lost now, because we are about to subscribe to it?"""
        return bool(topic and self.awaited) and any(matches(text, topic) for text in self.awaited)

    def free_ids(self, texts: Iterable[str]) -> dict[str, int]:
        """An id for each, above all others, so that it is not one that messages still come for."""
        return {text: (self._last + number) % _MOST_ID + 1 for number, text in enumerate(texts)}


class Copies:
    """Mosquitto sends a message once for each filter of ours that matches, one copy after the other.

    Law: the first that comes is the message, whatever filter it came for. Wrinkle: a rule by filter loses
    messages, for a Mosquitto that was restarted keeps one copy alone until we are back, of a filter that it
    chooses. `in_doubt`: whether the last that was the message may be a copy of one before.
    """

    def __init__(self, filters: OwnFilters) -> None:
        self._filters = filters
        self._said: Received | None = None
        self._came: set[int] = set()
        self._resumed = False
        self.in_doubt = False

    def __repr__(self) -> str:
        return f"<Copies of {self._filters!r}>"

    def resume(self) -> None:
        """The session is an old one: the message that this would be a copy of may have come before."""
        self._resumed = True

    def is_one(self, received: Received) -> bool:
        """Is this the message that came just before, for another filter?"""
        came = set(received.filters)
        may_be = bool(came and self._came) and came.isdisjoint(self._came) and self._is_said(received)
        if may_be and self._filters.are_ours(self._came):
            self._came |= came
            return True
        first, self._resumed = self._resumed, False
        self.in_doubt = may_be or (first and sum(1 for _ in self._filters.matching(received.topic)) > 1)
        self._said, self._came = received, came
        return False

    def _is_said(self, received: Received) -> bool:
        return self._said is not None and _saying(received) == _saying(self._said)


def _saying(received: Received) -> tuple[object, ...]:
    """The same for each copy, in which the expiry counts down."""
    return (received.topic, received.payload, received.retained, received.properties._replace(expiry=None))
