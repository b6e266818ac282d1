"""Our topic filters in the session that the broker keeps, each with its id."""

from collections.abc import Iterator
from typing import Final

from treeconnector.patterns import matches

_MOST_ID: Final = 268_435_455


class OwnFilters:
    """`ids`: by filter; it is the memory's own. Whoever changes it calls `sort`."""

    def __init__(self, ids: dict[str, int]) -> None:
        self.ids = ids
        self._sorted: list[tuple[int, str]] = []
        self.sort()

    def __repr__(self) -> str:
        return f"<OwnFilters {len(self.ids)}>"

    def __len__(self) -> int:
        return len(self.ids)

    def sort(self) -> None:
        self._sorted = sorted((number, text) for text, number in self.ids.items())

    def matching(self, topic: str) -> Iterator[tuple[int, str]]:
        """Id and text of those that match, the lowest id first."""
        return ((number, text) for number, text in self._sorted if matches(text, topic))

    def free_id(self) -> int:
        """Above all others, so that a new filter changes nothing for topics that an older one matches."""
        return max(self.ids.values(), default=0) % _MOST_ID + 1
