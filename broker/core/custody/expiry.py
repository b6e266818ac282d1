"""Expiry: which entries run out of time, the next one first.

An entry is put in once, when it is made, and stays in wherever it waits; one that was dealt with in time
is dropped when it comes up, or when such ones are the most of all.
"""

import heapq
from collections.abc import Iterable
from itertools import count
from typing import Final

from broker.core.messages.queue import Page, QueueEntry
from broker.core.messages.summaries import NEVER

_FEW: Final = 1024
_LATER: Final = 5.0


class Expiry:
    """Of all entries of a node whose messages all expire, and of the pages that stand for some."""

    __slots__ = ("_heap", "_order", "_page_room", "_pages", "_room")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, QueueEntry]] = []
        self._room = _FEW
        self._pages: list[tuple[float, int, Page]] = []
        self._page_room = _FEW
        self._order = count()

    def __repr__(self) -> str:
        return f"<Expiry of {len(self._heap)} copies>"

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, entry: QueueEntry) -> None:
        """`entry`'s bundle says when the last of its messages expires."""
        stored = entry.stored
        self._put(stored.since + stored.header.expires_last / 1000, entry)

    def _put(self, due: float, entry: QueueEntry) -> None:
        heapq.heappush(self._heap, (due, next(self._order), entry))
        if len(self._heap) > self._room:
            self._heap = [item for item in self._heap if item[2].done != item[2].all]
            heapq.heapify(self._heap)
            self._room = max(2 * len(self._heap), _FEW)

    def is_due(self, now: float) -> bool:
        """Has an entry expired, or one of a page?"""
        return any(heap[0][0] <= now for heap in (self._heap, self._pages) if heap)

    def due(self, now: float, most: int) -> list[QueueEntry]:
        """Entries that have expired, `most` at most; they are entered no more."""
        found: list[QueueEntry] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            entry = heapq.heappop(self._heap)[2]
            if entry.done != entry.all:
                found.append(entry)
        return found

    def add_page(self, page: Page) -> None:
        """A page that was read meanwhile is dropped when it comes up, or when such ones are most of all."""
        if page.due == NEVER:
            return
        heapq.heappush(self._pages, (page.due, next(self._order), page))
        if len(self._pages) > self._page_room:
            self._pages = [item for item in self._pages if not item[2].read]
            heapq.heapify(self._pages)
            self._page_room = max(2 * len(self._pages), _FEW)

    def due_pages(self, now: float, most: int) -> list[Page]:
        """Pages of which something has expired, with `most` entries about; they are entered no more."""
        found: list[Page] = []
        while self._pages and self._pages[0][0] <= now and most > 0:
            page = heapq.heappop(self._pages)[2]
            if not page.read:
                found.append(page)
                most -= len(page)
        return found

    def postpone(self, entries: Iterable[QueueEntry], now: float) -> None:
        """They cannot be taken now: somebody has them, or they are on a line."""
        for entry in entries:
            self._put(now + _LATER, entry)
