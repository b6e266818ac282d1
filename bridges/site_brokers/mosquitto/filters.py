"""Our topic filters in the session that the broker keeps, and the copies that come where several match."""

from collections.abc import Iterable, Iterator
from typing import Final

from bridges.site_brokers.mosquitto.connection import Received
from treeconnector.patterns import matches

_MOST_ID: Final = 268_435_455


class OwnFilters:
    """`ids`: by filter; it is the memory's own. `awaited`: filters that are wanted, until the broker has
    answered for them.
    """

    def __init__(self, ids: dict[str, int]) -> None:
        self.ids = ids
        self.awaited: set[str] = set()

    def __repr__(self) -> str:
        return f"<OwnFilters {len(self.ids)}>"

    def __len__(self) -> int:
        return len(self.ids)

    def matching(self, topic: str) -> Iterator[tuple[int, str]]:
        """Id and text of those that match."""
        return ((number, text) for text, number in self.ids.items() if matches(text, topic))

    def awaits(self, topic: str) -> bool:
        """Would a message at this topic get lost now, because we are about to subscribe to it?"""
        return bool(topic and self.awaited) and any(matches(text, topic) for text in self.awaited)

    def free_ids(self, texts: Iterable[str]) -> dict[str, int]:
        """An id for each, above all others, so that it is not one that messages still come for."""
        last = max(self.ids.values(), default=0)
        return {text: (last + number) % _MOST_ID + 1 for number, text in enumerate(texts)}


class Copies:
    """Mosquitto sends a message once for each filter of ours that matches, one copy after the other.

    Law: the first that comes is the message, whatever filter it came for. Wrinkle: a rule by filter loses
    messages, for a Mosquitto that was restarted keeps one copy alone until we are back, of a filter that it
    chooses. `in_doubt`: whether the last that was the message may be a copy of one before.
    """

    def __init__(self, filters: OwnFilters) -> None:
        self._filters = filters
        self._said: tuple[object, ...] = ()
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
        properties = received.properties._replace(expiry=None)  # it counts down
        said = (received.topic, received.payload, received.retained, properties)
        came = set(received.filters)
        may_be = bool(came and self._came) and said == self._said and came.isdisjoint(self._came)
        if may_be and self._came.issubset(self._filters.ids.values()):
            self._came |= came
            return True
        first, self._resumed = self._resumed, False
        self.in_doubt = may_be or (first and sum(1 for _ in self._filters.matching(received.topic)) > 1)
        self._said, self._came = said, came
        return False
