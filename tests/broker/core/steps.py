"""Counts the rows that the steps of a core go over."""

from collections.abc import Callable

import pytest

from broker.core.clock import PART
from broker.core.custody.custody import Custody
from broker.core.custody.paging import Paging
from broker.core.messages.summaries import PAGE
from broker.core.node import NodeCore


class Steps:
    """Rows that the steps of all nodes go over: the most that one has read, has changed, and has made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most_read = self.most_changed = self.most_made = 0
        self.begin()
        self._count(monkeypatch, Custody, "move", lambda *given: self._add(changed=1))
        self._count(monkeypatch, Custody, "discard", lambda *given: self._add(changed=1))
        self._count(monkeypatch, Custody, "add", lambda *given: self._add(made=1))
        self._count(monkeypatch, Paging, "_rows_of", lambda paging, page: self._add(read=len(page)))
        for name in ("handle_timer", "take", "committed"):
            self._count(monkeypatch, NodeCore, name, lambda *given: self.begin())

    @staticmethod
    def _count(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, told: Callable[..., None]) -> None:
        done = getattr(owner, name)

        def counted(*given: object) -> object:
            told(*given)
            return done(*given)

        monkeypatch.setattr(owner, name, counted)

    def begin(self) -> None:
        self.read = self.changed = self.made = 0

    def _add(self, read: int = 0, changed: int = 0, made: int = 0) -> None:
        self.read += read
        self.changed += changed
        self.made += made
        self.most_read = max(self.most_read, self.read)
        self.most_changed = max(self.most_changed, self.changed)
        self.most_made = max(self.most_made, self.made)

    def check(self, beside: int = 0) -> None:
        """`beside`: entries that a link may have taken in the same step."""
        assert 0 < self.most_changed <= PART + beside
        assert 0 < self.most_read <= PART + PAGE

    def check_made(self) -> None:
        """As `check`, of a step that makes entries instead."""
        assert 0 < self.most_made <= PART
        assert 0 < self.most_read <= PART + PAGE
